//! TensorFlow Serving's batching, vector by vector: sizes, capacities, refusals and their texts, timeouts. Where Poise
//! differs on purpose a test says so, and why.

#![allow(clippy::type_complexity)] // tables

use super::batch::Batch;
use super::testing::{Call, World, answer, floats, half_plus_two, settings, sizes, spec, values};
use super::version::Next;
use crate::clock::Clock as _;
use crate::config::BatchSettings;
use crate::error::{Code, Reason};
use crate::model::Signature;
use crate::tensor::DType;
use std::time::Duration;

const FULL: &str = "The batch scheduling queue to which this task was submitted is full; ";

fn splitting(max_batch_size: usize) -> BatchSettings {
    BatchSettings { max_batch_size, enable_large_batch_splitting: true, ..settings() }
}

fn formed(world: &World) -> Vec<Vec<usize>> {
    world.batches().iter().map(sizes).collect()
}

#[test]
fn large_requests_are_cut_to_fill_what_is_open() {
    // (rows, room left in the open batch, most rows of a batch) → slices.
    let table: [(usize, usize, usize, &[usize]); 5] = [
        (5, 1, 1, &[1, 1, 1, 1, 1]),
        (10, 3, 4, &[3, 4, 3]),
        (20, 5, 6, &[5, 6, 6, 3]),
        (30, 0, 11, &[11, 11, 8]),
        (5, 6, 8, &[5]),
    ];
    for (rows, room, limit, slices) in table {
        let world = World::new(splitting(limit));
        let before = (limit - room) % limit;
        let first = (before > 0).then(|| world.rows(before, 1.0));
        let cut = world.rows(rows, 2.0);
        let batches = world.batches();
        let of_cut = |batch: &Batch| batch.pieces.iter().find(|piece| piece.pending.rows == rows).map(|p| p.rows());
        assert_eq!(batches.iter().filter_map(of_cut).collect::<Vec<_>>(), slices, "{rows} rows, {room} of {limit}");
        batches.into_iter().for_each(answer);
        assert_eq!(cut.numbers(), vec![3.0; rows], "whole again, in order");
        drop(first);
        world.assert_nothing_held();
    }
}

#[test]
fn mixed_sizes_are_packed_in_the_order_of_their_arrival() {
    // In TensorFlow Serving the last batch waits for its timeout; without one it goes as soon as a worker is free.
    let table: [(BatchSettings, &[usize], &[&[usize]]); 2] = [
        (settings(), &[3, 5, 3, 1, 6], &[&[3, 5], &[3, 1, 6]]),
        (splitting(10), &[3, 5, 3, 1, 6, 1], &[&[3, 5, 2], &[1, 1, 6, 1]]),
    ];
    for (settings, rows, batches) in table {
        let world = World::new(settings);
        let calls: Vec<Call> = rows.iter().map(|rows| world.rows(*rows, 1.0)).collect();
        assert_eq!(formed(&world), batches);
        drop(calls);
    }
}

#[test]
fn capacity_counts_down_to_nothing_and_then_says_so() {
    for batches in [1, 2, 5] {
        let world = World::new(BatchSettings { max_batch_size: 2, max_enqueued_batches: batches, ..settings() });
        let waiting: Vec<Call> = (0..2 * batches).map(|_| world.rows(1, 1.0)).collect();
        let error = world.rows(1, 1.0).error();
        let detail = format!("currently {batches} batches enqueued and max_enqueued_batches is {batches}");
        assert_eq!(error.message, format!("{FULL}{detail}"));
        assert_eq!((error.code, error.reason), (Code::Unavailable, Reason::QueueFull));
        assert!(error.retry_after.is_some(), "TensorFlow Serving does not say when to come back");
        assert!(world.call("second", floats(&[1], &[1.0])).is_waiting(), "the other queue is unaffected");
        drop(waiting);
    }
}

#[test]
fn with_splitting_the_refusal_has_all_numbers() {
    let text = |size, capacity, batches, most, open| {
        format!(
            "{FULL}task size is {size} but scheduling capacity is only {capacity} (num_enqueued_batches={batches}, \
             max_enqueued_batches={most}, open_batch_size={open}, max_execution_batch_size=4)"
        )
    };
    // (rows that wait, rows that come) with batches of 4, of which 2 may wait.
    let table = [
        (0, 9, text(9, 8, 1, 2, 0)),
        (3, 6, text(6, 5, 1, 2, 3)),
        (4, 5, text(5, 4, 1, 2, 4)),
        (5, 4, text(4, 3, 2, 2, 1)),
        (8, 1, text(1, 0, 2, 2, 4)),
    ];
    for (waiting, rows, expected) in table {
        let world = World::new(BatchSettings { max_enqueued_batches: 2, ..splitting(4) });
        let before = (waiting > 0).then(|| world.rows(waiting, 1.0));
        let error = world.rows(rows, 1.0).error();
        assert_eq!((error.code, &*error.message), (Code::Unavailable, &*expected), "{rows} to {waiting}");
        drop(before);
    }
}

