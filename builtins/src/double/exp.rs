//! Exponentials: e^x = 2^k e^r with k the nearest integer to x / ln 2, which leaves |r| <= 0.35 for a polynomial.

use super::log::{LN_2_HIGH, LN_2_LOW, LOG10_2_HIGH, LOG10_2_LOW};
use super::pair::{Pair, ordered_sum};
use super::table::{self, ROUND_TO_SIXTEENTHS, exp_near_sixteenth};
use crate::exp::ROUND;
use crate::export;
use crate::multiply_add::MultiplyAdd;
use crate::polynomial::polynomial;
use crate::scale::Scale;
use std::f64::consts::{LN_2, LN_10, LOG2_10, LOG2_E};
use std::hint::select_unpredictable;

/// (e^r - 1 - r) / r² for |r| <= 0.347; error 2^-55 / |r|.
const EXP: [f64; 10] = [
    0.5000000000000006,
    0.16666666666666685,
    0.04166666666657169,
    0.008333333333314211,
    0.0013888888933055459,
    0.00019841269903972248,
    2.4801503588568986e-05,
    2.7557227025406896e-06,
    2.762668277991407e-07,
    2.5114790338723535e-08,
];

/// The nearest integer to a number below 2^31, as double and as integer.
#[inline(always)]
pub(super) fn nearest(x: f64) -> (f64, i32) {
    let shifted = x + ROUND;
    (shifted - ROUND, shifted.to_bits() as i32)
}

/// 2^k of a normal number.
#[inline(always)]
pub(super) const fn power_of_two(k: i32) -> f64 {
    f64::from_bits((k.wrapping_add(1023) as u64) << 52)
}

/// m 2^k for m around 1 and |k| below 2000: the first step is exact, the second rounds.
#[inline(always)]
pub(crate) fn scaled(m: f64, k: i32) -> f64 {
    let half = k >> 1;
    m * power_of_two(half) * power_of_two(k.wrapping_sub(half))
}

/// m 2^k for m around 1 and the integer k that `shifted` holds, if that is a normal number.
#[inline(always)]
fn with_exponent(m: f64, shifted: f64) -> f64 {
    f64::from_bits(m.to_bits().wrapping_add(shifted.to_bits() << 52))
}

/// m 2^k of such m and k, where x says how large that is: a normal number while |x| is
/// below `near`; NaN, zero or infinity if it is not below `far`. Only rare numbers take the branch.
#[inline(always)]
fn assembled(m: f64, shifted: f64, x: f64, near: f64, far: f64) -> f64 {
    let normal = with_exponent(m, shifted);
    let is_near = x.abs() < near;
    let rare = if is_near {
        0.0
    } else {
        let end = select_unpredictable(x < 0.0, 0.0, x * f64::INFINITY);
        select_unpredictable(x.abs() < far, scaled(m, shifted.to_bits() as i32), end)
    };
    select_unpredictable(is_near, normal, rare)
}

/// e^r 2^k of the r and the shifted k that x is reduced to, as `assembled` has it; its lower part counts for nothing if x is that large.
#[inline(always)]
fn exponential(x: Pair, near: f64, far: f64, reduce: impl Fn(Pair, f64) -> (f64, f64)) -> f64 {
    if table::is_quick() {
        return quick_exponential(x, far, reduce);
    }
    let (r, shifted) = reduce(x, ROUND);
    assembled(near_one(r), shifted, x.hi, near, far)
}

/// The same without a branch, by a table.
#[inline(always)]
fn quick_exponential(x: Pair, far: f64, reduce: impl Fn(Pair, f64) -> (f64, f64)) -> f64 {
    let hi = bounded(x.hi, -far, far);
    let lo = if hi == x.hi { x.lo } else { 0.0 };
    let (r, shifted) = reduce(Pair { hi, lo }, ROUND_TO_SIXTEENTHS);
    exp_near_sixteenth(r, shifted).scale((shifted - ROUND_TO_SIXTEENTHS).floor())
}

/// NaN stays NaN.
#[inline(always)]
fn bounded(x: f64, low: f64, high: f64) -> f64 {
    let x = if x < low { low } else { x };
    if x > high { high } else { x }
}

/// e^r - 1 for |r| <= 0.347.
#[inline(always)]
fn reduced(r: Pair) -> f64 {
    r.hi + (r.hi * r.hi).mad(polynomial(r.hi, EXP), r.lo)
}

/// x - k ln 2 with the k that makes it small.
#[inline(always)]
fn remainder(x: Pair) -> (Pair, f64) {
    let (whole, _) = nearest(x.hi * LOG2_E);
    // The first is exact.
    let first = (-whole).mad(LN_2_HIGH, x.hi);
    (ordered_sum(first, (-whole).mad(LN_2_LOW, x.lo)), whole)
}

/// e^(hi + lo) as m 2^k, with m around 1; infinities are taken as ±1400.
#[inline(always)]
pub(super) fn exp_parts(x: Pair) -> (f64, f64) {
    let hi = bounded(x.hi, -1400.0, 1400.0);
    let lo = if hi == x.hi { x.lo } else { 0.0 };
    let (r, k) = remainder(Pair { hi, lo });
    (1.0 + reduced(r), k)
}

/// e^r for |r| <= 0.347.
#[inline(always)]
fn near_one(r: f64) -> f64 {
    1.0 + (r * r).mad(polynomial(r, EXP), r)
}

