//! One loaded version: its endpoints, their queues, and the batches that its workers pull.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::timeout_at;

use super::batch::Batch;
use super::endpoint::{Checked, Endpoint};
use super::pending::{Answer, Pending, Wanted};
use super::policy::{self, Backlog, Decision, Need};
use super::queue::{Piece, Queue, QueueKey};
use crate::clock::Clock;
use crate::config::BatchSettings;
use crate::error::{Code, Error, Reason, Result};
use crate::model::Signature;
use crate::telemetry::Telemetry;

/// Weight of the newest batch in the estimate of rows per second.
const RATE_WEIGHT: f64 = 0.1;

/// One version of a model, from its first worker to its last request.
pub struct Version {
    pub model: Arc<str>,
    pub number: i64,
    pub settings: BatchSettings,
    pub(super) telemetry: Arc<Telemetry>,
    clock: Arc<dyn Clock>,
    endpoints: OnceLock<Vec<Arc<Endpoint>>>,
    state: Mutex<State>,
    changed: Notify,
}

#[derive(Default)]
struct State {
    queues: Vec<Queue>,
    /// Parts of failed or lost batches, to be run before anything new.
    again: VecDeque<Parts>,
    rows: usize,
    bytes: usize,
    turn: u64,
    last_batch: u64,
    running: usize,
    leases: usize,
    workers: usize,
    closing: bool,
    closed: bool,
    rows_per_s: f64,
}

/// Pieces that belong in one batch, with what is known of their past.
pub(super) struct Parts {
    pub pieces: Vec<Piece>,
    pub budget: Option<Arc<std::sync::atomic::AtomicU32>>,
    pub lost_before: bool,
}

/// What a worker that asks is told.
pub enum Next {
    Batch(Box<Batch>),
    WaitUntil(Instant),
    Sleep,
    /// The version is retired and has nothing left to do.
    Close,
}

/// What a version holds now, for tests and for the curious.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Holdings {
    pub rows: usize,
    pub bytes: usize,
    pub running: usize,
    pub leases: usize,
    pub queues: usize,
}

impl Version {
    pub fn new(
        model: &str,
        number: i64,
        settings: BatchSettings,
        telemetry: Arc<Telemetry>,
        clock: Arc<dyn Clock>,
    ) -> Arc<Self> {
        Arc::new(Self {
            model: model.into(),
            number,
            settings,
            telemetry,
            clock,
            endpoints: OnceLock::new(),
            state: Mutex::default(),
            changed: Notify::new(),
        })
    }

    /// Gives the version its signatures; only the first call counts.
    pub fn describe(&self, signatures: Vec<Signature>) {
        self.endpoints.get_or_init(|| {
            let of = (&*self.model, self.number);
            let endpoint = |(index, signature)| {
                Arc::new(Endpoint::new(index, Arc::new(signature), &self.settings, &self.telemetry, of))
            };
            signatures.into_iter().enumerate().map(endpoint).collect()
        });
    }

    /// The endpoints; empty until the version is described.
    pub fn endpoints(&self) -> &[Arc<Endpoint>] {
        self.endpoints.get().map_or(&[], Vec::as_slice)
    }

    /// Keeps the version open while one request is under way. `None` when it has closed already.
    pub fn lease(self: &Arc<Self>) -> Option<Lease> {
        let mut state = self.state.lock();
        if state.closed {
            return None;
        }
        state.leases += 1;
        Some(Lease(Arc::clone(self)))
    }

    /// No new requests will come; workers are told to close once the last has its answer.
    pub fn retire(&self) {
        self.state.lock().closing = true;
        self.changed.notify_waiters();
    }

    /// A worker has come (`1`) or gone (`-1`).
    pub fn count_worker(&self, change: isize) {
        let mut state = self.state.lock();
        state.workers = state.workers.saturating_add_signed(change);
        drop(state);
        self.changed.notify_waiters();
    }

    /// Waits until a retired version has nothing left to do, and closes it. With no worker left, what still waits is
    /// refused: nobody would ever run it.
    pub async fn closed(&self) {
        loop {
            let changes = self.changes();
            if self.close_if_finished() {
                return;
            }
            changes.await;
        }
    }

