//! Device-side enqueue (OpenCL 2.0, 5.1 and 6.13.17): queues on the device, kernels that enqueue kernels in every form, what
//! is refused and what fails.

use crate::setup::{Setup, program_of_2_0, status, tests};
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{self, Buffer, Kernel, NdRange, Object, Program, Queue};
use spirula_tests::isolate::Outcome;
use spirula_tests::{call, create};
use std::ptr::null_mut;

tests![
    limits,
    objects,
    defaults,
    host_functions_refuse_them,
    arguments,
    kernels_of_blocks_are_nobodys,
    forms,
    errors_have_names,
    a_full_queue_says_so,
    what_fails_fails_its_parent,
    profiling,
    queries,
    blocks_that_are_unknown,
    blocks_that_capture_much,
];

pub const ON_DEVICE: u64 = CL_QUEUE_ON_DEVICE | CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE;
pub const CL_QUEUE_SIZE: cl_uint = 0x1094;
const CL_QUEUE_DEVICE_DEFAULT: cl_uint = 0x1095;
const CL_DEVICE_DEVICE_ENQUEUE_CAPABILITIES: cl_uint = 0x1070;

pub fn queue(setup: &Setup, properties: &[u64]) -> cl::Result<Queue> {
    let list: Vec<cl_queue_properties> = properties.iter().copied().chain([0]).collect();
    let (context, device) = (setup.context.raw(), setup.device.raw());
    Ok(Queue::from_raw(create!(clCreateCommandQueueWithProperties(context, device, list.as_ptr()))?))
}

/// A queue on the device with so many bytes.
pub fn of_size(setup: &Setup, bytes: u64) -> cl::Result<Queue> {
    queue(setup, &[CL_QUEUE_PROPERTIES.into(), ON_DEVICE, CL_QUEUE_SIZE.into(), bytes])
}

/// Launches a kernel of one work-item, or of more, over a buffer and two numbers, and returns the buffer.
pub fn run(setup: &Setup, program: &Program, name: &str, items: usize, data: &[i32]) -> cl::Result<Vec<i32>> {
    let kernel = Kernel::new(program, name)?;
    let buffer = Buffer::copy_of(&setup.context, data)?;
    kernel.set_object(0, Some(&buffer))?;
    setup.queue.launch(&kernel, NdRange::new(&[items], &[1]))?;
    let mut result = data.to_vec();
    setup.queue.read(&buffer, &mut result)?;
    Ok(result)
}

fn limits() -> Outcome {
    let device = Setup::new().device;
    assert_eq!(device.info::<u64>(CL_DEVICE_DEVICE_ENQUEUE_CAPABILITIES)?, 3);
    let properties = CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | CL_QUEUE_PROFILING_ENABLE;
    assert_eq!(device.info::<u64>(CL_DEVICE_QUEUE_ON_DEVICE_PROPERTIES)?, properties);
    let preferred = device.info::<u32>(CL_DEVICE_QUEUE_ON_DEVICE_PREFERRED_SIZE)?;
    assert!(preferred >= 16 << 10);
    assert!(device.info::<u32>(CL_DEVICE_QUEUE_ON_DEVICE_MAX_SIZE)? >= (256 << 10).max(preferred));
    assert!(device.info::<u32>(CL_DEVICE_MAX_ON_DEVICE_QUEUES)? >= 1);
    assert!(device.info::<u32>(CL_DEVICE_MAX_ON_DEVICE_EVENTS)? >= 1024);
    Ok(())
}

