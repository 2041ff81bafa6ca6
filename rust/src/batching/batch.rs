//! Rows of many requests that run together, and how such a batch ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::endpoint::Endpoint;
use super::padding::{self, Extents};
use super::pending::{Answer, Pending, Wanted};
use super::policy;
use super::queue::Piece;
use super::stages::Stages;
use super::state::Parts;
use super::version::Version;
use crate::error::{Code, Error, Reason};
use crate::tensor::Tensor;

/// A formed batch. It ends exactly once, through [`Batch::complete`], [`Batch::fail`], [`Batch::lost`] or
/// [`Batch::put_back`]; dropped unended, its requests fail and a counter moves.
pub struct Batch {
    pub id: u64,
    pub version: Arc<Version>,
    pub endpoint: Arc<Endpoint>,
    pub pieces: Vec<Piece>,
    /// Rows of real requests.
    pub rows: usize,
    /// Rows that the model is given: `rows` and padding.
    pub executed_rows: usize,
    /// Outputs that some request wants.
    pub wanted: Wanted,
    pub formed: Instant,
    /// The padded dimensions of each input; `None` when no request needs padding.
    pub extents: Option<Extents>,
    budget: Option<Arc<AtomicU32>>,
    lost_before: bool,
    ended: bool,
}

/// What a worker measured of one batch.
#[derive(Debug, Clone, Copy, Default)]
pub struct Timing {
    /// From the batch sent until its outputs came back.
    pub took: Duration,
    /// The part of that in which the worker ran the batch before.
    pub ahead: Duration,
    pub interpreter_wait: Duration,
}

impl Batch {
    pub(super) fn new(version: Arc<Version>, id: u64, parts: Parts, now: Instant) -> Self {
        let Parts { pieces, budget, lost_before, fresh } = parts;
        for piece in pieces.iter().filter(|piece| fresh && piece.start == 0) {
            let waited = now.saturating_duration_since(piece.pending.arrived);
            piece.pending.endpoint.metrics.waited(waited);
        }
        let endpoint = Arc::clone(&pieces[0].pending.endpoint);
        let rows = pieces.iter().map(Piece::rows).sum();
        let whole = pieces[0].pending.is_whole();
        let executed_rows = if whole { 1 } else { policy::executed_size(rows, &version.settings.allowed_batch_sizes) };
        let extents = if version.settings.pad_variable_length_inputs { padding::extents(&pieces) } else { None };
        let wanted = union(&pieces);
        Self {
            id,
            version,
            endpoint,
            pieces,
            rows,
            executed_rows,
            wanted,
            formed: now,
            extents,
            budget,
            lost_before,
            ended: false,
        }
    }

    /// Whether the batch is one request that goes to the model as it is.
    pub fn is_whole(&self) -> bool {
        self.pieces[0].pending.is_whole()
    }

    /// Answers every request from the outputs of the whole batch, in the order of [`Batch::wanted`].
    pub fn complete(mut self, outputs: Vec<Tensor>, timing: Timing) {
        if let Err(error) = self.check(&outputs) {
            return self.fail(error, &[]);
        }
        self.end(Some(timing.took));
        let metrics = &self.endpoint.metrics;
        let padding = self.executed_rows - self.rows;
        metrics.executed(self.rows, padding, timing.took.as_secs_f64(), timing.interpreter_wait.as_secs_f64());
        if !self.is_whole() {
            metrics.batched(self.executed_rows, padding);
        }
        let mut first = 0;
        for piece in &self.pieces {
            let end = first + piece.rows();
            let part = self.part(&outputs, piece, first, end);
            piece.pending.deliver(piece.start, piece.rows(), part, self.stages(&piece.pending, timing));
            first = end;
        }
    }

    fn stages(&self, pending: &Pending, timing: Timing) -> Stages {
        let queue = self.formed.saturating_duration_since(pending.arrived) + timing.ahead;
        let execute = timing.took.saturating_sub(timing.ahead);
        let alone = self.is_whole() && self.endpoint.signature.batched;
        let rows = if alone { pending.inputs.first().and_then(Tensor::rows).unwrap_or(1) } else { self.rows };
        Stages { admitted: pending.arrived, queue, execute, rows }
    }

    /// The outputs of rows `start..end` that one request wants.
    fn part(&self, outputs: &[Tensor], piece: &Piece, start: usize, end: usize) -> Answer {
        let wanted = self.wanted.iter().zip(outputs).filter(|(index, _)| piece.pending.wanted.contains(index));
        if self.is_whole() {
            return wanted.map(|(_, tensor)| tensor.clone()).collect();
        }
        wanted
            .map(|(index, tensor)| {
                let rows = tensor.slice_rows(start, end);
                match &self.extents {
                    None => rows,
                    Some(extents) => {
                        padding::crop(rows, &self.endpoint.signature, *index as usize, extents, &piece.pending.inputs)
                    }
                }
            })
            .collect()
    }

