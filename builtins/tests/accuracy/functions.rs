//! The functions under test: each in float and double, with MPFR's value and, where one float argument allows to
//! walk all of them, a quick reference in double precision, good to a few ULP of double.

use super::walk::{self, Walk};
use rug::Float;
use rug::ops::Pow;
use std::f64::consts::PI;

/// The library, and parts of what its functions yield.
mod library {
    pub use spirula_builtins::*;

    pub fn spirula_sin_f32(x: f32) -> f32 {
        f32::from_bits(spirula_sincos_f32(x) as u32)
    }

    pub fn spirula_cos_f32(x: f32) -> f32 {
        f32::from_bits((spirula_sincos_f32(x) >> 32) as u32)
    }

    pub fn sine_of_pair(x: f64) -> f64 {
        spirula_sincos_f64(x).sine
    }

    pub fn cosine_of_pair(x: f64) -> f64 {
        spirula_sincos_f64(x).cosine
    }
}

/// What a function takes besides a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Second {
    Nothing,
    Number,
    Integer,
    /// A number such as programs write down: a multiple of ½.
    Constant,
}

/// A function; all numbers travel as double, which holds every float and every int.
pub struct Function {
    /// In OpenCL C.
    pub name: &'static str,
    pub second: Second,
    pub single: fn(f64, f64) -> f64,
    pub double: fn(f64, f64) -> f64,
    /// The true value, at the precision of the arguments.
    pub truth: fn(Float, Float) -> Float,
    /// For functions of one argument.
    pub walk: Option<Walk>,
}

/// One argument: name, float, double, truth, quick reference.
macro_rules! unary {
    ($name:literal, $single:ident, $double:ident, $truth:expr, $quick:expr) => {
        Function {
            name: $name,
            second: Second::Nothing,
            single: |x, _| library::$single(x as f32).into(),
            double: |x, _| library::$double(x),
            truth: |x, _| {
                let truth: fn(Float) -> Float = $truth;
                truth(x)
            },
            walk: Some(Walk {
                results: |bits, found| walk::fill(bits, found, |x| library::$single(x)),
                quick: $quick,
            }),
        }
    };
}

/// Two arguments; the second is cast to the types given.
macro_rules! binary {
    ($name:literal, $second:ident, $single:ident as $y1:ty, $double:ident as $y2:ty, $truth:expr) => {
        Function {
            name: $name,
            second: Second::$second,
            single: |x, y| library::$single(x as f32, y as $y1).into(),
            double: |x, y| library::$double(x, y as $y2),
            truth: $truth,
            walk: None,
        }
    };
}

