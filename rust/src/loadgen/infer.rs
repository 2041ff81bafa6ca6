//! The Open Inference Protocol, version 2, from the client's side.

use std::time::Duration;

use bytes::Bytes;
use http::HeaderMap;
use prost::Message;
use serde_json::{Value, json};

use super::client::call_grpc;
use super::target::Target;
use super::{CallError, CallResult};
use crate::frontends::proto::inference::model_infer_request::InferInputTensor;
use crate::frontends::proto::inference::model_metadata_response::TensorMetadata;
use crate::frontends::proto::inference::{ModelInferRequest, ModelMetadataRequest, ModelMetadataResponse};

const METADATA: &str = "/inference.GRPCInferenceService/ModelMetadata";

/// A tensor as it is sent: elements in little-endian bytes, each of BYTES behind its length.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RawTensor {
    pub name: String,
    pub datatype: String,
    pub shape: Vec<i64>,
    pub content: Bytes,
}

/// A ModelInferRequest in protobuf with raw contents, as Triton's own clients send it.
pub fn encode_request(model: &str, version: &str, inputs: Vec<RawTensor>) -> Vec<u8> {
    let mut request =
        ModelInferRequest { model_name: model.to_owned(), model_version: version.to_owned(), ..Default::default() };
    for RawTensor { name, datatype, shape, content } in inputs {
        request.inputs.push(InferInputTensor { name, datatype, shape, ..Default::default() });
        request.raw_input_contents.push(content);
    }
    request.encode_to_vec()
}

/// What a model takes and gives, as the protocol's JSON tells it over HTTP.
pub fn metadata(target: &Target, model: &str, version: &str, fields: &HeaderMap, limit: Duration) -> CallResult<Value> {
    let request = ModelMetadataRequest { name: model.to_owned(), version: version.to_owned() };
    let answer = call_grpc(target, METADATA, &request.encode_to_vec(), fields, limit)?;
    let unreadable = |error| CallError::Transport(format!("the model's metadata cannot be read: {error}"));
    ModelMetadataResponse::decode(answer).map(|found| to_json(&found)).map_err(unreadable)
}

fn to_json(metadata: &ModelMetadataResponse) -> Value {
    let tensor =
        |tensor: &TensorMetadata| json!({"name": tensor.name, "datatype": tensor.datatype, "shape": tensor.shape});
    let tensors = |all: &[TensorMetadata]| all.iter().map(tensor).collect::<Vec<_>>();
    json!({
        "name": metadata.name,
        "versions": metadata.versions,
        "platform": metadata.platform,
        "inputs": tensors(&metadata.inputs),
        "outputs": tensors(&metadata.outputs),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loadgen::target::Protocol;
    use crate::loadgen::test_server::{Behaviour, TestServer};

    #[test]
    fn a_request_has_the_fields_of_the_protocol() {
        let (name, datatype) = ("x".to_owned(), "FP32".to_owned());
        let x = RawTensor { name, datatype, shape: vec![1, 2], content: Bytes::from_static(b"abcdefgh") };
        // Written by hand: field << 3 | 2, length, bytes; shapes are packed varints.
        let expected =
            [b"\x0a\x01m\x12\x017".as_slice(), b"\x2a\x0d\x0a\x01x\x12\x04FP32\x1a\x02\x01\x02", b"\x3a\x08abcdefgh"];
        assert_eq!(encode_request("m", "7", vec![x]), expected.concat());
        assert_eq!(encode_request("m", "", vec![]), b"\x0a\x01m");
    }

    #[test]
    fn metadata_is_read_as_it_would_be_over_http() {
        let x = TensorMetadata { name: "x".into(), datatype: "BYTES".into(), shape: vec![-1, 3] };
        let versions = vec!["3".to_owned()];
        let found = ModelMetadataResponse { name: "m".into(), versions, inputs: vec![x], ..Default::default() };
        let expected = json!({
            "name": "m", "versions": ["3"], "platform": "",
            "inputs": [{"name": "x", "datatype": "BYTES", "shape": [-1, 3]}], "outputs": [],
        });
        assert_eq!(to_json(&found), expected);
        // An echo of the question is an answer with the name alone, and the version as an only version.
        let server = TestServer::start(Protocol::Grpc, Behaviour::Echo);
        let target = Target::parse(&server.target()).unwrap();
        let found = metadata(&target, "m", "3", &HeaderMap::new(), Duration::from_secs(5)).unwrap();
        assert_eq!((&found["name"], &found["versions"]), (&json!("m"), &json!(["3"])));
    }
}
