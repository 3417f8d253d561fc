//! Inverse trigonometric functions, as for float; where a constant like π/2 is added, its second double goes along.

use crate::export;
use crate::multiply_add::MultiplyAdd;
use crate::polynomial::polynomial;
use crate::reciprocal::{Divide, reciprocal};
use std::f64::consts::{FRAC_1_PI, FRAC_PI_2, PI};
use std::hint::select_unpredictable;

/// π/2 - FRAC_PI_2.
const PI_2_REST: f64 = 6.123233995736766e-17;

/// Beyond, the reciprocal of a slope is nothing beside π/2.
const LARGEST_SLOPE: f64 = 1e20;

/// (asin(s) / s - 1) / s² over s² for |s| <= 1/2; error 2^-55 / s².
const ASIN: [f64; 12] = [
    0.16666666666665383,
    0.07500000000343054,
    0.04464285682347499,
    0.030381959331487456,
    0.022371753519621253,
    0.017359771136670473,
    0.013884598370129073,
    0.012173279105186431,
    0.006510856725107169,
    0.019573892152632198,
    -0.01629404626052294,
    0.031958944177949054,
];

/// (atan(t) / t - 1) / t² over t² for |t| <= 1; error 2^-56 / t².
const ATAN: [f64; 20] = [
    -0.3333333333333307,
    0.19999999999951462,
    -0.14285714282575138,
    0.11111111007026742,
    -0.0909090700299756,
    0.07692279839324973,
    -0.06666404057587105,
    0.05880527813575704,
    -0.05253518544809204,
    0.04722322181202654,
    -0.042191788468530354,
    0.03664190846350154,
    -0.02990385433352352,
    0.021984848026154823,
    -0.013900554990539164,
    0.007196499588040449,
    -0.0028849166382660853,
    0.0008313212255101133,
    -0.00015216073586507838,
    1.3225063171023206e-05,
];

/// asin(|x|) up to 1/2, else asin(√((1 - |x|) / 2)).
#[inline(always)]
fn arc(x: f64) -> f64 {
    let outer = x.abs() > 0.5;
    let square = select_unpredictable(outer, 0.5 - 0.5 * x.abs(), x * x);
    // Nothing takes a root of zero; of less than zero, where |x| > 1, it is NaN.
    let root = select_unpredictable(square == 0.0, 0.0, square.root());
    let root = select_unpredictable(outer, root, x.abs());
    (root * square).mad(polynomial(square, ASIN), root)
}

#[inline(always)]
fn asin(x: f64) -> f64 {
    let arc = arc(x);
    select_unpredictable(x.abs() > 0.5, FRAC_PI_2 - (2.0 * arc - PI_2_REST), arc).copysign(x)
}

#[inline(always)]
fn acos(x: f64) -> f64 {
    let arc = arc(x);
    let outer = select_unpredictable(x < 0.0, PI - (2.0 * arc - 2.0 * PI_2_REST), 2.0 * arc);
    select_unpredictable(x.abs() > 0.5, outer, FRAC_PI_2 - (arc.copysign(x) - PI_2_REST))
}

/// The arc tangent of the smaller of y and x by the larger, and whether that is y, for y and x not negative, not both
/// zero or infinite.
#[inline(always)]
fn flat_arc(y: f64, x: f64) -> (f64, bool) {
    let steep = y > x;
    let (above, below) = (select_unpredictable(steep, x, y), select_unpredictable(steep, y, x));
    (arc_of_slope(above / below), steep)
}

/// The arc tangent of a number from 0 to 1.
#[inline(always)]
fn arc_of_slope(slope: f64) -> f64 {
    let square = slope * slope;
    slope + slope * square * polynomial(square, ATAN)
}

/// atan(y / x) for such y and x.
#[inline(always)]
fn atan_quotient(y: f64, x: f64) -> f64 {
    let (arc, steep) = flat_arc(y, x);
    select_unpredictable(steep, FRAC_PI_2 - (arc - PI_2_REST), arc)
}

#[inline(always)]
fn atan(x: f64) -> f64 {
    let size = x.abs();
    let steep = size > 1.0;
    let inverse = select_unpredictable(size > LARGEST_SLOPE, 0.0, reciprocal(size));
    // (Were these ways of a branch, each would get the polynomial, and packs would go both.)
    let arc = arc_of_slope(select_unpredictable(steep, inverse, size));
    select_unpredictable(steep, FRAC_PI_2 - (arc - PI_2_REST), arc).copysign(x)
}

/// |y| and |x| with their angle, neither both zero nor both infinite: 0 / 0 and ∞ / ∞ count as 0 / 1 and 1 / 1.
#[inline(always)]
fn rise_and_run(y: f64, x: f64) -> (f64, f64) {
    let equal = y.abs() == x.abs();
    let run = select_unpredictable(equal, 1.0, x.abs());
    let rise = select_unpredictable(equal & (y != 0.0), 1.0, y.abs());
    (rise, run)
}

/// The angle of the point (x, y), with C's values for zeros and infinities.
#[inline(always)]
fn atan2(y: f64, x: f64) -> f64 {
    let (rise, run) = rise_and_run(y, x);
    let first = atan_quotient(rise, run);
    let size = select_unpredictable(x.is_sign_negative(), PI - (first - 2.0 * PI_2_REST), first);
    let size = select_unpredictable(x.is_nan(), x, size);
    size.copysign(y)
}

/// The same in half-turns; along axes and diagonals exact, as OpenCL 7.5.1 wants it.
#[inline(always)]
fn atan2pi(y: f64, x: f64) -> f64 {
    let (rise, run) = rise_and_run(y, x);
    let (arc, steep) = flat_arc(rise, run);
    let arc = select_unpredictable(rise == run, 0.25, arc * FRAC_1_PI);
    let first = select_unpredictable(steep, 0.5 - arc, arc);
    let size = select_unpredictable(x.is_sign_negative(), 1.0 - first, first);
    let size = select_unpredictable(x.is_nan(), x, size);
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
