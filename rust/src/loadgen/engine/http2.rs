//! One HTTP/2 connection of the load generator, without a socket: bytes in, bytes out.

use std::collections::VecDeque;
use std::mem;

use super::Ended;
use super::frames::{
    Broken, DEFAULT_WINDOW, Frame, MAX_PAYLOAD, MAX_WINDOW, PREFACE, flag, kind, put, put_header, put_number,
    put_settings, setting, settings,
};
use super::hpack::Decoder;
use super::outcome::Outcome;
use super::request::Request;
use super::stages::{FIELD, Stages};
use super::streams::{Stream, Streams};

/// Windows that we grant: an answer shall never wait for us to allow it.
const OUR_WINDOW: u32 = 1 << 30;
/// Received bytes after which the connection's window is filled up again.
const REFILL: u32 = 1 << 28;
/// Longest block of headers that is taken.
const MAX_BLOCK: usize = 1 << 17;
/// Reason of a reset: the answer is no longer wanted.
const CANCEL: u32 = 8;

#[derive(Debug)]
pub struct Http2 {
    /// What is to be written.
    pub out: Vec<u8>,
    /// The start of a frame whose rest has not come.
    input: Vec<u8>,
    decoder: Decoder,
    /// A block whose rest comes in CONTINUATION frames: its stream, whether that ends with it, and its bytes.
    block: Option<(u32, bool, Vec<u8>)>,
    streams: Streams,
    /// Streams with a body that waits for a window.
    blocked: VecDeque<u32>,
    peer: Peer,
    send_window: i64,
    received: u32,
    greeted: bool,
    /// Whether the peer has our fields in its table.
    remembered: bool,
    ready: bool,
    leaving: bool,
}

/// What the peer allows.
#[derive(Debug)]
struct Peer {
    streams: usize,
    window: i64,
    payload: usize,
    remembers: bool,
}

impl Http2 {
    pub fn new() -> Self {
        let mut out = PREFACE.to_vec();
        put_settings(&mut out, &[(setting::ENABLE_PUSH, 0), (setting::INITIAL_WINDOW_SIZE, OUR_WINDOW)]);
        put_number(&mut out, kind::WINDOW_UPDATE, 0, OUR_WINDOW - DEFAULT_WINDOW as u32);
        Self {
            out,
            input: Vec::new(),
            decoder: Decoder::default(),
            block: None,
            streams: Streams::default(),
            blocked: VecDeque::new(),
            peer: Peer { streams: 100, window: DEFAULT_WINDOW, payload: MAX_PAYLOAD, remembers: true },
            send_window: DEFAULT_WINDOW,
            received: 0,
            greeted: false,
            remembered: false,
            ready: false,
            leaving: false,
        }
    }

    /// How many more requests may be started now.
    pub fn capacity(&self) -> usize {
        if !self.ready || self.leaving { 0 } else { self.peer.streams.saturating_sub(self.streams.open()) }
    }

    pub fn is_ready(&self) -> bool {
        self.ready
    }

    /// Whether the connection takes no more requests and has none under way.
    pub fn is_done(&self) -> bool {
        self.leaving && self.streams.open() == 0
    }

    /// Starts a request and returns the number of its stream. `indexed`: all requests have the same fields.
    pub fn start(&mut self, token: u32, request: &Request, indexed: bool) -> u32 {
        let block = match indexed && self.remembered && self.peer.remembers {
            true => &request.block.later,
            false => &request.block.first,
        };
        let (unsent, window) = (request.body.clone(), self.peer.window);
        let (status, grpc_status, stages) = (0, None, Stages::default());
        let id = self.streams.add(Stream { token, status, grpc_status, stages, unsent, window });
        put_header(&mut self.out, block.len(), kind::HEADERS, flag::END_HEADERS, id);
        self.out.extend_from_slice(block);
        self.remembered = true;
        self.leaving |= id > MAX_WINDOW as u32 - 4; // the numbers of streams are used up
        if !self.send_body(id) {
            self.blocked.push_back(id);
        }
        id
    }

    /// Gives a request up.
    pub fn cancel(&mut self, id: u32) {
        if self.streams.remove(id).is_some() {
            put_number(&mut self.out, kind::RST_STREAM, id, CANCEL);
        }
    }

