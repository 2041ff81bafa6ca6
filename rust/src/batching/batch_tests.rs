use super::*;
use crate::batching::testing::{Call, World, answer, floats, inputs, model_failed, outputs, settings, sizes, values};
use crate::clock::Clock as _;
use crate::config::BatchSettings;

fn splitting() -> BatchSettings {
    BatchSettings { enable_large_batch_splitting: true, ..settings() }
}

/// One request a value, one row each.
fn requests(world: &World, values: &[f32]) -> Vec<Call> {
    values.iter().map(|value| world.rows(1, *value)).collect()
}

/// The numbers of each request that was answered; `None` where it failed.
fn outcomes(calls: Vec<Call>) -> Vec<Option<f32>> {
    calls.into_iter().map(|call| call.outcome().ok().map(|answer| values(&answer[1])[0])).collect()
}

#[test]
fn batches_are_padded_to_an_allowed_size() {
    let table: [(&[usize], usize); 3] = [(&[2, 4], 2), (&[1, 3, 4], 3), (&[], 2)];
    for (allowed, executed) in table {
        let settings = BatchSettings { max_batch_size: 4, allowed_batch_sizes: allowed.to_vec(), ..settings() };
        let world = World::new(settings);
        let call = world.rows(2, 6.0);
        let batch = world.batch();
        assert_eq!((batch.rows, batch.executed_rows), (2, executed), "{allowed:?}");
        answer(batch);
        assert_eq!(call.numbers(), [5.0, 5.0], "{allowed:?}");
        assert_eq!(world.metric("poise_padding_rows_total"), (executed - 2) as f64, "{allowed:?}");
        assert_eq!(world.metric("poise_batch_size_rows_sum"), 2.0, "{allowed:?}");
        world.assert_nothing_held();
    }
}

#[test]
fn padding_repeats_the_first_row_of_the_last_request() {
    let world = World::new(BatchSettings { allowed_batch_sizes: vec![5, 10], ..settings() });
    let _calls = (world.rows(1, 1.0), world.call("first", floats(&[2], &[2.0, 3.0])));
    assert_eq!(inputs(&world.batch()), [1.0, 2.0, 3.0, 2.0, 2.0]);
}

#[test]
fn requests_share_a_batch_whatever_outputs_they_want() {
    let world = World::new(settings());
    let call = |value, names: &[&str]| world.call_with("first", vec![floats(&[1], &[value])], names, None);
    let (copy, half, all) = (call(6.0, &["copy"]), call(8.0, &["half"]), call(2.0, &[]));
    let batch = world.batch();
    assert_eq!(batch.wanted.as_slice(), [0, 1]);
    answer(batch);
    assert_eq!(copy.numbers(), [6.0]);
    assert_eq!(half.numbers(), [6.0]);
    let all: Vec<Vec<f32>> = all.outcome().unwrap().iter().map(values).collect();
    assert_eq!(all, [[2.0], [3.0]]);
}

#[test]
fn outputs_that_nobody_wants_are_not_asked_for() {
    let world = World::new(settings());
    let call = |value| world.call_with("first", vec![floats(&[1], &[value])], &["half"], None);
    let calls = [call(2.0), call(4.0)];
    assert_eq!(world.batch().wanted.as_slice(), [1]);
    drop(calls);
}

#[test]
fn outputs_must_have_the_rows_of_the_batch() {
    let rows = "Batched output tensor's 0th dimension does not equal the sum of the 0th dimension sizes of the input \
                tensors (output half: expected 2 but got";
    let table: [(&str, Vec<Tensor>, String); 4] = [
        (
            "a scalar",
            vec![floats(&[2], &[0.0; 2]), floats(&[], &[0.0])],
            "Batched output tensor has 0 dimensions (output half)".into(),
        ),
        ("too few", vec![floats(&[2], &[0.0; 2]), floats(&[1], &[0.0])], format!("{rows} 1)")),
        ("too many", vec![floats(&[2], &[0.0; 2]), floats(&[3], &[0.0; 3])], format!("{rows} 3)")),
        ("one is missing", vec![floats(&[2], &[0.0; 2])], "expected 2 outputs but got 1".into()),
    ];
    for (name, outputs, expected) in table {
        let world = World::new(settings());
        let call = world.rows(2, 1.0);
        world.batch().complete(outputs, Timing::default());
        let error = call.error();
        assert_eq!((error.reason, &*error.message), (Reason::ModelOutput, &*expected), "{name}");
        world.assert_nothing_held();
    }
}

