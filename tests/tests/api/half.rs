//! Arithmetic in half (`cl_khr_fp16`) against the host's, which is exact or in double: all halves where a function has one
//! argument. Kernels from source; skipped on a device without the extension or without a compiler.

use crate::conversions::{apply, half_value, nearest_half, program};
use crate::setup::{Setup, again_with, program_of_2_0, tests};
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{Buffer, Image, ImageKind, Kernel, NdRange, Program};
use spirula_tests::isolate::{Failure, Outcome};

tests![
    queries,
    operations,
    functions_of_std,
    functions_as_in_float,
    two_results,
    neighbours,
    classes,
    vectors,
    groups,
    reductions,
    images_of_halves,
    on_older_processors
];

/// A program that may use half.
fn half_program(setup: &Setup, source: &str) -> Result<Program, Failure> {
    if !setup.device.has_extension("cl_khr_fp16") {
        return Err(Failure::Skipped("cl_khr_fp16 is not there".into()));
    }
    program(setup, &format!("#pragma OPENCL EXTENSION cl_khr_fp16 : enable\n{source}"))
}

fn all_halves() -> Vec<u16> {
    (0..=u16::MAX).collect()
}

/// Whether a half is the number; any NaN is one.
fn is(found: u16, expected: f64) -> bool {
    let found = half_value(found);
    found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan()
}

/// The distance between halves of that size.
fn ulp(x: f64) -> f64 {
    let exponent = ((x.abs().to_bits() >> 52) as i32 - 1023).clamp(-14, 15);
    2.0f64.powi(exponent - 10)
}

fn queries() -> Outcome {
    let setup = Setup::new();
    let config: cl_device_fp_config = setup.device.info(CL_DEVICE_HALF_FP_CONFIG)?;
    let width: u32 = setup.device.info(CL_DEVICE_NATIVE_VECTOR_WIDTH_HALF)?;
    if !setup.device.has_extension("cl_khr_fp16") {
        assert_eq!((config, width), (0, 0));
        return Err(Failure::Skipped("cl_khr_fp16 is not there".into()));
    }
    // What the extension demands at least: one of two roundings.
    assert!(config & CL_FP_INF_NAN != 0, "{config:#x}");
    assert!(config & (CL_FP_ROUND_TO_NEAREST | CL_FP_ROUND_TO_ZERO) != 0, "{config:#x}");
    assert!(width > 0);
    Ok(())
}

/// x y + z of halves, rounded once: all three are multiples of 2^-24.
fn fused(x: f64, y: f64, z: f64) -> f64 {
    if !(x.is_finite() && y.is_finite() && z.is_finite()) {
        return x * y + z;
    }
    let [a, b, c] = [x, y, z].map(|number| (number * 2.0f64.powi(24)) as i128);
    let sum = a * b + (c << 24);
    if sum == 0 {
        return x * y + z;
    }
    // To 40 bits, the last of which says whether there was more.
    let excess = (128 - sum.unsigned_abs().leading_zeros()).saturating_sub(40);
    let kept = sum.unsigned_abs() >> excess;
    let odd = kept | u128::from(kept << excess != sum.unsigned_abs());
    let size = odd as f64 * 2.0f64.powi(excess as i32 - 48);
    nearest_half(if sum < 0 { -size } else { size }, "")
}

