//! What the machine can do, measured without Spirula.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;
use std::hint::black_box;
use std::time::{Duration, Instant};

/// Work that each thread does again and again: `run` for a part that is a thread's own.
fn rate<T: Send>(wanted: Duration, parts: &mut [T], run: impl Fn(&mut T) + Sync) -> f64 {
    let run = &run;
    let all = |parts: &mut [T]| {
        std::thread::scope(|scope| {
            for part in parts {
                scope.spawn(move || run(part));
            }
        });
    };
    all(parts);
    let (begun, mut best) = (Instant::now(), 0.0_f64);
    while begun.elapsed() < wanted {
        let one = Instant::now();
        all(parts);
        best = best.max(1.0 / one.elapsed().as_secs_f64());
    }
    best
}

/// Chains of multiplications with additions that don't wait for each other.
const CHAINS: usize = 12;
/// How often they go on, for each time a thread starts.
const ROUNDS: u32 = 2_000_000;

/// Multiply-adds of floats, two operations each, in a second.
pub fn flops(wanted: Duration, threads: usize) -> f64 {
    let mut parts = vec![(); threads];
    rate(wanted, &mut parts, |()| multiply_add())
        * threads as f64
        * f64::from(ROUNDS)
        * (CHAINS * 2 * lanes()) as f64
}

/// Floats of a register.
fn lanes() -> usize {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            return 16;
        }
        if is_x86_feature_detected!("fma") && is_x86_feature_detected!("avx") {
            return 8;
        }
    }
    1
}

fn multiply_add() {
    #[cfg(target_arch = "x86_64")]
    match lanes() {
        // SAFETY: the processor has been asked for it.
        16 => return unsafe { multiply_add_512() },
        // SAFETY: the same.
        8 => return unsafe { multiply_add_256() },
        _ => {}
    }
    let mut values = [1.0_f32; CHAINS];
    for _ in 0..ROUNDS {
        values.iter_mut().for_each(|value| *value = *value * 0.5 + 1.0);
    }
    black_box(values);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
fn multiply_add_512() {
    let (factor, summand) = (_mm512_set1_ps(black_box(0.5)), _mm512_set1_ps(black_box(1.0)));
    let mut values = [_mm512_set1_ps(black_box(1.0)); CHAINS];
    for _ in 0..ROUNDS {
        for value in &mut values {
            *value = _mm512_fmadd_ps(*value, factor, summand);
        }
    }
    black_box(values);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx,fma")]
fn multiply_add_256() {
    let (factor, summand) = (_mm256_set1_ps(black_box(0.5)), _mm256_set1_ps(black_box(1.0)));
    let mut values = [_mm256_set1_ps(black_box(1.0)); CHAINS];
    for _ in 0..ROUNDS {
        for value in &mut values {
            *value = _mm256_fmadd_ps(*value, factor, summand);
        }
    }
    black_box(values);
}

/// What one store writes.
#[repr(align(16))]
#[derive(Clone, Copy)]
struct Four([f32; 4]);

/// Bytes that are read and written in a second, where one array becomes the sum of two others, one of them multiplied.
pub fn bandwidth(wanted: Duration, threads: usize, elements: usize) -> f64 {
    struct Part {
        arrays: [Vec<Four>; 3],
    }
    let each = (elements / 4 / threads).max(1);
    let array = |value: f32| vec![Four([value; 4]); each];
    let mut parts: Vec<Part> =
        (0..threads).map(|_| Part { arrays: [array(1.0), array(2.0), array(0.5)] }).collect();
    let rate = rate(wanted, &mut parts, |Part { arrays: [a, b, c] }| triad(a, b, c));
    black_box(&parts.iter().map(|part| part.arrays[2][0].0[0]).sum::<f32>());
    rate * (threads * each * 4 * 12) as f64
}

fn triad(a: &[Four], b: &[Four], c: &mut [Four]) {
    for ((a, b), c) in a.iter().zip(b).zip(c) {
        let sum = Four(std::array::from_fn(|lane| a.0[lane] + 3.0 * b.0[lane]));
        #[cfg(target_arch = "x86_64")]
        // SAFETY: both are 16 bytes, aligned to as many; every x86-64 has the instructions.
        unsafe {
            _mm_stream_ps(c.0.as_mut_ptr(), _mm_load_ps(sum.0.as_ptr()));
        }
        #[cfg(not(target_arch = "x86_64"))]
        {
            *c = sum;
        }
    }
    #[cfg(target_arch = "x86_64")]
    // SAFETY: every x86-64 has the instruction.
    unsafe {
        _mm_sfence();
    }
}
