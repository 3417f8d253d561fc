//! Conversions between all numbers, and to and from half, against arithmetic on the host that is exact: kernels from source.
//! Skipped on a device without a compiler.

use crate::setup::{Setup, again_with, tests};
use crate::sources::{built, setup};
use bytemuck::Pod;
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{self, Buffer, Kernel, NdRange, Program};
use spirula_tests::isolate::{Failure, Outcome};

tests![convert, in_packs, beyond_the_range, vload_half, vstore_half];

/// A type: its name in OpenCL C, its bits, whether it is signed; and whether it is a floating-point type.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Type {
    name: &'static str,
    bits: u32,
    signed: bool,
    float: bool,
}

const fn integer(name: &'static str, bits: u32, signed: bool) -> Type {
    Type { name, bits, signed, float: false }
}

const fn float(name: &'static str, bits: u32) -> Type {
    Type { name, bits, signed: true, float: true }
}

const TYPES: [Type; 11] = [
    integer("char", 8, true),
    integer("uchar", 8, false),
    integer("short", 16, true),
    integer("ushort", 16, false),
    integer("int", 32, true),
    integer("uint", 32, false),
    integer("long", 64, true),
    integer("ulong", 64, false),
    float("half", 16),
    float("float", 32),
    float("double", 64),
];

/// Rounding suffixes, without one first.
const MODES: [&str; 5] = ["", "_rte", "_rtz", "_rtp", "_rtn"];

/// A number that any type holds.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Number {
    Integer(i128),
    Float(f64),
}
use Number::{Float, Integer};

impl Type {
    /// Reads a number as kernels store them: integers extended, floats as their bits.
    fn number(self, stored: u64) -> Number {
        match (self.float, self.bits) {
            (true, 16) => Float(half_value(stored as u16)),
            (true, 32) => Float(f64::from(f32::from_bits(stored as u32))),
            (true, _) => Float(f64::from_bits(stored)),
            _ if self.signed => Integer(i128::from(stored as i64)),
            _ => Integer(i128::from(stored)),
        }
    }

    /// The smallest and the largest integer.
    fn range(self) -> (i128, i128) {
        match self.signed {
            true => (-(1 << (self.bits - 1)), (1 << (self.bits - 1)) - 1),
            false => (0, (1 << self.bits) - 1),
        }
    }

    /// Numbers to convert, as kernels load them.
    fn samples(self) -> Vec<u64> {
        let powers = (0..self.bits).flat_map(|k| [-1, 0, 1].map(|step| (1_i128 << k) + step));
        let integers: Vec<i128> = powers.flat_map(|n| [n, -n]).chain([0, 100, -100, 12345, -12345]).collect();
        let (low, high) = self.range();
        if self.float && self.bits == 16 {
            return (0..=u16::MAX.into()).step_by(7).collect();
        }
        if !self.float {
            let fitting = integers.into_iter().filter(|n| (low..=high).contains(n));
            return fitting.chain([low, high]).map(|n| n as u64).collect();
        }
        let wide =
            integers.into_iter().flat_map(|n| [0.0, 0.25, 0.5, -0.5, 0.75].map(|part| n as f64 + part));
        let thirds = (-1074..1024)
            .step_by(7)
            .flat_map(|k| [1.0, -1.0, 4.0 / 3.0, -5.0 / 3.0].map(|m| m * 2.0f64.powi(k)));
        let edges = [f64::INFINITY, f64::NEG_INFINITY, f64::NAN, f64::MAX, f64::MIN, -0.0];
        let floats = [f32::MAX, f32::MIN, f32::MIN_POSITIVE].map(f64::from);
        let halves =
            floats.into_iter().flat_map(|x| [x, x.next_up(), x.next_down(), x * (1.0 + 2.0f64.powi(-25))]);
        let all = wide.chain(thirds).chain(edges).chain(halves);
        // For half: all of a third of its numbers, the middles between them, and what is next to those.
        let halves = (0..=u16::MAX).step_by(3).map(half_value).flat_map(|x| {
            let middle = x * (1.0 + 2.0f64.powi(-11));
            [x, middle, f64::from((middle as f32).next_up()), middle.next_down()]
        });
        let all = all.chain(halves);
        match self.bits {
            32 => all.map(|x| u64::from((x as f32).to_bits())).collect(),
            _ => all.map(f64::to_bits).collect(),
        }
    }
}

/// The integer next to x by a rounding mode.
fn rounded(x: f64, mode: &str) -> f64 {
    match mode {
        "_rte" => x.round_ties_even(),
        "_rtp" => x.ceil(),
        "_rtn" => x.floor(),
        _ => x.trunc(),
    }
}

