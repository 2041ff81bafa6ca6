//! Bytes that no serialiser writes but the grammar allows, and bytes that it does not.

use bytes::Bytes;
use proptest::prelude::*;
use prost::Message;

use super::super::{Elements, Frame, ModelRef, Spec, decode_request, decode_response, encode_request};
use super::{NO_LIMIT, any_tensor, shape_proto};
use crate::error::{Code, Error};
use crate::frontends::proto::tensorflow::{DataType, TensorProto};
use crate::tensor::{DType, Tensor};

/// A delimited field of fewer than 128 bytes.
fn field(number: u8, payload: &[u8]) -> Vec<u8> {
    [&[number << 3 | 2, payload.len() as u8], payload].concat()
}

fn decode(body: Vec<u8>) -> Result<super::super::PredictRequest, Error> {
    decode_request(&body.into(), NO_LIMIT)
}

fn int32s(dims: &[usize], values: &[i32]) -> Tensor {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor::fixed(DType::Int32, dims.into(), bytes.into()).unwrap()
}

fn int32s_proto(dims: &[i64], int_val: Vec<i32>) -> Vec<u8> {
    TensorProto { dtype: DataType::DtInt32.into(), tensor_shape: shape_proto(dims), int_val, ..Default::default() }
        .encode_to_vec()
}

#[test]
fn the_last_of_several_entries_with_one_name_counts() {
    let entry = |name: &[u8], value| field(2, &[field(1, name), field(2, &int32s_proto(&[], vec![value]))].concat());
    let body = [entry(b"x", 1), entry(b"a", 2), entry(b"x", 3)].concat();
    let inputs = decode(body).unwrap().inputs;
    assert_eq!(inputs, [("a".to_owned(), int32s(&[], &[2])), ("x".to_owned(), int32s(&[], &[3]))]);
}

#[test]
fn a_key_may_follow_its_value_and_a_value_may_come_in_parts() {
    let (first, second) = (int32s_proto(&[2], vec![1, 2]), int32s_proto(&[2], vec![3, 4]));
    let body = field(2, &[field(2, &first), field(2, &second), field(1, b"x")].concat());
    assert_eq!(decode(body).unwrap().inputs, [("x".to_owned(), int32s(&[2, 2], &[1, 2, 3, 4]))]);
}

#[test]
fn unpacked_and_packed_values_mix_in_order() {
    let shape = field(2, &field(2, &[0x08, 4]));
    let tensor = [vec![0x08, 3], shape, vec![0x38, 1], field(7, &[2, 3]), vec![0x38, 4]].concat();
    let body = field(2, &[field(1, b"x"), field(2, &tensor)].concat());
    assert_eq!(decode(body).unwrap().inputs[0].1, int32s(&[4], &[1, 2, 3, 4]));

    let float = [vec![0x08, 1, 0x2d], 1.5_f32.to_le_bytes().to_vec()].concat();
    let body = field(2, &[field(1, b"x"), field(2, &float)].concat());
    let expected = Tensor::fixed(DType::Float, [][..].into(), Bytes::copy_from_slice(&1.5_f32.to_le_bytes()));
    assert_eq!(decode(body).unwrap().inputs[0].1, expected.unwrap());
}

#[test]
fn model_specs_are_merged_and_the_last_of_version_and_label_counts() {
    let version = field(2, &[0x08, 7]);
    let spec = |fields: &[Vec<u8>]| field(1, &fields.concat());
    let body = [spec(&[field(1, b"m"), version.clone()]), spec(&[field(3, b"s")])].concat();
    let model = decode(body).unwrap().model;
    let expected = ModelRef { name: "m".into(), version: Some(7), label: None, signature: "s".into(), present: true };
    assert_eq!(model, expected);

    let model = decode(spec(&[version.clone(), field(4, b"stable")])).unwrap().model;
    assert_eq!((model.version, model.label.as_deref()), (None, Some("stable")));
    let model = decode(spec(&[field(4, b"stable"), version])).unwrap().model;
    assert_eq!((model.version, model.label), (Some(7), None));
    assert!(decode(spec(&[])).unwrap().model.present);
    assert!(!decode(vec![]).unwrap().model.present);
}

