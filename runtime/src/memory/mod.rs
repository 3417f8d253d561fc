//! Memory objects: buffers, sub-buffers and images over one kind of storage; mappings and destructor callbacks.

pub mod flags;
pub mod format;
pub mod image;
pub mod raw;

pub use flags::{MapFlags, MemFlags};
pub use image::{ImageDescription, ImageInfo};
pub use raw::HostPtr;

use crate::context::Context;
use crate::error::Result;
use std::sync::Arc;

/// A `cl_mem`: a buffer, a sub-buffer or an image.
pub struct Mem {
    /// CL_MEM_CONTEXT.
    pub context: Arc<Context>,
    /// CL_MEM_FLAGS; a sub-buffer's inherited ones are filled in.
    pub flags: MemFlags,
    /// CL_MEM_SIZE in bytes.
    pub size: usize,
    /// CL_MEM_HOST_PTR: the application's pointer of CL_MEM_USE_HOST_PTR (a sub-buffer's includes its origin).
    pub host_ptr: Option<HostPtr>,
    /// What it is.
    pub kind: MemKind,
}

/// What a memory object is.
#[derive(Debug)]
pub enum MemKind {
    /// clCreateBuffer's.
    Buffer,
    /// clCreateSubBuffer's.
    SubBuffer {
        /// CL_MEM_ASSOCIATED_MEMOBJECT.
        parent: Arc<Mem>,
        /// CL_MEM_OFFSET in bytes.
        origin: usize,
    },
    /// clCreateImage's.
    Image(ImageInfo),
}

impl Mem {
    /// clCreateBuffer. `host_ptr` for USE_HOST_PTR and COPY_HOST_PTR. Errors: CL_INVALID_VALUE for flags,
    /// CL_INVALID_BUFFER_SIZE, CL_INVALID_HOST_PTR, CL_MEM_OBJECT_ALLOCATION_FAILURE.
    pub fn buffer(
        context: &Arc<Context>,
        flags: MemFlags,
        size: usize,
        host_ptr: Option<HostPtr>,
    ) -> Result<Arc<Mem>> {
        let _ = (context, flags, size, host_ptr);
        todo!()
    }

    /// clCreateSubBuffer with a `cl_buffer_region`. Errors: CL_INVALID_MEM_OBJECT for a parent that is no buffer,
    /// CL_INVALID_VALUE, CL_INVALID_BUFFER_SIZE, CL_MISALIGNED_SUB_BUFFER_OFFSET.
    pub fn sub_buffer(self: &Arc<Mem>, flags: MemFlags, origin: usize, size: usize) -> Result<Arc<Mem>> {
        let _ = (flags, origin, size);
        todo!()
    }

    /// clCreateImage (and the deprecated clCreateImage2D/3D). Errors as OpenCL 1.2, 5.3.1 lists them.
    pub fn image(
        context: &Arc<Context>,
        flags: MemFlags,
        format: format::ImageFormat,
        description: &ImageDescription,
        host_ptr: Option<HostPtr>,
    ) -> Result<Arc<Mem>> {
        let _ = (context, flags, format, description, host_ptr);
        todo!()
    }

    /// CL_MEM_ASSOCIATED_MEMOBJECT: a sub-buffer's parent, a 1-D image buffer's buffer.
    pub fn associated(&self) -> Option<&Arc<Mem>> {
        todo!()
    }

    /// CL_MEM_OFFSET.
    pub fn offset(&self) -> usize {
        todo!()
    }

    /// What an image is; None for buffers.
    pub fn image_info(&self) -> Option<&ImageInfo> {
        match &self.kind {
            MemKind::Image(info) => Some(info),
            _ => None,
        }
    }

    /// CL_MEM_MAP_COUNT.
    pub fn map_count(&self) -> u32 {
        todo!()
    }

    /// clSetMemObjectDestructorCallback: run when the object is deleted, last registered first.
    pub fn on_destroy(&self, callback: Box<dyn FnOnce() + Send>) {
        let _ = callback;
        todo!()
    }

    /// The host address of the first byte, as native kernels get it.
    pub fn address(&self) -> *mut u8 {
        todo!()
    }
}

impl std::fmt::Debug for Mem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Mem").field("size", &self.size).field("flags", &self.flags).finish_non_exhaustive()
    }
}
