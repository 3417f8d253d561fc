//! `cl_command_queue` (OpenCL 1.2, 5.1 and 5.13).

use crate::abi::{Handle, HostMut, In, Out};
use crate::api::context::Context;
use crate::api::device::Device;
use crate::api::distinct;
use crate::error::{OrFail, Status, fail, fail_if};
use crate::handle::{ClObject, Link, NewHandle, Ref};
use crate::info::{query, unknown};
use opencl_sys as cl;
use spirula_runtime::context::Context as CoreContext;
use spirula_runtime::queue::Queue as Core;
use spirula_runtime::queue::on_device::DeviceQueue;
use std::sync::Arc;

/// A `cl_command_queue`.
pub struct Queue {
    /// The queue itself.
    kind: Kind,
    /// CL_QUEUE_CONTEXT.
    pub context: Link<Context>,
    /// CL_QUEUE_DEVICE.
    pub device: Link<Device>,
    /// CL_QUEUE_PROPERTIES.
    properties: cl::cl_command_queue_properties,
    /// CL_QUEUE_PROPERTIES_ARRAY: pairs and the closing zero as the application gave them; empty when it gave none.
    property_list: Vec<cl::cl_queue_properties>,
}

/// Where a queue's commands come from.
enum Kind {
    Host(Arc<Core>),
    OnDevice(Arc<DeviceQueue>),
}

impl Queue {
    /// The queue that the application puts commands into. CL_INVALID_COMMAND_QUEUE if command_queue is not a valid host
    /// command-queue.
    pub fn host(&self) -> Status<&Arc<Core>> {
        match &self.kind {
            Kind::Host(core) => Ok(core),
            Kind::OnDevice(_) => {
                fail(cl::CL_INVALID_COMMAND_QUEUE, "a queue on the device takes no commands")
            }
        }
    }

    /// The queue that kernels put kernels into, if it is one.
    pub fn on_device(&self) -> Option<&Arc<DeviceQueue>> {
        match &self.kind {
            Kind::Host(_) => None,
            Kind::OnDevice(core) => Some(core),
        }
    }
}