    /// There must be every wanted output, and the rows that the model gave back must be the rows that it got.
    fn check(&self, outputs: &[Tensor]) -> Result<(), Error> {
        if outputs.len() != self.wanted.len() {
            let text = format!("expected {} outputs but got {}", self.wanted.len(), outputs.len());
            return Err(Error::new(Code::Internal, Reason::ModelOutput, text));
        }
        if self.is_whole() {
            return Ok(());
        }
        for (index, tensor) in self.wanted.iter().zip(outputs) {
            let name = &self.endpoint.signature.outputs[*index as usize].name;
            let text = match tensor.rows() {
                None => format!("Batched output tensor has 0 dimensions (output {name})"),
                Some(rows) if rows != self.executed_rows => format!(
                    "Batched output tensor's 0th dimension does not equal the sum of the 0th dimension sizes of the \
                     input tensors (output {name}: expected {} but got {rows})",
                    self.executed_rows
                ),
                Some(_) => continue,
            };
            return Err(Error::new(Code::FailedPrecondition, Reason::ModelOutput, text));
        }
        Ok(())
    }

    /// The model failed. `guilty` names the rows (of this batch) at fault, where the model knows them.
    ///
    /// Requests that may be innocent are run again in smaller batches, within a bound, when the settings allow it.
    pub fn fail(mut self, error: Error, guilty: &[usize]) {
        self.end(None);
        let pieces = std::mem::take(&mut self.pieces);
        if !self.version.settings.isolate_failures || pieces.len() == 1 {
            return fail_all(&pieces, &error);
        }
        let budget = policy::isolation_budget(pieces.len());
        let budget = self.budget.take().unwrap_or_else(|| Arc::new(AtomicU32::new(budget)));
        let (bad, mut good) = self.judge(pieces, guilty);
        fail_all(&bad, &error);
        // Nobody is known to be guilty: one half is innocent if there is but one culprit.
        let half = if bad.is_empty() { good.len() / 2 } else { 0 };
        let second = good.split_off(half);
        for pieces in [good, second] {
            self.again(pieces, &budget, &error);
        }
    }

    /// Parts the requests with rows at fault from the others. Padding is a copy of the last request's row.
    fn judge(&self, pieces: Vec<Piece>, guilty: &[usize]) -> (Vec<Piece>, Vec<Piece>) {
        let guilty: Vec<usize> =
            guilty.iter().filter(|row| **row < self.executed_rows).map(|row| (*row).min(self.rows - 1)).collect();
        let mut first = 0;
        pieces.into_iter().partition(|piece| {
            let rows = first..first + piece.rows();
            first = rows.end;
            guilty.iter().any(|row| rows.contains(row))
        })
    }

    /// Runs pieces once more, if the budget for that is not spent.
    fn again(&self, pieces: Vec<Piece>, budget: &Arc<AtomicU32>, error: &Error) {
        if pieces.is_empty() {
            return;
        }
        let spend = |left: u32| left.checked_sub(1);
        if budget.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend).is_err() {
            return fail_all(&pieces, error);
        }
        self.endpoint.metrics.reran();
        let budget = Some(Arc::clone(budget));
        self.version.run_again(Parts { pieces, budget, lost_before: self.lost_before, fresh: false });
    }

    /// The worker was lost under the batch.
    pub fn lost(mut self, error: Error) {
        self.end(None);
        let pieces = std::mem::take(&mut self.pieces);
        if self.lost_before || !self.version.settings.retry_lost_batches {
            return fail_all(&pieces, &error);
        }
        let parts = Parts { pieces, budget: self.budget.take(), lost_before: true, fresh: false };
        self.version.run_again(parts);
    }

    /// The batch never ran: its requests wait on, first in line and none the worse for it.
    pub fn put_back(mut self) {
        self.ended = true;
        let pieces = std::mem::take(&mut self.pieces);
        let parts = Parts { pieces, budget: self.budget.take(), lost_before: self.lost_before, fresh: false };
        self.version.put_back(parts);
    }

    fn end(&mut self, took: Option<Duration>) {
        self.ended = true;
        self.version.ended(took.map(|took| (self.rows, took)));
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        if !self.ended {
            self.end(None);
            self.version.telemetry.batch_dropped();
            fail_all(&self.pieces, &Error::internal("the batch was dropped by its owner"));
        }
    }
}

fn fail_all(pieces: &[Piece], error: &Error) {
    for piece in pieces {
        piece.pending.fail(error.clone());
    }
}

fn union(pieces: &[Piece]) -> Wanted {
    let mut wanted = pieces[0].pending.wanted.clone();
    for piece in &pieces[1..] {
        if piece.pending.wanted != wanted {
            wanted.extend(piece.pending.wanted.iter().copied());
            wanted.sort_unstable();
            wanted.dedup();
        }
    }
    wanted
}

#[cfg(test)]
#[path = "batch_tests.rs"]
mod tests;
