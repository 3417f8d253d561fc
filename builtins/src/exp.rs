//! Exponentials. 2^y = 2^k 2^f with k the nearest integer: f in [-1/2, 1/2] goes to a polynomial, k is added to the
//! exponent's bits.

use crate::export;
use crate::polynomial::polynomial;
use std::f64::consts::{LOG2_10, LOG2_E};

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

/// (e^x - 1) / x for |x| <= 0.35; relative error 2^-43.
const EXPM1: [f64; 9] = [
    1.0,
    0.4999999999978138,
    0.16666666666646798,
    0.041666666904604285,
    0.00833333335495731,
    0.0013888818977515853,
    0.00019841206303368908,
    2.487764798531672e-05,
    2.762645049050251e-06,
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

/// e^x - 1.
#[inline(always)]
pub(crate) fn expm1_narrow(x: f64) -> f64 {
    if x.abs() < 0.35 { x * polynomial(x, EXPM1) } else { exp_narrow(x) - 1.0 }
}

export! {
    /// exp; 3 ULP allowed.
    spirula_exp_f32(x: f32) -> f32 = exp_narrow(x.into()) as f32;
    /// exp2; 3 ULP allowed.
    spirula_exp2_f32(x: f32) -> f32 = exp2_narrow(x.into()) as f32;
    /// exp10; 3 ULP allowed.
    spirula_exp10_f32(x: f32) -> f32 = exp2_narrow(f64::from(x) * LOG2_10) as f32;
    /// expm1; 3 ULP allowed.
    spirula_expm1_f32(x: f32) -> f32 = expm1_narrow(x.into()) as f32;
}
