//! Sub-groups: how work-groups are divided, and what their work-items do together, in all functions that OpenCL C has for it.
//! Everything against a model on the host, over random sizes. Skipped on a device without a compiler.

use crate::setup::{Setup, again, status, tests};
use crate::sources::{built, setup};
use crate::work_groups::{ITEM, NUMBERS, Number, Range, numbers};
use spirula_tests::call;
use spirula_tests::cl::sys::*;
use spirula_tests::cl::{self, Buffer, Kernel, Object, Program};
use spirula_tests::isolate::Outcome;
use spirula_tests::mutate::Random;
use std::collections::BTreeMap;
use std::ptr::null_mut;

tests![
    division,
    division_in_packs_of_four,
    kernels_without_sub_groups_have_usual_ones,
    division_as_asked_for,
    sizes_that_there_are_not,
    together,
    together_one_by_one,
    among_some,
    ballots,
    one_after_the_other
];

/// cl_intel_required_subgroup_size.
const CL_DEVICE_SUB_GROUP_SIZES_INTEL: cl_uint = 0x4108;
const CL_KERNEL_COMPILE_SUB_GROUP_SIZE_INTEL: cl_uint = 0x410A;

const OPTIONS: &str = "-cl-std=CL3.0";

/// The scalars of `cl_khr_subgroup_extended_types` that the work-group functions lack.
const NARROW: [Number; 4] = [
    ("char", 1, true, |n| n as u8 as u64, [0, i8::MAX as u64, i8::MIN as u8 as u64]),
    ("uchar", 1, false, |n| n as u8 as u64, [0, u8::MAX as u64, 0]),
    ("short", 2, true, |n| n as u16 as u64, [0, i16::MAX as u64, i16::MIN as u16 as u64]),
    ("ushort", 2, false, |n| n as u16 as u64, [0, u16::MAX as u64, 0]),
];

/// What clGetKernelSubGroupInfo says of a work-group size, or of a number of sub-groups.
fn info<const N: usize>(
    setup: &Setup,
    kernel: &Kernel,
    name: cl_uint,
    input: &[usize],
) -> cl::Result<[usize; N]> {
    let mut answer = [usize::MAX; N];
    call!(clGetKernelSubGroupInfo(
        kernel.raw(),
        setup.device.raw(),
        name,
        size_of_val(input),
        input.as_ptr().cast(),
        size_of_val(&answer),
        answer.as_mut_ptr().cast(),
        null_mut()
    ))?;
    Ok(answer)
}

/// What each work-item says of its sub-group: its id, its number in it, the sub-group's size, the largest size, how many there
/// are, and in a whole work-group.
const SAID: &str = "
    void say(global uint *out) {
        out += item() * 6;
        out[0] = get_sub_group_id(); out[1] = get_sub_group_local_id(); out[2] = get_sub_group_size();
        out[3] = get_max_sub_group_size(); out[4] = get_num_sub_groups(); out[5] = get_enqueued_num_sub_groups();
    }";

/// The work-items of each sub-group in order, as the kernel divided them; checks that it may.
fn sub_groups(range: &Range, said: &[u32], claimed: impl Fn(&[usize]) -> usize) -> Vec<Vec<usize>> {
    let mut found = Vec::new();
    let enqueued = range.local.iter().product::<usize>().div_ceil(claimed(&range.local)) as u32;
    for group in range.groups() {
        let most = said[group[0] * 6 + 3];
        let whole = range.group_size(group[0]) == range.local;
        if whole {
            assert_eq!(most as usize, claimed(&range.local), "{range:?}");
        }
        let count = |items: usize| items.div_ceil(most as usize) as u32;
        for (number, &item) in group.iter().enumerate() {
            let (id, local_id) = (number as u32 / most, number as u32 % most);
            let size = most.min(group.len() as u32 - id * most);
            let expected = [id, local_id, size, most, count(group.len()), enqueued];
            assert_eq!(said[item * 6..item * 6 + 6], expected, "work-item {item} of {range:?}");
        }
        found.extend(group.chunks(most as usize).map(<[usize]>::to_vec));
    }
    found
}

