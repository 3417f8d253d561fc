//! How long launches of a kernel take, from what earlier ones took.

use spirula_interface::tier::Tier;
use std::sync::atomic::{AtomicU64, Ordering};

/// A launch that is expected to take less runs on one thread.
pub(crate) const WORTH_WAKING_NS: u64 = 15_000;
/// A launch that is known to take less runs in one piece.
const TRIVIAL_NS: u64 = 1_000;
/// A guess for kernels that have not run yet.
const UNKNOWN_ITEM_PS: u64 = 10_000;
/// Set where the number is of optimized code; below it stands the number.
const OPTIMIZED: u64 = 1 << 32;

/// What earlier launches of a kernel took: picoseconds per work-item on one thread, in the best code that was measured.
#[derive(Debug)]
pub(crate) struct Pace(AtomicU64);

fn flag(tier: Tier) -> u64 {
    match tier {
        Tier::Baseline => 0,
        Tier::Optimized => OPTIMIZED,
    }
}

impl Pace {
    /// Of a kernel that is in code of that tier at first.
    pub(crate) fn new(tier: Tier) -> Pace {
        Pace(AtomicU64::new(UNKNOWN_ITEM_PS | flag(tier)))
    }

    /// Nanoseconds that so many work-items are expected to take on one thread.
    pub(crate) fn estimate_ns(&self, items: u64) -> u64 {
        let known = self.0.load(Ordering::Relaxed) & u64::from(u32::MAX);
        items.saturating_mul(known) / 1000
    }

    /// Work-items that are expected to take so long on one thread; none if nothing is known.
    pub(crate) fn items_in(&self, ns: u64) -> u64 {
        let known = self.0.load(Ordering::Relaxed) & u64::from(u32::MAX);
        if self.is_known() { ns.saturating_mul(1000) / known.max(1) } else { 0 }
    }

    /// Whether `items` are expected to take less than waking a thread is worth.
    pub(crate) fn is_short(&self, items: u64) -> bool {
        self.estimate_ns(items) < WORTH_WAKING_NS
    }

    /// Whether `items` are known to take so little that looking how long they take would take longer.
    pub(crate) fn is_trivial(&self, items: u64) -> bool {
        self.is_known() && self.estimate_ns(items) < TRIVIAL_NS
    }

    /// Whether some launch was measured.
    pub(crate) fn is_known(&self) -> bool {
        self.0.load(Ordering::Relaxed) & u64::from(u32::MAX) != UNKNOWN_ITEM_PS
    }

    /// Takes in that `items` took `ns` in code of that tier; half of the old value stays, if it is of the same. What slower
    /// code took, which a launch has left meanwhile, is of no interest.
    pub(crate) fn learn(&self, tier: Tier, items: u64, ns: u64) {
        let measured = (ns.saturating_mul(1000) / items.max(1)).min(u32::MAX.into());
        let known = self.0.load(Ordering::Relaxed);
        let old = known & u64::from(u32::MAX);
        let new = match (known & OPTIMIZED).cmp(&flag(tier)) {
            std::cmp::Ordering::Greater => return,
            std::cmp::Ordering::Equal => (old + measured) / 2,
            std::cmp::Ordering::Less => measured,
        };
        self.0.store(new | flag(tier), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_estimate_follows_the_code() {
        let pace = Pace::new(Tier::Baseline);
        assert_eq!(pace.estimate_ns(100), 1000);
        for _ in 0..40 {
            pace.learn(Tier::Baseline, 10, 1_000_000);
        }
        assert!(pace.estimate_ns(1) > 99_000 && !pace.is_short(1));
        pace.learn(Tier::Optimized, 10, 100);
        assert_eq!(pace.estimate_ns(1), 10, "at once");
        pace.learn(Tier::Baseline, 10, 1_000_000);
        assert_eq!(pace.estimate_ns(1), 10, "a straggler's measure");
        pace.learn(Tier::Optimized, 10, 300);
        assert_eq!(pace.estimate_ns(1), 20);
        assert_eq!((pace.items_in(1000), Pace::new(Tier::Optimized).items_in(1000)), (50, 0));
        assert!(pace.is_trivial(1) && !pace.is_trivial(100) && !Pace::new(Tier::Optimized).is_trivial(1));
        pace.learn(Tier::Optimized, 1, u64::MAX);
        assert!(pace.estimate_ns(u64::MAX) > 0);
    }
}
