//! Work-group sizes that vectorize and balance well: for launches that name none, and for kernels that can't tell.

use spirula_interface::program::Launch;

/// Lanes that a row should fill where the kernel's own aren't asked: those of 32-bit numbers in the widest registers.
const LANES: u64 = 16;
/// Work-items that a group of our choosing has at most, if that leaves enough groups for all CPUs.
const GOOD_GROUP: u64 = 256;
/// Work-items that a group of our choosing has at least, if there are others.
const SMALL_GROUP: u64 = 64;
/// Work-items at most in a row of groups that nobody sees.
const LONGEST_ROW: u64 = 1 << 16;
/// Work-items at most in a group that was made wider.
const WIDENED_GROUP: u64 = 1024;

/// The dimension that rows lie in, which the functions below have as the first.
#[derive(Clone, Copy)]
pub(crate) struct Rows(usize);

impl Rows {
    /// Of code that says so.
    pub fn along(dimension: u8) -> Rows {
        Rows(usize::from(dimension).min(2))
    }

    /// Sizes with that of rows as the first.
    pub fn first(self, mut sizes: [u64; 3]) -> [u64; 3] {
        sizes[..=self.0].rotate_right(1);
        sizes
    }

    /// The inverse.
    pub fn back(self, mut sizes: [u64; 3]) -> [u64; 3] {
        sizes[..=self.0].rotate_left(1);
        sizes
    }
}

/// Shorter rows make too small groups.
const SHORT_ROW: u64 = 8;

/// The range whose division decides for a kernel that sees its groups: one row, unless that is short. Programs that leave the size to the
/// runtime number work-items by groups of the first dimension, as darknet's and other kernels for lists do that were
/// launched in two: right where groups are rows, as other runtimes for processors make them.
pub(crate) fn rows_alone(global: [u64; 3]) -> [u64; 3] {
    if global[0] < SHORT_ROW { global } else { [global[0], 1, 1] }
}

/// Rows of scalar code that are shorter become longer ones, as a pack's do.
const SCALAR_ROW: u64 = 4;

/// Divides `global` into groups of at most `most` work-items for `threads` CPUs.
pub(crate) fn good(global: [u64; 3], most: u64, threads: u64) -> [u64; 3] {
    let wanted = wanted(global, threads).min(most);
    let items: u64 = global.iter().product();
    let mut local = [1; 3];
    let mut room = wanted;
    for axis in 0..3 {
        local[axis] = best_divisor(global[axis], room);
        room /= local[axis];
    }
    // A prime row, say: rather a large group than one work-item at a time.
    if local.iter().product::<u64>() < 8 && items >= 8 {
        local = [best_divisor(global[0], most), 1, 1];
    }
    local
}

/// A size that need not divide `global`, if the one that does makes small groups of a large range.
pub(crate) fn better(global: [u64; 3], dividing: [u64; 3], most: u64, threads: u64) -> [u64; 3] {
    let wanted = wanted(global, threads).min(most);
    let few = LANES.min(wanted).min(global[0]);
    if dividing.iter().product::<u64>() >= few { dividing } else { [wanted.min(global[0]), 1, 1] }
}

/// Work-items for a group of a launch on `threads` CPUs.
fn wanted(global: [u64; 3], threads: u64) -> u64 {
    (global.iter().product::<u64>() / (4 * threads)).clamp(64, GOOD_GROUP)
}

/// The divisor of `size` up to `room` that wastes the fewest lanes in the fewest groups.
fn best_divisor(size: u64, room: u64) -> u64 {
    if size.is_multiple_of(room) && room.is_multiple_of(LANES) {
        return room;
    }
    // A group's own cost counts as half a vector.
    let score = |divisor: u64| divisor as f64 / (divisor.next_multiple_of(LANES) + LANES / 2) as f64;
    let divisors = (1..=room.min(size)).filter(|&divisor| size.is_multiple_of(divisor));
    divisors.max_by(|&a, &b| score(a).total_cmp(&score(b)).then(a.cmp(&b))).unwrap_or(1)
}

