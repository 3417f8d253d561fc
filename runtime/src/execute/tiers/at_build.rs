//! What a build waits for: the optimized code of its kernels, where that is expected to be there soon. A program that is run once, and most
//! that are measured, launch their kernels right after the build, for less time than a compiler takes: their launches would begin and end in
//! the baseline while the compiler keeps a processor from them.
//!
//! Kernels for which the size of their work-groups makes a difference (they have barriers, or ask for it) get code for what most launches have
//! ([`super::guess`]).
//!
//! Nobody waits for those with images, whose accesses are inlined for each format: they take ten times as long as is expected.
//! Of a program with many kernels those are waited for of which kernel objects are made one by one: they are the ones that will be launched.
//!
//! The wait is short beside what a build from source takes, and a process that builds many programs waits for the first ones only.

use crate::execute::background;
use crate::execute::tiers::Tiers;
use crate::trace;
use spirula_interface::options::Groups;
use spirula_interface::program::ArgumentKind;
use spirula_service::settings;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// All kernels of a program together are expected to take so long by the clock. For more nobody waits.
const WORTH_WAITING: Duration = Duration::from_millis(150);
/// A build waits so long where what was expected is wrong, or the machine is slow. The code comes later, then.
const MOST_WAITED: Duration = Duration::from_millis(300);
/// Nanoseconds that this process's builds have waited.
static WAITED_NS: AtomicU64 = AtomicU64::new(0);

/// Has optimized code made of a program's kernels, or of one that will be launched, and waits for it, if it is there soon.
pub(crate) fn wait_for_optimized(kernels: &[&Arc<Tiers>]) {
    let left =
        settings::get().build_wait.saturating_sub(Duration::from_nanos(WAITED_NS.load(Ordering::Relaxed)));
    let waited = wait_at_most(kernels, MOST_WAITED.min(left));
    WAITED_NS.fetch_add(waited.as_nanos() as u64, Ordering::Relaxed);
}

/// Waits so long at most. How long it was.
fn wait_at_most(kernels: &[&Arc<Tiers>], most: Duration) -> Duration {
    let begun = Instant::now();
    let is_open = |kernel: &&Arc<Tiers>| !was_begun(kernel) && !has_images(kernel);
    let unsettled: Vec<_> = kernels.iter().copied().filter(is_open).collect();
    // What was made before is looked for where that is a few files.
    if expected(&unsettled) > WORTH_WAITING {
        return Duration::ZERO;
    }
    unsettled.iter().for_each(|kernel| kernel.look_once());
    let unknown: Vec<_> = unsettled.into_iter().filter(|kernel| !was_begun(kernel)).collect();
    if unknown.is_empty() || expected(&unknown) > most {
        return Duration::ZERO;
    }
    let _span = trace::span("wait", || "for optimized code, which is expected soon");
    let _lent = background::lend_processor();
    for kernel in &unknown {
        match kernel.is_for_all_sizes() {
            true => kernel.begin(Duration::ZERO, Groups::Any),
            false => kernel.begin_guess(),
        }
    }
    unknown.iter().for_each(|kernel| kernel.awaited.wait_until(begun + most));
    begun.elapsed()
}

fn was_begun(kernel: &Tiers) -> bool {
    kernel.was_begun() || kernel.guess.was_begun()
}

fn has_images(kernel: &Tiers) -> bool {
    let arguments = &kernel.first.info.signature.arguments;
    arguments.iter().any(|argument| matches!(argument.kind, ArgumentKind::Image { .. }))
}

