//! Tables of bytes and of 16 bits that each work-item looks something up in: by indices that lead to all of a table, which begins at any
//! byte, and lies between pages that nobody may touch; and small constant ones, which packs hold in registers. Against the host, in packs of
//! several widths and in both tiers. Skipped on a device without a compiler.

use crate::setup::{again, again_with, tests};
use crate::sources::{built, setup};
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{Buffer, Kernel, NdRange, Object};
use spirula_tests::create;
use spirula_tests::isolate::Outcome;
use std::ptr::null_mut;

tests![tables, constants, tables_in_lanes];

/// Bytes of the table, and of what nobody may touch before and behind it.
const PAGE: usize = 4096;

const ITEMS: usize = 256;

/// A page between two that nobody may touch, with numbers.
fn guarded() -> &'static mut [u8] {
    let (anywhere, flags) = (null_mut(), libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
    // SAFETY: new memory, which stays; its middle may be written to.
    let page = unsafe {
        let start = libc::mmap(anywhere, 3 * PAGE, libc::PROT_NONE, flags, -1, 0);
        assert_ne!(start, libc::MAP_FAILED);
        let page = start.cast::<u8>().add(PAGE);
        assert_eq!(libc::mprotect(page.cast(), PAGE, libc::PROT_READ | libc::PROT_WRITE), 0);
        std::slice::from_raw_parts_mut(page, PAGE)
    };
    page.iter_mut().enumerate().for_each(|(n, byte)| *byte = (n * n + n / 7) as u8);
    page
}

/// What is done with the elements that an index leads to.
const BODIES: [&str; 4] = [
    "d[i] = t[x];",
    "if (x & 1) d[i] = t[x] * 3; else d[i] = -5;",
    "int s = 0; for (int k = 0; k < 9; k++) s = s * 2 + t[(x + k * 77) & mask]; d[i] = s;",
    // By two pointers to the same.
    "global const T *p = x & 2 ? t : u; d[i] = p[x];",
];

fn expected(body: usize, element: impl Fn(usize) -> i32, x: usize, mask: usize) -> i32 {
    match body {
        0 | 3 => element(x),
        1 if x & 1 == 0 => -5,
        1 => element(x) * 3,
        _ => (0..9).fold(0, |sum, k| sum * 2 + element((x + k * 77) & mask)),
    }
}

fn tables() -> Outcome {
    let setup = setup()?;
    let page = guarded();
    let raw =
        create!(clCreateBuffer(setup.context.raw(), CL_MEM_USE_HOST_PTR, PAGE, page.as_mut_ptr().cast()))?;
    let table = Buffer::from_raw(raw);
    // The number of elements, of which the first is at byte `from` of the page.
    for (ty, size, from, count) in [
        ("uchar", 1, 0, 4096),
        ("char", 1, 4095 - 63, 64),
        ("uchar", 1, 4096 - 1, 1),
        ("char", 1, 1, 4),
        ("uchar", 1, 2, 2048),
        ("uchar", 1, 3, 1024),
        ("ushort", 2, 0, 2048),
        ("short", 2, 4096 - 64, 32),
        ("short", 2, 2, 1),
    ] {
        let element = |n: usize| {
            let at = from + n * size;
            match ty {
                "uchar" => page[at].into(),
                "char" => (page[at] as i8).into(),
                "ushort" => u16::from_ne_bytes([page[at], page[at + 1]]).into(),
                _ => i16::from_ne_bytes([page[at], page[at + 1]]).into(),
            }
        };
        let mask = count - 1;
        let indices: Vec<u32> = (0..ITEMS)
            .map(|n| if n < 8 { (mask - n.min(mask)) as u32 } else { ((n * 2_654_435) & mask) as u32 })
            .collect();
        let given = Buffer::copy_of(&setup.context, &indices)?;
        for (number, body) in BODIES.iter().enumerate() {
            let source = format!(
                "typedef {ty} T; kernel void k(global const uchar *bytes, global const uint *in, global int *d, uint from, uint mask,
                global const uchar *same)
                {{ global const T *t = (global const T *)(bytes + from), *u = (global const T *)(same + from); uint i = get_global_id(0), x = in[i]; {body} }}"
            );
            let kernel = Kernel::new(&built(&setup, &source, "")?, "k")?;
            let output = Buffer::copy_of(&setup.context, &[99_i32; ITEMS])?;
            kernel.set_object(0, Some(&table))?;
            kernel.set_object(1, Some(&given))?;
            kernel.set_object(2, Some(&output))?;
            kernel.set(3, from as u32)?;
            kernel.set(4, mask as u32)?;
            kernel.set_object(5, Some(&table))?;
            setup.queue.launch(&kernel, NdRange::new(&[ITEMS], &[64]))?;
            let mut found = vec![0_i32; ITEMS];
            setup.queue.read(&output, &mut found)?;
            let right: Vec<i32> =
                indices.iter().map(|&x| expected(number, element, x as usize, mask)).collect();
            let differing = std::iter::zip(&found, &right).position(|(a, b)| a != b);
            assert_eq!(differing, None, "`{body}` with {count} of {ty} from byte {from}: {found:?}");
        }
    }
    Ok(())
}

