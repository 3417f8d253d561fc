//! Builtins: math functions (6.12.2). What LLVM has as an instruction or a few is written here, the rest is in the
//! Rust library.

use super::convert::{Rounding, round_float};
use super::emit::{Emitter, Lane, Value};
use super::pattern::Generic;
use super::table::{Call, FLOATS, HALVES, Rows, SINGLE, WIDE_FLOATS};
use super::types::Element;
use spirula_interface::options::MathOptions;

const PAYLOADS: Generic =
    Generic { elements: &[Element::UShort, Element::UInt, Element::ULong], widths: FLOATS.widths };

/// Library functions of one argument.
const UNARY: [&str; 29] = [
    "acos", "acosh", "acospi", "asin", "asinh", "asinpi", "atan", "atanh", "atanpi", "cbrt", "cosh", "cospi",
    "erf", "erfc", "exp", "exp10", "exp2", "expm1", "lgamma", "log", "log10", "log1p", "log2", "sinh",
    "sinpi", "tan", "tanh", "tanpi", "tgamma",
];

/// Library functions that are faster than those without the prefix, and less accurate.
const QUICK: [&str; 15] = [
    "half_exp",
    "half_exp10",
    "half_exp2",
    "half_log",
    "half_log10",
    "half_log2",
    "native_cos",
    "native_exp",
    "native_exp10",
    "native_exp2",
    "native_log",
    "native_log10",
    "native_log2",
    "native_sin",
    "native_tan",
];

/// Functions of float that -cl-unsafe-math-optimizations lets be the `native_` ones, which keep the bounds that
/// OpenCL 3.0 has for that option (7.4).
pub const RELAXED: [(&str, &str); 12] = [
    ("cos", "native_cos"),
    ("exp", "native_exp"),
    ("exp10", "native_exp10"),
    ("exp2", "native_exp2"),
    ("log", "native_log"),
    ("log10", "native_log10"),
    ("log2", "native_log2"),
    ("pow", "native_pow"),
    ("pown", "native_pown"),
    ("powr", "native_powr"),
    ("sin", "native_sin"),
    ("tan", "native_tan"),
];

/// What stands in for a library function where less accuracy will do.
pub fn quick(name: &str) -> Option<&'static str> {
    RELAXED.iter().find(|(full, _)| *full == name).map(|(_, quick)| *quick)
}