/// Moves `nearest` to the neighbour that the mode asks for; `error` is its order against the truth, `up` and `down` are its
/// neighbours.
fn directed<T>(nearest: T, error: std::cmp::Ordering, negative: bool, mode: &str, up: T, down: T) -> T {
    let (too_small, too_large) = (error.is_lt(), error.is_gt());
    match mode {
        "_rtp" if too_small => up,
        "_rtn" if too_large => down,
        "_rtz" if too_large && !negative => down,
        "_rtz" if too_small && negative => up,
        _ => nearest,
    }
}

/// An integer as a floating-point number of so many bits.
fn integer_to_float(n: i128, bits: u32, mode: &str) -> f64 {
    match bits {
        // Integers that double can't tell apart are all too large.
        16 => nearest_half(n as f64, mode),
        32 => {
            let near = n as f32;
            directed(near, (near as i128).cmp(&n), n < 0, mode, near.next_up(), near.next_down()).into()
        }
        _ => {
            let near = n as f64;
            directed(near, (near as i128).cmp(&n), n < 0, mode, near.next_up(), near.next_down())
        }
    }
}

fn double_to_float(x: f64, mode: &str) -> f64 {
    let near = x as f32;
    let Some(error) = f64::from(near).partial_cmp(&x) else { return x };
    directed(near, error, x < 0.0, mode, near.next_up(), near.next_down()).into()
}

/// What a conversion yields (6.2.3); None where that is up to the device.
fn converted(x: Number, to: Type, saturate: bool, mode: &str) -> Option<Number> {
    let (low, high) = to.range();
    match x {
        Integer(n) if to.float => Some(Float(integer_to_float(n, to.bits, mode))),
        Integer(n) if saturate => Some(Integer(n.clamp(low, high))),
        Integer(n) => {
            let wrapped = n & ((1 << to.bits) - 1);
            Some(Integer(if wrapped > high { wrapped - (1 << to.bits) } else { wrapped }))
        }
        Float(x) if to.float => Some(Float(match to.bits {
            16 => nearest_half(x, mode),
            32 => double_to_float(x, mode),
            _ => x,
        })),
        Float(x) if x.is_nan() => saturate.then_some(Integer(0)),
        Float(x) => {
            let n = rounded(x, mode) as i128;
            if saturate {
                Some(Integer(n.clamp(low, high)))
            } else {
                (low..=high).contains(&n).then_some(Integer(n))
            }
        }
    }
}

/// A conversion's name, and what it is.
fn conversions() -> Vec<(String, Type, bool, &'static str)> {
    let mut list = Vec::new();
    for to in TYPES {
        for saturate in [false, true].into_iter().filter(|saturate| !(*saturate && to.float)) {
            let sat = if saturate { "_sat" } else { "" };
            list.extend(MODES.map(|mode| (format!("convert_{}{sat}{mode}", to.name), to, saturate, mode)));
        }
    }
    list
}

/// The kernel that applies all conversions to each element: `out[conversion * n + i]`.
fn kernel_of(from: Type) -> String {
    let store = |to: Type, value: String| match (to.float, to.bits) {
        (true, 16) => format!("as_ushort({value})"),
        (true, 32) => format!("as_uint({value})"),
        (true, _) => format!("as_ulong({value})"),
        _ => format!("(ulong){value}"),
    };
    let line = |(number, (name, to, ..)): (usize, (String, Type, bool, &str))| {
        format!("  out[{number} * n + i] = {};\n", store(to, format!("{name}(x)")))
    };
    let body: String = conversions().into_iter().enumerate().map(line).collect();
    let name = from.name;
    let load = match (from.float, from.bits) {
        (true, 16) => "as_half((ushort)in[i])".to_string(),
        (true, 32) => "as_float((uint)in[i])".to_string(),
        (true, _) => "as_double(in[i])".to_string(),
        _ => format!("({name})in[i]"),
    };
    format!(
        "#pragma OPENCL EXTENSION cl_khr_fp16 : enable\nkernel void from_{name}(global const ulong *in, global ulong *out) {{\n  \
         size_t i = get_global_id(0), n = get_global_size(0);\n  {name} x = {load};\n{body}}}\n"
    )
}

/// A program of these kernels, if there is a compiler.
pub fn program(setup: &Setup, source: &str) -> Result<Program, Failure> {
    if setup.device.info::<u32>(CL_DEVICE_COMPILER_AVAILABLE)? != CL_TRUE {
        return Err(Failure::Skipped("CL_DEVICE_COMPILER_AVAILABLE is false".into()));
    }
    let program = Program::from_source(&setup.context, source)?;
    program.build("").inspect_err(|_| eprintln!("{}", program.log(setup.device).unwrap_or_default()))?;
    Ok(program)
}

