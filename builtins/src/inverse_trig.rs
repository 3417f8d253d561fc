//! Inverse trigonometric functions: odd polynomials on an interval around zero, the rest by identities. The arc
//! tangents compute in float alone.

use crate::export;
use crate::polynomial::polynomial;
use std::f32::consts as single;
use std::f64::consts::{FRAC_1_PI, FRAC_PI_2, PI};

/// asin(s) / s over s² for |s| <= 1/2; relative error 2^-44.
const ASIN: [f64; 10] = [
    0.999999999999949,
    0.16666666670739985,
    0.07499999465541901,
    0.044643127795630184,
    0.03037502667647575,
    0.022472881657891398,
    0.016470893198077496,
    0.018646328134526484,
    -0.002874145509656018,
    0.03196080310674931,
];

/// (atan(t) / t - 1) / t² over t² for |t| <= 1; relative error 2^-27.
const ATAN: [f32; 10] = [
    -0.33333334,
    0.1999995,
    -0.14284004,
    0.11088262,
    -0.08931827,
    0.070319146,
    -0.048960514,
    0.026305001,
    -0.009144629,
    0.0014886919,
];

/// asin(|x|) for |x| <= 1/2, else asin(√((1 - |x|) / 2)), of which the callers make their result.
#[inline(always)]
fn arc(x: f64) -> f64 {
    let square = if x.abs() > 0.5 { 0.5 - 0.5 * x.abs() } else { x * x };
    let root = if x.abs() > 0.5 { square.sqrt() } else { x.abs() };
    root * polynomial(square, ASIN)
}

/// asin(x) = π/2 - 2 asin(√((1 - x) / 2)) for x above 1/2. NaN beyond 1.
#[inline(always)]
fn asin_narrow(x: f64) -> f64 {
    let arc = arc(x);
    let size = if x.abs() > 0.5 { FRAC_PI_2 - 2.0 * arc } else { arc };
    size.copysign(x)
}

/// acos(x) = 2 asin(√((1 - x) / 2)) for x above 1/2, π minus that of -x below -1/2.
#[inline(always)]
fn acos_narrow(x: f64) -> f64 {
    let arc = arc(x);
    let outer = if x < 0.0 { PI - 2.0 * arc } else { 2.0 * arc };
    if x.abs() > 0.5 { outer } else { FRAC_PI_2 - arc.copysign(x) }
}

/// atan(y / x) for y and x not negative, not both zero or infinite.
#[inline(always)]
fn atan_quotient(y: f32, x: f32) -> f32 {
    let steep = y > x;
    let ratio = if steep { x / y } else { y / x };
    let square = ratio * ratio;
    let arc = (ratio * square).mul_add(polynomial(square, ATAN), ratio);
    if steep { single::FRAC_PI_2 - arc } else { arc }
}

#[inline(always)]
fn atan(x: f32) -> f32 {
    atan_quotient(x.abs(), 1.0).copysign(x)
}

/// The angle of the point (x, y), with C's values for zeros and infinities.
#[inline(always)]
fn atan2(y: f32, x: f32) -> f32 {
    // 0 / 0 and ∞ / ∞ count as 0 / 1 and 1 / 1.
    let equal = y.abs() == x.abs();
    let run = if equal { 1.0 } else { x.abs() };
    let rise = if equal && y != 0.0 { 1.0 } else { y.abs() };
    let first = atan_quotient(rise, run);
    let size = if x.is_sign_negative() { single::PI - first } else { first };
    let size = if x.is_nan() { x } else { size };
    size.copysign(y)
}

export! {
    /// asin; 4 ULP allowed.
    spirula_asin_f32(x: f32) -> f32 = asin_narrow(x.into()) as f32;
    /// acos; 4 ULP allowed.
    spirula_acos_f32(x: f32) -> f32 = acos_narrow(x.into()) as f32;
    /// atan; 5 ULP allowed.
    spirula_atan_f32(x: f32) -> f32 = atan(x);
    /// atan2; 6 ULP allowed.
    spirula_atan2_f32(y: f32, x: f32) -> f32 = atan2(y, x);
    /// asinpi; 5 ULP allowed.
    spirula_asinpi_f32(x: f32) -> f32 = (asin_narrow(x.into()) * FRAC_1_PI) as f32;
    /// acospi; 5 ULP allowed.
    spirula_acospi_f32(x: f32) -> f32 = (acos_narrow(x.into()) * FRAC_1_PI) as f32;
    /// atanpi; 5 ULP allowed.
    spirula_atanpi_f32(x: f32) -> f32 = atan(x) * single::FRAC_1_PI;
    /// atan2pi; 6 ULP allowed.
    spirula_atan2pi_f32(y: f32, x: f32) -> f32 = atan2(y, x) * single::FRAC_1_PI;
}
