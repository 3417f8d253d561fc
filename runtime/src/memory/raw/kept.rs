//! Memory of buffers that were released, for the next ones of that size. Applications make a buffer for each step of what they compute, and
//! the system would clear all of its pages each time, which takes several times as long as a kernel that fills them. (OpenCV keeps
//! buffers itself, but only for devices of Intel's.) Memory that nobody takes for a while is given back when the next is kept.

#![allow(unsafe_code)]

use super::PAGE;
use crate::machine;
use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
use std::collections::VecDeque;
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// Less than that allocators keep themselves.
const LEAST: usize = 128 << 10;
/// So many bytes are kept at most, and no more than such a part of what the process can use.
const MOST: usize = 128 << 20;
const PART: u64 = 32;
/// Who needs it no sooner makes no buffer for each step. (To tell the system that it may take it, MADV_FREE, takes as long as a kernel that
/// fills it.)
const A_WHILE: Duration = Duration::from_secs(5);

/// Memory of the allocator's.
#[derive(Debug)]
pub(super) struct Block {
    start: NonNull<u8>,
    layout: Layout,
}

// SAFETY: it is plain memory that this value owns.
unsafe impl Send for Block {}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout, and owned by this value.
        unsafe { dealloc(self.start.as_ptr(), self.layout) }
    }
}

impl Block {
    /// Memory that nothing is in yet; None when the system has none.
    pub(super) fn new(layout: Layout) -> Option<Block> {
        Block::with(layout, alloc)
    }

    /// Memory of zeros, which is none until it is written to; None when the system has none.
    pub(super) fn zeroed(layout: Layout) -> Option<Block> {
        Block::with(layout, alloc_zeroed)
    }

    /// What is kept is given back where there is no other memory.
    fn with(layout: Layout, allocate: unsafe fn(Layout) -> *mut u8) -> Option<Block> {
        assert!(layout.size() > 0, "no memory is no block");
        // SAFETY: the layout's size isn't zero, which is all that both allocators ask for.
        let allocated = || NonNull::new(unsafe { allocate(layout) });
        let start = allocated().or_else(|| {
            let given_back = kept().give_back(usize::MAX);
            drop(given_back); // Behind the lock, which others wait for.
            allocated()
        })?;
        Some(Block { start, layout })
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    fn size(&self) -> usize {
        self.layout.size()
    }
}

/// Memory with anything in it that was kept, if there is some.
pub(super) fn take(layout: Layout) -> Option<Block> {
    if layout.size() < LEAST {
        return None;
    }
    kept().take(layout)
}

/// Nobody needs the block's contents any longer.
pub(super) fn keep(block: Block) {
    static LIMIT: OnceLock<usize> = OnceLock::new();
    let part = || usize::try_from(machine::memory_size() / PART).unwrap_or(MOST).min(MOST);
    // (Of zeros there are none of that alignment.)
    if block.size() < LEAST || block.layout.align() < PAGE {
        return;
    }
    let limit = *LIMIT.get_or_init(part);
    let given_back = kept().keep(block, Instant::now(), limit);
    drop(given_back); // Behind the lock, which others wait for.
}

fn kept() -> MutexGuard<'static, Kept> {
    static KEPT: Mutex<Kept> = Mutex::new(Kept { blocks: VecDeque::new(), bytes: 0 });
    KEPT.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is kept, the oldest first.
#[derive(Debug, Default)]
struct Kept {
    blocks: VecDeque<(Block, Instant)>,
    bytes: usize,
}

impl Kept {
    /// The youngest, of which most may be in a cache.
    fn take(&mut self, layout: Layout) -> Option<Block> {
        let place = self.blocks.iter().rposition(|(block, _)| block.layout == layout)?;
        let (block, _) = self.blocks.remove(place)?;
        self.bytes -= block.size();
        Some(block)
    }

    /// Keeps it from now on, and no more than so many bytes in all. Yields what is to be given back.
    #[must_use]
    fn keep(&mut self, block: Block, now: Instant, most: usize) -> Vec<Block> {
        let old = |(_, since): &&(Block, Instant)| now.duration_since(*since) > A_WHILE;
        let old_bytes = self.blocks.iter().take_while(old).map(|(block, _)| block.size()).sum();
        let mut given_back = self.give_back(old_bytes);
        if block.size() > most {
            given_back.push(block);
            return given_back;
        }
        given_back.extend(self.give_back((self.bytes + block.size()).saturating_sub(most)));
        self.bytes += block.size();
        self.blocks.push_back((block, now));
        given_back
    }

    /// Yields so many bytes at least, or all.
    #[must_use]
    fn give_back(&mut self, bytes: usize) -> Vec<Block> {
        let goal = self.bytes.saturating_sub(bytes);
        let mut given_back = Vec::new();
        while self.bytes > goal
            && let Some((oldest, _)) = self.blocks.pop_front()
        {
            self.bytes -= oldest.size();
            given_back.push(oldest);
        }
        given_back
    }
}

#[cfg(test)]
mod tests {
    use super::super::Allocation;
    use super::*;

    fn layout(size: usize) -> Layout {
        Layout::from_size_align(size, PAGE).unwrap()
    }

    #[test]
    fn memory_of_a_size_is_used_again_and_the_oldest_is_given_back() {
        let mut kept = Kept::default();
        let [first, second, third, other] =
            [2, 2, 2, 3].map(|parts| Block::new(layout(parts * LEAST)).unwrap());
        let [at_second, at_third] = [&second, &third].map(Block::start);
        let now = Instant::now();
        let given_back = [first, second, other, third].map(|block| kept.keep(block, now, 7 * LEAST).len());
        assert_eq!(given_back, [0, 0, 0, 1]);
        assert_eq!((kept.blocks.len(), kept.bytes), (3, 7 * LEAST), "the first had to go");
        assert!(kept.take(layout(4 * LEAST)).is_none());
        assert!(kept.take(Layout::from_size_align(2 * LEAST, 2 * PAGE).unwrap()).is_none());
        let taken = [(); 2].map(|()| kept.take(layout(2 * LEAST)).unwrap());
        assert_eq!(taken.each_ref().map(Block::start), [at_third, at_second]);
        assert!(kept.take(layout(2 * LEAST)).is_none());
        let in_time = now + A_WHILE;
        assert_eq!(kept.keep(Block::new(layout(8 * LEAST)).unwrap(), in_time, 7 * LEAST).len(), 1);
        let what = "nothing is given back for what is too large";
        assert_eq!((kept.blocks.len(), kept.bytes), (1, 3 * LEAST), "{what}");
        assert_eq!(kept.keep(Block::new(layout(LEAST)).unwrap(), in_time + A_WHILE, 7 * LEAST).len(), 1);
        assert_eq!((kept.blocks.len(), kept.bytes), (1, LEAST), "nobody took the other in time");
        assert_eq!(kept.give_back(usize::MAX).len(), 1);
        assert_eq!((kept.blocks.len(), kept.bytes), (0, 0));
    }

    #[test]
    fn an_allocation_takes_what_another_left() {
        // (Of such an odd size no other test has memory.)
        let made = || Allocation::new(11 * LEAST + 3 * PAGE, PAGE).unwrap();
        let first = made();
        let address = first.start;
        drop(first);
        assert_eq!(made().start, address);
    }

    #[test]
    fn what_is_small_or_zero_is_not_kept() {
        let sizes = [layout(LEAST - PAGE), Layout::from_size_align(5 * LEAST + 16, 16).unwrap()];
        for layout in sizes {
            keep(Block::new(layout).unwrap());
            assert!(take(layout).is_none());
        }
    }
}
