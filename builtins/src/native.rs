//! What `native_` and `half_` functions call, and with -cl-unsafe-math-optimizations the plain ones: float alone, few
//! terms. Their bounds are those of OpenCL 3.0's table for that option (7.4), which is stricter than `half_`'s 8192 ULP.
//! Denormal arguments may count as zero, denormal results become zero. The polynomials are fitted by us for the smallest
//! relative error (Lawson's iteration).

use crate::exp::{ROUND_SINGLE, bounded};
use crate::export;
use crate::known_power::single as known;
use crate::multiply_add::MultiplyAdd;
use crate::polynomial::polynomial;
use crate::trig::remainder;
use std::f32::consts::{FRAC_1_PI, FRAC_1_SQRT_2, LN_2, LOG2_10, LOG2_E, LOG10_2, PI};
use std::hint::select_unpredictable;

/// (2^f - 1) / f for |f| <= 1/2; error 2^-23.1 of 2^f.
const EXP2: [f32; 5] = [LN_2, 0.24022281, 0.055505592, 0.009669764, 0.0013300393];

/// log2(1 + f) / f for 1 + f in [√½, √2]; relative error 2^-22.4.
const LOG2: [f32; 8] =
    [1.4426949, -0.721352, 0.48092553, -0.36026976, 0.28708315, -0.24857543, 0.23398055, -0.1465019];

/// (sin r / r - 1) / r² over r² for |r| <= π/2; error 2^-27.2 of sin r.
const SIN: [f32; 4] = [-0.1666666, 0.008333069, -0.00019809772, 2.6052e-06];

/// π in parts of 24 bits, none of them too large, so that zeros keep their sign. A whole number's product with the first
/// leaves an exact rest.
const PI_PARTS: [f32; 3] = [PI.next_down(), 1.509_957_9e-7, 1.078_060_5e-14];

/// 2^x. NaN gives anything.
#[inline(always)]
fn exp2(x: f32) -> f32 {
    let high = if x > 128.0 { 128.0 } else { x };
    let shifted = high + ROUND_SINGLE;
    let f = high - (shifted - ROUND_SINGLE);
    let fraction = f.mad(polynomial(f, EXP2), 1.0);
    let value = f32::from_bits(fraction.to_bits().wrapping_add(shifted.to_bits() << 23));
    if x < -126.0 { 0.0 } else { value }
}

/// log2 x of a positive normal number, something finite of others.
#[inline(always)]
fn log2_normal(x: f32) -> f32 {
    let k = x.to_bits().wrapping_sub(FRAC_1_SQRT_2.to_bits()) as i32 >> 23;
    let f = f32::from_bits(x.to_bits().wrapping_sub((k as u32) << 23)) - 1.0;
    f.mad(polynomial(f, LOG2), k as f32)
}

/// log2 x of numbers not below zero.
#[inline(always)]
fn log2(x: f32) -> f32 {
    select_unpredictable(x < f32::MIN_POSITIVE, f32::NEG_INFINITY, log2_normal(x))
}

/// log2 x of every number.
#[inline(always)]
fn log2_checked(x: f32) -> f32 {
    let value = select_unpredictable(x <= -f32::MIN_POSITIVE, f32::NAN, log2(x));
    select_unpredictable(x < f32::INFINITY, value, x)
}

/// log2 |x| as a power's factor: zero is no infinity, so that x^0 is 1.
#[inline(always)]
fn log2_factor(x: f32) -> f32 {
    select_unpredictable(x.abs() < f32::MIN_POSITIVE, f32::MIN, log2_normal(x.abs()))
}

/// What `function` makes of x, unless x is NaN.
#[inline(always)]
fn checked(x: f32, function: impl Fn(f32) -> f32) -> f32 {
    select_unpredictable(x.is_nan(), x, function(x))
}

/// x^y for negative x too, where y is an integer.
#[inline(always)]
fn pow(x: f32, y: f32) -> f32 {
    let size = exp2(y * log2_factor(x));
    let odd = (bounded(y, 4194304.0) + ROUND_SINGLE).to_bits() << 31;
    f32::from_bits(size.to_bits() ^ (x.to_bits() & odd))
}

