//! Which thread runs which work-groups of a launch.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A chunk is this part of what its share has left.
const PART: u64 = 4;

/// The groups that nobody has taken, in a share for each thread.
pub(super) struct Shares(Vec<Share>);

/// On a cache line of its own.
#[repr(align(128))]
struct Share(Mutex<Range<u64>>);

impl Share {
    fn lock(&self) -> MutexGuard<'_, Range<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shares {
    /// As equal as they can be.
    pub(super) fn new(groups: Range<u64>, threads: usize) -> Shares {
        let (count, threads) = (groups.end - groups.start, threads as u64);
        let border = |number: u64| groups.start + count / threads * number + (count % threads).min(number);
        let share = |number| Share(Mutex::new(border(number)..border(number + 1)));
        Shares((0..threads).map(share).collect())
    }

    /// A chunk of so many groups at most that nobody else gets: of the thread's own share, or of the end of the largest.
    pub(super) fn take(&self, own: usize, most: u64) -> Option<Range<u64>> {
        let own = own % self.0.len();
        let chunk = |left: &Range<u64>| ((left.end - left.start) / PART).max(1).min(most.max(1));
        let mut share = self.0[own].lock();
        if !share.is_empty() {
            let first = share.start;
            share.start += chunk(&share);
            return Some(first..share.start);
        }
        drop(share);
        loop {
            let left = |share: &Share| {
                let left = share.lock();
                left.end - left.start
            };
            let (largest, left) =
                self.0.iter().map(|share| (share, left(share))).max_by_key(|(_, left)| *left)?;
            if left == 0 {
                return None;
            }
            let mut share = largest.lock();
            if !share.is_empty() {
                let end = share.end;
                share.end -= chunk(&share);
                return Some(share.end..end);
            }
        }
    }

    /// Whether all are taken.
    pub(super) fn are_empty(&self) -> bool {
        self.0.iter().all(|share| share.lock().is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_shrink_and_cover() {
        for (groups, threads) in [(1, 2), (5, 2), (1000, 2), (12345, 16), (u64::MAX, 3)] {
            let shares = Shares::new(0..groups, threads);
            assert!(!shares.are_empty());
            let mut chunks: Vec<Range<u64>> = std::iter::from_fn(|| shares.take(0, u64::MAX)).collect();
            assert!(shares.are_empty());
            assert!(chunks.len() < threads * 200, "{} chunks of {groups} groups", chunks.len());
            let mine = chunks.iter().take_while(|chunk| chunk.start < groups / threads as u64);
            let sizes: Vec<u64> = mine.map(|chunk| chunk.end - chunk.start).collect();
            assert!(sizes.is_sorted_by(|a, b| a >= b), "{sizes:?}");
            chunks.sort_by_key(|chunk| chunk.start);
            assert!(chunks.windows(2).all(|pair| pair[0].end == pair[1].start));
            assert_eq!((chunks[0].start, chunks[chunks.len() - 1].end), (0, groups));
        }
    }

    #[test]
    fn each_thread_begins_with_its_own_and_helps_at_the_ends_of_others() {
        let shares = Shares::new(100..180, 2);
        assert_eq!((shares.take(0, u64::MAX), shares.take(1, 3)), (Some(100..110), Some(140..143)));
        while shares.take(1, u64::MAX).is_some_and(|chunk| chunk.start >= 140) {}
        assert_eq!(shares.take(0, u64::MAX).map(|chunk| chunk.start), Some(110));
        let stolen = shares.take(1, 2).unwrap();
        assert!(stolen.start > 120 && stolen.end - stolen.start == 2, "{stolen:?}");
    }
}
