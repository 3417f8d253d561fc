//! Error functions, as for float; erfc's factor exp(-x²) takes x² in two doubles.

use super::exp::{exp_parts, scaled};
use super::pair::product;
use crate::export;
use crate::polynomial::polynomial;

/// erf(x) / x over x² for |x| <= 1; relative error 2^-74.
const ERF: [f64; 15] = [
    std::f64::consts::FRAC_2_SQRT_PI,
    -0.37612638903183754,
    0.11283791670955126,
    -0.026866170645131218,
    0.005223977625441674,
    -0.0008548327023403001,
    0.00012055332978879483,
    -1.4925650236967501e-05,
    1.6462110782018636e-06,
    -1.636576864883207e-07,
    1.4806027146128752e-08,
    -1.2277734486795524e-09,
    9.323723518153027e-11,
    -6.1967364287877e-12,
    2.8067128195611264e-13,
];

/// exp(x²) erfc(x) (1 + 2x), which stays near 1, over (x - 4) / (x + 4) for x in [0, 28]; relative error 2^-61.
const ERFCX: [f64; 25] = [
    1.2329951186255526,
    -0.13962111684056253,
    0.015379652102620111,
    0.06809705425469303,
    -0.10103906603632955,
    0.09373283499833329,
    -0.06633036581154421,
    0.03716751553787908,
    -0.016197734067039865,
    0.005031969972225688,
    -0.0007577732147971718,
    -0.00019925664291065565,
    0.00015062131217624512,
    -2.4399505458525544e-05,
    -1.1220902504340601e-05,
    5.710769473216913e-06,
    2.916445562939141e-07,
    -8.277591913537945e-07,
    7.703495881102781e-08,
    1.1328048304274549e-07,
    -1.9106294487779176e-08,
    -1.660879467182853e-08,
    1.6868082625932292e-09,
    2.1031095817570338e-09,
    2.9111659955327447e-10,
];

/// erfc(x) for x >= 0; zero from 27.3 on.
#[inline(always)]
fn erfc_positive(x: f64) -> f64 {
    let x = if x > 28.0 { 28.0 } else { x };
    let square = product(x, x);
    let (m, k) = exp_parts(square.negated());
    scaled(m * polynomial((x - 4.0) / (x + 4.0), ERFCX) / (1.0 + 2.0 * x), k)
}

#[inline(always)]
fn erf(x: f64) -> f64 {
    let inner = x * polynomial(x * x, ERF);
    let outer = (1.0 - erfc_positive(x.abs())).copysign(x);
    if x.abs() < 1.0 { inner } else { outer }
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
