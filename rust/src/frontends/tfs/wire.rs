//! Predict's messages, written by hand: the elements of a tensor stay where they arrived, in the body of the request.
//!
//! A packed little-endian field, `tensor_content` and the items of a string tensor become slices of the body; only
//! numbers that travel as varints are unpacked. What the wire leaves open is filled as TensorFlow does it: no values
//! mean zeros, too few repeat the last one, surplus ones are ignored. Whatever arrives, decoding ends in a tensor or
//! in one `INVALID_ARGUMENT`, and takes no more memory for elements than the caller allows.

mod decode;
mod encode;
mod reader;
mod tensor;
mod values;
mod writer;

#[cfg(test)]
mod tests;

use smallvec::SmallVec;

use crate::tensor::Tensor;

pub use decode::{decode_default, decode_request, decode_response};
pub use encode::{Named, encode_request, encode_response, encode_tensor};
pub use values::canonical;

/// Pieces of one encoded message, in order. Large tensors are pieces of their own, shared instead of copied.
pub type Chunks = SmallVec<[bytes::Bytes; 1]>;

/// What stands in front of an encoded message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Frame {
    /// Nothing.
    Bare,
    /// gRPC's five bytes: not compressed, and the length.
    Grpc,
}

/// Whether numeric elements travel in the typed field of their dtype, or as raw bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Elements {
    Typed,
    Content,
}

/// A decoded ModelSpec.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ModelRef {
    pub name: String,
    pub version: Option<i64>,
    pub label: Option<String>,
    /// Empty when the client names none.
    pub signature: String,
    /// Whether the message had a ModelSpec at all.
    pub present: bool,
}

/// A ModelSpec to encode.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Spec<'a> {
    pub name: &'a str,
    pub version: Option<i64>,
    /// Ignored when a version is given: the wire takes one of them.
    pub label: Option<&'a str>,
    pub signature: &'a str,
}

/// A decoded request. Inputs are sorted by name, each name once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PredictRequest {
    pub model: ModelRef,
    pub inputs: Vec<(String, Tensor)>,
    pub output_filter: Vec<String>,
}

/// A decoded answer. Outputs are sorted by name, each name once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PredictResponse {
    pub model: ModelRef,
    pub outputs: Vec<(String, Tensor)>,
}
