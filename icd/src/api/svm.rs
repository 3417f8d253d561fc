//! Shared virtual memory and pipes (OpenCL 2.0): not there, and not reported.

use crate::abi::{Handle, Handles, HostConst, HostMut, In, Out};
use crate::api::context::Context;
use crate::api::event::Event;
use crate::api::memory::Mem;
use crate::api::queue::Queue;
use crate::callback::{Opaque, SvmFree};
use crate::error::{Status, fail};
use crate::handle::NewHandle;
use opencl_sys as cl;
use std::ffi::c_void;

/// CL_INVALID_OPERATION if the device associated with command_queue does not support SVM.
fn unsupported(command_queue: &Handle<Queue>) -> Status {
    command_queue.get()?;
    fail(cl::CL_INVALID_OPERATION)
}

/// clSVMAlloc: "returns NULL if … there are no devices in context that support SVM".
pub fn alloc(_context: Handle<Context>, _flags: u64, _size: usize, _alignment: u32) -> Status<*mut c_void> {
    fail(cl::CL_INVALID_OPERATION)
}

/// clSVMFree: nothing was allocated.
pub fn free(_context: Handle<Context>, _svm_pointer: HostMut) -> Status {
    Ok(())
}

/// clEnqueueSVMFree.
#[allow(clippy::too_many_arguments)]
pub fn enqueue_free(
    command_queue: Handle<Queue>,
    _num_svm_pointers: u32,
    _svm_pointers: Out<*mut c_void>,
    _pfn_free_func: SvmFree,
    _user_data: Opaque,
    _num_events: u32,
    _event_wait_list: Handles<Event>,
    _event: Out<*mut c_void>,
) -> Status {
    unsupported(&command_queue)
}

/// clEnqueueSVMMemcpy.
#[allow(clippy::too_many_arguments)]
pub fn enqueue_memcpy(
    command_queue: Handle<Queue>,
    _blocking_copy: cl::cl_bool,
    _dst_ptr: HostMut,
    _src_ptr: HostConst,
    _size: usize,
    _num_events: u32,
    _event_wait_list: Handles<Event>,
    _event: Out<*mut c_void>,
) -> Status {
    unsupported(&command_queue)
}

/// clEnqueueSVMMemFill.
#[allow(clippy::too_many_arguments)]
pub fn enqueue_fill(
    command_queue: Handle<Queue>,
    _svm_ptr: HostMut,
    _pattern: HostConst,
    _pattern_size: usize,
    _size: usize,
    _num_events: u32,
    _event_wait_list: Handles<Event>,
    _event: Out<*mut c_void>,
) -> Status {
    unsupported(&command_queue)
}

/// clEnqueueSVMMap.
#[allow(clippy::too_many_arguments)]
pub fn enqueue_map(
    command_queue: Handle<Queue>,
    _blocking_map: cl::cl_bool,
    _flags: cl::cl_map_flags,
    _svm_ptr: HostMut,
    _size: usize,
    _num_events: u32,
    _event_wait_list: Handles<Event>,
    _event: Out<*mut c_void>,
) -> Status {
    unsupported(&command_queue)
}

/// clEnqueueSVMUnmap.
pub fn enqueue_unmap(
    command_queue: Handle<Queue>,
    _svm_ptr: HostMut,
    _num_events: u32,
    _event_wait_list: Handles<Event>,
    _event: Out<*mut c_void>,
) -> Status {
    unsupported(&command_queue)
}

/// clEnqueueSVMMigrateMem (OpenCL 2.1).
#[allow(clippy::too_many_arguments)]
pub fn enqueue_migrate(
    command_queue: Handle<Queue>,
    _num_svm_pointers: u32,
    _svm_pointers: Out<*const c_void>,
    _sizes: In<usize>,
    _flags: cl::cl_mem_migration_flags,
    _num_events: u32,
    _event_wait_list: Handles<Event>,
    _event: Out<*mut c_void>,
) -> Status {
    unsupported(&command_queue)
}

/// clCreatePipe.
pub fn create_pipe(
    context: Handle<Context>,
    _flags: cl::cl_mem_flags,
    _pipe_packet_size: u32,
    _pipe_max_packets: u32,
    _properties: In<cl::cl_pipe_properties>,
) -> Status<NewHandle> {
    context.get()?;
    // CL_INVALID_OPERATION if no devices in context support pipes.
    fail(cl::CL_INVALID_OPERATION)
}

/// clGetPipeInfo.
pub fn get_pipe_info(
    _pipe: Handle<Mem>,
    _param_name: cl::cl_pipe_info,
    _param_value_size: usize,
    _param_value: HostMut,
    _param_value_size_ret: Out<usize>,
) -> Status {
    // CL_INVALID_MEM_OBJECT if pipe is not a valid pipe object.
    fail(cl::CL_INVALID_MEM_OBJECT)
}
