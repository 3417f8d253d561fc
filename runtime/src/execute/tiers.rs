//! A kernel's code, which gets better: what its program was built with, the optimized code that is made in the background, and
//! variants of that for local sizes ([`variants`]). That is made while a launch runs which is expected to take long, or else
//! between launches once they have run for a while; or by the build, where that takes little time ([`at_build`]).
//!
//! A launch takes what is best when it begins, and again between chunks of its work-groups. It waits for code only where the application
//! measures ([`awaited`]).

pub(crate) mod at_build;
mod awaited;
mod common;
mod guess;

use crate::execute::background;
use crate::execute::company::Company;
use crate::execute::compile_time;
use crate::execute::launch::{Code, Invocation};
use crate::execute::pace::Pace;
use crate::execute::tiers::awaited::Awaited;
use crate::execute::tiers::common::Common;
use crate::execute::tiers::guess::Guess;
use crate::execute::tuning::{self, Tuning};
use crate::execute::variants::{self, Variants};
use crate::log;
use crate::trace;
use spirula_interface::options::{Groups, Usual};
use spirula_interface::program::{Alternative, KernelCode, KernelInfo, Launch};
use spirula_interface::tier::Tier;
use spirula_service::process::Request;
use std::fmt::{self, Debug, Display, Formatter};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::{Duration, Instant};

/// Where code is kept on disk launches must have run so long, on all threads together, before a kernel is optimized between them.
/// That is much less than it takes a compiler: a program that is run once is mostly run again, and how fast it is then is what its
/// user remembers.
const WORTH_KEEPING_NS: u64 = 500_000;

/// What is expected of a launch is believed once its kernel ran so long, on all threads together: the first work-groups meet cold
/// caches and new pages. What is so many times more than enough is believed so many times earlier.
const ENOUGH_SEEN_NS: u64 = 6_000_000;
/// But never before this.
const LEAST_SEEN_NS: u64 = 500_000;

/// A launch waits for code no longer than so many times what it is expected to take, on one thread: a program of thousands of short ones
/// would be over before it's there.
const WORTH_AWAITING: u64 = 100;
/// The same where nothing is known of it: such are short.
const UNKNOWN_AWAITED: Duration = Duration::from_millis(50);

/// Lanes that optimized code may have which nobody has seen yet.
const MOST_LANES: u32 = 64;

/// Code that one build made of a kernel.
#[derive(Clone, Debug)]
pub(crate) struct Version {
    pub code: Code,
    pub info: Arc<KernelInfo>,
    /// How its lanes are chosen, if that is not done.
    pub tuning: Option<Arc<Tuning>>,
}

impl Version {
    pub(crate) fn tier(&self) -> Tier {
        self.info.code.tier
    }
}

/// Makes a kernel's optimized code.
pub(crate) trait Maker: Send + Sync {
    /// In so many lanes, or as many as the compiler chooses. Errors: why it can't.
    fn make(&self, groups: Groups, lanes: Option<u32>) -> Result<Version, String>;

    /// What another process is to be asked for to make the same, if that is kept.
    fn request(&self, groups: Groups, lanes: Option<u32>) -> Option<Request>;

    /// If that was made before: in an instant, or not at all.
    fn known(&self, groups: Groups) -> Option<Version>;

    /// From now on code that is made in as many lanes as the compiler chooses is that in so many, beside which only these others may be
    /// tried.
    fn prefer(&self, groups: Groups, lanes: Option<u32>, left: &[Alternative]);
}

/// A kernel's code.
pub(crate) struct Tiers {
    /// What the program was built with.
    first: Version,
    /// Settled once: whether there is better code for all launches.
    optimized: OnceLock<Option<Version>>,
    /// What runs before that.
    guess: Guess,
    /// None: there is nothing but the first.
    maker: Option<Box<dyn Maker>>,
    /// Whether it was looked for what was made before.
    looked: AtomicBool,
    /// What launches had in common until then.
    common: Common,
    /// In baseline code.
    spent_ns: Arc<AtomicU64>,
    /// Whether optimized code was asked for.
    begun: AtomicBool,
    /// Whether it is being made at the moment, or is next.
    making: AtomicBool,
    /// The same of variants, too, and who waits for it.
    awaited: Awaited,
    /// Whether it would be kept on disk, which the system must be asked for.
    is_kept: OnceLock<bool>,
    variants: Variants,
    pub(crate) pace: Pace,
    /// Whether it runs quicker on several threads.
    pub(crate) company: Company,
}

