//! What programs for GPUs are full of, each against the host: loops by steps of the NDRange's size, increments, a loop of the group's first
//! work-item, volatile sums, minima in memory, powers by a constant, groups of one work-item. Skipped on a device without a compiler.

use crate::setup::{again, again_with, tests};
use crate::sources::{built, setup};
use spirula_tests::cl::{Buffer, Kernel, NdRange};
use spirula_tests::isolate::Outcome;

tests![idioms, idioms_in_lanes];

/// Work-items, and those of a group; and elements, of which the last steps leave some lanes without one.
const ITEMS: usize = 256;
const GROUP: usize = 64;
const COUNT: usize = 1000;

/// A kernel's body over `global uint *x`, of which loops take `int n`, `int inc` and `local uint *t`; and what is in x behind it.
struct Idiom {
    body: &'static str,
    model: fn(&mut [u32], i32),
    /// Whether it does the same in an NDRange of any size.
    takes_all: bool,
}

/// Elements that loops leave alone.
const BEYOND: usize = 9;

const IDIOMS: [Idiom; 7] = [
    Idiom {
        body: "for (int i = get_global_id(0); i < n; i += get_global_size(0)) x[i] = x[i] * 3 + i;",
        model: |x, _| x[..COUNT - BEYOND].iter_mut().zip(0..).for_each(|(x, i)| *x = x.wrapping_mul(3).wrapping_add(i)),
        takes_all: true,
    },
    Idiom {
        body: "int i = get_global_id(0) * inc + 5; if (get_global_id(0) & 1) x[i] += 7; x[i] ^= 1;",
        model: |x, inc| {
            for item in 0..ITEMS {
                let i = (item as i32 * inc + 5) as usize;
                x[i] = x[i].wrapping_add(if item & 1 == 1 { 7 } else { 0 }) ^ 1;
            }
        },
        takes_all: false,
    },
    Idiom {
        body: "int l = get_local_id(0), g = get_group_id(0); t[l] = x[get_global_id(0)]; barrier(CLK_LOCAL_MEM_FENCE);
            if (l == 0) { for (uint k = 1; k < get_local_size(0); k++) t[l] += t[l + k] * k; x[256 + g] = t[l]; }",
        model: |x, _| {
            let sum = |group: &[u32]| {
                let rest = group.iter().zip(0_u32..).skip(1);
                rest.fold(group[0], |sum, (x, k)| sum.wrapping_add(x.wrapping_mul(k)))
            };
            let sums: Vec<u32> = x[..ITEMS].chunks(GROUP).map(sum).collect();
            x[ITEMS..ITEMS + sums.len()].copy_from_slice(&sums);
        },
        takes_all: false,
    },
    Idiom {
        body: "int l = get_local_id(0), g = get_global_id(0); volatile local uint *v = t; v[l] = x[g]; v[l] += g;
            if (x[g] & 1) v[l] *= 5; x[g] = v[l] - v[l] / 3;",
        model: |x, _| {
            for (x, g) in x[..ITEMS].iter_mut().zip(0_u32..) {
                let v = x.wrapping_add(g).wrapping_mul(if *x & 1 == 1 { 5 } else { 1 });
                *x = v - v / 3;
            }
        },
        takes_all: false,
    },
    Idiom {
        body: "int g = get_global_id(0); uint own = x[g + 300]; atomic_min(x + (own & 7), own);
            x[g + 600] = atomic_max((global int *)x + 8 + (own & 3), (int)own) < 0;",
        model: |x, _| {
            for g in 0..ITEMS {
                let own = x[g + 300];
                let [least, most] = [(own & 7) as usize, (8 + (own & 3)) as usize];
                x[least] = x[least].min(own);
                x[most] = (x[most] as i32).max(own as i32) as u32;
                x[g + 600] = 0;
            }
        },
        takes_all: false,
    },
    Idiom {
        body: "int g = get_global_id(0); float f = (float)(x[g] & 63) - 20; uint s = (uint)(int)pow(f, 3) + (uint)(int)pown(f, 2);
            s += (uint)(int)pow(f + 20, 0.5f) * (uint)(f + 20 == convert_float(x[g] & 63)); x[g] = s + as_uint(pow(f, 0.0f));",
        model: |x, _| {
            for x in &mut x[..ITEMS] {
                let number = (*x & 63) as f32;
                let f = number - 20.0;
                let whole = ((f * f * f) as i32 as u32).wrapping_add((f * f) as i32 as u32);
                *x = whole.wrapping_add(number.sqrt() as u32).wrapping_add(1.0_f32.to_bits());
            }
        },
        takes_all: false,
    },
    Idiom {
        body: "for (uint i = get_global_id(0); i < n; i += get_global_size(0)) { uint s = 0; for (uint k = 0; k < i % 9; k++) s += x[n + k] ^ i; x[i] = s; }",
        model: |x, _| {
            let n = COUNT - BEYOND;
            for i in 0..n {
                x[i] = (0..i % 9).fold(0, |sum: u32, k| sum.wrapping_add(x[n + k] ^ i as u32));
            }
        },
        takes_all: true,
    },
];

fn idioms() -> Outcome {
    let setup = setup()?;
    let input: Vec<u32> = (0..COUNT as u32).map(|n| n.wrapping_mul(0x9E37_79B9) >> 3).collect();
    for Idiom { body, model, takes_all } in &IDIOMS {
        let source = format!("kernel void k(global uint *x, int n, int inc, local uint *t) {{ {body} }}");
        let kernel = Kernel::new(&built(&setup, &source, "")?, "k")?;
        for inc in [1, 2, 3] {
            for (items, group) in [(ITEMS, GROUP), (3, 1)] {
                if items != ITEMS && !takes_all {
                    continue;
                }
                let buffer = Buffer::copy_of(&setup.context, &input)?;
                kernel.set_object(0, Some(&buffer))?;
                kernel.set(1, (COUNT - BEYOND) as i32)?;
                kernel.set(2, inc)?;
                kernel.set_local(3, 4 * GROUP)?;
                setup.queue.launch(&kernel, NdRange::new(&[items], &[group]))?;
                let mut found = vec![0_u32; COUNT];
                setup.queue.read(&buffer, &mut found)?;
                let mut expected = input.clone();
                model(&mut expected, inc);
                let differing = std::iter::zip(&found, &expected).position(|(a, b)| a != b);
                assert_eq!(differing, None, "`{body}` by {inc}, groups of {group}");
            }
        }
    }
    Ok(())
}

fn idioms_in_lanes() -> Outcome {
    for width in ["1", "4", "16", "32", "64"] {
        again_with("idioms::idioms", &[("SPIRULA_TIER", "optimized"), ("SPIRULA_VECTOR_WIDTH", width)]);
    }
    again("idioms::idioms", "SPIRULA_TIER", "optimized");
    Ok(())
}
