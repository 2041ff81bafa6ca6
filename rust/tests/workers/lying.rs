//! Workers that break the protocol, or give answers that cannot be true.

use std::os::fd::OwnedFd;

use poise_core::error::{Code, Reason};
use poise_core::tensor::DType;
use poise_core::workers::arena::Segment;
use poise_core::workers::message::{Done, FromWorker, LONGEST, Ready, TensorPlace, WorkerSays};
use prost::Message;
use rustix::fs::{MemfdFlags, ftruncate, memfd_create};

use crate::support::{Liar, World, first, floats, settings};

fn done(id: u64, outputs: Vec<TensorPlace>) -> WorkerSays {
    WorkerSays::Done(Done { id, outputs, interpreter_wait_ns: 0 })
}

fn place() -> TensorPlace {
    TensorPlace { index: 0, dtype: DType::Float as u32, shape: vec![1], offset: 0, len: 4 }
}

fn unsealed() -> OwnedFd {
    let file = memfd_create("unsealed", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING).unwrap();
    ftruncate(&file, 1 << 16).unwrap();
    file
}

/// A name, what the liar does with the batch of this id, and what is said of it.
type Lie = (&'static str, Box<dyn Fn(&Liar, u64)>, &'static str);

#[test]
fn a_worker_that_breaks_the_protocol_is_given_up() {
    let ready = || WorkerSays::Ready(Ready { signatures: String::new(), pid: 0 });
    let table: Vec<Lie> = vec![
        (
            "another batch's answer",
            Box::new(|liar, id| liar.say(done(id + 1, vec![place()]))),
            "broke the protocol: the answer to a batch that it was not given",
        ),
        ("ready twice", Box::new(move |liar, _| liar.say(ready())), "a message that does not fit its state"),
        ("garbage", Box::new(|liar, _| liar.say_bytes(&[0xFF; 32])), "broke the protocol: "),
        (
            "half a message",
            Box::new(|liar, id| {
                let packet = FromWorker { says: Some(done(id, vec![place()])) }.encode_to_vec();
                liar.say_bytes(&packet[..packet.len() - 2]);
            }),
            "broke the protocol: ",
        ),
        (
            "too long a message",
            Box::new(|liar, _| liar.say_bytes(&vec![0; LONGEST + 1])),
            "its channel broke: a message longer than the protocol allows",
        ),
        (
            "memory that could shrink",
            Box::new(|liar, id| liar.say_with(done(id, vec![place()]), unsealed())),
            "a memory segment is not sealed against shrinking",
        ),
        (
            "a file that is no memory",
            Box::new(|liar, id| liar.say_with(done(id, vec![place()]), &liar.socket)),
            "broke the protocol: ",
        ),
    ];
    for (name, lie, expected) in table {
        let world = World::new(settings());
        let liar = Liar::new(&world).ready();
        let call = world.ask("floats", floats(&[1], 1.0));
        lie(&liar, liar.batch().id);
        let why = world.why_lost();
        assert!(why.contains(expected), "{name}: {why}");
        let error = world.outcome(call).unwrap_err();
        assert_eq!((error.code, error.reason), (Code::Internal, Reason::WorkerLost), "{name}");
        assert!(error.message.starts_with("the worker was lost while it ran this request: "), "{name}: {error}");
        world.assert_nothing_held();
        assert!(world.telemetry.text().contains("poise_workers_lost_total 1"), "{name}");
    }
}

#[test]
fn outputs_that_cannot_be_believed_fail_their_request_only() {
    let table: Vec<(&str, Vec<TensorPlace>, &str)> = vec![
        ("none", vec![], "output y: the model did not return it"),
        ("beyond the end", vec![TensorPlace { offset: 1 << 40, ..place() }], "it lies outside the worker's memory"),
        ("overflowing", vec![TensorPlace { offset: u64::MAX, ..place() }], "it lies outside the worker's memory"),
        ("vast", vec![TensorPlace { len: u64::MAX, ..place() }], "it lies outside the worker's memory"),
        ("too short", vec![TensorPlace { len: 3, ..place() }], "needs 4 bytes but got 3"),
        ("impossible shape", vec![TensorPlace { shape: vec![1 << 40, 1 << 40], ..place() }], "too many elements"),
        (
            "another dtype",
            vec![TensorPlace { dtype: DType::Int64 as u32, ..place() }],
            "expected float but the model returned int64",
        ),
        (
            "no dtype",
            vec![TensorPlace { dtype: 999, ..place() }],
            "expected float but the model returned an unknown type",
        ),
        (
            "too many rows",
            vec![TensorPlace { shape: vec![2], len: 8, ..place() }],
            "Batched output tensor's 0th dimension does not equal",
        ),
        ("a scalar", vec![TensorPlace { shape: vec![], ..place() }], "Batched output tensor has 0 dimensions"),
    ];
    let world = World::new(settings());
    let liar = Liar::new(&world).ready();
    let memory = Segment::create(1).unwrap();
    for (name, outputs, expected) in table {
        let call = world.ask("floats", floats(&[1], 1.0));
        liar.say_with(done(liar.batch().id, outputs), memory.descriptor());
        let error = world.outcome(call).unwrap_err();
        assert!(error.message.contains(expected), "{name}: {error}");
        assert_eq!(error.reason, Reason::ModelOutput, "{name}");
        world.assert_nothing_held();
    }
    let call = world.ask("floats", floats(&[1], 1.0));
    liar.say(done(liar.batch().id, vec![place()]));
    assert_eq!(first(&world.outcome(call).unwrap()), 0.0, "it still serves, from the memory that it handed over");
}

#[test]
fn outputs_need_memory_that_was_handed_over() {
    let world = World::new(settings());
    let liar = Liar::new(&world).ready();
    let call = world.ask("floats", floats(&[1], 1.0));
    liar.say(done(liar.batch().id, vec![place()]));
    assert!(world.outcome(call).unwrap_err().message.contains("no memory was handed over"));
}

#[test]
fn a_second_answer_to_a_batch_changes_nothing() {
    let world = World::new(settings());
    let liar = Liar::new(&world).ready();
    let call = world.ask("floats", floats(&[1], 1.0));
    let (id, memory) = (liar.batch().id, Segment::create(4).unwrap());
    memory.write(0, &6.5_f32.to_le_bytes());
    liar.say_with(done(id, vec![place()]), memory.descriptor());
    liar.say(done(id, vec![place()]));
    assert_eq!(world.why_lost(), "broke the protocol: an answer though it was given no batch");
    assert_eq!(first(&world.outcome(call).unwrap()), 6.5);
    world.assert_nothing_held();
}

#[test]
fn an_answer_before_readiness_is_nonsense() {
    let world = World::new(settings());
    let liar = Liar::new(&world);
    liar.say(done(1, vec![]));
    assert_eq!(world.why_lost(), "broke the protocol: an answer though it was given no batch");
}