impl Debug for Tiers {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        f.debug_struct("Tiers").field("newest", self.newest()).finish_non_exhaustive()
    }
}

/// What there is for a launch beside some code of its kernel.
#[derive(Debug)]
pub(crate) enum Better {
    /// It is the best there will be.
    Never,
    /// It may be replaced.
    NotYet,
    /// It is to be replaced by this.
    Now(Version),
}

impl Tiers {
    /// Without a maker nothing better than the first code comes.
    pub(crate) fn new(first: Version, maker: Option<Box<dyn Maker>>) -> Arc<Tiers> {
        let settled = maker.is_none() || first.tier() == Tier::Optimized;
        let first = if maker.is_some() { tuning::begin(first, Groups::Any) } else { first };
        Arc::new(Tiers {
            pace: Pace::new(first.tier()),
            company: Company::default(),
            first,
            optimized: if settled { OnceLock::from(None) } else { OnceLock::new() },
            guess: Guess::default(),
            maker,
            looked: AtomicBool::new(false),
            common: Common::default(),
            spent_ns: Arc::default(),
            begun: AtomicBool::new(false),
            making: AtomicBool::new(false),
            awaited: Awaited::default(),
            is_kept: OnceLock::new(),
            variants: Variants::default(),
        })
    }

    /// What the program was built with.
    pub(crate) fn first(&self) -> &Version {
        &self.first
    }

    /// The best code for all launches.
    pub(crate) fn newest(&self) -> &Version {
        let optimized = self.optimized.get().and_then(Option::as_ref);
        optimized.or_else(|| self.guessed()).unwrap_or(&self.first)
    }

    /// Whether better code for all launches may come while one runs. What was made before is there at once.
    pub(crate) fn may_get_better(&self) -> bool {
        self.look_once();
        !self.is_settled()
    }

    /// Work-items of a row that the best code runs together at most, or may when it comes.
    pub(crate) fn lanes(&self) -> u32 {
        if self.is_settled() { self.newest().lanes() } else { MOST_LANES }
    }

    /// The code to begin a launch with. Where launches of a local size run long, code for that may be begun to be made.
    pub(crate) fn choose(self: &Arc<Tiers>, invocation: &Invocation) -> Version {
        self.look_once();
        if !self.is_settled() {
            self.common.see(&invocation.launch, self.first.info.code.row_dimension);
        }
        let items = invocation.groups().saturating_mul(invocation.group_items());
        let expected_ns = self.pace.estimate_ns(items);
        if let Some(guessed) = self.guessed() {
            if !invocation.can_run(guessed) {
                return self.first.clone();
            }
            self.guess_runs(expected_ns);
            return guessed.clone();
        }
        let newest = self.newest().champion();
        if newest.tier() == Tier::Optimized
            && invocation.launch.local_size == invocation.launch.enqueued_local_size
        {
            let variant = self.variants.variant(self, &newest.info, &invocation.launch, expected_ns);
            let variant = variant.map(|variant| variant.champion());
            if let Some(variant) = variant.filter(|variant| invocation.can_run(variant)) {
                return variant;
            }
        }
        if invocation.can_run(&newest) { newest } else { self.first.clone() }
    }

    /// What there is beside the code that a launch is in.
    pub(crate) fn better_than(&self, version: &Version, launch: &Launch) -> Better {
        match self.optimized.get() {
            _ if version.tier() == Tier::Optimized => Better::Never,
            None | Some(None)
                if let Some(guessed) = self.guessed().filter(|code| code.info.code.is_for(launch)) =>
            {
                Better::Now(guessed.clone())
            }
            None => Better::NotYet,
            Some(None) => Better::Never,
            // (Rows are made to suit the code that was found to be fastest.)
            Some(Some(newest)) if newest.champion().info.code.is_for(launch) => Better::Now(newest.clone()),
            Some(Some(_)) => self.variants.general(self),
        }
    }

