//! Semaphores (cl_khr_semaphore 1.0): binary ones, of this process alone.

use crate::abi::{Handle, Handles, HostMut, In, Out};
use crate::api::context::Context;
use crate::api::device::Device;
use crate::api::enqueue::{submit, wait_list};
use crate::api::event::Event;
use crate::api::queue::Queue;
use crate::error::{OrFail, Status, fail, fail_if};
use crate::handle::{ClObject, Link, NewHandle, Ref};
use crate::info::{query, unknown};
use opencl_sys as cl;
use spirula_runtime::context::Context as CoreContext;
use spirula_runtime::queue::event::Event as CoreEvent;
use spirula_runtime::queue::semaphore::{self, Semaphore as Core};
use std::ffi::c_void;
use std::sync::Arc;

/// CL_PLATFORM_SEMAPHORE_TYPES_KHR and CL_DEVICE_SEMAPHORE_TYPES_KHR.
pub const TYPES: [cl::cl_semaphore_type_khr; 1] = [cl::CL_SEMAPHORE_TYPE_BINARY_KHR];

/// A `cl_semaphore_khr`.
pub struct Semaphore {
    core: Arc<Core>,
    context: Link<Context>,
    /// CL_SEMAPHORE_DEVICE_HANDLE_LIST_KHR, of which there is one.
    device: Link<Device>,
    /// CL_SEMAPHORE_PROPERTIES_KHR.
    properties: Vec<cl::cl_semaphore_properties_khr>,
}

impl ClObject for Semaphore {
    const NAME: &'static str = "cl_semaphore_khr";
    const INVALID: cl::cl_int = cl::CL_INVALID_SEMAPHORE_KHR;
    fn context(&self) -> Option<Arc<CoreContext>> {
        Some(self.core.context.clone())
    }
}

/// What a property list says.
#[derive(Default)]
struct Asked {
    has_type: bool,
    devices: Option<Vec<*mut c_void>>,
    /// The list with its end.
    list: Vec<cl::cl_semaphore_properties_khr>,
}

impl Asked {
    /// Errors: CL_INVALID_VALUE if there are no properties or no type; CL_INVALID_PROPERTY for a property or a value that is not
    /// valid, and if the same property name is specified more than once.
    fn of(properties: &In<cl::cl_semaphore_properties_khr>) -> Status<Asked> {
        let invalid = cl::CL_INVALID_PROPERTY;
        fail_if(properties.is_null(), cl::CL_INVALID_VALUE, "sema_props is NULL")?;
        let mut asked = Asked::default();
        while let Some(&name) = properties.rest_until_zero(asked.list.len()).first() {
            let value = asked.list.len() + 1;
            asked.list.push(name);
            match u32::try_from(name) {
                Ok(cl::CL_SEMAPHORE_TYPE_KHR) => {
                    fail_if(asked.has_type, invalid, "CL_SEMAPHORE_TYPE_KHR is given more than once")?;
                    let kind = properties.rest_until_zero(value).first().copied().unwrap_or_default();
                    let known = TYPES.iter().any(|known| u64::from(*known) == kind);
                    fail_if(!known, invalid, "CL_SEMAPHORE_TYPE_KHR is not CL_SEMAPHORE_TYPE_BINARY_KHR")?;
                    asked.list.push(kind);
                    asked.has_type = true;
                }
                Ok(cl::CL_SEMAPHORE_DEVICE_HANDLE_LIST_KHR) => {
                    let again = asked.devices.is_some();
                    fail_if(again, invalid, "CL_SEMAPHORE_DEVICE_HANDLE_LIST_KHR is given more than once")?;
                    let devices = properties.rest_until_zero(value);
                    asked.list.extend(devices.iter().copied().chain([0]));
                    let handles =
                        devices.into_iter().map(|device| std::ptr::without_provenance_mut(device as usize));
                    asked.devices = Some(handles.collect());
                }
                _ => fail(invalid, format!("property {name:#x} is not valid"))?,
            }
        }
        asked.list.push(0);
        fail_if(!asked.has_type, cl::CL_INVALID_VALUE, "CL_SEMAPHORE_TYPE_KHR is not given")?;
        Ok(asked)
    }

    /// The one device. Errors: CL_INVALID_DEVICE if the list does not identify exactly one valid device of the context;
    /// CL_INVALID_PROPERTY without a list if the context has several.
    fn device(&self, context: &Context) -> Status<Link<Device>> {
        let own = |handle: *mut c_void| context.devices.iter().find(|own| own.handle() == handle).cloned();
        match (self.devices.as_deref(), &context.devices[..]) {
            (Some(&[device]), _) => {
                own(device).or_fail(cl::CL_INVALID_DEVICE, "the device is none of the context's")
            }
            (Some(devices), _) => fail(
                cl::CL_INVALID_DEVICE,
                format!("CL_SEMAPHORE_DEVICE_HANDLE_LIST_KHR has {} devices, not one", devices.len()),
            ),
            (None, [device]) => Ok(device.clone()),
            (None, _) => fail(
                cl::CL_INVALID_PROPERTY,
                "the context has several devices: CL_SEMAPHORE_DEVICE_HANDLE_LIST_KHR must name one",
            ),
        }
    }
}

/// clCreateSemaphoreWithPropertiesKHR.
pub fn create(
    context: Handle<Context>,
    sema_props: In<cl::cl_semaphore_properties_khr>,
) -> Status<NewHandle> {
    let context = context.get()?;
    let asked = Asked::of(&sema_props)?;
    Ok(NewHandle::new(Semaphore {
        core: Core::new(&context.core),
        context: context.link()?,
        device: asked.device(&context)?,
        properties: asked.list,
    }))
}

