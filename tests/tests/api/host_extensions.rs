//! Small extensions of the host: queues with properties, names of devices and drivers, versions, suggested local sizes.

use crate::setup::{Setup, function, program_of_2_0, setup_with, status, tests};
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{Buffer, Device, Kernel, NdRange, Object, Queue};
use spirula_tests::dispatch::table;
use spirula_tests::isolate::Outcome;
use std::collections::BTreeSet;
use std::ptr::null;

tests![queues_with_properties, names_of_devices_and_drivers, versions_of_extensions, suggested_local_sizes];

type CreateQueue =
    unsafe extern "C" fn(cl_context, cl_device_id, *const u64, *mut cl_int) -> cl_command_queue;
type Suggest = unsafe extern "C" fn(
    cl_command_queue,
    cl_kernel,
    cl_uint,
    *const usize,
    *const usize,
    *mut usize,
) -> cl_int;

fn queues_with_properties() -> Outcome {
    let setup = setup_with("cl_khr_create_command_queue")?;
    let create: CreateQueue = function(&setup, c"clCreateCommandQueueWithPropertiesKHR");
    let made = |properties: *const u64| {
        let mut code = 0;
        // SAFETY: the lists end with a zero.
        let queue = unsafe { create(setup.context.raw(), setup.device.raw(), properties, &mut code) };
        spirula_tests::cl::check("clCreateCommandQueueWithPropertiesKHR", code)
            .map(|()| Queue::from_raw(queue))
    };
    let name = u64::from(CL_QUEUE_PROPERTIES);
    for wanted in [0, CL_QUEUE_PROFILING_ENABLE, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE] {
        let queue = made([name, wanted, 0].as_ptr())?;
        assert_eq!(queue.info::<u64>(CL_QUEUE_PROPERTIES)?, wanted);
        queue.finish()?;
    }
    made(null())?.finish()?;
    assert_eq!(status(made([1, 1, 0].as_ptr())), "CL_INVALID_VALUE");
    Ok(())
}

fn names_of_devices_and_drivers() -> Outcome {
    let setup = setup_with("cl_khr_device_uuid")?;
    let [device, driver] = [0x106A, 0x106B].map(|name| setup.device.info::<[u8; 16]>(name));
    let (device, driver) = (device?, driver?);
    assert!(device != [0; 16] && driver != [0; 16] && device != driver);
    assert_eq!(Device::first().info::<[u8; 16]>(0x106A)?, device);
    assert_eq!(setup.device.info::<u32>(0x106C)?, CL_FALSE, "nothing but Windows has LUIDs");
    Ok(())
}

fn versions_of_extensions() -> Outcome {
    let setup = setup_with("cl_khr_extended_versioning")?;
    // `cl_name_version`: a number, and a name of 64 bytes.
    let versions: Vec<[u32; 17]> = setup.device.info_list(0x1060)?;
    let named: BTreeSet<String> = versions
        .iter()
        .map(|version| {
            assert!(version[0] > 0);
            let bytes: &[u8] = bytemuck::cast_slice(&version[1..]);
            String::from_utf8(bytes.iter().copied().take_while(|&byte| byte != 0).collect()).expect("a name")
        })
        .collect();
    let list = setup.device.info_string(CL_DEVICE_EXTENSIONS)?;
    assert_eq!(named, list.split_whitespace().map(String::from).collect());
    assert_eq!(named.len(), versions.len());
    // The device's own version begins as its name for people.
    let number = setup.device.info::<u32>(0x105E)?;
    let version = setup.device.info_string(CL_DEVICE_VERSION)?;
    assert!(version.starts_with(&format!("OpenCL {}.{} ", number >> 22, number >> 12 & 0x3FF)), "{version}");
    Ok(())
}

/// The size that is suggested is the one that a launch without a local size has.
fn suggested_local_sizes() -> Outcome {
    let setup: Setup = setup_with("cl_khr_suggested_local_work_size")?;
    let source = "kernel void k(global uint *out) { for (uint d = 0; d < 3; d++) out[d] = get_local_size(d); }\n\
                  kernel __attribute__((reqd_work_group_size(4, 2, 1))) void r(global uint *out)\n\
                  { for (uint d = 0; d < 3; d++) out[d] = get_local_size(d); }";
    let program = program_of_2_0(&setup, source, "-cl-std=CL1.2")?;
    let suggest: Suggest = function(&setup, c"clGetKernelSuggestedLocalWorkSizeKHR");
    // OpenCL 3.1 made it a function of the core, which loaders find in the dispatch table.
    let core = table().clGetKernelSuggestedLocalWorkSize.expect("a function");
    let out = Buffer::new(&setup.context, CL_MEM_READ_WRITE, 12)?;
    let ranges: [&[usize]; 6] = [&[1], &[1000], &[1021], &[64, 48], &[12, 10, 6], &[1 << 16]];
    for (name, global) in ranges.iter().map(|range| ("k", *range)).chain([("r", &[16, 8, 3][..])]) {
        let kernel = Kernel::new(&program, name)?;
        kernel.set_object(0, Some(&out))?;
        let (mut suggested, mut by_core) = ([1usize; 3], [1usize; 3]);
        let (dimensions, offset) = (global.len() as u32, [0usize; 3]);
        let (queue, offset, whole) = (setup.queue.raw(), offset.as_ptr(), global.as_ptr());
        // SAFETY: the lists have room for three.
        let codes = unsafe {
            [
                suggest(queue, kernel.raw(), dimensions, offset, whole, suggested.as_mut_ptr()),
                core(queue, kernel.raw(), dimensions, offset, whole, by_core.as_mut_ptr()),
            ]
        };
        for code in codes {
            spirula_tests::cl::check("clGetKernelSuggestedLocalWorkSize", code)?;
        }
        assert_eq!(suggested, by_core);
        setup.queue.launch(&kernel, NdRange { global, local: None, offset: None })?;
        let mut used = [0u32; 3];
        setup.queue.read(&out, &mut used)?;
        assert_eq!(used.map(|size| size as usize), suggested, "{name} {global:?}");
        assert!(global.iter().zip(suggested).all(|(whole, part)| whole % part == 0), "{name} {global:?}");
    }
    Ok(())
}