fn operations() -> Outcome {
    let setup = Setup::new();
    let source = "kernel void operations(global const ushort4 *in, global ushort *out) {
        size_t i = get_global_id(0);
        half x = as_half(in[i].x), y = as_half(in[i].y), z = as_half(in[i].z);
        out += 8 * i;
        out[0] = as_ushort((half)(x + y)); out[1] = as_ushort((half)(x - y));
        out[2] = as_ushort((half)(x * y)); out[3] = as_ushort((half)(x / y));
        out[4] = as_ushort(fma(x, y, z)); out[5] = as_ushort(sqrt(x));
        out[6] = as_ushort((half)-x); out[7] = x < y | (x == y) << 1 | isgreater(x, y) << 2; }";
    let program = half_program(&setup, source)?;
    // Numbers of every size, and pairs whose product or sum lies next to the middle between two halves.
    let mut state = 0x2545_F491_u64;
    let mut random = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as u16
    };
    let mut inputs: Vec<[u16; 4]> = (0..200_000).map(|_| [random(), random(), random(), 0]).collect();
    inputs.extend((0..100_000).map(|_| {
        let [x, y] = [0; 2].map(|_| 0x3C00 | random() & 0x7FF);
        [x, y, random() & 0x8FFF, 0]
    }));
    inputs.extend(all_halves().into_iter().map(|x| [x, 0x3C01, 0x0001, 0]));
    let found: Vec<u16> = apply(&setup, &program, "operations", &inputs, 8 * inputs.len())?;
    for (input, found) in inputs.iter().zip(found.as_chunks::<8>().0) {
        let [x, y, z, _] = input.map(half_value);
        let expected = [x + y, x - y, x * y, x / y].map(|exact| nearest_half(exact, ""));
        let others = [fused(x, y, z), nearest_half(x.sqrt(), ""), -x];
        for (number, expected) in expected.into_iter().chain(others).enumerate() {
            assert!(
                is(found[number], expected),
                "operation {number} of {x:e}, {y:e}, {z:e} is {:e}, not {expected:e}",
                half_value(found[number])
            );
        }
        let order = u16::from(x < y) | u16::from(x == y) << 1 | u16::from(x > y) << 2;
        assert_eq!(found[7], order, "the order of {x:e} and {y:e}");
    }
    Ok(())
}

/// A function's name, and the host's.
type Function = (&'static str, fn(f64) -> f64);

/// Within a unit of the last place; those that are exact have an exact result anyway.
const OF_STD: [Function; 27] = [
    ("acos", f64::acos),
    ("acosh", f64::acosh),
    ("asin", f64::asin),
    ("asinh", f64::asinh),
    ("atan", f64::atan),
    ("atanh", f64::atanh),
    ("cbrt", f64::cbrt),
    ("ceil", f64::ceil),
    ("cos", f64::cos),
    ("cosh", f64::cosh),
    ("degrees", f64::to_degrees),
    ("exp", f64::exp),
    ("exp2", f64::exp2),
    ("expm1", f64::exp_m1),
    ("fabs", f64::abs),
    ("floor", f64::floor),
    ("log", f64::ln),
    ("log10", f64::log10),
    ("log1p", f64::ln_1p),
    ("log2", f64::log2),
    ("radians", f64::to_radians),
    ("rint", f64::round_ties_even),
    ("rsqrt", |x| x.sqrt().recip()),
    ("sin", f64::sin),
    ("tan", f64::tan),
    ("tanh", f64::tanh),
    ("trunc", f64::trunc),
];

fn functions_of_std() -> Outcome {
    let setup = Setup::new();
    let kernels = OF_STD.map(|(name, _)| {
        format!(
            "kernel void k_{name}(global const half *in, global half *out) {{
                size_t i = get_global_id(0); out[i] = {name}(in[i]); }}\n"
        )
    });
    let program = half_program(&setup, &kernels.concat())?;
    for (name, truth) in OF_STD {
        let found: Vec<u16> = apply(&setup, &program, &format!("k_{name}"), &all_halves(), 65536)?;
        for (bits, found) in all_halves().into_iter().zip(found) {
            let x = half_value(bits);
            let (truth, found) = (truth(x), half_value(found));
            let rounded = nearest_half(truth, "");
            let close = (found - truth).abs() <= ulp(truth);
            assert!(
                close || found == rounded || found.is_nan() && rounded.is_nan(),
                "{name}({x:e}) = {found:e}, not {truth:e}"
            );
        }
    }
    Ok(())
}

