//! One loaded version: its endpoints, their queues, and the batches that its workers pull.

use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::batch::Batch;
use super::endpoint::Endpoint;
pub use super::lease::Lease;
use super::pending::Pending;
use super::policy::Need;
pub use super::state::Holdings;
use super::state::{Choice, Parts, State};
use crate::clock::Clock;
use crate::config::BatchSettings;
use crate::error::{Code, Error, Reason, Result};
use crate::model::Signature;
use crate::telemetry::Telemetry;

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

/// What a worker that asks is told.
pub enum Next {
    Batch(Box<Batch>),
    WaitUntil(Instant),
    Sleep,
    /// The version is retired and has nothing left to do.
    Close,
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

    /// Whether its signatures are known; there may be none.
    pub fn is_described(&self) -> bool {
        self.endpoints.get().is_some()
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
        Some(Lease::new(Arc::clone(self)))
    }

    pub(super) fn give_back_lease(&self) {
        let mut state = self.state.lock();
        state.leases -= 1;
        if state.closing && state.leases == 0 {
            drop(state);
            self.changed.notify_waiters();
        }
    }

    pub(super) fn now(&self) -> Instant {
        self.clock.now()
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

    /// A worker has loaded the model (`1`), or one that had is gone (`-1`).
    pub fn count_serving(&self, change: isize) {
        let mut state = self.state.lock();
        state.serving = state.serving.saturating_add_signed(change);
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
            state.close();
            drop(state);
            self.changed.notify_waiters();
            return true;
        }
        let stranded = if state.closing && state.workers == 0 { state.strand() } else { Vec::new() };
        drop(state);
        for pending in stranded {
            pending.fail(Error::new(Code::Unavailable, Reason::NotReady, "the last worker of a retired version ended"));
        }
        false
    }

    /// What is held now.
    pub fn holdings(&self) -> Holdings {
        self.state.lock().holdings()
    }

    /// The next batch for a worker, formed now, or what to wait for.
    pub fn next(self: &Arc<Self>, need: Need) -> Next {
        let now = self.clock.now();
        let mut state = self.state.lock();
        let parts = match state.next(need, now, &self.settings) {
            Choice::Run(parts) => parts,
            _ if state.finished() => {
                // From here on nobody gets a lease: the workers that are told to close would not serve it.
                state.close();
                return Next::Close;
            }
            Choice::WaitUntil(time) => return Next::WaitUntil(time),
            Choice::Sleep => return Next::Sleep,
        };
        state.running += 1;
        state.last_batch += 1;
        let (id, rows_left) = (state.last_batch, state.rows);
        drop(state);
        if rows_left > 0 {
            // Another idle worker may find something due in what is left.
            self.changed.notify_waiters();
        }
        Next::Batch(Box::new(Batch::new(Arc::clone(self), id, parts, now)))
    }

    /// Waits until [`Version::next`] may have something else to say.
    ///
    /// Take it before asking, or a change in between is missed.
    pub fn changes(&self) -> tokio::sync::futures::Notified<'_> {
        self.changed.notified()
    }

    /// Puts parts of a batch first in line.
    pub(super) fn run_again(&self, parts: Parts) {
        self.state.lock().queue_again(parts);
        self.changed.notify_waiters();
    }

    /// Takes back a batch that never ran. In one step: in between, a version that retires would look finished.
    pub(super) fn put_back(&self, parts: Parts) {
        let mut state = self.state.lock();
        state.running -= 1;
        state.queue_again(parts);
        drop(state);
        self.changed.notify_waiters();
    }

    /// One batch has ended.
    pub(super) fn ended(&self, rows: Option<(usize, Duration)>) {
        let mut state = self.state.lock();
        state.running -= 1;
        if let Some((rows, took)) = rows {
            state.measured(rows, took);
        }
        if state.closing {
            self.changed.notify_waiters();
        }
    }

    pub(super) fn enqueue(&self, pending: &Arc<Pending>) -> Result<()> {
        let wake = self.state.lock().enqueue(pending, &self.settings)?;
        if wake {
            self.changed.notify_waiters();
        }
        Ok(())
    }

    /// Takes a request out of the queue; tells whether it, or a part of it, still waited there.
    pub(super) fn withdraw(&self, pending: &Arc<Pending>) -> bool {
        self.state.lock().withdraw(pending)
    }
}

#[cfg(test)]
#[path = "version_tests.rs"]
mod tests;