pub fn rows(rows: &mut Rows) {
    for name in ["fabs", "ceil", "floor", "trunc", "rint", "round", "sqrt"] {
        rows.intrinsic(name, FLOATS, "T(T)", name);
    }
    rows.intrinsic("half_sqrt native_sqrt", SINGLE, "T(T)", "sqrt");
    rows.intrinsic("copysign", FLOATS, "T(T,T)", "copysign");
    rows.intrinsic("fma", WIDE_FLOATS, "T(T,T,T)", "fma");
    rows.expand("fma", HALVES, "T(T,T,T)", fma_of_half);
    rows.intrinsic("mad", FLOATS, "T(T,T,T)", "fmuladd");
    for pattern in ["T(T,T)", "T(T,E)"] {
        rows.intrinsic("fmin", FLOATS, pattern, "minnum");
        rows.intrinsic("fmax", FLOATS, pattern, "maxnum");
    }
    for (name, predicate, op) in [("maxmag", "ogt", "maxnum"), ("minmag", "olt", "minnum")] {
        rows.expand(name, FLOATS, "T(T,T)", move |e, call| by_magnitude(e, call, predicate, op));
    }
    rows.expand("fdim", FLOATS, "T(T,T)", |e, call| {
        let [x, y] = call.arguments else { unreachable!("fdim has two parameters") };
        let none = e.compare("fcmp ole", x, y);
        let zero = e.float(x.ir, 0.0);
        let difference = e.binary("fsub", x, y);
        e.select(&none, &zero, &difference)
    });
    rows.expand("half_divide", SINGLE, "T(T,T)", |e, call| {
        let inverse = rough(e, "reciprocal", &call.arguments[1]);
        e.binary("fmul", &call.arguments[0], &inverse)
    });
    rows.expand("native_divide", SINGLE, "T(T,T)", |e, call| {
        let inverse = approximated(e, "reciprocal", &call.arguments[1]);
        e.binary("fmul", &call.arguments[0], &inverse)
    });
    rows.expand("half_recip", SINGLE, "T(T)", |e, call| rough(e, "reciprocal", &call.arguments[0]));
    rows.expand("native_recip", SINGLE, "T(T)", |e, call| approximated(e, "reciprocal", &call.arguments[0]));
    rows.formula("rsqrt", FLOATS, "T(T)", |e, call| {
        let relaxed = call.element == Element::Float && call.math.contains(MathOptions::UNSAFE_MATH);
        match call.element {
            Element::Float if relaxed => quick_reciprocal_root(e, call),
            Element::Float | Element::Double => approximated(e, "reciprocal_root", &call.arguments[0]),
            _ => reciprocal_root(e, call),
        }
    });
    rows.expand("half_rsqrt", SINGLE, "T(T)", |e, call| rough(e, "reciprocal_root", &call.arguments[0]));
    rows.expand("native_rsqrt", SINGLE, "T(T)", quick_reciprocal_root);
    for name in UNARY {
        rows.library(name, FLOATS, "T(T)", name);
    }
    for name in ["sin", "cos"] {
        rows.expand(name, FLOATS, "T(T)", move |e, call| sine_or_cosine(e, call, name, call.arguments));
    }
    for name in ["atan2", "atan2pi", "hypot"] {
        rows.library(name, FLOATS, "T(T,T)", name);
    }
    for name in ["pow", "powr"] {
        rows.power(name, FLOATS, "T(T,T)", name);
    }
    rows.power("pown", FLOATS, "T(T,N)", "pown");
    rows.library("rootn", FLOATS, "T(T,N)", "rootn");
    for name in QUICK {
        rows.library(name, SINGLE, "T(T)", name);
    }
    for (half, native) in [("half_cos", "native_cos"), ("half_sin", "native_sin"), ("half_tan", "native_tan")]
    {
        rows.library(half, SINGLE, "T(T)", native);
    }
    rows.library("half_powr", SINGLE, "T(T,T)", "half_powr");
    rows.power("native_powr", SINGLE, "T(T,T)", "native_powr");
    for name in ["fmod", "remainder"] {
        rows.library(name, FLOATS, "T(T,T)", name);
    }
    rows.library("nextafter", WIDE_FLOATS, "T(T,T)", "nextafter");
    rows.expand("nextafter", HALVES, "T(T,T)", next_half);
    rows.library("logb", FLOATS, "T(T)", "logb");
    rows.library("ilogb", FLOATS, "N(T)", "ilogb");
    rows.library("ldexp", FLOATS, "T(T,N)", "ldexp");
    rows.library("ldexp", FLOATS, "T(T,S)", "ldexp");
    second_result(rows, "frexp", FLOATS, "T(T,*N)", "frexp", "frexp_exponent");
    second_result(rows, "remquo", FLOATS, "T(T,T,*N)", "remainder", "quotient");
    second_result(rows, "lgamma_r", FLOATS, "T(T,*N)", "lgamma", "lgamma_sign");
    rows.expand("sincos", FLOATS, "T(T,*T)", |e, call| {
        let [x, pointer] = call.arguments else { unreachable!("sincos has two parameters") };
        let [sine, cosine] =
            ["sin", "cos"].map(|name| sine_or_cosine(e, call, name, std::slice::from_ref(x)));
        store(e, pointer, &cosine);
        sine
    });
    rows.expand("nan", PAYLOADS, "F(T)", |e, call| {
        // Quiet, with what fits of the payload.
        let (quiet, payload) = match call.element {
            Element::UShort => (0x7E00, 0x1FF),
            Element::UInt => (0x7FC0_0000, 0x3F_FFFF),
            _ => (0x7FF8 << 48, (1 << 51) - 1),
        };
        let [quiet, payload] = [quiet, payload].map(|bits| e.int(call.generic(), bits));
        let kept = e.binary("and", &call.arguments[0], &payload);
        let bits = e.binary("or", &kept, &quiet);
        e.cast("bitcast", &bits, call.result.lane)
    });
    rows.expand("fract", FLOATS, "T(T,*T)", fract);
    rows.expand("modf", FLOATS, "T(T,*T)", |e, call| {
        let x = &call.arguments[0];
        let whole = e.intrinsic("trunc", std::slice::from_ref(x));
        store(e, &call.arguments[1], &whole);
        // The difference is exact, but for infinity.
        let rest = e.binary("fsub", x, &whole);
        let infinity = e.float(x.ir, f64::INFINITY);
        let magnitude = e.intrinsic("fabs", std::slice::from_ref(x));
        let infinite = e.compare("fcmp oeq", &magnitude, &infinity);
        let zero = e.float(x.ir, 0.0);
        let rest = e.select(&infinite, &zero, &rest);
        e.intrinsic("copysign", &[rest, x.clone()])
    });
}

