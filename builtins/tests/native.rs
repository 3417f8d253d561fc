//! The quick functions of `native_`, `half_` and -cl-unsafe-math-optimizations: within the bounds that their
//! documentation gives, and for `half_` right at the edges.

use spirula_builtins as library;
use std::f64::consts::FRAC_PI_2;

/// Floats from all over the type and evenly spaced ones.
fn numbers() -> impl Iterator<Item = f32> {
    let patterns = (0..1 << 20).map(|i| f32::from_bits(i << 12 | i >> 8)).filter(|x| x.is_finite());
    patterns.chain((-200_000..200_000).map(|i| i as f32 * 0.000_77))
}

/// The error in ULP of the truth.
fn ulp(found: f32, truth: f64) -> f64 {
    let exponent = (truth.abs().log2().floor() as i32).clamp(-126, 127);
    (f64::from(found) - truth).abs() / 2.0f64.powi(exponent - 23)
}

/// Asserts an error of at most `bound` ULP, and the kind of result where the truth is no normal number.
fn check(call: &str, x: f32, found: f32, truth: f64, bound: f64) {
    let says = || format!("{call}({x:e}) = {found:e}, not {truth:e}");
    if truth.is_nan() || truth.abs() > f32::MAX.into() {
        assert!(
            found.is_nan() && truth.is_nan() || f64::from(found) == truth || found.is_infinite(),
            "{}",
            says()
        );
    } else if truth.abs() < f32::MIN_POSITIVE.into() {
        assert!(found.abs() <= f32::MIN_POSITIVE, "{}", says());
    } else {
        assert!(ulp(found, truth) <= bound, "{}: {} ULP", says(), ulp(found, truth));
    }
}

#[test]
fn angles() {
    for x in numbers() {
        let (sin, cos) = (library::spirula_native_sin_f32(x), library::spirula_native_cos_f32(x));
        assert!(sin.abs() <= 1.0 && cos.abs() <= 1.0, "{x}");
        if x.abs() < 1e5 {
            let (true_sin, true_cos) = f64::from(x).sin_cos();
            assert!((f64::from(sin) - true_sin).abs() < 2.0f64.powi(-22), "sin {x}: {sin} for {true_sin}");
            assert!((f64::from(cos) - true_cos).abs() < 2.0f64.powi(-22), "cos {x}: {cos} for {true_cos}");
        }
        if x.abs() < 3.1 {
            check("sin", x, sin, f64::from(x).sin(), 3.0);
        }
    }
}

#[test]
fn angles_next_to_zeros() {
    // -2^16 to 2^16 is what OpenCL asks of half_sin and the like.
    for k in -41_722..=41_722 {
        let near = (f64::from(k) * FRAC_PI_2) as f32;
        for x in [near.next_down(), near, near.next_up()] {
            let wide = f64::from(x);
            check("sin", x, library::spirula_native_sin_f32(x), wide.sin(), 8192.0);
            check("cos", x, library::spirula_native_cos_f32(x), wide.cos(), 8192.0);
            check("tan", x, library::spirula_native_tan_f32(x), wide.tan(), 8192.0);
        }
    }
    assert_eq!(library::spirula_native_sin_f32(-0.0).to_bits(), (-0.0f32).to_bits());
}

#[test]
fn exponentials() {
    for x in numbers().chain([f32::INFINITY, f32::NEG_INFINITY]) {
        let size = f64::from(x.abs());
        let cases = [
            ("exp2", library::spirula_native_exp2_f32(x), f64::from(x).exp2(), 3.0),
            ("exp", library::spirula_native_exp_f32(x), f64::from(x).exp(), 3.0 + 2.0 * size),
            ("exp10", library::spirula_native_exp10_f32(x), 10.0f64.powf(x.into()), 3.0 + 4.0 * size),
        ];
        for (name, found, truth, bound) in cases {
            check(name, x, found, truth, bound);
        }
        let halves = [
            library::spirula_half_exp2_f32(x),
            library::spirula_half_exp_f32(x),
            library::spirula_half_exp10_f32(x),
        ];
        assert_eq!(halves, cases.map(|case| case.1));
    }
    for bits in [0x7FC0_0000, 0x7FC0_01FF, 0xFFFF_FFFF] {
        let x = f32::from_bits(bits);
        assert!(library::spirula_half_exp2_f32(x).is_nan() && library::spirula_half_exp_f32(x).is_nan());
        assert!(library::spirula_half_exp10_f32(x).is_nan());
    }
}

