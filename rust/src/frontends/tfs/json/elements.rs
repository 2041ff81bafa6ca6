//! Values of JSON as elements of one dtype, appended to one buffer.

use bytes::Bytes;

use super::base64;
use super::cursor::Cursor;
use super::half::{BFLOAT16, HALF, narrow};
use super::number::{Misfit, float, integer};
use crate::error::{Code, Error, Reason, Result};
use crate::tensor::{DType, Shape, Tensor};

/// The elements of a tensor that is being read.
pub(super) struct Elements<'a> {
    dtype: DType,
    body: &'a Bytes,
    fixed: Vec<u8>,
    strings: Vec<Bytes>,
    len: usize,
}

impl<'a> Elements<'a> {
    /// `capacity` is a guess at the bytes that will be needed; callers bound it by what they hold already.
    pub fn new(dtype: DType, body: &'a Bytes, capacity: usize) -> Self {
        let fixed = Vec::with_capacity(if dtype == DType::String { 0 } else { capacity });
        Self { dtype, body, fixed, strings: Vec::new(), len: 0 }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn tensor(self, shape: Shape) -> Result<Tensor> {
        match self.dtype {
            DType::String => Tensor::strings(shape, self.strings),
            dtype => Tensor::fixed(dtype, shape, self.fixed.into()),
        }
    }

    /// Appends values of one list, none of them a list, from the one at `cursor` up to the next list or the end of
    /// this one, where `cursor` is left at a comma or bracket; returns how many. At a value that does not fit,
    /// `cursor` is left at it.
    pub fn run(&mut self, cursor: &mut Cursor, list: bool) -> Result<usize, Misfit> {
        let before = self.len;
        match self.dtype {
            DType::Float => self.numbers(cursor, list, |text, pos| float(text, pos).map(le(f32::to_le_bytes))),
            DType::Double => self.numbers(cursor, list, |text, pos| float(text, pos).map(le(f64::to_le_bytes))),
            DType::Half => self.numbers(cursor, list, |text, pos| float(text, pos).map(le(half_bytes))),
            DType::BFloat16 => self.numbers(cursor, list, |text, pos| float(text, pos).map(le(bfloat16_bytes))),
            DType::Int8 => self.numbers(cursor, list, |text, pos| integer(text, pos).map(le(i8::to_le_bytes))),
            DType::Int16 => self.numbers(cursor, list, |text, pos| integer(text, pos).map(le(i16::to_le_bytes))),
            DType::Int32 => self.numbers(cursor, list, |text, pos| integer(text, pos).map(le(i32::to_le_bytes))),
            DType::Int64 => self.numbers(cursor, list, |text, pos| integer(text, pos).map(le(i64::to_le_bytes))),
            DType::UInt8 => self.numbers(cursor, list, |text, pos| integer(text, pos).map(le(u8::to_le_bytes))),
            DType::UInt16 => self.numbers(cursor, list, |text, pos| integer(text, pos).map(le(u16::to_le_bytes))),
            DType::UInt32 => self.numbers(cursor, list, |text, pos| integer(text, pos).map(le(u32::to_le_bytes))),
            DType::UInt64 => self.numbers(cursor, list, |text, pos| integer(text, pos).map(le(u64::to_le_bytes))),
            DType::Bool => self.numbers(cursor, list, boolean),
            DType::String => self.each(cursor, list, Self::string),
            DType::Complex64 | DType::Complex128 if cursor.peek() == b'{' => Err(Misfit::Type),
            DType::Complex64 | DType::Complex128 => Err(Misfit::Unsupported),
        }?;
        Ok(self.len - before)
    }

    #[inline]
    fn numbers<const N: usize>(
        &mut self,
        cursor: &mut Cursor,
        list: bool,
        read: impl Fn(&[u8], usize) -> Result<([u8; N], usize), Misfit>,
    ) -> Result<(), Misfit> {
        self.each(cursor, list, |elements, cursor| {
            let (bytes, end) = read(cursor.text, cursor.pos)?;
            elements.fixed.extend_from_slice(&bytes);
            cursor.pos = end;
            Ok(())
        })
    }

    #[inline]
    fn each(
        &mut self,
        cursor: &mut Cursor,
        list: bool,
        mut element: impl FnMut(&mut Self, &mut Cursor) -> Result<(), Misfit>,
    ) -> Result<(), Misfit> {
        loop {
            element(self, cursor)?;
            self.len += 1;
            if !list {
                return Ok(());
            }
            cursor.space();
            if cursor.peek() != b',' {
                return Ok(());
            }
            let mut next = *cursor;
            next.step();
            if next.peek() == b'[' {
                return Ok(());
            }
            *cursor = next;
        }
    }

    /// A string without escapes is a slice of the body.
    fn string(&mut self, cursor: &mut Cursor) -> Result<(), Misfit> {
        let item = match cursor.peek() {
            b'"' => {
                let quoted = cursor.string();
                match quoted.decode() {
                    std::borrow::Cow::Owned(text) => text.into(),
                    std::borrow::Cow::Borrowed(raw) => self.body.slice(quoted.start..quoted.start + raw.len()),
                }
            }
            b'{' => {
                let mut behind = *cursor;
                let text = behind.base64().ok_or(Misfit::Base64Form)?;
                let data = base64::decode(&text).ok_or(Misfit::Base64)?;
                *cursor = behind;
                data.into()
            }
            _ => return Err(Misfit::Type),
        };
        self.strings.push(item);
        Ok(())
    }

    /// What the client is told of the value at `cursor`, which would have been element `index`.
    #[cold]
    pub fn misfit(&self, misfit: Misfit, cursor: &Cursor, index: usize) -> Error {
        let (echo, kind, dtype) = (cursor.echo(), cursor.kind(), self.dtype);
        let expected = format!("JSON Value: {echo} Type: {kind} is not of expected type: {dtype}");
        Error::bad_input(match misfit {
            Misfit::Type => expected,
            Misfit::Range => format!("{expected} (element {index} is out of range)"),
            Misfit::TooBig => format!(
                "JSON Parse error: Number too big to be stored in double. at offset: {} (element {index})",
                cursor.pos
            ),
            Misfit::Base64Form => format!("JSON Value: {echo} not formatted correctly for base64 data"),
            Misfit::Base64 => "Unable to base64 decode".into(),
            Misfit::Unsupported => {
                let message = format!("Conversion of JSON Value: {echo} to type: {dtype}");
                return Error::new(Code::Unimplemented, Reason::Unsupported, message);
            }
        })
    }
}

/// Turns a value that was read into its bytes, and keeps where it ended.
#[inline]
fn le<T, const N: usize>(bytes: impl Fn(T) -> [u8; N]) -> impl Fn((T, usize)) -> ([u8; N], usize) {
    move |(value, end)| (bytes(value), end)
}

fn half_bytes(value: f64) -> [u8; 2] {
    narrow(value, HALF).to_le_bytes()
}

fn bfloat16_bytes(value: f64) -> [u8; 2] {
    narrow(value, BFLOAT16).to_le_bytes()
}

#[inline]
fn boolean(text: &[u8], pos: usize) -> Result<([u8; 1], usize), Misfit> {
    match text.get(pos) {
        Some(b't') => Ok(([1], pos + 4)),
        Some(b'f') => Ok(([0], pos + 5)),
        _ => Err(Misfit::Type),
    }
}
