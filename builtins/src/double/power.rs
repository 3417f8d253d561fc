//! Powers and roots: |x|^y = e^(y log |x|) with the logarithm and the product in two doubles, since a relative
//! error of the exponent counts up to 745 times.

use super::exp::{exp_of_sum, power_of_two};
use super::log::{is_positive_normal, log_sum_of_positive};
use super::pair::{Pair, product};
use crate::export;
use crate::known_power::double as known;
use crate::log::BEYOND_FRACTIONS;
use crate::multiply_add::MultiplyAdd;
use crate::power::MOST_FACTORS;
use crate::reciprocal::Divide;
use std::hint::select_unpredictable;

/// x^y for finite x > 0 and y or, if there is a rest, the sum of both; infinite y give NaN.
#[inline(always)]
fn power(x: f64, y: f64, rest: Option<f64>) -> f64 {
    let log = log_sum_of_positive(x);
    let main = product(log.hi, y);
    let lo = log.lo.mad(y, main.lo);
    exp_of_sum(Pair { hi: main.hi, lo: rest.map_or(lo, |rest| log.hi.mad(rest, lo)) })
}

/// The same where zero and infinite numbers come in.
#[inline(always)]
fn power_at_ends(x: f64, y: f64, finite: f64) -> f64 {
    let grows = (x > 1.0) == (y > 0.0);
    let end = select_unpredictable(grows, f64::INFINITY, 0.0);
    let is_end = x == 0.0 || x == f64::INFINITY || y.is_infinite();
    let size = select_unpredictable(is_end, end, finite);
    select_unpredictable(x.is_nan() || y.is_nan(), f64::NAN, size)
}

/// Whether y is an odd integer.
#[inline(always)]
fn is_odd(y: f64) -> bool {
    let half = 0.5 * y;
    y.trunc() == y && half.trunc() != half
}

/// x^y of positive normal x and finite y is `power`'s; for other numbers, which are rare, `otherwise` is asked with what that says of |x|.
#[inline(always)]
fn unless_special(x: f64, y: f64, rest: Option<f64>, otherwise: impl Fn(f64) -> f64) -> f64 {
    let size = power(x.abs(), y, rest);
    let is_common = is_positive_normal(x) && y.abs() <= f64::MAX;
    let rare = if is_common { 0.0 } else { otherwise(power_at_ends(x.abs(), y, size)) };
    select_unpredictable(is_common, size, rare)
}

#[inline(always)]
fn pow(x: f64, y: f64) -> f64 {
    unless_special(x, y, None, |size| {
        let signed = select_unpredictable(x.is_sign_negative() && is_odd(y), -size, size);
        // A negative base needs an integer exponent, unless it is 0 or ∞.
        let defined = x >= 0.0 || y.trunc() == y || x == f64::NEG_INFINITY || x == 0.0;
        let value = select_unpredictable(defined, signed, f64::NAN);
        // 1 to any power and anything to the power 0, even NaN; -1 to an infinite power.
        let is_one = x == 1.0 || y == 0.0 || (x == -1.0 && y.is_infinite());
        select_unpredictable(is_one, 1.0, value)
    })
}

/// pow for x >= 0, which is undefined at 0^0, ∞^0 and 1^∞.
#[inline(always)]
fn powr(x: f64, y: f64) -> f64 {
    unless_special(x, y, None, |size| {
        let undefined =
            x < 0.0 || ((x == 0.0 || x == f64::INFINITY) && y == 0.0) || (x == 1.0 && y.is_infinite());
        select_unpredictable(undefined, f64::NAN, size)
    })
}

/// x^n for |n| up to `MOST_FACTORS`: by squares, each with what it lost.
#[inline(always)]
fn power_by_products(x: f64, n: i32) -> f64 {
    let size = n.unsigned_abs();
    let inverse = 1.0 / x;
    let lost = (-inverse).fused(x, 1.0) * inverse;
    let inverse = Pair { hi: inverse, lo: if lost.is_nan() { 0.0 } else { lost } };
    let x = if n < 0 { inverse } else { Pair { hi: x, lo: 0.0 } };
    let x2 = x.roughly_times(x);
    let x4 = x2.roughly_times(x2);
    let factor = |bit: u32, x: Pair| if size & bit == 0 { Pair { hi: 1.0, lo: 0.0 } } else { x };
    let low = factor(1, x).roughly_times(factor(2, x2));
    let high = factor(4, x4).roughly_times(factor(8, x4.roughly_times(x4)));
    let Pair { hi, lo } = low.roughly_times(high);
    // Where something was too large, so is what it lost; and a sum of zeros has no sign.
    if lo.is_finite() & (hi != 0.0) { hi + lo } else { hi }
}

#[inline(always)]
fn pown(x: f64, n: i32) -> f64 {
    if n.unsigned_abs() <= MOST_FACTORS {
        return power_by_products(x, n);
    }
    unless_special(x, n.into(), None, |size| {
        let signed = select_unpredictable(x.is_sign_negative() && n & 1 == 1, -size, size);
        select_unpredictable(n == 0, 1.0, signed)
    })
}

