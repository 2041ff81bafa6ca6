//! PredictRequest and PredictResponse to bytes: one pass counts, one pass writes.

use bytes::Bytes;
use smallvec::SmallVec;

use super::values::{Coding, STRING_VAL};
use super::writer::{Writer, delimited_len, is_shared, varint_field_len, varint_len};
use super::{Chunks, Elements, Frame, Spec};
use crate::error::{Error, Result};
use crate::tensor::{DType, Data, Tensor};

/// Field of raw elements in a TensorProto.
const TENSOR_CONTENT: u32 = 4;
/// What protobuf can hold in one message.
const MAX_MESSAGE: usize = i32::MAX as usize;

/// A named tensor to encode.
pub type Named<'a> = (&'a str, &'a Tensor);

/// A request, with its fields in the order of their numbers. Fails only when it would exceed what protobuf can hold.
pub fn encode_request(
    model: &Spec<'_>,
    inputs: &[Named<'_>],
    output_filter: &[&str],
    elements: Elements,
    frame: Frame,
) -> Result<Chunks> {
    let model_len = model_len(model);
    let layouts = measure(inputs, elements);
    let filter_len: usize = output_filter.iter().map(|name| delimited_len(3, name.len())).sum();
    let length = delimited_len(1, model_len) + entries_len(2, inputs, &layouts) + filter_len;
    let mut writer = start(frame, length, &layouts)?;
    write_model(&mut writer, 1, model, model_len);
    write_entries(&mut writer, 2, inputs, &layouts);
    for name in output_filter {
        writer.text(3, name);
    }
    Ok(writer.finish())
}

/// An answer, likewise.
pub fn encode_response(model: &Spec<'_>, outputs: &[Named<'_>], elements: Elements, frame: Frame) -> Result<Chunks> {
    let model_len = model_len(model);
    let layouts = measure(outputs, elements);
    let length = entries_len(1, outputs, &layouts) + delimited_len(2, model_len);
    let mut writer = start(frame, length, &layouts)?;
    write_entries(&mut writer, 1, outputs, &layouts);
    write_model(&mut writer, 2, model, model_len);
    Ok(writer.finish())
}

/// A TensorProto by itself, in typed fields.
pub fn encode_tensor(tensor: &Tensor) -> Bytes {
    let layout = Layout::of(tensor, Elements::Typed);
    let mut writer = Writer::new(Frame::Bare, layout.tensor, layout.shared);
    write_tensor(&mut writer, tensor, &layout);
    writer.finish().concat().into()
}

fn start(frame: Frame, length: usize, layouts: &[Layout]) -> Result<Writer> {
    if length > MAX_MESSAGE {
        return Err(Error::internal(format!("a message of {length} bytes is more than protobuf can hold")));
    }
    Ok(Writer::new(frame, length, layouts.iter().map(|layout| layout.shared).sum()))
}

/// Lengths of one TensorProto.
struct Layout {
    elements: Elements,
    /// Of the packed field or `tensor_content`, without tag and length.
    payload: usize,
    shape: usize,
    tensor: usize,
    /// How much of it is not copied.
    shared: usize,
}

type Layouts = SmallVec<[Layout; 4]>;

