use super::*;
use crate::loadgen::engine::frames::MAX_PAYLOAD;

const WHOLE: u8 = flag::END_HEADERS | flag::END_STREAM;

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
        wire.frame(kind::SETTINGS, 0, 0, &[]).unwrap();
        wire.out = Outgoing::default();
        wire
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<(), Broken> {
        self.connection.received(bytes, 7, &mut self.ended, &mut self.out)
    }

    fn frame(&mut self, kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Result<(), Broken> {
        let mut bytes = Vec::new();
        put(&mut bytes, Frame { kind, flags, stream, payload });
        self.bytes(&bytes)
    }

    fn streams(&self) -> Vec<u32> {
        self.ended.iter().map(|pending| pending.stream).collect()
    }

    /// (kind, flags, stream) of what is to be sent.
    fn sent(&self) -> Vec<(u8, u8, u32)> {
        let (mut rest, mut sent) = (&self.out.bytes[..], Vec::new());
        while let Some((frame, left)) = Frame::split(rest).unwrap() {
            sent.push((frame.kind, frame.flags, frame.stream));
            rest = left;
        }
        sent
    }
}

#[test]
fn streams_end_with_data_with_headers_or_with_their_continuation() {
    let mut wire = Wire::greeted();
    wire.frame(kind::HEADERS, flag::END_HEADERS, 1, b"x").unwrap();
    wire.frame(kind::DATA, 0, 1, b"half").unwrap();
    wire.frame(kind::HEADERS, WHOLE, 3, b"x").unwrap();
    wire.frame(kind::HEADERS, flag::END_STREAM, 5, b"x").unwrap();
    assert_eq!(wire.streams(), [3]);
    wire.frame(kind::CONTINUATION, flag::END_HEADERS, 5, b"x").unwrap();
    wire.frame(kind::DATA, flag::END_STREAM, 1, b"half").unwrap();
    assert_eq!(wire.streams(), [3, 5, 1]);
}

#[test]
fn frames_may_be_cut_anywhere() {
    let mut bytes = PREFACE.to_vec();
    put(&mut bytes, Frame { kind: kind::SETTINGS, flags: 0, stream: 0, payload: &[0, 4, 0, 1, 0, 0] });
    put(&mut bytes, Frame { kind: kind::HEADERS, flags: flag::END_HEADERS, stream: 1, payload: b"some headers" });
    put(&mut bytes, Frame { kind: kind::DATA, flags: flag::END_STREAM, stream: 1, payload: b"some data" });
    for cut in 1..bytes.len() {
        let mut wire = Wire::default();
        wire.bytes(&bytes[..cut]).unwrap();
        assert!(wire.ended.is_empty());
        wire.bytes(&bytes[cut..]).unwrap();
        assert_eq!(wire.streams(), [1], "cut at {cut}");
        assert_eq!(wire.sent(), [(kind::SETTINGS, 0, 0), (kind::WINDOW_UPDATE, 0, 0), (kind::SETTINGS, flag::ACK, 0)]);
    }
}

#[test]
fn answers_are_headers_data_and_trailers_and_pings_are_echoed() {
    let mut wire = Wire::greeted();
    wire.frame(kind::PING, 0, 0, b"12345678").unwrap();
    wire.frame(kind::PING, flag::ACK, 0, b"12345678").unwrap();
    wire.connection.open = 1;
    wire.connection.answer(Pending { stream: 9, read: 3 }, &mut wire.out);
    let answer = [(kind::HEADERS, flag::END_HEADERS, 9), (kind::DATA, 0, 9), (kind::HEADERS, WHOLE, 9)];
    assert_eq!(wire.sent()[0], (kind::PING, flag::ACK, 0));
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
    wire.frame(kind::WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes()).unwrap();
    assert_eq!(wire.sent().len(), 6);
}

#[test]
fn a_long_body_is_allowed_to_go_on() {
    let mut wire = Wire::greeted();
    for _ in 0..WINDOW / 2 / MAX_PAYLOAD as u32 {
        wire.frame(kind::DATA, 0, 1, &[0; MAX_PAYLOAD]).unwrap();
    }
    let (last, before) = wire.sent().split_last().map(|(last, before)| (*last, before.to_vec())).unwrap();
    assert!(before.iter().all(|frame| *frame == (kind::WINDOW_UPDATE, 0, 1)));
    assert_eq!(last, (kind::WINDOW_UPDATE, 0, 0));
}

#[test]
fn what_cannot_be_followed_is_broken() {
    assert!(Wire::default().bytes(b"POST / HTTP/1.1").is_err());
    assert!(Wire::greeted().frame(kind::DATA, 0, 1, &vec![0; MAX_PAYLOAD + 1]).is_err());
    assert!(Wire::greeted().frame(kind::SETTINGS, 0, 0, &[0, 4, 0, 0, 0, 1]).is_err());
    assert!(Wire::greeted().frame(kind::WINDOW_UPDATE, 0, 0, &[0; 3]).is_err());
}