#[test]
fn a_request_that_runs_whole_may_get_any_shape() {
    let world = World::new(settings());
    let call = world.call("alone", floats(&[2], &[1.0, 2.0]));
    world.batch().complete(vec![floats(&[], &[7.0]), floats(&[3], &[1.0, 2.0, 3.0])], Timing::default());
    assert_eq!(call.numbers(), [1.0, 2.0, 3.0]);
}

#[test]
fn the_guilty_request_is_found_and_its_neighbours_are_answered() {
    for requests_in_batch in 2..=10 {
        for guilty in 0..requests_in_batch {
            let world = World::new(settings());
            let mut numbers = vec![6.0; requests_in_batch];
            numbers[guilty] = -1.0;
            let calls = requests(&world, &numbers);
            let runs = world.serve_poisoned(-1.0);
            let bound = 1 + policy::isolation_budget(requests_in_batch) as usize;
            assert!(runs <= bound, "{runs} runs for {requests_in_batch} requests");
            let mut expected = vec![Some(5.0); requests_in_batch];
            expected[guilty] = None;
            assert_eq!(outcomes(calls), expected, "{guilty} of {requests_in_batch}");
            assert_eq!(world.metric("poise_reruns_total"), (runs - 1) as f64);
            world.assert_nothing_held();
        }
    }
}

#[test]
fn the_bound_follows_the_requests_and_not_their_rows() {
    let world = World::new(settings());
    let calls = [world.rows(5, -1.0), world.rows(5, -1.0)];
    assert_eq!(world.serve_poisoned(-1.0), 3);
    assert!(calls.into_iter().all(|call| call.error() == model_failed()));
}

#[test]
fn when_the_bound_is_reached_everybody_is_told() {
    let world = World::new(settings());
    let calls = requests(&world, &[-1.0; 10]);
    let runs = world.serve_poisoned(-1.0);
    assert_eq!(runs, 1 + policy::isolation_budget(10) as usize);
    assert!(calls.into_iter().all(|call| call.error() == model_failed()));
    world.assert_nothing_held();
}

#[test]
fn rows_that_the_model_names_are_the_guilty_ones() {
    // Requests of 1, 2 and 1 rows, padded to 6.
    let table: [(&str, &[usize], [bool; 3], usize); 5] = [
        ("a row", &[2], [true, false, true], 1),
        ("two requests", &[0, 3], [false, true, false], 1),
        ("padding is the last request's", &[5], [true, true, false], 1),
        ("all of them", &[0, 1, 2, 3], [false, false, false], 0),
        ("rows that do not exist name nobody", &[6, usize::MAX], [true, true, true], 2),
    ];
    for (name, guilty, answered, reruns) in table {
        let world = World::new(BatchSettings { allowed_batch_sizes: vec![6, 10], ..settings() });
        let calls = [world.rows(1, 1.0), world.rows(2, 1.0), world.rows(1, 1.0)];
        world.batch().fail(model_failed(), guilty);
        assert_eq!(world.serve(), reruns, "{name}");
        assert_eq!(calls.map(|call| call.outcome().is_ok()), answered, "{name}");
        world.assert_nothing_held();
    }
}

#[test]
fn without_isolation_a_batch_fails_as_one() {
    let world = World::new(BatchSettings { isolate_failures: false, ..settings() });
    let calls = requests(&world, &[1.0, -1.0]);
    assert_eq!(world.serve_poisoned(-1.0), 1);
    assert!(calls.into_iter().all(|call| call.error() == model_failed()));
    world.assert_nothing_held();
}

#[test]
fn who_has_gone_is_not_run_again() {
    let world = World::new(settings());
    let mut calls = requests(&world, &[1.0, 2.0, 3.0, 4.0]);
    let batch = world.batch();
    calls.truncate(2);
    batch.fail(model_failed(), &[]);
    assert_eq!(world.batches().iter().map(sizes).collect::<Vec<_>>(), [[1, 1]]);
}

#[test]
fn a_lost_batch_fails_unless_it_may_be_retried() {
    let lost = Error::internal("lost");
    let world = World::new(settings());
    let calls = requests(&world, &[1.0, 2.0]);
    world.batch().lost(lost.clone());
    assert!(calls.into_iter().all(|call| call.error() == lost));
    world.assert_nothing_held();
}