/// Every function that has a limit in ULP.
pub const FUNCTIONS: &[Function] = &[
    unary!("acos", spirula_acos_f32, spirula_acos_f64, |x| x.acos(), f64::acos),
    unary!("acosh", spirula_acosh_f32, spirula_acosh_f64, |x| x.acosh(), libm::acosh),
    unary!("acospi", spirula_acospi_f32, spirula_acospi_f64, |x| x.acos_pi(), |x| x.acos() / PI),
    unary!("asin", spirula_asin_f32, spirula_asin_f64, |x| x.asin(), f64::asin),
    unary!("asinh", spirula_asinh_f32, spirula_asinh_f64, |x| x.asinh(), libm::asinh),
    unary!("asinpi", spirula_asinpi_f32, spirula_asinpi_f64, |x| x.asin_pi(), |x| x.asin() / PI),
    unary!("atan", spirula_atan_f32, spirula_atan_f64, |x| x.atan(), f64::atan),
    unary!("atanh", spirula_atanh_f32, spirula_atanh_f64, |x| x.atanh(), libm::atanh),
    unary!("atanpi", spirula_atanpi_f32, spirula_atanpi_f64, |x| x.atan_pi(), |x| x.atan() / PI),
    unary!("cbrt", spirula_cbrt_f32, spirula_cbrt_f64, |x| x.cbrt(), f64::cbrt),
    unary!("cos", spirula_cos_f32, spirula_cos_f64, |x| x.cos(), f64::cos),
    unary!("cosh", spirula_cosh_f32, spirula_cosh_f64, |x| x.cosh(), f64::cosh),
    unary!("cospi", spirula_cospi_f32, spirula_cospi_f64, |x| x.cos_pi(), |x| half_turns(x).1 + 0.0),
    unary!("erf", spirula_erf_f32, spirula_erf_f64, |x| x.erf(), libm::erf),
    unary!("erfc", spirula_erfc_f32, spirula_erfc_f64, |x| x.erfc(), libm::erfc),
    unary!("exp", spirula_exp_f32, spirula_exp_f64, |x| x.exp(), f64::exp),
    unary!("exp10", spirula_exp10_f32, spirula_exp10_f64, |x| x.exp10(), |x| 10.0f64.powf(x)),
    unary!("exp2", spirula_exp2_f32, spirula_exp2_f64, |x| x.exp2(), f64::exp2),
    unary!("expm1", spirula_expm1_f32, spirula_expm1_f64, |x| x.exp_m1(), f64::exp_m1),
    unary!("lgamma", spirula_lgamma_f32, spirula_lgamma_f64, |x| x.ln_abs_gamma().0, libm::lgamma),
    unary!("log", spirula_log_f32, spirula_log_f64, |x| x.ln(), f64::ln),
    unary!("log10", spirula_log10_f32, spirula_log10_f64, |x| x.log10(), f64::log10),
    unary!("log1p", spirula_log1p_f32, spirula_log1p_f64, |x| x.ln_1p(), f64::ln_1p),
    unary!("log2", spirula_log2_f32, spirula_log2_f64, |x| x.log2(), f64::log2),
    unary!("sin", spirula_sin_f32, spirula_sin_f64, |x| x.sin(), f64::sin),
    unary!("sinh", spirula_sinh_f32, spirula_sinh_f64, |x| x.sinh(), f64::sinh),
    unary!("sinpi", spirula_sinpi_f32, spirula_sinpi_f64, |x| x.sin_pi(), sinpi),
    unary!("tan", spirula_tan_f32, spirula_tan_f64, |x| x.tan(), f64::tan),
    unary!("tanh", spirula_tanh_f32, spirula_tanh_f64, |x| x.tanh(), f64::tanh),
    unary!("tanpi", spirula_tanpi_f32, spirula_tanpi_f64, |x| x.tan_pi(), tanpi),
    unary!("tgamma", spirula_tgamma_f32, spirula_tgamma_f64, gamma, libm::tgamma),
    binary!("atan2", Number, spirula_atan2_f32 as f32, spirula_atan2_f64 as f64, |y, x| y.atan2(&x)),
    binary!("atan2pi", Number, spirula_atan2pi_f32 as f32, spirula_atan2pi_f64 as f64, |y, x| y.atan2_pi(&x)),
    binary!("fmod", Number, spirula_fmod_f32 as f32, spirula_fmod_f64 as f64, |x, y| x % y),
    binary!("hypot", Number, spirula_hypot_f32 as f32, spirula_hypot_f64 as f64, |x, y| x.hypot(&y)),
    binary!("ldexp", Integer, spirula_ldexp_f32 as i32, spirula_ldexp_f64 as i32, |x, n| x
        << n.to_f64().clamp(-5000.0, 5000.0) as i32),
    binary!("pow", Number, spirula_pow_f32 as f32, spirula_pow_f64 as f64, |x, y| x.pow(&y)),
    binary!("pown", Integer, spirula_pown_f32 as i32, spirula_pown_f64 as i32, |x, n| x.pow(&n)),
    binary!("powr", Number, spirula_powr_f32 as f32, spirula_powr_f64 as f64, powr),
    binary!("remainder", Number, spirula_remainder_f32 as f32, spirula_remainder_f64 as f64, |x, y| x
        .remainder(&y)),
    binary!("rootn", Integer, spirula_rootn_f32 as i32, spirula_rootn_f64 as i32, |x, n| x
        .root_i(n.to_f64() as i32)),
];

/// Again those that are computed otherwise where more is known: powers, whose exponents are constants of the program, and sines and cosines
/// where both are asked for. They have the limits of their names.
pub const OTHER_WAYS: [Function; 5] = [
    unary!("sin", spirula_sin_f32, sine_of_pair, |x| x.sin(), f64::sin),
    unary!("cos", spirula_cos_f32, cosine_of_pair, |x| x.cos(), f64::cos),
    binary!("pow", Constant, spirula_known_pow_f32 as f32, spirula_known_pow_f64 as f64, |x, y| x.pow(&y)),
    binary!("pown", Integer, spirula_known_pown_f32 as i32, spirula_known_pown_f64 as i32, |x, n| x.pow(&n)),
    binary!("powr", Constant, spirula_known_powr_f32 as f32, spirula_known_powr_f64 as f64, powr),
];

/// Beyond double's range MPFR would go on for long.
fn gamma(x: Float) -> Float {
    let value = x.to_f64();
    if value > 1000.0 {
        return Float::with_val(x.prec(), f64::INFINITY);
    }
    if value < -1000.0 && value.is_finite() && !x.is_integer() {
        let sign = if (value.floor() / 2.0).fract() == 0.0 { 1.0 } else { -1.0 };
        return Float::with_val(x.prec(), sign) >> 5000;
    }
    x.gamma()
}

/// pow for x >= 0, without an answer where pow's comes from a convention (7.5.1).
fn powr(x: Float, y: Float) -> Float {
    let (base, power) = (x.to_f64(), y.to_f64());
    let ends = base == 0.0 || base.is_infinite();
    let undefined = base < 0.0
        || base.is_nan()
        || power.is_nan()
        || (power == 0.0 && ends)
        || (base == 1.0 && power.is_infinite());
    if undefined { Float::with_val(x.prec(), f64::NAN) } else { x.abs().pow(&y) }
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
    if x.is_finite() && x.trunc() == x { 0.0f64.copysign(x) } else { half_turns(x).0 }
}

fn tanpi(x: f64) -> f64 {
    let (sin, cos) = half_turns(x);
    let odd = |n: f64| (n / 2.0).trunc() != n / 2.0;
    if x.is_finite() && x.trunc() == x {
        return if odd(x) { 0.0f64.copysign(-x) } else { 0.0f64.copysign(x) };
    }
    if x.is_finite() && (2.0 * x).trunc() == 2.0 * x {
        return if odd(x.floor()) { f64::NEG_INFINITY } else { f64::INFINITY };
    }
    sin / cos
}
