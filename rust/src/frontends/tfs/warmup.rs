//! Warm-up files: requests that an exporter put beside a model, or that were recorded here.

use std::fs;
use std::path::Path;

use bytes::Bytes;
use prost::Message;

use super::examples::examples;
use super::wire;
use crate::frontends::proto::tensorflow::serving as pb;
use crate::model::DEFAULT_SIGNATURE;
use crate::tensor::{Shape, Tensor};
use crate::tfrecord;

/// The longest file that is read; it is held in memory.
const LONGEST_FILE: u64 = 2 << 30;
/// The input of signatures that take serialized examples.
const EXAMPLES: &str = "inputs";

/// One call of a signature.
#[derive(Debug, PartialEq, Eq)]
pub struct Replay {
    pub signature: String,
    pub inputs: Vec<(String, Tensor)>,
}

/// The calls that a file holds, of at most so many records.
pub fn read(path: &Path, most: usize) -> Result<Vec<Replay>, String> {
    let shown = path.display();
    let unreadable = |error: std::io::Error| format!("{shown} cannot be read: {error}");
    let len = fs::metadata(path).map_err(unreadable)?.len();
    if len > LONGEST_FILE {
        return Err(format!("{shown} has {len} bytes; expected at most {LONGEST_FILE}"));
    }
    let file = Bytes::from(fs::read(path).map_err(unreadable)?);
    let mut calls = Vec::new();
    for (index, record) in tfrecord::records(file).enumerate() {
        if index == most {
            return Err(format!("Number of warmup records exceeds the maximum ({most}) at {shown}"));
        }
        let record = record
            .map_err(|error| format!("{shown}: {error}. Please verify your warmup data is in TFRecord format."))?;
        let found = replays(&record, LONGEST_FILE as usize);
        calls.extend(found.map_err(|error| format!("{error} (record {index} of {shown})"))?);
    }
    Ok(calls)
}

/// The calls of one record: none when it has no type, one for each task of a multi-inference.
fn replays(record: &Bytes, most_bytes: usize) -> Result<Vec<Replay>, String> {
    use pb::prediction_log::LogType;
    let log = pb::PredictionLog::decode(record.clone()).map_err(unparsable)?;
    match log.log_type {
        None => Ok(Vec::new()),
        Some(LogType::PredictLog(log)) => predict(&log.request, most_bytes).map(|replay| vec![replay]),
        Some(LogType::ClassifyLog(log)) => {
            let request = pb::ClassificationRequest::decode(log.request).map_err(unparsable)?;
            on_examples([request.model_spec], request.input)
        }
        Some(LogType::RegressLog(log)) => {
            let request = pb::RegressionRequest::decode(log.request).map_err(unparsable)?;
            on_examples([request.model_spec], request.input)
        }
        Some(LogType::MultiInferenceLog(log)) => {
            let request = pb::MultiInferenceRequest::decode(log.request).map_err(unparsable)?;
            on_examples(request.tasks.into_iter().map(|task| task.model_spec), request.input)
        }
        Some(LogType::SessionRunLog(_)) => Err(unsupported(5)),
        Some(LogType::PredictStreamedLog(_)) => Err(unsupported(7)),
    }
}

fn unparsable(error: impl std::fmt::Display) -> String {
    format!("Failed to parse warmup record: {error}")
}

fn unsupported(kind: u32) -> String {
    format!("Unsupported log_type for warmup: {kind}")
}

fn predict(request: &Bytes, most_bytes: usize) -> Result<Replay, String> {
    let request = wire::decode_request(request, most_bytes).map_err(|error| unparsable(error.message))?;
    Ok(Replay { signature: named(request.model.signature), inputs: request.inputs })
}

fn on_examples(
    specs: impl IntoIterator<Item = Option<pb::ModelSpec>>,
    input: Option<pb::Input>,
) -> Result<Vec<Replay>, String> {
    let examples = examples(input).map_err(|error| error.message.into_owned())?;
    let tensor = Tensor::strings(Shape::from_slice(&[examples.len()]), examples);
    let tensor = tensor.map_err(|error| error.message.into_owned())?;
    let call = |spec: Option<pb::ModelSpec>| Replay {
        signature: named(spec.unwrap_or_default().signature_name),
        inputs: vec![(EXAMPLES.to_owned(), tensor.clone())],
    };
    Ok(specs.into_iter().map(call).collect())
}

