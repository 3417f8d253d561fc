//! Powers and roots: |x|^y = 2^(y log2 |x|), then the signs and special values of 7.5.1 of the specification. A relative
//! error of the exponent counts up to 150 times, so that the logarithm and the product are sums of two floats (Dekker,
//! Numerische Mathematik 18, 1971; products by fused multiply-add).

use crate::exp::{ROUND_SINGLE, assembled, exp2_of_fraction};
use crate::export;
use crate::known_power::single as known;
use crate::log::split_single;
use crate::multiply_add::MultiplyAdd;
use crate::polynomial::polynomial;
use std::hint::select_unpredictable;

/// (2 atanh(s) / s / ln 2 - c) / s² over s² for |s| <= 0.1717, of a sum at most 0.01 of c; relative error of all 2^-30.
const ATANH: [f32; 3] = [0.9617983, 0.57674944, 0.43109044];

/// c = 2 / ln 2 as a sum.
const TWO_OVER_LN_2: (f32, f32) = (2.88539, 3.851926e-8);

/// log2(x) of a positive number as a sum, the second summand up to 0.01; relative error about 2^-28. Something finite of
/// zero, infinity and NaN.
#[inline(always)]
fn log2_sum(x: f32) -> (f32, f32) {
    let (k, f) = split_single(x);
    let s = f / (f + 2.0);
    // f - s (2 + f), of which the first difference is exact (Sterbenz). The sum's derivative by s is c / (1 - s²), and
    // 1 / (2 + f) = (1 - s) / 2: together c / 2 / (1 + s), about c (1 - s + s²) / 2.
    let rest = (-s).fused(f, (-2.0f32).mad(s, f));
    let (high, low) = TWO_OVER_LN_2;
    let square = s * s;
    let main = high * s;
    let small = low.mad(s, high.missed(s, main));
    let small = s.mad(s.mad(0.5 * high, -0.5 * high), 0.5 * high).mad(rest, small);
    let small = (s * square).mad(polynomial(square, ATANH), small);
    let first = k + main;
    (first, (main - (first - k)) + small)
}

/// |x|^y on its way: m 2^k with the k that `shifted` holds, where the exponent is of moderate size.
struct Power {
    x: f32,
    y: f32,
    /// The exponent within 2.
    product: f32,
    m: f32,
    shifted: f32,
}

/// |x|^y for y or, if there is a rest, the sum of both; within 5 ULP.
#[inline(always)]
fn power(x: f32, y: f32, rest: Option<f32>) -> Power {
    let (high, low) = log2_sum(x.abs());
    let product = y * high;
    let small = y.mad(low, y.missed(high, product));
    let small = rest.map_or(small, |rest| rest.mad(high, small));
    let shifted = (product + small) + ROUND_SINGLE;
    let m = exp2_of_fraction((product - (shifted - ROUND_SINGLE)) + small);
    Power { x, y, product, m, shifted }
}

impl Power {
    /// Whether x is positive and finite and the result a normal number.
    #[inline(always)]
    fn is_ordinary(&self) -> bool {
        (self.x.to_bits().wrapping_sub(1) < f32::INFINITY.to_bits() - 1) & (self.product.abs() < 124.0)
    }

    /// An ordinary result.
    #[inline(always)]
    fn ordinary(&self) -> f32 {
        f32::from_bits(self.m.to_bits().wrapping_add(self.shifted.to_bits() << 23))
    }

    /// Any result; NaN where 0 · ∞ appears in the exponent.
    #[inline(always)]
    fn any(&self) -> f32 {
        let size = self.x.abs();
        let logarithm = select_unpredictable(size == 0.0, f32::NEG_INFINITY, size);
        let has_none = (size == 0.0) | size.is_infinite() | size.is_nan();
        let exponent = select_unpredictable(has_none, self.y * logarithm, self.product);
        assembled(self.m, self.shifted, exponent, 0.0, 160.0)
    }
}

