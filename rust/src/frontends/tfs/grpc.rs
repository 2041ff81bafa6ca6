//! TensorFlow Serving's gRPC services.

pub mod inference;
pub mod reload;

use std::collections::BTreeMap;

use prost::Message;

use super::predict::Predict;
use super::wire::{self, Elements, Frame, ModelRef, Spec};
use crate::batching::version::Lease;
use crate::error::{Code, Error, Reason, Result};
use crate::frontends::grpc::{Call, Reply, frame};
use crate::frontends::proto::google::protobuf::{Any, Int64Value};
use crate::frontends::proto::tensorflow::serving as pb;
use crate::frontends::proto::tensorflow::{self as tf, TensorShapeProto, tensor_shape_proto};
use crate::frontends::state::State;
use crate::model::{DEFAULT_SIGNATURE, Signature, TensorSpec};
use crate::routes::Choice;
use crate::telemetry::Api;

/// `PredictionService.Predict`.
pub async fn predict(call: Call) -> Reply {
    let state = &call.state;
    let request = wire::decode_request(&call.message, state.settings.max_message_bytes);
    let request = counted(state, "", request)?;
    let model = &request.model.name;
    let lease = counted(state, model, resolve(state, &request.model))?;
    let signature = if request.model.signature.is_empty() { DEFAULT_SIGNATURE } else { &request.model.signature };
    let endpoint = counted(state, model, lease.endpoint(signature).ok_or_else(|| no_signature(signature)))?;
    let predict = Predict {
        lease: &lease,
        endpoint,
        api: Api::TfsGrpc,
        recorder: Some(&state.recorder),
        arrived: call.arrived,
        deadline: call.deadline,
        timing: &call.timing,
    };
    let inputs = endpoint.arrange(request.inputs);
    let (wanted, answer) = predict.run(inputs, endpoint.select(&request.output_filter)).await?;
    let spec = Spec { name: &request.model.name, version: Some(lease.version().number), label: None, signature };
    let elements = if state.settings.tensor_content { Elements::Content } else { Elements::Typed };
    wire::encode_response(&spec, &predict.named(&wanted, &answer), elements, Frame::Grpc)
}

/// Counts a request that never reached an endpoint.
fn counted<T>(state: &State, model: &str, outcome: Result<T>) -> Result<T> {
    outcome.inspect_err(|error| state.telemetry.refused(Api::TfsGrpc, model, error))
}

fn no_signature(signature: &str) -> Error {
    let message = format!("Serving signature key \"{signature}\" not found.");
    Error::new(Code::FailedPrecondition, Reason::BadInput, message)
}

fn resolve(state: &State, model: &ModelRef) -> Result<Lease> {
    if !model.present {
        return Err(Error::bad_input("Missing ModelSpec"));
    }
    state.routes.resolve(&model.name, &choice(model))
}

fn choice(model: &ModelRef) -> Choice {
    match (model.version, &model.label) {
        (Some(version), _) => Choice::Specific(version),
        (None, Some(label)) => Choice::Label(label.clone()),
        (None, None) => Choice::Latest,
    }
}

fn decode<M: Message + Default>(call: &Call) -> Result<M> {
    M::decode(call.message.clone()).map_err(|error| Error::bad_input(format!("malformed message: {error}")))
}

fn model_ref(spec: Option<pb::ModelSpec>) -> ModelRef {
    use pb::model_spec::VersionChoice;
    let present = spec.is_some();
    let spec = spec.unwrap_or_default();
    let (version, label) = match spec.version_choice {
        Some(VersionChoice::Version(version)) => (Some(version.value), None),
        Some(VersionChoice::VersionLabel(label)) => (None, Some(label)),
        None => (None, None),
    };
    ModelRef { name: spec.name, version, label, signature: spec.signature_name, present }
}

/// `ModelService.GetModelStatus`.
pub fn status(call: &Call) -> Reply {
    let request: pb::GetModelStatusRequest = decode(call)?;
    let model = model_ref(request.model_spec);
    if !model.present {
        return Err(Error::bad_input("Missing ModelSpec"));
    }
    let statuses = call.state.routes.statuses(&model.name, &choice(&model))?;
    let entry = |status: crate::routes::Status| pb::ModelVersionStatus {
        version: status.version,
        state: status.state,
        status: Some(pb::StatusProto { error_code: status.code.into(), error_message: status.message }),
    };
    Ok(frame(&pb::GetModelStatusResponse { model_version_status: statuses.into_iter().map(entry).collect() }))
}

/// `PredictionService.GetModelMetadata`.
pub fn metadata(call: &Call) -> Reply {
    let request: pb::GetModelMetadataRequest = decode(call)?;
    let model = model_ref(request.model_spec);
    let lease = resolve(&call.state, &model)?;
    if request.metadata_field.is_empty() {
        return Err(Error::bad_input("GetModelMetadataRequest must specify at least one metadata_field"));
    }
    if let Some(field) = request.metadata_field.iter().find(|field| *field != "signature_def") {
        return Err(Error::bad_input(format!("Metadata field {field} is not supported")));
    }
    let signatures = lease.version().endpoints().iter().map(|endpoint| &*endpoint.signature);
    let map = pb::SignatureDefMap {
        signature_def: signatures.map(|signature| (signature.name.clone(), signature_def(signature))).collect(),
    };
    let any = Any {
        type_url: "type.googleapis.com/tensorflow.serving.SignatureDefMap".into(),
        value: map.encode_to_vec().into(),
    };
    let metadata = BTreeMap::from([("signature_def".into(), any)]);
    Ok(frame(&pb::GetModelMetadataResponse { model_spec: Some(effective(&model.name, &lease, "")), metadata }))
}

/// The ModelSpec of an answer: what has answered.
fn effective(name: &str, lease: &Lease, signature: &str) -> pb::ModelSpec {
    let version = pb::model_spec::VersionChoice::Version(Int64Value { value: lease.version().number });
    pb::ModelSpec { name: name.into(), version_choice: Some(version), signature_name: signature.into() }
}

fn signature_def(signature: &Signature) -> tf::SignatureDef {
    let map = |specs: &[TensorSpec]| specs.iter().map(|spec| (spec.name.clone(), tensor_info(spec))).collect();
    tf::SignatureDef {
        inputs: map(&signature.inputs),
        outputs: map(&signature.outputs),
        method_name: signature.method_name.clone(),
        defaults: signature.inputs.iter().filter_map(default).collect(),
    }
}

fn default(spec: &TensorSpec) -> Option<(String, tf::TensorProto)> {
    let proto = wire::encode_tensor(spec.default.as_ref()?);
    // What we have encoded ourselves can be decoded.
    Some((spec.name.clone(), tf::TensorProto::decode(proto).unwrap_or_default()))
}

fn tensor_info(spec: &TensorSpec) -> tf::TensorInfo {
    let dim = |size: &i64| tensor_shape_proto::Dim { size: *size, ..Default::default() };
    let shape =
        TensorShapeProto { dim: spec.shape.iter().flatten().map(dim).collect(), unknown_rank: spec.shape.is_none() };
    tf::TensorInfo { dtype: spec.dtype as i32, tensor_shape: Some(shape), name: spec.tensor.clone() }
}
