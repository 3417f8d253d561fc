//! Hyperbolic functions, as for float, with care for the ends of double's range.

use super::exp::{exp, expm1};
use crate::export;
use crate::multiply_add::MultiplyAdd;
use crate::reciprocal::reciprocal;

/// From here on e^-x is nothing beside e^x, and e^x is computed in two factors because it may overflow.
const LARGE: f64 = 40.0;

/// e^x / 2 without early overflow.
#[inline(always)]
fn half_exp(x: f64) -> f64 {
    let root = exp(0.5 * x);
    0.5 * root * root
}

#[inline(always)]
fn sinh(x: f64) -> f64 {
    let size = x.abs();
    let below = expm1(if size > LARGE { LARGE } else { size });
    let value = 0.5 * below.mad(reciprocal(below + 1.0), below);
    (if size > LARGE { half_exp(size) } else { value }).copysign(x)
}

#[inline(always)]
fn cosh(x: f64) -> f64 {
    let size = x.abs();
    let e = exp(if size > LARGE { LARGE } else { size });
    if size > LARGE { half_exp(size) } else { 0.5 * (e + reciprocal(e)) }
}

#[inline(always)]
fn tanh(x: f64) -> f64 {
    let bounded = if x.abs() > LARGE { LARGE } else { x.abs() };
    let below = expm1(2.0 * bounded);
    (below * reciprocal(below + 2.0)).copysign(x)
}

export! {
    /// sinh; 4 ULP allowed.
    spirula_sinh_f64(x: f64) -> f64 = sinh(x);
    /// cosh; 4 ULP allowed.
    spirula_cosh_f64(x: f64) -> f64 = cosh(x);
    /// tanh; 5 ULP allowed.
    spirula_tanh_f64(x: f64) -> f64 = tanh(x);
}
