//! First in, first out: the requests of one endpoint that can share a batch.

use std::collections::VecDeque;
use std::sync::Arc;

use smallvec::SmallVec;

use super::endpoint::Endpoint;
use super::pending::Pending;
use super::policy::QueueView;

/// Requests with equal keys can run together: same endpoint, and inputs that differ in dim 0 at most.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QueueKey {
    pub endpoint: usize,
    /// A request that runs alone shares its queue only with others that do.
    pub whole: bool,
    /// For each input its rank and its dimensions after the first (without those that padding evens out).
    pub dims: SmallVec<[usize; 8]>,
}

impl QueueKey {
    /// Whether the waiting rows of both count against one bound. A signature has one bound for all shapes, or a client
    /// that sends ever new ones would have none.
    pub fn is_bounded_with(&self, other: &QueueKey) -> bool {
        (self.endpoint, self.whole) == (other.endpoint, other.whole)
    }
}

/// Rows `start..end` of a request, as one batch runs them.
#[derive(Debug, Clone)]
pub struct Piece {
    pub pending: Arc<Pending>,
    pub start: usize,
    pub end: usize,
}

impl Piece {
    pub fn rows(&self) -> usize {
        self.end - self.start
    }
}

/// What left a queue to form a batch.
#[derive(Debug, Default)]
pub struct Taken {
    pub pieces: Vec<Piece>,
    /// All rows that left, those of unwanted requests included.
    pub rows: usize,
    /// Bytes of the requests that have left whole.
    pub bytes: usize,
    /// Requests that nobody waited for any more.
    pub unwanted: u64,
}

/// One queue. Its owner makes it for a first request, and removes it with its last.
#[derive(Debug)]
pub struct Queue {
    pub endpoint: Arc<Endpoint>,
    pub key: QueueKey,
    pub last_turn: u64,
    limit: usize,
    waiting: VecDeque<Arc<Pending>>,
    /// Rows of the first request that have been taken already.
    taken: usize,
    rows: usize,
}

impl Queue {
    pub fn new(endpoint: Arc<Endpoint>, key: QueueKey, last_turn: u64) -> Self {
        let limit = endpoint.limit(&key);
        Self { endpoint, key, limit, last_turn, waiting: VecDeque::new(), taken: 0, rows: 0 }
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// What policy may know of this queue.
    pub fn view(&self) -> QueueView {
        let oldest = self.waiting.front().expect("a queue that is empty has been removed").arrived;
        QueueView { rows: self.rows, limit: self.limit, oldest, last_turn: self.last_turn }
    }

    pub fn push(&mut self, pending: Arc<Pending>) {
        self.rows += pending.rows;
        self.waiting.push_back(pending);
    }

    /// Takes up to `limit` rows from the front, leaving out requests that are not `wanted` any more. With `split`, a
    /// request may be cut where the batch is full.
    pub fn take(&mut self, split: bool, wanted: impl Fn(&Pending) -> bool) -> Taken {
        let before = self.rows;
        let mut taken = Taken { pieces: Vec::with_capacity(self.rows.min(self.limit)), ..Taken::default() };
        let mut free = self.limit;
        while let Some(first) = self.waiting.front() {
            let left = first.rows - self.taken;
            if !wanted(first) {
                taken.unwanted += 1;
                taken.bytes += self.pop(left).bytes;
                continue;
            }
            let rows = if left <= free || (taken.pieces.is_empty() && !split) { left } else { free };
            if rows == 0 || (rows < left && !split) {
                break;
            }
            let (start, end) = (self.taken, self.taken + rows);
            free = free.saturating_sub(rows);
            if rows < left {
                taken.pieces.push(Piece { pending: Arc::clone(first), start, end });
                (self.taken, self.rows) = (end, self.rows - rows);
                break;
            }
            let pending = self.pop(rows);
            taken.bytes += pending.bytes;
            taken.pieces.push(Piece { pending, start, end });
        }
        taken.rows = before - self.rows;
        taken
    }

    /// Removes the first request, of which `rows` rows still wait.
    fn pop(&mut self, rows: usize) -> Arc<Pending> {
        self.rows -= rows;
        self.taken = 0;
        self.waiting.pop_front().expect("the caller has seen the first")
    }

    /// Every request that waits, when the queue is given up.
    pub fn into_waiting(self) -> VecDeque<Arc<Pending>> {
        self.waiting
    }

    /// Removes a request wherever it waits. Returns its waiting rows and its bytes; `None` when it is not here.
    pub fn remove(&mut self, pending: &Arc<Pending>) -> Option<(usize, usize)> {
        let position = self.waiting.iter().position(|other| Arc::ptr_eq(other, pending))?;
        let mut rows = pending.rows;
        if position == 0 {
            rows -= self.taken;
            self.taken = 0;
        }
        self.waiting.remove(position);
        self.rows -= rows;
        Some((rows, pending.bytes))
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
