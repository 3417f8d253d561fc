//! Images: formats, transfers, and a kernel that samples.

use crate::setup::{Setup, status, tests};
use cl_sys::*;
use spirula_tests::call;
use spirula_tests::cl::{Image, ImageKind, NdRange, Object};
use spirula_tests::isolate::Outcome;
use std::ptr::{null, null_mut};

tests![formats, round_trip, parts_with_pitch, creation_errors, blur];

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
    let empty = make(RGBA_FLOAT, [0, 4, 1]);
    assert!(["CL_INVALID_IMAGE_SIZE", "CL_INVALID_IMAGE_DESCRIPTOR"].contains(&empty.as_str()), "{empty}");
    let widest = setup.device.info::<usize>(CL_DEVICE_IMAGE2D_MAX_WIDTH)?;
    assert!(widest >= 8192);
    assert_eq!(make(RGBA_FLOAT, [widest + 1, 1, 1]), "CL_INVALID_IMAGE_SIZE");
    assert_eq!(make((CL_RGBA, 0x4321), [4, 4, 1]), "CL_INVALID_IMAGE_FORMAT_DESCRIPTOR");
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
