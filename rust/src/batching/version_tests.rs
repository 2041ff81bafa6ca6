use std::pin::pin;
use std::task::{Context, Poll, Waker};

use super::*;
use crate::batching::testing::{World, answer, floats, settings, sizes, values};

/// Whether an act wakes those who wait for changes.
fn wakes(version: &Version, act: impl FnOnce()) -> bool {
    let mut changes = pin!(version.changes());
    let mut poll = || changes.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    assert_eq!(poll(), Poll::Pending);
    act();
    poll() == Poll::Ready(())
}

fn is_done(closed: impl Future<Output = ()>) -> bool {
    pin!(closed).poll(&mut Context::from_waker(Waker::noop())).is_ready()
}

#[test]
fn requests_that_wait_together_run_together() {
    let world = World::new(BatchSettings { max_batch_size: 4, batch_timeout_micros: 1_000_000, ..settings() });
    let one = world.call("first", floats(&[2], &[100.0, 42.0]));
    assert!(matches!(world.next(), Next::WaitUntil(_)));
    let other = world.call("first", floats(&[2], &[71.5, 18.3]));
    assert_eq!(world.serve(), 1);
    assert_eq!(one.numbers(), [52.0, 23.0]);
    assert_eq!(other.numbers(), [37.75, 11.15]);
    world.assert_nothing_held();
}

#[test]
fn without_a_timeout_requests_run_at_once() {
    let world = World::new(BatchSettings { max_batch_size: 100, ..settings() });
    for rows in [1, 2] {
        let call = world.rows(rows, 1.0);
        assert_eq!(sizes(&world.batch()), [rows]);
        drop(call);
    }
}

#[test]
fn a_part_batch_waits_for_its_own_timeout() {
    let world = World::new(BatchSettings { max_batch_size: 4, batch_timeout_micros: 10, ..settings() });
    let start = world.clock.now();
    let at = |micros| start + Duration::from_micros(micros);
    let _first = world.rows(1, 1.0);
    world.advance(9);
    assert!(matches!(world.next(), Next::WaitUntil(time) if time == at(10)), "nothing at 9 µs");
    world.advance(1);
    assert_eq!(sizes(&world.batch()), [1], "due at 10 µs");
    let _second = world.rows(2, 1.0);
    world.advance(5);
    let _third = world.rows(3, 1.0);
    assert_eq!(sizes(&world.batch()), [2], "closed by a request that does not fit");
    assert!(matches!(world.next(), Next::WaitUntil(time) if time == at(25)), "the third has its own 10 µs");
    world.advance(10);
    assert_eq!(sizes(&world.batch()), [3]);
}

#[test]
fn signatures_never_share_a_batch() {
    let world = World::new(settings());
    let call = |signature: &str, rows: usize| world.call(signature, floats(&[rows], &vec![1.0; rows]));
    let calls = [call("first", 1), call("second", 2), call("first", 3), call("second", 4), call("first", 5)];
    let formed: Vec<Vec<usize>> = world.batches().iter().map(sizes).collect();
    assert_eq!(formed, [vec![1, 3, 5], vec![2, 4]]);
    drop(calls);
}

#[test]
fn shapes_that_differ_run_apart() {
    let world = World::new(settings());
    let one = world.call("first", floats(&[3, 1, 1], &[1.0, 2.0, 3.0]));
    let other = world.call("first", floats(&[1, 2], &[4.0, 5.0]));
    assert_eq!(world.serve(), 2);
    assert_eq!(one.numbers(), [2.5, 3.0, 3.5]);
    assert_eq!(other.numbers(), [4.0, 4.5]);
}

#[test]
fn turns_go_round() {
    let world = World::new(settings());
    let _flood: Vec<_> = (0..3).map(|_| world.rows(10, 1.0)).collect();
    let signature = |batch: Batch| batch.endpoint.signature.name.clone();
    assert_eq!(signature(world.batch()), "first");
    let _late = world.call("second", floats(&[1], &[1.0]));
    let order: Vec<String> = world.batches().into_iter().map(signature).collect();
    assert_eq!(order, ["second", "first", "first"]);
}

