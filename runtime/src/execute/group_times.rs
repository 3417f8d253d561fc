//! How long a launch's work-groups take in code that may get better, by the chunks that ran; from that, how long the rest will take.

use std::sync::atomic::{AtomicU64, Ordering};

/// So many groups that take so many nanoseconds of one thread.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Groups {
    pub count: u64,
    pub ns: u64,
}

impl Groups {
    /// How long so many others take, if these say so.
    fn expected_ns(self, count: u64) -> Option<u64> {
        let ns = (u128::from(count) * u128::from(self.ns)).checked_div(self.count.into())?;
        Some(u64::try_from(ns).unwrap_or(u64::MAX))
    }
}

/// What all threads of a launch know.
#[derive(Debug, Default)]
pub(crate) struct GroupTimes {
    ran: Sum,
    /// The same but for each thread's longest chunk, which may have met new pages: where a virtual machine has to ask its host for one,
    /// one group takes as long as a thousand.
    usual: Sum,
    /// What is left of the shares whose threads know how long their groups take: those of another share may take much longer.
    left: Sum,
}

/// What one of them knows.
#[derive(Debug, Default)]
pub(crate) struct OwnTimes {
    longest: Groups,
    usual: Groups,
    /// As it told the others.
    left: Groups,
}

impl GroupTimes {
    /// A thread ran a chunk.
    pub(crate) fn add(&self, own: &mut OwnTimes, chunk: Groups) {
        self.ran.add(chunk);
        let usual =
            if chunk.ns > own.longest.ns { std::mem::replace(&mut own.longest, chunk) } else { chunk };
        self.usual.add(usual);
        own.usual = Groups { count: own.usual.count + usual.count, ns: own.usual.ns + usual.ns };
    }

    /// So many groups of a thread's own share are left.
    pub(crate) fn tell_left(&self, own: &mut OwnTimes, count: u64) {
        let left = own.usual.expected_ns(count).map_or(Groups::default(), |ns| Groups { count, ns });
        self.left.replace(std::mem::replace(&mut own.left, left), left);
    }

    /// How long the groups that are left, so many, take by the clock on so many threads: as far as is known, and if it is known well.
    pub(crate) fn left_ns(&self, count: u64, threads: u64) -> (u64, Option<u64>) {
        let left = self.left.get();
        let others = self.usual.get().expected_ns(count.saturating_sub(left.count));
        let surely_ns = others.map(|others| others.saturating_add(left.ns) / threads);
        let ns = || self.ran.get().expected_ns(count).map_or(0, |ns| ns / threads);
        (surely_ns.unwrap_or_else(ns), surely_ns)
    }
}

#[derive(Debug, Default)]
struct Sum {
    count: AtomicU64,
    ns: AtomicU64,
}

impl Sum {
    fn add(&self, more: Groups) {
        self.replace(Groups::default(), more);
    }

    fn replace(&self, old: Groups, new: Groups) {
        if old == new {
            return;
        }
        // What wraps here comes back: nobody takes away what was not added.
        self.count.fetch_add(new.count.wrapping_sub(old.count), Ordering::Relaxed);
        self.ns.fetch_add(new.ns.wrapping_sub(old.ns), Ordering::Relaxed);
    }

    fn get(&self) -> Groups {
        Groups { count: self.count.load(Ordering::Relaxed), ns: self.ns.load(Ordering::Relaxed) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(times: &GroupTimes, own: &mut OwnTimes, chunks: &[(u64, u64)]) {
        chunks.iter().for_each(|&(count, ns)| times.add(own, Groups { count, ns }));
    }

    #[test]
    fn what_each_thread_met_once_is_not_expected_again() {
        let times = GroupTimes::default();
        let (mut one, mut other) = (OwnTimes::default(), OwnTimes::default());
        assert_eq!(times.left_ns(10, 1), (0, None));
        run(&times, &mut one, &[(1, 900)]);
        assert_eq!(times.left_ns(10, 1), (9_000, None), "all that is known");
        run(&times, &mut one, &[(2, 20)]);
        assert_eq!(times.left_ns(10, 2), (50, Some(50)));
        run(&times, &mut other, &[(1, 5_000)]);
        assert_eq!(times.left_ns(10, 1).0, 100);
        run(&times, &mut other, &[(1, 6_000)]);
        assert_eq!(times.left_ns(3, 1).0, 5_020, "it is not the only one");
    }

    #[test]
    fn each_share_may_take_another_time() {
        let times = GroupTimes::default();
        let mut threads: [OwnTimes; 2] = Default::default();
        run(&times, &mut threads[0], &[(1, 100), (1, 100), (1, 100)]);
        run(&times, &mut threads[1], &[(500, 1_000), (500, 1_000)]);
        times.tell_left(&mut threads[0], 1_000);
        times.tell_left(&mut threads[1], 500);
        assert_eq!(times.left_ns(1_500, 2).0, (100_000 + 1_000) / 2);
        times.tell_left(&mut threads[0], 10);
        assert_eq!(times.left_ns(510, 2).0, (1_000 + 1_000) / 2);
        times.tell_left(&mut threads[0], 0);
        times.tell_left(&mut threads[1], 0);
        assert_eq!(times.left_ns(0, 2), (0, Some(0)));
        // Of a share that nobody has begun it is known what all are like.
        assert_eq!(times.left_ns(502, 1).0, 1_200);
    }
}
