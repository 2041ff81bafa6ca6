use bytes::Bytes;

use super::*;
use crate::loadgen::engine::frames::HEADER;
use crate::loadgen::engine::hpack::Block;

fn request(body: usize) -> Request {
    let fields = [(":method".to_owned(), "POST".to_owned()), (":path".to_owned(), "/a.B/C".to_owned())];
    let body = vec![7; body].into();
    Request { block: Block::new(&fields, true), head: Bytes::new(), body, bodiless: false }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put(&mut bytes, Frame { kind, flags, stream, payload });
    bytes
}

fn settings_of(pairs: &[(u16, u32)]) -> Vec<u8> {
    let mut bytes = Vec::new();
    put_settings(&mut bytes, pairs);
    bytes
}

/// A connection that has had the peer's settings, with nothing to write.
fn ready(pairs: &[(u16, u32)]) -> Http2 {
    let mut wire = Http2::new();
    assert!(wire.out.starts_with(PREFACE) && wire.capacity() == 0 && !wire.is_ready());
    receive(&mut wire, &settings_of(pairs)).unwrap();
    wire.out.clear();
    wire
}

fn receive(wire: &mut Http2, bytes: &[u8]) -> Result<Vec<(u32, Outcome)>, Broken> {
    let mut ended = Vec::new();
    wire.receive(bytes, &mut ended)?;
    Ok(ended.iter().map(|each| (each.token, each.outcome)).collect())
}

/// (kind, stream, length of the payload) of all that is to be written.
fn written(wire: &mut Http2) -> Vec<(u8, u32, usize)> {
    let out = mem::take(&mut wire.out);
    let (mut rest, mut all) = (&out[..], Vec::new());
    while let Some((frame, after)) = Frame::split(rest).unwrap() {
        all.push((frame.kind, frame.stream, frame.payload.len()));
        rest = after;
    }
    all
}

/// An answer: fields, an empty message, and the status in trailers.
fn answer(stream: u32, status: &str) -> Vec<u8> {
    let fields = |pairs: &[(&str, &str)]| {
        let pairs: Vec<_> = pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
        Block::new(&pairs, false).first
    };
    let timing = ("server-timing", "queue;dur=1");
    [
        frame(kind::HEADERS, flag::END_HEADERS, stream, &fields(&[(":status", "200")])),
        frame(kind::DATA, 0, stream, &[0; 5]),
        frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, stream, &fields(&[("grpc-status", status), timing])),
    ]
    .concat()
}

#[test]
fn answers_are_told_by_token_however_they_are_cut() {
    for step in [1, 2, 3, 7, 1_000] {
        let mut wire = ready(&[]);
        assert_eq!([wire.start(70, &request(5), true), wire.start(71, &request(5), true)], [1, 3]);
        let bytes = [answer(3, "0"), answer(1, "14")].concat();
        let ended: Vec<_> = bytes.chunks(step).flat_map(|part| receive(&mut wire, part).unwrap()).collect();
        assert_eq!(ended, [(71, Outcome::OK), (70, Outcome(14))], "{step}");
    }
}

#[test]
fn stages_come_with_the_trailers() {
    let mut wire = ready(&[]);
    wire.start(1, &request(5), true);
    let mut ended = Vec::new();
    wire.receive(&answer(1, "0"), &mut ended).unwrap();
    assert_eq!(ended[0].stages.queue_us, 1_000);
}

#[test]
fn later_requests_refer_to_the_fields_of_the_first() {
    let mut wire = ready(&[]);
    let lengths = |wire: &mut Http2| written(wire).iter().map(|each| each.2).collect::<Vec<_>>();
    wire.start(1, &request(5), true);
    assert!(lengths(&mut wire)[0] > 5);
    wire.start(2, &request(5), true);
    assert_eq!(lengths(&mut wire), [2, 5]);
    let mut forgetful = ready(&[(setting::HEADER_TABLE_SIZE, 0)]);
    forgetful.start(1, &request(5), true);
    forgetful.start(2, &request(5), true);
    let lengths = lengths(&mut forgetful);
    assert_eq!(lengths[0], lengths[2]);
}

