//! Names of local servers. A gRPC client of a Unix socket calls its server by the socket's path, percent-encoded, which
//! the HTTP crates take for no name at all: they would end the connection. Here each `%` of such a name becomes `-`.
//!
//! Only frames of headers are looked at, and in them only a literal `:authority` with an encoded `/` in it, as gRPC's
//! clients write it. One that two reads share is left as it is: clients send their first headers in one piece.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// What an HTTP/2 client says first.
const PREFACE: usize = 24;
const HEAD: usize = 9;
const HEADERS: u8 = 1;
const CONTINUATION: u8 = 9;
/// The name of the header before its value, in HPACK: by its number, or spelled out.
const AUTHORITY: [&[u8]; 2] = [b"\x41", b"\x0a:authority"];

/// A stream whose client's names for us are readable.
pub struct LocalIo<S> {
    stream: S,
    frames: Frames,
}

impl<S> LocalIo<S> {
    pub fn new(stream: S) -> Self {
        Self { stream, frames: Frames { skip: PREFACE, ..Frames::default() } }
    }
}

/// Where in the frames of a client a stream is.
#[derive(Default)]
struct Frames {
    head: [u8; HEAD],
    have: usize,
    /// Bytes to come that are not headers.
    skip: usize,
    /// Bytes to come that are.
    headers: usize,
}

impl Frames {
    fn walk(&mut self, mut bytes: &mut [u8]) {
        while !bytes.is_empty() {
            if self.skip > 0 {
                let part = self.skip.min(bytes.len());
                self.skip -= part;
                bytes = &mut bytes[part..];
            } else if self.headers > 0 {
                let part = self.headers.min(bytes.len());
                self.headers -= part;
                let (headers, rest) = bytes.split_at_mut(part);
                mend(headers);
                bytes = rest;
            } else {
                self.head[self.have] = bytes[0];
                self.have += 1;
                bytes = &mut bytes[1..];
                self.begin();
            }
        }
    }

    /// Once the head of a frame is there, what follows it.
    fn begin(&mut self) {
        if self.have == HEAD {
            self.have = 0;
            let len = u32::from_be_bytes([0, self.head[0], self.head[1], self.head[2]]) as usize;
            let headers = matches!(self.head[3], HEADERS | CONTINUATION);
            *(if headers { &mut self.headers } else { &mut self.skip }) = len;
        }
    }
}

fn mend(headers: &mut [u8]) {
    for at in 0..headers.len() {
        let Some(name) = AUTHORITY.into_iter().find(|name| headers[at..].starts_with(name)) else { continue };
        let value = at + name.len();
        // A length of seven bits; all set, one byte more of it follows. An eighth bit set tells of Huffman's code.
        let (len, begin) = match headers[value..] {
            [0x7f, more, ..] if more < 0x80 => (0x7f + usize::from(more), value + 2),
            [len, ..] if len < 0x7f => (usize::from(len), value + 1),
            _ => continue,
        };
        let value = headers.get_mut(begin..begin + len);
        if let Some(value) = value.filter(|value| value.windows(3).any(|part| part == b"%2F")) {
            value.iter_mut().filter(|byte| **byte == b'%').for_each(|byte| *byte = b'-');
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for LocalIo<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let poll = Pin::new(&mut self.stream).poll_read(cx, buffer);
        self.frames.walk(&mut buffer.filled_mut()[before..]);
        poll
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for LocalIo<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, buffers)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
        let len = payload.len() as u8;
        [&[0, 0, len, kind, 0, 0, 0, 0, 1], payload].concat()
    }

    fn stream(kind: u8, payload: &[u8]) -> Vec<u8> {
        let preface: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
        [preface, &frame(4, &[0; 6]), &frame(kind, payload), &frame(0, b"\x41\x05%2Fab")].concat()
    }

    #[test]
    fn only_names_in_headers_change_however_the_stream_is_cut() {
        let sent = stream(HEADERS, b"\x83\x41\x0b%2Ftmp%2Fab\x86");
        let expected = stream(HEADERS, b"\x83\x41\x0b-2Ftmp-2Fab\x86");
        let mut whole = sent.clone();
        Frames { skip: PREFACE, ..Frames::default() }.walk(&mut whole);
        assert_eq!(whole, expected);
        for cut in (0..PREFACE + HEAD + 6 + HEAD).chain(sent.len() - 16..sent.len()) {
            let mut found = sent.clone();
            let mut frames = Frames { skip: PREFACE, ..Frames::default() };
            frames.walk(&mut found[..cut]);
            frames.walk(&mut found[cut..]);
            assert_eq!(found, expected, "cut at {cut}");
        }
    }

    #[test]
    fn long_names_and_ends_of_headers_are_read_within_bounds() {
        let long = format!("%2F{}", "a%2F".repeat(40));
        let mut headers = [b"\x41\x7f".as_slice(), &[(long.len() - 127) as u8], long.as_bytes()].concat();
        mend(&mut headers);
        assert!(!headers.contains(&b'%'));
        let mut spelled = b"@\x0a:authority\x06tmp%2F\x83".to_vec();
        mend(&mut spelled);
        assert_eq!(spelled, b"@\x0a:authority\x06tmp-2F\x83");
        for end in [&b"\x41"[..], b"\x41\x7f", b"\x41\x30%2F", b"\x41\x8b%2Fa", b"\x41\x04%20a"] {
            let mut headers = end.to_vec();
            mend(&mut headers);
            assert_eq!(headers, end);
        }
    }
}
