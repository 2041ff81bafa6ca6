//! gzip, for messages of gRPC and bodies of HTTP. What a few bytes swell to is bounded before it takes memory.

use std::io::{Read, Write};

use bytes::Bytes;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;
use flate2::{Compression, Decompress, FlushDecompress, Status};

use crate::error::{Code, Error, Reason, Result};

/// Up to here any ratio passes: tensors of zeros shrink a thousandfold, and are no attack.
const HARMLESS: usize = 16 << 20;
/// Beyond it, most bytes that one byte may swell to.
const MOST_RATIO: usize = 200;
/// Work on more bytes than these would hold up the other clients of an I/O thread.
const LARGE: usize = 1 << 16;

/// What gzip holds, if that is no more than `limit` bytes.
pub fn inflate(gzip: &[u8], limit: usize) -> Result<Bytes> {
    let most = allowed(gzip.len(), limit);
    let mut inflated = Vec::new();
    let mut decoder = MultiGzDecoder::new(gzip).take(most as u64 + 1);
    aside(gzip.len(), || decoder.read_to_end(&mut inflated))
        .map_err(|error| Error::bad_input(format!("the request is not valid gzip: {error}")))?;
    if inflated.len() > most {
        return Err(too_large(gzip.len(), most, limit));
    }
    Ok(inflated.into())
}

/// What HTTP calls deflate holds: by its definition zlib's format, from some clients the stream alone.
pub fn inflate_deflate(packed: &[u8], limit: usize) -> Result<Bytes> {
    let most = allowed(packed.len(), limit);
    let inflated = aside(packed.len(), || inflate_stream(packed, most))
        .map_err(|error| Error::bad_input(format!("the request is not valid deflate: {error}")))?;
    if inflated.len() > most {
        return Err(too_large(packed.len(), most, limit));
    }
    Ok(inflated.into())
}

/// All of one stream, or a little more than `most` bytes of it.
fn inflate_stream(packed: &[u8], most: usize) -> std::result::Result<Vec<u8>, String> {
    let zlib = packed.len() > 1 && packed[0] & 15 == 8 && u16::from_be_bytes([packed[0], packed[1]]).is_multiple_of(31);
    let mut stream = Decompress::new(zlib);
    let mut out = Vec::new();
    while out.len() <= most {
        out.reserve(out.len().max(4096).min(most + 1 - out.len()));
        let rest = packed.get(stream.total_in() as usize..).unwrap_or_default();
        let status = stream.decompress_vec(rest, &mut out, FlushDecompress::None).map_err(|error| error.to_string())?;
        let behind = packed.len() - (stream.total_in() as usize).min(packed.len());
        match status {
            Status::StreamEnd if behind > 0 => return Err(format!("{behind} bytes follow its end")),
            Status::StreamEnd => return Ok(out),
            _ if behind == 0 && out.len() < out.capacity() => return Err("it ends too early".into()),
            _ => {}
        }
    }
    Ok(out)
}

/// Most bytes that so much gzip may swell to.
fn allowed(len: usize, limit: usize) -> usize {
    limit.min(HARMLESS.max(len.saturating_mul(MOST_RATIO)))
}

fn too_large(len: usize, most: usize, limit: usize) -> Error {
    let message = match most == limit {
        true => format!("the request has more than {limit} bytes once inflated; max_message_bytes is {limit}"),
        false => format!(
            "the request's {len} bytes of gzip inflate to more than {most}: over {HARMLESS} bytes, a ratio of at most {MOST_RATIO} is accepted"
        ),
    };
    Error::new(Code::ResourceExhausted, Reason::TooLarge, message)
}

/// As gzip, fast rather than small: the reader is often near.
pub fn deflate(bytes: &[u8]) -> Result<Bytes> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 4), Compression::fast());
    let outcome = aside(bytes.len(), || encoder.write_all(bytes).and_then(|()| encoder.finish()));
    outcome.map(Bytes::from).map_err(|error| Error::internal(format!("the answer cannot be compressed: {error}")))
}

/// Runs what takes a while so that another thread can stand in for this one.
fn aside<T>(len: usize, work: impl FnOnce() -> T) -> T {
    if len > LARGE { tokio::task::block_in_place(work) } else { work() }
}

#[cfg(test)]
mod tests {
    use flate2::read::{DeflateEncoder, ZlibEncoder};

    use super::*;

    #[test]
    fn what_was_deflated_inflates_to_itself() {
        for text in [&b""[..], b"x", &b"poise ".repeat(5000)] {
            assert_eq!(inflate(&deflate(text).unwrap(), 30_000).unwrap(), text);
        }
    }

    #[test]
    fn parts_that_follow_each_other_are_one() {
        let two = [deflate(b"one ").unwrap(), deflate(b"two").unwrap()].concat();
        assert_eq!(inflate(&two, 7).unwrap(), "one two");
    }

    #[test]
    fn what_is_no_gzip_is_refused() {
        let whole = deflate(b"poise").unwrap();
        for bad in [&b""[..], b"{}", &whole[..whole.len() - 3], &[&whole[..], b"tail"].concat()] {
            let error = inflate(bad, 100).unwrap_err();
            assert_eq!(error.code, Code::InvalidArgument);
            assert!(error.message.starts_with("the request is not valid gzip: "), "{}", error.message);
        }
    }

    #[test]
    fn deflate_comes_with_and_without_its_head() {
        let text = b"poise ".repeat(5000);
        let (zlib, raw) = (packed(ZlibEncoder::new, &text), packed(DeflateEncoder::new, &text));
        for stream in [&zlib, &raw] {
            assert_eq!(inflate_deflate(stream, 30_000).unwrap(), text);
            assert_eq!(inflate_deflate(stream, 29_999).unwrap_err().reason, Reason::TooLarge);
        }
        for bad in [&b""[..], b"{}", &zlib[..zlib.len() - 1], &raw[..raw.len() - 2], &[&zlib[..], b"tail"].concat()] {
            let error = inflate_deflate(bad, 30_000).unwrap_err();
            assert!(error.message.starts_with("the request is not valid deflate: "), "{}", error.message);
        }
    }

    fn packed<R: Read>(encoder: impl Fn(&'static [u8], Compression) -> R, text: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        encoder(text.to_vec().leak(), Compression::fast()).read_to_end(&mut out).unwrap();
        out
    }

    #[test]
    fn what_swells_too_much_is_refused() {
        let bomb = deflate(&vec![0; LARGE]).unwrap();
        assert!(inflate(&bomb, LARGE).is_ok());
        let error = inflate(&bomb, LARGE - 1).unwrap_err();
        assert_eq!((error.code, error.reason), (Code::ResourceExhausted, Reason::TooLarge));
        assert!(error.message.contains("max_message_bytes is 65535"), "{}", error.message);
    }

    #[test]
    fn beyond_what_is_harmless_the_ratio_counts() {
        let table = [
            (10, 1 << 20, 1 << 20),
            (10, 1 << 30, HARMLESS),
            (1 << 20, 1 << 30, MOST_RATIO << 20),
            (1 << 30, 1 << 30, 1 << 30),
            (usize::MAX, 7, 7),
        ];
        for (len, limit, most) in table {
            assert_eq!(allowed(len, limit), most, "{len} {limit}");
        }
        assert!(too_large(10, HARMLESS, 1 << 30).message.contains("a ratio of at most 200"));
    }
}
