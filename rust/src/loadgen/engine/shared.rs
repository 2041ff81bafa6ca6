//! What one thread of the generator shares with its owner.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

use parking_lot::Mutex;

use super::arrivals::Segment;
use super::poll::Waker;
use super::sample::Sample;

/// Samples that may wait for the owner of the generator; a session that does not take them is at an end.
const MAX_SAMPLES: usize = 50_000_000;

pub struct Shared {
    pub epoch: Instant,
    pub waker: Waker,
    stop: AtomicBool,
    inbox: Mutex<Vec<Segment>>,
    outbox: Mutex<Vec<Sample>>,
    /// Of all requests that were due before this time, the samples are in the outbox or were taken from it.
    settled: AtomicI64,
    pub in_flight: AtomicUsize,
    pub connections: AtomicUsize,
    pub cpu_ns: AtomicU64,
}

impl Shared {
    pub fn new(epoch: Instant) -> std::io::Result<Self> {
        Ok(Self {
            epoch,
            waker: Waker::new()?,
            stop: AtomicBool::new(false),
            inbox: Mutex::default(),
            outbox: Mutex::default(),
            settled: AtomicI64::new(0),
            in_flight: AtomicUsize::new(0),
            connections: AtomicUsize::new(0),
            cpu_ns: AtomicU64::new(0),
        })
    }

    /// Nanoseconds since the start of the session.
    pub fn now(&self) -> i64 {
        i64::try_from(self.epoch.elapsed().as_nanos()).unwrap_or(i64::MAX)
    }

    pub fn feed(&self, segment: Segment) {
        self.inbox.lock().push(segment);
        self.waker.wake();
    }

    pub fn stop(&self) {
        self.stop.store(true, Relaxed);
        self.waker.wake();
    }

    pub fn is_stopped(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// What was fed since the last time.
    pub fn segments(&self) -> Vec<Segment> {
        std::mem::take(&mut *self.inbox.lock())
    }

    /// Hands samples over: of all requests that were due before `settled`.
    pub fn publish(&self, samples: &mut Vec<Sample>, settled: i64) {
        let mut outbox = self.outbox.lock();
        outbox.append(samples);
        self.settled.store(settled, Relaxed);
        if outbox.len() > MAX_SAMPLES {
            drop(outbox);
            self.stop();
        }
    }

    /// What was handed over since the last time, and up to when that is complete.
    pub fn samples(&self) -> (Vec<Sample>, i64) {
        let mut outbox = self.outbox.lock();
        (std::mem::take(&mut *outbox), self.settled.load(Relaxed))
    }
}