/// Runs a kernel of an input and an output buffer, a work-item for each input.
pub fn apply<T: Pod, U: Pod + Default>(
    setup: &Setup,
    program: &Program,
    kernel: &str,
    input: &[T],
    outputs: usize,
) -> cl::Result<Vec<U>> {
    let kernel = Kernel::new(program, kernel)?;
    let mut output = vec![U::default(); outputs];
    let buffers = [Buffer::copy_of(&setup.context, input)?, Buffer::copy_of(&setup.context, &output)?];
    for (index, buffer) in buffers.iter().enumerate() {
        kernel.set_object(index as cl_uint, Some(buffer))?;
    }
    setup.queue.launch(&kernel, NdRange { local: None, ..NdRange::new(&[input.len()], &[1]) })?;
    setup.queue.read(&buffers[1], &mut output)?;
    Ok(output)
}

fn convert() -> Outcome {
    let setup = Setup::new();
    let conversions = conversions();
    for from in TYPES {
        let program = program(&setup, &kernel_of(from))?;
        let samples = from.samples();
        let count = samples.len();
        let found: Vec<u64> =
            apply(&setup, &program, &format!("from_{}", from.name), &samples, conversions.len() * count)?;
        for (number, (name, to, saturate, mode)) in conversions.iter().enumerate() {
            for (i, sample) in samples.iter().enumerate() {
                let x = from.number(*sample);
                let Some(expected) = converted(x, *to, *saturate, mode) else { continue };
                let found = to.number(found[number * count + i]);
                let same = match (found, expected) {
                    (Float(a), Float(b)) => a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(),
                    _ => found == expected,
                };
                assert!(same, "{name}(({}){x:?}) = {found:?}, not {expected:?}", from.name);
            }
        }
    }
    Ok(())
}

/// The value of a half.
pub fn half_value(bits: u16) -> f64 {
    let (exponent, fraction) = (i32::from(bits >> 10 & 31), f64::from(bits & 0x3FF));
    let size = match exponent {
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        0 => fraction * 2.0f64.powi(-24),
        _ => (1024.0 + fraction) * 2.0f64.powi(exponent - 25),
    };
    if bits >> 15 == 1 { -size } else { size }
}

/// The half next to x by a rounding mode.
pub fn nearest_half(x: f64, mode: &str) -> f64 {
    if x.is_nan() || x.is_infinite() {
        return x;
    }
    let exponent = if x == 0.0 { -14 } else { ((x.abs().to_bits() >> 52) as i32 - 1023).max(-14) };
    // Exact: all but the tiniest numbers keep their digits, and those of them none of these.
    let unit = 2.0f64.powi(exponent - 10);
    let value = rounded(x / unit, if mode.is_empty() { "_rte" } else { mode }) * unit;
    let value = value.copysign(x);
    let inwards = match mode {
        "_rtz" => true,
        "_rtp" => x < 0.0,
        "_rtn" => x > 0.0,
        _ => false,
    };
    match value.abs() > 65504.0 {
        true if inwards => 65504.0f64.copysign(x),
        true => f64::INFINITY.copysign(x),
        false => value,
    }
}

/// What a narrow integer can't hold is undefined. C's programs on this processor get the last bits, and so do ours, in any code.
fn beyond_the_range() -> Outcome {
    let setup = setup()?;
    let source = "#pragma OPENCL EXTENSION cl_khr_fp64 : enable
        kernel void k(global const float *x, global uchar *a, global char *b, global ushort *c, global short *d) {
            size_t i = get_global_id(0);
            a[i] = convert_uchar(x[i]); b[i] = (char)x[i]; c[i] = (ushort)(double)x[i]; d[i] = convert_short(x[i] * 100); }";
    let kernel = Kernel::new(&built(&setup, source, "")?, "k")?;
    let x: Vec<f32> = (0..256).map(|i| (i as f32 - 100.0) * 7.25).collect();
    let input = Buffer::copy_of(&setup.context, &x)?;
    let (mut a, mut b, mut c, mut d) = ([0_u8; 256], [0_i8; 256], [0_u16; 256], [0_i16; 256]);
    let outputs = [
        Buffer::copy_of(&setup.context, &a)?,
        Buffer::copy_of(&setup.context, &b)?,
        Buffer::copy_of(&setup.context, &c)?,
        Buffer::copy_of(&setup.context, &d)?,
    ];
    kernel.set_object(0, Some(&input))?;
    (1..).zip(&outputs).try_for_each(|(index, output)| kernel.set_object(index, Some(output)))?;
    setup.queue.launch(&kernel, NdRange::new(&[256], &[64]))?;
    setup.queue.read(&outputs[0], &mut a)?;
    setup.queue.read(&outputs[1], &mut b)?;
    setup.queue.read(&outputs[2], &mut c)?;
    setup.queue.read(&outputs[3], &mut d)?;
    for (i, x) in x.into_iter().enumerate() {
        let whole = x as i32;
        let expected = (whole as u8, whole as i8, whole as u16, (x * 100.0) as i32 as i16);
        assert_eq!((a[i], b[i], c[i], d[i]), expected, "{x}");
    }
    Ok(())
}

