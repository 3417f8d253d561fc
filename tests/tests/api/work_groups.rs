//! OpenCL C 2.0's work-groups: smaller ones at the ends of an NDRange. Everything against a model on the host, over random
//! sizes. Skipped on a device without a compiler.

use crate::setup::{Setup, again_with, status, tests};
use crate::sources::{built, setup};
use spirula_tests::cl::{self, Buffer, Kernel, NdRange};
use spirula_tests::isolate::Outcome;
use spirula_tests::mutate::Random;

tests![
    smaller_groups_at_the_ends,
    smaller_groups_wait_together,
    required_sizes_and_smaller_groups,
    groups_of_one_size,
    work_group_functions,
    many_barriers,
    loops_that_all_do_alike,
    rows_where_no_size_is_asked_for,
];

/// An NDRange of three dimensions.
#[derive(Clone, Copy, Debug)]
pub struct Range {
    pub global: [usize; 3],
    pub local: [usize; 3],
    pub offset: [usize; 3],
}

impl Range {
    /// A small one, whose groups rarely divide it.
    pub fn random(random: &mut Random) -> Range {
        let mut below = |most: usize| random.below(most);
        let flat = below(2) == 0;
        let size = |most: [usize; 3]| if flat { [most[0], 1, 1] } else { most };
        let global = size([1 + below(90), 1 + below(9), 1 + below(5)]);
        let local = size([1 + below(40), 1 + below(4), 1 + below(3)]);
        Range { global, local, offset: [below(50), below(50), below(50)] }
    }

    pub fn items(&self) -> usize {
        self.global.iter().product()
    }

    /// Of the work-item of that number, row by row: its id in each dimension, without the offset.
    pub fn id(&self, item: usize) -> [usize; 3] {
        let [x, y, _] = self.global;
        [item % x, item / x % y, item / x / y]
    }

    pub fn group(&self, item: usize) -> [usize; 3] {
        let id = self.id(item);
        std::array::from_fn(|d| id[d] / self.local[d])
    }

    /// The size of the work-item's group.
    pub fn group_size(&self, item: usize) -> [usize; 3] {
        let group = self.group(item);
        std::array::from_fn(|d| self.local[d].min(self.global[d] - group[d] * self.local[d]))
    }

    pub fn local_id(&self, item: usize) -> [usize; 3] {
        let id = self.id(item);
        std::array::from_fn(|d| id[d] % self.local[d])
    }

    /// The work-item's number in its group.
    pub fn local_linear_id(&self, item: usize) -> usize {
        let ([x, y, z], [w, h, _]) = (self.local_id(item), self.group_size(item));
        (z * h + y) * w + x
    }

    /// The work-items of each group, in order of their numbers.
    pub fn groups(&self) -> Vec<Vec<usize>> {
        let mut groups = std::collections::BTreeMap::<[usize; 3], Vec<usize>>::new();
        for item in 0..self.items() {
            groups.entry(self.group(item)).or_default().push(item);
        }
        let mut groups: Vec<_> = groups.into_values().collect();
        groups.iter_mut().for_each(|group| group.sort_by_key(|&item| self.local_linear_id(item)));
        groups
    }

    pub fn launch(&self) -> NdRange<'_> {
        NdRange { global: &self.global, local: Some(&self.local), offset: Some(&self.offset) }
    }
}

/// The work-item's number, row by row.
pub const ITEM: &str = "
    size_t item() {
        return ((get_global_id(2) - get_global_offset(2)) * get_global_size(1) + get_global_id(1) - get_global_offset(1))
            * get_global_size(0) + get_global_id(0) - get_global_offset(0);
    }";

