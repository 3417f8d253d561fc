//! Unified shared memory (cl_intel_unified_shared_memory): allocation, what is told about addresses, commands, kernels that follow
//! pointers, and what is refused.

use crate::setup::{Setup, function, setup_with, status, tests};
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{Error, Event, NdRange, Object};
use spirula_tests::isolate::{Failure, Outcome};
use std::ptr::{null, null_mut};

tests![capabilities, allocations, what_is_known, commands, kernels_follow_pointers, freeing_waits];

type Properties = *const u64;
type AllocHost = unsafe extern "C" fn(cl_context, Properties, usize, cl_uint, *mut cl_int) -> *mut c_void;
type AllocOnDevice =
    unsafe extern "C" fn(cl_context, cl_device_id, Properties, usize, cl_uint, *mut cl_int) -> *mut c_void;
type Free = unsafe extern "C" fn(cl_context, *mut c_void) -> cl_int;
type Info =
    unsafe extern "C" fn(cl_context, *const c_void, cl_uint, usize, *mut c_void, *mut usize) -> cl_int;
type SetPointer = unsafe extern "C" fn(cl_kernel, cl_uint, *const c_void) -> cl_int;
type Fill = unsafe extern "C" fn(
    cl_command_queue,
    *mut c_void,
    *const c_void,
    usize,
    usize,
    cl_uint,
    *const cl_event,
    *mut cl_event,
) -> cl_int;
type Copy = unsafe extern "C" fn(
    cl_command_queue,
    cl_bool,
    *mut c_void,
    *const c_void,
    usize,
    cl_uint,
    *const cl_event,
    *mut cl_event,
) -> cl_int;
type Hint = unsafe extern "C" fn(
    cl_command_queue,
    *const c_void,
    usize,
    u64,
    cl_uint,
    *const cl_event,
    *mut cl_event,
) -> cl_int;

const FLAGS: u64 = 0x4195;
const UNKNOWN: u32 = 0x4196;
const HOST: u32 = 0x4197;
const DEVICE: u32 = 0x4198;
const SHARED: u32 = 0x4199;
const TYPE: u32 = 0x419A;
const BASE: u32 = 0x419B;
const SIZE: u32 = 0x419C;
const OWNER: u32 = 0x419D;

fn ready() -> Result<Setup, Failure> {
    setup_with("cl_intel_unified_shared_memory")
}

fn checked(code: cl_int) -> Result<(), Error> {
    spirula_tests::cl::check("a function of cl_intel_unified_shared_memory", code)
}

/// An allocation of each kind by its number, or the error.
fn allocate(
    setup: &Setup,
    kind: u32,
    flags: Option<u64>,
    size: usize,
    alignment: u32,
) -> Result<*mut u8, Error> {
    let (context, device) = (setup.context.raw(), setup.device.raw());
    let list = flags.map(|flags| [FLAGS, flags, 0]);
    let list = list.as_ref().map_or(null(), |list| list.as_ptr());
    let mut code = 0;
    // SAFETY: the objects live; the list ends with a zero; everything else the API must check.
    let pointer = unsafe {
        match kind {
            HOST => function::<AllocHost>(setup, c"clHostMemAllocINTEL")(
                context, list, size, alignment, &mut code,
            ),
            _ => {
                let name = if kind == DEVICE { c"clDeviceMemAllocINTEL" } else { c"clSharedMemAllocINTEL" };
                function::<AllocOnDevice>(setup, name)(context, device, list, size, alignment, &mut code)
            }
        }
    };
    checked(code)?;
    assert!(!pointer.is_null());
    Ok(pointer.cast())
}

fn free(setup: &Setup, pointer: *mut u8) -> Result<(), Error> {
    // SAFETY: the context lives; no command uses the memory any more.
    checked(unsafe { function::<Free>(setup, c"clMemFreeINTEL")(setup.context.raw(), pointer.cast()) })
}

fn info(setup: &Setup, pointer: *const u8, name: u32) -> Result<usize, Error> {
    let (mut value, mut size) = (0usize, 0);
    let to = (&raw mut value).cast();
    let get: Info = function(setup, c"clGetMemAllocInfoINTEL");
    // SAFETY: there is room for the eight bytes of the largest answer.
    checked(unsafe { get(setup.context.raw(), pointer.cast(), name, size_of::<usize>(), to, &mut size) })?;
    assert_eq!(size, if name == TYPE { 4 } else { 8 });
    Ok(value)
}

