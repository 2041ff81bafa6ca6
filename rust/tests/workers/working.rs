//! Workers that do what they are asked to.

use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use bytes::Bytes;
use poise_core::config::BatchSettings;
use poise_core::error::Code;
use poise_core::events::Event;
use poise_core::tensor::Tensor;

use crate::support::{Reply, World, first, floats, settings, work};

#[test]
fn tensors_come_back_as_they_went() {
    let world = World::new(settings());
    let worker = work(world.attach(), |_, _| Reply::Echo);
    let strings = ["", "short", "a string that is somewhat longer"].map(|text| Bytes::from_static(text.as_bytes()));
    let inputs = [
        ("floats", floats(&[1, 64], 1.5)),
        ("floats", floats(&[16, 16 * 1024], 2.5)), // 1 MiB: both segments grow
        ("floats", floats(&[3], 3.5)),
        ("floats", floats(&[], 4.5)),
        ("floats", floats(&[0, 3], 0.0)),
        ("floats", floats(&[2, 0], 0.0)),
        ("texts", Tensor::strings([3].as_slice().into(), strings.to_vec()).unwrap()),
        ("texts", Tensor::strings([1].as_slice().into(), vec![vec![b'x'; 1 << 20].into()]).unwrap()),
    ];
    for (signature, input) in inputs {
        for _ in 0..3 {
            let answer = world.outcome(world.ask(signature, input.clone())).unwrap();
            assert_eq!(answer.as_slice(), std::slice::from_ref(&input));
        }
    }
    world.version.retire();
    assert_eq!(world.event(), Event::WorkerClosed(7));
    assert_eq!(worker.join().unwrap(), 24);
    world.assert_nothing_held();
}

#[test]
fn many_requests_share_batches_and_each_gets_its_own_rows() {
    let world = World::new(settings());
    let socket = world.attach();
    let calls: Vec<_> = (0..200).map(|value| world.ask("floats", floats(&[1, 4], value as f32))).collect();
    let worker = work(socket, |_, _| Reply::Echo);
    for (value, call) in calls.into_iter().enumerate() {
        assert_eq!(first(&world.outcome(call).unwrap()), value as f32);
    }
    world.version.retire();
    assert_eq!(worker.join().unwrap(), 200_usize.div_ceil(16));
    world.assert_nothing_held();
}

#[test]
fn rows_that_the_model_names_fail_and_their_neighbours_do_not() {
    let world = World::new(settings());
    let socket = world.attach();
    let calls: Vec<_> = (0..4).map(|value| world.ask("floats", floats(&[1], value as f32))).collect();
    let worker = work(socket, |run, _| if run.rows == 4 { Reply::Fail(vec![2]) } else { Reply::Echo });
    for (value, call) in calls.into_iter().enumerate() {
        match world.outcome(call) {
            Ok(answer) => assert_eq!((first(&answer), value != 2), (value as f32, true)),
            Err(error) => assert_eq!((value, error.code, &*error.message), (2, Code::InvalidArgument, "bad row")),
        }
    }
    world.version.retire();
    assert_eq!(worker.join().unwrap(), 2);
    world.assert_nothing_held();
}

#[test]
fn a_batch_that_the_worker_drops_is_counted() {
    let world = World::new(settings());
    let _worker = work(world.attach(), |_, _| Reply::Drop);
    let error = world.outcome(world.ask("floats", floats(&[1], 1.0))).unwrap_err();
    assert_eq!((error.code, &*error.message), (Code::Internal, "the worker dropped the batch"));
    assert!(world.telemetry.text().contains("poise_dropped_batches_total 1"));
    world.version.retire();
}

#[test]
fn a_batch_that_was_sent_ahead_waits_while_the_one_before_it_runs() {
    let world = World::new(BatchSettings { max_batch_size: 1, ..settings() });
    let (open, gate) = mpsc::channel::<()>();
    let worker = work(world.attach(), move |_, _| {
        let _ = gate.recv();
        Reply::Echo
    });
    let [before, ahead] = [(), ()].map(|()| world.ask("floats", floats(&[1], 1.0)));
    while world.version.holdings().running < 2 {
        thread::yield_now();
    }
    thread::sleep(Duration::from_millis(50));
    let opened = Instant::now();
    drop(open);
    let (before, ahead) = (world.stages(before), world.stages(ahead));
    assert!(before.execute >= Duration::from_millis(50));
    assert!(ahead.execute <= opened.elapsed());
    world.version.retire();
    assert_eq!(worker.join().unwrap(), 2);
    world.assert_nothing_held();
}
