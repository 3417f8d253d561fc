//! Code for one local size of a kernel: compiled in the background once launches of that size have run for a while, which
//! meanwhile run the general code; and code for all launches, where the general code is for usual ones only and others, which run the
//! baseline's, take long. What an earlier process left is there from the first launch on. It pays most where the general code's packs don't fit a group's rows (tiles of 8 x 8: 17
//! times as fast) or are one item wide, and up to twice where they do and loops depend on the size (tiles of 16 x 16).

use crate::execute::background;
use crate::execute::tiers::{Better, Tiers, Version};
use spirula_interface::options::{Groups, Usual};
use spirula_interface::program::{KernelInfo, Launch};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Launches of one local size must have taken so long, by estimate, before code is made for it where packs don't fit rows: less
/// than a build takes, for most of that time is won in each process that comes later.
const WORTH_BUILDING_NS: u64 = 10_000_000;
/// The same where packs fit rows, and less is to be won.
const WORTH_TRYING_NS: u64 = 200_000_000;
/// Local sizes of a kernel that are watched; others run the general code.
const MAX_SIZES: usize = 8;

/// What is known of the code for some groups.
enum State {
    /// Launches took so many nanoseconds.
    Watched(u64),
    Building,
    Ready(Version),
    /// There will be no code of their own.
    General,
}

/// A kernel's variants, by what they are for.
#[derive(Default)]
pub(super) struct Variants(Mutex<Vec<(Groups, State)>>);

impl Variants {
    /// The variant for a launch that is expected to take so many nanoseconds, if there is one by now beside the best code for all, of which
    /// this is known. May begin to make it.
    pub(super) fn variant(
        &self,
        tiers: &Arc<Tiers>,
        info: &KernelInfo,
        launch: &Launch,
        expected_ns: u64,
    ) -> Option<Version> {
        if !tiers.can_specialize() {
            return None;
        }
        let is_for = info.code.is_for(launch);
        let general =
            (!is_for).then(|| self.code(tiers, Groups::Any, expected_ns, WORTH_BUILDING_NS)).flatten();
        let is_sized =
            info.signature.required_work_group_size.is_some() || is_for && info.code.local_size.is_some();
        // (A range of one work-item is a group of one also for who doesn't see that. Its loops may be vectors then.)
        let is_single = launch.local_size == [1; 3] && info.code.lanes > 1;
        if !(info.code.sees_group || is_single) || is_sized {
            return general;
        }
        let fits = info.code.lanes < 2 || fills_packs(launch.local_size, info.code.lanes);
        let worth = match general.is_some() || is_for {
            // One after the other.
            false => u64::MAX,
            true if fits => WORTH_TRYING_NS,
            true => WORTH_BUILDING_NS,
        };
        let sized = Groups::Sized(launch.local_size.map(|size| size as u32));
        self.code(tiers, sized, expected_ns, worth).or(general)
    }

    /// What there is for a launch that the newest code is not for.
    pub(super) fn general(&self, tiers: &Tiers) -> Better {
        match self.state(&mut self.lock(), tiers, Groups::Any) {
            Some(State::Ready(version)) => Better::Now(version.clone()),
            Some(State::Watched(_) | State::Building) => Better::NotYet,
            Some(State::General) | None => Better::Never,
        }
    }

    /// Such a launch is worth having code made for while it runs.
    pub(super) fn begin_general(&self, tiers: &Arc<Tiers>) {
        if let Some(state @ State::Watched(_)) = self.state(&mut self.lock(), tiers, Groups::Any) {
            *state = if begin(tiers, Groups::Any) { State::Building } else { State::General };
        }
    }

