//! Powers and roots: |x|^y = 2^(y log2 |x|), then the signs and special values of 7.5.1 of the specification. A relative
//! error of the exponent counts up to 150 times, so that the logarithm and the product are sums of two floats (Dekker,
//! Numerische Mathematik 18, 1971; products by fused multiply-add).

use crate::exp::{ROUND_SINGLE, bounded, exp2_of_fraction, scaled};
use crate::export;
use crate::log::{special_single, split_single};
use crate::polynomial::polynomial;

/// (2 atanh(s) / s / ln 2 - c) / s² over s² for |s| <= 0.1717, of a sum at most 0.01 of c; relative error of all 2^-30.
const ATANH: [f32; 3] = [0.96179825, 0.5767564, 0.43090573];

/// c = 2 / ln 2 as a sum.
const TWO_OVER_LN_2: (f32, f32) = (2.88539, 3.851926e-8);

/// log2(x) of a number that is not negative, as a sum; relative error about 2^-29. The second summand is NaN with the
/// logarithms of zero and infinity.
#[inline(always)]
fn log2_sum(x: f32) -> (f32, f32) {
    let (k, f) = split_single(x);
    // s = f / (2 + f), 2 + f = d + lost; and 1 / (2 + f) = (1 - s) / 2.
    let d = f + 2.0;
    let lost = f - (d - 2.0);
    let s = f / d;
    let rest = (-s).mul_add(lost, (-s).mul_add(d, f)) * s.mul_add(-0.5, 0.5);
    let (high, low) = TWO_OVER_LN_2;
    let square = s * s;
    let main = high * s;
    let small = high.mul_add(s, -main) + low.mul_add(s, high * rest);
    let small = (s * square).mul_add(polynomial(square, ATANH), small);
    let first = k + main;
    let rest = (main - (first - k)) + small;
    let sum = first + rest;
    (special_single(x, sum), rest - (sum - first))
}

/// |x|^y for a sum y, NaN where 0 · ∞ appears in the exponent; within 4 ULP.
#[inline(always)]
fn power(x: f32, y: (f32, f32)) -> f32 {
    let (high, low) = log2_sum(x.abs());
    let product = y.0 * high;
    let rest = y.0.mul_add(high, -product) + y.0.mul_add(low, y.1 * high);
    // Beyond, float is zero or infinite and the rest may be NaN.
    let rest = if product.abs() < 160.0 { rest } else { 0.0 };
    let product = bounded(product, 160.0);
    let shifted = product + ROUND_SINGLE;
    scaled(exp2_of_fraction((product - (shifted - ROUND_SINGLE)) + rest), shifted)
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
    f32::from_bits(size.to_bits() ^ if negative { sign } else { 0 })
}

#[inline(always)]
fn pow(x: f32, y: f32) -> f32 {
    let value = signed(power(x, (y, 0.0)), x, is_odd(y));
    // A finite negative base needs an integer exponent.
    let undefined = (-f32::MAX..0.0).contains(&x) & (y.trunc() != y);
    let value = if undefined { f32::NAN } else { value };
    // 1 to any power and anything to the power 0, even NaN; -1 to an infinite power.
    let one = (x == 1.0) | (y == 0.0) | ((x == -1.0) & (y.abs() > f32::MAX));
    if one { 1.0 } else { value }
}

/// pow for x >= 0, which is undefined at 0^0, ∞^0 and 1^∞.
#[inline(always)]
fn powr(x: f32, y: f32) -> f32 {
    let value = power(x, (y, 0.0));
    let value = if x < 0.0 || x.is_nan() || y.is_nan() { f32::NAN } else { value };
    // log2 1 is a true zero, so only an infinite exponent makes it NaN; finite ones have 1^y = 1 and x^0 = 1.
    if (x == 0.0 || x == f32::INFINITY) && y == 0.0 { f32::NAN } else { value }
}

#[inline(always)]
fn pown(x: f32, n: i32) -> f32 {
    // 12 bits and the rest are exact in float.
    let (high, low) = ((n & !0xFFF) as f32, (n & 0xFFF) as f32);
    let sum = high + low;
    let value = signed(power(x, (sum, low - (sum - high))), x, n & 1 == 1);
    if n == 0 { 1.0 } else { value }
}

/// The n-th root; of negative numbers only for odd n.
#[inline(always)]
fn rootn(x: f32, n: i32) -> f32 {
    let degree = n as f32;
    let inverse = 1.0 / degree;
    let odd = n & 1 == 1;
    let value = signed(power(x, (inverse, (-inverse).mul_add(degree, 1.0) * inverse)), x, odd);
    if n == 0 || (x < 0.0 && !odd) { f32::NAN } else { value }
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
    let third = ((size.to_bits() >> 8) as f32).mul_add(-1.0 / 3.0, 5_546_500.0 + 8388608.0);
    let guess = f32::from_bits(third.to_bits() << 8);
    let e = (-size * guess).mul_add(guess * guess, 1.0);
    let r = (guess * e).mul_add(e.mul_add(e.mul_add(14.0 / 81.0, 2.0 / 9.0), 1.0 / 3.0), guess);
    let square = r * r;
    let root = size * square;
    let root = ((-root * root).mul_add(root, size) * r * r).mul_add(1.0 / 3.0, root);
    let root = if small { root * (1.0 / 16777216.0) } else { root };
    (if size <= f32::MAX { root } else { x.abs() }).copysign(x)
}

/// √(x² + y²), which can't overflow in double; infinity beats NaN.
#[inline(always)]
fn hypot(x: f32, y: f32) -> f32 {
    let (a, b) = (f64::from(x), f64::from(y));
    let value = a.mul_add(a, b * b).sqrt() as f32;
    if x.is_infinite() || y.is_infinite() { f32::INFINITY } else { value }
}

export! {
    /// pow; 16 ULP allowed.
    spirula_pow_f32(x: f32, y: f32) -> f32 = pow(x, y);
    /// powr; 16 ULP allowed.
    spirula_powr_f32(x: f32, y: f32) -> f32 = powr(x, y);
    /// pown; 16 ULP allowed.
    spirula_pown_f32(x: f32, n: i32) -> f32 = pown(x, n);
    /// rootn; 16 ULP allowed.
    spirula_rootn_f32(x: f32, n: i32) -> f32 = rootn(x, n);
    /// cbrt; 2 ULP allowed.
    spirula_cbrt_f32(x: f32) -> f32 = cbrt(x);
    /// hypot; 4 ULP allowed.
    spirula_hypot_f32(x: f32, y: f32) -> f32 = hypot(x, y);
}
