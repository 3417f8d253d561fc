//! Images of OpenCL 2.0: sRGB and depth, views of one image as another, and `read_write` images of every kind.

use crate::setup::{Setup, program_of_2_0, status, tests};
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{Buffer, Image, ImageKind, Kernel, NdRange, Object, Program, Result, Sampler};
use spirula_tests::isolate::Outcome;
use spirula_tests::{call, create};
use std::ptr::{null, null_mut};

tests![
    formats_of_each_kind,
    srgb_is_linear_in_kernels,
    fills,
    depth_of_spir,
    depth_of_source,
    depth_is_another_type,
    views,
    views_that_cannot_be,
    read_write_of_every_kind,
];

const SRGBA: (cl_channel_order, cl_channel_type) = (CL_sRGBA, CL_UNORM_INT8);
const DEPTH: (cl_channel_order, cl_channel_type) = (CL_DEPTH, CL_FLOAT);

/// The linear value of an sRGB byte, as the specification computes it.
fn linear(byte: u8) -> f32 {
    let value = f64::from(byte) / 255.0;
    (if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }) as f32
}

fn formats_of_each_kind() -> Outcome {
    let setup = Setup::new();
    for kind in [
        CL_MEM_OBJECT_IMAGE1D,
        CL_MEM_OBJECT_IMAGE1D_BUFFER,
        CL_MEM_OBJECT_IMAGE1D_ARRAY,
        CL_MEM_OBJECT_IMAGE2D,
        CL_MEM_OBJECT_IMAGE2D_ARRAY,
        CL_MEM_OBJECT_IMAGE3D,
    ] {
        let formats = Image::formats(&setup.context, kind)?;
        assert!(formats.contains(&SRGBA) && formats.contains(&(CL_sBGRA, CL_UNORM_INT8)), "{kind:#x}");
        let is_flat = kind == CL_MEM_OBJECT_IMAGE2D || kind == CL_MEM_OBJECT_IMAGE2D_ARRAY;
        for channel_type in [CL_UNORM_INT16, CL_FLOAT] {
            assert_eq!(formats.contains(&(CL_DEPTH, channel_type)), is_flat, "{kind:#x}");
        }
        let (context, mut both) = (setup.context.raw(), 0);
        let flags = CL_MEM_KERNEL_READ_AND_WRITE;
        call!(clGetSupportedImageFormats(context, flags, kind, 0, null_mut(), &mut both))?;
        assert_eq!(both as usize, formats.len());
    }
    let make = |kind, format| status(Image::new(&setup.context, kind, format, [4, 4, 4], 2, None));
    assert_eq!(make(ImageKind::D3, DEPTH), "CL_IMAGE_FORMAT_NOT_SUPPORTED");
    assert_eq!(make(ImageKind::D2, (CL_DEPTH, CL_HALF_FLOAT)), "CL_INVALID_IMAGE_FORMAT_DESCRIPTOR");
    assert_eq!(make(ImageKind::D2, (CL_sRGBA, CL_FLOAT)), "CL_INVALID_IMAGE_FORMAT_DESCRIPTOR");
    Ok(())
}

fn srgb_is_linear_in_kernels() -> Outcome {
    let setup = Setup::new();
    let source = "kernel void k(read_only image2d_t from, write_only image2d_t to, global float4 *out) {
        int x = get_global_id(0);
        float4 color = read_imagef(from, (int2)(x, 0));
        out[x] = color;
        write_imagef(to, (int2)(x, 0), color);
    }";
    let kernel = Kernel::new(&program_of_2_0(&setup, source, "")?, "k")?;
    let bytes: Vec<u8> = (0..=255u8).flat_map(|byte| [byte, 255 - byte, byte / 2, byte]).collect();
    for (order, [red, blue]) in [(CL_sRGBA, [0, 2]), (CL_sBGRA, [2, 0])] {
        let image =
            || Image::new(&setup.context, ImageKind::D2, (order, CL_UNORM_INT8), [256, 1, 1], 1, None);
        let (from, to, out) = (image()?, image()?, Buffer::copy_of(&setup.context, &[0f32; 1024])?);
        setup.queue.write_image(&from, &bytes)?;
        kernel.set_object(0, Some(&from))?;
        kernel.set_object(1, Some(&to))?;
        kernel.set_object(2, Some(&out))?;
        setup.queue.launch(&kernel, NdRange::new(&[256], &[64]))?;
        let mut colors = [0f32; 1024];
        setup.queue.read(&out, &mut colors)?;
        for (texel, color) in bytes.chunks(4).zip(colors.chunks(4)) {
            let [r, g, b] = [red, 1, blue].map(|channel| linear(texel[channel]));
            let expected = [r, g, b, f32::from(texel[3]) / 255.0];
            let near = color.iter().zip(expected).all(|(found, exact)| (found - exact).abs() <= exact * 1e-6);
            assert!(near, "{texel:?}: {color:?} instead of {expected:?}");
        }
        // The host sees bytes as they are, and a kernel writes back what it read.
        let mut copied = vec![0; bytes.len()];
        setup.queue.read_image(&to, &mut copied)?;
        assert_eq!(copied, bytes);
    }
    Ok(())
}

