//! Gamma functions by Stirling's series from 8 on; smaller arguments are moved there by Γ(z) = Γ(z + 8) / (z (z + 1)
//! … (z + 7)), negative ones mirrored by Γ(z) Γ(1 - z) = π / sin(π z).

use crate::exp::exp_narrow;
use crate::export;
use crate::log::log_narrow;
use crate::polynomial::polynomial;
use crate::trig::sin_half_turns;
use std::f64::consts::PI;

/// Coefficients of 1/z, 1/z³ … of log Γ: B(2n) / (2n (2n - 1)). From 8 on, the rest is below 2^-41.
const STIRLING: [f64; 5] = [1.0 / 12.0, -1.0 / 360.0, 1.0 / 1260.0, -1.0 / 1680.0, 1.0 / 1188.0];

const HALF_LOG_TWO_PI: f64 = 0.918_938_533_204_672_7;

/// log Γ(z + 8) and z (z + 1) … (z + 7) below 8, log Γ(z) and 1 above; for z >= 1/2.
#[inline(always)]
fn moved(z: f64) -> (f64, f64) {
    let small = z < 8.0;
    let product =
        (z * (z + 7.0)) * ((z + 1.0) * (z + 6.0)) * ((z + 2.0) * (z + 5.0)) * ((z + 3.0) * (z + 4.0));
    let w = if small { z + 8.0 } else { z };
    let inverse = 1.0 / w;
    let series = inverse * polynomial(inverse * inverse, STIRLING);
    let value = (w - 0.5) * log_narrow(w) - w + HALF_LOG_TWO_PI + series;
    (value, if small { product } else { 1.0 })
}

/// Γ(x). Poles are NaN, but ±∞ at ±0.
#[inline(always)]
fn tgamma(x: f32) -> f32 {
    let z = f64::from(x);
    let mirrored = z < 0.5;
    let positive = if mirrored { 1.0 - z } else { z };
    // Beyond 60, float is infinite or zero.
    let bounded = if positive > 60.0 { 60.0 } else { positive };
    let (log, product) = moved(bounded);
    let value = exp_narrow(log) / product;
    let sine = sin_half_turns(x);
    let sine = if x.is_sign_negative() { -sine } else { sine };
    let reflected = PI / (sine * value);
    let result = if mirrored { reflected } else { value };
    let pole = x < 0.0 && x.trunc() == x;
    (if pole || x.is_nan() { f64::NAN } else { result }) as f32
}

/// log |Γ(x)|.
#[inline(always)]
fn lgamma(x: f32) -> f32 {
    let z = f64::from(x);
    let mirrored = z < 0.5;
    let positive = if mirrored { 1.0 - z } else { z };
    let (log, product) = moved(positive);
    let value = log - log_narrow(product);
    let reflected = log_narrow(PI / sin_half_turns(x).abs()) - value;
    let result = if mirrored { reflected } else { value };
    // Poles and both infinities.
    let pole = x <= 0.0 && x.trunc() == x;
    let result = if x == 1.0 || x == 2.0 { 0.0 } else { result };
    (if pole || x.is_infinite() { f64::INFINITY } else { result }) as f32
}

/// The sign of Γ(x), 0 at poles.
#[inline(always)]
fn sign(x: f32) -> i32 {
    let below = x.floor();
    let half = 0.5 * below;
    let negative = x < 0.0 && half.floor() != half;
    let pole = x < 0.0 && below == x;
    let sign = if negative || (x == 0.0 && x.is_sign_negative()) { -1 } else { 1 };
    if pole { 0 } else { sign }
}

export! {
    /// tgamma; 16 ULP allowed.
    spirula_tgamma_f32(x: f32) -> f32 = tgamma(x);
    /// lgamma; no limit in the specification.
    spirula_lgamma_f32(x: f32) -> f32 = lgamma(x);
    /// What lgamma_r stores.
    spirula_lgamma_sign_f32(x: f32) -> i32 = sign(x);
}
