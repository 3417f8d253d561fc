//! All 2^32 floats: the library's results in vectors, as generated code has them, beside a quick reference in double
//! precision, which finds the places that MPFR is asked about.

use super::Worst;
use super::measure::quick_error;
use rayon::prelude::*;

/// How a function of one argument is walked.
pub struct Walk {
    /// Its results for the floats whose bits follow the first's.
    pub results: fn(u32, &mut [f32]),
    /// A reference in double precision, good to a few ULP of double.
    pub quick: fn(f64) -> f64,
}

/// Floats whose results are had at once.
const PIECE: usize = 1 << 12;

/// `function` of the floats whose bits follow `first`; with fused multiply-adds and in vectors where the processor has
/// them: without, each multiply-add is a call.
#[inline(always)]
pub fn fill(first: u32, found: &mut [f32], function: impl Fn(f32) -> f32) {
    if is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        // SAFETY: the processor has these features.
        unsafe { fill_in_vectors(first, found, function) }
    } else {
        fill_each(first, found, function);
    }
}

#[target_feature(enable = "avx2,fma")]
fn fill_in_vectors(first: u32, found: &mut [f32], function: impl Fn(f32) -> f32) {
    fill_each(first, found, function);
}

#[inline(always)]
fn fill_each(first: u32, found: &mut [f32], function: impl Fn(f32) -> f32) {
    for (place, result) in (0u32..).zip(found) {
        *result = function(f32::from_bits(first + place));
    }
}

/// The worst of all floats, by what `confirmed` says of the places where the quick reference differs most, or by more than
/// is allowed: there the function fails, or the reference is no good.
pub fn worst_of_all(walk: &Walk, limit: f64, confirmed: impl Fn(f64) -> Worst + Sync) -> Worst {
    let blocks = (0..1u32 << 12).into_par_iter();
    blocks.map(|block| worst_of_block(walk, limit, block, &confirmed)).reduce(|| Worst::NONE, Worst::or)
}

fn worst_of_block(walk: &Walk, limit: f64, block: u32, confirmed: impl Fn(f64) -> Worst) -> Worst {
    let (mut suspect, mut failed) = (Worst::NONE, Worst::NONE);
    let mut found = [0.0; PIECE];
    for first in (block << 20..=(block << 20) + 0xF_FFFF).step_by(PIECE) {
        (walk.results)(first, &mut found);
        for (place, &result) in (0u32..).zip(&found) {
            let x = f64::from(f32::from_bits(first + place));
            let error = quick_error(result.into(), (walk.quick)(x));
            if error > limit {
                failed = failed.or(confirmed(x));
            } else if error > suspect.error {
                suspect = Worst { error, arguments: (x, 0.0) };
            }
        }
    }
    failed.or(confirmed(suspect.arguments.0))
}
