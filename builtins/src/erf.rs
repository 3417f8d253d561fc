//! Error functions. erf is an odd polynomial around zero; erfc(x) = exp(-x²) g(x) with g smooth and slowly falling,
//! a polynomial in (x - 2) / (x + 2) (the substitution is Shepherd and Laframboise's, Math. Comp. 36, 1981).

use crate::exp::{ROUND_SINGLE, exp_narrow, exp2_of_fraction};
use crate::export;
use crate::multiply_add::MultiplyAdd;
use crate::polynomial::polynomial;

/// erf(x) / x - 1 over x² for |x| <= 1, which is small, so that its rounding hardly counts; relative error 2^-29.
const ERF: [f32; 7] =
    [0.12837917, -0.37612626, 0.11283579, -0.026853347, 0.005187162, -0.0007997853, 7.806904e-05];

/// -log2 erfc(x) for x in [1, 4]; what is made of it has a relative error of 2^-25.9.
const LOG_ERFC: [f32; 6] = [0.0037787177, 1.6123865, 0.9438692, 0.12811072, -0.021397766, 0.0016695091];

/// exp(x²) erfc(x) over (x - 2) / (x + 2) for x in [0, 10.6]; relative error 2^-37.
const ERFCX: [f64; 16] = [
    0.2553956763105726,
    -0.42718584741413174,
    0.2416581942291571,
    -0.0789785809695198,
    0.0037328928689609356,
    0.006997460329848825,
    -0.0008471500658730813,
    -0.0009819618993680153,
    4.360954830057019e-05,
    0.0001742899539963549,
    2.7277649671749086e-05,
    -2.7446627148638923e-05,
    -1.3314394011053435e-05,
    1.4347884390213074e-06,
    2.875929700728492e-06,
    7.13914602737602e-07,
];

/// erfc(x) for x >= 0; zero in float from 10.1 on.
#[inline(always)]
fn erfc_positive(x: f64) -> f64 {
    let bounded = if x > 10.6 { 10.6 } else { x };
    exp_narrow(-bounded * bounded) * polynomial((bounded - 2.0) / (bounded + 2.0), ERFCX)
}

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

#[inline(always)]
fn erfc_narrow(x: f64) -> f64 {
    let value = erfc_positive(x.abs());
    if x < 0.0 { 2.0 - value } else { value }
}

export! {
    /// erf; 16 ULP allowed.
    spirula_erf_f32(x: f32) -> f32 = erf(x);
    /// erfc; 16 ULP allowed.
    spirula_erfc_f32(x: f32) -> f32 = erfc_narrow(x.into()) as f32;
}