fn capabilities() -> Outcome {
    let setup = ready()?;
    let system = setup.device.info::<u64>(CL_DEVICE_SVM_CAPABILITIES)? & CL_DEVICE_SVM_FINE_GRAIN_SYSTEM != 0;
    for kind in 0x4190..=0x4193 {
        assert_eq!(setup.device.info::<u64>(kind)?, 0xF, "{kind:#x}");
    }
    assert_eq!(setup.device.info::<u64>(0x4194)?, if system { 0xF } else { 0 });
    Ok(())
}

fn allocations() -> Outcome {
    let setup = ready()?;
    for kind in [HOST, DEVICE, SHARED] {
        for alignment in [0, 1, 64, 4096] {
            let pointer = allocate(&setup, kind, None, 1000, alignment)?;
            assert!(pointer.addr().is_multiple_of(alignment.max(1) as usize));
            // SAFETY: 1000 bytes that nobody else uses.
            unsafe { pointer.write_bytes(7, 1000) };
            free(&setup, pointer)?;
        }
        let fails = |flags, size, alignment| status(allocate(&setup, kind, flags, size, alignment));
        let most = setup.device.info::<u64>(CL_DEVICE_MAX_MEM_ALLOC_SIZE)? as usize;
        assert_eq!([fails(None, 0, 0), fails(None, most + 1, 0)], ["CL_INVALID_BUFFER_SIZE"; 2]);
        assert_eq!(fails(None, 8, 3), "CL_INVALID_VALUE");
        assert_eq!(fails(Some(1 << 40), 8, 0), "CL_INVALID_PROPERTY");
        assert_eq!(fails(Some(0b110), 8, 0), "CL_INVALID_PROPERTY", "two initial placements");
        free(&setup, allocate(&setup, kind, Some(1), 8, 0)?)?;
    }
    free(&setup, null_mut())?;
    let pointer = allocate(&setup, SHARED, Some(0b10), 8, 0)?;
    assert_eq!(status(free(&setup, pointer.wrapping_add(1))), "CL_INVALID_VALUE");
    free(&setup, pointer)?;
    assert_eq!(status(free(&setup, pointer)), "CL_INVALID_VALUE", "it is gone");
    Ok(())
}

fn what_is_known() -> Outcome {
    let setup = ready()?;
    for kind in [HOST, DEVICE, SHARED] {
        let pointer = allocate(&setup, kind, Some(1), 100, 0)?;
        let owner = if kind == HOST { 0 } else { setup.device.raw().addr() };
        for inside in [0, 99] {
            let told = [TYPE, BASE, SIZE, OWNER, FLAGS as u32]
                .map(|name| info(&setup, pointer.wrapping_add(inside), name));
            let told = told.into_iter().collect::<Result<Vec<_>, _>>()?;
            assert_eq!(told, [kind as usize, pointer.addr(), 100, owner, 1]);
        }
        assert_eq!(info(&setup, pointer.wrapping_add(100), TYPE)?, UNKNOWN as usize);
        free(&setup, pointer)?;
        assert_eq!(info(&setup, pointer, TYPE)?, UNKNOWN as usize);
    }
    let own = [0u8; 8];
    assert_eq!(
        [TYPE, BASE, SIZE].map(|name| info(&setup, own.as_ptr(), name).ok()),
        [Some(UNKNOWN as usize), Some(0), Some(0)]
    );
    assert_eq!(status(info(&setup, own.as_ptr(), 1)), "CL_INVALID_VALUE");
    Ok(())
}