/// Without a counterpart in std: float's function, which other tests compare with the truth, rounded. Two arguments or three
/// are x and what has its bytes exchanged, and x again.
const AS_IN_FLOAT: [(&str, u32); 24] = [
    ("acospi", 1),
    ("asinpi", 1),
    ("atan2", 2),
    ("atan2pi", 2),
    ("atanpi", 1),
    ("cospi", 1),
    ("erf", 1),
    ("erfc", 1),
    ("exp10", 1),
    ("fmod", 2),
    ("hypot", 2),
    ("lgamma", 1),
    ("logb", 1),
    ("mix", 3),
    ("pow", 2),
    ("powr", 2),
    ("remainder", 2),
    ("round", 1),
    ("sign", 1),
    ("sinh", 1),
    ("sinpi", 1),
    ("smoothstep", 3),
    ("tanpi", 1),
    ("tgamma", 1),
];

fn functions_as_in_float() -> Outcome {
    let setup = Setup::new();
    let kernels = AS_IN_FLOAT.map(|(name, arguments)| {
        let list = |names: [&str; 3]| names[..arguments as usize].join(", ");
        format!(
            "kernel void k_{name}(global const ushort *in, global ushort2 *out) {{
                size_t i = get_global_id(0); half x = as_half(in[i]), y = as_half(rotate(in[i], (ushort)8));
                float a = x, b = y;
                out[i] = (ushort2)(as_ushort({name}({})), as_ushort(convert_half({name}({})))); }}\n",
            list(["x", "y", "x"]),
            list(["a", "b", "a"])
        )
    });
    let program = half_program(&setup, &kernels.concat())?;
    for (name, _) in AS_IN_FLOAT {
        let found: Vec<[u16; 2]> = apply(&setup, &program, &format!("k_{name}"), &all_halves(), 65536)?;
        for (x, [half, float]) in found.into_iter().enumerate() {
            assert!(is(half, half_value(float)), "{name}({x:#x}) = {half:#x}, not {float:#x}");
        }
    }
    Ok(())
}

fn two_results() -> Outcome {
    let setup = Setup::new();
    let source = "kernel void k(global const half *in, global ushort *out) {
        size_t i = get_global_id(0); half x = in[i], whole, floor_of, cosine; int exponent, quotient, sign;
        out += 10 * i;
        out[0] = as_ushort(fract(x, &floor_of)); out[1] = as_ushort(floor_of);
        out[2] = as_ushort(modf(x, &whole)); out[3] = as_ushort(whole);
        out[4] = as_ushort(frexp(x, &exponent)); out[5] = exponent;
        half sine = sincos(x, &cosine);
        out[6] = sine == sin(x) && cosine == cos(x) || isnan(sine);
        out[7] = as_ushort(ldexp(frexp(x, &exponent), exponent)); out[8] = ilogb(x);
        out[9] = as_ushort(remquo(x, (half)3, &quotient)); }";
    let program = half_program(&setup, source)?;
    let found: Vec<u16> = apply(&setup, &program, "k", &all_halves(), 10 * 65536)?;
    for (bits, found) in all_halves().into_iter().zip(found.as_chunks::<10>().0) {
        let x = half_value(bits);
        let fraction = match x {
            _ if x.is_infinite() => 0.0f64.copysign(x),
            _ if x == 0.0 => x,
            _ => (nearest_half(x - x.floor(), "")).min(1.0 - 2.0f64.powi(-11)),
        };
        let fraction = if x.is_nan() { x } else { fraction };
        let rest = if x.is_infinite() { 0.0f64.copysign(x) } else { (x - x.trunc()).copysign(x) };
        let rest = if x.is_nan() { x } else { rest };
        let remainder = x - 3.0 * (x / 3.0).round_ties_even();
        let remainder = if remainder == 0.0 { remainder.copysign(x) } else { remainder };
        for (what, found, expected) in [
            ("fract", found[0], fraction),
            ("floor", found[1], x.floor()),
            ("modf", found[2], rest),
            ("trunc", found[3], x.trunc()),
            ("ldexp of frexp", found[7], x),
            ("remquo", found[9], remainder),
        ] {
            assert!(is(found, expected), "{what} of {x:e} is {:e}, not {expected:e}", half_value(found));
        }
        assert_eq!(found[6], 1, "sincos of {x:e}");
        if x.is_finite() && x != 0.0 {
            let exponent = (x.abs().to_bits() >> 52) as i16 - 1023;
            assert_eq!((found[5] as i16, found[8] as i16), (exponent + 1, exponent), "the exponent of {x:e}");
            assert!((0.5..1.0).contains(&half_value(found[4]).abs()), "frexp of {x:e}");
        }
    }
    Ok(())
}

