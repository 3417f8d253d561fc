//! Sub-devices: what a device can be parted by, what is refused, and kernels that run on a part.

use crate::setup::{Setup, again, status, tests};
use spirula_tests::call;
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{
    Buffer, CL_PROGRAM_BINARY_TYPE_INTERMEDIATE, Context, Handle, Kernel, Object, Program, Queue, Result,
    SPIR12, query, query_list,
};
use spirula_tests::create;
use spirula_tests::fixtures;
use spirula_tests::isolate::{Failure, Outcome};
use std::ptr::{null, null_mut};

tests![
    queries,
    refusals,
    every_part_runs_kernels,
    lives_of_their_own,
    of_many_units,
    a_program_is_for_its_devices,
    a_build_is_for_its_devices,
    a_build_for_a_device_is_for_its_parts,
];

/// The constants that begin `properties`, in their type.
const EQUALLY: isize = CL_DEVICE_PARTITION_EQUALLY as isize;
const BY_COUNTS: isize = CL_DEVICE_PARTITION_BY_COUNTS as isize;
const BY_DOMAIN: isize = CL_DEVICE_PARTITION_BY_AFFINITY_DOMAIN as isize;

/// Sub-devices, released on drop.
struct Parts(Vec<cl_device_id>);

impl Drop for Parts {
    fn drop(&mut self) {
        for &part in &self.0 {
            let _ = call!(clReleaseDevice(part));
        }
    }
}

fn part(device: Handle, properties: &[isize]) -> Result<Parts> {
    let mut count = 0;
    call!(clCreateSubDevices(device, properties.as_ptr(), 0, null_mut(), &mut count))?;
    let mut parts = vec![null_mut(); count as usize];
    call!(clCreateSubDevices(device, properties.as_ptr(), count, parts.as_mut_ptr(), null_mut()))?;
    Ok(Parts(parts))
}

fn info<T: bytemuck::Pod>(device: Handle, name: cl_uint) -> Result<T> {
    query(|size, value, needed| call!(clGetDeviceInfo(device, name, size, value, needed)))
}

fn list<T: bytemuck::Pod>(device: Handle, name: cl_uint) -> Result<Vec<T>> {
    query_list(|size, value, needed| call!(clGetDeviceInfo(device, name, size, value, needed)))
}

/// A device with two compute units at least.
fn divisible() -> std::result::Result<(Setup, Handle, u32), Failure> {
    let setup = Setup::new();
    let device = setup.device.raw();
    match info::<u32>(device, CL_DEVICE_MAX_COMPUTE_UNITS)? {
        0 | 1 => Err(Failure::Skipped("the device has one compute unit".into())),
        units => Ok((setup, device, units)),
    }
}

/// Ways to part the device in two or more that it says it has.
fn ways(device: Handle, units: u32) -> Result<Vec<Vec<isize>>> {
    let mut ways = vec![vec![EQUALLY, 1, 0], vec![BY_COUNTS, 1, units as isize - 1, 0, 0]];
    let domains = info::<u64>(device, CL_DEVICE_PARTITION_AFFINITY_DOMAIN)?;
    let named = (0..64).filter(|bit| domains >> bit & 1 != 0);
    ways.extend(named.map(|bit| vec![BY_DOMAIN, 1 << bit, 0]));
    Ok(ways)
}

fn queries() -> Outcome {
    let (_setup, device, units) = divisible()?;
    assert_eq!(info::<u32>(device, CL_DEVICE_PARTITION_MAX_SUB_DEVICES)?, units);
    assert_eq!(info::<usize>(device, CL_DEVICE_PARENT_DEVICE)?, 0);
    let kinds: Vec<isize> = list(device, CL_DEVICE_PARTITION_PROPERTIES)?;
    let by_affinity = kinds.contains(&BY_DOMAIN);
    assert_eq!(info::<u64>(device, CL_DEVICE_PARTITION_AFFINITY_DOMAIN)? != 0, by_affinity);
    for way in ways(device, units)? {
        let parts = part(device, &way)?;
        assert!(parts.0.len() > 1, "{way:?}");
        let of = |&part: &cl_device_id| info::<u32>(part, CL_DEVICE_MAX_COMPUTE_UNITS);
        assert!(parts.0.iter().map(of).sum::<Result<u32>>()? <= units);
        for &part in &parts.0 {
            assert_eq!(info::<usize>(part, CL_DEVICE_PARENT_DEVICE)?, device as usize);
            let told: Vec<isize> = list(part, CL_DEVICE_PARTITION_TYPE)?;
            let next = way[1] == CL_DEVICE_AFFINITY_DOMAIN_NEXT_PARTITIONABLE as isize;
            assert!(told == way || next && told[0] == way[0], "{told:?} {way:?}");
        }
    }
    Ok(())
}

