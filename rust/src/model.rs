//! What a version of a model can be asked: its signatures and their typed inputs and outputs.

use crate::tensor::{DType, show};

/// One named input or output. `shape` uses -1 for a dimension that may vary; `None` when even the rank may.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorSpec {
    pub name: String,
    pub dtype: DType,
    pub shape: Option<Vec<i64>>,
}

impl TensorSpec {
    /// Whether a tensor of this shape may be given for this spec.
    pub fn accepts(&self, shape: &[usize]) -> bool {
        let Some(spec) = &self.shape else { return true };
        spec.len() == shape.len()
            && spec.iter().zip(shape).all(|(want, got)| *want < 0 || *want as u64 == *got as u64)
    }

    /// The shape as people read it: `[?,64]`, or `unknown rank`.
    pub fn show_shape(&self) -> String {
        let Some(spec) = &self.shape else { return "unknown rank".into() };
        let dims: Vec<String> =
            spec.iter().map(|dim| if *dim < 0 { "?".into() } else { dim.to_string() }).collect();
        format!("[{}]", dims.join(","))
    }

    /// One sentence on what was expected and what came.
    pub fn shape_mismatch(&self, got: &[usize]) -> String {
        format!("input {}: expected shape {} but got {}", self.name, self.show_shape(), show(got))
    }
}

/// One callable of a version. Inputs and outputs are sorted by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Signature {
    pub name: String,
    /// TensorFlow's method name, e.g. `tensorflow/serving/predict`.
    pub method_name: String,
    pub inputs: Vec<TensorSpec>,
    pub outputs: Vec<TensorSpec>,
    /// Whether dim 0 of every input and output counts rows, so that requests may share a batch.
    pub batched: bool,
}

/// The signature that answers when a request names none.
pub const DEFAULT_SIGNATURE: &str = "serving_default";
