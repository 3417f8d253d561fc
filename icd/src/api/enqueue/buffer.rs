//! Commands on buffers (OpenCL 1.2, 5.2.2 to 5.2.4). Offsets, sizes and pitches are checked by the command's constructor.

use super::{fill_pattern, host, submit, triple, wait_list};
use crate::abi::{Handle, Handles, HostConst, HostMut, In, Out};
use crate::api::event::Event;
use crate::api::memory::Mem;
use crate::api::queue::Queue;
use crate::error::Status;
use opencl_sys as cl;
use spirula_runtime::command::buffer::{self, RectSide};
use std::ffi::c_void;

/// clEnqueueReadBuffer.
#[allow(clippy::too_many_arguments)]
pub fn read(
    command_queue: Handle<Queue>,
    buffer: Handle<Mem>,
    blocking_read: cl::cl_bool,
    offset: usize,
    size: usize,
    ptr: HostMut,
    num_events: u32,
    event_wait_list: Handles<Event>,
    event: Out<*mut c_void>,
) -> Status {
    let queue = command_queue.get()?;
    let buffer = buffer.get()?;
    let wait = wait_list(num_events, &event_wait_list)?;
    let command = buffer::read(&buffer.core, offset, size, host(ptr.pointer())?)?;
    submit(&queue, command, &wait, blocking_read, &event)
}

/// clEnqueueWriteBuffer.
#[allow(clippy::too_many_arguments)]
pub fn write(
    command_queue: Handle<Queue>,
    buffer: Handle<Mem>,
    blocking_write: cl::cl_bool,
    offset: usize,
    size: usize,
    ptr: HostConst,
    num_events: u32,
    event_wait_list: Handles<Event>,
    event: Out<*mut c_void>,
) -> Status {
    let queue = command_queue.get()?;
    let buffer = buffer.get()?;
    let wait = wait_list(num_events, &event_wait_list)?;
    let command = buffer::write(&buffer.core, offset, size, host(ptr.pointer())?)?;
    submit(&queue, command, &wait, blocking_write, &event)
}

/// clEnqueueReadBufferRect.
#[allow(clippy::too_many_arguments)]
pub fn read_rect(
    command_queue: Handle<Queue>,
    buffer: Handle<Mem>,
    blocking_read: cl::cl_bool,
    buffer_origin: In<usize>,
    host_origin: In<usize>,
    region: In<usize>,
    buffer_row_pitch: usize,
    buffer_slice_pitch: usize,
    host_row_pitch: usize,
    host_slice_pitch: usize,
    ptr: HostMut,
    num_events: u32,
    event_wait_list: Handles<Event>,
    event: Out<*mut c_void>,
) -> Status {
    let queue = command_queue.get()?;
    let buffer = buffer.get()?;
    let wait = wait_list(num_events, &event_wait_list)?;
    let side = RectSide {
        origin: triple(&buffer_origin)?,
        row_pitch: buffer_row_pitch,
        slice_pitch: buffer_slice_pitch,
    };
    let host_side =
        RectSide { origin: triple(&host_origin)?, row_pitch: host_row_pitch, slice_pitch: host_slice_pitch };
    let command = buffer::read_rect(&buffer.core, side, host(ptr.pointer())?, host_side, triple(&region)?)?;
    submit(&queue, command, &wait, blocking_read, &event)
}

/// clEnqueueWriteBufferRect.
#[allow(clippy::too_many_arguments)]
pub fn write_rect(
    command_queue: Handle<Queue>,
    buffer: Handle<Mem>,
    blocking_write: cl::cl_bool,
    buffer_origin: In<usize>,
    host_origin: In<usize>,
    region: In<usize>,
    buffer_row_pitch: usize,
    buffer_slice_pitch: usize,
    host_row_pitch: usize,
    host_slice_pitch: usize,
    ptr: HostConst,
    num_events: u32,
    event_wait_list: Handles<Event>,
    event: Out<*mut c_void>,
) -> Status {
    let queue = command_queue.get()?;
    let buffer = buffer.get()?;
    let wait = wait_list(num_events, &event_wait_list)?;
    let side = RectSide {
        origin: triple(&buffer_origin)?,
        row_pitch: buffer_row_pitch,
        slice_pitch: buffer_slice_pitch,
    };
    let host_side =
        RectSide { origin: triple(&host_origin)?, row_pitch: host_row_pitch, slice_pitch: host_slice_pitch };
    let command = buffer::write_rect(&buffer.core, side, host(ptr.pointer())?, host_side, triple(&region)?)?;
    submit(&queue, command, &wait, blocking_write, &event)
}

/// clEnqueueCopyBuffer.
#[allow(clippy::too_many_arguments)]
pub fn copy(
    command_queue: Handle<Queue>,
    src_buffer: Handle<Mem>,
    dst_buffer: Handle<Mem>,
    src_offset: usize,
    dst_offset: usize,
    size: usize,
    num_events: u32,
    event_wait_list: Handles<Event>,
    event: Out<*mut c_void>,
) -> Status {
    let queue = command_queue.get()?;
    let (source, destination) = (src_buffer.get()?, dst_buffer.get()?);
    let wait = wait_list(num_events, &event_wait_list)?;
    // CL_MEM_COPY_OVERLAP if src_buffer and dst_buffer are the same buffer or sub-buffer object and the regions overlap.
    let command = buffer::copy(&source.core, &destination.core, src_offset, dst_offset, size)?;
    submit(&queue, command, &wait, cl::CL_FALSE, &event)
}

/// clEnqueueCopyBufferRect.
#[allow(clippy::too_many_arguments)]
pub fn copy_rect(
    command_queue: Handle<Queue>,
    src_buffer: Handle<Mem>,
    dst_buffer: Handle<Mem>,
    src_origin: In<usize>,
    dst_origin: In<usize>,
    region: In<usize>,
    src_row_pitch: usize,
    src_slice_pitch: usize,
    dst_row_pitch: usize,
    dst_slice_pitch: usize,
    num_events: u32,
    event_wait_list: Handles<Event>,
    event: Out<*mut c_void>,
) -> Status {
    let queue = command_queue.get()?;
    let (source, destination) = (src_buffer.get()?, dst_buffer.get()?);
    let wait = wait_list(num_events, &event_wait_list)?;
    let source_side =
        RectSide { origin: triple(&src_origin)?, row_pitch: src_row_pitch, slice_pitch: src_slice_pitch };
    let destination_side =
        RectSide { origin: triple(&dst_origin)?, row_pitch: dst_row_pitch, slice_pitch: dst_slice_pitch };
    let region = triple(&region)?;
    let command = buffer::copy_rect(&source.core, &destination.core, source_side, destination_side, region)?;
    submit(&queue, command, &wait, cl::CL_FALSE, &event)
}

/// clEnqueueFillBuffer.
#[allow(clippy::too_many_arguments)]
pub fn fill(
    command_queue: Handle<Queue>,
    buffer: Handle<Mem>,
    pattern: HostConst,
    pattern_size: usize,
    offset: usize,
    size: usize,
    num_events: u32,
    event_wait_list: Handles<Event>,
    event: Out<*mut c_void>,
) -> Status {
    let queue = command_queue.get()?;
    let buffer = buffer.get()?;
    let wait = wait_list(num_events, &event_wait_list)?;
    let command = buffer::fill(&buffer.core, fill_pattern(&pattern, pattern_size)?, offset, size)?;
    submit(&queue, command, &wait, cl::CL_FALSE, &event)
}