/// TensorFlow Serving counts batches, which mixed sizes leave half empty; Poise counts rows, of which as many as fill
/// the batches may wait.
#[test]
fn what_waits_is_counted_in_rows_and_not_in_batches() {
    let world = World::new(BatchSettings { max_batch_size: 3, max_enqueued_batches: 2, ..settings() });
    let calls = [world.rows(2, 1.0), world.rows(2, 1.0), world.rows(2, 1.0)];
    assert_eq!(world.rows(1, 1.0).error().code, Code::Unavailable);
    assert_eq!(formed(&world), [[2], [2], [2]]);
    drop(calls);
}

#[test]
fn requests_larger_than_they_may_be_are_refused() {
    let execution = BatchSettings { max_execution_batch_size: 2, ..splitting(3) };
    let table = [
        (BatchSettings { max_batch_size: 3, ..settings() }, Some(3)),
        (execution, Some(3)),
        // TensorFlow Serving has this bound with splitting too; here it is one only where it was set apart.
        (splitting(3), None),
    ];
    for (settings, most) in table {
        let world = World::new(settings);
        let mut call = world.rows(4, 1.0);
        match most {
            None => assert!(call.is_waiting()),
            Some(most) => {
                let error = call.error();
                let text = format!("Task size 4 is larger than maximum input batch size {most}");
                assert_eq!((error.code, error.message.as_ref()), (Code::InvalidArgument, text.as_str()));
            }
        }
        assert_eq!(world.metric("poise_batch_size_rows_count"), 0.0, "no metric moves");
    }
}

#[test]
fn inputs_must_have_the_same_number_of_rows() {
    let float = |name| spec(name, DType::Float, None);
    let two = Signature { inputs: vec![float("x"), float("y")], ..half_plus_two("two", true) };
    let inputs = || vec![floats(&[1], &[1.0]), floats(&[2], &[1.0, 2.0])];
    let world = World::with_signatures(settings(), vec![two.clone()]);
    let error = world.endpoint("two").check(inputs()).unwrap_err();
    assert_eq!(error.message, "Batching Run() input tensors must have equal 0th-dimension size");
    assert_eq!(error.code, Code::InvalidArgument);
    // Without batching the model may take what it likes.
    let world = World::with_signatures(BatchSettings { enable_batching: false, ..settings() }, vec![two]);
    assert!(world.endpoint("two").check(inputs()).is_ok());
}

/// TensorFlow Serving refuses scalars and signatures without inputs when it batches; here they run alone.
#[test]
fn scalars_run_alone() {
    let world = World::new(settings());
    let calls = [world.call("first", floats(&[], &[6.0])), world.call("first", floats(&[], &[8.0]))];
    assert_eq!(world.serve(), 2);
    assert_eq!(calls.map(Call::numbers), [[5.0], [6.0]]);
}

/// In TensorFlow Serving both fail, with FAILED_PRECONDITION; here shapes that differ never meet.
#[test]
fn shapes_that_differ_without_padding_are_answered_apart() {
    let world = World::new(settings());
    let one = world.call("first", floats(&[3, 1, 1], &[1.0, 2.0, 3.0]));
    let other = world.call("first", floats(&[1, 2], &[1.0, 2.0]));
    assert_eq!(world.serve(), 2);
    assert_eq!((one.numbers().len(), other.numbers().len()), (3, 2));
}

/// TensorFlow Serving pads as well, and leaves the padding in the answer; here the answer has the request's own shape.
#[test]
fn padded_rows_come_back_cropped() {
    let world = World::new(BatchSettings { max_batch_size: 2, pad_variable_length_inputs: true, ..settings() });
    let small = world.call("first", floats(&[1, 2, 2], &[1.0, 2.0, 3.0, 4.0]));
    let large = world.call("first", floats(&[1, 3, 3], &[5.0, 6.0, 7.0, 8.0, 9.0, 10.0, 11.0, 12.0, 13.0]));
    assert_eq!(world.serve(), 1);
    let answer = small.outcome().unwrap();
    assert_eq!(answer[1].shape(), [1, 2, 2]);
    assert_eq!(values(&answer[1]), [2.5, 3.0, 3.5, 4.0]);
    assert_eq!(large.numbers(), [4.5, 5.0, 5.5, 6.0, 6.5, 7.0, 7.5, 8.0, 8.5]);
}

