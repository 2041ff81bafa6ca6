//! One TensorProto from bytes.

use std::borrow::Cow;

use bytes::Bytes;
use smallvec::SmallVec;

use super::reader::{Malformed, Reader, Value};
use super::values::{self, Coding};
use crate::tensor::{DType, Shape, Tensor, element_count, show};

/// What is wrong with a tensor.
pub(super) type Fault = Cow<'static, str>;

impl From<Malformed> for Fault {
    fn from(Malformed(why): Malformed) -> Self {
        Cow::Borrowed(why)
    }
}

/// TensorFlow's own limit on the rank of a tensor.
const MAX_RANK: usize = 254;

/// Memory that the elements of one message may still take.
pub(super) struct Budget {
    left: usize,
    limit: usize,
}

impl Budget {
    pub(super) fn new(limit: usize) -> Self {
        Self { left: limit, limit }
    }

    pub(super) fn take(&mut self, bytes: usize) -> Result<(), Fault> {
        match self.left.checked_sub(bytes) {
            Some(left) => self.left = left,
            None => return Err(format!("the tensors take more than {} bytes", self.limit).into()),
        }
        Ok(())
    }
}

/// A TensorProto taken apart, its elements not yet read.
#[derive(Default)]
pub(super) struct Parts<'a> {
    dtype: i32,
    dims: SmallVec<[i64; 4]>,
    unknown_rank: bool,
    content: &'a [u8],
    /// The first field of values, when it is packed.
    first: Option<(u32, &'a [u8])>,
    /// Whether there are values elsewhere.
    more: bool,
}

impl<'a> Parts<'a> {
    fn read(message: &'a [u8]) -> Result<Self, Fault> {
        let mut parts = Parts::default();
        let mut reader = Reader::new(message);
        while let Some((number, value)) = reader.field()? {
            match number {
                1 => parts.dtype = value.varint()? as i32, // an enum is an int32: the wire's upper bits say nothing
                2 => parts.merge_shape(value.delimited()?)?,
                4 => parts.content = value.delimited()?,
                5..=17 => match value {
                    Value::Delimited(packed) if parts.first.is_none() && !parts.more => {
                        parts.first = Some((number, packed));
                    }
                    _ => parts.more = true,
                },
                _ => {}
            }
        }
        Ok(parts)
    }

    fn merge_shape(&mut self, message: &[u8]) -> Result<(), Fault> {
        let mut reader = Reader::new(message);
        while let Some((number, value)) = reader.field()? {
            match number {
                2 => {
                    if self.dims.len() == MAX_RANK {
                        return Err(format!("a tensor has at most {MAX_RANK} dimensions").into());
                    }
                    self.dims.push(read_dim(value.delimited()?)?);
                }
                3 => self.unknown_rank = value.varint()? != 0,
                _ => {}
            }
        }
        Ok(())
    }

    fn dtype(&self) -> Result<DType, Fault> {
        DType::from_number(self.dtype.into()).ok_or_else(|| match self.dtype {
            0 => Cow::Borrowed("it has no dtype"),
            number => format!("dtype {number} is not supported").into(),
        })
    }

    fn shape(&self) -> Result<Shape, Fault> {
        if self.unknown_rank {
            return Err(Cow::Borrowed("its shape has unknown rank"));
        }
        self.dims
            .iter()
            .map(|dim| usize::try_from(*dim).map_err(|_| format!("its shape has a dimension of size {dim}").into()))
            .collect()
    }

    /// The one packed field that holds all values, if that is so and it is the one wanted.
    pub(super) fn only(&self, field: u32) -> Option<&'a [u8]> {
        match self.first {
            Some((number, packed)) if number == field && !self.more => Some(packed),
            _ => None,
        }
    }
}

fn read_dim(message: &[u8]) -> Result<i64, Malformed> {
    let mut size = 0;
    let mut reader = Reader::new(message);
    while let Some((number, value)) = reader.field()? {
        if number == 1 {
            size = value.varint()?.cast_signed();
        }
    }
    Ok(size)
}

/// Reads a TensorProto that shares its elements with `message` where it can.
pub(super) fn decode_tensor(message: &Bytes, budget: &mut Budget) -> Result<Tensor, Fault> {
    let parts = Parts::read(message)?;
    let dtype = parts.dtype()?;
    let shape = parts.shape()?;
    let count = element_count(&shape).map_err(|error| error.message)?;
    match dtype.size() {
        Some(size) => decode_fixed(message, &parts, dtype, shape, count * size, budget),
        None => decode_strings(message, &parts, shape, count, budget),
    }
}

fn decode_fixed(
    message: &Bytes,
    parts: &Parts<'_>,
    dtype: DType,
    shape: Shape,
    total: usize,
    budget: &mut Budget,
) -> Result<Tensor, Fault> {
    budget.take(total)?;
    let data = if parts.content.is_empty() {
        values::read_numbers(message, parts, Coding::of(dtype), total)?
    } else if parts.content.len() == total {
        values::canonical(dtype, message.slice_ref(parts.content))
    } else {
        let (shape, got) = (show(&shape), parts.content.len());
        return Err(format!("{dtype} of shape {shape} needs {total} bytes of tensor_content but got {got}").into());
    };
    Tensor::fixed(dtype, shape, data).map_err(|error| error.message)
}

fn decode_strings(
    message: &Bytes,
    parts: &Parts<'_>,
    shape: Shape,
    count: usize,
    budget: &mut Budget,
) -> Result<Tensor, Fault> {
    budget.take(count.saturating_mul(size_of::<Bytes>()))?;
    let items = if parts.content.is_empty() {
        values::read_strings(message, count)?
    } else {
        values::read_string_content(message, parts.content, count)?
    };
    budget.take(items.iter().map(Bytes::len).sum())?;
    Tensor::strings(shape, items).map_err(|error| error.message)
}
