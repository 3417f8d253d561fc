//! Error functions, as for float; erfc's factor exp(-x²) takes x² in two doubles.

use super::exp::{exp_parts, exp2_normal};
use super::pair::product;
use crate::export;
use crate::multiply_add::MultiplyAdd;
use crate::polynomial::polynomial;
use crate::reciprocal::reciprocal;
use crate::scale::Scale;

/// erf(x) / x over x² for |x| <= 1; relative error 2^-55.
const ERF: [f64; 12] = [
    std::f64::consts::FRAC_2_SQRT_PI,
    -0.3761263890318352,
    0.11283791670944185,
    -0.02686617064311146,
    0.005223977606118426,
    -0.0008548325929311893,
    0.00012055293576816174,
    -1.492471230029015e-05,
    1.6447131549126013e-06,
    -1.6206313583187198e-07,
    1.3710979620445635e-08,
    -7.779467009284168e-10,
];

/// exp(x²) erfc(x) (1 + 2x), which stays near 1, over (x - 4) / (x + 4) for x in [0, 28]; relative error 2^-54.
const ERFCX: [f64; 22] = [
    1.2329951186255526,
    -0.13962111684056316,
    0.0153796521026059,
    0.0680970542547629,
    -0.1010390660355515,
    0.0937328349962284,
    -0.06633036582837014,
    0.037167515565463057,
    -0.016197733878539636,
    0.005031969789236884,
    -0.0007577744538626462,
    -0.000199256025762797,
    0.0001506263894957624,
    -2.440023156836711e-05,
    -1.1234159406958886e-05,
    5.708997825174598e-06,
    3.13456103506183e-07,
    -8.199762014103058e-07,
    5.5610022706156254e-08,
    1.0152004704736485e-07,
    -8.220417743983783e-09,
    -8.441835960720153e-09,
];

/// -log2 erfc(x) for x in [1, 6]; what is made of it misses erf by 2^-55.
const LOG_ERFC: [f64; 18] = [
    7.254801159728974e-07,
    1.6278997029511724,
    0.9184826059626247,
    0.14816974038546732,
    -0.027397032118413534,
    -0.000592417517538048,
    0.00276412920932178,
    -0.0011118093494888286,
    0.00019484071687788369,
    2.923634653068466e-05,
    -3.292495785933106e-05,
    1.2503761851940086e-05,
    -3.081051896895396e-06,
    5.385469162377574e-07,
    -6.697190694927987e-08,
    5.675727555585829e-09,
    -2.950133954074228e-10,
    7.110164573425126e-12,
];

/// erfc(x) for x >= 0; zero from 27.3 on.
#[inline(always)]
fn erfc_positive(x: f64) -> f64 {
    let x = if x > 28.0 { 28.0 } else { x };
    let square = product(x, x);
    let (m, k) = exp_parts(square.negated());
    // Both quotients by one reciprocal.
    let (moved, doubled) = (x + 4.0, x.mad(2.0, 1.0));
    let inverse = reciprocal(moved * doubled);
    let quotient = (x - 4.0) * (inverse * doubled);
    (m * polynomial(quotient, ERFCX) * (inverse * moved)).scale(k)
}

/// From 1 on, erfc is small, so that an approximation of its logarithm will do; from 6 on erf is 1.
#[inline(always)]
fn erf(x: f64) -> f64 {
    let size = x.abs();
    let inner = x * polynomial(x * x, ERF);
    let exponent = -polynomial(if size > 6.0 { 6.0 } else { size }, LOG_ERFC);
    let outer = (1.0 - exp2_normal(exponent)).copysign(x);
    if size >= 1.0 { outer } else { inner }
}

#[inline(always)]
fn erfc(x: f64) -> f64 {
    let value = erfc_positive(x.abs());
    if x < 0.0 { 2.0 - value } else { value }
}

export! {
    /// erf; 16 ULP allowed.
    spirula_erf_f64(x: f64) -> f64 = erf(x);
    /// erfc; 16 ULP allowed.
    spirula_erfc_f64(x: f64) -> f64 = erfc(x);
}