/// Fills an image with a color and reads it.
fn filled(setup: &Setup, format: (cl_channel_order, cl_channel_type), color: &[f32]) -> Result<Vec<u8>> {
    let image = Image::new(&setup.context, ImageKind::D2, format, [2, 1, 1], 1, None)?;
    let (queue, color, origin) = (setup.queue.raw(), color.as_ptr().cast(), [0; 3]);
    let (origin, region) = (origin.as_ptr(), image.region.as_ptr());
    call!(clEnqueueFillImage(queue, image.raw(), color, origin, region, 0, null(), null_mut()))?;
    let mut texels = vec![0; 8];
    setup.queue.read_image(&image, &mut texels)?;
    Ok(texels)
}

/// Colors are linear; a depth is one number.
fn fills() -> Outcome {
    let setup = Setup::new();
    let color = [0.0, linear(100), 1.5, 0.2];
    assert_eq!(filled(&setup, SRGBA, &color)?, [0, 100, 255, 51, 0, 100, 255, 51]);
    assert_eq!(filled(&setup, (CL_sBGRA, CL_UNORM_INT8), &color)?, [255, 100, 0, 51, 255, 100, 0, 51]);
    assert_eq!(filled(&setup, DEPTH, &[0.75])?, [0.75f32.to_ne_bytes(), 0.75f32.to_ne_bytes()].concat());
    Ok(())
}

/// Launches both kernels of `depth.cl`.
fn depths(setup: &Setup, program: &Program) -> Outcome {
    const SIZE: [usize; 3] = [4, 3, 1];
    let context = &setup.context;
    let flat: Vec<u16> = (0..12).map(|i| i * 5000).collect();
    let layers: Vec<f32> = (0..24).map(|i| i as f32 / 4.0).collect();
    let a = Image::new(context, ImageKind::D2, (CL_DEPTH, CL_UNORM_INT16), SIZE, 1, None)?;
    let b = Image::new(context, ImageKind::D2Array, DEPTH, SIZE, 2, None)?;
    let c = Image::new(context, ImageKind::D2, DEPTH, SIZE, 1, None)?;
    let d = Image::new(context, ImageKind::D2Array, DEPTH, SIZE, 2, None)?;
    let out = Buffer::copy_of(context, &[-1f32; 12])?;
    setup.queue.write_image(&a, bytemuck::cast_slice(&flat))?;
    setup.queue.write_image(&b, bytemuck::cast_slice(&layers))?;
    let sampler = Sampler::new(context, false, CL_ADDRESS_CLAMP_TO_EDGE, CL_FILTER_LINEAR)?;
    let kernel = Kernel::new(program, "depths")?;
    let objects: [&dyn Object; 6] = [&a, &sampler, &b, &c, &d, &out];
    for (index, object) in objects.into_iter().enumerate() {
        kernel.set_object(index as u32, Some(object))?;
    }
    setup.queue.launch(&kernel, NdRange::new(&SIZE[..2], &[2, 1]))?;
    let (mut sums, mut others, mut before) = ([0f32; 12], [0f32; 24], [0f32; 12]);
    setup.queue.read_image(&c, bytemuck::cast_slice_mut(&mut sums))?;
    setup.queue.read_image(&d, bytemuck::cast_slice_mut(&mut others))?;
    setup.queue.read(&out, &mut before)?;
    let depth = |x: usize, y: usize| f32::from(flat[y.min(2) * 4 + x.min(3)]) / 65535.0;
    let near = |found: f32, exact: f32| assert!((found - exact).abs() < 1e-5, "{found} instead of {exact}");
    for (i, (x, y)) in (0..12).map(|i| (i, (i % 4, i / 4))) {
        near(sums[i], depth(x, y) + layers[12 + i]);
        let around = [depth(x, y), depth(x + 1, y), depth(x, y + 1), depth(x + 1, y + 1)];
        near(others[12 + i], around.iter().sum::<f32>() / 4.0 + layers[i]);
        near(before[i], if x == 0 || y == 0 { 0.0 } else { depth(x - 1, y - 1) });
    }
    let asked = Kernel::new(program, "asked")?;
    let out = Buffer::copy_of(context, &[0i32; 7])?;
    asked.set_object(0, Some(&a))?;
    asked.set_object(1, Some(&b))?;
    asked.set_object(2, Some(&out))?;
    setup.queue.launch(&asked, NdRange::new(&[1], &[1]))?;
    let mut answers = [0i32; 7];
    setup.queue.read(&out, &mut answers)?;
    assert_eq!(answers, [4, 3, 2, 4, 3, CL_DEPTH as i32, CL_FLOAT as i32]);
    Ok(())
}

