//! HTTP/2 (RFC 9113) as far as it takes to find where streams end and to answer them. Headers are not decoded: the
//! table of the peer's encoder is of no use to whoever reads no header.

use std::collections::VecDeque;

use super::{Broken, Outgoing, Pending};
use crate::loadgen::engine::frames::{
    DEFAULT_WINDOW, Frame, PREFACE, flag, kind, put, put_number, put_settings, setting, settings,
};

const MAX_STREAMS: usize = 1 << 16;
/// What a stream and its connection may send before we allow more.
const WINDOW: u32 = 1 << 24;

/// `:status: 200` by index; `content-type` by the index of its name (RFC 7541, 6.1 and 6.2.2).
const ANSWER_HEADERS: &[u8] = b"\x88\x0f\x10\x10application/grpc";
/// One message of length 0, not compressed.
const ANSWER_MESSAGE: &[u8] = &[0; 5];
const ANSWER_TRAILERS: &[u8] = b"\x00\x0bgrpc-status\x010";

/// One connection.
#[derive(Debug)]
pub(super) struct Http2 {
    /// A frame, or the preface, that has not ended.
    kept: Vec<u8>,
    greeted: bool,
    /// A stream that has ended but whose headers go on.
    ending: Option<u32>,
    /// Bytes of data that the peer takes now.
    window: i64,
    /// Bytes of data that came since we last allowed more.
    taken: u32,
    /// Answers that wait until the peer takes more.
    held: VecDeque<Pending>,
    /// Streams that have ended and are not answered.
    open: usize,
}

impl Default for Http2 {
    fn default() -> Self {
        Self {
            kept: Vec::new(),
            greeted: false,
            ending: None,
            window: DEFAULT_WINDOW,
            taken: 0,
            held: VecDeque::new(),
            open: 0,
        }
    }
}

impl Http2 {
    /// Takes what came at `read`, and tells of the streams that ended.
    pub fn received(
        &mut self,
        bytes: &[u8],
        read: i64,
        ended: &mut Vec<Pending>,
        out: &mut Outgoing,
    ) -> Result<(), Broken> {
        let mut input = std::mem::take(&mut self.kept);
        input.extend_from_slice(bytes);
        let mut at = 0;
        if !self.greeted {
            let known = input.len().min(PREFACE.len());
            if input[..known] != PREFACE[..known] {
                return Err(Broken("not HTTP/2"));
            }
            if known == PREFACE.len() {
                self.greeted = true;
                at = known;
                greet(&mut out.bytes);
            }
        }
        while self.greeted
            && let Some((frame, rest)) = Frame::split(&input[at..]).map_err(Broken)?
        {
            at = input.len() - rest.len();
            if let Some(stream) = self.take(frame, out)? {
                self.open += 1;
                ended.push(Pending { stream, read });
            }
        }
        input.drain(..at);
        self.kept = input;
        if self.open > MAX_STREAMS { Err(Broken("more streams than allowed")) } else { Ok(()) }
    }

    /// Answers a stream, now or when the peer takes it. One that was reset is answered all the same: the peer must
    /// expect that (RFC 9113, 5.4.2).
    pub fn answer(&mut self, request: Pending, out: &mut Outgoing) {
        self.held.push_back(request);
        self.release(out);
    }

    /// The stream that ends with this frame.
    fn take(&mut self, frame: Frame<'_>, out: &mut Outgoing) -> Result<Option<u32>, Broken> {
        let last = frame.has(flag::END_STREAM).then_some(frame.stream);
        match frame.kind {
            kind::DATA => {
                self.allow(frame, &mut out.bytes);
                return Ok(last);
            }
            kind::HEADERS if frame.has(flag::END_HEADERS) => return Ok(last),
            kind::HEADERS => self.ending = last,
            kind::CONTINUATION if frame.has(flag::END_HEADERS) => return Ok(self.ending.take()),
            kind::SETTINGS if !frame.has(flag::ACK) => {
                check(frame.payload)?;
                put(&mut out.bytes, Frame { flags: flag::ACK, payload: &[], ..frame });
            }
            kind::PING if !frame.has(flag::ACK) => put(&mut out.bytes, Frame { flags: flag::ACK, ..frame }),
            kind::WINDOW_UPDATE if frame.stream == 0 => {
                self.window += i64::from(frame.number().map_err(Broken)?);
                self.release(out);
            }
            _ => {}
        }
        Ok(None)
    }

    /// Lets the peer send as much as it has sent: a stream that goes on at once, the connection now and then.
    fn allow(&mut self, frame: Frame<'_>, out: &mut Vec<u8>) {
        let length = frame.payload.len() as u32;
        if !frame.has(flag::END_STREAM) && length > 0 {
            put_number(out, kind::WINDOW_UPDATE, frame.stream, length);
        }
        self.taken += length;
        if self.taken >= WINDOW / 2 {
            put_number(out, kind::WINDOW_UPDATE, 0, std::mem::take(&mut self.taken));
        }
    }

    fn release(&mut self, out: &mut Outgoing) {
        while self.window >= ANSWER_MESSAGE.len() as i64
            && let Some(request) = self.held.pop_front()
        {
            self.window -= ANSWER_MESSAGE.len() as i64;
            self.open -= 1;
            out.reads.push(request.read);
            let all = flag::END_HEADERS | flag::END_STREAM;
            for (kind, flags, payload) in [
                (kind::HEADERS, flag::END_HEADERS, ANSWER_HEADERS),
                (kind::DATA, 0, ANSWER_MESSAGE),
                (kind::HEADERS, all, ANSWER_TRAILERS),
            ] {
                put(&mut out.bytes, Frame { kind, flags, stream: request.stream, payload });
            }
        }
    }
}

fn greet(out: &mut Vec<u8>) {
    put_settings(out, &[(setting::INITIAL_WINDOW_SIZE, WINDOW), (setting::MAX_CONCURRENT_STREAMS, MAX_STREAMS as u32)]);
    put_number(out, kind::WINDOW_UPDATE, 0, WINDOW - DEFAULT_WINDOW as u32);
}

/// The windows of streams are not counted: every stream must take a whole answer from the start.
fn check(payload: &[u8]) -> Result<(), Broken> {
    let narrow = |(name, value)| name == setting::INITIAL_WINDOW_SIZE && (value as usize) < ANSWER_MESSAGE.len();
    if settings(payload).any(narrow) { Err(Broken("a window that no answer fits in")) } else { Ok(()) }
}

#[cfg(test)]
#[path = "http2_tests.rs"]
mod tests;
