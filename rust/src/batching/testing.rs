//! What tests of batching are made of: a version under a hand-moved clock, calls that are polled by hand, and a model
//! that halves and adds two. No runtime, no sockets, no sleep.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use bytes::Bytes;

use super::batch::{Batch, Timing};
use super::endpoint::{Checked, Endpoint};
use super::gather::{Place, gather, plan};
use super::pending::Answer;
use super::policy::Need;
use super::stages::{Answered, Stages};
use super::version::{Holdings, Next, Version};
use crate::clock::{Clock, ManualClock};
use crate::config::BatchSettings;
use crate::error::{Code, Error, Reason, Result};
use crate::model::{Signature, TensorSpec};
use crate::telemetry::Telemetry;
use crate::tensor::{DType, Data, Tensor};

/// Batches of up to 10 rows, at once, with nothing switched on.
pub fn settings() -> BatchSettings {
    BatchSettings {
        enable_batching: true,
        max_batch_size: 10,
        batch_timeout_micros: 0,
        allowed_batch_sizes: vec![],
        max_enqueued_batches: 100,
        max_enqueued_bytes: 1 << 20,
        pad_variable_length_inputs: false,
        enable_large_batch_splitting: false,
        max_execution_batch_size: 0,
        isolate_failures: true,
        retry_lost_batches: false,
        max_run_s: 1.0,
    }
}

pub fn spec(name: &str, dtype: DType, shape: Option<&[i64]>) -> TensorSpec {
    TensorSpec::new(name, dtype, shape.map(<[i64]>::to_vec))
}

/// `x` in; `copy` (x itself) and `half` (x / 2 + 2) out; floats of any shape.
pub fn half_plus_two(name: &str, batched: bool) -> Signature {
    Signature {
        name: name.into(),
        method_name: "tensorflow/serving/predict".into(),
        inputs: vec![spec("x", DType::Float, None)],
        outputs: vec![spec("copy", DType::Float, None), spec("half", DType::Float, None)],
        batched,
        check_shapes: true,
    }
}

pub fn floats(shape: &[usize], values: &[f32]) -> Tensor {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor::fixed(DType::Float, shape.into(), bytes.into()).expect("values that fit the shape")
}

pub fn strings(shape: &[usize], items: &[&'static str]) -> Tensor {
    Tensor::strings(shape.into(), items.iter().map(|item| Bytes::from_static(item.as_bytes())).collect())
        .expect("items that fit the shape")
}

/// The values of a float tensor.
pub fn values(tensor: &Tensor) -> Vec<f32> {
    let Data::Fixed(bytes) = tensor.data() else { panic!("a float tensor") };
    bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

/// A version with two batched signatures, `first` and `second`, and one that is not, `alone`.
pub struct World {
    pub version: Arc<Version>,
    pub clock: Arc<ManualClock>,
    pub telemetry: Arc<Telemetry>,
}

impl World {
    pub fn new(settings: BatchSettings) -> Self {
        let signatures =
            vec![half_plus_two("first", true), half_plus_two("second", true), half_plus_two("alone", false)];
        Self::with_signatures(settings, signatures)
    }

    pub fn with_signatures(settings: BatchSettings, signatures: Vec<Signature>) -> Self {
        let (clock, telemetry) = (Arc::<ManualClock>::default(), Telemetry::new(true));
        let version = Version::new("m", 1, settings, Arc::clone(&telemetry), Arc::clone(&clock) as Arc<dyn Clock>);
        version.describe(signatures);
        Self { version, clock, telemetry }
    }

    pub fn endpoint(&self, name: &str) -> Arc<Endpoint> {
        let endpoints = self.version.endpoints();
        Arc::clone(endpoints.iter().find(|endpoint| endpoint.signature.name == name).expect("a known signature"))
    }

    /// `rows` rows of one number each, all `value`, for the signature `first`.
    pub fn rows(&self, rows: usize, value: f32) -> Call {
        self.call("first", floats(&[rows], &vec![value; rows]))
    }

    pub fn call(&self, signature: &str, input: Tensor) -> Call {
        self.call_with(signature, vec![input], &[], None)
    }

    pub fn call_with(&self, signature: &str, inputs: Vec<Tensor>, outputs: &[&str], deadline: Option<Instant>) -> Call {
        let endpoint = self.endpoint(signature);
        let checked = endpoint.check(inputs).expect("inputs that fit the signature");
        let wanted: Vec<String> = outputs.iter().map(|name| (*name).to_owned()).collect();
        let wanted = endpoint.select(&wanted).expect("known outputs");
        let lease = self.version.lease().expect("an open version");
        Call::new(async move { lease.run(&endpoint, checked, wanted, deadline).await })
    }

    pub fn next(&self) -> Next {
        self.version.next(Need::Idle)
    }

    /// The batch that is due now.
    pub fn batch(&self) -> Batch {
        match self.next() {
            Next::Batch(batch) => *batch,
            other => panic!("no batch is due: {other:?}"),
        }
    }

    /// Every batch that can be formed now.
    pub fn batches(&self) -> Vec<Batch> {
        std::iter::from_fn(|| match self.next() {
            Next::Batch(batch) => Some(*batch),
            _ => None,
        })
        .collect()
    }

    /// Runs the model until no batch is due; how many ran.
    pub fn serve(&self) -> usize {
        let mut runs = 0;
        while let Next::Batch(batch) = self.next() {
            answer(*batch);
            runs += 1;
        }
        runs
    }

    /// As [`World::serve`], with a model that fails on batches in which a row has the first value `poison`.
    pub fn serve_poisoned(&self, poison: f32) -> usize {
        let mut runs = 0;
        while let Next::Batch(batch) = self.next() {
            runs += 1;
            if inputs(&batch).contains(&poison) { batch.fail(model_failed(), &[]) } else { answer(*batch) }
        }
        runs
    }

    pub fn advance(&self, micros: u64) {
        self.clock.advance(Duration::from_micros(micros));
    }

    /// A counter or gauge, summed over its labels.
    pub fn metric(&self, name: &str) -> f64 {
        let text = self.telemetry.text();
        let lines =
            text.lines().filter(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(['{', ' '])));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// Waiting rows as the metrics have them.
    pub fn queued_rows(&self) -> i64 {
        self.version.endpoints().iter().map(|endpoint| endpoint.metrics.queued_rows()).sum()
    }

    /// Nothing may be left when all requests have ended.
    pub fn assert_nothing_held(&self) {
        assert_eq!(self.version.holdings(), Holdings::default());
        assert_eq!(self.queued_rows(), 0, "queued rows in the metrics");
    }
}

impl std::fmt::Debug for Next {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Next::Batch(batch) => write!(f, "Batch({} rows)", batch.rows),
            Next::WaitUntil(time) => write!(f, "WaitUntil({time:?})"),
            Next::Sleep => f.write_str("Sleep"),
            Next::Close => f.write_str("Close"),
        }
    }
}

