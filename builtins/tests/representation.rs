//! Functions with exact results: those that take numbers apart, quotients, signs of Γ.

use spirula_builtins as library;

/// The tests of one width: module, number, its bits, exponents of the smallest and largest numbers, functions.
macro_rules! representation {
    ($name:ident, $float:ty, $lowest:literal, $highest:literal, $frexp:ident, $exponent:ident, $ilogb:ident,
     $logb:ident, $nextafter:ident, $remainder:ident, $quotient:ident, $sign:ident) => {
        mod $name {
            use super::library;

            /// Powers of two from the smallest to the largest and what is beside them.
            fn numbers() -> impl Iterator<Item = ($float, i32)> {
                let power = |e: i32| (2.0 as $float).powi(e / 2) * (2.0 as $float).powi(e - e / 2);
                ($lowest..=$highest)
                    .flat_map(move |e| [(power(e), e), (-power(e), e), (power(e) * 1.75, e)])
                    .filter(|&(x, e)| {
                        // What has no room for 1.75 becomes another power.
                        x.abs().is_finite() && (e > $lowest + 2)
                    })
            }

            #[test]
            fn numbers_come_apart() {
                for (x, e) in numbers() {
                    let m = library::$frexp(x);
                    assert!((0.5..1.0).contains(&m.abs()) && (m < 0.0) == (x < 0.0), "{x:e}: {m}");
                    assert_eq!(library::$exponent(x), e + 1, "{x:e}");
                    assert_eq!(library::$ilogb(x), e, "{x:e}");
                    assert_eq!(library::$logb(x), e as $float, "{x:e}");
                }
                let (infinity, nan) = (<$float>::INFINITY, <$float>::NAN);
                for x in [0.0, -0.0, infinity, -infinity] {
                    assert_eq!(library::$frexp(x).to_bits(), x.to_bits());
                    assert_eq!(library::$exponent(x), 0);
                }
                assert!(library::$frexp(nan).is_nan() && library::$logb(nan).is_nan());
                assert_eq!((library::$logb(0.0), library::$logb(-infinity)), (-infinity, infinity));
                assert_eq!(library::$ilogb(nan), i32::MAX);
                assert_eq!(library::$ilogb(infinity), i32::MAX);
                assert_eq!(library::$ilogb(0.0), i32::MIN);
            }

            #[test]
            fn neighbours() {
                let (infinity, nan) = (<$float>::INFINITY, <$float>::NAN);
                for x in numbers().map(|(x, _)| x).chain([0.0, -0.0, <$float>::MAX, <$float>::MIN]) {
                    assert_eq!(library::$nextafter(x, infinity), x.next_up());
                    assert_eq!(library::$nextafter(x, -infinity), x.next_down());
                    assert_eq!(library::$nextafter(x, x), x);
                    assert!(library::$nextafter(x, nan).is_nan() && library::$nextafter(nan, x).is_nan());
                }
                assert_eq!(library::$nextafter(infinity, 0.0), <$float>::MAX);
            }

            #[test]
            fn quotients() {
                for (x, y, rest, count) in
                    [(5.0, 3.0, -1.0, 2), (-5.0, 3.0, 1.0, -2), (7.5, 3.0, 1.5, 2), (4.5, 3.0, -1.5, 2)]
                {
                    assert_eq!(library::$remainder(x, y), rest);
                    assert_eq!(library::$quotient(x, y), count, "{x} / {y}");
                }
                // At least the low seven bits and the sign, of the nearest integer.
                for n in -300..300 {
                    let count = library::$quotient(n as $float * 3.0 + 1.0, 3.0);
                    assert_eq!(count & 0x7F, if n < 0 { -(-n & 0x7F) } else { n } & 0x7F, "{n}");
                    assert!(n == 0 || (count < 0) == (n < 0) || count & 0x7F == 0, "{n}: {count}");
                }
            }

            #[test]
            fn signs_of_gamma() {
                for (x, sign) in
                    [(0.5, 1), (-0.5, -1), (-1.5, 1), (-2.0, 0), (0.0, 1), (-0.0, -1), (-41.5, 1)]
                {
                    assert_eq!(library::$sign(x), sign, "{x}");
                }
            }
        }
    };
}

representation!(
    single,
    f32,
    -149,
    127,
    spirula_frexp_f32,
    spirula_frexp_exponent_f32,
    spirula_ilogb_f32,
    spirula_logb_f32,
    spirula_nextafter_f32,
    spirula_remainder_f32,
    spirula_quotient_f32,
    spirula_lgamma_sign_f32
);
representation!(
    double,
    f64,
    -1074,
    1023,
    spirula_frexp_f64,
    spirula_frexp_exponent_f64,
    spirula_ilogb_f64,
    spirula_logb_f64,
    spirula_nextafter_f64,
    spirula_remainder_f64,
    spirula_quotient_f64,
    spirula_lgamma_sign_f64
);