    /// Tells of every request under way; the connection is lost.
    pub fn abandon(&mut self, ended: &mut Vec<Ended>) {
        self.leaving = true;
        while let Some(stream) = self.streams.pop_last_above(0) {
            ended.push(Ended { token: stream.token, outcome: Outcome::TRANSPORT, stages: stream.stages });
        }
    }

    /// Takes what was read, and tells which requests came to their end.
    pub fn receive(&mut self, bytes: &[u8], ended: &mut Vec<Ended>) -> Result<(), Broken> {
        if self.input.is_empty() {
            let rest = self.frames(bytes, ended)?;
            self.input.extend_from_slice(rest);
            return Ok(());
        }
        let mut input = mem::take(&mut self.input);
        input.extend_from_slice(bytes);
        let rest = self.frames(&input, ended)?.len();
        input.drain(..input.len() - rest);
        self.input = input;
        Ok(())
    }

    /// Takes all whole frames and returns the rest.
    fn frames<'a>(&mut self, mut bytes: &'a [u8], ended: &mut Vec<Ended>) -> Result<&'a [u8], Broken> {
        while let Some((frame, rest)) = Frame::split(bytes)? {
            self.frame(frame, ended)?;
            bytes = rest;
        }
        Ok(bytes)
    }

    fn frame(&mut self, frame: Frame<'_>, ended: &mut Vec<Ended>) -> Result<(), Broken> {
        if self.block.is_some() && frame.kind != kind::CONTINUATION {
            return Err("it left a block of headers unfinished");
        }
        if !mem::replace(&mut self.greeted, true) && frame.kind != kind::SETTINGS {
            return Err("it does not speak HTTP/2");
        }
        match frame.kind {
            kind::DATA => self.data(frame, ended),
            kind::HEADERS => self.headers(frame, ended),
            kind::CONTINUATION => self.continuation(frame, ended),
            kind::RST_STREAM => self.reset(frame.stream, frame.number()?, ended),
            kind::SETTINGS => self.settings(frame),
            kind::PING if !frame.has(flag::ACK) => {
                put(&mut self.out, Frame { flags: flag::ACK, stream: 0, ..frame });
                Ok(())
            }
            kind::GOAWAY => self.go_away(frame, ended),
            kind::WINDOW_UPDATE => self.widen(frame.stream, frame.number()? & 0x7fff_ffff),
            kind::PUSH_PROMISE => Err("it pushes, which it was told not to"),
            _ => Ok(()),
        }
    }

    fn data(&mut self, frame: Frame<'_>, ended: &mut Vec<Ended>) -> Result<(), Broken> {
        frame.content()?;
        self.received += frame.payload.len() as u32;
        if self.received >= REFILL {
            put_number(&mut self.out, kind::WINDOW_UPDATE, 0, mem::take(&mut self.received));
        }
        if frame.has(flag::END_STREAM) {
            self.end(frame.stream, ended);
        }
        Ok(())
    }

    fn headers(&mut self, frame: Frame<'_>, ended: &mut Vec<Ended>) -> Result<(), Broken> {
        let (content, last) = (frame.content()?, frame.has(flag::END_STREAM));
        if frame.has(flag::END_HEADERS) {
            return self.fields(frame.stream, content, last, ended);
        }
        self.block = Some((frame.stream, last, content.to_vec()));
        Ok(())
    }

    fn continuation(&mut self, frame: Frame<'_>, ended: &mut Vec<Ended>) -> Result<(), Broken> {
        let taken = self.block.take().filter(|(stream, ..)| *stream == frame.stream);
        let (stream, last, mut block) = taken.ok_or("it continues a block of headers that it did not begin")?;
        block.extend_from_slice(frame.payload);
        if block.len() > MAX_BLOCK {
            return Err("it sent too many headers");
        }
        if frame.has(flag::END_HEADERS) {
            return self.fields(stream, &block, last, ended);
        }
        self.block = Some((stream, last, block));
        Ok(())
    }

    fn fields(&mut self, id: u32, block: &[u8], last: bool, ended: &mut Vec<Ended>) -> Result<(), Broken> {
        let mut stream = self.streams.get(id);
        self.decoder.decode(block, |name, value| {
            let Some(stream) = &mut stream else { return };
            match name {
                b":status" => {
                    stream.status = str::from_utf8(value).ok().and_then(|text| text.parse().ok()).unwrap_or(0)
                }
                b"grpc-status" => stream.grpc_status = Some(Outcome::grpc(value)),
                FIELD => stream.stages.read(value),
                _ => {}
            }
        })?;
        if last {
            self.end(id, ended);
        }
        Ok(())
    }

    fn end(&mut self, id: u32, ended: &mut Vec<Ended>) {
        let Some(stream) = self.streams.remove(id) else { return };
        if !stream.unsent.is_empty() {
            put_number(&mut self.out, kind::RST_STREAM, id, 0); // it has answered without the rest
        }
        ended.push(Ended { token: stream.token, outcome: stream.outcome(), stages: stream.stages });
    }

    fn reset(&mut self, id: u32, reason: u32, ended: &mut Vec<Ended>) -> Result<(), Broken> {
        if let Some(stream) = self.streams.remove(id) {
            ended.push(Ended { token: stream.token, outcome: Outcome::reset(reason), stages: stream.stages });
        }
        Ok(())
    }

    fn settings(&mut self, frame: Frame<'_>) -> Result<(), Broken> {
        if frame.has(flag::ACK) {
            return Ok(());
        }
        for (name, value) in settings(frame.payload) {
            match name {
                setting::HEADER_TABLE_SIZE => self.peer.remembers = value >= 4_096,
                setting::MAX_CONCURRENT_STREAMS => self.peer.streams = value as usize,
                setting::INITIAL_WINDOW_SIZE => {
                    let change = i64::from(value) - mem::replace(&mut self.peer.window, value.into());
                    self.streams.each(|stream| stream.window += change);
                }
                setting::MAX_FRAME_SIZE => self.peer.payload = value as usize,
                _ => {}
            }
        }
        if !mem::replace(&mut self.ready, true) && !settings(frame.payload).any(|(name, _)| name == 3) {
            self.peer.streams = usize::MAX;
        }
        put(&mut self.out, Frame { kind: kind::SETTINGS, flags: flag::ACK, stream: 0, payload: &[] });
        self.unblock();
        Ok(())
    }

    fn go_away(&mut self, frame: Frame<'_>, ended: &mut Vec<Ended>) -> Result<(), Broken> {
        self.leaving = true;
        let last = frame.number()? & 0x7fff_ffff;
        while let Some(stream) = self.streams.pop_last_above(last) {
            ended.push(Ended { token: stream.token, outcome: Outcome::TRANSPORT, stages: stream.stages });
        }
        Ok(())
    }

    fn widen(&mut self, id: u32, by: u32) -> Result<(), Broken> {
        match id {
            0 => self.send_window += i64::from(by),
            id => _ = self.streams.get(id).map(|stream| stream.window += i64::from(by)),
        }
        if self.send_window > MAX_WINDOW {
            return Err("it opened its window beyond what there is");
        }
        self.unblock();
        Ok(())
    }

    fn unblock(&mut self) {
        for _ in 0..self.blocked.len() {
            let Some(id) = self.blocked.pop_front() else { return };
            if !self.send_body(id) {
                self.blocked.push_back(id);
            }
        }
    }

    /// Sends as much of a body as the windows allow, and tells whether that was all of it.
    fn send_body(&mut self, id: u32) -> bool {
        let Some(stream) = self.streams.get(id) else { return true };
        loop {
            let window = stream.window.min(self.send_window).max(0) as usize;
            let length = stream.unsent.len().min(window).min(self.peer.payload);
            let last = length == stream.unsent.len();
            if length == 0 && !last {
                return false;
            }
            put_header(&mut self.out, length, kind::DATA, if last { flag::END_STREAM } else { 0 }, id);
            self.out.extend_from_slice(&stream.unsent.split_to(length));
            stream.window -= length as i64;
            self.send_window -= length as i64;
            if last {
                return true;
            }
        }
    }
}

#[cfg(test)]
#[path = "http2_tests.rs"]
mod tests;
