//! What one side writes the other reads, for every dtype.

use std::collections::BTreeMap;

use bytes::Bytes;
use proptest::prelude::*;
use prost::Message;

use super::super::{Elements, Frame, ModelRef, Spec, decode_request, decode_response, encode_request, encode_response};
use super::{NO_LIMIT, any_tensor, shape_proto};
use crate::frontends::proto::google::protobuf::Int64Value;
use crate::frontends::proto::tensorflow as tf;
use crate::frontends::proto::tensorflow::serving::{self, model_spec::VersionChoice};
use crate::tensor::{DType, Data, Tensor};

/// The generated message for a tensor, by a route of its own.
fn to_proto(tensor: &Tensor, elements: Elements) -> tf::TensorProto {
    let dims: Vec<i64> = tensor.shape().iter().map(|dim| *dim as i64).collect();
    let dtype = tensor.dtype() as i32;
    let mut proto = tf::TensorProto { dtype, tensor_shape: shape_proto(&dims), ..Default::default() };
    match tensor.data() {
        Data::Strings(items) => proto.string_val = items.clone(),
        Data::Fixed(data) if elements == Elements::Content => proto.tensor_content = data.clone(),
        Data::Fixed(data) => fill_typed(&mut proto, tensor.dtype(), data),
    }
    proto
}

fn words<const N: usize, T>(data: &[u8], read: impl Fn([u8; N]) -> T) -> Vec<T> {
    data.chunks_exact(N).map(|bytes| read(bytes.try_into().unwrap())).collect()
}

fn fill_typed(proto: &mut tf::TensorProto, dtype: DType, data: &[u8]) {
    match dtype {
        DType::Float => proto.float_val = words(data, f32::from_le_bytes),
        DType::Double => proto.double_val = words(data, f64::from_le_bytes),
        DType::Complex64 => proto.scomplex_val = words(data, f32::from_le_bytes),
        DType::Complex128 => proto.dcomplex_val = words(data, f64::from_le_bytes),
        DType::Int32 => proto.int_val = words(data, i32::from_le_bytes),
        DType::Int16 => proto.int_val = words(data, |bytes| i16::from_le_bytes(bytes).into()),
        DType::UInt16 => proto.int_val = words(data, |bytes| u16::from_le_bytes(bytes).into()),
        DType::Int8 => proto.int_val = words(data, |[byte]| (byte as i8).into()),
        DType::UInt8 => proto.int_val = words(data, |[byte]| byte.into()),
        DType::Int64 => proto.int64_val = words(data, i64::from_le_bytes),
        DType::Bool => proto.bool_val = words(data, |[byte]| byte != 0),
        DType::Half | DType::BFloat16 => proto.half_val = words(data, |bytes| u16::from_le_bytes(bytes).into()),
        DType::UInt32 => proto.uint32_val = words(data, u32::from_le_bytes),
        DType::UInt64 => proto.uint64_val = words(data, u64::from_le_bytes),
        DType::String => unreachable!("strings are not numbers"),
    }
}

fn any_elements() -> impl Strategy<Value = Elements> {
    prop::sample::select(vec![Elements::Typed, Elements::Content])
}

fn any_model() -> impl Strategy<Value = ModelRef> {
    (".{0,8}", any::<Option<i64>>(), prop::option::of(".{0,8}"), ".{0,8}").prop_map(
        |(name, version, label, signature)| {
            let label = if version.is_some() { None } else { label };
            ModelRef { name, version, label, signature, present: true }
        },
    )
}

fn any_tensors() -> impl Strategy<Value = BTreeMap<String, Tensor>> {
    prop::collection::btree_map(".{0,6}", any_tensor(), 0..4)
}

fn model_proto(model: &ModelRef) -> serving::ModelSpec {
    let version = model.version.map(|value| VersionChoice::Version(Int64Value { value }));
    let label = model.label.clone().map(VersionChoice::VersionLabel);
    let (name, signature_name) = (model.name.clone(), model.signature.clone());
    serving::ModelSpec { name, signature_name, version_choice: version.or(label) }
}

fn spec(model: &ModelRef) -> Spec<'_> {
    let label = model.label.as_deref();
    Spec { name: &model.name, version: model.version, label, signature: &model.signature }
}

fn protos(tensors: &BTreeMap<String, Tensor>, elements: Elements) -> BTreeMap<String, tf::TensorProto> {
    tensors.iter().map(|(name, tensor)| (name.clone(), to_proto(tensor, elements))).collect()
}

