//! Kernels: what they say of themselves and their arguments, setting arguments, launch checks.

use crate::faults::machine_of;
use crate::setup::{Setup, again_with, status, tests};
use spirula_tests::call;
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{Buffer, Device, Event, Kernel, NdRange, Object, Sampler};
use spirula_tests::isolate::Outcome;
use std::ptr::{null, null_mut};

tests![
    info,
    arg_info,
    arg_info_needs_metadata,
    work_group_info,
    local_arguments_count,
    set_arg_errors,
    unset_arguments,
    arguments_are_taken_at_launch,
    launch_errors,
    empty_ranges,
    required_size,
    global_without_local,
    private_size,
    stacks_of_functions_that_stay_calls,
    functions_that_stay_calls_compute_the_same,
    functions_that_stay_calls_in_each_tier,
    sizes_that_get_code_of_their_own,
    groups_that_nobody_sees,
];

fn info() -> Outcome {
    let setup = Setup::new();
    let program = setup.program("spir12/vadd.bc64");
    let kernel = Kernel::new(&program, "saxpy4")?;
    assert_eq!(kernel.info_string(CL_KERNEL_FUNCTION_NAME)?, "saxpy4");
    assert_eq!(kernel.info::<u32>(CL_KERNEL_NUM_ARGS)?, 4);
    assert_eq!(kernel.info::<u32>(CL_KERNEL_REFERENCE_COUNT)?, 1);
    assert_eq!(kernel.info::<usize>(CL_KERNEL_CONTEXT)?, setup.context.raw() as usize);
    assert_eq!(kernel.info::<usize>(CL_KERNEL_PROGRAM)?, program.raw() as usize);
    let tiled = setup.kernel("bench/matmul_tiled.bc64", "matmul_tiled");
    let attributes = tiled.info_string(CL_KERNEL_ATTRIBUTES)?;
    // The specification leaves it empty for what does not come from clCreateProgramWithSource.
    assert!(
        attributes.is_empty() || attributes.replace(' ', "").contains("reqd_work_group_size(16,16,1)"),
        "{attributes:?}"
    );
    Ok(())
}

fn arg_info() -> Outcome {
    let setup = Setup::new();
    let kernel = setup.kernel("spir12/options.bc64", "relaxed");
    let expected = [
        (
            "speed",
            "float*",
            CL_KERNEL_ARG_ADDRESS_GLOBAL,
            CL_KERNEL_ARG_TYPE_CONST | CL_KERNEL_ARG_TYPE_RESTRICT,
        ),
        ("energy", "float*", CL_KERNEL_ARG_ADDRESS_GLOBAL, CL_KERNEL_ARG_TYPE_VOLATILE),
        ("mass", "float*", CL_KERNEL_ARG_ADDRESS_CONSTANT, CL_KERNEL_ARG_TYPE_CONST),
        ("count", "uint", CL_KERNEL_ARG_ADDRESS_PRIVATE, CL_KERNEL_ARG_TYPE_CONST),
        ("room", "float4*", CL_KERNEL_ARG_ADDRESS_LOCAL, CL_KERNEL_ARG_TYPE_NONE),
    ];
    for (index, (name, type_name, space, qualifiers)) in (0..).zip(expected) {
        assert_eq!(kernel.arg_info_string(index, CL_KERNEL_ARG_NAME)?, name);
        assert_eq!(kernel.arg_info_string(index, CL_KERNEL_ARG_TYPE_NAME)?, type_name);
        assert_eq!(kernel.arg_info::<u32>(index, CL_KERNEL_ARG_ADDRESS_QUALIFIER)?, space, "{name}");
        assert_eq!(kernel.arg_info::<u64>(index, CL_KERNEL_ARG_TYPE_QUALIFIER)?, qualifiers, "{name}");
        assert_eq!(kernel.arg_info::<u32>(index, CL_KERNEL_ARG_ACCESS_QUALIFIER)?, CL_KERNEL_ARG_ACCESS_NONE);
    }
    assert_eq!(status(kernel.arg_info_string(5, CL_KERNEL_ARG_NAME)), "CL_INVALID_ARG_INDEX");
    assert_eq!(status(kernel.arg_info_string(0, 0x4321)), "CL_INVALID_VALUE");
    let blur = setup.kernel("bench/image_blur.bc64", "image_blur");
    assert_eq!(blur.arg_info::<u32>(0, CL_KERNEL_ARG_ACCESS_QUALIFIER)?, CL_KERNEL_ARG_ACCESS_READ_ONLY);
    assert_eq!(blur.arg_info::<u32>(1, CL_KERNEL_ARG_ACCESS_QUALIFIER)?, CL_KERNEL_ARG_ACCESS_WRITE_ONLY);
    assert_eq!(blur.arg_info_string(0, CL_KERNEL_ARG_TYPE_NAME)?, "image2d_t");
    Ok(())
}

