//! Command queues: in order, each with a thread of its own that a channel feeds.

use crate::command::Command;
use crate::context::Context;
use crate::device::Device;
use crate::error::Result;
use crate::event::Event;
use std::sync::Arc;

/// A `cl_command_queue`. Dropping it lets what is queued finish in the background.
#[derive(Debug)]
pub struct Queue {
    /// CL_QUEUE_CONTEXT.
    pub context: Arc<Context>,
    /// CL_QUEUE_DEVICE.
    pub device: Arc<Device>,
    /// CL_QUEUE_PROFILING_ENABLE.
    pub profiling: bool,
}

impl Queue {
    /// CL_INVALID_QUEUE_PROPERTIES when `out_of_order`: not offered yet.
    pub fn new(
        context: &Arc<Context>,
        device: &Arc<Device>,
        profiling: bool,
        out_of_order: bool,
    ) -> Result<Arc<Queue>> {
        let _ = (context, device, profiling, out_of_order);
        todo!()
    }

    /// Queues a command that runs after what is queued and after `wait`. Errors: CL_INVALID_CONTEXT when an event or a
    /// memory object is of another context; with `blocking`, what the command itself ended with, or
    /// CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST.
    pub fn submit(&self, command: Command, wait: &[Arc<Event>], blocking: bool) -> Result<Arc<Event>> {
        let _ = (command, wait, blocking);
        todo!()
    }

    /// clFlush.
    pub fn flush(&self) -> Result<()> {
        todo!()
    }

    /// clFinish: returns when all commands have ended, well or not.
    pub fn finish(&self) -> Result<()> {
        todo!()
    }
}
