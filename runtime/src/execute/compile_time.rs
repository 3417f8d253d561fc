//! How long it takes to make optimized code of a kernel: guessed from its size, and corrected by what others took in this process.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// For any kernel, and for one of a single operation more: a guess, right within a factor of two for most. Measured on 120 kernels of 5 to
/// 14,000 operations: small ones are loops, of which much is made, large ones long lines of arithmetic.
const ANY_NS: u64 = 15_000_000;
const ROOT_NS: u64 = 1_200_000;

/// The guess counts as much as if so long a compilation had confirmed it: what a small kernel took beyond its guess says little of a
/// large one.
const CONFIRMED_NS: u64 = 200_000_000;
/// Of longer ones together the old count less.
const REMEMBERED_NS: u64 = 10 * CONFIRMED_NS;

/// A ratio of one.
const ONE: u64 = 1 << 10;

/// This process's compilers and processors.
pub(crate) static HERE: CompileTime = CompileTime::new();

/// What kernels took, compared with the guess.
pub(crate) struct CompileTime {
    ratio: AtomicU64,
    totals: Mutex<Totals>,
}

/// Nanoseconds, all kernels together.
struct Totals {
    guessed: u64,
    measured: u64,
}

impl CompileTime {
    const fn new() -> CompileTime {
        let totals = Totals { guessed: CONFIRMED_NS, measured: CONFIRMED_NS };
        CompileTime { ratio: AtomicU64::new(ONE), totals: Mutex::new(totals) }
    }

    /// Nanoseconds that a kernel of so many operations is expected to take.
    pub(crate) fn expected_ns(&self, operations: u32) -> u64 {
        guess_ns(operations).saturating_mul(self.ratio.load(Ordering::Relaxed)) / ONE
    }

    /// Takes in that one took so long.
    pub(crate) fn learn(&self, operations: u32, ns: u64) {
        let guess = guess_ns(operations);
        // One that was held up says little of others.
        let (guessed, measured) =
            (guess.min(REMEMBERED_NS), ns.clamp(guess / 8, guess.saturating_mul(8)).min(8 * REMEMBERED_NS));
        let mut totals = self.totals.lock().unwrap_or_else(PoisonError::into_inner);
        totals.guessed += guessed;
        totals.measured += measured;
        while totals.guessed > REMEMBERED_NS {
            totals.guessed /= 2;
            totals.measured /= 2;
        }
        self.ratio.store(totals.measured.saturating_mul(ONE) / totals.guessed, Ordering::Relaxed);
    }
}

fn guess_ns(operations: u32) -> u64 {
    ANY_NS + ROOT_NS * u64::from(operations).isqrt()
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
        for _ in 0..1000 {
            here.learn(100, twice);
        }
        assert!(here.expected_ns(100).abs_diff(twice) < twice / 50);
        here.learn(100, u64::MAX);
        assert!(here.expected_ns(100) < 2 * twice, "an exception");
        here.learn(u32::MAX, u64::MAX);
        assert!(here.expected_ns(100) < 16 * twice, "even of a large one");
    }

    #[test]
    fn small_kernels_say_little_of_large_ones() {
        let here = CompileTime::new();
        let guess = here.expected_ns(5000);
        here.learn(100, 4 * here.expected_ns(100));
        assert!(here.expected_ns(5000) < guess * 3 / 2, "one of 35 ms that took 140");
    }
}
