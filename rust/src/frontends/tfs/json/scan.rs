//! One pass over a body: is it JSON, is it an object, and where are the values of the keys that matter.
//!
//! The dialect, the texts of errors and their offsets are those of RapidJSON as TensorFlow Serving runs it: a
//! byte order mark is skipped, `NaN` and `Infinity` are numbers, what follows the first value is not looked at.

use smallvec::SmallVec;

use super::cursor::Cursor;
use super::scanner::Scanner;
use super::text::Quoted;
use crate::error::{Error, Result};

/// A body whose first value is an object.
pub(super) struct Document<const N: usize> {
    pub root: usize,
    /// Where the value of each key asked for starts, in the order asked; of equal keys the first counts.
    pub values: [Option<usize>; N],
}

pub(super) fn scan<const N: usize>(text: &[u8], keys: [&str; N]) -> Result<Document<N>> {
    let mut scanner = Scanner { text, pos: if text.starts_with(b"\xEF\xBB\xBF") { 3 } else { 0 } };
    scanner.space();
    if scanner.pos >= text.len() {
        return Err(Error::bad_input("JSON Parse error: The document is empty"));
    }
    let root = scanner.pos;
    let mut values = [None; N];
    if scanner.peek() != b'{' {
        scanner.value()?;
        return Err(Error::bad_input(format!("JSON Value: {} Is not object", Cursor::new(text, root).echo())));
    }
    scanner.root(|key, start| {
        if let Some(index) = keys.iter().position(|known| known.as_bytes() == &*key.decode()) {
            values[index].get_or_insert(start);
        }
    })?;
    Ok(Document { root, values })
}

/// What an unfinished list or object waits for.
#[derive(Clone, Copy, PartialEq)]
enum Open {
    List,
    Object,
}

impl Open {
    fn close(self) -> u8 {
        if self == Open::List { b']' } else { b'}' }
    }

    fn unfinished(self) -> &'static str {
        match self {
            Open::List => "Missing a comma or ] after an array element.",
            Open::Object => "Missing a comma or } after an object member.",
        }
    }
}

impl<'a> Scanner<'a> {
    /// The members of the outermost object, each reported with where its value starts.
    fn root(&mut self, mut member: impl FnMut(Quoted<'a>, usize)) -> Result<()> {
        self.pos += 1;
        self.space();
        if self.peek() == b'}' {
            return Ok(());
        }
        loop {
            let key = self.key()?;
            member(key, self.pos);
            self.value()?;
            self.space();
            match self.peek() {
                b',' => self.pos += 1,
                b'}' => return Ok(()),
                _ => return self.error(Open::Object.unfinished()),
            }
            self.space();
        }
    }

    /// One whole value. Its depth is bounded by its length only: no recursion.
    fn value(&mut self) -> Result<()> {
        let mut open: SmallVec<[Open; 32]> = SmallVec::new();
        loop {
            match self.peek() {
                b'[' => {
                    if self.enter(Open::List)? {
                        open.push(Open::List);
                        continue;
                    }
                }
                b'{' => {
                    if self.enter(Open::Object)? {
                        open.push(Open::Object);
                        continue;
                    }
                }
                b'-' | b'0'..=b'9' if open.last() == Some(&Open::List) => self.numbers()?,
                _ => self.scalar()?,
            }
            if !self.next_value(&mut open)? {
                return Ok(());
            }
        }
    }

    /// Steps into a list or object, as far as its first value; false when it has none and is over.
    fn enter(&mut self, kind: Open) -> Result<bool> {
        self.pos += 1;
        self.space();
        if self.peek() == kind.close() {
            self.pos += 1;
            return Ok(false);
        }
        if kind == Open::Object {
            self.key()?;
        }
        Ok(true)
    }

    /// From the end of a value to the start of the next; false when it was the last.
    #[inline]
    fn next_value(&mut self, open: &mut SmallVec<[Open; 32]>) -> Result<bool> {
        while let Some(kind) = open.last().copied() {
            self.space();
            let byte = self.peek();
            if byte == b',' {
                self.pos += 1;
                self.space();
                if kind == Open::Object {
                    self.key()?;
                }
                return Ok(true);
            }
            if byte != kind.close() {
                return self.error(kind.unfinished());
            }
            self.pos += 1;
            open.pop();
        }
        Ok(false)
    }

    /// A key and its colon, up to the start of the value.
    fn key(&mut self) -> Result<Quoted<'a>> {
        if self.peek() != b'"' {
            return self.error("Missing a name for object member.");
        }
        let start = self.pos + 1;
        self.string()?;
        let key = Quoted { raw: &self.text[start..self.pos - 1], start };
        self.space();
        if self.peek() != b':' {
            return self.error("Missing a colon after a name of object member.");
        }
        self.pos += 1;
        self.space();
        Ok(key)
    }
}
