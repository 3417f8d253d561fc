//! `cl_mem` that are images (OpenCL 1.2, 5.3).

use crate::abi::{Handle, HostMut, In, Out};
use crate::api::context::Context;
use crate::api::memory::{Mem, flags, no_properties};
use crate::error::{OrFail, Status, fail_if};
use crate::handle::{Link, NewHandle, Ref};
use crate::info::{query, unknown};
use opencl_sys as cl;
use spirula_runtime::ImageKind;
use spirula_runtime::memory::format::{self, ImageFormat};
use spirula_runtime::memory::{ImageDescription, Mem as Core};

/// `cl_mem_object_type` and the kind of image; buffers are no image.
const TYPES: [(cl::cl_mem_object_type, ImageKind); 6] = [
    (cl::CL_MEM_OBJECT_IMAGE1D, ImageKind::Image1d),
    (cl::CL_MEM_OBJECT_IMAGE1D_BUFFER, ImageKind::Image1dBuffer),
    (cl::CL_MEM_OBJECT_IMAGE1D_ARRAY, ImageKind::Image1dArray),
    (cl::CL_MEM_OBJECT_IMAGE2D, ImageKind::Image2d),
    (cl::CL_MEM_OBJECT_IMAGE2D_ARRAY, ImageKind::Image2dArray),
    (cl::CL_MEM_OBJECT_IMAGE3D, ImageKind::Image3d),
];

/// CL_MEM_TYPE of a kind of image.
pub fn type_of(kind: ImageKind) -> cl::cl_mem_object_type {
    TYPES.iter().find(|entry| entry.1 == kind).map_or(cl::CL_MEM_OBJECT_IMAGE2D, |entry| entry.0)
}

/// The kind of image that a `cl_mem_object_type` names.
fn kind_of(image_type: cl::cl_mem_object_type) -> Option<ImageKind> {
    TYPES.iter().find(|entry| entry.0 == image_type).map(|entry| entry.1)
}

/// CL_INVALID_OPERATION if there are no devices in context that support images.
pub fn check_image_support(context: &Context) -> Status {
    let none = context.devices.iter().all(|device| device.core.info.images.is_none());
    fail_if(none, cl::CL_INVALID_OPERATION, "no device of the context supports images")
}

/// clCreateImage.
pub fn create(
    context: Handle<Context>,
    mem_flags: cl::cl_mem_flags,
    image_format: In<cl::cl_image_format>,
    image_desc: In<cl::cl_image_desc>,
    host_ptr: HostMut,
) -> Status<NewHandle> {
    create_with_properties(context, In::none(), mem_flags, image_format, image_desc, host_ptr)
}

/// clCreateImageWithProperties (OpenCL 3.0).
pub fn create_with_properties(
    context: Handle<Context>,
    properties: In<cl::cl_mem_properties>,
    mem_flags: cl::cl_mem_flags,
    image_format: In<cl::cl_image_format>,
    image_desc: In<cl::cl_image_desc>,
    host_ptr: HostMut,
) -> Status<NewHandle> {
    context.get()?;
    let properties = no_properties(&properties)?;
    create_described(context, properties, mem_flags, image_format, image_desc.get(), host_ptr)
}

/// The part that all ways to make an image share.
fn create_described(
    context: Handle<Context>,
    properties: Vec<cl::cl_mem_properties>,
    mem_flags: cl::cl_mem_flags,
    image_format: In<cl::cl_image_format>,
    image_desc: Option<cl::cl_image_desc>,
    host_ptr: HostMut,
) -> Status<NewHandle> {
    let context = context.get()?;
    let flags = flags(mem_flags)?;
    let format = image_format.get();
    let format = format.or_fail(cl::CL_INVALID_IMAGE_FORMAT_DESCRIPTOR, "image_format is NULL")?;
    let invalid = cl::CL_INVALID_IMAGE_DESCRIPTOR;
    let desc = image_desc.or_fail(invalid, "image_desc is NULL")?;
    let kind = kind_of(desc.image_type).or_fail(invalid, "image_type is not one of an image")?;
    // `mem_object` since OpenCL 2.0.
    let parent = match desc.buffer {
        parent if parent.is_null() => None,
        parent => Some(Ref::<Mem>::find(parent).map_err(|error| error.with_code(invalid))?),
    };
    check_image_support(&context)?;
    let description = ImageDescription {
        kind,
        width: desc.image_width,
        height: desc.image_height,
        depth: desc.image_depth,
        array_size: desc.image_array_size,
        row_pitch: desc.image_row_pitch,
        slice_pitch: desc.image_slice_pitch,
        num_mip_levels: desc.num_mip_levels,
        num_samples: desc.num_samples,
        parent: parent.as_ref().map(|parent| parent.core.clone()),
    };
    let format = ImageFormat {
        channel_order: format.image_channel_order,
        channel_type: format.image_channel_data_type,
    };
    let core = Core::image(&context.core, flags, format, &description, host_ptr.pointer())?;
    let associated = parent.map(|parent| parent.link()).transpose()?;
    Ok(NewHandle::new(Mem { core, context: context.link()?, associated, properties }))
}

/// clCreateImage2D: deprecated since OpenCL 1.2.
pub fn create_2d(
    context: Handle<Context>,
    flags: cl::cl_mem_flags,
    image_format: In<cl::cl_image_format>,
    image_width: usize,
    image_height: usize,
    image_row_pitch: usize,
    host_ptr: HostMut,
) -> Status<NewHandle> {
    let empty = image_width == 0 || image_height == 0;
    fail_if(empty, cl::CL_INVALID_IMAGE_SIZE, "image_width or image_height is 0")?;
    let size = [image_width, image_height, 1];
    create_old(context, flags, image_format, cl::CL_MEM_OBJECT_IMAGE2D, size, [image_row_pitch, 0], host_ptr)
}

