//! The float functions against double references of the platform's libm, within the specification's limits: edge
//! values, evenly spaced bit patterns, and numbers around the places where the functions change.

use spirula_builtins as library;
use spirula_builtins::accuracy;
use std::f64::consts::PI;

/// Zeros, infinities, NaN, denormals, powers of two and their neighbours, of both signs.
fn edges() -> Vec<f32> {
    let sizes =
        [0.0, f32::INFINITY, f32::NAN, f32::MIN_POSITIVE, f32::MAX, 1.0e-45, 1.0e-40, 0.5, 1.0, 1.5, 2.0];
    let more =
        [2.5, 3.0, 4.0, 10.0, 88.7, 89.0, 103.9, 150.0, 1.0e10, 8388608.0, 8388609.0, 16777216.0, 3.3e7];
    let powers = (-149..128).map(|e| 2.0f64.powi(e) as f32);
    let sizes = sizes.into_iter().chain(more).chain(powers);
    sizes.flat_map(|x| [x, x.next_up(), x.next_down()]).flat_map(|x| [x, -x]).collect()
}

/// Bit patterns over the whole type (SPIRULA_PATTERNS of them), and numbers evenly spaced around zero.
fn arguments() -> impl Iterator<Item = f32> {
    let count =
        std::env::var("SPIRULA_PATTERNS").ok().and_then(|count| count.parse().ok()).unwrap_or(1u64 << 16);
    let patterns = (0..count).map(move |i| f32::from_bits((i * ((1 << 32) / count) + i % 61) as u32));
    let spaced = (-20_000..20_000).map(|i| i as f32 * 0.002_517);
    edges().into_iter().chain(patterns).chain(spaced)
}

/// The distance from the true value in units of its last place as float.
fn ulp(found: f32, truth: f64) -> f64 {
    if found.is_nan() || truth.is_nan() {
        return if found.is_nan() && truth.is_nan() { 0.0 } else { f64::INFINITY };
    }
    let rounded = truth as f32;
    if found == rounded {
        return 0.0;
    }
    if found.is_infinite() && rounded.is_infinite() {
        return f64::INFINITY;
    }
    // Beyond the largest float counts on as if there were more.
    let value =
        if found.is_infinite() { f64::from(found.signum()) * 2.0f64.powi(128) } else { f64::from(found) };
    let exponent = if truth == 0.0 { -126 } else { (truth.abs().log2().floor() as i32).clamp(-126, 127) };
    (value - truth).abs() / 2.0f64.powi(exponent - 23)
}

fn check(name: &str, what: impl std::fmt::Debug, found: f32, truth: f64) {
    let limit = accuracy::of(name).unwrap_or_else(|| panic!("{name} has no limit")).single;
    let error = ulp(found, truth);
    assert!(error <= limit, "{name}{what:?} = {found:e}, should be {truth:e}: {error} ULP");
    if truth == 0.0 && found == 0.0 && !matches!(name, "remainder") {
        assert_eq!(found.is_sign_negative(), truth.is_sign_negative(), "{name}{what:?}: the zero's sign");
    }
}

fn unary(name: &str, function: extern "C" fn(f32) -> f32, reference: impl Fn(f64) -> f64) {
    arguments().for_each(|x| check(name, (x,), function(x), reference(x.into())));
}

fn binary(name: &str, function: extern "C" fn(f32, f32) -> f32, reference: impl Fn(f64, f64) -> f64) {
    let edges = edges();
    let pairs = edges.iter().step_by(3).flat_map(|&x| edges.iter().step_by(5).map(move |&y| (x, y)));
    let mut state = 1u64;
    let random = (0..50_000).map(move |i| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        let (x, y) = ((state >> 32) as u32, (state as u32).rotate_left(16));
        // Any patterns, and moderate numbers.
        if i % 2 == 0 {
            (f32::from_bits(x), f32::from_bits(y))
        } else {
            (x as f32 / 1e9, (y as f32 - 2e9) / 1e8)
        }
    });
    pairs.chain(random).for_each(|(x, y)| check(name, (x, y), function(x, y), reference(x.into(), y.into())));
}

/// sin(π x) and cos(π x) from the exact distance to the nearest half.
fn half_turns(x: f64) -> (f64, f64) {
    let rest = x % 2.0;
    let turn = (2.0 * rest).round();
    let angle = (rest - turn / 2.0) * PI;
    match (turn as i64).rem_euclid(4) {
        0 => (angle.sin(), angle.cos()),
        1 => (angle.cos(), -angle.sin()),
        2 => (-angle.sin(), -angle.cos()),
        _ => (-angle.cos(), angle.sin()),
    }
}