fn objects() -> Outcome {
    let setup = Setup::new();
    let name = u64::from(CL_QUEUE_PROPERTIES);
    let one = of_size(&setup, 100_000)?;
    assert_eq!(one.info::<u32>(CL_QUEUE_SIZE)?, 100_000);
    assert_eq!(one.info::<u64>(CL_QUEUE_PROPERTIES)?, ON_DEVICE);
    let preferred = setup.device.info::<u32>(CL_DEVICE_QUEUE_ON_DEVICE_PREFERRED_SIZE)?;
    assert_eq!(queue(&setup, &[name, ON_DEVICE])?.info::<u32>(CL_QUEUE_SIZE)?, preferred);
    assert_eq!(status(setup.queue.info::<u32>(CL_QUEUE_SIZE)), "CL_INVALID_COMMAND_QUEUE");
    let size = u64::from(CL_QUEUE_SIZE);
    let most = u64::from(setup.device.info::<u32>(CL_DEVICE_QUEUE_ON_DEVICE_MAX_SIZE)?);
    for (properties, expected) in [
        (&[name, ON_DEVICE, size, most][..], "CL_SUCCESS"),
        (&[name, ON_DEVICE, size, most + 1], "CL_INVALID_QUEUE_PROPERTIES"),
        (&[name, ON_DEVICE, size, 0], "CL_INVALID_QUEUE_PROPERTIES"),
        (&[name, CL_QUEUE_ON_DEVICE], "CL_INVALID_VALUE"),
        (&[name, CL_QUEUE_ON_DEVICE_DEFAULT], "CL_INVALID_VALUE"),
        (&[size, 4096], "CL_INVALID_VALUE"),
        (&[name, ON_DEVICE | 1 << 20], "CL_INVALID_VALUE"),
    ] {
        assert_eq!(status(queue(&setup, properties)), expected, "{properties:?}");
    }
    let most = setup.device.info::<u32>(CL_DEVICE_MAX_ON_DEVICE_QUEUES)?;
    // `one` has the place that the default queue would have.
    let all: Vec<_> = (0..most).map(|_| of_size(&setup, 4096)).collect::<cl::Result<_>>()?;
    assert_eq!(status(of_size(&setup, 4096)), "CL_OUT_OF_RESOURCES");
    drop(all);
    assert_eq!(status(of_size(&setup, 4096)), "CL_SUCCESS");
    Ok(())
}

fn defaults() -> Outcome {
    let setup = Setup::new();
    let default = || setup.queue.info::<usize>(CL_QUEUE_DEVICE_DEFAULT);
    assert_eq!(default()?, 0);
    let first = Queue::on_device(&setup.context, setup.device)?;
    let again = Queue::on_device(&setup.context, setup.device)?;
    assert_eq!((first.raw(), default()?), (again.raw(), first.raw() as usize), "there is one default queue");
    assert_eq!(first.info::<u32>(CL_QUEUE_REFERENCE_COUNT)?, 2);
    let other = of_size(&setup, 4096)?;
    let set = |queue: &Queue| {
        call!(clSetDefaultDeviceCommandQueue(setup.context.raw(), setup.device.raw(), queue.raw()))
    };
    set(&other)?;
    assert_eq!(default()?, other.raw() as usize);
    assert_eq!(status(set(&setup.queue)), "CL_INVALID_COMMAND_QUEUE");
    let foreign = Setup::new();
    assert_eq!(status(set(&of_size(&foreign, 4096)?)), "CL_INVALID_COMMAND_QUEUE");
    drop(other);
    assert_eq!(default()?, 0, "a default queue that is released is none");
    Ok(())
}

fn host_functions_refuse_them() -> Outcome {
    let setup = Setup::new();
    let on_device = of_size(&setup, 4096)?;
    let buffer = Buffer::new(&setup.context, CL_MEM_READ_WRITE, 64)?;
    assert_eq!(status(on_device.read(&buffer, &mut [0_u8; 4])), "CL_INVALID_COMMAND_QUEUE");
    assert_eq!(status(on_device.finish()), "CL_INVALID_COMMAND_QUEUE");
    assert_eq!(status(call!(clFlush(on_device.raw()))), "CL_INVALID_COMMAND_QUEUE");
    let kernel = setup.kernel("spir12/vadd.bc64", "vadd");
    assert_eq!(status(on_device.launch(&kernel, NdRange::new(&[1], &[1]))), "CL_INVALID_COMMAND_QUEUE");
    Ok(())
}

const SIMPLE: &str = "
    kernel void k(global int *a) {
        a[1] = enqueue_kernel(get_default_queue(), CLK_ENQUEUE_FLAGS_WAIT_KERNEL, ndrange_1D(1), ^{ a[0] = 7; });
    }
    kernel void on(global int *a, queue_t q) {
        a[1] = enqueue_kernel(q, CLK_ENQUEUE_FLAGS_NO_WAIT, ndrange_1D(1), ^{ a[0] = 7; });
    }";

