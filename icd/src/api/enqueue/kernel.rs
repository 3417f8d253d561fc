//! Launching kernels and native functions (OpenCL 1.2, 5.8).

use super::{submit, wait_list};
use crate::abi::{Handle, Handles, HostMut, In, Out};
use crate::api::event::Event;
use crate::api::kernel::Kernel;
use crate::api::memory::Mem;
use crate::api::queue::Queue;
use crate::callback::NativeKernel;
use crate::error::{OrFail, Status, fail, fail_if};
use opencl_sys as cl;
use spirula_runtime::command::{Command, Template, ndrange};
use spirula_runtime::kernel::Kernel as Core;
use std::ffi::c_void;
use std::sync::Arc;

/// CL_INVALID_CONTEXT if the context associated with command_queue and kernel is not the same; else the kernel for that device.
fn of_queue<'k>(queue: &Queue, kernel: &'k Kernel) -> Status<&'k Arc<Core>> {
    let same = Arc::ptr_eq(&queue.host()?.context, &kernel.core().program.context);
    fail_if(!same, cl::CL_INVALID_CONTEXT, "command_queue and kernel are of different contexts")?;
    // CL_INVALID_PROGRAM_EXECUTABLE if there is no successfully built program executable available for device associated
    // with command_queue.
    let is_for = kernel.program.is_asked_for(&queue.device);
    fail_if(
        !is_for,
        cl::CL_INVALID_PROGRAM_EXECUTABLE,
        "the kernel's program was not built for the queue's device",
    )?;
    kernel.of(&queue.host()?.device)
}

/// How many values the sizes of a launch have.
fn dimensions(work_dim: u32) -> Status<usize> {
    match work_dim {
        1..=3 => Ok(work_dim as usize),
        _ => fail(cl::CL_INVALID_WORK_DIMENSION, format!("work_dim is {work_dim}, not 1, 2 or 3")),
    }
}

/// What clCommandNDRangeKernelKHR records for a command-buffer of this queue: a launch with these offsets, global and local sizes,
/// and the arguments that the kernel has now. Errors as [`ndrange`].
pub(in crate::api) fn launching(
    queue: &Queue,
    kernel: &Kernel,
    work_dim: u32,
    (offset, global, local): (&In<usize>, &In<usize>, &In<usize>),
) -> Status<impl Template> {
    let kernel = of_queue(queue, kernel)?;
    let dimensions = dimensions(work_dim)?;
    let global = global.list(dimensions).unwrap_or_else(|| vec![0; dimensions]);
    let (offset, local) = (offset.list(dimensions), local.list(dimensions));
    Ok(ndrange::template(kernel.clone(), queue.host()?.device.clone(), offset, global, local))
}

/// clEnqueueNDRangeKernel.
#[allow(clippy::too_many_arguments)]
pub fn ndrange(
    command_queue: Handle<Queue>,
    kernel: Handle<Kernel>,
    work_dim: u32,
    global_work_offset: In<usize>,
    global_work_size: In<usize>,
    local_work_size: In<usize>,
    num_events: u32,
    event_wait_list: Handles<Event>,
    event: Out<*mut c_void>,
) -> Status {
    let queue = command_queue.get()?;
    let kernel = kernel.get()?;
    let kernel = of_queue(&queue, &kernel)?;
    let wait = wait_list(num_events, &event_wait_list)?;
    let dimensions = dimensions(work_dim)?;
    // "If global_work_size is NULL, or the value in any passed dimension is 0 then the kernel command will trivially succeed
    // after its event dependencies are satisfied" (since OpenCL 2.1).
    let global = global_work_size.few::<3>(dimensions);
    let global = global.as_deref().unwrap_or(&[0; 3][..dimensions]);
    let (offset, local) = (global_work_offset.few::<3>(dimensions), local_work_size.few::<3>(dimensions));
    let device = &queue.host()?.device;
    let command = ndrange::ndrange(kernel, device, offset.as_deref(), global, local.as_deref())?;
    submit(&queue, command, &wait, cl::CL_FALSE, &event)
}

