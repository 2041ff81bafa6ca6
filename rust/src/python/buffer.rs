//! Arena memory as Python's buffer protocol sees it, and Python's buffers as the arena copies them.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};
use std::ptr;
use std::sync::Arc;

use pyo3::buffer::PyUntypedBuffer;
use pyo3::exceptions::{PyBufferError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::workers::arena::Segment;
use crate::workers::message::TensorPlace;

/// A range of a segment. The segment stays mapped while this, or any view of it, lives.
#[pyclass(frozen, module = "poise._core")]
pub struct Buffer {
    segment: Arc<Segment>,
    offset: usize,
    len: usize,
}

impl Buffer {
    /// `None` when the place is not inside the segment.
    pub fn new(segment: &Arc<Segment>, offset: usize, len: usize) -> Option<Self> {
        segment.address(offset, len)?;
        Some(Self { segment: Arc::clone(segment), offset, len })
    }
}

#[pymethods]
impl Buffer {
    fn __len__(&self) -> usize {
        self.len
    }

    /// # Safety
    /// Called by the interpreter with a view to fill.
    unsafe fn __getbuffer__(slf: Bound<'_, Self>, view: *mut ffi::Py_buffer, flags: c_int) -> PyResult<()> {
        let this = slf.get();
        let address = this.segment.address(this.offset, this.len);
        let address = address.ok_or_else(|| PyBufferError::new_err("the buffer lies outside its segment"))?;
        // SAFETY: `view` is the interpreter's own; the memory stays mapped while `slf` lives, and the view holds a
        // reference to `slf`. Writers on both sides of the channel keep the protocol's turns.
        let filled = unsafe {
            ffi::PyBuffer_FillInfo(
                view,
                slf.as_ptr(),
                address.as_ptr().cast::<c_void>(),
                this.len as ffi::Py_ssize_t,
                0,
                flags,
            )
        };
        if filled == 0 { Ok(()) } else { Err(PyErr::fetch(slf.py())) }
    }
}

/// Memory of Python objects that is copied once, without the interpreter.
pub struct Source<'py> {
    parts: Vec<(*const u8, usize)>,
    /// Keeps what `parts` points to in place.
    _buffer: Option<PyUntypedBuffer>,
    _strings: Vec<Bound<'py, PyBytes>>,
    strings: bool,
}

/// The pointers of some sources, for a copy without the interpreter.
pub struct Parts(Vec<(Vec<(*const u8, usize)>, bool)>);

// SAFETY: the pointers are read by one thread while the thread that holds their owners waits for it.
unsafe impl Send for Parts {}

impl<'py> Source<'py> {
    /// A C-contiguous buffer of exactly `len` bytes.
    pub fn fixed(name: &str, object: &Bound<'py, PyAny>, len: usize) -> PyResult<Self> {
        let buffer = PyUntypedBuffer::get(object)?;
        if !buffer.is_c_contiguous() {
            return Err(PyValueError::new_err(format!("output {name}: expected a C-contiguous array")));
        }
        if buffer.len_bytes() != len {
            let got = buffer.len_bytes();
            return Err(PyValueError::new_err(format!("output {name}: its shape needs {len} bytes but it has {got}")));
        }
        let parts = vec![(buffer.buf_ptr().cast::<u8>().cast_const(), len)];
        Ok(Self { parts, _buffer: Some(buffer), _strings: Vec::new(), strings: false })
    }

    /// A sequence of exactly `count` bytes objects.
    pub fn strings(name: &str, object: &Bound<'py, PyAny>, count: usize) -> PyResult<Self> {
        let strings = object.try_iter()?.map(|item| Ok(item?.cast_into::<PyBytes>()?)).collect::<PyResult<Vec<_>>>()?;
        if strings.len() != count {
            let got = strings.len();
            return Err(PyValueError::new_err(format!(
                "output {name}: its shape needs {count} strings but it has {got}"
            )));
        }
        let parts = strings.iter().map(|item| (item.as_bytes().as_ptr(), item.as_bytes().len())).collect();
        Ok(Self { parts, _buffer: None, _strings: strings, strings: true })
    }

    /// Bytes that it takes in a segment.
    pub fn len(&self) -> usize {
        let table = if self.strings { self.parts.len() * 8 } else { 0 };
        table + self.parts.iter().map(|(_, len)| len).sum::<usize>()
    }
}

impl Parts {
    pub fn of(sources: &[Source<'_>]) -> Self {
        Self(sources.iter().map(|source| (source.parts.clone(), source.strings)).collect())
    }

    /// Copies every source to its place.
    ///
    /// # Safety
    /// The sources that the parts were taken from must still be held.
    pub unsafe fn copy(&self, segment: &Segment, places: &[TensorPlace]) {
        for ((parts, strings), place) in self.0.iter().zip(places) {
            let mut at = place.offset as usize;
            if *strings {
                for (_, len) in parts {
                    segment.write(at, &(*len as u64).to_le_bytes());
                    at += 8;
                }
            }
            for (from, len) in parts {
                let from = if *len == 0 { ptr::NonNull::dangling().as_ptr() } else { from.cast_mut() };
                // SAFETY: by this function's contract the owner of this memory is held, so it is good for `len`.
                unsafe { segment.write_raw(at, from, *len) };
                at += len;
            }
        }
    }
}