fn named(signature: String) -> String {
    if signature.is_empty() { DEFAULT_SIGNATURE.to_owned() } else { signature }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(signature: &str) -> Option<pb::ModelSpec> {
        Some(pb::ModelSpec { name: "other".into(), signature_name: signature.into(), ..Default::default() })
    }

    fn input(context: &'static str) -> Option<pb::Input> {
        let list = pb::ExampleListWithContext { examples: vec!["a".into(), "b".into()], context: context.into() };
        Some(pb::Input { kind: Some(pb::input::Kind::ExampleListWithContext(list)) })
    }

    fn record(kind: pb::prediction_log::LogType) -> Bytes {
        pb::PredictionLog { log_type: Some(kind) }.encode_to_vec().into()
    }

    fn strings(signature: &str, examples: [&'static str; 2]) -> Replay {
        let tensor = Tensor::strings(Shape::from_slice(&[2]), examples.map(Bytes::from).to_vec()).unwrap();
        Replay { signature: signature.into(), inputs: vec![("inputs".into(), tensor)] }
    }

    #[test]
    fn every_kind_of_request_becomes_calls() {
        use pb::prediction_log::LogType;
        let tensor = Tensor::fixed(crate::tensor::DType::Float, Shape::from_slice(&[1]), vec![0; 4].into()).unwrap();
        let model = wire::Spec { name: "other", signature: "s", ..Default::default() };
        let request =
            wire::encode_request(&model, &[("x", &tensor)], &[], wire::Elements::Typed, wire::Frame::Bare).unwrap();
        let predict = record(LogType::PredictLog(pb::PredictLog { request: request.concat().into() }));
        let expected = Replay { signature: "s".into(), inputs: vec![("x".into(), tensor)] };
        assert_eq!(replays(&predict, 1 << 20).unwrap(), [expected]);

        let request = pb::ClassificationRequest { model_spec: spec("c"), input: input("") }.encode_to_vec().into();
        let classify = record(LogType::ClassifyLog(pb::ClassifyLog { request }));
        assert_eq!(replays(&classify, 1 << 20).unwrap(), [strings("c", ["a", "b"])]);

        let request = pb::RegressionRequest { model_spec: spec(""), input: input("ctx") }.encode_to_vec().into();
        let regress = record(LogType::RegressLog(pb::RegressLog { request }));
        assert_eq!(replays(&regress, 1 << 20).unwrap(), [strings("serving_default", ["ctxa", "ctxb"])]);

        let task = |signature| pb::InferenceTask { model_spec: spec(signature), ..Default::default() };
        let request = pb::MultiInferenceRequest { tasks: vec![task("c"), task("r")], input: input("") };
        let log = pb::MultiInferenceLog { request: request.encode_to_vec().into() };
        let multi = record(LogType::MultiInferenceLog(log));
        assert_eq!(replays(&multi, 1 << 20).unwrap(), [strings("c", ["a", "b"]), strings("r", ["a", "b"])]);
    }

    #[test]
    fn a_log_without_type_is_no_call_and_unsupported_ones_are_named() {
        use pb::prediction_log::LogType;
        assert_eq!(replays(&Bytes::new(), 1).unwrap(), []);
        let session = record(LogType::SessionRunLog(pb::SessionRunLog::default()));
        assert_eq!(replays(&session, 1).unwrap_err(), "Unsupported log_type for warmup: 5");
        let streamed = record(LogType::PredictStreamedLog(pb::PredictStreamedLog::default()));
        assert_eq!(replays(&streamed, 1).unwrap_err(), "Unsupported log_type for warmup: 7");
        let error = replays(&"\u{ff}".into(), 1).unwrap_err();
        assert!(error.starts_with("Failed to parse warmup record: "), "{error}");
    }

    #[test]
    fn files_are_bounded_in_records_and_must_be_tfrecords() {
        let path = std::env::temp_dir().join(format!("poise-warmup-{}", std::process::id()));
        let mut file = Vec::new();
        (0..3).for_each(|_| tfrecord::append(&mut file, b""));
        fs::write(&path, &file).unwrap();
        assert_eq!(read(&path, 3).unwrap(), []);
        let error = read(&path, 2).unwrap_err();
        assert!(error.starts_with("Number of warmup records exceeds the maximum (2) at "), "{error}");
        fs::write(&path, "not records").unwrap();
        let error = read(&path, 2).unwrap_err();
        assert!(error.ends_with("Please verify your warmup data is in TFRecord format."), "{error}");
        fs::remove_file(&path).unwrap();
        assert!(read(&path, 2).unwrap_err().contains("cannot be read"));
    }
}
