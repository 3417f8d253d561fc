//! Code for less than the processor has (`SPIRULA_CPU`): `fma` without an instruction for it, math functions without it, and masked accesses
//! that are taken apart; and exponentials and reciprocal roots, for which some processors have
//! instructions. Against the host; in both tiers and in packs. Kernels from source; skipped without a compiler.

use crate::setup::{again_with, tests};
use crate::sources::{built, setup};
use spirula_tests::cl::{Buffer, Kernel, NdRange};
use spirula_tests::isolate::Outcome;

tests![fused, masked, exponential, of_each_level];

/// Work-items, of which the last ones have nothing to do: some packs are full, one is not.
const ITEMS: usize = 256;
const USED: usize = 201;

/// Sums of products that a second rounding would change, and such as cancel.
fn fused() -> Outcome {
    let setup = setup()?;
    let source = "kernel void k(global const float *x, global float *f, global double *d, uint n) {
        uint i = get_global_id(0); if (i >= n) return;
        float4 a = vload4(0, x + 4 * i), b = a.wzyx; f[4 * i] = 0;
        vstore4(fma(a, b, -(a * b)), 0, f + 4 * i);
        double2 c = convert_double2(a.xy) / 3, e = convert_double2(a.zw) / 7; vstore2(fma(c, e, -(c * e)), 0, d + 2 * i); }";
    let kernel = Kernel::new(&built(&setup, source, "")?, "k")?;
    let given: Vec<f32> =
        (0..4 * ITEMS as u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 8) as f32 / 977.0).collect();
    let input = Buffer::copy_of(&setup.context, &given)?;
    let (mut floats, mut doubles) = (vec![5_f32; 4 * ITEMS], vec![5_f64; 2 * ITEMS]);
    let (f, d) = (Buffer::copy_of(&setup.context, &floats)?, Buffer::copy_of(&setup.context, &doubles)?);
    [&input, &f, &d]
        .into_iter()
        .zip(0..)
        .try_for_each(|(buffer, index)| kernel.set_object(index, Some(buffer)))?;
    kernel.set(3, USED as u32)?;
    setup.queue.launch(&kernel, NdRange::new(&[ITEMS], &[64]))?;
    setup.queue.read(&f, &mut floats)?;
    setup.queue.read(&d, &mut doubles)?;
    for (i, x) in given.chunks(4).enumerate() {
        let of_floats = |c: usize| x[c].mul_add(x[3 - c], -(x[c] * x[3 - c]));
        let of_doubles = |c: usize| {
            let (a, b) = (f64::from(x[c]) / 3.0, f64::from(x[2 + c]) / 7.0);
            a.mul_add(b, -(a * b))
        };
        for c in 0..4 {
            let wanted = if i < USED { of_floats(c) } else { 5.0 };
            assert_eq!(floats[4 * i + c], wanted, "float {c} of {i}");
        }
        for c in 0..2 {
            let wanted = if i < USED { of_doubles(c) } else { 5.0 };
            assert_eq!(doubles[2 * i + c], wanted, "double {c} of {i}");
        }
    }
    Ok(())
}

/// Loads and stores of bytes and of floats under masks that are full, and that are not.
fn masked() -> Outcome {
    let setup = setup()?;
    let source = "kernel void k(global uchar *b, global float *f, uint n) {
        uint i = get_global_id(0);
        if (i < n) { b[i] = b[i] * 3 + 1; f[i] = f[i] + 2; }
        if (i < n && (b[i] & 4)) { b[i] += 1; f[i] = f[i] * 3; } }";
    let kernel = Kernel::new(&built(&setup, source, "")?, "k")?;
    let bytes: Vec<u8> = (0..ITEMS).map(|i| (i * 37) as u8).collect();
    let floats: Vec<f32> = (0..ITEMS).map(|i| i as f32).collect();
    let (b, f) = (Buffer::copy_of(&setup.context, &bytes)?, Buffer::copy_of(&setup.context, &floats)?);
    kernel.set_object(0, Some(&b))?;
    kernel.set_object(1, Some(&f))?;
    kernel.set(2, USED as u32)?;
    setup.queue.launch(&kernel, NdRange::new(&[ITEMS], &[64]))?;
    let (mut found_bytes, mut found_floats) = (vec![0_u8; ITEMS], vec![0_f32; ITEMS]);
    setup.queue.read(&b, &mut found_bytes)?;
    setup.queue.read(&f, &mut found_floats)?;
    for i in 0..ITEMS {
        let wanted = match bytes[i].wrapping_mul(3).wrapping_add(1) {
            _ if i >= USED => (bytes[i], floats[i]),
            byte if byte & 4 != 0 => (byte + 1, (floats[i] + 2.0) * 3.0),
            byte => (byte, floats[i] + 2.0),
        };
        assert_eq!((found_bytes[i], found_floats[i]), wanted, "{i}");
    }
    Ok(())
}

