//! A socket with the protocol that is spoken over it.

use std::io::{self, ErrorKind};

use super::Ended;
use super::http1::Http1;
use super::http2::Http2;
use super::request::Request;
use super::socket::Socket;

/// Bytes that may wait for the socket before no more requests are started.
const MAX_UNSENT: usize = 1 << 20;

pub enum Wire {
    Http1(Http1),
    Http2(Box<Http2>),
}

pub struct Connection {
    pub socket: Socket,
    wire: Wire,
    /// How much of the wire's output is written.
    written: usize,
}

/// Why a connection is over: an error of the socket or of the peer, in words; empty when it was closed in order.
pub type Lost = String;

impl Connection {
    pub fn new(socket: Socket, grpc: bool) -> Self {
        let wire = if grpc { Wire::Http2(Box::new(Http2::new())) } else { Wire::Http1(Http1::default()) };
        Self { socket, wire, written: 0 }
    }

    fn out(&mut self) -> &mut Vec<u8> {
        match &mut self.wire {
            Wire::Http1(wire) => &mut wire.out,
            Wire::Http2(wire) => &mut wire.out,
        }
    }

    /// How many more requests may be started now.
    pub fn capacity(&self) -> usize {
        match &self.wire {
            Wire::Http1(wire) => wire.capacity(),
            Wire::Http2(wire) if wire.out.len() > MAX_UNSENT => 0,
            Wire::Http2(wire) => wire.capacity(),
        }
    }

    pub fn is_ready(&self) -> bool {
        match &self.wire {
            Wire::Http1(_) => self.socket.is_ready(),
            Wire::Http2(wire) => wire.is_ready(),
        }
    }

    pub fn is_done(&self) -> bool {
        match &self.wire {
            Wire::Http1(wire) => wire.is_done(),
            Wire::Http2(wire) => wire.is_done(),
        }
    }

    /// Starts a request and returns what [`cancel`](Self::cancel) wants to know.
    pub fn start(&mut self, token: u32, request: &Request, same_fields: bool) -> u32 {
        match &mut self.wire {
            Wire::Http1(wire) => {
                wire.start(token, request);
                0
            }
            Wire::Http2(wire) => wire.start(token, request, same_fields),
        }
    }

    pub fn cancel(&mut self, stream: u32) {
        match &mut self.wire {
            Wire::Http1(wire) => wire.cancel(),
            Wire::Http2(wire) => wire.cancel(stream),
        }
    }

    pub fn abandon(&mut self, ended: &mut Vec<Ended>) {
        match &mut self.wire {
            Wire::Http1(wire) => wire.abandon(ended),
            Wire::Http2(wire) => wire.abandon(ended),
        }
    }

    /// Reads what is there into `scratch` and on to the wire.
    pub fn read(&mut self, scratch: &mut [u8], ended: &mut Vec<Ended>) -> Result<(), Lost> {
        loop {
            let count = match self.socket.read(scratch) {
                Ok(0) => {
                    if let Wire::Http1(wire) = &mut self.wire {
                        wire.end_of_input(ended);
                    }
                    return Err(Lost::new());
                }
                Ok(count) => count,
                Err(error) if is_temporary(&error) => return Ok(()),
                Err(error) => return Err(error.to_string()),
            };
            let taken = match &mut self.wire {
                Wire::Http1(wire) => wire.receive(&scratch[..count], ended),
                Wire::Http2(wire) => wire.receive(&scratch[..count], ended),
            };
            taken?;
            if count < scratch.len() && !self.socket.holds_back() {
                return Ok(());
            }
        }
    }

    /// Writes as much as the socket takes, and tells whether something is left.
    pub fn flush(&mut self) -> Result<bool, Lost> {
        loop {
            let start = self.written;
            let (wire, socket) = (&mut self.wire, &mut self.socket);
            let out = match wire {
                Wire::Http1(wire) => &mut wire.out,
                Wire::Http2(wire) => &mut wire.out,
            };
            match socket.write(&out[start..]) {
                Ok(count) => self.written += count,
                Err(error) if is_temporary(&error) => return Ok(true),
                Err(error) => return Err(error.to_string()),
            }
            if self.written == self.out().len() {
                self.out().clear();
                self.written = 0;
                return Ok(self.socket.wants_write());
            }
            if self.written == start {
                return Ok(true);
            }
        }
    }
}

fn is_temporary(error: &io::Error) -> bool {
    // A socket that is still connecting says NotConnected.
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted | ErrorKind::NotConnected)
}