fn arguments() -> Outcome {
    let setup = Setup::new();
    let program = program_of_2_0(&setup, SIMPLE, "-g")?;
    // Without a default queue there is none to be had.
    assert_eq!(run(&setup, &program, "k", 1, &[0, 0])?, [0, -102]);
    let kernel = Kernel::new(&program, "on")?;
    let buffer = Buffer::copy_of(&setup.context, &[0, 1])?;
    kernel.set_object(0, Some(&buffer))?;
    assert_eq!(status(kernel.set_object(1, Some(&setup.queue))), "CL_INVALID_DEVICE_QUEUE");
    assert_eq!(status(kernel.set_object(1, Some(&buffer))), "CL_INVALID_DEVICE_QUEUE");
    assert_eq!(status(kernel.set_object(1, None)), "CL_INVALID_DEVICE_QUEUE");
    let foreign = Setup::new();
    assert_eq!(status(kernel.set_object(1, Some(&of_size(&foreign, 4096)?))), "CL_INVALID_DEVICE_QUEUE");
    kernel.set_object(1, Some(&of_size(&setup, 4096)?))?;
    let range = NdRange::new(&[1], &[1]);
    assert_eq!(status(setup.queue.launch(&kernel, range)), "CL_INVALID_KERNEL_ARGS", "it was released");
    let on_device = of_size(&setup, 4096)?;
    kernel.set_object(1, Some(&on_device))?;
    setup.queue.launch(&kernel, range)?;
    drop(on_device);
    let mut got = [0; 2];
    setup.queue.read(&buffer, &mut got)?;
    assert_eq!(got, [7, 0]);
    Ok(())
}

fn kernels_of_blocks_are_nobodys() -> Outcome {
    let setup = Setup::new();
    let program = program_of_2_0(&setup, SIMPLE, "")?;
    assert_eq!(program.kernels()?.len(), 2);
    assert_eq!(program.info_string(CL_PROGRAM_KERNEL_NAMES)?, "k;on");
    assert_eq!(status(Kernel::new(&program, "__k_block_invoke_kernel")), "CL_INVALID_KERNEL_NAME");
    // A binary has the blocks' kernels too.
    let binary = program.binary()?;
    let again = Program::from_binary(&setup.context, setup.device, &binary)?;
    again.build("")?;
    let _default = Queue::on_device(&setup.context, setup.device)?;
    assert_eq!(run(&setup, &again, "k", 1, &[0, 1])?, [7, 0]);
    Ok(())
}

