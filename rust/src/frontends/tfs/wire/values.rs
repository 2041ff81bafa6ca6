//! The elements of a TensorProto: which field holds them, how they are written there, and how gaps are filled.

use bytes::Bytes;

use super::reader::{Malformed, Reader, Value};
use super::tensor::{Fault, Parts};
use crate::tensor::DType;

/// The field of string elements.
pub(super) const STRING_VAL: u32 = 8;

/// How the numbers of one dtype stand in their typed field.
#[derive(Debug, Clone, Copy)]
pub(super) struct Coding {
    pub(super) field: u32,
    /// Bytes per element in memory.
    size: usize,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Little-endian words of four or eight bytes, as in memory; an element is one word, or two if complex.
    Words(usize),
    /// The low bytes of varints.
    Varints,
    /// Varints that are zero or not.
    Bools,
}

impl Coding {
    /// # Panics
    /// For strings, which are no numbers.
    pub(super) fn of(dtype: DType) -> Coding {
        let (field, kind) = match dtype {
            DType::Float => (5, Kind::Words(4)),
            DType::Double => (6, Kind::Words(8)),
            DType::Int32 | DType::Int16 | DType::Int8 | DType::UInt16 | DType::UInt8 => (7, Kind::Varints),
            DType::String => unreachable!("strings have their own reader"),
            DType::Complex64 => (9, Kind::Words(4)),
            DType::Int64 => (10, Kind::Varints),
            DType::Bool => (11, Kind::Bools),
            DType::Complex128 => (12, Kind::Words(8)),
            DType::Half | DType::BFloat16 => (13, Kind::Varints),
            DType::UInt32 => (16, Kind::Varints),
            DType::UInt64 => (17, Kind::Varints),
        };
        Coding { field, size: dtype.size().unwrap_or_default(), kind }
    }
}

/// Exactly `total` bytes of elements, shared with `message` when they stand there in one piece.
pub(super) fn read_numbers(message: &Bytes, parts: &Parts<'_>, coding: Coding, total: usize) -> Result<Bytes, Fault> {
    if let Some(packed) = parts.only(coding.field)
        && in_place(packed, coding, total)?
    {
        return Ok(message.slice_ref(&packed[..total]));
    }
    let mut elements = Vec::with_capacity(total);
    let mut reader = Reader::new(message);
    while let Some((number, value)) = reader.field()? {
        if number == coding.field && elements.len() < total {
            append(&mut elements, value, coding, total)?;
        }
    }
    elements.truncate(elements.len() / coding.size * coding.size); // half a complex number is none
    fill(&mut elements, coding.size, total);
    Ok(elements.into())
}

/// Whether a packed field starts with all elements in their final form.
fn in_place(packed: &[u8], coding: Coding, total: usize) -> Result<bool, Malformed> {
    match coding.kind {
        Kind::Words(size) => check_words(packed, size).map(|()| packed.len() >= total),
        Kind::Varints if coding.size == 1 => Ok(packed.len() == total && packed.iter().all(|byte| *byte < 0x80)),
        Kind::Bools => Ok(packed.len() == total && packed.iter().all(|byte| *byte < 2)),
        Kind::Varints => Ok(false),
    }
}

fn check_words(packed: &[u8], size: usize) -> Result<(), Malformed> {
    if packed.len().is_multiple_of(size) { Ok(()) } else { Err(Malformed("a packed field ends within a value")) }
}

/// Adds the value or values of one field, up to `total` bytes of elements.
fn append(elements: &mut Vec<u8>, value: Value<'_>, coding: Coding, total: usize) -> Result<(), Malformed> {
    match (coding.kind, value) {
        (Kind::Words(size), Value::Delimited(packed)) => {
            check_words(packed, size)?;
            elements.extend_from_slice(&packed[..packed.len().min(total - elements.len())]);
        }
        (Kind::Words(4), Value::Fixed32(word)) => elements.extend_from_slice(word),
        (Kind::Words(8), Value::Fixed64(word)) => elements.extend_from_slice(word),
        (Kind::Varints | Kind::Bools, Value::Delimited(packed)) => append_varints(elements, packed, coding, total)?,
        (Kind::Varints | Kind::Bools, Value::Varint(number)) => push(elements, number, coding),
        _ => return Err(Malformed("a field has the wrong wire type")),
    }
    Ok(())
}

fn append_varints(elements: &mut Vec<u8>, packed: &[u8], coding: Coding, total: usize) -> Result<(), Malformed> {
    let mut reader = Reader::new(packed);
    while !reader.rest().is_empty() && elements.len() < total {
        push(elements, reader.varint()?, coding);
    }
    Ok(())
}

#[inline]
fn push(elements: &mut Vec<u8>, number: u64, coding: Coding) {
    let bytes = if coding.kind == Kind::Bools { u64::from(number != 0) } else { number }.to_le_bytes();
    match coding.size {
        1 => elements.push(bytes[0]),
        2 => elements.extend_from_slice(&bytes[..2]),
        4 => elements.extend_from_slice(&bytes[..4]),
        _ => elements.extend_from_slice(&bytes),
    }
}

/// Nothing becomes zeros; too little repeats its last element.
fn fill(elements: &mut Vec<u8>, size: usize, total: usize) {
    if elements.is_empty() {
        elements.resize(total, 0);
    }
    let last = elements.len().saturating_sub(size);
    while elements.len() < total {
        let repeated = (elements.len() - last).min(total - elements.len());
        elements.extend_from_within(last..last + repeated);
    }
}

/// Raw elements as they are, but for booleans, of which any byte other than 0 is true.
pub fn canonical(dtype: DType, content: Bytes) -> Bytes {
    if dtype != DType::Bool || content.iter().all(|byte| *byte < 2) {
        return content;
    }
    content.iter().map(|byte| u8::from(*byte != 0)).collect()
}

/// Exactly `count` strings that share `message`.
pub(super) fn read_strings(message: &Bytes, count: usize) -> Result<Vec<Bytes>, Fault> {
    let mut items = Vec::with_capacity(count);
    let mut reader = Reader::new(message);
    while let Some((number, value)) = reader.field()? {
        if number == STRING_VAL && items.len() < count {
            items.push(message.slice_ref(value.delimited()?));
        }
    }
    let last = items.last().cloned().unwrap_or_default();
    items.resize(count, last);
    Ok(items)
}

/// `tensor_content` of strings: all lengths as varints, then all bytes.
pub(super) fn read_string_content(message: &Bytes, content: &[u8], count: usize) -> Result<Vec<Bytes>, Fault> {
    if content.len() < count {
        return Err(format!("{count} strings need as many lengths in tensor_content").into());
    }
    let mut lengths = Reader::new(content);
    let mut items = Reader::new(content);
    for _ in 0..count {
        items.varint()?;
    }
    let mut strings = Vec::with_capacity(count);
    for _ in 0..count {
        let length = usize::try_from(lengths.varint()?).map_err(|_| Malformed("it ends too early"))?;
        strings.push(message.slice_ref(items.take(length)?));
    }
    match items.rest().len() {
        0 => Ok(strings),
        surplus => Err(format!("{surplus} bytes of tensor_content belong to no string").into()),
    }
}
