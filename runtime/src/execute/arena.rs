//! Each thread's memory for the work-groups it runs: local memory and scratch, reused from launch to launch.

use crate::memory::pool::Pool;
use crate::memory::raw::{Allocation, PAGE, Span};
use std::cell::Cell;

/// Alignment of what generated code is given.
pub(crate) const BLOCK_ALIGN: usize = 128;
/// Bytes that belong to nobody before local memory, behind it and behind scratch: kernels that miss their local arrays by a few elements,
/// as `counts[vote - 1]` does with a vote of 0, would hit the allocator's own words there.
const MARGIN: usize = BLOCK_ALIGN;
/// Scratch of a work-group; larger groups of a kernel that needs more are refused.
pub(crate) const MAX_SCRATCH: u64 = 64 << 20;
/// What a thread keeps between launches at most.
const KEPT: usize = 8 << 20;

thread_local! {
    static SPARE: Cell<Option<Arena>> = const { Cell::new(None) };
}

/// Local memory and scratch of one thread.
#[derive(Debug)]
pub(crate) struct Arena {
    memory: Allocation,
    /// Where it is from.
    pool: Pool,
}

impl Arena {
    /// Takes the thread's arena, one that others have given back to a pool that is shared, or a new one, with room for both. None
    /// without memory.
    pub(crate) fn take(pool: &Pool, local_size: usize, scratch_size: usize) -> Option<Arena> {
        let size = needed(local_size, scratch_size)?;
        let spare = match pool.is_shared() {
            true => pool.take_spare(size).map(|memory| Arena { memory, pool: pool.clone() }),
            false => SPARE.take().filter(|arena| arena.memory.span().len() >= size),
        };
        match spare {
            Some(arena) => Some(arena),
            None => {
                let memory = pool.allocate(size.checked_next_multiple_of(PAGE)?, PAGE)?;
                memory.span().provide_pages();
                Some(Arena { memory, pool: pool.clone() })
            }
        }
    }

    /// Makes room for both, with other memory if it must. Whether there is any.
    pub(crate) fn make_room(&mut self, local_size: usize, scratch_size: usize) -> bool {
        if needed(local_size, scratch_size).is_some_and(|needed| needed <= self.memory.span().len()) {
            return true;
        }
        match Arena::take(&self.pool, local_size, scratch_size) {
            Some(larger) => *self = larger,
            None => return false,
        }
        true
    }

    /// Gives it back to the thread for the next launch, unless it is excessive.
    pub(crate) fn give_back(self) {
        match self.memory.span().len() <= KEPT {
            true if self.pool.is_shared() => self.pool.keep(self.memory),
            true => SPARE.set(Some(self)),
            false => {}
        }
    }

    /// Local memory and scratch, both aligned to 128.
    pub(crate) fn parts(&mut self, local_size: usize, scratch_size: usize) -> (Span<'_>, Span<'_>) {
        let memory = self.memory.span();
        let behind = scratch_place(local_size).unwrap_or(memory.len()).min(memory.len());
        (memory.slice(MARGIN, local_size), memory.slice(behind, scratch_size))
    }
}

/// Where scratch begins.
fn scratch_place(local_size: usize) -> Option<usize> {
    local_size.checked_next_multiple_of(BLOCK_ALIGN)?.checked_add(2 * MARGIN)
}

/// The size of an arena for both.
fn needed(local_size: usize, scratch_size: usize) -> Option<usize> {
    scratch_place(local_size)?.checked_add(scratch_size)?.checked_add(MARGIN)
}

#[cfg(test)]
#[allow(unsafe_code)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_apart_and_aligned() {
        for (local, scratch) in [(0, 0), (1, 1), (130, 4096), (4096, 0)] {
            let mut arena = Arena::take(&Pool::default(), local, scratch).unwrap();
            let (a, b) = arena.parts(local, scratch);
            assert_eq!((a.address() as usize % 128, b.address() as usize % 128), (0, 0));
            assert_eq!((a.len(), b.len(), a.overlaps(b)), (local, scratch, false));
            arena.give_back();
        }
    }

    /// What lies before and behind either is nobody's: the arena's first and last bytes aren't handed out, and no two parts touch.
    #[test]
    fn parts_have_margins() {
        for (local, scratch) in [(128, 128), (PAGE - 3 * MARGIN, 0), (PAGE, PAGE)] {
            let mut arena = Arena::take(&Pool::default(), local, scratch).unwrap();
            let (start, end) = (arena.memory.span().address() as usize, arena.memory.span().len());
            let (a, b) = arena.parts(local, scratch);
            let [a, b] = [a, b].map(|part| part.address() as usize - start);
            assert!(a >= MARGIN && b >= a + local + MARGIN && b + scratch + MARGIN <= end, "{a} {b} {end}");
        }
    }

    #[test]
    fn its_pages_are_there() {
        let arena = Arena::take(&Pool::default(), 40 * PAGE, 0).unwrap();
        let memory = arena.memory.span();
        let mut resident = vec![0_u8; memory.len() / PAGE];
        // SAFETY: the pages are the arena's, and there is a byte for each.
        let asked = unsafe { libc::mincore(memory.address().cast(), memory.len(), resident.as_mut_ptr()) };
        assert_eq!((asked, resident.iter().all(|page| page & 1 == 1)), (0, true));
    }

    #[test]
    fn a_thread_reuses_its_arena_but_not_an_excessive_one() {
        let mut arena = Arena::take(&Pool::default(), 100, 5000).unwrap();
        let address = arena.parts(1, 1).0.address();
        arena.give_back();
        let mut again = Arena::take(&Pool::default(), 5000, 100).unwrap();
        assert_eq!(again.parts(1, 1).0.address(), address);
        Arena::take(&Pool::default(), KEPT, 1).unwrap().give_back();
        assert!(SPARE.take().is_none());
    }
}
