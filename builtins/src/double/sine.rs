//! Sine or cosine alone: of the argument less the nearest multiple of π, or, for cosines, the nearest odd one of π/2, in two doubles; by
//! one polynomial up to a quarter turn. Who asks for both gets them from two shorter ones, of which each is either's (`trig`).

use super::exp::nearest;
use super::pair::{Pair, ordered_sum, product};
use super::trig::{LARGE, huge_cosine, huge_sine};
use crate::export;
use crate::multiply_add::MultiplyAdd;
use crate::polynomial::polynomial;
use std::f64::consts::{FRAC_1_PI, PI};

/// What π has beyond PI, twice.
const PI_SECOND: f64 = 1.2246467991473532e-16;
const PI_THIRD: f64 = -2.9947698097183397e-33;

/// (sin r - r) / r³ over r² for |r| <= π/2; relative error of the sine 2^-61.
const TAIL: [f64; 8] = [
    -0.16666666666666666,
    0.008333333333333207,
    -0.0001984126984121248,
    2.755731921156948e-06,
    -2.505210690442193e-08,
    1.6058941002234237e-10,
    -7.643019370555677e-13,
    2.7214195803565044e-15,
];

/// sin(x - n π), where that is within a quarter turn and n below 2^25 or so.
#[inline(always)]
fn sine_of_rest(x: f64, n: f64) -> f64 {
    // (Where the two cancel, their difference is exact.)
    let first = (-n).fused(PI, x);
    let second = product(n, PI_SECOND);
    let Pair { hi, lo } = ordered_sum(first, -second.hi);
    let low = (-n).mad(PI_THIRD, lo - second.lo);
    let z = hi * hi;
    hi + (hi * z).mad(polynomial(z, TAIL), low)
}

/// The number, or the other one of its size for an odd count.
#[inline(always)]
fn turned(value: f64, count: i32) -> f64 {
    f64::from_bits(value.to_bits() ^ (count as u64) << 63)
}

#[inline(always)]
fn sine(x: f64) -> f64 {
    let size = x.abs();
    let (n, count) = nearest(size * FRAC_1_PI);
    let near = turned(sine_of_rest(size, n), count);
    // Behind a branch, which code for several work-items at once takes only if one of them needs it.
    let value = if size < LARGE { near } else { huge_sine(size) };
    f64::from_bits(value.to_bits() ^ (x.to_bits() & (1 << 63)))
}

#[inline(always)]
fn cosine(x: f64) -> f64 {
    let size = x.abs();
    let (n, count) = nearest(size.mad(FRAC_1_PI, -0.5));
    let near = turned(sine_of_rest(size, n + 0.5), count.wrapping_add(1));
    if size < LARGE { near } else { huge_cosine(size) }
}

export! {
    /// sin; 4 ULP allowed.
    spirula_sin_f64(x: f64) -> f64 = sine(x);
    /// cos; 4 ULP allowed.
    spirula_cos_f64(x: f64) -> f64 = cosine(x);
}
