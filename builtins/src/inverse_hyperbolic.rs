//! Inverse hyperbolic functions of both widths, by the logarithm of 1 and a sum that comes with what its rounding missed: near zero,
//! where 1 would cover it, and beyond, where it covers 1, that is one formula.

use crate::multiply_add::MultiplyAdd;
use crate::reciprocal::Divide;
use crate::{double, export, log};
use std::hint::select_unpredictable;

/// The functions of a type, by `$log1p_of_sum`; numbers from `$huge` on have no sum with 1.
macro_rules! inverse_hyperbolic {
    ($name:ident: $float:ident, $huge:expr, $log1p_of_sum:path) => {
        mod $name {
            use super::*;

            /// log(|x| + √(x² + 1)).
            #[inline(always)]
            pub fn asinh(x: $float) -> $float {
                let size = x.abs();
                let square = size * size;
                let above = square * (1.0 + (square + 1.0).root()).inverse();
                log_of_root(size, size, above).copysign(x)
            }

            /// log(x + √(x² - 1)) in terms of x - 1, which is exact up to half of `$huge`; NaN below 1.
            #[inline(always)]
            pub fn acosh(x: $float) -> $float {
                let above = x - 1.0;
                let root = above.mad(above, above + above).root();
                let value = log_of_root(x, root, above);
                let value = select_unpredictable(x == 1.0, 0.0, value);
                select_unpredictable(x < 1.0, $float::NAN, value)
            }

            /// log(1 + a + b) for a >= b >= 0, or log 2x for a large x.
            #[inline(always)]
            fn log_of_root(x: $float, a: $float, b: $float) -> $float {
                let is_huge = x >= $huge;
                let sum = select_unpredictable(is_huge, x, a + b);
                let low = select_unpredictable(is_huge, 0.0, b - (sum - a));
                $log1p_of_sum(sum, low, select_unpredictable(is_huge, 1.0, 0.0))
            }

            /// log((1 + x) / (1 - x)) / 2, as 1 plus a quotient and what that misses.
            #[inline(always)]
            pub fn atanh(x: $float) -> $float {
                let size = x.abs();
                let below = 1.0 - size;
                let missed = (1.0 - below) - size;
                let (double, inverse) = (size + size, below.inverse());
                let quotient = double * inverse;
                let left = (-quotient).mad(missed, (-quotient).fused(below, double));
                let value = 0.5 * $log1p_of_sum(quotient, left * inverse, 0.0);
                let end = select_unpredictable(size == 1.0, $float::INFINITY, $float::NAN);
                select_unpredictable(size < 1.0, value, end).copysign(x)
            }
        }
    };
}

inverse_hyperbolic!(of_floats: f32, 33554432.0, log::log1p_of_sum);
inverse_hyperbolic!(of_doubles: f64, 18014398509481984.0, double::log::log1p_of_sum);

export! {
    /// asinh; 4 ULP allowed.
    spirula_asinh_f32(x: f32) -> f32 = of_floats::asinh(x);
    /// acosh; 4 ULP allowed.
    spirula_acosh_f32(x: f32) -> f32 = of_floats::acosh(x);
    /// atanh; 5 ULP allowed.
    spirula_atanh_f32(x: f32) -> f32 = of_floats::atanh(x);
    /// asinh; 4 ULP allowed.
    spirula_asinh_f64(x: f64) -> f64 = of_doubles::asinh(x);
    /// acosh; 4 ULP allowed.
    spirula_acosh_f64(x: f64) -> f64 = of_doubles::acosh(x);
    /// atanh; 5 ULP allowed.
    spirula_atanh_f64(x: f64) -> f64 = of_doubles::atanh(x);
}