/// How long the compilers are expected to take for these by the clock.
fn expected(kernels: &[&Arc<Tiers>]) -> Duration {
    let times = || kernels.iter().map(|kernel| kernel.making_time());
    let together = times().sum::<Duration>() / background::at_a_time_for_one_that_waits() as u32;
    times().fold(together, Duration::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::tiers::tests::{that_know, tiers, version};
    use crate::execute::tiers::{Version, guess};
    use crate::kernel::tests::{empty, info};
    use spirula_interface::program::ImageKind;
    use spirula_interface::tier::Tier;

    const MINUTE: Duration = Duration::from_secs(60);

    fn code(tier: Tier, operations: u32) -> Version {
        version(tier, empty, |info| (info.code.operations, info.code.sees_group) = (operations, false))
    }

    fn made() -> Result<Version, String> {
        Ok(code(Tier::Optimized, 10))
    }

    #[test]
    fn the_first_launch_finds_optimized_code_for_all() {
        let kernel = tiers(code(Tier::Baseline, 10), |groups| {
            assert_eq!(groups, Groups::Any);
            made()
        });
        let other = tiers(code(Tier::Baseline, 10), |_| Err("of the test".into()));
        wait_for_all(&[&kernel, &other]);
        assert_eq!(kernel.newest().tier(), Tier::Optimized);
        assert_eq!(other.newest().tier(), Tier::Baseline);
        assert_eq!(wait_at_most(&[&kernel, &other], MINUTE), Duration::ZERO, "once");
    }

    #[test]
    fn kernels_that_see_their_groups_get_code_for_what_most_have() {
        let first = version(Tier::Baseline, empty, |info| info.code.sees_group = true);
        let kernel = tiers(first, |groups| {
            assert_eq!(groups, guess::GUESSED);
            Ok(version(Tier::Optimized, empty, |_| ()))
        });
        wait_for_all(&[&kernel]);
        assert_eq!(kernel.newest().tier(), Tier::Optimized);
    }

    /// Where the machine takes its time, too.
    fn wait_for_all(kernels: &[&Arc<Tiers>]) {
        wait_at_most(kernels, MINUTE);
        kernels.iter().for_each(|kernel| kernel.awaited.wait_for_all());
    }

    #[test]
    fn nobody_waits_for_what_takes_long() {
        let large = tiers(code(Tier::Baseline, 20_000), |_| made());
        let many: Vec<_> = (0..100).map(|_| tiers(code(Tier::Baseline, 10), |_| made())).collect();
        let many: Vec<_> = many.iter().collect();
        for kernels in [&[&large][..], &many] {
            assert_eq!(wait_at_most(kernels, MINUTE), Duration::ZERO);
            assert!(kernels.iter().all(|kernel| !kernel.is_making() && !kernel.is_settled()));
        }
        let has_image = version(Tier::Baseline, empty, |description| {
            let kind = ArgumentKind::Image { kind: ImageKind::Image2d, is_depth: false };
            *description = info("k", &[kind]);
            (description.code.tier, description.code.sees_group) = (Tier::Baseline, false);
        });
        let kernel = tiers(has_image, |_| made());
        assert_eq!(wait_at_most(&[&kernel], MINUTE), Duration::ZERO);
        assert!(!kernel.was_begun());
        let small = tiers(code(Tier::Baseline, 10), |_| made());
        assert_eq!(wait_at_most(&[&small], Duration::from_millis(1)), Duration::ZERO, "nothing is left");
        assert!(!small.is_making());
    }

    #[test]
    fn a_wait_ends_before_code_that_takes_longer_than_expected() {
        let (sender, receiver) = std::sync::mpsc::channel::<()>();
        let receiver = std::sync::Mutex::new(receiver);
        let kernel = tiers(code(Tier::Baseline, 10), move |_| {
            let _ = receiver.lock().unwrap().recv_timeout(MINUTE);
            made()
        });
        wait_at_most(&[&kernel], MOST_WAITED);
        assert_eq!(kernel.newest().tier(), Tier::Baseline);
        assert_eq!(
            wait_at_most(&[&kernel], MINUTE),
            Duration::ZERO,
            "a kernel object that is made waits no more"
        );
        drop(sender);
        kernel.awaited.wait_for_all();
        assert_eq!(kernel.newest().tier(), Tier::Optimized);
    }

    #[test]
    fn what_an_earlier_build_made_is_there_at_once() {
        let kernel = that_know(code(Tier::Baseline, 10), Groups::Any, code(Tier::Optimized, 10));
        assert_eq!(wait_at_most(&[&kernel], MINUTE), Duration::ZERO);
        assert_eq!(kernel.newest().tier(), Tier::Optimized);
        // A launch finds it as well, where too many kernels are built together.
        let kernel = that_know(code(Tier::Baseline, 10), Groups::Any, code(Tier::Optimized, 10));
        kernel.look_once();
        assert_eq!(kernel.newest().tier(), Tier::Optimized);
    }
}
