//! Variables in program scope: one of each for a program, whichever kernel, code or queue uses it, for as long as it lives.

use crate::setup::{Setup, again, status, tests};
use crate::sources::{built, setup};
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{self, Buffer, Kernel, NdRange, Object, Program, Queue};
use spirula_tests::isolate::Outcome;
use std::ptr::null_mut;

tests![shared_by_kernels_and_variants, initial_values, each_program_has_its_own, sizes_are_told];

const OPTIONS: &str = "-cl-std=CL2.0";

/// Runs a kernel whose arguments are an array of ints and, perhaps, a number.
fn launch(
    setup: &Setup,
    kernel: &Kernel,
    buffer: &Buffer,
    range: NdRange,
    number: Option<i32>,
) -> cl::Result<()> {
    kernel.set_object(0, Some(buffer))?;
    number.map_or(Ok(()), |number| kernel.set(1, number))?;
    setup.queue.launch(kernel, range)?;
    setup.queue.finish()
}

fn read(setup: &Setup, program: &Program, name: &str, count: usize) -> cl::Result<Vec<i32>> {
    let mut output = vec![-1; count];
    let buffer = Buffer::copy_of(&setup.context, &output)?;
    launch(setup, &Kernel::new(program, name)?, &buffer, NdRange::new(&[1], &[1]), None)?;
    setup.queue.read(&buffer, &mut output)?;
    Ok(output)
}

/// Two kernels count in one variable, launch after launch, until the log tells that code of its own has been made for the odd
/// local size, and then some times more.
fn shared_by_kernels_and_variants() -> Outcome {
    let setup = setup()?;
    let Some(log) =
        std::env::var("SPIRULA_LOG").ok().and_then(|log| Some(log.strip_prefix("debug:")?.to_owned()))
    else {
        let folder = tempfile::tempdir()?;
        let log = format!("debug:{}", folder.path().join("log").display());
        again("variables::shared_by_kernels_and_variants", "SPIRULA_LOG", &log);
        return Ok(());
    };
    // The baseline has no code for local sizes.
    let is_baseline = std::env::var("SPIRULA_TIER").is_ok_and(|tier| tier == "baseline");
    let is_made = || {
        let text = std::fs::read_to_string(&log).unwrap_or_default();
        is_baseline || text.contains("kernel many: optimized code for work-groups of [7, 1, 1]")
    };
    let source = "global atomic_int hits = ATOMIC_VAR_INIT(1000); global int plain; global int *global last = &plain;\n\
                  kernel void many(global int *out, int rounds) {\n\
                  local int l[7]; int i = get_local_id(0); float x = i;\n\
                  for (int n = 0; n < rounds; ++n) x = sin(x) + 0.5f;\n\
                  l[i] = x > 100.0f; barrier(CLK_LOCAL_MEM_FENCE);\n\
                  atomic_fetch_add_explicit(&hits, 1 + l[6 - i], memory_order_relaxed); if (get_global_id(0) == 0) ++*last; }\n\
                  kernel void one(global int *out, int amount) { atomic_fetch_add(&hits, amount); last = &plain; }\n\
                  kernel void report(global int *out) { out[0] = atomic_load(&hits); out[1] = plain; out[2] = *last; }";
    let program = built(&setup, source, OPTIONS)?;
    let (many, one) = (Kernel::new(&program, "many")?, Kernel::new(&program, "one")?);
    let buffer = Buffer::copy_of(&setup.context, &[0_i32; 4])?;
    let items = 7 * 64;
    let (mut launches, mut left) = (0, 20);
    while left > 0 && launches < 5000 {
        launch(&setup, &many, &buffer, NdRange::new(&[items], &[7]), Some(3000))?;
        launch(&setup, &one, &buffer, NdRange::new(&[1], &[1]), Some(2))?;
        launches += 1;
        if left < 20 || is_made() {
            left -= 1;
        }
    }
    assert_eq!(left, 0, "no code was made for the local size");
    let items = items as i32;
    assert_eq!(read(&setup, &program, "report", 3)?, [1000 + launches * (items + 2), launches, launches]);
    // Another queue's kernels see them too.
    let other = Queue::new(&setup.context, setup.device)?;
    one.set(1, 5_i32)?;
    other.launch(&one, NdRange::new(&[1], &[1]))?;
    other.finish()?;
    assert_eq!(read(&setup, &program, "report", 1)?, [1005 + launches * (items + 2)]);
    Ok(())
}