#[test]
fn a_lost_batch_is_retried_once() {
    let (lost, retry) = (Error::internal("lost"), BatchSettings { retry_lost_batches: true, ..settings() });
    let world = World::new(retry);
    let lucky = requests(&world, &[6.0, 8.0]);
    world.batch().lost(lost.clone());
    let _later = world.rows(1, 1.0);
    let batch = world.batch();
    assert_eq!(sizes(&batch), [1, 1], "as it was, and before what came later");
    answer(batch);
    assert_eq!(outcomes(lucky), [Some(5.0), Some(6.0)]);
    drop((_later, world.batches()));

    let unlucky = requests(&world, &[1.0, 2.0]);
    world.batch().lost(lost.clone());
    world.batch().fail(model_failed(), &[]);
    world.batch().lost(lost.clone());
    assert_eq!(world.serve(), 1, "the other half");
    assert_eq!(outcomes(unlucky), [None, Some(3.0)]);
    world.assert_nothing_held();
}

#[test]
fn a_batch_that_never_ran_goes_back_unharmed() {
    let world = World::new(settings());
    let calls = requests(&world, &[6.0, 8.0]);
    world.advance(1000);
    world.batch().put_back();
    let later = world.rows(1, 2.0);
    let batch = world.batch();
    assert_eq!(sizes(&batch), [1, 1], "as it was, and before what came later");
    answer(batch);
    assert_eq!(outcomes(calls), [Some(5.0), Some(6.0)]);
    assert_eq!(world.metric("poise_queue_wait_seconds_count"), 2.0, "each waited once");
    assert_eq!(world.metric("poise_reruns_total") + world.metric("poise_dropped_batches_total"), 0.0);
    assert_eq!(world.serve(), 1);
    drop(later);
    world.assert_nothing_held();
}

#[test]
fn what_is_known_of_a_batch_stays_known_when_it_goes_back() {
    let lost = Error::internal("lost");
    let world = World::new(BatchSettings { retry_lost_batches: true, ..settings() });
    let calls = requests(&world, &[1.0, 2.0]);
    world.batch().lost(lost.clone());
    world.batch().put_back();
    world.batch().lost(lost.clone());
    assert!(calls.into_iter().all(|call| call.error() == lost), "it has been retried already");

    let calls = requests(&world, &[-1.0; 10]);
    let mut runs = 0;
    while let crate::batching::version::Next::Batch(batch) = world.next() {
        if runs % 2 == 0 {
            batch.put_back()
        } else {
            batch.fail(model_failed(), &[])
        }
        runs += 1;
    }
    assert_eq!(runs / 2, 1 + policy::isolation_budget(10) as usize, "the budget is spent by runs alone");
    assert!(calls.into_iter().all(|call| call.error() == model_failed()));
    world.assert_nothing_held();
}

#[tokio::test(start_paused = true)]
async fn a_batch_that_went_back_keeps_its_deadlines() {
    let world = World::new(settings());
    let deadline = Some(world.clock.now() + Duration::from_micros(10));
    let late = world.call_with("first", vec![floats(&[1], &[1.0])], &[], deadline);
    let patient = world.rows(1, 6.0);
    world.batch().put_back();
    world.advance(10);
    assert_eq!(sizes(&world.batch()), [1], "the late one does not run");
    assert_eq!(late.error().code, Code::DeadlineExceeded);
    drop(patient);
}

#[test]
fn a_batch_may_go_back_to_a_version_that_retires() {
    let world = World::new(settings());
    let call = world.rows(1, 6.0);
    let batch = world.batch();
    world.version.retire();
    batch.put_back();
    assert_eq!(world.serve(), 1);
    assert_eq!(call.numbers(), [5.0]);

    let world = World::new(settings());
    let gone = world.rows(1, 6.0);
    let batch = world.batch();
    drop(gone);
    world.version.retire();
    batch.put_back();
    assert!(matches!(world.next(), crate::batching::version::Next::Close), "nobody waits for it");
    world.assert_nothing_held();
}

#[test]
fn a_dropped_batch_fails_and_is_counted() {
    let world = World::new(settings());
    let calls = requests(&world, &[1.0, 2.0]);
    drop(world.batch());
    for call in calls {
        assert_eq!(call.error().message, "the batch was dropped by its owner");
    }
    assert_eq!(world.metric("poise_dropped_batches_total"), 1.0);
    world.assert_nothing_held();
}

#[test]
fn split_requests_are_answered_whole_and_in_order() {
    let settings = BatchSettings { max_batch_size: 3, max_execution_batch_size: 2, ..splitting() };
    let world = World::new(settings);
    let calls = [world.rows(1, 2.0), world.call("first", floats(&[3], &[4.0, 6.0, 8.0]))];
    let mut batches = world.batches();
    assert_eq!(batches.iter().map(sizes).collect::<Vec<_>>(), [vec![1, 1], vec![2]]);
    batches.reverse();
    batches.into_iter().for_each(answer);
    assert_eq!(calls.map(Call::numbers), [vec![3.0], vec![4.0, 5.0, 6.0]]);
    world.assert_nothing_held();
}

