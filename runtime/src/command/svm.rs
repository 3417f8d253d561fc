//! Commands on shared virtual memory (OpenCL 2.0, 5.6). Any memory of the application will do.

use super::{Command, CommandType};
use crate::context::Context;
use crate::error::{Result, Status};
use crate::execute::scheduler::Scheduler;
use crate::memory::HostPtr;
use crate::memory::svm::overlap;
use std::sync::Arc;

/// clEnqueueSVMFree: `free` has its pointers already, and may be the application's.
pub fn free(context: &Arc<Context>, free: Box<dyn FnOnce() + Send>) -> Command {
    // Calls the application: not on a thread that waits.
    Command {
        anywhere: false,
        ..Command::call(CommandType::SvmFree, Some(context.clone()), usize::MAX, free)
    }
}

/// clEnqueueSVMMemcpy. CL_MEM_COPY_OVERLAP.
pub fn copy(context: &Arc<Context>, to: HostPtr, from: HostPtr, size: usize) -> Result<Command> {
    if overlap(to, from, size) {
        return Err(Status::MemCopyOverlap.because(format!("a copy of {size} bytes onto itself")));
    }
    let call = move |threads: &Scheduler| threads.copy(to.span(size), from.span(size));
    Ok(Command::call_with_help(CommandType::SvmMemcpy, Some(context.clone()), size, call))
}

/// clEnqueueSVMMemFill. CL_INVALID_VALUE for a pattern of another length than 1, 2, 4 … 128, and for memory that is not made
/// and aligned for it.
pub fn fill(context: &Arc<Context>, to: HostPtr, pattern: &[u8], size: usize) -> Result<Command> {
    let length = pattern.len();
    let address = to.as_ptr() as usize;
    if !length.is_power_of_two()
        || length > 128
        || !address.is_multiple_of(length)
        || !size.is_multiple_of(length)
    {
        return Err(Status::InvalidValue
            .because(format!("{size} bytes from {address:#x} on in patterns of {length}")));
    }
    let pattern = pattern.to_vec();
    let call = move |threads: &Scheduler| threads.fill(to.span(size), &pattern);
    Ok(Command::call_with_help(CommandType::SvmMemFill, Some(context.clone()), size, call))
}

/// clEnqueueSVMMap, clEnqueueSVMUnmap and clEnqueueSVMMigrateMem: nothing moves.
pub fn nothing(context: &Arc<Context>, command_type: CommandType) -> Command {
    Command::nothing(command_type, Some(context.clone()))
}