    /// What is known of the code for such groups; nothing where others are watched, and no more are.
    fn state<'s>(
        &self,
        states: &'s mut Vec<(Groups, State)>,
        tiers: &Tiers,
        groups: Groups,
    ) -> Option<&'s mut State> {
        let known = states.iter().position(|(others, _)| *others == groups);
        if known.is_none() && states.len() >= MAX_SIZES && groups != Groups::Any {
            return None;
        }
        let at = known.unwrap_or_else(|| {
            states.push((groups, tiers.known(groups).map_or(State::Watched(0), State::Ready)));
            states.len() - 1
        });
        Some(&mut states[at].1)
    }

    /// Code for such groups, if there is some by now. May begin to make it, if launches took long enough.
    fn code(&self, tiers: &Arc<Tiers>, groups: Groups, expected_ns: u64, worth: u64) -> Option<Version> {
        match self.state(&mut self.lock(), tiers, groups)? {
            State::Ready(variant) => return Some(variant.clone()),
            State::Watched(ns) if ns.saturating_add(expected_ns) < worth => *ns += expected_ns,
            state @ State::Watched(_) => {
                *state = if begin(tiers, groups) { State::Building } else { State::General };
            }
            State::Building | State::General => {}
        }
        None
    }

    /// A variant was made, or can't be.
    fn settle(&self, groups: Groups, made: Option<Version>) {
        let mut states = self.lock();
        if let Some((_, state)) = states.iter_mut().find(|(others, _)| *others == groups) {
            *state = made.map_or(State::General, State::Ready);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(Groups, State)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether rows end where packs do.
fn fills_packs(local_size: [u64; 3], lanes: u32) -> bool {
    local_size[0].is_multiple_of(lanes.into())
}

/// Has a variant made. Whether it can be tried.
fn begin(tiers: &Arc<Tiers>, groups: Groups) -> bool {
    let (weak, kept) = tiers.owners();
    let heir = kept.clone();
    let will = move || heir.as_ref()?.request(groups, None);
    let job = move || {
        if let Some(tiers) = kept.or_else(|| weak.upgrade()) {
            let made = catch_unwind(AssertUnwindSafe(|| tiers.make(groups)));
            tiers.variants().settle(groups, made.as_ref().ok().cloned().flatten());
            tiers.made();
            if let Err(panic) = made {
                resume_unwind(panic); // The queue says so.
            }
        }
    };
    tiers.asked_for();
    let begun = background::run_later(tiers.making_time(), tiers.spent(), Box::new(job), Box::new(will));
    let failed = |error: &io::Error| {
        tiers.made();
        tiers.warn(groups, error);
    };
    begun.inspect_err(failed).is_ok()
}

/// Optimized code for such groups, in the log's words.
pub(super) fn described(groups: Groups) -> String {
    match groups {
        Groups::Usual(Usual { size: Some(local), .. }) => {
            format!("optimized code for work-groups of {local:?}")
        }
        Groups::Usual(_) => "optimized code".into(),
        Groups::Any => "code for all launches".into(),
        Groups::Sized(local) => format!("code for work-groups of {local:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::tiers::tests::{that_know, tiers, version, wait_until};
    use crate::kernel::tests::empty;
    use spirula_interface::tier::Tier;

    fn launch(local_size: [u64; 3]) -> Launch {
        Launch::whole(3, [0; 3], local_size.map(|size| 10 * size), local_size)
    }

    /// Of a kernel whose optimized code runs 16 work-items together.
    fn wide<F>(make: F) -> Arc<Tiers>
    where
        F: Fn(Groups) -> Result<Version, String> + Send + Sync + 'static,
    {
        tiers(version(Tier::Optimized, empty, |info| info.code.lanes = 16), make)
    }

    fn variant(tiers: &Arc<Tiers>, launch: &Launch, ns: u64) -> Option<Version> {
        tiers.variants().variant(tiers, &tiers.newest().info, launch, ns)
    }

    #[test]
    fn sizes_get_code_after_a_while() {
        let general = wide(|local| {
            let special = || version(Tier::Optimized, empty, |info| info.code.symbol = "special".into());
            (local == Groups::Sized([8, 8, 1])).then(special).ok_or_else(|| "of the test".into())
        });
        let odd = launch([8, 8, 1]);
        assert!(variant(&general, &odd, WORTH_BUILDING_NS - 1).is_none());
        assert!(matches!(general.variants().lock()[0].1, State::Watched(_)));
        assert!(variant(&general, &odd, 1).is_none());
        wait_until(|| variant(&general, &odd, 0).is_some());
        assert_eq!(variant(&general, &odd, 0).unwrap().info.code.symbol, "special");
        // Of groups that are one item wide, packs lie in another dimension.
        let column = launch([1, 64, 1]);
        assert!(variant(&general, &column, WORTH_BUILDING_NS).is_none());
        assert!(!matches!(general.variants().lock()[1].1, State::Watched(_)));
        general.variants().lock().pop();
        // Sizes that fit get it later, and only so many are watched.
        assert!(variant(&general, &launch([32, 2, 1]), WORTH_TRYING_NS - 1).is_none());
        assert!(matches!(general.variants().lock()[1].1, State::Watched(_)));
        for row in 2..16 {
            variant(&general, &launch([row, 1, 1]), 0);
        }
        assert_eq!(general.variants().lock().len(), MAX_SIZES);
    }

    #[test]
    fn what_was_made_before_is_there_from_the_first_launch_on() {
        let made = version(Tier::Optimized, empty, |info| info.code.symbol = "special".into());
        let first = version(Tier::Optimized, empty, |info| info.code.lanes = 16);
        let general = that_know(first, Groups::Sized([8, 8, 1]), made);
        assert_eq!(variant(&general, &launch([8, 8, 1]), 0).unwrap().info.code.symbol, "special");
        assert!(variant(&general, &launch([8, 4, 1]), 0).is_none());
    }

    #[test]
    fn code_for_filled_packs_gets_company_where_rows_fill_none() {
        for sees_group in [false, true] {
            let first = version(Tier::Optimized, empty, |info| {
                (info.code.lanes, info.code.wants_filled, info.code.sees_group) = (16, true, sees_group);
            });
            let kernel = tiers(first, move |groups| {
                let general = || {
                    version(Tier::Optimized, empty, |info| {
                        (info.code.symbol, info.code.sees_group) = ("general".into(), sees_group);
                    })
                };
                (groups == Groups::Any).then(general).ok_or_else(|| "of the test".into())
            });
            assert!(variant(&kernel, &launch([64, 1, 1]), WORTH_BUILDING_NS).is_none());
            let odd = launch([10, 1, 1]);
            assert!(variant(&kernel, &odd, WORTH_BUILDING_NS - 1).is_none());
            wait_until(|| variant(&kernel, &odd, 1).is_some());
            assert_eq!(variant(&kernel, &odd, 0).unwrap().info.code.symbol, "general");
            assert!(variant(&kernel, &launch([64, 1, 1]), 0).is_none(), "it has all that it needs");
        }
    }

    #[test]
    fn kernels_that_do_not_see_their_groups_have_no_variants() {
        let blind = version(Tier::Optimized, empty, |info| info.code.sees_group = false);
        let blind = tiers(blind, |_| Err("of the test".into()));
        assert!(variant(&blind, &launch([8, 4, 1]), u64::MAX).is_none());
        assert!(blind.variants().lock().is_empty());
    }

    #[test]
    fn single_work_items_have_one_also_where_the_kernel_does_not_see_that() {
        for lanes in [16, 1] {
            let blind = version(Tier::Optimized, empty, |info| {
                (info.code.lanes, info.code.sees_group) = (lanes, false);
            });
            let kernel = tiers(blind, |groups| {
                let special = || version(Tier::Optimized, empty, |info| info.code.sees_group = false);
                (groups == Groups::Sized([1; 3])).then(special).ok_or_else(|| "of the test".into())
            });
            let single = launch([1; 3]);
            assert!(variant(&kernel, &single, WORTH_BUILDING_NS - 1).is_none());
            if lanes == 1 {
                assert!(variant(&kernel, &single, WORTH_BUILDING_NS).is_none());
                assert!(kernel.variants().lock().is_empty(), "its code is scalar already");
            } else {
                wait_until(|| variant(&kernel, &single, 1).is_some());
            }
        }
    }

    #[test]
    fn code_for_one_size_gets_company_for_others() {
        let first = version(Tier::Optimized, empty, |info| {
            (info.code.lanes, info.code.local_size) = (16, Some([64, 1, 1]));
        });
        let kernel = tiers(first, |groups| {
            let general = || version(Tier::Optimized, empty, |info| info.code.symbol = "general".into());
            (groups == Groups::Any).then(general).ok_or_else(|| "of the test".into())
        });
        assert!(variant(&kernel, &launch([64, 1, 1]), u64::MAX).is_none());
        assert!(kernel.variants().lock().is_empty(), "it is what it is for");
        let other = launch([32, 1, 1]);
        variant(&kernel, &other, WORTH_BUILDING_NS);
        wait_until(|| variant(&kernel, &other, 0).is_some());
        assert_eq!(variant(&kernel, &other, 0).unwrap().info.code.symbol, "general");
    }

    #[test]
    fn what_can_not_be_made_or_is_another_kernel_is_not_used() {
        let general = wide(|local| {
            let other = || version(Tier::Optimized, empty, |info| info.code.static_local_size = 4096);
            (local == Groups::Sized([4, 1, 1])).then(other).ok_or_else(|| "of the test".into())
        });
        for row in [4, 8] {
            let launch = launch([row, 1, 1]);
            assert!(variant(&general, &launch, WORTH_BUILDING_NS).is_none());
            let is_settled = |(groups, state): &(Groups, State)| {
                *groups == Groups::Sized([row as u32, 1, 1]) && matches!(state, State::General)
            };
            wait_until(|| general.variants().lock().iter().any(is_settled));
            assert!(variant(&general, &launch, 0).is_none());
        }
    }
}