fn sinpi(x: f64) -> f64 {
    if x.trunc() == x && x.is_finite() { 0.0f64.copysign(x) } else { half_turns(x).0 }
}

fn cospi(x: f64) -> f64 {
    half_turns(x).1 + 0.0
}

fn tanpi(x: f64) -> f64 {
    let (sin, cos) = half_turns(x);
    let odd = |n: f64| (n / 2.0).trunc() != n / 2.0;
    if x.is_finite() && x.trunc() == x {
        return if odd(x) { 0.0f64.copysign(-x) } else { 0.0f64.copysign(x) };
    }
    if x.is_finite() && (2.0 * x).trunc() == 2.0 * x {
        let size = if odd(x.abs() - 0.5) { f64::NEG_INFINITY } else { f64::INFINITY };
        return if x < 0.0 { -size } else { size };
    }
    sin / cos
}

#[test]
fn exponentials() {
    unary("exp", library::spirula_exp_f32, f64::exp);
    unary("exp2", library::spirula_exp2_f32, f64::exp2);
    unary("exp10", library::spirula_exp10_f32, |x| 10.0f64.powf(x));
    unary("expm1", library::spirula_expm1_f32, f64::exp_m1);
}

#[test]
fn logarithms() {
    unary("log", library::spirula_log_f32, f64::ln);
    unary("log2", library::spirula_log2_f32, f64::log2);
    unary("log10", library::spirula_log10_f32, f64::log10);
    unary("log1p", library::spirula_log1p_f32, f64::ln_1p);
}

#[test]
fn trigonometric() {
    unary("sin", library::spirula_sin_f32, f64::sin);
    unary("cos", library::spirula_cos_f32, f64::cos);
    unary("tan", library::spirula_tan_f32, f64::tan);
    unary("sinpi", library::spirula_sinpi_f32, sinpi);
    unary("cospi", library::spirula_cospi_f32, cospi);
    unary("tanpi", library::spirula_tanpi_f32, tanpi);
}

#[test]
fn inverse_trigonometric() {
    unary("asin", library::spirula_asin_f32, f64::asin);
    unary("acos", library::spirula_acos_f32, f64::acos);
    unary("atan", library::spirula_atan_f32, f64::atan);
    binary("atan2", library::spirula_atan2_f32, f64::atan2);
    unary("asinpi", library::spirula_asinpi_f32, |x| x.asin() / PI);
    unary("acospi", library::spirula_acospi_f32, |x| x.acos() / PI);
    unary("atanpi", library::spirula_atanpi_f32, |x| x.atan() / PI);
    binary("atan2pi", library::spirula_atan2pi_f32, |y, x| y.atan2(x) / PI);
}

#[test]
fn hyperbolic() {
    unary("sinh", library::spirula_sinh_f32, f64::sinh);
    unary("cosh", library::spirula_cosh_f32, f64::cosh);
    unary("tanh", library::spirula_tanh_f32, f64::tanh);
    // Rust's own lose accuracy near zero and for large numbers.
    let asinh = |x: f64| {
        let size = x.abs();
        let value = (size + size * size / (1.0 + size.hypot(1.0))).ln_1p();
        (if size < 1e100 { value } else { size.ln() + 2.0f64.ln() }).copysign(x)
    };
    unary("asinh", library::spirula_asinh_f32, asinh);
    let acosh = |x: f64| if x < 1.0 { f64::NAN } else { (x - 1.0 + ((x - 1.0) * (x + 1.0)).sqrt()).ln_1p() };
    unary("acosh", library::spirula_acosh_f32, acosh);
    unary("atanh", library::spirula_atanh_f32, |x| 0.5 * (x.ln_1p() - (-x).ln_1p()));
}

#[test]
fn powers() {
    binary("pow", library::spirula_pow_f32, f64::powf);
    binary("powr", library::spirula_powr_f32, |x, y| {
        let undefined = x < 0.0 || x.is_nan() || y.is_nan() || (y == 0.0 && (x == 0.0 || x.is_infinite()));
        if undefined || (x == 1.0 && y.is_infinite()) { f64::NAN } else { x.abs().powf(y) }
    });
    for n in [0, 1, -1, 2, 3, -3, 7, 20, -20, 127, 1000, -1001, i32::MAX, i32::MIN, i32::MAX - 1] {
        for x in arguments().step_by(5) {
            check("pown", (x, n), library::spirula_pown_f32(x, n), f64::from(x).powf(n.into()));
            let size = f64::from(x).abs().powf(1.0 / f64::from(n));
            let root = match n & 1 {
                _ if n == 0 => f64::NAN,
                1 => size.copysign(x.into()),
                _ if x < 0.0 => f64::NAN,
                _ => size,
            };
            check("rootn", (x, n), library::spirula_rootn_f32(x, n), root);
        }
    }
    unary("cbrt", library::spirula_cbrt_f32, f64::cbrt);
    binary("hypot", library::spirula_hypot_f32, f64::hypot);
}

