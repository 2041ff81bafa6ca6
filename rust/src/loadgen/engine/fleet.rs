//! The threads of a load generator, as one.

use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use parking_lot::{Condvar, Mutex};

use super::super::plan::{Mode, Plan};
use super::super::target::{Protocol, Target};
use super::super::tls::Tls;
use super::super::{CallError, CallResult};
use super::arrivals::{Arrivals, Segment};
use super::generator::{Generator, Setup};
use super::pool::Pool;
use super::request::Requests;
use super::sample::Sample;
use super::shared::Shared;
use super::socket::Socket;

/// Threads that send, from [`start`](Fleet::start) until [`stop`](Fleet::stop) or drop.
pub struct Fleet {
    epoch: Instant,
    closed: bool,
    choices: u32,
    members: Vec<Member>,
    running: Arc<Running>,
}

struct Member {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// How many threads still run, and the first failure of one.
#[derive(Default)]
struct Running {
    state: Mutex<(usize, Option<String>)>,
    changed: Condvar,
}

/// What came since the last time, and how the generator fares.
#[derive(Debug, Default)]
pub struct Taken {
    pub samples: Vec<Sample>,
    /// Of all requests that were due before this time the samples have been taken, now or earlier.
    pub settled: i64,
    /// Whether no thread runs any more, so that nothing more will come.
    pub ended: bool,
    pub in_flight: usize,
    pub connections: usize,
    /// CPU time of each thread so far.
    pub cpu_ns: Vec<u64>,
}

impl Fleet {
    /// Connects and is ready to send. Fails when the plan makes no sense or the server cannot be reached.
    pub fn start(plan: &Plan, bodies: &[Bytes]) -> CallResult<Fleet> {
        let target = plan.check()?;
        let requests = Arc::new(Requests::new(plan, &target, bodies)?);
        let tls = Tls::new(&target)?;
        let addresses = resolve(&target)?;
        let epoch = Instant::now();
        let mut fleet = Fleet {
            epoch,
            closed: matches!(plan.mode, Mode::Closed { .. }),
            choices: bodies.len() as u32,
            members: Vec::new(),
            running: Arc::default(),
        };
        for index in 0..plan.threads {
            let (shared, generator) = member(plan, index, (&target, &addresses, &tls), (&requests, epoch))
                .map_err(|why| unreachable(&target, &why))?;
            fleet.launch(shared, generator).map_err(|why| unreachable(&target, &why))?;
        }
        Ok(fleet)
    }

    fn launch(&mut self, shared: Arc<Shared>, mut generator: Generator) -> Result<(), String> {
        let running = self.running.clone();
        running.state.lock().0 += 1;
        let spawned = std::thread::Builder::new().name("poise-load".into()).spawn(move || {
            // Ticks of 50 µs would be seen in every latency.
            let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
            let failed = generator.run().err();
            let mut state = running.state.lock();
            state.0 -= 1;
            state.1 = state.1.take().or(failed.map(|error| error.to_string()));
            running.changed.notify_all();
        });
        match spawned {
            Ok(thread) => {
                self.members.push(Member { shared, thread: Some(thread) });
                Ok(())
            }
            Err(error) => {
                self.running.state.lock().0 -= 1;
                Err(error.to_string())
            }
        }
    }

    /// Nanoseconds since the start of the session, on the clock of all its times.
    pub fn now(&self) -> i64 {
        i64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(i64::MAX)
    }

    /// Gives more to send, dealt out to the threads in turn. Fails for a choice that is none of the requests, and for
    /// times that do not ascend.
    pub fn feed(&self, times: &[i64], choices: &[u32]) -> CallResult<()> {
        let problem = if !self.closed && times.len() != choices.len() {
            "a segment has one choice for each time"
        } else if choices.iter().any(|choice| *choice >= self.choices) {
            "a choice is the number of one of the requests"
        } else if !times.is_sorted() {
            "times ascend"
        } else {
            let count = self.members.len();
            for (index, member) in self.members.iter().enumerate() {
                let times = times.iter().skip(index).step_by(count).copied().collect();
                let choices = choices.iter().skip(index.min(choices.len().saturating_sub(1))).step_by(count);
                member.shared.feed(Segment { times, choices: choices.copied().collect() });
            }
            return Ok(());
        };
        Err(CallError::Usage(problem.into()))
    }

