//! One thread of the load generator: it sends what is due, reads what comes, and writes down what came of each.

use std::collections::VecDeque;
use std::io;
use std::mem;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use super::Ended;
use super::arrivals::{Arrivals, Due, Slot};
use super::book::Book;
use super::outcome::Outcome;
use super::poll::{Poll, Ready};
use super::pool::Pool;
use super::request::Requests;
use super::sample::{NEVER, Sample};
use super::shared::Shared;
use super::stages::Stages;

/// How long samples wait before they are handed over, and how many.
const PUBLISH_NS: i64 = 50_000_000;
const PUBLISH_COUNT: usize = 1 << 14;
/// How long a client of a closed loop waits after it lost its connection.
const PAUSE_NS: i64 = 100_000_000;

/// What does not change during a session.
pub struct Setup {
    pub requests: Arc<Requests>,
    pub timeout_ns: i64,
    /// Most requests due and under way; more are not sent.
    pub max_in_flight: usize,
}

pub struct Generator {
    setup: Setup,
    shared: Arc<Shared>,
    poll: Poll,
    pool: Pool,
    arrivals: Arrivals,
    book: Book,
    /// Requests that are due and have no connection yet.
    due: VecDeque<u32>,
    samples: Vec<Sample>,
    published_at: i64,
    ready: Vec<Ready>,
    ended: Vec<Ended>,
}

impl Generator {
    pub fn new(setup: Setup, arrivals: Arrivals, pool: Pool, shared: Arc<Shared>) -> io::Result<Generator> {
        let mut generator = Generator {
            poll: Poll::new(&shared.waker)?,
            book: Book::new(setup.timeout_ns),
            setup,
            shared,
            pool,
            arrivals,
            due: VecDeque::new(),
            samples: Vec::new(),
            published_at: 0,
            ready: Vec::new(),
            ended: Vec::new(),
        };
        generator.pool.register(&generator.poll)?;
        Ok(generator)
    }

    /// Waits until every connection may be used, or fails.
    pub fn prepare(&mut self, limit: Duration) -> Result<(), String> {
        let (count, until) = (self.pool.open(), self.shared.now() + limit.as_nanos() as i64);
        loop {
            let now = self.shared.now();
            self.pool.flush(now, &self.poll, &mut self.ended);
            if self.pool.open() < count {
                return Err("it closed the connection at once; does it speak this protocol?".into());
            }
            if self.pool.is_ready() || self.shared.is_stopped() {
                return Ok(());
            }
            if now >= until {
                return Err(format!("it took the connection and said nothing for {} s", limit.as_secs_f64()));
            }
            self.wait(until - now).map_err(|error| error.to_string())?;
        }
    }

    /// Runs until it is stopped. What is under way then is left out.
    pub fn run(&mut self) -> io::Result<()> {
        while !self.shared.is_stopped() {
            let now = self.shared.now();
            for segment in self.shared.segments() {
                self.arrivals.feed(segment, now);
            }
            self.expire(now);
            self.pool.mend(now, &self.poll)?;
            self.issue(now);
            self.place(now);
            self.pool.flush(now, &self.poll, &mut self.ended);
            self.settle(now);
            self.publish(now);
            let limit = self.wake_at(now) - self.shared.now();
            self.wait(limit)?;
        }
        self.publish(i64::MAX);
        Ok(())
    }

    /// Waits at most so long, and reads what comes.
    fn wait(&mut self, limit_ns: i64) -> io::Result<()> {
        let mut ready = mem::take(&mut self.ready);
        self.poll.wait(limit_ns, &self.shared.waker, &mut ready)?;
        for each in ready.drain(..) {
            let now = self.shared.now();
            self.pool.serve(each, now, &mut self.ended);
            self.settle(self.shared.now());
        }
        self.ready = ready;
        Ok(())
    }

