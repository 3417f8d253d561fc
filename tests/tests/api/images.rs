//! Images: formats, transfers, and a kernel that samples.

use crate::setup::{Setup, again_with, status, tests};
use crate::sources::{built, setup};
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{Buffer, Image, ImageKind, Kernel, NdRange, Object, Result, Sampler};
use spirula_tests::isolate::Outcome;
use spirula_tests::{call, create};
use std::ptr::{null, null_mut};

tests![
    formats,
    round_trip,
    parts_with_pitch,
    creation_errors,
    descriptions,
    the_old_way,
    samplers,
    over_buffers,
    region_errors,
    blur,
    bytes,
    bytes_in_packs,
    every_clangs_opaque_types,
    slice_pitch_without_slices
];

const RGBA_FLOAT: (cl_uint, cl_uint) = (CL_RGBA, CL_FLOAT);

fn formats() -> Outcome {
    let setup = Setup::new();
    assert_eq!(setup.device.info::<u32>(CL_DEVICE_IMAGE_SUPPORT)?, CL_TRUE);
    let (context, kind) = (setup.context.raw(), CL_MEM_OBJECT_IMAGE2D);
    let mut count = 0;
    call!(clGetSupportedImageFormats(context, CL_MEM_READ_WRITE, kind, 0, null_mut(), &mut count))?;
    let mut list: Vec<cl_image_format> =
        (0..count).map(|_| cl_image_format { image_channel_order: 0, image_channel_data_type: 0 }).collect();
    call!(clGetSupportedImageFormats(
        context,
        CL_MEM_READ_WRITE,
        kind,
        count,
        list.as_mut_ptr(),
        null_mut()
    ))?;
    for format in list {
        let format = (format.image_channel_order, format.image_channel_data_type);
        Image::new(&setup.context, ImageKind::D2, format, [4, 4, 1], 1, None)
            .map_err(|e| format!("reported, but can't be made: {format:?}: {e}"))?;
    }
    Image::new(&setup.context, ImageKind::D2, RGBA_FLOAT, [4, 4, 1], 1, None)?;
    Ok(())
}

fn round_trip() -> Outcome {
    let setup = Setup::new();
    let image = Image::new(&setup.context, ImageKind::D2, RGBA_FLOAT, [7, 5, 1], 1, None)?;
    let data: Vec<u8> = (0..7 * 5 * 16).map(|i| i as u8).collect();
    setup.queue.write_image(&image, &data)?;
    let mut got = vec![0; data.len()];
    setup.queue.read_image(&image, &mut got)?;
    assert_eq!(got, data);
    Ok(())
}

fn parts_with_pitch() -> Outcome {
    let setup = Setup::new();
    let image = Image::new(&setup.context, ImageKind::D2, RGBA_FLOAT, [8, 6, 1], 1, None)?;
    let data: Vec<f32> = (0..8 * 6 * 4).map(|i| i as f32).collect();
    setup.queue.write_image(&image, bytemuck::cast_slice(&data))?;
    let (origin, region, pitch) = ([2usize, 1, 0], [3usize, 4, 1], 5 * 16);
    let mut got = vec![-1f32; 5 * 4 * 4];
    let place = got.as_mut_ptr().cast();
    let (queue, raw, o, r) = (setup.queue.raw(), image.raw(), origin.as_ptr(), region.as_ptr());
    call!(clEnqueueReadImage(queue, raw, CL_TRUE, o, r, pitch, 0, place, 0, null(), null_mut()))?;
    for y in 0..4 {
        for x in 0..5 {
            for c in 0..4 {
                let expected = if x < 3 { data[((y + 1) * 8 + x + 2) * 4 + c] } else { -1.0 };
                assert_eq!(got[(y * 5 + x) * 4 + c], expected, "pixel {x}, {y}, channel {c}");
            }
        }
    }
    let beyond = [6usize, 1, 0];
    let outside = call!(clEnqueueReadImage(
        queue,
        raw,
        CL_TRUE,
        beyond.as_ptr(),
        r,
        0,
        0,
        place,
        0,
        null(),
        null_mut()
    ));
    assert_eq!(status(outside), "CL_INVALID_VALUE");
    Ok(())
}

