//! Indices that lead to neighbours unless something happens: narrower than pointers, which wrap within a pack or don't, and clamped ones.
//! And structures by such indices, or by any. Through loads and stores of every kind. Against the host; in both tiers. Skipped on a device without a compiler.

use crate::setup::{again, again_with, tests};
use crate::sources::{built, setup};
use spirula_tests::cl::{Buffer, Kernel, NdRange};
use spirula_tests::isolate::Outcome;

tests![
    wrapping,
    wrapping_in_lanes,
    clamped,
    clamped_in_lanes,
    structures,
    structures_in_lanes,
    counters,
    counters_in_lanes,
    butterflies,
    butterflies_in_lanes
];

/// Elements that a 16-bit index leads to.
const COUNT: usize = 1 << 16;

/// What a kernel does with element i, which work-item n gets to: each writes somewhere that is its own.
const BODIES: [&str; 6] = [
    // As it is, and under a mask.
    "out[i] = in[i] * 2 + n;",
    "if (in[i] & 1) out[i] = in[i] * 2 + n; else out[i] = 7;",
    // A loop, whose index wraps in one of its turns.
    "uint s = 0; for (ushort k = 0; k < 40; k++) { T j = (T)(i + k); s += in[j] * (k + 1); } out[i] = s;",
    // Backwards.
    "T j = (T)(-i); out[j] = in[j] + n;",
    // Pairs.
    "uint2 v = ((global const uint2 *)in)[i / 2]; out[i] = v.x + v.y + n;",
    // Every other one, and every third and fourth under a mask.
    "uint s = in[(T)(i * 2)]; if (n % 3) s += in[(T)(i * 3)] * 3 + in[(T)(i * 4 + 1)]; out[i] = s;",
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
        5 => {
            let others = || input(i * 3 % COUNT).wrapping_mul(3).wrapping_add(input((i * 4 + 1) % COUNT));
            (i, input(i * 2 % COUNT).wrapping_add(if n.is_multiple_of(3) { 0 } else { others() }))
        }
        _ => (i, input(i / 2 * 2).wrapping_add(input(i / 2 * 2 + 1)).wrapping_add(n)),
    }
}

fn wrapping() -> Outcome {
    let setup = setup()?;
    let input: Vec<u32> = (0..COUNT as u32).map(|n| n.wrapping_mul(0x9E37_79B9) >> 3).collect();
    let given = Buffer::copy_of(&setup.context, &input)?;
    // The second one's sum is cut, and nothing is known of its upper bits.
    let ways = ["(T)((T)n + (T)start)", "(T)(get_global_id(0) + (ulong)start * 65537)"];
    // Of signed indices, the array's middle has the number 0.
    for (way, (ty, middle)) in ways.iter().flat_map(|way| [(way, ("ushort", 0)), (way, ("short", COUNT / 2))])
    {
        for (number, body) in BODIES.iter().enumerate().filter(|(number, _)| *number < 4 || middle == 0) {
            let source = format!(
                "typedef {ty} T; kernel void k(global const uint *in, global uint *out, ushort start)
                {{ uint n = get_global_id(0); in += {middle}; out += {middle}; T i = {way}; {body} }}"
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
                assert_eq!(differing, None, "`{body}` by {ty} {way} from {start}");
            }
        }
    }
    Ok(())
}

fn wrapping_in_lanes() -> Outcome {
    in_lanes("indices::wrapping");
    Ok(())
}

/// The same in packs of several widths, and in both tiers.
fn in_lanes(test: &str) {
    for width in ["4", "16"] {
        for tier in ["optimized", "baseline"] {
            again_with(test, &[("SPIRULA_TIER", tier), ("SPIRULA_VECTOR_WIDTH", width)]);
        }
    }
    again(test, "SPIRULA_TIER", "optimized");
}

/// A grid's columns.
const WIDTH: usize = 64;
/// A grid's rows.
const HEIGHT: usize = 3;