    /// Whether optimized code is being made at the moment, which wants a processor.
    pub(crate) fn is_making(&self) -> bool {
        self.making.load(Ordering::Relaxed)
    }

    /// A launch that is expected to take so much longer by the clock is worth having its code made meanwhile: half as long again
    /// as that takes, for the compiler keeps a processor from it.
    pub(crate) fn worth_making_ns(&self) -> u64 {
        self.making_ns().saturating_mul(3) / 2
    }

    /// How long the compiler is expected to take for the optimized code.
    fn making_ns(&self) -> u64 {
        compile_time::HERE.expected_ns(self.first.info.code.operations)
    }

    /// The same, for who does it.
    pub(super) fn making_time(&self) -> Duration {
        Duration::from_nanos(self.making_ns())
    }

    /// Whether no better code for all launches will come.
    pub(crate) fn is_settled(&self) -> bool {
        self.optimized.get().is_some()
    }

    /// Whether a launch that begins now stays in its code: it is optimized, or never will be.
    pub(crate) fn launches_stay(&self) -> bool {
        self.is_settled() || self.guessed().is_some()
    }

    /// Whether no launch was measured yet, and better code may come while one runs.
    pub(crate) fn is_new(&self) -> bool {
        !self.launches_stay() && self.spent_ns.load(Ordering::Relaxed) == 0
    }

    /// A launch ran so long in code that may get better, and is expected to take so much longer by the clock: by what is known of it,
    /// and by what is surely known.
    pub(crate) fn spend(
        self: &Arc<Tiers>,
        launch: &Launch,
        ns: u64,
        (left_ns, surely_left_ns): (u64, Option<u64>),
    ) {
        let spent = self.spent_ns.fetch_add(ns, Ordering::Relaxed).saturating_add(ns);
        match spent {
            ..LEAST_SEEN_NS => {}
            ENOUGH_SEEN_NS.. => self.expect(launch, left_ns),
            _ => {
                let believed =
                    u128::from(surely_left_ns.unwrap_or(0)) * u128::from(spent) / u128::from(ENOUGH_SEEN_NS);
                self.expect(launch, believed as u64); // Less than it was.
            }
        }
    }

    /// A launch that waits for better code is expected to take so much longer by the clock.
    pub(crate) fn expect(self: &Arc<Tiers>, launch: &Launch, left_ns: u64) {
        if left_ns < self.worth_making_ns() {
            return;
        }
        match self.optimized.get() {
            None => self.begin_usual(Duration::ZERO),
            // It goes on in what has come meanwhile, unless that is not for it.
            Some(Some(newest)) if !newest.champion().info.code.is_for(launch) => {
                self.variants.begin_general(self);
            }
            Some(_) => {}
        }
    }

    /// Launches that ran so long in baseline code, on all threads together, are worth having better code made between them: for this
    /// process a third of what it takes to make it, for which most have a processor to spare, for the next one less.
    fn worth_improving_ns(&self) -> u64 {
        let is_kept = *self.is_kept.get_or_init(spirula_service::keeps_code);
        if is_kept { WORTH_KEEPING_NS } else { self.making_ns() / 3 }
    }

    /// A launch has ended, and processors may be free.
    pub(crate) fn launch_ended(self: &Arc<Tiers>) {
        if self.was_begun() || self.guess.is_pending() {
            return;
        }
        let spent = self.spent_ns.load(Ordering::Relaxed);
        // Most launches are short ones: of those that don't reach either the system need not be asked which it is.
        let may_begin = spent >= WORTH_KEEPING_NS.min(self.making_ns() / 3);
        if may_begin && spent >= self.worth_improving_ns() {
            self.begin_usual(background::PAUSE);
        }
    }

    /// The application has read how long a launch took: what it measures next is to be the code that stays.
    pub(crate) fn times_were_read(self: &Arc<Tiers>) {
        if self.awaited.time() && self.guessed().is_none() {
            self.begin_usual(Duration::ZERO);
        }
    }

