//! What Intel's sub-groups have beyond the functions of OpenCL C (`cl_intel_subgroups` and its siblings): shuffles of two values, and blocks
//! of buffers, local memory and images. Everything against a model. Skipped on a device without a compiler.

use crate::setup::{Setup, again_with, tests};
use crate::sources::{built, setup};
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{self, Buffer, Image, ImageKind, Kernel, NdRange};
use spirula_tests::isolate::Outcome;
use spirula_tests::mutate::Random;

tests![shuffles, blocks_of_buffers, blocks_of_images, in_packs];

/// An element: OpenCL C's name, bytes, the ending of the functions, how many of them a work-item has at most, and an image format.
type Element = (&'static str, usize, &'static str, usize, cl_channel_type);

const ELEMENTS: [Element; 5] = [
    ("uint", 4, "", 8, CL_UNSIGNED_INT32),
    ("uint", 4, "_ui", 8, CL_UNSIGNED_INT32),
    ("uchar", 1, "_uc", 16, CL_UNSIGNED_INT8),
    ("ushort", 2, "_us", 16, CL_UNSIGNED_INT16),
    ("ulong", 8, "_ul", 8, CL_UNSIGNED_INT32),
];

/// The sub-group sizes that are tried, in turn.
const SIZES: [usize; 3] = [8, 16, 32];

/// OpenCL C's vector type.
fn vector(element: &str, count: usize) -> String {
    if count == 1 { element.into() } else { format!("{element}{count}") }
}

/// Component `index` of a vector that may be a scalar.
fn component(value: &str, count: usize, index: usize) -> String {
    if count == 1 { value.into() } else { format!("{value}.s{index:X}") }
}

/// A kernel of sub-groups of this size, which knows its sub-group's number in the whole NDRange.
fn kernel(setup: &Setup, size: usize, parameters: &str, body: &str) -> cl::Result<Kernel> {
    let source = format!(
        "#pragma OPENCL EXTENSION cl_khr_fp16 : enable
        __attribute__((intel_reqd_sub_group_size({size}))) kernel void k({parameters}) {{
            uint own = get_sub_group_local_id(), most = get_max_sub_group_size();
            uint number = get_group_id(0) * get_num_sub_groups() + get_sub_group_id();
            {body}
        }}"
    );
    Kernel::new(&built(setup, &source, "-cl-std=CL1.2")?, "k")
}

/// What bytes and words have by names of Intel's, against what integers have.
const NARROW: &str = "
    if (intel_sub_group_broadcast(a, 2) != sub_group_broadcast((int)a, 2)) wrong |= 16;
    if (intel_sub_group_reduce_max(a) != sub_group_reduce_max((int)a)) wrong |= 32;
    if (intel_sub_group_reduce_min(a) != sub_group_reduce_min((int)a)) wrong |= 64;
    if (intel_sub_group_scan_inclusive_max(a) != sub_group_scan_inclusive_max((int)a)) wrong |= 128;
    int least = sub_group_scan_exclusive_min((int)a), own_least = intel_sub_group_scan_exclusive_min(a);
    if (own && least != own_least) wrong |= 256;
    if (intel_sub_group_scan_exclusive_add((ushort)1) != own) wrong |= 512;";

