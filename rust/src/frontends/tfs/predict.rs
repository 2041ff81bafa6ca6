//! Predict, whatever the wire: the request's way through endpoint, queue and worker.

use std::sync::Arc;
use std::time::Instant;

use crate::batching::endpoint::Endpoint;
use crate::batching::version::Lease;
use crate::batching::{Answer, Answered, Wanted};
use crate::error::Result;
use crate::frontends::recorder::Recorder;
use crate::frontends::timing::ServerTiming;
use crate::telemetry::Api;
use crate::tensor::Tensor;

/// A request that has found its endpoint.
pub struct Predict<'a> {
    pub lease: &'a Lease,
    pub endpoint: &'a Arc<Endpoint>,
    pub api: Api,
    /// Who may want to keep it.
    pub recorder: Option<&'a Recorder>,
    pub arrived: Instant,
    pub deadline: Option<Instant>,
    pub timing: &'a ServerTiming,
}

impl Predict<'_> {
    /// Runs inputs in the order of the signature; the outcome is counted.
    pub async fn run(&self, inputs: Result<Vec<Tensor>>, wanted: Result<Wanted>) -> Result<(Wanted, Answer)> {
        let outcome = self.outcome(inputs, wanted).await;
        let code = outcome.as_ref().err().map(|error| error.code);
        let now = Instant::now();
        self.endpoint.metrics.request(self.api, code, now.saturating_duration_since(self.arrived).as_secs_f64());
        let (wanted, Answered { answer, stages }) = outcome?;
        self.timing.note(&stages, now);
        Ok((wanted, answer))
    }

    async fn outcome(&self, inputs: Result<Vec<Tensor>>, wanted: Result<Wanted>) -> Result<(Wanted, Answered)> {
        let (inputs, wanted) = (inputs?, wanted?);
        let model = &*self.lease.version().model;
        let kept = self.recorder.filter(|recorder| recorder.wants(model)).map(|recorder| (recorder, inputs.clone()));
        let checked = self.endpoint.check(inputs)?;
        let answered = self.lease.run(self.endpoint, checked, wanted.clone(), self.deadline).await?;
        if let Some((recorder, inputs)) = kept {
            recorder.keep(model, self.endpoint, &inputs);
        }
        Ok((wanted, answered))
    }

    /// The answer with the names of its outputs.
    pub fn named<'b>(&'b self, wanted: &Wanted, answer: &'b Answer) -> Vec<(&'b str, &'b Tensor)> {
        let name = |index: &u16| self.endpoint.signature.outputs[usize::from(*index)].name.as_str();
        wanted.iter().map(name).zip(answer).collect()
    }
}
