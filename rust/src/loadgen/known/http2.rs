//! HTTP/2 (RFC 9113) as far as it takes to find where streams end and to answer them. Headers are not decoded: the
//! table of the peer's encoder is of no use to whoever reads no header.

use std::collections::VecDeque;

use super::{Broken, Outgoing, Pending};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const HEAD: usize = 9;
const MAX_FRAME: usize = 1 << 14;
const MAX_STREAMS: usize = 1 << 16;
/// What a stream and its connection may send before we allow more.
const WINDOW: u32 = 1 << 24;
/// What a connection may send before any WINDOW_UPDATE.
const INITIAL_WINDOW: u32 = 65_535;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;

const ACK: u8 = 1;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;

const INITIAL_WINDOW_SIZE: u16 = 4;
const MAX_CONCURRENT_STREAMS: u16 = 3;

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
            window: i64::from(INITIAL_WINDOW),
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
            && let Some((frame, length)) = Frame::read(&input[at..])?
        {
            if let Some(stream) = self.take(&frame, out)? {
                self.open += 1;
                ended.push(Pending { stream, read });
            }
            at += length;
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
    fn take(&mut self, frame: &Frame<'_>, out: &mut Outgoing) -> Result<Option<u32>, Broken> {
        let last = frame.flags & END_STREAM != 0;
        match frame.kind {
            DATA => {
                self.allow(frame, last, &mut out.bytes);
                return Ok(last.then_some(frame.stream));
            }
            HEADERS if frame.flags & END_HEADERS != 0 => return Ok(last.then_some(frame.stream)),
            HEADERS if last => self.ending = Some(frame.stream),
            CONTINUATION if frame.flags & END_HEADERS != 0 => return Ok(self.ending.take()),
            SETTINGS if frame.flags & ACK == 0 => {
                check_settings(frame.payload)?;
                put(&mut out.bytes, SETTINGS, ACK, 0, &[]);
            }
            PING if frame.flags & ACK == 0 => put(&mut out.bytes, PING, ACK, 0, frame.payload),
            WINDOW_UPDATE if frame.stream == 0 => {
                self.window += i64::from(frame.number()?);
                self.release(out);
            }
            _ => {}
        }
        Ok(None)
    }

    /// Lets the peer send as much as it has sent: a stream that goes on at once, the connection now and then.
    fn allow(&mut self, frame: &Frame<'_>, last: bool, out: &mut Vec<u8>) {
        let length = frame.payload.len() as u32;
        if !last && length > 0 {
            put(out, WINDOW_UPDATE, 0, frame.stream, &length.to_be_bytes());
        }
        self.taken += length;
        if self.taken >= WINDOW / 2 {
            put(out, WINDOW_UPDATE, 0, 0, &self.taken.to_be_bytes());
            self.taken = 0;
        }
    }

    fn release(&mut self, out: &mut Outgoing) {
        while self.window >= ANSWER_MESSAGE.len() as i64
            && let Some(request) = self.held.pop_front()
        {
            self.window -= ANSWER_MESSAGE.len() as i64;
            self.open -= 1;
            out.reads.push(request.read);
            put(&mut out.bytes, HEADERS, END_HEADERS, request.stream, ANSWER_HEADERS);
            put(&mut out.bytes, DATA, 0, request.stream, ANSWER_MESSAGE);
            put(&mut out.bytes, HEADERS, END_HEADERS | END_STREAM, request.stream, ANSWER_TRAILERS);
        }
    }
}

#[derive(Debug)]
struct Frame<'a> {
    kind: u8,
    flags: u8,
    stream: u32,
    payload: &'a [u8],
}

impl<'a> Frame<'a> {
    /// The frame that `input` begins with and its whole length; none while it is not complete.
    fn read(input: &'a [u8]) -> Result<Option<(Self, usize)>, Broken> {
        let Some((head, rest)) = input.split_first_chunk::<HEAD>() else {
            return Ok(None);
        };
        let [a, b, c, kind, flags, stream @ ..] = *head;
        let length = u32::from_be_bytes([0, a, b, c]) as usize;
        if length > MAX_FRAME {
            return Err(Broken("a frame longer than allowed"));
        }
        let stream = u32::from_be_bytes(stream) & (u32::MAX >> 1);
        Ok(rest.get(..length).map(|payload| (Self { kind, flags, stream, payload }, HEAD + length)))
    }

    /// The payload of a WINDOW_UPDATE.
    fn number(&self) -> Result<u32, Broken> {
        let bytes = self.payload.try_into().map_err(|_| Broken("a frame of the wrong length"))?;
        Ok(u32::from_be_bytes(bytes) & (u32::MAX >> 1))
    }
}