fn owned(tensors: &BTreeMap<String, Tensor>) -> Vec<(String, Tensor)> {
    tensors.iter().map(|(name, tensor)| (name.clone(), tensor.clone())).collect()
}

fn named(tensors: &BTreeMap<String, Tensor>) -> Vec<(&str, &Tensor)> {
    tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect()
}

proptest! {
    #[test]
    fn requests_written_by_prost_are_read(
        model in any_model(), tensors in any_tensors(), elements in any_elements(),
        output_filter in prop::collection::vec(".{0,6}", 0..3),
    ) {
        let inputs = protos(&tensors, elements);
        let proto = serving::PredictRequest {
            model_spec: Some(model_proto(&model)), inputs, output_filter: output_filter.clone(),
        };
        let request = decode_request(&proto.encode_to_vec().into(), NO_LIMIT).unwrap();
        prop_assert_eq!(request.model, model);
        prop_assert_eq!(request.output_filter, output_filter);
        prop_assert_eq!(request.inputs, owned(&tensors));
    }

    #[test]
    fn requests_are_written_as_prost_writes_them(
        model in any_model(), tensors in any_tensors(), elements in any_elements(),
        output_filter in prop::collection::vec(".{0,6}", 0..3),
    ) {
        let filter: Vec<&str> = output_filter.iter().map(String::as_str).collect();
        let chunks = encode_request(&spec(&model), &named(&tensors), &filter, elements, Frame::Bare).unwrap();
        let inputs = protos(&tensors, elements);
        let proto = serving::PredictRequest { model_spec: Some(model_proto(&model)), inputs, output_filter };
        let read = serving::PredictRequest::decode(&chunks.concat()[..]).unwrap();
        prop_assert_eq!(read.encode_to_vec(), proto.encode_to_vec()); // bytes, for NaN equals nothing
    }

    #[test]
    fn responses_are_written_as_prost_writes_them(
        model in any_model(), tensors in any_tensors(), elements in any_elements(),
    ) {
        let chunks = encode_response(&spec(&model), &named(&tensors), elements, Frame::Grpc).unwrap();
        let bytes = Bytes::from(chunks.concat());
        prop_assert_eq!(&bytes[..5], &[&[0], &(bytes.len() as u32 - 5).to_be_bytes()[..]].concat()[..]);
        let outputs = protos(&tensors, elements);
        let proto = serving::PredictResponse { outputs, model_spec: Some(model_proto(&model)) };
        let read = serving::PredictResponse::decode(&bytes[5..]).unwrap();
        prop_assert_eq!(read.encode_to_vec(), proto.encode_to_vec());
        let read = decode_response(&bytes.slice(5..), NO_LIMIT).unwrap();
        prop_assert_eq!(read.model, model);
        prop_assert_eq!(read.outputs, owned(&tensors));
    }
}

#[test]
fn large_tensors_are_shared_not_copied_in_both_directions() {
    let data = Bytes::from(vec![7; 64 * 1024]);
    let tensor = Tensor::fixed(DType::Float, [16, 1024][..].into(), data.clone()).unwrap();
    for elements in [Elements::Typed, Elements::Content] {
        let chunks = encode_response(&Spec::default(), &[("y", &tensor)], elements, Frame::Grpc).unwrap();
        assert_eq!(chunks.iter().filter(|chunk| chunk.as_ptr() == data.as_ptr()).count(), 1);
        let body = Bytes::from(chunks.concat()).slice(5..);
        let read = decode_response(&body, NO_LIMIT).unwrap();
        let Data::Fixed(shared) = read.outputs[0].1.data() else { panic!("fixed") };
        assert!(body.as_ptr_range().contains(&shared.as_ptr()));
        assert_eq!(shared, &data);
    }
}

#[test]
fn booleans_other_than_one_are_true_on_both_sides() {
    let tensor = Tensor::fixed(DType::Bool, [3][..].into(), Bytes::from_static(&[0, 2, 255])).unwrap();
    for elements in [Elements::Typed, Elements::Content] {
        let chunks = encode_response(&Spec::default(), &[("y", &tensor)], elements, Frame::Bare).unwrap();
        let read = decode_response(&chunks.concat().into(), NO_LIMIT).unwrap();
        assert_eq!(read.outputs[0].1.data(), &Data::Fixed(Bytes::from_static(&[0, 1, 1])));
    }
}