/// The groups to run a kernel in that does not see them, if `local` was asked for: rows that fill packs of so many lanes, and
/// groups enough that no CPU of `threads` waits long for another; if better code may come, as many as a launch needs to take it.
pub(crate) fn unseen(
    global: [u64; 3],
    local: [u64; 3],
    threads: u64,
    lanes: u64,
    may_get_better: bool,
) -> [u64; 3] {
    let lanes = lanes.max(1);
    if local == global && local.iter().product::<u64>() <= lanes {
        return local;
    }
    // Rows of scalar code are loops, which LLVM may have made vectors of, and go through memory in its order: not of one or two work-items.
    let row = if lanes == 1 && local[0] < SCALAR_ROW { LANES } else { lanes };
    let filled = filled(global, local, threads, row);
    let local = balanced(global, filled, GROUPS_OF_A_CPU * threads, (lanes, 1));
    if may_get_better {
        balanced(global, local, GROUPS_TO_CHANGE_CODE * threads, (lanes, SMALL_GROUP))
    } else {
        local
    }
}

/// The same where there are fewer than CPUs, and fewer work-items in all than lanes, which take long: no pack would be full, and each CPU gets its
/// share of them. (One for each CPU, or each part that a CPU sorts, as Boost.Compute launches them.)
pub(crate) fn shared_out(global: [u64; 3], local: [u64; 3], threads: u64, lanes: u64) -> [u64; 3] {
    let items: u64 = global.iter().product();
    if items >= lanes || count(global, &local) >= threads {
        return local;
    }
    // Rows stay whole where others can be shared out.
    let is_enough = |axis: &usize| global[*axis] >= threads;
    let longest = || (0..3).max_by_key(|&axis| global[axis]);
    let axis = [2, 1, 0].into_iter().find(is_enough).or_else(longest).unwrap_or(0);
    let share = global[axis].div_ceil(threads);
    let divides = |size: &u64| global[axis].is_multiple_of(*size);
    let mut shares = global;
    shares[axis] = (1..=share).rev().find(divides).unwrap_or(1);
    shares
}

/// Groups whose rows fill packs: the same if theirs do, else with longer rows. Each CPU that had a group before has one.
fn filled(global: [u64; 3], local: [u64; 3], threads: u64, lanes: u64) -> [u64; 3] {
    if local[0].is_multiple_of(lanes) {
        return local;
    }
    let groups = |local: &[u64; 3]| count(global, local);
    let enough = threads.min(groups(&local));
    let balances =
        |local: &[u64; 3]| groups(local) >= enough && local.iter().product::<u64>() <= WIDENED_GROUP;
    let rows = (1..=lanes).map(|times| local[0] * times);
    let rows = rows.filter(|&row| row.is_multiple_of(lanes) && global[0].is_multiple_of(row));
    let candidates = rows.flat_map(|row| [[row, local[1], local[2]], [row, local[1], 1], [row, 1, 1]]);
    let wider = candidates.into_iter().find(balances);
    let divisor = [best_divisor(global[0], GOOD_GROUP), 1, 1];
    let divisor = (divisor[0] >= lanes && groups(&divisor) >= enough).then_some(divisor);
    let whole_row = [global[0], 1, 1];
    let whole_row =
        ((lanes..=LONGEST_ROW).contains(&global[0]) && groups(&whole_row) >= enough).then_some(whole_row);
    // One pack is much too small a group: calling it would take as long as running it.
    let is_small = |local: &[u64; 3]| local.iter().product::<u64>() < SMALL_GROUP;
    let short_rows = || short_rows(global, local, lanes).filter(|local| groups(local) >= enough);
    wider
        .filter(|wider| !is_small(wider))
        .or(divisor)
        .or(wider)
        .or(whole_row)
        .or_else(short_rows)
        .unwrap_or(local)
}

/// Groups of whole rows where those are shorter than a pack of so many lanes and longer than a group's: none fills packs, and these come
/// nearest to it.
fn short_rows(global: [u64; 3], local: [u64; 3], lanes: u64) -> Option<[u64; 3]> {
    let [width, height, _] = global;
    let largest_divisor = |most: u64| (1..=most).rev().find(|&rows| height.is_multiple_of(rows));
    (local[0] < width && width < lanes)
        .then(|| [width, largest_divisor((GOOD_GROUP / width).min(height)).unwrap_or(1), 1])
}

/// Groups that each CPU should have at least: work-items of one group often have more to do than another's. Many small ones would
/// share cache lines with their neighbours, which run at the same time.
const GROUPS_OF_A_CPU: u64 = 2;
/// The same while better code may come, which a launch takes between groups: one of eight long groups would be done with a quarter
/// of its work before the first has ended.
const GROUPS_TO_CHANGE_CODE: u64 = 16;