    fn close_if_finished(&self) -> bool {
        let mut state = self.state.lock();
        if state.finished() {
            state.closed = true;
            drop(state);
            self.changed.notify_waiters();
            return true;
        }
        let stranded = if state.closing && state.workers == 0 { state.strand() } else { Vec::new() };
        drop(state);
        for pending in stranded {
            pending.endpoint.metrics.queued_rows.dec_by(pending.rows as i64);
            pending.fail(Error::new(Code::Unavailable, Reason::NotReady, "the last worker of a retired version ended"));
        }
        false
    }

    /// What is held now.
    pub fn holdings(&self) -> Holdings {
        let state = self.state.lock();
        let queues = state.queues.len();
        Holdings { rows: state.rows, bytes: state.bytes, running: state.running, leases: state.leases, queues }
    }

    /// The next batch for a worker, formed now, or what to wait for.
    pub fn next(self: &Arc<Self>, need: Need) -> Next {
        let now = self.clock.now();
        let mut state = self.state.lock();
        while need == Need::Idle {
            let Some(mut parts) = state.again.pop_front() else { break };
            parts.pieces.retain(|piece| !piece.pending.is_over());
            if !parts.pieces.is_empty() {
                return Next::Batch(self.form(&mut state, parts, now));
            }
        }
        if state.finished() {
            return Next::Close;
        }
        self.take(&mut state, need, now)
    }

    fn take(self: &Arc<Self>, state: &mut State, need: Need, now: Instant) -> Next {
        let timeout = Duration::from_micros(if state.closing { 0 } else { self.settings.batch_timeout_micros });
        loop {
            let views = state.queues.iter().filter_map(Queue::view);
            let index = match policy::decide(views, timeout, need, now) {
                Decision::Take(index) => index,
                Decision::WaitUntil(time) => return Next::WaitUntil(time),
                Decision::Sleep => return Next::Sleep,
            };
            let mut pieces = state.take(index, self.settings.enable_large_batch_splitting);
            // What is left of a split request whose other part has failed.
            pieces.retain(|piece| !piece.pending.is_over());
            if pieces.is_empty() {
                continue;
            }
            let parts = Parts { pieces, budget: None, lost_before: false };
            if state.rows > 0 {
                // Another idle worker may find something due in what is left.
                self.changed.notify_waiters();
            }
            for piece in parts.pieces.iter().filter(|piece| piece.start == 0) {
                let waited = now.saturating_duration_since(piece.pending.arrived);
                piece.pending.endpoint.metrics.waited(waited.as_secs_f64());
            }
            return Next::Batch(self.form(state, parts, now));
        }
    }

    fn form(self: &Arc<Self>, state: &mut State, parts: Parts, now: Instant) -> Box<Batch> {
        state.running += 1;
        state.last_batch += 1;
        Box::new(Batch::new(Arc::clone(self), state.last_batch, parts, now))
    }

    /// Waits until [`Version::next`] may have something else to say.
    ///
    /// Take it before asking, or a change in between is missed.
    pub fn changes(&self) -> tokio::sync::futures::Notified<'_> {
        self.changed.notified()
    }

    /// Puts parts of a batch first in line.
    pub(super) fn run_again(&self, parts: Parts) {
        self.state.lock().again.push_back(parts);
        self.changed.notify_waiters();
    }

    /// One batch has ended.
    pub(super) fn ended(&self, rows: Option<(usize, Duration)>) {
        let mut state = self.state.lock();
        state.running -= 1;
        if let Some((rows, took)) = rows {
            let rate = rows as f64 / took.as_secs_f64().max(1e-6);
            let old = if state.rows_per_s == 0.0 { rate } else { state.rows_per_s };
            state.rows_per_s = old + RATE_WEIGHT * (rate - old);
        }
        if state.closing {
            self.changed.notify_waiters();
        }
    }

    fn enqueue(&self, pending: &Arc<Pending>, key: QueueKey) -> Result<()> {
        let limit = pending.endpoint.limit(&key);
        let mut state = self.state.lock();
        let position = state.queues.iter().position(|queue| queue.key == key);
        let queue_rows = position.map_or(0, |index| state.queues[index].rows());
        let backlog = Backlog { queue_rows, limit, bytes: state.bytes, rows_per_s: state.rows_per_s };
        policy::admit(pending.rows, pending.bytes, &backlog, &self.settings)?;
        let turn = state.turn;
        let index = position.unwrap_or_else(|| {
            state.queues.push(Queue::new(key, limit, turn));
            state.queues.len() - 1
        });
        state.rows += pending.rows;
        state.bytes += pending.bytes;
        pending.endpoint.metrics.queued_rows.inc_by(pending.rows as i64);
        let queue = &mut state.queues[index];
        queue.push(Arc::clone(pending));
        let rows = queue.rows();
        drop(state);
        // Workers need to know only when a queue starts to wait and when it can fill a batch.
        if rows == pending.rows || (rows >= limit && rows - pending.rows < limit) {
            self.changed.notify_waiters();
        }
        Ok(())
    }

    fn withdraw(&self, pending: &Arc<Pending>) {
        let mut state = self.state.lock();
        let found = state.queues.iter_mut().enumerate().find_map(|(index, queue)| {
            let (rows, bytes) = queue.remove(pending)?;
            Some((index, rows, bytes))
        });
        let Some((index, rows, bytes)) = found else { return };
        state.rows -= rows;
        state.bytes -= bytes;
        if state.queues[index].is_empty() {
            state.queues.swap_remove(index);
        }
        pending.endpoint.metrics.queued_rows.dec_by(rows as i64);
        pending.endpoint.metrics.withdrawn.inc();
    }
}

