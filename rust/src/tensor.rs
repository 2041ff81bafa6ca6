//! Typed arrays as they cross the server: element type, shape, and bytes that are shared, not copied.

use std::fmt;

use bytes::Bytes;
use smallvec::SmallVec;

use crate::error::{Error, Result};

/// Element types, numbered as TensorFlow's `DataType`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum DType {
    Float = 1,
    Double = 2,
    Int32 = 3,
    UInt8 = 4,
    Int16 = 5,
    Int8 = 6,
    String = 7,
    Complex64 = 8,
    Int64 = 9,
    Bool = 10,
    BFloat16 = 14,
    UInt16 = 17,
    Complex128 = 18,
    Half = 19,
    UInt32 = 22,
    UInt64 = 23,
}

impl DType {
    pub const ALL: [DType; 16] = [
        DType::Float,
        DType::Double,
        DType::Int32,
        DType::UInt8,
        DType::Int16,
        DType::Int8,
        DType::String,
        DType::Complex64,
        DType::Int64,
        DType::Bool,
        DType::BFloat16,
        DType::UInt16,
        DType::Complex128,
        DType::Half,
        DType::UInt32,
        DType::UInt64,
    ];

    /// The type with this TensorFlow number, if Poise serves it.
    pub fn from_number(number: i64) -> Option<DType> {
        Self::ALL.into_iter().find(|dtype| *dtype as i64 == number)
    }

    /// The type with this name, as [`DType::name`] spells it.
    pub fn from_name(name: &str) -> Option<DType> {
        Self::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// TensorFlow's lower-case name, used in messages and across the border to Python.
    pub fn name(self) -> &'static str {
        match self {
            DType::Float => "float",
            DType::Double => "double",
            DType::Int32 => "int32",
            DType::UInt8 => "uint8",
            DType::Int16 => "int16",
            DType::Int8 => "int8",
            DType::String => "string",
            DType::Complex64 => "complex64",
            DType::Int64 => "int64",
            DType::Bool => "bool",
            DType::BFloat16 => "bfloat16",
            DType::UInt16 => "uint16",
            DType::Complex128 => "complex128",
            DType::Half => "half",
            DType::UInt32 => "uint32",
            DType::UInt64 => "uint64",
        }
    }

    /// Bytes per element; `None` for strings, whose elements vary.
    pub fn size(self) -> Option<usize> {
        match self {
            DType::UInt8 | DType::Int8 | DType::Bool => Some(1),
            DType::Int16 | DType::UInt16 | DType::BFloat16 | DType::Half => Some(2),
            DType::Float | DType::Int32 | DType::UInt32 => Some(4),
            DType::Double | DType::Int64 | DType::UInt64 | DType::Complex64 => Some(8),
            DType::Complex128 => Some(16),
            DType::String => None,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Dimensions, outermost first. Empty means a scalar.
pub type Shape = SmallVec<[usize; 4]>;

/// Number of elements of a shape. Fails when the product of any of its dimensions could overflow, even where a
/// zero hides it, so that no later product can.
pub fn element_count(shape: &[usize]) -> Result<usize> {
    shape
        .iter()
        .try_fold(1_usize, |count, dim| count.checked_mul((*dim).max(1)))
        .filter(|count| *count <= isize::MAX as usize / 16)
        .map(|count| if shape.contains(&0) { 0 } else { count })
        .ok_or_else(|| Error::bad_input(format!("shape {} has too many elements", show(shape))))
}

/// A shape as TensorFlow prints it: `[2,3]`.
pub fn show(shape: &[usize]) -> String {
    let dims: Vec<String> = shape.iter().map(usize::to_string).collect();
    format!("[{}]", dims.join(","))
}

/// The elements of a tensor, in row-major order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Data {
    /// Little-endian elements of a fixed size. Not necessarily aligned: slices of request bodies.
    Fixed(Bytes),
    /// One entry an element.
    Strings(Vec<Bytes>),
}

/// A tensor on its way in or out. Data always has exactly the length that dtype and shape ask for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    dtype: DType,
    shape: Shape,
    data: Data,
}

impl Tensor {
    /// A tensor of a fixed-size dtype. Fails when `data` is not exactly as long as the shape asks.
    pub fn fixed(dtype: DType, shape: Shape, data: Bytes) -> Result<Self> {
        let size = dtype.size().ok_or_else(|| Error::internal("a string tensor has no fixed element size"))?;
        let expected = element_count(&shape)? * size;
        if data.len() != expected {
            return Err(Error::bad_input(format!(
                "a {dtype} tensor of shape {} needs {expected} bytes but got {}",
                show(&shape),
                data.len()
            )));
        }
        Ok(Self { dtype, shape, data: Data::Fixed(data) })
    }

