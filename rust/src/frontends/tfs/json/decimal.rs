//! Floating point as text: `%g` with six digits where that reads back as the same value, else with as many as
//! always do (nine, seventeen); and a point where the text would look like an integer.

use super::integer::{write_digits, write_unsigned};
use super::number::Float;

/// A width of floating point that can be written.
pub(super) trait Real: Float + PartialEq + std::fmt::LowerExp {
    /// Significant digits that always suffice.
    const DIGITS: u32;
    /// How far six digits may be from the value, in units of its last digit, and yet read back as it: half a unit in
    /// the last binary place, and half a unit of the rounding to `DIGITS`.
    const NEAR: u64;
    fn class(self) -> std::num::FpCategory;
    fn negative(self) -> bool;
    /// The magnitude as mantissa · 2^exponent.
    fn split(self) -> (u64, i32);
    fn magnitude(self) -> Self;
}

macro_rules! real {
    ($float:ty, $digits:expr, $near:expr, $fraction:expr) => {
        impl Real for $float {
            const DIGITS: u32 = $digits;
            const NEAR: u64 = $near;

            fn class(self) -> std::num::FpCategory {
                self.classify()
            }

            fn negative(self) -> bool {
                self.is_sign_negative()
            }

            fn split(self) -> (u64, i32) {
                let bits = u64::from(self.abs().to_bits());
                let (power, rest) = ((bits >> $fraction) as i32, bits & ((1 << $fraction) - 1));
                let smallest = <$float>::MIN_EXP - <$float>::MANTISSA_DIGITS as i32;
                if power == 0 { (rest, smallest) } else { (rest | 1 << $fraction, smallest + power - 1) }
            }

            fn magnitude(self) -> Self {
                self.abs()
            }
        }
    };
}

real!(f32, 9, 61, 23);
real!(f64, 17, 12, 52);

/// The digits of a number, as an integer of as many digits as its context says, and the power of ten of the first.
#[derive(Clone, Copy)]
struct Decimal {
    digits: u64,
    exponent: i32,
}

/// Appends a value as TensorFlow Serving writes it.
pub(super) fn write_float<R: Real>(out: &mut Vec<u8>, value: R) {
    use std::num::FpCategory::*;
    if value.negative() && value.class() != Nan {
        out.push(b'-');
    }
    match value.class() {
        Nan => out.extend_from_slice(b"NaN"),
        Infinite => out.extend_from_slice(b"Infinity"),
        Zero => out.extend_from_slice(b"0.0"),
        Normal | Subnormal => write_finite(out, value.magnitude()),
    }
}

/// Appends a value as JSON has it: null where it has no word for it.
pub(super) fn write_or_null<R: Real>(out: &mut Vec<u8>, value: R) {
    use std::num::FpCategory::*;
    match value.class() {
        Nan | Infinite => out.extend_from_slice(b"null"),
        _ => write_float(out, value),
    }
}

#[inline(always)]
fn write_finite<R: Real>(out: &mut Vec<u8>, value: R) {
    let (mantissa, exponent) = value.split();
    let full = round(mantissa, exponent, R::DIGITS).unwrap_or_else(|| spelt(value, R::DIGITS));
    match six_digits(full, value) {
        Some(six) => write_general(out, six, 6),
        None => write_general(out, full, R::DIGITS),
    }
}

/// The value in six digits, if they read back as it.
#[inline(always)]
fn six_digits<R: Real>(full: Decimal, value: R) -> Option<Decimal> {
    if value.class() == std::num::FpCategory::Subnormal {
        // Several decimals of six digits may read back as the value. The nearest to it is the one to try.
        return Some(spelt(value, 6)).filter(|six| reads_back(*six, value));
    }
    let unit = 10_u64.pow(R::DIGITS - 6);
    // Half up: a tie is never near.
    let digits = (full.digits + unit / 2) / unit;
    if (digits * unit).abs_diff(full.digits) > R::NEAR {
        return None;
    }
    let carried = digits == 1_000_000;
    let six =
        if carried { Decimal { digits: 100_000, exponent: full.exponent + 1 } } else { Decimal { digits, ..full } };
    Some(six).filter(|six| reads_back(*six, value))
}

#[inline(always)]
fn reads_back<R: Real>(six: Decimal, value: R) -> bool {
    let last = six.exponent - 5;
    R::quick(six.digits, last).or_else(|| read_slowly(six.digits, last)) == Some(value)
}

#[cold]
fn read_slowly<R: Real>(digits: u64, exponent: i32) -> Option<R> {
    R::slow(&format!("{digits}e{exponent}"))
}

/// By way of the standard library, which is slow but knows every exponent. Its ties are not those of C, but there is
/// none so far from 1: a tie has one digit more than `DIGITS`, and such values have many more or end in zeros.
#[cold]
#[inline(never)]
fn spelt<R: Real>(value: R, count: u32) -> Decimal {
    let text = format!("{value:.*e}", count as usize - 1);
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let digits = digits.bytes().filter(u8::is_ascii_digit).fold(0, |value, digit| value * 10 + u64::from(digit - b'0'));
    Decimal { digits, exponent: exponent.parse().unwrap_or(0) }
}

