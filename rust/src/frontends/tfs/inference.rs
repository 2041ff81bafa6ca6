//! Classification and regression over `tensorflow.Example`s, whatever the wire.
//!
//! A signature for either takes one string tensor, `inputs`, and gives `classes` and `scores`, or `outputs`. What it
//! declares is checked before it runs and what it gave afterwards, with the texts of TensorFlow Serving.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;
use smallvec::smallvec;

use super::predict::Predict;
use crate::batching::endpoint::Endpoint;
use crate::batching::version::Lease;
use crate::error::{Error, Result};
use crate::frontends::timing::ServerTiming;
use crate::model::{DEFAULT_SIGNATURE, Signature, TensorSpec};
use crate::telemetry::Api;
use crate::tensor::{DType, Data, Tensor, show};

pub const CLASSIFY: &str = "tensorflow/serving/classify";
pub const REGRESS: &str = "tensorflow/serving/regress";
const INPUTS: &str = "inputs";
const CLASSES: &str = "classes";
const SCORES: &str = "scores";
const OUTPUTS: &str = "outputs";

/// Who is asked, and how: what a classification and a regression have in common.
pub struct Asked<'a> {
    pub lease: &'a Lease,
    /// Empty for the default one.
    pub signature: &'a str,
    pub api: Api,
    pub arrived: Instant,
    pub deadline: Option<Instant>,
    pub timing: &'a ServerTiming,
}

/// A label with its score; a model without labels leaves them empty, one without scores leaves them 0.
#[derive(Debug, Clone, PartialEq)]
pub struct Class {
    pub label: Bytes,
    pub score: f32,
}

/// The classes of each example.
pub async fn classify(asked: &Asked<'_>, examples: Vec<Bytes>) -> Result<Vec<Vec<Class>>> {
    let endpoint = asked.endpoint()?;
    check_classify(&endpoint.signature)?;
    let rows = examples.len();
    let outputs = asked.run(endpoint, examples, &[CLASSES, SCORES]).await?;
    let found = |name: &str| outputs.iter().find(|(output, _)| output == name).map(|(_, tensor)| tensor);
    classes(found(CLASSES), found(SCORES), rows)
}

/// The value of each example.
pub async fn regress(asked: &Asked<'_>, examples: Vec<Bytes>) -> Result<Vec<f32>> {
    let endpoint = asked.endpoint()?;
    check_regress(&endpoint.signature)?;
    let rows = examples.len();
    let outputs = asked.run(endpoint, examples, &[OUTPUTS]).await?;
    let [(_, values)] = &outputs[..] else { return Err(Error::bad_input("Expected one output Tensor.")) };
    regressions(values, rows)
}

impl Asked<'_> {
    /// The signature's name, resolved.
    pub fn signature(&self) -> &str {
        if self.signature.is_empty() { DEFAULT_SIGNATURE } else { self.signature }
    }

    fn endpoint(&self) -> Result<&Arc<Endpoint>> {
        let name = self.signature();
        let missing = || Error::bad_input(format!("No signature was found with the name: {name}"));
        self.lease.endpoint(name).ok_or_else(missing)
    }

    /// Runs the examples; gives those of the outputs named that the signature has.
    async fn run(
        &self,
        endpoint: &Arc<Endpoint>,
        examples: Vec<Bytes>,
        names: &[&str],
    ) -> Result<Vec<(String, Tensor)>> {
        let Self { lease, api, arrived, deadline, timing, .. } = *self;
        let predict = Predict { lease, endpoint, api, recorder: None, arrived, deadline, timing };
        let input = Tensor::strings(smallvec![examples.len()], examples);
        let inputs = input.and_then(|input| endpoint.arrange(vec![(INPUTS.into(), input)]));
        let has = |name: &&&str| endpoint.signature.outputs.iter().any(|spec| spec.name == **name);
        let wanted: Vec<String> = names.iter().filter(has).map(|name| (*name).into()).collect();
        let (wanted, answer) = predict.run(inputs, endpoint.select(&wanted)).await?;
        let named = predict.named(&wanted, &answer);
        Ok(named.into_iter().map(|(name, tensor)| (name.to_owned(), tensor.clone())).collect())
    }
}

fn check_classify(signature: &Signature) -> Result<()> {
    check_input(signature, "classification")?;
    let outputs = &signature.outputs;
    if !(1..=2).contains(&outputs.len()) {
        return Err(Error::bad_input(format!("Expected one or two output Tensors, found {}", outputs.len())));
    }
    if !outputs.iter().any(|spec| spec.name == CLASSES || spec.name == SCORES) {
        let message = format!(
            "Expected classification signature outputs to contain at least one of \"classes\" or \"scores\". \
             Signature was: {}",
            shown(signature)
        );
        return Err(Error::bad_input(message));
    }
    Ok(())
}