/// Without -cl-kernel-arg-info at compilation, the binary has no names.
fn arg_info_needs_metadata() -> Outcome {
    let kernel = Setup::new().kernel("spir12/args.bc64", "scalars");
    assert_eq!(status(kernel.arg_info_string(0, CL_KERNEL_ARG_NAME)), "CL_KERNEL_ARG_INFO_NOT_AVAILABLE");
    Ok(())
}

fn work_group_info() -> Outcome {
    let setup = Setup::new();
    let (tiled, device) = (setup.kernel("bench/matmul_tiled.bc64", "matmul_tiled"), setup.device);
    assert_eq!(tiled.work_group_info::<[usize; 3]>(device, CL_KERNEL_COMPILE_WORK_GROUP_SIZE)?, [16, 16, 1]);
    assert_eq!(tiled.work_group_info::<u64>(device, CL_KERNEL_LOCAL_MEM_SIZE)?, 2 * 16 * 16 * 4);
    let vadd = setup.kernel("spir12/vadd.bc64", "vadd");
    assert_eq!(vadd.work_group_info::<[usize; 3]>(device, CL_KERNEL_COMPILE_WORK_GROUP_SIZE)?, [0; 3]);
    assert_eq!(vadd.work_group_info::<u64>(device, CL_KERNEL_LOCAL_MEM_SIZE)?, 0);
    assert!(vadd.work_group_info::<usize>(device, CL_KERNEL_WORK_GROUP_SIZE)? >= 256);
    let multiple = |kernel: &Kernel| {
        kernel.work_group_info::<usize>(device, CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE)
    };
    let pack = setup.device.info::<u32>(CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT)? as usize;
    let reduce = setup.kernel("bench/reduce.bc64", "reduce");
    assert_eq!((multiple(&vadd)?, multiple(&reduce)?, multiple(&tiled)?), (pack, 4 * pack, pack));
    assert_eq!(status(vadd.work_group_info::<usize>(device, 0x4321)), "CL_INVALID_VALUE");
    Ok(())
}

fn local_arguments_count() -> Outcome {
    let setup = Setup::new();
    let kernel = setup.kernel("bench/reduce.bc64", "reduce");
    kernel.set_local(2, 1024)?;
    assert!(kernel.work_group_info::<u64>(setup.device, CL_KERNEL_LOCAL_MEM_SIZE)? >= 1024);
    let all = setup.device.info::<u64>(CL_DEVICE_LOCAL_MEM_SIZE)? as usize;
    let data = Buffer::copy_of(&setup.context, &[0f32; 64])?;
    kernel.set_object(0, Some(&data))?;
    kernel.set_object(1, Some(&data))?;
    kernel.set(3, 1)?;
    kernel.set_local(2, all + 1)?;
    let launch = setup.queue.launch(&kernel, NdRange::new(&[16], &[16]));
    assert_eq!(status(launch), "CL_OUT_OF_RESOURCES", "more local memory than there is");
    Ok(())
}