fn creation_errors() -> Outcome {
    let setup = Setup::new();
    let make = |format, size| status(Image::new(&setup.context, ImageKind::D2, format, size, 1, None));
    assert_eq!(make(RGBA_FLOAT, [0, 4, 1]), "CL_INVALID_IMAGE_DESCRIPTOR");
    let widest = setup.device.info::<usize>(CL_DEVICE_IMAGE2D_MAX_WIDTH)?;
    assert!(widest >= 8192);
    assert_eq!(make(RGBA_FLOAT, [widest + 1, 1, 1]), "CL_INVALID_IMAGE_SIZE");
    assert_eq!(make((CL_RGBA, 0x4321), [4, 4, 1]), "CL_INVALID_IMAGE_FORMAT_DESCRIPTOR");
    Ok(())
}

/// A description; the rest is zero.
fn description(
    image_type: cl_mem_object_type,
    size: [usize; 4],
    pitches: [usize; 2],
    buffer: cl_mem,
) -> cl_image_desc {
    cl_image_desc {
        image_type,
        image_width: size[0],
        image_height: size[1],
        image_depth: size[2],
        image_array_size: size[3],
        image_row_pitch: pitches[0],
        image_slice_pitch: pitches[1],
        num_mip_levels: 0,
        num_samples: 0,
        buffer,
    }
}

/// An image of floats with a single channel.
fn make(setup: &Setup, flags: cl_mem_flags, what: &cl_image_desc, host: *mut c_void) -> Result<Buffer> {
    let format = cl_image_format { image_channel_order: CL_R, image_channel_data_type: CL_FLOAT };
    create!(clCreateImage(setup.context.raw(), flags, &format, what, host)).map(Buffer::from_raw)
}

