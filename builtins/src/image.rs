//! Images: what a kernel's image argument points at, and how kernels read and write it. `address` turns coordinates
//! into texel indices, `texel` turns memory into colours and back, `access` is what generated code calls.

pub(crate) mod access;
mod address;
pub(crate) mod half;
mod texel;

/// An image as generated code and the host see it. Every dimension that an image kind lacks is 1.
/// A kernel's image argument is a pointer to this.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ImageDescriptor {
    /// First texel.
    pub data: *mut u8,
    /// Texels in a row, at least 1.
    pub width: u32,
    /// Rows, or 1.
    pub height: u32,
    /// Slices of a 3-D image, or 1.
    pub depth: u32,
    /// Layers of an image array, or 1.
    pub array_size: u32,
    /// Bytes from a row to the next.
    pub row_pitch: u64,
    /// Bytes from a slice or layer to the next.
    pub slice_pitch: u64,
    /// `cl_channel_order`, such as CL_RGBA (0x10B5).
    pub channel_order: u32,
    /// `cl_channel_type`, such as CL_FLOAT (0x10DE).
    pub channel_type: u32,
}
