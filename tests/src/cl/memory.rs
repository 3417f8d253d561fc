//! Buffers, images and samplers.

use super::object::object;
use super::{Context, Handle, Object, Result};
use crate::cl::sys::*;
use crate::{call, create};
use bytemuck::Pod;
use std::ptr::null_mut;

object!(
    /// A buffer.
    Buffer, clRetainMemObject, clReleaseMemObject, clGetMemObjectInfo
);

impl Buffer {
    /// An uninitialized buffer of so many bytes.
    pub fn new(context: &Context, flags: cl_mem_flags, bytes: usize) -> Result<Buffer> {
        Ok(Buffer(create!(clCreateBuffer(context.raw(), flags, bytes, null_mut()))?))
    }

    /// A read-write buffer that starts as a copy of `data`.
    pub fn copy_of<T: Pod>(context: &Context, data: &[T]) -> Result<Buffer> {
        let flags = CL_MEM_READ_WRITE | CL_MEM_COPY_HOST_PTR;
        let bytes: &[u8] = bytemuck::cast_slice(data);
        Ok(Buffer(create!(clCreateBuffer(
            context.raw(),
            flags,
            bytes.len(),
            bytes.as_ptr().cast_mut().cast()
        ))?))
    }

    /// A part of this buffer.
    pub fn sub_buffer(&self, flags: cl_mem_flags, origin: usize, size: usize) -> Result<Buffer> {
        let region = cl_buffer_region { origin, size };
        let region = (&raw const region).cast();
        Ok(Buffer(create!(clCreateSubBuffer(self.0, flags, CL_BUFFER_CREATE_TYPE_REGION, region))?))
    }

    /// A pipe, which the API treats as a memory object.
    pub fn pipe(context: &Context, packet_size: u32, packets: u32) -> Result<Buffer> {
        let properties = std::ptr::null();
        Ok(Buffer(create!(clCreatePipe(context.raw(), CL_MEM_READ_WRITE, packet_size, packets, properties))?))
    }
}

/// The image types, with the fields of `cl_image_desc` that each uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImageKind {
    /// `image1d_t`
    D1,
    /// `image1d_buffer_t`
    D1Buffer,
    /// `image1d_array_t`
    D1Array,
    /// `image2d_t`
    D2,
    /// `image2d_array_t`
    D2Array,
    /// `image3d_t`
    D3,
}

/// An image with what is needed to read all of it.
#[derive(Debug)]
pub struct Image {
    object: Buffer,
    /// The whole image, as `clEnqueueReadImage` takes it.
    pub region: [usize; 3],
}

impl Object for Image {
    fn raw(&self) -> Handle {
        self.object.raw()
    }
}

impl Image {
    /// A read-write image of `size` (width, height, depth) and `layers`; dimensions its kind lacks are ignored.
    pub fn new(
        context: &Context,
        kind: ImageKind,
        (order, data_type): (cl_channel_order, cl_channel_type),
        size: [usize; 3],
        layers: usize,
        buffer: Option<&Buffer>,
    ) -> Result<Image> {
        let format = cl_image_format { image_channel_order: order, image_channel_data_type: data_type };
        let [width, height, depth] = size;
        let (image_type, region) = match kind {
            ImageKind::D1 => (CL_MEM_OBJECT_IMAGE1D, [width, 1, 1]),
            ImageKind::D1Buffer => (CL_MEM_OBJECT_IMAGE1D_BUFFER, [width, 1, 1]),
            ImageKind::D1Array => (CL_MEM_OBJECT_IMAGE1D_ARRAY, [width, layers, 1]),
            ImageKind::D2 => (CL_MEM_OBJECT_IMAGE2D, [width, height, 1]),
            ImageKind::D2Array => (CL_MEM_OBJECT_IMAGE2D_ARRAY, [width, height, layers]),
            ImageKind::D3 => (CL_MEM_OBJECT_IMAGE3D, [width, height, depth]),
        };
        let has_height = matches!(kind, ImageKind::D2 | ImageKind::D2Array | ImageKind::D3);
        let is_array = matches!(kind, ImageKind::D1Array | ImageKind::D2Array);
        let description = cl_image_desc {
            image_type,
            image_width: width,
            image_height: if has_height { height } else { 0 },
            image_depth: if kind == ImageKind::D3 { depth } else { 0 },
            image_array_size: if is_array { layers } else { 0 },
            image_row_pitch: 0,
            image_slice_pitch: 0,
            num_mip_levels: 0,
            num_samples: 0,
            buffer: buffer.map_or(null_mut(), Object::raw),
        };
        let handle =
            create!(clCreateImage(context.raw(), CL_MEM_READ_WRITE, &format, &description, null_mut()))?;
        Ok(Image { object: Buffer(handle), region })
    }
}

impl Image {
    /// The channel orders and types that read-write images of a type can have.
    pub fn formats(
        context: &Context,
        kind: cl_mem_object_type,
    ) -> Result<Vec<(cl_channel_order, cl_channel_type)>> {
        let (context, mut count) = (context.raw(), 0);
        let none = null_mut();
        call!(clGetSupportedImageFormats(context, CL_MEM_READ_WRITE, kind, 0, none, &mut count))?;
        let empty = || cl_image_format { image_channel_order: 0, image_channel_data_type: 0 };
        let mut formats: Vec<_> = std::iter::repeat_with(empty).take(count as usize).collect();
        let (place, rest) = (formats.as_mut_ptr(), null_mut());
        call!(clGetSupportedImageFormats(context, CL_MEM_READ_WRITE, kind, count, place, rest))?;
        Ok(formats.into_iter().map(|f| (f.image_channel_order, f.image_channel_data_type)).collect())
    }
}

object!(
    /// A sampler.
    Sampler, clRetainSampler, clReleaseSampler, clGetSamplerInfo
);

impl Sampler {
    /// A sampler with this addressing and filter.
    pub fn new(
        context: &Context,
        normalized: bool,
        addressing: cl_addressing_mode,
        filter: cl_filter_mode,
    ) -> Result<Sampler> {
        Ok(Sampler(create!(clCreateSampler(context.raw(), normalized.into(), addressing, filter))?))
    }
}