fn set_arg_errors() -> Outcome {
    let setup = Setup::new();
    let buffer = Buffer::new(&setup.context, 0, 64)?;
    let saxpy = setup.kernel("spir12/vadd.bc64", "saxpy4");
    assert_eq!(status(saxpy.set_object(4, Some(&buffer))), "CL_INVALID_ARG_INDEX");
    assert_eq!(status(saxpy.set_bytes(0, &[0; 4])), "CL_INVALID_ARG_SIZE");
    assert_eq!(status(saxpy.set(2, 1.0f64)), "CL_INVALID_ARG_SIZE");
    assert_eq!(status(saxpy.set(2, 1.0f32)), "CL_SUCCESS");
    assert_eq!(status(call!(clSetKernelArg(saxpy.raw(), 2, 4, null()))), "CL_INVALID_ARG_VALUE");
    let reduce = setup.kernel("bench/reduce.bc64", "reduce");
    assert_eq!(status(reduce.set_local(2, 0)), "CL_INVALID_ARG_SIZE");
    assert_eq!(status(reduce.set_object(2, Some(&buffer))), "CL_INVALID_ARG_VALUE");
    let blur = setup.kernel("bench/image_blur.bc64", "image_blur");
    let sampler = Sampler::new(&setup.context, false, CL_ADDRESS_CLAMP, CL_FILTER_NEAREST)?;
    assert_eq!(status(blur.set_object(0, Some(&sampler))), "CL_INVALID_MEM_OBJECT");
    assert_eq!(status(blur.set_object(0, Some(&buffer))), "CL_INVALID_MEM_OBJECT", "a buffer is no image");
    Ok(())
}

fn unset_arguments() -> Outcome {
    let setup = Setup::new();
    let kernel = setup.kernel("spir12/vadd.bc64", "vadd");
    let buffer = Buffer::new(&setup.context, 0, 64)?;
    let launch = |kernel: &Kernel| status(setup.queue.launch(kernel, NdRange::new(&[4], &[4])));
    assert_eq!(launch(&kernel), "CL_INVALID_KERNEL_ARGS");
    kernel.set_object(0, Some(&buffer))?;
    kernel.set_object(1, Some(&buffer))?;
    assert_eq!(launch(&kernel), "CL_INVALID_KERNEL_ARGS");
    kernel.set_object(2, Some(&buffer))?;
    assert_eq!(launch(&kernel), "CL_SUCCESS");
    Ok(())
}

/// clSetKernelArg between two launches must not reach the first.
fn arguments_are_taken_at_launch() -> Outcome {
    let setup = Setup::new();
    let kernel = setup.kernel("spir12/vadd.bc64", "daxpy");
    let (x, y) =
        (Buffer::copy_of(&setup.context, &[1f64; 64])?, Buffer::copy_of(&setup.context, &[0f64; 64])?);
    kernel.set_object(0, Some(&x))?;
    kernel.set_object(1, Some(&y))?;
    for factor in 0..100 {
        kernel.set(2, f64::from(factor))?;
        setup.queue.launch(&kernel, NdRange::new(&[64], &[16]))?;
    }
    kernel.set(2, f64::NAN)?;
    let mut sums = [0f64; 64];
    setup.queue.read(&y, &mut sums)?;
    assert_eq!(sums, [4950.0; 64]);
    Ok(())
}

fn launch_errors() -> Outcome {
    let setup = Setup::new();
    let kernel = setup.kernel("spir12/vadd.bc64", "vadd");
    let buffer = Buffer::new(&setup.context, 0, 4 << 20)?;
    (0..3).try_for_each(|i| kernel.set_object(i, Some(&buffer)))?;
    let launch = |dimensions, global: *const usize, local: *const usize| {
        let (queue, kernel, none) = (setup.queue.raw(), kernel.raw(), null_mut());
        status(call!(clEnqueueNDRangeKernel(
            queue,
            kernel,
            dimensions,
            null(),
            global,
            local,
            0,
            null(),
            none
        )))
    };
    let (global, local) = ([64, 1, 1, 1], [16, 1, 1, 1]);
    assert_eq!(launch(0, global.as_ptr(), local.as_ptr()), "CL_INVALID_WORK_DIMENSION");
    assert_eq!(launch(4, global.as_ptr(), local.as_ptr()), "CL_INVALID_WORK_DIMENSION");
    let huge = [1 << 33, 1 << 33, 1];
    assert_eq!(launch(2, huge.as_ptr(), null()), "CL_INVALID_GLOBAL_WORK_SIZE");
    assert_eq!(
        launch(1, global.as_ptr(), [24].as_ptr()),
        "CL_INVALID_WORK_GROUP_SIZE",
        "24 does not divide 64"
    );
    assert_eq!(launch(1, global.as_ptr(), [0].as_ptr()), "CL_INVALID_WORK_GROUP_SIZE");
    let most = setup.device.info::<usize>(CL_DEVICE_MAX_WORK_GROUP_SIZE)?;
    let sizes = setup.device.info_list::<usize>(CL_DEVICE_MAX_WORK_ITEM_SIZES)?;
    let refused = launch(1, [2 * sizes[0]].as_ptr(), [2 * sizes[0]].as_ptr());
    assert!(
        ["CL_INVALID_WORK_ITEM_SIZE", "CL_INVALID_WORK_GROUP_SIZE"].contains(&refused.as_str()),
        "{refused}"
    );
    let square = [most, 2, 1];
    assert_eq!(launch(2, square.as_ptr(), square.as_ptr()), "CL_INVALID_WORK_GROUP_SIZE");
    assert_eq!(launch(1, global.as_ptr(), local.as_ptr()), "CL_SUCCESS");
    Ok(())
}

