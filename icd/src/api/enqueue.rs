//! `clEnqueue*`: what all of them share, the wait list before and the event after the command.

pub mod buffer;
pub mod image;
pub mod kernel;
pub mod map;
pub mod synchronization;

use crate::abi::{Handles, Out};
use crate::api::event::Event;
use crate::api::queue::Queue;
use crate::error::{Code, Status, fail_if};
use crate::handle::{NewHandle, Ref};
use opencl_sys as cl;
use spirula_runtime::command::Command;
use spirula_runtime::queue::event::Event as CoreEvent;
use std::ffi::c_void;
use std::sync::Arc;

/// Checks `event_wait_list`.
pub fn wait_list(num_events: u32, event_wait_list: &Handles<Event>) -> Status<Vec<Arc<CoreEvent>>> {
    // CL_INVALID_EVENT_WAIT_LIST if event_wait_list is NULL and num_events_in_wait_list > 0, or event_wait_list is not
    // NULL and num_events_in_wait_list is 0, or if event objects in event_wait_list are not valid events.
    fail_if(event_wait_list.is_null() != (num_events == 0), cl::CL_INVALID_EVENT_WAIT_LIST)?;
    let events = event_wait_list.get(num_events).map_err(|_| Code(cl::CL_INVALID_EVENT_WAIT_LIST))?;
    Ok(events.iter().map(|event| event.core.clone()).collect())
}

/// Queues a command and gives its event to an application that wants it.
///
/// Errors: CL_INVALID_CONTEXT if the context associated with command_queue and with objects or events are not the same;
/// CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST if the operation is blocking and one of the events failed.
pub fn submit(
    queue: &Ref<Queue>,
    command: Command,
    wait: &[Arc<CoreEvent>],
    blocking: cl::cl_bool,
    event: &Out<*mut c_void>,
) -> Status {
    let core = queue.core.submit(command, wait, blocking != cl::CL_FALSE)?;
    if !event.is_null() {
        let (context, queue) = (queue.context.clone(), Some(queue.link()?));
        event.write(NewHandle::new(Event { core, context, queue }).into_raw());
    }
    Ok(())
}
