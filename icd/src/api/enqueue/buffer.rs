//! Commands on buffers (OpenCL 1.2, 5.2.2 to 5.2.4). Offsets, sizes and pitches are checked by the command's constructor.

use super::{fill_pattern, host, submit, triple, wait_list};
use crate::abi::{Handle, Handles, HostConst, HostMut, In, Out};
use crate::api::event::Event;
use crate::api::memory::Mem;
use crate::api::queue::Queue;
use crate::error::Status;
use opencl_sys as cl;
use spirula_runtime::command::Template;
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

/// The command of clEnqueueCopyBuffer and clCommandCopyBufferKHR.
pub(in crate::api) fn copying(
    src_buffer: &Handle<Mem>,
    dst_buffer: &Handle<Mem>,
    src_offset: usize,
    dst_offset: usize,
    size: usize,
) -> Status<impl Template> {
    let (source, destination) = (src_buffer.get()?.core.clone(), dst_buffer.get()?.core.clone());
    // CL_MEM_COPY_OVERLAP if src_buffer and dst_buffer are the same buffer or sub-buffer object and the regions overlap.
    Ok(move || buffer::copy(&source, &destination, src_offset, dst_offset, size))
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
    let copy = copying(&src_buffer, &dst_buffer, src_offset, dst_offset, size)?;
    let wait = wait_list(num_events, &event_wait_list)?;
    submit(&queue, copy()?, &wait, cl::CL_FALSE, &event)
}

/// One side of [`copying_rect`]: buffer, origin, row pitch and slice pitch.
type Side<'a> = (&'a Handle<Mem>, &'a In<usize>, usize, usize);

/// The command of clEnqueueCopyBufferRect and clCommandCopyBufferRectKHR.
pub(in crate::api) fn copying_rect(
    source: Side,
    destination: Side,
    region: &In<usize>,
) -> Status<impl Template> {
    let side = |(buffer, origin, row_pitch, slice_pitch): Side| -> Status<_> {
        let buffer = buffer.get()?.core.clone();
        Ok((buffer, RectSide { origin: triple(origin)?, row_pitch, slice_pitch }))
    };
    let ((source, source_side), (destination, destination_side)) = (side(source)?, side(destination)?);
    let region = triple(region)?;
    Ok(move || buffer::copy_rect(&source, &destination, source_side, destination_side, region))
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
    let source = (&src_buffer, &src_origin, src_row_pitch, src_slice_pitch);
    let destination = (&dst_buffer, &dst_origin, dst_row_pitch, dst_slice_pitch);
    let copy = copying_rect(source, destination, &region)?;
    let wait = wait_list(num_events, &event_wait_list)?;
    submit(&queue, copy()?, &wait, cl::CL_FALSE, &event)
}

/// The command of clEnqueueFillBuffer and clCommandFillBufferKHR.
pub(in crate::api) fn filling(
    buffer: &Handle<Mem>,
    (pattern, pattern_size): (&HostConst, usize),
    offset: usize,
    size: usize,
) -> Status<impl Template> {
    let buffer = buffer.get()?.core.clone();
    let pattern = fill_pattern(pattern, pattern_size)?.to_vec();
    Ok(move || buffer::fill(&buffer, &pattern, offset, size))
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
    let fill = filling(&buffer, (&pattern, pattern_size), offset, size)?;
    let wait = wait_list(num_events, &event_wait_list)?;
    submit(&queue, fill()?, &wait, cl::CL_FALSE, &event)
}