/// A builtin with two results: one library function's is returned, the other's, an integer, stored at the last argument.
fn second_result(
    rows: &mut Rows,
    name: &str,
    generic: Generic,
    pattern: &'static str,
    returned: &'static str,
    stored: &'static str,
) {
    rows.expand(name, generic, pattern, move |e, call| {
        let Some((pointer, inputs)) = call.arguments.split_last() else { unreachable!("it has parameters") };
        let second = e.library(&call.library_function(stored), Lane::Int(32), inputs);
        store(e, pointer, &second);
        e.library(&call.library_function(returned), call.result.lane, inputs)
    });
}

/// They are parts of one library function's result, so that programs that ask for both compute it once.
fn sine_or_cosine(e: &mut Emitter, call: &Call, name: &str, x: &[Value]) -> Value {
    let function = call.library_function(name);
    if ["sin_f64", "cos_f64"].contains(&function.as_str()) {
        return e.of_pair("sincos_f64", (&function, u32::from(name == "cos")), &x[0]);
    }
    if !["sin_f32", "cos_f32"].contains(&function.as_str()) {
        return e.library(&function, call.result.lane, x);
    }
    let both = e.library("sincos_f32", Lane::Int(64), x);
    let from = e.int(both.ir, if name == "cos" { 32 } else { 0 });
    let bits = e.binary("lshr", &both, &from);
    let bits = e.cast("trunc", &bits, Lane::Int(32));
    let value = e.cast("bitcast", &bits, Lane::Float);
    e.cast("fptrunc", &value, call.result.lane)
}

fn reciprocal(e: &mut Emitter, x: &Value) -> Value {
    let one = e.float(x.ir, 1.0);
    e.binary("fdiv", &one, x)
}

/// Two correctly rounded steps: within 1 ULP.
fn reciprocal_root(e: &mut Emitter, call: &Call) -> Value {
    let root = e.intrinsic("sqrt", call.arguments);
    reciprocal(e, &root)
}

/// 1/x or 1/sqrt(x), as is quick on the processor: within 1.2 ULP.
fn approximated(e: &mut Emitter, primitive: &str, x: &Value) -> Value {
    let name = format!("spirula.{primitive}.{}", x.ir.suffix());
    e.call(&name, x.ir, std::slice::from_ref(x), "memory(none) nounwind willreturn")
}

/// The root within 2.4 ULP, which may take denormals for zeros.
fn quick_reciprocal_root(e: &mut Emitter, call: &Call) -> Value {
    e.permit("afn", |e| approximated(e, "reciprocal_root", &call.arguments[0]))
}

/// Either within the 8192 ULP of `half_` functions.
fn rough(e: &mut Emitter, primitive: &str, x: &Value) -> Value {
    e.permit("arcp afn", |e| approximated(e, primitive, x))
}

/// The argument of the larger (smaller) magnitude, or fmax (fmin) of both.
fn by_magnitude(e: &mut Emitter, call: &Call, predicate: &str, op: &str) -> Value {
    let [x, y] = call.arguments else { unreachable!("maxmag and minmag have two parameters") };
    let [mx, my] = [x, y].map(|v| e.intrinsic("fabs", std::slice::from_ref(v)));
    let first = e.compare(&format!("fcmp {predicate}"), &mx, &my);
    let second = e.compare(&format!("fcmp {predicate}"), &my, &mx);
    let either = e.intrinsic(op, call.arguments);
    let rest = e.select(&second, y, &either);
    e.select(&first, x, &rest)
}

/// Stores with the element's alignment: the application's buffer need not have the vector's.
fn store(e: &mut Emitter, pointer: &Value, value: &Value) {
    e.store(value, pointer, value.ir.lane.bits() / 8);
}