#[test]
fn unknown_fields_are_skipped() {
    let unknown =
        [vec![0x78, 1], vec![0x79, 0, 0, 0, 0, 0, 0, 0, 0], field(15, b"??"), vec![0x7d, 0, 0, 0, 0]].concat();
    let tensor = [int32s_proto(&[], vec![5]), [0xaa, 0x01, 1, 0].to_vec()].concat();
    let body = [unknown.clone(), field(2, &[field(1, b"x"), field(2, &tensor), unknown].concat())].concat();
    assert_eq!(decode(body).unwrap().inputs[0].1, int32s(&[], &[5]));
}

#[test]
fn what_is_no_message_is_refused_with_the_reason() {
    let entry = |tensor: &[u8]| field(2, &[field(1, b"x"), field(2, tensor)].concat());
    let message = "not a valid PredictRequest: ";
    let tensor = "tensor parsing error: x: ";
    let cases = [
        (vec![0x13, 0x14], message, "groups are not supported"),
        (vec![0x12, 5, 0], message, "it ends too early"),
        (vec![0x10, 5], message, "a field has the wrong wire type"),
        (field(3, &[0xff]), message, "a name is not UTF-8"),
        (field(2, &field(1, &[0xc3, 0x28])), message, "a name is not UTF-8"),
        (field(3, b"").repeat(4097), message, "it has more than 4096 tensors or names"),
        (field(2, b"").repeat(4097), message, "it has more than 4096 tensors or names"),
        (entry(&[0x08, 1, 0x2a, 3, 0, 0, 0]), tensor, "a packed field ends within a value"),
        (entry(&[0x08, 1, 0x28, 0]), tensor, "a field has the wrong wire type"),
        (entry(&[0x08, 9, 0x52, 1, 0x80]), tensor, "it ends too early"),
    ];
    for (body, prefix, why) in cases {
        let error = decode(body).unwrap_err();
        assert_eq!((error.code, error.message.as_ref()), (Code::InvalidArgument, format!("{prefix}{why}").as_str()));
    }
}

fn encoded(tensor: &Tensor, elements: Elements) -> Bytes {
    let spec = Spec { name: "m", version: Some(3), label: None, signature: "s" };
    encode_request(&spec, &[("x", tensor)], &["y"], elements, Frame::Bare).unwrap().concat().into()
}

proptest! {
    #[test]
    fn cutting_a_request_anywhere_is_harmless(tensor in any_tensor(), content in any::<bool>()) {
        let body = encoded(&tensor, if content { Elements::Content } else { Elements::Typed });
        for end in 0..body.len() {
            if let Err(error) = decode_request(&body.slice(..end), NO_LIMIT) {
                prop_assert_eq!(error.code, Code::InvalidArgument);
            }
        }
    }

    #[test]
    fn changing_a_request_anywhere_is_harmless(
        tensor in any_tensor(), at in any::<prop::sample::Index>(), byte in any::<u8>(),
    ) {
        let mut body = encoded(&tensor, Elements::Typed).to_vec();
        let at = at.index(body.len());
        body[at] = byte;
        let _ = decode_request(&body.into(), 1 << 20);
    }

    #[test]
    fn arbitrary_bytes_are_harmless(body in prop::collection::vec(any::<u8>(), 0..200)) {
        let body = Bytes::from(body);
        let _ = decode_request(&body, 1 << 20);
        let _ = decode_response(&body, 1 << 20);
    }

    #[test]
    fn arbitrary_tensors_are_harmless(body in prop::collection::vec(any::<u8>(), 0..120), dtype in 0_u8..24) {
        let tensor = [&[0x08, dtype], &body[..]].concat();
        let body = field(2, &field(2, &tensor));
        let _ = decode(body);
    }
}
