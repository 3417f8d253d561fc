//! Error functions. erf is an odd polynomial around zero; erfc(x) = exp(-x²) g(x) with g smooth and slowly falling,
//! a polynomial in (x - 2) / (x + 2) (the substitution is Shepherd and Laframboise's, Math. Comp. 36, 1981).

use crate::exp::exp_narrow;
use crate::export;
use crate::polynomial::polynomial;

/// erf(x) / x over x² for |x| <= 1; relative error 2^-45.
const ERF: [f64; 10] = [
    1.128379167095494,
    -0.37612638902808615,
    0.11283791658548713,
    -0.026866169050599326,
    0.0052239671935439,
    -0.0008547933736519633,
    0.00012046261269779797,
    -1.4795031400662045e-05,
    1.5306373163641084e-06,
    -1.0469110332151208e-07,
];

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

#[inline(always)]
fn erf_narrow(x: f64) -> f64 {
    let inner = x * polynomial(x * x, ERF);
    let outer = (1.0 - erfc_positive(x.abs())).copysign(x);
    if x.abs() < 1.0 { inner } else { outer }
}

#[inline(always)]
fn erfc_narrow(x: f64) -> f64 {
    let value = erfc_positive(x.abs());
    if x < 0.0 { 2.0 - value } else { value }
}

export! {
    /// erf; 16 ULP allowed.
    spirula_erf_f32(x: f32) -> f32 = erf_narrow(x.into()) as f32;
    /// erfc; 16 ULP allowed.
    spirula_erfc_f32(x: f32) -> f32 = erfc_narrow(x.into()) as f32;
}
