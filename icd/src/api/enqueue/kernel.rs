//! Launching kernels and native functions (OpenCL 1.2, 5.8).

use super::{submit, wait_list};
use crate::abi::{Handle, Handles, HostMut, In, Out};
use crate::api::event::Event;
use crate::api::kernel::Kernel;
use crate::api::memory::Mem;
use crate::api::queue::Queue;
use crate::callback::NativeKernel;
use crate::error::{Code, Status, fail, fail_if};
use crate::handle::Ref;
use opencl_sys as cl;
use spirula_runtime::command::{Command, ndrange};
use std::ffi::c_void;
use std::sync::Arc;

/// CL_INVALID_CONTEXT if the context associated with command_queue and kernel is not the same.
fn check_context(queue: &Ref<Queue>, kernel: &Ref<Kernel>) -> Status {
    fail_if(!Arc::ptr_eq(&queue.core.context, &kernel.core.program.context), cl::CL_INVALID_CONTEXT)
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
    check_context(&queue, &kernel)?;
    let wait = wait_list(num_events, &event_wait_list)?;
    // CL_INVALID_WORK_DIMENSION if work_dim is not a valid value (i.e. a value between 1 and 3).
    fail_if(!(1..=3).contains(&work_dim), cl::CL_INVALID_WORK_DIMENSION)?;
    let dimensions = work_dim as usize;
    // "If global_work_size is NULL, or the value in any passed dimension is 0 then the kernel command will trivially succeed
    // after its event dependencies are satisfied" (since OpenCL 2.1).
    let global = global_work_size.list(dimensions).unwrap_or_else(|| vec![0; dimensions]);
    let (offset, local) = (global_work_offset.list(dimensions), local_work_size.list(dimensions));
    let device = &queue.core.device;
    let command = ndrange::ndrange(&kernel.core, device, offset.as_deref(), &global, local.as_deref())?;
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
    check_context(&queue, &kernel)?;
    // CL_INVALID_WORK_DIMENSION, CL_INVALID_GLOBAL_WORK_SIZE, CL_INVALID_GLOBAL_OFFSET, CL_INVALID_KERNEL_ARGS as launching.
    fail_if(!(1..=3).contains(&work_dim), cl::CL_INVALID_WORK_DIMENSION)?;
    let dimensions = work_dim as usize;
    let global = global_work_size.list(dimensions).ok_or(Code(cl::CL_INVALID_GLOBAL_WORK_SIZE))?;
    // CL_INVALID_VALUE if suggested_local_work_size is NULL.
    fail_if(suggested_local_work_size.is_null(), cl::CL_INVALID_VALUE)?;
    let offset = global_work_offset.list(dimensions);
    let local = ndrange::suggest(&kernel.core, &queue.core.device, offset.as_deref(), &global)?;
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
    check_context(&queue, &kernel)?;
    let wait = wait_list(num_events, &event_wait_list)?;
    let command = ndrange::task(&kernel.core, &queue.core.device)?;
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
    // CL_INVALID_VALUE if user_func is NULL.
    fail_if(user_func.is_null(), cl::CL_INVALID_VALUE)?;
    // CL_INVALID_VALUE if args is a NULL value and cb_args > 0, or if args is a NULL value and num_mem_objects > 0.
    fail_if(args.is_null() && (cb_args > 0 || num_mem_objects > 0), cl::CL_INVALID_VALUE)?;
    // CL_INVALID_VALUE if args is not NULL and cb_args is 0.
    fail_if(!args.is_null() && cb_args == 0, cl::CL_INVALID_VALUE)?;
    // CL_INVALID_VALUE if num_mem_objects > 0 and mem_list or args_mem_loc are NULL, or if num_mem_objects = 0 and
    // mem_list or args_mem_loc are not NULL.
    let none = num_mem_objects == 0;
    fail_if(mem_list.is_null() != none || args_mem_loc.is_null() != none, cl::CL_INVALID_VALUE)?;
    // CL_INVALID_MEM_OBJECT if one or more memory objects specified in mem_list are not valid or are not buffer objects.
    let objects = mem_list.get(num_mem_objects)?;
    fail_if(objects.iter().any(|object| object.core.image_info().is_some()), cl::CL_INVALID_MEM_OBJECT)?;
    let wait = wait_list(num_events, &event_wait_list)?;

    // The function gets a copy of its arguments with the buffers' addresses where the application has put their handles.
    let mut copy = args.as_const().bytes(cb_args).map(<[u8]>::to_vec).unwrap_or_default();
    let places = args_mem_loc.as_in().list(objects.len()).unwrap_or_default();
    for (object, place) in objects.iter().zip(places) {
        let offset = place.addr().wrapping_sub(args.address().addr());
        let address = object.core.address().expose_provenance().to_ne_bytes();
        match offset.checked_add(address.len()).and_then(|end| copy.get_mut(offset..end)) {
            Some(bytes) => bytes.copy_from_slice(&address),
            None => fail(cl::CL_INVALID_VALUE)?,
        }
    }
    let function = user_func.bind((!args.is_null()).then_some(copy)).ok_or(Code(cl::CL_INVALID_VALUE))?;
    let objects: Vec<_> = objects.iter().map(|object| object.core.clone()).collect();
    submit(&queue, Command::native(function, &objects), &wait, cl::CL_FALSE, &event)
}