/// Since OpenCL 2.1 such a launch does nothing but wait, and its kernel must be ready all the same.
fn empty_ranges() -> Outcome {
    let setup = Setup::new();
    let kernel = setup.kernel("spir12/vadd.bc64", "daxpy");
    let (gate, buffer) = (Event::user(&setup.context)?, Buffer::copy_of(&setup.context, &[1f64; 4])?);
    let launch = |dimensions, global: *const usize| {
        let (queue, kernel, mut event) = (setup.queue.raw(), kernel.raw(), null_mut());
        let (gate, none) = (gate.raw(), null());
        call!(clEnqueueNDRangeKernel(queue, kernel, dimensions, none, global, none, 1, &gate, &mut event))
            .map(|()| Event::from_raw(event))
    };
    assert_eq!(status(launch(1, null())), "CL_INVALID_KERNEL_ARGS");
    kernel.set_object(0, Some(&buffer))?;
    kernel.set_object(1, Some(&buffer))?;
    kernel.set(2, 1f64)?;
    assert_eq!(status(launch(0, null())), "CL_INVALID_WORK_DIMENSION");
    let sizes = [[0, 0, 0], [1, 0, 4], [4, 4, 0]];
    let mut events = sizes.iter().map(|size| launch(3, size.as_ptr())).collect::<Result<Vec<_>, _>>()?;
    events.push(launch(2, null())?);
    for event in &events {
        assert_eq!(event.info::<u32>(CL_EVENT_COMMAND_TYPE)?, CL_COMMAND_NDRANGE_KERNEL);
        assert!(event.status()? > CL_COMPLETE, "it waits for its list");
    }
    gate.set_status(CL_COMPLETE)?;
    events.iter().try_for_each(Event::wait)?;
    let mut got = [0f64; 4];
    setup.queue.read(&buffer, &mut got)?;
    assert_eq!(got, [1.0; 4], "nothing ran");
    Ok(())
}

fn required_size() -> Outcome {
    let setup = Setup::new();
    let kernel = setup.kernel("bench/matmul_tiled.bc64", "matmul_tiled");
    let matrix: Vec<f32> = (0..32 * 32).map(|i| (i % 7) as f32).collect();
    let (a, c) = (Buffer::copy_of(&setup.context, &matrix)?, Buffer::copy_of(&setup.context, &matrix)?);
    kernel.set_object(0, Some(&a))?;
    kernel.set_object(1, Some(&a))?;
    kernel.set_object(2, Some(&c))?;
    kernel.set(3, 32)?;
    let launch =
        |local| status(setup.queue.launch(&kernel, NdRange { global: &[32, 32], local, offset: None }));
    assert_eq!(launch(Some(&[8, 16])), "CL_INVALID_WORK_GROUP_SIZE");
    assert_eq!(launch(None), "CL_SUCCESS", "the runtime must take the required size by itself");
    let mut product = vec![0f32; 32 * 32];
    setup.queue.read(&c, &mut product)?;
    let entry = |i: usize| (0..32).map(|k| matrix[i / 32 * 32 + k] * matrix[k * 32 + i % 32]).sum::<f32>();
    assert!((0..32 * 32).all(|i| product[i] == entry(i)));
    Ok(())
}