fn descriptions() -> Outcome {
    let setup = Setup::new();
    let mut host = vec![0f32; 4096];
    let host: *mut c_void = host.as_mut_ptr().cast();
    let tried = |what: cl_image_desc, host: *mut c_void| {
        let flags = if host.is_null() { 0 } else { CL_MEM_COPY_HOST_PTR };
        status(make(&setup, flags, &what, host))
    };
    let (d1, d2, d3) = (CL_MEM_OBJECT_IMAGE1D, CL_MEM_OBJECT_IMAGE2D, CL_MEM_OBJECT_IMAGE3D);
    let (array1, array2) = (CL_MEM_OBJECT_IMAGE1D_ARRAY, CL_MEM_OBJECT_IMAGE2D_ARRAY);
    let of = |kind, size, pitches| description(kind, size, pitches, null_mut());
    for (kind, size) in [
        (d1, [4, 0, 0, 0]),
        (d2, [4, 4, 0, 0]),
        (d3, [4, 4, 4, 0]),
        (array1, [4, 0, 0, 4]),
        (array2, [4, 4, 0, 4]),
    ] {
        assert_eq!(tried(of(kind, size, [0, 0]), null_mut()), "CL_SUCCESS", "{kind:#x}");
        // Each size that the kind has must be there.
        for axis in (0..4).filter(|&axis| size[axis] != 0) {
            let mut smaller = size;
            smaller[axis] = 0;
            let found = tried(of(kind, smaller, [0, 0]), null_mut());
            assert_eq!(found, "CL_INVALID_IMAGE_DESCRIPTOR", "{kind:#x}");
        }
    }
    let refused = |what, host| assert_eq!(tried(what, host), "CL_INVALID_IMAGE_DESCRIPTOR");
    refused(of(CL_MEM_OBJECT_BUFFER, [4, 4, 0, 0], [0, 0]), null_mut());
    refused(of(d2, [4, 4, 0, 0], [16, 0]), null_mut());
    refused(of(d2, [4, 4, 0, 0], [15, 0]), host);
    refused(of(d2, [4, 4, 0, 0], [18, 0]), host);
    refused(of(d3, [4, 4, 4, 0], [16, 60]), host);
    refused(of(d3, [4, 4, 4, 0], [16, 72]), host);
    assert_eq!(tried(of(d3, [4, 4, 4, 0], [20, 100]), host), "CL_SUCCESS");
    // Pitches whose products are more than 64 bits, or than any memory.
    for pitches in [[usize::MAX - 3, 0], [1 << 62, 0], [1 << 61, 0], [16, usize::MAX - 15], [16, 1 << 62]] {
        let kind =
            if pitches[1] == 0 { of(d2, [4, 4, 0, 0], pitches) } else { of(d3, [4, 4, 4, 0], pitches) };
        let used = status(make(&setup, CL_MEM_USE_HOST_PTR, &kind, host));
        refused(kind, host);
        assert_eq!(used, "CL_INVALID_IMAGE_DESCRIPTOR", "{pitches:?}");
    }
    let levels = cl_image_desc { num_mip_levels: 1, ..of(d2, [4, 4, 0, 0], [0, 0]) };
    let samples = cl_image_desc { num_samples: 1, ..of(d2, [4, 4, 0, 0], [0, 0]) };
    refused(levels, null_mut());
    refused(samples, null_mut());
    let plain = of(d2, [4, 4, 0, 0], [0, 0]);
    assert_eq!(status(make(&setup, CL_MEM_COPY_HOST_PTR, &plain, null_mut())), "CL_INVALID_HOST_PTR");
    assert_eq!(status(make(&setup, 0, &plain, host)), "CL_INVALID_HOST_PTR");
    assert_eq!(status(make(&setup, 1 << 40, &plain, null_mut())), "CL_INVALID_VALUE");
    let both = CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY;
    assert_eq!(status(make(&setup, both, &plain, null_mut())), "CL_INVALID_VALUE");
    let (context, format) = (
        setup.context.raw(),
        cl_image_format { image_channel_order: CL_R, image_channel_data_type: CL_FLOAT },
    );
    let none = null_mut();
    let refused = status(create!(clCreateImage(context, 0, null(), &plain, none)));
    assert_eq!(refused, "CL_INVALID_IMAGE_FORMAT_DESCRIPTOR");
    assert_eq!(
        status(create!(clCreateImage(context, 0, &format, null(), none))),
        "CL_INVALID_IMAGE_DESCRIPTOR"
    );
    assert_eq!(status(create!(clCreateImage(none, 0, &format, &plain, none))), "CL_INVALID_CONTEXT");
    Ok(())
}

/// clCreateImage2D, of OpenCL 1.0.
fn the_old_way() -> Outcome {
    let setup = Setup::new();
    let context = setup.context.raw();
    let mut format = cl_image_format { image_channel_order: CL_RGBA, image_channel_data_type: CL_FLOAT };
    let make = |format, width| {
        create!(clCreateImage2D(context, 0, format, width, 4, 0, null_mut())).map(Buffer::from_raw)
    };
    let image = make(&mut format, 8)?;
    let ask = |object: &Buffer, width: &mut usize| {
        let place = (&raw mut *width).cast();
        call!(clGetImageInfo(object.raw(), CL_IMAGE_WIDTH, size_of::<usize>(), place, null_mut()))
    };
    let mut width = 0;
    ask(&image, &mut width)?;
    assert_eq!(width, 8);
    assert_eq!(status(make(null_mut(), 8)), "CL_INVALID_IMAGE_FORMAT_DESCRIPTOR");
    assert_eq!(status(make(&mut format, 0)), "CL_INVALID_IMAGE_SIZE");
    Ok(())
}