#[test]
fn a_part_that_fails_ends_its_request_and_no_other() {
    let world = World::new(splitting());
    let (cut, stays) = (world.rows(25, -1.0), world.rows(3, 6.0));
    world.batch().fail(model_failed(), &[]);
    assert_eq!(cut.error(), model_failed());
    assert_eq!(world.version.holdings().rows, 3, "the parts that waited have left");
    assert_eq!(world.metric("poise_withdrawn_requests_total"), 0.0, "nobody withdrew");
    assert_eq!(world.serve(), 1);
    assert_eq!(stays.numbers(), [5.0; 3]);
    world.assert_nothing_held();
}

#[test]
fn parts_that_came_before_a_failure_are_forgotten() {
    let world = World::new(splitting());
    let cut = world.rows(15, 1.0);
    let mut batches = world.batches();
    let second = batches.pop().unwrap();
    answer(batches.pop().unwrap());
    second.fail(model_failed(), &[]);
    assert_eq!(cut.error(), model_failed());
    world.assert_nothing_held();
}

#[test]
fn parts_must_agree_on_the_shape_of_outputs() {
    let world = World::new(splitting());
    let cut = world.rows(15, 1.0);
    for (width, batch) in world.batches().into_iter().enumerate() {
        let output = floats(&[batch.rows, width], &vec![0.0; batch.rows * width]);
        batch.complete(vec![output.clone(), output], Timing::default());
    }
    let error = cut.error();
    assert_eq!((error.code, error.reason), (Code::FailedPrecondition, Reason::ModelOutput));
    world.assert_nothing_held();
}

#[test]
fn outputs_share_the_memory_of_the_batch() {
    let world = World::new(settings());
    let calls = requests(&world, &[1.0, 2.0]);
    let batch = world.batch();
    let outputs = outputs(&batch);
    let crate::tensor::Data::Fixed(bytes) = outputs[1].data().clone() else { panic!("floats") };
    batch.complete(outputs, Timing::default());
    for (row, call) in calls.into_iter().enumerate() {
        let answer = call.outcome().unwrap();
        let crate::tensor::Data::Fixed(slice) = answer[1].data() else { panic!("floats") };
        assert_eq!(slice.as_ptr(), bytes[row * 4..].as_ptr());
    }
}

fn ran(took: u64, ahead: u64) -> Timing {
    Timing { took: micros(took), ahead: micros(ahead), ..Timing::default() }
}

fn micros(count: u64) -> Duration {
    Duration::from_micros(count)
}

#[test]
fn an_answer_tells_how_long_it_waited_and_ran_and_with_how_many() {
    let world = World::new(BatchSettings { allowed_batch_sizes: vec![8], ..settings() });
    let early = world.rows(2, 1.0);
    world.advance(300);
    let late = world.rows(1, 1.0);
    world.advance(40);
    let batch = world.batch();
    let outputs = outputs(&batch);
    batch.complete(outputs, ran(900, 100));
    let (early, late) = (early.stages(), late.stages());
    // What ran before on the same worker was waited for too.
    assert_eq!((early.queue, late.queue), (micros(440), micros(140)));
    assert_eq!((early.execute, late.execute), (micros(800), micros(800)));
    assert_eq!((early.rows, late.rows), (3, 3));
    let whole = micros(440 + 800 + 25);
    assert_eq!(early.batch(early.admitted + whole), micros(25));
    assert_eq!(early.batch(early.admitted), Duration::ZERO);
}

#[test]
fn a_split_request_tells_of_the_batch_that_it_waited_for_last() {
    let world = World::new(splitting());
    let call = world.rows(13, 6.0);
    let first = world.batch();
    world.advance(50);
    let second = world.batch();
    for (batch, took) in [(second, 10), (first, 700)] {
        let outputs = outputs(&batch);
        batch.complete(outputs, ran(took, 0));
    }
    let stages = call.stages();
    assert_eq!((stages.queue, stages.execute, stages.rows), (Duration::ZERO, micros(700), 10));
}

#[test]
fn a_request_that_runs_alone_tells_of_its_own_rows_if_it_has_any() {
    for (signature, enable_batching, rows) in [("alone", true, 1), ("first", true, 3), ("first", false, 3)] {
        let world = World::new(BatchSettings { enable_batching, ..settings() });
        let call = world.call(signature, floats(&[3], &[1.0; 3]));
        world.serve();
        assert_eq!(call.stages().rows, rows, "{signature}, batching {enable_batching}");
    }
}