fn check_regress(signature: &Signature) -> Result<()> {
    check_input(signature, "regression")?;
    match &signature.outputs[..] {
        [only] if only.name == OUTPUTS => Ok(()),
        [_] => Err(Error::bad_input(format!("No regression outputs found in SignatureDef: {}", shown(signature)))),
        _ => Err(Error::bad_input("Expected one output Tensor.")),
    }
}

fn check_input(signature: &Signature, method: &str) -> Result<()> {
    match &signature.inputs[..] {
        [only] if only.name == INPUTS => Ok(()),
        [_] => Err(Error::bad_input(format!("No {method} inputs found in SignatureDef: {}", shown(signature)))),
        _ => Err(Error::bad_input("Expected one input Tensor.")),
    }
}

/// A signature in one line, for people.
fn shown(signature: &Signature) -> String {
    let list = |specs: &[TensorSpec]| {
        let one = |spec: &TensorSpec| format!("{}: {} {}", spec.name, spec.dtype, spec.show_shape());
        specs.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    format!("{} ({}) -> ({})", signature.name, list(&signature.inputs), list(&signature.outputs))
}

fn classes(labels: Option<&Tensor>, scores: Option<&Tensor>, rows: usize) -> Result<Vec<Vec<Class>>> {
    let labels = labels.map(|tensor| column(tensor, CLASSES, DType::String, rows)).transpose()?;
    let scores = scores.map(|tensor| column(tensor, SCORES, DType::Float, rows)).transpose()?;
    let width = match (&labels, &scores) {
        (Some((labels, _)), Some((scores, _))) if labels != scores => {
            let message = format!("Tensors class and score should match in dim_size(1). Got {labels} vs. {scores}");
            return Err(Error::bad_input(message));
        }
        (Some((width, _)), _) | (None, Some((width, _))) => *width,
        (None, None) => 0,
    };
    let label = |index: usize| match labels.as_ref().map(|(_, tensor)| tensor.data()) {
        Some(Data::Strings(items)) => items[index].clone(),
        _ => Bytes::new(),
    };
    let floats = scores.map(|(_, tensor)| floats(tensor)).unwrap_or_default();
    let class = |index: usize| Class { label: label(index), score: floats.get(index).copied().unwrap_or(0.0) };
    Ok((0..rows).map(|row| (row * width..(row + 1) * width).map(class).collect()).collect())
}

/// The number of classes in an output with one row an example.
fn column<'a>(tensor: &'a Tensor, name: &str, dtype: DType, rows: usize) -> Result<(usize, &'a Tensor)> {
    let [batch, width] = tensor.shape() else {
        let message = format!("Expected Tensor shape: [batch_size num_classes] but got {}", show(tensor.shape()));
        return Err(Error::bad_input(message));
    };
    if tensor.dtype() != dtype {
        let (want, got) = (dtype.name().to_uppercase(), tensor.dtype().name().to_uppercase());
        return Err(Error::bad_input(format!("Expected {name} Tensor of DT_{want}. Got: DT_{got}")));
    }
    if *batch != rows {
        return Err(Error::bad_input(format!("Expected {name} output batch size of {rows}. Got: {batch}")));
    }
    Ok((*width, tensor))
}

fn regressions(values: &Tensor, rows: usize) -> Result<Vec<f32>> {
    let (batch, dtype) = (values.rows(), values.dtype());
    let (Some(batch), [_] | [_, 1]) = (batch, values.shape()) else {
        let message = format!(
            "Expected output Tensor shape to be either [batch_size] or [batch_size, 1] but got {}",
            show(values.shape())
        );
        return Err(Error::bad_input(message));
    };
    if batch != rows {
        return Err(Error::bad_input(format!("Input batch size did not match output batch size: {rows} vs. {batch}")));
    }
    if dtype != DType::Float {
        let got = dtype.name().to_uppercase();
        return Err(Error::bad_input(format!("Expected output Tensor of DT_FLOAT. Got: DT_{got}")));
    }
    Ok(floats(values))
}

fn floats(tensor: &Tensor) -> Vec<f32> {
    let Data::Fixed(bytes) = tensor.data() else { return Vec::new() };
    bytes.as_chunks::<4>().0.iter().map(|chunk| f32::from_le_bytes(*chunk)).collect()
}

#[cfg(test)]
#[path = "inference_tests.rs"]
mod tests;