fn samplers() -> Outcome {
    let setup = Setup::new();
    let (context, clamp, linear) = (setup.context.raw(), CL_ADDRESS_CLAMP, CL_FILTER_LINEAR);
    let sampler = Sampler::new(&setup.context, false, clamp, linear)?;
    assert_eq!(sampler.info::<u32>(CL_SAMPLER_ADDRESSING_MODE)?, clamp);
    assert_eq!(sampler.info::<u32>(CL_SAMPLER_FILTER_MODE)?, linear);
    assert_eq!(sampler.info::<u32>(CL_SAMPLER_NORMALIZED_COORDS)?, CL_FALSE);
    let make = |normalized, addressing, filter| {
        status(create!(clCreateSampler(context, normalized, addressing, filter)).map(Sampler::from_raw))
    };
    assert_eq!(make(2, clamp, linear), "CL_INVALID_VALUE");
    assert_eq!(make(CL_FALSE, 7, linear), "CL_INVALID_VALUE");
    assert_eq!(make(CL_FALSE, clamp, 7), "CL_INVALID_VALUE");
    Ok(())
}

/// 1-D and 2-D images that show a buffer's bytes.
fn over_buffers() -> Outcome {
    let setup = Setup::new();
    let data: Vec<f32> = (0..64).map(|i| i as f32).collect();
    let buffer = Buffer::copy_of(&setup.context, &data)?;
    let (line, square) = (CL_MEM_OBJECT_IMAGE1D_BUFFER, CL_MEM_OBJECT_IMAGE2D);
    let over = |kind, size, pitch, buffer: &Buffer| {
        make(&setup, 0, &description(kind, size, [pitch, 0], buffer.raw()), null_mut())
    };
    let refused = |kind, size, pitch| status(over(kind, size, pitch, &buffer));
    assert_eq!(refused(line, [65, 0, 0, 0], 0), "CL_INVALID_IMAGE_SIZE");
    assert_eq!(refused(square, [8, 9, 0, 0], 0), "CL_INVALID_IMAGE_SIZE");
    assert_eq!(refused(square, [4, 5, 0, 0], 64), "CL_INVALID_IMAGE_SIZE");
    assert_eq!(refused(square, [8, 2, 0, 0], 30), "CL_INVALID_IMAGE_DESCRIPTOR");
    assert_eq!(refused(CL_MEM_OBJECT_IMAGE1D, [8, 0, 0, 0], 0), "CL_INVALID_IMAGE_DESCRIPTOR");
    let nothing = description(line, [8, 0, 0, 0], [0, 0], null_mut());
    assert_eq!(status(make(&setup, 0, &nothing, null_mut())), "CL_INVALID_IMAGE_DESCRIPTOR");
    let wide = over(square, [3, 4, 0, 0], 64, &buffer)?;
    assert_eq!(wide.info::<usize>(CL_MEM_ASSOCIATED_MEMOBJECT)?, buffer.raw() as usize);
    assert_eq!(status(over(square, [3, 4, 0, 0], 0, &wide)), "CL_INVALID_IMAGE_FORMAT_DESCRIPTOR");
    let read = |image: &Buffer, region: [usize; 3]| {
        let (mut got, origin) = (vec![0f32; region.iter().product()], [0usize; 3]);
        let (queue, place, wait) = (setup.queue.raw(), got.as_mut_ptr().cast(), null());
        let (origin, region) = (origin.as_ptr(), region.as_ptr());
        call!(clEnqueueReadImage(
            queue,
            image.raw(),
            CL_TRUE,
            origin,
            region,
            0,
            0,
            place,
            0,
            wait,
            null_mut()
        ))
        .map(|()| got)
    };
    let rows = [0, 16, 32, 48].map(|start| [start, start + 1, start + 2]).concat();
    assert_eq!(read(&wide, [3, 4, 1])?, rows.iter().map(|&i| i as f32).collect::<Vec<_>>());
    // What is written to the buffer is seen through the image, also one over a part.
    let align = setup.device.info::<u32>(CL_DEVICE_MEM_BASE_ADDR_ALIGN)? as usize / 8;
    let part = buffer.sub_buffer(0, align, 128)?;
    let image = over(line, [32, 0, 0, 0], 0, &part)?;
    setup.queue.write(&part, &[-1f32])?;
    let seen = read(&image, [32, 1, 1])?;
    assert_eq!((seen[0], seen[1]), (-1.0, (align / 4 + 1) as f32));
    Ok(())
}

