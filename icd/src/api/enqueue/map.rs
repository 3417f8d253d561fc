//! Mapping memory objects (OpenCL 1.2, 5.2.4, 5.3.6 and 5.4.2).

use super::image::{buffer, image};
use super::{submit, triple, wait_list};
use crate::abi::{Handle, Handles, HostMut, In, Out};
use crate::api::event::Event;
use crate::api::memory::Mem;
use crate::api::queue::Queue;
use crate::error::{OrFail, Status, fail_if};
use opencl_sys as cl;
use spirula_runtime::command::map;
use spirula_runtime::memory::MapFlags;
use std::ffi::c_void;

/// CL_INVALID_VALUE if values specified in map_flags are not valid.
fn flags(map_flags: cl::cl_map_flags) -> Status<MapFlags> {
    MapFlags::from_bits(map_flags).or_fail(cl::CL_INVALID_VALUE, "map_flags has bits that are not valid")
}

/// clEnqueueMapBuffer.
#[allow(clippy::too_many_arguments)]
pub fn map_buffer(
    command_queue: Handle<Queue>,
    object: Handle<Mem>,
    blocking_map: cl::cl_bool,
    map_flags: cl::cl_map_flags,
    offset: usize,
    size: usize,
    num_events: u32,
    event_wait_list: Handles<Event>,
    event: Out<*mut c_void>,
) -> Status<*mut c_void> {
    let queue = command_queue.get()?;
    let buffer = buffer(&object)?;
    let wait = wait_list(num_events, &event_wait_list)?;
    let mapping = map::map_buffer(&buffer.core, flags(map_flags)?, offset, size)?;
    submit(&queue, mapping.command, &wait, blocking_map, &event)?;
    Ok(mapping.address.cast())
}

/// clEnqueueMapImage.
#[allow(clippy::too_many_arguments)]
pub fn map_image(
    command_queue: Handle<Queue>,
    object: Handle<Mem>,
    blocking_map: cl::cl_bool,
    map_flags: cl::cl_map_flags,
    origin: In<usize>,
    region: In<usize>,
    image_row_pitch: Out<usize>,
    image_slice_pitch: Out<usize>,
    num_events: u32,
    event_wait_list: Handles<Event>,
    event: Out<*mut c_void>,
) -> Status<*mut c_void> {
    let queue = command_queue.get()?;
    let image = image(&object)?;
    let wait = wait_list(num_events, &event_wait_list)?;
    let (origin, region) = (triple(&origin)?, triple(&region)?);
    fail_if(image_row_pitch.is_null(), cl::CL_INVALID_VALUE, "image_row_pitch is NULL")?;
    let mapping = map::map_image(&image.core, flags(map_flags)?, origin, region)?;
    // CL_INVALID_VALUE if image is a 3D image, 1D or 2D image array object and image_slice_pitch is NULL.
    let lost = mapping.slice_pitch != 0 && image_slice_pitch.is_null();
    fail_if(lost, cl::CL_INVALID_VALUE, "image_slice_pitch is NULL")?;
    submit(&queue, mapping.command, &wait, blocking_map, &event)?;
    image_row_pitch.write(mapping.row_pitch);
    image_slice_pitch.write(mapping.slice_pitch);
    Ok(mapping.address.cast())
}

/// clEnqueueUnmapMemObject.
pub fn unmap(
    command_queue: Handle<Queue>,
    object: Handle<Mem>,
    mapped_ptr: HostMut,
    num_events: u32,
    event_wait_list: Handles<Event>,
    event: Out<*mut c_void>,
) -> Status {
    let queue = command_queue.get()?;
    let mem = object.get()?;
    let wait = wait_list(num_events, &event_wait_list)?;
    // CL_INVALID_VALUE if mapped_ptr is not a valid pointer returned by clEnqueueMapBuffer or clEnqueueMapImage.
    let command = map::unmap(&mem.core, mapped_ptr.address())?;
    submit(&queue, command, &wait, cl::CL_FALSE, &event)
}
