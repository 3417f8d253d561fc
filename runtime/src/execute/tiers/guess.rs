//! Code that a build has made before any launch was seen, for what most launches have, of kernels that see their groups. It runs until there is
//! code for what the launches have in common, which is up to five times as fast: that is made once it has run for a while, or by another
//! process when this one has ended.

use crate::execute::background;
use crate::execute::tiers::{Tiers, Version};
use spirula_interface::options::{Groups, Usual};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

/// What it's for.
pub(super) const GUESSED: Groups = Groups::Usual(Usual::LIKELY);

/// Launches in it must have taken so long, by estimate on one thread, before better code is made while others run.
const WORTH_IMPROVING_NS: u64 = 200_000_000;
/// The same before better code is left to another process.
const WORTH_LEAVING_NS: u64 = 2_000_000;

/// A kernel's guess.
#[derive(Default)]
pub(super) struct Guess {
    /// Whether it was asked for.
    begun: AtomicBool,
    /// None: it can't be made.
    code: OnceLock<Option<Version>>,
    /// How long launches took in it, by estimate.
    ran_ns: AtomicU64,
}

impl Guess {
    /// Whether it was asked for, or found.
    pub(super) fn was_begun(&self) -> bool {
        self.begun.load(Ordering::Relaxed)
    }

    /// Whether it's still being made, or is next.
    pub(super) fn is_pending(&self) -> bool {
        self.was_begun() && self.code.get().is_none()
    }

    fn settle(&self, code: Option<Version>) {
        self.begun.store(true, Ordering::Relaxed);
        // Nothing is measured of what will be replaced.
        let _ = self.code.set(code.map(|version| Version { tuning: None, ..version }));
    }
}

impl Tiers {
    /// What was guessed, while there is nothing better.
    pub(super) fn guessed(&self) -> Option<&Version> {
        match self.optimized.get() {
            Some(Some(_)) => None,
            _ => self.guess.code.get()?.as_ref(),
        }
    }

    /// Has it made, once.
    pub(super) fn begin_guess(self: &Arc<Tiers>) {
        if self.was_begun() || self.guess.begun.swap(true, Ordering::Relaxed) {
            return;
        }
        self.making.store(true, Ordering::Relaxed);
        self.asked_for();
        let (weak, kept) = self.owners();
        let heir = kept.clone();
        let will = move || heir.as_ref()?.request(GUESSED, None);
        let job = move || {
            if let Some(this) = kept.or_else(|| weak.upgrade()) {
                let made = catch_unwind(AssertUnwindSafe(|| this.make_in_lanes(GUESSED, None)));
                this.guess_ended(made.as_ref().ok().cloned().flatten());
                if let Err(panic) = made {
                    resume_unwind(panic); // The queue says so.
                }
            }
        };
        let takes = self.making_time();
        if let Err(error) = background::run_later(takes, self.spent(), Box::new(job), Box::new(will)) {
            self.warn(GUESSED, &error);
            self.guess_ended(None);
        }
    }

    fn guess_ended(&self, code: Option<Version>) {
        self.guess.settle(code);
        // What the baseline runs from now on is what the guess is not for.
        self.spent_ns.store(0, Ordering::Relaxed);
        self.making.store(false, Ordering::Relaxed);
        self.made();
    }

    /// An earlier process left it.
    pub(super) fn guess_found(&self, code: Version) {
        self.guess.settle(Some(code));
    }

    /// A launch that is expected to take so long, on one thread, begins in it.
    pub(super) fn guess_runs(self: &Arc<Tiers>, expected_ns: u64) {
        let before = self.guess.ran_ns.fetch_add(expected_ns, Ordering::Relaxed);
        let ran = before.saturating_add(expected_ns);
        if before < WORTH_LEAVING_NS && ran >= WORTH_LEAVING_NS {
            self.leave_better();
        }
        if ran < WORTH_IMPROVING_NS || self.was_begun() {
            return;
        }
        match self.usual().size {
            Some(_) => self.begin_usual(background::PAUSE),
            // Their sizes differ: for all of them together there is nothing better.
            None => {
                let _ = self.optimized.set(self.guess.code.get().cloned().flatten());
            }
        }
    }

