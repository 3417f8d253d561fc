//! The device of 32 bits: what it takes and refuses, and its memory.

use crate::escapes::linear_memories;
use crate::faults::{Machine, machine_of};
use crate::setup::{Setup, again_with, status, tests};
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{Buffer, Context, Device, Kernel, NdRange, Object, Platform, Program, Queue, SPIR12};
use spirula_tests::isolate::{Failure, Outcome, Test};
use spirula_tests::{call, create, fixtures};
use std::ptr::{null, null_mut};

/// This module's tests; those of the device itself in the isolated mode, too.
pub fn on_the_device() -> Vec<Test> {
    let is_of_several = |name: &str| name.ends_with("_by_default") || name.ends_with("_on_both");
    let (others, own): (Vec<Test>, Vec<Test>) =
        tests().into_iter().partition(|test| is_of_several(&test.name));
    let own: Vec<Test> = own.iter().map(Test::on_32_bits).collect();
    let isolated: Vec<Test> = own.iter().map(Test::isolated).collect();
    [others, own, isolated].into_iter().flatten().collect()
}

tests![
    what_the_device_says,
    modules_of_64_bits_are_refused,
    memory_comes_back,
    memory_of_the_application_is_copied,
    shared_virtual_memory,
    what_is_not_there_is_refused_by_name,
    there_is_none_by_default,
    devices_on_both,
];

const SOURCE: &str = "kernel void good(global int *p) { p[get_global_id(0)] += 1; }";

fn machine() -> Result<Machine, Failure> {
    machine_of(SOURCE, "")
}

fn what_the_device_says() -> Outcome {
    let device = Device::first();
    assert_eq!(device.info::<u32>(CL_DEVICE_ADDRESS_BITS)?, 32);
    assert!(device.info::<u64>(CL_DEVICE_GLOBAL_MEM_SIZE)? < 1 << 32);
    Ok(())
}

fn modules_of_64_bits_are_refused() -> Outcome {
    let setup = Setup::new();
    let program = Program::from_binary(&setup.context, setup.device, &fixtures::load("spir12/vadd.bc64"))?;
    assert_eq!(status(program.build(SPIR12)), "CL_INVALID_BINARY");
    let log = program.log(setup.device)?;
    let words = "a 64-bit module (triple spir64-unknown-unknown) on a 32-bit device";
    assert!(log.contains(words), "{log}");
    setup.load("spir12/vadd.bc32")?.build(SPIR12)?;
    Ok(())
}

fn there_is_none_by_default() -> Outcome {
    let setup = Setup::new();
    assert_eq!(setup.device.info::<u32>(CL_DEVICE_ADDRESS_BITS)?, 64);
    let program = Program::from_binary(&setup.context, setup.device, &fixtures::load("spir12/vadd.bc32"))?;
    assert_eq!(status(program.build(SPIR12)), "CL_INVALID_BINARY");
    let log = program.log(setup.device)?;
    assert!(log.contains("a 32-bit module (triple spir-unknown-unknown) on a 64-bit device"), "{log}");
    Ok(())
}

fn devices_on_both() -> Outcome {
    if std::env::var_os("SPIRULA_DEVICES").is_none() {
        again_with("linear_memory::devices_on_both", &[("SPIRULA_DEVICES", "cpu64,cpu32")]);
        return Ok(());
    }
    let platforms = Platform::all()?;
    let devices = platforms[0].devices()?;
    let bits: Vec<u32> =
        devices.iter().map(|device| device.info(CL_DEVICE_ADDRESS_BITS)).collect::<Result<_, _>>()?;
    assert_eq!(bits, [64, 32]);
    for (&device, file) in devices.iter().zip(["spir12/vadd.bc64", "spir12/vadd.bc32"]) {
        let context = Context::new(device)?;
        Program::from_binary(&context, device, &fixtures::load(file))?.build(SPIR12)?;
    }
    let mut count = 0;
    call!(clGetDeviceIDs(platforms[0].raw(), CL_DEVICE_TYPE_DEFAULT, 0, null_mut(), &mut count))?;
    assert_eq!(count, 1);
    Ok(())
}

/// So much more than 4 GiB, by and by.
fn memory_comes_back() -> Outcome {
    let machine = machine()?;
    for round in 0..12 {
        let size = (512 << 20) - 4096 * round;
        let mut buffers = Vec::new();
        for _ in 0..3 {
            let flags = CL_MEM_READ_WRITE;
            let raw = create!(clCreateBuffer(machine.context.raw(), flags, size, null_mut()))?;
            buffers.push(Buffer::from_raw(raw));
        }
        machine.works()?;
    }
    let too_large = create!(clCreateBuffer(machine.context.raw(), CL_MEM_READ_WRITE, 3 << 30, null_mut()));
    assert_eq!(status(too_large), "CL_INVALID_BUFFER_SIZE");
    // Contexts have memories of their own.
    for _ in 0..20 {
        Context::new(Device::first())?;
    }
    assert!(linear_memories().len() <= 2, "{:x?}", linear_memories());
    Ok(())
}