fn neighbours() -> Outcome {
    let setup = Setup::new();
    let source = "kernel void k(global const half *in, global ushort *out) {
        size_t i = get_global_id(0); half x = in[i];
        out += 4 * i;
        out[0] = as_ushort(nextafter(x, (half)INFINITY)); out[1] = as_ushort(nextafter(x, (half)-INFINITY));
        out[2] = as_ushort(nextafter(x, x)); out[3] = as_ushort(nan(as_ushort(x))); }";
    let program = half_program(&setup, source)?;
    let found: Vec<u16> = apply(&setup, &program, "k", &all_halves(), 4 * 65536)?;
    let mut sorted: Vec<f64> = all_halves().into_iter().map(half_value).filter(|x| !x.is_nan()).collect();
    sorted.sort_by(f64::total_cmp);
    sorted.dedup();
    for (bits, found) in all_halves().into_iter().zip(found.as_chunks::<4>().0) {
        let x = half_value(bits);
        assert!(half_value(found[3]).is_nan());
        let [up, down] = match sorted.iter().position(|other| *other == x) {
            Some(at) => [
                sorted[at..].iter().copied().find(|other| *other > x).unwrap_or(x),
                sorted[..at].iter().copied().rev().find(|other| *other < x).unwrap_or(x),
            ],
            None => [x; 2],
        };
        for (found, expected) in found.iter().zip([up, down, x]) {
            // Zero keeps the sign of where it is come from.
            let expected = if expected == 0.0 { 0.0f64.copysign(x) } else { expected };
            assert!(is(*found, expected), "beside {x:e}: {:e}, not {expected:e}", half_value(*found));
        }
    }
    Ok(())
}

fn classes() -> Outcome {
    let setup = Setup::new();
    let source = "kernel void k(global const half *in, global ushort *out) {
        size_t i = get_global_id(0); half x = in[i];
        short2 normal = isnormal((half2)(x, 1));
        out[i] = isnan(x) | isinf(x) << 1 | isfinite(x) << 2 | isnormal(x) << 3 | signbit(x) << 4
            | (normal.x == -isnormal(x) && normal.y == -1) << 5
            | (as_ushort(select(x, (half)1, (ushort)1)) == 0x3C00) << 6
            | (as_ushort(bitselect(x, as_half((ushort)0x1234), as_half((ushort)0xFFFF))) == 0x1234) << 7; }";
    let program = half_program(&setup, source)?;
    let found: Vec<u16> = apply(&setup, &program, "k", &all_halves(), 65536)?;
    for (bits, found) in all_halves().into_iter().zip(found) {
        let x = half_value(bits);
        let normal = x.is_finite() && x.abs() >= 2.0f64.powi(-14);
        let expected =
            [x.is_nan(), x.is_infinite(), x.is_finite(), normal, bits >> 15 == 1, true, true, true];
        let expected = expected.into_iter().zip(0..).map(|(is, at)| u16::from(is) << at).sum::<u16>();
        assert_eq!(found, expected, "{x:e}");
    }
    Ok(())
}

