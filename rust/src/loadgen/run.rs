//! One run of load: clients in a closed loop over shared connections.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::Request;
use parking_lot::Mutex;
use tokio::runtime::Runtime;
use tokio::task::JoinSet;
use tokio::time::{Sleep, sleep, timeout};

use super::answer;
use super::client::{self, Call};
use super::link::{Link, Sender};
use super::plan::Plan;
use super::record::{Outcome, Record, Report};
use super::schedule::{ClosedLoop, Next};
use super::target::{Protocol, Target};
use super::{CallError, CallResult};

/// How long a client waits before it connects anew.
const RECONNECT_AFTER: Duration = Duration::from_millis(100);
/// How often the wish to stop is looked at.
const STOP_CHECK: Duration = Duration::from_millis(50);

/// Sends load as planned and reports what came of it. `bodies` are used in turn; over gRPC each is one message
/// without its frame. Ends early, with what was measured so far, once `stop` is set. Fails when the plan makes no
/// sense or the server cannot be reached at the start; what fails later is counted.
pub fn run(plan: &Plan, bodies: &[Bytes], stop: &AtomicBool) -> CallResult<Report> {
    let target = plan.check()?;
    if bodies.is_empty() {
        return Err(CallError::Usage("there is nothing to send: give at least one body".into()));
    }
    let requests = bodies.iter().map(|body| template(&target, &plan.path, body)).collect::<CallResult<_>>()?;
    runtime(plan.threads)?.block_on(async {
        let links = open(plan, &target, stop).await?;
        let load = Arc::new(Load {
            protocol: target.protocol,
            timeout: plan.timeout(),
            schedule: ClosedLoop::new(plan, Instant::now()),
            record: Mutex::default(),
            requests,
        });
        drive(&load, links, stop).await;
        let record = load.record.lock();
        let last = record.last_outcome().unwrap_or(load.schedule.start());
        Ok(record.report(load.schedule.elapsed(last)))
    })
}

fn template(target: &Target, path: &str, body: &Bytes) -> CallResult<Request<Bytes>> {
    let body = if target.protocol == Protocol::Grpc { answer::frame(body) } else { body.clone() };
    client::request(target, &Call { method: http::Method::POST, path, body })
}

fn runtime(threads: usize) -> CallResult<Runtime> {
    let mut builder = match threads {
        1 => tokio::runtime::Builder::new_current_thread(),
        _ => tokio::runtime::Builder::new_multi_thread(),
    };
    let built = builder.worker_threads(threads).thread_name("poise-load").enable_all().build();
    built.map_err(|error| CallError::Transport(format!("cannot start the threads of the load generator: {error}")))
}

/// One link a client, of `connections` distinct ones, each with a sender that works.
async fn open(plan: &Plan, target: &Target, stop: &AtomicBool) -> CallResult<Vec<(Arc<Link>, Sender)>> {
    let links: Vec<_> = (0..plan.connections).map(|_| Arc::new(Link::new(target.clone()))).collect();
    let mut clients = Vec::with_capacity(plan.concurrency);
    for link in links.iter().cycle().take(plan.concurrency) {
        if stop.load(Relaxed) {
            return Err(CallError::Transport("stopped before the run began".into()));
        }
        let sender = timeout(plan.timeout(), link.sender()).await;
        clients.push((link.clone(), sender.map_err(|_| CallError::Timeout(plan.timeout()))??));
    }
    Ok(clients)
}

async fn drive(load: &Arc<Load>, links: Vec<(Arc<Link>, Sender)>, stop: &AtomicBool) {
    let mut clients = JoinSet::new();
    for (index, (link, sender)) in links.into_iter().enumerate() {
        clients.spawn(Client { load: load.clone(), link, sender: Some(sender), turn: index }.run());
    }
    let mut check = tokio::time::interval(STOP_CHECK);
    loop {
        tokio::select! {
            ended = clients.join_next() => if ended.is_none() { return },
            _ = check.tick() => if stop.load(Relaxed) { return }, // dropping the set ends the clients
        }
    }
}

/// What all clients share.
struct Load {
    protocol: Protocol,
    timeout: Duration,
    schedule: ClosedLoop,
    record: Mutex<Record>,
    requests: Vec<Request<Bytes>>,
}

/// One client: one request at a time.
struct Client {
    load: Arc<Load>,
    link: Arc<Link>,
    sender: Option<Sender>,
    /// Which of the prepared requests is next.
    turn: usize,
}

impl Client {
    async fn run(mut self) {
        let mut timer = Box::pin(sleep(self.load.timeout));
        loop {
            let sent = Instant::now();
            let Next::Send { measured } = self.load.schedule.next(sent) else { return };
            let outcome = self.call_within(timer.as_mut(), sent).await;
            if measured {
                self.load.record.lock().add(sent, Instant::now(), &outcome);
                self.load.schedule.answered();
            }
            self.recover(&outcome).await;
        }
    }

    async fn call_within(&mut self, mut timer: Pin<&mut Sleep>, sent: Instant) -> Outcome {
        timer.as_mut().reset((sent + self.load.timeout).into());
        tokio::select! {
            biased;
            outcome = self.call() => outcome,
            () = timer => Outcome::Timeout,
        }
    }

