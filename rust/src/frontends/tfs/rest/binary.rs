//! Tensors as raw bytes: the elements of one after the other, little-endian, each string with its length in four bytes
//! in front. Which tensors these are stands in a header, as JSON. Elements stay where the body has them.

use bytes::{BufMut, Bytes, BytesMut};
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use crate::error::{Error, Result};
use crate::frontends::tfs::wire::canonical;
use crate::model::{Signature, TensorSpec};
use crate::tensor::{DType, Data, Shape, Tensor, element_count, show};

/// What a request or an answer says of one tensor in it.
#[derive(Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
struct Described {
    name: String,
    /// That of the signature, when it is left out.
    #[serde(default)]
    dtype: Option<String>,
    shape: Vec<usize>,
}

/// The inputs in a body, by name. Strings may take `limit` bytes beside it.
pub fn read(
    signature: &Signature,
    described: Option<&[u8]>,
    body: &Bytes,
    limit: usize,
) -> Result<Vec<(String, Tensor)>> {
    let tensors = match described {
        Some(text) => parse(text)?,
        None => vec![only(signature, body)?],
    };
    let mut reader = Reader { body, pos: 0, budget: limit };
    let mut inputs = Vec::with_capacity(tensors.len());
    for Described { name, dtype, shape } in tensors {
        let dtype = match dtype {
            Some(dtype) => dtype_of(&name, &dtype)?,
            None => spec_of(signature, &name)?.dtype,
        };
        let tensor = reader.tensor(dtype, shape.into()).map_err(|error| within(&name, error))?;
        inputs.push((name, tensor));
    }
    match body.len() - reader.pos {
        0 => Ok(inputs),
        rest => Err(Error::bad_input(format!("{rest} of the body's {} bytes belong to no input", body.len()))),
    }
}

fn parse(text: &[u8]) -> Result<Vec<Described>> {
    serde_json::from_slice(text).map_err(|error| {
        let form = r#"[{"name": "x", "dtype": "float", "shape": [2, 3]}]"#;
        Error::bad_input(format!("Poise-Inputs: expected JSON as in {form} but got: {error}"))
    })
}

fn within(name: &str, mut error: Error) -> Error {
    error.message = format!("input {name}: {}", error.message).into();
    error
}

fn dtype_of(name: &str, dtype: &str) -> Result<DType> {
    let known = || DType::ALL.map(DType::name).join(", ");
    let unknown = || Error::bad_input(format!("input {name}: expected one of the dtypes {} but got {dtype}", known()));
    DType::from_name(dtype).ok_or_else(unknown)
}

fn spec_of<'a>(signature: &'a Signature, name: &str) -> Result<&'a TensorSpec> {
    let unknown = || Error::bad_input(format!("Poise-Inputs: the signature has no input {name}"));
    signature.inputs.iter().find(|spec| spec.name == name).ok_or_else(unknown)
}

/// The only input of a signature, if its shape is known but for how many rows there are.
fn only(signature: &Signature, body: &Bytes) -> Result<Described> {
    let needed = || {
        Error::bad_input(
            "Poise-Inputs: expected this header, which says what the body holds: it can be left out only for one input \
             whose shape is fixed but for dimension 0",
        )
    };
    let [spec] = &signature.inputs[..] else { return Err(needed()) };
    let shape = spec.shape.as_deref().ok_or_else(needed)?;
    let (first, rest) = shape.split_first().map_or((None, shape), |(first, rest)| (Some(first), rest));
    let mut dims: Vec<usize> =
        rest.iter().map(|dim| usize::try_from(*dim)).collect::<Result<_, _>>().map_err(|_| needed())?;
    if first.is_some() {
        let row = element_count(&dims)?;
        let elements = match spec.dtype.size() {
            Some(size) => body.len() / size,
            None => count_strings(body)?,
        };
        dims.insert(0, elements.checked_div(row).ok_or_else(needed)?);
    }
    Ok(Described { name: spec.name.clone(), dtype: None, shape: dims })
}

