//! Frames of HTTP/2 (RFC 9113): how they are told apart and written.

/// Bytes before each payload.
pub const HEADER: usize = 9;
/// Longest payload that may be sent to a peer that did not allow more, and that we take.
pub const MAX_PAYLOAD: usize = 16_384;
/// What a client says first.
pub const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// Flow-control windows before a peer says otherwise, and their largest size.
pub const DEFAULT_WINDOW: i64 = 65_535;
pub const MAX_WINDOW: i64 = (1 << 31) - 1;

pub mod kind {
    pub const DATA: u8 = 0;
    pub const HEADERS: u8 = 1;
    pub const RST_STREAM: u8 = 3;
    pub const SETTINGS: u8 = 4;
    pub const PUSH_PROMISE: u8 = 5;
    pub const PING: u8 = 6;
    pub const GOAWAY: u8 = 7;
    pub const WINDOW_UPDATE: u8 = 8;
    pub const CONTINUATION: u8 = 9;
}

pub mod flag {
    pub const ACK: u8 = 0x1;
    pub const END_STREAM: u8 = 0x1;
    pub const END_HEADERS: u8 = 0x4;
    pub const PADDED: u8 = 0x8;
    pub const PRIORITY: u8 = 0x20;
}

pub mod setting {
    pub const HEADER_TABLE_SIZE: u16 = 1;
    pub const ENABLE_PUSH: u16 = 2;
    pub const MAX_CONCURRENT_STREAMS: u16 = 3;
    pub const INITIAL_WINDOW_SIZE: u16 = 4;
    pub const MAX_FRAME_SIZE: u16 = 5;
}

/// Why a connection cannot go on: what the peer did.
pub type Broken = &'static str;

/// One whole frame, borrowed from what was read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame<'a> {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The first frame of `bytes` and what follows it; `None` until all of it is there.
    pub fn split(bytes: &'a [u8]) -> Result<Option<(Frame<'a>, &'a [u8])>, Broken> {
        let Some((&[l0, l1, l2, kind, flags, s0, s1, s2, s3], rest)) = bytes.split_first_chunk::<HEADER>() else {
            return Ok(None);
        };
        let length = u32::from_be_bytes([0, l0, l1, l2]) as usize;
        if length > MAX_PAYLOAD {
            return Err("it sent a frame that is larger than allowed");
        }
        let Some((payload, rest)) = rest.split_at_checked(length) else { return Ok(None) };
        let stream = u32::from_be_bytes([s0 & 0x7f, s1, s2, s3]);
        Ok(Some((Frame { kind, flags, stream, payload }, rest)))
    }

    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The payload without padding and priority, of a frame that may have them.
    pub fn content(&self) -> Result<&'a [u8], Broken> {
        const WRONG: Broken = "it sent a frame whose padding is longer than the frame";
        let mut content = self.payload;
        if self.has(flag::PADDED) {
            let (&padding, rest) = content.split_first().ok_or(WRONG)?;
            content = rest.len().checked_sub(padding.into()).map(|length| &rest[..length]).ok_or(WRONG)?;
        }
        if self.kind == kind::HEADERS && self.has(flag::PRIORITY) {
            content = content.get(5..).ok_or(WRONG)?;
        }
        Ok(content)
    }

    /// The first four bytes of the payload as a number.
    pub fn number(&self) -> Result<u32, Broken> {
        let bytes = self.payload.first_chunk::<4>().ok_or("it sent a frame that is too short")?;
        Ok(u32::from_be_bytes(*bytes))
    }
}

/// The settings in a SETTINGS frame, in their order.
pub fn settings(payload: &[u8]) -> impl Iterator<Item = (u16, u32)> {
    payload
        .as_chunks::<6>()
        .0
        .iter()
        .map(|&[i0, i1, v0, v1, v2, v3]| (u16::from_be_bytes([i0, i1]), u32::from_be_bytes([v0, v1, v2, v3])))
}

/// Writes a frame's header; a payload of `length` bytes is to follow.
pub fn put_header(out: &mut Vec<u8>, length: usize, kind: u8, flags: u8, stream: u32) {
    let length = u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes();
    let stream = stream.to_be_bytes();
    out.extend_from_slice(&[length[1], length[2], length[3], kind, flags, stream[0], stream[1], stream[2], stream[3]]);
}

/// Writes a whole frame.
pub fn put(out: &mut Vec<u8>, frame: Frame<'_>) {
    put_header(out, frame.payload.len(), frame.kind, frame.flags, frame.stream);
    out.extend_from_slice(frame.payload);
}

/// Writes a frame whose payload is one number: WINDOW_UPDATE or RST_STREAM.
pub fn put_number(out: &mut Vec<u8>, kind: u8, stream: u32, number: u32) {
    put(out, Frame { kind, flags: 0, stream, payload: &number.to_be_bytes() });
}

/// Writes SETTINGS.
pub fn put_settings(out: &mut Vec<u8>, settings: &[(u16, u32)]) {
    put_header(out, settings.len() * 6, kind::SETTINGS, 0, 0);
    for (name, value) in settings {
        out.extend_from_slice(&name.to_be_bytes());
        out.extend_from_slice(&value.to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_come_back_as_they_were_written() {
        let mut bytes = Vec::new();
        put_settings(&mut bytes, &[(setting::ENABLE_PUSH, 0), (setting::INITIAL_WINDOW_SIZE, 1 << 20)]);
        put_number(&mut bytes, kind::WINDOW_UPDATE, 3, 77);
        let (first, rest) = Frame::split(&bytes).unwrap().unwrap();
        assert_eq!((first.kind, first.stream), (kind::SETTINGS, 0));
        assert_eq!(settings(first.payload).collect::<Vec<_>>(), [(2, 0), (4, 1 << 20)]);
        let (second, rest) = Frame::split(rest).unwrap().unwrap();
        assert_eq!((second.kind, second.stream, second.number()), (kind::WINDOW_UPDATE, 3, Ok(77)));
        assert!(rest.is_empty());
    }

    #[test]
    fn a_frame_is_waited_for_and_one_that_is_too_long_is_refused() {
        let mut bytes = Vec::new();
        put(&mut bytes, Frame { kind: kind::DATA, flags: 0, stream: 1, payload: b"abc" });
        for length in 0..bytes.len() {
            assert_eq!(Frame::split(&bytes[..length]), Ok(None));
        }
        let mut long = Vec::new();
        put_header(&mut long, MAX_PAYLOAD + 1, kind::DATA, 0, 1);
        assert!(Frame::split(&long).is_err());
    }

    #[test]
    fn padding_and_priority_are_taken_off_and_checked() {
        let frame = |flags, payload| Frame { kind: kind::HEADERS, flags, stream: 1, payload };
        assert_eq!(frame(0, b"ab").content(), Ok(&b"ab"[..]));
        assert_eq!(frame(flag::PADDED, b"\x01abX").content(), Ok(&b"ab"[..]));
        assert_eq!(frame(flag::PADDED | flag::PRIORITY, b"\x0112345abX").content(), Ok(&b"ab"[..]));
        for (flags, payload) in [(flag::PADDED, &b""[..]), (flag::PADDED, b"\x03ab"), (flag::PRIORITY, b"1234")] {
            assert!(frame(flags, payload).content().is_err());
        }
    }
}
