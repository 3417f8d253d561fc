//! fmod, remainder and remquo: exact. One division gives the quotient while it has less bits than double's
//! mantissa; the rare rest is long division in integers.

use crate::export;

/// |x| mod |y| and the quotient's low bits, for finite x and y other than 0.
#[inline(always)]
fn modulo(x: f64, y: f64) -> (f64, u64) {
    let quotient = (x / y).trunc();
    if quotient < 4503599627370496.0 {
        // The quotient may be one too large; the products are exact.
        let rest = (-quotient).mul_add(y, x);
        let over = rest < 0.0;
        let rest = if over { rest + y } else { rest };
        let quotient = if over { quotient - 1.0 } else { quotient };
        (rest, (quotient + 4503599627370496.0).to_bits())
    } else {
        long_division(x, y)
    }
}

/// The same for any quotient, some bits at a time.
#[cold]
#[inline(never)]
fn long_division(x: f64, y: f64) -> (f64, u64) {
    let ((mut rest, high), (divisor, low)) = (decompose(x), decompose(y));
    // y is not 0; said so that the compiler leaves out the check.
    let divisor = if divisor == 0 { 1 } else { divisor };
    let (mut left, mut quotient) = (high - low, 0u64);
    quotient = quotient.wrapping_add(rest / divisor);
    rest %= divisor;
    while left > 0 {
        let step = if left < 11 { left } else { 11 };
        rest <<= step;
        quotient = (quotient << step).wrapping_add(rest / divisor);
        rest %= divisor;
        left -= step;
    }
    // rest * 2^low, in two exact steps.
    let scale = |e: i32| f64::from_bits(((e + 1023) as u64) << 52);
    let half = low / 2;
    (rest as f64 * scale(half) * scale(low - half), quotient)
}

/// x = mantissa * 2^exponent.
#[inline(always)]
fn decompose(x: f64) -> (u64, i32) {
    let bits = x.to_bits();
    let field = (bits >> 52) as i32 & 0x7FF;
    let fraction = bits & ((1 << 52) - 1);
    if field == 0 { (fraction, -1074) } else { (fraction | 1 << 52, field - 1075) }
}

/// x - n y with n = x / y cut.
#[inline(always)]
fn fmod(x: f64, y: f64) -> f64 {
    let valid = x.is_finite() && y != 0.0 && !y.is_nan();
    let ordinary = valid && y.is_finite();
    let (rest, _) = modulo(if ordinary { x.abs() } else { 0.0 }, if ordinary { y.abs() } else { 1.0 });
    let value = if ordinary { rest.copysign(x) } else { x };
    if valid { value } else { f64::NAN }
}

/// x - n y with n = x / y rounded to the nearest, and n's low seven bits with the quotient's sign.
#[inline(always)]
fn remquo(x: f64, y: f64) -> (f64, i32) {
    let valid = x.is_finite() && y != 0.0 && !y.is_nan();
    let ordinary = valid && y.is_finite();
    let divisor = if ordinary { y.abs() } else { 1.0 };
    let (rest, quotient) = modulo(if ordinary { x.abs() } else { 0.0 }, divisor);
    // More than half the divisor, or half with an odd quotient: rest - y is exact there.
    let complement = divisor - rest;
    let up = rest > complement || (rest == complement && quotient & 1 == 1);
    let size = if up { -complement } else { rest };
    let count = (if up { quotient.wrapping_add(1) } else { quotient } & 0x7F) as i32;
    let signed = f64::from_bits(size.to_bits() ^ (x.to_bits() & (1 << 63)));
    let value = if ordinary { signed } else { x };
    let count = if x.is_sign_negative() != y.is_sign_negative() { -count } else { count };
    (if valid { value } else { f64::NAN }, if ordinary { count } else { 0 })
}

export! {
    /// fmod; exact.
    spirula_fmod_f32(x: f32, y: f32) -> f32 = fmod(x.into(), y.into()) as f32;
    /// fmod; exact.
    spirula_fmod_f64(x: f64, y: f64) -> f64 = fmod(x, y);
    /// remainder; exact.
    spirula_remainder_f32(x: f32, y: f32) -> f32 = remquo(x.into(), y.into()).0 as f32;
    /// remainder; exact.
    spirula_remainder_f64(x: f64, y: f64) -> f64 = remquo(x, y).0;
    /// What remquo stores.
    spirula_quotient_f32(x: f32, y: f32) -> i32 = remquo(x.into(), y.into()).1;
    /// What remquo stores.
    spirula_quotient_f64(x: f64, y: f64) -> i32 = remquo(x, y).1;
}