fn smaller_groups_at_the_ends() -> Outcome {
    const PER_DIMENSION: usize = 6;
    let source = format!(
        "{ITEM}
         kernel void k(global int *out) {{
             global int *at = out + item() * 20;
             for (uint d = 0; d < 3; ++d) {{
                 *at++ = get_local_id(d); *at++ = get_local_size(d); *at++ = get_enqueued_local_size(d);
                 *at++ = get_group_id(d); *at++ = get_num_groups(d); *at++ = get_global_id(d);
             }}
             *at++ = get_local_linear_id(); *at++ = get_global_linear_id();
         }}"
    );
    let setup = setup()?;
    let kernel = Kernel::new(&built(&setup, &source, "-cl-std=CL2.0")?, "k")?;
    let mut random = Random::new(1);
    for _ in 0..60 {
        let range = Range::random(&mut random);
        let mut found = vec![-1; range.items() * 20];
        let buffer = Buffer::copy_of(&setup.context, &found)?;
        kernel.set_object(0, Some(&buffer))?;
        setup.queue.launch(&kernel, range.launch())?;
        setup.queue.read(&buffer, &mut found)?;
        for (item, found) in found.chunks(20).enumerate() {
            let mut expected = Vec::with_capacity(20);
            for d in 0..3 {
                expected.extend([
                    range.local_id(item)[d],
                    range.group_size(item)[d],
                    range.local[d],
                    range.group(item)[d],
                    range.global[d].div_ceil(range.local[d]),
                    range.id(item)[d] + range.offset[d],
                ]);
            }
            assert_eq!(expected.len(), 3 * PER_DIMENSION);
            expected.extend([range.local_linear_id(item), item]);
            let expected: Vec<i32> = expected.into_iter().map(|n| n as i32).collect();
            assert_eq!(found, expected, "work-item {item} of {range:?}");
        }
    }
    Ok(())
}

/// What a kernel that reverses each group's elements makes of 0, 1, 2, …
fn check_reversed(setup: &Setup, kernel: &Kernel, range: Range) -> cl::Result<()> {
    let mut data: Vec<i32> = (0..range.items() as i32).collect();
    let buffer = Buffer::copy_of(&setup.context, &data)?;
    kernel.set_object(0, Some(&buffer))?;
    kernel.set_local(1, range.local.iter().product::<usize>() * 4)?;
    setup.queue.launch(kernel, range.launch())?;
    setup.queue.read(&buffer, &mut data)?;
    for group in range.groups() {
        for (&item, &mirror) in group.iter().zip(group.iter().rev()) {
            assert_eq!(data[item], mirror as i32, "work-item {item} of {range:?}");
        }
    }
    Ok(())
}

/// Kernel `k`, with attributes.
fn reverse(attributes: &str) -> String {
    format!(
        "{ITEM}
         {attributes} kernel void k(global int *data, local int *t) {{
             size_t l = get_local_linear_id(), n = get_local_size(0) * get_local_size(1) * get_local_size(2);
             t[l] = data[item()];
             work_group_barrier(CLK_LOCAL_MEM_FENCE);
             data[item()] = t[n - 1 - l];
         }}"
    )
}

fn smaller_groups_wait_together() -> Outcome {
    let setup = setup()?;
    let kernel = Kernel::new(&built(&setup, &reverse(""), "-cl-std=CL2.0")?, "k")?;
    let mut random = Random::new(2);
    (0..60).try_for_each(|_| check_reversed(&setup, &kernel, Range::random(&mut random)))?;
    Ok(())
}

fn required_sizes_and_smaller_groups() -> Outcome {
    let setup = setup()?;
    let mut random = Random::new(3);
    for _ in 0..4 {
        let Range { local, .. } = Range::random(&mut random);
        let [x, y, z] = local;
        let source = reverse(&format!("__attribute__((reqd_work_group_size({x}, {y}, {z})))"));
        let kernel = Kernel::new(&built(&setup, &source, "-cl-std=CL2.0")?, "k")?;
        for _ in 0..10 {
            let range = Range { local, ..Range::random(&mut random) };
            check_reversed(&setup, &kernel, range)?;
        }
        let range = Range { global: [7, 7, 7], local: [x + 1, y, z], offset: [0; 3] };
        let refused = status(setup.queue.launch(&kernel, range.launch()));
        assert_eq!(refused, "CL_INVALID_WORK_GROUP_SIZE");
    }
    Ok(())
}

fn groups_of_one_size() -> Outcome {
    let setup = setup()?;
    let range = Range { global: [10, 1, 1], local: [4, 1, 1], offset: [0; 3] };
    for options in ["-cl-std=CL1.2", "-cl-std=CL2.0 -cl-uniform-work-group-size"] {
        let source =
            "kernel void k(global int *out, local int *t) { out[get_global_id(0)] = get_local_id(0); }";
        let kernel = Kernel::new(&built(&setup, source, options)?, "k")?;
        let buffer = Buffer::copy_of(&setup.context, &[0; 10])?;
        kernel.set_object(0, Some(&buffer))?;
        kernel.set_local(1, 4)?;
        assert_eq!(
            status(setup.queue.launch(&kernel, range.launch())),
            "CL_INVALID_WORK_GROUP_SIZE",
            "{options}"
        );
        assert!(setup.queue.launch(&kernel, Range { local: [5, 1, 1], ..range }.launch()).is_ok());
    }
    Ok(())
}