fn count_strings(body: &Bytes) -> Result<usize> {
    let mut reader = Reader { body, pos: 0, budget: 0 };
    let mut count = 0;
    while reader.pos < body.len() {
        reader.string()?;
        count += 1;
    }
    Ok(count)
}

struct Reader<'a> {
    body: &'a Bytes,
    pos: usize,
    /// Memory that strings may still take.
    budget: usize,
}

impl Reader<'_> {
    fn tensor(&mut self, dtype: DType, shape: Shape) -> Result<Tensor> {
        let count = element_count(&shape)?;
        match dtype.size() {
            Some(size) => {
                let needed = count * size;
                let data = self.take(needed).ok_or_else(|| {
                    let left = self.body.len() - self.pos;
                    let shape = show(&shape);
                    Error::bad_input(format!("{dtype} of shape {shape} needs {needed} bytes but {left} are left"))
                })?;
                Tensor::fixed(dtype, shape, canonical(dtype, data))
            }
            None => {
                self.spend(count)?;
                let items = (0..count).map(|_| self.string()).collect::<Result<_>>()?;
                Tensor::strings(shape, items)
            }
        }
    }

    /// Sees to it that so many strings may be there, before any memory is taken for them.
    fn spend(&mut self, count: usize) -> Result<()> {
        let left = self.body.len() - self.pos;
        if count.saturating_mul(4) > left {
            return Err(Error::bad_input(format!(
                "{count} strings need their lengths in 4 bytes each but {left} are left"
            )));
        }
        let needed = count * size_of::<Bytes>();
        let fits = self.budget.checked_sub(needed);
        self.budget = fits.ok_or_else(|| Error::bad_input(format!("{count} strings in one request are too many")))?;
        Ok(())
    }

    fn string(&mut self) -> Result<Bytes> {
        let start = self.pos;
        let string = self.take(4).and_then(|length| {
            let length = u32::from_le_bytes(length[..].try_into().ok()?);
            self.take(length as usize)
        });
        string.ok_or_else(|| Error::bad_input(format!("the string at offset {start} ends behind the body")))
    }

    fn take(&mut self, count: usize) -> Option<Bytes> {
        let end = self.pos.checked_add(count).filter(|end| *end <= self.body.len())?;
        let taken = self.body.slice(self.pos..end);
        self.pos = end;
        Some(taken)
    }
}

/// Outputs as a body, and the header that describes it.
pub fn write(outputs: &[(&str, &Tensor)]) -> Result<(SmallVec<[Bytes; 1]>, String)> {
    let chunks = outputs.iter().map(|(_, tensor)| elements(tensor)).collect::<Result<_>>()?;
    let described: Vec<Described> = outputs.iter().map(|(name, tensor)| describe(name, tensor)).collect();
    let text = serde_json::to_string(&described).map_err(|error| Error::internal(error.to_string()))?;
    Ok((chunks, ascii(&text)))
}

fn describe(name: &str, tensor: &Tensor) -> Described {
    Described { name: name.into(), dtype: Some(tensor.dtype().name().into()), shape: tensor.shape().to_vec() }
}

fn elements(tensor: &Tensor) -> Result<Bytes> {
    let items = match tensor.data() {
        Data::Fixed(bytes) => return Ok(bytes.clone()),
        Data::Strings(items) => items,
    };
    let mut bytes = BytesMut::with_capacity(items.iter().map(|item| item.len() + 4).sum());
    for item in items {
        let length = u32::try_from(item.len());
        bytes.put_u32_le(length.map_err(|_| Error::internal(format!("a string of {} bytes", item.len())))?);
        bytes.put_slice(item);
    }
    Ok(bytes.freeze())
}

/// The same JSON in ASCII, which is what headers hold.
fn ascii(json: &str) -> String {
    let mut out = String::with_capacity(json.len());
    let mut units = [0; 2];
    for char in json.chars() {
        if char.is_ascii() {
            out.push(char);
        } else {
            out.extend(char.encode_utf16(&mut units).iter().map(|unit| format!("\\u{unit:04x}")));
        }
    }
    out
}

#[cfg(test)]
#[path = "binary_tests.rs"]
mod tests;