/// Smaller groups where there are fewer than `groups`, down to one pack of so many lanes and so many work-items.
fn balanced(global: [u64; 3], mut local: [u64; 3], groups: u64, (lanes, items): (u64, u64)) -> [u64; 3] {
    while count(global, &local) < groups && local.iter().product::<u64>() >= 2 * items {
        let halves = |axis: usize| local[axis].is_multiple_of(if axis == 0 { 2 * lanes } else { 2 });
        let Some(axis) = [2, 1, 0].into_iter().find(|&axis| halves(axis)) else { break };
        local[axis] /= 2;
    }
    local
}

fn count(global: [u64; 3], local: &[u64; 3]) -> u64 {
    (0..3).map(|axis| global[axis] / local[axis]).product()
}

/// For a kernel that does not see its groups, in place of a launch whose rows no good divisor fills, or that takes long and has fewer
/// groups than there are CPUs: one that runs the larger part of each row in groups of such a size, and one for what is left of it.
pub(crate) fn split(
    launch: &Launch,
    rows: Rows,
    (threads, lanes): (u64, u64),
    takes_long: bool,
) -> Option<(Launch, Launch)> {
    let [width, height, depth] = rows.first(launch.global_size);
    let wanted = match takes_long && launch.group_count.iter().product::<u64>() < threads {
        true => packs_for_all(launch.global_size, threads, lanes),
        false if rows.first(launch.local_size)[0] >= LANES => return None,
        false => wanted(launch.global_size, threads),
    };
    if width <= wanted {
        return None;
    }
    let part = |done: u64, local: u64, groups: u64| {
        let [x, y, z] = rows.first(launch.global_offset);
        let (local_size, group_count) = (rows.back([local, 1, 1]), rows.back([groups, height, depth]));
        Launch {
            global_offset: rows.back([x + done, y, z]),
            local_size,
            group_count,
            enqueued_local_size: local_size,
            total_groups: group_count,
            ..*launch
        }
    };
    let left = width % wanted;
    (left > 0).then(|| (part(0, wanted, width / wanted), part(width - left, left, 1)))
}

