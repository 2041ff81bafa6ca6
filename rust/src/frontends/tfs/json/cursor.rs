//! Steps through text that a scan has found to be valid JSON, without building anything from it.

use std::borrow::Cow;

use super::text::{Quoted, plain_end};

/// A place in valid JSON. Methods say where they expect it; elsewhere they find nothing of use but never panic.
#[derive(Clone, Copy)]
pub(super) struct Cursor<'a> {
    pub text: &'a [u8],
    pub pos: usize,
}

/// Longest echo of a value in an error.
const ECHO_BYTES: usize = 256;

impl<'a> Cursor<'a> {
    pub fn new(text: &'a [u8], pos: usize) -> Self {
        Self { text, pos }
    }

    /// The byte here; 0 at the end.
    #[inline]
    pub fn peek(&self) -> u8 {
        self.text.get(self.pos).copied().unwrap_or(0)
    }

    #[inline]
    pub fn space(&mut self) {
        while matches!(self.peek(), b' ' | b'\n' | b'\r' | b'\t') {
            self.pos += 1;
        }
    }

    /// Behind the byte here, at the next that is no space.
    #[inline]
    pub fn step(&mut self) {
        self.pos += 1;
        self.space();
    }

    /// From behind a value to the next one of the same list; false, and behind the list, when there is none.
    pub fn next_item(&mut self) -> bool {
        self.space();
        if self.peek() == b',' {
            self.step();
            return true;
        }
        self.pos += 1;
        false
    }

    /// From a list's bracket to its first value; false, and behind the list, when there is none.
    pub fn first_item(&mut self) -> bool {
        self.step();
        if self.peek() == b']' {
            self.pos += 1;
            return false;
        }
        true
    }

    /// From an object's brace, or from behind a value in it, to the next value; `None`, and behind the object, when
    /// there is none.
    pub fn next_member(&mut self) -> Option<Quoted<'a>> {
        self.space();
        if matches!(self.peek(), b'{' | b',') {
            self.step();
        }
        if self.peek() != b'"' {
            self.pos += 1;
            return None;
        }
        let key = self.string();
        self.space();
        self.step();
        Some(key)
    }

    /// The string that starts here; then behind it.
    pub fn string(&mut self) -> Quoted<'a> {
        let start = self.pos + 1;
        let mut end = plain_end(self.text, start.min(self.text.len()));
        while self.text.get(end) == Some(&b'\\') {
            end = plain_end(self.text, (end + 2).min(self.text.len()));
        }
        self.pos = end + 1;
        Quoted { raw: self.text.get(start..end).unwrap_or_default(), start }
    }

    /// Behind the value that starts here.
    pub fn skip(&mut self) {
        let mut depth = 0_usize;
        while self.pos < self.text.len() {
            match self.peek() {
                b'"' => {
                    self.string();
                }
                b'[' | b'{' => {
                    depth += 1;
                    self.pos += 1;
                }
                b']' | b'}' => {
                    depth = depth.saturating_sub(1);
                    self.pos += 1;
                }
                b',' | b':' | b' ' | b'\n' | b'\r' | b'\t' => self.pos += 1,
                _ => self.skip_word(),
            }
            if depth == 0 {
                return;
            }
        }
    }

    fn skip_word(&mut self) {
        let ends = |byte: &u8| matches!(byte, b',' | b':' | b']' | b'}' | b' ' | b'\n' | b'\r' | b'\t');
        let rest = &self.text[self.pos..];
        self.pos += rest.iter().position(ends).unwrap_or(rest.len());
    }

    /// The text within `{"b64": "text"}`, if the value that starts here is an object of just that form; then behind it.
    pub fn base64(&mut self) -> Option<Cow<'a, [u8]>> {
        let mut inner = *self;
        if inner.peek() != b'{' || *inner.next_member()?.decode() != *b"b64" || inner.peek() != b'"' {
            return None;
        }
        let value = inner.string();
        inner.space();
        if inner.peek() != b'}' {
            return None;
        }
        inner.pos += 1;
        *self = inner;
        Some(value.decode())
    }

    /// Whether an object starts here that is not binary data.
    pub fn is_object(mut self) -> bool {
        self.peek() == b'{' && self.base64().is_none()
    }

    /// What error texts call the type of the value that starts here.
    pub fn kind(&self) -> &'static str {
        match self.peek() {
            b'n' => "Null",
            b'f' => "False",
            b't' => "True",
            b'{' => "Object",
            b'[' => "Array",
            b'"' => "String",
            _ => "Number",
        }
    }

    /// The value that starts here as it was written, cut when it is long.
    #[cold]
    pub fn echo(mut self) -> String {
        let start = self.pos;
        self.skip();
        let value = self.text.get(start..self.pos).unwrap_or_default();
        if value.len() <= ECHO_BYTES {
            return String::from_utf8_lossy(value).into_owned();
        }
        let mut cut = ECHO_BYTES;
        while value[cut] & 0xC0 == 0x80 && cut > ECHO_BYTES - 4 {
            cut -= 1;
        }
        format!("{}...", String::from_utf8_lossy(&value[..cut]))
    }
}