/// What a kernel reads of a grid at (x + d, y - 1), or nearest to that, or the last column for all that is beyond, and writes at (x, y).
const CLAMPED: [&str; 8] = [
    "out[y * w + x] = in[clamp(y - 1, 0, h - 1) * w + clamp(x + d, 0, w - 1)];",
    "int i = clamp(x + d, 0, w - 1); out[y * w + x] = in[i + max(y - 1, 0) * w];",
    "int2 p = clamp((int2)(x, y) + (int2)(d, -1), (int2)(0), (int2)(w, h) - 1); out[y * w + x] = in[p.y * w + p.x];",
    "int4 p = clamp((int4)(y - 1, x, x, 0) + (int4)(0, d, 1, 0), 0, (int4)(h - 1, w - 1, 9, 9)); out[y * w + x] = in[p.x * w + p.y];",
    // Backwards.
    "int i = clamp(w - 1 - x - d, 0, w - 1); out[y * w + x] = in[max(y - 1, 0) * w + w - 1 - i];",
    // Under a mask, and where the write is clamped.
    "uint v = 5; if (in[x] & 1) v = in[max(y - 1, 0) * w + max(min(x + d, w - 1), 0)]; out[y * w + x] = v;",
    "int i = clamp(x + d, 0, w - 1); if (i == x + d) out[y * w + i] = in[max(y - 1, 0) * w + i];",
    // What is below 0 is beyond.
    "out[y * w + x] = in[max(y - 1, 0) * w + min((uint)(x + d), (uint)(w - 1))];",
];

/// What one of these leaves of a grid whose elements were 99.
fn clamped_model(body: usize, input: &[u32], d: i32) -> Vec<u32> {
    let mut output = vec![99; WIDTH * HEIGHT];
    let last = WIDTH as i32 - 1;
    for (y, x) in (0..HEIGHT).flat_map(|y| (0..WIDTH).map(move |x| (y, x))) {
        let (row, wanted) = (y.max(1) - 1, x as i32 + d);
        let column = if body == 7 && wanted < 0 { last } else { wanted.clamp(0, last) } as usize;
        let read = input[row * WIDTH + column];
        match body {
            5 => output[y * WIDTH + x] = if input[x] & 1 == 1 { read } else { 5 },
            6 if wanted == column as i32 => output[y * WIDTH + column] = read,
            6 => {}
            _ => output[y * WIDTH + x] = read,
        }
    }
    output
}

fn clamped() -> Outcome {
    let setup = setup()?;
    let input: Vec<u32> = (0..(WIDTH * HEIGHT) as u32).map(|n| n.wrapping_mul(0x9E37_79B9) >> 3).collect();
    let given = Buffer::copy_of(&setup.context, &input)?;
    for (number, body) in CLAMPED.iter().enumerate() {
        let source = format!(
            "kernel void k(global const uint *in, global uint *out, int w, int h, int d)
            {{ int x = get_global_id(0), y = get_global_id(1); {body} }}"
        );
        let kernel = Kernel::new(&built(&setup, &source, "")?, "k")?;
        for d in [-1000, -65, -33, -17, -1, 0, 1, 15, 33, 63, 64, i32::MAX - 200] {
            let output = Buffer::copy_of(&setup.context, &vec![99_u32; WIDTH * HEIGHT])?;
            kernel.set_object(0, Some(&given))?;
            kernel.set_object(1, Some(&output))?;
            kernel.set(2, WIDTH as i32)?;
            kernel.set(3, HEIGHT as i32)?;
            kernel.set(4, d)?;
            setup.queue.launch(&kernel, NdRange::new(&[WIDTH, HEIGHT], &[32, 1]))?;
            let mut found = vec![0_u32; WIDTH * HEIGHT];
            setup.queue.read(&output, &mut found)?;
            let expected = clamped_model(number, &input, d);
            let differing = std::iter::zip(&found, &expected).position(|(a, b)| a != b);
            assert_eq!(differing, None, "`{body}` with {d}");
        }
    }
    Ok(())
}

fn clamped_in_lanes() -> Outcome {
    in_lanes("indices::clamped");
    Ok(())
}

/// Words of a structure: four numbers, two signed ones, four bytes, two halves.
const WORDS: usize = 8;
const STRUCTURE: &str =
    "typedef struct { uint a, b; float c; uint d; int e, f; uchar g[4]; ushort h, i; } S;";

/// What is done with a structure that is a work-item's own.
const FIELDS: &str = "s->b = s->a + 1; s->d = as_uint(s->c) * 2; s->c = as_float(s->b & 0x7fffff); s->e += s->f; s->f = s->e * 3;
    uchar t = s->g[0]; s->g[0] = s->g[3]; s->g[1] = t; s->g[3] = s->g[2]; s->g[2] = n; s->h = s->i + 7; s->i = n;";

fn with_fields(words: &mut [u32], n: u32) {
    words[1] = words[0].wrapping_add(1);
    words[3] = words[2].wrapping_mul(2);
    words[2] = words[1] & 0x007f_ffff;
    words[4] = words[4].wrapping_add(words[5]);
    words[5] = words[4].wrapping_mul(3);
    let [first, _, third, fourth] = words[6].to_le_bytes();
    words[6] = u32::from_le_bytes([fourth, first, n as u8, third]);
    words[7] = ((words[7] >> 16) + 7) & 0xffff | n << 16;
}

