//! Exponentials. 2^y = 2^k 2^f with k the nearest integer: f in [-1/2, 1/2] goes to a polynomial, k is added to the
//! exponent's bits. exp, exp2 and exp10 do so in float alone, within 1 ULP or so; the narrow kernels in double are
//! for what is made of them.

use crate::export;
use crate::multiply_add::MultiplyAdd;
use crate::polynomial::polynomial;
use crate::scale::{self, Scale};
use std::f32::consts::{LN_2, LN_10};
use std::f64::consts::{LOG2_10, LOG2_E};
use std::hint::select_unpredictable;

/// Adding it rounds a number below 2^51 to an integer, which the low bits of the sum then hold.
pub(crate) const ROUND: f64 = 6755399441055744.0;

/// 2^f for |f| <= 1/2; relative error 2^-45.6.
const EXP2: [f64; 10] = [
    1.0000000000000135,
    0.6931471805599462,
    0.2402265069564034,
    0.05550410866465167,
    0.009618129193934313,
    0.0013333558200794592,
    0.0001540343375125101,
    1.5252672924850737e-05,
    1.325964524488711e-06,
    1.0205905413765595e-07,
];

/// 2^y where |y| below 600 matters: beyond, a number as good as zero or infinity in float. NaN stays NaN.
#[inline(always)]
pub(crate) fn exp2_narrow(y: f64) -> f64 {
    let low = if y < -600.0 { -600.0 } else { y };
    let bounded = if low > 600.0 { 600.0 } else { low };
    let shifted = bounded + ROUND;
    let fraction = polynomial(bounded - (shifted - ROUND), EXP2);
    let result = f64::from_bits(fraction.to_bits().wrapping_add(shifted.to_bits() << 52));
    if y.is_nan() { y } else { result }
}

/// e^x.
#[inline(always)]
pub(crate) fn exp_narrow(x: f64) -> f64 {
    exp2_narrow(x * LOG2_E)
}

/// Adding it rounds a float below 2^22 to an integer.
pub(crate) const ROUND_SINGLE: f32 = 12582912.0;

/// ln 2 in 15 bits, whose product with an exponent is exact, and the rest; log10 2 likewise.
pub(crate) const LN_2_PARTS: (f32, f32) = (0.693_145_75, 1.428_606_8e-6);
const LOG10_2_PARTS: (f32, f32) = (0.301_025_4, 4.605_039e-6);

/// (e^r - 1 - r) / r² for |r| <= 0.347; relative error 2^-22.8, of a sum at most 0.07.
const EXP_SINGLE: [f32; 5] = [0.5, 0.16666576, 0.041666552, 0.008363233, 0.001392625];

/// The same with a relative error of 2^-31.
const EXPM1_SINGLE: [f32; 6] = [0.5, 0.16666666, 0.041666467, 0.00833364, 0.0013934965, 0.00019669953];

/// (2^f - 1) / f for |f| <= 1/2; relative error 2^-26.
const EXP2_SINGLE: [f32; 6] = [LN_2, 0.2402265, 0.05550357, 0.009618082, 0.0013390979, 0.00015453262];

/// m 2^k: in two steps, of which the second rounds.
#[inline(always)]
pub(crate) fn scaled(m: f32, k: i32) -> f32 {
    let half = k >> 1;
    m * power_of_two(half) * power_of_two(k.wrapping_sub(half))
}

/// m 2^k of the k that `shifted` holds, where x says how large that is: a normal number while |x| is below `near`, zero or
/// infinity if it is not below `far`.
#[inline(always)]
pub(crate) fn assembled(m: f32, shifted: f32, x: f32, near: f32, far: f32) -> f32 {
    if x.abs() < near {
        return f32::from_bits(m.to_bits().wrapping_add(shifted.to_bits() << 23));
    }
    let end = select_unpredictable(x < 0.0, 0.0, x * f32::INFINITY);
    let k = shifted.to_bits().wrapping_sub(ROUND_SINGLE.to_bits()) as i32;
    select_unpredictable(x.abs() < far, scaled(m, k), end)
}

/// m 2^k of the m and the shifted k that are `parts` of x: a normal number while |x| is below `near`, zero or infinity if it is not
/// below `far`.
#[inline(always)]
fn exponential(x: f32, near: f32, far: f32, parts: impl Fn(f32) -> (f32, f32)) -> f32 {
    if scale::is_quick() {
        return quick_exponential(x, far, parts);
    }
    let (m, shifted) = parts(x);
    assembled(m, shifted, x, near, far)
}

/// The same without a branch.
#[inline(always)]
fn quick_exponential(x: f32, far: f32, parts: impl Fn(f32) -> (f32, f32)) -> f32 {
    let (m, shifted) = parts(bounded(x, far));
    m.scale(shifted - ROUND_SINGLE)
}

/// 2^k of a normal number. Bits of k that don't belong to one are ignored.
#[inline(always)]
pub(crate) fn power_of_two(k: i32) -> f32 {
    f32::from_bits((k.wrapping_add(127) as u32) << 23)
}