fn division() -> Outcome {
    let setup = setup()?;
    let source = format!("{ITEM}{SAID} kernel void k(global uint *out) {{ say(out); }}");
    let kernel = Kernel::new(&built(&setup, &source, OPTIONS)?, "k")?;
    let mut random = Random::new(5);
    for _ in 0..60 {
        let range = Range::random(&mut random);
        let mut said = vec![u32::MAX; range.items() * 6];
        let buffer = Buffer::copy_of(&setup.context, &said)?;
        kernel.set_object(0, Some(&buffer))?;
        setup.queue.launch(&kernel, range.launch())?;
        setup.queue.read(&buffer, &mut said)?;
        let claimed = |local: &[usize]| {
            let name = CL_KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE;
            info::<1>(&setup, &kernel, name, local).expect("an answer")[0]
        };
        sub_groups(&range, &said, claimed);
        let [count] = info(&setup, &kernel, CL_KERNEL_SUB_GROUP_COUNT_FOR_NDRANGE, &range.local)?;
        assert_eq!(count, range.local.iter().product::<usize>().div_ceil(claimed(&range.local)));
    }
    let [most] = info(&setup, &kernel, CL_KERNEL_MAX_NUM_SUB_GROUPS, &[])?;
    for count in [1, 2, 3, 7, most, most + 1] {
        let local: [usize; 3] = info(&setup, &kernel, CL_KERNEL_LOCAL_SIZE_FOR_SUB_GROUP_COUNT, &[count])?;
        if count > most {
            assert_eq!(local, [0; 3]);
        } else {
            let [found] = info(&setup, &kernel, CL_KERNEL_SUB_GROUP_COUNT_FOR_NDRANGE, &local)?;
            assert_eq!(found, count, "{local:?}");
        }
    }
    let none: cl::Result<[usize; 1]> = info(&setup, &kernel, CL_KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE, &[]);
    assert_eq!(status(none), "CL_INVALID_VALUE");
    Ok(())
}

/// SYCL's programs choose their work-groups by the answer, also for kernels that don't use sub-groups.
fn kernels_without_sub_groups_have_usual_ones() -> Outcome {
    let setup = setup()?;
    let program =
        built(&setup, &format!("{ITEM} kernel void k(global uint *out) {{ out[item()] = 1; }}"), OPTIONS)?;
    let kernel = Kernel::new(&program, "k")?;
    let [size] = info(&setup, &kernel, CL_KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE, &[4096, 1, 1])?;
    let sizes: Vec<usize> = setup.device.info_list(CL_DEVICE_SUB_GROUP_SIZES_INTEL)?;
    assert!(sizes.contains(&size), "{size}");
    let [count] = info(&setup, &kernel, CL_KERNEL_SUB_GROUP_COUNT_FOR_NDRANGE, &[4096, 1, 1])?;
    assert_eq!(count * size, 4096);
    Ok(())
}

fn division_in_packs_of_four() -> Outcome {
    again("sub_groups::division", "SPIRULA_VECTOR_WIDTH", "4");
    Ok(())
}

/// cl_intel_required_subgroup_size: the size is the kernel's, and rows of a work-group have sub-groups of their own.
fn division_as_asked_for() -> Outcome {
    let setup = setup()?;
    let sizes: Vec<usize> = setup.device.info_list(CL_DEVICE_SUB_GROUP_SIZES_INTEL)?;
    assert_eq!(sizes, [4, 8, 16, 32, 64]);
    let mut random = Random::new(7);
    for size in sizes {
        let source = format!(
            "{ITEM}{SAID} __attribute__((intel_reqd_sub_group_size({size}))) kernel void k(global uint *out, global uint *sum)
            {{ say(out); sum[item()] = sub_group_reduce_add((uint)get_local_id(0)); }}"
        );
        let kernel = Kernel::new(&built(&setup, &source, OPTIONS)?, "k")?;
        let [asked_for] = info(&setup, &kernel, CL_KERNEL_COMPILE_SUB_GROUP_SIZE_INTEL, &[])?;
        assert_eq!(asked_for, size);
        for _ in 0..20 {
            let range = Range::random(&mut random);
            let mut said = vec![u32::MAX; range.items() * 6];
            let mut sums = vec![u32::MAX; range.items()];
            let [buffer, sum] =
                [Buffer::copy_of(&setup.context, &said)?, Buffer::copy_of(&setup.context, &sums)?];
            kernel.set_object(0, Some(&buffer))?;
            kernel.set_object(1, Some(&sum))?;
            setup.queue.launch(&kernel, range.launch())?;
            setup.queue.read(&buffer, &mut said)?;
            setup.queue.read(&sum, &mut sums)?;
            let local = &range.local;
            let [most] = info(&setup, &kernel, CL_KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE, local)?;
            let [count] = info(&setup, &kernel, CL_KERNEL_SUB_GROUP_COUNT_FOR_NDRANGE, local)?;
            let rows = |local: &[usize]| local[0].div_ceil(size) * local[1..].iter().product::<usize>();
            assert_eq!((most, count), (size, rows(local)), "{range:?}");
            for group in range.groups() {
                let own = range.group_size(group[0]);
                for (row, items) in group.chunks(own[0]).enumerate() {
                    for (number, items) in items.chunks(size).enumerate() {
                        let first = number * size;
                        let sum: usize = (first..first + items.len()).sum();
                        let id = row * own[0].div_ceil(size) + number;
                        for (lane, &item) in items.iter().enumerate() {
                            let expected = [id, lane, items.len(), size, rows(&own), count].map(|n| n as u32);
                            assert_eq!(
                                said[item * 6..item * 6 + 6],
                                expected,
                                "{item} of {range:?} by {size}"
                            );
                            assert_eq!(sums[item], sum as u32, "{item} of {range:?} by {size}");
                        }
                    }
                }
            }
        }
    }
    Ok(())
}