/// Whole packs, so few that all CPUs of `threads` have several groups.
fn packs_for_all(global: [u64; 3], threads: u64, lanes: u64) -> u64 {
    let items = global.iter().product::<u64>() / (2 * GROUPS_OF_A_CPU * threads);
    (items / lanes.max(1)).max(1) * lanes.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As for the pack that it was better than: asked for were groups across its rows.
    #[test]
    fn scalar_code_has_rows() {
        for lanes in [1, 16] {
            assert_eq!(unseen([64, 64, 64], [1, 4, 64], 2, lanes, false), [16, 4, 1], "{lanes}");
        }
        // Few work-items, which take long, are shared out.
        assert_eq!(unseen([8, 1, 1], [8, 1, 1], 2, 1, false), [2, 1, 1]);
    }

    #[test]
    fn chosen_groups_divide_fit_and_fill_vectors() {
        let sizes = [1, 2, 7, 16, 60, 97, 100, 1000, 1009, 1024, 1920, 4096, 65537, 1 << 20];
        for x in sizes {
            for y in [1, 3, 64, 1080] {
                for (most, threads) in [(4096, 2), (4096, 64), (32, 8), (1, 4)] {
                    let local = good([x, y, 1], most, threads);
                    assert!(x.is_multiple_of(local[0]) && y.is_multiple_of(local[1]) && local[2] == 1);
                    assert!(local.iter().product::<u64>() <= most, "{x} {y}: {local:?}");
                }
            }
        }
        assert_eq!(good([1 << 20, 1, 1], 4096, 2), [256, 1, 1]);
        assert_eq!(good([1920, 1080, 1], 4096, 2), [240, 1, 1]);
        assert_eq!(good([1024, 1, 1], 4096, 64), [64, 1, 1]);
        assert_eq!(good([1009, 1, 1], 4096, 2), [1009, 1, 1]);
        assert_eq!(good([4, 1024, 1], 4096, 2), [4, 64, 1]);
    }

    #[test]
    fn prime_ranges_get_whole_groups_where_the_last_may_be_smaller() {
        let chosen = |global: [u64; 3]| better(global, good(global, 4096, 2), 4096, 2);
        assert_eq!(chosen([65537, 1, 1]), [256, 1, 1]);
        assert_eq!(chosen([1009, 1, 1]), [1009, 1, 1]);
        assert_eq!(chosen([4, 1024, 1]), [4, 64, 1]);
        assert_eq!(chosen([7, 1, 1]), [7, 1, 1]);
    }

    #[test]
    fn rows_without_divisors_are_split() {
        let launch = |global_size: [u64; 3]| {
            let local_size = unseen(global_size, good(global_size, 4096, 2), 2, 16, false);
            Launch::whole(2, [5, 6, 7], global_size, local_size)
        };
        for (width, height) in [(1_000_003, 1), (65537, 16), (2 * 1_000_003, 3), (4099, 1)] {
            let (most, rest) = split(&launch([width, height, 1]), Rows::along(0), (2, 16), false).unwrap();
            assert!(most.local_size[0] >= 64, "{width}: {most:?}");
            let done = most.local_size[0] * most.group_count[0];
            assert_eq!(most.global_offset, [5, 6, 7]);
            assert_eq!((rest.global_offset, rest.local_size[0]), ([5 + done, 6, 7], width - done));
            assert_eq!((most.group_count[1], rest.group_count), (height, [1, height, 1]));
            assert_eq!([most, rest].map(|part| part.global_size), [[width, height, 1]; 2]);
        }
        for (width, height) in [(1 << 20, 1), (1009, 3), (4, 1024), (7, 65537), (1920, 1080)] {
            assert!(split(&launch([width, height, 1]), Rows::along(0), (2, 16), false).is_none(), "{width}");
        }
    }

    #[test]
    fn a_long_launch_of_one_group_is_for_all_cpus() {
        let launch = |width: u64| {
            let local = unseen([width, 1, 1], [width, 1, 1], 2, 16, false);
            Launch::whole(1, [3, 0, 0], [width, 1, 1], local)
        };
        let parts = |width, lanes, takes_long| {
            let parts = split(&launch(width), Rows::along(0), (2, lanes), takes_long)?;
            let [most, rest] = <[Launch; 2]>::from(parts);
            assert_eq!(rest.global_offset[0], 3 + most.local_size[0] * most.group_count[0]);
            Some([most.local_size[0], most.group_count[0], rest.local_size[0]])
        };
        assert_eq!(parts(601, 1, true), Some([75, 8, 1]));
        assert_eq!(parts(601, 16, true), Some([64, 9, 25]));
        assert_eq!(parts(17, 1, true), Some([2, 8, 1]));
        assert_eq!(parts(17, 16, true), Some([16, 1, 1]));
        assert_eq!(parts(601, 1, false), None);
        assert_eq!(parts(600, 1, true), None, "it has a group for each");
        assert_eq!(parts(1, 1, true), None);
    }

    #[test]
    fn rows_may_lie_in_any_dimension() {
        for dimension in 0..3 {
            let rows = Rows::along(dimension);
            let sizes = [2, 3, 4];
            assert_eq!(rows.back(rows.first(sizes)), sizes);
            assert_eq!(rows.first(sizes)[0], sizes[usize::from(dimension)]);
            let global_size = rows.back([1_000_003, 5, 1]);
            let launch = Launch::whole(3, rows.back([5, 6, 7]), global_size, [1, 1, 1]);
            let (most, rest) = split(&launch, rows, (2, 16), false).unwrap();
            let done = rows.first(most.local_size)[0] * rows.first(most.group_count)[0];
            assert_eq!(most.local_size, rows.back([256, 1, 1]));
            assert_eq!(rest.global_offset, rows.back([5 + done, 6, 7]));
            assert_eq!(rest.group_count, rows.back([1, 5, 1]));
            assert_eq!(rest.local_size, rows.back([1_000_003 - done, 1, 1]));
        }
    }

    #[test]
    fn few_large_groups_are_divided() {
        assert_eq!(unseen([512, 1, 1], [256, 1, 1], 2, 16, false), [128, 1, 1]);
        assert_eq!(unseen([512, 1, 1], [256, 1, 1], 64, 16, false), [16, 1, 1]);
        assert_eq!(unseen([256, 32, 2], [256, 8, 2], 2, 16, false), [256, 8, 2]);
        assert_eq!(unseen([256, 32, 2], [256, 16, 2], 2, 16, false), [256, 16, 1]);
        assert_eq!(unseen([96, 1, 1], [96, 1, 1], 2, 16, false), [48, 1, 1]);
        assert_eq!(unseen([7, 1, 1], [7, 1, 1], 2, 16, false), [7, 1, 1]);
        assert_eq!(unseen([1 << 20, 1, 1], [256, 1, 1], 64, 16, false), [256, 1, 1]);
        // Code may get better between them.
        assert_eq!(unseen([2048, 1, 1], [256, 1, 1], 2, 16, true), [64, 1, 1]);
        assert_eq!(unseen([1 << 20, 1, 1], [256, 1, 1], 2, 16, true), [256, 1, 1]);
    }

    #[test]
    fn few_work_items_are_shared_out() {
        let shares = |global: [u64; 3]| shared_out(global, global, 2, 16);
        assert_eq!(shares([2, 1, 1]), [1, 1, 1]);
        assert_eq!(shares([8, 1, 1]), [4, 1, 1]);
        assert_eq!(shares([7, 1, 1]), [1, 1, 1], "there is no half");
        assert_eq!(shares([2, 1, 6]), [2, 1, 3]);
        assert_eq!(shares([7, 2, 1]), [7, 1, 1], "rows stay whole");
        assert_eq!(shares([1, 1, 1]), [1, 1, 1]);
        assert_eq!(shares([16, 1, 1]), [16, 1, 1], "a pack");
        assert_eq!(shared_out([8, 1, 1], [4, 1, 1], 2, 16), [4, 1, 1], "two groups for two");
        assert_eq!(shared_out([8, 1, 1], [8, 1, 1], 64, 16), [1, 1, 1]);
    }

    #[test]
    fn unseen_groups_have_rows_that_fill_lanes() {
        assert_eq!(unseen([512, 512, 1], [32, 8, 1], 2, 16, false), [32, 8, 1]);
        assert_eq!(unseen([512, 512, 1], [8, 8, 1], 2, 16, false), [16, 8, 1]);
        assert_eq!(unseen([512, 512, 1], [1, 256, 1], 2, 16, false), [256, 1, 1]);
        assert_eq!(unseen([1920, 1080, 1], [10, 10, 1], 2, 16, false), [80, 10, 1]);
        assert_eq!(unseen([1000, 1, 1], [8, 1, 1], 2, 16, false), [250, 1, 1]);
        assert_eq!(unseen([10_007, 3, 1], [1, 1, 1], 2, 16, false), [10_007, 1, 1]);
        // Packs of double.
        assert_eq!(unseen([512, 512, 1], [8, 8, 1], 2, 8, false), [8, 8, 1]);
        assert_eq!(unseen([512, 512, 1], [4, 8, 1], 2, 8, false), [8, 8, 1]);
        // Scalar code.
        assert_eq!(unseen([1000, 1000, 1], [5, 5, 1], 2, 1, false), [5, 5, 1]);
        // One CPU of two, three of four would have nothing to do.
        assert_eq!(unseen([10_007, 1, 1], [1, 1, 1], 2, 16, false), [1, 1, 1]);
        assert_eq!(unseen([16, 4, 1], [4, 2, 1], 4, 16, false), [16, 1, 1]);
        assert_eq!(unseen([8, 8, 8], [2, 2, 2], 2, 16, false), [8, 8, 1]);
        assert_eq!(unseen([10, 10, 1024], [2, 2, 1], 2, 16, false), [10, 10, 1]);
        assert_eq!(unseen([12, 1000, 1], [1, 1, 1], 2, 16, false), [12, 20, 1]);
        assert_eq!(unseen([12, 2, 1], [4, 1, 1], 8, 16, false), [4, 1, 1]);
        assert_eq!(unseen([1 << 40, 1, 1], [1 << 40, 1, 1], 2, 16, false), [1 << 38, 1, 1]);
        for x in 1..200 {
            for local in (1..=x).filter(|&local| x % local == 0) {
                let got = unseen([x, 6, 2], [local, 3, 1], 2, 16, false);
                assert!(x % got[0] == 0 && 6 % got[1] == 0 && 2 % got[2] == 0, "{x} {local}: {got:?}");
            }
        }
    }
}
