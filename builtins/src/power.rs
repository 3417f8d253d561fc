//! Powers and roots: |x|^y = 2^(y log2 |x|), then the signs and special values of 7.5.1 of the specification.

use crate::exp::exp2_narrow;
use crate::export;
use crate::log::log2_narrow;

/// |x|^y, NaN where 0 · ∞ appears in the exponent.
#[inline(always)]
fn power_narrow(x: f64, y: f64) -> f64 {
    exp2_narrow(y * log2_narrow(x.abs()))
}

/// Whether y is an odd integer.
#[inline(always)]
fn is_odd(y: f32) -> bool {
    let half = 0.5 * y;
    y.trunc() == y && half.trunc() != half
}

#[inline(always)]
fn pow(x: f32, y: f32) -> f32 {
    let size = power_narrow(x.into(), y.into()) as f32;
    let signed = if x.is_sign_negative() && is_odd(y) { -size } else { size };
    // A negative base needs an integer exponent, unless it is 0 or ∞.
    let defined = x >= 0.0 || y.trunc() == y || x == f32::NEG_INFINITY || x == 0.0;
    let value = if defined { signed } else { f32::NAN };
    // 1 to any power and anything to the power 0, even NaN; -1 to an infinite power.
    if x == 1.0 || y == 0.0 || (x == -1.0 && y.is_infinite()) { 1.0 } else { value }
}

/// pow for x >= 0, which is undefined at 0^0, ∞^0 and 1^∞.
#[inline(always)]
fn powr(x: f32, y: f32) -> f32 {
    let value = power_narrow(x.into(), y.into()) as f32;
    let value = if x < 0.0 || x.is_nan() || y.is_nan() { f32::NAN } else { value };
    // log2 1 is a true zero, so only an infinite exponent makes it NaN; finite ones have 1^y = 1 and x^0 = 1.
    if (x == 0.0 || x == f32::INFINITY) && y == 0.0 { f32::NAN } else { value }
}

#[inline(always)]
fn pown(x: f32, n: i32) -> f32 {
    let size = power_narrow(x.into(), n.into()) as f32;
    let signed = if x.is_sign_negative() && n & 1 == 1 { -size } else { size };
    if n == 0 { 1.0 } else { signed }
}

/// The n-th root; of negative numbers only for odd n.
#[inline(always)]
fn rootn(x: f32, n: i32) -> f32 {
    let size = exp2_narrow(log2_narrow(f64::from(x).abs()) / f64::from(n)) as f32;
    let odd = n & 1 == 1;
    let signed = if x.is_sign_negative() && odd { -size } else { size };
    if n == 0 || (x < 0.0 && !odd) { f32::NAN } else { signed }
}

/// A third of the bits is the root to 4%; two of Halley's steps, each of which cubes the error, do the rest in float.
#[inline(always)]
fn cbrt(x: f32) -> f32 {
    // Away from both ends of the range, by a power of eight.
    let small = x.abs() < 1e-15;
    let large = x.abs() > 1e15;
    const UP: f32 = 4722366482869645213696.0;
    const ROOT_UP: f32 = 16777216.0;
    let size = x.abs() * if small { UP } else { 1.0 } * if large { 1.0 / UP } else { 1.0 };
    let guess = f32::from_bits(size.to_bits() / 3 + 709_958_130);
    let step = |root: f32| {
        let square = root * root;
        let cube = square * root;
        root - root * square.mul_add(root, -size) / (2.0 * cube + size)
    };
    let root =
        step(step(guess)) * if small { 1.0 / ROOT_UP } else { 1.0 } * if large { ROOT_UP } else { 1.0 };
    if x == 0.0 || !x.is_finite() { x } else { root.copysign(x) }
}

/// √(x² + y²), which can't overflow in double; infinity beats NaN.
#[inline(always)]
fn hypot(x: f32, y: f32) -> f32 {
    let (a, b) = (f64::from(x), f64::from(y));
    let value = a.mul_add(a, b * b).sqrt() as f32;
    if x.is_infinite() || y.is_infinite() { f32::INFINITY } else { value }
}

export! {
    /// pow; 16 ULP allowed.
    spirula_pow_f32(x: f32, y: f32) -> f32 = pow(x, y);
    /// powr; 16 ULP allowed.
    spirula_powr_f32(x: f32, y: f32) -> f32 = powr(x, y);
    /// pown; 16 ULP allowed.
    spirula_pown_f32(x: f32, n: i32) -> f32 = pown(x, n);
    /// rootn; 16 ULP allowed.
    spirula_rootn_f32(x: f32, n: i32) -> f32 = rootn(x, n);
    /// cbrt; 2 ULP allowed.
    spirula_cbrt_f32(x: f32) -> f32 = cbrt(x);
    /// hypot; 4 ULP allowed.
    spirula_hypot_f32(x: f32, y: f32) -> f32 = hypot(x, y);
}