fn initial_values() -> Outcome {
    let setup = setup()?;
    let source = "typedef struct { char c; int n[2]; global int *to; } record;\n\
                  global int table[5] = {1, 2, 3}; global record r = {'x', {7, 8}, &table[2]};\n\
                  global record *global both[2] = {&r, 0}; global float4 v = (float4)(1, 2, 3, 4); constant int c[2] = {30, 31};\n\
                  global constant int *global into = c + 1; global long zero; global int *back = &table[4];\n\
                  int next() { static global int calls = 40; return calls++; }\n\
                  kernel void k(global int *out) {\n\
                  out[0] = both[0]->to[0] + table[3]; out[1] = both[0]->n[1] + r.c; out[2] = both[1] == 0; out[3] = (int)v.w;\n\
                  out[4] = *into; out[5] = (int)zero; *back = next(); out[6] = table[4]; next(); out[7] = next(); }";
    let source = source.replace("global constant int *global into", "constant int *global into");
    let program = built(&setup, &source, OPTIONS)?;
    assert_eq!(read(&setup, &program, "k", 8)?, [3, 128, 1, 4, 31, 0, 40, 42]);
    assert_eq!(read(&setup, &program, "k", 8)?[6..], [43, 45]);
    // A build begins anew.
    program.build(OPTIONS)?;
    assert_eq!(read(&setup, &program, "k", 8)?[6..], [40, 42]);
    Ok(())
}

fn each_program_has_its_own() -> Outcome {
    let setup = setup()?;
    let source = "global int n = 3; kernel void k(global int *out) { out[0] = n++; }";
    let programs = [built(&setup, source, OPTIONS)?, built(&setup, source, OPTIONS)?];
    for expected in 3..6 {
        for program in &programs {
            assert_eq!(read(&setup, program, "k", 1)?, [expected]);
        }
    }
    // Two objects of one program, linked: one variable.
    let parts = [
        "global int shared = 5; kernel void k(global int *out) { out[0] = shared++; }",
        "extern global int shared; kernel void other(global int *out) { out[0] = shared *= 2; }",
    ];
    let parts = parts.map(|source| Program::from_source(&setup.context, source).expect("a program"));
    parts.iter().try_for_each(|part| part.compile(OPTIONS))?;
    let linked = Program::link(&setup.context, "", &[&parts[0], &parts[1]])?;
    assert_eq!((read(&setup, &linked, "k", 1)?, read(&setup, &linked, "other", 1)?), (vec![5], vec![12]));
    assert_eq!(read(&setup, &linked, "k", 1)?, [12]);
    Ok(())
}

fn sizes_are_told() -> Outcome {
    let setup = setup()?;
    let total = |program: &Program| -> usize {
        let mut size = usize::MAX;
        let name = CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE;
        let place = (&raw mut size).cast();
        let code = spirula_tests::call!(clGetProgramBuildInfo(
            program.raw(),
            setup.device.raw(),
            name,
            size_of::<usize>(),
            place,
            null_mut()
        ));
        assert_eq!(status(code), "CL_SUCCESS");
        size
    };
    let kernel = "kernel void k(global int *out) { out[0] = USED; }";
    let with = |variables: &str, used: &str| {
        built(&setup, &format!("{variables}\n{}", kernel.replace("USED", used)), OPTIONS)
    };
    assert_eq!(total(&with("", "1")?), 0);
    assert_eq!(total(&with("constant int c[3] = {1, 2, 3};", "c[out[1]]")?), 0);
    assert_eq!(total(&with("global int a[25];", "a[out[1]]++")?), 100);
    let most: usize = setup.device.info(CL_DEVICE_MAX_GLOBAL_VARIABLE_SIZE)?;
    let preferred: usize = setup.device.info(CL_DEVICE_GLOBAL_VARIABLE_PREFERRED_TOTAL_SIZE)?;
    assert!(most >= 65536 && preferred >= most, "{most} {preferred}");
    let largest = with(&format!("global char a[{most}];"), &format!("(a[{most} - 1] = 9) + a[{most} / 2]"))?;
    assert_eq!((total(&largest), read(&setup, &largest, "k", 1)?), (most, vec![9]));
    assert_eq!(
        status(with(&format!("global char a[{most} + 1];"), "a[out[1]]++")),
        "CL_BUILD_PROGRAM_FAILURE"
    );
    Ok(())
}
