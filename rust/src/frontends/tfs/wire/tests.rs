//! Against the generated messages, in both directions, and against whatever else may arrive.

mod fill;
mod hostile;
mod parity;

use bytes::Bytes;
use proptest::prelude::*;

use crate::frontends::proto::tensorflow as tf;
use crate::frontends::proto::tensorflow::serving;
use crate::tensor::{DType, Shape, Tensor, element_count};

const NO_LIMIT: usize = 1 << 30;

/// A PredictRequest with one input named `x`.
fn request_of(tensor: tf::TensorProto) -> Bytes {
    use prost::Message;
    let inputs = [("x".to_owned(), tensor)].into();
    serving::PredictRequest { inputs, ..Default::default() }.encode_to_vec().into()
}

/// The one tensor of that request, or what is wrong with it.
fn decode_one(tensor: tf::TensorProto) -> Result<Tensor, String> {
    match super::decode_request(&request_of(tensor), NO_LIMIT) {
        Ok(mut request) => Ok(request.inputs.remove(0).1),
        Err(error) => Err(error.message.into_owned()),
    }
}

fn shape_proto(dims: &[i64]) -> Option<tf::TensorShapeProto> {
    let dim = dims.iter().map(|size| tf::tensor_shape_proto::Dim { size: *size, name: String::new() }).collect();
    Some(tf::TensorShapeProto { dim, unknown_rank: false })
}

/// Any tensor of any dtype, of few elements; booleans are 0 or 1.
fn any_tensor() -> impl Strategy<Value = Tensor> {
    (prop::sample::select(&DType::ALL[..]), prop::collection::vec(0_usize..4, 0..4)).prop_flat_map(|(dtype, dims)| {
        let shape = Shape::from_vec(dims);
        let count = element_count(&shape).unwrap();
        match dtype.size() {
            None => prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), count)
                .prop_map(move |items| {
                    Tensor::strings(shape.clone(), items.into_iter().map(Bytes::from).collect()).unwrap()
                })
                .boxed(),
            Some(size) => prop::collection::vec(any::<u8>(), count * size)
                .prop_map(move |mut data| {
                    if dtype == DType::Bool {
                        data.iter_mut().for_each(|byte| *byte &= 1);
                    }
                    Tensor::fixed(dtype, shape.clone(), data.into()).unwrap()
                })
                .boxed(),
        }
    })
}
