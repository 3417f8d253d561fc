//! Commands on images: read, write, copy, fill, and to and from buffers (OpenCL 1.2, 5.3.3 to 5.3.5). Origins and regions
//! are in texels, rows and slices; of an array, the last used one is the layer.

use super::{Command, CommandType, check_box, check_overlap, expect_buffer, expect_image, same_context};
use crate::error::{Result, Status};
use crate::memory::rect::{self, Placement};
use crate::memory::{HostPtr, Mem};
use std::sync::Arc;

/// clEnqueueReadImage; pitches in bytes, 0 for tight.
pub fn read(
    image: &Arc<Mem>,
    origin: [usize; 3],
    region: [usize; 3],
    row_pitch: usize,
    slice_pitch: usize,
    to: HostPtr,
) -> Result<Command> {
    let boxes = Transfer::check(image, origin, region, row_pitch, slice_pitch)?;
    image.check_host_access(true, false)?;
    let held = image.clone();
    let Transfer { image: place, host, region, host_size } = boxes;
    let call = move || rect::copy(to.span(host_size), host, held.span(), place, region);
    Ok(Command::transfer(CommandType::ReadImage, image, region.iter().product(), call))
}

/// clEnqueueWriteImage.
pub fn write(
    image: &Arc<Mem>,
    origin: [usize; 3],
    region: [usize; 3],
    row_pitch: usize,
    slice_pitch: usize,
    from: HostPtr,
) -> Result<Command> {
    let boxes = Transfer::check(image, origin, region, row_pitch, slice_pitch)?;
    image.check_host_access(false, true)?;
    let held = image.clone();
    let Transfer { image: place, host, region, host_size } = boxes;
    let call = move || rect::copy(held.span(), place, from.span(host_size), host, region);
    Ok(Command::transfer(CommandType::WriteImage, image, region.iter().product(), call))
}

/// A box of an image and the host's or a buffer's that it is copied from or to.
struct Transfer {
    image: Placement,
    host: Placement,
    /// Bytes, rows, slices.
    region: [usize; 3],
    /// Bytes of the host's memory that the box needs.
    host_size: usize,
}

impl Transfer {
    /// CL_INVALID_VALUE for a region outside the image or pitches shorter than it.
    fn check(
        image: &Mem,
        origin: [usize; 3],
        region: [usize; 3],
        row_pitch: usize,
        slice_pitch: usize,
    ) -> Result<Transfer> {
        let info = expect_image(image)?;
        info.check_region(origin, region)?;
        // CL_INVALID_VALUE if image is a 1D or 2D image and slice_pitch or input_slice_pitch is not 0.
        if slice_pitch != 0 && !info.has_slices() {
            return Err(
                Status::InvalidValue.because(format!("a slice pitch of {slice_pitch} without slices"))
            );
        }
        let least_row = info.tight_pitches(0, 0, region).0;
        let least_slice = info.tight_pitches(row_pitch, 0, region).1;
        if row_pitch != 0 && row_pitch < least_row || slice_pitch != 0 && slice_pitch < least_slice {
            return Err(Status::InvalidValue.because(format!(
                "pitches {row_pitch} and {slice_pitch} for a region of {region:?} texels"
            )));
        }
        let host = info.host_placement(row_pitch, slice_pitch, region);
        let bytes = info.byte_region(region);
        let host_size =
            host.end(bytes).ok_or_else(|| Status::InvalidValue.because("the host's box has no end"))?;
        Ok(Transfer { image: info.placement(origin), host, region: bytes, host_size })
    }
}

/// clEnqueueCopyImage. CL_IMAGE_FORMAT_MISMATCH, CL_MEM_COPY_OVERLAP.
pub fn copy(
    source: &Arc<Mem>,
    destination: &Arc<Mem>,
    source_origin: [usize; 3],
    destination_origin: [usize; 3],
    region: [usize; 3],
) -> Result<Command> {
    let (from, to) = (expect_image(source)?, expect_image(destination)?);
    same_context(source, destination)?;
    if from.format != to.format {
        return Err(Status::ImageFormatMismatch
            .because(format!("a copy from {:x?} to {:x?}", from.format, to.format)));
    }
    from.check_region(source_origin, region)?;
    to.check_region(destination_origin, region)?;
    let bytes = from.byte_region(region);
    let (from, to) = (from.placement(source_origin), to.placement(destination_origin));
    check_overlap((source, from), (destination, to), bytes)?;
    let (read, written) = (source.clone(), destination.clone());
    let call = move || rect::copy(written.span(), to, read.span(), from, bytes);
    Ok(Command::transfer(CommandType::CopyImage, source, bytes.iter().product(), call))
}

/// clEnqueueCopyImageToBuffer.
pub fn copy_to_buffer(
    image: &Arc<Mem>,
    buffer: &Arc<Mem>,
    origin: [usize; 3],
    region: [usize; 3],
    buffer_offset: usize,
) -> Result<Command> {
    let (place, linear, bytes) = beside_buffer(image, buffer, origin, region, buffer_offset)?;
    let (read, written) = (image.clone(), buffer.clone());
    let call = move || {
        rect::copy(written.span(), linear, read.span(), place, bytes);
        written.note_written(linear, bytes);
    };
    Ok(Command::transfer(CommandType::CopyImageToBuffer, image, bytes.iter().product(), call))
}

/// clEnqueueCopyBufferToImage.
pub fn copy_from_buffer(
    buffer: &Arc<Mem>,
    image: &Arc<Mem>,
    buffer_offset: usize,
    origin: [usize; 3],
    region: [usize; 3],
) -> Result<Command> {
    let (place, linear, bytes) = beside_buffer(image, buffer, origin, region, buffer_offset)?;
    let (read, written) = (buffer.clone(), image.clone());
    let call = move || rect::copy(written.span(), place, read.span(), linear, bytes);
    Ok(Command::transfer(CommandType::CopyBufferToImage, image, bytes.iter().product(), call))
}

/// A box of an image, and its tight copy in a buffer from `offset` on.
fn beside_buffer(
    image: &Mem,
    buffer: &Mem,
    origin: [usize; 3],
    region: [usize; 3],
    offset: usize,
) -> Result<(Placement, Placement, [usize; 3])> {
    expect_buffer(buffer)?;
    same_context(image, buffer)?;
    let Transfer { image: place, host, region, .. } = Transfer::check(image, origin, region, 0, 0)?;
    let linear = Placement { offset, ..host };
    check_box(buffer, linear, region)?;
    check_overlap((image, place), (buffer, linear), region)?;
    Ok((place, linear, region))
}

/// clEnqueueFillImage; `color` is the bits of a float4, int4 or uint4, as the format's channel type asks, and linear.
pub fn fill(image: &Arc<Mem>, color: [u32; 4], origin: [usize; 3], region: [usize; 3]) -> Result<Command> {
    let info = expect_image(image)?;
    info.check_region(origin, region)?;
    let (place, bytes, texel) = (info.placement(origin), info.byte_region(region), info.format.encode(color));
    let held = image.clone();
    let call = move || rect::fill(held.span(), place, bytes, &texel);
    Ok(Command::transfer(CommandType::FillImage, image, bytes.iter().product(), call))
}