#[test]
fn timeouts_are_exact_to_the_microsecond() {
    let world = World::new(BatchSettings { max_batch_size: 4, batch_timeout_micros: 10, ..settings() });
    let start = world.clock.now();
    let at = |micros| start + Duration::from_micros(micros);
    let calls = [world.rows(1, 1.0)];
    world.advance(9);
    assert!(matches!(world.next(), Next::WaitUntil(time) if time == at(10)));
    world.advance(1);
    assert_eq!(formed(&world), [[1]]);
    let more = [world.rows(2, 1.0), world.rows(3, 1.0)];
    assert_eq!(formed(&world), [[2]], "what overflows closes the batch before it");
    world.advance(10);
    assert_eq!(formed(&world), [[3]], "and has a timeout of its own");
    drop((calls, more));
}

#[test]
fn queues_take_turns() {
    let world = World::new(BatchSettings { max_batch_size: 1, ..settings() });
    let call = |signature: &str| world.call(signature, floats(&[1], &[1.0]));
    let calls = [call("first"), call("first"), call("first"), call("second")];
    let order: Vec<String> = world.batches().iter().map(|batch| batch.endpoint.signature.name.clone()).collect();
    assert_eq!(order, ["first", "second", "first", "first"]);
    drop(calls);
}

/// RESOURCE_EXHAUSTED in TensorFlow Serving, and only when all requests of a batch are late; here each has its own
/// deadline, and the code that gRPC has for it.
#[tokio::test(start_paused = true)]
async fn a_request_that_is_late_does_not_run() {
    let world = World::new(settings());
    let deadline = Some(world.clock.now() + Duration::from_micros(5));
    let late = world.call_with("first", vec![floats(&[1], &[1.0])], &[], deadline);
    let patient = world.rows(1, 6.0);
    world.advance(5);
    assert_eq!(formed(&world), [[1]]);
    assert_eq!(late.error().code, Code::DeadlineExceeded);
    drop(patient);
}

/// One queue for each set of outputs in TensorFlow Serving; here they share batches.
#[test]
fn filters_of_outputs_do_not_keep_requests_apart() {
    let world = World::new(settings());
    let call = |outputs: &[&str]| world.call_with("first", vec![floats(&[1], &[6.0])], outputs, None);
    let calls = [call(&["half"]), call(&["copy", "half"]), call(&["half", "copy"])];
    assert_eq!(formed(&world), [[1, 1, 1]]);
    drop(calls);
}

mod without_batching {
    use super::*;

    fn unbatched() -> BatchSettings {
        BatchSettings { enable_batching: false, ..settings() }
    }

    #[test]
    fn every_request_runs_alone_whatever_its_rows() {
        let world =
            World::new(BatchSettings { batch_timeout_micros: 0, allowed_batch_sizes: vec![4, 10], ..unbatched() });
        let calls = [world.rows(1, 6.0), world.rows(3, 8.0), world.rows(25, 2.0)];
        let batches = world.batches();
        let shapes: Vec<_> = batches.iter().map(|batch| batch.pieces[0].pending.inputs[0].shape().to_vec()).collect();
        assert_eq!(shapes, [[1], [3], [25]], "as they came: not joined, not padded, not cut, not refused");
        batches.into_iter().for_each(answer);
        assert_eq!(calls.map(Call::numbers), [vec![5.0], vec![6.0; 3], vec![3.0; 25]]);
        world.assert_nothing_held();
    }

    #[test]
    fn a_timeout_keeps_nobody_waiting() {
        let world = World::new(BatchSettings { batch_timeout_micros: 1_000_000, ..unbatched() });
        let calls = [world.rows(1, 1.0), world.rows(1, 1.0)];
        assert_eq!(formed(&world), [[1], [1]]);
        drop(calls);
    }

    #[test]
    fn the_queue_is_bounded_in_requests_and_bytes() {
        let settings = BatchSettings { max_batch_size: 2, max_enqueued_batches: 3, ..unbatched() };
        let world = World::new(settings.clone());
        let calls: Vec<Call> = (0..6).map(|_| world.rows(7, 1.0)).collect();
        let error = world.rows(1, 1.0).error();
        assert_eq!(error.message, format!("{FULL}currently 3 batches enqueued and max_enqueued_batches is 3"));
        drop(calls);
        world.assert_nothing_held();

        let world = World::new(BatchSettings { max_enqueued_bytes: 40, ..settings });
        let large = world.rows(100, 1.0);
        assert!(world.rows(1, 1.0).error().message.contains("max_enqueued_bytes is 40"));
        drop(large);
    }

    #[test]
    fn outputs_may_have_any_shape() {
        let world = World::new(unbatched());
        let call = world.rows(3, 1.0);
        world.batch().complete(vec![floats(&[], &[1.0]), floats(&[2], &[7.0, 8.0])], Default::default());
        assert_eq!(call.numbers(), [7.0, 8.0]);
    }
}