/// With SPIR 2.0's names, which don't say how an image is accessed.
fn depth_of_spir() -> Outcome {
    let setup = Setup::new();
    let program = setup.load("spir20/depth.bc64")?;
    let log = || program.log(setup.device).unwrap_or_default();
    program.build("-x spir -spir-std=2.0").map_err(|error| format!("{error}: {}", log()))?;
    depths(&setup, &program)
}

/// With the names of today's clang.
fn depth_of_source() -> Outcome {
    let setup = Setup::new();
    let path = spirula_tests::fixtures::folder().join("spir20/depth.cl");
    let program = program_of_2_0(&setup, &std::fs::read_to_string(path)?, "")?;
    depths(&setup, &program)
}

/// What takes a depth image takes nothing else.
fn depth_is_another_type() -> Outcome {
    let setup = Setup::new();
    let source =
        "kernel void k(read_only image2d_depth_t depth, read_only image2d_t color, global float *out) {
        *out = read_imagef(depth, (int2)(0)) + read_imagef(color, (int2)(0)).x;
    }";
    let kernel = Kernel::new(&program_of_2_0(&setup, source, "")?, "k")?;
    let image = |kind, format| Image::new(&setup.context, kind, format, [4, 4, 1], 2, None);
    let depth = image(ImageKind::D2, DEPTH)?;
    let color = image(ImageKind::D2, (CL_R, CL_FLOAT))?;
    let layers = image(ImageKind::D2Array, DEPTH)?;
    assert_eq!(status(kernel.set_object(0, Some(&color))), "CL_INVALID_ARG_VALUE");
    assert_eq!(status(kernel.set_object(0, Some(&layers))), "CL_INVALID_ARG_VALUE");
    let same = image(ImageKind::D2, DEPTH)?;
    for (image, value) in [(&depth, 0.25f32), (&same, 0.5), (&color, 2.0)] {
        setup.queue.write_image(image, bytemuck::cast_slice(&[value; 16]))?;
    }
    // A depth is red to what takes colors.
    let out = Buffer::copy_of(&setup.context, &[0f32])?;
    kernel.set_object(0, Some(&depth))?;
    kernel.set_object(2, Some(&out))?;
    for (second, sum) in [(&color, 2.25), (&same, 0.75)] {
        kernel.set_object(1, Some(second))?;
        setup.queue.launch(&kernel, NdRange::new(&[1], &[1]))?;
        let mut found = [0f32];
        setup.queue.read(&out, &mut found)?;
        assert_eq!(found, [sum]);
    }
    Ok(())
}

/// An image of 4 by 2 texels over another memory object.
fn over(
    setup: &Setup,
    format: (cl_channel_order, cl_channel_type),
    flags: cl_mem_flags,
    width: usize,
    row_pitch: usize,
    parent: cl_mem,
) -> Result<Buffer> {
    let format = cl_image_format { image_channel_order: format.0, image_channel_data_type: format.1 };
    let description = cl_image_desc {
        image_type: CL_MEM_OBJECT_IMAGE2D,
        image_width: width,
        image_height: 2,
        image_depth: 0,
        image_array_size: 0,
        image_row_pitch: row_pitch,
        image_slice_pitch: 0,
        num_mip_levels: 0,
        num_samples: 0,
        buffer: parent,
    };
    create!(clCreateImage(setup.context.raw(), flags, &format, &description, null_mut()))
        .map(Buffer::from_raw)
}