/// Every form of `enqueue_kernel`, as clang writes them; the fixtures have SPIR 2.0's.
fn forms() -> Outcome {
    let setup = Setup::new();
    let _default = Queue::on_device(&setup.context, setup.device)?;
    let source = "
    kernel void k(global int *a) {
        queue_t q = get_default_queue();
        const size_t global_size[2] = {4, 2}, local_size[2] = {2, 1}, offset[2] = {10, 20};
        clk_event_t e, u = create_user_event(), m, last;
        a[0] = enqueue_kernel(q, CLK_ENQUEUE_FLAGS_NO_WAIT, ndrange_2D(offset, global_size, local_size), ^{
            a[10 + (get_global_id(0) - 10) + (get_global_id(1) - 20) * 4] =
                (int)(get_global_id(0) * 100 + get_global_id(1) + get_local_size(0) * 10000);
        });
        a[1] = enqueue_kernel(q, CLK_ENQUEUE_FLAGS_WAIT_KERNEL, ndrange_1D(4, 4),
            ^(local void *p, local void *r) {
                local int *x = p;
                local long *y = r;
                int l = get_local_id(0);
                x[l] = l * 3; y[l] = l * 1000L;
                work_group_barrier(CLK_LOCAL_MEM_FENCE);
                a[20 + l] = x[3 - l] + (int)y[(l + 1) % 4];
            }, (uint)(4 * sizeof(int)), (uint)(4 * sizeof(long)));
        a[2] = enqueue_kernel(q, CLK_ENQUEUE_FLAGS_NO_WAIT, ndrange_1D(1), 1, &u, &e, ^{ a[30] = 1; });
        a[3] = enqueue_kernel(q, CLK_ENQUEUE_FLAGS_NO_WAIT, ndrange_1D(1), 1, &e, &last,
            ^(local void *p) { *(local int *)p = a[30] * 10; a[31] = *(local int *)p; }, 4u);
        clk_event_t both[2] = {e, last};
        a[4] = enqueue_marker(q, 2, both, &m);
        a[5] = enqueue_kernel(q, CLK_ENQUEUE_FLAGS_NO_WAIT, ndrange_1D(1), 1, &m, 0, ^{ a[32] = a[31] + 5; });
        clk_event_t gone = create_user_event();
        release_event(gone);
        a[6] = is_valid_event(e) + 2 * is_valid_event(gone);
        release_event(e); release_event(m); release_event(last);
        retain_event(u);
        release_event(u);
        // A child sets the event that others wait for.
        enqueue_kernel(q, CLK_ENQUEUE_FLAGS_WAIT_WORK_GROUP, ndrange_1D(1), ^{
            enqueue_kernel(q, CLK_ENQUEUE_FLAGS_WAIT_KERNEL, ndrange_1D(1), ^{
                set_user_event_status(u, CL_COMPLETE);
                release_event(u);
            });
        });
    }";
    // In 3.0 device-side enqueue is a feature.
    for options in ["-g", "-g -cl-opt-disable", "-g -cl-std=CL3.0"] {
        let program = program_of_2_0(&setup, source, options)?;
        let got = run(&setup, &program, "k", 1, &[-1; 40])?;
        assert_eq!(got[..7], [0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(got[10..18], [21020, 21120, 21220, 21320, 21021, 21121, 21221, 21321]);
        assert_eq!(got[20..24], [1009, 2006, 3003, 0]);
        assert_eq!(got[30..33], [1, 10, 15]);
    }
    Ok(())
}

fn errors_have_names() -> Outcome {
    let setup = Setup::new();
    let _default = Queue::on_device(&setup.context, setup.device)?;
    let source = "
    kernel void k(global int *a) {
        queue_t q = get_default_queue();
        clk_event_t none = create_user_event(), e;
        release_event(none);
        ndrange_t r = ndrange_1D(4);
        int f = CLK_ENQUEUE_FLAGS_NO_WAIT;
        void (^b)(void) = ^{ a[20] = 1; };
        uint zero = a[30], large = 1u << 30;
        a[0] = enqueue_kernel(q, f, ndrange_1D((size_t)-1, 10, 3), ^{ a[20] = 1; });
        a[1] = enqueue_kernel(q, f, ndrange_1D(1 << 20, 1 << 20), ^{ a[20] = 1; });
        a[2] = enqueue_kernel(q, f, r, 1, &none, 0, ^{ a[20] = 1; });
        a[3] = enqueue_kernel(q, f, r, 1, 0, 0, ^{ a[20] = 1; });
        a[4] = enqueue_kernel(q, f, r, 0, &none, 0, ^{ a[20] = 1; });
        a[5] = enqueue_kernel(q, f, r, ^(local void *p) { a[20] = 1; }, zero);
        a[6] = enqueue_kernel(q, f, r, ^(local void *p) { a[20] = 1; }, large);
        a[7] = enqueue_marker(q, 0, 0, &e);
        a[8] = enqueue_kernel(q, f, r, ^{ a[21] = 1; });
    }";
    let names = [-160, -160, -57, -57, -57, -51, -5, -57, 0];
    let program = program_of_2_0(&setup, source, "-g")?;
    let got = run(&setup, &program, "k", 1, &[0; 31])?;
    assert_eq!((&got[..9], &got[20..22]), (&names[..], &[0, 1][..]));
    let program = program_of_2_0(&setup, source, "")?;
    let got = run(&setup, &program, "k", 1, &[0; 31])?;
    assert_eq!((&got[..7], got[8], &got[20..22]), (&[-101; 7][..], 0, &[0, 1][..]));
    Ok(())
}

fn a_full_queue_says_so() -> Outcome {
    let setup = Setup::new();
    let source = "kernel void on(global int *a, queue_t q) {
        int n = 0, e;
        while ((e = enqueue_kernel(q, CLK_ENQUEUE_FLAGS_NO_WAIT, ndrange_1D(1), ^{ atomic_inc(a); })) == 0) ++n;
        a[1] = n;
        a[2] = e;
    }";
    for (options, code) in [("-g", -161), ("", -101)] {
        let program = program_of_2_0(&setup, source, options)?;
        let kernel = Kernel::new(&program, "on")?;
        let on_device = of_size(&setup, 64 << 10)?;
        let buffer = Buffer::copy_of(&setup.context, &[0; 3])?;
        kernel.set_object(0, Some(&buffer))?;
        kernel.set_object(1, Some(&on_device))?;
        let mut before = 0;
        for round in 1..4 {
            setup.queue.launch(&kernel, NdRange::new(&[1], &[1]))?;
            let mut got = [0; 3];
            setup.queue.read(&buffer, &mut got)?;
            assert!(got[1] >= 64, "{} fit into 64 KB", got[1]);
            assert_eq!((got[0] - before, got[2]), (got[1], code), "round {round}: all that fit ran");
            before = got[0];
        }
    }
    Ok(())
}

fn what_fails_fails_its_parent() -> Outcome {
    let setup = Setup::new();
    let _default = Queue::on_device(&setup.context, setup.device)?;
    let source = "
    kernel void k(global int *a) {
        queue_t q = get_default_queue();
        clk_event_t u = create_user_event(), e;
        enqueue_kernel(q, CLK_ENQUEUE_FLAGS_NO_WAIT, ndrange_1D(1), 1, &u, &e, ^{ a[0] = 1; });
        enqueue_kernel(q, CLK_ENQUEUE_FLAGS_NO_WAIT, ndrange_1D(1), 1, &e, 0, ^{ a[1] = 1; });
        enqueue_kernel(q, CLK_ENQUEUE_FLAGS_NO_WAIT, ndrange_1D(1), ^{ a[2] = 1; });
        set_user_event_status(u, a[3]);
        release_event(u); release_event(e);
    }";
    let program = program_of_2_0(&setup, source, "")?;
    for (set, expected) in [(0, [1, 1, 1]), (-5, [0, 0, 1])] {
        let kernel = Kernel::new(&program, "k")?;
        let buffer = Buffer::copy_of(&setup.context, &[0, 0, 0, set])?;
        kernel.set_object(0, Some(&buffer))?;
        let event = setup.queue.launch(&kernel, NdRange::new(&[1], &[1]))?;
        let waited = status(event.wait());
        let mut got = [0; 4];
        setup.queue.read(&buffer, &mut got)?;
        assert_eq!(got[..3], expected);
        let (result, code) =
            if set == 0 { ("CL_SUCCESS", 0) } else { ("CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST", -14) };
        assert_eq!((waited.as_str(), event.status()?), (result, code));
    }
    Ok(())
}

fn profiling() -> Outcome {
    let setup = Setup::new();
    let _default = Queue::on_device(&setup.context, setup.device)?;
    let source = "
    kernel void k(global ulong *t) {
        queue_t q = get_default_queue();
        clk_event_t e;
        t[2] = enqueue_kernel(q, CLK_ENQUEUE_FLAGS_NO_WAIT, ndrange_1D(1), 0, 0, &e, ^{
            enqueue_kernel(q, CLK_ENQUEUE_FLAGS_NO_WAIT, ndrange_1D(1), ^{
                for (volatile int i = 0; i < 100000; ++i) {}
            });
        });
        capture_event_profiling_info(e, CLK_PROFILING_COMMAND_EXEC_TIME, t);
        release_event(e);
    }";
    let program = program_of_2_0(&setup, source, "")?;
    let kernel = Kernel::new(&program, "k")?;
    let buffer = Buffer::copy_of(&setup.context, &[0_u64; 3])?;
    kernel.set_object(0, Some(&buffer))?;
    let event = setup.queue.launch(&kernel, NdRange::new(&[1], &[1]))?;
    let mut got = [0_u64; 3];
    setup.queue.read(&buffer, &mut got)?;
    assert!(got[0] > 0 && got[1] > got[0] && got[2] == 0, "its child ran after it: {got:?}");
    let [.., start, end] = event.times()?;
    const CL_PROFILING_COMMAND_COMPLETE: cl_uint = 0x1284;
    let mut complete = 0_u64;
    let place = (&raw mut complete).cast();
    call!(clGetEventProfilingInfo(event.raw(), CL_PROFILING_COMMAND_COMPLETE, 8, place, null_mut()))?;
    assert!(start <= end && end < complete && complete - end >= got[1], "{start} {end} {complete} {got:?}");
    Ok(())
}

fn queries() -> Outcome {
    let setup = Setup::new();
    let source = "
    kernel void k(global int *a) {
        void (^plain)(void) = ^{ a[10] = 1; };
        void (^local_one)(local void *) = ^(local void *p) { *(local int *)p = 1; a[10] = *(local int *)p; };
        a[0] = get_kernel_work_group_size(plain);
        a[1] = get_kernel_preferred_work_group_size_multiple(plain);
        a[2] = get_kernel_work_group_size(local_one);
        a[3] = get_kernel_preferred_work_group_size_multiple(local_one);
    }";
    let program = program_of_2_0(&setup, source, "")?;
    let got = run(&setup, &program, "k", 1, &[0; 11])?;
    let most = setup.device.info::<usize>(CL_DEVICE_MAX_WORK_GROUP_SIZE)? as i32;
    assert!((1..=most).contains(&got[0]) && (1..=most).contains(&got[2]), "{got:?}");
    // Groups of which local memory makes a difference are better larger.
    assert!((1..=64).contains(&got[1]) && [1, 4].map(|packs| packs * got[1]).contains(&got[3]), "{got:?}");
    assert_eq!(got[10], 0, "nothing ran");
    // Of a range's sub-groups; the block says how many there are in each group when it runs.
    let source = "
    kernel void k(global int *a) {
        void (^block)(void) = ^{
            if (get_local_linear_id() == 0) { a[20] = get_num_sub_groups(); a[21] = get_max_sub_group_size(); }
        };
        ndrange_t row = ndrange_1D(96, 48), small = ndrange_1D(3, 3);
        const size_t global_size[2] = {6, 4}, local_size[2] = {3, 4};
        ndrange_t rows = ndrange_2D(global_size, local_size);
        a[0] = get_kernel_sub_group_count_for_ndrange(row, block);
        a[1] = get_kernel_max_sub_group_size_for_ndrange(row, block);
        a[2] = get_kernel_sub_group_count_for_ndrange(small, block);
        a[3] = get_kernel_max_sub_group_size_for_ndrange(small, block);
        a[4] = get_kernel_sub_group_count_for_ndrange(rows, block);
        a[5] = get_kernel_max_sub_group_size_for_ndrange(rows, block);
        int which = a[30];
        enqueue_kernel(get_default_queue(), CLK_ENQUEUE_FLAGS_WAIT_KERNEL, which == 0 ? row : which == 1 ? small : rows, block);
    }";
    let _default = Queue::on_device(&setup.context, setup.device)?;
    let program = program_of_2_0(&setup, source, "-cl-std=CL3.0")?;
    for which in 0..3 {
        let mut data = [0; 31];
        data[30] = which;
        let got = run(&setup, &program, "k", 1, &data)?;
        let asked = &got[2 * which as usize..][..2];
        assert_eq!(asked, &got[20..22], "range {which}: {got:?}");
        assert!(asked[0] * asked[1] >= [48, 3, 12][which as usize], "{got:?}");
    }
    Ok(())
}

fn blocks_that_are_unknown() -> Outcome {
    let setup = Setup::new();
    let source = "kernel void k(global int *a) {
        void (^one)(void) = ^{ a[0] = 1; };
        enqueue_kernel(get_default_queue(), CLK_ENQUEUE_FLAGS_NO_WAIT, ndrange_1D(1), one);
        int (^add)(int) = ^(int x) { return x + a[1]; };
        a[2] = add(40) + add(1);
    }";
    let program = program_of_2_0(&setup, source, "")?;
    let _default = Queue::on_device(&setup.context, setup.device)?;
    assert_eq!(run(&setup, &program, "k", 1, &[0, 2, 0])?, [1, 2, 45]);
    Ok(())
}

/// More than a message holds, where another process runs it.
fn blocks_that_capture_much() -> Outcome {
    let setup = Setup::new();
    let source = "typedef struct { int all[12000]; } Much;
    kernel void parent(global int *p) {
        Much much;
        for (int i = 0; i < 12000; i++) much.all[i] = 3 * i + p[0];
        enqueue_kernel(get_default_queue(), CLK_ENQUEUE_FLAGS_WAIT_KERNEL, ndrange_1D(12000), ^{
            p[get_global_id(0)] = much.all[get_global_id(0)];
        });
    }";
    let program = program_of_2_0(&setup, source, "")?;
    let _default = Queue::on_device(&setup.context, setup.device)?;
    let mut data = vec![0; 12000];
    data[0] = 5;
    let expected: Vec<i32> = (0..12000).map(|i| 3 * i + 5).collect();
    assert_eq!(run(&setup, &program, "parent", 1, &data)?, expected);
    Ok(())
}