impl State {
    /// Retired, and nobody is left to serve.
    fn finished(&self) -> bool {
        self.closed || (self.closing && self.leases == 0 && self.running == 0)
    }

    /// Empties every queue.
    fn strand(&mut self) -> Vec<Arc<Pending>> {
        let again = self.again.drain(..).flat_map(|parts| parts.pieces).map(|piece| piece.pending);
        let queued = self.queues.drain(..).flat_map(Queue::into_waiting);
        (self.rows, self.bytes) = (0, 0);
        again.chain(queued).collect()
    }

    fn take(&mut self, index: usize, split: bool) -> Vec<Piece> {
        self.turn += 1;
        let queue = &mut self.queues[index];
        queue.last_turn = self.turn;
        let before = queue.rows();
        let (pieces, bytes) = queue.take(split);
        let rows = before - queue.rows();
        if queue.is_empty() {
            self.queues.swap_remove(index);
        }
        self.rows -= rows;
        self.bytes -= bytes;
        if let Some(piece) = pieces.first() {
            piece.pending.endpoint.metrics.queued_rows.dec_by(rows as i64);
        }
        pieces
    }
}

/// A request's hold on a version: while it lives the version's workers stay.
pub struct Lease(Arc<Version>);

impl Drop for Lease {
    fn drop(&mut self) {
        let mut state = self.0.state.lock();
        state.leases -= 1;
        if state.closing && state.leases == 0 {
            drop(state);
            self.0.changed.notify_waiters();
        }
    }
}

/// Takes a request out of the queue when nobody waits for it any more.
struct Waiting<'a> {
    version: &'a Version,
    pending: &'a Arc<Pending>,
    answered: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.answered {
            self.version.withdraw(self.pending);
        }
    }
}

impl Lease {
    pub fn version(&self) -> &Arc<Version> {
        &self.0
    }

    /// The endpoint of this signature.
    pub fn endpoint(&self, signature: &str) -> Option<&Arc<Endpoint>> {
        self.0.endpoints().iter().find(|endpoint| endpoint.signature.name == signature)
    }

    /// Queues a checked request and waits for its answer. Dropping the future withdraws the request.
    pub async fn run(
        &self,
        endpoint: &Arc<Endpoint>,
        checked: Checked,
        wanted: Wanted,
        deadline: Option<Instant>,
    ) -> Result<Answer> {
        let version = &*self.0;
        let now = version.clock.now();
        if deadline.is_some_and(|deadline| deadline <= now) {
            return Err(deadline_passed("before the request was queued"));
        }
        let (pending, answer) = Pending::new(Arc::clone(endpoint), checked.inputs, wanted, checked.rows, now);
        version.enqueue(&pending, checked.key)?;
        let mut waiting = Waiting { version, pending: &pending, answered: false };
        let outcome = match deadline {
            Some(deadline) => timeout_at(deadline.into(), answer).await,
            None => Ok(answer.await),
        };
        let Ok(outcome) = outcome else {
            return Err(deadline_passed("while the request waited for its answer"));
        };
        waiting.answered = true;
        outcome.unwrap_or_else(|_| Err(Error::internal("the request was dropped without an outcome")))
    }
}

fn deadline_passed(when: &str) -> Error {
    Error::new(Code::DeadlineExceeded, Reason::Deadline, format!("Deadline exceeded {when}"))
}
