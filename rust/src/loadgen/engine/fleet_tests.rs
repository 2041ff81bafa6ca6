use super::*;
use crate::loadgen::engine::Outcome;
use crate::loadgen::engine::sample::NEVER;
use crate::loadgen::plan::WireRequest;
use crate::loadgen::test_server::{Behaviour, TestServer};

const SECOND: i64 = 1_000_000_000;

fn plan(target: String, mode: Mode) -> Plan {
    let request = WireRequest { method: "POST".into(), path: "/v1/models/m:predict".into(), headers: Vec::new() };
    let requests = vec![request.clone(), request];
    Plan { target, requests, mode, connections: 4, timeout_s: 5.0, threads: 1 }
}

fn start(plan: &Plan) -> CallResult<Fleet> {
    Fleet::start(plan, &[Bytes::from_static(b"one"), Bytes::from_static(b"two")])
}

/// Takes until there are so many samples.
fn take(fleet: &Fleet, count: usize) -> Vec<Sample> {
    let mut samples = Vec::new();
    while samples.len() < count {
        samples.extend(fleet.take(Duration::from_millis(20)).unwrap().samples);
    }
    samples
}

/// Sends `count` requests, one each millisecond, and waits for all of them.
fn play(fleet: &Fleet, count: usize) -> Vec<Sample> {
    let start = fleet.now();
    let times: Vec<_> = (0..count as i64).map(|index| start + index * 1_000_000).collect();
    let choices: Vec<_> = (0..count as u32).map(|index| index % 2).collect();
    fleet.feed(&times, &choices).unwrap();
    let mut samples = take(fleet, count);
    samples.sort_by_key(|sample| sample.scheduled);
    assert_eq!(samples.iter().map(|sample| sample.scheduled).collect::<Vec<_>>(), times);
    samples
}

const OPEN: Mode = Mode::Open { max_in_flight: None };

#[test]
fn every_request_of_an_open_loop_is_sent_once_and_at_its_time() {
    for protocol in [Protocol::Grpc, Protocol::Http] {
        let server = TestServer::start(protocol, Behaviour::Echo);
        for threads in [1, 2] {
            let fleet = start(&Plan { threads, ..plan(server.target(), OPEN) }).unwrap();
            for (index, sample) in play(&fleet, 100).iter().enumerate() {
                assert_eq!((sample.outcome, sample.choice), (Outcome::OK, index as u32 % 2), "{protocol:?}");
                assert!(sample.scheduled <= sample.sent && sample.sent <= sample.done, "{sample:?}");
            }
        }
        assert_eq!((server.requests(), server.distinct_bodies()), (200, 2));
    }
}

#[test]
fn a_closed_loop_keeps_its_clients_busy_over_their_connections() {
    for (protocol, concurrency) in [(Protocol::Grpc, 8), (Protocol::Http, 4)] {
        let server = TestServer::start(protocol, Behaviour::Echo);
        let fleet = start(&plan(server.target(), Mode::Closed { concurrency })).unwrap();
        assert_eq!(fleet.take(Duration::from_millis(1)).unwrap().samples, [], "it waits to be fed");
        fleet.feed(&[], &[0, 1]).unwrap();
        let samples = take(&fleet, 200);
        assert!(samples.iter().all(|sample| sample.outcome == Outcome::OK), "{protocol:?}");
        assert_eq!(server.connections(), 4);
        assert!(fleet.take(Duration::ZERO).unwrap().in_flight <= concurrency);
    }
}

#[test]
fn refusals_are_told_by_code() {
    for (protocol, name) in [(Protocol::Grpc, "UNAVAILABLE"), (Protocol::Http, "503")] {
        let server = TestServer::start(protocol, Behaviour::Refuse);
        let fleet = start(&plan(server.target(), OPEN)).unwrap();
        assert!(play(&fleet, 20).iter().all(|sample| sample.outcome.name() == name));
    }
}

