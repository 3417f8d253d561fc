//! `cl_command_queue` (OpenCL 1.2, 5.1 and 5.13).

use crate::abi::{Handle, HostMut, In, Out};
use crate::api::context::Context;
use crate::api::device::Device;
use crate::api::distinct;
use crate::error::{Status, fail, fail_if};
use crate::handle::{ClObject, Link, NewHandle};
use crate::info::{query, unknown};
use opencl_sys as cl;
use spirula_runtime::context::Context as CoreContext;
use spirula_runtime::queue::Queue as Core;
use std::sync::Arc;

/// A `cl_command_queue`.
pub struct Queue {
    /// The queue itself.
    pub core: Arc<Core>,
    /// CL_QUEUE_CONTEXT.
    pub context: Link<Context>,
    /// CL_QUEUE_DEVICE.
    device: Link<Device>,
    /// CL_QUEUE_PROPERTIES.
    properties: cl::cl_command_queue_properties,
    /// CL_QUEUE_PROPERTIES_ARRAY: pairs and the closing zero as the application gave them; empty when it gave none.
    property_list: Vec<cl::cl_queue_properties>,
}

impl ClObject for Queue {
    const NAME: &'static str = "cl_command_queue";
    const INVALID: cl::cl_int = cl::CL_INVALID_COMMAND_QUEUE;
    fn context(&self) -> Option<Arc<CoreContext>> {
        Some(self.core.context.clone())
    }
}

/// clCreateCommandQueue.
pub fn create(
    context: Handle<Context>,
    device: Handle<Device>,
    properties: cl::cl_command_queue_properties,
) -> Status<NewHandle> {
    create_listed(context, device, properties, Vec::new())
}

/// The part that both ways to make a queue share.
fn create_listed(
    context: Handle<Context>,
    device: Handle<Device>,
    properties: cl::cl_command_queue_properties,
    property_list: Vec<cl::cl_queue_properties>,
) -> Status<NewHandle> {
    const KNOWN: u64 = cl::CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | cl::CL_QUEUE_PROFILING_ENABLE;
    let context = context.get()?;
    // CL_INVALID_DEVICE if device is not a valid device or is not associated with context.
    let device = context.device(&device)?;
    let unknown = properties & !KNOWN;
    if unknown != 0 {
        return fail(cl::CL_INVALID_VALUE, format!("{unknown:#x} in properties is not valid"));
    }
    let profiling = properties & cl::CL_QUEUE_PROFILING_ENABLE != 0;
    let out_of_order = properties & cl::CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE != 0;
    // CL_INVALID_QUEUE_PROPERTIES if values specified in properties are valid but are not supported by the device.
    let core = Core::new(&context.core, &device.core, profiling, out_of_order)?;
    Ok(NewHandle::new(Queue { core, context: context.link()?, device, properties, property_list }))
}

/// clCreateCommandQueueWithProperties (OpenCL 2.0).
pub fn create_with_properties(
    context: Handle<Context>,
    device: Handle<Device>,
    properties: In<cl::cl_queue_properties>,
) -> Status<NewHandle> {
    let mut bits = 0;
    context.get()?.device(&device)?;
    for (name, value) in distinct(&properties, cl::CL_INVALID_VALUE)? {
        match u32::try_from(name) {
            Ok(cl::CL_QUEUE_PROPERTIES) => bits = value,
            Ok(cl::CL_QUEUE_SIZE) => fail(
                cl::CL_INVALID_QUEUE_PROPERTIES,
                "queues on the device, the only ones with a CL_QUEUE_SIZE, are not supported",
            )?,
            _ => fail(cl::CL_INVALID_VALUE, format!("property {name:#x} is not valid"))?,
        }
    }
    let on_device = bits & (cl::CL_QUEUE_ON_DEVICE | cl::CL_QUEUE_ON_DEVICE_DEFAULT);
    fail_if(on_device != 0, cl::CL_INVALID_QUEUE_PROPERTIES, "queues on the device are not supported")?;
    create_listed(context, device, bits, properties.property_list())
}

/// clGetCommandQueueInfo.
pub fn get_info(
    command_queue: Handle<Queue>,
    param_name: cl::cl_command_queue_info,
    param_value_size: usize,
    param_value: HostMut,
    param_value_size_ret: Out<usize>,
) -> Status {
    let queue = command_queue.get()?;
    query(param_value_size, param_value, param_value_size_ret, |answer| match param_name {
        cl::CL_QUEUE_CONTEXT => answer.object(&queue.context),
        cl::CL_QUEUE_DEVICE => answer.object(&queue.device),
        cl::CL_QUEUE_REFERENCE_COUNT => answer.value(queue.reference_count()),
        cl::CL_QUEUE_PROPERTIES => answer.value(queue.properties),
        cl::CL_QUEUE_PROPERTIES_ARRAY => answer.list(&queue.property_list),
        // "If the device has no default on-device queue": there are no queues on devices.
        cl::CL_QUEUE_DEVICE_DEFAULT => answer.optional::<Queue>(None),
        cl::CL_QUEUE_SIZE => fail(cl::CL_INVALID_COMMAND_QUEUE, "only queues on the device have a size"),
        _ => unknown(param_name),
    })
}

/// clSetCommandQueueProperty: deprecated since OpenCL 1.1, and optional for devices of 1.1 and later.
pub fn set_property(
    command_queue: Handle<Queue>,
    _properties: cl::cl_command_queue_properties,
    _enable: cl::cl_bool,
    _old_properties: Out<cl::cl_command_queue_properties>,
) -> Status {
    command_queue.get()?;
    fail(cl::CL_INVALID_OPERATION, "the device can't change the properties of a command-queue")
}

/// clFlush.
pub fn flush(command_queue: Handle<Queue>) -> Status {
    Ok(command_queue.get()?.core.flush()?)
}

/// clFinish.
pub fn finish(command_queue: Handle<Queue>) -> Status {
    Ok(command_queue.get()?.core.finish()?)
}

/// clReleaseCommandQueue: "performs an implicit flush".
pub fn release(command_queue: Handle<Queue>) -> Status {
    let queue = command_queue.get()?;
    queue.core.flush()?;
    queue.release()
}

/// clSetDefaultDeviceCommandQueue (OpenCL 2.1).
pub fn set_default_on_device(
    context: Handle<Context>,
    _device: Handle<Device>,
    _command_queue: Handle<Queue>,
) -> Status {
    context.get()?;
    fail(cl::CL_INVALID_OPERATION, "the device does not support a replaceable default on-device queue")
}
