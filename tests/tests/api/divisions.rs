//! Divisions of integers of all widths, by constants, by what is the same for all work-items, and by numbers of their own; and of 64 bits
//! where ids need no more than 32. Against the host, in both tiers and in packs. Kernels from source; skipped without a compiler.

use crate::setup::{again_with, tests};
use crate::sources::{built, setup};
use spirula_tests::cl::{Buffer, Kernel, NdRange};
use spirula_tests::isolate::Outcome;

tests![integers, ids, rows_and_columns, rows_from_one, windows, in_packs];

/// Work-items, of which the last ones have nothing to do.
const ITEMS: usize = 256;
const USED: usize = 201;

/// Numbers of any size, positive and negative.
fn given() -> Vec<i64> {
    (0..ITEMS as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) as i64) >> (i % 63)).collect()
}

/// What a kernel has to compute of each type: by constants, by an argument, and by another number.
macro_rules! quotients {
    ($x:expr, $y:expr, $by:expr, $type:ty) => {{
        let (x, y, by) = ($x as $type, ($y as $type) | 1, $by as $type);
        let y = if y == !0 { 3 } else { y };
        [x / 7, x % 10, x / by, x % by, x / y, x % y].map(|value| value as i64)
    }};
}

fn integers() -> Outcome {
    let setup = setup()?;
    let types = ["char", "uchar", "short", "ushort", "int", "uint", "long", "ulong"];
    let of_type = |type_: &str| {
        format!(
            "{{ {type_} x = a[i], y = ({type_})b[i] | ({type_})1, by = n; if (y == ({type_})-1) y = 3;
            *o++ = ({type_})(x / ({type_})7); *o++ = ({type_})(x % ({type_})10); *o++ = ({type_})(x / by);
            *o++ = ({type_})(x % by); *o++ = ({type_})(x / y); *o++ = ({type_})(x % y);
            {type_}4 v = ({type_}4)(x, y, x, by), w = v / ({type_}4)(7, 9, 10, 3);
            *o++ = w.x; *o++ = (v % ({type_}4)(10)).z; }}\n"
        )
    };
    let body: String = types.iter().map(|type_| of_type(type_)).collect();
    let source = format!(
        "kernel void k(global const long *a, global const long *b, global long *o, int n, uint used) {{
        size_t i = get_global_id(0); if (i >= used) return; o += i * 64;\n{body}}}"
    );
    let kernel = Kernel::new(&built(&setup, &source, "")?, "k")?;
    let a = given();
    let b: Vec<i64> = a.iter().map(|x| x.rotate_left(17) ^ 0x55).collect();
    let mut found = vec![-5_i64; 64 * ITEMS];
    let [first, second, output] = [&a, &b, &found].map(|data| Buffer::copy_of(&setup.context, data));
    let (first, second, output) = (first?, second?, output?);
    for by in [1_i32, 3, 100, 127] {
        [&first, &second, &output]
            .into_iter()
            .zip(0..)
            .try_for_each(|(buffer, index)| kernel.set_object(index, Some(buffer)))?;
        kernel.set(3, by)?;
        kernel.set(4, USED as u32)?;
        setup.queue.launch(&kernel, NdRange::new(&[ITEMS], &[64]))?;
        setup.queue.read(&output, &mut found)?;
        for i in 0..ITEMS {
            let (x, y) = (a[i], b[i]);
            let wanted = [
                quotients!(x, y, by, i8),
                quotients!(x, y, by, u8),
                quotients!(x, y, by, i16),
                quotients!(x, y, by, u16),
                quotients!(x, y, by, i32),
                quotients!(x, y, by, u32),
                quotients!(x, y, by, i64),
                quotients!(x, y, by, u64),
            ];
            for (number, wanted) in wanted.iter().enumerate() {
                let found = &found[64 * i + 8 * number..][..8];
                let all = [&wanted[..], &wanted[..2]].concat();
                let expected = if i < USED { all } else { vec![-5; 8] };
                assert_eq!(found, expected, "{} of {x}, {y}, {by}", types[number]);
            }
        }
    }
    Ok(())
}