#[test]
fn silence_costs_the_time_limit_and_no_more() {
    for protocol in [Protocol::Grpc, Protocol::Http] {
        let server = TestServer::start(protocol, Behaviour::Silent);
        let fleet = start(&Plan { timeout_s: 0.05, ..plan(server.target(), OPEN) }).unwrap();
        for sample in play(&fleet, 20) {
            assert_eq!(sample.outcome, Outcome::TIMEOUT);
            assert!(sample.done - sample.scheduled >= SECOND / 20);
        }
    }
}

#[test]
fn requests_that_find_no_connection_wait_and_their_latency_counts() {
    // Four connections of HTTP/1.1 to a server that never answers: the fifth request waits until the first is given up.
    let server = TestServer::start(Protocol::Http, Behaviour::Silent);
    let fleet = start(&Plan { timeout_s: 0.2, ..plan(server.target(), OPEN) }).unwrap();
    let samples = play(&fleet, 6);
    let waited = |sample: &&Sample| sample.sent == NEVER || sample.sent - sample.scheduled > SECOND / 10;
    assert_eq!(samples.iter().filter(waited).count(), 2);
    assert!(samples.iter().all(|sample| sample.outcome == Outcome::TIMEOUT));
}

#[test]
fn beyond_the_limit_requests_are_dropped_and_counted() {
    let server = TestServer::start(Protocol::Grpc, Behaviour::Silent);
    let mode = Mode::Open { max_in_flight: Some(3) };
    let fleet = start(&Plan { timeout_s: 0.5, ..plan(server.target(), mode) }).unwrap();
    let samples = play(&fleet, 10);
    assert_eq!(samples.iter().filter(|sample| sample.outcome == Outcome::DROPPED).count(), 7);
}

#[test]
fn lost_connections_are_counted_and_made_again() {
    for protocol in [Protocol::Grpc, Protocol::Http] {
        let server = TestServer::start(protocol, Behaviour::HangUpOnce);
        let fleet = start(&plan(server.target(), OPEN)).unwrap();
        let samples = play(&fleet, 400);
        let lost = samples.iter().filter(|sample| sample.outcome != Outcome::OK).count();
        assert!((1..400).contains(&lost), "{protocol:?}: {lost}");
        assert_eq!(samples.last().unwrap().outcome, Outcome::OK);
    }
}

#[test]
fn a_session_can_be_stopped_at_any_time() {
    let server = TestServer::start(Protocol::Grpc, Behaviour::Silent);
    let fleet = start(&Plan { timeout_s: 1e5, ..plan(server.target(), Mode::Closed { concurrency: 8 }) }).unwrap();
    fleet.feed(&[], &[0]).unwrap();
    server.wait_for_requests(8);
    fleet.stop();
    let taken = fleet.take(Duration::from_secs(60)).unwrap();
    assert!(taken.ended && taken.samples.is_empty());
}

#[test]
fn what_cannot_be_played_is_refused() {
    let server = TestServer::start(Protocol::Grpc, Behaviour::Echo);
    let fleet = start(&plan(server.target(), OPEN)).unwrap();
    for (times, choices) in [(&[1, 2][..], &[0][..]), (&[2, 1], &[0, 0]), (&[1], &[2])] {
        assert!(matches!(fleet.feed(times, choices), Err(CallError::Usage(_))), "{times:?} {choices:?}");
    }
    assert!(Fleet::start(&plan(server.target(), OPEN), &[]).is_err());
}

#[test]
fn a_server_that_is_not_there_or_speaks_something_else_is_an_error_at_once() {
    let error = start(&plan(TestServer::unused_target(), OPEN)).err().unwrap().to_string();
    assert!(error.contains("is the server running?"), "{error}");
    let server = TestServer::start(Protocol::Http, Behaviour::Echo);
    let error = start(&plan(server.target().replace("http", "grpc"), OPEN)).err().unwrap().to_string();
    assert!(error.contains("does it speak this protocol?"), "{error}");
    let error = start(&plan(server.target().replace("http", "https"), OPEN)).err().unwrap().to_string();
    assert!(error.contains("does it speak this protocol?") || error.contains("no certificates"), "{error}");
}