fn region_errors() -> Outcome {
    let setup = Setup::new();
    let image = |kind, format, size, layers| Image::new(&setup.context, kind, format, size, layers, None);
    let square = image(ImageKind::D2, (CL_R, CL_FLOAT), [8, 8, 1], 1)?;
    let other = image(ImageKind::D2, (CL_R, CL_FLOAT), [8, 8, 1], 1)?;
    let integers = image(ImageKind::D2, (CL_R, CL_SIGNED_INT32), [8, 8, 1], 1)?;
    let layers = image(ImageKind::D1Array, (CL_R, CL_FLOAT), [8, 1, 1], 4)?;
    let buffer = Buffer::new(&setup.context, 0, 64)?;
    let mut host = [0f32; 64];
    let (queue, place, w, n) = (setup.queue.raw(), host.as_mut_ptr().cast::<c_void>(), null(), null_mut());
    let read = |image: &Image, o: [usize; 3], r: [usize; 3], row, slice| {
        let (o, r) = (o.as_ptr(), r.as_ptr());
        status(call!(clEnqueueReadImage(queue, image.raw(), CL_TRUE, o, r, row, slice, place, 0, w, n)))
    };
    assert_eq!(read(&square, [0; 3], [8, 8, 1], 0, 0), "CL_SUCCESS");
    assert_eq!(read(&layers, [0, 1, 0], [8, 3, 1], 0, 0), "CL_SUCCESS");
    for (image, origin, region, row, slice) in [
        (&square, [1, 0, 0], [8, 1, 1], 0, 0),
        (&square, [0, 0, 1], [1, 1, 1], 0, 0),
        (&square, [0; 3], [1, 1, 2], 0, 0),
        (&square, [0; 3], [0, 1, 1], 0, 0),
        (&square, [usize::MAX, 0, 0], [2, 1, 1], 0, 0),
        (&square, [0; 3], [4, 4, 1], 15, 0),
        (&layers, [0, 2, 0], [8, 3, 1], 0, 0),
        (&layers, [0; 3], [8, 4, 1], 0, 31),
    ] {
        assert_eq!(read(image, origin, region, row, slice), "CL_INVALID_VALUE", "{origin:?} {region:?}");
    }
    let copy = |from: &Image, to: &Image, a: [usize; 3], b: [usize; 3], region: [usize; 3]| {
        let (a, b, region) = (a.as_ptr(), b.as_ptr(), region.as_ptr());
        status(call!(clEnqueueCopyImage(queue, from.raw(), to.raw(), a, b, region, 0, w, n)))
    };
    assert_eq!(copy(&square, &other, [0; 3], [0; 3], [8, 8, 1]), "CL_SUCCESS");
    assert_eq!(copy(&square, &square, [0; 3], [4, 4, 0], [4, 4, 1]), "CL_SUCCESS");
    assert_eq!(copy(&square, &square, [0; 3], [3, 3, 0], [4, 4, 1]), "CL_MEM_COPY_OVERLAP");
    assert_eq!(copy(&square, &integers, [0; 3], [0; 3], [8, 8, 1]), "CL_IMAGE_FORMAT_MISMATCH");
    assert_eq!(copy(&square, &other, [4, 0, 0], [0; 3], [5, 1, 1]), "CL_INVALID_VALUE");
    assert_eq!(copy(&square, &other, [0; 3], [0, 4, 0], [1, 5, 1]), "CL_INVALID_VALUE");
    let linear = |origin: [usize; 3], region: [usize; 3], offset| {
        let (image, buffer, o, r) = (square.raw(), buffer.raw(), origin.as_ptr(), region.as_ptr());
        [
            status(call!(clEnqueueCopyImageToBuffer(queue, image, buffer, o, r, offset, 0, w, n))),
            status(call!(clEnqueueCopyBufferToImage(queue, buffer, image, offset, o, r, 0, w, n))),
        ]
    };
    assert_eq!(linear([0; 3], [4, 4, 1], 0), ["CL_SUCCESS"; 2]);
    assert_eq!(linear([0; 3], [4, 4, 1], 4), ["CL_INVALID_VALUE"; 2], "beyond the buffer");
    assert_eq!(linear([6, 0, 0], [4, 1, 1], 0), ["CL_INVALID_VALUE"; 2], "beyond the image");
    let (color, o, r) = ([0f32; 4], [0usize; 3], [8usize, 9, 1]);
    let fill = call!(clEnqueueFillImage(
        queue,
        square.raw(),
        color.as_ptr().cast(),
        o.as_ptr(),
        r.as_ptr(),
        0,
        w,
        n
    ));
    assert_eq!(status(fill), "CL_INVALID_VALUE");
    Ok(())
}