fn refusals() -> Outcome {
    let (_setup, device, units) = divisible()?;
    let units = units as isize;
    let refused = |properties: &[isize]| status(part(device, properties));
    assert_eq!(status(call!(clCreateSubDevices(device, null(), 0, null_mut(), &mut 0))), "CL_INVALID_VALUE");
    assert_eq!(refused(&[0]), "CL_INVALID_VALUE");
    assert_eq!(refused(&[1, 2, 0]), "CL_INVALID_VALUE");
    assert_eq!(refused(&[EQUALLY, 0, 0]), "CL_INVALID_VALUE");
    assert_eq!(refused(&[EQUALLY, units + 1, 0]), "CL_INVALID_DEVICE_PARTITION_COUNT");
    assert_eq!(refused(&[EQUALLY, units, 0]), "CL_DEVICE_PARTITION_FAILED");
    let counts = |counts: &[isize]| refused(&[&[BY_COUNTS], counts, &[0, 0]].concat());
    assert_eq!(counts(&[units, 1]), "CL_INVALID_DEVICE_PARTITION_COUNT");
    assert_eq!(counts(&[units + 1]), "CL_INVALID_DEVICE_PARTITION_COUNT");
    assert_eq!(counts(&[-1]), "CL_INVALID_DEVICE_PARTITION_COUNT");
    for domain in [0, 3, 1 << 20] {
        assert_eq!(refused(&[BY_DOMAIN, domain, 0]), "CL_INVALID_VALUE");
    }
    let one_each = [EQUALLY, 1, 0];
    let mut room = [null_mut(); 1];
    let few = call!(clCreateSubDevices(device, one_each.as_ptr(), 1, room.as_mut_ptr(), null_mut()));
    assert_eq!(status(few), "CL_INVALID_VALUE");
    let one = part(device, &one_each)?;
    assert_eq!(status(part(one.0[0], &one_each)), "CL_INVALID_VALUE", "one unit has no parts");
    Ok(())
}

/// Doubles of 1 to which a kernel on this device adds 2, read back.
fn run_on(device: cl_device_id) -> std::result::Result<bool, Failure> {
    const ITEMS: usize = 1 << 20;
    let context = Context::from_raw(create!(clCreateContext(null(), 1, &device, None, null_mut()))?);
    let queue = Queue::from_raw(create!(clCreateCommandQueue(context.raw(), device, 0))?);
    let binary = fixtures::load("spir12/vadd.bc64");
    let (size, bytes) = (binary.len(), binary.as_ptr());
    let program = create!(clCreateProgramWithBinary(context.raw(), 1, &device, &size, &bytes, null_mut()))?;
    let program = Program::from_raw(program);
    program.build(SPIR12)?;
    let kernel = Kernel::new(&program, "daxpy")?;
    let (x, y) = (Buffer::copy_of(&context, &[1f64; ITEMS])?, Buffer::copy_of(&context, &[1f64; ITEMS])?);
    kernel.set_object(0, Some(&x))?;
    kernel.set_object(1, Some(&y))?;
    kernel.set(2, 2f64)?;
    let (q, k, n) = (queue.raw(), kernel.raw(), null());
    call!(clEnqueueNDRangeKernel(q, k, 1, n, &ITEMS, n, 0, null(), null_mut()))?;
    let mut got = vec![0f64; ITEMS];
    queue.read(&y, &mut got)?;
    Ok(got.iter().all(|&value| value == 3.0))
}

fn every_part_runs_kernels() -> Outcome {
    let (_setup, device, units) = divisible()?;
    for way in ways(device, units)? {
        let parts = part(device, &way)?;
        for &part in &parts.0 {
            assert!(run_on(part)?, "{way:?}");
        }
    }
    Ok(())
}

