//! The bodies of `:classify` and `:regress`: examples to serialized `tensorflow.Example`s, straight into bytes.

use bytes::Bytes;

use super::cursor::Cursor;
use super::number::float;
use super::request::signature_name;
use super::scan::scan;
use super::{base64, text::Quoted};
use crate::error::{Error, Result};

/// What a body asks for: a signature (empty for the default one), what all examples share, and the examples.
#[derive(Debug, PartialEq)]
pub struct Examples {
    pub signature: String,
    pub context: Bytes,
    pub examples: Vec<Bytes>,
}

/// Reads a body; `method` is for error texts.
pub fn parse_examples(body: &Bytes, method: &str) -> Result<Examples> {
    let document = scan(body, ["signature_name", "context", "examples"])?;
    let signature = signature_name(body, &document)?;
    let context = document.values[1].map(|pos| example(&mut Cursor::new(body, pos))).transpose()?.unwrap_or_default();
    let missing = || Error::bad_input(format!("When method is {method}, key 'examples' is expected and was not found"));
    let mut list = Cursor::new(body, document.values[2].ok_or_else(missing)?);
    if list.peek() != b'[' {
        return Err(Error::bad_input("Expecting 'examples' value to be an list/array"));
    }
    if !list.first_item() {
        return Err(Error::bad_input("'examples' value is an empty array"));
    }
    let mut examples = vec![example(&mut list)?];
    while list.next_item() {
        examples.push(example(&mut list)?);
    }
    Ok(Examples { signature, context, examples })
}

/// The example at the cursor, then behind it.
fn example(cursor: &mut Cursor) -> Result<Bytes> {
    if cursor.peek() != b'{' {
        return Err(Error::bad_input(format!("Example must be JSON object but got JSON {}", cursor.kind())));
    }
    let mut features = Vec::new();
    while let Some(name) = cursor.next_member() {
        let feature = Feature::read(cursor, name)?;
        let mut entry = Vec::with_capacity(feature.len() + name.raw.len() + 16);
        put(&mut entry, 1, &name.decode());
        put(&mut entry, 2, &feature);
        put(&mut features, 1, &entry);
    }
    let mut message = Vec::with_capacity(features.len() + 16);
    put(&mut message, 1, &features);
    Ok(message.into())
}

/// What a feature holds, by its field's number.
#[derive(Debug, Clone, Copy, PartialEq)]
#[repr(u8)]
enum Kind {
    Bytes = 1,
    Float = 2,
    Int64 = 3,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::Bytes => "bytes",
            Kind::Float => "float",
            Kind::Int64 => "int64",
        }
    }
}

/// A feature as it is read: its first value sets its kind.
struct Feature<'a> {
    name: Quoted<'a>,
    kind: Option<Kind>,
    /// Fields of a list of bytes; what is to be packed of the others.
    values: Vec<u8>,
}

impl<'a> Feature<'a> {
    /// The value at the cursor, or the list of values, as a message; then behind it.
    fn read(cursor: &mut Cursor, name: Quoted<'a>) -> Result<Vec<u8>> {
        let mut feature = Feature { name, kind: None, values: Vec::new() };
        if cursor.peek() != b'[' {
            feature.value(cursor)?;
        } else if cursor.first_item() {
            feature.value(cursor)?;
            while cursor.next_item() {
                feature.value(cursor)?;
            }
        }
        Ok(feature.message())
    }

    fn message(self) -> Vec<u8> {
        let mut message = Vec::with_capacity(self.values.len() + 16);
        match self.kind {
            None => {}
            Some(Kind::Bytes) => put(&mut message, Kind::Bytes as u8, &self.values),
            Some(kind) => {
                let mut list = Vec::with_capacity(self.values.len() + 8);
                put(&mut list, 1, &self.values);
                put(&mut message, kind as u8, &list);
            }
        }
        message
    }

    fn value(&mut self, cursor: &mut Cursor) -> Result<()> {
        match cursor.peek() {
            b'"' => {
                let text = cursor.string();
                self.bytes(&text.decode())
            }
            b'{' => {
                let text = cursor.base64().ok_or_else(|| self.unexpected(cursor))?;
                let bytes = base64::decode(&text).ok_or_else(|| Error::bad_input("Unable to base64 decode"))?;
                self.bytes(&bytes)
            }
            b't' | b'f' => {
                let truth = u64::from(cursor.peek() == b't');
                cursor.skip();
                self.integer(truth)
            }
            b'[' | b'n' => Err(self.unexpected(cursor)),
            _ => self.number(cursor),
        }
    }

    fn number(&mut self, cursor: &mut Cursor) -> Result<()> {
        let start = cursor.pos;
        cursor.skip();
        let text = std::str::from_utf8(&cursor.text[start..cursor.pos]).unwrap_or_default();
        if let Ok(integer) = text.parse::<i64>() {
            return self.integer(integer.cast_unsigned());
        }
        if text.parse::<u64>().is_ok() {
            let name = self.name.lossy();
            let message = format!("Feature: {name} has uint64_t element. Only int64_t is supported.");
            return Err(Error::bad_input(message));
        }
        let (value, _) =
            float::<f32>(cursor.text, start).map_err(|_| self.unexpected(&Cursor { pos: start, ..*cursor }))?;
        self.expect(Kind::Float)?;
        self.values.extend_from_slice(&value.to_le_bytes());
        Ok(())
    }

    fn bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.expect(Kind::Bytes)?;
        put(&mut self.values, 1, bytes);
        Ok(())
    }

    fn integer(&mut self, value: u64) -> Result<()> {
        self.expect(Kind::Int64)?;
        varint(&mut self.values, value);
        Ok(())
    }

    fn expect(&mut self, kind: Kind) -> Result<()> {
        let first = *self.kind.get_or_insert(kind);
        if first == kind {
            return Ok(());
        }
        let name = self.name.lossy();
        let message = format!("Unexpected element type in feature: {name} expecting type: {}", first.name());
        Err(Error::bad_input(message))
    }

    fn unexpected(&self, cursor: &Cursor) -> Error {
        let (name, kind) = (self.name.lossy(), cursor.kind());
        Error::bad_input(format!("Feature: {name} has element with unexpected JSON type: {kind}"))
    }
}

/// A field of bytes, or of a message.
fn put(out: &mut Vec<u8>, number: u8, payload: &[u8]) {
    out.push(number << 3 | 2);
    varint(out, payload.len() as u64);
    out.extend_from_slice(payload);
}

fn varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}