/// One image seen as another: sRGB as linear, one channel as depth; also where the first is over a part of a buffer.
fn views() -> Outcome {
    let setup = Setup::new();
    let source =
        "kernel void colors(read_only image2d_t linear, read_only image2d_t srgb, global float4 *out) {
        int2 at = (int2)((int)get_global_id(0), (int)get_global_id(1));
        int i = at.y * 4 + at.x;
        out[2 * i] = read_imagef(linear, at);
        out[2 * i + 1] = read_imagef(srgb, at);
    }
    kernel void depths(read_only image2d_depth_t depth, global float *out) {
        int2 at = (int2)((int)get_global_id(0), (int)get_global_id(1));
        out[at.y * 4 + at.x] = read_imagef(depth, at);
    }";
    let program = program_of_2_0(&setup, source, "")?;
    let align = setup.device.info::<u32>(CL_DEVICE_MEM_BASE_ADDR_ALIGN)? as usize / 8;
    let bytes: Vec<u8> = (0..align + 64).map(|i| (i * 7 % 256) as u8).collect();
    let buffer = Buffer::copy_of(&setup.context, &bytes)?;
    let part = buffer.sub_buffer(0, align, 64)?;
    // Rows of 32 bytes, of which 16 are texels.
    let plain = over(&setup, (CL_RGBA, CL_UNORM_INT8), 0, 4, 32, part.raw())?;
    let srgb = over(&setup, SRGBA, 0, 4, 0, plain.raw())?;
    assert_eq!(srgb.info::<usize>(CL_MEM_ASSOCIATED_MEMOBJECT)?, plain.raw() as usize);
    let mut pitch = 0usize;
    let (size, place) = (size_of::<usize>(), (&raw mut pitch).cast());
    call!(clGetImageInfo(srgb.raw(), CL_IMAGE_ROW_PITCH, size, place, null_mut()))?;
    assert_eq!(pitch, 32);
    let mut behind = 1usize;
    call!(clGetImageInfo(srgb.raw(), CL_IMAGE_BUFFER, size, (&raw mut behind).cast(), null_mut()))?;
    assert_eq!(behind, 0, "an image is no buffer");
    let out = Buffer::copy_of(&setup.context, &[0f32; 64])?;
    let kernel = Kernel::new(&program, "colors")?;
    kernel.set_object(0, Some(&plain))?;
    kernel.set_object(1, Some(&srgb))?;
    kernel.set_object(2, Some(&out))?;
    setup.queue.launch(&kernel, NdRange::new(&[4, 2], &[4, 1]))?;
    let mut colors = [0f32; 64];
    setup.queue.read(&out, &mut colors)?;
    for (i, pair) in colors.chunks(8).enumerate() {
        for channel in 0..4 {
            let byte = bytes[align + i / 4 * 32 + i % 4 * 4 + channel];
            let plain = f32::from(byte) / 255.0;
            let converted = if channel == 3 { plain } else { linear(byte) };
            assert_eq!(pair[channel], plain);
            assert!(
                (pair[4 + channel] - converted).abs() <= converted * 1e-6,
                "{byte}: {}",
                pair[4 + channel]
            );
        }
    }
    let numbers: Vec<f32> = (0..8).map(|i| i as f32).collect();
    let red = Image::new(&setup.context, ImageKind::D2, (CL_R, CL_FLOAT), [4, 2, 1], 1, None)?;
    setup.queue.write_image(&red, bytemuck::cast_slice(&numbers))?;
    let depth = over(&setup, DEPTH, 0, 4, 0, red.raw())?;
    let kernel = Kernel::new(&program, "depths")?;
    kernel.set_object(0, Some(&depth))?;
    kernel.set_object(1, Some(&out))?;
    setup.queue.launch(&kernel, NdRange::new(&[4, 2], &[4, 1]))?;
    setup.queue.read(&out, &mut colors)?;
    assert_eq!(colors[..8], numbers);
    Ok(())
}