/// The operations of reductions and scans; numbers are small, so that floats are exact in any order.
const OPERATIONS: [Operation; 3] =
    [("add", |a, b| a + b), ("min", |a, b| a.min(b)), ("max", |a, b| a.max(b))];

type Operation = (&'static str, fn(i64, i64) -> i64);

/// A type of the work-group functions: its name, its size, whether it has negative numbers, a number's bits in it, and those of
/// the operations' identities.
pub type Number = (&'static str, usize, bool, fn(i64) -> u64, [u64; 3]);

pub const NUMBERS: [Number; 6] = [
    ("int", 4, true, |n| n as u32 as u64, [0, i32::MAX as u64, i32::MIN as u32 as u64]),
    ("uint", 4, false, |n| n as u32 as u64, [0, u32::MAX as u64, 0]),
    ("long", 8, true, |n| n as u64, [0, i64::MAX as u64, i64::MIN as u64]),
    ("ulong", 8, false, |n| n as u64, [0, u64::MAX, 0]),
    ("float", 4, true, |n| (n as f32).to_bits().into(), [0, 0x7f80_0000, 0xff80_0000]),
    ("double", 8, true, |n| (n as f64).to_bits(), [0, 0x7ff0 << 48, 0xfff0 << 48]),
];

/// All functions of one type: in a row, so that they share barriers, and each in a loop whose rounds depend on one another.
fn combining(ty: &str) -> String {
    let mut source = ITEM.to_string();
    let functions: Vec<String> = ["reduce", "scan_inclusive", "scan_exclusive"]
        .iter()
        .flat_map(|form| OPERATIONS.map(|(op, _)| format!("work_group_{form}_{op}(v)")))
        .collect();
    let broadcasts = ["x", "x, y", "x, y, z"].map(|ids| format!("work_group_broadcast(v, {ids})"));
    let dimension = |d: usize| format!("(size_t)seed % get_local_size({d})");
    let [x, y, z] = [0, 1, 2].map(dimension);
    source += &format!(
        "kernel void row(global const {ty} *in, global {ty} *out, int seed, int n) {{
             size_t x = {x}, y = {y}, z = {z};
             global {ty} *at = out + item();
             {ty} v = in[item()];\n"
    );
    for function in functions.iter().chain(&broadcasts) {
        source += &format!("*at = {function}; at += n;\n");
    }
    source += "}\n";
    // The rounds: what one yields chooses the next, the same for all of a group.
    source += &format!(
        "kernel void rounds(global const {ty} *in, global {ty} *out, int seed, int n) {{
             {ty} v = in[item()], all = 0;
             for (int round = 0; round < seed % 5 + 2; ++round) {{
                 if (work_group_any(v > ({ty})40)) v = v - ({ty})(v > ({ty})20 ? 20 : 0) + ({ty})(get_local_linear_id() % 3);
                 {ty} before = work_group_scan_exclusive_add(v);
                 if (work_group_all(before < ({ty})100)) v = work_group_reduce_max(v) - v;
                 else all += before;
             }}
             out[item()] = all + v;
         }}"
    );
    source
}

/// The bits of a buffer of 4 or 8 byte numbers.
pub fn numbers(setup: &Setup, buffer: &Buffer, bytes: usize, count: usize) -> cl::Result<Vec<u64>> {
    let mut raw = vec![0_u8; bytes * count];
    setup.queue.read(buffer, &mut raw)?;
    let number = |chunk: &[u8]| chunk.iter().rev().fold(0, |bits, &byte| bits << 8 | u64::from(byte));
    Ok(raw.chunks(bytes).map(number).collect())
}

