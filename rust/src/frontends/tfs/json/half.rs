//! The two formats of sixteen bits: IEEE half and bfloat16.

/// How many of the sixteen bits are exponent and fraction.
#[derive(Clone, Copy)]
pub(super) struct Format {
    exponent: u32,
    fraction: u32,
}

pub(super) const HALF: Format = Format { exponent: 5, fraction: 10 };
pub(super) const BFLOAT16: Format = Format { exponent: 8, fraction: 7 };

/// The nearest value of the format, ties to even, beyond its range infinite.
pub(super) fn narrow(value: f64, format: Format) -> u16 {
    let Format { exponent, fraction } = format;
    let bias = (1_i32 << (exponent - 1)) - 1;
    let infinity = ((1_u64 << exponent) - 1) << fraction;
    let power = ((value.to_bits() >> 52) & 0x7FF) as i32 - 1023;
    let magnitude = if value.is_nan() {
        infinity | 1 << (fraction - 1)
    } else if power > bias {
        infinity
    } else {
        let (normal, power) = (power > -bias, power.max(1 - bias));
        // The value counted in steps of the format at this power of two: exact but for the rounding.
        let steps = value.abs() * f64::from_bits(((1023 - power + fraction as i32) as u64) << 52);
        let below = if normal { ((power + bias - 1) as u64) << fraction } else { 0 };
        (below + steps.round_ties_even() as u64).min(infinity)
    };
    magnitude as u16 | ((value.to_bits() >> 48) as u16 & 0x8000)
}

/// The same value as a float.
pub(super) fn widen(bits: u16, format: Format) -> f32 {
    let Format { exponent, fraction } = format;
    if exponent == 8 {
        return f32::from_bits(u32::from(bits) << 16);
    }
    let power = u32::from(bits >> fraction) & ((1 << exponent) - 1);
    let rest = u32::from(bits) & ((1 << fraction) - 1);
    let magnitude = match power {
        0 => rest as f32 * f32::from_bits((127 - 24) << 23),
        31 => f32::from_bits(0x7F80_0000 | rest << 13),
        _ => f32::from_bits((power + 127 - 15) << 23 | rest << 13),
    };
    if bits & 0x8000 == 0 { magnitude } else { -magnitude }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_survives_widening() {
        for format in [HALF, BFLOAT16] {
            for bits in 0..=u16::MAX {
                let wide = widen(bits, format);
                let back = narrow(f64::from(wide), format);
                assert!(back == bits || (wide.is_nan() && widen(back, format).is_nan()), "{bits:#x} {wide} {back:#x}");
            }
        }
    }

    #[test]
    fn values_between_go_to_the_nearer_and_ties_to_even() {
        for format in [HALF, BFLOAT16] {
            let infinity = narrow(f64::INFINITY, format);
            for bits in 0..infinity - 1 {
                let (low, high) = (f64::from(widen(bits, format)), f64::from(widen(bits + 1, format)));
                let middle = (low + high) / 2.0;
                assert_eq!(narrow(middle, format), bits + (bits & 1));
                assert_eq!(narrow(middle.next_down(), format), bits);
                assert_eq!(narrow(-middle.next_up(), format), (bits + 1) | 0x8000);
            }
        }
        assert_eq!(narrow(1.0, HALF), 0x3C00);
        assert_eq!(narrow(1.0, BFLOAT16), 0x3F80);
        assert_eq!(narrow(65519.0, HALF), 0x7BFF);
        assert_eq!(narrow(65520.0, HALF), 0x7C00);
        assert_eq!(narrow(-1e300, BFLOAT16), 0xFF80);
        assert_eq!(narrow(5e-324, BFLOAT16), 0);
    }
}
