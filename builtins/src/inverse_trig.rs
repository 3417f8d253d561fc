//! Inverse trigonometric functions: odd polynomials on an interval around zero, the rest by identities. All
//! compute in float alone.

use crate::export;
use crate::multiply_add::MultiplyAdd;
use crate::polynomial::polynomial;
use std::f32::consts as single;
use std::hint::select_unpredictable;

/// (asin(s) / s - 1) / s² over s² for |s| <= 1/2; relative error 2^-27.6.
const ASIN: [f32; 5] = [0.16666752, 0.074953094, 0.045469154, 0.024184741, 0.0421584];

/// What is missing of π/2 in float; π misses twice that.
const PI_2_REST: f32 = -4.371139e-8;

/// Near π/2 with few bits, and what that misses.
const FRAC_PI_2_SHORT: f32 = 1.5625;
const FRAC_PI_2_ABOVE: f32 = 0.008_296_327;

/// What is missing of 1 / π in float.
const FRAC_1_PI_REST: f32 = 1.2841276e-8;

/// (high + low) / π of a smaller low, rounded once but for a little.
#[inline(always)]
fn over_pi(high: f32, low: f32) -> f32 {
    high.mad(single::FRAC_1_PI, low.mad(single::FRAC_1_PI, high * FRAC_1_PI_REST))
}

/// (atan(t) / t - 1) / t² over t² for |t| <= 1; relative error 2^-27.
const ATAN: [f32; 9] = [
    -0.333333,
    0.1999853,
    -0.14264016,
    0.109508775,
    -0.0839928,
    0.057885595,
    -0.031114426,
    0.010890422,
    -0.0017915583,
];

/// (atan(t) / t / π - c) / (t² - 1/2) over t² - 1/2 for |t| <= 1, with c = atan(√½) / √½ / π as a sum; relative error of the
/// arc 2^-25.9. Around the middle what is to be added is at most 0.041, so that its rounding hardly counts.
const ATANPI: [f32; 8] = [
    -0.06485655,
    0.026549285,
    -0.012814757,
    0.00670428,
    -0.0036231487,
    0.0020389135,
    -0.0014841246,
    0.00090462127,
];
const ATANPI_MIDDLE: (f32, f32) = (0.27706322, -8.749579e-9);

/// asin(s) of the s that callers make their results of: |x| for |x| <= 1/2, else √((1 - |x|) / 2).
struct Arc {
    s: f32,
    /// asin(s) / s - 1, at most 0.048. (The difference would be a denormal number sooner, and those take a hundred cycles.)
    above: f32,
    inner: bool,
}

impl Arc {
    #[inline(always)]
    fn new(x: f32) -> Self {
        let size = x.abs();
        let below = (-0.5f32).mad(size, 0.5);
        let root = below.sqrt();
        let inner = size <= 0.5;
        // (Of two ways, with the rest in both, a pack of work-items would go both.)
        let square = select_unpredictable(inner, size * size, below);
        let s = select_unpredictable(inner, size, root);
        Arc { s, above: square * polynomial(square, ASIN), inner }
    }

    /// asin(s).
    #[inline(always)]
    fn value(&self) -> f32 {
        self.s.mad(self.above, self.s)
    }

    /// π/2 - 2 asin(s) but for what follows; exact where that is below 1.
    #[inline(always)]
    fn outer(&self) -> f32 {
        (-2.0f32).mad(self.s, FRAC_PI_2_SHORT)
    }

    #[inline(always)]
    fn outer_rest(&self) -> f32 {
        (-2.0 * self.s).mad(self.above, FRAC_PI_2_ABOVE)
    }
}

/// asin(x) = π/2 - 2 asin(√((1 - x) / 2)) for x above 1/2. NaN beyond 1.
#[inline(always)]
fn asin(x: f32) -> f32 {
    let arc = Arc::new(x);
    select_unpredictable(arc.inner, arc.value(), arc.outer() + arc.outer_rest()).copysign(x)
}

/// acos(x) = 2 asin(√((1 - x) / 2)) for x above 1/2, π minus that of -x below -1/2.
#[inline(always)]
fn acos(x: f32) -> f32 {
    let arc = Arc::new(x);
    let middle = single::FRAC_PI_2 - (arc.value().copysign(x) - PI_2_REST);
    let far = single::PI - 2.0 * (arc.value() - PI_2_REST);
    let outer = select_unpredictable(x < 0.0, far, 2.0 * arc.value());
    select_unpredictable(arc.inner, middle, outer)
}

