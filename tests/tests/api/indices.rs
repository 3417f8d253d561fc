//! Indices narrower than pointers, which wrap: `ushort` and `short` sums that pass their limit within a pack, and those that don't,
//! through loads and stores of every kind. Against the host; in both tiers. Skipped on a device without a compiler.

use crate::setup::{again, again_with, tests};
use crate::sources::{built, setup};
use spirula_tests::cl::{Buffer, Kernel, NdRange};
use spirula_tests::isolate::Outcome;

tests![wrapping, wrapping_in_lanes];

/// Elements that a 16-bit index leads to.
const COUNT: usize = 1 << 16;

/// What a kernel does with element i, which work-item n gets to: each writes somewhere that is its own.
const BODIES: [&str; 5] = [
    // As it is, and under a mask.
    "out[i] = in[i] * 2 + n;",
    "if (in[i] & 1) out[i] = in[i] * 2 + n; else out[i] = 7;",
    // A loop, whose index wraps in one of its turns.
    "uint s = 0; for (ushort k = 0; k < 40; k++) { T j = (T)(i + k); s += in[j] * (k + 1); } out[i] = s;",
    // Backwards.
    "T j = (T)(-i); out[j] = in[j] + n;",
    // Pairs.
    "uint2 v = ((global const uint2 *)in)[i / 2]; out[i] = v.x + v.y + n;",
];

/// Where the body writes for an index, and what, if `input` begins at index 0.
fn model(body: usize, input: impl Fn(usize) -> u32, i: usize, n: u32) -> (usize, u32) {
    let own = input(i);
    match body {
        0 => (i, own.wrapping_mul(2).wrapping_add(n)),
        1 if own & 1 == 1 => (i, own.wrapping_mul(2).wrapping_add(n)),
        1 => (i, 7),
        2 => {
            let terms = (0..40).map(|k| input((i + k) % COUNT).wrapping_mul(k as u32 + 1));
            (i, terms.fold(0, u32::wrapping_add))
        }
        3 => {
            let j = (COUNT - i) % COUNT;
            (j, input(j).wrapping_add(n))
        }
        _ => (i, input(i / 2 * 2).wrapping_add(input(i / 2 * 2 + 1)).wrapping_add(n)),
    }
}

fn wrapping() -> Outcome {
    let setup = setup()?;
    let input: Vec<u32> = (0..COUNT as u32).map(|n| n.wrapping_mul(0x9E37_79B9) >> 3).collect();
    let given = Buffer::copy_of(&setup.context, &input)?;
    // Of signed indices, the array's middle has the number 0.
    for (ty, middle) in [("ushort", 0), ("short", COUNT / 2)] {
        for (number, body) in BODIES.iter().enumerate().filter(|(number, _)| *number < 4 || middle == 0) {
            let source = format!(
                "typedef {ty} T; kernel void k(global const uint *in, global uint *out, ushort start)
                {{ uint n = get_global_id(0); in += {middle}; out += {middle}; T i = (T)((T)n + (T)start); {body} }}"
            );
            let kernel = Kernel::new(&built(&setup, &source, "")?, "k")?;
            for start in [0_u16, 1, 0x7FC0, 0x7FE1, 0x7FF0, 0xFFC0, 0xFFC1, 0xFFE8, 0xFFF3, 0xFFFF] {
                let items = 96;
                let output = Buffer::copy_of(&setup.context, &vec![99_u32; COUNT])?;
                kernel.set_object(0, Some(&given))?;
                kernel.set_object(1, Some(&output))?;
                kernel.set(2, start)?;
                setup.queue.launch(&kernel, NdRange::new(&[items], &[32]))?;
                let mut found = vec![0_u32; COUNT];
                setup.queue.read(&output, &mut found)?;
                let mut expected = vec![99_u32; COUNT];
                let place = |i: usize| (i + middle) % COUNT;
                for n in 0..items {
                    let i = (n + usize::from(start)) % COUNT;
                    let (at, value) = model(number, |i| input[place(i)], i, n as u32);
                    expected[place(at)] = value;
                }
                let differing = std::iter::zip(&found, &expected).position(|(a, b)| a != b);
                assert_eq!(differing, None, "`{body}` by {ty} from {start}");
            }
        }
    }
    Ok(())
}

fn wrapping_in_lanes() -> Outcome {
    for width in ["4", "16"] {
        for tier in ["optimized", "baseline"] {
            again_with("indices::wrapping", &[("SPIRULA_TIER", tier), ("SPIRULA_VECTOR_WIDTH", width)]);
        }
    }
    again("indices::wrapping", "SPIRULA_TIER", "optimized");
    Ok(())
}