fn vectors() -> Outcome {
    let setup = Setup::new();
    let source = "kernel void k(global const half *in, global half *out) {
        size_t i = get_global_id(0);
        half4 v = vload4(i & ~(size_t)3, in - 3 * (i & ~(size_t)3));
        half3 w = (half3)(v.x, v.y, v.z);
        half8 both = (half8)(v, v + (half)1);
        out += 16 * i;
        vstore4(shuffle(both, (ushort4)(7, 0, 5, 2)), 0, out);
        vstore4(max(v, (half)2) + clamp(v, (half)0, (half)1), 1, out);
        vstore3(cross(w, w.yzx), 0, out + 8);
        out[11] = dot(v, v); out[12] = length(w); out[13] = distance(v.xy, v.zw);
        out[14] = normalize(v.xy).x; out[15] = convert_char4_sat(v * (half)100).w; }";
    let program = half_program(&setup, source)?;
    let inputs: Vec<u16> = (0..64).map(|i| 0x3800 + 37 * i).collect();
    let found: Vec<u16> = apply(&setup, &program, "k", &inputs, 16 * 64)?;
    for (i, found) in found.as_chunks::<16>().0.iter().enumerate() {
        let start = i & !3;
        let v: Vec<f64> = inputs[start..start + 4].iter().map(|&bits| half_value(bits)).collect();
        let half = |x: f64| nearest_half(x, "");
        let up = |k: usize| half(v[k] + 1.0);
        let dot = |n: usize| v[..n].iter().map(|x| x * x).sum::<f64>();
        let across = |a: usize, b: usize, c: usize, d: usize| v[a] * v[d] - v[b] * v[c];
        let expected = [
            up(3),
            v[0],
            up(1),
            v[2],
            half(v[0].max(2.0) + v[0].clamp(0.0, 1.0)),
            half(v[1].max(2.0) + v[1].clamp(0.0, 1.0)),
            half(v[2].max(2.0) + v[2].clamp(0.0, 1.0)),
            half(v[3].max(2.0) + v[3].clamp(0.0, 1.0)),
            across(1, 2, 2, 0),
            across(2, 0, 0, 1),
            across(0, 1, 1, 2),
            dot(4),
            dot(3).sqrt(),
            (v[0] - v[2]).hypot(v[1] - v[3]),
            v[0] / dot(2).sqrt(),
            half(v[3] * 100.0).min(127.0).trunc(),
        ];
        for (number, (found, expected)) in found.iter().zip(expected).enumerate() {
            let found = half_value(*found);
            // Differences of products round in float first.
            let bound = if number < 8 { 0.0 } else { ulp(expected) + 1e-6 };
            assert!(
                (found - expected).abs() <= bound,
                "result {number} of {v:?}: {found:e}, not {expected:e}"
            );
        }
    }
    Ok(())
}

fn groups() -> Outcome {
    let setup = Setup::new();
    let source = "kernel void k(global const half *in, global half *out) {
        size_t i = get_global_id(0), l = get_local_id(0), n = get_local_size(0), g = get_group_id(0);
        local half copy[64];
        event_t e = async_work_group_copy(copy, in + g * n, n, 0);
        wait_group_events(1, &e);
        half reversed = copy[n - 1 - l];
        out[i] = reversed; }";
    let program = half_program(&setup, source)?;
    let inputs: Vec<u16> = (0..64).map(|i| 0x3C00 + 16 * i).collect();
    let found: Vec<u16> = apply(&setup, &program, "k", &inputs, 64)?;
    // The local size is the runtime's choice: any that divides.
    let size = (1..=64).find(|n| 64 % n == 0 && found[0] == inputs[n - 1]).expect("a group's last one");
    for (i, found) in found.into_iter().enumerate() {
        assert_eq!(found, inputs[i / size * size + size - 1 - i % size], "{i} of groups of {size}");
    }
    Ok(())
}

