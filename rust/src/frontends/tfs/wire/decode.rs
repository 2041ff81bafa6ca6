//! PredictRequest and PredictResponse from bytes. Both are a ModelSpec and a map of tensors under different numbers.

use bytes::{Bytes, BytesMut};
use smallvec::SmallVec;

use super::reader::{Malformed, Reader, Value};
use super::tensor::{Budget, decode_tensor};
use super::{ModelRef, PredictRequest, PredictResponse};
use crate::error::{Error, Result};
use crate::tensor::Tensor;

/// More inputs, outputs or filtered names than this are a mistake or an attack.
const MAX_NAMES: usize = 4096;

/// Field numbers of one of the two messages. No field has number 0.
struct Fields {
    message: &'static str,
    model: u32,
    tensors: u32,
    filter: u32,
}

const REQUEST: Fields = Fields { message: "PredictRequest", model: 1, tensors: 2, filter: 3 };
const RESPONSE: Fields = Fields { message: "PredictResponse", model: 2, tensors: 1, filter: 0 };

/// One entry of the map: a name, and its TensorProto not yet looked into.
struct Entry<'a> {
    name: &'a str,
    value: Bytes,
}

#[derive(Default)]
struct Message<'a> {
    model: ModelRef,
    entries: SmallVec<[Entry<'a>; 4]>,
    filter: Vec<String>,
}

/// Reads a request. Its tensors share `body` wherever the wire has them in their final form, and all together may
/// take at most `max_tensor_bytes`, however little of that was sent.
pub fn decode_request(body: &Bytes, max_tensor_bytes: usize) -> Result<PredictRequest> {
    let message = read(body, &REQUEST)?;
    let inputs = decode_tensors(message.entries, max_tensor_bytes)?;
    Ok(PredictRequest { model: message.model, inputs, output_filter: message.filter })
}

/// Reads an answer, under the same conditions.
pub fn decode_response(body: &Bytes, max_tensor_bytes: usize) -> Result<PredictResponse> {
    let message = read(body, &RESPONSE)?;
    let outputs = decode_tensors(message.entries, max_tensor_bytes)?;
    Ok(PredictResponse { model: message.model, outputs })
}

/// Most memory that the default of an input may take.
const MAX_DEFAULT: usize = 1 << 20;

/// Reads the TensorProto that an input is when a request leaves it out.
pub fn decode_default(proto: &Bytes) -> Result<Tensor, String> {
    decode_tensor(proto, &mut Budget::new(MAX_DEFAULT)).map_err(|why| format!("not a TensorProto: {why}"))
}

fn read<'a>(body: &'a Bytes, fields: &Fields) -> Result<Message<'a>> {
    let mut message = read_fields(body, fields)
        .map_err(|Malformed(why)| Error::bad_input(format!("not a valid {}: {why}", fields.message)))?;
    keep_last_of_each_name(&mut message.entries);
    Ok(message)
}

fn read_fields<'a>(body: &'a Bytes, fields: &Fields) -> Result<Message<'a>, Malformed> {
    let mut message = Message::default();
    let mut reader = Reader::new(body);
    while let Some((number, value)) = reader.field()? {
        if number == fields.tensors {
            check_count(message.entries.len())?;
            message.entries.push(read_entry(body, value.delimited()?)?);
        } else if number == fields.model {
            merge_model(&mut message.model, value.delimited()?)?;
        } else if number == fields.filter {
            check_count(message.filter.len())?;
            message.filter.push(value.text()?.to_owned());
        }
    }
    Ok(message)
}

fn check_count(count: usize) -> Result<(), Malformed> {
    if count < MAX_NAMES { Ok(()) } else { Err(Malformed("it has more than 4096 tensors or names")) }
}

/// An entry's key may follow its value, and a value in several parts is one message: their concatenation.
fn read_entry<'a>(body: &Bytes, entry: &'a [u8]) -> Result<Entry<'a>, Malformed> {
    let mut name = "";
    let mut value = Bytes::new();
    let mut reader = Reader::new(entry);
    while let Some((number, field)) = reader.field()? {
        match number {
            1 => name = field.text()?,
            2 if value.is_empty() => value = body.slice_ref(field.delimited()?),
            2 => value = concatenate(&value, field.delimited()?),
            _ => {}
        }
    }
    Ok(Entry { name, value })
}

fn concatenate(first: &[u8], second: &[u8]) -> Bytes {
    let mut both = BytesMut::with_capacity(first.len() + second.len());
    both.extend_from_slice(first);
    both.extend_from_slice(second);
    both.freeze()
}

/// Adds one occurrence of a ModelSpec to what earlier ones said.
fn merge_model(model: &mut ModelRef, message: &[u8]) -> Result<(), Malformed> {
    model.present = true;
    let mut reader = Reader::new(message);
    while let Some((number, value)) = reader.field()? {
        match number {
            1 => value.text()?.clone_into(&mut model.name),
            2 => merge_version(model, value)?,
            3 => value.text()?.clone_into(&mut model.signature),
            4 => {
                model.label = Some(value.text()?.to_owned());
                model.version = None;
            }
            _ => {}
        }
    }
    Ok(())
}

/// Version and label exclude each other: the one that comes last counts.
fn merge_version(model: &mut ModelRef, value: Value<'_>) -> Result<(), Malformed> {
    let mut version = model.version.unwrap_or(0);
    let mut reader = Reader::new(value.delimited()?);
    while let Some((number, value)) = reader.field()? {
        if number == 1 {
            version = value.varint()?.cast_signed();
        }
    }
    model.version = Some(version);
    model.label = None;
    Ok(())
}

/// Sorts by name. Of several entries with one name the last that arrived stays: the sort is stable.
fn keep_last_of_each_name(entries: &mut SmallVec<[Entry<'_>; 4]>) {
    if entries.len() < 2 {
        return;
    }
    entries.reverse();
    entries.sort_by(|a, b| a.name.cmp(b.name));
    entries.dedup_by(|later, earlier| later.name == earlier.name);
}

fn decode_tensors(entries: SmallVec<[Entry<'_>; 4]>, max_tensor_bytes: usize) -> Result<Vec<(String, Tensor)>> {
    let mut budget = Budget::new(max_tensor_bytes);
    entries
        .into_iter()
        .map(|entry| match decode_tensor(&entry.value, &mut budget) {
            Ok(tensor) => Ok((entry.name.to_owned(), tensor)),
            Err(why) => Err(tensor_error(entry.name, &why)),
        })
        .collect()
}

fn tensor_error(name: &str, why: &str) -> Error {
    Error::bad_input(format!("tensor parsing error: {name}: {why}"))
}
