//! Commands on images (OpenCL 1.2, 5.3.3 to 5.3.5). Origins, regions and pitches are checked by the command's constructor.

use super::{host, submit, triple, wait_list};
use crate::abi::{Handle, Handles, HostConst, HostMut, In, Out};
use crate::api::event::Event;
use crate::api::memory::Mem;
use crate::api::queue::Queue;
use crate::error::{OrFail, Status, fail_if};
use crate::handle::Ref;
use opencl_sys as cl;
use spirula_runtime::command::{Template, image};
use std::ffi::c_void;

/// CL_INVALID_MEM_OBJECT if image is not a valid image object.
pub(super) fn image(object: &Handle<Mem>) -> Status<Ref<Mem>> {
    let mem = object.get()?;
    let image = mem.core.image_info().is_some();
    fail_if(!image, cl::CL_INVALID_MEM_OBJECT, "no image where one is needed")?;
    Ok(mem)
}

/// CL_INVALID_MEM_OBJECT if buffer is not a valid buffer object.
pub(super) fn buffer(object: &Handle<Mem>) -> Status<Ref<Mem>> {
    let mem = object.get()?;
    fail_if(!mem.core.is_buffer(), cl::CL_INVALID_MEM_OBJECT, "no buffer where one is needed")?;
    Ok(mem)
}

/// clEnqueueReadImage.
#[allow(clippy::too_many_arguments)]
pub fn read(
    command_queue: Handle<Queue>,
    object: Handle<Mem>,
    blocking_read: cl::cl_bool,
    origin: In<usize>,
    region: In<usize>,
    row_pitch: usize,
    slice_pitch: usize,
    ptr: HostMut,
    num_events: u32,
    event_wait_list: Handles<Event>,
    event: Out<*mut c_void>,
) -> Status {
    let queue = command_queue.get()?;
    let image = image(&object)?;
    let wait = wait_list(num_events, &event_wait_list)?;
    let (origin, region) = (triple(&origin)?, triple(&region)?);
    let command = image::read(&image.core, origin, region, row_pitch, slice_pitch, host(ptr.pointer())?)?;
    submit(&queue, command, &wait, blocking_read, &event)
}

/// clEnqueueWriteImage.
#[allow(clippy::too_many_arguments)]
pub fn write(
    command_queue: Handle<Queue>,
    object: Handle<Mem>,
    blocking_write: cl::cl_bool,
    origin: In<usize>,
    region: In<usize>,
    input_row_pitch: usize,
    input_slice_pitch: usize,
    ptr: HostConst,
    num_events: u32,
    event_wait_list: Handles<Event>,
    event: Out<*mut c_void>,
) -> Status {
    let queue = command_queue.get()?;
    let image = image(&object)?;
    let wait = wait_list(num_events, &event_wait_list)?;
    let (origin, region) = (triple(&origin)?, triple(&region)?);
    let pointer = host(ptr.pointer())?;
    let command = image::write(&image.core, origin, region, input_row_pitch, input_slice_pitch, pointer)?;
    submit(&queue, command, &wait, blocking_write, &event)
}

/// An object and the origin of a region in it.
type Side<'a> = (&'a Handle<Mem>, &'a In<usize>);

/// The command of clEnqueueCopyImage and clCommandCopyImageKHR.
pub(in crate::api) fn copying(
    (src_image, src_origin): Side,
    (dst_image, dst_origin): Side,
    region: &In<usize>,
) -> Status<impl Template> {
    let (source, destination) = (image(src_image)?.core.clone(), image(dst_image)?.core.clone());
    let (from, to, region) = (triple(src_origin)?, triple(dst_origin)?, triple(region)?);
    // CL_IMAGE_FORMAT_MISMATCH if src_image and dst_image do not use the same image format. CL_MEM_COPY_OVERLAP.
    Ok(move || image::copy(&source, &destination, from, to, region))
}

/// clEnqueueCopyImage.
#[allow(clippy::too_many_arguments)]
pub fn copy(
    command_queue: Handle<Queue>,
    src_image: Handle<Mem>,
    dst_image: Handle<Mem>,
    src_origin: In<usize>,
    dst_origin: In<usize>,
    region: In<usize>,
    num_events: u32,
    event_wait_list: Handles<Event>,
    event: Out<*mut c_void>,
) -> Status {
    let queue = command_queue.get()?;
    let copy = copying((&src_image, &src_origin), (&dst_image, &dst_origin), &region)?;
    let wait = wait_list(num_events, &event_wait_list)?;
    submit(&queue, copy()?, &wait, cl::CL_FALSE, &event)
}

