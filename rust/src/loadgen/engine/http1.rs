//! One HTTP/1.1 connection of the load generator, without a socket: one request at a time, bytes in, bytes out.

use super::Ended;
use super::frames::Broken;
use super::outcome::Outcome;
use super::request::Request;
use super::stages::{FIELD, Stages};

/// Longest head of an answer, and most fields in it.
const MAX_HEAD: usize = 1 << 16;
const MAX_FIELDS: usize = 128;

#[derive(Debug, Default)]
pub struct Http1 {
    /// What is to be written.
    pub out: Vec<u8>,
    input: Vec<u8>,
    current: Option<Current>,
    part: Part,
    closing: bool,
}

#[derive(Debug)]
struct Current {
    token: u32,
    bodiless: bool,
    outcome: Outcome,
    stages: Stages,
}

/// What comes next of an answer.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
enum Part {
    #[default]
    Head,
    /// So many bytes, and then the end.
    Body(u64),
    ChunkSize,
    /// So many bytes with their line end, and then the next chunk.
    Chunk(u64),
    Trailers,
    /// Everything until the peer closes.
    Rest,
}

impl Http1 {
    pub fn capacity(&self) -> usize {
        usize::from(self.current.is_none() && !self.closing)
    }

    pub fn is_done(&self) -> bool {
        self.closing && self.current.is_none()
    }

    pub fn start(&mut self, token: u32, request: &Request) {
        self.out.extend_from_slice(&request.head);
        self.out.extend_from_slice(&request.body);
        let (outcome, stages) = (Outcome::UNKNOWN, Stages::default());
        self.current = Some(Current { token, bodiless: request.bodiless, outcome, stages });
    }

    /// Gives the request up, and with it the connection: its answer would be taken for the next one's.
    pub fn cancel(&mut self) {
        self.current = None;
        self.closing = true;
    }

    /// The connection is lost.
    pub fn abandon(&mut self, ended: &mut Vec<Ended>) {
        self.closing = true;
        if let Some(current) = self.current.take() {
            ended.push(Ended { token: current.token, outcome: Outcome::TRANSPORT, stages: current.stages });
        }
    }

    /// The peer sends nothing more: the end of an answer that has no length.
    pub fn end_of_input(&mut self, ended: &mut Vec<Ended>) {
        if self.part == Part::Rest {
            self.finish(ended);
        }
    }

    pub fn receive(&mut self, bytes: &[u8], ended: &mut Vec<Ended>) -> Result<(), Broken> {
        self.input.extend_from_slice(bytes);
        while self.step(ended)? {}
        Ok(())
    }

    /// Takes the next part; `false` when more bytes are needed for it.
    fn step(&mut self, ended: &mut Vec<Ended>) -> Result<bool, Broken> {
        if self.current.is_none() && !self.input.is_empty() {
            return Err("it sent more than was asked for");
        }
        match self.part {
            Part::Head => self.head(ended),
            Part::Body(left) => {
                let left = self.skip(left);
                self.part = Part::Body(left);
                if left == 0 {
                    self.finish(ended);
                }
                Ok(false)
            }
            Part::ChunkSize => self.chunk_size(),
            Part::Chunk(left) => {
                let left = self.skip(left);
                self.part = if left == 0 { Part::ChunkSize } else { Part::Chunk(left) };
                Ok(left == 0)
            }
            Part::Trailers => self.trailers(ended),
            Part::Rest => {
                self.input.clear();
                Ok(false)
            }
        }
    }

    /// Drops up to so many bytes, and tells how many are still to come.
    fn skip(&mut self, count: u64) -> u64 {
        let there = usize::try_from(count).unwrap_or(usize::MAX).min(self.input.len());
        self.input.drain(..there);
        count - there as u64
    }

