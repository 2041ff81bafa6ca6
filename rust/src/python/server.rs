//! The main process's handle.

use std::os::fd::{IntoRawFd, RawFd};
use std::time::Duration;

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use serde::de::DeserializeOwned;

use super::errors::{ForkGuard, from_io};
use crate::error::{Code, Error, Reason};
use crate::events::Event;
use crate::frontends::tfs::wire;
use crate::model::Signature;
use crate::server;

/// See `_core.pyi`.
#[pyclass(frozen, module = "poise._core")]
pub struct Server {
    inner: server::Server,
    guard: ForkGuard,
}

fn parse<T: DeserializeOwned>(what: &str, json: &str) -> PyResult<T> {
    serde_json::from_str(json).map_err(|error| PyValueError::new_err(format!("{what}: {error}")))
}

fn code_of(name: &str) -> PyResult<Code> {
    let unknown = || PyValueError::new_err(format!("{name} is not the name of a gRPC status code"));
    Code::ALL.into_iter().find(|code| code.name() == name).ok_or_else(unknown)
}

/// A wait in seconds; what is not a time is no wait at all.
pub fn seconds(timeout_s: f64) -> Duration {
    Duration::try_from_secs_f64(timeout_s).unwrap_or(Duration::ZERO)
}

#[pymethods]
impl Server {
    #[new]
    fn new(settings_json: &str) -> PyResult<Self> {
        let inner = server::Server::new(parse("settings", settings_json)?).map_err(from_io)?;
        Ok(Self { inner, guard: ForkGuard::new() })
    }

    fn start(&self, py: Python<'_>) -> PyResult<(Option<String>, Option<String>)> {
        self.guard.check()?;
        let (grpc, http) = py.detach(|| self.inner.start()).map_err(from_io)?;
        Ok((grpc.map(|address| address.to_string()), http.map(|address| address.to_string())))
    }

    fn add_version(&self, model: &str, version: i64, batching_json: &str) -> PyResult<u64> {
        self.guard.check()?;
        Ok(self.inner.add_version(model, version, parse("batching", batching_json)?))
    }

    fn attach_worker(&self, handle: u64) -> PyResult<(u64, RawFd)> {
        self.guard.check()?;
        let (worker, descriptor) = self.inner.attach_worker(handle).map_err(from_io)?;
        Ok((worker, descriptor.into_raw_fd()))
    }

    fn detach_worker(&self, worker: u64) -> PyResult<()> {
        self.guard.check()?;
        self.inner.detach_worker(worker);
        Ok(())
    }

    fn describe(&self, handle: u64, signatures_json: &str) -> PyResult<()> {
        self.guard.check()?;
        let signatures =
            Signature::list_with_defaults(signatures_json, &wire::decode_default).map_err(PyValueError::new_err)?;
        self.inner.describe(handle, signatures).map_err(from_io)
    }

    fn note_load(&self, handle: u64, path: &str, succeeded: bool, took_s: f64) -> PyResult<()> {
        self.guard.check()?;
        self.inner.note_load(handle, path, succeeded, seconds(took_s)).map_err(from_io)
    }

    fn publish(&self, handle: u64) -> PyResult<()> {
        self.guard.check()?;
        self.inner.publish(handle).map_err(from_io)
    }

    fn retire(&self, handle: u64) -> PyResult<()> {
        self.guard.check()?;
        self.inner.retire(handle).map_err(from_io)
    }

    fn set_status(&self, model: &str, statuses_json: &str) -> PyResult<()> {
        self.guard.check()?;
        self.inner.set_status(model, parse("statuses", statuses_json)?);
        Ok(())
    }

    fn set_labels(&self, model: &str, labels_json: &str) -> PyResult<()> {
        self.guard.check()?;
        self.inner.set_labels(model, parse("labels", labels_json)?);
        Ok(())
    }

    fn reply(&self, call: u64, code: &str, text: String) -> PyResult<()> {
        self.guard.check()?;
        let outcome = match code {
            "OK" => Ok(text),
            name => Err(Error::new(code_of(name)?, Reason::BadInput, text)),
        };
        self.inner.reply(call, outcome);
        Ok(())
    }

    fn set_ready(&self, ready: bool) -> PyResult<()> {
        self.guard.check()?;
        self.inner.set_ready(ready);
        Ok(())
    }

    fn events(&self, py: Python<'_>, timeout_s: f64) -> PyResult<Vec<(&'static str, u64, String)>> {
        self.guard.check()?;
        let events = py.detach(|| self.inner.pull_events(seconds(timeout_s)));
        Ok(events.into_iter().map(record).collect())
    }

    fn metrics(&self, py: Python<'_>) -> PyResult<String> {
        self.guard.check()?;
        Ok(py.detach(|| self.inner.metrics()))
    }

    fn debug_state(&self) -> PyResult<String> {
        self.guard.check()?;
        Ok(self.inner.debug_state())
    }

    fn drain(&self, py: Python<'_>, timeout_s: f64) -> PyResult<bool> {
        self.guard.check()?;
        Ok(py.detach(|| self.inner.drain(seconds(timeout_s))))
    }

    fn close(&self, py: Python<'_>) -> PyResult<()> {
        self.guard.check()?;
        py.detach(|| self.inner.close());
        Ok(())
    }
}

fn record(event: Event) -> (&'static str, u64, String) {
    match event {
        Event::WorkerReady(worker, signatures) => ("worker_ready", worker, signatures),
        Event::WorkerFailed(worker, message) => ("worker_failed", worker, message),
        Event::WorkerLost(worker, why) => ("worker_lost", worker, why),
        Event::WorkerClosed(worker) => ("worker_closed", worker, String::new()),
        Event::Retired(handle) => ("retired", handle, String::new()),
        Event::Call(call, asked) => ("call", call, asked),
        Event::Log(level, message) => ("log", level, message),
    }
}