    fn wake_at(&mut self, now: i64) -> i64 {
        // Nothing that is due may be slept over; without anything to do, samples are handed over now and then.
        let times = [self.arrivals.next_at(), self.book.next_deadline(), self.pool.retry_at(), Some(now + PUBLISH_NS)];
        let wake_at = times.into_iter().flatten().min().unwrap_or(now);
        if self.ended.is_empty() { wake_at } else { now }
    }

    /// Gives up what has had its time.
    fn expire(&mut self, now: i64) {
        while let Some(token) = self.book.expired(now) {
            let place = self.book.get(token).and_then(|entry| entry.place);
            if let Some((index, stream)) = place {
                self.pool.cancel(index, stream);
            }
            self.finish(Ended { token, outcome: Outcome::TIMEOUT, stages: Stages::default() }, now);
        }
    }

    /// Takes up what is due.
    fn issue(&mut self, now: i64) {
        while let Some(due) = self.arrivals.take(now) {
            if self.book.len() >= self.setup.max_in_flight {
                let (outcome, stages) = (Outcome::DROPPED, Stages::default());
                self.note((due, now, NEVER), now, outcome, stages);
                continue;
            }
            let token = self.book.add(due, now);
            self.due.push_back(token);
        }
    }

    /// Puts what is due on connections, as far as they take it.
    fn place(&mut self, now: i64) {
        while let Some(&token) = self.due.front() {
            let Some(entry) = self.book.get(token).filter(|entry| entry.place.is_none()) else {
                self.due.pop_front(); // its time was up while it waited
                continue;
            };
            let Some(index) = self.pool.find(entry.due.home) else {
                match self.pool.grow(now, &self.poll) {
                    Ok(true) => continue,
                    Ok(false) => return self.give_up_if_alone(now),
                    Err(_) => return, // it is tried again
                }
            };
            self.due.pop_front();
            let request = &self.setup.requests.all[entry.due.choice as usize];
            let stream = self.pool.start(index, token, request, self.setup.requests.same_fields);
            (entry.place, entry.sent) = (Some((index, stream)), self.shared.now());
        }
    }

    /// Where there is no connection at all, nothing that is due can be sent.
    fn give_up_if_alone(&mut self, now: i64) {
        if self.pool.open() > 0 {
            return;
        }
        for token in mem::take(&mut self.due) {
            self.finish(Ended { token, outcome: Outcome::TRANSPORT, stages: Stages::default() }, now);
        }
    }

    /// Writes down what has ended.
    fn settle(&mut self, now: i64) {
        let mut ended = mem::take(&mut self.ended);
        for each in ended.drain(..) {
            self.finish(each, now);
        }
        self.ended = ended;
    }

    fn finish(&mut self, ended: Ended, now: i64) {
        let Some(entry) = self.book.remove(ended.token) else { return };
        self.note((entry.due, entry.issued, entry.sent), now, ended.outcome, ended.stages);
        if let Some(home) = entry.due.home {
            let pause = if ended.outcome == Outcome::TRANSPORT { PAUSE_NS } else { 0 };
            self.arrivals.give_back(Slot { at: now + pause, home });
        }
    }

    fn note(&mut self, (due, issued, sent): (Due, i64, i64), done: i64, outcome: Outcome, stages: Stages) {
        self.samples.push(Sample { scheduled: due.at, issued, sent, done, choice: due.choice, outcome, stages });
    }

    fn publish(&mut self, now: i64) {
        if now - self.published_at < PUBLISH_NS && self.samples.len() < PUBLISH_COUNT {
            return;
        }
        self.published_at = now;
        let cpu = clock_gettime(ClockId::ThreadCPUTime);
        let cpu_ns = u64::try_from(cpu.tv_sec * 1_000_000_000 + cpu.tv_nsec).unwrap_or(0);
        self.shared.cpu_ns.store(cpu_ns, Relaxed);
        self.shared.in_flight.store(self.book.len(), Relaxed);
        self.shared.connections.store(self.pool.open(), Relaxed);
        let settled = [self.book.oldest(), self.arrivals.next_at()].into_iter().flatten().min();
        self.shared.publish(&mut self.samples, settled.unwrap_or(now));
    }
}
