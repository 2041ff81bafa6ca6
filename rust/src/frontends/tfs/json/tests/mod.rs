//! TensorFlow Serving's own cases, told as data, and random ones.

mod bodies;
mod errors;
mod examples;
mod numbers;
mod random;
mod responses;
mod syntax;

use bytes::Bytes;

use super::{Format, parse_predict};
use crate::error::{Code, Error, Result};
use crate::model::{Signature, TensorSpec};
use crate::tensor::{DType, Data, Tensor};

/// A signature whose inputs are `names` and `dtypes`.
fn signature(inputs: &[(&str, DType)]) -> Signature {
    let spec = |(name, dtype): &(&str, DType)| TensorSpec::new(*name, *dtype, None);
    let mut inputs: Vec<_> = inputs.iter().map(spec).collect();
    inputs.sort_by(|a, b| a.name.cmp(&b.name));
    Signature {
        name: "serving_default".into(),
        method_name: "tensorflow/serving/predict".into(),
        inputs,
        outputs: vec![],
        batched: true,
        check_shapes: true,
    }
}

fn parse(signature: &Signature, body: impl AsRef<[u8]>) -> Result<(Format, Vec<Tensor>)> {
    let (_, format, tensors) = parse_predict(&Bytes::copy_from_slice(body.as_ref()), |_| Ok(signature))?;
    Ok((format, tensors))
}

/// The only tensor of a body for a signature of one input, `x`.
fn one(dtype: DType, body: impl AsRef<[u8]>) -> Tensor {
    let (_, mut tensors) = parse(&signature(&[("x", dtype)]), body).unwrap();
    assert_eq!(tensors.len(), 1);
    tensors.remove(0)
}

/// The error for a body that a signature refuses.
fn refused(inputs: &[(&str, DType)], body: impl AsRef<[u8]>) -> Error {
    parse(&signature(inputs), body).unwrap_err()
}

fn items<const N: usize, T>(tensor: &Tensor, read: fn([u8; N]) -> T) -> Vec<T> {
    let Data::Fixed(bytes) = tensor.data() else { panic!("strings") };
    bytes.as_chunks::<N>().0.iter().map(|item| read(*item)).collect()
}

fn ints(tensor: &Tensor) -> Vec<i32> {
    items(tensor, i32::from_le_bytes)
}

fn floats(tensor: &Tensor) -> Vec<f32> {
    items(tensor, f32::from_le_bytes)
}

fn doubles(tensor: &Tensor) -> Vec<f64> {
    items(tensor, f64::from_le_bytes)
}

fn strings(tensor: &Tensor) -> Vec<&[u8]> {
    let Data::Strings(items) = tensor.data() else { panic!("numbers") };
    items.iter().map(|item| &item[..]).collect()
}

/// Each body is refused with its text.
fn check(inputs: &[(&str, DType)], cases: &[(&str, &str)]) {
    for (body, expected) in cases {
        let error = refused(inputs, body);
        assert_eq!((error.code, &*error.message), (Code::InvalidArgument, *expected), "for {body}");
    }
}