#[test]
fn ever_new_shapes_do_not_keep_a_queue_waiting() {
    let world = World::new(settings());
    let _old: Vec<_> = (0..2).map(|_| world.rows(10, 1.0)).collect();
    drop(world.batch());
    let mut flood = Vec::new();
    for width in 1..4 {
        flood.push(world.call("first", floats(&[1, width], &vec![1.0; width])));
        flood.push(world.call("first", floats(&[1, width, 1], &vec![1.0; width])));
        if world.batch().rows == 10 {
            return;
        }
    }
    panic!("the old queue was never served");
}

#[test]
fn what_waits_is_bounded_in_rows() {
    for batches in [1, 2, 5] {
        let world = World::new(BatchSettings { max_batch_size: 2, max_enqueued_batches: batches, ..settings() });
        let mut waiting: Vec<_> = (0..2 * batches).map(|_| world.rows(1, 1.0)).collect();
        let error = world.rows(1, 1.0).error();
        assert_eq!((error.code, error.reason), (Code::Unavailable, Reason::QueueFull));
        let text = "The batch scheduling queue to which this task was submitted is full";
        assert!(error.message.starts_with(text), "{error}");
        assert_eq!(world.call("first", floats(&[1, 7], &[1.0; 7])).error().code, Code::Unavailable, "other shapes");
        assert!(world.call("second", floats(&[1], &[1.0])).is_waiting(), "other signatures");
        assert!(world.call("first", floats(&[], &[1.0])).is_waiting(), "requests that run alone");
        assert!(world.call("first", floats(&[1], &[1.0])).outcome().is_err());
        drop(world.batch());
        assert!(world.rows(1, 1.0).is_waiting(), "room again");
        waiting.clear();
        world.assert_nothing_held();
    }
}

#[test]
fn what_waits_is_bounded_in_bytes() {
    let world = World::new(BatchSettings { max_enqueued_bytes: 40, ..settings() });
    let large = world.rows(10, 1.0);
    let error = world.rows(1, 1.0).error();
    assert!(error.message.contains("max_enqueued_bytes is 40"), "{error}");
    assert_eq!(error.retry_after, Some(Duration::from_secs(1)), "nothing is known of the rate");
    assert_eq!(world.version.holdings().bytes, 40);
    assert_eq!(world.serve(), 1);
    drop((large, error));
    world.assert_nothing_held();
}

#[test]
fn a_refusal_says_when_to_come_back() {
    let world = World::new(BatchSettings { max_enqueued_batches: 1, ..settings() });
    let _first = world.rows(10, 1.0);
    assert_eq!(world.serve(), 1, "10 rows in a millisecond");
    let _second = world.rows(10, 1.0);
    assert_eq!(world.rows(1, 1.0).error().retry_after, Some(Duration::from_millis(1)));
}

#[test]
fn the_time_to_come_back_counts_all_workers_that_serve() {
    let world = World::new(BatchSettings { max_enqueued_batches: 8, ..settings() });
    let _first = world.rows(10, 1.0);
    assert_eq!(world.serve(), 1, "10 rows in a millisecond");
    let _waiting: Vec<_> = (0..8).map(|_| world.rows(10, 1.0)).collect();
    let after = || world.rows(1, 1.0).error().retry_after;
    assert_eq!(after(), Some(Duration::from_millis(8)));
    (0..4).for_each(|_| world.version.count_serving(1));
    assert_eq!(after(), Some(Duration::from_millis(2)), "four take turns");
}

