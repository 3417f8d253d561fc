//! The accuracy that OpenCL 1.2 asks of each library function (7.4, full profile): the one table that tests hold
//! the functions to.

/// A function's limits in ULP of the result's type. Zero is exact, or correctly rounded.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limit {
    /// The name in OpenCL C.
    pub name: &'static str,
    /// For float.
    pub single: f64,
    /// For double.
    pub double: f64,
}

const fn limit(name: &'static str, single: f64, double: f64) -> Limit {
    Limit { name, single, double }
}

/// The table. lgamma has no limit; these are ours, away from its zeros.
pub const LIMITS: &[Limit] = &[
    limit("acos", 4.0, 4.0),
    limit("acosh", 4.0, 4.0),
    limit("acospi", 5.0, 5.0),
    limit("asin", 4.0, 4.0),
    limit("asinh", 4.0, 4.0),
    limit("asinpi", 5.0, 5.0),
    limit("atan", 5.0, 5.0),
    limit("atan2", 6.0, 6.0),
    limit("atan2pi", 6.0, 6.0),
    limit("atanh", 5.0, 5.0),
    limit("atanpi", 5.0, 5.0),
    limit("cbrt", 2.0, 2.0),
    limit("cos", 4.0, 4.0),
    limit("cosh", 4.0, 4.0),
    limit("cospi", 4.0, 4.0),
    limit("erf", 16.0, 16.0),
    limit("erfc", 16.0, 16.0),
    limit("exp", 3.0, 3.0),
    limit("exp10", 3.0, 3.0),
    limit("exp2", 3.0, 3.0),
    limit("expm1", 3.0, 3.0),
    limit("fmod", 0.0, 0.0),
    limit("hypot", 4.0, 4.0),
    limit("ldexp", 0.5, 0.5),
    limit("lgamma", 16.0, 16.0),
    limit("log", 3.0, 3.0),
    limit("log10", 3.0, 3.0),
    limit("log1p", 2.0, 2.0),
    limit("log2", 3.0, 3.0),
    limit("pow", 16.0, 16.0),
    limit("pown", 16.0, 16.0),
    limit("powr", 16.0, 16.0),
    limit("remainder", 0.0, 0.0),
    limit("rootn", 16.0, 16.0),
    limit("sin", 4.0, 4.0),
    limit("sinh", 4.0, 4.0),
    limit("sinpi", 4.0, 4.0),
    limit("tan", 5.0, 5.0),
    limit("tanh", 5.0, 5.0),
    limit("tanpi", 6.0, 6.0),
    limit("tgamma", 16.0, 16.0),
];

/// The limits of a function. (Inline, so that no code of it is in the bitcode.)
#[inline]
pub fn of(name: &str) -> Option<Limit> {
    LIMITS.iter().copied().find(|limit| limit.name == name)
}