fn put(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    let [_, length @ ..] = (payload.len() as u32).to_be_bytes();
    out.extend_from_slice(&length);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

fn greet(out: &mut Vec<u8>) {
    let mut settings = Vec::new();
    for (name, value) in [(INITIAL_WINDOW_SIZE, WINDOW), (MAX_CONCURRENT_STREAMS, MAX_STREAMS as u32)] {
        settings.extend_from_slice(&name.to_be_bytes());
        settings.extend_from_slice(&value.to_be_bytes());
    }
    put(out, SETTINGS, 0, 0, &settings);
    put(out, WINDOW_UPDATE, 0, 0, &(WINDOW - INITIAL_WINDOW).to_be_bytes());
}

/// The windows of streams are not counted: every stream must take a whole answer from the start.
fn check_settings(payload: &[u8]) -> Result<(), Broken> {
    let (settings, rest) = payload.as_chunks::<6>();
    if !rest.is_empty() {
        return Err(Broken("a frame of the wrong length"));
    }
    for [name @ .., a, b, c, d] in settings {
        let value = u32::from_be_bytes([*a, *b, *c, *d]) as usize;
        if u16::from_be_bytes(*name) == INITIAL_WINDOW_SIZE && value < ANSWER_MESSAGE.len() {
            return Err(Broken("a window that no answer fits in"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Wire {
        connection: Http2,
        ended: Vec<Pending>,
        out: Outgoing,
    }

    impl Wire {
        fn greeted() -> Self {
            let mut wire = Self::default();
            wire.bytes(PREFACE).unwrap();
            wire.frame(SETTINGS, 0, 0, &[]).unwrap();
            wire.out = Outgoing::default();
            wire
        }

        fn bytes(&mut self, bytes: &[u8]) -> Result<(), Broken> {
            self.connection.received(bytes, 7, &mut self.ended, &mut self.out)
        }

        fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Result<(), Broken> {
            let mut bytes = Vec::new();
            put(&mut bytes, kind, flags, stream, payload);
            self.bytes(&bytes)
        }

        fn streams(&self) -> Vec<u32> {
            self.ended.iter().map(|pending| pending.stream).collect()
        }

        /// (kind, flags, stream) of what is to be sent.
        fn sent(&self) -> Vec<(u8, u8, u32)> {
            let (mut at, mut sent) = (0, Vec::new());
            while let Some((frame, length)) = Frame::read(&self.out.bytes[at..]).unwrap() {
                sent.push((frame.kind, frame.flags, frame.stream));
                at += length;
            }
            sent
        }
    }

    #[test]
    fn streams_end_with_data_with_headers_or_with_their_continuation() {
        let mut wire = Wire::greeted();
        wire.frame(HEADERS, END_HEADERS, 1, b"x").unwrap();
        wire.frame(DATA, 0, 1, b"half").unwrap();
        wire.frame(HEADERS, END_HEADERS | END_STREAM, 3, b"x").unwrap();
        wire.frame(HEADERS, END_STREAM, 5, b"x").unwrap();
        assert_eq!(wire.streams(), [3]);
        wire.frame(CONTINUATION, END_HEADERS, 5, b"x").unwrap();
        wire.frame(DATA, END_STREAM, 1, b"half").unwrap();
        assert_eq!(wire.streams(), [3, 5, 1]);
    }

    #[test]
    fn frames_may_be_cut_anywhere() {
        let mut bytes = PREFACE.to_vec();
        put(&mut bytes, SETTINGS, 0, 0, &[0, 4, 0, 1, 0, 0]);
        put(&mut bytes, HEADERS, END_HEADERS, 1, b"some headers");
        put(&mut bytes, DATA, END_STREAM, 1, b"some data");
        for cut in 1..bytes.len() {
            let mut wire = Wire::default();
            wire.bytes(&bytes[..cut]).unwrap();
            assert!(wire.ended.is_empty());
            wire.bytes(&bytes[cut..]).unwrap();
            assert_eq!(wire.streams(), [1], "cut at {cut}");
            assert_eq!(wire.sent(), [(SETTINGS, 0, 0), (WINDOW_UPDATE, 0, 0), (SETTINGS, ACK, 0)]);
        }
    }

    #[test]
    fn answers_are_headers_data_and_trailers_and_pings_are_echoed() {
        let mut wire = Wire::greeted();
        wire.frame(PING, 0, 0, b"12345678").unwrap();
        wire.frame(PING, ACK, 0, b"12345678").unwrap();
        wire.connection.open = 1;
        wire.connection.answer(Pending { stream: 9, read: 3 }, &mut wire.out);
        let answer = [(HEADERS, END_HEADERS, 9), (DATA, 0, 9), (HEADERS, END_HEADERS | END_STREAM, 9)];
        assert_eq!(wire.sent()[0], (PING, ACK, 0));
        assert_eq!(wire.sent()[1..], answer);
        assert_eq!(wire.out.reads, [3]);
    }

    #[test]
    fn answers_wait_while_the_peer_takes_no_data() {
        let mut wire = Wire::greeted();
        wire.connection.window = 9;
        wire.connection.open = 2;
        for stream in [1, 3] {
            wire.connection.answer(Pending { stream, read: 0 }, &mut wire.out);
        }
        assert_eq!(wire.sent().len(), 3);
        wire.frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes()).unwrap();
        assert_eq!(wire.sent().len(), 6);
    }

    #[test]
    fn a_long_body_is_allowed_to_go_on() {
        let mut wire = Wire::greeted();
        for _ in 0..WINDOW / 2 / MAX_FRAME as u32 {
            wire.frame(DATA, 0, 1, &[0; MAX_FRAME]).unwrap();
        }
        let (last, before) = wire.sent().split_last().map(|(last, before)| (*last, before.to_vec())).unwrap();
        assert!(before.iter().all(|frame| *frame == (WINDOW_UPDATE, 0, 1)));
        assert_eq!(last, (WINDOW_UPDATE, 0, 0));
    }

    #[test]
    fn what_cannot_be_followed_is_broken() {
        assert!(Wire::default().bytes(b"POST / HTTP/1.1").is_err());
        assert!(Wire::greeted().frame(DATA, 0, 1, &vec![0; MAX_FRAME + 1]).is_err());
        assert!(Wire::greeted().frame(SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 1]).is_err());
        assert!(Wire::greeted().frame(SETTINGS, 0, 0, &[0; 5]).is_err());
        assert!(Wire::greeted().frame(WINDOW_UPDATE, 0, 0, &[0; 3]).is_err());
    }
}
