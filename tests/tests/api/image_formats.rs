//! Images of each format in each number of lanes: what kernels read, copy and write is what the format says.

use crate::setup::{again_with, tests};
use crate::sources::{built, setup};
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{Buffer, Image, ImageKind, Kernel, NdRange};
use spirula_tests::isolate::Outcome;

tests![each_format, each_format_in_packs];

const SIZE: [usize; 2] = [32, 4];
const PIXELS: usize = SIZE[0] * SIZE[1];

/// A kernel for each kind of colour: copies, sums up a row's red neighbours behind the edge as well, and tells the texel outside.
const SOURCE: &str = "constant sampler_t edge = CLK_NORMALIZED_COORDS_FALSE | CLK_ADDRESS_CLAMP | CLK_FILTER_NEAREST;
    #define KERNEL(suffix, type) kernel void of_##suffix( \\
            read_only image2d_t a, write_only image2d_t b, global type *red, global type##4 *colours) { \\
        int2 p = (int2)(get_global_id(0), get_global_id(1)); int i = p.y * 32 + p.x; \\
        type##4 colour = read_image##suffix(a, edge, p); colours[i] = colour; write_image##suffix(b, p, colour); \\
        type sum = 0; \\
        for (int d = -1; d <= 1; d++) sum += read_image##suffix(a, edge, p + (int2)(d, 0)).x; \\
        red[i] = sum + read_image##suffix(a, edge, (int2)(-1, p.y)).w; }
    KERNEL(f, float) KERNEL(i, int) KERNEL(ui, uint)";

