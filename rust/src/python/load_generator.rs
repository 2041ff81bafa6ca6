//! The load generator from Python: threads that send on their own, and columns of what came of it.

use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

use super::loadgen::to_py;
use crate::loadgen::CallError;
use crate::loadgen::engine::{Fleet, Outcome, Sample, Taken};
use crate::loadgen::plan::Plan;

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<LoadGenerator>()?;
    module.add_function(wrap_pyfunction!(outcome_name, module)?)
}

/// Sends requests until it is closed; see `_core.pyi`.
#[pyclass(frozen)]
struct LoadGenerator {
    fleet: Mutex<Option<Fleet>>,
}

#[pymethods]
impl LoadGenerator {
    #[new]
    fn new(py: Python<'_>, plan_json: &str, bodies: Vec<Vec<u8>>) -> PyResult<Self> {
        let plan: Plan =
            serde_json::from_str(plan_json).map_err(|error| PyValueError::new_err(format!("plan: {error}")))?;
        let bodies: Vec<Bytes> = bodies.into_iter().map(Bytes::from).collect();
        let fleet = py.detach(|| Fleet::start(&plan, &bodies)).map_err(to_py)?;
        Ok(Self { fleet: Mutex::new(Some(fleet)) })
    }

    fn now_ns(&self) -> PyResult<i64> {
        self.with(|fleet| Ok(fleet.now()))
    }

    fn feed(&self, py: Python<'_>, times_ns: &[u8], choices: &[u8]) -> PyResult<()> {
        let (times, choices) = (numbers(times_ns, i64::from_ne_bytes)?, numbers(choices, u32::from_ne_bytes)?);
        py.detach(|| self.with(|fleet| fleet.feed(&times, &choices).map_err(to_py)))
    }

    fn take<'py>(&self, py: Python<'py>, limit_s: f64) -> PyResult<Bound<'py, PyDict>> {
        let limit = Duration::try_from_secs_f64(limit_s)
            .map_err(|_| PyValueError::new_err(format!("expected a time limit in seconds, got {limit_s}")))?;
        let taken = py.detach(|| self.with(|fleet| fleet.take(limit).map_err(to_py)))?;
        columns(py, &taken)
    }

    fn close(&self, py: Python<'_>) {
        // Its threads are waited for.
        py.detach(|| drop(self.fleet.lock().take()));
    }
}

impl LoadGenerator {
    fn with<T>(&self, use_it: impl FnOnce(&Fleet) -> PyResult<T>) -> PyResult<T> {
        match &*self.fleet.lock() {
            Some(fleet) => use_it(fleet),
            None => Err(to_py(CallError::Usage("the load generator is closed".into()))),
        }
    }
}

/// The name under which an outcome of [`LoadGenerator::take`] is counted.
#[pyfunction]
fn outcome_name(outcome: u16) -> String {
    Outcome(outcome).name().into_owned()
}

fn numbers<T, const N: usize>(bytes: &[u8], read: fn([u8; N]) -> T) -> PyResult<Vec<T>> {
    let (chunks, rest) = bytes.as_chunks::<N>();
    if !rest.is_empty() {
        return Err(PyValueError::new_err(format!("expected whole numbers of {N} bytes, got {} bytes", bytes.len())));
    }
    Ok(chunks.iter().map(|chunk| read(*chunk)).collect())
}

fn columns<'py>(py: Python<'py>, taken: &Taken) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    let add = |name: &str, width: usize, write: &dyn Fn(&Sample, &mut Vec<u8>)| {
        let mut bytes = Vec::with_capacity(taken.samples.len() * width);
        taken.samples.iter().for_each(|sample| write(sample, &mut bytes));
        dict.set_item(name, PyBytes::new(py, &bytes))
    };
    add("scheduled", 8, &|sample, out| out.extend(sample.scheduled.to_ne_bytes()))?;
    add("issued", 8, &|sample, out| out.extend(sample.issued.to_ne_bytes()))?;
    add("sent", 8, &|sample, out| out.extend(sample.sent.to_ne_bytes()))?;
    add("done", 8, &|sample, out| out.extend(sample.done.to_ne_bytes()))?;
    add("outcome", 2, &|sample, out| out.extend(sample.outcome.0.to_ne_bytes()))?;
    add("choice", 4, &|sample, out| out.extend(sample.choice.to_ne_bytes()))?;
    add("queue_us", 4, &|sample, out| out.extend(sample.stages.queue_us.to_ne_bytes()))?;
    add("batch_us", 4, &|sample, out| out.extend(sample.stages.batch_us.to_ne_bytes()))?;
    add("execute_us", 4, &|sample, out| out.extend(sample.stages.execute_us.to_ne_bytes()))?;
    add("batch_rows", 4, &|sample, out| out.extend(sample.stages.batch_rows.to_ne_bytes()))?;
    dict.set_item("settled_ns", taken.settled)?;
    dict.set_item("ended", taken.ended)?;
    dict.set_item("in_flight", taken.in_flight)?;
    dict.set_item("connections", taken.connections)?;
    dict.set_item("cpu_ns", taken.cpu_ns.clone())?;
    Ok(dict)
}