/// The rows that each request has in a batch.
pub fn sizes(batch: &Batch) -> Vec<usize> {
    batch.pieces.iter().map(|piece| piece.rows()).collect()
}

/// What a worker would see of a batch.
pub fn gathered(batch: &Batch) -> (Vec<Place>, Vec<u8>) {
    let (places, len) = plan(batch).expect("a batch that fits into memory");
    let mut memory = vec![0xEE; len];
    gather(batch, &places, &mut memory);
    (places, memory)
}

/// The numbers of the only input.
pub fn inputs(batch: &Batch) -> Vec<f32> {
    let (places, memory) = gathered(batch);
    let bytes = &memory[places[0].offset..places[0].offset + places[0].len];
    bytes.chunks_exact(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

/// What the model returns: each wanted output, in the shape of the input.
pub fn outputs(batch: &Batch) -> Vec<Tensor> {
    let shape = gathered(batch).0[0].shape.clone();
    let copy = inputs(batch);
    let half: Vec<f32> = copy.iter().map(|value| value / 2.0 + 2.0).collect();
    batch.wanted.iter().map(|index| floats(&shape, [&copy, &half][usize::from(*index)])).collect()
}

/// Runs the model.
pub fn answer(batch: Batch) {
    let outputs = outputs(&batch);
    batch.complete(outputs, Timing { took: Duration::from_millis(1), ..Timing::default() });
}

pub fn model_failed() -> Error {
    Error::new(Code::Internal, Reason::ModelFailed, "the model failed")
}

/// A client: its request is queued when it is made, and withdrawn when it is dropped.
pub struct Call {
    run: Option<Pin<Box<dyn Future<Output = Result<Answered>> + Send>>>,
    outcome: Option<Result<Answered>>,
}

impl Call {
    fn new(run: impl Future<Output = Result<Answered>> + Send + 'static) -> Self {
        let mut call = Self { run: Some(Box::pin(run)), outcome: None };
        call.poll();
        call
    }

    fn poll(&mut self) {
        let Some(run) = &mut self.run else { return };
        if let Poll::Ready(outcome) = run.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            (self.run, self.outcome) = (None, Some(outcome));
        }
    }

    pub fn is_waiting(&mut self) -> bool {
        self.poll();
        self.outcome.is_none()
    }

    /// How the request has ended.
    pub fn outcome(self) -> Result<Answer> {
        self.ended().map(|answered| answered.answer)
    }

    /// Where the time of an answered request went.
    pub fn stages(self) -> Stages {
        self.ended().expect("the request was answered").stages
    }

    fn ended(mut self) -> Result<Answered> {
        self.poll();
        self.outcome.take().expect("the request has ended")
    }

    pub fn error(self) -> Error {
        self.outcome().expect_err("the request has failed")
    }

    /// The numbers of the last output, which is `half` unless a filter says otherwise.
    pub fn numbers(self) -> Vec<f32> {
        values(self.outcome().expect("the request was answered").last().expect("an output"))
    }
}

/// A request that no version knows of, for tests of queues.
pub fn checked(endpoint: &Endpoint, rows: usize) -> Checked {
    endpoint.check(vec![floats(&[rows], &vec![0.0; rows])]).expect("floats")
}
