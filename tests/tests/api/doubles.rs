//! The math functions of doubles, as they are in generated code: there, quotients and roots within them come from what the processor has,
//! so that each level of processors is asked, scalar code and packs. Against the host's functions, and at the ends of their ranges.
//! Skipped on a device without a compiler.

use crate::setup::{again_with, tests};
use crate::sources::{built, setup};
use spirula_tests::cl::{Buffer, Kernel, NdRange};
use spirula_tests::isolate::Outcome;

tests![doubles, doubles_of_each_level];

/// A function, the host's, where that is as good, and ULP that are allowed, of which the host may take one.
struct Function {
    name: &'static str,
    truth: fn(f64) -> f64,
    range: (f64, f64),
    ulp: f64,
}

const fn function(name: &'static str, truth: fn(f64) -> f64, range: (f64, f64), ulp: f64) -> Function {
    Function { name, truth, range, ulp }
}

/// (From 1.5 on, and from a tenth on: nearer to their zeros the host's functions lose bits.)
const FUNCTIONS: [Function; 20] = [
    function("sin", f64::sin, (-300.0, 300.0), 4.0),
    function("cos", f64::cos, (-300.0, 300.0), 4.0),
    function("tan", f64::tan, (-300.0, 300.0), 5.0),
    function("asin", f64::asin, (-1.0, 1.0), 4.0),
    function("acos", f64::acos, (-1.0, 1.0), 4.0),
    function("atan", f64::atan, (-40.0, 40.0), 5.0),
    function("sinh", f64::sinh, (-700.0, 700.0), 4.0),
    function("cosh", f64::cosh, (-700.0, 700.0), 4.0),
    function("tanh", f64::tanh, (-30.0, 30.0), 5.0),
    function("asinh", f64::asinh, (0.1, 1e9), 4.0),
    function("acosh", f64::acosh, (1.5, 1e9), 4.0),
    function("atanh", f64::atanh, (0.1, 1.0), 5.0),
    function("exp", f64::exp, (-740.0, 709.0), 3.0),
    function("exp2", f64::exp2, (-1070.0, 1023.0), 3.0),
    function("expm1", f64::exp_m1, (-40.0, 700.0), 3.0),
    function("log", f64::ln, (1e-3, 1e9), 3.0),
    function("log2", f64::log2, (1e-3, 1e9), 3.0),
    function("log10", f64::log10, (1e-3, 1e9), 3.0),
    function("log1p", f64::ln_1p, (-0.999, 1e9), 2.0),
    function("cbrt", f64::cbrt, (-1e9, 1e9), 2.0),
];

/// Arguments of each function: these, and others over its range.
const COUNT: usize = 256;
const ENDS: [f64; 20] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
    f64::MAX,
    f64::MIN,
    5e-324,
    -1e-310,
    f64::MIN_POSITIVE,
    1e-20,
    -1e-9,
    1e20,
    -1e200,
    1.0 + f64::EPSILON,
    -1.5,
    0.5,
    -0.5,
];

fn arguments((low, high): (f64, f64)) -> impl Iterator<Item = f64> {
    let others = COUNT - ENDS.len();
    ENDS.into_iter().chain((0..others).map(move |i| low + (high - low) * (i as f64 + 0.37) / others as f64))
}

/// Whether that is the value, or near enough; of a denormal number the last bit counts.
fn is_right(value: f64, truth: f64, ulp: f64) -> bool {
    if truth.is_nan() || truth.is_infinite() || truth == 0.0 {
        return value.is_nan() && truth.is_nan() || value.to_bits() == truth.to_bits();
    }
    let unit = 2.0_f64.powi((truth.abs().log2().floor() as i32).max(-1022)) * f64::EPSILON;
    (value - truth).abs() <= ulp * unit
}

fn doubles() -> Outcome {
    let setup = setup()?;
    let each = |(k, function): (usize, &Function)| {
        format!("y[i + {}] = {}(x[i + {}]); ", k * COUNT, function.name, k * COUNT)
    };
    let source = format!(
        "#pragma OPENCL EXTENSION cl_khr_fp64 : enable
        kernel void f(global const double *x, global double *y) {{ size_t i = get_global_id(0); {} }}
        kernel void errors(global const double *x, global double *y) {{ size_t i = get_global_id(0); y[i] = erf(x[i]);
            y[i + {COUNT}] = erfc(x[i]); }}",
        FUNCTIONS.iter().enumerate().map(each).collect::<String>()
    );
    let program = built(&setup, &source, "")?;
    let apply = |name: &str, x: &[f64], results: usize| {
        let kernel = Kernel::new(&program, name)?;
        let (input, mut y) = (Buffer::copy_of(&setup.context, x)?, vec![7.5_f64; results]);
        let output = Buffer::copy_of(&setup.context, &y)?;
        kernel.set_object(0, Some(&input))?;
        kernel.set_object(1, Some(&output))?;
        setup.queue.launch(&kernel, NdRange::new(&[COUNT], &[64]))?;
        setup.queue.read(&output, &mut y)?;
        spirula_tests::cl::Result::Ok(y)
    };
    let x: Vec<f64> = FUNCTIONS.iter().flat_map(|function| arguments(function.range)).collect();
    let y = apply("f", &x, x.len())?;
    for ((x, y), function) in x.chunks(COUNT).zip(y.chunks(COUNT)).zip(&FUNCTIONS) {
        for (&x, &value) in x.iter().zip(y) {
            // (Beyond its zero the host's function has no bits left for arguments that small, and may overflow before its value does.)
            let is_host_good = !["asinh", "acosh", "atanh"].contains(&function.name)
                || x.is_nan()
                || x == 0.0
                || (0.1..1e100).contains(&x) && x != 1.0 + f64::EPSILON;
            let truth = (function.truth)(x);
            let name = function.name;
            assert!(
                !is_host_good || is_right(value, truth, function.ulp + 1.0),
                "{name}({x:e}) = {value:e}, not {truth:e}"
            );
        }
    }
    errors_complement_each_other(&apply("errors", &arguments((-7.0, 7.0)).collect::<Vec<_>>(), 2 * COUNT)?);
    Ok(())
}

/// erf and erfc of these arguments: their sum is 1, erf's sign is the argument's, and of the ends they are known.
fn errors_complement_each_other(y: &[f64]) {
    let (erf, erfc) = y.split_at(COUNT);
    for ((x, &erf), &erfc) in arguments((-7.0, 7.0)).zip(erf).zip(erfc) {
        if x.is_nan() {
            assert!(erf.is_nan() && erfc.is_nan());
            continue;
        }
        assert!((erf + erfc - 1.0).abs() < 1e-14, "x = {x:e}: {erf:e} + {erfc:e}");
        assert_eq!(erf.is_sign_negative(), x.is_sign_negative(), "erf({x:e}) = {erf:e}");
        if x.abs() >= 6.0 {
            assert_eq!(erf, x.signum());
        }
        if x == 0.5 {
            assert!((erf - 0.520_499_877_813_046_5).abs() < 1e-15, "{erf}");
        }
    }
}

fn doubles_of_each_level() -> Outcome {
    for (level, lanes) in [("x86-64-v4", "8"), ("x86-64-v4", "1"), ("x86-64-v3", "4"), ("x86-64-v2", "2")] {
        let settings =
            [("SPIRULA_CPU", level), ("SPIRULA_VECTOR_WIDTH", lanes), ("SPIRULA_TIER", "optimized")];
        again_with("doubles::doubles", &settings);
    }
    Ok(())
}