/// A size that no power of two divides, left to the runtime.
fn global_without_local() -> Outcome {
    let setup = Setup::new();
    let kernel = setup.kernel("spir12/vadd.bc64", "vadd");
    // Those above 4096 are primes: no group of any size divides them.
    for count in [1usize, 7, 257, 997, 4096, 4099, 65537] {
        let data: Vec<f32> = (0..count).map(|i| i as f32).collect();
        let buffers =
            [&data, &data, &vec![0.0; count]].map(|d| Buffer::copy_of(&setup.context, d).expect("a buffer"));
        for (index, buffer) in buffers.iter().enumerate() {
            kernel.set_object(index as u32, Some(buffer))?;
        }
        setup.queue.launch(&kernel, NdRange { global: &[count], local: None, offset: None })?;
        let mut sum = vec![0f32; count];
        setup.queue.read(&buffers[2], &mut sum)?;
        assert!(sum.iter().zip(&data).all(|(sum, x)| *sum == 2.0 * x), "{count} work-items");
    }
    Ok(())
}

fn private_size() -> Outcome {
    let setup = Setup::new();
    let kernel = setup.kernel("spir12/vadd.bc64", "vadd");
    kernel.work_group_info::<u64>(setup.device, CL_KERNEL_PRIVATE_MEM_SIZE)?;
    Ok(())
}

/// What functions that stay calls have on the stack is private memory, too, and is there, whatever stack the thread that waits for
/// the kernel has.
fn stacks_of_functions_that_stay_calls() -> Outcome {
    let source = |count: usize| {
        format!(
            "__attribute__((noinline)) int inner(int n) {{
                volatile int a[{count}], step = 500; // (Or LLVM finds that few of them are used.)
                for (int i = 0; i < {count}; i += step) a[i] = i + n;
                return a[1000];
            }}
            __attribute__((noinline)) int outer(int n) {{
                volatile int a[{count}], step = 500;
                for (int i = 0; i < {count}; i += step) a[i] = i + 2 * n;
                return inner(a[500]) + a[1000];
            }}
            kernel void k(global int *p) {{ p[get_global_id(0)] = outer(p[get_global_id(0)]); }}"
        )
    };
    for count in [25_000, 4_000_000] {
        let machine = machine_of(&source(count), "")?;
        let kernel = Kernel::new(&machine.program, "k")?;
        let size = kernel.work_group_info::<u64>(Device::first(), CL_KERNEL_PRIVATE_MEM_SIZE)?;
        assert!(size >= 8 * count as u64, "{size} bytes");
        let buffer = Buffer::copy_of(&machine.context, &[0, 1, 2, 3])?;
        kernel.set_object(0, Some(&buffer))?;
        let small = std::thread::Builder::new().stack_size(128 << 10);
        let waits =
            || machine.queues[0].launch(&kernel, NdRange::new(&[4], &[4])).and_then(|event| event.wait());
        std::thread::scope(|scope| {
            let thread = small.spawn_scoped(scope, waits).expect("a thread");
            thread.join().expect("no panic")
        })?;
        let mut got = [0; 4];
        machine.queues[0].read(&buffer, &mut got)?;
        // inner: 1000 + (500 + 2 n); outer: 1000 + 2 n more.
        assert_eq!(got, [2500, 2504, 2508, 2512]);
    }
    Ok(())
}