    async fn call(&mut self) -> Outcome {
        let request = self.load.requests[self.turn % self.load.requests.len()].clone();
        self.turn = self.turn.wrapping_add(1);
        let sender = match &mut self.sender {
            Some(sender) => sender,
            none => match self.link.sender().await {
                Ok(sender) => none.insert(sender),
                Err(_) => return Outcome::Transport,
            },
        };
        match sender.exchange(request).await {
            Ok(answer) => answer::outcome(self.load.protocol, &answer),
            Err(_) => Outcome::Transport,
        }
    }

    /// Leaves a connection that may be out of step, and gives a server that is gone time to come back.
    async fn recover(&mut self, outcome: &Outcome) {
        let broken = match outcome {
            Outcome::Answered | Outcome::Refused(_) => false,
            Outcome::Transport => true,
            Outcome::Timeout => self.sender.as_ref().is_some_and(|sender| !sender.survives_cancellation()),
        };
        if broken {
            self.sender = None;
        }
        if *outcome == Outcome::Transport {
            sleep(RECONNECT_AFTER).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loadgen::test_server::{Behaviour, TestServer};

    fn plan(target: String) -> Plan {
        Plan {
            target,
            path: "/v1/models/m:predict".into(),
            concurrency: 8,
            connections: 8,
            warmup_s: 0.0,
            duration_s: None,
            requests: Some(200),
            timeout_s: 5.0,
            threads: 1,
        }
    }

    fn run_against(server: &TestServer, change: impl FnOnce(&mut Plan)) -> Report {
        let mut plan = plan(server.target());
        change(&mut plan);
        run(&plan, &[Bytes::from_static(b"one"), Bytes::from_static(b"two")], &AtomicBool::new(false)).unwrap()
    }

    #[test]
    fn every_request_is_sent_and_counted_once_over_both_wires() {
        for protocol in [Protocol::Grpc, Protocol::Http] {
            let server = TestServer::start(protocol, Behaviour::Echo);
            let report = run_against(&server, |_| ());
            assert_eq!((report.requests, report.answered, report.errors.len()), (200, 200, 0));
            assert_eq!(report.latency_ns.buckets.iter().map(|(_, count)| count).sum::<u64>(), 200);
            assert!(report.elapsed_s > 0.0 && server.requests() >= 200);
            assert_eq!(server.connections(), 8);
            assert_eq!(server.distinct_bodies(), 2);
        }
    }

    #[test]
    fn concurrency_is_spread_over_fewer_connections() {
        let server = TestServer::start(Protocol::Grpc, Behaviour::Echo);
        let report = run_against(&server, |plan| (plan.connections, plan.threads) = (2, 2));
        assert_eq!((report.answered, server.connections()), (200, 2));
    }

    #[test]
    fn refusals_are_counted_by_code() {
        let server = TestServer::start(Protocol::Grpc, Behaviour::Refuse);
        let report = run_against(&server, |_| ());
        assert_eq!((report.answered, report.errors["UNAVAILABLE"]), (0, 200));
        let server = TestServer::start(Protocol::Http, Behaviour::Refuse);
        assert_eq!(run_against(&server, |_| ()).errors["503"], 200);
    }

    #[test]
    fn a_server_that_never_answers_costs_the_time_limit_and_no_more() {
        for protocol in [Protocol::Grpc, Protocol::Http] {
            let server = TestServer::start(protocol, Behaviour::Silent);
            let report = run_against(&server, |plan| (plan.requests, plan.timeout_s) = (Some(16), 0.05));
            assert_eq!(report.errors["TIMEOUT"], 16);
            assert!(report.latency_ns.max >= 50_000_000);
        }
    }

    #[test]
    fn lost_connections_are_counted_and_made_again() {
        for protocol in [Protocol::Grpc, Protocol::Http] {
            let server = TestServer::start(protocol, Behaviour::HangUpOnce);
            let report = run_against(&server, |plan| plan.requests = Some(50));
            assert_eq!(report.requests, 50);
            assert!(report.errors["TRANSPORT"] >= 1 && report.answered >= 40, "{report:?}");
        }
    }

    #[test]
    fn warm_up_and_duration_bound_what_is_measured() {
        let server = TestServer::start(Protocol::Grpc, Behaviour::Echo);
        let report = run_against(&server, |plan| {
            (plan.requests, plan.warmup_s, plan.duration_s) = (None, 0.1, Some(0.2));
        });
        assert!((report.elapsed_s - 0.2).abs() < 1e-9);
        assert!(report.requests > 0 && report.requests < server.requests());
    }

    #[test]
    fn a_run_can_be_stopped() {
        let server = TestServer::start(Protocol::Grpc, Behaviour::Silent);
        let stop = Arc::new(AtomicBool::new(false));
        let plan = Plan { requests: None, duration_s: Some(1e5), timeout_s: 1e5, ..plan(server.target()) };
        let running = std::thread::spawn({
            let stop = stop.clone();
            move || run(&plan, &[Bytes::new()], &stop)
        });
        server.wait_for_requests(8);
        stop.store(true, Relaxed);
        assert_eq!(running.join().unwrap().unwrap().requests, 0);
    }

    #[test]
    fn a_server_that_is_not_there_is_an_error_at_once() {
        let plan = plan(TestServer::unused_target());
        let error = run(&plan, &[Bytes::new()], &AtomicBool::new(false)).unwrap_err();
        assert!(error.to_string().contains("is the server running?"), "{error}");
    }
}