fn lives_of_their_own() -> Outcome {
    let (setup, device, _) = divisible()?;
    let parts = part(device, &[EQUALLY, 1, 0])?;
    let first = parts.0[0];
    let references = || info::<u32>(first, CL_DEVICE_REFERENCE_COUNT);
    assert_eq!(references()?, 1);
    call!(clRetainDevice(first))?;
    assert_eq!(references()?, 2);
    call!(clReleaseDevice(first))?;
    let stranger = create!(clCreateCommandQueue(setup.context.raw(), first, 0));
    assert_eq!(status(stranger), "CL_INVALID_DEVICE", "the context is of the whole device");
    // A context keeps its devices.
    let context = Context::from_raw(create!(clCreateContext(null(), 1, &first, None, null_mut()))?);
    drop(parts);
    assert_eq!(info::<u32>(first, CL_DEVICE_MAX_COMPUTE_UNITS)?, 1);
    Queue::from_raw(create!(clCreateCommandQueue(context.raw(), first, 0))?).finish()?;
    Ok(())
}

/// The same again with more compute units than the machine may have.
fn of_many_units() -> Outcome {
    for test in ["queries", "refusals", "every_part_runs_kernels", "lives_of_their_own"] {
        again(&format!("sub_devices::{test}"), "SPIRULA_THREADS", "5");
    }
    Ok(())
}

/// A program for one part of a device is built, asked about and launched there only.
fn a_program_is_for_its_devices() -> Outcome {
    let (_setup, device, _) = divisible()?;
    let parts = part(device, &[EQUALLY, 1, 0])?;
    let (own, other) = (parts.0[0], parts.0[1]);
    let both = [own, other];
    let context = create!(clCreateContext(null(), 2, both.as_ptr(), None, null_mut()))?;
    let context = Context::from_raw(context);
    let binary = fixtures::load("spir12/vadd.bc64");
    let (length, start, mut loaded) = (binary.len(), binary.as_ptr(), 0);
    let program = create!(clCreateProgramWithBinary(context.raw(), 1, &own, &length, &start, &mut loaded))?;
    let program = Program::from_raw(program);
    let build = |device: &cl_device_id| {
        call!(clBuildProgram(program.raw(), 1, device, c"-x spir -spir-std=1.2".as_ptr(), None, null_mut()))
    };
    assert_eq!(status(build(&other)), "CL_INVALID_DEVICE");
    build(&own)?;
    let state = |device| -> Result<i32> {
        query(|size, value, needed| {
            call!(clGetProgramBuildInfo(program.raw(), device, CL_PROGRAM_BUILD_STATUS, size, value, needed))
        })
    };
    assert_eq!(state(own)?, 0);
    assert_eq!(status(state(other)), "CL_INVALID_DEVICE");
    let kernel = Kernel::new(&program, "daxpy")?;
    let group = |device| -> Result<usize> {
        query(|size, value, needed| {
            call!(clGetKernelWorkGroupInfo(
                kernel.raw(),
                device,
                CL_KERNEL_WORK_GROUP_SIZE,
                size,
                value,
                needed
            ))
        })
    };
    assert!(group(own)? > 0);
    assert_eq!(status(group(other)), "CL_INVALID_DEVICE");
    let queue = Queue::from_raw(create!(clCreateCommandQueue(context.raw(), other, 0))?);
    let one = 1usize;
    let launch = call!(clEnqueueNDRangeKernel(
        queue.raw(),
        kernel.raw(),
        1,
        null(),
        &one,
        null(),
        0,
        null(),
        null_mut()
    ));
    assert_eq!(status(launch), "CL_INVALID_PROGRAM_EXECUTABLE");
    Ok(())
}