/// Exponentials of what is moderate, nearly too large or small, far beyond, and no number; and reciprocal roots, which some processors
/// approximate.
fn exponential() -> Outcome {
    let setup = setup()?;
    let source = "kernel void k(global const double *x, global float *f, global double *d) {
        uint i = get_global_id(0); float y = x[i]; f += 4 * i; d += 4 * i;
        f[0] = exp(y); f[1] = exp2(y); f[2] = exp10(y); f[3] = rsqrt(fabs(y));
        d[0] = exp(x[i]); d[1] = exp2(x[i]); d[2] = exp10(x[i]); d[3] = rsqrt(fabs(x[i])); }";
    let kernel = Kernel::new(&built(&setup, source, "")?, "k")?;
    let special =
        [0.0, -0.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN, 1e30, -1e30, 33_554_435.0, f64::MAX];
    // Floats, so that both types are given the same.
    let spread = (0..1200).map(|i| f64::from((f64::from(i) * 1.871 - 1120.0) as f32));
    let fine = (0..1343).map(|i| f64::from((f64::from(i) * 0.157 - 105.0) as f32));
    let given: Vec<f64> = special.into_iter().chain(spread).chain(fine).collect();
    assert_eq!(given.len() % 8, 0);
    let input = Buffer::copy_of(&setup.context, &given)?;
    let (mut floats, mut doubles) = (vec![0_f32; 4 * given.len()], vec![0_f64; 4 * given.len()]);
    let (f, d) = (Buffer::copy_of(&setup.context, &floats)?, Buffer::copy_of(&setup.context, &doubles)?);
    [&input, &f, &d]
        .into_iter()
        .zip(0..)
        .try_for_each(|(buffer, index)| kernel.set_object(index, Some(buffer)))?;
    setup.queue.launch(&kernel, NdRange::new(&[given.len()], &[8]))?;
    setup.queue.read(&f, &mut floats)?;
    setup.queue.read(&d, &mut doubles)?;
    for (i, &x) in given.iter().enumerate() {
        let of_float = f64::from(x as f32);
        let truths = [x.exp(), x.exp2(), 10_f64.powf(x), 1.0 / x.abs().sqrt()];
        let of_floats = [of_float.exp(), of_float.exp2(), 10_f64.powf(of_float), 1.0 / of_float.abs().sqrt()];
        for (c, (truth, of_float)) in std::iter::zip(truths, of_floats).enumerate() {
            let (float, double) = (floats[4 * i + c], doubles[4 * i + c]);
            // All of them are positive: neighbours are neighbours as integers.
            let apart = i64::from(float.to_bits()) - i64::from((of_float as f32).to_bits());
            assert!(
                apart.abs() <= 3 || (float.is_nan() && of_float.is_nan()),
                "float {c} of {x:e}: {float:e}"
            );
            let apart = double.to_bits().abs_diff(truth.to_bits());
            assert!(apart <= 3 || (double.is_nan() && truth.is_nan()), "double {c} of {x:e}: {double:e}");
        }
    }
    Ok(())
}

fn of_each_level() -> Outcome {
    for (tier, lanes) in [("baseline", "1"), ("optimized", "1"), ("optimized", "4"), ("optimized", "16")] {
        let settings = [("SPIRULA_TIER", tier), ("SPIRULA_VECTOR_WIDTH", lanes)];
        again_with("levels::exponential", &settings);
    }
    for level in ["x86-64-v3", "x86-64-v2"] {
        for (tier, lanes) in [("baseline", "1"), ("optimized", "4"), ("optimized", "16")] {
            let settings = [("SPIRULA_CPU", level), ("SPIRULA_TIER", tier), ("SPIRULA_VECTOR_WIDTH", lanes)];
            for test in ["levels::fused", "levels::masked", "levels::exponential", "math_options::strict"] {
                again_with(test, &settings);
            }
        }
    }
    Ok(())
}