/// The n-th root; of negative numbers only for odd n.
#[inline(always)]
fn rootn(x: f64, n: i32) -> f64 {
    let degree = f64::from(n);
    let inverse = 1.0 / degree;
    let lost = (-inverse).fused(degree, 1.0) / degree;
    unless_special(x, inverse, Some(lost), |size| {
        let odd = n & 1 == 1;
        let signed = select_unpredictable(x.is_sign_negative() && odd, -size, size);
        select_unpredictable(n == 0 || (x < 0.0 && !odd), f64::NAN, signed)
    })
}

/// From r near x^-1/3 as that of floats: a third of the bits is good to 3.5 %, steps of the fourth order make that 2^-15 and 2^-59, and
/// Newton's, of the root x r², is limited by rounding.
#[inline(always)]
fn cbrt(x: f64) -> f64 {
    const LIFT: f64 = 18014398509481984.0;
    // What K - bits / 3 is to be around, in units of 2^12.
    const K: f64 = 1_499_659_550_000_000.0;
    let small = x.abs() < f64::MIN_POSITIVE;
    let size = if small { x.abs() * LIFT } else { x.abs() };
    let bits = f64::from_bits((size.to_bits() >> 12) | BEYOND_FRACTIONS.to_bits()) - BEYOND_FRACTIONS;
    let third = bits.mad(-1.0 / 3.0, K + BEYOND_FRACTIONS);
    let guess = f64::from_bits(third.to_bits() << 12);
    let r = nearer_inverse_root(size, nearer_inverse_root(size, guess));
    let square = r * r;
    let root = size * square;
    // (Of halves, which don't overflow.)
    let rest = (-0.5 * root * root).fused(root, 0.5 * size);
    let root = (rest * square).mad(2.0 / 3.0, root);
    let root = if small { root * (1.0 / 262144.0) } else { root };
    (if size <= f64::MAX { root } else { x.abs() }).copysign(x)
}

/// r (1 + e / 3 + 2 e² / 9 + 14 e³ / 81) with e = 1 - x r³.
#[inline(always)]
fn nearer_inverse_root(x: f64, r: f64) -> f64 {
    let e = (-x * r).mad(r * r, 1.0);
    (r * e).mad(e.mad(e.mad(14.0 / 81.0, 2.0 / 9.0), 1.0 / 3.0), r)
}

/// √(x² + y²); infinity beats NaN. Squares that overflow or of which something is lost below normal numbers are rare.
#[inline(always)]
fn hypot(x: f64, y: f64) -> f64 {
    let square = x.mad(x, y * y);
    let is_common = square >= power_of_two(-900) && square <= f64::MAX;
    let rare = if is_common { 0.0 } else { scaled_hypot(x, y) };
    select_unpredictable(is_common, square.root(), rare)
}

/// The same of large and small numbers, by such a power of two that the sum is a normal number or zero.
#[inline(always)]
fn scaled_hypot(x: f64, y: f64) -> f64 {
    const MANY: f64 = power_of_two(600);
    const FEW: f64 = power_of_two(-600);
    let (x, y) = (x.abs(), y.abs());
    let larger = select_unpredictable(x > y, x, y);
    let (scale, back) = if larger > 1.0 { (FEW, MANY) } else { (MANY, FEW) };
    let (a, b) = (x * scale, y * scale);
    let square = a.mad(a, b * b);
    let root = square.sqrt();
    let is_infinite = x.is_infinite() | y.is_infinite();
    select_unpredictable(is_infinite, f64::INFINITY, root * back)
}

export! {
    /// pow; 16 ULP allowed.
    spirula_pow_f64(x: f64, y: f64) -> f64 = pow(x, y);
    /// powr; 16 ULP allowed.
    spirula_powr_f64(x: f64, y: f64) -> f64 = powr(x, y);
    /// pown; 16 ULP allowed.
    spirula_pown_f64(x: f64, n: i32) -> f64 = pown(x, n);
    /// pow by a constant of the program; likewise.
    spirula_known_pow_f64(x: f64, y: f64) -> f64 = known::pow(x, y).unwrap_or_else(|| pow(x, y));
    /// powr by one.
    spirula_known_powr_f64(x: f64, y: f64) -> f64 = known::powr(x, y).unwrap_or_else(|| powr(x, y));
    /// pown by one.
    spirula_known_pown_f64(x: f64, n: i32) -> f64 = known::pown(x, n).unwrap_or_else(|| pown(x, n));
    /// rootn; 16 ULP allowed.
    spirula_rootn_f64(x: f64, n: i32) -> f64 = rootn(x, n);
    /// cbrt; 2 ULP allowed.
    spirula_cbrt_f64(x: f64) -> f64 = cbrt(x);
    /// hypot; 4 ULP allowed.
    spirula_hypot_f64(x: f64, y: f64) -> f64 = hypot(x, y);
}