/// asin(x) / π.
#[inline(always)]
fn asinpi(x: f32) -> f32 {
    let arc = Arc::new(x);
    let high = select_unpredictable(arc.inner, arc.s, arc.outer());
    let low = select_unpredictable(arc.inner, arc.s * arc.above, arc.outer_rest());
    over_pi(high, low).copysign(x)
}

/// acos(x) / π.
#[inline(always)]
fn acospi(x: f32) -> f32 {
    let arc = Arc::new(x);
    let part = over_pi(arc.s, arc.s * arc.above);
    let outer = select_unpredictable(x < 0.0, (-2.0f32).mad(part, 1.0), 2.0 * part);
    select_unpredictable(arc.inner, 0.5 - part.copysign(x), outer)
}

/// The smaller of y and x by the larger, that squared, and whether the larger is y, for y and x not negative, not both zero or
/// infinite.
#[inline(always)]
fn flat_arc(y: f32, x: f32) -> (f32, f32, bool) {
    let steep = y > x;
    let ratio = select_unpredictable(steep, x, y) / select_unpredictable(steep, y, x);
    (ratio, ratio * ratio, steep)
}

/// atan(y / x) for such y and x.
#[inline(always)]
fn atan_quotient(y: f32, x: f32) -> f32 {
    let (ratio, square, steep) = flat_arc(y, x);
    // π/2 minus the arc, of which the first difference is exact where the result is below 1.
    let base = select_unpredictable(steep, single::FRAC_PI_2 - ratio, ratio);
    let cube = ratio * square;
    let cube = select_unpredictable(steep, -cube, cube);
    base + cube.mad(polynomial(square, ATAN), select_unpredictable(steep, PI_2_REST, 0.0))
}

/// The same in half-turns.
#[inline(always)]
fn atanpi_quotient(y: f32, x: f32) -> f32 {
    let (ratio, square, steep) = flat_arc(y, x);
    let (middle, low) = ATANPI_MIDDLE;
    let above = square - 0.5;
    let arc = ratio.mad(middle, ratio * above.mad(polynomial(above, ATANPI), low));
    select_unpredictable(steep, 0.5 - arc, arc)
}

#[inline(always)]
fn atan(x: f32) -> f32 {
    atan_quotient(x.abs(), 1.0).copysign(x)
}

/// |y| and |x| with their angle, neither both zero nor both infinite: 0 / 0 and ∞ / ∞ count as 0 / 1 and 1 / 1.
#[inline(always)]
fn rise_and_run(y: f32, x: f32) -> (f32, f32) {
    let equal = y.abs() == x.abs();
    let run = if equal { 1.0 } else { x.abs() };
    let rise = if equal && y != 0.0 { 1.0 } else { y.abs() };
    (rise, run)
}

/// The angle of the point (x, y), with C's values for zeros and infinities.
#[inline(always)]
fn atan2(y: f32, x: f32) -> f32 {
    let (rise, run) = rise_and_run(y, x);
    let first = atan_quotient(rise, run);
    let size = if x.is_sign_negative() { single::PI - (first - 2.0 * PI_2_REST) } else { first };
    let size = if x.is_nan() { x } else { size };
    size.copysign(y)
}

/// The same in half-turns; along axes and diagonals exact, as OpenCL 7.5.1 wants it.
#[inline(always)]
fn atan2pi(y: f32, x: f32) -> f32 {
    let (rise, run) = rise_and_run(y, x);
    let first = if rise == run { 0.25 } else { atanpi_quotient(rise, run) };
    let size = if x.is_sign_negative() { 1.0 - first } else { first };
    let size = if x.is_nan() { x } else { size };
    size.copysign(y)
}

export! {
    /// asin; 4 ULP allowed.
    spirula_asin_f32(x: f32) -> f32 = asin(x);
    /// acos; 4 ULP allowed.
    spirula_acos_f32(x: f32) -> f32 = acos(x);
    /// atan; 5 ULP allowed.
    spirula_atan_f32(x: f32) -> f32 = atan(x);
    /// atan2; 6 ULP allowed.
    spirula_atan2_f32(y: f32, x: f32) -> f32 = atan2(y, x);
    /// asinpi; 5 ULP allowed.
    spirula_asinpi_f32(x: f32) -> f32 = asinpi(x);
    /// acospi; 5 ULP allowed.
    spirula_acospi_f32(x: f32) -> f32 = acospi(x);
    /// atanpi; 5 ULP allowed.
    spirula_atanpi_f32(x: f32) -> f32 = atanpi_quotient(x.abs(), 1.0).copysign(x);
    /// atan2pi; 6 ULP allowed.
    spirula_atan2pi_f32(y: f32, x: f32) -> f32 = atan2pi(y, x);
}