/// Divisors of 64 bits, small and beyond 32 bits; of 32 bits, positive and negative; and constants.
fn ids() -> Outcome {
    let setup = setup()?;
    let source = "kernel void k(global ulong *o, ulong n, uint u, int s, ulong used, global const ulong *own) {
        size_t i = get_global_id(0), x = i * 3 + 5; if (i >= used) return; o += i * 12;
        o[0] = i / n; o[1] = i % n; o[2] = x / u; o[3] = x % u; o[4] = x / s; o[5] = x % s; o[6] = x / 9; o[7] = i % 5;
        o[8] = x / own[i]; o[9] = x % own[i]; o[10] = i / 5000000000ul; o[11] = (long)x / 11; }";
    let kernel = Kernel::new(&built(&setup, source, "")?, "k")?;
    let own: Vec<u64> = given().iter().map(|&x| (x as u64).max(1)).collect();
    let mut found = vec![77_u64; 12 * ITEMS];
    let (output, divisors) =
        (Buffer::copy_of(&setup.context, &found)?, Buffer::copy_of(&setup.context, &own)?);
    for (n, u, s) in
        [(7_u64, 3_u32, 13_i32), (1 << 32, 1, -9), (u64::MAX, u32::MAX, i32::MAX), (200, 1000, 1)]
    {
        kernel.set_object(0, Some(&output))?;
        kernel.set(1, n)?;
        kernel.set(2, u)?;
        kernel.set(3, s)?;
        kernel.set(4, USED as u64)?;
        kernel.set_object(5, Some(&divisors))?;
        setup.queue.launch(&kernel, NdRange::new(&[ITEMS], &[64]))?;
        setup.queue.read(&output, &mut found)?;
        for i in 0..USED as u64 {
            let (x, u, s, own) = (3 * i + 5, u64::from(u), i64::from(s) as u64, own[i as usize]);
            let wanted =
                [i / n, i % n, x / u, x % u, x / s, x % s, x / 9, i % 5, x / own, x % own, 0, x / 11];
            assert_eq!(found[12 * i as usize..][..12], wanted, "{i} by {n}, {u}, {s}, {own}");
        }
    }
    Ok(())
}

/// Ids that count rows and columns: of whatever lengths, which packs lie within or not, from whatever id on; and of a local id, whose
/// parts are used behind a barrier.
fn rows_and_columns() -> Outcome {
    let setup = setup()?;
    let source = "kernel void k(global const int *a, global long *o, int w, uint h, ulong first) {
        local int t[64]; size_t i = get_global_id(0); int n = i; uint u = i;
        int l = get_local_id(0), r = l / 16, c = l % 16;
        t[r * 16 + c] = a[n % w] + 3 * c;
        barrier(CLK_LOCAL_MEM_FENCE);
        o += (i - first) * 11;
        o[0] = a[n / w]; o[1] = a[n % w]; o[2] = a[u / h % 40]; o[3] = a[u % h];
        o[4] = a[i / 48] * 100 + a[i % 48]; o[5] = a[i >> 5] - a[i & 31]; o[6] = a[n / w % 7] + a[n / w / 7];
        o[7] = t[(l + 16) & 63] + r; o[8] = a[(i & 63) >> 4] + a[4 * n % 192]; o[9] = a[n / 20 % 5] + a[n % 20];
        long s = 0; for (int k = n; k < 900; k += 64) s = 3 * s + a[k / w] - 2 * a[k % w]; o[10] = s; }";
    let kernel = Kernel::new(&built(&setup, source, "")?, "k")?;
    let a: Vec<i32> = (0..2048).map(|i| i * i % 1009).collect();
    let mut found = vec![0_i64; 11 * ITEMS];
    let (input, output) = (Buffer::copy_of(&setup.context, &a)?, Buffer::copy_of(&setup.context, &found)?);
    let at = |place: i64| i64::from(a[place as usize]);
    for (w, h, first) in [(16, 16, 0), (48, 100, 5), (100, 1, 0), (1, 7, 64), (3, 1000, 1), (1000, 33, 90)] {
        kernel.set_object(0, Some(&input))?;
        kernel.set_object(1, Some(&output))?;
        kernel.set(2, w)?;
        kernel.set(3, h as u32)?;
        kernel.set(4, first as u64)?;
        let range = NdRange { offset: Some(&[first]), ..NdRange::new(&[ITEMS], &[64]) };
        setup.queue.launch(&kernel, range)?;
        setup.queue.read(&output, &mut found)?;
        let (w, h) = (i64::from(w), h as i64);
        for l in 0..ITEMS as i64 {
            let i = l + first as i64;
            let (other, from) = ((l % 64 + 16) % 64, i - l % 64);
            let wanted = [
                at(i / w),
                at(i % w),
                at(i / h % 40),
                at(i % h),
                at(i / 48) * 100 + at(i % 48),
                at(i / 32) - at(i % 32),
                at(i / w % 7) + at(i / w / 7),
                at((from + other) % w) + 3 * (other % 16) + l % 64 / 16,
                at(i % 64 / 16) + at(4 * i % 192),
                at(i / 20 % 5) + at(i % 20),
                (i..900).step_by(64).fold(0, |sum, k| 3 * sum + at(k / w) - 2 * at(k % w)),
            ];
            assert_eq!(found[11 * l as usize..][..11], wanted, "{i} by {w}, {h} from {first}");
        }
    }
    Ok(())
}

