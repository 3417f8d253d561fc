//! OpenCL C 2.0's generic address space: which memory a pointer leads to, wherever it has been in between.

use crate::setup::{again, tests};
use crate::sources::{built, run, setup};
use spirula_tests::isolate::Outcome;

tests![private_pointers_in_memory, every_way_of_a_pointer, spaces_are_told_apart];

/// What the kernel `k` of this source writes for 16 work-items, alone and in packs.
fn check(test: &str, source: &str, expected: impl Fn(i32) -> i32) -> Outcome {
    let setup = setup()?;
    for options in ["-cl-std=CL2.0", "-cl-std=CL2.0 -cl-opt-disable"] {
        let program = built(&setup, source, options)?;
        let wanted: Vec<i32> = (0..16).map(&expected).collect();
        assert_eq!(run(&setup, &program, 16)?, wanted, "{options}");
    }
    if std::env::var_os("SPIRULA_VECTOR_WIDTH").is_none() {
        ["1", "4", "16"].into_iter().for_each(|width| again(test, "SPIRULA_VECTOR_WIDTH", width));
    }
    Ok(())
}

/// Work-items keep the addresses of their own variables in memory of every kind, over barriers.
fn private_pointers_in_memory() -> Outcome {
    let source = "int *global kept[16];\n\
                  void keep(int **place, int *pointer) __attribute__((noinline)) { *place = pointer; }\n\
                  kernel void k(global int *out) {\n\
                  int i = get_local_id(0); int *own[4];\n\
                  int a = i, b = 10 * i, c = 100 * i, d = 1000 * i;\n\
                  own[i & 3] = &a; own[i + 1 & 3] = &b; own[i + 2 & 3] = &c; kept[i] = &d;\n\
                  barrier(CLK_LOCAL_MEM_FENCE);\n\
                  *own[i & 3] += 1; *kept[i] += *own[i + 1 & 3]; barrier(CLK_LOCAL_MEM_FENCE);\n\
                  *kept[i] += *own[i & 3] + *own[i + 2 & 3];\n\
                  keep((int **)&own[3], kept[i]); int e = 5; keep((int **)&kept[i], &e); barrier(CLK_LOCAL_MEM_FENCE);\n\
                  out[i] = *own[3] + *kept[i]; }";
    check("generic::private_pointers_in_memory", source, |i| 1111 * i + 6)
}

/// Through selections, loops, calls, structures, integers and memory.
fn every_way_of_a_pointer() -> Outcome {
    let source = "typedef struct { int *to; int n; } pair;\n\
                  int *pick(int which, global int *g, local int *l, int *p) {\n\
                  switch (which) { case 0: return (int *)g; case 1: return (int *)l; default: return p; } }\n\
                  int total(pair v) { int s = 0; for (int *at = v.to; at != v.to + v.n; ++at) s += *at; return s; }\n\
                  kernel void k(global int *out) {\n\
                  local int l[32]; int i = get_local_id(0); int p[2] = {3, 4};\n\
                  out[i] = 1; l[2 * i] = 5; l[2 * i + 1] = 6; barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);\n\
                  pair v = {pick(i % 3, out + i, l + 2 * i, p), i % 3 ? 2 : 1};\n\
                  ulong number = (ulong)v.to; pair again = {(int *)number, v.n};\n\
                  int s = total(v) * 100 + total(again);\n\
                  int *last = i & 1 ? (int *)(l + 2 * i) : p; for (int n = 0; n < 3; ++n) { *last += n; last += n == 0; }\n\
                  barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE);\n\
                  out[i] = s + 100000 * (i & 1 ? l[2 * i + 1] : p[1]); }";
    check("generic::every_way_of_a_pointer", source, |i| {
        let sum = [1, 11, 7][i as usize % 3];
        101 * sum + 100_000 * if i & 1 == 1 { 9 } else { 7 }
    })
}

fn spaces_are_told_apart() -> Outcome {
    let source = "global int variable; typedef struct { int n[4]; } block;\n\
                  int kind(const void *p) {\n\
                  return (to_global(p) ? 1 : 0) + (to_local(p) ? 2 : 0) + (to_private(p) ? 4 : 0)\n\
                  + (get_fence(p) == CLK_LOCAL_MEM_FENCE ? 8 : 0); }\n\
                  kernel void k(global int *out) {\n\
                  local int l[4]; static global int fixed; int i = get_local_id(0); int p[4]; block large;\n\
                  void *all[8] = {out + i, l + i % 4, p + i % 4, &variable, &fixed, 0, large.n + 3, &i};\n\
                  barrier(CLK_LOCAL_MEM_FENCE); void *chosen = all[i & 7]; large.n[3] = i; p[0] = i;\n\
                  barrier(CLK_LOCAL_MEM_FENCE); out[i] = kind(chosen) * 10 + (to_private(chosen) == chosen)\n\
                  + (l[i % 4] = large.n[3] + p[0]) * 0; }";
    check("generic::spaces_are_told_apart", source, |i| match i & 7 {
        0 | 3 | 4 => 10,
        1 => 100,
        // Null is in no space, and equals itself.
        5 => 1,
        _ => 41,
    })
}
