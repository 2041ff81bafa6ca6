//! From the errors of the data plane to those of Python.

use std::io;

use pyo3::exceptions::{PyOSError, PyRuntimeError, PyValueError};
use pyo3::{PyErr, import_exception};

use crate::error::Code;

import_exception!(poise.errors, WorkerClosed);

/// Bad arguments are ValueErrors, the rest OSErrors with the text of the data plane.
pub fn from_io(error: io::Error) -> PyErr {
    match error.kind() {
        io::ErrorKind::InvalidInput | io::ErrorKind::NotFound => PyValueError::new_err(error.to_string()),
        _ => PyOSError::new_err(error.to_string()),
    }
}

/// What a worker sees when its channel is gone.
pub fn channel_lost(error: io::Error) -> PyErr {
    WorkerClosed::new_err(format!("the channel to the server is gone: {error}"))
}

/// The code with this name.
pub fn code(name: &str) -> Result<Code, PyErr> {
    let known = Code::ALL.into_iter().find(|code| code.name() == name);
    known.ok_or_else(|| {
        PyValueError::new_err(format!("unknown code {name}: expected a gRPC code name such as INTERNAL"))
    })
}

/// Handles hold sockets and threads of the process that made them; a forked copy of one must not be used.
#[derive(Debug)]
pub struct ForkGuard(u32);

impl ForkGuard {
    pub fn new() -> Self {
        Self(std::process::id())
    }

    pub fn check(&self) -> Result<(), PyErr> {
        if self.0 == std::process::id() {
            return Ok(());
        }
        Err(PyRuntimeError::new_err(
            "this handle was made before a fork: make a new one in the child, or start it as a process of its own",
        ))
    }
}
