//! Bytes as text: the standard alphabet or the one for URLs, with or without padding.

use base64::Engine;
use base64::alphabet::{Alphabet, STANDARD, URL_SAFE};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};

const fn engine(alphabet: &Alphabet) -> GeneralPurpose {
    let config = GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent);
    GeneralPurpose::new(alphabet, config)
}

const PLAIN: GeneralPurpose = engine(&STANDARD);
const WEB_SAFE: GeneralPurpose = engine(&URL_SAFE);

/// The bytes that a text stands for; `None` when it stands for none.
pub(super) fn decode(text: &[u8]) -> Option<Vec<u8>> {
    PLAIN.decode(text).or_else(|_| WEB_SAFE.decode(text)).ok()
}

/// Appends `{"b64": …}`.
pub(super) fn write(out: &mut Vec<u8>, bytes: &[u8]) {
    out.extend_from_slice(b"{\"b64\":\"");
    out.extend_from_slice(PLAIN.encode(bytes).as_bytes());
    out.extend_from_slice(b"\"}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_alphabets_are_read_padded_or_not() {
        for text in ["+/8=", "+/8", "-_8=", "-_8"] {
            assert_eq!(decode(text.as_bytes()).unwrap(), [0xfb, 0xff], "{text}");
        }
        for bad in ["*", "+_8=", "a", "a=b"] {
            assert_eq!(decode(bad.as_bytes()), None, "{bad}");
        }
    }
}