    /// A string tensor. Fails when there are not exactly as many strings as the shape asks.
    pub fn strings(shape: Shape, data: Vec<Bytes>) -> Result<Self> {
        let expected = element_count(&shape)?;
        if data.len() != expected {
            return Err(Error::bad_input(format!(
                "a string tensor of shape {} needs {expected} elements but got {}",
                show(&shape),
                data.len()
            )));
        }
        Ok(Self { dtype: DType::String, shape, data: Data::Strings(data) })
    }

    pub fn dtype(&self) -> DType {
        self.dtype
    }

    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    pub fn data(&self) -> &Data {
        &self.data
    }

    /// Size of dim 0; `None` for a scalar.
    pub fn rows(&self) -> Option<usize> {
        self.shape.first().copied()
    }

    /// Memory that the elements take, in bytes.
    pub fn byte_len(&self) -> usize {
        match &self.data {
            Data::Fixed(bytes) => bytes.len(),
            Data::Strings(items) => items.iter().map(|item| item.len() + size_of::<Bytes>()).sum(),
        }
    }

    /// A tensor of one row with that row repeated. One of another number of rows stays as it is.
    pub fn repeat_row(&self, rows: usize) -> Tensor {
        if self.rows() != Some(1) || rows == 1 {
            return self.clone();
        }
        let mut shape = self.shape.clone();
        shape[0] = rows;
        let data = match &self.data {
            Data::Fixed(bytes) => Data::Fixed(bytes.repeat(rows).into()),
            Data::Strings(items) => Data::Strings(std::iter::repeat_n(items, rows).flatten().cloned().collect()),
        };
        Tensor { dtype: self.dtype, shape, data }
    }

    /// Rows `start..end` of dim 0, sharing the elements.
    ///
    /// # Panics
    /// When the tensor is a scalar or the range is outside dim 0: callers hold ranges they made from it.
    pub fn slice_rows(&self, start: usize, end: usize) -> Tensor {
        let rows = self.shape[0];
        assert!(start <= end && end <= rows, "rows {start}..{end} of {rows}");
        let mut shape = self.shape.clone();
        shape[0] = end - start;
        let data = match &self.data {
            Data::Fixed(bytes) => {
                let row = bytes.len().checked_div(rows).unwrap_or(0);
                Data::Fixed(bytes.slice(start * row..end * row))
            }
            Data::Strings(items) => {
                let row = items.len().checked_div(rows).unwrap_or(0);
                Data::Strings(items[start * row..end * row].to_vec())
            }
        };
        Tensor { dtype: self.dtype, shape, data }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use smallvec::smallvec;

    #[test]
    fn data_must_fit_the_shape() {
        assert!(Tensor::fixed(DType::Float, smallvec![2, 2], Bytes::from_static(&[0; 16])).is_ok());
        let error = Tensor::fixed(DType::Float, smallvec![2, 2], Bytes::from_static(&[0; 15])).unwrap_err();
        assert_eq!(error.message, "a float tensor of shape [2,2] needs 16 bytes but got 15");
        assert!(Tensor::strings(smallvec![2], vec![Bytes::new()]).is_err());
    }

    #[test]
    fn huge_shapes_are_refused_not_wrapped() {
        assert!(element_count(&[usize::MAX, 2]).is_err());
        assert!(element_count(&[1 << 32, 1 << 31]).is_err());
        assert!(element_count(&[0, usize::MAX, 2]).is_err());
        assert_eq!(element_count(&[0, 7]).unwrap(), 0);
        assert_eq!(element_count(&[]).unwrap(), 1);
    }

    #[test]
    fn rows_are_sliced_without_copying() {
        let body = Bytes::from((0_u8..12).collect::<Vec<_>>());
        let tensor = Tensor::fixed(DType::UInt8, smallvec![4, 3], body.clone()).unwrap();
        let middle = tensor.slice_rows(1, 3);
        assert_eq!(middle.shape(), &[2, 3]);
        let Data::Fixed(bytes) = middle.data() else { panic!("fixed") };
        assert_eq!(bytes.as_ptr(), body[3..].as_ptr());
        assert_eq!(&bytes[..], &[3, 4, 5, 6, 7, 8]);
    }

    #[test]
    fn a_row_is_repeated() {
        let tensor = Tensor::fixed(DType::UInt8, smallvec![1, 2], Bytes::from_static(&[1, 2])).unwrap();
        let again = Tensor::fixed(DType::UInt8, smallvec![3, 2], Bytes::from_static(&[1, 2, 1, 2, 1, 2])).unwrap();
        assert_eq!(tensor.repeat_row(3), again);
        assert_eq!(again.repeat_row(2), again);
        let text = Tensor::strings(smallvec![1], vec!["a".into()]).unwrap();
        assert_eq!(text.repeat_row(2), Tensor::strings(smallvec![2], vec!["a".into(); 2]).unwrap());
    }

    #[test]
    fn names_and_numbers_of_dtypes_round_trip() {
        for dtype in DType::ALL {
            assert_eq!(DType::from_name(dtype.name()), Some(dtype));
            assert_eq!(DType::from_number(dtype as i64), Some(dtype));
        }
        assert_eq!(DType::from_number(20), None);
    }
}
