//! HTTP/1.1 as far as it takes to find where requests end. One request at a time: what a client sends ahead waits.

use super::{Broken, Outgoing, Pending};

pub(super) const ANSWER: [u8; 72] =
    *b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}";

/// Longest head of a request; also the most that is kept of requests sent ahead.
const MAX_KEPT: usize = 1 << 16;

/// One connection.
#[derive(Debug, Default)]
pub(super) struct Http1 {
    /// Head of a request that has not ended, or what came ahead of its turn.
    kept: Vec<u8>,
    /// Bytes that the body of the present request still lacks, if its head is complete.
    lacking: Option<u64>,
    answering: bool,
}

impl Http1 {
    /// Takes what came at `read`, and tells of the request that ended.
    pub fn received(&mut self, bytes: &[u8], read: i64, ended: &mut Vec<Pending>) -> Result<(), Broken> {
        self.kept.extend_from_slice(bytes);
        self.advance(read, ended)
    }

    /// Answers the present request; one that was sent ahead has its turn now.
    pub fn answer(&mut self, request: Pending, out: &mut Outgoing) {
        self.answering = false;
        out.bytes.extend_from_slice(&ANSWER);
        out.reads.push(request.read);
    }

    /// Looks for the end of a request in what is kept.
    pub fn advance(&mut self, read: i64, ended: &mut Vec<Pending>) -> Result<(), Broken> {
        if !self.answering {
            if self.lacking.is_none() {
                self.lacking = self.take_head()?;
            }
            if let Some(lacking) = self.lacking {
                let here = self.kept.len().min(usize::try_from(lacking).unwrap_or(usize::MAX));
                self.kept.drain(..here);
                self.lacking = Some(lacking - here as u64);
            }
            if self.lacking == Some(0) {
                self.lacking = None;
                self.answering = true;
                ended.push(Pending { stream: 0, read });
            }
        }
        if self.kept.len() > MAX_KEPT { Err(Broken("too long a head, or too much sent ahead")) } else { Ok(()) }
    }

    /// Length of the body, once the head is complete.
    fn take_head(&mut self) -> Result<Option<u64>, Broken> {
        let Some(end) = self.kept.windows(4).position(|window| window == b"\r\n\r\n") else {
            return Ok(None);
        };
        let length = body_length(&self.kept[..end])?;
        self.kept.drain(..end + 4);
        Ok(Some(length))
    }
}

fn body_length(head: &[u8]) -> Result<u64, Broken> {
    let head = std::str::from_utf8(head).map_err(|_| Broken("a head that is no text"))?;
    let mut lines = head.split("\r\n");
    if !lines.next().is_some_and(|line| line.ends_with(" HTTP/1.1")) {
        return Err(Broken("not HTTP/1.1"));
    }
    let mut length = 0;
    for (name, value) in lines.filter_map(|line| line.split_once(':')) {
        if name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(Broken("a body without a length"));
        }
        if name.eq_ignore_ascii_case("content-length") {
            length = value.trim().parse().map_err(|_| Broken("a length that is no number"))?;
        }
    }
    Ok(length)
}

#[cfg(test)]
mod tests {
    use super::*;

    const REQUEST: &[u8] = b"POST /p HTTP/1.1\r\nhost: a\r\ncontent-LENGTH: 5\r\n\r\nhello";

    #[test]
    fn a_request_ends_with_its_last_byte_wherever_it_is_cut() {
        for cut in 1..REQUEST.len() {
            let (mut connection, mut ended) = (Http1::default(), Vec::new());
            connection.received(&REQUEST[..cut], 1, &mut ended).unwrap();
            assert!(ended.is_empty(), "cut at {cut}");
            connection.received(&REQUEST[cut..], 2, &mut ended).unwrap();
            assert_eq!(ended, [Pending { stream: 0, read: 2 }]);
        }
    }

    #[test]
    fn what_is_sent_ahead_waits_for_its_turn() {
        let (mut connection, mut ended, mut out) = (Http1::default(), Vec::new(), Outgoing::default());
        connection.received(&REQUEST.repeat(2), 1, &mut ended).unwrap();
        assert_eq!(ended.len(), 1);
        connection.answer(ended[0], &mut out);
        connection.advance(9, &mut ended).unwrap();
        assert_eq!(ended[1..], [Pending { stream: 0, read: 9 }]);
        assert_eq!((out.bytes.as_slice(), out.reads.as_slice()), (&ANSWER[..], &[1][..]));
    }

    #[test]
    fn what_cannot_be_followed_is_broken() {
        let long = vec![b'a'; MAX_KEPT + 1];
        let cases: [&[u8]; 4] = [
            b"PRI * HTTP/2.0\r\n\r\n",
            b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n",
            b"POST / HTTP/1.1\r\ncontent-length: x\r\n\r\n",
            &long,
        ];
        for bytes in cases {
            assert!(Http1::default().received(bytes, 0, &mut Vec::new()).is_err());
        }
    }
}
