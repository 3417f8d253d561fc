//! Image formats: `cl_image_format`, the sizes of its elements, and the list of supported ones.

use super::MemFlags;

/// A `cl_image_format` in OpenCL's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct ImageFormat {
    /// `cl_channel_order`, such as CL_RGBA (0x10B5).
    pub channel_order: u32,
    /// `cl_channel_type`, such as CL_FLOAT (0x10DE).
    pub channel_type: u32,
}

impl ImageFormat {
    /// Bytes of a texel; None when the combination is no valid descriptor (CL_INVALID_IMAGE_FORMAT_DESCRIPTOR).
    pub fn element_size(self) -> Option<usize> {
        todo!()
    }
}

/// clGetSupportedImageFormats: for the access that `flags` ask for. All image types support the same ones.
pub fn supported(flags: MemFlags) -> Vec<ImageFormat> {
    let _ = flags;
    todo!()
}
