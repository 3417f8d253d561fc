//! Powers and roots: |x|^y = e^(y log |x|) with the logarithm and the product in two doubles, since a relative
//! error of the exponent counts up to 745 times.

use super::exp::{exp_parts, power_of_two, scaled};
use super::log::log_pair;
use super::pair::{Pair, product};
use crate::exp::exp2_narrow;
use crate::export;
use crate::log::log2_narrow;

/// e^(y log x) for x >= 0, NaN where 0 · ∞ appears in the exponent.
#[inline(always)]
fn power(x: f64, y: Pair) -> f64 {
    let log = log_pair(x);
    let main = product(log.hi, y.hi);
    let lo = main.lo + (log.lo * y.hi + log.hi * y.lo);
    // An infinite exponent has no second part.
    let lo = if lo.is_finite() { lo } else { 0.0 };
    let (m, k) = exp_parts(Pair { hi: main.hi, lo });
    scaled(m, k)
}

#[inline(always)]
fn single(y: f64) -> Pair {
    Pair { hi: y, lo: 0.0 }
}

/// Whether y is an odd integer.
#[inline(always)]
fn is_odd(y: f64) -> bool {
    let half = 0.5 * y;
    y.trunc() == y && half.trunc() != half
}

#[inline(always)]
fn pow(x: f64, y: f64) -> f64 {
    let size = power(x.abs(), single(y));
    let signed = if x.is_sign_negative() && is_odd(y) { -size } else { size };
    // A negative base needs an integer exponent, unless it is 0 or ∞.
    let defined = x >= 0.0 || y.trunc() == y || x == f64::NEG_INFINITY || x == 0.0;
    let value = if defined { signed } else { f64::NAN };
    // 1 to any power and anything to the power 0, even NaN; -1 to an infinite power.
    if x == 1.0 || y == 0.0 || (x == -1.0 && y.is_infinite()) { 1.0 } else { value }
}

/// pow for x >= 0, which is undefined at 0^0, ∞^0 and 1^∞.
#[inline(always)]
fn powr(x: f64, y: f64) -> f64 {
    let value = power(x.abs(), single(y));
    let value = if x < 0.0 || x.is_nan() || y.is_nan() { f64::NAN } else { value };
    if (x == 0.0 || x == f64::INFINITY) && y == 0.0 { f64::NAN } else { value }
}

#[inline(always)]
fn pown(x: f64, n: i32) -> f64 {
    let size = power(x.abs(), single(n.into()));
    let signed = if x.is_sign_negative() && n & 1 == 1 { -size } else { size };
    if n == 0 { 1.0 } else { signed }
}

/// The n-th root; of negative numbers only for odd n.
#[inline(always)]
fn rootn(x: f64, n: i32) -> f64 {
    let degree = f64::from(n);
    let inverse = 1.0 / degree;
    let lost = (-inverse).mul_add(degree, 1.0) / degree;
    let size = power(x.abs(), Pair { hi: inverse, lo: lost });
    let odd = n & 1 == 1;
    let signed = if x.is_sign_negative() && odd { -size } else { size };
    if n == 0 || (x < 0.0 && !odd) { f64::NAN } else { signed }
}

/// Newton's step from a root that is good to 2^-43.
#[inline(always)]
fn cbrt(x: f64) -> f64 {
    const LIFT: f64 = 18014398509481984.0;
    let small = x.abs() < f64::MIN_POSITIVE;
    let size = if small { x.abs() * LIFT } else { x.abs() };
    let first = exp2_narrow(log2_narrow(size) / 3.0);
    let square = first * first;
    let root = first - first.mul_add(square, -size) / (3.0 * square);
    let root = if small { root * (1.0 / 262144.0) } else { root };
    if x == 0.0 || !x.is_finite() { x } else { root.copysign(x) }
}

/// √(x² + y²) after scaling the larger one near 1; infinity beats NaN.
#[inline(always)]
fn hypot(x: f64, y: f64) -> f64 {
    let (a, b) = (x.abs(), y.abs());
    let larger = if a > b { a } else { b };
    let field = (larger.to_bits() >> 52) as i32;
    // The inverse power must be a normal number.
    let field = if field < 1 { 1 } else { field };
    let exponent = (if field > 2045 { 2045 } else { field }) - 1023;
    let scale = power_of_two(-exponent);
    let (a, b) = (a * scale, b * scale);
    let value = a.mul_add(a, b * b).sqrt() * power_of_two(exponent);
    if x.is_infinite() || y.is_infinite() { f64::INFINITY } else { value }
}

export! {
    /// pow; 16 ULP allowed.
    spirula_pow_f64(x: f64, y: f64) -> f64 = pow(x, y);
    /// powr; 16 ULP allowed.
    spirula_powr_f64(x: f64, y: f64) -> f64 = powr(x, y);
    /// pown; 16 ULP allowed.
    spirula_pown_f64(x: f64, n: i32) -> f64 = pown(x, n);
    /// rootn; 16 ULP allowed.
    spirula_rootn_f64(x: f64, n: i32) -> f64 = rootn(x, n);
    /// cbrt; 2 ULP allowed.
    spirula_cbrt_f64(x: f64) -> f64 = cbrt(x);
    /// hypot; 4 ULP allowed.
    spirula_hypot_f64(x: f64, y: f64) -> f64 = hypot(x, y);
}
