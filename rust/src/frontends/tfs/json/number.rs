//! Numbers, from their text to their nearest value.

use super::text::word;

/// Why a value is not an element.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Misfit {
    Type,
    Range,
    TooBig,
    Base64Form,
    Base64,
    Unsupported,
}

const ZEROS: u64 = 0x3030_3030_3030_3030;

/// How many of eight bytes, each made zero-based by `^ ZEROS`, are digits before the first that is none.
#[inline(always)]
fn digit_count(word: u64) -> u32 {
    // A carry can only mark bytes above a true find, so the lowest mark is always right.
    let others = (word.wrapping_add(0x7676_7676_7676_7676) | word) & 0x8080_8080_8080_8080;
    others.trailing_zeros() / 8
}

/// The number that eight zero-based digits spell, most significant in the lowest byte.
#[inline(always)]
fn eight_digits(word: u64) -> u64 {
    let pairs = word.wrapping_mul(10).wrapping_add(word >> 8) & 0x00FF_00FF_00FF_00FF;
    let fours = pairs.wrapping_mul(100).wrapping_add(pairs >> 16) & 0x0000_FFFF_0000_FFFF;
    fours.wrapping_mul(10_000).wrapping_add(fours >> 32) & 0xFFFF_FFFF
}

/// Where the digits that start at `pos` end.
#[inline(always)]
pub(super) fn digits_end(text: &[u8], mut pos: usize) -> usize {
    while let Some(word) = word(text, pos) {
        let count = digit_count(word ^ ZEROS);
        pos += count as usize;
        if count < 8 {
            return pos;
        }
    }
    while text.get(pos).is_some_and(u8::is_ascii_digit) {
        pos += 1;
    }
    pos
}

/// Reads digits onto `value`, modulo 2^64; where they end.
#[inline(always)]
fn digits(text: &[u8], mut pos: usize, value: &mut u64) -> usize {
    const POWERS: [u64; 9] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];
    while let Some(word) = word(text, pos) {
        let word = word ^ ZEROS;
        let count = digit_count(word);
        if count > 0 {
            // Shifting left puts zeros in front, which change nothing.
            let read = eight_digits(word << (64 - 8 * count));
            *value = value.wrapping_mul(POWERS[count as usize]).wrapping_add(read);
        }
        pos += count as usize;
        if count < 8 {
            return pos;
        }
    }
    while let Some(digit) = text.get(pos).filter(|byte| byte.is_ascii_digit()) {
        *value = value.wrapping_mul(10).wrapping_add(u64::from(digit - b'0'));
        pos += 1;
    }
    pos
}

/// The magnitude of a finite number: `mantissa` · 10^`exponent`, unless it has too many digits for that.
struct Decimal {
    mantissa: u64,
    exponent: i32,
    exact: bool,
    integer: bool,
    end: usize,
}

impl Decimal {
    /// Reads a number without its sign. `None` when there is no digit here.
    #[inline(always)]
    fn read(text: &[u8], start: usize) -> Option<Decimal> {
        let mut mantissa = 0_u64;
        let mut pos = start;
        while let Some(digit) = text.get(pos).map(|byte| byte.wrapping_sub(b'0')).filter(|digit| *digit < 10) {
            mantissa = mantissa.wrapping_mul(10).wrapping_add(u64::from(digit));
            pos += 1;
        }
        if pos == start {
            return None;
        }
        let mut decimal = Decimal { mantissa, exponent: 0, exact: pos - start < 20, integer: true, end: pos };
        if text.get(pos) == Some(&b'.') {
            decimal.fraction(text, start);
        }
        if matches!(text.get(decimal.end), Some(b'e' | b'E')) {
            decimal.scientific(text);
        }
        Some(decimal)
    }

    #[inline(always)]
    fn fraction(&mut self, text: &[u8], start: usize) {
        let point = self.end;
        self.end = digits(text, point + 1, &mut self.mantissa);
        self.integer = false;
        // Bounded by the body's length, which is far less.
        self.exponent = -i32::try_from(self.end - point - 1).unwrap_or(i32::MAX);
        let count = self.end - start - 1;
        let leading = |byte: &&u8| matches!(byte, b'0' | b'.');
        // At most the point itself is counted too much, which only makes a slow path of a fast one.
        self.exact = count < 20 || self.end - start - text[start..self.end].iter().take_while(leading).count() < 20;
    }

    fn scientific(&mut self, text: &[u8]) {
        self.integer = false;
        let mut pos = self.end + 1;
        let negative = text.get(pos) == Some(&b'-');
        pos += usize::from(matches!(text.get(pos), Some(b'-' | b'+')));
        let mut value = 0_i32;
        while let Some(digit) = text.get(pos).filter(|byte| byte.is_ascii_digit()) {
            value = value.saturating_mul(10).saturating_add(i32::from(digit - b'0'));
            pos += 1;
        }
        self.exponent = self.exponent.saturating_add(if negative { -value } else { value });
        self.end = pos;
    }
}

