//! The leaves of the scan: strings, numbers and words, and what is between values.

use super::number::digits_end;
use super::text::{hex4, letter_escape, plain_end, unicode_escape};
use crate::error::{Error, Result};

/// A place in a body up to which it is valid.
pub(super) struct Scanner<'a> {
    pub(super) text: &'a [u8],
    pub(super) pos: usize,
}

impl<'a> Scanner<'a> {
    #[inline(always)]
    pub(super) fn peek(&self) -> u8 {
        self.text.get(self.pos).copied().unwrap_or(0)
    }

    #[inline(always)]
    pub(super) fn space(&mut self) {
        while matches!(self.peek(), b' ' | b'\n' | b'\r' | b'\t') {
            self.pos += 1;
        }
    }

    #[cold]
    pub(super) fn error<T>(&self, what: &str) -> Result<T> {
        Err(Error::bad_input(format!("JSON Parse error: {what} at offset: {}", self.pos)))
    }

    #[inline]
    pub(super) fn scalar(&mut self) -> Result<()> {
        match self.peek() {
            b'"' => self.string(),
            b't' => self.literal(b"true"),
            b'f' => self.literal(b"false"),
            b'n' => self.literal(b"null"),
            _ => self.number(),
        }
    }

    fn literal(&mut self, word: &[u8]) -> Result<()> {
        if !self.text[self.pos..].starts_with(word) {
            return self.error("Invalid value.");
        }
        self.pos += word.len();
        Ok(())
    }

    /// A string, from its first quote to behind its last.
    pub(super) fn string(&mut self) -> Result<()> {
        self.pos += 1;
        loop {
            self.pos = plain_end(self.text, self.pos);
            match self.peek() {
                b'"' => break self.pos += 1,
                b'\\' => self.escape()?,
                0 => return self.error("Missing a closing quotation mark in string."),
                _ => return self.error("Invalid encoding in string."),
            }
        }
        Ok(())
    }

    fn escape(&mut self) -> Result<()> {
        let letter = self.text.get(self.pos + 1).copied().unwrap_or(0);
        if letter != b'u' {
            if letter_escape(letter).is_none() {
                return self.error("Invalid escape character in string.");
            }
            self.pos += 2;
            return Ok(());
        }
        match unicode_escape(self.text, self.pos + 2) {
            Some((_, end)) => self.pos = end,
            None if hex4(self.text, self.pos + 2).is_none() => {
                return self.error("Incorrect hex digit after \\u escape in string.");
            }
            None => return self.error("The surrogate pair in string is invalid."),
        }
        Ok(())
    }

    /// Values of a list as long as they are numbers: most of most bodies.
    pub(super) fn numbers(&mut self) -> Result<()> {
        loop {
            self.number()?;
            let mut next = Scanner { text: self.text, pos: self.pos };
            next.space();
            if next.peek() != b',' {
                return Ok(());
            }
            next.pos += 1;
            next.space();
            if !matches!(next.peek(), b'-' | b'0'..=b'9') {
                return Ok(());
            }
            self.pos = next.pos;
        }
    }

    #[inline(always)]
    fn number(&mut self) -> Result<()> {
        if self.peek() == b'-' {
            self.pos += 1;
        }
        match self.peek() {
            b'0' => self.pos += 1,
            b'1'..=b'9' => self.pos = digits_end(self.text, self.pos),
            _ => return self.not_finite(),
        }
        if self.peek() == b'.' {
            self.pos += 1;
            self.digits("Miss fraction part in number.")?;
        }
        if matches!(self.peek(), b'e' | b'E') {
            self.pos += 1;
            if matches!(self.peek(), b'+' | b'-') {
                self.pos += 1;
            }
            self.digits("Miss exponent in number.")?;
        }
        Ok(())
    }

    #[inline(always)]
    fn digits(&mut self, missing: &str) -> Result<()> {
        let end = digits_end(self.text, self.pos);
        if end == self.pos {
            return self.error(missing);
        }
        self.pos = end;
        Ok(())
    }

    fn not_finite(&mut self) -> Result<()> {
        let rest = &self.text[self.pos.min(self.text.len())..];
        let known: [&[u8]; 3] = [b"Infinity", b"Inf", b"NaN"];
        match known.into_iter().find(|word| rest.starts_with(word)) {
            Some(word) => self.pos += word.len(),
            None => return self.error("Invalid value."),
        }
        Ok(())
    }
}
