//! What extensions of arithmetic promise: their queries, their macros, and their functions against the host's. Kernels from
//! source; skipped on a device without the extension or without a compiler.

use crate::conversions::apply;
use crate::setup::{program_of_2_0, setup_with, tests};
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{Buffer, Kernel, NdRange};
use spirula_tests::isolate::Outcome;

tests![queries, bits, dot_products, float_sums, float_extremes, expectations, copies_of_lines_and_planes];

const SINGLE_FP_ATOMICS: cl_device_info = 0x4231;
const DOUBLE_FP_ATOMICS: cl_device_info = 0x4232;
const HALF_FP_ATOMICS: cl_device_info = 0x4233;
const DOT_PRODUCTS: cl_device_info = 0x1073;
const DOT_PRODUCTS_IN_BYTES: cl_device_info = 0x1074;
const DOT_PRODUCTS_PACKED: cl_device_info = 0x1075;

fn queries() -> Outcome {
    let setup = setup_with("cl_ext_float_atomics")?;
    for float in [SINGLE_FP_ATOMICS, DOUBLE_FP_ATOMICS] {
        assert_eq!(setup.device.info::<u64>(float)?, 0x7_0007);
    }
    assert_eq!(setup.device.info::<u64>(HALF_FP_ATOMICS)?, 0);
    let setup = setup_with("cl_khr_integer_dot_product")?;
    assert_eq!(setup.device.info::<u64>(DOT_PRODUCTS)?, 3);
    for accelerated in [DOT_PRODUCTS_IN_BYTES, DOT_PRODUCTS_PACKED] {
        let flags = setup.device.info::<[cl_bool; 6]>(accelerated)?;
        assert!(flags.iter().all(|&flag| flag == CL_FALSE || flag == CL_TRUE), "{flags:?}");
    }
    // Sources can ask for each.
    let macros = "#if !defined(cl_khr_extended_bit_ops) || !defined(cl_ext_float_atomics) || !defined(cl_khr_expect_assume) \
                  || !defined(__opencl_c_integer_dot_product_input_4x8bit_packed)\n#error\n#endif\n\
                  kernel void k() {}";
    for version in ["-cl-std=CL1.2", "-cl-std=CL2.0", "-cl-std=CL3.0"] {
        program_of_2_0(&setup, macros, version)?;
    }
    let atomics = "#if !defined(__opencl_c_ext_fp32_global_atomic_add) || !defined(__opencl_c_ext_fp64_local_atomic_min_max)\n\
                   #error\n#endif\nkernel void k() {}";
    for version in ["-cl-std=CL2.0", "-cl-std=CL3.0"] {
        program_of_2_0(&setup, atomics, version)?;
    }
    Ok(())
}

/// Numbers without a pattern (Knuth's constants).
fn random(count: usize) -> Vec<u32> {
    let step = |state: &mut u64| {
        *state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        Some((*state >> 32) as u32)
    };
    std::iter::repeat_n((), count).scan(7u64, |state, ()| step(state)).collect()
}

/// Every offset and length of a field of 32 bits.
fn bits() -> Outcome {
    let setup = setup_with("cl_khr_extended_bit_ops")?;
    let source = "kernel void k(global const uint4 *in, global uint4 *out) {\n\
                  size_t i = get_global_id(0); uint4 x = in[i];\n\
                  out[i] = (uint4)(bitfield_insert(x.x, x.y, x.z, x.w), bitfield_extract_signed(x.x, x.z, x.w),\n\
                  bitfield_extract_unsigned(x.x, x.z, x.w), bit_reverse(x.x)); }";
    let program = program_of_2_0(&setup, source, "")?;
    let fields = (0..=32u32).flat_map(|offset| (0..=32 - offset).map(move |count| (offset, count)));
    let input: Vec<[u32; 4]> = fields
        .zip(random(2000).chunks_exact(2))
        .map(|((offset, count), numbers)| [numbers[0], numbers[1], offset, count])
        .collect();
    let found: Vec<[u32; 4]> = apply(&setup, &program, "k", &input, input.len())?;
    for (&[base, insert, offset, count], found) in input.iter().zip(found) {
        let low = (1u64 << count) - 1;
        let mask = (low << offset) as u32;
        let inserted = (base & !mask) | ((u64::from(insert) << offset) as u32 & mask);
        let field = ((u64::from(base) >> offset) & low) as u32;
        let negative = count > 0 && field >> (count - 1) & 1 == 1;
        let signed = if negative { field | !(low as u32) } else { field };
        assert_eq!(
            found,
            [inserted, signed, field, base.reverse_bits()],
            "{base:#x} {insert:#x} {offset} {count}"
        );
    }
    Ok(())
}

fn unsigned(byte: u8) -> i32 {
    byte.into()
}

fn signed(byte: u8) -> i32 {
    (byte as i8).into()
}

