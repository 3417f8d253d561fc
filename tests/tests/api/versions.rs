//! Programs of several versions of SPIR and OpenCL C, and hints that may be taken or not.

use crate::setup::{Setup, program_of_2_0, tests};
use crate::sources::setup;
use spirula_tests::cl::{self, Buffer, Kernel, NdRange, Program};
use spirula_tests::isolate::Outcome;

tests![modules_of_both_versions, sources_of_all_versions, no_shared_memory, unrolled_loops];

/// Runs a kernel over an array of ints.
fn run(setup: &Setup, program: &Program, name: &str, data: &[i32], local: usize) -> cl::Result<Vec<i32>> {
    let kernel = Kernel::new(program, name)?;
    let buffer = Buffer::copy_of(&setup.context, data)?;
    kernel.set_object(0, Some(&buffer))?;
    if name == "user" {
        kernel.set_local(1, 4 * local)?;
    }
    setup.queue.launch(&kernel, NdRange::new(&[data.len()], &[local]))?;
    let mut result = data.to_vec();
    setup.queue.read(&buffer, &mut result)?;
    Ok(result)
}

/// SPIR binaries of 1.2 and 2.0 in one program: each keeps what its version means.
fn modules_of_both_versions() -> Outcome {
    let setup = Setup::new();
    let parts = [("spir20/link20_main", "2.0"), ("spir12/link_lib", "1.2"), ("spir20/link20_lib", "2.0")];
    let mut compiled = Vec::new();
    for (name, version) in parts {
        let part = setup.load(&format!("{name}.bc64"))?;
        part.compile(&format!("-x spir -spir-std={version}"))?;
        compiled.push(part);
    }
    let [main, old, library] = &compiled[..] else { return Err("three parts".into()) };
    for order in [[main, old, library], [old, library, main]] {
        let program = Program::link(&setup.context, "", &order)?;
        assert_eq!(run(&setup, &program, "lib_kernel", &[0; 6], 6)?, [0, 6, 10, 18, 20, 30]);
        let data = [15, 11, 17, 78, 14, 37, 84, 11, 6, 43, 1, 88];
        let expected = {
            let alone = Program::link(&setup.context, "", &[main, library])?;
            run(&setup, &alone, "user", &data, 4)?
        };
        assert_ne!(expected, data);
        assert_eq!(run(&setup, &program, "user", &data, 4)?, expected);
        assert_eq!(run(&setup, &program, "count", &[0], 1)?, [41]);
    }
    // What only the other version's half needs is named.
    let error = Program::link(&setup.context, "", &[main, old]).map(|_| ()).expect_err("a half is missing");
    assert_eq!(cl::code_name(error.code), "CL_LINK_PROGRAM_FAILURE");
    Ok(())
}

/// Sources of every version, each calling the others' functions: the old ones take pointers to one address space, the new ones
/// generic ones.
fn sources_of_all_versions() -> Outcome {
    let setup = setup()?;
    let parts = [
        ("CL1.0", "int one(global int *p) { return *p + (1 << 33); }"),
        ("CL1.1", "int one(global int *p); int two(global int *p, int n) { return one(p) * 10 + n; }"),
        (
            "CL1.2",
            "int three(local int *t, int v) { size_t i = get_local_id(0); t[i] = v; barrier(CLK_LOCAL_MEM_FENCE);
             return t[get_local_size(0) - 1 - i]; }",
        ),
        (
            "CL2.0",
            "int three(local int *t, int v); int sum(int *p, int n) { int s = 0; while (n--) s += p[n]; return s; }
             int four(local int *t, int v) { int own[2] = {v, 1}; return sum(own, 2) + work_group_reduce_add(three(t, v)); }",
        ),
        (
            "CL3.0",
            "int two(global int *p, int n); int four(local int *t, int v); int sum(int *p, int n);
             kernel void user(global int *out, local int *t) {
                 size_t i = get_global_id(0); int v = two(out + i, 3);
                 int other = four(t, v);
                 out[i] = other + sum(out + i, 1) * 1000000;
             }",
        ),
        (
            "CL1.2",
            "int two(global int *p, int n); kernel void lib_kernel(global int *out) { out[0] = two(out, 4); }",
        ),
    ];
    let mut compiled = Vec::new();
    for (version, source) in parts {
        let part = Program::from_source(&setup.context, source)?;
        part.compile(&format!("-cl-std={version}"))?;
        compiled.push(part);
    }
    let parts: Vec<&Program> = compiled.iter().collect();
    let program = Program::link(&setup.context, "", &parts)?;
    let data = [5, 6, 7, 8];
    let two = |value: i32| (value + 2) * 10 + 3;
    let all: i32 = data.iter().map(|&value| two(value)).sum();
    assert_eq!(
        run(&setup, &program, "user", &data, 4)?,
        data.map(|value| two(value) + 1 + all + value * 1_000_000)
    );
    assert_eq!(run(&setup, &program, "lib_kernel", &[9], 1)?, [114]);
    Ok(())
}

/// `nosvm` promises that a pointer is none to shared memory, which is nothing to go by here.
fn no_shared_memory() -> Outcome {
    let setup = Setup::new();
    let source =
        "kernel void k(__attribute__((nosvm)) global int *p, global int *q) { p[get_global_id(0)] += 3; }";
    let program = program_of_2_0(&setup, source, "-cl-kernel-arg-info")?;
    let kernel = Kernel::new(&program, "k")?;
    let buffer = Buffer::copy_of(&setup.context, &[1, 2])?;
    kernel.set_object(0, Some(&buffer))?;
    kernel.set_object(1, Some(&buffer))?;
    setup.queue.launch(&kernel, NdRange::new(&[2], &[1]))?;
    let mut got = [0; 2];
    setup.queue.read(&buffer, &mut got)?;
    assert_eq!(got, [4, 5]);
    Ok(())
}

/// `opencl_unroll_hint` is a hint: every form builds, and the loops do the same.
fn unrolled_loops() -> Outcome {
    let setup = Setup::new();
    for hint in ["opencl_unroll_hint", "opencl_unroll_hint(1)", "opencl_unroll_hint(8)"] {
        let source = format!(
            "kernel void k(global int *a) {{
                int sum = 0, n = a[0];
                __attribute__(({hint})) for (int i = 0; i < n; ++i) sum = sum * 3 + i;
                __attribute__(({hint})) while (n > 100) {{ n -= 7; sum += n; }}
                __attribute__(({hint})) do sum ^= n; while (n-- > 90);
                a[0] = sum;
            }}"
        );
        let program = program_of_2_0(&setup, &source, "")?;
        let (mut sum, mut n) = ((0..203_i32).fold(0_i32, |sum, i| sum.wrapping_mul(3).wrapping_add(i)), 203);
        while n > 100 {
            n -= 7;
            sum = sum.wrapping_add(n);
        }
        while {
            sum ^= n;
            n -= 1;
            n + 1 > 90
        } {}
        assert_eq!(run(&setup, &program, "k", &[203], 1)?, [sum], "{hint}");
    }
    Ok(())
}