    fn head(&mut self, ended: &mut Vec<Ended>) -> Result<bool, Broken> {
        let Some(current) = &mut self.current else { return Ok(false) };
        let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut response = httparse::Response::new(&mut fields);
        let length = match response.parse(&self.input) {
            Ok(httparse::Status::Complete(length)) => length,
            Ok(httparse::Status::Partial) if self.input.len() <= MAX_HEAD => return Ok(false),
            Ok(httparse::Status::Partial) => return Err("it sent too many headers"),
            Err(_) => return Err("it does not speak HTTP/1.1"),
        };
        let status = response.code.unwrap_or(0);
        if status / 100 != 1 {
            current.outcome = Outcome::http(status);
            let last = response.version == Some(0) || has_token(response.headers, "connection", "close");
            self.closing |= last && !has_token(response.headers, "connection", "keep-alive");
            timing(response.headers, &mut current.stages);
            self.part = body_of(status, current.bodiless, response.headers)?;
        }
        self.input.drain(..length);
        match self.part {
            Part::Body(0) => self.finish(ended),
            Part::Rest => self.closing = true,
            _ => {}
        }
        Ok(!self.input.is_empty())
    }

    fn chunk_size(&mut self) -> Result<bool, Broken> {
        match httparse::parse_chunk_size(&self.input) {
            Ok(httparse::Status::Complete((length, size))) => {
                self.input.drain(..length);
                self.part = if size == 0 { Part::Trailers } else { Part::Chunk(size.saturating_add(2)) };
                Ok(true)
            }
            Ok(httparse::Status::Partial) if self.input.len() <= MAX_HEAD => Ok(false),
            _ => Err("it sent a chunk with a broken size"),
        }
    }

    fn trailers(&mut self, ended: &mut Vec<Ended>) -> Result<bool, Broken> {
        let Some(end) = self.input.windows(2).position(|pair| pair == b"\r\n") else {
            return if self.input.len() > MAX_HEAD { Err("it sent too many trailers") } else { Ok(false) };
        };
        self.input.drain(..end + 2);
        if end == 0 {
            self.finish(ended);
        }
        Ok(end != 0 || !self.input.is_empty())
    }

    fn finish(&mut self, ended: &mut Vec<Ended>) {
        self.part = Part::Head;
        if let Some(current) = self.current.take() {
            ended.push(Ended { token: current.token, outcome: current.outcome, stages: current.stages });
        }
    }
}