/// x - floor(x), at most the largest number below 1; zeros and infinities give a zero of their sign.
fn fract(e: &mut Emitter, call: &Call) -> Value {
    let x = &call.arguments[0];
    let floor = e.intrinsic("floor", std::slice::from_ref(x));
    store(e, &call.arguments[1], &floor);
    let below_one = match x.ir.lane {
        Lane::Half => 1.0 - 2f64.powi(-11),
        Lane::Float => 1.0f32.next_down().into(),
        _ => 1.0f64.next_down(),
    };
    let [below_one, zero, infinity] = [below_one, 0.0, f64::INFINITY].map(|value| e.float(x.ir, value));
    let difference = e.binary("fsub", x, &floor);
    let too_large = e.compare("fcmp ogt", &difference, &below_one);
    let rest = e.select(&too_large, &below_one, &difference);
    let magnitude = e.intrinsic("fabs", std::slice::from_ref(x));
    let is_zero = e.compare("fcmp oeq", &magnitude, &zero);
    let is_infinite = e.compare("fcmp oeq", &magnitude, &infinity);
    let special = e.binary("or", &is_zero, &is_infinite);
    let signed_zero = e.intrinsic("copysign", &[zero, x.clone()]);
    e.select(&special, &signed_zero, &rest)
}

/// x y + z, rounded once. In double the product is exact, and the sum is made odd where it isn't (Boldo and Melquiond, "Emulation
/// of a FMA and correctly rounded sums", 2008): what is beyond 53 bits then still decides to which side a half rounds.
fn fma_of_half(e: &mut Emitter, call: &Call) -> Value {
    let [x, y, z] = [0, 1, 2].map(|i| e.cast("fpext", &call.arguments[i], Lane::Double));
    let product = e.binary("fmul", &x, &y);
    let sum = e.binary("fadd", &product, &z);
    // Knuth's sum of two: what the rounding of `sum` lost, exactly.
    let part = e.binary("fsub", &sum, &product);
    let rest = e.binary("fsub", &sum, &part);
    let lost_of_z = e.binary("fsub", &z, &part);
    let lost_of_product = e.binary("fsub", &product, &rest);
    let lost = e.binary("fadd", &lost_of_product, &lost_of_z);
    let zero = e.float(lost.ir, 0.0);
    // Neither for infinities and NaN, where what was lost is no number.
    let inexact = e.compare("fcmp one", &lost, &zero);
    let (bits, lost_bits) = (e.bits(&sum), e.bits(&lost));
    let [zero, one, minus_one] = [0, 1, -1].map(|value| e.int(bits.ir, value));
    let odd = e.binary("and", &bits, &one);
    let even = e.compare("icmp eq", &odd, &zero);
    let signs = e.binary("xor", &bits, &lost_bits);
    let inwards = e.compare("icmp slt", &signs, &zero);
    let step = e.select(&inwards, &minus_one, &one);
    let wrong = e.binary("and", &inexact, &even);
    let step = e.select(&wrong, &step, &zero);
    let bits = e.binary("add", &bits, &step);
    let sum = e.cast("bitcast", &bits, Lane::Double);
    round_float(e, &sum, Lane::Half, Rounding::Nearest)
}

/// The next half behind x on the way to y. Halves of one sign are in the order of their bits.
fn next_half(e: &mut Emitter, call: &Call) -> Value {
    let [x, y] = call.arguments else { unreachable!("nextafter has two parameters") };
    let bits = e.bits(x);
    let [zero, one, minus_one] = [0, 1, -1].map(|value| e.int(bits.ir, value));
    let upwards = e.compare("fcmp olt", x, y);
    let negative = e.compare("icmp slt", &bits, &zero);
    let outwards = e.binary("xor", &upwards, &negative);
    let step = e.select(&outwards, &one, &minus_one);
    let next = e.binary("add", &bits, &step);
    let next = e.cast("bitcast", &next, Lane::Half);
    let none = e.float(x.ir, 0.0);
    let is_zero = e.compare("fcmp oeq", x, &none);
    let smallest = e.float(x.ir, 2f64.powi(-24));
    let smallest = e.intrinsic("copysign", &[smallest, y.clone()]);
    let next = e.select(&is_zero, &smallest, &next);
    let equal = e.compare("fcmp oeq", x, y);
    let next = e.select(&equal, y, &next);
    let unordered = e.compare("fcmp uno", x, y);
    let nan = e.binary("fadd", x, y);
    e.select(&unordered, &nan, &next)
}
