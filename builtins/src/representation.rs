//! Functions of a number's representation: exponents, mantissas, neighbours. Exact.

use crate::export;

/// One width's functions; they are the same but for the constants.
macro_rules! representation {
    ($module:ident, $float:ty, $bits:ty, $signed:ty, $mantissa:expr, $bias:expr) => {
        mod $module {
            const SIGN: $bits = 1 << (<$bits>::BITS - 1);
            /// 2^64, which makes every denormal number normal.
            const LIFT: $float = 18446744073709551616.0;

            /// A number in the same binade that is normal, and what was added to its exponent.
            #[inline(always)]
            fn lifted(x: $float) -> ($float, i32) {
                if x.abs() < <$float>::MIN_POSITIVE { (x * LIFT, 64) } else { (x, 0) }
            }

            #[inline(always)]
            fn field(x: $float) -> i32 {
                ((x.to_bits() & !SIGN) >> $mantissa) as i32
            }

            /// The exponent of a finite number other than 0.
            #[inline(always)]
            fn exponent(x: $float) -> i32 {
                let (normal, lift) = lifted(x);
                field(normal) - $bias - lift
            }

            #[inline(always)]
            fn is_ordinary(x: $float) -> bool {
                x != 0.0 && x.is_finite()
            }

            #[inline(always)]
            pub fn frexp(x: $float) -> $float {
                let (normal, _) = lifted(x);
                let cleared = normal.to_bits() & (SIGN | ((1 << $mantissa) - 1));
                let half = <$float>::from_bits(cleared | (($bias - 1) as $bits) << $mantissa);
                if is_ordinary(x) { half } else { x }
            }

            #[inline(always)]
            pub fn frexp_exponent(x: $float) -> i32 {
                if is_ordinary(x) { exponent(x) + 1 } else { 0 }
            }

            #[inline(always)]
            pub fn ilogb(x: $float) -> i32 {
                let special = if x == 0.0 { i32::MIN } else { i32::MAX };
                if is_ordinary(x) { exponent(x) } else { special }
            }

            #[inline(always)]
            pub fn logb(x: $float) -> $float {
                let special = if x == 0.0 { <$float>::NEG_INFINITY } else { x * x };
                if is_ordinary(x) { exponent(x) as $float } else { special }
            }

            /// x 2^n, rounded once: to the nearest normal exponent first, which is exact, then the rest.
            #[inline(always)]
            pub fn ldexp(x: $float, n: i32) -> $float {
                let power = |e: i32| <$float>::from_bits(((e + $bias) as $bits) << $mantissa);
                let wanted = exponent(x).saturating_add(n);
                let near = wanted.clamp(1 - $bias, $bias);
                let rest = (wanted.saturating_sub(near)).clamp(-($mantissa + 4), 1);
                let cleared = lifted(x).0.to_bits() & (SIGN | ((1 << $mantissa) - 1));
                let unit = <$float>::from_bits(cleared | ($bias as $bits) << $mantissa);
                if is_ordinary(x) { unit * power(near) * power(rest) } else { x }
            }

            #[inline(always)]
            pub fn nextafter(x: $float, y: $float) -> $float {
                let bits = x.to_bits() as $signed;
                let outwards = (x < y) == (x > 0.0);
                let next = <$float>::from_bits(
                    (if outwards { bits.wrapping_add(1) } else { bits.wrapping_sub(1) }) as $bits,
                );
                let smallest = <$float>::from_bits((y.to_bits() & SIGN) | 1);
                let moved = if x == 0.0 { smallest } else { next };
                let value = if x == y { y } else { moved };
                if x.is_nan() || y.is_nan() { x + y } else { value }
            }
        }
    };
}

representation!(single, f32, u32, i32, 23, 127);
representation!(double, f64, u64, i64, 52, 1023);

export! {
    /// frexp's mantissa.
    spirula_frexp_f32(x: f32) -> f32 = single::frexp(x);
    /// frexp's mantissa.
    spirula_frexp_f64(x: f64) -> f64 = double::frexp(x);
    /// frexp's exponent.
    spirula_frexp_exponent_f32(x: f32) -> i32 = single::frexp_exponent(x);
    /// frexp's exponent.
    spirula_frexp_exponent_f64(x: f64) -> i32 = double::frexp_exponent(x);
    /// ilogb; FP_ILOGB0 is INT_MIN and FP_ILOGBNAN INT_MAX, as in the headers of clang.
    spirula_ilogb_f32(x: f32) -> i32 = single::ilogb(x);
    /// ilogb.
    spirula_ilogb_f64(x: f64) -> i32 = double::ilogb(x);
    /// logb.
    spirula_logb_f32(x: f32) -> f32 = single::logb(x);
    /// logb.
    spirula_logb_f64(x: f64) -> f64 = double::logb(x);
    /// ldexp; correctly rounded.
    spirula_ldexp_f32(x: f32, n: i32) -> f32 = single::ldexp(x, n);
    /// ldexp; correctly rounded.
    spirula_ldexp_f64(x: f64, n: i32) -> f64 = double::ldexp(x, n);
    /// nextafter.
    spirula_nextafter_f32(x: f32, y: f32) -> f32 = single::nextafter(x, y);
    /// nextafter.
    spirula_nextafter_f64(x: f64, y: f64) -> f64 = double::nextafter(x, y);
}
