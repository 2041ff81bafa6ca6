//! The body of an answer: tensors, or an error, as compact JSON.

use bytes::Bytes;
use smallvec::SmallVec;

use super::base64;
use super::decimal::{Real, write_float, write_or_null};
use super::half::{BFLOAT16, HALF, widen};
use super::integer::{write_integer, write_unsigned};
use super::text::write_string;
use super::{Format, Style};
use crate::error::{Code, Error, Reason, Result};
use crate::tensor::{DType, Data, Tensor};

/// The names of outputs that hold bytes, not text, end in this.
const BYTES_SUFFIX: &str = "_bytes";

/// Writes outputs as `predictions` or `outputs`: a single one bare, several by name.
pub fn write_predict(format: Format, style: Style, outputs: &[(&str, &Tensor)]) -> Result<Vec<u8>> {
    if outputs.is_empty() {
        return Err(refused("Cannot convert empty tensor map to JSON"));
    }
    let rows = if format == Format::Row { Some(common_rows(outputs)?) } else { None };
    let outputs = outputs.iter().map(|(name, tensor)| Output::new(name, tensor, style)).collect::<Result<Vec<_>>>()?;
    let mut out = Vec::with_capacity(32 + outputs.iter().map(Output::guess).sum::<usize>());
    out.extend_from_slice(if rows.is_some() { b"{\"predictions\":" } else { b"{\"outputs\":" });
    match (outputs.as_slice(), rows) {
        ([output], _) => output.write(&mut out)?,
        (_, None) => write_object(&mut out, &outputs, |out, output| output.write(out))?,
        (_, Some(rows)) => {
            out.push(b'[');
            for row in 0..rows {
                if row > 0 {
                    out.push(b',');
                }
                write_object(&mut out, &outputs, |out, output| output.write_row(out, row))?;
            }
            out.push(b']');
        }
    }
    out.push(b'}');
    Ok(out)
}

/// Writes an error. `error` is TensorFlow Serving's field; `code` and `reason` are for clients that want to react.
pub fn write_error(error: &Error) -> Vec<u8> {
    let mut out = b"{\"error\":".to_vec();
    write_string(&mut out, &error.message);
    out.extend_from_slice(b",\"code\":");
    write_string(&mut out, error.code.name());
    out.extend_from_slice(b",\"reason\":");
    write_string(&mut out, error.reason.label());
    out.push(b'}');
    out
}

/// The model's output does not fit the format that was asked for.
fn refused(message: impl Into<std::borrow::Cow<'static, str>>) -> Error {
    Error::new(Code::InvalidArgument, Reason::ModelOutput, message)
}

/// The size of dim 0 that all outputs have.
fn common_rows(outputs: &[(&str, &Tensor)]) -> Result<usize> {
    let mut common = None;
    for (name, tensor) in outputs {
        let rows = tensor.rows().ok_or_else(|| refused(format!("Tensor name: {name} has no shape information ")))?;
        let expected = *common.get_or_insert(rows);
        if rows != expected {
            let message = format!("Tensor name: {name} has inconsistent batch size: {rows} expecting: {expected}");
            return Err(refused(message));
        }
    }
    Ok(common.unwrap_or(0))
}

fn write_object(
    out: &mut Vec<u8>,
    outputs: &[Output],
    mut value: impl FnMut(&mut Vec<u8>, &Output) -> Result<()>,
) -> Result<()> {
    for (index, output) in outputs.iter().enumerate() {
        out.push(if index == 0 { b'{' } else { b',' });
        out.extend_from_slice(&output.key);
        value(out, output)?;
    }
    out.push(b'}');
    Ok(())
}

/// One output on its way into text.
struct Output<'a> {
    name: &'a str,
    /// The name as a key, with its colon.
    key: Vec<u8>,
    tensor: &'a Tensor,
    style: Style,
}

impl<'a> Output<'a> {
    fn new(name: &'a str, tensor: &'a Tensor, style: Style) -> Result<Self> {
        if let dtype @ (DType::Complex64 | DType::Complex128) = tensor.dtype() {
            let message = format!("Failed to write JSON value for tensor type: {dtype}");
            return Err(Error::new(Code::InvalidArgument, Reason::Unsupported, message));
        }
        let mut key = Vec::with_capacity(name.len() + 3);
        write_string(&mut key, name);
        key.push(b':');
        Ok(Self { name, key, tensor, style })
    }

    /// About how long the text will be.
    fn guess(&self) -> usize {
        let rows = self.tensor.rows().unwrap_or(1);
        rows.saturating_mul(self.key.len() + 4).saturating_add(self.tensor.byte_len().saturating_mul(3)).min(1 << 20)
    }

    fn write(&self, out: &mut Vec<u8>) -> Result<()> {
        self.nested(out, self.tensor.shape(), 0)
    }

    fn write_row(&self, out: &mut Vec<u8>, row: usize) -> Result<()> {
        let shape = self.tensor.shape().get(1..).unwrap_or_default();
        self.nested(out, shape, row * shape.iter().product::<usize>())
    }

