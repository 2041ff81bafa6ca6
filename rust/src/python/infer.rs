//! The Open Inference Protocol from Python.

use bytes::Bytes;
use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::loadgen::{interruptible, limit, to_py};
use crate::loadgen::client;
use crate::loadgen::infer::{self, RawTensor};
use crate::loadgen::target::Target;

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(encode_infer_request, module)?)?;
    module.add_function(wrap_pyfunction!(fetch_infer_metadata, module)?)
}

/// A ModelInferRequest in protobuf, of (name, datatype, shape, content) for each input.
#[pyfunction]
fn encode_infer_request<'py>(
    py: Python<'py>,
    model: &str,
    version: &str,
    inputs: Vec<(String, String, Vec<i64>, PyBuffer<u8>)>,
) -> PyResult<Bound<'py, PyBytes>> {
    let raw = |(name, datatype, shape, content): (_, _, _, PyBuffer<u8>)| {
        let content = Bytes::from(content.to_vec(py)?);
        Ok(RawTensor { name, datatype, shape, content })
    };
    let inputs = inputs.into_iter().map(raw).collect::<PyResult<_>>()?;
    Ok(PyBytes::new(py, &infer::encode_request(model, version, inputs)))
}

/// What a model takes and gives, over gRPC, as the protocol's JSON.
#[pyfunction]
#[pyo3(signature = (target, model, version, timeout_s, headers=None))]
fn fetch_infer_metadata(
    py: Python<'_>,
    target: &str,
    model: String,
    version: String,
    timeout_s: f64,
    headers: Option<Vec<(String, String)>>,
) -> PyResult<String> {
    let (target, limit) = (Target::parse(target).map_err(to_py)?, limit(timeout_s)?);
    let fields = client::fields(&headers.unwrap_or_default()).map_err(to_py)?;
    let found = interruptible(py, move |_| infer::metadata(&target, &model, &version, &fields, limit))?;
    Ok(found.to_string())
}