fn blur() -> Outcome {
    let setup = Setup::new();
    const N: usize = 32;
    let data: Vec<f32> = (0..N * N * 4).map(|i| ((i * 37) % 101) as f32).collect();
    let image = || Image::new(&setup.context, ImageKind::D2, RGBA_FLOAT, [N, N, 1], 1, None);
    let (source, target) = (image()?, image()?);
    setup.queue.write_image(&source, bytemuck::cast_slice(&data))?;
    let kernel = setup.kernel("bench/image_blur.bc64", "image_blur");
    kernel.set_object(0, Some(&source))?;
    kernel.set_object(1, Some(&target))?;
    setup.queue.launch(&kernel, NdRange::new(&[N, N], &[8, 8]))?;
    let mut got = vec![0f32; N * N * 4];
    setup.queue.read_image(&target, bytemuck::cast_slice_mut(&mut got))?;
    let clamped = |i: usize, d: usize| (i + d).saturating_sub(1).min(N - 1);
    for y in 0..N {
        for x in 0..N {
            for c in 0..4 {
                let around = (0..9).map(|k| data[(clamped(y, k / 3) * N + clamped(x, k % 3)) * 4 + c]);
                let (sum, got) = (around.sum::<f32>() / 9.0, got[(y * N + x) * 4 + c]);
                assert!((got - sum).abs() < 1e-4, "pixel {x}, {y}, channel {c}: {got}, expected {sum}");
            }
        }
    }
    Ok(())
}

