//! The choices of batching, as pure functions of a snapshot and `now`.

use std::time::{Duration, Instant};

use crate::config::BatchSettings;
use crate::error::{Code, Error, Reason, Result};

/// What a policy may know of one queue.
#[derive(Debug, Clone, Copy)]
pub struct QueueView {
    /// Rows that wait.
    pub rows: usize,
    /// Most rows that one batch of this queue may take.
    pub limit: usize,
    /// When the oldest waiting row came.
    pub oldest: Instant,
    /// The turn in which this queue last gave a batch; lower goes first.
    pub last_turn: u64,
}

/// How eager the worker is that asks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Need {
    /// It has nothing to run.
    Idle,
    /// It runs a batch, and can hold one more: taken only when waiting longer would gain nothing.
    Ahead,
}

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// Form a batch from the queue at this index.
    Take(usize),
    /// Nothing is due before this time unless more rows come.
    WaitUntil(Instant),
    /// Nothing waits.
    Sleep,
}

/// Chooses the queue that gives the next batch.
///
/// A queue is due when it can fill a batch, or when its oldest row has waited for `timeout`. Among due queues the one
/// that has not been served for longest goes first, so that a flood of one shape starves no other.
pub fn decide(queues: impl Iterator<Item = QueueView>, timeout: Duration, need: Need, now: Instant) -> Decision {
    let mut due: Option<(u64, Instant, usize)> = None;
    let mut wake: Option<Instant> = None;
    for (index, queue) in queues.enumerate() {
        if queue.rows == 0 {
            continue;
        }
        let ripe = queue.oldest + timeout;
        if queue.rows >= queue.limit || (need == Need::Idle && ripe <= now) {
            let rank = (queue.last_turn, queue.oldest, index);
            due = Some(due.map_or(rank, |best| best.min(rank)));
        } else if need == Need::Idle {
            wake = Some(wake.map_or(ripe, |time| time.min(ripe)));
        }
    }
    match (due, wake) {
        (Some((_, _, index)), _) => Decision::Take(index),
        (None, Some(time)) => Decision::WaitUntil(time),
        (None, None) => Decision::Sleep,
    }
}

/// The size at which `rows` rows are run: the smallest allowed size that holds them, or `rows` where none does.
pub fn executed_size(rows: usize, allowed: &[usize]) -> usize {
    allowed.iter().copied().find(|size| *size >= rows).unwrap_or(rows)
}

/// What admission may know of a version and the signature that a request is for.
#[derive(Debug, Clone, Copy)]
pub struct Backlog {
    /// Rows waiting at the request's signature.
    pub rows: usize,
    /// Most rows that one batch of them may take.
    pub limit: usize,
    /// Bytes waiting in all queues of the version.
    pub bytes: usize,
    /// Rows per second that the version has lately answered; 0 when unknown.
    pub rows_per_s: f64,
}

/// Whether a request of `rows` rows and `bytes` bytes may wait.
///
/// The bound is counted in rows, `max_enqueued_batches` × the batch limit: what TensorFlow Serving's bound comes to
/// when its batches are full.
pub fn admit(rows: usize, bytes: usize, backlog: &Backlog, settings: &BatchSettings) -> Result<()> {
    let limit = backlog.limit;
    let splits = settings.enable_large_batch_splitting && settings.enable_batching;
    if splits && settings.max_execution_batch_size != 0 && rows > settings.max_batch_size {
        return Err(too_large(rows, settings.max_batch_size));
    }
    if !splits && rows > limit {
        return Err(too_large(rows, limit));
    }
    // Without batching as many requests may wait as rows could with it.
    let batch = if settings.enable_batching { limit } else { settings.max_batch_size };
    let free = batch.saturating_mul(settings.max_enqueued_batches).saturating_sub(backlog.rows);
    if rows > free {
        let batches = backlog.rows.div_ceil(batch.max(1));
        let most = settings.max_enqueued_batches;
        if !splits {
            let detail = format!("currently {batches} batches enqueued and max_enqueued_batches is {most}");
            return Err(queue_full(backlog, detail));
        }
        // As TensorFlow Serving counts, there is always an open batch.
        let batches = batches.max(1);
        let open = backlog.rows - (batches - 1) * batch;
        let detail = format!(
            "task size is {rows} but scheduling capacity is only {free} (num_enqueued_batches={batches}, \
             max_enqueued_batches={most}, open_batch_size={open}, max_execution_batch_size={batch})"
        );
        return Err(queue_full(backlog, detail));
    }
    if backlog.bytes > 0 && backlog.bytes.saturating_add(bytes) > settings.max_enqueued_bytes {
        let most = settings.max_enqueued_bytes;
        let queued = backlog.bytes;
        let detail = format!("task has {bytes} bytes, {queued} bytes are queued and max_enqueued_bytes is {most}");
        return Err(queue_full(backlog, detail));
    }
    Ok(())
}

fn too_large(rows: usize, limit: usize) -> Error {
    Error::bad_input(format!("Task size {rows} is larger than maximum input batch size {limit}"))
}

fn queue_full(backlog: &Backlog, detail: String) -> Error {
    let message = format!("The batch scheduling queue to which this task was submitted is full; {detail}");
    let mut error = Error::new(Code::Unavailable, Reason::QueueFull, message);
    error.retry_after = Some(retry_after(backlog.rows, backlog.rows_per_s));
    error
}

/// Backlog ÷ service rate: when the rows now waiting should have gone. One second when the rate is unknown.
pub fn retry_after(rows: usize, rows_per_s: f64) -> Duration {
    if rows_per_s <= 0.0 {
        return Duration::from_secs(1);
    }
    Duration::from_secs_f64((rows as f64 / rows_per_s).clamp(0.001, 60.0))
}

/// How many more runs may be spent on finding the request at fault in a failed batch of `requests`.
///
/// Halving finds one culprit in 2·⌈log₂ n⌉ runs; the two extra let a second, unlucky one be told apart.
pub fn isolation_budget(requests: usize) -> u32 {
    2 * requests.next_power_of_two().trailing_zeros() + 2
}

#[cfg(test)]
#[path = "policy_tests.rs"]
mod tests;
