//! JSON strings: what is between the quotes, to and from bytes, and runs of bytes that need no look.

use std::borrow::Cow;

const LOW: u64 = 0x0101_0101_0101_0101;
const HIGH: u64 = 0x8080_8080_8080_8080;

/// The next eight bytes, first byte lowest; `None` near the end.
pub(super) fn word(text: &[u8], pos: usize) -> Option<u64> {
    text.get(pos..)?.first_chunk().map(|bytes| u64::from_le_bytes(*bytes))
}

/// Where the run of bytes that a JSON string holds as they are, neither quote, backslash nor control, ends.
pub(super) fn plain_end(text: &[u8], mut pos: usize) -> usize {
    while let Some(word) = word(text, pos) {
        // A borrow can only mark bytes above a true find, so the lowest mark is always right.
        let zero_in = |word: u64| word.wrapping_sub(LOW) & !word & HIGH;
        let control = word.wrapping_sub(LOW * 0x20) & !word & HIGH;
        let special = control | zero_in(word ^ (LOW * b'"' as u64)) | zero_in(word ^ (LOW * b'\\' as u64));
        if special != 0 {
            return pos + special.trailing_zeros() as usize / 8;
        }
        pos += 8;
    }
    let special = |byte: &u8| *byte < 0x20 || *byte == b'"' || *byte == b'\\';
    text[pos..].iter().position(special).map_or(text.len(), |found| pos + found)
}

/// What stands between the quotes of a valid JSON string.
#[derive(Clone, Copy)]
pub(super) struct Quoted<'a> {
    pub raw: &'a [u8],
    /// Where `raw` starts in the text.
    pub start: usize,
}

impl<'a> Quoted<'a> {
    pub fn decode(self) -> Cow<'a, [u8]> {
        if self.raw.contains(&b'\\') { Cow::Owned(unescape(self.raw)) } else { Cow::Borrowed(self.raw) }
    }

    pub fn lossy(self) -> String {
        String::from_utf8_lossy(&self.decode()).into_owned()
    }
}

/// Four hex digits.
pub(super) fn hex4(text: &[u8], pos: usize) -> Option<u32> {
    let digits = text.get(pos..pos + 4)?;
    digits.iter().try_fold(0, |value, digit| Some(value << 4 | char::from(*digit).to_digit(16)?))
}

/// The character of the escape `\uXXXX`, or of two of them, whose first hex digit is at `pos`, and where it ends;
/// `None` for half a surrogate pair.
pub(super) fn unicode_escape(text: &[u8], pos: usize) -> Option<(char, usize)> {
    let unit = hex4(text, pos)?;
    if !(0xD800..0xDC00).contains(&unit) {
        return Some((char::from_u32(unit)?, pos + 4));
    }
    let low = text.get(pos + 4..)?.starts_with(b"\\u").then(|| hex4(text, pos + 6)).flatten()?;
    let low = low.checked_sub(0xDC00).filter(|low| *low < 0x400)?;
    Some((char::from_u32(0x10000 + ((unit - 0xD800) << 10) + low)?, pos + 10))
}

/// The byte that a one-letter escape stands for.
pub(super) fn letter_escape(letter: u8) -> Option<u8> {
    Some(match letter {
        b'"' | b'\\' | b'/' => letter,
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        _ => return None,
    })
}

fn unescape(raw: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(raw.len());
    let mut pos = 0;
    while pos < raw.len() {
        let plain = raw[pos..].iter().position(|byte| *byte == b'\\').map_or(raw.len(), |found| pos + found);
        out.extend_from_slice(&raw[pos..plain]);
        pos = plain + 2;
        match raw.get(plain + 1) {
            Some(b'u') => {
                let (char, end) = unicode_escape(raw, pos).unwrap_or((char::REPLACEMENT_CHARACTER, pos));
                out.extend_from_slice(char.encode_utf8(&mut [0; 4]).as_bytes());
                pos = end;
            }
            Some(letter) => out.extend(letter_escape(*letter)),
            None => break,
        }
    }
    out
}

/// Appends `text` as a JSON string, quotes included.
pub(super) fn write_string(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let text = text.as_bytes();
    out.push(b'"');
    let mut pos = 0;
    loop {
        let plain = plain_end(text, pos);
        out.extend_from_slice(&text[pos..plain]);
        let Some(byte) = text.get(plain) else { break };
        let letter = match byte {
            b'"' | b'\\' => *byte,
            8 => b'b',
            12 => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            b'\t' => b't',
            _ => b'u',
        };
        out.extend_from_slice(&[b'\\', letter]);
        if letter == b'u' {
            out.extend_from_slice(&[b'0', b'0', HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
        }
        pos = plain + 1;
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(raw: &str) -> Vec<u8> {
        Quoted { raw: raw.as_bytes(), start: 0 }.decode().into_owned()
    }

    #[test]
    fn escapes_are_undone() {
        assert_eq!(decoded(r#"a\"\\\/\b\f\n\r\tz"#), b"a\"\\/\x08\x0c\n\r\tz");
        assert_eq!(decoded(r"\u00e9\u20AC\ud83d\ude00!"), "é€😀!".as_bytes());
        assert_eq!(decoded("plain"), b"plain");
    }

    #[test]
    fn special_bytes_are_found_wherever_they_stand() {
        for special in [b'"', b'\\', 0, 0x1f, b'\n'] {
            for at in 0..19 {
                let mut text = *b"\x7f\x80\xff ~!#[]0123456789";
                text[at] = special;
                assert_eq!(plain_end(&text, 0), at, "{special} at {at}");
            }
        }
        assert_eq!(plain_end(b"0123456789", 3), 10);
    }

    #[test]
    fn written_strings_read_back() {
        for text in ["", "plain", "\"\\\u{1}\u{1f}\n\r\t\u{8}\u{c}é😀/", "quote \" in a long enough text"] {
            let mut out = Vec::new();
            write_string(&mut out, text);
            assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), text);
            assert_eq!(decoded(std::str::from_utf8(&out[1..out.len() - 1]).unwrap()), text.as_bytes());
        }
    }
}