/// Small integers, whose sums are exact.
fn reductions() -> Outcome {
    let setup = Setup::new();
    let source = "#pragma OPENCL EXTENSION cl_khr_fp16 : enable
        #pragma OPENCL EXTENSION cl_khr_subgroup_extended_types : enable
        #pragma OPENCL EXTENSION cl_khr_subgroup_shuffle : enable
        kernel void k(global half *out) {
        size_t i = get_local_id(0);
        half x = i % 7;
        half4 w = sub_group_broadcast((half4)(x, 1, 2, 3), 1);
        out += 8 * i;
        out[0] = work_group_reduce_add(x); out[1] = work_group_scan_inclusive_max(x);
        out[2] = work_group_scan_exclusive_add((half)1); out[3] = work_group_broadcast(x, 5);
        out[4] = sub_group_reduce_max(x) >= x; out[5] = sub_group_scan_exclusive_add((half)1) - get_sub_group_local_id();
        out[6] = sub_group_shuffle(x, get_sub_group_local_id()) - x; out[7] = w.w + w.y; }";
    if !setup.device.has_extension("cl_khr_fp16") {
        return Err(Failure::Skipped("cl_khr_fp16 is not there".into()));
    }
    let kernel = Kernel::new(&program_of_2_0(&setup, source, "-cl-std=CL3.0")?, "k")?;
    let mut found = vec![0u16; 8 * 64];
    let out = Buffer::copy_of(&setup.context, &found)?;
    kernel.set_object(0, Some(&out))?;
    setup.queue.launch(&kernel, NdRange::new(&[64], &[64]))?;
    setup.queue.read(&out, &mut found)?;
    let sum: usize = (0..64).map(|i| i % 7).sum();
    for (i, found) in found.as_chunks::<8>().0.iter().enumerate() {
        let expected = [sum, i.min(6), i, 5, 1, 0, 0, 4].map(|n| n as f64);
        assert_eq!(found.map(half_value), expected, "work-item {i}");
    }
    Ok(())
}

fn images_of_halves() -> Outcome {
    let setup = Setup::new();
    let source = "kernel void k(read_only image2d_t from, write_only image2d_t to) {
        int2 place = (int2)(get_global_id(0), get_global_id(1));
        write_imageh(to, place, read_imageh(from, place) * (half4)(1, 2, -1, 0.5)); }";
    let kernel = Kernel::new(&half_program(&setup, source)?, "k")?;
    let image = || Image::new(&setup.context, ImageKind::D2, (CL_RGBA, CL_HALF_FLOAT), [64, 256, 1], 1, None);
    let (from, to) = (image()?, image()?);
    let halves = all_halves();
    setup.queue.write_image(&from, bytemuck::cast_slice(&halves))?;
    kernel.set_object(0, Some(&from))?;
    kernel.set_object(1, Some(&to))?;
    setup.queue.launch(&kernel, NdRange::new(&[64, 256], &[16, 1]))?;
    let mut found = vec![0u16; halves.len()];
    setup.queue.read_image(&to, bytemuck::cast_slice_mut(&mut found))?;
    for (i, (bits, found)) in halves.into_iter().zip(found).enumerate() {
        let expected = nearest_half(half_value(bits) * [1.0, 2.0, -1.0, 0.5][i % 4], "");
        assert!(is(found, expected), "component {} of {bits:#x}: {found:#x}", i % 4);
    }
    Ok(())
}

/// The same where conversions alone are instructions, and where there are none. (A processor of neither level runs its own code.)
fn on_older_processors() -> Outcome {
    for level in ["x86-64-v3", "x86-64-v2"] {
        for tier in ["baseline", "optimized"] {
            for test in ["half::operations", "half::functions_of_std", "half::two_results"] {
                again_with(test, &[("SPIRULA_CPU", level), ("SPIRULA_TIER", tier)]);
            }
        }
    }
    Ok(())
}