    /// Before a launch of so many work-items begins: waits for code that is being made, if the application measures.
    pub(crate) fn wait_if_measured(&self, items: u64) {
        if self.awaited.is_awaited() && self.guessed().is_none() {
            let _span = trace::span("wait", || format!("{} is measured: wait for its code", self.name()));
            let most = match self.pace.is_known() {
                true => Duration::from_nanos(self.pace.estimate_ns(items).saturating_mul(WORTH_AWAITING)),
                false => UNKNOWN_AWAITED,
            };
            self.awaited.wait(most);
        }
    }

    /// Has better code made, and waits for it: for tests, in which short launches are to change code in their midst.
    pub(crate) fn have_made(self: &Arc<Tiers>, launch: &Launch) {
        self.expect(launch, u64::MAX);
        self.awaited.wait_for_all();
    }

    /// Code was asked for, and launches may wait for it until [`Tiers::made`].
    pub(super) fn asked_for(&self) {
        self.awaited.begin();
    }

    /// It is there, or will not come.
    pub(super) fn made(&self) {
        self.awaited.end();
    }

    /// What launches had in common until now, as far as code can be the better for it.
    fn usual(&self) -> Usual {
        let usual = self.common.usual(MOST_LANES);
        Usual { size: usual.size.filter(|_| !self.is_for_all_sizes()), ..usual }
    }

    /// Has optimized code made for launches like those that there were, once, after such a pause.
    fn begin_usual(self: &Arc<Tiers>, pause: Duration) {
        if self.guess.is_pending() {
            return; // That will be there sooner.
        }
        self.begin(pause, Groups::Usual(self.usual()));
    }

    /// Has the optimized code made for such groups, once, after such a pause.
    fn begin(self: &Arc<Tiers>, pause: Duration, groups: Groups) {
        if self.was_begun() || self.begun.swap(true, Ordering::Relaxed) {
            return;
        }
        self.making.store(true, Ordering::Relaxed);
        self.asked_for();
        let (weak, kept) = self.owners();
        let heir = kept.clone();
        let will = move || heir.as_ref()?.request(groups, None);
        let takes = self.making_time();
        let job = move || {
            if let Some(this) = kept.or_else(|| weak.upgrade()) {
                let made = catch_unwind(AssertUnwindSafe(|| this.make(groups)));
                // A panic costs the kernel its optimized code, and launches no wait for it.
                let _ = this.optimized.set(made.as_ref().ok().cloned().flatten());
                this.making.store(false, Ordering::Relaxed);
                this.made();
                if let Err(panic) = made {
                    resume_unwind(panic); // The queue says so.
                }
            }
        };
        if let Err(error) = background::run_after(pause, takes, self.spent(), Box::new(job), Box::new(will)) {
            self.warn(groups, &error);
            let _ = self.optimized.set(None);
            self.making.store(false, Ordering::Relaxed);
            self.made();
        }
    }

    /// What a job that makes code holds on to: nobody needs the code of a program that is gone, but for the next process.
    pub(super) fn owners(self: &Arc<Tiers>) -> (Weak<Tiers>, Option<Arc<Tiers>>) {
        (Arc::downgrade(self), spirula_service::keeps_code().then(|| self.clone()))
    }

    /// For how many nanoseconds launches have run in baseline code.
    pub(super) fn spent(&self) -> background::SpentNs {
        let spent_ns = self.spent_ns.clone();
        Box::new(move || spent_ns.load(Ordering::Relaxed))
    }

    /// What another process is to be asked for, to make optimized code for the next one.
    pub(super) fn request(&self, groups: Groups, lanes: Option<u32>) -> Option<Request> {
        self.maker.as_ref()?.request(groups, lanes)
    }

    /// Takes what was made in an earlier launch or process, the first time.
    pub(crate) fn look_once(&self) {
        if self.optimized.get().is_some()
            || self.looked.load(Ordering::Relaxed)
            || self.looked.swap(true, Ordering::Relaxed)
        {
            return;
        }
        let usual = self.known(Groups::Usual(Usual::NOTHING));
        // (As builds wait for it.)
        let for_all = || self.is_for_all_sizes().then(|| self.known(Groups::Any)).flatten();
        if let Some(version) = usual.or_else(for_all) {
            let _ = self.optimized.set(Some(version));
        } else if !self.is_for_all_sizes()
            && let Some(version) = self.known(guess::GUESSED)
        {
            self.guess_found(version);
        }
    }

