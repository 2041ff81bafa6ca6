//! Percent-encoding, of parts of URLs and of what headers cannot hold as it is.

use crate::error::{Error, Result};

/// Encodes all but printable ASCII, and spaces at either end: the value of a header has none there.
pub fn encode(bytes: &[u8]) -> String {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let mut encoded = String::with_capacity(bytes.len());
    for (index, byte) in bytes.iter().enumerate() {
        let is_edge = index == 0 || index + 1 == bytes.len();
        if (0x20..0x7f).contains(byte) && *byte != b'%' && !(is_edge && *byte == b' ') {
            encoded.push(char::from(*byte));
        } else {
            encoded.extend(['%', char::from(HEX[usize::from(byte >> 4)]), char::from(HEX[usize::from(byte & 15)])]);
        }
    }
    encoded
}

/// Undoes any percent-encoding.
pub fn decode(text: &str) -> Result<String> {
    let malformed = || Error::bad_input(format!("malformed percent-encoding in {text}"));
    let digit = |byte: u8| char::from(byte).to_digit(16).map(|digit| digit as u8);
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&first, tail)) = rest.split_first() {
        rest = tail;
        if first == b'%' {
            let (&[high, low], tail) = rest.split_first_chunk().ok_or_else(malformed)?;
            let (high, low) = digit(high).zip(digit(low)).ok_or_else(malformed)?;
            bytes.push(high << 4 | low);
            rest = tail;
        } else {
            bytes.push(first);
        }
    }
    String::from_utf8(bytes).map_err(|_| malformed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_encoded_decodes_to_itself() {
        for (text, encoded) in
            [("plain text/:", "plain text/:"), ("50%", "50%25"), ("é\n", "%C3%A9%0A"), (" a b ", "%20a b%20")]
        {
            assert_eq!(encode(text.as_bytes()), encoded);
            assert_eq!(decode(encoded).unwrap(), text);
        }
        assert_eq!(decode("a%2fb%2F").unwrap(), "a/b/");
    }

    #[test]
    fn half_an_escape_and_what_is_no_text_are_refused() {
        for bad in ["m%", "m%2", "m%+1", "%zz", "%ff"] {
            assert_eq!(decode(bad).unwrap_err().message, format!("malformed percent-encoding in {bad}"));
        }
    }
}