/// 2^k of the k that `shifted` holds.
#[inline(always)]
fn power_of_two_shifted(shifted: f32) -> f32 {
    f32::from_bits((shifted.to_bits() << 23).wrapping_add(127 << 23))
}

/// NaN stays NaN.
#[inline(always)]
pub(crate) fn bounded(x: f32, limit: f32) -> f32 {
    let x = if x < -limit { -limit } else { x };
    if x > limit { limit } else { x }
}

/// x - k c with the k next to x / c, where c's parts and inverse are given; and k, shifted.
#[inline(always)]
pub(crate) fn remainder(x: f32, inverse: f32, (high, low): (f32, f32)) -> (f32, f32) {
    let shifted = x.mad(inverse, ROUND_SINGLE);
    let k = shifted - ROUND_SINGLE;
    ((-k).mad(low, (-k).mad(high, x)), shifted)
}

/// e^r for |r| <= 0.347.
#[inline(always)]
pub(crate) fn exp_of_rest(r: f32) -> f32 {
    // (The square would be a denormal number sooner, and those take a hundred cycles.)
    1.0 + r.mad(r * polynomial(r, EXP_SINGLE), r)
}

/// e^x as (1 + a) 2^k, for moderate x: a and 2^k.
#[inline(always)]
pub(crate) fn exp_parts(x: f32) -> (f32, f32) {
    let (r, shifted) = remainder(x, LOG2_E as f32, LN_2_PARTS);
    (r.mad(r * polynomial(r, EXP_SINGLE), r), power_of_two_shifted(shifted))
}

#[inline(always)]
fn exp(x: f32) -> f32 {
    exponential(x, 86.0, 105.0, exp_in_parts)
}

/// e^x as m 2^k with k shifted; likewise below.
#[inline(always)]
fn exp_in_parts(x: f32) -> (f32, f32) {
    let (r, shifted) = remainder(x, LOG2_E as f32, LN_2_PARTS);
    (exp_of_rest(r), shifted)
}

/// 2^f for |f| a little over 1/2 at most.
#[inline(always)]
pub(crate) fn exp2_of_fraction(f: f32) -> f32 {
    f.mad(polynomial(f, EXP2_SINGLE), 1.0)
}

#[inline(always)]
fn exp2(x: f32) -> f32 {
    exponential(x, 125.0, 152.0, exp2_in_parts)
}

#[inline(always)]
fn exp2_in_parts(x: f32) -> (f32, f32) {
    let shifted = x + ROUND_SINGLE;
    (exp2_of_fraction(x - (shifted - ROUND_SINGLE)), shifted)
}

/// e^r - 1 = (e^s - 1) 2^k + (2^k - 1), with 2^(k - 1) for 2^k so that it doesn't overflow early.
#[inline(always)]
pub(crate) fn expm1(x: f32) -> f32 {
    let low = if x < -25.0 { -25.0 } else { x };
    let (r, shifted) = remainder(if low > 89.0 { 89.0 } else { low }, LOG2_E as f32, LN_2_PARTS);
    let below = r.mad(r * polynomial(r, EXPM1_SINGLE), r);
    let half = f32::from_bits((shifted.to_bits() << 23).wrapping_add(126 << 23));
    let value = 2.0 * half.mad(below, half - 0.5);
    // Keeps -0 and denormal numbers.
    if x.abs() < 1e-8 { x } else { value }
}

#[inline(always)]
fn exp10(x: f32) -> f32 {
    exponential(x, 37.0, 46.0, exp10_in_parts)
}

#[inline(always)]
fn exp10_in_parts(x: f32) -> (f32, f32) {
    let (r, shifted) = remainder(x, LOG2_10 as f32, LOG10_2_PARTS);
    (exp_of_rest(r * LN_10), shifted)
}

export! {
    /// exp; 3 ULP allowed.
    spirula_exp_f32(x: f32) -> f32 = exp(x);
    /// exp2; 3 ULP allowed.
    spirula_exp2_f32(x: f32) -> f32 = exp2(x);
    /// exp10; 3 ULP allowed.
    spirula_exp10_f32(x: f32) -> f32 = exp10(x);
    /// expm1; 3 ULP allowed.
    spirula_expm1_f32(x: f32) -> f32 = expm1(x);
}

#[cfg(test)]
mod tests {
    use super::*;
    use rayon::prelude::*;

    type Parts = fn(f32) -> (f32, f32);

    /// What processors with an instruction for m 2^k compute is what others do.
    #[test]
    fn quick_exponentials_are_the_others() {
        // Every 601st float; all of them were walked as well.
        let functions: [(Parts, f32, f32); 3] =
            [(exp_in_parts, 86.0, 105.0), (exp2_in_parts, 125.0, 152.0), (exp10_in_parts, 37.0, 46.0)];
        for (parts, near, far) in functions {
            (0..u32::MAX / 601).into_par_iter().for_each(|step| {
                let x = f32::from_bits(step * 601);
                let (quick, other) = (quick_exponential(x, far, parts), exponential(x, near, far, parts));
                assert!(quick.to_bits() == other.to_bits() || (quick.is_nan() && other.is_nan()), "{x:e}");
            });
        }
    }
}
