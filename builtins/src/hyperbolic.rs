//! Hyperbolic functions, from exponentials; near zero by polynomials, where those would cancel.

use crate::exp::{LN_2_PARTS, ROUND_SINGLE, assembled, exp_parts, power_of_two, remainder};
use crate::export;
use crate::multiply_add::MultiplyAdd;
use crate::polynomial::polynomial;
use std::f32::consts::LOG2_E;
use std::hint::select_unpredictable;

/// (sinh(r) / r - 1) / r² and (cosh(r) - 1) / r² over r² for |r| <= 0.347; relative errors 2^-34 and 2^-33.
const SINH: [f32; 3] = [0.16666667, 0.008333176, 0.0001997301];
const COSH: [f32; 3] = [0.5, 0.041666456, 0.0013935842];

/// With |x| = k ln 2 + r, sinh and cosh of x are 2^(k-1) ∓ 2^(-k-1) times cosh r plus 2^(k-1) ± 2^(-k-1) times sinh r,
/// which needs no division and cancels nowhere: k = 0 leaves sinh r alone.
struct Parts {
    size: f32,
    /// sinh r and cosh r - 1.
    rest: (f32, f32),
    shifted: f32,
}

/// From here on 2^(-k-1) counts for nothing and 2^(k-1) may soon be too large.
const LARGE: f32 = 80.0;

impl Parts {
    #[inline(always)]
    fn new(x: f32) -> Self {
        let (r, shifted) = remainder(x.abs(), LOG2_E, LN_2_PARTS);
        let square = r * r;
        // (Cubes would be denormal numbers sooner, and those take a hundred cycles.)
        let sinh = r.mad(square * polynomial(square, SINH), r);
        Parts { size: x.abs(), rest: (sinh, square * polynomial(square, COSH)), shifted }
    }

    /// sinh for -1, cosh for 1. (From k = 12 on cosh's larger factor would be rounded: its halves are added one by one.)
    #[inline(always)]
    fn result(&self, sign: f32) -> f32 {
        let (sinh, above) = self.rest;
        let k = self.shifted.to_bits().wrapping_sub(ROUND_SINGLE.to_bits()) as i32;
        let (rising, falling) = (power_of_two(k.wrapping_sub(1)), power_of_two((-1i32).wrapping_sub(k)));
        let (a, b) = (sign.mad(falling, rising), (-sign).mad(falling, rising));
        if self.size >= LARGE {
            return assembled(0.5 + 0.5 * (above + sinh), self.shifted, self.size, 0.0, 95.0);
        }
        if sign < 0.0 {
            return a + b.mad(sinh, a * above);
        }
        rising + a.mad(above, b.mad(sinh, falling))
    }
}

#[inline(always)]
fn sinh(x: f32) -> f32 {
    Parts::new(x).result(-1.0).copysign(x)
}

#[inline(always)]
fn cosh(x: f32) -> f32 {
    Parts::new(x).result(1.0)
}

/// (tanh(x) / x - 1) / x² over x² for |x| <= 0.55; relative error 2^-29.7 of all.
const TANH: [f32; 5] = [-0.33333316, 0.13332544, -0.053847548, 0.021050714, -0.0062428494];

/// 1 - 2 / (e^2x + 1), whose errors count for less than half; near zero, where they would not, a polynomial. 1 to float's
/// precision from 10 on.
#[inline(always)]
fn tanh(x: f32) -> f32 {
    let size = if x.abs() > 10.0 { 10.0 } else { x.abs() };
    let square = size * size;
    let near = size.mad(square * polynomial(square, TANH), size);
    let (above, power) = exp_parts(2.0 * size);
    let far = 1.0 - 2.0 / power.mad(above, power + 1.0);
    select_unpredictable(size < 0.55, near, far).copysign(x)
}

export! {
    /// sinh; 4 ULP allowed.
    spirula_sinh_f32(x: f32) -> f32 = sinh(x);
    /// cosh; 4 ULP allowed.
    spirula_cosh_f32(x: f32) -> f32 = cosh(x);
    /// tanh; 5 ULP allowed.
    spirula_tanh_f32(x: f32) -> f32 = tanh(x);
}
