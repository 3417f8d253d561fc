//! How far two results of a function may be apart: the error that the OpenCL specification allows it (full profile,
//! section "Relative Error as ULPs"), which the names of the suite's math tests lead to.

/// Units in the last place that `float` results may be apart, and `double` results. Functions that are not here, and
/// everything that is no math test, must agree in every bit.
const LIMITS: &[(&[&str], f64, f64)] = &[
    (&["log1p", "rsqrt", "cbrt"], 2.0, 2.0),
    (&["divide", "reciprocal"], 2.5, 0.0),
    (&["sqrt"], 3.0, 0.0),
    (&["exp", "exp2", "exp10", "expm1", "log", "log2", "log10"], 3.0, 3.0),
    (
        &[
            "acos", "asin", "cos", "cosh", "sin", "sinh", "sincos", "sinpi", "cospi", "acosh", "asinh",
            "hypot",
        ],
        4.0,
        4.0,
    ),
    (&["acospi", "asinpi", "atan", "atanpi", "atanh", "tan", "tanh"], 5.0, 5.0),
    (&["atan2", "atan2pi", "tanpi"], 6.0, 6.0),
    (&["erf", "erfc", "pow", "pown", "powr", "rootn", "tgamma"], 16.0, 16.0),
    (&["lgamma", "lgamma_r", "mad"], f64::INFINITY, f64::INFINITY),
];

/// What another vendor may also do differently: parts of the tests' names, and units for `float` and `double`. Where the
/// specification bounds the absolute error, or does not bound it, this is what random arguments need.
const FOREIGN: &[(&str, f64, f64)] = &[
    ("geom_fast_", 8192.0, 0.0),
    ("geom_cross", 1024.0, 1024.0),
    ("geom_dot", 64.0, 64.0),
    ("geom_", 16.0, 16.0),
    ("test_mix", 64.0, 64.0),
];

/// How far two results of a test may be apart.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// Units in the last place, for `float`.
    pub float: f64,
    /// Units in the last place, for `double`.
    pub double: f64,
    /// What of integers counts.
    pub integers: Integers,
}

/// What of integer results is defined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Integers {
    /// Every bit.
    All,
    /// The lowest seven bits and the sign: `remquo`'s quotient.
    Quotient,
    /// Nothing: `lgamma_r`'s sign, whose arguments are mostly so large that the result is infinite.
    None,
}

/// Every bit counts.
pub const EXACT: Tolerance = Tolerance { float: 0.0, double: 0.0, integers: Integers::All };

/// A test's tolerance. Two vendors' results may each be off by the limit, to different sides.
pub fn tolerance(test: &str, foreign: bool) -> Tolerance {
    let factor = if foreign { 2.0 } else { 1.0 };
    if foreign && let Some(&(_, float, double)) = FOREIGN.iter().find(|(part, ..)| test.contains(part)) {
        return Tolerance { float, double, ..EXACT };
    }
    let Some((kernel, function)) = test.split_once('.') else { return EXACT };
    if !kernel.starts_with("math_kernel") {
        return EXACT;
    }
    let function = function.rsplit_once('_').map_or(function, |(name, _type)| name);
    if function.starts_with("native_") {
        return Tolerance { float: f64::INFINITY, double: f64::INFINITY, ..EXACT };
    }
    if function.starts_with("half_") {
        return Tolerance { float: 8192.0 * factor, ..EXACT };
    }
    let limit = LIMITS.iter().find(|(names, ..)| names.contains(&function));
    let (float, double) = limit.map_or((0.0, 0.0), |&(_, float, double)| (float * factor, double * factor));
    let integers = match function {
        "remquo" if foreign => Integers::Quotient,
        "lgamma_r" if foreign => Integers::None,
        _ => Integers::All,
    };
    Tolerance { float, double, integers }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_to_limits() {
        let of = |test| tolerance(test, false);
        let both = |test| (of(test).float, of(test).double);
        assert_eq!(both("math_kernel16.sin_float16"), (4.0, 4.0));
        assert_eq!(both("math_kernel.sqrt_double"), (3.0, 0.0));
        assert_eq!(both("math_kernel.sqrt_cr_float"), (0.0, 0.0));
        assert_eq!(of("math_kernel4.half_cos_float4").float, 8192.0);
        assert_eq!(of("math_kernel4.native_cos_float4").float, f64::INFINITY);
        assert_eq!(of("math_kernel.fma_float").float, 0.0);
        assert_eq!(both("sample_test.geom_dot_float4"), (0.0, 0.0));
        assert_eq!(tolerance("sample_test.geom_dot_float4", true).float, 64.0);
        assert_eq!(tolerance("math_kernel.remquo_float", true).integers, Integers::Quotient);
        assert_eq!(tolerance("math_kernel.pow_float", true).float, 32.0);
    }
}
