//! The build options about arithmetic (OpenCL 1.2, 5.6.4.2 and 5.6.4.3), given for a SPIR binary: what they may do to its
//! results, and what they may not.

use crate::setup::{Setup, again_with, tests};
use crate::sources;
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{self, Buffer, Kernel, NdRange, Program, SPIR12};
use spirula_tests::isolate::Outcome;

tests![
    strict,
    fast_relaxed_math,
    unsafe_math,
    liberties_that_change_no_function,
    denormals,
    reciprocal_roots_at_the_limits,
    reciprocal_roots_of_each_level,
    the_same_bits_without_optimization
];

/// A function of one argument, its truth, where its bounds hold, and what its error is allowed to be with unsafe math
/// (OpenCL 3.0, 7.4, the table for that option): ULP and a part of |x| ULP, or an absolute error.
struct Case {
    name: &'static str,
    truth: fn(f64) -> f64,
    range: (f32, f32),
    relaxed: Bound,
    /// ULP without the option (OpenCL 1.2, 7.4).
    strict: f64,
}

enum Bound {
    Ulp(f64),
    UlpAndOfSize(f64),
    Absolute(f64),
}
use Bound::{Absolute, Ulp, UlpAndOfSize};

const fn case(
    name: &'static str,
    truth: fn(f64) -> f64,
    range: (f32, f32),
    strict: f64,
    relaxed: Bound,
) -> Case {
    Case { name, truth, range, relaxed, strict }
}

const PI: f32 = std::f32::consts::PI;
const CASES: [Case; 12] = [
    case("sin", f64::sin, (-PI, PI), 4.0, Absolute(1.0 / 2048.0)),
    case("cos", f64::cos, (-PI, PI), 4.0, Absolute(1.0 / 2048.0)),
    case("exp", f64::exp, (-80.0, 80.0), 3.0, UlpAndOfSize(2.0)),
    case("exp2", f64::exp2, (-120.0, 120.0), 3.0, UlpAndOfSize(2.0)),
    case("log", f64::ln, (2.0, 1e30), 3.0, Ulp(3.0)),
    case("log", f64::ln, (0.5, 2.0), 3.0, Absolute(1.0 / 2097152.0)),
    case("log2", f64::log2, (1e-30, 0.5), 3.0, Ulp(3.0)),
    case("log2", f64::log2, (0.5, 2.0), 3.0, Absolute(1.0 / 2097152.0)),
    // pow(x, 1.7f) is exp2(1.7f * log2(x)).
    case("pow", |x| x.powf(1.7_f32.into()), (1e-3, 1e3), 16.0, Ulp(64.0)),
    case("sqrt", f64::sqrt, (1e-30, 1e30), 3.0, Ulp(3.0)),
    // The table says 2; OpenCL 1.2 lets the option violate it.
    case("rsqrt", |x| x.sqrt().recip(), (1e-30, 1e30), 2.0, Ulp(4.0)),
    case("erf", erf_of_half, (0.5, 0.5), 16.0, Ulp(16.0)),
];

/// erf(½), the only argument that it is asked for.
fn erf_of_half(_: f64) -> f64 {
    0.520_499_877_813_046_5
}

fn inputs((low, high): (f32, f32)) -> Vec<f32> {
    (0..1024).map(|i| low + (high - low) * (i as f32 / 1023.0)).map(|x| x.clamp(low, high)).collect()
}

/// y[i] = f(x[i]) with the kernel of this name.
fn apply(setup: &Setup, program: &Program, kernel: &str, x: &[f32]) -> cl::Result<Vec<f32>> {
    let kernel = Kernel::new(program, kernel)?;
    let (input, mut output) = (Buffer::copy_of(&setup.context, x)?, vec![f32::NAN; x.len()]);
    let buffer = Buffer::copy_of(&setup.context, &output)?;
    kernel.set_object(0, Some(&input))?;
    kernel.set_object(1, Some(&buffer))?;
    setup.queue.launch(&kernel, NdRange::new(&[x.len()], &[64]))?;
    setup.queue.read(&buffer, &mut output)?;
    Ok(output)
}

fn ulp(truth: f64) -> f64 {
    2.0_f64.powi((truth.abs().log2().floor() as i32).max(-126) - 23)
}

/// Builds the functions with these options and checks each result.
fn check(options: &str, bound: impl Fn(&Case, f64, f64) -> f64) -> Outcome {
    let setup = Setup::new();
    let program = setup.load("bench/math_sweep.bc64")?;
    program.build(&format!("{SPIR12} {options}"))?;
    for case in &CASES {
        let x = inputs(case.range);
        for (x, y) in x.iter().zip(apply(&setup, &program, &format!("m_{}", case.name), &x)?) {
            let truth = (case.truth)(f64::from(*x));
            let error = (f64::from(y) - truth).abs();
            let allowed = bound(case, f64::from(*x), truth);
            let name = case.name;
            assert!(
                error <= allowed,
                "{options}: {name}({x:e}) = {y:e}, not {truth:e}: {error:e} > {allowed:e}"
            );
        }
    }
    Ok(())
}

fn strict_bound(case: &Case, _: f64, truth: f64) -> f64 {
    case.strict * ulp(truth)
}

fn relaxed_bound(case: &Case, x: f64, truth: f64) -> f64 {
    match case.relaxed {
        Ulp(ulps) => ulps * ulp(truth),
        UlpAndOfSize(part) => (3.0 + (part * x.abs()).floor()) * ulp(truth),
        Absolute(error) => error,
    }
}

