//! The worker's handle, in a child process or in a thread of its own.

use std::os::fd::{FromRawFd, OwnedFd, RawFd};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use super::batch::Batch;
use super::errors::{ForkGuard, WorkerClosed, channel_lost, from_io};
use super::server::seconds;
use crate::model::Signature;
use crate::workers::client::{Client, Incoming};

/// See `_core.pyi`.
#[pyclass(frozen, module = "poise._core")]
pub struct Worker {
    client: Arc<Client>,
    signatures: OnceLock<Arc<Vec<Signature>>>,
    guard: ForkGuard,
}

#[pymethods]
impl Worker {
    #[new]
    #[pyo3(signature = (fd, exit_with_server = false))]
    #[allow(unsafe_code)]
    fn new(fd: RawFd, exit_with_server: bool) -> PyResult<Self> {
        if fd < 0 {
            return Err(PyValueError::new_err(format!("expected the descriptor of a channel but got {fd}")));
        }
        // SAFETY: the caller hands over a descriptor that it inherited for this; the constructor's contract.
        let socket = unsafe { OwnedFd::from_raw_fd(fd) };
        let client = Client::new(socket, exit_with_server).map_err(from_io)?;
        Ok(Self { client: Arc::new(client), signatures: OnceLock::new(), guard: ForkGuard::new() })
    }

    fn ready(&self, py: Python<'_>, signatures_json: String) -> PyResult<()> {
        self.guard.check()?;
        let signatures = Signature::list_from_json(&signatures_json).map_err(PyValueError::new_err)?;
        if self.signatures.set(Arc::new(signatures)).is_err() {
            return Err(PyRuntimeError::new_err("the worker was ready before"));
        }
        py.detach(|| self.client.ready(signatures_json)).map_err(channel_lost)
    }

    fn fail_load(&self, py: Python<'_>, message: String) -> PyResult<()> {
        self.guard.check()?;
        py.detach(|| self.client.fail_load(message)).map_err(channel_lost)
    }

    fn next_batch(&self, py: Python<'_>, timeout_s: f64) -> PyResult<Option<Batch>> {
        self.guard.check()?;
        let signatures = self.signatures.get();
        let signatures = signatures.ok_or_else(|| PyRuntimeError::new_err("call ready() before next_batch()"))?;
        let (incoming, came) = py.detach(|| (self.client.next(seconds(timeout_s)), Instant::now()));
        match incoming.map_err(channel_lost)? {
            Incoming::Run(run, segment) => {
                let batch = Batch::new(Arc::clone(&self.client), run, segment, signatures, came.elapsed());
                Ok(Some(batch?))
            }
            Incoming::Nothing => {
                py.check_signals()?;
                Ok(None)
            }
            Incoming::Closed => Err(WorkerClosed::new_err("there will be no more batches")),
        }
    }

    fn close(&self) {
        self.client.close();
    }
}
