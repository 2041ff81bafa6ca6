//! Numbers of every dtype, and floats against the standard library's reading and writing.

use proptest::prelude::*;

use super::super::decimal::write_float;
use super::super::half::{BFLOAT16, HALF, narrow, widen};
use super::super::number::{Float, float};
use super::*;

#[test]
fn integers_span_their_range() {
    fn ends<const N: usize, T: std::fmt::Display + PartialEq + std::fmt::Debug>(
        dtype: DType,
        least: T,
        most: T,
        read: fn([u8; N]) -> T,
    ) {
        let tensor = one(dtype, format!(r#"{{"inputs": [{least}, {most}, -0]}}"#));
        assert_eq!(items(&tensor, read)[..2], [least, most]);
    }
    ends(DType::Int8, i8::MIN, i8::MAX, i8::from_le_bytes);
    ends(DType::Int16, i16::MIN, i16::MAX, i16::from_le_bytes);
    ends(DType::Int32, i32::MIN, i32::MAX, i32::from_le_bytes);
    ends(DType::Int64, i64::MIN, i64::MAX, i64::from_le_bytes);
    ends(DType::UInt8, u8::MIN, u8::MAX, u8::from_le_bytes);
    ends(DType::UInt16, u16::MIN, u16::MAX, u16::from_le_bytes);
    ends(DType::UInt32, u32::MIN, u32::MAX, u32::from_le_bytes);
    ends(DType::UInt64, u64::MIN, u64::MAX, u64::from_le_bytes);
}

#[test]
fn booleans_and_sixteen_bit_floats_are_read() {
    let tensor = one(DType::Bool, r#"{"inputs": [true, false, true]}"#);
    assert_eq!(items(&tensor, u8::from_le_bytes), [1, 0, 1]);
    for (dtype, format) in [(DType::Half, HALF), (DType::BFloat16, BFLOAT16)] {
        let tensor = one(dtype, r#"{"inputs": [1, -0.5, 0.1, 1e30, -Inf]}"#);
        let expected = [1.0, -0.5, 0.1, 1e30, f64::NEG_INFINITY].map(|value| narrow(value, format));
        assert_eq!(items(&tensor, u16::from_le_bytes), expected);
        assert!(widen(items(&one(dtype, r#"{"inputs": [-NaN]}"#), u16::from_le_bytes)[0], format).is_nan());
    }
}

#[test]
fn tokens_that_are_not_finite_are_read() {
    let tensor = one(DType::Double, r#"{"inputs": [NaN, -NaN, Inf, -Inf, Infinity, -Infinity, -0.0]}"#);
    let values = doubles(&tensor);
    assert!(values[0].is_nan() && values[1].is_nan());
    let infinity = f64::INFINITY;
    assert_eq!(values[2..], [infinity, -infinity, infinity, -infinity, 0.0]);
    assert!(values[6].is_sign_negative());
}

/// Reads `text`, once as it is and once with text behind it, as the standard library does.
fn reads_as_std<F: Float + std::str::FromStr + std::fmt::Debug + PartialEq>(text: &str) {
    let expected = text.parse::<F>().ok();
    for rest in ["", ",1111111111"] {
        match float::<F>(format!("{text}{rest}").as_bytes(), 0) {
            Ok((value, end)) => {
                assert_eq!(Some(value), expected, "{text}");
                assert_eq!(end, text.len());
            }
            Err(_) => assert!(text.parse::<f64>().unwrap().is_infinite(), "{text}"),
        }
    }
}

fn reads_in_both_widths(text: &str) {
    reads_as_std::<f32>(text);
    reads_as_std::<f64>(text);
}

#[test]
fn hard_numbers_are_read_to_the_nearest() {
    for text in [
        "0",
        "-0.0",
        "1",
        "16777217",
        "16777217.0000000001",
        "16777216.9999999999",
        "9007199254740993",
        "9007199254740993.00000000001",
        "0.1",
        "0.30000000000000004",
        "123456789012345678901234567890",
        "1e22",
        "1e23",
        "-8.5e-45",
        "7e-46",
        "3.4028235677973366e38",
        "3.4028236e38",
        "2.2250738585072011e-308",
        "4.9e-324",
        "2e-324",
        "1.7976931348623158e308",
        "0.000000000000000000000000000000000000000000000012345678901234567890123",
        "1e-400",
        "1e99999999999999999999",
        "0e99999999999999999999",
        "1e-99999999999999999999",
        "100000000000000000000000e-23",
        "9999999999999999999",
        "18446744073709551615",
        "18446744073709551616",
        "0.00000000000000000001844674407370955161",
    ] {
        reads_in_both_widths(text);
    }
}

/// As C would: `%g` with six digits, or with as many as the width needs; by way of the standard library.
fn written_by_std<F: Copy + std::fmt::LowerExp + std::str::FromStr + PartialEq>(value: F, digits: usize) -> String {
    let general = |digits: usize| {
        let text = format!("{value:.*e}", digits - 1);
        let (mantissa, exponent) = text.split_once('e').unwrap();
        let (sign, mantissa) = mantissa.strip_prefix('-').map_or(("", mantissa), |rest| ("-", rest));
        let exponent: i32 = exponent.parse().unwrap();
        let figures = mantissa.replace('.', "");
        if exponent < -4 || exponent >= digits as i32 {
            let figures = figures.trim_end_matches('0');
            let point = if figures.len() > 1 { "." } else { "" };
            let sign_of_power = if exponent < 0 { '-' } else { '+' };
            let power = exponent.abs();
            return format!("{sign}{}{point}{}e{sign_of_power}{power:02}", &figures[..1], &figures[1..]);
        }
        let places = (digits as i32 - 1 - exponent) as usize;
        let figures = format!("{}{figures}", "0".repeat((-exponent).max(0) as usize));
        let (whole, fraction) = figures.split_at(figures.len() - places);
        let fraction = fraction.trim_end_matches('0');
        format!("{sign}{whole}.{}", if fraction.is_empty() { "0" } else { fraction })
    };
    let six = general(6);
    if six.parse().ok() == Some(value) { six } else { general(digits) }
}

fn written<F: super::super::decimal::Real>(value: F) -> String {
    let mut out = Vec::new();
    write_float(&mut out, value);
    String::from_utf8(out).unwrap()
}

#[test]
fn ties_of_the_last_digit_go_to_even() {
    assert_eq!(written(1048576.0_f32 + 0.125), "1048576.12");
    assert_eq!(written(1048576.0_f32 + 0.375), "1048576.38");
    assert_eq!(written(-2251799813685249.5_f64), "-2251799813685249.5");
    assert_eq!(written(562949953421312.0_f64 + 0.125), "562949953421312.12");
    assert_eq!(written(562949953421312.0_f64 + 0.375), "562949953421312.38");
    assert_eq!(written(281474976710656.0_f64 + 0.0625), "281474976710656.06");
    assert_eq!(written(281474976710656.0_f64 + 0.1875), "281474976710656.19");
}

#[test]
fn powers_of_two_and_their_neighbours_are_written_as_by_c() {
    for power in -150..128_i32 {
        let bits = 2_f32.powi(power).to_bits();
        for value in (bits.saturating_sub(3)..bits + 4).map(f32::from_bits).filter(|value| *value != 0.0) {
            assert_eq!(written(value), written_by_std(value, 9));
        }
    }
    for power in -1074..1024 {
        let bits = 2_f64.powi(power).to_bits();
        for value in (bits.saturating_sub(1)..bits + 2).map(f64::from_bits).filter(|value| *value != 0.0) {
            assert_eq!(written(value), written_by_std(value, 17));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn decimals_are_read_to_the_nearest(
        negative: bool,
        whole in 0_u64..,
        shift in 0_u32..64,
        fraction in "(\\.[0-9]{1,30})?",
        power in proptest::option::of(-60_i32..60),
    ) {
        let sign = if negative { "-" } else { "" };
        let power = power.map_or(String::new(), |power| format!("E{power:+}"));
        reads_in_both_widths(&format!("{sign}{}{fraction}{power}", whole >> shift));
    }

    #[test]
    fn middles_between_floats_and_their_neighbours_are_read_to_the_nearest(bits in 0_u32..0x7F00_0000, more in 0_usize..4) {
        let middle = (f64::from(f32::from_bits(bits)) + f64::from(f32::from_bits(bits + 1))) / 2.0;
        for value in [middle, middle.next_down(), middle.next_up()] {
            reads_as_std::<f32>(&format!("{value:e}"));
            reads_as_std::<f32>(&format!("{value:.*e}", 17 + more));
        }
    }

    #[test]
    fn written_floats_are_as_by_c(bits: u32, few in -999_999_i32..1_000_000, places in 0_i32..12) {
        let any = f32::from_bits(bits);
        prop_assume!(any.is_finite() && any != 0.0);
        prop_assert_eq!(written(any), written_by_std(any, 9));
        let short = few as f32 / 10_f32.powi(places);
        prop_assert_eq!(written(short), if few == 0 { "0.0".into() } else { written_by_std(short, 9) });
    }

    #[test]
    fn written_doubles_are_as_by_c(bits: u64, few in -999_999_i32..1_000_000, places in 0_i32..12) {
        let any = f64::from_bits(bits);
        prop_assume!(any.is_finite() && any != 0.0);
        prop_assert_eq!(written(any), written_by_std(any, 17));
        let short = f64::from(few) / 10_f64.powi(places);
        prop_assert_eq!(written(short), if few == 0 { "0.0".into() } else { written_by_std(short, 17) });
    }
}
