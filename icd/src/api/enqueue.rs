//! `clEnqueue*`: what all of them share, the wait list before and the event after the command.

pub mod buffer;
pub mod image;
pub mod kernel;
pub mod map;
pub mod synchronization;

use crate::abi::{Handles, HostConst, In, Out};
use crate::api::event::Event;
use crate::api::queue::Queue;
use crate::error::{OrFail, Status, fail, fail_if};
use crate::handle::{NewHandle, Ref};
use opencl_sys as cl;
use spirula_runtime::command::Command;
use spirula_runtime::memory::HostPtr;
use spirula_runtime::queue::event::Event as CoreEvent;
use std::ffi::c_void;
use std::sync::Arc;

/// Checks `event_wait_list`.
pub fn wait_list(num_events: u32, event_wait_list: &Handles<Event>) -> Status<Vec<Arc<CoreEvent>>> {
    let invalid = cl::CL_INVALID_EVENT_WAIT_LIST;
    fail_if(
        event_wait_list.is_null() != (num_events == 0),
        invalid,
        "event_wait_list is NULL where num_events_in_wait_list is not 0, or the other way round",
    )?;
    let events = event_wait_list.get(num_events).map_err(|error| error.with_code(invalid))?;
    Ok(events.iter().map(|event| event.core.clone()).collect())
}

/// CL_INVALID_VALUE if ptr is NULL.
fn host(ptr: Option<HostPtr>) -> Status<HostPtr> {
    ptr.or_fail(cl::CL_INVALID_VALUE, "ptr is NULL")
}

/// CL_INVALID_VALUE if origin or region is NULL.
fn triple(values: &In<usize>) -> Status<[usize; 3]> {
    values.array().or_fail(cl::CL_INVALID_VALUE, "an origin or region is NULL")
}

/// CL_INVALID_VALUE if pattern is NULL or if pattern_size is not one of {1, 2, 4, 8, 16, 32, 64, 128}.
pub fn fill_pattern(pattern: &HostConst, pattern_size: usize) -> Status<&[u8]> {
    if !pattern_size.is_power_of_two() || pattern_size > 128 {
        return fail(cl::CL_INVALID_VALUE, format!("pattern_size is {pattern_size}"));
    }
    pattern.bytes(pattern_size).or_fail(cl::CL_INVALID_VALUE, "pattern is NULL")
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
    let core = queue.host()?.submit(command, wait, blocking != cl::CL_FALSE)?;
    if !event.is_null() {
        let (context, queue) = (queue.context.clone(), Some(queue.link()?));
        event.write(NewHandle::new(Event { core, context, queue }).into_raw());
    }
    Ok(())
}
