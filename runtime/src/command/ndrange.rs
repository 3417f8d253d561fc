//! Kernel launches: the checks of clEnqueueNDRangeKernel and the choice of a work-group size.

use super::Command;
use crate::device::Device;
use crate::error::Result;
use crate::kernel::Kernel;

/// clEnqueueNDRangeKernel. `global.len()` is work_dim; the optional ones are as long. The kernel's arguments are taken as
/// they are now. Errors: CL_INVALID_WORK_DIMENSION, _GLOBAL_WORK_SIZE, _WORK_GROUP_SIZE, _WORK_ITEM_SIZE, _GLOBAL_OFFSET,
/// _KERNEL_ARGS, CL_OUT_OF_RESOURCES for too much local memory.
pub fn ndrange(
    kernel: &Kernel,
    device: &Device,
    offset: Option<&[usize]>,
    global: &[usize],
    local: Option<&[usize]>,
) -> Result<Command> {
    let _ = (kernel, device, offset, global, local);
    todo!()
}

/// clEnqueueTask.
pub fn task(kernel: &Kernel, device: &Device) -> Result<Command> {
    let _ = (kernel, device);
    todo!()
}
