//! Which parts of a stretch of numbers are free: best fit, neighbours joined.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The parts that are free.
#[derive(Debug)]
pub(super) struct FreeList {
    /// Sizes by where they begin.
    parts: BTreeMap<usize, usize>,
    /// The same, as size and beginning.
    by_size: BTreeSet<(usize, usize)>,
}

impl FreeList {
    /// All of it.
    pub(super) fn new(all: Range<usize>) -> FreeList {
        let mut list = FreeList { parts: BTreeMap::new(), by_size: BTreeSet::new() };
        list.insert(all.start, all.len());
        list
    }

    fn insert(&mut self, start: usize, size: usize) {
        if size > 0 {
            self.parts.insert(start, size);
            self.by_size.insert((size, start));
        }
    }

    fn remove(&mut self, start: usize) -> Option<usize> {
        let size = self.parts.remove(&start)?;
        self.by_size.remove(&(size, start));
        Some(size)
    }

    /// Takes `size` from a multiple of `align`, a power of two, out of the smallest part that has them.
    pub(super) fn take(&mut self, size: usize, align: usize) -> Option<usize> {
        let fits = |&(room, start): &(usize, usize)| {
            let at = start.checked_next_multiple_of(align)?;
            (at - start).checked_add(size).filter(|&needed| needed <= room).map(|_| (start, room, at))
        };
        let (start, room, at) = self.by_size.range((size, 0)..).find_map(fits)?;
        self.remove(start);
        self.insert(start, at - start);
        self.insert(at + size, room - (at - start) - size);
        Some(at)
    }

    /// Takes back what was taken.
    pub(super) fn give_back(&mut self, start: usize, size: usize) {
        let (mut start, mut size) = (start, size);
        if let Some(next) = self.remove(start + size) {
            size += next;
        }
        let before = self.parts.range(..start).next_back().map(|(&at, &size)| (at, size));
        if let Some((at, room)) = before.filter(|(at, room)| at + room == start) {
            self.remove(at);
            (start, size) = (at, size + room);
        }
        self.insert(start, size);
    }

    /// Those that are no smaller.
    pub(super) fn parts_from(&self, size: usize) -> impl Iterator<Item = Range<usize>> {
        self.by_size.range((size, 0)..).map(|&(size, start)| start..start + size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_smallest_part_that_fits_is_taken_and_neighbours_join() {
        let mut list = FreeList::new(0..1000);
        let all: Vec<usize> = (0..5).map(|_| list.take(100, 1).unwrap()).collect();
        assert_eq!(all, [0, 100, 200, 300, 400]);
        list.give_back(100, 100);
        list.give_back(300, 100);
        assert_eq!((list.take(50, 1), list.take(60, 1)), (Some(100), Some(300)), "not the rest of all");
        list.give_back(100, 50);
        list.give_back(300, 60);
        list.give_back(200, 100);
        assert_eq!(list.take(300, 1), Some(100));
        assert_eq!((list.take(10, 512), list.take(1000, 1)), (Some(512), None));
        for (start, size) in [(512, 10), (0, 100), (400, 100), (100, 300)] {
            list.give_back(start, size);
        }
        assert_eq!((list.take(1000, 1), list.take(1, 1)), (Some(0), None));
    }

    /// Objects of every size that come and go in a random order, a quarter of all in use: half of all stays in one piece.
    #[test]
    fn a_long_run_leaves_room_for_large_ones() {
        const ALL: usize = 1 << 32;
        let mut state = 1_u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        let mut list = FreeList::new(0..ALL);
        let (mut live, mut used): (Vec<(usize, usize)>, usize) = (Vec::new(), 0);
        for turn in 0..300_000 {
            let size = (random(1 << 12) + 1) << random(14) & !127;
            let size = size.max(128);
            // What is in use grows and shrinks, by far and near.
            let most = if turn / 50_000 % 2 == 0 { ALL / 4 } else { ALL / 64 };
            while used + size > most {
                let (start, size) = live.swap_remove(random(live.len()));
                list.give_back(start, size);
                used -= size;
            }
            let align = if size < 4096 { 128 } else { 4096 };
            let start = list.take(size, align).expect("there is room");
            assert_eq!(start % align, 0);
            live.push((start, size));
            used += size;
            if turn % 1000 == 0 {
                assert!(list.parts_from(ALL / 2).next().is_some(), "in pieces after {turn} turns");
            }
        }
        live.into_iter().for_each(|(start, size)| list.give_back(start, size));
        assert!(list.parts_from(0).eq(std::iter::once(0..ALL)), "{list:?}");
    }
}