fn measure(tensors: &[Named<'_>], elements: Elements) -> Layouts {
    tensors.iter().map(|(_, tensor)| Layout::of(tensor, elements)).collect()
}

impl Layout {
    fn of(tensor: &Tensor, elements: Elements) -> Layout {
        let shape = tensor.shape().iter().map(|dim| delimited_len(2, dim_len(*dim))).sum();
        let head = varint_field_len(1, tensor.dtype() as u64) + delimited_len(2, shape);
        let (payload, values, shared) = match tensor.data() {
            Data::Strings(items) => (
                0,
                items.iter().map(|item| delimited_len(STRING_VAL, item.len())).sum(),
                items.iter().map(Bytes::len).filter(|length| is_shared(*length)).sum(),
            ),
            Data::Fixed(data) if data.is_empty() => (0, 0, 0),
            Data::Fixed(data) => {
                let payload = payload_len(tensor.dtype(), data, elements);
                let shared = if is_raw(tensor.dtype(), elements) && is_shared(payload) { payload } else { 0 };
                (payload, delimited_len(field_of(tensor.dtype(), elements), payload), shared)
            }
        };
        Layout { elements, payload, shape, tensor: head + values, shared }
    }
}

fn dim_len(dim: usize) -> usize {
    if dim == 0 { 0 } else { varint_field_len(1, dim as u64) }
}

fn field_of(dtype: DType, elements: Elements) -> u32 {
    match elements {
        Elements::Typed => Coding::of(dtype).field,
        Elements::Content => TENSOR_CONTENT,
    }
}

/// Whether elements travel as they stand in memory.
fn is_raw(dtype: DType, elements: Elements) -> bool {
    elements == Elements::Content
        || matches!(dtype, DType::Float | DType::Double | DType::Complex64 | DType::Complex128)
}

fn payload_len(dtype: DType, data: &Bytes, elements: Elements) -> usize {
    if is_raw(dtype, elements) {
        return data.len();
    }
    let mut length = 0;
    each_varint(dtype, data, |value| length += varint_len(value));
    length
}

/// Calls `visit` with each element as its typed field has it: signed ones extended to 64 bits.
fn each_varint(dtype: DType, data: &[u8], mut visit: impl FnMut(u64)) {
    match dtype {
        DType::Bool => data.iter().for_each(|byte| visit(u64::from(*byte != 0))),
        DType::UInt8 => data.iter().for_each(|byte| visit(u64::from(*byte))),
        DType::Int8 => data.iter().for_each(|byte| visit(i64::from(byte.cast_signed()).cast_unsigned())),
        DType::Int16 => each(data, |bytes| visit(i64::from(i16::from_le_bytes(bytes)).cast_unsigned())),
        DType::UInt16 | DType::Half | DType::BFloat16 => each(data, |bytes| visit(u16::from_le_bytes(bytes).into())),
        DType::Int32 => each(data, |bytes| visit(i64::from(i32::from_le_bytes(bytes)).cast_unsigned())),
        DType::UInt32 => each(data, |bytes| visit(u32::from_le_bytes(bytes).into())),
        DType::Int64 | DType::UInt64 => each(data, |bytes| visit(u64::from_le_bytes(bytes))),
        DType::Float | DType::Double | DType::Complex64 | DType::Complex128 | DType::String => {
            unreachable!("{dtype} does not travel as varints")
        }
    }
}

fn each<const N: usize>(data: &[u8], visit: impl FnMut([u8; N])) {
    data.as_chunks().0.iter().copied().for_each(visit);
}

fn entry_len(name: &str, layout: &Layout) -> usize {
    delimited_len(1, name.len()) + delimited_len(2, layout.tensor)
}

fn entries_len(number: u32, tensors: &[Named<'_>], layouts: &[Layout]) -> usize {
    tensors.iter().zip(layouts).map(|((name, _), layout)| delimited_len(number, entry_len(name, layout))).sum()
}

fn write_entries(writer: &mut Writer, number: u32, tensors: &[Named<'_>], layouts: &[Layout]) {
    for ((name, tensor), layout) in tensors.iter().zip(layouts) {
        writer.open(number, entry_len(name, layout));
        writer.text(1, name);
        writer.open(2, layout.tensor);
        write_tensor(writer, tensor, layout);
    }
}

fn write_tensor(writer: &mut Writer, tensor: &Tensor, layout: &Layout) {
    writer.varint_field(1, tensor.dtype() as u64);
    writer.open(2, layout.shape);
    for dim in tensor.shape() {
        writer.open(2, dim_len(*dim));
        if *dim != 0 {
            writer.varint_field(1, *dim as u64);
        }
    }
    match tensor.data() {
        Data::Strings(items) => {
            for item in items {
                writer.open(STRING_VAL, item.len());
                writer.payload(item);
            }
        }
        Data::Fixed(data) if !data.is_empty() => write_numbers(writer, tensor.dtype(), data, layout),
        Data::Fixed(_) => {}
    }
}

fn write_numbers(writer: &mut Writer, dtype: DType, data: &Bytes, layout: &Layout) {
    writer.open(field_of(dtype, layout.elements), layout.payload);
    if is_raw(dtype, layout.elements) {
        writer.payload(data);
    } else {
        each_varint(dtype, data, |value| writer.varint(value));
    }
}

fn version_len(version: i64) -> usize {
    if version == 0 { 0 } else { varint_field_len(1, version.cast_unsigned()) }
}

fn text_len(number: u32, text: &str) -> usize {
    if text.is_empty() { 0 } else { delimited_len(number, text.len()) }
}

fn model_len(model: &Spec<'_>) -> usize {
    let version = match (model.version, model.label) {
        (Some(version), _) => delimited_len(2, version_len(version)),
        (None, Some(label)) => delimited_len(4, label.len()),
        (None, None) => 0,
    };
    text_len(1, model.name) + version + text_len(3, model.signature)
}

fn write_model(writer: &mut Writer, number: u32, model: &Spec<'_>, length: usize) {
    writer.open(number, length);
    if !model.name.is_empty() {
        writer.text(1, model.name);
    }
    if let Some(version) = model.version {
        writer.open(2, version_len(version));
        if version != 0 {
            writer.varint_field(1, version.cast_unsigned());
        }
    }
    if !model.signature.is_empty() {
        writer.text(3, model.signature);
    }
    if let (None, Some(label)) = (model.version, model.label) {
        writer.text(4, label);
    }
}