fn dot_products() -> Outcome {
    let setup = setup_with("cl_khr_integer_dot_product")?;
    let source = "kernel void k(global const uint4 *in, global uint8 *out) {\n\
                  size_t i = get_global_id(0); uint a = in[i].x, b = in[i].y, c = in[i].z;\n\
                  out[i] = (uint8)(dot_4x8packed_uu_uint(a, b), dot_4x8packed_ss_int(a, b), dot_4x8packed_us_int(a, b),\n\
                  dot_4x8packed_su_int(a, b), dot_acc_sat(as_uchar4(a), as_uchar4(b), c),\n\
                  dot_acc_sat(as_char4(a), as_char4(b), as_int(c)), dot(as_uchar4(a), as_char4(b)),\n\
                  dot_acc_sat_4x8packed_su_int(a, b, as_int(c))); }";
    let program = program_of_2_0(&setup, source, "")?;
    let mut input: Vec<[u32; 4]> =
        random(4000).chunks_exact(4).map(|four| [four[0], four[1], four[2], four[3]]).collect();
    // At both ends of the accumulators.
    input.extend([[!0, !0, !0, 0], [!0, !0, 1 << 31, 0], [0x7F7F7F7F, 0x7F7F7F7F, i32::MAX as u32, 0]]);
    let found: Vec<[u32; 8]> = apply(&setup, &program, "k", &input, input.len())?;
    for (&[a, b, c, _], found) in input.iter().zip(found) {
        let dot = |first: fn(u8) -> i32, second: fn(u8) -> i32| -> i32 {
            a.to_le_bytes().into_iter().zip(b.to_le_bytes()).map(|(x, y)| first(x) * second(y)).sum()
        };
        let [uu, ss] = [dot(unsigned, unsigned), dot(signed, signed)];
        let [us, su] = [dot(unsigned, signed), dot(signed, unsigned)];
        let [ss_sum, su_sum] = [ss, su].map(|product| product.saturating_add(c as i32) as u32);
        let expected = [
            uu as u32,
            ss as u32,
            us as u32,
            su as u32,
            (uu as u32).saturating_add(c),
            ss_sum,
            us as u32,
            su_sum,
        ];
        assert_eq!(found, expected, "{a:#x} {b:#x} {c:#x}");
    }
    Ok(())
}

const ATOMICS: &str = "kernel void sums(global atomic_float *a, global atomic_double *b, global float *c) {\n\
    local atomic_float l; if (get_local_id(0) == 0) atomic_init(&l, 0.0f); barrier(CLK_LOCAL_MEM_FENCE);\n\
    atomic_fetch_add(a, 0.5f); atomic_fetch_sub_explicit(b, 0.25, memory_order_relaxed);\n\
    atomic_fetch_add_explicit(&l, 1.0f, memory_order_relaxed, memory_scope_work_group);\n\
    barrier(CLK_LOCAL_MEM_FENCE); if (get_local_id(0) == 0) c[get_group_id(0)] = atomic_load(&l); }\n\
    kernel void extremes(global atomic_float *a, global atomic_double *b, global float *c) {\n\
    float x = c[get_global_id(0)]; atomic_fetch_min(a, x); atomic_fetch_max(a + 1, x);\n\
    atomic_fetch_min_explicit(b, (double)x, memory_order_acq_rel, memory_scope_device);\n\
    atomic_fetch_max(b + 1, (double)x); }";

/// All work-items add to the same two numbers; each sum is exact.
fn float_sums() -> Outcome {
    let setup = setup_with("cl_ext_float_atomics")?;
    let program = program_of_2_0(&setup, ATOMICS, "")?;
    let kernel = Kernel::new(&program, "sums")?;
    let (items, group) = (64 * 1024, 64);
    let single = Buffer::copy_of(&setup.context, &[0f32])?;
    let double = Buffer::copy_of(&setup.context, &[0f64])?;
    let locals = Buffer::copy_of(&setup.context, &vec![0f32; items / group])?;
    for (index, buffer) in [&single, &double, &locals].into_iter().enumerate() {
        kernel.set_object(index as cl_uint, Some(buffer))?;
    }
    setup.queue.launch(&kernel, NdRange::new(&[items], &[group]))?;
    let (mut sum, mut difference, mut counts) = ([0f32], [0f64], vec![0f32; items / group]);
    setup.queue.read(&single, &mut sum)?;
    setup.queue.read(&double, &mut difference)?;
    setup.queue.read(&locals, &mut counts)?;
    assert_eq!((sum, difference), ([items as f32 * 0.5], [items as f64 * -0.25]));
    assert!(counts.iter().all(|&count| count == group as f32), "{counts:?}");
    Ok(())
}

fn float_extremes() -> Outcome {
    let setup = setup_with("cl_ext_float_atomics")?;
    let program = program_of_2_0(&setup, ATOMICS, "")?;
    let kernel = Kernel::new(&program, "extremes")?;
    let numbers: Vec<f32> = random(4096).into_iter().map(|bits| bits as i32 as f32 * 0.5).collect();
    let start = [f32::INFINITY, f32::NEG_INFINITY];
    let single = Buffer::copy_of(&setup.context, &start)?;
    let double = Buffer::copy_of(&setup.context, &start.map(f64::from))?;
    let input = Buffer::copy_of(&setup.context, &numbers)?;
    for (index, buffer) in [&single, &double, &input].into_iter().enumerate() {
        kernel.set_object(index as cl_uint, Some(buffer))?;
    }
    setup.queue.launch(&kernel, NdRange::new(&[numbers.len()], &[64]))?;
    let (mut found, mut wide) = ([0f32; 2], [0f64; 2]);
    setup.queue.read(&single, &mut found)?;
    setup.queue.read(&double, &mut wide)?;
    let expected =
        [numbers.iter().copied().fold(start[0], f32::min), numbers.iter().copied().fold(start[1], f32::max)];
    assert_eq!((found, wide), (expected, expected.map(f64::from)));
    Ok(())
}

