//! Values that OpenCL wants exactly, whatever the function's error elsewhere (7.5.1).

use spirula_builtins::{
    spirula_atan2pi_f32 as single, spirula_atan2pi_f64 as double, spirula_atanpi_f32, spirula_atanpi_f64,
    spirula_cos_f64, spirula_cospi_f32, spirula_cospi_f64, spirula_sin_f64, spirula_sincos_f64,
    spirula_sinpi_f32, spirula_sinpi_f64,
};

#[test]
fn atan2pi_along_axes_and_diagonals() {
    let infinity = f64::INFINITY;
    // y, x, and how many eighths of a turn they are; C's zeros are told apart.
    let cases = [
        (0.0, -0.0, 4.0),
        (0.0, 0.0, 0.0),
        (0.0, -3.0, 4.0),
        (0.0, 3.0, 0.0),
        (3.0, 0.0, 2.0),
        (3.0, -0.0, 2.0),
        (3.0, -infinity, 4.0),
        (3.0, infinity, 0.0),
        (infinity, 3.0, 2.0),
        (infinity, -infinity, 3.0),
        (infinity, infinity, 1.0),
        (7.0, 7.0, 1.0),
        (7.0, -7.0, 3.0),
    ];
    for (y, x, eighths) in cases {
        let expected = eighths / 4.0;
        for sign in [1.0, -1.0] {
            let (y, expected) = (sign * y, f64::to_bits(sign * expected));
            assert_eq!(double(y, x).to_bits(), expected, "double: {y} {x}");
            assert_eq!(f64::from(single(y as f32, x as f32)).to_bits(), expected, "float: {y} {x}");
        }
    }
    for (y, x) in [(f64::NAN, 1.0), (1.0, f64::NAN), (f64::NAN, f64::NAN)] {
        assert!(double(y, x).is_nan() && single(y as f32, x as f32).is_nan());
    }
    assert_eq!((spirula_atanpi_f32(f32::INFINITY), spirula_atanpi_f64(infinity)), (0.5, 0.5));
}

/// C99's F.9.1: exactly 1, and zeros of either sign.
#[test]
fn sines_and_cosines_of_zeros() {
    for zero in [0.0f64, -0.0] {
        let both = spirula_sincos_f64(zero);
        for (sine, cosine) in [(both.sine, both.cosine), (spirula_sin_f64(zero), spirula_cos_f64(zero))] {
            assert_eq!((sine.to_bits(), cosine), (zero.to_bits(), 1.0));
        }
    }
    for x in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
        assert!(spirula_sin_f64(x).is_nan() && spirula_cos_f64(x).is_nan());
    }
}

/// Whole and half numbers of half turns: 0 and 1 exactly, with the signs of 7.5.1.
#[test]
fn half_turns_at_quarters() {
    for n in -2000..2000 {
        let x = f64::from(n);
        let odd = if n % 2 == 0 { 1.0 } else { -1.0 };
        for (name, found, expected) in [
            ("sinpi", spirula_sinpi_f64(x), 0f64.copysign(x)),
            ("sinpif", f64::from(spirula_sinpi_f32(x as f32)), 0f64.copysign(x)),
            ("cospi", spirula_cospi_f64(x), odd),
            ("cospif", f64::from(spirula_cospi_f32(x as f32)), odd),
            ("sinpi of the half above", spirula_sinpi_f64(x + 0.5), odd),
            ("sinpif of it", f64::from(spirula_sinpi_f32(x as f32 + 0.5)), odd),
            ("cospi of it", spirula_cospi_f64(x + 0.5), 0.0),
            ("cospif of it", f64::from(spirula_cospi_f32(x as f32 + 0.5)), 0.0),
        ] {
            assert_eq!(found.to_bits(), expected.to_bits(), "{name} of {n}: {found:e}");
        }
    }
    assert_eq!(spirula_sinpi_f64(-0.0).to_bits(), (-0.0f64).to_bits());
    // The last odd number, and what is beyond.
    for (x, cosine) in [(16_777_215.0f32, -1.0), (16_777_216.0, 1.0), (f32::MAX, 1.0)] {
        assert_eq!((spirula_sinpi_f32(-x).to_bits(), spirula_cospi_f32(x)), ((-0.0f32).to_bits(), cosine));
    }
    for (x, cosine) in [(9_007_199_254_740_991.0, -1.0), (9_007_199_254_740_992.0, 1.0), (f64::MAX, 1.0)] {
        assert_eq!((spirula_sinpi_f64(-x).to_bits(), spirula_cospi_f64(x)), ((-0.0f64).to_bits(), cosine));
    }
    for x in [f64::INFINITY, f64::NEG_INFINITY, f64::NAN] {
        assert!(spirula_sinpi_f64(x).is_nan() && spirula_cospi_f64(x).is_nan());
        assert!(spirula_sinpi_f32(x as f32).is_nan() && spirula_cospi_f32(x as f32).is_nan());
    }
}
