//! `cl_mem` that are pipes (OpenCL 2.0, 5.4).

use crate::abi::{Handle, HostMut, In, Out};
use crate::api::context::Context;
use crate::api::memory::{Mem, flags};
use crate::error::{OrFail, Status, fail_if};
use crate::handle::NewHandle;
use crate::info::{query, unknown};
use opencl_sys as cl;
use spirula_runtime::memory::Mem as Core;

/// clCreatePipe.
pub fn create(
    context: Handle<Context>,
    mem_flags: cl::cl_mem_flags,
    pipe_packet_size: u32,
    pipe_max_packets: u32,
    properties: In<cl::cl_pipe_properties>,
) -> Status<NewHandle> {
    let context = context.get()?;
    // CL_INVALID_VALUE if values specified in flags are not as defined above.
    let flags = flags(mem_flags)?;
    // "In OpenCL 2.2 … properties must be NULL"; 3.0 also takes a list without properties.
    let none = properties.properties().is_empty();
    fail_if(!none, cl::CL_INVALID_VALUE, "no property of pipes is supported")?;
    // CL_INVALID_PIPE_SIZE if pipe_packet_size is 0 or the pipe_packet_size exceeds CL_DEVICE_PIPE_MAX_PACKET_SIZE … or if
    // pipe_max_packets is 0.
    let core = Core::pipe(&context.core, flags, pipe_packet_size, pipe_max_packets)?;
    let properties = properties.property_list().iter().map(|&word| word as cl::cl_mem_properties).collect();
    Ok(NewHandle::new(Mem { core, context: context.link()?, associated: None, properties }))
}

/// clGetPipeInfo.
pub fn get_info(
    pipe: Handle<Mem>,
    param_name: cl::cl_pipe_info,
    param_value_size: usize,
    param_value: HostMut,
    param_value_size_ret: Out<usize>,
) -> Status {
    let pipe = pipe.get()?;
    // CL_INVALID_MEM_OBJECT if pipe is a not a valid pipe object.
    let info = pipe.core.pipe_info().or_fail(cl::CL_INVALID_MEM_OBJECT, "the memory object is no pipe")?;
    query(param_value_size, param_value, param_value_size_ret, |answer| match param_name {
        cl::CL_PIPE_PACKET_SIZE => answer.value(info.packet_size),
        cl::CL_PIPE_MAX_PACKETS => answer.value(info.max_packets),
        cl::CL_PIPE_PROPERTIES => {
            let list = pipe.properties.iter().map(|&word| word as cl::cl_pipe_properties);
            answer.list(&list.collect::<Vec<_>>())
        }
        _ => unknown(param_name),
    })
}
