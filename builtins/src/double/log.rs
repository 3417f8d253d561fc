//! Logarithms: x = 2^k m with m in [√½, √2); log m = 2 atanh(s), s = f / (2 + f), f = m - 1. Written as f - f²/2 + s
//! (f²/2 + R), the large part f is exact (the arrangement is that of Sun's fdlibm, e_log.c).

use super::pair::{Pair, ordered_sum, product, sum};
use super::table;
use crate::export;
use crate::log::{special, split_lifted};
use crate::multiply_add::MultiplyAdd;
use crate::polynomial::polynomial;
use crate::reciprocal::reciprocal;
use std::f64::consts::{LOG2_E, LOG10_E};
use std::hint::select_unpredictable;

/// ln 2 in 42 bits, whose product with an exponent is exact, and the rest.
pub(super) const LN_2_HIGH: f64 = 0.6931471805598903;
pub(super) const LN_2_LOW: f64 = 5.497923018708371e-14;
/// log10 2 likewise.
pub(super) const LOG10_2_HIGH: f64 = 0.30102999566395283;
pub(super) const LOG10_2_LOW: f64 = 2.8363394551044964e-14;
/// 1 / ln 2 - LOG2_E.
pub(super) const LOG2_E_REST: f64 = 2.0355273740931033e-17;
/// 2/3 in two doubles.
const TWO_THIRDS: Pair = Pair { hi: 0.6666666666666666, lo: 3.700743415417188e-17 };

/// (2 atanh(s) / s - 2) / s² over s² for |s| <= 0.1717; error 2^-58 / s².
const ATANH: [f64; 7] = [
    0.6666666666666735,
    0.3999999999941313,
    0.28571428742765953,
    0.22222198531143728,
    0.18183566668532722,
    0.15313986793780102,
    0.14796624275345457,
];

/// The same without its first term 2/3 and divided by s² once more; error 2^-65 / s⁴.
const ATANH_TAIL: [f64; 7] = [
    0.4000000000000226,
    0.28571428570096524,
    0.22222222520486956,
    0.18181784316148633,
    0.15386759749989337,
    0.13256759864127665,
    0.13196879677449286,
];

/// k and m of a positive number, denormal ones too.
#[inline(always)]
fn parts(x: f64) -> (f64, f64) {
    let (x, lift) = lifted(x);
    split_lifted(x, lift)
}

/// A positive number or, if that is denormal, its product with a power of two, and the power's exponent.
#[inline(always)]
fn lifted(x: f64) -> (f64, f64) {
    const LIFT: f64 = 18014398509481984.0;
    let small = x < f64::MIN_POSITIVE;
    (if small { x * LIFT } else { x }, if small { 54.0 } else { 0.0 })
}

/// Whether a number is normal and positive: of a test for denormal ones as well LLVM makes several.
#[inline(always)]
pub(super) fn is_positive_normal(x: f64) -> bool {
    const LEAST: u64 = f64::MIN_POSITIVE.to_bits();
    x.to_bits().wrapping_sub(LEAST) < f64::INFINITY.to_bits() - LEAST
}

/// log(1 + f) - f.
#[inline(always)]
fn rest(f: f64) -> f64 {
    let s = f * reciprocal(2.0 + f);
    let half_square = 0.5 * f * f;
    let z = s * s;
    s.mad(z.mad(polynomial(z, ATANH), half_square), -half_square)
}

#[inline(always)]
pub(super) fn log(x: f64) -> f64 {
    quick_or_any(x, table::log, log_of_any)
}

/// A logarithm by table where that is quick and x a positive normal number.
#[inline(always)]
fn quick_or_any(x: f64, quick: impl Fn(f64) -> f64, any: impl Fn(f64) -> f64) -> f64 {
    if !table::is_quick() {
        return any(x);
    }
    // Only rare numbers take the branch.
    let is_common = is_positive_normal(x);
    let rare = if is_common { 0.0 } else { any(x) };
    select_unpredictable(is_common, quick(x), rare)
}

#[inline(always)]
fn log_of_any(x: f64) -> f64 {
    let (k, m) = parts(x);
    let f = m - 1.0;
    special(x, k.mad(LN_2_HIGH, f + k.mad(LN_2_LOW, rest(f))))
}

#[inline(always)]
fn log2(x: f64) -> f64 {
    quick_or_any(x, table::log2, log2_of_any)
}

#[inline(always)]
fn log2_of_any(x: f64) -> f64 {
    let (k, m) = parts(x);
    let f = m - 1.0;
    let main = product(f, LOG2_E);
    let small = rest(f).mad(LOG2_E, f.mad(LOG2_E_REST, main.lo));
    special(x, k + (main.hi + small))
}

