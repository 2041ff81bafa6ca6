//! Warm-up files as Python replays them.

use std::path::PathBuf;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyByteArray, PyBytes, PyList, PyTuple};

use crate::frontends::tfs::warmup;
use crate::tensor::{Data, Tensor};

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(read_warmup, module)?)
}

#[pyfunction]
fn read_warmup(py: Python<'_>, path: PathBuf, most: usize) -> PyResult<Vec<(String, Vec<Bound<'_, PyTuple>>)>> {
    let calls = py.detach(|| warmup::read(&path, most)).map_err(PyValueError::new_err)?;
    let inputs = |call: &warmup::Replay| {
        call.inputs.iter().map(|(name, tensor)| input(py, name, tensor)).collect::<PyResult<_>>()
    };
    calls.into_iter().map(|call| Ok((call.signature.clone(), inputs(&call)?))).collect::<PyResult<_>>()
}

/// As a batch has its inputs: memory that may be written, strings one by one.
fn input<'py>(py: Python<'py>, name: &str, tensor: &Tensor) -> PyResult<Bound<'py, PyTuple>> {
    let elements = match tensor.data() {
        Data::Fixed(bytes) => PyByteArray::new(py, bytes).into_any(),
        Data::Strings(items) => PyList::new(py, items.iter().map(|item| PyBytes::new(py, item)))?.into_any(),
    };
    (name, tensor.dtype().name(), PyTuple::new(py, tensor.shape())?, elements).into_pyobject(py)
}
