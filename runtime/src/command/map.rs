//! Mapping memory objects: nothing moves, as host and device share memory; the books are kept.

use super::Command;
use crate::error::Result;
use crate::memory::{MapFlags, Mem};
use std::sync::Arc;

/// What a map call returns at once; the contents are defined when the command has ended.
#[derive(Debug)]
pub struct Mapping {
    /// To be submitted; dropped instead, it undoes the mapping.
    pub command: Command,
    /// The address of the region's first byte.
    pub address: *mut u8,
    /// Bytes from row to row (images).
    pub row_pitch: usize,
    /// Bytes from slice to slice (3-D images and arrays, else 0).
    pub slice_pitch: usize,
}

/// clEnqueueMapBuffer. CL_INVALID_VALUE out of bounds or for contradicting flags, CL_INVALID_OPERATION if the host has no
/// such access.
pub fn map_buffer(buffer: &Arc<Mem>, flags: MapFlags, offset: usize, size: usize) -> Result<Mapping> {
    let _ = (buffer, flags, offset, size);
    todo!()
}

/// clEnqueueMapImage.
pub fn map_image(
    image: &Arc<Mem>,
    flags: MapFlags,
    origin: [usize; 3],
    region: [usize; 3],
) -> Result<Mapping> {
    let _ = (image, flags, origin, region);
    todo!()
}

/// clEnqueueUnmapMemObject. CL_INVALID_VALUE if `address` isn't mapped.
pub fn unmap(object: &Arc<Mem>, address: *mut u8) -> Result<Command> {
    let _ = (object, address);
    todo!()
}
