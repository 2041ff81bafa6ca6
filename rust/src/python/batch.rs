//! A batch in the hands of Python.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyList, PyTuple};

use super::buffer::{Buffer, Parts, Source};
use super::errors::{self, channel_lost};
use crate::model::Signature;
use crate::tensor::{DType, Data, Shape, element_count};
use crate::workers::arena::Segment;
use crate::workers::client::{Client, layout};
use crate::workers::message::{Run, TensorPlace};
use crate::workers::outputs;

/// See `_core.pyi`.
#[pyclass(frozen, module = "poise._core")]
pub struct Batch {
    client: Arc<Client>,
    run: Run,
    segment: Arc<Segment>,
    signatures: Arc<Vec<Signature>>,
    interpreter_wait: Duration,
    ended: AtomicBool,
}

/// (name, dtype, shape, elements)
type Output<'py> = (String, String, Vec<u64>, Bound<'py, PyAny>);

fn server_said_nonsense() -> PyErr {
    PyRuntimeError::new_err("the server sent a batch that does not fit the model's signatures")
}

impl Batch {
    pub fn new(
        client: Arc<Client>,
        run: Run,
        segment: Arc<Segment>,
        signatures: &Arc<Vec<Signature>>,
        interpreter_wait: Duration,
    ) -> PyResult<Self> {
        if run.endpoint as usize >= signatures.len() {
            return Err(server_said_nonsense());
        }
        let signatures = Arc::clone(signatures);
        Ok(Self { client, run, segment, signatures, interpreter_wait, ended: AtomicBool::new(false) })
    }

    fn of(&self) -> &Signature {
        &self.signatures[self.run.endpoint as usize]
    }

    /// Marks the batch as ended; fails when it was before.
    fn end(&self) -> PyResult<()> {
        if self.ended.swap(true, Ordering::AcqRel) {
            return Err(PyRuntimeError::new_err(format!("batch {} has ended already", self.run.id)));
        }
        Ok(())
    }

    fn source<'py>(&self, output: &Output<'py>) -> PyResult<(u32, DType, Source<'py>)> {
        let (name, dtype, shape, elements) = output;
        let index = self.of().outputs.iter().position(|spec| spec.name == *name);
        let index = index.ok_or_else(|| PyValueError::new_err(format!("output {name} is not in the signature")))?;
        let dtype = DType::from_name(dtype)
            .ok_or_else(|| PyValueError::new_err(format!("output {name}: unknown dtype {dtype}")))?;
        let dims: Shape = shape.iter().map(|dim| *dim as usize).collect();
        let count = element_count(&dims).map_err(|error| PyValueError::new_err(error.message.into_owned()))?;
        let source = match dtype.size() {
            Some(size) => Source::fixed(name, elements, count * size)?,
            None => Source::strings(name, elements, count)?,
        };
        Ok((index as u32, dtype, source))
    }

    fn input<'py>(&self, py: Python<'py>, place: &TensorPlace) -> PyResult<Bound<'py, PyTuple>> {
        let spec = self.of().inputs.get(place.index as usize).ok_or_else(server_said_nonsense)?;
        let shape = PyTuple::new(py, &place.shape)?;
        let (offset, len) = (place.offset as usize, place.len as usize);
        let elements = if spec.dtype == DType::String {
            self.strings(py, place)?.into_any()
        } else {
            let buffer = Buffer::new(&self.segment, offset, len).ok_or_else(server_said_nonsense)?;
            Bound::new(py, buffer)?.into_any()
        };
        (spec.name.as_str(), spec.dtype.name(), shape, elements).into_pyobject(py)
    }

    fn strings<'py>(&self, py: Python<'py>, place: &TensorPlace) -> PyResult<Bound<'py, PyList>> {
        let bytes = self.segment.read(place.offset as usize, place.len as usize).ok_or_else(server_said_nonsense)?;
        let shape = place.shape.iter().map(|dim| *dim as usize).collect();
        let tensor = outputs::strings(shape, &Bytes::from(bytes)).map_err(|_| server_said_nonsense())?;
        match tensor.data() {
            Data::Strings(items) => PyList::new(py, items.iter().map(|item| PyBytes::new(py, item))),
            Data::Fixed(_) => Err(server_said_nonsense()),
        }
    }
}

#[pymethods]
impl Batch {
    #[getter]
    fn id(&self) -> u64 {
        self.run.id
    }

    #[getter]
    fn signature(&self) -> &str {
        &self.of().name
    }

    #[getter]
    fn rows(&self) -> u64 {
        self.run.rows
    }

    #[getter]
    fn outputs<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        let outputs = &self.of().outputs;
        let names = self.run.wanted.iter().filter_map(|index| outputs.get(*index as usize));
        PyTuple::new(py, names.map(|spec| spec.name.as_str()).collect::<Vec<_>>())
    }

    #[getter]
    fn inputs<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyTuple>>> {
        self.run.inputs.iter().map(|place| self.input(py, place)).collect()
    }

    fn complete(&self, py: Python<'_>, outputs: Vec<Output<'_>>) -> PyResult<()> {
        let mut described = Vec::with_capacity(outputs.len());
        let mut sources = Vec::with_capacity(outputs.len());
        for output in &outputs {
            let (index, dtype, source) = self.source(output)?;
            described.push((index, dtype, output.2.clone(), source.len()));
            sources.push(source);
        }
        self.end()?;
        let (places, parts) = (layout(described), Parts::of(&sources));
        let (client, run, wait) = (&self.client, &self.run, self.interpreter_wait);
        let sent = py.detach(move || {
            client.complete(run.id, run.slot, places, wait, |segment, places| {
                #[allow(unsafe_code)]
                // SAFETY: `sources` is held until after this call.
                unsafe {
                    parts.copy(segment, places);
                }
            })
        });
        drop(sources);
        sent.map_err(channel_lost)
    }

    #[pyo3(signature = (code, message, rows = None))]
    fn fail(&self, py: Python<'_>, code: &str, message: String, rows: Option<Vec<u64>>) -> PyResult<()> {
        let code = errors::code(code)?;
        self.end()?;
        py.detach(|| self.client.fail(self.run.id, code, message, rows.unwrap_or_default())).map_err(channel_lost)
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        if !*self.ended.get_mut() {
            let _ = self.client.drop_batch(self.run.id);
        }
    }
}