#[test]
fn bodies_keep_to_frames_and_windows() {
    let mut wire = ready(&[(setting::INITIAL_WINDOW_SIZE, 20_000)]);
    wire.start(1, &request(30_000), true);
    assert_eq!(written(&mut wire)[1..], [(kind::DATA, 1, 16_384), (kind::DATA, 1, 3_616)]);
    receive(&mut wire, &frame(kind::WINDOW_UPDATE, 0, 1, &20_000_u32.to_be_bytes())).unwrap();
    assert_eq!(written(&mut wire), [(kind::DATA, 1, 10_000)]);
    // The connection's own window: 65 535 - 30 000 are left.
    receive(&mut wire, &settings_of(&[(setting::INITIAL_WINDOW_SIZE, 1 << 20)])).unwrap();
    wire.out.clear();
    wire.start(2, &request(40_000), true);
    let sent: usize = written(&mut wire)[1..].iter().map(|each| each.2).sum();
    assert_eq!(sent, 35_535);
    receive(&mut wire, &frame(kind::WINDOW_UPDATE, 0, 0, &90_000_u32.to_be_bytes())).unwrap();
    assert_eq!(written(&mut wire), [(kind::DATA, 3, 4_465)]);
}

#[test]
fn no_more_requests_are_started_than_the_peer_allows() {
    let mut wire = ready(&[(setting::MAX_CONCURRENT_STREAMS, 2)]);
    wire.start(1, &request(5), true);
    assert_eq!(wire.capacity(), 1);
    wire.start(2, &request(5), true);
    assert_eq!(wire.capacity(), 0);
    receive(&mut wire, &answer(1, "0")).unwrap();
    assert_eq!(wire.capacity(), 1);
}

#[test]
fn a_peer_that_goes_away_finishes_what_it_took() {
    let mut wire = ready(&[]);
    (0..3).for_each(|token| _ = wire.start(token, &request(5), true));
    let away = frame(kind::GOAWAY, 0, 0, &[0, 0, 0, 3, 0, 0, 0, 0]);
    assert_eq!(receive(&mut wire, &away).unwrap(), [(2, Outcome::TRANSPORT)]);
    assert!(wire.capacity() == 0 && !wire.is_done());
    receive(&mut wire, &[answer(1, "0"), answer(3, "0")].concat()).unwrap();
    assert!(wire.is_done());
}

#[test]
fn what_is_given_up_is_reset_and_its_late_answer_ignored() {
    let mut wire = ready(&[]);
    let stream = wire.start(9, &request(5), true);
    wire.out.clear();
    wire.cancel(stream);
    assert_eq!(written(&mut wire), [(kind::RST_STREAM, 1, 4)]);
    assert_eq!(receive(&mut wire, &answer(1, "0")).unwrap(), []);
    wire.start(10, &request(5), true);
    let reset = frame(kind::RST_STREAM, 0, 3, &7_u32.to_be_bytes());
    assert_eq!(receive(&mut wire, &reset).unwrap(), [(10, Outcome(14))]);
}

#[test]
fn pings_and_settings_are_answered() {
    let mut wire = ready(&[]);
    receive(&mut wire, &[frame(kind::PING, 0, 0, &[1; 8]), settings_of(&[])].concat()).unwrap();
    assert_eq!(written(&mut wire), [(kind::PING, 0, 8), (kind::SETTINGS, 0, 0)]);
    receive(&mut wire, &frame(kind::PING, flag::ACK, 0, &[1; 8])).unwrap();
    assert_eq!(written(&mut wire), []);
}

#[test]
fn a_lost_connection_ends_all_of_its_requests() {
    let mut wire = ready(&[]);
    (0..3).for_each(|token| _ = wire.start(token, &request(5), true));
    let mut ended = Vec::new();
    wire.abandon(&mut ended);
    assert_eq!(ended.len(), 3);
    assert!(ended.iter().all(|each| each.outcome == Outcome::TRANSPORT) && wire.is_done());
}