    /// Leaves code for what launches have in common to be made when the process has ended, if it isn't until then.
    fn leave_better(self: &Arc<Tiers>) {
        let (_, Some(kept)) = self.owners() else { return };
        background::leave_at_exit(Box::new(move || {
            let usual = kept.usual();
            let is_better = usual.size.is_some() && !kept.was_begun();
            is_better.then(|| kept.request(Groups::Usual(usual), None)).flatten()
        }));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::tiers::Better;
    use crate::execute::tiers::tests::{invocation, that_know, tiers, version, wait_until};
    use crate::kernel::tests::empty;
    use spirula_interface::program::Launch;
    use spirula_interface::tier::Tier;
    use std::sync::Mutex;
    use std::time::Duration;

    /// A kernel whose guess is there, and what it's asked for.
    fn guessed() -> (Arc<Tiers>, Arc<Mutex<Vec<Groups>>>) {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let told = asked.clone();
        let kernel = tiers(version(Tier::Baseline, empty, |_| ()), move |groups| {
            told.lock().unwrap().push(groups);
            let name = if groups == GUESSED { "guess" } else { "better" };
            Ok(version(Tier::Optimized, empty, |info| info.code.symbol = name.into()))
        });
        kernel.begin_guess();
        kernel.begin_guess();
        kernel.awaited.wait_for_all();
        assert_eq!(*asked.lock().unwrap(), [GUESSED], "once");
        (kernel, asked)
    }

    /// What a launch with groups of that size begins in.
    fn begun_in(kernel: &Arc<Tiers>, row: u64) -> String {
        let mut launched = invocation(kernel, 1, [0; 2]);
        let whole = Launch::whole(1, [0; 3], [row, 1, 1], [row, 1, 1]);
        crate::execute::launch::prepare(&mut launched).launch = Launch { disjoint_buffers: 1, ..whole };
        kernel.choose(&launched).info.code.symbol.clone()
    }

    #[test]
    fn a_guess_runs_until_there_is_code_for_the_launches() {
        let (kernel, asked) = guessed();
        assert_eq!(begun_in(&kernel, 32), "guess");
        assert!(!kernel.is_settled() && kernel.launches_stay() && !kernel.is_new());
        kernel.guess_runs(WORTH_IMPROVING_NS);
        wait_until(|| begun_in(&kernel, 32) == "better");
        let usual = Usual { rows: 32, disjoint: true, size: Some([32, 1, 1]), ..Usual::NOTHING };
        assert_eq!(asked.lock().unwrap()[1..], [Groups::Usual(usual)]);
    }

    #[test]
    fn a_guess_stays_where_sizes_differ() {
        let (kernel, asked) = guessed();
        assert_eq!([16, 32].map(|row| begun_in(&kernel, row)), ["guess", "guess"]);
        kernel.guess_runs(WORTH_IMPROVING_NS);
        assert!(kernel.is_settled() && kernel.guessed().is_none());
        assert_eq!(begun_in(&kernel, 48), "guess");
        assert_eq!(asked.lock().unwrap().len(), 1);
    }

    #[test]
    fn who_measures_is_content_with_a_guess() {
        let (kernel, asked) = guessed();
        kernel.times_were_read();
        kernel.launch_ended();
        assert!(!kernel.was_begun(), "nothing is asked for");
        kernel.wait_if_measured(1);
        assert_eq!((begun_in(&kernel, 16), asked.lock().unwrap().len()), ("guess".into(), 1));
    }

    #[test]
    fn launches_that_it_is_not_for_get_code_of_their_own() {
        let code = version(Tier::Optimized, empty, |info| info.code.local_size = Some([64, 1, 1]));
        let kernel = that_know(version(Tier::Baseline, empty, |_| ()), GUESSED, code);
        let first = kernel.first().info.code.symbol.clone();
        assert_eq!(begun_in(&kernel, 32), first);
        assert!(kernel.guessed().is_some() && !kernel.is_settled());
        let launch = Launch::whole(1, [0; 3], [32, 1, 1], [32, 1, 1]);
        assert!(matches!(kernel.better_than(kernel.first(), &launch), Better::NotYet));
        kernel.begin_usual(Duration::ZERO);
        wait_until(|| kernel.is_settled());
    }
}