/// Whether y is an odd integer.
#[inline(always)]
fn is_odd(y: f32) -> bool {
    let half = 0.5 * y;
    y.trunc() == y && half.trunc() != half
}

/// The value with x's sign if `negative` allows.
#[inline(always)]
fn signed(size: f32, x: f32, negative: bool) -> f32 {
    let sign = x.to_bits() & (1 << 31);
    f32::from_bits(size.to_bits() ^ select_unpredictable(negative, sign, 0))
}

#[inline(always)]
fn pow(x: f32, y: f32) -> f32 {
    let power = power(x, y, None);
    if power.is_ordinary() {
        return power.ordinary();
    }
    let value = signed(power.any(), x, is_odd(y));
    // A finite negative base needs an integer exponent.
    let undefined = (-f32::MAX..0.0).contains(&x) & (y.trunc() != y);
    let value = select_unpredictable(undefined, f32::NAN, value);
    // 1 to any power and anything to the power 0, even NaN; -1 to an infinite power.
    let one = (x == 1.0) | (y == 0.0) | ((x == -1.0) & (y.abs() > f32::MAX));
    select_unpredictable(one, 1.0, value)
}

/// pow for x >= 0, which is undefined at 0^0, ∞^0 and 1^∞.
#[inline(always)]
fn powr(x: f32, y: f32) -> f32 {
    let power = power(x, y, None);
    if power.is_ordinary() {
        return power.ordinary();
    }
    // log2 1 is a true zero, so only an infinite exponent makes it NaN; finite ones have 1^y = 1, and 0 · ∞ is NaN.
    select_unpredictable((x < 0.0) | x.is_nan() | y.is_nan(), f32::NAN, power.any())
}

/// Powers up to this one are products.
pub(crate) const MOST_FACTORS: u32 = 15;

/// x^n for |n| up to [`MOST_FACTORS`]: by squares in double, where no product of so many floats loses anything that float has.
#[inline(always)]
fn product(x: f32, n: i32) -> f32 {
    let (x, size) = (f64::from(x), n.unsigned_abs());
    let x2 = x * x;
    let x4 = x2 * x2;
    let factor = |bit: u32, x: f64| if size & bit == 0 { 1.0 } else { x };
    let power = factor(1, x) * factor(2, x2) * (factor(4, x4) * factor(8, x4 * x4));
    (if n < 0 { 1.0 / power } else { power }) as f32
}

#[inline(always)]
fn pown(x: f32, n: i32) -> f32 {
    if n.unsigned_abs() <= MOST_FACTORS {
        return product(x, n);
    }
    // 12 bits and the rest are exact in float.
    let (high, low) = ((n & !0xFFF) as f32, (n & 0xFFF) as f32);
    let sum = high + low;
    let power = power(x, sum, Some(low - (sum - high)));
    if power.is_ordinary() {
        return power.ordinary();
    }
    let value = signed(power.any(), x, n & 1 == 1);
    select_unpredictable(n == 0, 1.0, value)
}

/// The n-th root; of negative numbers only for odd n.
#[inline(always)]
fn rootn(x: f32, n: i32) -> f32 {
    let degree = n as f32;
    let inverse = 1.0 / degree;
    let power = power(x, inverse, Some((-inverse).fused(degree, 1.0) * inverse));
    if power.is_ordinary() {
        return power.ordinary();
    }
    let odd = n & 1 == 1;
    let value = signed(power.any(), x, odd);
    select_unpredictable((n == 0) | ((x < 0.0) & !odd), f32::NAN, value)
}

