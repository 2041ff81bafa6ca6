//! What a server's answer says, in HTTP status, headers and trailers.

use std::borrow::Cow;

use bytes::{BufMut, Bytes, BytesMut};
use http::{HeaderMap, StatusCode};

use super::link::Answer;
use crate::error::Code;

/// Where gRPC's status is: in the trailers, or in the headers of an answer that has nothing else.
pub(super) fn grpc_trailers(answer: &Answer) -> &HeaderMap {
    answer.trailers.as_ref().unwrap_or(&answer.headers)
}

fn http_failure(status: StatusCode) -> Option<Cow<'static, str>> {
    if status.is_success() { None } else { Some(status.as_str().to_owned().into()) }
}

/// The name of the code in trailers (or in the headers of an answer without a body); `None` for OK.
pub(super) fn grpc_failure(status: StatusCode, trailers: &HeaderMap) -> Option<Cow<'static, str>> {
    let Some(code) = trailers.get("grpc-status") else {
        // Not a gRPC server, or one that forgot to say how it went.
        return Some(http_failure(status).unwrap_or("UNKNOWN".into()));
    };
    match code.as_bytes() {
        b"0" => None,
        other => Some(code_name(other)),
    }
}

fn code_name(code: &[u8]) -> Cow<'static, str> {
    let number = str::from_utf8(code).ok().and_then(|text| text.parse().ok());
    number.and_then(Code::from_number).map_or("UNKNOWN", Code::name).into()
}

/// `grpc-message`, in which bytes outside printable ASCII are percent-encoded.
pub(super) fn grpc_message(trailers: &HeaderMap) -> String {
    let encoded = trailers.get("grpc-message").map_or(&b""[..], |value| value.as_bytes());
    let mut bytes = Vec::with_capacity(encoded.len());
    let mut rest = encoded;
    while let [first, tail @ ..] = rest {
        let escaped = if *first == b'%' { tail.get(..2).and_then(hex) } else { None };
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hex(digits: &[u8]) -> Option<u8> {
    u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()
}

/// A message behind gRPC's five bytes.
pub(super) fn frame(message: &[u8]) -> Bytes {
    let mut framed = BytesMut::with_capacity(message.len() + 5);
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    framed.put_slice(message);
    framed.freeze()
}

/// The message behind gRPC's five bytes; `None` unless there is exactly one, not compressed.
pub(super) fn unframe(body: &Bytes) -> Option<Bytes> {
    let (prefix, message) = body.split_first_chunk::<5>()?;
    let [compressed, length @ ..] = *prefix;
    let whole = compressed == 0 && u32::from_be_bytes(length) as usize == message.len();
    whole.then(|| body.slice(5..))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_decoded_and_broken_escapes_kept() {
        let decode = |text: &str| {
            grpc_message(&[("grpc-message".parse().unwrap(), text.parse().unwrap())].into_iter().collect())
        };
        assert_eq!(decode("a%20b%C3%A9"), "a bé");
        assert_eq!(decode("100%"), "100%");
        assert_eq!(decode("%zz%4"), "%zz%4");
        assert_eq!(grpc_message(&HeaderMap::new()), "");
    }

    #[test]
    fn a_status_that_is_no_code_is_unknown() {
        let failure = |value: &str| {
            let trailers = [("grpc-status".parse().unwrap(), value.parse().unwrap())].into_iter().collect();
            grpc_failure(StatusCode::OK, &trailers)
        };
        assert_eq!(failure("0"), None);
        assert_eq!(failure("14").as_deref(), Some("UNAVAILABLE"));
        assert_eq!(failure("99").as_deref(), Some("UNKNOWN"));
        assert_eq!(grpc_failure(StatusCode::OK, &HeaderMap::new()).as_deref(), Some("UNKNOWN"));
        assert_eq!(grpc_failure(StatusCode::BAD_GATEWAY, &HeaderMap::new()).as_deref(), Some("502"));
    }

    #[test]
    fn frames_are_exactly_one_message() {
        let framed = frame(b"abc");
        assert_eq!(unframe(&framed).as_deref(), Some(&b"abc"[..]));
        assert_eq!(unframe(&framed.slice(..7)), None);
        assert_eq!(unframe(&Bytes::from_static(&[1, 0, 0, 0, 0])), None);
        assert_eq!(unframe(&Bytes::new()), None);
    }
}
