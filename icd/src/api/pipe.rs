//! Pipes (OpenCL 2.0, 5.4): not there, and not reported.

use crate::abi::{Handle, HostMut, In, Out};
use crate::api::context::Context;
use crate::api::memory::Mem;
use crate::error::{Status, fail};
use crate::handle::NewHandle;
use opencl_sys as cl;

/// clCreatePipe.
pub fn create(
    context: Handle<Context>,
    _flags: cl::cl_mem_flags,
    _pipe_packet_size: u32,
    _pipe_max_packets: u32,
    _properties: In<cl::cl_pipe_properties>,
) -> Status<NewHandle> {
    context.get()?;
    fail(cl::CL_INVALID_OPERATION, "no device of the context supports pipes")
}

/// clGetPipeInfo.
pub fn get_info(
    _pipe: Handle<Mem>,
    _param_name: cl::cl_pipe_info,
    _param_value_size: usize,
    _param_value: HostMut,
    _param_value_size_ret: Out<usize>,
) -> Status {
    fail(cl::CL_INVALID_MEM_OBJECT, "not a pipe object: there are none")
}
