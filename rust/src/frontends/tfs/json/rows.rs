//! The row format: a list of rows, stacked into one tensor an input.

use bytes::Bytes;

use super::cursor::Cursor;
use super::elements::Elements;
use super::nested;
use crate::error::{Error, Result};
use crate::model::Signature;
use crate::tensor::{Shape, Tensor, show};

/// Bytes to reserve for each tensor: about the length of a float's text for a float, and for all tensors no more
/// than the body itself holds.
pub(super) fn capacity(signature: &Signature, body: &Bytes, pos: usize) -> usize {
    (body.len() - pos) / 2 / signature.inputs.len().max(1)
}

/// Which input has this name.
pub(super) fn input_index(signature: &Signature, name: &[u8]) -> Option<usize> {
    signature.inputs.binary_search_by(|input| input.name.as_bytes().cmp(name)).ok()
}

/// One input over all rows.
struct Stack<'a> {
    elements: Elements<'a>,
    /// Of one row's value; set by the first.
    shape: Option<Shape>,
    /// How many rows have a value.
    rows: usize,
}

impl Stack<'_> {
    fn read(&mut self, cursor: &mut Cursor) -> Result<()> {
        let before = self.elements.len();
        let shape = nested::read(cursor, &mut self.elements)?;
        let size = self.elements.len() - before;
        self.rows += 1;
        let Some(expected) = &self.shape else {
            self.shape = Some(shape);
            return Ok(());
        };
        if *expected == shape {
            return Ok(());
        }
        let expected_size: usize = expected.iter().product();
        Err(Error::bad_input(if expected_size != size {
            format!("Expecting tensor size: {expected_size} but got: {size}")
        } else {
            format!("Expecting shape {} but got: {}", show(expected), show(&shape))
        }))
    }

    fn tensor(self) -> Result<Tensor> {
        let mut shape = self.shape.unwrap_or_default();
        shape.insert(0, self.rows);
        self.elements.tensor(shape)
    }
}

/// The value of `instances`, as it is read.
pub(super) struct Rows<'a> {
    signature: &'a Signature,
    stacks: Vec<Stack<'a>>,
    row: usize,
}

impl<'a> Rows<'a> {
    pub fn new(signature: &'a Signature, body: &'a Bytes, pos: usize) -> Self {
        let capacity = capacity(signature, body, pos);
        let stack = |dtype| Stack { elements: Elements::new(dtype, body, capacity), shape: None, rows: 0 };
        let stacks = signature.inputs.iter().map(|input| stack(input.dtype)).collect();
        Self { signature, stacks, row: 0 }
    }

    /// Reads all rows; `cursor` is at the first.
    pub fn read(mut self, mut cursor: Cursor) -> Result<Vec<Tensor>> {
        let objects = cursor.is_object();
        if !objects && self.stacks.len() > 1 {
            return Err(Error::bad_input(
                "instances is a plain list, but expecting list of objects as multiple input tensors required as per \
                 tensorinfo_map",
            ));
        }
        loop {
            if cursor.is_object() != objects {
                return Err(self.mixed(objects));
            }
            if objects {
                self.object(&mut cursor)?
            } else {
                self.value(&mut cursor)?
            }
            self.row += 1;
            if !cursor.next_item() {
                return self.stacks.into_iter().map(Stack::tensor).collect();
            }
        }
    }

    #[cold]
    fn mixed(&self, objects: bool) -> Error {
        let (expected, got) = if objects { ("object", "list") } else { ("value/list", "object") };
        Error::bad_input(format!("Expecting {expected} but got {got} at item {} of input list", self.row))
    }

    fn value(&mut self, cursor: &mut Cursor) -> Result<()> {
        self.stacks[0].read(cursor).map_err(|error| {
            let row = self.row;
            Error::bad_input(format!("Failed to process element: {row} of 'instances' list. Error: {error}"))
        })
    }

    /// A row whose values are named; of equal names the first counts.
    fn object(&mut self, cursor: &mut Cursor) -> Result<()> {
        let start = *cursor;
        let mut seen = 0;
        while let Some(key) = cursor.next_member() {
            let stack = input_index(self.signature, &key.decode()).map(|index| &mut self.stacks[index]);
            let read = match stack {
                Some(stack) if stack.rows > self.row => {
                    cursor.skip();
                    continue;
                }
                Some(stack) => stack.read(cursor),
                None => Err(Error::bad_input(format!("JSON object: does not have named input: {}", key.lossy()))),
            };
            read.map_err(|error| {
                let (row, key) = (self.row, key.lossy());
                Error::bad_input(format!(
                    "Failed to process element: {row} key: {key} of 'instances' list. Error: {error}"
                ))
            })?;
            seen += 1;
        }
        if seen == self.stacks.len() { Ok(()) } else { Err(self.incomplete(&start)) }
    }

    #[cold]
    fn incomplete(&self, object: &Cursor) -> Error {
        let names: Vec<&str> = self.signature.inputs.iter().map(|input| input.name.as_str()).collect();
        Error::bad_input(format!(
            "Failed to process element: {} of 'instances' list. JSON object: {} keys must be equal to: {}",
            self.row,
            object.echo(),
            names.join(",")
        ))
    }
}