fn strict() -> Outcome {
    check("", strict_bound)
}

fn fast_relaxed_math() -> Outcome {
    check("-cl-fast-relaxed-math", relaxed_bound)
}

fn unsafe_math() -> Outcome {
    check("-cl-unsafe-math-optimizations", relaxed_bound)?;
    check("-cl-unsafe-math-optimizations -cl-fp32-correctly-rounded-divide-sqrt", relaxed_bound)
}

fn liberties_that_change_no_function() -> Outcome {
    check("-cl-mad-enable -cl-no-signed-zeros -cl-finite-math-only -cl-denorms-are-zero", strict_bound)
}

/// Sums of denormal numbers are right or, where that is permitted, zero: on x86-64, whose processors take long for them, they are.
fn denormals() -> Outcome {
    let setup = Setup::new();
    for options in ["", "-cl-denorms-are-zero", "-cl-fast-relaxed-math"] {
        let program = setup.load("spir12/vadd.bc64")?;
        program.build(&format!("{SPIR12} {options}"))?;
        let kernel = Kernel::new(&program, "vadd")?;
        let denormal: Vec<f32> = (0..64).map(|i| f32::from_bits(1 << (i % 22))).collect();
        let (a, b) =
            (Buffer::copy_of(&setup.context, &denormal)?, Buffer::copy_of(&setup.context, &denormal)?);
        let mut sums = vec![f32::NAN; denormal.len()];
        let output = Buffer::copy_of(&setup.context, &sums)?;
        for (index, buffer) in [&a, &b, &output].into_iter().enumerate() {
            kernel.set_object(index as cl_uint, Some(buffer))?;
        }
        setup.queue.launch(&kernel, NdRange::new(&[sums.len()], &[16]))?;
        setup.queue.read(&output, &mut sums)?;
        for (x, sum) in denormal.iter().zip(sums) {
            let permitted = !options.is_empty();
            let right = sum == x + x && !(permitted && cfg!(target_arch = "x86_64"));
            assert!(right || permitted && sum == 0.0, "{options}: {x:e} + {x:e} = {sum:e}");
        }
    }
    Ok(())
}

/// Whatever liberties a reciprocal root takes, it has its limits: programs leave them to arithmetic, or a `select`, that comes later.
fn reciprocal_roots_at_the_limits() -> Outcome {
    let setup = sources::setup()?;
    let source = "kernel void f(global const float *x, global float *y) {
        size_t i = get_global_id(0); y[i] = F; }";
    let mut x = vec![0.0_f32; 64];
    (x[1], x[2], x[3], x[5]) = (f32::INFINITY, 4.0, f32::MIN_POSITIVE, 1e-40);
    let options = ["", "-cl-unsafe-math-optimizations", "-cl-mad-enable -cl-no-signed-zeros"];
    for (function, options) in ["rsqrt(x[i])", "native_rsqrt(x[i])", "half_rsqrt(x[i])"]
        .into_iter()
        .flat_map(|function| options.map(|options| (function, options)))
    {
        let build = |function: &str| sources::built(&setup, source, &format!("{options} -DF={function}"));
        let y = apply(&setup, &build(function)?, "f", &x)?;
        assert_eq!(y[..2], [f32::INFINITY, 0.0], "{function} {options}");
        assert!(
            (y[2] - 0.5).abs() < 1e-6 && (y[3] / 2_f32.powi(63) - 1.0).abs() < 1e-6,
            "{function} {options}: {y:?}"
        );
        assert!(y[5] == f32::INFINITY || (y[5] / 1e20 - 1.0).abs() < 1e-3, "{function} {options}: {}", y[5]);
        // What OpenMM computes of a distance of 0.
        let distance = apply(&setup, &build(&format!("native_recip({function})"))?, "f", &x)?;
        assert_eq!(distance[0], 0.0, "{function} {options}");
    }
    Ok(())
}

fn reciprocal_roots_of_each_level() -> Outcome {
    for level in ["x86-64-v4", "x86-64-v3", "x86-64-v2"] {
        let settings = [("SPIRULA_CPU", level), ("SPIRULA_TIER", "optimized")];
        again_with("math_options::reciprocal_roots_at_the_limits", &settings);
    }
    Ok(())
}

/// Which instructions functions are made of is decided by the processor, not by how much time there is for optimization.
fn the_same_bits_without_optimization() -> Outcome {
    let setup = sources::setup()?;
    let source = "#pragma OPENCL EXTENSION cl_khr_fp64 : enable
        kernel void f(global const float *x, global float *y) {
            size_t i = get_global_id(0); float a = x[i];
            y[i] = (float)(rsqrt((double)a) * 1e9 - trunc(rsqrt((double)a) * 1e9)) + rsqrt(a) + exp(a) + pow(a, 0.3f) + sincos(a, &a); }";
    let x = inputs((1e-3, 20.0));
    let results = ["", "-cl-opt-disable"].map(|options| {
        let bits = |y: Vec<f32>| y.into_iter().map(f32::to_bits).collect::<Vec<_>>();
        apply(&setup, &sources::built(&setup, source, options)?, "f", &x).map(bits)
    });
    let [with, without] = results;
    assert_eq!(with?, without?);
    Ok(())
}