fn work_group_functions() -> Outcome {
    let setup = setup()?;
    let mut random = Random::new(4);
    for (ty, bytes, signed, bits, identities) in NUMBERS {
        let program = built(&setup, &combining(ty), "-cl-std=CL2.0")?;
        let [row, rounds] = ["row", "rounds"].map(|name| Kernel::new(&program, name));
        let (row, rounds) = (row?, rounds?);
        for _ in 0..12 {
            let range = Range::random(&mut random);
            let n = range.items();
            let seed = random.below(1000) as i32;
            let values: Vec<i64> =
                (0..n).map(|_| random.below(100) as i64 - if signed { 50 } else { 0 }).collect();
            let raw: Vec<u8> = values.iter().flat_map(|&v| bits(v).to_le_bytes()[..bytes].to_vec()).collect();
            let input = Buffer::copy_of(&setup.context, &raw)?;
            let output = Buffer::copy_of(&setup.context, &vec![0xa5_u8; 12 * n * bytes])?;
            for kernel in [&row, &rounds] {
                kernel.set_object(0, Some(&input))?;
                kernel.set_object(1, Some(&output))?;
                kernel.set(2, seed)?;
                kernel.set(3, n as i32)?;
            }
            setup.queue.launch(&row, range.launch())?;
            let found = numbers(&setup, &output, bytes, 12 * n)?;
            let mut expected = vec![0; 12 * n];
            for group in range.groups() {
                for (o, (_, op)) in OPERATIONS.iter().enumerate() {
                    let all = group.iter().map(|&item| values[item]).reduce(op).unwrap_or(0);
                    let mut sum: Option<i64> = None;
                    for &item in &group {
                        let next = sum.map_or(values[item], |sum| op(sum, values[item]));
                        expected[o * n + item] = bits(all);
                        expected[(3 + o) * n + item] = bits(next);
                        expected[(6 + o) * n + item] = sum.map_or(identities[o], bits);
                        sum = Some(next);
                    }
                }
                let size = range.group_size(group[0]);
                for (b, dimensions) in (1..=3).enumerate() {
                    let id: [usize; 3] =
                        std::array::from_fn(|d| if d < dimensions { seed as usize % size[d] } else { 0 });
                    // One that names no id of a dimension means its first only where there is no other.
                    let unique = (dimensions..3).all(|d| size[d] == 1);
                    for &item in &group {
                        let source = group.iter().find(|&&other| range.local_id(other) == id);
                        let source = source.copied().unwrap_or(item);
                        let at = (9 + b) * n + item;
                        expected[at] = if unique { bits(values[source]) } else { found[at] };
                    }
                }
            }
            assert_eq!(found, expected, "{ty} over {range:?}");
            setup.queue.launch(&rounds, range.launch())?;
            let found = numbers(&setup, &output, bytes, n)?;
            let mut expected = vec![0; n];
            for group in range.groups() {
                let mut v: Vec<i64> = group.iter().map(|&item| values[item]).collect();
                let mut all = vec![0; v.len()];
                for _ in 0..seed % 5 + 2 {
                    if v.iter().any(|&v| v > 40) {
                        (0..v.len()).for_each(|i| v[i] += i as i64 % 3 - if v[i] > 20 { 20 } else { 0 });
                    }
                    let before: Vec<i64> = (0..v.len()).map(|i| v[..i].iter().sum()).collect();
                    if before.iter().all(|&before| before < 100) {
                        let max = v.iter().copied().max().unwrap_or(0);
                        v.iter_mut().for_each(|v| *v = max - *v);
                    } else {
                        all.iter_mut().zip(&before).for_each(|(all, before)| *all += before);
                    }
                }
                for (i, &item) in group.iter().enumerate() {
                    expected[item] = bits(all[i] + v[i]);
                }
            }
            assert_eq!(found, expected, "{ty} in {} rounds over {range:?}", seed % 5 + 2);
        }
    }
    Ok(())
}

/// A hundred regions and more, in a row and in a loop, in code of either tier: each step has every work-item take its neighbour's number.
fn many_barriers() -> Outcome {
    const TIER: &str = "SPIRULA_TIER";
    let setup = setup()?;
    if std::env::var_os(TIER).is_none() {
        for tier in ["baseline", "optimized"] {
            again_with("work_groups::many_barriers", &[(TIER, tier)]);
        }
        return Ok(());
    }
    const STEPS: i32 = 60;
    const ROUNDS: i32 = 3;
    let step = |n: i32| format!("step(l, {n});\n");
    let steps: String = (0..STEPS).map(step).collect();
    let source = format!(
        "#define step(l, n) {{ uint v = l[(i + n) % size]; barrier(CLK_LOCAL_MEM_FENCE); \\
                              l[i] = v * 3 + n##u; barrier(CLK_LOCAL_MEM_FENCE); }}
        kernel void k(global int *p, local int *l, int rounds) {{
            size_t i = get_local_id(0), size = get_local_size(0);
            l[i] = p[get_global_id(0)];
            barrier(CLK_LOCAL_MEM_FENCE);
            {steps}
            for (int r = 0; r < rounds; ++r) {{ step(l, 5); if (rounds > 2) step(l, 7); }}
            p[get_global_id(0)] = l[i];
        }}"
    );
    let kernel = Kernel::new(&built(&setup, &source, "")?, "k")?;
    const SIZE: usize = 37;
    let numbers: Vec<i32> = (0..4 * SIZE as i32).map(|n| n * 77 - 1000).collect();
    let rounds = (0..ROUNDS).flat_map(|_| [5, 7]);
    let all: Vec<i32> = (0..STEPS).chain(rounds).collect();
    let model = |group: &[i32]| -> Vec<i32> {
        all.iter().fold(group.to_vec(), |l, &n| {
            let taken = |i: usize| l[(i + n as usize) % SIZE];
            (0..SIZE).map(|i| taken(i).wrapping_mul(3).wrapping_add(n)).collect()
        })
    };
    let expected: Vec<i32> = numbers.chunks(SIZE).flat_map(model).collect();
    let buffer = Buffer::copy_of(&setup.context, &numbers)?;
    kernel.set_object(0, Some(&buffer))?;
    kernel.set_local(1, 4 * SIZE)?;
    kernel.set(2, ROUNDS)?;
    setup.queue.launch(&kernel, NdRange::new(&[numbers.len()], &[SIZE]))?;
    let mut got = vec![0; numbers.len()];
    setup.queue.read(&buffer, &mut got)?;
    assert_eq!(got, expected);
    Ok(())
}