fn sizes_that_there_are_not() -> Outcome {
    let setup = setup()?;
    let source =
        "__attribute__((intel_reqd_sub_group_size(12))) kernel void k(global uint *out) { *out = 1; }";
    let program = Program::from_source(&setup.context, source)?;
    assert_eq!(status(program.build(OPTIONS)), "CL_BUILD_PROGRAM_FAILURE");
    let log = program.log(setup.device)?;
    assert!(log.contains("intel_reqd_sub_group_size is 12") && log.contains("[4, 8, 16, 32, 64]"), "{log}");
    Ok(())
}

/// A kernel's text, and for each of its results what the work-items of a sub-group get. None for what isn't defined.
type Model = Box<dyn Fn(&Sub) -> Vec<Option<u64>>>;

/// A sub-group on the host, or the work-items of one that come somewhere.
struct Sub<'a> {
    values: Vec<i64>,
    /// The numbers of these work-items.
    lanes: Vec<usize>,
    size: usize,
    /// Of the type.
    most: usize,
    seed: usize,
    number: &'a Number,
}

impl Sub<'_> {
    fn bits(&self, value: i64) -> u64 {
        (self.number.3)(value)
    }

    /// The value of the work-item of that number, if it is there.
    fn of(&self, lane: usize) -> Option<u64> {
        let at = self.lanes.iter().position(|&other| other == lane)?;
        Some(self.bits(self.values[at]))
    }

    fn each(&self, of: impl Fn(usize) -> Option<u64>) -> Vec<Option<u64>> {
        self.lanes.iter().map(|&lane| of(lane)).collect()
    }
}