/// Channel types: `cl_channel_type`, bytes, the kernel, and the value of a channel as a number.
type Channel = (cl_channel_type, usize, &'static str, fn(u32) -> f64);
const CHANNELS: [Channel; 12] = [
    (CL_UNORM_INT8, 1, "of_f", |bits| f64::from(bits as f32 / 255.0)),
    (CL_UNORM_INT16, 2, "of_f", |bits| f64::from(bits as f32 / 65535.0)),
    (CL_SNORM_INT8, 1, "of_f", |bits| f64::from(f32::from(bits as i8) / 127.0)),
    (CL_SNORM_INT16, 2, "of_f", |bits| f64::from(f32::from(bits as i16) / 32767.0)),
    (CL_HALF_FLOAT, 2, "of_f", half),
    (CL_FLOAT, 4, "of_f", |bits| f32::from_bits(bits).into()),
    (CL_SIGNED_INT8, 1, "of_i", |bits| (bits as i8).into()),
    (CL_SIGNED_INT16, 2, "of_i", |bits| (bits as i16).into()),
    (CL_SIGNED_INT32, 4, "of_i", |bits| (bits as i32).into()),
    (CL_UNSIGNED_INT8, 1, "of_ui", f64::from),
    (CL_UNSIGNED_INT16, 2, "of_ui", f64::from),
    (CL_UNSIGNED_INT32, 4, "of_ui", f64::from),
];

/// A finite half.
fn half(bits: u32) -> f64 {
    let sign = if bits >> 15 == 0 { 1.0 } else { -1.0 };
    let (exponent, fraction) = (bits >> 10 & 31, bits & 1023);
    let integer = if exponent == 0 { fraction } else { 1024 + fraction };
    sign * f64::from(integer) * (f64::from(exponent.max(1)) - 25.0).exp2()
}

/// Channel orders: the channel that red, green, blue and alpha are, or the number that they are without one; and alpha outside.
type Order = (cl_channel_order, usize, [Result<usize, f64>; 4], f64);
const ORDERS: [Order; 9] = [
    (CL_R, 1, [Ok(0), Err(0.0), Err(0.0), Err(1.0)], 1.0),
    (CL_A, 1, [Err(0.0), Err(0.0), Err(0.0), Ok(0)], 0.0),
    (CL_INTENSITY, 1, [Ok(0), Ok(0), Ok(0), Ok(0)], 0.0),
    (CL_LUMINANCE, 1, [Ok(0), Ok(0), Ok(0), Err(1.0)], 1.0),
    (CL_RG, 2, [Ok(0), Ok(1), Err(0.0), Err(1.0)], 1.0),
    (CL_RA, 2, [Ok(0), Err(0.0), Err(0.0), Ok(1)], 0.0),
    (CL_RGBA, 4, [Ok(0), Ok(1), Ok(2), Ok(3)], 0.0),
    (CL_BGRA, 4, [Ok(2), Ok(1), Ok(0), Ok(3)], 0.0),
    (CL_ARGB, 4, [Ok(1), Ok(2), Ok(3), Ok(0)], 0.0),
];

fn each_format() -> Outcome {
    let setup = setup()?;
    let program = built(&setup, SOURCE, "-cl-std=CL1.2")?;
    let mut seen = 0;
    for (order, channels, components, outside) in ORDERS {
        for (channel_type, bytes, kernel, value) in CHANNELS {
            let image = || {
                let format = (order, channel_type);
                Image::new(&setup.context, ImageKind::D2, format, [SIZE[0], SIZE[1], 1], 1, None)
            };
            let (Ok(source), Ok(target)) = (image(), image()) else { continue };
            seen += 1;
            // Of these bytes all floats and halves are finite, and both signs occur.
            let texels: Vec<u8> =
                (0..PIXELS * channels * bytes).map(|i| (i * 37 % 59 + 1 + i % 5 / 4 * 128) as u8).collect();
            setup.queue.write_image(&source, &texels)?;
            let is_float = kernel == "of_f";
            let (mut red, mut colours) = (vec![0_u32; PIXELS], vec![0_u32; 4 * PIXELS]);
            let buffers =
                [Buffer::copy_of(&setup.context, &red)?, Buffer::copy_of(&setup.context, &colours)?];
            let kernel = Kernel::new(&program, kernel)?;
            kernel.set_object(0, Some(&source))?;
            kernel.set_object(1, Some(&target))?;
            kernel.set_object(2, Some(&buffers[0]))?;
            kernel.set_object(3, Some(&buffers[1]))?;
            setup.queue.launch(&kernel, NdRange::new(&SIZE, &[32, 1]))?;
            setup.queue.read(&buffers[0], &mut red)?;
            setup.queue.read(&buffers[1], &mut colours)?;
            let mut copy = vec![0_u8; texels.len()];
            setup.queue.read_image(&target, &mut copy)?;
            assert_eq!(copy, texels, "copied {order:#x} {channel_type:#x}");
            let component = |pixel: usize, index: usize| match components[index] {
                Err(missing) => missing,
                Ok(channel) => {
                    let channel = &texels[(pixel * channels + channel) * bytes..][..bytes];
                    value(channel.iter().rev().fold(0, |bits, &byte| bits << 8 | u32::from(byte)))
                }
            };
            let bits = |number: f64| if is_float { (number as f32).to_bits() } else { number as i64 as u32 };
            for pixel in 0..PIXELS {
                for index in 0..4 {
                    let (found, expected) = (colours[4 * pixel + index], bits(component(pixel, index)));
                    assert_eq!(
                        found, expected,
                        "component {index} of pixel {pixel} of {order:#x} {channel_type:#x}"
                    );
                }
                let row = pixel / SIZE[0] * SIZE[0];
                let neighbours = (0..3)
                    .filter_map(|d| (pixel + d).checked_sub(1).filter(|i| i / SIZE[0] * SIZE[0] == row));
                let sum = if is_float {
                    let sum = neighbours.fold(0.0, |sum, i| sum + component(i, 0) as f32);
                    (sum + outside as f32).to_bits()
                } else {
                    neighbours.fold(outside as u32, |sum, i| sum.wrapping_add(bits(component(i, 0))))
                };
                assert_eq!(red[pixel], sum, "around pixel {pixel} of {order:#x} {channel_type:#x}");
            }
        }
    }
    assert!(seen > 20, "{seen} formats");
    Ok(())
}

fn each_format_in_packs() -> Outcome {
    for (tier, lanes) in [("baseline", "1"), ("optimized", "1"), ("optimized", "4"), ("optimized", "16")] {
        again_with("image_formats::each_format", &[("SPIRULA_TIER", tier), ("SPIRULA_VECTOR_WIDTH", lanes)]);
    }
    Ok(())
}
