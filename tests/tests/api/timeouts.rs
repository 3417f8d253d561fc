//! Kernels that never end, where `SPIRULA_TIMEOUT` says when they must have: their command ends with an error, and all else goes on.

use crate::faults::{Machine, failure, launch, machine_of, told, told_with};
use crate::setup::{again_with, tests};
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{Buffer, Device, Kernel, NdRange, Queue};
use spirula_tests::isolate::Outcome;
use std::env;

tests![
    loops,
    loops_over_barriers,
    loops_over_copies,
    what_is_released,
    kernels_that_enqueue_themselves,
    kernels_that_wait_for_nobody,
];

const VARIABLE: &str = "SPIRULA_TIMEOUT";

const SOURCE: &str = "kernel void endless(global int *p, int group) {
    volatile global int *q = p;
    if (get_group_id(0) == group) while (q[64] == 0);
}
kernel void meeting(global int *p, local int *l) {
    volatile global int *q = p;
    do {
        l[get_local_id(0)] = q[64];
        barrier(CLK_LOCAL_MEM_FENCE);
    } while (l[(get_local_id(0) + 1) % get_local_size(0)] == 0);
}
kernel void copying(global char *p, ulong count) {
    volatile global char *q = p;
    do for (ulong i = 1; i < count; i++) p[i] = 0; while (q[0] == 0);
}
kernel void good(global int *p) {
    p[get_global_id(0)] += 1;
}";

/// Has the test run in code of either tier, where launches may take a second.
fn limited(test: &str, body: impl Fn() -> Outcome) -> Outcome {
    if env::var_os(VARIABLE).is_some() {
        return body();
    }
    if Device::first().info::<u32>(CL_DEVICE_COMPILER_AVAILABLE)? != CL_TRUE {
        return Ok(()); // What it would say is skipped.
    }
    for tier in ["baseline", "optimized"] {
        again_with(&format!("timeouts::{test}"), &[(VARIABLE, "1"), ("SPIRULA_TIER", tier)]);
    }
    Ok(())
}

/// Launches what must be ended.
fn must_end(machine: &Machine, kernel: &Kernel, name: &str, items: usize, group: usize) -> Outcome {
    let event = launch(&machine.queues[0], kernel, items, group)?;
    // The other queue goes on meanwhile.
    let others = Kernel::new(&machine.program, "good")?;
    let buffer = Buffer::copy_of(&machine.context, &[1_i32; 64])?;
    others.set_object(0, Some(&buffer))?;
    machine.queues[1].launch(&others, NdRange::new(&[64], &[8]))?;
    machine.queues[1].finish()?;
    assert_eq!(failure(&event)?, CL_OUT_OF_RESOURCES);
    let message = told(name);
    assert!(message.contains("ran for longer than SPIRULA_TIMEOUT allows"), "{message}");
    machine.works()
}

fn loops() -> Outcome {
    limited("loops", || {
        let machine = machine_of(SOURCE, "")?;
        let kernel = Kernel::new(&machine.program, "endless")?;
        let buffer = Buffer::copy_of(&machine.context, &[0_i32; 65])?;
        kernel.set_object(0, Some(&buffer))?;
        for (groups, group) in [(1, 0), (10_000, 0), (10_000, 9_999)] {
            kernel.set(1, group)?;
            must_end(&machine, &kernel, "endless", groups, 1)?;
        }
        // In nobody's group it ends by itself.
        kernel.set(1, -1)?;
        machine.queues[0].launch(&kernel, NdRange::new(&[10_000], &[1]))?;
        Ok(machine.queues[0].finish()?)
    })
}

fn loops_over_barriers() -> Outcome {
    limited("loops_over_barriers", || {
        let machine = machine_of(SOURCE, "")?;
        let kernel = Kernel::new(&machine.program, "meeting")?;
        let buffer = Buffer::copy_of(&machine.context, &[0_i32; 65])?;
        kernel.set_object(0, Some(&buffer))?;
        kernel.set_local(1, 4 * 64)?;
        must_end(&machine, &kernel, "meeting", 64 * 100, 64)
    })
}

/// Nearly all of its time it is in a function of the C library.
fn loops_over_copies() -> Outcome {
    limited("loops_over_copies", || {
        let machine = machine_of(SOURCE, "")?;
        let kernel = Kernel::new(&machine.program, "copying")?;
        let bytes = 32 << 20;
        let buffer = Buffer::copy_of(&machine.context, &vec![0_u8; bytes])?;
        kernel.set_object(0, Some(&buffer))?;
        kernel.set(1, bytes as u64)?;
        must_end(&machine, &kernel, "copying", 1, 1)
    })
}

/// Nobody hangs who releases all that a launch without an end is of.
fn what_is_released() -> Outcome {
    limited("what_is_released", || {
        let machine = machine_of(SOURCE, "")?;
        let kernel = Kernel::new(&machine.program, "endless")?;
        let buffer = Buffer::copy_of(&machine.context, &[0_i32; 65])?;
        kernel.set_object(0, Some(&buffer))?;
        kernel.set(1, 0)?;
        let event = launch(&machine.queues[1], &kernel, 1, 1)?;
        drop((machine, kernel, buffer));
        assert_eq!(failure(&event)?, CL_OUT_OF_RESOURCES);
        Ok(())
    })
}

/// Each of them ends soon.
fn kernels_that_enqueue_themselves() -> Outcome {
    limited("kernels_that_enqueue_themselves", || {
        let source = "void more(global int *p);
        void more(global int *p) {
            atomic_inc(p);
            enqueue_kernel(get_default_queue(), CLK_ENQUEUE_FLAGS_WAIT_KERNEL, ndrange_1D(1), ^{ more(p); });
        }
        kernel void family(global int *p) { more(p); }
        kernel void good(global int *p) { p[get_global_id(0)] += 1; }";
        of_device_queues(source, "ran for longer than SPIRULA_TIMEOUT allows")
    })
}

fn kernels_that_wait_for_nobody() -> Outcome {
    limited("kernels_that_wait_for_nobody", || {
        let source = "kernel void family(global int *p) {
            clk_event_t never = create_user_event();
            enqueue_kernel(get_default_queue(), CLK_ENQUEUE_FLAGS_NO_WAIT, ndrange_1D(1), 1, &never, 0, ^{ *p = 1; });
        }
        kernel void good(global int *p) { p[get_global_id(0)] += 1; }";
        of_device_queues(source, "waited for an event for longer than SPIRULA_TIMEOUT allows")
    })
}

/// The kernel `family` must end with these words.
fn of_device_queues(source: &str, words: &str) -> Outcome {
    let machine = machine_of(source, "-cl-std=CL2.0")?;
    let _default = Queue::on_device(&machine.context, Device::first())?;
    let kernel = Kernel::new(&machine.program, "family")?;
    let buffer = Buffer::copy_of(&machine.context, &[0_i32; 1])?;
    kernel.set_object(0, Some(&buffer))?;
    for _ in 0..2 {
        let event = launch(&machine.queues[0], &kernel, 1, 1)?;
        assert!(failure(&event)? < 0);
        let message = told_with(words);
        assert!(message.contains("CL_OUT_OF_RESOURCES"), "{message}");
        machine.works()?;
    }
    Ok(())
}