/// Ways by which a work-item comes to its structure.
const WAYS: [&str; 4] = [
    "S global *s = all + index[n]; ",
    "S global *s = all + index[n]; if (s->a & 1) ",
    "S global *s = all + n; ",
    "S global *s = all + clamp(index[n], 0, (int)get_global_size(0) - 1); for (int k = 0; k < 3; k++) ",
];

fn structures() -> Outcome {
    let setup = setup()?;
    let items = 96;
    let given: Vec<u32> = (0..(items * WORDS) as u32).map(|n| n.wrapping_mul(0x9E37_79B9) >> 3).collect();
    let index: Vec<u32> = (0..items as u32).map(|n| n * 35 % items as u32).collect();
    let places = Buffer::copy_of(&setup.context, &index)?;
    for (number, way) in WAYS.iter().enumerate() {
        let source = format!(
            "{STRUCTURE} kernel void k(global S *all, global const int *index)
            {{ int n = get_global_id(0); {way} {{ {FIELDS} }} }}"
        );
        let kernel = Kernel::new(&built(&setup, &source, "")?, "k")?;
        let all = Buffer::copy_of(&setup.context, &given)?;
        kernel.set_object(0, Some(&all))?;
        kernel.set_object(1, Some(&places))?;
        setup.queue.launch(&kernel, NdRange::new(&[items], &[32]))?;
        let mut found = vec![0_u32; items * WORDS];
        setup.queue.read(&all, &mut found)?;
        let mut expected = given.clone();
        for (n, &index) in index.iter().enumerate() {
            let at = if number == 2 { n } else { index as usize };
            let words = &mut expected[at * WORDS..][..WORDS];
            let times = if number == 3 { 3 } else { u32::from(number != 1 || words[0] & 1 == 1) };
            (0..times).for_each(|_| with_fields(words, n as u32));
        }
        let differing = std::iter::zip(&found, &expected).position(|(a, b)| a != b);
        assert_eq!(differing, None, "`{way}`");
    }
    Ok(())
}

fn structures_in_lanes() -> Outcome {
    in_lanes("indices::structures");
    Ok(())
}

/// What is added to an id that wraps behind it.
const FROM: u16 = 65_400;

/// Sums of a counter and of what is left of it when it wraps: of ids, and of a loop in each work-item.
const COUNTERS: [&str; 6] = [
    "out[n] = in[n * 4 + (n & 3)] * 3 + in[n * 4 + (n + 1 & 3)];",
    "out[n] = in[n * 2 + n % 16] * 3 + in[n * 2 + (n + 1) % 16];",
    "ushort g = n + from; out[n] = in[n * 4 + g] * 3 + in[n * 4 + g + 1];",
    "uint s = 0; for (uint k = 0; k < 100; k++) s = s * 3 + in[k * 4 + (k & 3)] + in[k * 4 + (k + 1 & 3)]; out[n] = s + n;",
    "uint s = 0; uchar c = n; for (uint k = 0; k < 300; k++, c += 5) s += in[k * 2 + c] ^ in[k * 2 + c + 1]; out[n] = s;",
    "uint s = 0; for (ushort k = 0; k < 300; k++) s += in[k + (uchar)(k * 3)] * (in[k + (uchar)(k * 3 + 3)] & 15); out[n] = s;",
];

/// What one of them writes for work-item n.
fn counted(body: usize, input: &[u32], n: usize) -> u32 {
    let sum = |terms: &mut dyn Iterator<Item = u32>| terms.fold(0, u32::wrapping_add);
    let pair = |i: usize, j: usize| input[i].wrapping_mul(3).wrapping_add(input[j]);
    match body {
        0 => pair(n * 4 + n % 4, n * 4 + (n + 1) % 4),
        1 => pair(n * 2 + n % 16, n * 2 + (n + 1) % 16),
        2 => {
            let at = n * 4 + (n + usize::from(FROM)) % COUNT;
            pair(at, at + 1)
        }
        3 => {
            let terms = (0..100).map(|k| input[k * 4 + k % 4].wrapping_add(input[k * 4 + (k + 1) % 4]));
            terms.fold(0, |s: u32, term| s.wrapping_mul(3).wrapping_add(term)).wrapping_add(n as u32)
        }
        4 => sum(&mut (0..300).map(|k| k * 2 + (n + 5 * k) % 256).map(|i| input[i] ^ input[i + 1])),
        _ => {
            let at = |k: usize, more: usize| input[k + (k * 3 + more) % 256];
            sum(&mut (0..300).map(|k| at(k, 0).wrapping_mul(at(k, 3) & 15)))
        }
    }
}