#[test]
fn divisions() {
    binary("fmod", library::spirula_fmod_f32, |x, y| x % y);
    for (x, y, rest, count) in
        [(5.0, 3.0, -1.0, 2), (-5.0, 3.0, 1.0, -2), (7.5, 3.0, 1.5, 2), (4.5, 3.0, -1.5, 2)]
    {
        assert_eq!(library::spirula_remainder_f32(x, y), rest);
        assert_eq!(library::spirula_quotient_f32(x, y), count, "{x} / {y}");
    }
    binary("remainder", library::spirula_remainder_f32, |x, y| {
        // fmod of twice the divisor leaves one decision.
        if y.is_infinite() && x.is_finite() {
            return x;
        }
        let y = y.abs();
        let rest = (x % (2.0 * y)).abs();
        let rest = if rest >= 1.5 * y {
            rest - 2.0 * y
        } else if rest > 0.5 * y {
            rest - y
        } else {
            rest
        };
        if x < 0.0 { -rest } else { rest }
    });
}

#[test]
fn representation() {
    let quiet = |x: f32| if x.is_nan() { f32::NAN } else { x };
    for x in arguments() {
        let (mantissa, exponent) = (library::spirula_frexp_f32(x), library::spirula_frexp_exponent_f32(x));
        if x == 0.0 || !x.is_finite() {
            assert_eq!(quiet(mantissa).to_bits(), quiet(x).to_bits());
            assert_eq!(exponent, 0);
            continue;
        }
        assert!((0.5..1.0).contains(&mantissa.abs()), "{x:e}");
        assert_eq!(f64::from(mantissa) * 2.0f64.powi(exponent), f64::from(x));
        assert_eq!(library::spirula_ilogb_f32(x), exponent - 1);
        assert_eq!(library::spirula_logb_f32(x), (exponent - 1) as f32);
        for n in [0, 1, -1, 5, -30, -140, 140, 270, -270, 1000, i32::MAX, i32::MIN] {
            let truth = f64::from(x) * 2.0f64.powi(n.clamp(-500, 500));
            check("ldexp", (x, n), library::spirula_ldexp_f32(x, n), truth);
        }
        for (y, truth) in [(f32::INFINITY, x.next_up()), (f32::NEG_INFINITY, x.next_down()), (x, x)] {
            assert_eq!(library::spirula_nextafter_f32(x, y), truth);
        }
    }
    assert_eq!(library::spirula_nextafter_f32(0.0, -1.0).to_bits(), (-1e-45f32).to_bits());
    assert!(library::spirula_nextafter_f32(0.0, f32::NAN).is_nan());
    assert_eq!(library::spirula_logb_f32(0.0), f32::NEG_INFINITY);
    assert_eq!(library::spirula_logb_f32(f32::NEG_INFINITY), f32::INFINITY);
    assert_eq!(library::spirula_ilogb_f32(f32::NAN), i32::MAX);
}

#[test]
fn error_and_gamma_functions() {
    unary("erf", library::spirula_erf_f32, libm::erf);
    unary("erfc", library::spirula_erfc_f32, libm::erfc);
    unary("tgamma", library::spirula_tgamma_f32, libm::tgamma);
    for x in arguments() {
        let truth = libm::lgamma(x.into());
        let found = library::spirula_lgamma_f32(x);
        // Near its zeros only the absolute error is small.
        if ((found as f64) - truth).abs() > 1e-9 {
            check("lgamma", (x,), found, truth);
        }
    }
    for (x, sign) in [(0.5, 1), (-0.5, -1), (-1.5, 1), (-2.0, 0), (0.0, 1), (-0.0, -1), (-41.5, 1)] {
        assert_eq!(library::spirula_lgamma_sign_f32(x), sign, "{x}");
    }
}

#[test]
fn native_functions_are_good_enough() {
    for x in arguments().filter(|x| x.abs() < 1e6) {
        let angle = f64::from(x);
        let pairs: [(f32, f64); 2] = [
            (library::spirula_native_sin_f32(x), angle.sin()),
            (library::spirula_native_cos_f32(x), angle.cos()),
        ];
        for (found, truth) in pairs {
            assert!((f64::from(found) - truth).abs() < 2e-7, "{x}: {found} for {truth}");
        }
    }
    for x in arguments() {
        assert!(x.is_nan() || x.is_infinite() || library::spirula_native_sin_f32(x).abs() <= 1.0, "{x}");
    }
}
