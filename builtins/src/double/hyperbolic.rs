//! Hyperbolic functions and their inverses, as for float, with care for the ends of double's range.

use super::exp::{exp, expm1};
use super::log::{log, log1p};
use crate::export;
use std::f64::consts::LN_2;

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
    let value = 0.5 * (below + below / (below + 1.0));
    (if size > LARGE { half_exp(size) } else { value }).copysign(x)
}

#[inline(always)]
fn cosh(x: f64) -> f64 {
    let size = x.abs();
    let e = exp(if size > LARGE { LARGE } else { size });
    if size > LARGE { half_exp(size) } else { 0.5 * e + 0.5 / e }
}

#[inline(always)]
fn tanh(x: f64) -> f64 {
    let bounded = if x.abs() > LARGE { LARGE } else { x.abs() };
    let below = expm1(2.0 * bounded);
    (below / (below + 2.0)).copysign(x)
}

/// Numbers whose square has nothing to add.
const HUGE: f64 = 1e10;

#[inline(always)]
fn asinh(x: f64) -> f64 {
    let size = x.abs();
    let bounded = if size > HUGE { 1.0 } else { size };
    let square = bounded * bounded;
    let value = log1p(bounded + square / (1.0 + (square + 1.0).sqrt()));
    (if size > HUGE { log(size) + LN_2 } else { value }).copysign(x)
}

#[inline(always)]
fn acosh(x: f64) -> f64 {
    let above = if x > HUGE { 1.0 } else { x - 1.0 };
    let value = log1p(above + (above * above + 2.0 * above).sqrt());
    let value = if x > HUGE { log(x) + LN_2 } else { value };
    if x < 1.0 { f64::NAN } else { value }
}

#[inline(always)]
fn atanh(x: f64) -> f64 {
    let size = x.abs();
    // Near zero 2x and a small correction are better than the quotient.
    let double = 2.0 * size;
    let ratio = if size < 0.5 { double + double * size / (1.0 - size) } else { double / (1.0 - size) };
    (0.5 * log1p(ratio)).copysign(x)
}

export! {
    /// sinh; 4 ULP allowed.
    spirula_sinh_f64(x: f64) -> f64 = sinh(x);
    /// cosh; 4 ULP allowed.
    spirula_cosh_f64(x: f64) -> f64 = cosh(x);
    /// tanh; 5 ULP allowed.
    spirula_tanh_f64(x: f64) -> f64 = tanh(x);
    /// asinh; 4 ULP allowed.
    spirula_asinh_f64(x: f64) -> f64 = asinh(x);
    /// acosh; 4 ULP allowed.
    spirula_acosh_f64(x: f64) -> f64 = acosh(x);
    /// atanh; 5 ULP allowed.
    spirula_atanh_f64(x: f64) -> f64 = atanh(x);
}