/// The command of clEnqueueCopyImageToBuffer and clCommandCopyImageToBufferKHR.
pub(in crate::api) fn copying_to_buffer(
    (src_image, src_origin): Side,
    region: &In<usize>,
    (dst_buffer, dst_offset): (&Handle<Mem>, usize),
) -> Status<impl Template> {
    let (source, destination) = (image(src_image)?.core.clone(), buffer(dst_buffer)?.core.clone());
    let (origin, region) = (triple(src_origin)?, triple(region)?);
    Ok(move || image::copy_to_buffer(&source, &destination, origin, region, dst_offset))
}

/// clEnqueueCopyImageToBuffer.
#[allow(clippy::too_many_arguments)]
pub fn copy_to_buffer(
    command_queue: Handle<Queue>,
    src_image: Handle<Mem>,
    dst_buffer: Handle<Mem>,
    src_origin: In<usize>,
    region: In<usize>,
    dst_offset: usize,
    num_events: u32,
    event_wait_list: Handles<Event>,
    event: Out<*mut c_void>,
) -> Status {
    let queue = command_queue.get()?;
    let copy = copying_to_buffer((&src_image, &src_origin), &region, (&dst_buffer, dst_offset))?;
    let wait = wait_list(num_events, &event_wait_list)?;
    submit(&queue, copy()?, &wait, cl::CL_FALSE, &event)
}

/// The command of clEnqueueCopyBufferToImage and clCommandCopyBufferToImageKHR.
pub(in crate::api) fn copying_from_buffer(
    (src_buffer, src_offset): (&Handle<Mem>, usize),
    (dst_image, dst_origin): Side,
    region: &In<usize>,
) -> Status<impl Template> {
    let (source, destination) = (buffer(src_buffer)?.core.clone(), image(dst_image)?.core.clone());
    let (origin, region) = (triple(dst_origin)?, triple(region)?);
    Ok(move || image::copy_from_buffer(&source, &destination, src_offset, origin, region))
}

/// clEnqueueCopyBufferToImage.
#[allow(clippy::too_many_arguments)]
pub fn copy_from_buffer(
    command_queue: Handle<Queue>,
    src_buffer: Handle<Mem>,
    dst_image: Handle<Mem>,
    src_offset: usize,
    dst_origin: In<usize>,
    region: In<usize>,
    num_events: u32,
    event_wait_list: Handles<Event>,
    event: Out<*mut c_void>,
) -> Status {
    let queue = command_queue.get()?;
    let copy = copying_from_buffer((&src_buffer, src_offset), (&dst_image, &dst_origin), &region)?;
    let wait = wait_list(num_events, &event_wait_list)?;
    submit(&queue, copy()?, &wait, cl::CL_FALSE, &event)
}

/// The command of clEnqueueFillImage and clCommandFillImageKHR.
pub(in crate::api) fn filling(
    (object, origin): Side,
    fill_color: &HostConst,
    region: &In<usize>,
) -> Status<impl Template> {
    let image = image(object)?.core.clone();
    // A value of four components, but of depth images the depth alone.
    let color = match image.image_info().is_some_and(|info| info.format.is_depth()) {
        true => fill_color.cast().array().map(|[depth]| [depth, 0, 0, 0]),
        false => fill_color.cast().array(),
    };
    let color = color.or_fail(cl::CL_INVALID_VALUE, "fill_color is NULL")?;
    let (origin, region) = (triple(origin)?, triple(region)?);
    Ok(move || image::fill(&image, color, origin, region))
}

/// clEnqueueFillImage.
#[allow(clippy::too_many_arguments)]
pub fn fill(
    command_queue: Handle<Queue>,
    object: Handle<Mem>,
    fill_color: HostConst,
    origin: In<usize>,
    region: In<usize>,
    num_events: u32,
    event_wait_list: Handles<Event>,
    event: Out<*mut c_void>,
) -> Status {
    let queue = command_queue.get()?;
    let fill = filling((&object, &origin), &fill_color, &region)?;
    let wait = wait_list(num_events, &event_wait_list)?;
    submit(&queue, fill()?, &wait, cl::CL_FALSE, &event)
}