/// Semaphores, and events to wait for before.
type Checked = (Vec<Arc<Core>>, Vec<Arc<CoreEvent>>);

/// What signal and wait check alike: the semaphores, and the events before.
///
/// Errors: CL_INVALID_VALUE if there are no semaphores; CL_INVALID_SEMAPHORE_KHR; CL_INVALID_CONTEXT if the queue is of another context,
/// CL_INVALID_COMMAND_QUEUE if it is of another device; CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST if an event has failed.
fn checked(
    queue: &Queue,
    (num_sema_objects, sema_objects): (u32, Handles<Semaphore>),
    (num_events, event_wait_list): (u32, Handles<Event>),
) -> Status<Checked> {
    let none = num_sema_objects == 0 || sema_objects.is_null();
    fail_if(none, cl::CL_INVALID_VALUE, "num_sema_objects is 0 or sema_objects is NULL")?;
    let core = queue.host()?;
    let semaphores = sema_objects.get(num_sema_objects)?;
    for semaphore in &semaphores {
        fail_if(
            !Arc::ptr_eq(&semaphore.core.context, &core.context),
            cl::CL_INVALID_CONTEXT,
            "the queue is of another context than a semaphore",
        )?;
        fail_if(
            semaphore.device.handle() != queue.device.handle(),
            cl::CL_INVALID_COMMAND_QUEUE,
            "the queue is of another device than a semaphore",
        )?;
    }
    let wait = wait_list(num_events, &event_wait_list)?;
    let failed = wait.iter().any(|event| event.status() < 0);
    fail_if(failed, cl::CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST, "an event to wait for has failed")?;
    Ok((semaphores.iter().map(|semaphore| semaphore.core.clone()).collect(), wait))
}

/// clEnqueueSignalSemaphoresKHR; binary semaphores ignore payloads.
pub fn enqueue_signal(
    command_queue: Handle<Queue>,
    num_sema_objects: u32,
    sema_objects: Handles<Semaphore>,
    _sema_payload_list: In<cl::cl_semaphore_payload_khr>,
    num_events: u32,
    event_wait_list: Handles<Event>,
    event: Out<*mut c_void>,
) -> Status {
    let queue = command_queue.get()?;
    let (semaphores, wait) =
        checked(&queue, (num_sema_objects, sema_objects), (num_events, event_wait_list))?;
    let command = semaphore::signal(&queue.host()?.context, semaphores);
    submit(&queue, command, &wait, cl::CL_FALSE, &event)?;
    // Whoever waits knows nothing of this queue.
    Ok(queue.host()?.flush()?)
}

/// clEnqueueWaitSemaphoresKHR; binary semaphores ignore payloads.
pub fn enqueue_wait(
    command_queue: Handle<Queue>,
    num_sema_objects: u32,
    sema_objects: Handles<Semaphore>,
    _sema_payload_list: In<cl::cl_semaphore_payload_khr>,
    num_events: u32,
    event_wait_list: Handles<Event>,
    event: Out<*mut c_void>,
) -> Status {
    let queue = command_queue.get()?;
    let (semaphores, wait) =
        checked(&queue, (num_sema_objects, sema_objects), (num_events, event_wait_list))?;
    let (command, signals) = semaphore::wait(queue.host()?, semaphores, &wait)?;
    submit(&queue, command, &signals, cl::CL_FALSE, &event)
}

/// clGetSemaphoreInfoKHR.
pub fn get_info(
    sema_object: Handle<Semaphore>,
    param_name: cl::cl_semaphore_info_khr,
    param_value_size: usize,
    param_value: HostMut,
    param_value_size_ret: Out<usize>,
) -> Status {
    let semaphore = sema_object.get()?;
    query(param_value_size, param_value, param_value_size_ret, |answer| match param_name {
        cl::CL_SEMAPHORE_CONTEXT_KHR => answer.object(&semaphore.context),
        cl::CL_SEMAPHORE_REFERENCE_COUNT_KHR => answer.value(semaphore.reference_count()),
        cl::CL_SEMAPHORE_PROPERTIES_KHR => answer.list(&semaphore.properties),
        cl::CL_SEMAPHORE_TYPE_KHR => answer.value(cl::CL_SEMAPHORE_TYPE_BINARY_KHR),
        cl::CL_SEMAPHORE_PAYLOAD_KHR => {
            answer.value(cl::cl_semaphore_payload_khr::from(semaphore.core.is_signaled()))
        }
        cl::CL_SEMAPHORE_DEVICE_HANDLE_LIST_KHR => answer.object(&semaphore.device),
        _ => unknown(param_name),
    })
}

/// clGetSemaphoreHandleForTypeKHR (cl_khr_external_semaphore, whose function clients of cl_khr_semaphore look for).
///
/// Errors: CL_INVALID_VALUE if the requested handle type was not one of CL_SEMAPHORE_EXPORT_HANDLE_TYPES_KHR when it was created: there
/// are none.
pub fn get_handle_for_type(
    sema_object: Handle<Semaphore>,
    device: Handle<Device>,
    handle_type: cl::cl_external_semaphore_handle_type_khr,
    _handle_size: usize,
    _handle_ptr: HostMut,
    _handle_size_ret: Out<usize>,
) -> Status {
    sema_object.get()?;
    let _: Ref<Device> = device.get()?;
    fail(cl::CL_INVALID_VALUE, format!("the semaphore has no handle of type {handle_type:#x}"))
}