/// What a constant table has at an index: whole numbers that each type has.
fn entry(n: usize) -> i32 {
    ((n * n + 7 * n + 3) % 113) as i32
}

fn constants() -> Outcome {
    let setup = setup()?;
    // Such that they fill one register or several, are a power of two long or end in the middle of one.
    let kinds = [
        ("uchar", [1, 64, 100, 256]),
        ("short", [3, 32, 100, 128]),
        ("uint", [2, 16, 30, 64]),
        ("float", [5, 32, 33, 65]),
        ("long", [4, 8, 17, 32]),
        ("double", [3, 16, 25, 33]),
    ];
    let seeds: Vec<u32> = (0..ITEMS as u32).map(|n| n.wrapping_mul(2_654_435_761) >> 7).collect();
    let given = Buffer::copy_of(&setup.context, &seeds)?;
    for (ty, counts) in kinds {
        for count in counts {
            let table: Vec<String> = (0..count).map(|n| entry(n).to_string()).collect();
            let source = format!(
                "constant {ty} t[{count}] = {{ {} }};
                kernel void k(global const uint *in, global int *d) {{
                uint i = get_global_id(0), x = in[i]; uchar near = x % {count}u;
                int s = t[x % {count}u] * 3 + t[near];
                if (x & 8) s += 5 * t[(x >> 3) % {count}u];
                for (uint k = 0; k < (x & 3); k++) s = s * 2 + t[(x + k) % {count}u];
                int one = x % {count}u + 1; s += 7 * t[one - 1] + t[i % {count}u];
                d[i] = s; }}",
                table.join(", ")
            );
            let kernel = Kernel::new(&built(&setup, &source, "")?, "k")?;
            let output = Buffer::copy_of(&setup.context, &[-1_i32; ITEMS])?;
            kernel.set_object(0, Some(&given))?;
            kernel.set_object(1, Some(&output))?;
            setup.queue.launch(&kernel, NdRange::new(&[ITEMS], &[64]))?;
            let mut found = vec![0_i32; ITEMS];
            setup.queue.read(&output, &mut found)?;
            let right = |(i, &x): (usize, &u32)| {
                let x = x as usize;
                let at = |n: usize| entry(n % count);
                let mut s = at(x) * 3 + entry(usize::from((x % count) as u8));
                s += if x & 8 != 0 { 5 * at(x >> 3) } else { 0 };
                s = (0..x & 3).fold(s, |s, k| s * 2 + at(x + k));
                s + 7 * at(x) + at(i)
            };
            let right: Vec<i32> = seeds.iter().enumerate().map(right).collect();
            assert_eq!(found, right, "a table of {count} {ty}");
        }
    }
    Ok(())
}

fn tables_in_lanes() -> Outcome {
    for width in ["4", "8", "16", "64"] {
        for test in ["tables::tables", "tables::constants"] {
            again_with(test, &[("SPIRULA_TIER", "optimized"), ("SPIRULA_VECTOR_WIDTH", width)]);
        }
    }
    again("tables::tables", "SPIRULA_TIER", "baseline");
    Ok(())
}
