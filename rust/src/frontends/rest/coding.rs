//! Compression of HTTP bodies: what a request says of its own, and whether its answer is worth it.

use bytes::Bytes;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_TYPE, VARY};
use http::{HeaderMap, HeaderName, HeaderValue, Response};

use super::wishes::{BINARY, thousandths};
use crate::error::{Code, Error, Reason, Result};
use crate::frontends::body::Answer;
use crate::frontends::compression::{deflate, inflate, inflate_deflate};

/// Smaller answers go as they are: a usual network has taken them before they are compressed, and many clients ask for
/// gzip without a thought.
const WORTHWHILE: usize = 64 << 10;

/// The codings of bodies that are read.
pub const KNOWN: &str = "gzip, deflate";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Coding {
    Identity,
    Gzip,
    Deflate,
}

/// A request's body as it was before it was compressed; no more than `limit` bytes.
pub fn decoded(headers: &HeaderMap, body: Bytes, limit: usize) -> Result<Bytes> {
    match coding(headers)? {
        Coding::Identity => Ok(body),
        Coding::Gzip => inflate(&body, limit),
        Coding::Deflate => inflate_deflate(&body, limit),
    }
}

fn coding(headers: &HeaderMap) -> Result<Coding> {
    let mut found = Coding::Identity;
    for name in tokens(headers, CONTENT_ENCODING) {
        let known = match name.to_ascii_lowercase().as_str() {
            "" | "identity" => continue,
            "gzip" | "x-gzip" => Some(Coding::Gzip),
            "deflate" => Some(Coding::Deflate),
            _ => None,
        };
        match known {
            Some(coding) if found == Coding::Identity => found = coding,
            _ => {
                let message = format!("Content-Encoding: expected one of {KNOWN} or none but got {name}");
                return Err(Error::new(Code::Unimplemented, Reason::Coding, message));
            }
        }
    }
    Ok(found)
}

fn tokens(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let values = headers.get_all(name).into_iter();
    values.flat_map(|value| value.to_str().unwrap_or("?").split(',')).map(str::trim)
}

/// Compresses an answer if its client takes that and it is long enough. Raw tensors are not: they hardly shrink.
pub fn encoded(headers: &HeaderMap, response: Response<Answer>) -> Result<Response<Answer>> {
    let raw = response.headers().get(CONTENT_TYPE).is_some_and(|kind| kind == BINARY);
    if raw || response.body().byte_len() < WORTHWHILE || !takes_gzip(headers) {
        return Ok(response);
    }
    let (mut head, answer) = response.into_parts();
    let gzip = deflate(&answer.into_bytes())?;
    head.headers.insert(CONTENT_ENCODING, HeaderValue::from_static("gzip"));
    head.headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    Ok(Response::from_parts(head, Answer::full(gzip)))
}

/// Whether a client takes gzip, and does not like plain bytes better.
fn takes_gzip(headers: &HeaderMap) -> bool {
    let (mut gzip, mut any, mut plain) = (None, None, None);
    for range in tokens(headers, ACCEPT_ENCODING) {
        let (name, parameters) = range.split_once(';').unwrap_or((range, "q=1"));
        let weight = parameters.trim().strip_prefix("q=").and_then(|weight| thousandths(weight.trim())).unwrap_or(0);
        match name.trim().to_ascii_lowercase().as_str() {
            "gzip" | "x-gzip" => gzip = Some(weight),
            "*" => any = Some(weight),
            "identity" => plain = Some(weight),
            _ => {}
        }
    }
    let gzip = gzip.or(any).unwrap_or(0);
    gzip > 0 && plain.is_none_or(|plain| plain <= gzip)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(name: HeaderName, values: &[&str]) -> HeaderMap {
        values.iter().map(|value| (name.clone(), HeaderValue::from_str(value).unwrap())).collect()
    }

    #[test]
    fn bodies_are_of_one_known_coding_at_most() {
        let table: [(&[&str], _); 8] = [
            (&[], Some(Coding::Identity)),
            (&["identity"], Some(Coding::Identity)),
            (&["GZIP"], Some(Coding::Gzip)),
            (&["identity, x-gzip"], Some(Coding::Gzip)),
            (&["deflate"], Some(Coding::Deflate)),
            (&["my_gzip"], None),
            (&["gzip, gzip"], None),
            (&["gzip", "deflate"], None),
        ];
        for (values, expected) in table {
            let found = coding(&headers(CONTENT_ENCODING, values));
            assert_eq!(found.as_ref().ok(), expected.as_ref(), "{values:?}");
            assert!(found.err().is_none_or(|error| error.reason == Reason::Coding));
        }
    }

    #[test]
    fn weights_say_whether_a_client_takes_gzip() {
        let table: [(&[&str], _); 14] = [
            (&[], false),
            (&[""], false),
            (&["gzip"], true),
            (&["gzip, deflate"], true),
            (&["gzip, deflate, br, zstd"], true),
            (&["br", "X-GZIP"], true),
            (&["deflate"], false),
            (&["*"], true),
            (&["gzip;q=0"], false),
            (&["gzip;q=0, *"], false),
            (&["gzip; q=0.5, identity"], false),
            (&["gzip;q=0.8, identity; q=0.2"], true),
            (&["*;q=0.1, identity;q=0"], true),
            (&["gzip;q=much"], false),
        ];
        for (values, expected) in table {
            assert_eq!(takes_gzip(&headers(ACCEPT_ENCODING, values)), expected, "{values:?}");
        }
    }
}
