#![allow(clippy::type_complexity)] // tables

use super::*;

fn settings() -> BatchSettings {
    BatchSettings {
        enable_batching: true,
        max_batch_size: 10,
        batch_timeout_micros: 0,
        allowed_batch_sizes: vec![],
        max_enqueued_batches: 2,
        max_enqueued_bytes: 1000,
        pad_variable_length_inputs: false,
        enable_large_batch_splitting: false,
        max_execution_batch_size: 0,
        isolate_failures: true,
        retry_lost_batches: false,
        max_run_s: 1.0,
    }
}

#[test]
fn the_next_batch_is_chosen_by_fullness_age_and_turn() {
    let start = Instant::now();
    let at = |micros: u64| start + Duration::from_micros(micros);
    let queue = |rows, oldest, last_turn| QueueView { rows, limit: 4, oldest: at(oldest), last_turn };
    let table: Vec<(&str, Vec<QueueView>, u64, Need, u64, Decision)> = vec![
        ("nothing waits", vec![], 0, Need::Idle, 0, Decision::Sleep),
        ("an empty queue is not due", vec![queue(0, 0, 0)], 0, Need::Idle, 9, Decision::Sleep),
        ("no timeout: one row goes at once", vec![queue(1, 0, 0)], 0, Need::Idle, 0, Decision::Take(0)),
        ("not yet at 9 of 10 µs", vec![queue(1, 0, 0)], 10, Need::Idle, 9, Decision::WaitUntil(at(10))),
        ("due at 10 µs", vec![queue(1, 0, 0)], 10, Need::Idle, 10, Decision::Take(0)),
        ("a full queue does not wait", vec![queue(4, 0, 0)], 10, Need::Idle, 0, Decision::Take(0)),
        (
            "the earliest deadline wakes",
            vec![queue(1, 5, 0), queue(1, 3, 0)],
            10,
            Need::Idle,
            6,
            Decision::WaitUntil(at(13)),
        ),
        ("turns go round", vec![queue(8, 0, 7), queue(1, 5, 3)], 0, Need::Idle, 9, Decision::Take(1)),
        ("same turn: the older row", vec![queue(1, 5, 0), queue(1, 2, 0)], 0, Need::Idle, 9, Decision::Take(1)),
        ("a due queue beats a waiting one", vec![queue(1, 8, 0), queue(4, 9, 5)], 10, Need::Idle, 9, Decision::Take(1)),
        ("ahead: a part batch stays open", vec![queue(3, 0, 0)], 0, Need::Ahead, 99, Decision::Sleep),
        ("ahead: a full batch is taken", vec![queue(4, 0, 0)], 0, Need::Ahead, 0, Decision::Take(0)),
    ];
    for (name, queues, timeout, need, now, expected) in table {
        let decision = decide(queues.into_iter(), Duration::from_micros(timeout), need, at(now));
        assert_eq!(decision, expected, "{name}");
    }
}

#[test]
fn sizes_round_up_to_an_allowed_one() {
    let table: [(usize, &[usize], usize); 7] = [
        (2, &[2, 4], 2),
        (2, &[1, 3, 4], 3),
        (3, &[2, 4, 8], 4),
        (2, &[2, 4, 8], 2),
        (10, &[2, 4, 8], 10),
        (3, &[], 3),
        (8, &[8], 8),
    ];
    for (rows, allowed, expected) in table {
        assert_eq!(executed_size(rows, allowed), expected, "{rows} in {allowed:?}");
    }
}

#[test]
fn admission_is_bounded_in_rows_and_bytes() {
    let backlog = |rows, bytes| Backlog { rows, limit: 10, bytes, rows_per_s: 0.0 };
    let table = [
        ("fits", 10, 10, backlog(10, 0), Ok(())),
        ("larger than a batch", 11, 10, backlog(0, 0), Err("Task size 11 is larger than maximum input batch size 10")),
        (
            "queue full",
            1,
            10,
            backlog(20, 0),
            Err("The batch scheduling queue to which this task was submitted is full; currently 2 batches enqueued \
                 and max_enqueued_batches is 2"),
        ),
        ("bytes full", 1, 10, backlog(1, 995), Err("max_enqueued_bytes is 1000")),
        ("a single large request may pass an empty queue", 1, 2000, backlog(0, 0), Ok(())),
    ];
    for (name, rows, bytes, backlog, expected) in table {
        match (admit(rows, bytes, &backlog, &settings()), expected) {
            (Ok(()), Ok(())) => {}
            (Err(error), Err(text)) => assert!(error.message.contains(text), "{name}: {error}"),
            (got, want) => panic!("{name}: {got:?}, expected {want:?}"),
        }
    }
}

#[test]
fn splitting_lifts_the_bound_of_one_request() {
    let backlog = Backlog { rows: 5, limit: 10, bytes: 0, rows_per_s: 0.0 };
    let open = BatchSettings { enable_large_batch_splitting: true, ..settings() };
    assert!(admit(15, 0, &backlog, &open).is_ok());
    assert_eq!(admit(16, 0, &backlog, &open).unwrap_err().code, Code::Unavailable);
    let bounded = BatchSettings { max_batch_size: 12, max_execution_batch_size: 10, ..open };
    let error = admit(13, 0, &backlog, &bounded).unwrap_err();
    assert_eq!(error.message, "Task size 13 is larger than maximum input batch size 12");
}

#[test]
fn retry_after_is_backlog_over_rate_within_bounds() {
    assert_eq!(retry_after(100, 0.0), Duration::from_secs(1));
    assert_eq!(retry_after(100, 50.0), Duration::from_secs(2));
    assert_eq!(retry_after(0, 50.0), Duration::from_millis(1));
    assert_eq!(retry_after(usize::MAX, 1.0), Duration::from_secs(60));
}

#[test]
fn isolation_is_bounded_by_the_logarithm_of_the_batch() {
    for (requests, expected) in [(1, 2), (2, 4), (3, 6), (8, 8), (64, 14)] {
        assert_eq!(isolation_budget(requests), expected, "{requests} requests");
    }
}