#[test]
fn an_answer_that_is_no_grpc_is_told_by_its_status() {
    let mut wire = ready(&[]);
    (0..2).for_each(|token| _ = wire.start(token, &request(5), true));
    let fields = |status: &str| Block::new(&[(":status".to_owned(), status.to_owned())], false).first;
    let whole = |stream, status| frame(kind::HEADERS, flag::END_HEADERS | flag::END_STREAM, stream, &fields(status));
    let ended = receive(&mut wire, &[whole(1, "502"), whole(3, "200")].concat()).unwrap();
    assert_eq!(ended, [(0, Outcome(502)), (1, Outcome::UNKNOWN)]);
}

#[test]
fn peers_that_break_the_protocol_are_left() {
    let block = frame(kind::HEADERS, 0, 1, &[0x88]);
    for bytes in [
        frame(kind::CONTINUATION, 0, 1, &[]),
        [block.clone(), frame(kind::DATA, 0, 1, &[])].concat(),
        [block, frame(kind::CONTINUATION, flag::END_HEADERS, 3, &[])].concat(),
        frame(kind::HEADERS, flag::END_HEADERS, 1, &[0xff, 0xff]),
        frame(kind::PUSH_PROMISE, 0, 1, &[]),
        frame(kind::WINDOW_UPDATE, 0, 0, &[]),
        frame(kind::WINDOW_UPDATE, 0, 0, &0x7fff_ffff_u32.to_be_bytes()),
        frame(kind::RST_STREAM, 0, 1, &[1]),
        [&[0xff; HEADER][..], b"HTTP/1.1 400"].concat(),
    ] {
        let mut wire = ready(&[]);
        wire.start(1, &request(5), true);
        assert!(receive(&mut wire, &bytes).is_err(), "{bytes:?}");
    }
    assert!(receive(&mut Http2::new(), b"HTTP/1.1 400 Bad Request\r\n\r\n").is_err());
    assert!(receive(&mut Http2::new(), &frame(kind::PING, 0, 0, &[0; 8])).is_err());
}

#[test]
fn blocks_may_come_in_parts_up_to_a_bound() {
    let mut wire = ready(&[]);
    wire.start(1, &request(5), true);
    let whole =
        Block::new(&[("grpc-status".to_owned(), "0".to_owned()), (":status".to_owned(), "200".to_owned())], false);
    let (first, second) = whole.first.split_at(3);
    let parts =
        [frame(kind::HEADERS, flag::END_STREAM, 1, first), frame(kind::CONTINUATION, flag::END_HEADERS, 1, second)];
    assert_eq!(receive(&mut wire, &parts.concat()).unwrap(), [(1, Outcome::OK)]);
    wire.start(2, &request(5), true);
    receive(&mut wire, &frame(kind::HEADERS, 0, 3, &[])).unwrap();
    let part = frame(kind::CONTINUATION, 0, 3, &[0; 16_000]);
    assert!((0..9).any(|_| receive(&mut wire, &part).is_err()));
}

proptest::proptest! {
    #[test]
    fn no_bytes_of_a_peer_are_too_odd(parts in proptest::collection::vec(odd_frame(), 0..40), junk: Vec<u8>, step in 1_usize..50) {
        let mut wire = ready(&[]);
        (0..3).for_each(|token| _ = wire.start(token, &request(70_000), true));
        let bytes = [parts.concat(), junk].concat();
        let (mut ended, mut broken) = (Vec::new(), false);
        for part in bytes.chunks(step) {
            broken = broken || wire.receive(part, &mut ended).is_err();
        }
        wire.abandon(&mut ended);
        let mut tokens: Vec<_> = ended.iter().map(|each| each.token).collect();
        tokens.sort_unstable();
        // Whatever came, every request ended once.
        proptest::prop_assert_eq!(tokens, [0, 1, 2]);
    }
}

/// A frame of any kind, about a stream that there may be, with a payload that may make sense.
fn odd_frame() -> impl proptest::strategy::Strategy<Value = Vec<u8>> {
    use proptest::prelude::*;
    let payload = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..60),
        any::<[u32; 2]>().prop_map(|numbers| numbers.map(u32::to_be_bytes).concat()),
        Just(vec![0x88]),
    ];
    (0_u8..11, any::<u8>(), 0_u32..8, payload)
        .prop_map(|(kind, flags, stream, payload)| frame(kind, flags, stream, &payload))
}