/// A program of two devices that is built for one is not built for the other, until it is.
fn a_build_is_for_its_devices() -> Outcome {
    let (_setup, device, _) = divisible()?;
    let parts = part(device, &[EQUALLY, 1, 0])?;
    let both = [parts.0[0], parts.0[1]];
    let context = create!(clCreateContext(null(), 2, both.as_ptr(), None, null_mut()))?;
    let context = Context::from_raw(context);
    let binary = fixtures::load("spir12/vadd.bc64");
    let (lengths, starts, mut loaded) = ([binary.len(); 2], [binary.as_ptr(); 2], [0; 2]);
    let program = Program::from_raw(create!(clCreateProgramWithBinary(
        context.raw(),
        2,
        both.as_ptr(),
        lengths.as_ptr(),
        starts.as_ptr(),
        loaded.as_mut_ptr()
    ))?);
    let state = |device, name| -> Result<i32> {
        query(|size, value, needed| {
            call!(clGetProgramBuildInfo(program.raw(), device, name, size, value, needed))
        })
    };
    let build = |device: &cl_device_id| {
        call!(clBuildProgram(program.raw(), 1, device, c"-x spir".as_ptr(), None, null_mut()))
    };
    let launch = |device, kernel: &Kernel| {
        let queue = create!(clCreateCommandQueue(context.raw(), device, 0)).map(Queue::from_raw)?;
        let one = 1usize;
        let (queue, none) = (queue.raw(), null_mut());
        call!(clEnqueueNDRangeKernel(queue, kernel.raw(), 1, null(), &one, null(), 0, null(), none))
    };
    let (none, success) = (-1, 0);
    build(&both[0])?;
    assert_eq!(state(both[0], CL_PROGRAM_BUILD_STATUS)?, success);
    assert_eq!(state(both[1], CL_PROGRAM_BUILD_STATUS)?, none);
    assert_eq!(state(both[0], CL_PROGRAM_BINARY_TYPE)?, CL_PROGRAM_BINARY_TYPE_EXECUTABLE as i32);
    assert_eq!(state(both[1], CL_PROGRAM_BINARY_TYPE)?, CL_PROGRAM_BINARY_TYPE_INTERMEDIATE as i32);
    {
        let kernel = Kernel::new(&program, "daxpy")?;
        assert_eq!(status(launch(both[1], &kernel)), "CL_INVALID_PROGRAM_EXECUTABLE");
        // It has arguments, which are missing: the program is built here.
        assert_eq!(status(launch(both[0], &kernel)), "CL_INVALID_KERNEL_ARGS");
        // While kernels exist nothing is built, for no device.
        assert_eq!(status(build(&both[1])), "CL_INVALID_OPERATION");
        assert_eq!(state(both[1], CL_PROGRAM_BUILD_STATUS)?, none);
    }
    build(&both[1])?;
    assert_eq!(state(both[1], CL_PROGRAM_BUILD_STATUS)?, success);
    let kernel = Kernel::new(&program, "daxpy")?;
    assert_eq!(status(launch(both[1], &kernel)), "CL_INVALID_KERNEL_ARGS");
    Ok(())
}

/// A program that is built for a device alone runs on its parts, as Khronos's tests have it.
fn a_build_for_a_device_is_for_its_parts() -> Outcome {
    let (_setup, device, _) = divisible()?;
    let parts = part(device, &[EQUALLY, 1, 0])?;
    let all = [parts.0[0], parts.0[1], device];
    let context = create!(clCreateContext(null(), 3, all.as_ptr(), None, null_mut()))?;
    let context = Context::from_raw(context);
    let binary = fixtures::load("spir12/vadd.bc64");
    let (lengths, starts, mut loaded) = ([binary.len(); 3], [binary.as_ptr(); 3], [0; 3]);
    let (list, lengths, starts) = (all.as_ptr(), lengths.as_ptr(), starts.as_ptr());
    let (context, loaded) = (context.raw(), loaded.as_mut_ptr());
    let program = create!(clCreateProgramWithBinary(context, 3, list, lengths, starts, loaded))?;
    let program = Program::from_raw(program);
    call!(clBuildProgram(program.raw(), 1, &device, c"-x spir".as_ptr(), None, null_mut()))?;
    let kernel = Kernel::new(&program, "daxpy")?;
    for device in all {
        let state: i32 = query(|size, value, needed| {
            let name = CL_PROGRAM_BUILD_STATUS;
            call!(clGetProgramBuildInfo(program.raw(), device, name, size, value, needed))
        })?;
        assert_eq!(state, 0);
        let queue = create!(clCreateCommandQueue(context, device, 0)).map(Queue::from_raw)?;
        let (one, kernel, none) = (1usize, kernel.raw(), null_mut());
        let launch =
            call!(clEnqueueNDRangeKernel(queue.raw(), kernel, 1, null(), &one, null(), 0, null(), none));
        // It has arguments, which are missing: the program is built here.
        assert_eq!(status(launch), "CL_INVALID_KERNEL_ARGS");
    }
    Ok(())
}
