//! Whether help helps: what a kernel's launches took by the clock on several threads, and on one. Work-groups that write the same cache
//! lines, by atomics or by scattering, take several times as long where two processors take the lines from each other; and where
//! launches are rare, helpers sleep. Neither can be told from a kernel's code.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

/// So many launches before the other way is tried; then after as many as there were.
const FIRST_TRIAL: u32 = 32;
/// So many after one that changed what is thought, to see whether the former way is still what it was.
const CONFIRMED_AFTER: u32 = 4;
/// The other way has to take less than that part of the time.
const WORTH: (u64, u64) = (9, 10);
/// By so small a part what is known grows with each launch that took more.
const GROWTH: u32 = 256;
/// Longer launches are not tried on one thread.
pub(crate) const MOST_NS: u64 = 2_000_000;

/// What is known of a kernel. Times are picoseconds by the clock for each work-item, 0 if there are none.
#[derive(Debug)]
pub(crate) struct Company {
    /// The number of the code that they are of.
    code: AtomicU64,
    alone: AtomicU32,
    shared: AtomicU32,
    launches: AtomicU32,
    next_trial: AtomicU32,
}

impl Default for Company {
    fn default() -> Self {
        let [alone, shared, launches] = Default::default();
        Company {
            code: AtomicU64::new(u64::MAX),
            alone,
            shared,
            launches,
            next_trial: AtomicU32::new(FIRST_TRIAL),
        }
    }
}

impl Company {
    /// Whether the next launch, in code of that number, is one for several threads. Of other code nothing is known.
    pub(crate) fn shares(&self, code: u64) -> bool {
        if self.code.load(Ordering::Relaxed) != code {
            self.code.store(code, Ordering::Relaxed);
            for count in [&self.alone, &self.shared, &self.launches] {
                count.store(0, Ordering::Relaxed);
            }
            self.next_trial.store(FIRST_TRIAL, Ordering::Relaxed);
        }
        let launch = self.launches.fetch_add(1, Ordering::Relaxed);
        let preferred = self.prefers_sharing();
        if launch != self.next_trial.load(Ordering::Relaxed) {
            return preferred;
        }
        self.next_trial.store(launch.saturating_mul(2), Ordering::Relaxed);
        !preferred
    }

    fn prefers_sharing(&self) -> bool {
        let [alone, shared] =
            [&self.alone, &self.shared].map(|known| u64::from(known.load(Ordering::Relaxed)));
        alone == 0 || alone * WORTH.1 >= shared * WORTH.0
    }

    /// Takes in what a launch took. What took less counts at once; what took more may be the system's fault, and makes it more by little.
    pub(crate) fn learn(&self, shared: bool, items: u64, ns: u64) {
        let measured = (ns.saturating_mul(1000) / items.max(1)).clamp(1, u32::MAX.into()) as u32;
        let known = if shared { &self.shared } else { &self.alone };
        let (old, preferred) = (known.load(Ordering::Relaxed), self.prefers_sharing());
        let new = if old == 0 { measured } else { measured.min(old.saturating_add(old / GROWTH + 1)) };
        known.store(new, Ordering::Relaxed);
        if self.prefers_sharing() != preferred {
            let launches = self.launches.load(Ordering::Relaxed);
            self.next_trial.store(launches.saturating_add(CONFIRMED_AFTER), Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many of so many launches are shared, where a work-item takes so many nanoseconds alone, and shared.
    fn shared_of(company: &Company, launches: u32, alone: u64, shared: u64) -> u32 {
        (0..launches)
            .map(|_| {
                let is_shared = company.shares(1);
                company.learn(is_shared, 1000, 1000 * if is_shared { shared } else { alone });
                u32::from(is_shared)
            })
            .sum()
    }

    #[test]
    fn what_is_quicker_is_found_and_kept() {
        let company = Company::default();
        assert_eq!(shared_of(&company, FIRST_TRIAL, 10, 6), FIRST_TRIAL, "nobody knows better");
        assert_eq!(shared_of(&company, 1, 10, 6), 0, "a trial");
        assert!(shared_of(&company, 1000, 10, 6) > 990);
        let company = Company::default();
        shared_of(&company, FIRST_TRIAL + 1, 10, 40);
        assert!(shared_of(&company, 1000, 10, 40) < 10);
        // A little is not worth it.
        let company = Company::default();
        assert!(shared_of(&company, 1000, 19, 20) > 990);
    }

    #[test]
    fn what_a_slow_launch_said_is_asked_again() {
        let company = Company::default();
        // As if the helper had slept each time until then.
        shared_of(&company, FIRST_TRIAL + 1, 10, 30);
        assert!(shared_of(&company, 1000, 10, 6) > 980);
    }

    #[test]
    fn launches_that_were_held_up_change_nothing() {
        let company = Company::default();
        shared_of(&company, 100, 10, 6);
        for _ in 0..10 {
            company.learn(true, 1000, 1_000_000);
            assert!(shared_of(&company, 20, 10, 6) >= 19);
        }
    }

    #[test]
    fn of_other_code_nothing_is_known() {
        let company = Company::default();
        shared_of(&company, 100, 10, 40);
        assert!(!company.shares(1) && company.shares(2) && company.shares(2));
    }

    #[test]
    fn it_is_found_again_when_it_changes() {
        let company = Company::default();
        shared_of(&company, 100, 10, 40);
        assert!(shared_of(&company, 10_000, 10, 5) > 5_000);
        // And the way back: what was quick becomes slow by and by.
        assert!(shared_of(&company, 100_000, 10, 40) < 50_000);
    }
}
