//! Error functions. erf is an odd polynomial around zero; erfc(x) = exp(-x²) g(x) with g smooth and slowly falling,
//! a polynomial in (x - 2) / (x + 2) (the substitution is Shepherd and Laframboise's, Math. Comp. 36, 1981).

use crate::exp::{LN_2_PARTS, ROUND_SINGLE, exp_of_rest, exp2_of_fraction, remainder};
use crate::export;
use crate::multiply_add::MultiplyAdd;
use crate::polynomial::polynomial;
use crate::scale::Scale;
use std::f32::consts::LOG2_E;

/// erf(x) / x - 1 over x² for |x| <= 1, which is small, so that its rounding hardly counts; relative error 2^-29.
const ERF: [f32; 7] =
    [0.12837917, -0.37612626, 0.11283579, -0.026853347, 0.005187162, -0.0007997853, 7.806904e-05];

/// -log2 erfc(x) for x in [1, 4]; what is made of it has a relative error of 2^-25.9.
const LOG_ERFC: [f32; 6] = [0.0037787177, 1.6123865, 0.9438692, 0.12811072, -0.021397766, 0.0016695091];

/// exp(x²) erfc(x) over (x - 2) / (x + 2) for x in [0, 10.3]; relative error 2^-27.
const ERFCX: [f32; 11] = [
    0.25539568,
    -0.42718586,
    0.24165826,
    -0.07897797,
    0.0037317066,
    0.006992296,
    -0.0008409302,
    -0.0009622167,
    3.298992e-05,
    0.00013773821,
    2.6264144e-05,
];

/// From 1 on, erfc is small, so that float's precision of it is more than enough; from 4 on erf is 1.
#[inline(always)]
fn erf(x: f32) -> f32 {
    let size = x.abs();
    let inner = x.mad(polynomial(x * x, ERF), x);
    let exponent = -polynomial(if size > 4.0 { 4.0 } else { size }, LOG_ERFC);
    let shifted = exponent + ROUND_SINGLE;
    let power = f32::from_bits((shifted.to_bits() << 23).wrapping_add(127 << 23));
    let outer = (-power).mad(exp2_of_fraction(exponent - (shifted - ROUND_SINGLE)), 1.0).copysign(x);
    if size < 1.0 { inner } else { outer }
}

/// Zero from 10.1 on. What the square misses is too much to be left out of the exponent.
#[inline(always)]
fn erfc(x: f32) -> f32 {
    let size = x.abs();
    let bounded = if size > 10.6 { 10.6 } else { size };
    let square = bounded * bounded;
    let (rest, shifted) = remainder(-square, LOG2_E, LN_2_PARTS);
    let power = exp_of_rest(rest - bounded.missed(bounded, square));
    let value = power * polynomial((bounded - 2.0) / (bounded + 2.0), ERFCX);
    let value = value.scale(shifted - ROUND_SINGLE);
    if x < 0.0 { 2.0 - value } else { value }
}

export! {
    /// erf; 16 ULP allowed.
    spirula_erf_f32(x: f32) -> f32 = erf(x);
    /// erfc; 16 ULP allowed.
    spirula_erfc_f32(x: f32) -> f32 = erfc(x);
}
