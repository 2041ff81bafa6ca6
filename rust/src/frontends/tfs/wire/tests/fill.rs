//! What stands for elements that a TensorProto leaves out, and which it may not.

use bytes::Bytes;

use super::super::decode_request;
use super::{decode_one, request_of, shape_proto};
use crate::error::Code;
use crate::frontends::proto::tensorflow::{DataType, TensorProto, TensorShapeProto};
use crate::tensor::{DType, Data, Tensor};

fn proto(dtype: DataType, dims: &[i64]) -> TensorProto {
    TensorProto { dtype: dtype.into(), tensor_shape: shape_proto(dims), ..Default::default() }
}

fn fixed(dtype: DType, dims: &[usize], data: &[u8]) -> Result<Tensor, String> {
    Ok(Tensor::fixed(dtype, dims.into(), Bytes::copy_from_slice(data)).unwrap())
}

#[test]
fn no_values_are_zeros_and_empty_strings() {
    assert_eq!(decode_one(proto(DataType::DtInt16, &[2])), fixed(DType::Int16, &[2], &[0; 4]));
    let strings = decode_one(proto(DataType::DtString, &[2])).unwrap();
    assert_eq!(strings.data(), &Data::Strings(vec![Bytes::new(); 2]));
    assert_eq!(decode_one(proto(DataType::DtFloat, &[0, 3])), fixed(DType::Float, &[0, 3], &[]));
}

#[test]
fn too_few_values_repeat_the_last_one() {
    let int_val = vec![1, -2];
    let bytes = [1, 0, 254, 255, 254, 255, 254, 255, 254, 255];
    let tensor = decode_one(TensorProto { int_val, ..proto(DataType::DtInt16, &[5]) });
    assert_eq!(tensor, fixed(DType::Int16, &[5], &bytes));

    let float_val = vec![2.5];
    let tensor = decode_one(TensorProto { float_val, ..proto(DataType::DtFloat, &[3]) });
    assert_eq!(tensor, fixed(DType::Float, &[3], &2.5_f32.to_le_bytes().repeat(3)));

    let string_val = vec![Bytes::from("a"), Bytes::from("b")];
    let tensor = decode_one(TensorProto { string_val, ..proto(DataType::DtString, &[3]) }).unwrap();
    assert_eq!(tensor.data(), &Data::Strings(vec!["a".into(), "b".into(), "b".into()]));
}

#[test]
fn a_complex_number_is_repeated_whole_and_half_of_one_is_ignored() {
    let scomplex_val = vec![1.0, 2.0, 3.0];
    let tensor = decode_one(TensorProto { scomplex_val, ..proto(DataType::DtComplex64, &[2]) });
    let one = [1.0_f32.to_le_bytes(), 2.0_f32.to_le_bytes()].concat();
    assert_eq!(tensor, fixed(DType::Complex64, &[2], &one.repeat(2)));
}

#[test]
fn surplus_values_are_ignored() {
    let double_val = vec![1.0, 2.0];
    let tensor = decode_one(TensorProto { double_val, ..proto(DataType::DtDouble, &[1]) });
    assert_eq!(tensor, fixed(DType::Double, &[1], &1.0_f64.to_le_bytes()));
    let uint64_val = vec![u64::MAX, 1];
    let tensor = decode_one(TensorProto { uint64_val, ..proto(DataType::DtUint64, &[]) });
    assert_eq!(tensor, fixed(DType::UInt64, &[], &[255; 8]));
    let string_val = vec![Bytes::from("a"), Bytes::from("b")];
    let tensor = decode_one(TensorProto { string_val, ..proto(DataType::DtString, &[]) }).unwrap();
    assert_eq!(tensor.data(), &Data::Strings(vec!["a".into()]));
}

#[test]
fn no_shape_is_a_scalar() {
    let tensor = TensorProto { dtype: 1, float_val: vec![2.0], ..Default::default() };
    assert_eq!(decode_one(tensor), fixed(DType::Float, &[], &2.0_f32.to_le_bytes()));
}