impl ClObject for Queue {
    const NAME: &'static str = "cl_command_queue";
    const INVALID: cl::cl_int = cl::CL_INVALID_COMMAND_QUEUE;
    fn context(&self) -> Option<Arc<CoreContext>> {
        Some(match &self.kind {
            Kind::Host(core) => core.context.clone(),
            Kind::OnDevice(core) => core.context.clone(),
        })
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
    let kind = Kind::Host(core);
    let handle = NewHandle::new(Queue { kind, context: context.link()?, device, properties, property_list });
    context.queues.add(handle.address());
    Ok(handle)
}

/// clCreateCommandQueueWithProperties (OpenCL 2.0).
pub fn create_with_properties(
    context: Handle<Context>,
    device: Handle<Device>,
    properties: In<cl::cl_queue_properties>,
) -> Status<NewHandle> {
    let (mut bits, mut size) = (0, None);
    context.get()?.device(&device)?;
    for (name, value) in distinct(&properties, cl::CL_INVALID_VALUE)? {
        match u32::try_from(name) {
            Ok(cl::CL_QUEUE_PROPERTIES) => bits = value,
            Ok(cl::CL_QUEUE_SIZE) => size = Some(u32::try_from(value).unwrap_or(u32::MAX)),
            _ => fail(cl::CL_INVALID_VALUE, format!("property {name:#x} is not valid"))?,
        }
    }
    let on_device = bits & cl::CL_QUEUE_ON_DEVICE != 0;
    let invalid = cl::CL_INVALID_VALUE;
    // CL_QUEUE_ON_DEVICE_DEFAULT and CL_QUEUE_SIZE can only be specified with CL_QUEUE_ON_DEVICE.
    let needs = bits & cl::CL_QUEUE_ON_DEVICE_DEFAULT != 0 || size.is_some();
    fail_if(needs && !on_device, invalid, "what only a queue on the device has is given for another")?;
    if on_device {
        return create_on_device(context, device, bits, size, properties.property_list());
    }
    create_listed(context, device, bits, properties.property_list())
}

/// A queue for kernels that enqueue kernels.
fn create_on_device(
    context: Handle<Context>,
    device: Handle<Device>,
    properties: cl::cl_command_queue_properties,
    size: Option<u32>,
    property_list: Vec<cl::cl_queue_properties>,
) -> Status<NewHandle> {
    const KNOWN: u64 = cl::CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE
        | cl::CL_QUEUE_PROFILING_ENABLE
        | cl::CL_QUEUE_ON_DEVICE
        | cl::CL_QUEUE_ON_DEVICE_DEFAULT;
    let context = context.get()?;
    let device = context.device(&device)?;
    let unknown = properties & !KNOWN;
    if unknown != 0 {
        return fail(cl::CL_INVALID_VALUE, format!("{unknown:#x} in properties is not valid"));
    }
    // If CL_QUEUE_ON_DEVICE is set, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE must also be set.
    let unordered = properties & cl::CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE != 0;
    fail_if(!unordered, cl::CL_INVALID_VALUE, "a queue on the device is an out-of-order one")?;
    let is_default = properties & cl::CL_QUEUE_ON_DEVICE_DEFAULT != 0;
    // "If CL_QUEUE_ON_DEVICE_DEFAULT is specified and there is a default device queue already, it is returned, retained."
    if is_default && let Some(queue) = default_of(&context, &device) {
        return queue.retained();
    }
    let core = DeviceQueue::new(&context.core, &device.core, size, is_default)?;
    let kind = Kind::OnDevice(core);
    let handle = NewHandle::new(Queue { kind, context: context.link()?, device, properties, property_list });
    context.on_device.add(handle.address());
    Ok(handle)
}

/// The object of a device's default queue.
fn default_of(context: &Context, device: &Device) -> Option<Ref<Queue>> {
    let core = context.core.device_queues.default_of(&device.core)?;
    let same = |queue: &Ref<Queue>| queue.on_device().is_some_and(|other| Arc::ptr_eq(other, &core));
    context.on_device.all().into_iter().filter_map(|handle| Ref::<Queue>::find(handle).ok()).find(same)
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
        // "Return the current default command queue for the underlying device."
        cl::CL_QUEUE_DEVICE_DEFAULT => {
            let default = default_of(&queue.context, &queue.device);
            answer.value(default.map_or(std::ptr::null_mut(), |queue| queue.handle()))
        }
        cl::CL_QUEUE_SIZE => {
            let core = queue.on_device();
            let core = core.or_fail(cl::CL_INVALID_COMMAND_QUEUE, "only queues on the device have a size")?;
            answer.value(core.size)
        }
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
    Ok(command_queue.get()?.host()?.flush()?)
}

/// clFinish.
pub fn finish(command_queue: Handle<Queue>) -> Status {
    Ok(command_queue.get()?.host()?.finish()?)
}

/// clReleaseCommandQueue: "performs an implicit flush".
pub fn release(command_queue: Handle<Queue>) -> Status {
    let queue = command_queue.get()?;
    if let Kind::Host(core) = &queue.kind {
        core.flush()?;
    }
    queue.release()
}

/// clSetDefaultDeviceCommandQueue (OpenCL 2.1).
pub fn set_default_on_device(
    context: Handle<Context>,
    device: Handle<Device>,
    command_queue: Handle<Queue>,
) -> Status {
    let context = context.get()?;
    let device = context.device(&device)?;
    let queue = command_queue.get()?;
    // CL_INVALID_COMMAND_QUEUE if command_queue is not a valid command-queue for device.
    let core = queue.on_device();
    let own = |core: &&Arc<DeviceQueue>| {
        Arc::ptr_eq(&core.context, &context.core) && Arc::ptr_eq(&core.device, &device.core)
    };
    let core = core.filter(own);
    core.or_fail(cl::CL_INVALID_COMMAND_QUEUE, "command_queue is no queue on that device")?.make_default();
    Ok(())
}
