//! The body of `:predict` as the tensors of a signature.

use std::ops::Deref;

use bytes::Bytes;

use super::Format;
use super::cursor::Cursor;
use super::elements::Elements;
use super::rows::Rows;
use super::scan::{Document, scan};
use super::{nested, rows};
use crate::error::{Error, Result};
use crate::model::Signature;
use crate::tensor::Tensor;

/// Reads a body into tensors in the order of the signature's inputs.
///
/// `lookup` is asked for the signature once, by the request's `signature_name` (empty when it has none), and only
/// when the body is valid JSON, so that of several troubles the same one is reported as by TensorFlow Serving.
pub fn parse_predict<S: Deref<Target = Signature>>(
    body: &Bytes,
    lookup: impl FnOnce(&str) -> Result<S>,
) -> Result<(S, Format, Vec<Tensor>)> {
    let document = scan(body, ["signature_name", "instances", "inputs"])?;
    let name = signature_name(body, &document)?;
    let signature = lookup(&name)?;
    let about_root = |text: &str| {
        let root = Cursor::new(body, document.root);
        Err(Error::bad_input(format!("JSON Value: {} {text}", root.echo())))
    };
    match document.values {
        [_, Some(_), Some(_)] => {
            about_root("Not formatted correctly expecting only one of 'inputs' or 'instances' keys to exist ")
        }
        [_, None, None] => Err(Error::bad_input("Missing 'inputs' or 'instances' key")),
        [_, Some(_), None] if signature.inputs.is_empty() => Err(no_inputs(&name)),
        [_, Some(instances), None] => {
            let mut list = Cursor::new(body, instances);
            if list.peek() != b'[' {
                return about_root("Expecting 'instances' to be an list/array");
            }
            if !list.first_item() {
                return about_root("No values in 'instances' array");
            }
            let tensors = Rows::new(&signature, body, instances).read(list)?;
            Ok((signature, Format::Row, tensors))
        }
        [_, None, Some(inputs)] => {
            let tensors = columns(&signature, body, Cursor::new(body, inputs), &name)?;
            Ok((signature, Format::Column, tensors))
        }
    }
}

/// Whether a body is one for `parse_predict`, well-formed or not in its details.
pub fn is_predict(body: &Bytes) -> bool {
    let found = scan(body, ["instances", "inputs"]);
    found.is_ok_and(|document| document.values.iter().any(Option::is_some))
}

pub(super) fn signature_name(body: &Bytes, document: &Document<3>) -> Result<String> {
    let Some(pos) = document.values[0] else { return Ok(String::new()) };
    let mut value = Cursor::new(body, pos);
    if value.peek() != b'"' {
        let echo = Cursor::new(body, document.root).echo();
        let message = "not formatted correctly. 'signature_name' key must be a string value.";
        return Err(Error::bad_input(format!("JSON Value: {echo} {message}")));
    }
    Ok(value.string().lossy())
}

/// A signature without inputs can be called by an empty object only.
fn no_inputs(name: &str) -> Error {
    let name = if name.is_empty() { "DEFAULT" } else { name };
    Error::bad_input(format!("Failed to get input map for signature: {name}"))
}

/// The value of `inputs`: an object of tensors by name, or the only tensor itself. Keys that name no input are
/// skipped.
fn columns(signature: &Signature, body: &Bytes, mut cursor: Cursor, name: &str) -> Result<Vec<Tensor>> {
    let capacity = rows::capacity(signature, body, cursor.pos);
    if !cursor.is_object() {
        let [input] = signature.inputs.as_slice() else {
            return Err(if signature.inputs.is_empty() { no_inputs(name) } else { plain_inputs() });
        };
        let mut elements = Elements::new(input.dtype, body, capacity);
        let shape = nested::read(&mut cursor, &mut elements)?;
        return Ok(vec![elements.tensor(shape)?]);
    }
    let mut tensors = vec![None; signature.inputs.len()];
    while let Some(key) = cursor.next_member() {
        match rows::input_index(signature, &key.decode()) {
            Some(index) if tensors[index].is_none() => {
                let mut elements = Elements::new(signature.inputs[index].dtype, body, capacity);
                let shape = nested::read(&mut cursor, &mut elements)?;
                tensors[index] = Some(elements.tensor(shape)?);
            }
            _ => cursor.skip(),
        }
    }
    let missing = |name| Error::bad_input(format!("Missing named input: {name} in 'inputs' object."));
    tensors
        .into_iter()
        .zip(&signature.inputs)
        .map(|(tensor, input)| tensor.ok_or_else(|| missing(&input.name)))
        .collect()
}

fn plain_inputs() -> Error {
    Error::bad_input(
        "inputs is a plain value/list, but expecting an object as multiple input tensors required as per tensorinfo_map",
    )
}
