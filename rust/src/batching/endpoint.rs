//! One signature of one version: checks requests before they may queue.

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::SmallVec;

use super::names;
use super::pending::Wanted;
use super::queue::QueueKey;
use crate::config::BatchSettings;
use crate::error::{Error, Result};
use crate::model::{Signature, TensorSpec};
use crate::telemetry::{EndpointLabels, EndpointMetrics, Method, Telemetry};
use crate::tensor::Tensor;

/// Most dimensions of an input that padding evens out, as in TensorFlow Serving.
const MAX_PADDED_RANK: usize = 6;
/// Most memory that a default takes when its row is repeated; beyond it the request runs alone.
const MOST_SPREAD: usize = 16 << 20;

/// The checked side of one (version, signature). Its queues live in the version, which shares workers among them.
pub struct Endpoint {
    /// Position in the version's list of endpoints, and so the signature's number on the channel.
    pub index: usize,
    pub signature: Arc<Signature>,
    pub metrics: EndpointMetrics,
    telemetry: Arc<Telemetry>,
    batching: bool,
    pad: bool,
    limit: usize,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint").field("signature", &self.signature.name).finish_non_exhaustive()
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.telemetry.forget(self.metrics.labels());
    }
}

/// A request whose inputs fit its signature.
#[derive(Debug)]
pub struct Checked {
    pub inputs: Vec<Tensor>,
    /// Size of dim 0; `None` when the request can only run alone.
    pub rows: Option<usize>,
    pub key: QueueKey,
}

impl Endpoint {
    pub fn new(
        index: usize,
        signature: Arc<Signature>,
        settings: &BatchSettings,
        telemetry: &Arc<Telemetry>,
        (model, version): (&str, i64),
    ) -> Self {
        let labels = EndpointLabels { model: model.into(), version, signature: signature.name.clone() };
        let limit = if signature.batched { settings.execution_size() } else { 1 };
        Self {
            index,
            metrics: telemetry.endpoint(labels, method(&signature.method_name)),
            telemetry: Arc::clone(telemetry),
            signature,
            batching: settings.enable_batching,
            pad: settings.pad_variable_length_inputs,
            limit,
        }
    }

    /// Most rows of one batch of requests with this key.
    pub fn limit(&self, key: &QueueKey) -> usize {
        if key.whole { 1 } else { self.limit }
    }

    /// Brings named inputs into the signature's order, with defaults for those left out, or says which names are wrong.
    pub fn arrange(&self, mut named: Vec<(String, Tensor)>) -> Result<Vec<Tensor>> {
        let specs = &self.signature.inputs;
        if named.len() != specs.len() {
            return self.fill(named);
        }
        let mut inputs = Vec::with_capacity(specs.len());
        for spec in specs {
            let Some(position) = named.iter().position(|(name, _)| *name == spec.name) else {
                named.extend(specs.iter().zip(inputs).map(|(spec, tensor)| (spec.name.clone(), tensor)));
                return self.fill(named);
            };
            inputs.push(named.swap_remove(position).1);
        }
        Ok(inputs)
    }

    /// Inputs that are not exactly those of the signature: with the defaults of those left out they may be.
    fn fill(&self, named: Vec<(String, Tensor)>) -> Result<Vec<Tensor>> {
        let specs = &self.signature.inputs;
        names::check(specs, named.iter().map(|(name, _)| name.as_str()).collect())?;
        let rows = named.iter().find_map(|(_, tensor)| tensor.rows());
        let mut sent: HashMap<String, Tensor> = named.into_iter().collect();
        let input = |spec: &TensorSpec| sent.remove(&spec.name).or_else(|| Some(spread(spec.default.as_ref()?, rows)));
        // The check of names has seen to it that there is one or the other.
        Ok(specs.iter().filter_map(input).collect())
    }