#[inline(always)]
pub(super) fn exp(x: f64) -> f64 {
    exponential(Pair { hi: x, lo: 0.0 }, 708.0, 1400.0, reduced_exp)
}

/// e^(hi + lo) within an ULP or so, where `lo` may be as much as a hundredth of `hi`.
#[inline(always)]
pub(super) fn exp_of_sum(x: Pair) -> f64 {
    exponential(x, 708.0, 1400.0, |x, round| reduced_exp_near(x, x.hi + x.lo, round))
}

/// The r that makes e^x = e^r 2^k, with k as the number that adding `round` rounds it to, which is still added; likewise below.
#[inline(always)]
fn reduced_exp(x: Pair, round: f64) -> (f64, f64) {
    reduced_exp_near(x, x.hi, round)
}

/// The same for a number near x.
#[inline(always)]
fn reduced_exp_near(x: Pair, near: f64, round: f64) -> (f64, f64) {
    let shifted = near.mad(LOG2_E, round);
    let whole = shifted - round;
    let first = (-whole).mad(LN_2_HIGH, x.hi);
    (first + (-whole).mad(LN_2_LOW, x.lo), shifted)
}

/// (e^x - 1) without cancellation.
#[inline(always)]
pub(super) fn expm1(x: f64) -> f64 {
    let (r, k) = remainder(Pair { hi: bounded(x, -50.0, 720.0), lo: 0.0 });
    // (1 - 2^-k + (e^r - 1)) 2^k; from k = 60 on the 2^-k is nothing. (Of a NaN it is anything, and e^r is NaN.)
    let rest = 1.0 - 1.0.scale(if k > 60.0 { -100.0 } else { -k });
    let value = (rest + reduced(r)).scale(k);
    // Keeps -0.
    if x == 0.0 { x } else { value }
}

#[inline(always)]
fn exp2(x: f64) -> f64 {
    exponential(Pair { hi: x, lo: 0.0 }, 1021.0, 2000.0, reduced_exp2)
}

/// A fraction's product with ln 2 is rounded, which changes 2^f by a sixth of an ULP at most; below likewise.
#[inline(always)]
fn reduced_exp2(Pair { hi: x, .. }: Pair, round: f64) -> (f64, f64) {
    let shifted = x + round;
    ((x - (shifted - round)) * LN_2, shifted)
}

/// 2^x for x above -1022 and up to 1023.
#[inline(always)]
pub(super) fn exp2_normal(x: f64) -> f64 {
    let (r, shifted) = reduced_exp2(Pair { hi: x, lo: 0.0 }, ROUND);
    with_exponent(near_one(r), shifted)
}

#[inline(always)]
fn exp10(x: f64) -> f64 {
    exponential(Pair { hi: x, lo: 0.0 }, 307.0, 600.0, reduced_exp10)
}

#[inline(always)]
fn reduced_exp10(Pair { hi: x, .. }: Pair, round: f64) -> (f64, f64) {
    let shifted = x.mad(LOG2_10, round);
    let whole = shifted - round;
    let f = (-whole).mad(LOG10_2_LOW, (-whole).mad(LOG10_2_HIGH, x));
    (f * LN_10, shifted)
}

export! {
    /// exp; 3 ULP allowed.
    spirula_exp_f64(x: f64) -> f64 = exp(x);
    /// exp2; 3 ULP allowed.
    spirula_exp2_f64(x: f64) -> f64 = exp2(x);
    /// exp10; 3 ULP allowed.
    spirula_exp10_f64(x: f64) -> f64 = exp10(x);
    /// expm1; 3 ULP allowed.
    spirula_expm1_f64(x: f64) -> f64 = expm1(x);
}

/// (Sixteenths' products with parts of ln 2 are exact only where they are fused with sums, as on all processors that look them up.)
#[cfg(all(test, not(feature = "unfused")))]
mod tests {
    use super::*;

    type Reduce = fn(Pair, f64) -> (f64, f64);

    /// What processors with an instruction for m 2^k compute is what others do, but for rounding: of numbers of all sizes, and around the
    /// ends.
    #[test]
    fn quick_exponentials_are_the_others() {
        let functions: [(Reduce, f64, f64); 3] =
            [(reduced_exp, 708.0, 1400.0), (reduced_exp2, 1021.0, 2000.0), (reduced_exp10, 307.0, 600.0)];
        let spread = |step: u64| f64::from_bits(step.wrapping_mul(0x9e37_79b9_7f4a_7c15));
        let special = [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, f64::MAX, f64::MIN, 5e-324];
        let sizes = (0..200_000).map(spread).chain((0..240_000).map(|step| f64::from(step) / 100.0 - 1200.0));
        for x in sizes.chain(special) {
            for (reduce, near, far) in functions {
                let x = Pair { hi: x, lo: if x.is_finite() { x * 1e-17 } else { f64::NAN } };
                let (r, shifted) = reduce(x, ROUND);
                let other = assembled(near_one(r), shifted, x.hi, near, far);
                let quick = quick_exponential(x, far, reduce);
                let same =
                    quick.to_bits().abs_diff(other.to_bits()) <= 2 || (quick.is_nan() && other.is_nan());
                assert!(same, "{:e}: {quick:e}, {other:e}", x.hi);
            }
        }
    }
}