fn views_that_cannot_be() -> Outcome {
    let setup = Setup::new();
    let new = |kind, format| Image::new(&setup.context, kind, format, [4, 2, 1], 2, None);
    let plain = new(ImageKind::D2, (CL_RGBA, CL_UNORM_INT8))?;
    let view = |format, width, pitch, of: &Image| status(over(&setup, format, 0, width, pitch, of.raw()));
    let refused = "CL_INVALID_IMAGE_FORMAT_DESCRIPTOR";
    assert_eq!(view(SRGBA, 4, 0, &plain), "CL_SUCCESS");
    assert_eq!(view(SRGBA, 4, 16, &plain), "CL_SUCCESS");
    assert_eq!(view(SRGBA, 3, 0, &plain), refused, "another size");
    assert_eq!(view(SRGBA, 4, 32, &plain), refused, "another pitch");
    assert_eq!(view((CL_sBGRA, CL_UNORM_INT8), 4, 0, &plain), refused, "another order");
    assert_eq!(view((CL_RGBA, CL_UNORM_INT8), 4, 0, &plain), refused, "the same order");
    assert_eq!(view((CL_RGBA, CL_SNORM_INT8), 4, 0, &plain), refused, "another type");
    assert_eq!(view((CL_R, CL_FLOAT), 4, 0, &new(ImageKind::D2, DEPTH)?), refused, "depth as a color");
    assert_eq!(view(SRGBA, 4, 0, &new(ImageKind::D2Array, (CL_RGBA, CL_UNORM_INT8))?), refused, "layers");
    let pipe = Buffer::pipe(&setup.context, 16, 16)?;
    let over_pipe = over(&setup, SRGBA, 0, 4, 0, pipe.raw());
    assert_eq!(status(over_pipe), "CL_INVALID_IMAGE_DESCRIPTOR");
    let used = over(&setup, SRGBA, CL_MEM_COPY_HOST_PTR, 4, 0, plain.raw());
    assert_eq!(status(used), "CL_INVALID_VALUE");
    Ok(())
}

/// Each kind is read without a sampler and written in place, 3-D images too.
fn read_write_of_every_kind() -> Outcome {
    let setup = Setup::new();
    let kinds = [
        (ImageKind::D1, "image1d_t", "x", ""),
        (ImageKind::D1Buffer, "image1d_buffer_t", "x", ""),
        (ImageKind::D1Array, "image1d_array_t", "(int2)(x, z)", ""),
        (ImageKind::D2, "image2d_t", "(int2)(x, y)", ""),
        (ImageKind::D2Array, "image2d_array_t", "(int4)(x, y, z, 0)", ""),
        (ImageKind::D3, "image3d_t", "(int4)(x, y, z, 0)", ""),
        (ImageKind::D2, "image2d_depth_t", "(int2)(x, y)", ".x"),
        (ImageKind::D2Array, "image2d_array_depth_t", "(int4)(x, y, z, 0)", ".x"),
    ];
    for (kind, name, at, part) in kinds {
        let source = format!(
            "kernel void k(read_write {name} image) {{
                int x = get_global_id(0), y = get_global_id(1), z = get_global_id(2);
                write_imagef(image, {at}, read_imagef(image, {at}) * 2.0f + (float4)(1, 2, 3, 4){part});
            }}"
        );
        let kernel = Kernel::new(&program_of_2_0(&setup, &source, "")?, "k")?;
        let format = if part.is_empty() { (CL_RGBA, CL_FLOAT) } else { DEPTH };
        let channels = if part.is_empty() { 4 } else { 1 };
        let buffer = Buffer::copy_of(&setup.context, &[0f32; 5 * 4])?;
        let backing = (kind == ImageKind::D1Buffer).then_some(&buffer);
        let image = Image::new(&setup.context, kind, format, [5, 3, 2], 2, backing)?;
        let count: usize = image.region.iter().product::<usize>() * channels;
        let before: Vec<f32> = (0..count).map(|i| i as f32).collect();
        setup.queue.write_image(&image, bytemuck::cast_slice(&before))?;
        kernel.set_object(0, Some(&image))?;
        let sizes = match kind {
            ImageKind::D1Array => [5, 1, 2],
            _ => image.region,
        };
        setup.queue.launch(&kernel, NdRange::new(&sizes, &[5, 1, 1]))?;
        let mut after = vec![0f32; count];
        setup.queue.read_image(&image, bytemuck::cast_slice_mut(&mut after))?;
        let expected: Vec<f32> = (0..count).map(|i| before[i] * 2.0 + (i % channels + 1) as f32).collect();
        assert_eq!(after, expected, "{name}");
    }
    Ok(())
}
