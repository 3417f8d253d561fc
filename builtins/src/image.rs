//! Images: what a kernel's image argument points at, and how kernels read and write it. `address` turns coordinates
//! into texel indices, `texel` turns memory into colours and back, by `component`s, `channels` does so for the usual
//! formats in lanes, `access` and `block` are what generated code calls.

pub(crate) mod access;
mod address;
pub(crate) mod block;
mod channels;
mod component;
mod format;
pub(crate) mod half;
mod srgb;
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

/// The bytes of a texel of a colour, as `write_imagef`, `write_imagei` and `write_imageui` store it, and zeros behind
/// them. The colour's components are the bits of floats or of integers, as the channel type asks.
#[cfg(not(spirula_bitcode))]
pub fn encoded(channel_order: u32, channel_type: u32, colour: [u32; 4]) -> [u8; 16] {
    let mut texel = [0; 16];
    let [r, g, b, a] = colour;
    let image = ImageDescriptor {
        data: texel.as_mut_ptr(),
        width: 1,
        height: 1,
        depth: 1,
        array_size: 1,
        row_pitch: 16,
        slice_pitch: 16,
        channel_order,
        channel_type,
    };
    // SAFETY: the descriptor is of one texel, of which none is larger than 16 bytes.
    unsafe {
        match channel_type {
            format::SIGNED_INT8..=format::SIGNED_INT32 => {
                access::spirula_write_imagei(&image, 1, 0, 0, 0, r as i32, g as i32, b as i32, a as i32);
            }
            format::UNSIGNED_INT8..=format::UNSIGNED_INT32 => {
                access::spirula_write_imageui(&image, 1, 0, 0, 0, r, g, b, a);
            }
            _ => {
                let [r, g, b, a] = colour.map(f32::from_bits);
                access::spirula_write_imagef(&image, 1, 0, 0, 0, r, g, b, a);
            }
        }
    }
    texel
}
