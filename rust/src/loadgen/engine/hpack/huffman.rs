//! The Huffman code of HPACK (RFC 7541, appendix B). It is canonical: the lengths of the codes are all of it.

use std::sync::LazyLock;

/// Symbols by the length of their code, shortest first, ascending in each: (bits, symbols). The one code that is left
/// over ends a text, and may not appear.
const SYMBOLS: &[(u32, &[u8])] = &[
    (5, b"012aceiost"),
    (6, b" %-./3456789=A_bdfghlmnpru"),
    (7, b":BCDEFGHIJKLMNOPQRSTUVWYjkqvwxyz"),
    (8, b"&*,;XZ"),
    (10, b"!\"()?"),
    (11, b"'+|"),
    (12, b"#>"),
    (13, b"\x00$@[]~"),
    (14, b"^}"),
    (15, b"<`{"),
    (19, &[92, 195, 208]),
    (20, &[128, 130, 131, 162, 184, 194, 224, 226]),
    (21, &[153, 161, 167, 172, 176, 177, 179, 209, 216, 217, 227, 229, 230]),
    (
        22,
        &[
            129, 132, 133, 134, 136, 146, 154, 156, 160, 163, 164, 169, 170, 173, 178, 181, 185, 186, 187, 189, 190,
            196, 198, 228, 232, 233,
        ],
    ),
    (
        23,
        &[
            1, 135, 137, 138, 139, 140, 141, 143, 147, 149, 150, 151, 152, 155, 157, 158, 165, 166, 168, 174, 175, 180,
            182, 183, 188, 191, 197, 231, 239,
        ],
    ),
    (24, &[9, 142, 144, 145, 148, 159, 171, 206, 215, 225, 236, 237]),
    (25, &[199, 207, 234, 235]),
    (26, &[192, 193, 200, 201, 202, 205, 210, 213, 218, 219, 238, 240, 242, 243, 255]),
    (27, &[203, 204, 211, 212, 214, 221, 222, 223, 241, 244, 245, 246, 247, 248, 250, 251, 252, 253, 254]),
    (
        28,
        &[
            2, 3, 4, 5, 6, 7, 8, 11, 12, 14, 15, 16, 17, 18, 19, 20, 21, 23, 24, 25, 26, 27, 28, 29, 30, 31, 127, 220,
            249,
        ],
    ),
    (30, &[10, 13, 22]),
];

/// Codes of one length: the first of them, and the symbols from there on.
struct Length {
    bits: u32,
    first: u32,
    symbols: &'static [u8],
}

static LENGTHS: LazyLock<Vec<Length>> = LazyLock::new(|| {
    let (mut next, mut before) = (0_u32, 0);
    let lengths = SYMBOLS.iter().map(|&(bits, symbols)| {
        let first = next << (bits - before);
        (next, before) = (first + u32::try_from(symbols.len()).unwrap_or(0), bits);
        Length { bits, first, symbols }
    });
    lengths.collect()
});

/// Appends the decoded text; `None` when it is no Huffman code or its padding is wrong.
pub fn decode(coded: &[u8], text: &mut Vec<u8>) -> Option<()> {
    let (mut window, mut bits) = (0_u64, 0_u32); // the lowest `bits` of `window` are not yet decoded
    for byte in coded {
        (window, bits) = (window << 8 | u64::from(*byte), bits + 8);
        while let Some((symbol, used)) = first_symbol(window, bits)? {
            text.push(symbol);
            bits -= used;
        }
    }
    let rest = window & ((1 << bits) - 1);
    (bits < 8 && rest == (1 << bits) - 1).then_some(())
}

/// The first symbol in the window and the length of its code; `Some(None)` when more bits are needed.
fn first_symbol(window: u64, bits: u32) -> Option<Option<(u8, u32)>> {
    for length in LENGTHS.iter().take_while(|length| length.bits <= bits) {
        let code = u32::try_from((window >> (bits - length.bits)) & ((1 << length.bits) - 1)).ok()?;
        let index = code.wrapping_sub(length.first) as usize;
        if let Some(symbol) = length.symbols.get(index) {
            return Some(Some((*symbol, length.bits)));
        }
    }
    if bits >= 30 { None } else { Some(None) } // no symbol has a longer code
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoded(coded: &[u8]) -> Option<String> {
        let mut text = Vec::new();
        decode(coded, &mut text)?;
        Some(String::from_utf8_lossy(&text).into_owned())
    }

    /// The encoder that the tests need, over the same table.
    fn encoded(text: &[u8]) -> Vec<u8> {
        let mut bits = String::new();
        for byte in text {
            let length = LENGTHS.iter().find(|length| length.symbols.contains(byte)).unwrap();
            let index = length.symbols.iter().position(|symbol| symbol == byte).unwrap();
            let (code, width) = (length.first as usize + index, length.bits as usize);
            bits.push_str(&format!("{code:0width$b}"));
        }
        while !bits.len().is_multiple_of(8) {
            bits.push('1');
        }
        bits.as_bytes().chunks(8).map(|byte| u8::from_str_radix(str::from_utf8(byte).unwrap(), 2).unwrap()).collect()
    }

    #[test]
    fn the_examples_of_the_standard_are_read() {
        let www = [0xf1, 0xe3, 0xc2, 0xe5, 0xf2, 0x3a, 0x6b, 0xa0, 0xab, 0x90, 0xf4, 0xff];
        assert_eq!(decoded(&www).as_deref(), Some("www.example.com"));
        assert_eq!(decoded(&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbf]).as_deref(), Some("no-cache"));
        assert_eq!(decoded(&[0x64, 0x02]).as_deref(), Some("302"));
        assert_eq!(decoded(&[]).as_deref(), Some(""));
    }

    #[test]
    fn every_byte_comes_back() {
        let all: Vec<u8> = (0..=255).collect();
        let mut text = Vec::new();
        decode(&encoded(&all), &mut text).unwrap();
        assert_eq!(text, all);
        let symbols: usize = LENGTHS.iter().map(|length| length.symbols.len()).sum();
        assert_eq!(symbols, 256);
    }

    #[test]
    fn the_end_symbol_and_wrong_padding_are_refused() {
        assert_eq!(decoded(&[0xff, 0xff, 0xff, 0xff]), None);
        assert_eq!(decoded(&[0xa8, 0xeb, 0x10, 0x64, 0x9c, 0xbe]), None, "padding is all ones");
        assert_eq!(decoded(&[0xff]), None, "padding is shorter than a byte");
    }
}
