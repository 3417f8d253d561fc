//! Logarithms. x = 2^k m with m around 1. The narrow kernel in double takes log m as 2 atanh((m - 1) / (m + 1)), an
//! odd polynomial of a small number; in float alone a longer polynomial saves the division.

use crate::export;
use crate::multiply_add::MultiplyAdd;
use crate::polynomial::polynomial;
use std::f64::consts::{FRAC_1_SQRT_2, LN_2};
use std::hint::select_unpredictable;

/// 2 atanh(s) / s / ln 2 over s² for |s| <= 0.1717; relative error 2^-45.
const ATANH: [f64; 6] = [
    2.88539008177785,
    0.9617966941132127,
    0.5770779423594591,
    0.412209256786155,
    0.3199053739227617,
    0.2829066165906811,
];

/// log2(x) of a normal number, zero or infinity; relative error 2^-44. Negative numbers give NaN.
#[inline(always)]
pub(crate) fn log2_narrow(x: f64) -> f64 {
    let (exponent, mantissa) = split(x);
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let result = s.mad(polynomial(s * s, ATANH), exponent);
    special(x, result)
}

/// x = 2^k m with m in [√½, √2), for a positive normal number.
#[inline(always)]
pub(crate) fn split(x: f64) -> (f64, f64) {
    split_lifted(x, 0.0)
}

/// k - `lift` and m.
#[inline(always)]
pub(crate) fn split_lifted(x: f64, lift: f64) -> (f64, f64) {
    let Split { k, m, .. } = split_from::<{ FRAC_1_SQRT_2.to_bits() }>(x, lift);
    (k, m)
}

/// x = 2^(k + lift) m with m in [L, 2 L).
pub(crate) struct Split {
    pub k: f64,
    pub m: f64,
    /// Which sixteenth of that range m is in, by its bits.
    pub sixteenth: u64,
}

/// Of a positive normal number, from the L on that has these bits.
#[inline(always)]
pub(crate) fn split_from<const LEAST: u64>(x: f64, lift: f64) -> Split {
    const MANTISSA: u64 = (1 << 52) - 1;
    // The exponent of x / L, plus 2048, above the fraction that m is in front of L.
    let parts = x.to_bits().wrapping_sub(LEAST).wrapping_add(2048 << 52);
    // As the low bits of 2^52 an integer becomes a double by a subtraction: not every processor converts 64 bits in vectors.
    let exponent = f64::from_bits((parts >> 52) | BEYOND_FRACTIONS.to_bits());
    let m = f64::from_bits((parts & MANTISSA) + LEAST);
    Split { k: exponent - (BEYOND_FRACTIONS + 2048.0 + lift), m, sixteenth: (parts >> 48) & 15 }
}

/// 2^52: the doubles from here on are integers.
pub(crate) const BEYOND_FRACTIONS: f64 = 4503599627370496.0;

/// The logarithm of what is no positive number.
#[inline(always)]
pub(crate) fn special(x: f64, result: f64) -> f64 {
    // (Compared with MAX: of comparisons with infinity LLVM makes a longer test of the bits.)
    let result = select_unpredictable(x <= f64::MAX, result, x);
    let result = select_unpredictable(x == 0.0, f64::NEG_INFINITY, result);
    select_unpredictable(x < 0.0, f64::NAN, result)
}

/// log(x) of a positive number.
#[inline(always)]
pub(crate) fn log_narrow(x: f64) -> f64 {
    log2_narrow(x) * LN_2
}

/// (log(1 + f) - f) / f² for 1 + f in [√½, √2]; relative error of the logarithm 2^-24.9.
const LOG_SINGLE: [f32; 8] =
    [-0.5, 0.3333391, -0.25001338, 0.19963105, -0.16577569, 0.1491436, -0.14267498, 0.08701549];

/// (log2(1 + f) - f / ln 2) / f² likewise, but to 2^-27.5, and c = 1 / ln 2 as a sum.
const LOG2_SINGLE: [f32; 9] = [
    -0.72134733,
    0.4808982,
    -0.36069682,
    0.28856802,
    -0.23961894,
    0.20460193,
    -0.19106422,
    0.18617283,
    -0.10991552,
];
const ONE_OVER_LN_2: (f32, f32) = (std::f32::consts::LOG2_E, 1.925963e-8);

/// (log10(1 + f) - f / ln 10) / f² likewise, and c = 1 / ln 10 as a sum.
const LOG10_SINGLE: [f32; 8] =
    [-0.2171472, 0.14476752, -0.10858153, 0.086693846, -0.07195765, 0.06478616, -0.06219257, 0.038009502];
const ONE_OVER_LN_10: (f32, f32) = (std::f32::consts::LOG10_E, -1.010305e-8);

/// 2^23, which makes every denormal number normal.
const LIFT: f32 = 8388608.0;