    /// The elements from `start` on as lists of this shape.
    fn nested(&self, out: &mut Vec<u8>, shape: &[usize], mut start: usize) -> Result<()> {
        // Lists within a list of nothing do not show.
        let shown = shape.iter().position(|dim| *dim == 0).map_or(shape.len(), |zero| zero + 1);
        let Some((&run, outer)) = shape[..shown].split_last() else { return self.run(out, start, start + 1) };
        let mut done: SmallVec<[usize; 8]> = SmallVec::from_elem(0, outer.len());
        out.resize(out.len() + outer.len(), b'[');
        loop {
            out.push(b'[');
            self.run(out, start, start + run)?;
            out.push(b']');
            start += run;
            // Count like an odometer: a list that is full closes, and is one more in the list around it.
            let mut level = outer.len();
            loop {
                if level == 0 {
                    return Ok(());
                }
                level -= 1;
                done[level] += 1;
                if done[level] < outer[level] {
                    break;
                }
                done[level] = 0;
                out.push(b']');
            }
            out.push(b',');
            out.resize(out.len() + outer.len() - level - 1, b'[');
        }
    }

    /// Elements `start..end`, between commas.
    fn run(&self, out: &mut Vec<u8>, start: usize, end: usize) -> Result<()> {
        match self.tensor.data() {
            Data::Strings(items) => self.strings(out, &items[start..end])?,
            Data::Fixed(bytes) => self.numbers(out, bytes, start, end),
        }
        Ok(())
    }

    fn numbers(&self, out: &mut Vec<u8>, bytes: &Bytes, start: usize, end: usize) {
        match self.tensor.dtype() {
            DType::Float => self.floats(out, &bytes[start * 4..end * 4], f32::from_le_bytes),
            DType::Double => self.floats(out, &bytes[start * 8..end * 8], f64::from_le_bytes),
            DType::Half => {
                self.floats(out, &bytes[start * 2..end * 2], |item| widen(u16::from_le_bytes(item), HALF));
            }
            DType::BFloat16 => {
                self.floats(out, &bytes[start * 2..end * 2], |item| widen(u16::from_le_bytes(item), BFLOAT16));
            }
            DType::Int8 => each(out, bytes, start, end, |out, item| write_integer(out, i8::from_le_bytes(item).into())),
            DType::Int16 => {
                each(out, bytes, start, end, |out, item| write_integer(out, i16::from_le_bytes(item).into()))
            }
            DType::Int32 => {
                each(out, bytes, start, end, |out, item| write_integer(out, i32::from_le_bytes(item).into()))
            }
            DType::Int64 => each(out, bytes, start, end, |out, item| write_integer(out, i64::from_le_bytes(item))),
            DType::UInt8 => {
                each(out, bytes, start, end, |out, item| write_unsigned(out, u8::from_le_bytes(item).into()))
            }
            DType::UInt16 => {
                each(out, bytes, start, end, |out, item| write_unsigned(out, u16::from_le_bytes(item).into()))
            }
            DType::UInt32 => {
                each(out, bytes, start, end, |out, item| write_unsigned(out, u32::from_le_bytes(item).into()))
            }
            DType::UInt64 => each(out, bytes, start, end, |out, item| write_unsigned(out, u64::from_le_bytes(item))),
            DType::Bool => each(out, bytes, start, end, |out, [item]: [u8; 1]| {
                out.extend_from_slice(if item == 0 { b"false" } else { b"true" });
            }),
            // Strings are not `Data::Fixed`, and `new` refuses complex numbers.
            DType::String | DType::Complex64 | DType::Complex128 => {}
        }
    }

    fn floats<R: Real, const N: usize>(&self, out: &mut Vec<u8>, bytes: &[u8], read: impl Fn([u8; N]) -> R) {
        let end = bytes.len() / N;
        if self.style.null {
            each(out, bytes, 0, end, |out, item| write_or_null(out, read(item)));
        } else {
            each(out, bytes, 0, end, |out, item| write_float(out, read(item)));
        }
    }

    fn strings(&self, out: &mut Vec<u8>, items: &[Bytes]) -> Result<()> {
        let binary = self.style.base64 || self.name.ends_with(BYTES_SUFFIX);
        for (index, item) in items.iter().enumerate() {
            if index > 0 {
                out.push(b',');
            }
            if binary {
                base64::write(out, item);
            } else {
                let text = std::str::from_utf8(item).map_err(|_| self.not_text())?;
                write_string(out, text);
            }
        }
        Ok(())
    }

    #[cold]
    fn not_text(&self) -> Error {
        let name = self.name;
        refused(format!(
            "Tensor name: {name} holds bytes that are not UTF-8 text: outputs whose name ends in '{BYTES_SUFFIX}' are \
             sent as base64, and all are with ?b64=true"
        ))
    }
}

#[inline]
fn each<const N: usize>(
    out: &mut Vec<u8>,
    bytes: &[u8],
    start: usize,
    end: usize,
    mut write: impl FnMut(&mut Vec<u8>, [u8; N]),
) {
    let (items, _) = bytes[start * N..end * N].as_chunks::<N>();
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        write(out, *item);
    }
}
