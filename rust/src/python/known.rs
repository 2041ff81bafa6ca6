//! The server of known latencies, for Python.

use pyo3::buffer::PyBuffer;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::errors::{ForkGuard, from_io};
use crate::loadgen::known::{self, Protocol, Script};

/// See `_core.pyi`.
#[pyclass(frozen, module = "poise._core")]
pub struct KnownServer {
    inner: known::KnownServer,
    guard: ForkGuard,
}

#[pymethods]
impl KnownServer {
    #[new]
    #[pyo3(signature = (protocol, delays_ns, freezes_ns = Vec::new()))]
    fn new(py: Python<'_>, protocol: &str, delays_ns: PyBuffer<i64>, freezes_ns: Vec<(i64, i64)>) -> PyResult<Self> {
        let protocol = match protocol {
            "grpc" => Protocol::Grpc,
            "http" => Protocol::Http,
            other => return Err(PyValueError::new_err(format!("expected the protocol grpc or http, got {other:?}"))),
        };
        let script = Script::new(delays_ns.to_vec(py)?, freezes_ns).map_err(PyValueError::new_err)?;
        let inner = known::KnownServer::start(protocol, script).map_err(from_io)?;
        Ok(Self { inner, guard: ForkGuard::new() })
    }

    #[getter]
    fn address(&self) -> String {
        self.inner.address().to_string()
    }

    fn record<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.guard.check()?;
        let bytes = py.detach(|| {
            let pairs = self.inner.record();
            pairs.iter().flat_map(|pair| [pair.read, pair.written]).flat_map(i64::to_ne_bytes).collect::<Vec<_>>()
        });
        Ok(PyBytes::new(py, &bytes))
    }

    fn stop(&self, py: Python<'_>) -> PyResult<()> {
        self.guard.check()?;
        py.detach(|| self.inner.stop());
        Ok(())
    }
}
