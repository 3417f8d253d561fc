//! Powers whose exponent is a constant of the program: small ones, and their halves, are products and a root. What is asked
//! of the exponent here is answered where the program is compiled, so that none of it is left in the code.

use std::hint::select_unpredictable;

/// Exponents from the first to the second. Each product rounds once, and so does an inverse: eight factors, or an inverse root's fifth
/// power, stay within the 16 ULP of 7.4. Nothing on the way overflows or loses bits unless the result does.
const EXPONENTS: (f32, f32) = (-3.0, 8.0);

/// Defines the module's functions for one type.
macro_rules! powers {
    ($module:ident, $float:ident) => {
        pub(crate) mod $module {
            use super::*;

            /// x^n for n among the exponents; 1 of anything to the power 0.
            #[inline(always)]
            fn whole(x: $float, n: i32) -> $float {
                let x = if n < 0 { 1.0 / x } else { x };
                let x2 = x * x;
                let x4 = x2 * x2;
                let factor = |bit: u32, x: $float| if n.unsigned_abs() & bit == 0 { 1.0 } else { x };
                factor(1, x) * factor(2, x2) * (factor(4, x4) * factor(8, x4 * x4))
            }

            /// |x^(n/2)| from x and its root.
            #[inline(always)]
            fn halves(x: $float, root: $float, n: i32) -> $float {
                let power = if n < 0 { whole(root, n) } else { whole(x, n / 2) * root };
                power.abs()
            }

            /// Twice the exponent, if it is one of those.
            #[inline(always)]
            fn twice(y: $float) -> Option<i32> {
                let twice = 2.0 * y;
                let is_small = y >= EXPONENTS.0.into() && y <= EXPONENTS.1.into();
                (is_small && twice.trunc() == twice).then(|| twice as i32)
            }

            /// pow, if the exponent is one of those.
            #[inline(always)]
            pub(crate) fn pow(x: $float, y: $float) -> Option<$float> {
                let n = twice(y)?;
                if n & 1 == 0 {
                    return Some(whole(x, n / 2));
                }
                // It has infinity of minus infinity, of which there is no root.
                let is_infinite = x == $float::NEG_INFINITY;
                Some(halves(x, select_unpredictable(is_infinite, $float::INFINITY, x.sqrt()), n))
            }

            /// pow for x >= 0, if the exponent is one of those and not zero.
            #[inline(always)]
            pub(crate) fn powr(x: $float, y: $float) -> Option<$float> {
                let n = twice(y).filter(|&n| n != 0)?;
                if n & 1 != 0 {
                    return Some(halves(x, x.sqrt(), n));
                }
                Some(select_unpredictable(x < 0.0, $float::NAN, whole(x, n / 2).abs()))
            }

            /// pown, if the exponent is one of those.
            #[inline(always)]
            pub(crate) fn pown(x: $float, n: i32) -> Option<$float> {
                (n >= EXPONENTS.0 as i32 && n <= EXPONENTS.1 as i32).then(|| whole(x, n))
            }
        }
    };
}

powers!(single, f32);
powers!(double, f64);

#[cfg(test)]
mod tests {
    use super::{double, single};

    #[test]
    fn only_small_exponents_and_their_halves_are_known() {
        for y in [-3.5, -3.25, 8.5, 0.1, f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e30] {
            assert_eq!((double::pow(2.0, y), single::pow(2.0, y as f32)), (None, None), "{y}");
        }
        assert_eq!(double::pow(4.0, -2.5), Some(1.0 / 32.0));
        assert_eq!(single::powr(2.0, 8.0), Some(256.0));
        assert_eq!((single::pown(2.0, 9), single::pown(2.0, -3)), (None, Some(0.125)));
        assert_eq!(single::powr(f32::INFINITY, 0.0), None, "that is undefined, and 1 for pow");
    }
}