#[test]
fn workers_are_woken_when_they_may_have_something_to_do() {
    let world = World::new(BatchSettings { max_batch_size: 3, batch_timeout_micros: 10, ..settings() });
    let mut calls = Vec::new();
    let mut rows = |rows| wakes(&world.version, || calls.push(world.rows(rows, 1.0)));
    assert!(rows(1), "a queue begins to wait");
    assert!(!rows(1), "nothing new: it is known when the first is due");
    assert!(rows(2), "a batch is full");
    assert!(!rows(1), "it was full before");
    let mut batch = None;
    assert!(wakes(&world.version, || batch = Some(world.batch())), "something is left for others");
    assert!(wakes(&world.version, || batch.unwrap().fail(Error::internal("no"), &[])), "parts are to be run again");
    assert!(wakes(&world.version, || world.version.retire()));
    let batch = world.batch();
    assert!(wakes(&world.version, || answer(batch)), "a retired version may have finished");
    assert!(wakes(&world.version, || calls.clear()), "the last lease of a retired version");
    assert!(wakes(&world.version, || world.version.count_worker(1)));
}

#[test]
fn a_worker_that_is_busy_takes_only_full_batches_ahead() {
    let world = World::new(settings());
    let _nine = world.rows(9, 1.0);
    assert!(matches!(world.version.next(Need::Ahead), Next::Sleep));
    let _tenth = world.rows(1, 1.0);
    assert!(matches!(world.version.next(Need::Ahead), Next::Batch(batch) if batch.rows == 10));
}

#[test]
fn a_client_that_leaves_takes_its_rows_along() {
    let world = World::new(settings());
    let (gone, stays) = (world.rows(2, 1.0), world.rows(3, 4.0));
    assert_eq!(world.version.holdings().rows, 5);
    drop(gone);
    assert_eq!(world.version.holdings().rows, 3);
    assert_eq!(world.metric("poise_withdrawn_requests_total"), 1.0);
    let batch = world.batch();
    assert_eq!(sizes(&batch), [3]);
    answer(batch);
    assert_eq!(stays.numbers(), [4.0; 3]);
    world.assert_nothing_held();
}

#[test]
fn a_client_may_leave_while_its_rows_run() {
    let world = World::new(settings());
    let (gone, stays) = (world.rows(2, 1.0), world.rows(3, 4.0));
    let batch = world.batch();
    drop(gone);
    answer(batch);
    assert_eq!(stays.numbers(), [4.0; 3]);
    world.assert_nothing_held();
}

#[test]
fn a_client_may_leave_between_the_parts_of_its_request() {
    let world = World::new(BatchSettings { enable_large_batch_splitting: true, ..settings() });
    let (gone, stays) = (world.rows(25, 1.0), world.rows(1, 4.0));
    let batch = world.batch();
    drop(gone);
    assert_eq!(world.version.holdings().rows, 1);
    answer(batch);
    assert_eq!(world.serve(), 1);
    assert_eq!(stays.numbers(), [4.0]);
    world.assert_nothing_held();
}