/// The two widths of floating point that text is read as.
pub(super) trait Float: Copy + std::ops::Neg<Output = Self> {
    const NAN: Self;
    const INFINITY: Self;
    /// The value nearest to mantissa · 10^exponent, where that is quick to know.
    fn quick(mantissa: u64, exponent: i32) -> Option<Self>;
    /// The value nearest to what `text`, an unsigned number, says.
    fn slow(text: &str) -> Option<Self>;
}

/// Powers of ten that a double holds exactly.
const TENS: [f64; 23] = [
    1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20,
    1e21, 1e22,
];

/// mantissa · 10^exponent after one rounding of the mantissa and one of the result.
#[inline(always)]
fn scaled(mantissa: u64, exponent: i32) -> Option<f64> {
    let power = *TENS.get(exponent.unsigned_abs() as usize)?;
    Some(if exponent < 0 { mantissa as f64 / power } else { mantissa as f64 * power })
}

impl Float for f64 {
    const NAN: f64 = f64::NAN;
    const INFINITY: f64 = f64::INFINITY;

    /// Exact factors make one rounding in all (Clinger's fast path).
    #[inline(always)]
    fn quick(mantissa: u64, exponent: i32) -> Option<f64> {
        if mantissa > 1 << 53 { None } else { scaled(mantissa, exponent) }
    }

    fn slow(text: &str) -> Option<f64> {
        text.parse().ok().filter(|value: &f64| value.is_finite())
    }
}

impl Float for f32 {
    const NAN: f32 = f32::NAN;
    const INFINITY: f32 = f32::INFINITY;

    /// The double is within two units in its last place of the true value. So it rounds to the same float, unless
    /// the middle between two floats is as near as that. Within these exponents nothing overflows or is subnormal.
    #[inline(always)]
    fn quick(mantissa: u64, exponent: i32) -> Option<f32> {
        if exponent > 18 {
            return None;
        }
        let double = scaled(mantissa, exponent)?;
        let (below_float, middle) = (double.to_bits() & 0x1FFF_FFFF, 0x1000_0000);
        (below_float.abs_diff(middle) > 4).then_some(double as f32)
    }

    /// Overflows to infinity only what a double can hold: beyond that a number is refused in either width.
    fn slow(text: &str) -> Option<f32> {
        let value: f32 = text.parse().ok()?;
        if value.is_infinite() {
            <f64 as Float>::slow(text)?;
        }
        Some(value)
    }
}

/// The number that starts at `pos` and where it ends.
#[inline(always)]
pub(super) fn float<F: Float>(text: &[u8], pos: usize) -> Result<(F, usize), Misfit> {
    let negative = text.get(pos) == Some(&b'-');
    let start = pos + usize::from(negative);
    let (value, end) = match Decimal::read(text, start) {
        Some(decimal) => {
            let quick = if decimal.exact { F::quick(decimal.mantissa, decimal.exponent) } else { None };
            (quick.map_or_else(|| slow(&text[start..decimal.end]), Ok)?, decimal.end)
        }
        None => not_finite(text, start)?,
    };
    Ok((if negative { -value } else { value }, end))
}

#[cold]
fn slow<F: Float>(text: &[u8]) -> Result<F, Misfit> {
    std::str::from_utf8(text).ok().and_then(F::slow).ok_or(Misfit::TooBig)
}

#[cold]
fn not_finite<F: Float>(text: &[u8], pos: usize) -> Result<(F, usize), Misfit> {
    match text.get(pos) {
        Some(b'N') => Ok((F::NAN, pos + 3)),
        Some(b'I') if text[pos..].starts_with(b"Infinity") => Ok((F::INFINITY, pos + 8)),
        Some(b'I') => Ok((F::INFINITY, pos + 3)),
        _ => Err(Misfit::Type),
    }
}

/// The integer that starts at `pos` and where it ends. What has a point or an exponent is none.
#[inline(always)]
pub(super) fn integer<I: TryFrom<i128>>(text: &[u8], pos: usize) -> Result<(I, usize), Misfit> {
    let negative = text.get(pos) == Some(&b'-');
    let start = pos + usize::from(negative);
    let decimal = Decimal::read(text, start).filter(|decimal| decimal.integer).ok_or(Misfit::Type)?;
    let magnitude = if decimal.exact { i128::from(decimal.mantissa) } else { big(&text[start..decimal.end])? };
    let value = if negative { -magnitude } else { magnitude };
    Ok((I::try_from(value).map_err(|_| Misfit::Range)?, decimal.end))
}

#[cold]
fn big(digits: &[u8]) -> Result<i128, Misfit> {
    std::str::from_utf8(digits).ok().and_then(|digits| digits.parse().ok()).ok_or(Misfit::Range)
}
