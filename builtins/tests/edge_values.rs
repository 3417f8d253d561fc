//! Values that OpenCL wants exactly, whatever the function's error elsewhere (7.5.1).

use spirula_builtins::{
    spirula_atan2pi_f32 as single, spirula_atan2pi_f64 as double, spirula_atanpi_f32, spirula_atanpi_f64,
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
