//! First in, first out: the requests of one endpoint that can share a batch.

use std::collections::VecDeque;
use std::sync::Arc;

use smallvec::SmallVec;

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

/// One queue. Never empty for long: its owner removes it with its last request.
#[derive(Debug)]
pub struct Queue {
    pub key: QueueKey,
    pub limit: usize,
    pub last_turn: u64,
    waiting: VecDeque<Arc<Pending>>,
    /// Rows of the first request that have been taken already.
    taken: usize,
    rows: usize,
}

impl Queue {
    pub fn new(key: QueueKey, limit: usize, last_turn: u64) -> Self {
        Self { key, limit, last_turn, waiting: VecDeque::new(), taken: 0, rows: 0 }
    }

    pub fn rows(&self) -> usize {
        self.rows
    }

    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// What policy may know of this queue; `None` when it is empty.
    pub fn view(&self) -> Option<QueueView> {
        let oldest = self.waiting.front()?.arrived;
        Some(QueueView { rows: self.rows, limit: self.limit, oldest, last_turn: self.last_turn })
    }

    pub fn push(&mut self, pending: Arc<Pending>) {
        self.rows += pending.rows;
        self.waiting.push_back(pending);
    }

    /// Takes up to `limit` rows from the front. With `split`, a request may be cut where the batch is full.
    /// Returns the pieces and the bytes of the requests that have left the queue whole.
    pub fn take(&mut self, split: bool) -> (Vec<Piece>, usize) {
        let mut pieces = Vec::with_capacity(self.waiting.len().min(self.limit));
        let (mut free, mut bytes) = (self.limit, 0);
        while let Some(first) = self.waiting.front() {
            let left = first.rows - self.taken;
            let rows = if left <= free || (pieces.is_empty() && !split) { left } else { free };
            if rows == 0 || (rows < left && !split) {
                break;
            }
            let (start, end) = (self.taken, self.taken + rows);
            self.rows -= rows;
            free = free.saturating_sub(rows);
            if rows < left {
                pieces.push(Piece { pending: Arc::clone(first), start, end });
                self.taken = end;
                break;
            }
            bytes += first.bytes;
            self.taken = 0;
            let pending = self.waiting.pop_front().expect("front was there");
            pieces.push(Piece { pending, start, end });
        }
        (pieces, bytes)
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
