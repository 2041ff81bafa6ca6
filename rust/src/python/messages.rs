//! Protobuf messages as JSON, for Python that has no protobuf.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use crate::protojson;

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(text_proto_to_json, module)?)?;
    module.add_function(wrap_pyfunction!(proto_to_json, module)?)
}

#[pyfunction]
fn text_proto_to_json(py: Python<'_>, message: &str, text: &str) -> PyResult<String> {
    py.detach(|| protojson::text_to_json(message, text)).map_err(PyValueError::new_err)
}

#[pyfunction]
fn proto_to_json(py: Python<'_>, message: &str, data: &[u8]) -> PyResult<String> {
    py.detach(|| protojson::binary_to_json(message, data)).map_err(PyValueError::new_err)
}
