//! Header compression of HTTP/2 (RFC 7541): reading what servers send, writing what never changes.

mod huffman;
mod statics;

use std::collections::VecDeque;

use super::frames::Broken;

/// Size of the dynamic table that both sides start with, and that we let a peer use.
const TABLE: usize = 4_096;
/// What the standard counts for each entry beside its bytes.
const ENTRY: usize = 32;
/// Longest name or value that is read.
const MAX_TEXT: usize = 1 << 20;

const WRONG_NUMBER: Broken = "it sent headers with a broken number";
const WRONG_INDEX: Broken = "it sent headers that refer to nothing";
const WRONG_TEXT: Broken = "it sent headers with a broken text";

/// What a peer's header blocks refer to.
#[derive(Debug)]
pub struct Decoder {
    entries: VecDeque<(Vec<u8>, Vec<u8>)>,
    size: usize,
    limit: usize,
}

impl Default for Decoder {
    fn default() -> Self {
        Self { entries: VecDeque::new(), size: 0, limit: TABLE }
    }
}

impl Decoder {
    /// Calls `each` with the name and value of every field of a block, which is read to its end in any case: later
    /// blocks depend on it.
    pub fn decode(&mut self, mut block: &[u8], mut each: impl FnMut(&[u8], &[u8])) -> Result<(), Broken> {
        while let Some(&first) = block.first() {
            match first {
                0x80.. => {
                    let index = number(&mut block, 7)?;
                    self.with(index, |name, value| each(name, value))?;
                }
                0x40..0x80 => {
                    let (name, value) = self.literal(&mut block, 6)?;
                    each(&name, &value);
                    self.insert(name, value);
                }
                0x20..0x40 => self.resize(number(&mut block, 5)?)?,
                _ => {
                    let (name, value) = self.literal(&mut block, 4)?;
                    each(&name, &value);
                }
            }
        }
        Ok(())
    }

    fn with<T>(&self, index: usize, read: impl FnOnce(&[u8], &[u8]) -> T) -> Result<T, Broken> {
        let fixed = index.checked_sub(1).ok_or(WRONG_INDEX)?;
        if let Some((name, value)) = statics::TABLE.get(fixed) {
            return Ok(read(name.as_bytes(), value.as_bytes()));
        }
        let entry = self.entries.get(fixed - statics::TABLE.len()).ok_or(WRONG_INDEX)?;
        Ok(read(&entry.0, &entry.1))
    }

    fn literal(&self, block: &mut &[u8], prefix: u32) -> Result<(Vec<u8>, Vec<u8>), Broken> {
        let name = match number(block, prefix)? {
            0 => text(block)?,
            index => self.with(index, |name, _| name.to_vec())?,
        };
        Ok((name, text(block)?))
    }

    fn insert(&mut self, name: Vec<u8>, value: Vec<u8>) {
        self.size += name.len() + value.len() + ENTRY;
        self.entries.push_front((name, value));
        self.evict();
    }

    fn resize(&mut self, limit: usize) -> Result<(), Broken> {
        if limit > TABLE {
            return Err("it wants a larger table of headers than allowed");
        }
        self.limit = limit;
        self.evict();
        Ok(())
    }

    fn evict(&mut self) {
        while self.size > self.limit {
            let Some(last) = self.entries.pop_back() else { return };
            self.size -= last.0.len() + last.1.len() + ENTRY;
        }
    }
}

/// A number whose first byte has `prefix` bits for it.
fn number(block: &mut &[u8], prefix: u32) -> Result<usize, Broken> {
    let (first, mut rest) = block.split_first().ok_or(WRONG_NUMBER)?;
    let most = (1_usize << prefix) - 1;
    let mut value = usize::from(*first) & most;
    if value == most {
        for shift in [0, 7, 14, 21] {
            let (byte, after) = rest.split_first().ok_or(WRONG_NUMBER)?;
            rest = after;
            value += usize::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                *block = rest;
                return Ok(value);
            }
        }
        return Err(WRONG_NUMBER);
    }
    *block = rest;
    Ok(value)
}

fn text(block: &mut &[u8]) -> Result<Vec<u8>, Broken> {
    let coded = block.first().is_some_and(|first| first & 0x80 != 0);
    let length = number(block, 7)?;
    let (raw, rest) = block.split_at_checked(length).filter(|_| length <= MAX_TEXT).ok_or(WRONG_TEXT)?;
    *block = rest;
    if !coded {
        return Ok(raw.to_vec());
    }
    let mut plain = Vec::with_capacity(length * 2);
    huffman::decode(raw, &mut plain).ok_or(WRONG_TEXT)?;
    Ok(plain)
}

/// The block of a request's fields in two forms: for the first request of a connection, which may leave them in the
/// peer's table, and for those that follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Block {
    pub first: Vec<u8>,
    pub later: Vec<u8>,
}

impl Block {
    /// Fields in their order, pseudo-fields first. With `indexed`, all requests of a connection have these same fields,
    /// and the peer's table has its usual size.
    pub fn new(fields: &[(String, String)], indexed: bool) -> Block {
        let sizes = fields.iter().map(|(name, value)| name.len() + value.len() + ENTRY);
        let indexed = indexed && sizes.sum::<usize>() <= TABLE;
        let (mut first, mut later) = (Vec::new(), Vec::new());
        // The newest entry of the table comes first, so that of the first field comes last.
        let fresh = fields.iter().filter(|field| statics::index(field).is_none()).count();
        let mut dynamic = statics::TABLE.len() + fresh;
        for field in fields {
            if let Some(index) = statics::index(field) {
                put_number(&mut first, 0x80, 7, index);
                put_number(&mut later, 0x80, 7, index);
            } else if indexed {
                put_literal(&mut first, (0x40, 6), field);
                put_number(&mut later, 0x80, 7, dynamic);
                dynamic -= 1;
            } else {
                put_literal(&mut first, (0, 4), field);
                put_literal(&mut later, (0, 4), field);
            }
        }
        Block { first, later }
    }
}