/// What the processor has an instruction for is no reason to inline a function, and is the same in one that stays a call.
fn functions_that_stay_calls_compute_the_same() -> Outcome {
    let body = "float y = exp(x) + rsqrt(x + 200.0f) + exp10(x * 0.25f); return y + (uchar)(x * 100.0f);";
    let source = format!(
        "__attribute__((noinline)) float far(float x) {{ {body} }}
        float near(float x) {{ {body} }}
        kernel void k(global float *p, global float *q) {{
            size_t i = get_global_id(0); float x = p[i]; p[i] = far(x); q[i] = near(x); }}"
    );
    let machine = machine_of(&source, "")?;
    let kernel = Kernel::new(&machine.program, "k")?;
    let x: Vec<f32> = (0..256).map(|i| i as f32 * 0.37 - 40.0).collect();
    let (far, near) = (Buffer::copy_of(&machine.context, &x)?, Buffer::copy_of(&machine.context, &x)?);
    kernel.set_object(0, Some(&far))?;
    kernel.set_object(1, Some(&near))?;
    machine.queues[0].launch(&kernel, NdRange::new(&[256], &[64]))?;
    let (mut by_call, mut inlined) = ([0.0_f32; 256], [0.0_f32; 256]);
    machine.queues[0].read(&far, &mut by_call)?;
    machine.queues[0].read(&near, &mut inlined)?;
    assert_eq!(by_call.map(f32::to_bits), inlined.map(f32::to_bits));
    let exact = f64::from(x[200]);
    let exact = exact.exp() + 1.0 / (exact + 200.0).sqrt() + 10.0_f64.powf(exact * 0.25);
    let exact = exact + f64::from((x[200] * 100.0) as i32 as u8);
    assert!((f64::from(by_call[200]) / exact - 1.0).abs() < 1e-6);
    Ok(())
}

fn functions_that_stay_calls_in_each_tier() -> Outcome {
    for tier in ["baseline", "optimized"] {
        again_with("kernels::functions_that_stay_calls_compute_the_same", &[("SPIRULA_TIER", tier)]);
    }
    Ok(())
}

/// Launches of one odd size for long enough that their own code takes over: each is right.
fn sizes_that_get_code_of_their_own() -> Outcome {
    let setup = Setup::new();
    let kernel = setup.kernel("bench/scan.bc64", "scan");
    let input: Vec<i32> = (0..1 << 18).map(|i| i * 7919 % 1000).collect();
    let mut output = vec![0; input.len()];
    let (from, to) = (Buffer::copy_of(&setup.context, &input)?, Buffer::copy_of(&setup.context, &output)?);
    kernel.set_object(0, Some(&from))?;
    kernel.set_object(1, Some(&to))?;
    for local in [4, 32] {
        kernel.set_local(2, 2 * local * 4)?;
        let block = |i: usize| i / (2 * local) * (2 * local);
        for _ in 0..60 {
            setup.queue.write(&to, &vec![-1; input.len()])?;
            setup.queue.launch(&kernel, NdRange::new(&[input.len() / 2], &[local]))?;
            setup.queue.read(&to, &mut output)?;
            let wrong = (0..output.len()).find(|&i| output[i] != input[block(i)..i].iter().sum::<i32>());
            assert_eq!(wrong, None, "local size {local}");
        }
    }
    Ok(())
}

/// Kernels that can't tell groups run in others than asked for; each work-item runs once all the same.
fn groups_that_nobody_sees() -> Outcome {
    let setup = Setup::new();
    let kernel = setup.kernel("bench/matmul_naive.bc64", "matmul_naive");
    for (n, local) in [(48, [8, 8]), (48, [1, 48]), (37, [1, 37]), (37, [37, 1]), (30, [5, 3])] {
        let matrix: Vec<f32> = (0..n * n).map(|i| (i % 7) as f32).collect();
        let a = Buffer::copy_of(&setup.context, &matrix)?;
        let c = Buffer::copy_of(&setup.context, &vec![0f32; n * n])?;
        kernel.set_object(0, Some(&a))?;
        kernel.set_object(1, Some(&a))?;
        kernel.set_object(2, Some(&c))?;
        kernel.set(3, n as i32)?;
        setup.queue.launch(&kernel, NdRange::new(&[n, n], &local))?;
        let mut product = vec![0f32; n * n];
        setup.queue.read(&c, &mut product)?;
        let entry = |i: usize| (0..n).map(|k| matrix[i / n * n + k] * matrix[k * n + i % n]).sum::<f32>();
        assert!((0..n * n).all(|i| product[i] == entry(i)), "{n} {local:?}");
    }
    let wrong = setup.queue.launch(&kernel, NdRange::new(&[30, 30], &[7, 3]));
    assert_eq!(status(wrong), "CL_INVALID_WORK_GROUP_SIZE", "which does not divide");
    Ok(())
}
