//! Where the time of an answered request went.

use std::time::{Duration, Instant};

use super::pending::Answer;

/// An answer on its way to its client.
#[derive(Debug)]
pub struct Answered {
    pub answer: Answer,
    pub stages: Stages,
}

/// The stages of one request. One that was split over several batches has those of the batch that came back last, as
/// that is what its client waited for; so they never take longer than the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stages {
    pub admitted: Instant,
    /// Waiting: until the batch was formed, and then until the worker had ended the batch before it.
    pub queue: Duration,
    /// The model's run, with the way to its worker and back.
    pub execute: Duration,
    /// Rows of real requests in the batch.
    pub rows: usize,
}

impl Stages {
    /// What the server did beside, until `answered`: forming, gathering and handing over the batch, and taking the
    /// request's part out of the outputs.
    pub fn batch(&self, answered: Instant) -> Duration {
        answered.saturating_duration_since(self.admitted).saturating_sub(self.queue + self.execute)
    }
}