fn put_literal(out: &mut Vec<u8>, (pattern, prefix): (u8, u32), (name, value): &(String, String)) {
    match statics::name_index(name) {
        Some(index) => put_number(out, pattern, prefix, index),
        None => {
            out.push(pattern);
            put_text(out, name);
        }
    }
    put_text(out, value);
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_number(out, 0, 7, text.len());
    out.extend_from_slice(text.as_bytes());
}

/// Writes a number into `prefix` bits behind a pattern, and into more bytes if it needs them.
fn put_number(out: &mut Vec<u8>, pattern: u8, prefix: u32, number: usize) {
    let most = (1_usize << prefix) - 1;
    let low = |value: usize| value.to_le_bytes()[0];
    if number < most {
        return out.push(pattern | low(number));
    }
    out.push(pattern | low(most));
    let mut rest = number - most;
    while rest >= 0x80 {
        out.push(0x80 | low(rest & 0x7f));
        rest >>= 7;
    }
    out.push(low(rest));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields(decoder: &mut Decoder, block: &[u8]) -> Result<Vec<String>, Broken> {
        let mut all = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        decoder.decode(block, |name, value| all.push(format!("{}={}", text(name), text(value))))?;
        Ok(all)
    }

    fn bytes(hex: &str) -> Vec<u8> {
        let digits: Vec<_> = hex.chars().filter(char::is_ascii_hexdigit).collect();
        digits.chunks(2).map(|pair| u8::from_str_radix(&String::from_iter(pair), 16).unwrap()).collect()
    }

    fn pairs(fields: &[(&str, &str)]) -> Vec<(String, String)> {
        fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    /// The first two responses of RFC 7541, C.5 and C.6, with a table in which nothing is evicted.
    #[test]
    fn responses_of_the_standard_are_read() {
        let mut decoder = Decoder::default();
        let plain = bytes(
            "4803 3330 3258 0770 7269 7661 7465 611d 4d6f 6e2c 2032 3120 4f63 7420 3230 3133 2032 303a 3133 3a32 3120
             474d 546e 1768 7474 7073 3a2f 2f77 7777 2e65 7861 6d70 6c65 2e63 6f6d",
        );
        let rest = ["cache-control=private", "date=Mon, 21 Oct 2013 20:13:21 GMT", "location=https://www.example.com"];
        assert_eq!(fields(&mut decoder, &plain).unwrap(), [&[":status=302"], &rest[..]].concat());
        let second = fields(&mut decoder, &bytes("4803 3330 37c1 c0bf")).unwrap();
        assert_eq!(second, [&[":status=307"], &rest[..]].concat());
        let coded = bytes(
            "4882 6402 5885 aec3 771a 4b61 96d0 7abe 9410 54d4 44a8 2005 9504 0b81 66e0 82a6 2d1b ff6e 919d 29ad 1718
             63c7 8f0b 97c8 e9ae 82ae 43d3",
        );
        assert_eq!(fields(&mut Decoder::default(), &coded).unwrap(), [&[":status=302"], &rest[..]].concat());
    }

    #[test]
    fn blocks_say_the_same_in_both_forms() {
        let wanted = pairs(&[(":method", "POST"), (":path", "/a.B/C"), ("te", "trailers"), ("x", &"y".repeat(300))]);
        let expected: Vec<_> = wanted.iter().map(|(name, value)| format!("{name}={value}")).collect();
        for indexed in [true, false] {
            let block = Block::new(&wanted, indexed);
            let mut decoder = Decoder::default();
            assert_eq!(fields(&mut decoder, &block.first).unwrap(), expected);
            assert_eq!(fields(&mut decoder, &block.later).unwrap(), expected);
            assert_eq!(fields(&mut decoder, &block.later).unwrap(), expected);
            assert_eq!(block.later.len() < 5, indexed);
        }
        let large = pairs(&[("x", &"y".repeat(TABLE))]);
        assert_eq!(Block::new(&large, true), Block::new(&large, false), "it does not fit the table");
    }

    #[test]
    fn entries_are_evicted_and_the_table_shrinks_on_request() {
        let mut decoder = Decoder::default();
        for _ in 0..1_000 {
            fields(&mut decoder, &Block::new(&pairs(&[("name", "value")]), true).first).unwrap();
        }
        assert_eq!(decoder.entries.len(), TABLE / ("namevalue".len() + ENTRY));
        assert!(fields(&mut decoder, &[0xbe]).is_ok());
        fields(&mut decoder, &[0x20]).unwrap();
        assert_eq!((decoder.entries.len(), decoder.size), (0, 0));
        assert_eq!(fields(&mut decoder, &[0xbe]), Err(WRONG_INDEX));
    }

    #[test]
    fn broken_blocks_are_refused() {
        for block in ["80", "ff", "ffffffffffff", "3fffff", "40", "4001", "400161", "40016105", "000181ff", "c0"] {
            assert!(fields(&mut Decoder::default(), &bytes(block)).is_err(), "{block}");
        }
    }
}
