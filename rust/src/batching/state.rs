//! What a version holds: its queues, what is to be run again, and the exact count of both.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::{Duration, Instant};

use super::pending::Pending;
use super::policy::{self, Backlog, Decision, Need};
use super::queue::{Piece, Queue};
use crate::config::BatchSettings;
use crate::error::Result;

/// Weight of the newest batch in the estimate of rows per second.
const RATE_WEIGHT: f64 = 0.1;

/// The part of a version that changes, behind its lock.
#[derive(Default)]
pub struct State {
    pub rows: usize,
    /// Parts of failed or lost batches, to be run before anything new.
    pub again: VecDeque<Parts>,
    pub last_batch: u64,
    pub running: usize,
    pub leases: usize,
    pub workers: usize,
    /// Workers that have loaded the model.
    pub serving: usize,
    pub closing: bool,
    pub closed: bool,
    queues: Vec<Queue>,
    bytes: usize,
    turn: u64,
    rows_per_s: f64,
}

/// Pieces that belong in one batch, with what is known of their past.
pub struct Parts {
    pub pieces: Vec<Piece>,
    pub budget: Option<Arc<AtomicU32>>,
    pub lost_before: bool,
    /// Whether they have never been in a batch before.
    pub fresh: bool,
}

/// What there is for a worker to do.
pub enum Choice {
    Run(Parts),
    WaitUntil(Instant),
    Sleep,
}

/// What a version holds now, for tests and for the curious.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Holdings {
    pub rows: usize,
    pub bytes: usize,
    pub running: usize,
    pub leases: usize,
    pub queues: usize,
    /// Batches that wait to be run again, whole or in part.
    pub again: usize,
}

impl std::iter::Sum for Holdings {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), |sum, one| Self {
            rows: sum.rows + one.rows,
            bytes: sum.bytes + one.bytes,
            running: sum.running + one.running,
            leases: sum.leases + one.leases,
            queues: sum.queues + one.queues,
            again: sum.again + one.again,
        })
    }
}

impl State {
    pub fn holdings(&self) -> Holdings {
        Holdings {
            rows: self.rows,
            bytes: self.bytes,
            running: self.running,
            leases: self.leases,
            queues: self.queues.len(),
            again: self.again.len(),
        }
    }

    /// Retired, and nobody is left to serve.
    pub fn finished(&self) -> bool {
        self.closed || (self.closing && self.leases == 0 && self.running == 0)
    }

    /// Nothing comes after this. What was to be run again is nobody's any more.
    pub fn close(&mut self) {
        self.closed = true;
        self.again.clear();
    }

    /// Lets a request wait, if admission allows. Tells whether workers need to know: only when a queue starts to wait
    /// and when it can fill a batch.
    pub fn enqueue(&mut self, pending: &Arc<Pending>, settings: &BatchSettings) -> Result<bool> {
        let limit = pending.endpoint.limit(&pending.key);
        let position = self.queues.iter().position(|queue| queue.key == pending.key);
        let rows = self.queues.iter().filter(|queue| queue.key.is_bounded_with(&pending.key)).map(Queue::rows).sum();
        let backlog = Backlog { rows, limit, bytes: self.bytes, rows_per_s: self.rate() };
        policy::admit(pending.rows, pending.bytes, &backlog, settings)?;
        let index = position.unwrap_or_else(|| {
            // Ahead of the queue that was served last, but of none that has waited since before that.
            let turn = self.turn.saturating_sub(1);
            self.queues.push(Queue::new(Arc::clone(&pending.endpoint), pending.key.clone(), turn));
            self.queues.len() - 1
        });
        self.rows += pending.rows;
        self.bytes += pending.bytes;
        pending.endpoint.metrics.queued(pending.rows as i64);
        let queue = &mut self.queues[index];
        queue.push(Arc::clone(pending));
        let rows = queue.rows();
        Ok(rows == pending.rows || (rows >= limit && rows - pending.rows < limit))
    }

    /// Takes a request out of its queue, wherever that is; false when it waits nowhere.
    pub fn withdraw(&mut self, pending: &Arc<Pending>) -> bool {
        let Some(index) = self.queues.iter().position(|queue| queue.key == pending.key) else { return false };
        let Some((rows, bytes)) = self.queues[index].remove(pending) else { return false };
        self.rows -= rows;
        self.bytes -= bytes;
        if self.queues[index].is_empty() {
            self.queues.swap_remove(index);
        }
        pending.endpoint.metrics.queued(-(rows as i64));
        true
    }

    /// Gives up all that waits.
    pub fn strand(&mut self) -> Vec<Arc<Pending>> {
        let again = self.again.drain(..).flat_map(|parts| parts.pieces).map(|piece| piece.pending);
        let mut stranded: Vec<Arc<Pending>> = again.collect();
        for queue in self.queues.drain(..) {
            queue.endpoint.metrics.queued(-(queue.rows() as i64));
            stranded.extend(queue.into_waiting());
        }
        (self.rows, self.bytes) = (0, 0);
        stranded
    }

    /// What a worker is to run next. Lost and failed batches come before anything new, and only for a worker that has
    /// nothing to run: with them others wait already.
    pub fn next(&mut self, need: Need, now: Instant, settings: &BatchSettings) -> Choice {
        if need == Need::Idle
            && let Some(parts) = self.next_again(now)
        {
            return Choice::Run(parts);
        }
        let timeout = Duration::from_micros(if self.closing { 0 } else { settings.batch_timeout_micros });
        loop {
            let index = match policy::decide(self.queues.iter().map(Queue::view), timeout, need, now) {
                Decision::Take(index) => index,
                Decision::WaitUntil(time) => return Choice::WaitUntil(time),
                Decision::Sleep => return Choice::Sleep,
            };
            let pieces = self.take(index, settings.enable_large_batch_splitting, now);
            if !pieces.is_empty() {
                return Choice::Run(Parts { pieces, budget: None, lost_before: false, fresh: true });
            }
        }
    }

    /// The first batch to be run again that somebody still wants.
    fn next_again(&mut self, now: Instant) -> Option<Parts> {
        while let Some(mut parts) = self.again.pop_front() {
            parts.pieces.retain(|piece| piece.pending.is_wanted(now));
            if !parts.pieces.is_empty() {
                return Some(parts);
            }
        }
        None
    }

    fn take(&mut self, index: usize, split: bool, now: Instant) -> Vec<Piece> {
        self.turn += 1;
        let queue = &mut self.queues[index];
        queue.last_turn = self.turn;
        let taken = queue.take(split, |pending| pending.is_wanted(now));
        let metrics = &queue.endpoint.metrics;
        metrics.queued(-(taken.rows as i64));
        metrics.withdrew(taken.unwanted);
        if queue.is_empty() {
            self.queues.swap_remove(index);
        }
        self.rows -= taken.rows;
        self.bytes -= taken.bytes;
        taken.pieces
    }

    /// Queues parts that come before anything new; a version that has closed meanwhile has nobody who waits for them.
    pub fn queue_again(&mut self, parts: Parts) {
        if !self.closed {
            self.again.push_back(parts);
        }
    }

    /// Rows per second of all workers together; 0 when unknown.
    fn rate(&self) -> f64 {
        self.rows_per_s * self.serving.max(1) as f64
    }

    /// Takes note of how fast one worker has answered the rows of a batch.
    pub fn measured(&mut self, rows: usize, took: Duration) {
        let rate = rows as f64 / took.as_secs_f64().max(1e-6);
        let old = if self.rows_per_s == 0.0 { rate } else { self.rows_per_s };
        self.rows_per_s = old + RATE_WEIGHT * (rate - old);
    }
}