fn commands() -> Outcome {
    let setup = ready()?;
    let queue = setup.queue.raw();
    let (device, shared) = (allocate(&setup, DEVICE, None, 64, 0)?, allocate(&setup, SHARED, None, 64, 0)?);
    let fill: Fill = function(&setup, c"clEnqueueMemFillINTEL");
    let copy: Copy = function(&setup, c"clEnqueueMemcpyINTEL");
    let hints =
        [c"clEnqueueMigrateMemINTEL", c"clEnqueueMemAdviseINTEL"].map(|name| function::<Hint>(&setup, name));
    let pattern = [1f32, 2.0];
    let mut events = [null_mut(); 4];
    let [filled, copied, moved, advised] = &mut events;
    // SAFETY: both allocations have 64 bytes, the pattern eight; each command waits for the one before.
    unsafe {
        checked(fill(queue, device.cast(), pattern.as_ptr().cast(), 8, 64, 0, null(), filled))?;
        checked(copy(queue, CL_FALSE, shared.cast(), device.cast(), 64, 1, filled, copied))?;
        checked(hints[0](queue, shared.cast(), 64, 0, 0, null(), moved))?;
        checked(hints[1](queue, shared.cast(), 64, 0, 0, null(), advised))?;
    }
    setup.queue.finish()?;
    // SAFETY: 64 bytes that no command uses any more.
    assert_eq!(unsafe { shared.cast::<[f32; 4]>().read() }, [1.0, 2.0, 1.0, 2.0]);
    for (event, command) in events.into_iter().zip([0x4204, 0x4205, 0x4206, 0x4207]) {
        assert_eq!(Event::from_raw(event).info::<u32>(CL_EVENT_COMMAND_TYPE)?, command);
    }
    // SAFETY: the API must check the rest.
    let codes = unsafe {
        [
            fill(queue, null_mut(), pattern.as_ptr().cast(), 8, 64, 0, null(), null_mut()),
            fill(queue, device.cast(), pattern.as_ptr().cast(), 3, 9, 0, null(), null_mut()),
            copy(queue, CL_TRUE, shared.cast(), null(), 8, 0, null(), null_mut()),
            hints[0](queue, shared.cast(), 64, 1 << 30, 0, null(), null_mut()),
            hints[1](queue, null(), 64, 0, 0, null(), null_mut()),
        ]
    };
    assert_eq!(codes, [CL_INVALID_VALUE; 5]);
    // SAFETY: as above; the two stretches share half of their bytes.
    let overlapping =
        unsafe { copy(queue, CL_TRUE, shared.cast(), shared.add(16).cast(), 32, 0, null(), null_mut()) };
    assert_eq!(overlapping, CL_MEM_COPY_OVERLAP);
    free(&setup, device)?;
    free(&setup, shared)?;
    Ok(())
}

/// c = a + b of three kinds of memory.
fn kernels_follow_pointers() -> Outcome {
    let setup = ready()?;
    let kernel = setup.kernel("spir12/vadd.bc64", "vadd");
    let set: SetPointer = function(&setup, c"clSetKernelArgMemPointerINTEL");
    let memory = [HOST, DEVICE, SHARED].map(|kind| allocate(&setup, kind, None, 256, 0));
    let memory = memory.into_iter().collect::<Result<Vec<_>, _>>()?;
    for (index, &pointer) in memory.iter().enumerate() {
        // SAFETY: 256 bytes that nobody else uses; the kernel lives.
        unsafe {
            pointer.cast::<[f32; 64]>().write([index as f32 + 1.0; 64]);
            checked(set(kernel.raw(), index as u32, pointer.cast()))?;
        }
    }
    let flag = CL_TRUE;
    for access in 0x4200..=0x4202 {
        spirula_tests::call!(clSetKernelExecInfo(kernel.raw(), access, 4, (&raw const flag).cast()))?;
    }
    spirula_tests::call!(clSetKernelExecInfo(kernel.raw(), 0x4203, 8, memory.as_ptr().cast()))?;
    setup.queue.launch(&kernel, NdRange::new(&[64], &[16]))?;
    setup.queue.finish()?;
    // SAFETY: the launch has ended.
    assert_eq!(unsafe { memory[2].cast::<[f32; 64]>().read() }, [3.0; 64]);
    memory.into_iter().try_for_each(|pointer| free(&setup, pointer))?;
    Ok(())
}

/// A command that waits for an event of the user's holds up the freeing of what it uses.
fn freeing_waits() -> Outcome {
    let setup = ready()?;
    let shared = allocate(&setup, SHARED, None, 1 << 20, 0)?;
    let fill: Fill = function(&setup, c"clEnqueueMemFillINTEL");
    let blocking: Free = function(&setup, c"clMemBlockingFreeINTEL");
    let gate = Event::user(&setup.context)?;
    let (pattern, mut filled) = (9u8, null_mut());
    let list = gate.raw();
    // SAFETY: the memory has so many bytes, and is freed when the command has ended.
    checked(unsafe {
        fill(setup.queue.raw(), shared.cast(), (&raw const pattern).cast(), 1, 1 << 20, 1, &list, &mut filled)
    })?;
    let filled = Event::from_raw(filled);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(std::time::Duration::from_millis(20));
            gate.set_status(CL_COMPLETE).expect("a user event");
        });
        // SAFETY: the context lives.
        checked(unsafe { blocking(setup.context.raw(), shared.cast()) })
    })?;
    assert_eq!(filled.status()?, CL_COMPLETE);
    assert_eq!(info(&setup, shared, TYPE)?, UNKNOWN as usize);
    Ok(())
}