/// Loops in front of all branches whose work-items do the same, one behind the other, of any number of rounds: in code of either tier.
/// What they read is written behind them.
fn loops_that_all_do_alike() -> Outcome {
    const TIER: &str = "SPIRULA_TIER";
    let setup = setup()?;
    if std::env::var_os(TIER).is_none() {
        for tier in ["baseline", "optimized"] {
            again_with("work_groups::loops_that_all_do_alike", &[(TIER, tier)]);
        }
        return Ok(());
    }
    let source = "kernel void k(global int *p, global const int *q, int n, int m) {
        int own = p[get_global_id(0)];
        uint sum = 7, sums = 1;
        for (int i = 0; i < n; ++i) sum = sum * 3 + q[i];
        for (int i = 0; i < n; ++i) for (int j = i; j < m; ++j) sums = sums * 5 + q[j] * sum;
        if (own > 0) own += sum; else own -= sums;
        p[get_global_id(0)] = own ^ sums;
    }";
    let kernel = Kernel::new(&built(&setup, source, "")?, "k")?;
    let numbers: Vec<i32> = (0..200).map(|n| n * 77 - 1000).collect();
    let shared: Vec<i32> = (0..40).map(|n| n * n - 9).collect();
    let q = Buffer::copy_of(&setup.context, &shared)?;
    for (n, m, size) in [(0, 0, 8), (1, 40, 1), (40, 40, 25), (30, 7, 200), (-1, 3, 40)] {
        let p = Buffer::copy_of(&setup.context, &numbers)?;
        kernel.set_object(0, Some(&p))?;
        kernel.set_object(1, Some(&q))?;
        kernel.set(2, n)?;
        kernel.set(3, m)?;
        setup.queue.launch(&kernel, NdRange::new(&[numbers.len()], &[size]))?;
        let mut got = vec![0; numbers.len()];
        setup.queue.read(&p, &mut got)?;
        let (mut sum, mut sums) = (7_i32, 1_i32);
        for i in 0..n {
            sum = sum.wrapping_mul(3).wrapping_add(shared[i as usize]);
        }
        for j in (0..n).flat_map(|i| i..m) {
            sums = sums.wrapping_mul(5).wrapping_add(shared[j as usize].wrapping_mul(sum));
        }
        let model = |&own: &i32| sums ^ if own > 0 { own.wrapping_add(sum) } else { own.wrapping_sub(sums) };
        assert_eq!(got, numbers.iter().map(model).collect::<Vec<_>>(), "{n} {m} {size}");
    }
    Ok(())
}

/// Work-items that number themselves by groups of the first dimension, in a range of two.
fn rows_where_no_size_is_asked_for() -> Outcome {
    let setup = setup()?;
    let source = "kernel void k(global int *x) {
        size_t group = get_group_id(0) + get_group_id(1) * get_num_groups(0);
        x[group * get_local_size(0) + get_local_id(0)] += 1; }";
    let kernel = Kernel::new(&built(&setup, source, "")?, "k")?;
    for global in [[8, 2704], [64, 30], [1000, 3], [97, 5]] {
        let count: usize = global.iter().product();
        let mut numbers = vec![0_i32; count];
        let x = Buffer::copy_of(&setup.context, &numbers)?;
        kernel.set_object(0, Some(&x))?;
        setup.queue.launch(&kernel, NdRange { global: &global, local: None, offset: None })?;
        setup.queue.read(&x, &mut numbers)?;
        assert_eq!(numbers, vec![1; count], "{global:?}");
    }
    Ok(())
}
