//! Which thread runs which work-groups of a launch.

use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A chunk is this part of what its share has left, or less.
const LARGEST_PART: u64 = 4;
/// And not less than this.
const SMALLEST_PART: u64 = 64;
/// A share has a part more for each so many nanoseconds that it takes: there are about five chunks of a part, and each costs 100 ns, so
/// that all cost about a hundredth of the launch.
const PART_NS: u64 = 50_000;

/// The groups that nobody has taken, in a share for each thread.
pub(super) struct Shares {
    shares: Vec<Share>,
    /// Whether each is run from its end.
    backwards: bool,
    /// Groups in a chunk, unless less are left.
    least: u64,
    /// A chunk is this part of what is left.
    part: u64,
}

/// On a cache line of its own.
#[repr(align(128))]
struct Share(Mutex<Range<u64>>);

impl Share {
    fn lock(&self) -> MutexGuard<'_, Range<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn left(&self) -> u64 {
        let left = self.lock();
        left.end - left.start
    }
}

impl Shares {
    /// As equal as they can be, to be run from their beginnings or from their ends.
    pub(super) fn new(groups: Range<u64>, threads: usize, backwards: bool) -> Shares {
        let (count, threads) = (groups.end - groups.start, threads as u64);
        let border = |number: u64| groups.start + count / threads * number + (count % threads).min(number);
        let share = |number| Share(Mutex::new(border(number)..border(number + 1)));
        Shares { shares: (0..threads).map(share).collect(), backwards, least: 1, part: LARGEST_PART }
    }

    /// With chunks of so many groups at least, until less are left.
    pub(super) fn of_at_least(self, least: u64) -> Shares {
        Shares { least: least.max(1), ..self }
    }

    /// With chunks for shares that take about so long each. What takes long may have all its work in its first groups, and nobody takes
    /// them from who has them in one chunk.
    pub(super) fn that_take(self, ns: u64) -> Shares {
        Shares { part: (ns / PART_NS).clamp(LARGEST_PART, SMALLEST_PART), ..self }
    }

    /// A chunk of so many groups at most that nobody else gets: of the thread's own share, or of the far end of the largest.
    pub(super) fn take(&self, own: usize, most: u64) -> Option<Range<u64>> {
        let own = &self.shares[own % self.shares.len()];
        if let Some(chunk) = self.cut(&mut own.lock(), most, self.backwards) {
            return Some(chunk);
        }
        loop {
            let (largest, left) =
                self.shares.iter().map(|share| (share, share.left())).max_by_key(|(_, left)| *left)?;
            if left == 0 {
                return None;
            }
            if let Some(chunk) = self.cut(&mut largest.lock(), most, !self.backwards) {
                return Some(chunk);
            }
        }
    }

    /// Takes a chunk of so many groups at most from one end of what is left of a share.
    fn cut(&self, left: &mut Range<u64>, most: u64, at_end: bool) -> Option<Range<u64>> {
        if left.is_empty() {
            return None;
        }
        let Range { start, end } = *left;
        let most = most.max(1).min(end - start);
        let size = ((end - start) / self.part).clamp(self.least.min(most), most);
        let (chunk, rest) = match at_end {
            true => (end - size..end, start..end - size),
            false => (start..start + size, start + size..end),
        };
        *left = rest;
        Some(chunk)
    }

    /// Groups of that thread's share that nobody has taken.
    pub(super) fn left(&self, own: usize) -> u64 {
        self.shares[own % self.shares.len()].left()
    }

    /// Whether all are taken.
    pub(super) fn are_empty(&self) -> bool {
        self.shares.iter().all(|share| share.lock().is_empty())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_shrink_and_cover() {
        for (groups, threads) in [(1, 2), (5, 2), (1000, 2), (12345, 16), (u64::MAX, 3)] {
            let shares = Shares::new(0..groups, threads, false);
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
    fn chunks_are_not_too_short_to_be_worth_it() {
        let shares = Shares::new(0..1000, 1, false).of_at_least(100);
        let chunks: Vec<Range<u64>> = std::iter::from_fn(|| shares.take(0, u64::MAX)).collect();
        let sizes: Vec<u64> = chunks.iter().map(|chunk| chunk.end - chunk.start).collect();
        assert_eq!(sizes, [250, 187, 140, 105, 100, 100, 100, 18]);
        // Who may not take so many takes what he may.
        let shares = Shares::new(0..1000, 1, false).of_at_least(100);
        assert_eq!(shares.take(0, 7), Some(0..7));
    }

    #[test]
    fn long_shares_have_more_and_shorter_chunks() {
        let first = |ns| Shares::new(0..1024, 2, false).that_take(ns).take(0, u64::MAX);
        assert_eq!([0, 199_999, 250_000].map(first), [Some(0..128), Some(0..128), Some(0..102)]);
        assert_eq!([1_000_000, u64::MAX].map(first), [Some(0..25), Some(0..8)]);
        let long = Shares::new(0..1024, 2, false).that_take(u64::MAX);
        assert!(std::iter::from_fn(|| long.take(0, u64::MAX)).count() < 1024 / 2);
    }

    #[test]
    fn each_thread_begins_with_its_own_and_helps_at_the_ends_of_others() {
        let shares = Shares::new(100..180, 2, false);
        assert_eq!((shares.take(0, u64::MAX), shares.take(1, 3)), (Some(100..110), Some(140..143)));
        while shares.take(1, u64::MAX).is_some_and(|chunk| chunk.start >= 140) {}
        assert_eq!(shares.take(0, u64::MAX).map(|chunk| chunk.start), Some(110));
        let stolen = shares.take(1, 2).unwrap();
        assert!(stolen.start > 120 && stolen.end - stolen.start == 2, "{stolen:?}");
    }

    #[test]
    fn backwards_each_thread_runs_the_same_groups_from_their_end() {
        let shares = Shares::new(100..180, 2, true);
        assert_eq!((shares.take(0, u64::MAX), shares.take(1, 3)), (Some(130..140), Some(177..180)));
        while shares.take(1, u64::MAX).is_some_and(|chunk| chunk.start >= 140) {}
        let stolen = shares.take(1, 2).unwrap();
        assert!(stolen.start < 110 && stolen.end - stolen.start == 2, "{stolen:?}");
        let mut left: Vec<u64> = std::iter::from_fn(|| shares.take(0, u64::MAX)).flatten().collect();
        left.sort();
        left.dedup();
        assert!(left.len() < 30 && left.iter().all(|group| (100..130).contains(group)), "{left:?}");
    }
}