fn counters() -> Outcome {
    let setup = setup()?;
    let items = 256;
    let input: Vec<u32> = (0..COUNT as u32 + 1200).map(|n: u32| n.wrapping_mul(0x9E37_79B9) >> 3).collect();
    let given = Buffer::copy_of(&setup.context, &input)?;
    for (number, body) in COUNTERS.iter().enumerate() {
        let source = format!(
            "__attribute__((reqd_work_group_size({items}, 1, 1)))
            kernel void k(global const uint *in, global uint *out, ushort from) {{ ushort n = get_local_id(0); {body} }}"
        );
        let kernel = Kernel::new(&built(&setup, &source, "")?, "k")?;
        let output = Buffer::copy_of(&setup.context, &vec![99_u32; items])?;
        kernel.set_object(0, Some(&given))?;
        kernel.set_object(1, Some(&output))?;
        kernel.set(2, FROM)?;
        setup.queue.launch(&kernel, NdRange::new(&[items], &[items]))?;
        let mut found = vec![0_u32; items];
        setup.queue.read(&output, &mut found)?;
        let expected: Vec<u32> = (0..items).map(|n| counted(number, &input, n)).collect();
        let differing = std::iter::zip(&found, &expected).position(|(a, b)| a != b);
        assert_eq!(differing, None, "`{body}`");
    }
    Ok(())
}

// Loops that stay scalar are LLVM's to vectorize.
fn counters_in_lanes() -> Outcome {
    again_with("indices::counters", &[("SPIRULA_TIER", "optimized"), ("SPIRULA_VECTOR_WIDTH", "1")]);
    in_lanes("indices::counters");
    Ok(())
}

/// Which element a work-item's partner has in some step of a sort or a transform, by an index of type T; both permute the elements.
type Partner = (&'static str, fn(u32, u32) -> u32);
const PARTNERS: [Partner; 4] = [
    ("i ^ j", |i, j| i ^ j),
    // With an extension behind it.
    ("(uint)(i ^ j)", |i, j| i ^ j),
    // Two halves change places, and one is turned round.
    ("(i & ~(2 * j - 1)) | ((i + j) & (2 * j - 1))", |i, j| (i & !(2 * j - 1)) | ((i + j) & (2 * j - 1))),
    ("i ^ (2 * j - 1)", |i, j| i ^ (2 * j - 1)),
];

fn butterflies() -> Outcome {
    const COUNT: usize = 1 << 10;
    let setup = setup()?;
    let input: Vec<u32> = (0..COUNT as u32).map(|n| n.wrapping_mul(0x9E37_79B9) >> 3).collect();
    let given = Buffer::copy_of(&setup.context, &input)?;
    for (ty, (way, partner)) in ["uint", "ulong", "int"].iter().flat_map(|ty| PARTNERS.map(|way| (ty, way))) {
        let source = format!(
            "typedef {ty} T; kernel void k(global const uint *in, global uint *out, T j) {{
            T i = get_global_id(0); T p = {way}; out[p] = in[p] * 3 + i;
            if (in[i] & 1) out[p] += in[p] - in[i]; }}"
        );
        let kernel = Kernel::new(&built(&setup, &source, "")?, "k")?;
        for step in 0..9 {
            let j = 1_u32 << step;
            let output = Buffer::copy_of(&setup.context, &vec![99_u32; COUNT])?;
            kernel.set_object(0, Some(&given))?;
            kernel.set_object(1, Some(&output))?;
            match *ty {
                "ulong" => kernel.set(2, u64::from(j))?,
                _ => kernel.set(2, j)?,
            }
            setup.queue.launch(&kernel, NdRange::new(&[COUNT], &[64]))?;
            let mut found = vec![0_u32; COUNT];
            setup.queue.read(&output, &mut found)?;
            let mut expected = vec![0_u32; COUNT];
            for i in 0..COUNT as u32 {
                let p = partner(i, j) as usize;
                expected[p] = input[p].wrapping_mul(3).wrapping_add(i);
                if input[i as usize] & 1 == 1 {
                    expected[p] = expected[p].wrapping_add(input[p]).wrapping_sub(input[i as usize]);
                }
            }
            let differing = std::iter::zip(&found, &expected).position(|(a, b)| a != b);
            assert_eq!(differing, None, "`{way}` of {ty} by {j}");
        }
    }
    Ok(())
}

fn butterflies_in_lanes() -> Outcome {
    in_lanes("indices::butterflies");
    Ok(())
}