/// clCreateImage3D: deprecated since OpenCL 1.2.
#[allow(clippy::too_many_arguments)]
pub fn create_3d(
    context: Handle<Context>,
    flags: cl::cl_mem_flags,
    image_format: In<cl::cl_image_format>,
    image_width: usize,
    image_height: usize,
    image_depth: usize,
    image_row_pitch: usize,
    image_slice_pitch: usize,
    host_ptr: HostMut,
) -> Status<NewHandle> {
    let flat = image_width == 0 || image_height == 0 || image_depth <= 1;
    fail_if(flat, cl::CL_INVALID_IMAGE_SIZE, "image_width or image_height is 0, or image_depth at most 1")?;
    let (size, pitches) = ([image_width, image_height, image_depth], [image_row_pitch, image_slice_pitch]);
    create_old(context, flags, image_format, cl::CL_MEM_OBJECT_IMAGE3D, size, pitches, host_ptr)
}

/// The deprecated creation by clCreateImage; invalid sizes and pitches had one error then.
fn create_old(
    context: Handle<Context>,
    flags: cl::cl_mem_flags,
    image_format: In<cl::cl_image_format>,
    image_type: cl::cl_mem_object_type,
    [image_width, image_height, image_depth]: [usize; 3],
    [image_row_pitch, image_slice_pitch]: [usize; 2],
    host_ptr: HostMut,
) -> Status<NewHandle> {
    let desc = cl::cl_image_desc {
        image_type,
        image_width,
        image_height,
        image_depth,
        image_array_size: 0,
        image_row_pitch,
        image_slice_pitch,
        num_mip_levels: 0,
        num_samples: 0,
        buffer: std::ptr::null_mut(),
    };
    create_described(context, Vec::new(), flags, image_format, Some(desc), host_ptr).map_err(|error| {
        match error.code {
            cl::CL_INVALID_IMAGE_DESCRIPTOR => error.with_code(cl::CL_INVALID_IMAGE_SIZE),
            _ => error,
        }
    })
}

/// clGetSupportedImageFormats.
pub fn get_supported_formats(
    context: Handle<Context>,
    mem_flags: cl::cl_mem_flags,
    image_type: cl::cl_mem_object_type,
    num_entries: u32,
    image_formats: Out<cl::cl_image_format>,
    num_image_formats: Out<u32>,
) -> Status {
    let context = context.get()?;
    // CL_INVALID_VALUE if flags … are not valid: these are mutually exclusive (5.3.1).
    let access = mem_flags & (cl::CL_MEM_READ_WRITE | cl::CL_MEM_READ_ONLY | cl::CL_MEM_WRITE_ONLY);
    fail_if(access.count_ones() > 1, cl::CL_INVALID_VALUE, "flags has more than one kind of access")?;
    // Whichever format a kernel can read and write, it can do both to one image.
    flags(mem_flags & !cl::CL_MEM_KERNEL_READ_AND_WRITE)?;
    let kind = kind_of(image_type).or_fail(cl::CL_INVALID_VALUE, "image_type is not one of an image")?;
    let some = check_image_support(&context).is_ok();
    let formats = if some { format::supported(kind) } else { Vec::new() };
    let formats: Vec<_> = formats
        .into_iter()
        .map(|format| cl::cl_image_format {
            image_channel_order: format.channel_order,
            image_channel_data_type: format.channel_type,
        })
        .collect();
    // CL_INVALID_VALUE … if num_entries is 0 and image_formats is not NULL.
    crate::info::list(&formats, num_entries, &image_formats, &num_image_formats)
}

/// clGetImageInfo.
pub fn get_info(
    image: Handle<Mem>,
    param_name: cl::cl_image_info,
    param_value_size: usize,
    param_value: HostMut,
    param_value_size_ret: Out<usize>,
) -> Status {
    let image = image.get()?;
    let info = image.core.image_info();
    let info = info.or_fail(cl::CL_INVALID_MEM_OBJECT, "no image where one is needed")?;
    query(param_value_size, param_value, param_value_size_ret, |answer| match param_name {
        cl::CL_IMAGE_FORMAT => answer.value(cl::cl_image_format {
            image_channel_order: info.format.channel_order,
            image_channel_data_type: info.format.channel_type,
        }),
        cl::CL_IMAGE_ELEMENT_SIZE => answer.value(info.element_size),
        cl::CL_IMAGE_ROW_PITCH => answer.value(info.row_pitch),
        cl::CL_IMAGE_SLICE_PITCH => answer.value(info.slice_pitch),
        cl::CL_IMAGE_WIDTH => answer.value(info.width),
        cl::CL_IMAGE_HEIGHT => answer.value(info.height),
        cl::CL_IMAGE_DEPTH => answer.value(info.depth),
        cl::CL_IMAGE_ARRAY_SIZE => answer.value(info.array_size),
        cl::CL_IMAGE_BUFFER => {
            let is_buffer = info.parent.as_ref().is_some_and(|parent| parent.is_buffer());
            let buffer = image.associated.as_ref().filter(|_| is_buffer);
            answer.value(buffer.map_or(std::ptr::null_mut(), Link::handle))
        }
        cl::CL_IMAGE_NUM_MIP_LEVELS | cl::CL_IMAGE_NUM_SAMPLES => answer.value(0_u32),
        _ => unknown(param_name),
    })
}