#[test]
fn integers_are_cut_to_the_size_of_their_dtype() {
    let int_val = vec![300, -1];
    let tensor = decode_one(TensorProto { int_val, ..proto(DataType::DtUint8, &[2]) });
    assert_eq!(tensor, fixed(DType::UInt8, &[2], &[44, 255]));
}

#[test]
fn tensor_content_wins_over_typed_values() {
    let tensor_content = Bytes::from_static(&[9, 0, 0, 0]);
    let tensor = TensorProto { tensor_content, int_val: vec![5], ..proto(DataType::DtInt32, &[1]) };
    assert_eq!(decode_one(tensor), fixed(DType::Int32, &[1], &[9, 0, 0, 0]));
}

#[test]
fn strings_in_tensor_content_are_lengths_then_bytes() {
    let content = |bytes: &'static [u8]| TensorProto {
        tensor_content: Bytes::from_static(bytes),
        ..proto(DataType::DtString, &[2])
    };
    let tensor = decode_one(content(b"\x01\x02abc")).unwrap();
    assert_eq!(tensor.data(), &Data::Strings(vec!["a".into(), "bc".into()]));
    for wrong in [&b"\x01"[..], b"\x01\x02ab", b"\x01\x02abcd", b"\x01\xff\xff"] {
        assert!(decode_one(content(wrong)).is_err(), "{wrong:?}");
    }
}

#[test]
fn refusals_name_the_input_and_what_is_wrong() {
    let tensor_content = Bytes::from_static(&[0; 15]);
    let unknown_rank = Some(TensorShapeProto { unknown_rank: true, ..Default::default() });
    let cases = [
        (
            TensorProto { tensor_content, ..proto(DataType::DtFloat, &[2, 2]) },
            "float of shape [2,2] needs 16 bytes of tensor_content but got 15",
        ),
        (proto(DataType::DtInvalid, &[]), "it has no dtype"),
        (proto(DataType::DtResource, &[]), "dtype 20 is not supported"),
        (proto(DataType::DtFloat, &[2, -1]), "its shape has a dimension of size -1"),
        (
            proto(DataType::DtFloat, &[i64::MAX, i64::MAX]),
            "shape [9223372036854775807,9223372036854775807] has too many elements",
        ),
        (TensorProto { tensor_shape: unknown_rank, ..proto(DataType::DtFloat, &[]) }, "its shape has unknown rank"),
        (proto(DataType::DtFloat, &[1; 255]), "a tensor has at most 254 dimensions"),
    ];
    for (tensor, why) in cases {
        assert_eq!(decode_one(tensor), Err(format!("tensor parsing error: x: {why}")));
    }
}

#[test]
fn a_small_message_cannot_ask_for_much_memory() {
    let huge = [1 << 40];
    let refused = |tensor, limit| {
        let error = decode_request(&request_of(tensor), limit).unwrap_err();
        assert_eq!(error.code, Code::InvalidArgument);
        assert_eq!(error.message, format!("tensor parsing error: x: the tensors take more than {limit} bytes"));
    };
    refused(proto(DataType::DtFloat, &huge), 1000);
    refused(proto(DataType::DtString, &huge), 1000);
    refused(TensorProto { int_val: vec![1], ..proto(DataType::DtInt8, &[1001]) }, 1000);
    assert!(decode_request(&request_of(proto(DataType::DtInt8, &[1000])), 1000).is_ok());
}

#[test]
fn the_limit_holds_for_all_inputs_together() {
    use crate::frontends::proto::tensorflow::serving::PredictRequest;
    use prost::Message;
    let inputs = ["a", "b"].map(|name| (name.to_owned(), proto(DataType::DtInt8, &[600]))).into();
    let body = PredictRequest { inputs, ..Default::default() }.encode_to_vec();
    let error = decode_request(&body.into(), 1000).unwrap_err();
    assert_eq!(error.message, "tensor parsing error: b: the tensors take more than 1000 bytes");
}