    /// What came since the last time, after `limit` or when all threads have ended, whichever is first.
    pub fn take(&self, limit: Duration) -> CallResult<Taken> {
        let until = Instant::now() + limit;
        let mut state = self.running.state.lock();
        while state.0 > 0 && !self.running.changed.wait_until(&mut state, until).timed_out() {}
        if let Some(failure) = &state.1 {
            return Err(CallError::Transport(format!("the load generator failed: {failure}")));
        }
        let mut taken = Taken { ended: state.0 == 0, settled: i64::MAX, ..Taken::default() };
        drop(state);
        for Member { shared, .. } in &self.members {
            let (mut samples, settled) = shared.samples();
            taken.samples.append(&mut samples);
            taken.settled = taken.settled.min(settled);
            taken.in_flight += shared.in_flight.load(Relaxed);
            taken.connections += shared.connections.load(Relaxed);
            taken.cpu_ns.push(shared.cpu_ns.load(Relaxed));
        }
        Ok(taken)
    }

    /// Ends all threads soon; what is under way is left out.
    pub fn stop(&self) {
        self.members.iter().for_each(|member| member.shared.stop());
    }
}

impl Drop for Fleet {
    fn drop(&mut self) {
        self.stop();
        for member in &mut self.members {
            // A thread that panicked has nothing more to say.
            let _ = member.thread.take().map(JoinHandle::join);
        }
    }
}

fn unreachable(target: &Target, why: &str) -> CallError {
    CallError::Transport(format!("cannot connect to {}: {why}; is the server running?", target.authority))
}

fn resolve(target: &Target) -> CallResult<Vec<SocketAddr>> {
    let addresses = target.authority.to_socket_addrs().map_err(|error| unreachable(target, &error.to_string()))?;
    Ok(addresses.collect())
}

type Where<'a> = (&'a Target, &'a [SocketAddr], &'a Option<Tls>);

/// One thread's part of the plan, connected.
fn member(
    plan: &Plan,
    index: usize,
    (target, addresses, tls): Where<'_>,
    (requests, epoch): (&Arc<Requests>, Instant),
) -> Result<(Arc<Shared>, Generator), String> {
    let words = |error: io::Error| error.to_string();
    let shared = Arc::new(Shared::new(epoch).map_err(words)?);
    let part = |whole: usize| whole / plan.threads + usize::from(index < whole % plan.threads);
    let limit = part(plan.connections);
    let open = match (plan.mode, target.protocol) {
        (Mode::Open { .. }, Protocol::Http) => 1, // others are made when they are needed
        _ => limit,
    };
    let sockets = (0..open).map(|_| Socket::open(addresses, tls.as_ref(), plan.timeout()));
    let sockets = sockets.collect::<io::Result<_>>().map_err(words)?;
    let pool = Pool::new(sockets, limit, tls.clone(), target.protocol == Protocol::Grpc).map_err(words)?;
    let (arrivals, max_in_flight) = match plan.mode {
        Mode::Open { max_in_flight } => (Arrivals::open(), max_in_flight.map_or(usize::MAX, part)),
        Mode::Closed { concurrency } => (Arrivals::closed(part(concurrency), limit), usize::MAX),
    };
    let timeout_ns = i64::try_from(plan.timeout().as_nanos()).unwrap_or(i64::MAX);
    let setup = Setup { requests: requests.clone(), timeout_ns, max_in_flight };
    let mut generator = Generator::new(setup, arrivals, pool, shared.clone()).map_err(words)?;
    generator.prepare(plan.timeout())?;
    Ok((shared, generator))
}

#[cfg(test)]
#[path = "fleet_tests.rs"]
mod tests;