/// Packs have code of their own.
fn in_packs() -> Outcome {
    for lanes in ["4", "16"] {
        let settings = [("SPIRULA_TIER", "optimized"), ("SPIRULA_VECTOR_WIDTH", lanes)];
        again_with("conversions::convert", &settings);
        again_with("conversions::beyond_the_range", &settings);
    }
    Ok(())
}

fn vload_half() -> Outcome {
    let setup = Setup::new();
    let source = "kernel void load(global const half *in, global float *out) {
            size_t i = get_global_id(0); out[i] = vload_half(i, in); }
        kernel void load4(global const half *in, global float *out) {
            size_t i = get_global_id(0); if (i % 4 == 0) vstore4(vload_half4(i / 4, in), i / 4, out); }
        kernel void loada3(global const half *in, global float *out) {
            size_t i = get_global_id(0); if (i % 4 == 0) vstore4((float4)(vloada_half3(i / 4, in), vload_half(i + 3, in)), i / 4, out); }";
    let program = program(&setup, source)?;
    let halves: Vec<u16> = (0..=u16::MAX).collect();
    for kernel in ["load", "load4", "loada3"] {
        let found: Vec<f32> = apply(&setup, &program, kernel, &halves, halves.len())?;
        for (bits, found) in halves.iter().zip(found) {
            let (expected, found) = (half_value(*bits), f64::from(found));
            let same = found.to_bits() == expected.to_bits() || found.is_nan() && expected.is_nan();
            assert!(same, "{kernel} of {bits:#x}: {found:e}, not {expected:e}");
        }
    }
    Ok(())
}

fn vstore_half() -> Outcome {
    let setup = Setup::new();
    // All halves, the middles between them, and what is next to those.
    let halves: Vec<f64> = (0..=u16::MAX).map(half_value).filter(|x| x.is_finite()).collect();
    let between = halves.iter().flat_map(|x| {
        let unit =
            nearest_half(x.abs().max(2.0f64.powi(-14)).next_up(), "_rtp") - x.abs().max(2.0f64.powi(-14));
        [
            *x,
            x + unit / 2.0,
            x.next_up(),
            x.next_down(),
            (x + unit / 2.0).next_up(),
            (x + unit / 2.0).next_down(),
        ]
    });
    let edges =
        [f64::INFINITY, f64::NEG_INFINITY, 65520.0, 65519.99, -65520.0, 1e300, -1e-300, f64::from(f32::MAX)];
    let wide: Vec<f64> = between.chain(edges).collect();
    let narrow: Vec<f32> = wide.iter().map(|x| *x as f32).collect();
    let kernel = |ty: &str, mode: &str| {
        format!(
            "kernel void from_{ty}{mode}(global const {ty} *in, global half *out) {{
                size_t i = get_global_id(0); vstore_half{mode}(in[i], i, out); }}\n"
        )
    };
    let source: String =
        MODES.iter().flat_map(|mode| ["float", "double"].map(|ty| kernel(ty, mode))).collect();
    let program = program(&setup, &source)?;
    for mode in MODES {
        let from_float: Vec<u16> =
            apply(&setup, &program, &format!("from_float{mode}"), &narrow, narrow.len())?;
        let from_double: Vec<u16> =
            apply(&setup, &program, &format!("from_double{mode}"), &wide, wide.len())?;
        let floats = narrow.iter().map(|x| f64::from(*x)).zip(from_float);
        for (x, found) in floats.chain(wide.iter().copied().zip(from_double)) {
            let (found, expected) = (half_value(found), nearest_half(x, mode));
            assert_eq!(
                found.to_bits(),
                expected.to_bits(),
                "vstore_half{mode}({x:e}): {found:e}, not {expected:e}"
            );
        }
    }
    Ok(())
}
