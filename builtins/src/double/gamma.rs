//! Gamma functions by Stirling's series from 8 on, its logarithm in two doubles; below 8 by Γ(z) = Γ(z + 8) / (z … (z
//! + 7)), of negative numbers by Γ(-a) = -π / (a sin(π a) Γ(a)).

use super::exp::exp_parts;
use super::log::{log, log_pair};
use super::pair::{Pair, sum};
use crate::export;
use crate::half_turns::double::sine as sin_half_turns;
use crate::polynomial::polynomial;
use crate::reciprocal::reciprocal;
use crate::scale::Scale;
use std::f64::consts::PI;

/// B(2n) / (2n (2n - 1)): the coefficients of 1/z, 1/z³ … of log Γ. From 8 on the rest is below 2^-56.
const STIRLING: [f64; 9] = [
    1.0 / 12.0,
    -1.0 / 360.0,
    1.0 / 1260.0,
    -1.0 / 1680.0,
    1.0 / 1188.0,
    -691.0 / 360360.0,
    1.0 / 156.0,
    -3617.0 / 122400.0,
    43867.0 / 244188.0,
];

const HALF_LOG_TWO_PI: Pair = Pair { hi: 0.9189385332046728, lo: -3.8782941580672414e-17 };

/// log Γ(z + 8) and z … (z + 7) below 8, log Γ(z) and 1 above; for z > 0.
#[inline(always)]
fn moved(z: f64) -> (Pair, f64) {
    let small = z < 8.0;
    let factors = ((z + 1.0) * (z + 6.0)) * ((z + 2.0) * (z + 5.0)) * ((z + 3.0) * (z + 4.0));
    let w = if small { sum(8.0, z) } else { Pair { hi: z, lo: 0.0 } };
    let inverse = reciprocal(w.hi);
    let series = inverse * polynomial(inverse * inverse, STIRLING);
    let log = log_pair(w.hi);
    // (w - 1/2) log w - w, and what w.lo changes: w.lo log w.
    let main = log.times(sum(w.hi, -0.5)).plus(Pair { hi: -w.hi, lo: 0.0 });
    let small_parts = sum(HALF_LOG_TWO_PI.hi, series);
    let small_parts = Pair { lo: small_parts.lo + HALF_LOG_TWO_PI.lo + w.lo * log.hi, ..small_parts };
    (main.plus(small_parts), if small { z * (z + 7.0) * factors } else { 1.0 })
}

/// Γ(x). Poles are NaN, but ±∞ at ±0.
#[inline(always)]
fn tgamma(x: f64) -> f64 {
    let size = x.abs();
    // Beyond 200, double is infinite or zero; near zero Γ(x) is 1 / x.
    let bounded = if size > 200.0 { 200.0 } else { size };
    let bounded = if bounded < 1e-17 { 1e-17 } else { bounded };
    let (log, factor) = moved(bounded);
    let mirrored = x < 0.0;
    let (m, k) = exp_parts(if mirrored { log.negated() } else { log });
    // The sine is of x itself: 200 would be a pole.
    let reflected = -PI * factor / (bounded * sin_half_turns(size));
    let value = (m * (if mirrored { reflected } else { reciprocal(factor) })).scale(k);
    let value = if size < 1e-17 { 1.0 / x } else { value };
    if (x < 0.0 && x.trunc() == x) || x.is_nan() { f64::NAN } else { value }
}

/// log |Γ(x)|.
#[inline(always)]
fn lgamma(x: f64) -> f64 {
    let size = x.abs();
    let bounded = if size < 1e-17 { 1e-17 } else { size };
    // From 2^60 on the product with the logarithm is all there is.
    let moderate = if bounded > 1e18 { 1e18 } else { bounded };
    let (log_gamma, factor) = moved(moderate);
    let value = log_gamma.plus(log_pair(factor).negated());
    let mirror = log_pair(PI / (moderate * sin_half_turns(moderate)).abs());
    let reflected = mirror.plus(value.negated());
    let result = if x < 0.0 { reflected.hi } else { value.hi };
    let result = if size > 1e18 { size * (log(size) - 1.0) } else { result };
    let result = if size < 1e-17 { -log(size) } else { result };
    let result = if x == 1.0 || x == 2.0 { 0.0 } else { result };
    let pole = x <= 0.0 && x.trunc() == x;
    let result = if pole || x.is_infinite() { f64::INFINITY } else { result };
    if x.is_nan() { x } else { result }
}

/// The sign of Γ(x), 0 at poles.
#[inline(always)]
fn sign(x: f64) -> i32 {
    let below = x.floor();
    let half = 0.5 * below;
    let negative = x < 0.0 && half.floor() != half;
    let pole = x < 0.0 && below == x;
    let sign = if negative || (x == 0.0 && x.is_sign_negative()) { -1 } else { 1 };
    if pole { 0 } else { sign }
}

export! {
    /// tgamma; 16 ULP allowed.
    spirula_tgamma_f64(x: f64) -> f64 = tgamma(x);
    /// lgamma; no limit in the specification.
    spirula_lgamma_f64(x: f64) -> f64 = lgamma(x);
    /// What lgamma_r stores.
    spirula_lgamma_sign_f64(x: f64) -> i32 = sign(x);
}