/// What a program says of its values changes no result that it is right about.
fn expectations() -> Outcome {
    let setup = setup_with("cl_khr_expect_assume")?;
    let source = "kernel void k(global const int *in, global int *out) {\n\
                  size_t i = get_global_id(0); int x = in[i]; __builtin_assume(x >= 0);\n\
                  out[i] = __builtin_expect(x % 3 == 0, 0) ? x / 4 : x * 2; }";
    let program = program_of_2_0(&setup, source, "")?;
    let input: Vec<i32> = (0..1000).collect();
    let found: Vec<i32> = apply(&setup, &program, "k", &input, input.len())?;
    let expected: Vec<i32> = input.iter().map(|&x| if x % 3 == 0 { x / 4 } else { x * 2 }).collect();
    assert_eq!(found, expected);
    Ok(())
}

/// Elements of this many bytes, of lines in planes: what `async_work_group_copy_3D3D` copies, given in its order.
fn copy_box(bytes: usize, (to, start): (&mut [u8], usize), (from, first): (&[u8], usize), sizes: [usize; 7]) {
    let [length, lines, planes, from_line, from_plane, to_line, to_plane] = sizes;
    for (plane, line) in (0..planes).flat_map(|plane| (0..lines).map(move |line| (plane, line))) {
        let target = (start + plane * to_plane + line * to_line) * bytes;
        let source = (first + plane * from_plane + line * from_line) * bytes;
        to[target..target + length * bytes].copy_from_slice(&from[source..source + length * bytes]);
    }
}

fn copies_of_lines_and_planes() -> Outcome {
    const LOCAL: usize = 8192;
    let setup = setup_with("cl_khr_extended_async_copies")?;
    let source = "#pragma OPENCL EXTENSION cl_khr_extended_async_copies : enable\n\
                  kernel void k(global const uchar *in, global uchar *out, uint n) {\n\
                  local uchar l[8192]; in += 8192 * get_group_id(0); out += 8192 * get_group_id(0);\n\
                  for (uint i = get_local_id(0); i < 8192; i += get_local_size(0)) l[i] = 0;\n\
                  barrier(CLK_LOCAL_MEM_FENCE);\n\
                  event_t e[2];\n\
                  e[0] = async_work_group_copy_2D2D(l, 2, in, 5, n, 7, 4, 11, 9, 0);\n\
                  e[1] = async_work_group_copy_3D3D(l, 100, in, 3, n, 5, 3, 4, 8, 40, 6, 20, e[0]);\n\
                  wait_group_events(2, e);\n\
                  e[0] = async_work_group_copy_2D2D(out, 1, l, 2, n, 6, 3, 9, 13, 0);\n\
                  e[1] = async_work_group_copy_3D3D(out, 64, l, 101, n, 4, 2, 4, 6, 20, 5, 11, 0);\n\
                  wait_group_events(2, e); }";
    for options in ["-cl-std=CL1.2", "-cl-std=CL3.0"] {
        let program = program_of_2_0(&setup, source, options)?;
        let kernel = Kernel::new(&program, "k")?;
        let input: Vec<u8> = random(LOCAL).into_iter().map(|bits| bits as u8).collect();
        for (bytes, group) in [(1, 1), (3, 5), (4, 64), (16, 32), (21, 7)] {
            let twice = [&input[..], &input[..]].concat();
            let from = Buffer::copy_of(&setup.context, &twice)?;
            let to = Buffer::copy_of(&setup.context, &vec![0u8; 2 * LOCAL])?;
            kernel.set_object(0, Some(&from))?;
            kernel.set_object(1, Some(&to))?;
            kernel.set(2, bytes as u32)?;
            setup.queue.launch(&kernel, NdRange::new(&[2 * group], &[group]))?;
            let mut found = vec![0u8; 2 * LOCAL];
            setup.queue.read(&to, &mut found)?;
            let (mut local, mut expected) = (vec![0u8; LOCAL], vec![0u8; LOCAL]);
            copy_box(bytes, (&mut local, 2), (&input, 5), [7, 4, 1, 11, 0, 9, 0]);
            copy_box(bytes, (&mut local, 100), (&input, 3), [5, 3, 4, 8, 40, 6, 20]);
            copy_box(bytes, (&mut expected, 1), (&local, 2), [6, 3, 1, 9, 0, 13, 0]);
            copy_box(bytes, (&mut expected, 64), (&local, 101), [4, 2, 4, 6, 20, 5, 11]);
            assert!(found == [&expected[..], &expected[..]].concat(), "{bytes} bytes, {group} work-items");
        }
    }
    Ok(())
}
