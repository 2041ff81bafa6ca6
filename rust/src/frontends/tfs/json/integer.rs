//! Integers as text.

/// 00 to 99.
const PAIRS: [[u8; 2]; 100] = {
    let mut pairs = [[0; 2]; 100];
    let mut value = 0;
    while value < 100 {
        pairs[value] = [b'0' + (value / 10) as u8, b'0' + (value % 10) as u8];
        value += 1;
    }
    pairs
};

/// Fills `text` with the last digits of a value.
#[inline(always)]
pub(super) fn write_digits(text: &mut [u8], mut value: u64) {
    let (rest, pairs) = text.as_rchunks_mut::<2>();
    for pair in pairs.iter_mut().rev() {
        *pair = PAIRS[(value % 100) as usize];
        value /= 100;
    }
    if let [digit] = rest {
        *digit = b'0' + (value % 10) as u8;
    }
}

/// Appends an integer.
pub(super) fn write_integer(out: &mut Vec<u8>, value: i64) {
    if value < 0 {
        out.push(b'-');
    }
    write_unsigned(out, value.unsigned_abs());
}

/// Appends an integer that is not negative.
pub(super) fn write_unsigned(out: &mut Vec<u8>, value: u64) {
    let count = value.checked_ilog10().unwrap_or(0) as usize + 1;
    let before = out.len();
    out.extend_from_slice(&[0; 20]);
    write_digits(&mut out[before..before + count], value);
    out.truncate(before + count);
}
