//! Inverse trigonometric functions, as for float; where a constant like π/2 is added, its second double goes along.

use crate::export;
use crate::multiply_add::MultiplyAdd;
use crate::polynomial::polynomial;
use std::f64::consts::{FRAC_1_PI, FRAC_PI_2, PI};

/// π/2 - FRAC_PI_2.
const PI_2_REST: f64 = 6.123233995736766e-17;

/// (asin(s) / s - 1) / s² over s² for |s| <= 1/2; relative error 2^-65.
const ASIN: [f64; 16] = [
    0.16666666666666666,
    0.07500000000000001,
    0.044642857142854896,
    0.030381944444744974,
    0.022372159069840483,
    0.017352765313989122,
    0.013964819093904957,
    0.011552270675713022,
    0.009755249440263935,
    0.00845263412545028,
    0.006868000082946958,
    0.008747626096338083,
    -0.0027373541914480107,
    0.026534461476702034,
    -0.02934085752120775,
    0.03210298956952057,
];

/// (atan(t) / t - 1) / t² over t² for |t| <= 1; relative error 2^-58.
const ATAN: [f64; 22] = [
    -0.3333333333333333,
    0.1999999999999992,
    -0.14285714285701234,
    0.11111111110268297,
    -0.0909090906193528,
    0.07692307078827029,
    -0.06666657934573768,
    0.05882264416776449,
    -0.052624922290256754,
    0.04758080083637821,
    -0.043306538430670664,
    0.03938687540798632,
    -0.035271331066871296,
    0.030330719265790507,
    -0.024191345810140718,
    0.01718398172211335,
    -0.010412153260359241,
    0.005140912856746939,
    -0.0019612554271685326,
    0.0005376839297396244,
    -9.371186345052626e-05,
    7.767624330289919e-06,
];

/// asin(|x|) up to 1/2, else asin(√((1 - |x|) / 2)).
#[inline(always)]
fn arc(x: f64) -> f64 {
    let outer = x.abs() > 0.5;
    let square = if outer { 0.5 - 0.5 * x.abs() } else { x * x };
    let root = if outer { square.sqrt() } else { x.abs() };
    // What rounding the root lost.
    let lost = (-root).fused(root, square) / (2.0 * root);
    let lost = if outer && root > 0.0 { lost } else { 0.0 };
    root + (root * square * polynomial(square, ASIN) + lost)
}

#[inline(always)]
fn asin(x: f64) -> f64 {
    let arc = arc(x);
    let size = if x.abs() > 0.5 { FRAC_PI_2 - (2.0 * arc - PI_2_REST) } else { arc };
    size.copysign(x)
}

#[inline(always)]
fn acos(x: f64) -> f64 {
    let arc = arc(x);
    let outer = if x < 0.0 { PI - (2.0 * arc - 2.0 * PI_2_REST) } else { 2.0 * arc };
    if x.abs() > 0.5 { outer } else { FRAC_PI_2 - (arc.copysign(x) - PI_2_REST) }
}

/// The arc tangent of the smaller of y and x by the larger, and whether that is y, for y and x not negative, not both
/// zero or infinite.
#[inline(always)]
fn flat_arc(y: f64, x: f64) -> (f64, bool) {
    let steep = y > x;
    let ratio = if steep { x / y } else { y / x };
    let square = ratio * ratio;
    (ratio + ratio * square * polynomial(square, ATAN), steep)
}

/// atan(y / x) for such y and x.
#[inline(always)]
fn atan_quotient(y: f64, x: f64) -> f64 {
    let (arc, steep) = flat_arc(y, x);
    if steep { FRAC_PI_2 - (arc - PI_2_REST) } else { arc }
}

#[inline(always)]
fn atan(x: f64) -> f64 {
    atan_quotient(x.abs(), 1.0).copysign(x)
}

/// |y| and |x| with their angle, neither both zero nor both infinite: 0 / 0 and ∞ / ∞ count as 0 / 1 and 1 / 1.
#[inline(always)]
fn rise_and_run(y: f64, x: f64) -> (f64, f64) {
    let equal = y.abs() == x.abs();
    let run = if equal { 1.0 } else { x.abs() };
    let rise = if equal && y != 0.0 { 1.0 } else { y.abs() };
    (rise, run)
}

/// The angle of the point (x, y), with C's values for zeros and infinities.
#[inline(always)]
fn atan2(y: f64, x: f64) -> f64 {
    let (rise, run) = rise_and_run(y, x);
    let first = atan_quotient(rise, run);
    let size = if x.is_sign_negative() { PI - (first - 2.0 * PI_2_REST) } else { first };
    let size = if x.is_nan() { x } else { size };
    size.copysign(y)
}

/// The same in half-turns; along axes and diagonals exact, as OpenCL 7.5.1 wants it.
#[inline(always)]
fn atan2pi(y: f64, x: f64) -> f64 {
    let (rise, run) = rise_and_run(y, x);
    let (arc, steep) = flat_arc(rise, run);
    let arc = if rise == run { 0.25 } else { arc * FRAC_1_PI };
    let first = if steep { 0.5 - arc } else { arc };
    let size = if x.is_sign_negative() { 1.0 - first } else { first };
    let size = if x.is_nan() { x } else { size };
    size.copysign(y)
}

export! {
    /// asin; 4 ULP allowed.
    spirula_asin_f64(x: f64) -> f64 = asin(x);
    /// acos; 4 ULP allowed.
    spirula_acos_f64(x: f64) -> f64 = acos(x);
    /// atan; 5 ULP allowed.
    spirula_atan_f64(x: f64) -> f64 = atan(x);
    /// atan2; 6 ULP allowed.
    spirula_atan2_f64(y: f64, x: f64) -> f64 = atan2(y, x);
    /// asinpi; 5 ULP allowed.
    spirula_asinpi_f64(x: f64) -> f64 = asin(x) * FRAC_1_PI;
    /// acospi; 5 ULP allowed.
    spirula_acospi_f64(x: f64) -> f64 = acos(x) * FRAC_1_PI;
    /// atanpi; 5 ULP allowed.
    spirula_atanpi_f64(x: f64) -> f64 = atan(x) * FRAC_1_PI;
    /// atan2pi; 6 ULP allowed.
    spirula_atan2pi_f64(y: f64, x: f64) -> f64 = atan2pi(y, x);
}
