//! Products and sums on every processor. Where there is an instruction for both, all of these are it. Older ones (x86-64-v2 and
//! below, the feature `unfused`) would call a function for each: there a polynomial's steps round twice, and only what needs an
//! exact product gets one, of a wider type or of halves (Dekker, Numerische Mathematik 18, 1971).

use crate::export;

/// A type's sums of a product and a number.
pub(crate) trait MultiplyAdd: Copy {
    /// self * factor + summand, rounded once or twice, whichever is quicker.
    fn mad(self, factor: Self, summand: Self) -> Self;
    /// self * factor + summand as good as rounded once: of a product that is exact in float, in double to 2^-104, and wholly if a factor
    /// has 52 bits at most; unless it overflows or underflows.
    fn fused(self, factor: Self, summand: Self) -> Self;
    /// What `product`, self * factor rounded, misses of that product.
    fn missed(self, factor: Self, product: Self) -> Self;
    /// self².
    fn squared(self) -> Self;
}

macro_rules! multiply_add {
    ($float:ty, $fused:ident, $missed:ident) => {
        impl MultiplyAdd for $float {
            #[inline(always)]
            fn mad(self, factor: Self, summand: Self) -> Self {
                if cfg!(feature = "unfused") {
                    self * factor + summand
                } else {
                    self.mul_add(factor, summand)
                }
            }

            #[inline(always)]
            fn fused(self, factor: Self, summand: Self) -> Self {
                if cfg!(feature = "unfused") {
                    $fused(self, factor, summand)
                } else {
                    self.mul_add(factor, summand)
                }
            }

            #[inline(always)]
            fn missed(self, factor: Self, product: Self) -> Self {
                if cfg!(feature = "unfused") {
                    $missed(self, factor, product)
                } else {
                    self.mul_add(factor, -product)
                }
            }

            #[inline(always)]
            fn squared(self) -> Self {
                self * self
            }
        }
    };
}

multiply_add!(f32, fused_in_double, missed_in_double);
multiply_add!(f64, fused_in_halves, missed_in_halves);

/// Two floats' product is exact in double; the sum is rounded there first.
#[inline(always)]
fn fused_in_double(x: f32, y: f32, z: f32) -> f32 {
    (f64::from(x) * f64::from(y) + f64::from(z)) as f32
}

#[inline(always)]
fn missed_in_double(x: f32, y: f32, product: f32) -> f32 {
    fused_in_double(x, y, -product)
}

#[inline(always)]
fn fused_in_halves(x: f64, y: f64, z: f64) -> f64 {
    let (product, lost) = exact_product(cut(x), cut(y), x * y);
    let (sum, rest) = exact_sum(product, z);
    sum + (rest + lost)
}

#[inline(always)]
fn missed_in_halves(x: f64, y: f64, product: f64) -> f64 {
    exact_product(cut(x), cut(y), product).1
}

/// The first 26 bits and the other 27, at any size.
#[inline(always)]
fn cut(x: f64) -> (f64, f64) {
    let high = f64::from_bits(x.to_bits() & !((1 << 27) - 1));
    (high, x - high)
}

/// Numbers of 26 bits with signs (Veltkamp), unless x is beyond 2^996.
#[inline(always)]
fn halves(x: f64) -> (f64, f64) {
    let scaled = 134217729.0 * x;
    let high = scaled - (scaled - x);
    (high, x - high)
}

/// The product of two numbers given in parts, and what its rounding lost: exactly for `halves`; of what `cut` yields the product of
/// the lower parts may have a bit too many. Unless it overflows or underflows.
#[inline(always)]
fn exact_product((x_high, x_low): (f64, f64), (y_high, y_low): (f64, f64), product: f64) -> (f64, f64) {
    let lost = x_high * y_high - product;
    (product, lost + x_high * y_low + x_low * y_high + x_low * y_low)
}

/// x + y exactly (Knuth's TwoSum).
#[inline(always)]
fn exact_sum(x: f64, y: f64) -> (f64, f64) {
    let sum = x + y;
    let part = sum - x;
    (sum, (x - (sum - part)) + (y - part))
}

/// x + y with the last bit set where it isn't exact: rounded again to fewer bits, it is as if it had been rounded once.
#[inline(always)]
fn sum_to_odd(x: f64, y: f64) -> f64 {
    let (sum, lost) = exact_sum(x, y);
    // Neither for infinities and NaN, where what was lost is no number.
    let is_inexact = (lost > 0.0) | (lost < 0.0);
    let inwards = (sum.to_bits() ^ lost.to_bits()) >> 63;
    let step = if inwards == 1 { u64::MAX } else { 1 };
    let is_wrong = is_inexact & (sum.to_bits() & 1 == 0);
    f64::from_bits(sum.to_bits().wrapping_add(if is_wrong { step } else { 0 }))
}

/// Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms using rounding to odd" (2008), for numbers
/// of moderate size, for which nothing overflows or underflows on the way; others, which are rare, in integers.
#[inline(always)]
fn fma_in_double(x: f64, y: f64, z: f64) -> f64 {
    let is_moderate = |x: f64| ((x.to_bits() >> 52) & 0x7ff).wrapping_sub(1023 - 450) <= 900;
    if is_moderate(x) & is_moderate(y) & (z.abs() < power_of_two(1000)) {
        let (product, lost) = exact_product(halves(x), halves(y), x * y);
        let (low, low_lost) = exact_sum(z, lost);
        let (sum, sum_lost) = exact_sum(product, low);
        return sum + sum_to_odd(low_lost, sum_lost);
    }
    fma_in_integers(x, y, z)
}

/// 2^n of a normal number.
#[inline(always)]
fn power_of_two(n: i32) -> f64 {
    f64::from_bits(((n + 1023) as u64) << 52)
}

/// A finite number other than zero as m 2^n with an m of 53 bits.
fn decoded(x: f64) -> (u64, i32) {
    const FRACTION: u64 = (1 << 52) - 1;
    let (field, fraction) = ((x.to_bits() >> 52 & 0x7ff) as i32, x.to_bits() & FRACTION);
    if field == 0 {
        let shift = fraction.leading_zeros() - 11;
        return (fraction << shift, -1074 - shift as i32);
    }
    (fraction | (1 << 52), field - 1075)
}

/// x >> count, with the last bit set where that lost one.
fn shifted_to_odd(x: u128, count: u32) -> u128 {
    match count {
        0..128 => x >> count | u128::from(x & ((1 << count) - 1) != 0),
        _ => u128::from(x != 0),
    }
}

#[cold]
#[inline(never)]
fn fma_in_integers(x: f64, y: f64, z: f64) -> f64 {
    if x == 0.0 || y == 0.0 || x.abs() > f64::MAX || y.abs() > f64::MAX || x.is_nan() || y.is_nan() {
        return x * y + z;
    }
    if z == 0.0 || z.abs() > f64::MAX || z.is_nan() {
        return if z == 0.0 { x * y } else { z };
    }
    let ((x_bits, x_exponent), (y_bits, y_exponent), (z_bits, z_exponent)) =
        (decoded(x), decoded(y), decoded(z));
    // Both with 126 bits, which leaves room for their sum.
    let product = (u128::from(x_bits) * u128::from(y_bits)) << 20;
    let product_exponent = x_exponent + y_exponent - 20;
    let summand = u128::from(z_bits) << 73;
    let exponent = product_exponent.max(z_exponent - 73);
    let product = shifted_to_odd(product, exponent.abs_diff(product_exponent));
    let summand = shifted_to_odd(summand, exponent.abs_diff(z_exponent - 73));
    let product_is_negative = x.is_sign_negative() != y.is_sign_negative();
    let size = if product_is_negative == z.is_sign_negative() {
        product + summand
    } else {
        product.abs_diff(summand)
    };
    if size == 0 {
        return 0.0;
    }
    let is_negative = if product > summand { product_is_negative } else { z.is_sign_negative() };
    let value = rounded(size, exponent);
    if is_negative { -value } else { value }
}

/// m 2^n, rounded once, for m other than zero.
fn rounded(m: u128, n: i32) -> f64 {
    let length = 128 - m.leading_zeros() as i32;
    // Bits that a double can't hold, at its own size or at the least.
    let excess = (length - 53).max(-1074 - n).max(0);
    let (whole, exponent) = if excess > 126 {
        // Less than half of the least number: sizes have 127 bits at most.
        (0, 0)
    } else {
        let unit = 1u128 << excess;
        let (whole, rest) = (m >> excess, m & (unit - 1));
        let is_up = rest > unit / 2 || (excess > 0 && rest == unit / 2 && whole & 1 == 1);
        (whole as u64 + u64::from(is_up), n + excess)
    };
    // In two steps, neither of which rounds: a power may be beyond the normal numbers.
    let half = exponent >> 1;
    whole as f64 * power_of_two(half) * power_of_two(exponent - half)
}