#[inline(always)]
fn log10(x: f64) -> f64 {
    quick_or_any(x, table::log10, log10_of_any)
}

#[inline(always)]
fn log10_of_any(x: f64) -> f64 {
    let (k, m) = parts(x);
    let f = m - 1.0;
    let main = product(f, LOG10_E);
    let small = k.mad(LOG10_2_LOW, rest(f).mad(LOG10_E, main.lo));
    special(x, k.mad(LOG10_2_HIGH, main.hi + small))
}

#[inline(always)]
fn log1p(x: f64) -> f64 {
    let result = log1p_of_sum(x, 0.0, 0.0).copysign(x);
    let result = select_unpredictable(x == -1.0, f64::NEG_INFINITY, result);
    select_unpredictable(x < -1.0, f64::NAN, result)
}

/// log(1 + x + low) + `doublings` ln 2 for x > -1, for a `low` below the last bit of x. While 1 + x is near 1, x itself is f; what a sum misses
/// counts by the logarithm's derivative.
#[inline(always)]
pub(crate) fn log1p_of_sum(x: f64, low: f64, doublings: f64) -> f64 {
    let u = sum(1.0, x);
    if table::is_quick() {
        let result = table::log_of_sum(Pair { hi: u.hi, lo: u.lo + low }, doublings);
        return select_unpredictable(x <= f64::MAX, result, x);
    }
    let (k, m) = split_lifted(u.hi, 0.0);
    let is_near = k == 0.0;
    let f = select_unpredictable(is_near, x, m - 1.0);
    let lost = (low + select_unpredictable(is_near, 0.0, u.lo)) * reciprocal(u.hi);
    let k = k + doublings;
    let result = k.mad(LN_2_HIGH, f + (rest(f) + k.mad(LN_2_LOW, lost)));
    select_unpredictable(x <= f64::MAX, result, x)
}

/// log(x) to 2^-61 or better; what others than finite positive numbers have as logarithm is in `hi`.
#[inline(always)]
pub(super) fn log_pair(x: f64) -> Pair {
    let log = log_sum_of_positive(x);
    let Pair { hi, lo } = ordered_sum(log.hi, log.lo);
    Pair { hi: special(x, hi), lo }
}

/// log(x) of a finite positive number to 2^-61 or better, whose second part may have a few bits of the first.
#[inline(always)]
pub(super) fn log_sum_of_positive(x: f64) -> Pair {
    if table::is_quick() {
        return table::log_sum_of_positive(lifted(x));
    }
    let (k, m) = parts(x);
    // s = f / (2 + f) = hi + lo, by one division, which the many steps around it hide. What it leaves is rounded once: 2 hi is near f.
    let f = m - 1.0;
    let inverse = 1.0 / (2.0 + f);
    let hi = f * inverse;
    let lo = (-hi).fused(f, (-2.0f64).mad(hi, f)) * inverse;
    // log m = 2 s + s³ (2/3 + s² ...), of which the second is below a hundredth: its parts may be rounded to 2^-55 of them.
    let square = product(hi, hi);
    let tail = polynomial(square.hi, ATANH_TAIL);
    let factor = square.hi.mad(tail, TWO_THIRDS.hi);
    let factor_lost = square.hi.mad(tail, TWO_THIRDS.hi - factor) + TWO_THIRDS.lo;
    let cube = product(hi, square.hi);
    let cube_lost = hi.mad(square.lo, cube.lo);
    let cubic = product(cube.hi, factor);
    let cubic_lost = cube.hi.mad(factor_lost, cube_lost.mad(factor, cubic.lo));
    // (What s misses counts by the derivative, 2 / (1 - s²).)
    let double_lost = lo + lo;
    let main = ordered_sum(hi + hi, cubic.hi);
    let small = main.lo + (cubic_lost + double_lost.mad(square.hi, double_lost));
    // The product is exact.
    let value = k.mad(LN_2_HIGH, main.hi);
    let value_lost = main.hi + k.mad(LN_2_HIGH, -value);
    Pair { hi: value, lo: value_lost + k.mad(LN_2_LOW, small) }
}

export! {
    /// log; 3 ULP allowed.
    spirula_log_f64(x: f64) -> f64 = log(x);
    /// log2; 3 ULP allowed.
    spirula_log2_f64(x: f64) -> f64 = log2(x);
    /// log10; 3 ULP allowed.
    spirula_log10_f64(x: f64) -> f64 = log10(x);
    /// log1p; 2 ULP allowed.
    spirula_log1p_f64(x: f64) -> f64 = log1p(x);
}