/// From r near x^-1/3 with e = 1 - x r³, x^-1/3 = r (1 + e / 3 + 2 e² / 9 + 14 e³ / 81 …). A third of the bits is r to
/// 3.5%; the first step makes that 2^-16, and Newton's, of the root x r², is limited by rounding.
#[inline(always)]
fn cbrt(x: f32) -> f32 {
    // Away from the small end of the range, by a power of eight.
    const UP: f32 = 4722366482869645213696.0;
    let lifted = x.abs() * UP;
    let small = x.abs() < 1e-15;
    let size = if small { lifted } else { x.abs() };
    // K - bits / 3 in units of 2^8, of which the sum with 2^23 holds an integer.
    let third = ((size.to_bits() >> 8) as f32).mad(-1.0 / 3.0, 5_546_500.0 + 8388608.0);
    let guess = f32::from_bits(third.to_bits() << 8);
    let e = (-size * guess).mad(guess * guess, 1.0);
    let r = (guess * e).mad(e.mad(e.mad(14.0 / 81.0, 2.0 / 9.0), 1.0 / 3.0), guess);
    let square = r * r;
    let root = size * square;
    let root = ((-root * root).fused(root, size) * r * r).mad(1.0 / 3.0, root);
    let root = if small { root * (1.0 / 16777216.0) } else { root };
    (if size <= f32::MAX { root } else { x.abs() }).copysign(x)
}

/// √(x² + y²). Where a square would overflow or lose bits it has a branch of its own, being rare; zeros are not. Below 1.1 ULP.
#[inline(always)]
fn hypot(x: f32, y: f32) -> f32 {
    let square = x.mad(x, y * y);
    let is_plain = (square >= two_to(-80)) & (square <= two_to(120));
    let is_zero = (x.to_bits() | y.to_bits()) << 1 == 0;
    let is_usual = is_plain | is_zero;
    let rare = if is_usual { 0.0 } else { hypot_of_any(x, y) };
    // (As of logarithms: every pack would branch for the common result, too.)
    select_unpredictable(is_usual, square.sqrt(), rare)
}

/// Powers of two keep the squares away from there: a root of doubles takes lanes four times as long. Infinity beats NaN.
#[inline(always)]
fn hypot_of_any(x: f32, y: f32) -> f32 {
    // That of one number, where the other is NaN.
    let largest = x.abs().max(y.abs());
    let (scale, back) = if largest > two_to(60) {
        (two_to(-70), two_to(70))
    } else if largest < two_to(-40) {
        (two_to(90), two_to(-90))
    } else {
        (1.0, 1.0)
    };
    let (a, b) = (x * scale, y * scale);
    let value = a.mad(a, b * b).sqrt() * back;
    if largest == f32::INFINITY { largest } else { value }
}

/// 2^n.
const fn two_to(n: i32) -> f32 {
    f32::from_bits(((n + 127) as u32) << 23)
}

export! {
    /// pow; 16 ULP allowed.
    spirula_pow_f32(x: f32, y: f32) -> f32 = pow(x, y);
    /// powr; 16 ULP allowed.
    spirula_powr_f32(x: f32, y: f32) -> f32 = powr(x, y);
    /// pown; 16 ULP allowed.
    spirula_pown_f32(x: f32, n: i32) -> f32 = pown(x, n);
    /// pow by a constant of the program; likewise.
    spirula_known_pow_f32(x: f32, y: f32) -> f32 = known::pow(x, y).unwrap_or_else(|| pow(x, y));
    /// powr by one.
    spirula_known_powr_f32(x: f32, y: f32) -> f32 = known::powr(x, y).unwrap_or_else(|| powr(x, y));
    /// pown by one.
    spirula_known_pown_f32(x: f32, n: i32) -> f32 = known::pown(x, n).unwrap_or_else(|| pown(x, n));
    /// rootn; 16 ULP allowed.
    spirula_rootn_f32(x: f32, n: i32) -> f32 = rootn(x, n);
    /// cbrt; 2 ULP allowed.
    spirula_cbrt_f32(x: f32) -> f32 = cbrt(x);
    /// hypot; 4 ULP allowed.
    spirula_hypot_f32(x: f32, y: f32) -> f32 = hypot(x, y);
}
