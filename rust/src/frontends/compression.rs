//! gzip, for messages of gRPC and bodies of HTTP. What a few bytes swell to is bounded before it takes memory.

use std::io::{Read, Write};

use bytes::Bytes;
use flate2::Compression;
use flate2::read::MultiGzDecoder;
use flate2::write::GzEncoder;

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
