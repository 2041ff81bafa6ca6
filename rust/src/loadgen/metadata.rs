//! Which signatures a model has, asked over gRPC.

use std::time::Duration;

use http::HeaderMap;
use prost::Message;

use super::client::call_grpc;
use super::target::Target;
use super::{CallError, CallResult};
use crate::frontends::proto::google::protobuf::Int64Value;
use crate::frontends::proto::tensorflow as tf;
use crate::frontends::proto::tensorflow::serving::model_spec::VersionChoice;
use crate::frontends::proto::tensorflow::serving::{
    GetModelMetadataRequest, GetModelMetadataResponse, ModelSpec, SignatureDefMap,
};
use crate::model::{Signature, TensorSpec};
use crate::tensor::DType;

const METHOD: &str = "/tensorflow.serving.PredictionService/GetModelMetadata";
const FIELD: &str = "signature_def";

/// The version that answered, and its signatures, sorted by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    pub version: Option<i64>,
    pub signatures: Vec<Signature>,
}

/// Asks for the signatures of a model's version, or of its latest.
pub fn fetch(
    target: &Target,
    model: &str,
    version: Option<i64>,
    fields: &HeaderMap,
    limit: Duration,
) -> CallResult<Metadata> {
    let version_choice = version.map(|value| VersionChoice::Version(Int64Value { value }));
    let model_spec = Some(ModelSpec { name: model.to_owned(), version_choice, ..ModelSpec::default() });
    let request = GetModelMetadataRequest { model_spec, metadata_field: vec![FIELD.to_owned()] };
    let answer = call_grpc(target, METHOD, &request.encode_to_vec(), fields, limit)?;
    read(&answer).map_err(|error| CallError::Transport(format!("the model's metadata cannot be read: {error}")))
}

fn read(answer: &[u8]) -> Result<Metadata, String> {
    let response = GetModelMetadataResponse::decode(answer).map_err(|error| error.to_string())?;
    let any = response.metadata.get(FIELD).ok_or("it has no signature_def")?;
    let map = SignatureDefMap::decode(&any.value[..]).map_err(|error| error.to_string())?;
    let version = match response.model_spec.and_then(|spec| spec.version_choice) {
        Some(VersionChoice::Version(version)) => Some(version.value),
        _ => None,
    };
    let signatures = map.signature_def.into_iter().map(|(name, def)| signature(name, def));
    Ok(Metadata { version, signatures: signatures.collect::<Result<_, _>>()? })
}

/// The wire does not say whether rows are counted; they are where dim 0 of every tensor may vary.
fn signature(name: String, def: tf::SignatureDef) -> Result<Signature, String> {
    let specs = |infos: std::collections::BTreeMap<String, tf::TensorInfo>| {
        infos.into_iter().map(|(name, info)| spec(name, &info)).collect::<Result<Vec<_>, _>>()
    };
    let (inputs, outputs) = (specs(def.inputs)?, specs(def.outputs)?);
    let varies = |spec: &TensorSpec| spec.shape.as_ref().is_some_and(|shape| shape.first() == Some(&-1));
    let batched = !inputs.is_empty() && inputs.iter().chain(&outputs).all(varies);
    Ok(Signature { name, method_name: def.method_name, inputs, outputs, batched, check_shapes: true })
}

fn spec(name: String, info: &tf::TensorInfo) -> Result<TensorSpec, String> {
    let dtype = DType::from_number(info.dtype.into())
        .ok_or_else(|| format!("tensor {name} has dtype {}, which is not supported", info.dtype))?;
    let shape = info.tensor_shape.as_ref().filter(|shape| !shape.unknown_rank);
    let dims = shape.map(|shape| shape.dim.iter().map(|dim| dim.size.max(-1)).collect());
    Ok(TensorSpec { tensor: info.name.clone(), ..TensorSpec::new(name, dtype, dims) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frontends::proto::google::protobuf::Any;

    fn info(dtype: i32, dims: Option<&[i64]>) -> tf::TensorInfo {
        let dim = |size: &i64| tf::tensor_shape_proto::Dim { size: *size, name: String::new() };
        let shape = tf::TensorShapeProto {
            dim: dims.unwrap_or_default().iter().map(dim).collect(),
            unknown_rank: dims.is_none(),
        };
        tf::TensorInfo { name: String::new(), dtype, tensor_shape: Some(shape) }
    }

    fn answer(inputs: &[(&str, tf::TensorInfo)], outputs: &[(&str, tf::TensorInfo)]) -> Vec<u8> {
        let map = |infos: &[(&str, tf::TensorInfo)]| {
            infos.iter().map(|(name, info)| ((*name).to_owned(), info.clone())).collect()
        };
        let def = tf::SignatureDef { inputs: map(inputs), outputs: map(outputs), ..tf::SignatureDef::default() };
        let signatures = SignatureDefMap { signature_def: [("serving_default".to_owned(), def)].into() };
        let any = Any { value: signatures.encode_to_vec().into(), ..Any::default() };
        let version_choice = Some(VersionChoice::Version(Int64Value { value: 5 }));
        GetModelMetadataResponse {
            model_spec: Some(ModelSpec { version_choice, ..ModelSpec::default() }),
            metadata: [(FIELD.to_owned(), any)].into(),
        }
        .encode_to_vec()
    }

    #[test]
    fn signatures_are_read_and_rows_counted_where_they_vary() {
        let metadata = read(&answer(&[("x", info(1, Some(&[-1, 64])))], &[("y", info(9, Some(&[-1])))])).unwrap();
        assert_eq!(metadata.version, Some(5));
        let signature = &metadata.signatures[0];
        assert!(signature.batched);
        assert_eq!(signature.inputs[0].shape, Some(vec![-1, 64]));
        assert_eq!(signature.outputs[0].dtype, DType::Int64);
        let metadata = read(&answer(&[("x", info(1, Some(&[-1])))], &[("y", info(1, None))])).unwrap();
        assert!(!metadata.signatures[0].batched);
        assert_eq!(metadata.signatures[0].outputs[0].shape, None);
    }

    #[test]
    fn what_cannot_be_read_says_why() {
        assert_eq!(
            read(&answer(&[("x", info(20, None))], &[])),
            Err("tensor x has dtype 20, which is not supported".into())
        );
        assert_eq!(read(&[]), Err("it has no signature_def".into()));
        assert!(read(&[0xff]).is_err());
    }
}