#[test]
fn logarithms() {
    for x in numbers().filter(|x| *x >= f32::MIN_POSITIVE).chain([0.0]) {
        let wide = f64::from(x);
        let cases = [
            ("log2", library::spirula_native_log2_f32(x), wide.log2()),
            ("log", library::spirula_native_log_f32(x), wide.ln()),
            ("log10", library::spirula_native_log10_f32(x), wide.log10()),
        ];
        for (name, found, truth) in cases {
            if (0.5..=2.0).contains(&x) {
                assert!(
                    (f64::from(found) - truth).abs() <= 2.0f64.powi(-21),
                    "{name}({x}) = {found}, not {truth}"
                );
            } else {
                check(name, x, found, truth, 3.0);
            }
        }
        let halves = [
            library::spirula_half_log2_f32(x),
            library::spirula_half_log_f32(x),
            library::spirula_half_log10_f32(x),
        ];
        assert_eq!(halves, cases.map(|case| case.1));
    }
    assert_eq!(library::spirula_native_log_f32(1.0), 0.0);
    for log in
        [library::spirula_half_log2_f32, library::spirula_half_log_f32, library::spirula_half_log10_f32]
    {
        assert_eq!([log(-0.0), log(f32::INFINITY)], [f32::NEG_INFINITY, f32::INFINITY]);
        assert!([-1.0, f32::NEG_INFINITY, f32::NAN, -f32::NAN].iter().all(|x| log(*x).is_nan()));
    }
}

#[test]
fn powers() {
    for x in numbers().step_by(7).filter(|x| x.abs() >= f32::MIN_POSITIVE) {
        for y in [-3.0f32, -1.0, 0.0, 0.5, 1.0, 2.0, 3.0, 4.5, 10.0, 31.0] {
            let exponent = f64::from(y) * f64::from(x.abs()).log2();
            let truth = f64::from(x).powf(y.into());
            if truth.is_nan() || exponent.abs() > 125.0 {
                continue;
            }
            let bound = 2.0f64.powi(-22) * (1.0 + exponent.abs());
            let found = library::spirula_native_pow_f32(x, y);
            let known = library::spirula_known_native_pow_f32(x, y);
            for found in [found, known] {
                assert!(
                    (f64::from(found) / truth - 1.0).abs() <= bound,
                    "pow({x}, {y}) = {found:e}, not {truth:e}"
                );
            }
            if x > 0.0 {
                assert_eq!(found, library::spirula_native_powr_f32(x, y));
                assert_eq!(found, library::spirula_half_powr_f32(x, y));
                assert_eq!(known, library::spirula_known_native_powr_f32(x, y));
            }
            if y.trunc() == y {
                assert_eq!(found, library::spirula_native_pown_f32(x, y as i32));
                assert_eq!(known, library::spirula_known_native_pown_f32(x, y as i32));
            }
        }
    }
    // What programs do with colours.
    for y in [0.1, 0.45, 1.0, 2.0] {
        assert_eq!(library::spirula_native_pow_f32(0.0, y), 0.0);
        assert_eq!(library::spirula_native_powr_f32(0.0, y), 0.0);
    }
    assert_eq!(library::spirula_native_pow_f32(0.0, 0.0), 1.0);
    assert_eq!(library::spirula_native_pow_f32(-2.0, 3.0), -8.0);
}

#[test]
fn edges_of_half_powr() {
    const INFINITY: f32 = f32::INFINITY;
    let powr = library::spirula_half_powr_f32;
    for (x, y, truth) in [
        (0.0, 2.0, 0.0),
        (-0.0, 0.5, 0.0),
        (0.0, -2.0, INFINITY),
        (0.0, -INFINITY, INFINITY),
        (0.0, INFINITY, 0.0),
        (1.0, 7.0, 1.0),
        (3.0, 0.0, 1.0),
        (INFINITY, 2.0, INFINITY),
        (INFINITY, -2.0, 0.0),
        (2.0, INFINITY, INFINITY),
        (0.5, INFINITY, 0.0),
    ] {
        assert_eq!(powr(x, y), truth, "powr({x}, {y})");
    }
    for (x, y) in
        [(-1.0, 2.0), (0.0, 0.0), (INFINITY, 0.0), (1.0, INFINITY), (f32::NAN, 0.0), (2.0, f32::NAN)]
    {
        assert!(powr(x, y).is_nan(), "powr({x}, {y})");
    }
}
