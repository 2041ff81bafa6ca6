//! One connection: its socket, its protocol, and what it is still to be sent.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;

use super::http1::Http1;
use super::http2::Http2;
use super::{Answered, Broken, Outgoing, Pending, Protocol};

/// A peer that does not read loses its connection when this much waits for it.
const MAX_UNSENT: usize = 1 << 23;

#[derive(Debug)]
enum Speech {
    Http1(Http1),
    Http2(Box<Http2>),
}

#[derive(Debug)]
pub(super) struct Peer {
    pub socket: TcpStream,
    speech: Speech,
    out: Outgoing,
}

impl Peer {
    pub fn new(socket: TcpStream, protocol: Protocol) -> Self {
        let speech = match protocol {
            Protocol::Grpc => Speech::Http2(Box::default()),
            Protocol::Http => Speech::Http1(Http1::default()),
        };
        Self { socket, speech, out: Outgoing::default() }
    }

    /// Reads all there is, and tells of the requests that ended. `now` is asked after each read.
    pub fn read(&mut self, buffer: &mut [u8], now: impl Fn() -> i64, ended: &mut Vec<Pending>) -> Result<(), Broken> {
        loop {
            let length = match self.socket.read(buffer) {
                Ok(0) => return Err(Broken("closed")),
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(_) => return Err(Broken("lost")),
            };
            let read = now();
            match &mut self.speech {
                Speech::Http1(speech) => speech.received(&buffer[..length], read, ended)?,
                Speech::Http2(speech) => speech.received(&buffer[..length], read, ended, &mut self.out)?,
            }
            // Events come once for each change: only a read that filled the buffer may have left something behind.
            if length < buffer.len() {
                return Ok(());
            }
        }
    }

    /// Puts an answer into what is to be sent; a request that waited for that is told of.
    pub fn answer(&mut self, request: Pending, now: i64, ended: &mut Vec<Pending>) -> Result<(), Broken> {
        match &mut self.speech {
            Speech::Http2(speech) => speech.answer(request, &mut self.out),
            Speech::Http1(speech) => {
                speech.answer(request, &mut self.out);
                speech.advance(now, ended)?;
            }
        }
        Ok(())
    }

    /// Sends what the socket takes. Answers count as written before the call, which hands them to the client.
    pub fn flush(&mut self, now: impl Fn() -> i64, record: &mut Vec<Answered>) -> Result<(), Broken> {
        if self.out.bytes.is_empty() {
            return Ok(());
        }
        let written = now();
        record.extend(self.out.reads.drain(..).map(|read| Answered { read, written }));
        match self.socket.write(&self.out.bytes) {
            Ok(length) => drop(self.out.bytes.drain(..length)),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {}
            Err(_) => return Err(Broken("lost")),
        }
        if self.out.bytes.len() > MAX_UNSENT { Err(Broken("reads nothing")) } else { Ok(()) }
    }
}
