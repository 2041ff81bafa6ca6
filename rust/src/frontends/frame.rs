//! The frame around a message of gRPC: a flag that says whether it is compressed, a length, that many bytes.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use smallvec::SmallVec;

use super::compression::{deflate, inflate};
use super::state::RequestTicket;
use crate::error::{Code, Error, Reason, Result};

/// Flag and length.
const HEAD: usize = 5;
/// Answers smaller than this are not worth the work.
const WORTH_DEFLATING: usize = 512;
/// What `grpc-accept-encoding` says of us.
pub const ACCEPTED: HeaderValue = HeaderValue::from_static("identity,gzip");

/// The chunks of one message with its frame.
pub type Chunks = SmallVec<[Bytes; 1]>;

/// A message, and whether it came compressed.
#[derive(Debug)]
pub struct Unframed {
    pub message: Bytes,
    pub compressed: bool,
}

/// Takes the only message out of a request's body.
pub fn unframe(frame: &Bytes) -> Result<Unframed> {
    let Some((head, rest)) = frame.split_first_chunk::<HEAD>() else {
        return Err(wrong(format!("a gRPC frame needs 5 bytes at least but got {}", frame.len())));
    };
    if head[0] > 1 {
        return Err(wrong(format!("the flag of a gRPC frame is 0 or 1 but got {}", head[0])));
    }
    let len = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
    if len != rest.len() {
        return Err(wrong(format!("the gRPC frame announces {len} bytes but {} follow", rest.len())));
    }
    Ok(Unframed { message: frame.slice(HEAD..), compressed: head[0] == 1 })
}

fn wrong(message: String) -> Error {
    Error::new(Code::Internal, Reason::BadInput, message)
}

/// Inflates a compressed message, which counts as the memory that it now takes.
pub fn unpack(message: &Bytes, headers: &HeaderMap, limit: usize, ticket: &mut RequestTicket) -> Result<Bytes> {
    match headers.get("grpc-encoding").map(HeaderValue::as_bytes) {
        Some(b"gzip") => {}
        None | Some(b"identity") => {
            return Err(wrong("the message is compressed, but no grpc-encoding says how".into()));
        }
        Some(other) => {
            let message =
                format!("grpc-encoding {}: expected identity or gzip", String::from_utf8_lossy(other).escape_default());
            return Err(Error::new(Code::Unimplemented, Reason::Unsupported, message));
        }
    }
    let inflated = inflate(message, limit)?;
    ticket.hold(inflated.len())?;
    Ok(inflated)
}

/// Whether the client of a compressed request takes a compressed answer.
pub fn takes_gzip(headers: &HeaderMap) -> bool {
    let accepted = headers.get("grpc-accept-encoding").and_then(|value| value.to_str().ok());
    accepted.is_some_and(|list| list.split(',').any(|one| one.trim() == "gzip"))
}

/// Compresses a framed message where that is worth it; `None` where it stays as it is.
pub fn pack(chunks: &Chunks) -> Result<Option<Chunks>> {
    if chunks.iter().map(Bytes::len).sum::<usize>() < WORTH_DEFLATING {
        return Ok(None);
    }
    let whole = chunks.concat();
    let deflated = deflate(&whole[HEAD..])?;
    let mut head = Vec::with_capacity(HEAD);
    head.push(1);
    head.extend((deflated.len() as u32).to_be_bytes());
    Ok(Some([Bytes::from(head), deflated].into_iter().collect()))
}

/// One message with the five bytes of its frame in front.
pub fn frame(message: &impl prost::Message) -> Chunks {
    let len = message.encoded_len();
    let mut bytes = Vec::with_capacity(len + HEAD);
    bytes.push(0);
    bytes.extend((len as u32).to_be_bytes());
    // Encoding into a vector cannot fail: it grows.
    let _ = message.encode(&mut bytes);
    smallvec::smallvec![Bytes::from(bytes)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_must_hold_what_they_announce() {
        let framed = |bytes: &'static [u8]| unframe(&Bytes::from_static(bytes));
        assert_eq!(framed(b"\0\0\0\0\x02hi").unwrap().message, "hi");
        assert_eq!(framed(b"\0\0\0\0\0").unwrap().message, "");
        assert!(framed(b"\x01\0\0\0\x02hi").unwrap().compressed);
        for bad in [&b"\0\0\0\0"[..], b"\0\0\0\0\x03hi", b"\x02\0\0\0\x02hi"] {
            assert_eq!(framed(bad).unwrap_err().code, Code::Internal);
        }
    }

    #[test]
    fn only_gzip_among_what_is_accepted_counts() {
        for (accepted, takes) in [("gzip", true), ("identity, deflate, gzip", true), ("x-gzip", false), ("", false)] {
            let headers = HeaderMap::from_iter([("grpc-accept-encoding".parse().unwrap(), accepted.parse().unwrap())]);
            assert_eq!(takes_gzip(&headers), takes, "{accepted}");
        }
        assert!(!takes_gzip(&HeaderMap::new()));
    }

    #[test]
    fn large_answers_are_packed_and_small_ones_are_not() {
        let chunks =
            |len: usize| -> Chunks { [Bytes::from_static(b"\0\0\0\0\0"), vec![7; len].into()].into_iter().collect() };
        assert_eq!(pack(&chunks(100)).unwrap(), None);
        let packed = pack(&chunks(5000)).unwrap().unwrap();
        let unframed = unframe(&packed.concat().into()).unwrap();
        assert!(unframed.compressed);
        assert_eq!(inflate(&unframed.message, 5000).unwrap(), vec![7; 5000]);
    }
}
