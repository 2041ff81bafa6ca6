//! Load and single calls from Python. The interpreter is free while they run, and a signal ends them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;

use bytes::Bytes;
use pyo3::IntoPyObjectExt;
use pyo3::buffer::PyBuffer;
use pyo3::exceptions::{PyConnectionError, PyRuntimeError, PyTimeoutError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::{Value, json};

use crate::error::Error;
use crate::frontends::tfs::wire::{Elements, Frame, PredictResponse, Spec, encode_request};
use crate::loadgen::client::{self, Call};
use crate::loadgen::metadata::{self, Metadata};
use crate::loadgen::target::Target;
use crate::loadgen::{CallError, CallResult};
use crate::model::TensorSpec;
use crate::tensor::{DType, Data, Shape, Tensor};

/// How long a signal may wait to be seen.
const SIGNAL_CHECK: Duration = Duration::from_millis(100);

/// (name, dtype, shape, elements), as everywhere at this border.
type Input<'py> = (String, String, Vec<usize>, Elems<'py>);

/// Elements as Python has them: strings one by one, all else as one buffer.
#[derive(FromPyObject)]
enum Elems<'py> {
    Fixed(PyBuffer<u8>),
    Strings(Vec<Bound<'py, PyBytes>>),
}

pub fn register(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(encode_predict_request, module)?)?;
    module.add_function(wrap_pyfunction!(predict, module)?)?;
    module.add_function(wrap_pyfunction!(fetch_signatures, module)?)?;
    module.add_function(wrap_pyfunction!(http_call, module)?)
}

/// A PredictRequest in protobuf, numbers in the typed fields that clients use.
#[pyfunction]
fn encode_predict_request<'py>(
    py: Python<'py>,
    model: &str,
    version: Option<i64>,
    signature: &str,
    inputs: Vec<Input<'py>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let inputs = tensors(py, inputs)?;
    let spec = Spec { name: model, version, label: None, signature };
    let chunks = encode_request(&spec, &named(&inputs), &[], Elements::Typed, Frame::Bare).map_err(bad_value)?;
    Ok(PyBytes::new(py, &chunks.concat()))
}

/// One prediction over gRPC: the version that answered, and its outputs.
#[pyfunction]
fn predict<'py>(
    py: Python<'py>,
    target: &str,
    model: String,
    version: Option<i64>,
    signature: String,
    inputs: Vec<Input<'py>>,
    timeout_s: f64,
) -> PyResult<(Option<i64>, Vec<Bound<'py, PyAny>>)> {
    let (target, limit) = (Target::parse(target).map_err(to_py)?, limit(timeout_s)?);
    let inputs = tensors(py, inputs)?;
    let response: PredictResponse = interruptible(py, move |_| {
        let spec = Spec { name: &model, version, label: None, signature: &signature };
        client::predict(&target, &spec, &named(&inputs), limit)
    })?;
    let outputs = response.outputs.iter().map(|(name, tensor)| output(py, name, tensor));
    Ok((response.model.version, outputs.collect::<PyResult<_>>()?))
}

/// Signatures over gRPC, as JSON `{"version": ..., "signatures": [...]}`.
#[pyfunction]
#[pyo3(signature = (target, model, version, timeout_s, headers=None))]
fn fetch_signatures(
    py: Python<'_>,
    target: &str,
    model: String,
    version: Option<i64>,
    timeout_s: f64,
    headers: Option<Vec<(String, String)>>,
) -> PyResult<String> {
    let (target, limit) = (Target::parse(target).map_err(to_py)?, limit(timeout_s)?);
    let fields = client::fields(&headers.unwrap_or_default()).map_err(to_py)?;
    let found = interruptible(py, move |_| metadata::fetch(&target, &model, version, &fields, limit))?;
    Ok(metadata_json(&found).to_string())
}

/// One HTTP call: status and body.
#[pyfunction]
#[pyo3(signature = (target, method, path, body, timeout_s, headers=None))]
fn http_call<'py>(
    py: Python<'py>,
    target: &str,
    method: &str,
    path: String,
    body: Vec<u8>,
    timeout_s: f64,
    headers: Option<Vec<(String, String)>>,
) -> PyResult<(u16, Bound<'py, PyBytes>)> {
    let (target, limit) = (Target::parse(target).map_err(to_py)?, limit(timeout_s)?);
    let fields = client::fields(&headers.unwrap_or_default()).map_err(to_py)?;
    let method = method.parse().map_err(|_| PyValueError::new_err(format!("{method:?} is no HTTP method")))?;
    let (status, body) = interruptible(py, move |_| {
        client::call_http(&target, &Call { method, path: &path, body: body.into() }, &fields, limit)
    })?;
    Ok((status.as_u16(), PyBytes::new(py, &body)))
}

