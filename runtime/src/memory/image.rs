//! Images: what an application describes, and what that becomes in memory.

use super::Mem;
use super::format::ImageFormat;
use spirula_jit::program::ImageKind;
use std::sync::Arc;

/// A `cl_image_desc`. Sizes that the kind lacks are ignored.
#[derive(Clone, Debug)]
pub struct ImageDescription {
    /// From CL_MEM_OBJECT_IMAGE*; the caller answers CL_INVALID_IMAGE_DESCRIPTOR for other types.
    pub kind: ImageKind,
    /// Texels in a row.
    pub width: usize,
    /// Rows.
    pub height: usize,
    /// Slices of a 3-D image.
    pub depth: usize,
    /// Layers of an array.
    pub array_size: usize,
    /// Bytes, or 0; only with a host pointer.
    pub row_pitch: usize,
    /// Bytes, or 0; only with a host pointer.
    pub slice_pitch: usize,
    /// Must be 0.
    pub num_mip_levels: u32,
    /// Must be 0.
    pub num_samples: u32,
    /// The buffer of a 1-D image buffer.
    pub buffer: Option<Arc<Mem>>,
}

/// What `clGetImageInfo` tells.
#[derive(Debug)]
pub struct ImageInfo {
    /// CL_MEM_TYPE.
    pub kind: ImageKind,
    /// CL_IMAGE_FORMAT.
    pub format: ImageFormat,
    /// CL_IMAGE_ELEMENT_SIZE.
    pub element_size: usize,
    /// CL_IMAGE_WIDTH, _HEIGHT and _DEPTH as OpenCL reports them: 0 where the kind has none.
    pub width: usize,
    /// See `width`.
    pub height: usize,
    /// See `width`.
    pub depth: usize,
    /// CL_IMAGE_ARRAY_SIZE, 0 when no array.
    pub array_size: usize,
    /// CL_IMAGE_ROW_PITCH.
    pub row_pitch: usize,
    /// CL_IMAGE_SLICE_PITCH; 0 for 1-D and 2-D images.
    pub slice_pitch: usize,
    /// CL_IMAGE_BUFFER.
    pub buffer: Option<Arc<Mem>>,
}