/// k and f of a positive number 2^k (1 + f) with 1 + f in [√½, √2), denormal ones too.
#[inline(always)]
pub(crate) fn split_single(x: f32) -> (f32, f32) {
    let lifted = (x * LIFT).to_bits().wrapping_sub(23 << 23);
    split_bits(if x < f32::MIN_POSITIVE { lifted } else { x.to_bits() })
}

/// The same of a number's bits, of which those of a denormal number may have a negative exponent.
#[inline(always)]
fn split_bits(bits: u32) -> (f32, f32) {
    const OFFSET: u32 = std::f32::consts::FRAC_1_SQRT_2.to_bits();
    let k = bits.wrapping_sub(OFFSET) as i32 >> 23;
    (k as f32, f32::from_bits(bits.wrapping_sub((k as u32) << 23)) - 1.0)
}

/// What `assembled` makes of k, f and log(1 + f) - c f, of which `coefficients` are, is the logarithm of the positive number
/// 2^k (1 + f). Other than normal numbers have a branch of their own, being rare.
#[inline(always)]
fn logarithm<const N: usize>(
    x: f32,
    coefficients: [f32; N],
    assembled: impl Fn(f32, f32, f32) -> f32,
) -> f32 {
    const NORMAL: u32 = f32::MIN_POSITIVE.to_bits();
    let of_bits = |bits: u32| {
        let (k, f) = split_bits(bits);
        assembled(k, f, f * f * polynomial(f, coefficients))
    };
    let result = of_bits(x.to_bits());
    let is_normal = x.to_bits().wrapping_sub(NORMAL) < f32::INFINITY.to_bits() - NORMAL;
    let rare = if is_normal {
        0.0
    } else {
        let result = of_bits((x * LIFT).to_bits().wrapping_sub(23 << 23));
        // (Compared with MAX: of comparisons with infinity LLVM makes a longer test of the bits.)
        let result = select_unpredictable(x <= f32::MAX, result, x);
        let result = select_unpredictable(x == 0.0, f32::NEG_INFINITY, result);
        select_unpredictable(x < 0.0, f32::NAN, result)
    };
    // (Were the common result a way of the branch, every pack would branch for it too.)
    select_unpredictable(is_normal, result, rare)
}

#[inline(always)]
fn log(x: f32) -> f32 {
    logarithm(x, LOG_SINGLE, assembled_log)
}

/// k ln 2 + f + rest.
#[inline(always)]
fn assembled_log(k: f32, f: f32, rest: f32) -> f32 {
    k.mad(0.693_145_75, f + k.mad(1.428_606_8e-6, rest))
}

#[inline(always)]
fn log1p(x: f32) -> f32 {
    let result = log1p_of_sum(x, 0.0, 0.0).copysign(x);
    let result = select_unpredictable(x == -1.0, f32::NEG_INFINITY, result);
    select_unpredictable(x < -1.0, f32::NAN, result)
}

/// log(1 + x + low) + `doublings` ln 2 for x > -1, for a `low` below the last bit of x. While 1 + x is near 1, x itself is f; what a sum misses
/// counts by the logarithm's derivative.
#[inline(always)]
pub(crate) fn log1p_of_sum(x: f32, low: f32, doublings: f32) -> f32 {
    let sum = 1.0 + x;
    let (k, f) = split_bits(sum.to_bits());
    let is_near = k == 0.0;
    // (Knuth's sum of two numbers: it does not ask for the larger one.)
    let other = sum - 1.0;
    let lost = (1.0 - (sum - other)) + (x - other);
    let f = select_unpredictable(is_near, x, f);
    let lost = (low + select_unpredictable(is_near, 0.0, lost)) / sum;
    let rest = (f * f).mad(polynomial(f, LOG_SINGLE), lost);
    let result = assembled_log(k + doublings, f, rest);
    select_unpredictable(x <= f32::MAX, result, x)
}

#[inline(always)]
fn log2(x: f32) -> f32 {
    let (high, low) = ONE_OVER_LN_2;
    logarithm(x, LOG2_SINGLE, |k, f, rest| k + f.mad(high, f.mad(low, rest)))
}

#[inline(always)]
fn log10(x: f32) -> f32 {
    let (high, low) = ONE_OVER_LN_10;
    logarithm(x, LOG10_SINGLE, |k, f, rest| {
        let fraction = f.mad(high, f.mad(low, k.mad(4.605_039e-6, rest)));
        k.mad(0.301_025_4, fraction)
    })
}

export! {
    /// log; 3 ULP allowed.
    spirula_log_f32(x: f32) -> f32 = log(x);
    /// log2; 3 ULP allowed.
    spirula_log2_f32(x: f32) -> f32 = log2(x);
    /// log10; 3 ULP allowed.
    spirula_log10_f32(x: f32) -> f32 = log10(x);
    /// log1p; 2 ULP allowed.
    spirula_log1p_f32(x: f32) -> f32 = log1p(x);
}