/// Pictures of bytes: both orders of colours as floats and as integers, of which not all channels are used, and a linear filter of one
/// channel.
fn bytes() -> Outcome {
    const SIZE: [usize; 2] = [32, 8];
    const PIXELS: usize = SIZE[0] * SIZE[1];
    let setup = setup()?;
    let source = "constant sampler_t between = CLK_NORMALIZED_COORDS_TRUE | CLK_ADDRESS_CLAMP_TO_EDGE | CLK_FILTER_LINEAR;
        kernel void k(read_only image2d_t a, write_only image2d_t b, read_only image2d_t c, write_only image2d_t d,
                      read_only image2d_t gray, global float4 *colours, global float *means) {
            int2 p = (int2)(get_global_id(0), get_global_id(1)); int i = p.y * 32 + p.x;
            float4 colour = read_imagef(a, p); colours[i] = colour; write_imagef(b, p, colour);
            uint4 whole = read_imageui(c, p); write_imageui(d, p, (uint4)(whole.z, whole.y, whole.x, 7));
            means[i] = read_imagef(gray, between, (float2)((p.x + 1) / 32.0f, (p.y + 0.5f) / 8)).x; }";
    let kernel = Kernel::new(&built(&setup, source, "-cl-std=CL1.2")?, "k")?;
    let texels: Vec<u8> = (0..4 * PIXELS).map(|i| (i * 37 % 251) as u8).collect();
    let image = |format| Image::new(&setup.context, ImageKind::D2, format, [SIZE[0], SIZE[1], 1], 1, None);
    for (order, [red, blue]) in [(CL_RGBA, [0, 2]), (CL_BGRA, [2, 0])] {
        let images = [
            image((order, CL_UNORM_INT8))?,
            image((order, CL_UNORM_INT8))?,
            image((CL_RGBA, CL_UNSIGNED_INT8))?,
            image((CL_RGBA, CL_UNSIGNED_INT8))?,
            image((CL_R, CL_UNORM_INT8))?,
        ];
        setup.queue.write_image(&images[0], &texels)?;
        setup.queue.write_image(&images[2], &texels)?;
        setup.queue.write_image(&images[4], &texels[..PIXELS])?;
        let (mut colours, mut means) = (vec![0_f32; 4 * PIXELS], vec![0_f32; PIXELS]);
        let buffers = [Buffer::copy_of(&setup.context, &colours)?, Buffer::copy_of(&setup.context, &means)?];
        (0..).zip(&images).try_for_each(|(index, image)| kernel.set_object(index, Some(image)))?;
        (5..).zip(&buffers).try_for_each(|(index, buffer)| kernel.set_object(index, Some(buffer)))?;
        setup.queue.launch(&kernel, NdRange::new(&SIZE, &[16, 2]))?;
        setup.queue.read(&buffers[0], &mut colours)?;
        setup.queue.read(&buffers[1], &mut means)?;
        let mut written = [vec![0_u8; 4 * PIXELS], vec![0_u8; 4 * PIXELS]];
        setup.queue.read_image(&images[1], &mut written[0])?;
        setup.queue.read_image(&images[3], &mut written[1])?;
        assert_eq!(written[0], texels, "{order:#x}");
        for (i, texel) in texels.chunks(4).enumerate() {
            let expected = [texel[red], texel[1], texel[blue], texel[3]].map(|byte| f32::from(byte) / 255.0);
            assert_eq!(colours[4 * i..][..4], expected, "pixel {i} of {order:#x}");
            assert_eq!(written[1][4 * i..][..4], [texel[2], texel[1], texel[0], 7], "pixel {i}");
            let next = if i % SIZE[0] + 1 < SIZE[0] { i + 1 } else { i };
            let mean = (f32::from(texels[i]) + f32::from(texels[next])) / 510.0;
            assert!((means[i] - mean).abs() < 1e-4, "pixel {i}: {}, expected {mean}", means[i]);
        }
    }
    Ok(())
}

fn bytes_in_packs() -> Outcome {
    for (tier, lanes) in [("baseline", "1"), ("optimized", "4"), ("optimized", "16")] {
        again_with("images::bytes", &[("SPIRULA_TIER", tier), ("SPIRULA_VECTOR_WIDTH", lanes)]);
    }
    Ok(())
}