/// Does `work` in a thread of its own while this one waits without the interpreter, looking for signals. On a signal
/// the work is told to stop and no longer waited for: its time limit ends it.
pub(super) fn interruptible<T: Send + 'static>(
    py: Python<'_>,
    work: impl FnOnce(&AtomicBool) -> CallResult<T> + Send + 'static,
) -> PyResult<T> {
    let stop = Arc::new(AtomicBool::new(false));
    let (sender, receiver) = channel();
    let stopped = stop.clone();
    std::thread::Builder::new().name("poise-client".into()).spawn(move || {
        // Nobody listens any more after a signal.
        let _ = sender.send(work(&stopped));
    })?;
    let receiver = std::sync::Mutex::new(receiver);
    loop {
        let received = py.detach(|| match receiver.lock() {
            Ok(receiver) => receiver.recv_timeout(SIGNAL_CHECK),
            Err(_) => Err(RecvTimeoutError::Disconnected),
        });
        match received {
            Ok(result) => return result.map_err(to_py),
            Err(RecvTimeoutError::Disconnected) => return Err(PyRuntimeError::new_err("the client thread panicked")),
            Err(RecvTimeoutError::Timeout) => py.check_signals().inspect_err(|_| stop.store(true, Relaxed))?,
        }
    }
}

/// As the exception that says it to Python.
pub(super) fn to_py(error: CallError) -> PyErr {
    let text = error.to_string();
    match error {
        CallError::Usage(_) => PyValueError::new_err(text),
        CallError::Transport(_) => PyConnectionError::new_err(text),
        CallError::Timeout(_) => PyTimeoutError::new_err(text),
        CallError::Refused { .. } => PyRuntimeError::new_err(text),
    }
}

fn bad_value(error: Error) -> PyErr {
    PyValueError::new_err(error.message.into_owned())
}

pub(super) fn limit(seconds: f64) -> PyResult<Duration> {
    Duration::try_from_secs_f64(seconds).map_err(|error| PyValueError::new_err(format!("timeout_s: {error}")))
}

fn named(tensors: &[(String, Tensor)]) -> Vec<(&str, &Tensor)> {
    tensors.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect()
}

fn tensors(py: Python<'_>, inputs: Vec<Input<'_>>) -> PyResult<Vec<(String, Tensor)>> {
    inputs.into_iter().map(|(name, dtype, shape, data)| Ok((name, tensor(py, &dtype, shape, data)?))).collect()
}

fn tensor(py: Python<'_>, dtype: &str, shape: Vec<usize>, data: Elems<'_>) -> PyResult<Tensor> {
    let known = DType::from_name(dtype).ok_or_else(|| PyValueError::new_err(format!("unknown dtype {dtype}")))?;
    let shape = Shape::from_vec(shape);
    let made = match data {
        Elems::Fixed(buffer) => Tensor::fixed(known, shape, buffer.to_vec(py)?.into()),
        Elems::Strings(items) => {
            Tensor::strings(shape, items.iter().map(|item| Bytes::copy_from_slice(item.as_bytes())).collect())
        }
    };
    let made = made.map_err(bad_value)?;
    if made.dtype() != known {
        return Err(PyValueError::new_err(format!("{dtype} elements come as one buffer, not as a list")));
    }
    Ok(made)
}

fn output<'py>(py: Python<'py>, name: &str, tensor: &Tensor) -> PyResult<Bound<'py, PyAny>> {
    let (dtype, shape) = (tensor.dtype().name(), tensor.shape().to_vec());
    match tensor.data() {
        Data::Fixed(bytes) => (name, dtype, shape, PyBytes::new(py, bytes)).into_bound_py_any(py),
        Data::Strings(items) => {
            let items: Vec<_> = items.iter().map(|item| PyBytes::new(py, item)).collect();
            (name, dtype, shape, items).into_bound_py_any(py)
        }
    }
}

fn metadata_json(metadata: &Metadata) -> Value {
    let spec = |spec: &TensorSpec| json!({"name": spec.name, "dtype": spec.dtype.name(), "shape": spec.shape});
    let specs = |all: &[TensorSpec]| all.iter().map(spec).collect::<Vec<_>>();
    let signatures = metadata.signatures.iter().map(|signature| {
        json!({
            "name": signature.name,
            "method_name": signature.method_name,
            "batched": signature.batched,
            "inputs": specs(&signature.inputs),
            "outputs": specs(&signature.outputs),
        })
    });
    json!({"version": metadata.version, "signatures": signatures.collect::<Vec<_>>()})
}
