//! Random OpenCL C kernels whose result is certain, and launches for them: what the vectorizer does must not show.
//!
//! A kernel is its seed. It has no race, no undefined behaviour and no float whose bits the specification leaves open, so that
//! every correct compilation gives the same bytes: [`kernel`] writes it, [`Launch`] chooses the sizes and runs it.

mod expression;
mod kernel;
mod launch;
mod statement;
mod types;

pub use kernel::{Omitted, kernel};
pub use launch::{Launch, run};

/// What every program of kernels starts with: `fbits` and `dbits` hide which NaN and which zero it is, the calls are for the
/// compiler to keep, and a record is one way to see a work-item's 16 bytes.
pub fn prelude() -> String {
    format!("{PRELUDE}{}", expression::divisions())
}

const PRELUDE: &str = r"
#pragma OPENCL EXTENSION cl_khr_fp64 : enable
#pragma OPENCL FP_CONTRACT OFF
struct record { uchar a; ushort b; uint c; ulong d; };
uint fbits(float x) { return isnan(x) ? 0x7fc00000u : x == 0.0f ? 0u : as_uint(x); }
ulong dbits(double x) { return isnan(x) ? 0x7ff8000000000000ul : x == 0.0 ? 0ul : as_ulong(x); }
float tame(float x) { return fabs(x) < 1e6f ? x : 1.5f; }
double dtame(double x) { return fabs(x) < 1e9 ? x : 2.5; }
uint mix_in(uint h, uint x) { h = (h ^ x) * 0x85ebca6bu; return h ^ (h >> 13); }
__attribute__((noinline)) uint helper(uint a, uint b) {
  for (uint i = 0; i < (b & 7u); i++) a = a * 3u + (a >> (i + 3u));
  return a ^ b;
}
__attribute__((noinline)) void poke(global uint *p, uint i, uint v) { if (v & 3u) p[i] = v + p[i]; else p[i] ^= v; }
__attribute__((noinline)) void poke_private(uint *p, uint i, uint v) { p[i] = v * 5u + p[i]; }
";