/// Whom a value comes from, of the work-items of two sub-groups that lie one behind the other.
fn shuffles() -> Outcome {
    let setup = setup()?;
    let mut random = Random::new(3);
    for (number, ty) in
        ["float", "int3", "uchar16", "ushort", "double", "half", "long", "char"].iter().enumerate()
    {
        let size = SIZES[number % SIZES.len()];
        let body = format!(
            "local float at[2][{local}];
             uint item = get_local_id(0), start = get_sub_group_id() * most;
             float first = (item * 7 + 3) % 101, second = (item * 5 + 1) % 103;
             at[0][item] = first; at[1][item] = second;
             barrier(CLK_LOCAL_MEM_FENCE);
             uint d = deltas[get_global_id(0)];
             {ty} a = ({ty})first, b = ({ty})second;
             int wrong = 0;
             {ty} got = intel_sub_group_shuffle_down(a, b, d), want = ({ty})at[(own + d) / most][start + (own + d) % most];
             if ({unequal}) wrong |= 1;
             got = intel_sub_group_shuffle_up(a, b, d); want = ({ty})at[own >= d][start + (most + own - d) % most];
             if ({unequal}) wrong |= 2;
             got = intel_sub_group_shuffle(a, d % most); want = ({ty})at[0][start + d % most];
             if ({unequal}) wrong |= 4;
             got = intel_sub_group_shuffle_xor(a, d % most); want = ({ty})at[0][start + (own ^ d % most)];
             if ({unequal}) wrong |= 8;
             {narrow}
             out[get_global_id(0)] = wrong;",
            local = 2 * size,
            narrow = if ["char", "ushort"].contains(ty) { NARROW } else { "" },
            unequal = if ty.ends_with(|c: char| c.is_ascii_digit()) { "any(got != want)" } else { "got != want" },
        );
        let kernel = kernel(&setup, size, "global int *out, global const uint *deltas", &body)?;
        let deltas: Vec<u32> = (0..8 * size).map(|_| random.below(size + 1) as u32).collect();
        let mut out = vec![-1; deltas.len()];
        let buffers = [Buffer::copy_of(&setup.context, &out)?, Buffer::copy_of(&setup.context, &deltas)?];
        (0..).zip(&buffers).try_for_each(|(index, buffer)| kernel.set_object(index, Some(buffer)))?;
        setup.queue.launch(&kernel, NdRange::new(&[out.len()], &[2 * size]))?;
        setup.queue.read(&buffers[0], &mut out)?;
        assert!(out.iter().all(|&wrong| wrong == 0), "{ty} by {size}: {out:?}, deltas {deltas:?}");
    }
    Ok(())
}

/// The first element of each work-item lies beside those of others, and so do the second ones behind them.
fn blocks_of_buffers() -> Outcome {
    let setup = setup()?;
    let mut size = SIZES.into_iter().cycle();
    for (ty, bytes, ending, most, _) in ELEMENTS {
        for count in [1, 2, 4, 8, 16].into_iter().filter(|&count| count <= most) {
            let Some(size) = size.next() else { unreachable!("it goes round") };
            let (suffix, vector) =
                (if count == 1 { String::new() } else { count.to_string() }, vector(ty, count));
            let (read, write) = (
                format!("intel_sub_group_block_read{ending}{suffix}"),
                format!("intel_sub_group_block_write{ending}{suffix}"),
            );
            let compared: String = (0..count)
                .map(|index| {
                    format!("wrong |= {} != in[base + own + {index} * most];", component("v", count, index))
                })
                .collect();
            let body = format!(
                "local {ty} here[{local}];
                 uint base = number * most * {count};
                 local {ty} *p = here + get_sub_group_id() * most * {count};
                 {vector} v = {read}(in + base);
                 int wrong = 0; {compared}
                 {write}(p, v);
                 sub_group_barrier(CLK_LOCAL_MEM_FENCE);
                 for (uint i = own; i < most * {count}; i += most) wrong |= p[i] != in[base + i];
                 {write}(out + base, {read}((const local {ty} *)p) + ({ty})wrong);",
                local = 2 * size * count,
            );
            let kernel = kernel(&setup, size, &format!("global {ty} *out, global const {ty} *in"), &body)?;
            let items = 6 * size;
            let data: Vec<u8> = (0..items * count * bytes).map(|i| (i * 37 % 251) as u8).collect();
            let mut found = vec![0_u8; data.len()];
            let buffers = [Buffer::copy_of(&setup.context, &found)?, Buffer::copy_of(&setup.context, &data)?];
            (0..).zip(&buffers).try_for_each(|(index, buffer)| kernel.set_object(index, Some(buffer)))?;
            setup.queue.launch(&kernel, NdRange::new(&[items], &[2 * size]))?;
            setup.queue.read(&buffers[0], &mut found)?;
            assert_eq!(found, data, "{read} by {size}");
        }
    }
    Ok(())
}

