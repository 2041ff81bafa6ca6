//! A request's stay with a version: queued, run, answered, and gone without a trace whatever happens.

use std::sync::Arc;
use std::time::Instant;

use tokio::time::timeout_at;

use super::endpoint::{Checked, Endpoint};
use super::pending::{Pending, Wanted, deadline_passed};
use super::stages::Answered;
use super::version::Version;
use crate::error::{Error, Result};

/// A request's hold on a version: while it lives the version's workers stay.
pub struct Lease(Arc<Version>);

impl Drop for Lease {
    fn drop(&mut self) {
        self.0.give_back_lease();
    }
}

impl Lease {
    /// Only the version hands them out, as it counts them.
    pub(super) fn new(version: Arc<Version>) -> Self {
        Self(version)
    }

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
    ) -> Result<Answered> {
        let version = &*self.0;
        let now = version.now();
        if deadline.is_some_and(|deadline| deadline <= now) {
            return Err(deadline_passed("before the request was queued"));
        }
        let (pending, answer) = Pending::new(Arc::clone(endpoint), checked, wanted, now, deadline);
        version.enqueue(&pending)?;
        if !pending.is_whole() {
            endpoint.metrics.admitted(pending.rows, pending.inputs.len());
        }
        let mut waiting = Waiting { version, pending: &pending, ended: false };
        let outcome = match deadline {
            Some(deadline) => timeout_at(deadline.into(), answer).await,
            None => Ok(answer.await),
        };
        let Ok(outcome) = outcome else {
            return Err(deadline_passed("while the request waited for its answer"));
        };
        waiting.ended = true;
        let outcome = outcome.unwrap_or_else(|_| Err(Error::internal("the request was dropped without an outcome")));
        match outcome {
            Ok(_) => endpoint.metrics.answered(|| version.now().saturating_duration_since(now)),
            // What is left of a split request whose other part has failed.
            Err(_) => drop(version.withdraw(&pending)),
        }
        outcome
    }
}

/// Takes a request out of the queue when nobody waits for it any more.
struct Waiting<'a> {
    version: &'a Version,
    pending: &'a Arc<Pending>,
    ended: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if !self.ended && self.version.withdraw(self.pending) {
            self.pending.endpoint.metrics.withdrew(1);
        }
    }
}
