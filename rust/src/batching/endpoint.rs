//! One signature of one version: checks requests before they may queue.

use std::collections::BTreeSet;
use std::sync::Arc;

use smallvec::SmallVec;

use super::pending::Wanted;
use super::queue::QueueKey;
use crate::config::BatchSettings;
use crate::error::{Error, Result};
use crate::model::{Signature, TensorSpec};
use crate::telemetry::{EndpointLabels, EndpointMetrics, Telemetry};
use crate::tensor::Tensor;

/// Most dimensions of an input that padding evens out, as in TensorFlow Serving.
const MAX_PADDED_RANK: usize = 6;

/// The checked side of one (version, signature). Its queues live in the version, which shares workers among them.
pub struct Endpoint {
    /// Position in the version's list of endpoints, and so the signature's number on the channel.
    pub index: usize,
    pub signature: Arc<Signature>,
    pub metrics: EndpointMetrics,
    telemetry: Arc<Telemetry>,
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
            metrics: telemetry.endpoint(labels),
            telemetry: Arc::clone(telemetry),
            signature,
            pad: settings.pad_variable_length_inputs,
            limit,
        }
    }

    /// Most rows of one batch of requests with this key.
    pub fn limit(&self, key: &QueueKey) -> usize {
        if key.whole { 1 } else { self.limit }
    }

    /// Brings named inputs into the signature's order, or says which names are wrong.
    pub fn arrange(&self, mut named: Vec<(String, Tensor)>) -> Result<Vec<Tensor>> {
        let specs = &self.signature.inputs;
        let mut inputs = Vec::with_capacity(specs.len());
        if named.len() == specs.len() {
            for spec in specs {
                let Some(position) = named.iter().position(|(name, _)| *name == spec.name) else { break };
                inputs.push(named.swap_remove(position).1);
            }
            if inputs.len() == specs.len() {
                return Ok(inputs);
            }
        }
        let sent = named.into_iter().map(|(name, _)| name);
        let matched = specs.iter().take(inputs.len()).map(|spec| spec.name.clone());
        Err(self.wrong_names(&sent.chain(matched).collect()))
    }

    fn wrong_names(&self, sent: &BTreeSet<String>) -> Error {
        let wanted: BTreeSet<String> = self.signature.inputs.iter().map(|spec| spec.name.clone()).collect();
        let list = |names: &mut dyn Iterator<Item = &String>| names.cloned().collect::<Vec<_>>().join(",");
        Error::bad_input(format!(
            "input size does not match signature: {}!={} len({{{}}}) != len({{{}}}). Sent extra: {{{}}}. \
             Missing but required: {{{}}}.",
            sent.len(),
            wanted.len(),
            list(&mut sent.iter()),
            list(&mut wanted.iter()),
            list(&mut sent.difference(&wanted)),
            list(&mut wanted.difference(sent)),
        ))
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
        let rows = if self.signature.batched { common_rows(&inputs)? } else { None };
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

/// The dim 0 that all inputs share. `None` for scalars, for no rows and for no inputs: these run alone.
fn common_rows(inputs: &[Tensor]) -> Result<Option<usize>> {
    let mut common = None;
    for tensor in inputs {
        let Some(rows) = tensor.rows() else { return Ok(None) };
        if *common.get_or_insert(rows) != rows {
            return Err(Error::bad_input("Batching Run() input tensors must have equal 0th-dimension size"));
        }
    }
    Ok(common.filter(|rows| *rows > 0))
}

#[cfg(test)]
#[path = "endpoint_tests.rs"]
mod tests;