    /// Which outputs a client wants; all of them when its filter is empty.
    pub fn select(&self, filter: &[String]) -> Result<Wanted> {
        let outputs = &self.signature.outputs;
        if filter.is_empty() {
            return Ok((0..outputs.len() as u16).collect());
        }
        let mut wanted = Wanted::new();
        for name in filter {
            let Some(position) = outputs.iter().position(|spec| spec.name == *name) else {
                let known: Vec<&str> = outputs.iter().map(|spec| spec.name.as_str()).collect();
                return Err(Error::bad_input(format!(
                    "output tensor alias not found in signature: {name} Outputs expected to be in the set {{{}}}.",
                    known.join(",")
                )));
            };
            if wanted.contains(&(position as u16)) {
                return Err(Error::bad_input(format!("duplicate output tensor alias: {name}")));
            }
            wanted.push(position as u16);
        }
        wanted.sort_unstable();
        Ok(wanted)
    }

    /// Checks dtypes and shapes, and finds out with whom the request may share a batch.
    pub fn check(&self, inputs: Vec<Tensor>) -> Result<Checked> {
        for (index, (spec, tensor)) in self.signature.inputs.iter().zip(&inputs).enumerate() {
            check_dtype(index, spec, tensor)?;
            if self.signature.check_shapes && !spec.accepts(tensor.shape()) {
                return Err(Error::bad_input(spec.shape_mismatch(tensor.shape())));
            }
        }
        let rows =
            if self.signature.batched && self.batching { common_rows(&self.signature.inputs, &inputs)? } else { None };
        let key = match rows {
            Some(_) => self.shared_key(&inputs)?,
            None => QueueKey { endpoint: self.index, whole: true, dims: SmallVec::new() },
        };
        Ok(Checked { inputs, rows, key })
    }

    fn shared_key(&self, inputs: &[Tensor]) -> Result<QueueKey> {
        let mut dims = SmallVec::new();
        for (spec, tensor) in self.signature.inputs.iter().zip(inputs) {
            let shape = tensor.shape();
            if self.pad && shape.len() > MAX_PADDED_RANK {
                return Err(Error::bad_input("Only tensors with rank from 1 to 6 can be padded."));
            }
            dims.push(shape.len());
            dims.extend((1..shape.len()).filter(|axis| !(self.pad && may_vary(spec, *axis))).map(|axis| shape[axis]));
        }
        Ok(QueueKey { endpoint: self.index, whole: false, dims })
    }
}

/// What a signature is asked for. A SavedModel has one of its own for each kind of call.
fn method(name: &str) -> Method {
    match name.rsplit('/').next() {
        Some("classify") => Method::Classify,
        Some("regress") => Method::Regress,
        _ => Method::Predict,
    }
}

/// Whether a dimension may differ between requests.
pub fn may_vary(spec: &TensorSpec, axis: usize) -> bool {
    spec.shape.as_ref().is_none_or(|shape| shape.get(axis).is_none_or(|dim| *dim < 0))
}

fn check_dtype(index: usize, spec: &TensorSpec, tensor: &Tensor) -> Result<()> {
    if tensor.dtype() != spec.dtype {
        return Err(Error::bad_input(format!(
            "Expects arg[{index}] to be {} but {} is provided (input {})",
            spec.dtype,
            tensor.dtype(),
            spec.name
        )));
    }
    Ok(())
}

/// The dim 0 that all inputs share. `None` for scalars, for no rows and for no inputs, and where an input that has a
/// default has rows of its own: these run alone.
fn common_rows(specs: &[TensorSpec], inputs: &[Tensor]) -> Result<Option<usize>> {
    let mut common = None;
    for tensor in inputs {
        let Some(rows) = tensor.rows() else { return Ok(None) };
        if *common.get_or_insert(rows) != rows {
            return match specs.iter().any(|spec| spec.default.is_some()) {
                true => Ok(None),
                false => Err(Error::bad_input("Batching Run() input tensors must have equal 0th-dimension size")),
            };
        }
    }
    Ok(common.filter(|rows| *rows > 0))
}

/// A default for a request of so many rows: one row is repeated, so that the request can share a batch.
fn spread(default: &Tensor, rows: Option<usize>) -> Tensor {
    match rows {
        Some(rows) if default.byte_len().saturating_mul(rows) <= MOST_SPREAD => default.repeat_row(rows),
        _ => default.clone(),
    }
}

#[cfg(test)]
#[path = "endpoint_tests.rs"]
mod tests;
