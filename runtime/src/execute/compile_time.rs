//! How long it takes to make optimized code of a kernel: guessed from its size, and corrected by what others took in this process.

use std::sync::atomic::{AtomicU64, Ordering};

/// For any kernel, and for each of its operations: a guess, right within a factor of two for most.
const ANY_NS: u64 = 15_000_000;
const OPERATION_NS: u64 = 75_000;

/// A ratio of one.
const ONE: u64 = 1 << 10;

/// This process's compilers and processors.
pub(crate) static HERE: CompileTime = CompileTime::new();

/// What kernels took, compared with the guess: the mean of the last few.
pub(crate) struct CompileTime(AtomicU64);

impl CompileTime {
    const fn new() -> CompileTime {
        CompileTime(AtomicU64::new(ONE))
    }

    /// Nanoseconds that a kernel of so many operations is expected to take.
    pub(crate) fn expected_ns(&self, operations: u32) -> u64 {
        guess_ns(operations).saturating_mul(self.0.load(Ordering::Relaxed)) / ONE
    }

    /// Takes in that one took so long.
    pub(crate) fn learn(&self, operations: u32, ns: u64) {
        let measured = ns.saturating_mul(ONE) / guess_ns(operations);
        // One that was held up says little of others.
        let measured = measured.clamp(ONE / 8, ONE * 8);
        self.0.store((3 * self.0.load(Ordering::Relaxed) + measured) / 4, Ordering::Relaxed);
    }
}

fn guess_ns(operations: u32) -> u64 {
    ANY_NS + OPERATION_NS * u64::from(operations)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_expected_follows_what_was_measured() {
        let here = CompileTime::new();
        assert_eq!(here.expected_ns(0), ANY_NS);
        assert!(here.expected_ns(u32::MAX) > here.expected_ns(1000));
        let twice = 2 * here.expected_ns(100);
        for _ in 0..30 {
            here.learn(100, twice);
        }
        assert!(here.expected_ns(100).abs_diff(twice) < twice / 50);
        here.learn(100, u64::MAX);
        assert!(here.expected_ns(100) < 4 * twice, "an exception");
    }
}
