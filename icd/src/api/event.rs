//! `cl_event` (OpenCL 1.2, 5.9 and 5.12).

use crate::abi::{Handle, Handles, HostMut, Out};
use crate::api::context::Context;
use crate::api::queue::Queue;
use crate::callback::{EventNotify, Opaque};
use crate::error::{Error, OrFail, Status, fail_if};
use crate::handle::{ClObject, Link, NewHandle};
use crate::info::{query, unknown};
use opencl_sys as cl;
use spirula_runtime::context::Context as CoreContext;
use spirula_runtime::queue::event::{self, Event as Core};
use std::sync::Arc;

/// A `cl_event`.
pub struct Event {
    /// The event itself.
    pub core: Arc<Core>,
    /// CL_EVENT_CONTEXT.
    pub context: Link<Context>,
    /// CL_EVENT_COMMAND_QUEUE: none for user events.
    pub queue: Option<Link<Queue>>,
}

impl ClObject for Event {
    const NAME: &'static str = "cl_event";
    const INVALID: cl::cl_int = cl::CL_INVALID_EVENT;
    fn context(&self) -> Option<Arc<CoreContext>> {
        Some(self.core.context.clone())
    }
}

/// clCreateUserEvent.
pub fn create_user(context: Handle<Context>) -> Status<NewHandle> {
    let context = context.get()?;
    Ok(NewHandle::new(Event { core: Core::user(&context.core), context: context.link()?, queue: None }))
}

/// clSetUserEventStatus.
pub fn set_user_status(event: Handle<Event>, execution_status: cl::cl_int) -> Status {
    // CL_INVALID_EVENT if event is not a valid user event object. CL_INVALID_VALUE if the execution_status is not CL_COMPLETE
    // or a negative integer value. CL_INVALID_OPERATION if the execution_status for event has already been changed by a
    // previous call to clSetUserEventStatus.
    Ok(event.get()?.core.set_user_status(execution_status)?)
}

/// clWaitForEvents.
pub fn wait(num_events: u32, event_list: Handles<Event>) -> Status {
    let none = num_events == 0 || event_list.is_null();
    fail_if(none, cl::CL_INVALID_VALUE, "num_events is 0 or event_list is NULL")?;
    // CL_INVALID_EVENT if event objects specified in event_list are not valid event objects.
    let events: Vec<_> = event_list.get(num_events)?.iter().map(|event| event.core.clone()).collect();
    // CL_INVALID_CONTEXT if events specified in event_list do not belong to the same context.
    // CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST if the execution status of any of the events is negative.
    event::wait_for_all(&events).map_err(|error| match events.first() {
        Some(first) => Error::from(error).in_context(&first.context),
        None => error.into(),
    })
}

/// clGetEventInfo.
pub fn get_info(
    event: Handle<Event>,
    param_name: cl::cl_event_info,
    param_value_size: usize,
    param_value: HostMut,
    param_value_size_ret: Out<usize>,
) -> Status {
    let event = event.get()?;
    query(param_value_size, param_value, param_value_size_ret, |answer| match param_name {
        cl::CL_EVENT_COMMAND_QUEUE => answer.optional(event.queue.as_ref()),
        cl::CL_EVENT_CONTEXT => answer.object(&event.context),
        cl::CL_EVENT_COMMAND_TYPE => answer.value(event.core.command_type as cl::cl_command_type),
        cl::CL_EVENT_COMMAND_EXECUTION_STATUS => answer.value(event.core.status()),
        cl::CL_EVENT_REFERENCE_COUNT => answer.value(event.reference_count()),
        _ => unknown(param_name),
    })
}

/// clSetEventCallback.
pub fn set_callback(
    event: Handle<Event>,
    command_exec_callback_type: cl::cl_int,
    pfn_notify: EventNotify,
    user_data: Opaque,
) -> Status {
    let event = event.get()?;
    let callback = pfn_notify.bind(event.handle(), user_data);
    let callback = callback.or_fail(cl::CL_INVALID_VALUE, "pfn_event_notify is NULL")?;
    // The callback may ask about the event, even if the application has released it meanwhile.
    let live = event.link()?;
    let callback = Box::new(move |status| {
        callback(status);
        drop(live);
    });
    // CL_INVALID_VALUE if command_exec_callback_type is not CL_SUBMITTED, CL_RUNNING or CL_COMPLETE.
    Ok(event.core.on_status(command_exec_callback_type, callback)?)
}

/// clGetEventProfilingInfo.
pub fn get_profiling_info(
    event: Handle<Event>,
    param_name: cl::cl_profiling_info,
    param_value_size: usize,
    param_value: HostMut,
    param_value_size_ret: Out<usize>,
) -> Status {
    let event = event.get()?;
    // CL_PROFILING_INFO_NOT_AVAILABLE if the CL_QUEUE_PROFILING_ENABLE flag is not set for the command-queue, if the
    // execution status of the command identified by event is not CL_COMPLETE or if event is a user event object.
    let profile = event.core.profile()?;
    query(param_value_size, param_value, param_value_size_ret, |answer| match param_name {
        cl::CL_PROFILING_COMMAND_QUEUED => answer.value(profile.queued),
        cl::CL_PROFILING_COMMAND_SUBMIT => answer.value(profile.submit),
        cl::CL_PROFILING_COMMAND_START => answer.value(profile.start),
        cl::CL_PROFILING_COMMAND_END => answer.value(profile.end),
        // With all the child commands that kernels have enqueued.
        cl::CL_PROFILING_COMMAND_COMPLETE => answer.value(profile.complete),
        _ => unknown(param_name),
    })
}
