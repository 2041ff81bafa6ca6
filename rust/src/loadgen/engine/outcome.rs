//! How a request ended, in one small number.

use std::borrow::Cow;

use crate::error::Code;

/// 0 for an answer without an error, a gRPC code, an HTTP status, or what the generator itself saw.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Outcome(pub u16);

impl Outcome {
    pub const OK: Outcome = Outcome(0);
    pub const UNKNOWN: Outcome = Outcome(2);
    /// The connection could not be made, or broke.
    pub const TRANSPORT: Outcome = Outcome(1_000);
    /// There was no answer within the time limit.
    pub const TIMEOUT: Outcome = Outcome(1_001);
    /// It was never sent: too many were under way already.
    pub const DROPPED: Outcome = Outcome(1_002);

    /// From the status of an answer over HTTP: any 2xx is one without an error.
    pub fn http(status: u16) -> Outcome {
        if (200..300).contains(&status) { Outcome::OK } else { Outcome(status.clamp(100, 999)) }
    }

    /// From the text of the field `grpc-status`.
    pub fn grpc(status: &[u8]) -> Outcome {
        let code = str::from_utf8(status).ok().and_then(|text| text.parse().ok());
        code.filter(|code| *code <= 16).map_or(Outcome::UNKNOWN, Outcome)
    }

    /// From the reason of a stream's reset, as gRPC maps it.
    pub fn reset(reason: u32) -> Outcome {
        let code = match reason {
            7 => Code::Unavailable,        // REFUSED_STREAM
            8 => Code::Cancelled,          // CANCEL
            11 => Code::ResourceExhausted, // ENHANCE_YOUR_CALM
            12 => Code::PermissionDenied,  // INADEQUATE_SECURITY
            _ => Code::Internal,
        };
        Outcome(code as u16)
    }

    /// The name under which it is counted.
    pub fn name(self) -> Cow<'static, str> {
        match self {
            Outcome::OK => "OK".into(),
            Outcome::TRANSPORT => "TRANSPORT".into(),
            Outcome::TIMEOUT => "TIMEOUT".into(),
            Outcome::DROPPED => "CLIENT_DROPPED".into(),
            Outcome(code @ 1..=16) => Code::from_number(code as u8).map_or("UNKNOWN", Code::name).into(),
            Outcome(status) => status.to_string().into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_end_has_a_name() {
        let name = |outcome: Outcome| outcome.name().into_owned();
        assert_eq!(name(Outcome::http(204)), "OK");
        assert_eq!(name(Outcome::http(503)), "503");
        assert_eq!(name(Outcome::grpc(b"0")), "OK");
        assert_eq!(name(Outcome::grpc(b"14")), "UNAVAILABLE");
        for wrong in [&b"17"[..], b"-1", b"", b"x", b"\xff"] {
            assert_eq!(name(Outcome::grpc(wrong)), "UNKNOWN");
        }
        assert_eq!(name(Outcome::reset(7)), "UNAVAILABLE");
        assert_eq!(name(Outcome::reset(2)), "INTERNAL");
        assert_eq!(name(Outcome::TIMEOUT), "TIMEOUT");
    }
}