type Operation = (&'static str, fn(i64, i64) -> i64, Option<usize>);

/// Reductions and scans: the name, what it does, and which of a type's identities it has.
const OPERATIONS: [Operation; 3] =
    [("add", |a, b| a + b, Some(0)), ("min", |a, b| a.min(b), Some(1)), ("max", |a, b| a.max(b), Some(2))];
const OF_INTEGERS: [Operation; 3] =
    [("and", |a, b| a & b, None), ("or", |a, b| a | b, Some(0)), ("xor", |a, b| a ^ b, Some(0))];

fn reductions(prefix: &str, operations: &[Operation], all: &mut Vec<(String, Model)>) {
    for &(name, op, identity) in operations {
        for form in ["reduce", "scan_inclusive", "scan_exclusive"] {
            let model = move |sub: &Sub| -> Vec<Option<u64>> {
                let sum = |values: &[i64]| values.iter().copied().reduce(op).map(|sum| sub.bits(sum));
                let none = identity.map(|which| sub.number.4[which]);
                (0..sub.values.len())
                    .map(|i| match form {
                        "reduce" => sum(&sub.values),
                        "scan_inclusive" => sum(&sub.values[..=i]),
                        _ => sum(&sub.values[..i]).or(none),
                    })
                    .collect()
            };
            all.push((format!("{prefix}_{form}_{name}(v)"), Box::new(model)));
        }
    }
}

fn clusters(operations: &[Operation], all: &mut Vec<(String, Model)>) {
    for &(name, op, _) in operations {
        for size in [1, 2, 4] {
            let model = move |sub: &Sub| {
                sub.each(|lane| {
                    let within =
                        sub.lanes.iter().zip(&sub.values).filter(|(other, _)| *other / size == lane / size);
                    (size <= sub.most).then(|| within.map(|(_, &v)| v).reduce(op).map(|sum| sub.bits(sum)))?
                })
            };
            all.push((format!("sub_group_clustered_reduce_{name}(v, {size})"), Box::new(model)));
        }
    }
}

/// Functions that all of a sub-group call.
fn of_all() -> Vec<(String, Model)> {
    let mut all = Vec::new();
    reductions("sub_group", &OPERATIONS, &mut all);
    let broadcast = |sub: &Sub| vec![sub.of(sub.seed % sub.size); sub.values.len()];
    all.push(("sub_group_broadcast(v, (uint)seed % get_sub_group_size())".into(), Box::new(broadcast)));
    all
}

/// Functions that some of a sub-group call.
fn of_some(integer: bool) -> Vec<(String, Model)> {
    let mut all = Vec::new();
    reductions("sub_group_non_uniform", &OPERATIONS, &mut all);
    clusters(&OPERATIONS, &mut all);
    if integer {
        reductions("sub_group_non_uniform", &OF_INTEGERS, &mut all);
        clusters(&OF_INTEGERS, &mut all);
    }
    let mut from = |call: &str, index: fn(&Sub, usize) -> usize| {
        let model = move |sub: &Sub| sub.each(|lane| sub.of(index(sub, lane)));
        all.push((call.to_string(), Box::new(model) as Model));
    };
    from("sub_group_broadcast_first(v)", |sub, _| sub.lanes[0]);
    from("sub_group_non_uniform_broadcast(v, (uint)seed % get_sub_group_size())", |sub, _| {
        sub.seed % sub.size
    });
    from(
        "sub_group_shuffle(v, (get_sub_group_local_id() * 3 + seed) % get_sub_group_size())",
        |sub, lane| (lane * 3 + sub.seed) % sub.size,
    );
    from("sub_group_shuffle_xor(v, 1)", |_, lane| lane ^ 1);
    from("sub_group_shuffle_xor(v, (uint)seed % get_max_sub_group_size())", |sub, lane| {
        lane ^ (sub.seed % sub.most)
    });
    from("sub_group_shuffle_up(v, 2)", |_, lane| lane.wrapping_sub(2));
    from("sub_group_shuffle_down(v, (uint)seed % 3)", |sub, lane| lane + sub.seed % 3);
    from("sub_group_rotate(v, seed)", |sub, lane| (lane + sub.seed) % sub.most);
    from("sub_group_clustered_rotate(v, seed, 2)", |sub, lane| {
        if sub.most < 2 { usize::MAX } else { lane / 2 * 2 + (lane + sub.seed) % 2 }
    });
    all
}

/// Runs the functions over random ranges; `condition` says which work-items call them.
fn check(seed: u64, some: bool) -> Outcome {
    let setup = setup()?;
    let mut random = Random::new(seed);
    for number in NUMBERS.iter().chain(&NARROW) {
        let (ty, bytes, signed, bits, _) = *number;
        let functions = if some { of_some(!ty.contains(['f', 'b'])) } else { of_all() };
        let condition = if some { "(item() * 7 + seed) % 5 < 3" } else { "true" };
        let calls: String = functions.iter().map(|(call, _)| format!("*at = {call}; at += n;\n")).collect();
        let source = format!(
            "{ITEM}{SAID}
             kernel void k(global const {ty} *in, global {ty} *out, int seed, int n, global uint *said) {{
                 say(said);
                 {ty} v = in[item()];
                 global {ty} *at = out + item();
                 if ({condition}) {{ {calls} }}
             }}"
        );
        let kernel = Kernel::new(&built(&setup, &source, OPTIONS)?, "k")?;
        for _ in 0..6 {
            let range = Range::random(&mut random);
            let n = range.items();
            let seed = random.below(1000);
            let values: Vec<i64> =
                (0..n).map(|_| random.below(50) as i64 - if signed { 25 } else { 0 }).collect();
            let raw: Vec<u8> = values.iter().flat_map(|&v| bits(v).to_le_bytes()[..bytes].to_vec()).collect();
            let input = Buffer::copy_of(&setup.context, &raw)?;
            let output = Buffer::copy_of(&setup.context, &vec![0xa5_u8; functions.len() * n * bytes])?;
            let mut said = vec![0_u32; n * 6];
            let saying = Buffer::copy_of(&setup.context, &said)?;
            kernel.set_object(0, Some(&input))?;
            kernel.set_object(1, Some(&output))?;
            kernel.set(2, seed as i32)?;
            kernel.set(3, n as i32)?;
            kernel.set_object(4, Some(&saying))?;
            setup.queue.launch(&kernel, range.launch())?;
            setup.queue.read(&saying, &mut said)?;
            let found = numbers(&setup, &output, bytes, functions.len() * n)?;
            let untouched = 0xa5a5_a5a5_a5a5_a5a5_u64 >> (64 - 8 * bytes);
            let claimed = |local: &[usize]| {
                let name = CL_KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE;
                info::<1>(&setup, &kernel, name, local).expect("an answer")[0]
            };
            for group in sub_groups(&range, &said, claimed) {
                let here = |&item: &usize| !some || (item * 7 + seed) % 5 < 3;
                let lanes: Vec<usize> = (0..group.len()).filter(|&lane| here(&group[lane])).collect();
                let sub = Sub {
                    values: lanes.iter().map(|&lane| values[group[lane]]).collect(),
                    size: group.len(),
                    most: said[group[0] * 6 + 3] as usize,
                    lanes,
                    seed,
                    number,
                };
                for (f, (call, model)) in functions.iter().enumerate() {
                    let expected = model(&sub);
                    let expected: BTreeMap<usize, Option<u64>> =
                        sub.lanes.iter().map(|&lane| group[lane]).zip(expected).collect();
                    for &item in &group {
                        let got = found[f * n + item];
                        match expected.get(&item) {
                            Some(None) => {}
                            Some(&Some(value)) => {
                                assert_eq!(
                                    got, value,
                                    "{ty} {call}: work-item {item} of {range:?}, seed {seed}"
                                );
                            }
                            None => assert_eq!(got, untouched, "{ty} {call}: work-item {item} of {range:?}"),
                        }
                    }
                }
            }
        }
    }
    Ok(())
}

fn together() -> Outcome {
    check(6, false)
}

fn together_one_by_one() -> Outcome {
    again("sub_groups::together", "SPIRULA_VECTOR_WIDTH", "1");
    Ok(())
}

fn among_some() -> Outcome {
    check(7, true)
}

/// Votes and ballots, in numbers: those that fail are or-ed.
fn ballots() -> Outcome {
    let setup = setup()?;
    let source = format!(
        "{ITEM}
         ulong bits(uint4 ballot) {{ return ballot.x | (ulong)ballot.y << 32; }}
         kernel void k(global const int *in, global ulong *out, int seed) {{
             bool p = in[item()] > 0;
             uint own = get_sub_group_local_id(), size = get_sub_group_size();
             ulong all = ~0ul >> (64 - get_max_sub_group_size()), bit = 1ul << own, there = ~0ul >> (64 - size);
             ulong wrong = 0;
             uint4 ballot = sub_group_ballot(p);
             ulong b = bits(ballot);
             wrong |= (b & bit) != (p ? bit : 0) ? 1 : 0;
             wrong |= (b & ~there) != 0 || ballot.z || ballot.w ? 2 : 0;
             wrong |= sub_group_any(p) != (b != 0) || sub_group_non_uniform_any(p) != (b != 0) ? 4 : 0;
             wrong |= sub_group_all(p) != (b == there) || sub_group_non_uniform_all(p) != (b == there) ? 8 : 0;
             wrong |= !!sub_group_inverse_ballot(ballot) != p ? 16 : 0;
             wrong |= sub_group_ballot_bit_extract(ballot, seed % size) != (b >> seed % size & 1) ? 32 : 0;
             wrong |= sub_group_ballot_bit_count(ballot) != popcount(b) ? 64 : 0;
             wrong |= sub_group_ballot_inclusive_scan(ballot) != popcount(b & (bit | bit - 1)) ? 128 : 0;
             wrong |= sub_group_ballot_exclusive_scan(ballot) != popcount(b & bit - 1) ? 256 : 0;
             if (b) wrong |= sub_group_ballot_find_lsb(ballot) != popcount((b & -b) - 1) ? 512 : 0;
             if (b) wrong |= sub_group_ballot_find_msb(ballot) != 63 - clz(b) ? 1024 : 0;
             wrong |= bits(get_sub_group_eq_mask()) != bit || bits(get_sub_group_lt_mask()) != bit - 1 ? 2048 : 0;
             wrong |= bits(get_sub_group_le_mask()) != (bit | bit - 1) ? 4096 : 0;
             wrong |= bits(get_sub_group_gt_mask()) != (all & ~(bit | bit - 1)) ? 8192 : 0;
             wrong |= bits(get_sub_group_ge_mask()) != (all & ~(bit - 1)) ? 16384 : 0;
             wrong |= sub_group_elect() != (own == 0) ? 32768 : 0;
             if (p) {{
                 ulong now = bits(sub_group_ballot(1));
                 wrong |= now != b || !sub_group_non_uniform_all_equal(7) ? 65536 : 0;
                 wrong |= sub_group_elect() != ((bit & -now) == bit && !(now & bit - 1)) ? 131072 : 0;
                 wrong |= sub_group_non_uniform_all_equal(own) != (popcount(b) == 1) ? 262144 : 0;
                 wrong |= sub_group_non_uniform_reduce_logical_and(own != 0) != !(b & 1) ? 524288 : 0;
                 wrong |= sub_group_non_uniform_scan_exclusive_logical_or(1) != ((b & bit - 1) != 0) ? 1048576 : 0;
                 wrong |= sub_group_clustered_reduce_logical_xor(1, 1) != 1 ? 2097152 : 0;
             }}
             out[item()] = wrong;
         }}"
    );
    let kernel = Kernel::new(&built(&setup, &source, OPTIONS)?, "k")?;
    let mut random = Random::new(8);
    for _ in 0..40 {
        let range = Range::random(&mut random);
        let chosen: Vec<i32> = (0..range.items()).map(|_| random.below(3) as i32 - 1).collect();
        let input = Buffer::copy_of(&setup.context, &chosen)?;
        let mut wrong = vec![u64::MAX; range.items()];
        let output = Buffer::copy_of(&setup.context, &wrong)?;
        kernel.set_object(0, Some(&input))?;
        kernel.set_object(1, Some(&output))?;
        kernel.set(2, random.below(100) as i32)?;
        setup.queue.launch(&kernel, range.launch())?;
        setup.queue.read(&output, &mut wrong)?;
        assert!(wrong.iter().all(|&wrong| wrong == 0), "{range:?}: {wrong:x?}");
    }
    Ok(())
}

/// Work-items of a sub-group pass values on through local memory, with barriers of the sub-group only; and with those of the
/// work-group between, in a loop.
fn one_after_the_other() -> Outcome {
    let setup = setup()?;
    let source = format!(
        "{ITEM}
         kernel void k(global int *data, local int *t, int rounds) {{
             size_t l = get_local_linear_id();
             uint s = get_sub_group_size(), own = get_sub_group_local_id();
             int v = data[item()];
             for (int round = 0; round < rounds; ++round) {{
                 t[l] = v;
                 sub_group_barrier(CLK_LOCAL_MEM_FENCE);
                 v = t[l - own + (own + 1) % s] + sub_group_reduce_max(v);
                 work_group_barrier(CLK_LOCAL_MEM_FENCE);
                 v += work_group_scan_exclusive_add(own == 0 ? 1 : 0) - (int)get_sub_group_id() - (own == 0 ? 0 : 1);
             }}
             data[item()] = v;
         }}
         kernel void size(global uint *out) {{ out[item()] = get_max_sub_group_size(); }}"
    );
    let program = built(&setup, &source, OPTIONS)?;
    let (kernel, size) = (Kernel::new(&program, "k")?, Kernel::new(&program, "size")?);
    let mut random = Random::new(9);
    for _ in 0..40 {
        let range = Range::random(&mut random);
        let values: Vec<i32> = (0..range.items()).map(|_| random.below(100) as i32).collect();
        let (mut found, mut sizes) = (values.clone(), vec![0_u32; range.items()]);
        let (data, out) =
            (Buffer::copy_of(&setup.context, &found)?, Buffer::copy_of(&setup.context, &sizes)?);
        let rounds = random.below(4);
        kernel.set_object(0, Some(&data))?;
        kernel.set_local(1, 4 * range.local.iter().product::<usize>())?;
        kernel.set(2, rounds as i32)?;
        size.set_object(0, Some(&out))?;
        setup.queue.launch(&kernel, range.launch())?;
        setup.queue.launch(&size, range.launch())?;
        setup.queue.read(&data, &mut found)?;
        setup.queue.read(&out, &mut sizes)?;
        for group in range.groups() {
            for sub in group.chunks(sizes[group[0]] as usize) {
                let mut v: Vec<i32> = sub.iter().map(|&item| values[item]).collect();
                for _ in 0..rounds {
                    let most = v.iter().copied().max().unwrap_or(0);
                    v.rotate_left(1);
                    v.iter_mut().for_each(|v| *v += most);
                }
                let got: Vec<i32> = sub.iter().map(|&item| found[item]).collect();
                assert_eq!(got, v, "{range:?}, {rounds} rounds");
            }
        }
    }
    Ok(())
}