/// Rows and columns that are counted from one: where a remainder is zero, it is the row before and its last column.
fn rows_from_one() -> Outcome {
    let setup = setup()?;
    let source = "kernel void k(global const int *a, global int *o, int w, int used) {
        int i = get_global_id(0), row = (i + 1) / w, column = (i + 1) % w;
        if (column == 0) { column = w; row--; }
        if (i < used) o[i] = a[row * 7 + 1] - 2 * a[column]; }";
    let kernel = Kernel::new(&built(&setup, source, "")?, "k")?;
    let a: Vec<i32> = (0..2048).map(|i| i * i % 1009).collect();
    let mut found = vec![0_i32; ITEMS];
    let (input, output) = (Buffer::copy_of(&setup.context, &a)?, Buffer::copy_of(&setup.context, &found)?);
    for w in [1_usize, 5, 16, 17, 33, 100, 300] {
        kernel.set_object(0, Some(&input))?;
        kernel.set_object(1, Some(&output))?;
        kernel.set(2, w as i32)?;
        kernel.set(3, USED as i32)?;
        setup.queue.launch(&kernel, NdRange::new(&[ITEMS], &[64]))?;
        setup.queue.read(&output, &mut found)?;
        let wanted: Vec<i32> = (0..USED).map(|i| a[i / w * 7 + 1] - 2 * a[i % w + 1]).collect();
        assert_eq!(found[..USED], wanted, "rows of {w}");
    }
    Ok(())
}

/// Rows that are found by a product of floats, before a barrier, and windows that end at their borders: most packs have them in common, but
/// nothing says so.
fn windows() -> Outcome {
    let setup = setup()?;
    let source = "kernel void k(global const int *a, global int *o, int n, float part, uint used) {
        local int t[1024]; int l = get_local_id(0), i = get_global_id(0);
        int row = (int)(l * part), column = l - row * n;
        for (int k = l; k < 1024; k += 128) t[k] = a[k] + i / 128;
        barrier(CLK_LOCAL_MEM_FENCE);
        if (i >= used) return;
        int up = row == 0 ? 0 : row - 1, left = column == 0 ? 0 : column - 1, right = column == n - 1 ? n - 1 : column + 1;
        int s = t[row * n + column] + 3 * t[up * n + left] - 5 * t[row * n + right];
        int low = column < 3 ? 1 : column - 2, high = n < column + 3 ? n : column + 3;
        for (int y = up; y <= row; y++) for (int x = max(1, low); x <= high; x++) s = 2 * s + t[y * n + x] * (x + y);
        o[i] = s; }";
    let kernel = Kernel::new(&built(&setup, source, "")?, "k")?;
    let a: Vec<i32> = (0..1024).map(|i| i * i % 1009).collect();
    let mut found = vec![0_i32; ITEMS];
    let (input, output) = (Buffer::copy_of(&setup.context, &a)?, Buffer::copy_of(&setup.context, &found)?);
    for n in [5_i32, 16, 20, 48, 81, 128] {
        // A little more than a part, lest rows begin too late.
        let part = f32::from_bits((1.0 / n as f32).to_bits() + 1);
        kernel.set_object(0, Some(&input))?;
        kernel.set_object(1, Some(&output))?;
        kernel.set(2, n)?;
        kernel.set(3, part)?;
        kernel.set(4, USED as u32)?;
        setup.queue.launch(&kernel, NdRange::new(&[ITEMS], &[128]))?;
        setup.queue.read(&output, &mut found)?;
        for i in 0..USED as i32 {
            let at = |place: i32| a[place as usize] + i / 128;
            let (l, up) = (i % 128, (i % 128 / n - 1).max(0));
            let (row, column) = (l / n, l % n);
            let (left, right) = ((column - 1).max(0), (column + 1).min(n - 1));
            let near = at(l) + 3 * at(up * n + left) - 5 * at(row * n + right);
            let columns = || (column - 2).max(1)..=(column + 3).min(n);
            let places = (up..=row).flat_map(|y| columns().map(move |x| (x, y)));
            let wanted = places.fold(near, |sum, (x, y)| {
                sum.wrapping_mul(2).wrapping_add(at(y * n + x).wrapping_mul(x + y))
            });
            assert_eq!(found[i as usize], wanted, "{i} in rows of {n}");
        }
    }
    Ok(())
}

const TESTS: [&str; 5] = [
    "divisions::integers",
    "divisions::ids",
    "divisions::rows_and_columns",
    "divisions::rows_from_one",
    "divisions::windows",
];

fn in_packs() -> Outcome {
    for (tier, lanes) in [("baseline", "1"), ("optimized", "1"), ("optimized", "4"), ("optimized", "16")] {
        let settings = [("SPIRULA_TIER", tier), ("SPIRULA_VECTOR_WIDTH", lanes)];
        TESTS.iter().for_each(|test| again_with(test, &settings));
    }
    let settings =
        [("SPIRULA_CPU", "x86-64-v2"), ("SPIRULA_TIER", "optimized"), ("SPIRULA_VECTOR_WIDTH", "8")];
    TESTS.iter().for_each(|test| again_with(test, &settings));
    Ok(())
}
