//! Commands on buffers: read, write, copy, fill, and their rectangular forms (OpenCL 1.2, 5.2.2 to 5.2.4).

use super::Command;
use crate::error::Result;
use crate::memory::{HostPtr, Mem};
use std::sync::Arc;

/// One side of a rectangular transfer: an origin in bytes, rows and slices, and the pitches in bytes (0 for tight).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RectSide {
    /// x in bytes, y in rows, z in slices.
    pub origin: [usize; 3],
    /// Bytes from row to row, or 0.
    pub row_pitch: usize,
    /// Bytes from slice to slice, or 0.
    pub slice_pitch: usize,
}

/// clEnqueueReadBuffer. CL_INVALID_VALUE out of bounds or size 0, CL_INVALID_OPERATION if the host may not read it,
/// CL_INVALID_MEM_OBJECT for images.
pub fn read(buffer: &Arc<Mem>, offset: usize, size: usize, to: HostPtr) -> Result<Command> {
    let _ = (buffer, offset, size, to);
    todo!()
}

/// clEnqueueWriteBuffer. Errors as [`read`].
pub fn write(buffer: &Arc<Mem>, offset: usize, size: usize, from: HostPtr) -> Result<Command> {
    let _ = (buffer, offset, size, from);
    todo!()
}

/// clEnqueueReadBufferRect; `region` is width in bytes, height in rows, depth in slices.
pub fn read_rect(
    buffer: &Arc<Mem>,
    side: RectSide,
    to: HostPtr,
    host: RectSide,
    region: [usize; 3],
) -> Result<Command> {
    let _ = (buffer, side, to, host, region);
    todo!()
}

/// clEnqueueWriteBufferRect.
pub fn write_rect(
    buffer: &Arc<Mem>,
    side: RectSide,
    from: HostPtr,
    host: RectSide,
    region: [usize; 3],
) -> Result<Command> {
    let _ = (buffer, side, from, host, region);
    todo!()
}

/// clEnqueueCopyBuffer. CL_MEM_COPY_OVERLAP when they overlap.
pub fn copy(
    source: &Arc<Mem>,
    destination: &Arc<Mem>,
    source_offset: usize,
    destination_offset: usize,
    size: usize,
) -> Result<Command> {
    let _ = (source, destination, source_offset, destination_offset, size);
    todo!()
}

/// clEnqueueCopyBufferRect.
pub fn copy_rect(
    source: &Arc<Mem>,
    destination: &Arc<Mem>,
    source_side: RectSide,
    destination_side: RectSide,
    region: [usize; 3],
) -> Result<Command> {
    let _ = (source, destination, source_side, destination_side, region);
    todo!()
}

/// clEnqueueFillBuffer; `pattern` has 1, 2, 4 … 128 bytes (else CL_INVALID_VALUE).
pub fn fill(buffer: &Arc<Mem>, pattern: &[u8], offset: usize, size: usize) -> Result<Command> {
    let _ = (buffer, pattern, offset, size);
    todo!()
}