/// clGetKernelSuggestedLocalWorkSizeKHR (cl_khr_suggested_local_work_size): what a NULL local_work_size would get.
pub fn suggested_local_work_size(
    command_queue: Handle<Queue>,
    kernel: Handle<Kernel>,
    work_dim: u32,
    global_work_offset: In<usize>,
    global_work_size: In<usize>,
    suggested_local_work_size: Out<usize>,
) -> Status {
    let queue = command_queue.get()?;
    let kernel = kernel.get()?;
    let kernel = of_queue(&queue, &kernel)?;
    // CL_INVALID_WORK_DIMENSION, CL_INVALID_GLOBAL_WORK_SIZE, CL_INVALID_GLOBAL_OFFSET, CL_INVALID_KERNEL_ARGS as launching.
    let dimensions = dimensions(work_dim)?;
    let global = global_work_size.list(dimensions);
    let global = global.or_fail(cl::CL_INVALID_GLOBAL_WORK_SIZE, "global_work_size is NULL")?;
    let nowhere = suggested_local_work_size.is_null();
    fail_if(nowhere, cl::CL_INVALID_VALUE, "suggested_local_work_size is NULL")?;
    let offset = global_work_offset.list(dimensions);
    let local = ndrange::suggest(kernel, &queue.host()?.device, offset.as_deref(), &global)?;
    suggested_local_work_size.write_list(&local[..dimensions]);
    Ok(())
}

/// clEnqueueTask.
pub fn task(
    command_queue: Handle<Queue>,
    kernel: Handle<Kernel>,
    num_events: u32,
    event_wait_list: Handles<Event>,
    event: Out<*mut c_void>,
) -> Status {
    let queue = command_queue.get()?;
    let kernel = kernel.get()?;
    let kernel = of_queue(&queue, &kernel)?;
    let wait = wait_list(num_events, &event_wait_list)?;
    let command = ndrange::task(kernel, &queue.host()?.device)?;
    submit(&queue, command, &wait, cl::CL_FALSE, &event)
}

/// clEnqueueNativeKernel.
#[allow(clippy::too_many_arguments)]
pub fn native(
    command_queue: Handle<Queue>,
    user_func: NativeKernel,
    args: HostMut,
    cb_args: usize,
    num_mem_objects: u32,
    mem_list: Handles<Mem>,
    args_mem_loc: Out<*const c_void>,
    num_events: u32,
    event_wait_list: Handles<Event>,
    event: Out<*mut c_void>,
) -> Status {
    let queue = command_queue.get()?;
    let invalid = cl::CL_INVALID_VALUE;
    // CL_INVALID_OPERATION if the device associated with command_queue cannot execute the native kernel.
    fail_if(
        queue.host()?.device.info.is_confined(),
        cl::CL_INVALID_OPERATION,
        "the device's kernels are confined to their context's memory; nothing of the application's runs as one",
    )?;
    fail_if(user_func.is_null(), invalid, "user_func is NULL")?;
    let needed = cb_args > 0 || num_mem_objects > 0;
    fail_if(args.is_null() && needed, invalid, "args is NULL, but cb_args or num_mem_objects is not 0")?;
    fail_if(!args.is_null() && cb_args == 0, invalid, "args is not NULL, but cb_args is 0")?;
    let none = num_mem_objects == 0;
    fail_if(
        mem_list.is_null() != none || args_mem_loc.is_null() != none,
        invalid,
        "mem_list or args_mem_loc is NULL where num_mem_objects is not 0, or the other way round",
    )?;
    let objects = mem_list.get(num_mem_objects)?;
    let other = objects.iter().any(|object| !object.core.is_buffer());
    fail_if(other, cl::CL_INVALID_MEM_OBJECT, "an object in mem_list is no buffer")?;
    let wait = wait_list(num_events, &event_wait_list)?;

    // The function gets a copy of its arguments with the buffers' addresses where the application has put their handles.
    let mut copy = args.as_const().bytes(cb_args).map(<[u8]>::to_vec).unwrap_or_default();
    let places = args_mem_loc.as_in().list(objects.len()).unwrap_or_default();
    for (object, place) in objects.iter().zip(places) {
        let offset = place.addr().wrapping_sub(args.address().addr());
        let address = object.core.address().expose_provenance().to_ne_bytes();
        match offset.checked_add(address.len()).and_then(|end| copy.get_mut(offset..end)) {
            Some(bytes) => bytes.copy_from_slice(&address),
            None => fail(invalid, "a pointer in args_mem_loc does not point into args")?,
        }
    }
    let function = user_func.bind((!args.is_null()).then_some(copy)).or_fail(invalid, "user_func is NULL")?;
    let objects: Vec<_> = objects.iter().map(|object| object.core.clone()).collect();
    submit(&queue, Command::native(function, &objects), &wait, cl::CL_FALSE, &event)
}
