//! Hyperbolic functions and their inverses, from exponentials and logarithms; near zero by polynomials, where
//! those would cancel.

use crate::exp::{exp_narrow, expm1_narrow};
use crate::export;
use crate::log::{log1p_narrow, log2_narrow};
use std::f64::consts::LN_2;

#[inline(always)]
fn sinh_narrow(x: f64) -> f64 {
    // (e - 1) (1 + 1/e) / 2 for e = exp |x|; infinities stay such.
    let below = expm1_narrow(x.abs());
    (0.5 * (below + below / (below + 1.0))).copysign(x)
}

#[inline(always)]
fn sinh_safe(x: f64) -> f64 {
    // From 200 on, float is infinite and the quotient above must not become ∞/∞.
    if x.abs() > 200.0 { x * f64::MAX } else { sinh_narrow(x) }
}

#[inline(always)]
fn cosh_narrow(x: f64) -> f64 {
    let e = exp_narrow(x.abs());
    0.5 * (e + 1.0 / e)
}

#[inline(always)]
fn tanh_narrow(x: f64) -> f64 {
    // (e² - 1) / (e² + 1); 1 to float's precision from 20 on.
    let bounded = if x.abs() > 20.0 { 20.0 } else { x.abs() };
    let below = expm1_narrow(2.0 * bounded);
    (below / (below + 2.0)).copysign(x)
}

#[inline(always)]
fn asinh_narrow(x: f64) -> f64 {
    // log(|x| + √(x² + 1)), as 1 plus what is exact for small x.
    let size = x.abs();
    let square = size * size;
    let value = log1p_narrow(size + square / (1.0 + (square + 1.0).sqrt()));
    (if size < f64::INFINITY { value } else { size }).copysign(x)
}

#[inline(always)]
fn acosh_narrow(x: f64) -> f64 {
    // log(x + √(x² - 1)) in terms of x - 1; NaN below 1.
    let above = x - 1.0;
    let value = log1p_narrow(above + (above * (x + 1.0)).sqrt());
    if x < 1.0 { f64::NAN } else { value }
}

#[inline(always)]
fn atanh_narrow(x: f64) -> f64 {
    // log((1 + x) / (1 - x)) / 2.
    let size = x.abs();
    (0.5 * log1p_narrow(2.0 * size / (1.0 - size))).copysign(x)
}

/// log(x) of a positive number.
#[inline(always)]
pub(crate) fn log_narrow(x: f64) -> f64 {
    log2_narrow(x) * LN_2
}

export! {
    /// sinh; 4 ULP allowed.
    spirula_sinh_f32(x: f32) -> f32 = sinh_safe(x.into()) as f32;
    /// cosh; 4 ULP allowed.
    spirula_cosh_f32(x: f32) -> f32 = cosh_narrow(x.into()) as f32;
    /// tanh; 5 ULP allowed.
    spirula_tanh_f32(x: f32) -> f32 = tanh_narrow(x.into()) as f32;
    /// asinh; 4 ULP allowed.
    spirula_asinh_f32(x: f32) -> f32 = asinh_narrow(x.into()) as f32;
    /// acosh; 4 ULP allowed.
    spirula_acosh_f32(x: f32) -> f32 = acosh_narrow(x.into()) as f32;
    /// atanh; 5 ULP allowed.
    spirula_atanh_f32(x: f32) -> f32 = atanh_narrow(x.into()) as f32;
}