export! {
    /// fma in float; correctly rounded.
    spirula_fma_f32(x: f32, y: f32, z: f32) -> f32 =
        sum_to_odd(f64::from(x) * f64::from(y), f64::from(z)) as f32;
    /// fma in double; correctly rounded.
    spirula_fma_f64(x: f64, y: f64, z: f64) -> f64 = fma_in_double(x, y, z);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of all sizes, and such whose products nearly cancel a summand.
    fn triples() -> impl Iterator<Item = [f64; 3]> {
        let mut state = 0x9e37_79b9_7f4a_7c15u64;
        let mut draw = move || {
            // Marsaglia's xorshift.
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        (0..400_000).map(move |round| {
            let bits = [draw(), draw(), draw()];
            let [x, y, z] = match round % 8 {
                // Whatever it is.
                0 => bits.map(f64::from_bits),
                // The product is near the least numbers, or the largest.
                1 | 2 => {
                    let sum = if round % 8 == 1 { 972u64 } else { 3070 };
                    let field = bits[0] % 900 + 40;
                    let sized = |bits: u64, field: u64| f64::from_bits(bits >> 12 | bits << 63 | field << 52);
                    let other = sum.saturating_sub(field).min(2046);
                    [sized(bits[0], field), sized(bits[1], other), sized(bits[2], (bits[2] >> 40) % 60)]
                }
                // Few bits: halves between two numbers are hit.
                3 => bits.map(|bits| f64::from_bits(bits & (0xfff << 52 | 0x3f << 46) & !(1 << 62))),
                _ => bits.map(|bits| f64::from_bits(bits & !(0x7f << 55) | 0x3f << 56)),
            };
            match round % 16 {
                4..8 => [x, y, -(x * y)],
                8..12 => [x, y, f64::from_bits((x * y).to_bits() ^ (bits[2] >> 63 | 1 << 63))],
                12 => [x, y, z * 2f64.powi((bits[2] % 220) as i32 - 110)],
                _ => [x, y, z],
            }
        })
    }

    const SPECIAL: [f64; 13] = [
        0.0,
        -0.0,
        1.0,
        -1.5,
        f64::MAX,
        f64::MIN,
        f64::MIN_POSITIVE,
        5e-324,
        -5e-324,
        f64::INFINITY,
        f64::NEG_INFINITY,
        f64::NAN,
        1e-308,
    ];

    fn specials() -> impl Iterator<Item = [f64; 3]> {
        SPECIAL
            .iter()
            .flat_map(|&x| SPECIAL.iter().flat_map(move |&y| SPECIAL.iter().map(move |&z| [x, y, z])))
    }

    #[test]
    fn fma_in_double_is_the_processors() {
        for [x, y, z] in triples().chain(specials()) {
            let (found, truth) = (spirula_fma_f64(x, y, z), x.mul_add(y, z));
            let same = found.to_bits() == truth.to_bits() || (found.is_nan() && truth.is_nan());
            assert!(same, "{x:e} * {y:e} + {z:e} = {truth:e}, not {found:e}");
            let (found, truth) = (fma_in_integers(x, y, z), truth);
            let same = found.to_bits() == truth.to_bits() || (found.is_nan() && truth.is_nan());
            assert!(same, "in integers, {x:e} * {y:e} + {z:e} = {truth:e}, not {found:e}");
        }
    }

    #[test]
    fn fma_in_float_is_the_processors() {
        let narrow = |[x, y, z]: [f64; 3]| {
            // The size is lost in float: the upper bits are used instead.
            let of = |x: f64| f32::from_bits((x.to_bits() >> 29) as u32);
            [[x as f32, y as f32, z as f32], [of(x), of(y), of(z)], [of(x), of(y), -(of(x) * of(y))]]
        };
        for [x, y, z] in triples().chain(specials()).flat_map(narrow) {
            let (found, truth) = (spirula_fma_f32(x, y, z), x.mul_add(y, z));
            let same = found.to_bits() == truth.to_bits() || (found.is_nan() && truth.is_nan());
            assert!(same, "{x:e} * {y:e} + {z:e} = {truth:e}, not {found:e}");
        }
    }

    #[test]
    fn what_a_product_misses_is_exact() {
        for [x, y, z] in triples() {
            let product = x * y;
            let moderate = |x: f64| (1e-100..1e100).contains(&x.abs());
            if !(moderate(x) && moderate(y) && moderate(z)) {
                continue;
            }
            let missed = x.mul_add(y, -product);
            let error = (missed_in_halves(x, y, product) - missed).abs();
            assert!(error <= 2f64.powi(-104) * product.abs(), "{x:e} * {y:e}");
            let (fused, exact) = (fused_in_halves(x, y, z), x.mul_add(y, z));
            let bound = f64::EPSILON * exact.abs() + 2f64.powi(-104) * product.abs();
            assert!((fused - exact).abs() <= bound, "{x:e} * {y:e} + {z:e}");
            // 52 bits.
            let short = f64::from_bits(x.to_bits() & !1);
            let product = short * y;
            assert_eq!(missed_in_halves(short, y, product), short.mul_add(y, -product), "{short:e} * {y:e}");
        }
    }
}