fn memory_of_the_application_is_copied() -> Outcome {
    let machine = machine()?;
    let mut own = vec![7_i32; 4096];
    let (flags, bytes) = (CL_MEM_READ_WRITE | CL_MEM_USE_HOST_PTR, own.len() * 4);
    let raw = create!(clCreateBuffer(machine.context.raw(), flags, bytes, own.as_mut_ptr().cast()))?;
    let buffer = Buffer::from_raw(raw);
    let kernel = Kernel::new(&machine.program, "good")?;
    kernel.set_object(0, Some(&buffer))?;
    machine.queues[0].launch(&kernel, NdRange::new(&[4096], &[64]))?;
    let queue: &Queue = &machine.queues[0];
    let mapped = create!(clEnqueueMapBuffer(
        queue.raw(),
        buffer.raw(),
        CL_TRUE,
        CL_MAP_READ,
        0,
        bytes,
        0,
        null(),
        null_mut()
    ))?;
    assert_eq!(mapped, own.as_mut_ptr().cast());
    assert!(own.iter().all(|&number| number == 8));
    call!(clEnqueueUnmapMemObject(queue.raw(), buffer.raw(), mapped, 0, null(), null_mut()))?;
    Ok(queue.finish()?)
}

/// Pointers of the application's mean nothing to kernels: what is about them is refused, as OpenCL 3.0 says of devices without it.
fn shared_virtual_memory() -> Outcome {
    let machine = machine()?;
    let device = Device::first();
    for capabilities in [CL_DEVICE_SVM_CAPABILITIES, 0x4190, 0x4191, 0x4192, 0x4193, 0x4194] {
        assert_eq!(device.info::<u64>(capabilities)?, 0, "{capabilities:#x}");
    }
    assert!(!device.info_string(CL_DEVICE_EXTENSIONS)?.contains("cl_intel_unified_shared_memory"));
    let (context, queue) = (machine.context.raw(), machine.queues[0].raw());
    // SAFETY: a context.
    assert!(unsafe { clSVMAlloc(context, CL_MEM_READ_WRITE, 4096, 0) }.is_null());
    let mut own = [7_u8; 64];
    let (memory, none, no_event) = (own.as_mut_ptr().cast::<c_void>(), null(), null_mut());
    let (list, kernel) = ([memory.cast_const()], Kernel::new(&machine.program, "good")?);
    let flag = CL_TRUE;
    let value = (&raw const flag).cast();
    for (what, result) in [
        ("fill", call!(clEnqueueSVMMemFill(queue, memory, value, 4, 64, 0, none, no_event))),
        ("copy", call!(clEnqueueSVMMemcpy(queue, CL_TRUE, memory, memory, 32, 0, none, no_event))),
        ("map", call!(clEnqueueSVMMap(queue, CL_TRUE, CL_MAP_READ, memory, 64, 0, none, no_event))),
        ("unmap", call!(clEnqueueSVMUnmap(queue, memory, 0, none, no_event))),
        ("migrate", call!(clEnqueueSVMMigrateMem(queue, 1, list.as_ptr(), null(), 0, 0, none, no_event))),
        ("free", call!(clEnqueueSVMFree(queue, 1, list.as_ptr(), None, null_mut(), 0, none, no_event))),
        ("argument", call!(clSetKernelArgSVMPointer(kernel.raw(), 0, memory))),
        ("pointers", call!(clSetKernelExecInfo(kernel.raw(), CL_KERNEL_EXEC_INFO_SVM_PTRS, 0, null()))),
    ] {
        assert_eq!(status(result), "CL_INVALID_OPERATION", "{what}");
    }
    // SAFETY: nothing is freed that was not allocated.
    unsafe { clSVMFree(context, memory) };
    machine.queues[0].finish()?;
    assert_eq!(own, [7; 64]);
    Ok(())
}

fn what_is_not_there_is_refused_by_name() -> Outcome {
    let setup = Setup::new();
    let kernel = setup.kernel("spir12/vadd.bc32", "copy_uchar");
    let huge = [1_usize << 33];
    let refused = setup.queue.launch(&kernel, NdRange::new(&huge, &[64]));
    assert_eq!(status(refused), "CL_INVALID_GLOBAL_WORK_SIZE");
    Ok(())
}