/// Clang 3.9 to 16 pass samplers as pointers, later ones as types of their own.
fn every_clangs_opaque_types() -> Outcome {
    let setup = Setup::new();
    const SIZE: [usize; 3] = [4, 3, 1];
    let data: Vec<f32> = (0..4 * 3 * 4).map(|i| i as f32 + 1.0).collect();
    let texel = |x: usize, y: usize, c: usize| data[(y * 4 + x) * 4 + c];
    let input = Image::new(&setup.context, ImageKind::D2, RGBA_FLOAT, SIZE, 1, None)?;
    setup.queue.write_image(&input, bytemuck::cast_slice(&data))?;
    let sampler = Sampler::new(&setup.context, false, CL_ADDRESS_CLAMP_TO_EDGE, CL_FILTER_NEAREST)?;
    let mut names: Vec<_> = std::fs::read_dir(spirula_tests::fixtures::folder().join("clang"))?
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with(".bc64"))
        .collect();
    names.sort();
    assert_eq!(names.len(), 12);
    for name in names {
        let program = setup.program(&format!("clang/{name}"));
        let output = Image::new(&setup.context, ImageKind::D2, RGBA_FLOAT, SIZE, 1, None)?;
        let results = || -> Result<Vec<f32>> {
            let mut values = vec![0f32; data.len()];
            setup.queue.read_image(&output, bytemuck::cast_slice_mut(&mut values))?;
            Ok(values)
        };
        let whole = || NdRange::new(&[4, 3], &[1, 1]);
        let by_argument = Kernel::new(&program, "by_argument")?;
        by_argument.set_object(0, Some(&input))?;
        by_argument.set_object(1, Some(&sampler))?;
        by_argument.set_object(2, Some(&output))?;
        setup.queue.launch(&by_argument, whole())?;
        let doubled: Vec<f32> = data.iter().map(|value| value * 2.0).collect();
        assert_eq!(results()?, doubled, "{name}");
        let by_constant = Kernel::new(&program, "by_constant")?;
        by_constant.set_object(0, Some(&input))?;
        by_constant.set_object(1, Some(&output))?;
        setup.queue.launch(&by_constant, whole())?;
        let mut sums = Vec::new();
        for (y, x, c) in (0..3).flat_map(|y| (0..4).flat_map(move |x| (0..4).map(move |c| (y, x, c)))) {
            let beyond = x == 3 || y == 2;
            sums.push(texel(x, y, c) + if beyond { 0.0 } else { texel(x + 1, y + 1, c) });
        }
        assert_eq!(results()?, sums, "{name}");
        let numbers: Vec<i32> = (0..32).collect();
        let buffer = Buffer::copy_of(&setup.context, &numbers)?;
        let copies = Kernel::new(&program, "copies")?;
        copies.set_object(0, Some(&buffer))?;
        copies.set_local(1, 64)?;
        setup.queue.launch(&copies, NdRange::new(&[1], &[1]))?;
        let mut got = vec![0i32; 32];
        setup.queue.read(&buffer, &mut got)?;
        assert_eq!(got, [&numbers[..16], &numbers[..16]].concat(), "{name}");
    }
    Ok(())
}

/// "CL_INVALID_VALUE if image is a 1D or 2D image and slice_pitch is not 0", and for contradictory flags.
fn slice_pitch_without_slices() -> Outcome {
    let setup = Setup::new();
    let image = Image::new(&setup.context, ImageKind::D2, RGBA_FLOAT, [4, 3, 1], 1, None)?;
    let (queue, raw, origin, region) = (setup.queue.raw(), image.raw(), [0usize; 3], [4usize, 3, 1]);
    let (o, r, mut host) = (origin.as_ptr(), region.as_ptr(), vec![0f32; 4 * 4 * 3]);
    let place = host.as_mut_ptr().cast();
    for (slice_pitch, expected) in [(0, "CL_SUCCESS"), (192, "CL_INVALID_VALUE")] {
        for write in [false, true] {
            let (row, slice, none, event) = (64, slice_pitch, null(), null_mut());
            let result = if write {
                call!(clEnqueueWriteImage(queue, raw, CL_TRUE, o, r, row, slice, place, 0, none, event))
            } else {
                call!(clEnqueueReadImage(queue, raw, CL_TRUE, o, r, row, slice, place, 0, none, event))
            };
            assert_eq!(status(result), expected, "slice pitch {slice_pitch}, write: {write}");
        }
    }
    let (context, kind, mut count) = (setup.context.raw(), CL_MEM_OBJECT_IMAGE2D, 0);
    let flags = CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY;
    let formats = call!(clGetSupportedImageFormats(context, flags, kind, 0, null_mut(), &mut count));
    assert_eq!(status(formats), "CL_INVALID_VALUE");
    Ok(())
}