    /// Whether the optimized code is there, or was asked for.
    fn was_begun(&self) -> bool {
        self.is_settled() || self.begun.load(Ordering::Relaxed)
    }

    /// Whether code that knows the size of groups is no better than code for all launches.
    fn is_for_all_sizes(&self) -> bool {
        let KernelInfo { code, signature } = &*self.first.info;
        !code.sees_group || signature.required_work_group_size.is_some()
    }

    /// What was made in an earlier launch or process. Its lanes are still to be chosen.
    pub(super) fn known(&self, groups: Groups) -> Option<Version> {
        let known = self.maker.as_ref()?.known(groups)?;
        let version = Some(known).filter(|version| self.is_same_launch(version))?;
        let groups = match groups {
            Groups::Usual(usual) => {
                let KernelCode { local_size, formats, .. } = version.info.code;
                Groups::Usual(Usual { size: local_size, formats, ..usual })
            }
            groups => groups,
        };
        let what = variants::described(groups);
        log::debug(format_args!("kernel {}: {what} was made before", self.name()));
        Some(tuning::begin(version, groups))
    }

    /// Makes optimized code, here and now, if it can be made. Its lanes are still to be chosen.
    pub(super) fn make(&self, groups: Groups) -> Option<Version> {
        self.make_in_lanes(groups, None).map(|version| tuning::begin(version, groups))
    }

    /// The same in so many lanes, or in as many as the compiler chooses.
    pub(super) fn make_in_lanes(&self, groups: Groups, lanes: Option<u32>) -> Option<Version> {
        let (begun, expected) = (Instant::now(), Duration::from_nanos(self.making_ns()));
        let mut span = trace::span("build", || format!("{} of {}", variants::described(groups), self.name()));
        span.note("expected to take", format_args!("{expected:.1?}"));
        let made = self.maker.as_ref()?.make(groups, lanes).and_then(|version| {
            let right = self.is_same_launch(&version);
            right.then_some(version).ok_or_else(|| "it is called in another way than the first code".into())
        });
        span.note(
            "result",
            made.as_ref().map_or_else(Clone::clone, |version| format!("{} lanes", version.info.code.lanes)),
        );
        match &made {
            Ok(version) => {
                let what = variants::described(groups);
                let lanes = version.info.code.lanes;
                let time = begun.elapsed();
                log::debug(format_args!(
                    "kernel {}: {what} in {time:.1?} ({expected:.1?} expected), {lanes} lanes",
                    self.name()
                ));
            }
            Err(error) => self.warn(groups, error),
        }
        made.ok()
    }

    /// Has later builds yield the code in so many lanes.
    pub(super) fn prefer(&self, groups: Groups, lanes: Option<u32>, left: &[Alternative]) {
        self.maker.iter().for_each(|maker| maker.prefer(groups, lanes, left));
    }

    /// Whether a launch that was checked for the first code may run this, but for its scratch; see [`Invocation::can_run`].
    fn is_same_launch(&self, version: &Version) -> bool {
        let (first, other) = (&self.first.info, &version.info);
        other.signature == first.signature
            && other.code.sub_group_size == first.code.sub_group_size
            && other.code.static_local_size == first.code.static_local_size
            && (first.code.sees_group || !other.code.sees_group)
    }

    pub(super) fn warn(&self, groups: Groups, why: &dyn Display) {
        if background::is_left() {
            return; // An exit ends the compilers.
        }
        log::warn(format_args!("kernel {}: no {}: {why}", self.name(), variants::described(groups)));
    }

    pub(super) fn variants(&self) -> &Variants {
        &self.variants
    }

    /// Whether code can be made for local sizes.
    pub(super) fn can_specialize(&self) -> bool {
        self.maker.is_some()
    }

    fn name(&self) -> &str {
        &self.first.info.signature.name
    }
}

#[cfg(test)]
pub(crate) mod tests;
