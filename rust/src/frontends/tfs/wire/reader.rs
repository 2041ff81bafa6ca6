//! The grammar of protobuf: tags, varints and delimited fields over borrowed bytes.

/// Why bytes are not a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Malformed(pub(super) &'static str);

/// What a field carries, by its wire type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Value<'a> {
    Varint(u64),
    Fixed64(&'a [u8; 8]),
    Delimited(&'a [u8]),
    Fixed32(&'a [u8; 4]),
}

impl<'a> Value<'a> {
    pub(super) fn delimited(self) -> Result<&'a [u8], Malformed> {
        match self {
            Value::Delimited(bytes) => Ok(bytes),
            _ => Err(Malformed("a field has the wrong wire type")),
        }
    }

    pub(super) fn varint(self) -> Result<u64, Malformed> {
        match self {
            Value::Varint(value) => Ok(value),
            _ => Err(Malformed("a field has the wrong wire type")),
        }
    }

    pub(super) fn text(self) -> Result<&'a str, Malformed> {
        str::from_utf8(self.delimited()?).map_err(|_| Malformed("a name is not UTF-8"))
    }
}

/// Reads the fields of one message, front to back.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn new(message: &'a [u8]) -> Self {
        Self(message)
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.0
    }

    /// The next field's number and value; `None` at the end of the message.
    #[inline]
    pub(super) fn field(&mut self) -> Result<Option<(u32, Value<'a>)>, Malformed> {
        if self.0.is_empty() {
            return Ok(None);
        }
        let tag = u32::try_from(self.varint()?).map_err(|_| Malformed("a field's number is too large"))?;
        let value = match tag & 7 {
            0 => Value::Varint(self.varint()?),
            1 => Value::Fixed64(self.array()?),
            2 => Value::Delimited(self.delimited()?),
            5 => Value::Fixed32(self.array()?),
            3 | 4 => return Err(Malformed("groups are not supported")),
            _ => return Err(Malformed("a field has an unknown wire type")),
        };
        match tag >> 3 {
            0 => Err(Malformed("a field has number 0")),
            number => Ok(Some((number, value))),
        }
    }

    #[inline]
    pub(super) fn varint(&mut self) -> Result<u64, Malformed> {
        match self.0 {
            [first, rest @ ..] if *first < 0x80 => {
                self.0 = rest;
                Ok(u64::from(*first))
            }
            _ => self.long_varint(),
        }
    }

    fn long_varint(&mut self) -> Result<u64, Malformed> {
        let mut value = 0;
        for (index, byte) in self.0.iter().take(10).enumerate() {
            value |= u64::from(byte & 0x7f) << (7 * index);
            if *byte < 0x80 {
                if index == 9 && *byte > 1 {
                    break; // more than 64 bits
                }
                self.0 = &self.0[index + 1..];
                return Ok(value);
            }
        }
        Err(Malformed(if self.0.len() < 10 { "it ends too early" } else { "a number is longer than 64 bits" }))
    }

    fn delimited(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.varint()?;
        let length = usize::try_from(length).map_err(|_| Malformed("it ends too early"))?;
        self.take(length)
    }

    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Malformed("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<&'a [u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Malformed("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_end_within_64_bits() {
        let read = |bytes: &[u8]| Reader::new(bytes).varint();
        assert_eq!(read(&[0x7f]), Ok(127));
        assert_eq!(read(&[0x80, 0x01]), Ok(128));
        assert_eq!(read(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01]), Ok(u64::MAX));
        assert_eq!(read(&[0xff; 11]), Err(Malformed("a number is longer than 64 bits")));
        assert_eq!(
            read(&[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x02]),
            Err(Malformed("a number is longer than 64 bits"))
        );
        assert_eq!(read(&[0x80]), Err(Malformed("it ends too early")));
        assert_eq!(read(&[]), Err(Malformed("it ends too early")));
    }

    #[test]
    fn lengths_beyond_the_end_are_refused() {
        assert_eq!(Reader::new(&[0x0a, 0x02, 0x00]).field(), Err(Malformed("it ends too early")));
        let huge = [0x0a, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01];
        assert_eq!(Reader::new(&huge).field(), Err(Malformed("it ends too early")));
    }

    #[test]
    fn groups_and_field_zero_are_refused() {
        assert_eq!(Reader::new(&[0x0b, 0x0c]).field(), Err(Malformed("groups are not supported")));
        assert_eq!(Reader::new(&[0x00, 0x00]).field(), Err(Malformed("a field has number 0")));
        assert_eq!(Reader::new(&[0x0e]).field(), Err(Malformed("a field has an unknown wire type")));
    }
}
