//! fmod, remainder and remquo: exact. A quotient of less bits than the mantissa comes from one division; where it has
//! more, long division in integers first takes multiples of 128 y from x, which leave the result and what remquo
//! stores of the quotient as they are.

use crate::export;

/// One width's functions; they are the same but for the constants.
macro_rules! modulo {
    ($module:ident, $float:ty, $bits:ty) => {
        mod $module {
            use crate::multiply_add::MultiplyAdd;

            /// Quotients below are good to less than 1/2, with a bit to spare.
            const LIMIT: $float = 0.5 / <$float>::EPSILON;
            const SIGN: $bits = 1 << (<$bits>::BITS - 1);

            /// |x| without multiples of 128 |y|, |y|, and their quotient below the limit.
            #[inline(always)]
            fn reduced(x: $float, y: $float) -> ($float, $float, $float) {
                let (x, y) = (x.abs(), y.abs());
                let quotient = x / y;
                if quotient >= LIMIT {
                    let x = super::long_division(x.into(), 128.0 * f64::from(y)) as $float;
                    return (x, y, x / y);
                }
                (x, y, quotient)
            }

            /// The result for an ordinary y; a finite x is its own rest for an infinite one.
            #[inline(always)]
            fn chosen(x: $float, y: $float, rest: $float) -> $float {
                let whole = (y.abs() > <$float>::MAX) & (x.abs() <= <$float>::MAX);
                let rest = <$float>::from_bits(rest.to_bits() ^ (x.to_bits() & SIGN));
                if whole { x } else { rest }
            }

            /// x - n y, which is exact.
            #[inline(always)]
            fn left(x: $float, n: $float, y: $float) -> $float {
                if cfg!(feature = "unfused") {
                    // (The product may be beyond the largest number, half of it isn't.)
                    let (half, two) = if x > 1.0 { (0.5, 2.0) } else { (1.0, 1.0) };
                    return (-n).fused(half * y, half * x) * two;
                }
                (-n).fused(y, x)
            }

            /// x - n y with n = x / y cut. The rounded quotient may be one too large; the products are exact.
            #[inline(always)]
            pub fn fmod(x: $float, y: $float) -> $float {
                let (size, divisor, quotient) = reduced(x, y);
                let rest = left(size, quotient.trunc(), divisor);
                let more = rest + divisor;
                chosen(x, y, if rest < 0.0 { more } else { rest })
            }

            /// x - n y with n = x / y rounded to the nearest, and n's low seven bits with the quotient's sign.
            #[inline(always)]
            pub fn remquo(x: $float, y: $float) -> ($float, i32) {
                let (size, divisor, quotient) = reduced(x, y);
                let n = quotient.round_ties_even();
                let rest = left(size, n, divisor);
                let low = (n + 2.0 * LIMIT).to_bits();
                // The rounded quotient may have come to the wrong side of a half.
                let twice = 2.0 * rest.abs();
                let wrong = (twice > divisor) | ((twice == divisor) & (low & 1 == 1));
                let other = rest - divisor.copysign(rest);
                let step = if rest < 0.0 { -1 } else { 1 };
                let count = (low as i32 & 0x7F) + if wrong { step } else { 0 };
                let count = if rest.is_nan() { 0 } else { count & 0x7F };
                let negative = x.is_sign_negative() != y.is_sign_negative();
                let rest = if wrong { other } else { rest };
                (chosen(x, y, rest), if negative { -count } else { count })
            }
        }
    };
}

modulo!(single, f32, u32);
modulo!(double, f64, u64);

/// x mod y, some bits of the quotient at a time, for x > y. NaN for an infinite x, and y = 0.
#[cold]
#[inline(never)]
fn long_division(x: f64, y: f64) -> f64 {
    let ((mut rest, high), (divisor, low)) = (decompose(x), decompose(y));
    if divisor == 0 || x == f64::INFINITY {
        return f64::NAN;
    }
    let mut left = high - low;
    rest %= divisor;
    while left > 0 {
        let step = if left < 11 { left } else { 11 };
        rest = (rest << step) % divisor;
        left -= step;
    }
    // rest * 2^low, in two exact steps.
    let scale = |e: i32| f64::from_bits(((e + 1023) as u64) << 52);
    let half = low / 2;
    rest as f64 * scale(half) * scale(low - half)
}

/// x = mantissa * 2^exponent.
#[inline(always)]
fn decompose(x: f64) -> (u64, i32) {
    let bits = x.to_bits();
    let field = (bits >> 52) as i32 & 0x7FF;
    let fraction = bits & ((1 << 52) - 1);
    if field == 0 { (fraction, -1074) } else { (fraction | 1 << 52, field - 1075) }
}

export! {
    /// fmod; exact.
    spirula_fmod_f32(x: f32, y: f32) -> f32 = single::fmod(x, y);
    /// fmod; exact.
    spirula_fmod_f64(x: f64, y: f64) -> f64 = double::fmod(x, y);
    /// remainder; exact.
    spirula_remainder_f32(x: f32, y: f32) -> f32 = single::remquo(x, y).0;
    /// remainder; exact.
    spirula_remainder_f64(x: f64, y: f64) -> f64 = double::remquo(x, y).0;
    /// What remquo stores.
    spirula_quotient_f32(x: f32, y: f32) -> i32 = single::remquo(x, y).1;
    /// What remquo stores.
    spirula_quotient_f64(x: f64, y: f64) -> i32 = double::remquo(x, y).1;
}
