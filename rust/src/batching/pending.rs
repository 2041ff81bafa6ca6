//! A request between admission and its answer.

use std::sync::Arc;
use std::time::Instant;

use bytes::BytesMut;
use parking_lot::Mutex;
use smallvec::SmallVec;
use tokio::sync::oneshot;

use super::endpoint::{Checked, Endpoint};
use super::queue::QueueKey;
use super::stages::{Answered, Stages};
use crate::error::{Code, Error, Reason, Result};
use crate::tensor::{Data, Shape, Tensor};

/// Positions in the signature's outputs, ascending.
pub type Wanted = SmallVec<[u16; 4]>;

/// What the client gets: one tensor for each wanted output, in the order of [`Pending::wanted`].
pub type Answer = Vec<Tensor>;

/// A request that waits or runs. It ends exactly once: with an answer, an error, or because nobody waits any more.
#[derive(Debug)]
pub struct Pending {
    pub endpoint: Arc<Endpoint>,
    /// With whom it may share a batch.
    pub key: QueueKey,
    /// In the order of the signature's inputs.
    pub inputs: Vec<Tensor>,
    pub wanted: Wanted,
    /// Size of dim 0; 1 when the request can only run alone.
    pub rows: usize,
    /// Memory that the inputs hold.
    pub bytes: usize,
    pub arrived: Instant,
    pub deadline: Option<Instant>,
    assembly: Mutex<Assembly>,
}

#[derive(Debug)]
struct Assembly {
    reply: Option<oneshot::Sender<Result<Answered>>>,
    parts: SmallVec<[(usize, Answer); 1]>,
    rows_done: usize,
}

impl Pending {
    /// A request and the end at which its answer comes out.
    pub fn new(
        endpoint: Arc<Endpoint>,
        checked: Checked,
        wanted: Wanted,
        arrived: Instant,
        deadline: Option<Instant>,
    ) -> (Arc<Self>, oneshot::Receiver<Result<Answered>>) {
        let (reply, answer) = oneshot::channel();
        let Checked { inputs, rows, key } = checked;
        let bytes = inputs.iter().map(Tensor::byte_len).sum();
        let rows = rows.unwrap_or(1);
        let assembly = Mutex::new(Assembly { reply: Some(reply), parts: SmallVec::new(), rows_done: 0 });
        (Arc::new(Self { endpoint, key, inputs, wanted, rows, bytes, arrived, deadline, assembly }), answer)
    }

    /// Whether the tensors go to the model as they are, never joined with others.
    pub fn is_whole(&self) -> bool {
        self.key.whole
    }

    /// Whether running it would still serve somebody. A request that is late is told so.
    pub fn is_wanted(&self, now: Instant) -> bool {
        if self.deadline.is_some_and(|deadline| deadline <= now) {
            self.fail(deadline_passed("while the request waited to be run"));
        }
        self.assembly.lock().reply.as_ref().is_some_and(|reply| !reply.is_closed())
    }

    /// Ends the request with an error, unless it has ended before.
    pub fn fail(&self, error: Error) {
        if let Some(reply) = self.assembly.lock().reply.take() {
            let _ = reply.send(Err(error));
        }
    }

    /// Hands in the outputs of the rows from `start` on; the last part to come ends the request.
    pub fn deliver(&self, start: usize, rows: usize, part: Answer, stages: Stages) {
        let mut assembly = self.assembly.lock();
        assembly.rows_done += rows;
        let done = assembly.rows_done >= self.rows;
        if !done {
            assembly.parts.push((start, part));
            return;
        }
        let Some(reply) = assembly.reply.take() else { return };
        let mut parts = std::mem::take(&mut assembly.parts);
        drop(assembly);
        let answer = if parts.is_empty() {
            Ok(part)
        } else {
            parts.push((start, part));
            parts.sort_by_key(|(start, _)| *start);
            join(parts.into_iter().map(|(_, part)| part).collect())
        };
        let _ = reply.send(answer.map(|answer| Answered { answer, stages }));
    }
}

/// What a client is told that set a limit to its patience.
pub fn deadline_passed(when: &str) -> Error {
    Error::new(Code::DeadlineExceeded, Reason::Deadline, format!("Deadline exceeded {when}"))
}

/// Joins the parts of a split request along dim 0, output by output.
fn join(parts: Vec<Answer>) -> Result<Answer> {
    let outputs = parts[0].len();
    (0..outputs).map(|output| concat(parts.iter().map(|part| &part[output]))).collect()
}

fn concat<'a>(parts: impl Iterator<Item = &'a Tensor> + Clone) -> Result<Tensor> {
    let mut shape: Shape = SmallVec::new();
    let mut rows = 0;
    for part in parts.clone() {
        rows += part.rows().unwrap_or(0);
        if shape.is_empty() {
            shape = part.shape().into();
        } else if shape[1..] != part.shape()[1..] {
            return Err(Error::new(
                Code::FailedPrecondition,
                Reason::ModelOutput,
                "the model gave outputs of different shapes to the parts of a request that was split",
            ));
        }
    }
    shape[0] = rows;
    let mut fixed = BytesMut::new();
    let mut strings = Vec::new();
    let mut dtype = None;
    for part in parts {
        dtype = Some(part.dtype());
        match part.data() {
            Data::Fixed(bytes) => fixed.extend_from_slice(bytes),
            Data::Strings(items) => strings.extend_from_slice(items),
        }
    }
    match dtype {
        Some(dtype) if dtype.size().is_some() => Tensor::fixed(dtype, shape, fixed.freeze()),
        _ => Tensor::strings(shape, strings),
    }
}
