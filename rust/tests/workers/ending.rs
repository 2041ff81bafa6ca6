//! Workers that die, hang, or are told to end.

use std::time::{Duration, Instant};

use poise_core::config::{BatchSettings, ServerSettings};
use poise_core::error::Reason;
use poise_core::events::Event;
use poise_core::model::Signature;
use poise_core::server::Server;
use poise_core::workers::client::Client;
use poise_core::workers::message::{Failed, WorkerSays};

use crate::support::{Liar, PATIENCE, Reply, SIGNATURES, World, first, floats, settings, work};

#[test]
fn a_worker_that_dies_fails_its_batch() {
    let world = World::new(settings());
    let liar = Liar::new(&world).ready();
    let call = world.ask("floats", floats(&[1], 1.0));
    liar.batch();
    drop(liar);
    assert_eq!(world.why_lost(), "ended");
    assert_eq!(world.outcome(call).unwrap_err().message, "the worker was lost while it ran this request: ended");
    world.assert_nothing_held();
}

#[test]
fn another_worker_takes_over_a_lost_batch_where_that_is_asked_for() {
    let world = World::new(BatchSettings { retry_lost_batches: true, ..settings() });
    let liar = Liar::new(&world).ready();
    let call = world.ask("floats", floats(&[1], 2.5));
    liar.batch();
    let worker = work(world.attach(), |_, _| Reply::Echo);
    drop(liar);
    assert_eq!(first(&world.outcome(call).unwrap()), 2.5);
    assert_eq!(world.why_lost(), "ended");
    world.version.retire();
    assert_eq!(worker.join().unwrap(), 1);
    world.assert_nothing_held();
}

#[test]
fn a_batch_that_a_lost_worker_never_came_to_is_unharmed() {
    let world = World::new(BatchSettings { max_batch_size: 1, ..settings() });
    let liar = Liar::new(&world).ready();
    let running = world.ask("floats", floats(&[1], 1.0));
    liar.batch();
    let ahead = world.ask("floats", floats(&[1], 2.5));
    liar.batch();
    let worker = work(world.attach(), |_, _| Reply::Echo);
    drop(liar);
    assert_eq!(world.outcome(running).unwrap_err().reason, Reason::WorkerLost);
    assert_eq!(first(&world.outcome(ahead).unwrap()), 2.5);
    assert_eq!(world.why_lost(), "ended");
    world.version.retire();
    assert_eq!(worker.join().unwrap(), 1);
    world.assert_nothing_held();
}

#[test]
fn what_a_worker_had_ended_before_it_was_given_up_counts() {
    let world = World::new(BatchSettings { max_batch_size: 1, ..settings() });
    let liar = Liar::new(&world).ready();
    let calls = [world.ask("floats", floats(&[1], 1.0)), world.ask("floats", floats(&[1], 1.0))];
    let [one, _two] = [liar.batch(), liar.batch()];
    world.pause(|| {
        liar.say(WorkerSays::Failed(Failed {
            id: one.id,
            code: 13,
            message: "mine".into(),
            rows: vec![],
            dropped: false,
        }));
        world.detach.notify_one();
    });
    assert_eq!(world.why_lost(), "detached");
    let [ended, running] = calls.map(|call| world.outcome(call).unwrap_err());
    assert_eq!(ended.message, "mine");
    assert_eq!(running.reason, Reason::WorkerLost, "it had come to the second");
    world.assert_nothing_held();
}

#[test]
fn a_worker_that_hangs_is_given_up() {
    let world = World::new(BatchSettings { max_run_s: 0.1, ..settings() });
    let liar = Liar::new(&world).ready();
    let call = world.ask("floats", floats(&[1], 1.0));
    liar.batch();
    assert_eq!(world.why_lost(), "hung: a batch ran longer than max_run_s = 0.1");
    assert_eq!(world.outcome(call).unwrap_err().reason, Reason::WorkerHung);
    world.assert_nothing_held();
}

#[test]
fn a_worker_may_be_given_up_from_outside() {
    let world = World::new(settings());
    let liar = Liar::new(&world).ready();
    let call = world.ask("floats", floats(&[1], 1.0));
    liar.batch();
    world.detach.notify_one();
    assert_eq!(world.why_lost(), "detached");
    assert_eq!(world.outcome(call).unwrap_err().reason, Reason::WorkerLost);
    world.assert_nothing_held();
}

#[test]
fn a_model_that_does_not_load_says_why() {
    let world = World::new(settings());
    let client = Client::new(world.attach(), false).unwrap();
    client.fail_load("é".repeat(5000)).unwrap();
    let Event::WorkerFailed(7, why) = world.event() else { panic!("expected a failed load") };
    assert!(why.starts_with("éé") && why.ends_with("...TRUNCATED") && why.len() < 4200);
}

fn server() -> Server {
    Server::new(ServerSettings {
        grpc: None,
        http: None,
        grpc_socket: None,
        tls_cert: None,
        tls_key: None,
        tls_client_ca: None,
        tls_http: false,
        io_threads: 1,
        max_message_bytes: 1 << 20,
        max_body_bytes_held: 1 << 20,
        max_connections: 1,
        max_concurrent_streams: 1,
        client_timeout_s: 1.0,
        default_timeout_s: 0.0,
        rest_timeout_s: None,
        cors: false,
        tensor_content: false,
        admin: true,
        reflection: false,
        metrics: true,
        tfs_metrics: true,
        monitoring_path: None,
    })
    .unwrap()
}

fn wait_until_ready(server: &Server, worker: u64) {
    let until = Instant::now() + PATIENCE;
    while server.pull_events(Duration::from_millis(100)) != [Event::WorkerReady(worker, SIGNATURES.into())] {
        assert!(Instant::now() < until, "the worker was never ready");
    }
}

#[test]
fn a_retired_version_closes_its_workers_and_says_so() {
    let server = server();
    let handle = server.add_version("m", 1, settings());
    let (worker, socket) = server.attach_worker(handle).unwrap();
    let working = work(socket, |_, _| Reply::Echo);
    wait_until_ready(&server, worker);
    server.describe(handle, Signature::list_from_json(SIGNATURES).unwrap()).unwrap();
    server.publish(handle).unwrap();
    server.retire(handle).unwrap();
    let (mut events, until) = (Vec::new(), Instant::now() + PATIENCE);
    while events.len() < 2 {
        assert!(Instant::now() < until, "only {events:?}");
        events.extend(server.pull_events(Duration::from_millis(100)));
    }
    assert!(events.contains(&Event::WorkerClosed(worker)) && events.contains(&Event::Retired(handle)), "{events:?}");
    assert_eq!(working.join().unwrap(), 0);
    let state: serde_json::Value = serde_json::from_str(&server.debug_state()).unwrap();
    assert!(state.as_object().unwrap().values().all(|held| *held == 0), "{state}");
}

#[test]
fn a_server_that_closes_ends_its_workers() {
    let server = server();
    let handle = server.add_version("m", 1, settings());
    let (worker, socket) = server.attach_worker(handle).unwrap();
    let working = work(socket, |_, _| Reply::Echo);
    wait_until_ready(&server, worker);
    drop(server);
    assert_eq!(working.join().unwrap(), 0);
}