/// mantissa · 2^exponent to `count` digits, exactly and with ties to even; `None` where 128 bits do not suffice.
/// Inlined, here as elsewhere, so that divisors are constants.
#[inline(always)]
fn round(mantissa: u64, exponent: i32, count: u32) -> Option<Decimal> {
    // log2 with eight bits of fraction, taken as linear between powers of two: at most a tenth too small.
    let zeros = mantissa.leading_zeros() as i32;
    let log2 = ((exponent + 63 - zeros) << 8) | ((mantissa << zeros) >> 55 & 0xFF) as i32;
    // log10(2) as a fraction. The estimate is seldom one too small.
    let mut first = ((i64::from(log2) * 315_653) >> 28) as i32;
    let limit = 10_u64.pow(count);
    loop {
        let digits = scale(mantissa, exponent, count as i32 - 1 - first)?;
        if digits >= limit {
            first += 1;
        } else if digits < limit / 10 {
            first -= 1;
        } else {
            return Some(Decimal { digits, exponent: first });
        }
    }
}

/// 5^0 and on, as far as they fit.
const FIVES: [u128; 56] = {
    let mut fives = [1; 56];
    let mut index = 1;
    while index < fives.len() {
        fives[index] = fives[index - 1] * 5;
        index += 1;
    }
    fives
};

/// mantissa · 2^exponent · 10^tens to the nearest integer, ties to even; `None` where 128 bits do not suffice.
#[inline(always)]
fn scale(mantissa: u64, exponent: i32, tens: i32) -> Option<u64> {
    let twos = exponent + tens;
    if tens < 0 {
        return scale_down(mantissa, twos, tens.unsigned_abs());
    }
    let fives = *FIVES.get(tens as usize)?;
    // One multiplication where it can be: for nearly all numbers that are not tiny.
    let product = match u64::try_from(fives) {
        Ok(fives) => u128::from(mantissa) * u128::from(fives),
        Err(_) => u128::from(mantissa).checked_mul(fives)?,
    };
    if twos >= 0 {
        return u64::try_from(product.checked_mul(1_u128.checked_shl(twos as u32)?)?).ok();
    }
    let (shift, whole) = (twos.unsigned_abs(), product.checked_shr(twos.unsigned_abs())?);
    nearest(whole, product - (whole << shift), 1 << (shift - 1))
}

/// mantissa · 2^twos / 5^fives, with numerator and divisor doubled so that half the divisor is whole.
fn scale_down(mantissa: u64, twos: i32, fives: u32) -> Option<u64> {
    let half = *FIVES.get(fives as usize)?;
    let product = u128::from(mantissa).checked_mul(1_u128.checked_shl(u32::try_from(twos + 1).ok()?)?)?;
    let divisor = half.checked_mul(2)?;
    nearest(product / divisor, product % divisor, half)
}

#[inline(always)]
fn nearest(whole: u128, rest: u128, half: u128) -> Option<u64> {
    let up = rest > half || (rest == half && whole & 1 == 1);
    u64::try_from(whole + u128::from(up)).ok()
}

/// As `%g` with a precision of `count`, but never like an integer.
#[inline(always)]
fn write_general(out: &mut Vec<u8>, decimal: Decimal, count: u32) {
    let Decimal { digits, exponent } = decimal;
    let count = count as usize;
    // Zeros behind the digits are digits too, for numbers that end left of their point.
    let mut text = [b'0'; 40];
    write_digits(&mut text[..count], digits);
    let len = text[..count].iter().rposition(|digit| *digit != b'0').map_or(1, |last| last + 1);
    if exponent < -4 || exponent >= count as i32 {
        return write_scientific(out, &text[..len], exponent);
    }
    // Copies of a fixed length are cheap; what is too much is cut off.
    let mut line = [b'0'; 40];
    let end = if exponent < 0 {
        let first = 1 + exponent.unsigned_abs() as usize;
        line[1] = b'.';
        line[first..first + 20].copy_from_slice(&text[..20]);
        first + len
    } else {
        let point = exponent as usize + 1;
        line[..20].copy_from_slice(&text[..20]);
        line[point] = b'.';
        line[point + 1..point + 21].copy_from_slice(&text[point..point + 20]);
        1 + len.max(point + 1)
    };
    let before = out.len();
    out.extend_from_slice(&line);
    out.truncate(before + end);
}

#[inline(never)]
fn write_scientific(out: &mut Vec<u8>, digits: &[u8], exponent: i32) {
    out.push(digits[0]);
    if digits.len() > 1 {
        out.push(b'.');
        out.extend_from_slice(&digits[1..]);
    }
    out.extend_from_slice(if exponent < 0 { b"e-" } else { b"e+" });
    if exponent.unsigned_abs() < 10 {
        out.push(b'0');
    }
    write_unsigned(out, u64::from(exponent.unsigned_abs()));
}