#[tokio::test(start_paused = true)]
async fn a_request_that_comes_too_late_is_not_queued() {
    let world = World::new(settings());
    let now = world.clock.now();
    let call = world.call_with("first", vec![floats(&[1], &[1.0])], &[], Some(now));
    let error = call.error();
    assert_eq!((error.code, error.reason), (Code::DeadlineExceeded, Reason::Deadline));
    world.assert_nothing_held();
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_a_wait() {
    let world = World::new(settings());
    let deadline = Some(world.clock.now() + Duration::from_secs(1));
    let mut call = world.call_with("first", vec![floats(&[1], &[1.0])], &[], deadline);
    assert!(call.is_waiting());
    tokio::time::advance(Duration::from_secs(2)).await;
    assert_eq!(call.error().message, "Deadline exceeded while the request waited for its answer");
    assert_eq!(world.metric("poise_withdrawn_requests_total"), 1.0);
    world.assert_nothing_held();
}

#[tokio::test(start_paused = true)]
async fn late_rows_are_never_run() {
    let world = World::new(BatchSettings { max_batch_size: 2, ..settings() });
    let deadline = Some(world.clock.now() + Duration::from_micros(10));
    let late = world.call_with("first", vec![floats(&[2], &[1.0; 2])], &[], deadline);
    let in_time = world.rows(2, 4.0);
    world.advance(10);
    let batch = world.batch();
    assert_eq!(batch.pieces[0].pending.arrived + Duration::from_micros(10), world.clock.now());
    answer(batch);
    assert_eq!(late.error().message, "Deadline exceeded while the request waited to be run");
    assert_eq!(in_time.numbers(), [4.0; 2]);
    assert_eq!(world.metric("poise_withdrawn_requests_total"), 1.0);
    world.assert_nothing_held();
}

#[test]
fn a_retired_version_closes_when_its_last_request_has_its_answer() {
    let world = World::new(BatchSettings { batch_timeout_micros: 1_000_000, ..settings() });
    world.version.count_worker(1);
    let mut call = world.rows(1, 1.0);
    world.version.retire();
    assert!(!is_done(world.version.closed()));
    let batch = world.batch();
    assert!(matches!(world.next(), Next::Sleep), "a batch runs");
    answer(batch);
    assert!(matches!(world.next(), Next::Sleep), "its client has not fetched the answer yet");
    assert!(!call.is_waiting());
    assert!(matches!(world.next(), Next::Close));
    assert!(is_done(world.version.closed()));
    assert!(world.version.lease().is_none());
    world.assert_nothing_held();
}

#[test]
fn a_retired_version_serves_who_still_holds_a_lease() {
    let world = World::new(settings());
    world.version.count_worker(1);
    let lease = world.version.lease();
    world.version.retire();
    assert!(matches!(world.next(), Next::Sleep));
    let call = world.rows(1, 1.0);
    assert_eq!(world.serve(), 1);
    assert_eq!(call.numbers(), [2.5]);
    drop(lease);
    assert!(matches!(world.next(), Next::Close));
}

#[test]
fn nobody_gets_a_lease_once_a_worker_was_told_to_close() {
    let world = World::new(settings());
    world.version.retire();
    assert!(matches!(world.next(), Next::Close));
    assert!(world.version.lease().is_none());
}

#[test]
fn without_workers_a_retired_version_refuses_what_waits() {
    let split = BatchSettings { enable_large_batch_splitting: true, retry_lost_batches: true, ..settings() };
    let world = World::new(split);
    world.version.count_worker(1);
    let (cut, waits) = (world.rows(15, 1.0), world.call("second", floats(&[1], &[1.0])));
    let lost = world.batch();
    world.version.retire();
    lost.lost(Error::internal("lost"));
    assert!(!is_done(world.version.closed()), "its worker may come back to it");
    assert_eq!(world.version.holdings().again, 1);
    world.version.count_worker(-1);
    assert!(!is_done(world.version.closed()), "leases are still out");
    for call in [cut, waits] {
        let error = call.error();
        assert_eq!((error.code, error.reason), (Code::Unavailable, Reason::NotReady));
    }
    assert!(is_done(world.version.closed()));
    world.assert_nothing_held();
}

#[test]
fn a_version_that_is_not_retired_waits_for_a_worker() {
    let world = World::new(settings());
    let mut call = world.rows(1, 1.0);
    assert!(!is_done(world.version.closed()));
    assert!(call.is_waiting());
}

#[test]
fn requests_without_rows_run_alone() {
    let world = World::new(BatchSettings { allowed_batch_sizes: vec![10], ..settings() });
    let shapes: [&[usize]; 3] = [&[], &[], &[0, 2]];
    let calls = shapes.map(|shape| world.call("first", floats(shape, &vec![1.0; shape.iter().product()])));
    let alone = world.call("alone", floats(&[3], &[1.0, 2.0, 3.0]));
    assert_eq!(world.serve(), 4);
    for (call, shape) in calls.into_iter().zip(shapes) {
        assert_eq!(call.outcome().unwrap()[1].shape(), shape);
    }
    assert_eq!(values(&alone.outcome().unwrap()[1]), [2.5, 3.0, 3.5]);
    world.assert_nothing_held();
}