/// How the body of an answer ends (RFC 9112, section 6.3).
fn body_of(status: u16, bodiless: bool, fields: &[httparse::Header<'_>]) -> Result<Part, Broken> {
    if bodiless || matches!(status, 204 | 304) {
        return Ok(Part::Body(0));
    }
    if has_token(fields, "transfer-encoding", "chunked") {
        return Ok(Part::ChunkSize);
    }
    let Some(length) = find(fields, "content-length").next() else { return Ok(Part::Rest) };
    let length = str::from_utf8(length).ok().and_then(|text| text.trim().parse().ok());
    length.map(Part::Body).ok_or("it sent a body of a broken length")
}

fn timing(fields: &[httparse::Header<'_>], stages: &mut Stages) {
    let name = str::from_utf8(FIELD).unwrap_or_default();
    find(fields, name).for_each(|value| stages.read(value));
}

fn find<'a>(fields: &'a [httparse::Header<'a>], name: &'a str) -> impl Iterator<Item = &'a [u8]> {
    fields.iter().filter(move |field| field.name.eq_ignore_ascii_case(name)).map(|field| field.value)
}

fn has_token(fields: &[httparse::Header<'_>], name: &str, token: &str) -> bool {
    find(fields, name).any(|value| {
        let text = str::from_utf8(value).unwrap_or_default();
        text.split(',').any(|part| part.trim().eq_ignore_ascii_case(token))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loadgen::engine::hpack::Block;

    fn answer(bytes: &[u8], step: usize) -> (Http1, Result<(), Broken>, Vec<Ended>) {
        let (mut wire, mut ended, mut result) = (Http1::default(), Vec::new(), Ok(()));
        let block = Block::new(&[], false);
        let (head, body) = (b"GET / HTTP/1.1\r\n\r\n"[..].into(), bytes::Bytes::new());
        wire.start(7, &Request { block, head, body, bodiless: false });
        for part in bytes.chunks(step) {
            result = result.and_then(|()| wire.receive(part, &mut ended));
        }
        (wire, result, ended)
    }

    #[test]
    fn answers_end_where_they_should_however_they_are_cut() {
        for (text, outcome) in [
            ("HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nabc", 0),
            ("HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n", 503),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\nA\r\n0123456789\r\n0\r\n\r\n", 0),
            ("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\nX: y\r\nZ: 1\r\n\r\n", 0),
            ("HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 None\r\n\r\n", 0),
        ] {
            for step in 1..=text.len() {
                let (wire, result, ended) = answer(text.as_bytes(), step);
                assert_eq!(result, Ok(()), "{text}, {step}");
                assert_eq!(ended.len(), 1, "{text}, {step}");
                assert_eq!((ended[0].token, ended[0].outcome, wire.capacity()), (7, Outcome(outcome), 1));
            }
        }
    }

    #[test]
    fn an_answer_without_a_length_ends_with_the_connection() {
        let (mut wire, result, mut ended) = answer(b"HTTP/1.1 200 OK\r\n\r\nabc", 5);
        assert_eq!((result, ended.len(), wire.capacity()), (Ok(()), 0, 0));
        wire.end_of_input(&mut ended);
        assert_eq!((ended[0].outcome, wire.is_done()), (Outcome::OK, true));
    }

    #[test]
    fn a_peer_that_wants_to_close_gets_no_more_requests() {
        for fields in ["1.1 200 OK\r\nConnection: x, Close", "1.0 200 OK"] {
            let (wire, ..) = answer(format!("HTTP/{fields}\r\ncontent-length: 0\r\n\r\n").as_bytes(), 9);
            assert!(wire.is_done(), "{fields}");
        }
        let (wire, ..) = answer(b"HTTP/1.0 200 OK\r\nconnection: keep-alive\r\ncontent-length: 0\r\n\r\n", 9);
        assert_eq!(wire.capacity(), 1);
    }

    #[test]
    fn stages_are_read_from_the_headers() {
        let (_, _, ended) = answer(b"HTTP/1.1 200 OK\r\nServer-Timing: queue;dur=2\r\ncontent-length: 0\r\n\r\n", 99);
        assert_eq!(ended[0].stages.queue_us, 2_000);
    }

    #[test]
    fn nonsense_breaks_the_connection() {
        for text in [
            "SSH-2.0\r\n\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: x\r\n\r\n",
            "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nxyz\r\n",
            "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\nHTTP/1.1 200 OK\r\n\r\n",
        ] {
            assert!(answer(text.as_bytes(), 500).1.is_err(), "{text}");
        }
        assert!(answer(&[b'a'; 100], 1).1.is_err());
        let endless = format!("HTTP/1.1 200 OK\r\n{}", "x: y\r\n".repeat(20_000));
        assert!(answer(endless.as_bytes(), 1_000).1.is_err());
    }

    #[test]
    fn a_lost_connection_ends_its_request() {
        let (mut wire, _, mut ended) = answer(b"HTTP/1.1 200", 100);
        wire.abandon(&mut ended);
        assert_eq!((ended[0].token, ended[0].outcome), (7, Outcome::TRANSPORT));
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_of_a_peer_are_too_odd(head in "HTTP/1\\.1 [0-9]{3} .{0,9}", rest in odd_rest(), step in 1_usize..40) {
            let (mut wire, result, mut ended) = answer(&[head.as_bytes(), &rest].concat(), step);
            if result.is_ok() {
                wire.end_of_input(&mut ended);
            }
            wire.abandon(&mut ended);
            proptest::prop_assert_eq!(ended.len(), 1);
        }
    }

    /// Fields, sizes of chunks and bodies in any order, and junk.
    fn odd_rest() -> impl proptest::strategy::Strategy<Value = Vec<u8>> {
        use proptest::prelude::*;
        let piece = prop_oneof![
            Just("\r\n".to_owned()),
            Just("\r\ntransfer-encoding: chunked\r\n\r\n".to_owned()),
            (0_u64..40).prop_map(|length| format!("\r\ncontent-length: {length}\r\n\r\n")),
            any::<u64>().prop_map(|size| format!("{size:x}\r\n")),
            Just("0\r\n\r\n".to_owned()),
            ".{0,20}",
        ];
        proptest::collection::vec(piece, 0..12).prop_map(|pieces| pieces.concat().into_bytes())
    }
}
