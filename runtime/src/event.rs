//! Events: a command's progress from queued to complete, its times, who waits for it and who is told.

use crate::command::CommandType;
use crate::context::Context;
use crate::error::Result;
use std::sync::Arc;

/// `cl_event_info`'s execution status: these values, or a negative error code.
pub mod status {
    /// CL_COMPLETE.
    pub const COMPLETE: i32 = 0;
    /// CL_RUNNING.
    pub const RUNNING: i32 = 1;
    /// CL_SUBMITTED.
    pub const SUBMITTED: i32 = 2;
    /// CL_QUEUED.
    pub const QUEUED: i32 = 3;
}

/// A `cl_event`: a command's or a user's.
#[derive(Debug)]
pub struct Event {
    /// CL_EVENT_CONTEXT.
    pub context: Arc<Context>,
    /// CL_EVENT_COMMAND_TYPE.
    pub command_type: CommandType,
}

/// CL_PROFILING_COMMAND_*, in ns of [`crate::device::Device::timer`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Profile {
    pub queued: u64,
    pub submit: u64,
    pub start: u64,
    pub end: u64,
}

impl Event {
    /// clCreateUserEvent; its status is SUBMITTED.
    pub fn user(context: &Arc<Context>) -> Arc<Event> {
        let _ = context;
        todo!()
    }

    /// clSetUserEventStatus. Errors: CL_INVALID_EVENT for a command's event, CL_INVALID_VALUE for a positive status,
    /// CL_INVALID_OPERATION when set before.
    pub fn set_user_status(&self, status: i32) -> Result<()> {
        let _ = status;
        todo!()
    }

    /// CL_EVENT_COMMAND_EXECUTION_STATUS.
    pub fn status(&self) -> i32 {
        todo!()
    }

    /// Waits until the status is COMPLETE (Ok) or negative (Err with it). The queue works on it meanwhile.
    pub fn wait(&self) -> Result<(), i32> {
        todo!()
    }

    /// clGetEventProfilingInfo. CL_PROFILING_INFO_NOT_AVAILABLE without CL_QUEUE_PROFILING_ENABLE, before completion,
    /// and for user events.
    pub fn profile(&self) -> Result<Profile> {
        todo!()
    }

    /// clSetEventCallback: `callback` gets the status when it is reached, at once if it was already (an error counts as
    /// COMPLETE reached). Called on a thread of its own. CL_INVALID_VALUE for a `trigger` other than SUBMITTED,
    /// RUNNING, COMPLETE.
    pub fn on_status(&self, trigger: i32, callback: Box<dyn FnOnce(i32) + Send>) -> Result<()> {
        let _ = (trigger, callback);
        todo!()
    }
}

/// clWaitForEvents. CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST if one failed, after all have ended. Empty list and
/// mixed contexts (CL_INVALID_VALUE, CL_INVALID_CONTEXT) are errors.
pub fn wait_for_all(events: &[Arc<Event>]) -> Result<()> {
    let _ = events;
    todo!()
}
