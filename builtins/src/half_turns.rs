//! Sine and cosine of half turns, for both widths. Less the nearest even number of them an angle is exact, and both functions are a sine
//! within a quarter turn: sin(π a) = sin(π (1 - a)), cos(π a) = sin(π (½ - a)). So that is one polynomial.

use crate::export;
use crate::multiply_add::MultiplyAdd;
use crate::polynomial::polynomial;

macro_rules! half_turns {
    ($module:ident, $float:ident, $above_pi:expr, $tail:expr) => {
        pub(crate) mod $module {
            use super::*;
            use std::$float::consts::PI;

            /// π - PI.
            const PI_REST: $float = $above_pi;
            /// (sin(π g) / g - π) / g² over g² for |g| <= 1/2.
            const TAIL: [$float; $tail.len()] = $tail;

            /// sin(π g) for |g| <= 1/2; exactly 1 at its end.
            #[inline(always)]
            fn sine_within_quarter_turn(g: $float) -> $float {
                let z = g * g;
                g.mad(PI, g * z.mad(polynomial(z, TAIL), PI_REST))
            }

            /// |x| less the nearest even number, from -1 to 1. NaN of infinity.
            #[inline(always)]
            fn within_turn(x: $float) -> $float {
                let size = x.abs();
                (-2.0 as $float).mad((0.5 * size).round_ties_even(), size)
            }

            /// sin(π |x|). Integers give 0.
            #[inline(always)]
            pub(crate) fn sine(x: $float) -> $float {
                let f = within_turn(x);
                let size = f.abs();
                let supplement = 1.0 - size;
                let g = if supplement < size { supplement } else { size };
                let sign = f.to_bits() & (-0.0 as $float).to_bits();
                $float::from_bits(sine_within_quarter_turn(g).to_bits() ^ sign) + 0.0
            }

            /// cos(π x). Its zeros are positive.
            #[inline(always)]
            pub(crate) fn cosine(x: $float) -> $float {
                sine_within_quarter_turn(0.5 - within_turn(x).abs()) + 0.0
            }

            /// sin(π x). Integers give a zero of their sign.
            #[inline(always)]
            pub(super) fn odd_sine(x: $float) -> $float {
                $float::from_bits(sine(x).to_bits() ^ (x.to_bits() & (-0.0 as $float).to_bits()))
            }
        }
    };
}

// Relative errors 2^-27 and 2^-60.
half_turns!(single, f32, -8.742278e-8, [-5.167_711, 2.550_086_3, -0.598_331_33, 0.077_719_04]);
half_turns!(
    double,
    f64,
    1.2246467991473532e-16,
    [
        -5.167712780049969,
        2.550164039877269,
        -0.5992645293177656,
        0.08214588655280673,
        -0.0073704303217456205,
        0.00046629890481155004,
        -2.1901171023476416e-05,
        7.673862892388991e-07,
    ]
);

export! {
    /// sinpi; 4 ULP allowed. Integers give a zero of their sign.
    spirula_sinpi_f32(x: f32) -> f32 = single::odd_sine(x);
    /// cospi; 4 ULP allowed. Zeros are positive.
    spirula_cospi_f32(x: f32) -> f32 = single::cosine(x);
    /// sinpi of doubles; likewise.
    spirula_sinpi_f64(x: f64) -> f64 = double::odd_sine(x);
    /// cospi of doubles; likewise.
    spirula_cospi_f64(x: f64) -> f64 = double::cosine(x);
}