/// Rows of bytes: what is read outside is the edge, and what is written there is lost.
fn blocks_of_images() -> Outcome {
    const SIZE: [usize; 2] = [40, 12];
    let setup = setup()?;
    for (number, (ty, bytes, ending, most, format)) in ELEMENTS.into_iter().enumerate() {
        let (size, count) = (8, if number % 2 == 0 { most } else { 2 });
        let (suffix, vector) = (count.to_string(), vector(ty, count));
        let order = if bytes == 8 { CL_RG } else { CL_R };
        let moved = format!(
            "{vector} v = intel_sub_group_block_read{ending}{suffix}(in, (int2)(at.x * {bytes}, at.y));
             intel_sub_group_block_write{ending}{suffix}(out, (int2)(at.x * {bytes}, at.y), v);
             vstore{count}(v, get_global_id(0), seen);"
        );
        let parameters =
            format!("read_only image2d_t in, write_only image2d_t out, int2 at, global {ty} *seen");
        let kernel = kernel(&setup, size, &parameters, &moved)?;
        let [width, height] = SIZE;
        let texels: Vec<u8> = (0..width * height * bytes).map(|i| (i * 29 % 253) as u8 + 1).collect();
        let image =
            || Image::new(&setup.context, ImageKind::D2, (order, format), [width, height, 1], 1, None);
        for at in [[3_i32, 2], [-3, -1], [36, 9], [100, -100]] {
            let images = [image()?, image()?];
            setup.queue.write_image(&images[0], &texels)?;
            setup.queue.write_image(&images[1], &vec![0; texels.len()])?;
            let mut seen = vec![0_u8; size * count * bytes];
            let buffer = Buffer::copy_of(&setup.context, &seen)?;
            (0..).zip(&images).try_for_each(|(index, image)| kernel.set_object(index, Some(image)))?;
            kernel.set(2, at)?;
            kernel.set_object(3, Some(&buffer))?;
            setup.queue.launch(&kernel, NdRange::new(&[size], &[size]))?;
            setup.queue.read(&buffer, &mut seen)?;
            let mut written = vec![0_u8; texels.len()];
            setup.queue.read_image(&images[1], &mut written)?;
            let mut expected = vec![0_u8; texels.len()];
            for (item, row) in (0..size).flat_map(|item| (0..count).map(move |row| (item, row))) {
                let (x, y) = (at[0] + item as i32, at[1] + row as i32);
                let (near_x, near_y) = (x.clamp(0, width as i32 - 1), y.clamp(0, height as i32 - 1));
                let texel = (near_y as usize * width + near_x as usize) * bytes;
                let texel = texel..texel + bytes;
                let place = (item * count + row) * bytes;
                assert_eq!(seen[place..place + bytes], texels[texel.clone()], "{ty}{count} at {x}, {y}");
                if [near_x, near_y] == [x, y] {
                    expected[texel.clone()].copy_from_slice(&texels[texel]);
                }
            }
            assert_eq!(written, expected, "{ty}{count} at {at:?}");
        }
    }
    Ok(())
}

fn in_packs() -> Outcome {
    for test in ["shuffles", "blocks_of_buffers", "blocks_of_images"] {
        for (tier, lanes) in [("baseline", "1"), ("optimized", "4"), ("optimized", "16")] {
            let settings = [("SPIRULA_TIER", tier), ("SPIRULA_VECTOR_WIDTH", lanes)];
            again_with(&format!("blocks::{test}"), &settings);
        }
    }
    Ok(())
}