/// sin(x - n π), of n next to x / π; Cody and Waite's reduction. Numbers too large for it stay within the polynomial's
/// range.
#[inline(always)]
fn sin_of_rest(x: f32, n: f32) -> f32 {
    let r = bounded(remainder(x, n, PI_PARTS), 1.6);
    let square = r * r;
    if cfg!(feature = "unfused") {
        // Rounded more often, a product with the sum would be less accurate, and this one may be more than 1.
        return bounded((r * square).mad(polynomial(square, SIN), r), 1.0).copysign(r);
    }
    r * square.mad(polynomial(square, SIN), 1.0)
}

/// sin x.
#[inline(always)]
fn sin(x: f32) -> f32 {
    let shifted = x.mad(FRAC_1_PI, ROUND_SINGLE);
    let value = sin_of_rest(x, shifted - ROUND_SINGLE);
    f32::from_bits(value.to_bits() ^ (shifted.to_bits() << 31))
}

/// cos x = -sin(x - π/2).
#[inline(always)]
fn cos(x: f32) -> f32 {
    let shifted = x.mad(FRAC_1_PI, -0.5) + ROUND_SINGLE;
    let value = sin_of_rest(x, shifted - ROUND_SINGLE + 0.5);
    f32::from_bits(value.to_bits() ^ (!shifted.to_bits() << 31))
}

export! {
    /// sin; 3 ULP up to π, 8192 up to 2^16; absolute error 2^-22 up to 10^5.
    spirula_native_sin_f32(x: f32) -> f32 = sin(x);
    /// cos; likewise.
    spirula_native_cos_f32(x: f32) -> f32 = cos(x);
    /// tan; 8192 ULP up to 2^16.
    spirula_native_tan_f32(x: f32) -> f32 = sin(x) / cos(x);
    /// exp2; 3 ULP.
    spirula_native_exp2_f32(x: f32) -> f32 = exp2(x);
    /// exp; 3 + 2 |x| ULP.
    spirula_native_exp_f32(x: f32) -> f32 = exp2(x * LOG2_E);
    /// exp10; 3 + 4 |x| ULP.
    spirula_native_exp10_f32(x: f32) -> f32 = exp2(x * LOG2_10);
    /// log2 of numbers not below zero; absolute error 2^-21 in [½, 2], 3 ULP elsewhere.
    spirula_native_log2_f32(x: f32) -> f32 = log2(x);
    /// log; likewise.
    spirula_native_log_f32(x: f32) -> f32 = log2(x) * LN_2;
    /// log10; likewise.
    spirula_native_log10_f32(x: f32) -> f32 = log2(x) * LOG10_2;
    /// powr; relative error 2^-22 (1 + |y log2 x|).
    spirula_native_powr_f32(x: f32, y: f32) -> f32 = exp2(y * log2_factor(x));
    /// pow; likewise.
    spirula_native_pow_f32(x: f32, y: f32) -> f32 = pow(x, y);
    /// pown; likewise.
    spirula_native_pown_f32(x: f32, n: i32) -> f32 = pow(x, n as f32);
    /// pow by a constant of the program; likewise.
    spirula_known_native_pow_f32(x: f32, y: f32) -> f32 = known::pow(x, y).unwrap_or_else(|| pow(x, y));
    /// powr by one.
    spirula_known_native_powr_f32(x: f32, y: f32) -> f32 = known::powr(x, y).unwrap_or_else(|| exp2(y * log2_factor(x)));
    /// pown by one.
    spirula_known_native_pown_f32(x: f32, n: i32) -> f32 = known::pown(x, n).unwrap_or_else(|| pow(x, n as f32));
    /// half_exp2: NaN stays NaN.
    spirula_half_exp2_f32(x: f32) -> f32 = checked(x, exp2);
    /// half_exp.
    spirula_half_exp_f32(x: f32) -> f32 = checked(x * LOG2_E, exp2);
    /// half_exp10.
    spirula_half_exp10_f32(x: f32) -> f32 = checked(x * LOG2_10, exp2);
    /// half_log2: NaN below zero, and for NaN.
    spirula_half_log2_f32(x: f32) -> f32 = log2_checked(x);
    /// half_log.
    spirula_half_log_f32(x: f32) -> f32 = log2_checked(x) * LN_2;
    /// half_log10.
    spirula_half_log10_f32(x: f32) -> f32 = log2_checked(x) * LOG10_2;
    /// half_powr: zeros, infinities and NaN make of the product what C's powr asks.
    spirula_half_powr_f32(x: f32, y: f32) -> f32 = checked(y * log2_checked(x), exp2);
}
