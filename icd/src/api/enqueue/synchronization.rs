//! Markers, barriers and migration (OpenCL 1.2, 5.4.4 and 5.10), and the calls that these replaced.

use super::{submit, wait_list};
use crate::abi::{Handle, Handles, Out};
use crate::api::event::Event;
use crate::api::memory::Mem;
use crate::api::queue::Queue;
use crate::error::{Status, fail_if};
use opencl_sys as cl;
use spirula_runtime::command::Command;
use std::ffi::c_void;

/// clEnqueueMarkerWithWaitList.
pub fn marker_with_wait_list(
    command_queue: Handle<Queue>,
    num_events: u32,
    event_wait_list: Handles<Event>,
    event: Out<*mut c_void>,
) -> Status {
    let queue = command_queue.get()?;
    let wait = wait_list(num_events, &event_wait_list)?;
    submit(&queue, Command::marker(), &wait, cl::CL_FALSE, &event)
}

/// clEnqueueBarrierWithWaitList.
pub fn barrier_with_wait_list(
    command_queue: Handle<Queue>,
    num_events: u32,
    event_wait_list: Handles<Event>,
    event: Out<*mut c_void>,
) -> Status {
    let queue = command_queue.get()?;
    let wait = wait_list(num_events, &event_wait_list)?;
    submit(&queue, Command::barrier(), &wait, cl::CL_FALSE, &event)
}

/// clEnqueueMarker: deprecated since OpenCL 1.2.
pub fn marker(command_queue: Handle<Queue>, event: Out<*mut c_void>) -> Status {
    let queue = command_queue.get()?;
    fail_if(event.is_null(), cl::CL_INVALID_VALUE, "event is NULL")?;
    submit(&queue, Command::marker(), &[], cl::CL_FALSE, &event)
}

/// clEnqueueWaitForEvents: deprecated since OpenCL 1.2.
pub fn wait_for_events(command_queue: Handle<Queue>, num_events: u32, event_list: Handles<Event>) -> Status {
    let queue = command_queue.get()?;
    let none = num_events == 0 || event_list.is_null();
    fail_if(none, cl::CL_INVALID_VALUE, "num_events is 0 or event_list is NULL")?;
    // CL_INVALID_EVENT if event objects specified in event_list are not valid events.
    let events: Vec<_> = event_list.get(num_events)?.iter().map(|event| event.core.clone()).collect();
    submit(&queue, Command::barrier(), &events, cl::CL_FALSE, &Out::nowhere())
}

/// clEnqueueBarrier: deprecated since OpenCL 1.2.
pub fn barrier(command_queue: Handle<Queue>) -> Status {
    let queue = command_queue.get()?;
    submit(&queue, Command::barrier(), &[], cl::CL_FALSE, &Out::nowhere())
}

/// clEnqueueMigrateMemObjects.
pub fn migrate(
    command_queue: Handle<Queue>,
    num_mem_objects: u32,
    mem_objects: Handles<Mem>,
    flags: cl::cl_mem_migration_flags,
    num_events: u32,
    event_wait_list: Handles<Event>,
    event: Out<*mut c_void>,
) -> Status {
    const KNOWN: u64 = cl::CL_MIGRATE_MEM_OBJECT_HOST | cl::CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED;
    let queue = command_queue.get()?;
    let none = num_mem_objects == 0 || mem_objects.is_null();
    fail_if(none, cl::CL_INVALID_VALUE, "num_mem_objects is 0 or mem_objects is NULL")?;
    fail_if(flags & !KNOWN != 0, cl::CL_INVALID_VALUE, "flags has values that are not valid")?;
    // CL_INVALID_MEM_OBJECT if any of the memory objects in mem_objects is not a valid memory object.
    let objects: Vec<_> =
        mem_objects.get(num_mem_objects)?.iter().map(|object| object.core.clone()).collect();
    let wait = wait_list(num_events, &event_wait_list)?;
    submit(&queue, Command::migrate(&objects)?, &wait, cl::CL_FALSE, &event)
}
