//! Commands on images: read, write, copy, fill, and to and from buffers (OpenCL 1.2, 5.3.3 to 5.3.5). Origins and regions
//! are in texels, rows and slices; of an array, the last used one is the layer.

use super::Command;
use crate::error::Result;
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
    let _ = (image, origin, region, row_pitch, slice_pitch, to);
    todo!()
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
    let _ = (image, origin, region, row_pitch, slice_pitch, from);
    todo!()
}

/// clEnqueueCopyImage. CL_IMAGE_FORMAT_MISMATCH, CL_MEM_COPY_OVERLAP.
pub fn copy(
    source: &Arc<Mem>,
    destination: &Arc<Mem>,
    source_origin: [usize; 3],
    destination_origin: [usize; 3],
    region: [usize; 3],
) -> Result<Command> {
    let _ = (source, destination, source_origin, destination_origin, region);
    todo!()
}

/// clEnqueueCopyImageToBuffer.
pub fn copy_to_buffer(
    image: &Arc<Mem>,
    buffer: &Arc<Mem>,
    origin: [usize; 3],
    region: [usize; 3],
    buffer_offset: usize,
) -> Result<Command> {
    let _ = (image, buffer, origin, region, buffer_offset);
    todo!()
}

/// clEnqueueCopyBufferToImage.
pub fn copy_from_buffer(
    buffer: &Arc<Mem>,
    image: &Arc<Mem>,
    buffer_offset: usize,
    origin: [usize; 3],
    region: [usize; 3],
) -> Result<Command> {
    let _ = (buffer, image, buffer_offset, origin, region);
    todo!()
}

/// clEnqueueFillImage; `color` is the 16 bytes of a float4, int4 or uint4, as the format's channel type asks.
pub fn fill(image: &Arc<Mem>, color: [u8; 16], origin: [usize; 3], region: [usize; 3]) -> Result<Command> {
    let _ = (image, color, origin, region);
    todo!()
}
