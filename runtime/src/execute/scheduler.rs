//! Runs a launch's work-groups over the device's CPUs.
//!
//! The thread that runs the command takes part itself: it begins at once, and asks the pool's threads for help only when
//! the launch is long enough to pay for waking them. Everyone has a share of consecutive groups, the same one in each launch of a
//! kind: what one launch left in a processor's caches, the next one finds there. Of more than fits there that is the end of the share, so
//! that every second launch begins at the end. Chunks of a share shrink towards its end, and who has
//! done his own takes some from the ends of others', so that all finish together; where better code may come chunks are short. The
//! shares live in an `Arc`, so that helpers that come late find nothing to do, and nobody waits for them.

mod awake;
mod parts;
mod pool;
mod shares;
mod worker;

use crate::error::{Error, Result};
use crate::execute::background;
use crate::execute::company;
use crate::execute::launch::Invocation;
use crate::execute::pace::WORTH_WAKING_NS;
use crate::execute::tiers::Version;
use crate::isolation;
use crate::machine::affinity::{self, Cpus};
use crate::machine::timer;
use crate::trace::{self, Span};
use awake::Awake;
pub(crate) use awake::SOON_NS;
use pool::Pool;
use shares::Shares;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::{Builder, Thread};
use std::time::Duration;
use worker::Worker;

/// Stack of the threads that run kernels; only touched pages cost memory.
pub(crate) const STACK_SIZE: usize = 16 << 20;
/// Chunks are not to be shorter: each costs a tenth of that.
const LEAST_CHUNK_NS: u64 = 1_000;
/// How often a thread that waits for the last chunks looks before it sleeps.
const SPINS: u32 = 2_000;

/// When it is looked how far a launch has come.
const BETWEEN_LOOKS: Duration = Duration::from_millis(2);
/// Looks before anything is expected, or others begin with groups, too. So long the first groups may also meet new pages alone: two
/// megabytes of them are cleared in a fraction of a millisecond, but fetched by a virtual machine's host in five.
const LOOKS_ALONE: u64 = 2;

/// How long a helper that rests sleeps before it looks again.
const REST: Duration = Duration::from_micros(200);

/// A device's threads.
#[derive(Debug)]
pub(crate) struct Scheduler {
    pool: Arc<Pool>,
    /// Those of the pool who wait for work.
    awake: Arc<Awake>,
    /// Whether the last launch that could ran backwards.
    backwards: AtomicBool,
}

impl Scheduler {
    /// For `threads` CPUs, the caller's included, which must be one of `bound`.
    pub(crate) fn new(threads: usize, bound: Option<Cpus>) -> Scheduler {
        Scheduler {
            pool: Arc::new(Pool::new(threads, bound)),
            awake: Arc::default(),
            backwards: AtomicBool::new(false),
        }
    }

    pub(crate) fn bound(&self) -> Option<&Cpus> {
        self.pool.bound.as_ref()
    }

    pub(crate) fn threads(&self) -> usize {
        self.pool.threads
    }

    /// Has it called in a moment, or sooner. False if nobody is awake who could.
    pub(crate) fn remind(&self, call: impl FnOnce() + Send + 'static) -> bool {
        self.awake.remind(call)
    }

    /// Runs all groups and returns when they are done. CL_OUT_OF_RESOURCES without memory for local memory and scratch, and if the
    /// code faults.
    pub(crate) fn run(&self, invocation: &Arc<Invocation>) -> Result<()> {
        self.run_groups(invocation, 0..invocation.groups())
    }

    /// As [`Scheduler::run`], for some of the groups.
    pub(crate) fn run_groups(&self, invocation: &Arc<Invocation>, groups: Range<u64>) -> Result<()> {
        let _span = launch_span(invocation, &groups);
        let result = match &invocation.tiers.first().code.at().isolation {
            Some(isolation) => isolation::run_groups(isolation, self, invocation, groups),
            None => self.run_here_or_share(invocation, groups),
        };
        invocation.tiers.launch_ended();
        result
    }

    fn run_here_or_share(&self, invocation: &Arc<Invocation>, mut groups: Range<u64>) -> Result<()> {
        let count = groups.end - groups.start;
        let items = count.saturating_mul(invocation.group_items());
        let alone = count <= 1 || self.threads() == 1;
        let version = invocation.tiers.choose(invocation);
        // Two groups of a kernel that was never measured may be a second's work, and the first wouldn't let anybody know.
        let may_be_long = !invocation.tiers.pace.is_known();
        if !alone
            && (may_be_long || self.may_meet(invocation, count) || !invocation.tiers.pace.is_short(items))
        {
            let has_a_choice = !may_be_long
                && !self.may_meet(invocation, count)
                && invocation.tiers.launches_stay()
                && version.tuning.as_ref().is_none_or(|tuning| tuning.is_settled())
                && invocation.tiers.pace.estimate_ns(items) < company::MOST_NS;
            return match has_a_choice {
                true => self.share_if_it_pays(invocation, version, groups),
                false => self.share(invocation, version, groups),
            };
        }
        let at_once = alone || invocation.tiers.pace.is_trivial(items);
        let version = self.run_alone(invocation, version, &mut groups, at_once)?;
        if groups.is_empty() { Ok(()) } else { self.share(invocation, version, groups) }
    }

    /// Runs groups on this thread, all or until help is worth it, and takes those that ran from them. Returns the code that ran.
    fn run_alone(
        &self,
        invocation: &Arc<Invocation>,
        version: Version,
        groups: &mut Range<u64>,
        at_once: bool,
    ) -> Result<Version> {
        let mut worker = Worker::new(invocation, version, 0)?;
        let ran = run_here(&mut worker, groups.clone(), self.threads(), at_once);
        worker.learn();
        let version = worker.end();
        groups.start = ran?;
        Ok(version)
    }

    /// With help or without, as has turned out to be quicker.
    fn share_if_it_pays(
        &self,
        invocation: &Arc<Invocation>,
        version: Version,
        mut groups: Range<u64>,
    ) -> Result<()> {
        let company = &invocation.tiers.company;
        let items = (groups.end - groups.start).saturating_mul(invocation.group_items());
        let (is_shared, begun) = (company.shares(version.code.number()), timer());
        if is_shared {
            self.share(invocation, version, groups)?;
        } else {
            self.run_alone(invocation, version, &mut groups, true)?;
        }
        company.learn(is_shared, items, timer() - begun);
        Ok(())
    }

    /// Whether so few groups may wait for each other, which OpenCL doesn't promise to end, that each can have a thread of its own.
    fn may_meet(&self, invocation: &Invocation, groups: u64) -> bool {
        let tiers = &invocation.tiers;
        let items = groups.saturating_mul(invocation.group_items());
        groups <= self.threads() as u64 && !tiers.first().info.code.any_order && !tiers.pace.is_trivial(items)
    }

    /// Runs groups with the pool's help.
    fn share(&self, invocation: &Arc<Invocation>, version: Version, groups: Range<u64>) -> Result<()> {
        let helpers = (self.threads() - 1).min((groups.end - groups.start).saturating_sub(1) as usize);
        let may_turn = invocation.tiers.first().info.code.any_order;
        let backwards = may_turn && !self.backwards.fetch_xor(true, Ordering::Relaxed);
        let least = invocation.tiers.pace.items_in(LEAST_CHUNK_NS) / invocation.group_items().max(1);
        let items = (groups.end - groups.start).saturating_mul(invocation.group_items());
        let share_ns = invocation.tiers.pace.estimate_ns(items) / self.threads() as u64;
        let shares =
            Shares::new(groups.clone(), self.threads(), backwards).of_at_least(least).that_take(share_ns);
        let help =
            (helpers > 0).then(|| Help { pool: self.pool.clone(), awake: self.awake.clone(), most: helpers });
        let job = Arc::new(Job::new(invocation.clone(), version, groups, shares, help, self.threads()));
        let has_time = !self.may_meet(invocation, job.groups - job.done.load(Ordering::Relaxed));
        match invocation.tiers.is_new() && has_time {
            true => watch(&job, || std::thread::sleep(BETWEEN_LOOKS)),
            false => job.call_for_help(),
        }
        match Worker::new(invocation, job.version.clone(), 0) {
            Ok(mut worker) => {
                let begun = worker.since();
                let lasts = || timer() - begun >= WORTH_WAKING_NS;
                job.work(&mut worker, 0, || {
                    if lasts() {
                        job.call_for_help()
                    }
                });
                worker.learn();
                worker.end();
            }
            Err(error) => job.fail(error),
        }
        job.wait();
        job.failure.get().cloned().map_or(Ok(()), Err)
    }
}

/// Tells of a launch, or a part of one.
fn launch_span(invocation: &Invocation, groups: &Range<u64>) -> Span {
    let mut span = trace::span("launch", || invocation.tiers.first().info.signature.name.as_str());
    span.note("launch", trace::address_of(invocation));
    span.note("groups", groups.end - groups.start);
    span.note("work-items in each", format_args!("{:?}", invocation.launch.local_size));
    span
}

/// Looks after a kernel's first launch: where each of its groups takes long, nobody would know before the first one ends. Before
/// that, or before it is known that better code will not be there soon, nobody else begins with one: nobody could leave it for that code,
/// and the compiler needs a processor. And where the first groups took an instant and later ones don't, as in a picture whose corners
/// are empty, a thread knows nothing new before its chunk of them ends. Nobody looks any longer once that code is asked for. That is done by a
/// thread of its own: those that have code made may be at another kernel's until this launch ends.
fn watch(job: &Arc<Job>, pause: impl Fn() + Send + 'static) {
    let (weak, before) = (Arc::downgrade(job), job.done.load(Ordering::Relaxed));
    let look = move || {
        for look in 1.. {
            pause();
            let Some(job) = weak.upgrade() else { return };
            let (tiers, done) = (&job.invocation.tiers, job.done.load(Ordering::Relaxed));
            if job.shares.are_empty() {
                return;
            }
            let since_ns = look * BETWEEN_LOOKS.as_nanos() as u64;
            job.expect_more(done - before, since_ns);
            let is_asked_for = tiers.is_making() || tiers.launches_stay();
            if done == before && (is_asked_for || look > LOOKS_ALONE) {
                job.call_for_help();
            }
            if is_asked_for {
                return;
            }
        }
    };
    // (Who launches may be bound to a part of the machine, which is busy with the launch.)
    let free = affinity::before_binding();
    let look = move || {
        free.iter().for_each(affinity::bind);
        look();
    };
    // Without a thread it is known later.
    if Builder::new().name("spirula-watch".into()).spawn(look).is_err() {
        job.call_for_help();
    }
}

/// Runs groups on this thread until all are done or, unless all are run `at_once`, it has taken long enough to call for help. Returns
/// the end of those that are done.
fn run_here(worker: &mut Worker, groups: Range<u64>, threads: usize, at_once: bool) -> Result<u64> {
    let started = worker.since();
    let count = groups.end - groups.start;
    let step = if at_once { count } else { count.div_ceil(16) };
    let mut done = groups.start;
    while done < groups.end && (at_once || timer() - started < WORTH_WAKING_NS) {
        let end = (done + step.min(worker.most())).min(groups.end);
        worker.run(done, end)?;
        worker.look_ahead(0, groups.end - end, threads as u64);
        done = end;
    }
    Ok(done)
}

/// Who may help with a launch.
struct Help {
    pool: Arc<Pool>,
    awake: Arc<Awake>,
    most: usize,
}

/// A launch that several threads work on.
struct Job {
    invocation: Arc<Invocation>,
    /// The code to begin with.
    version: Version,
    /// The end of its groups.
    groups: u64,
    /// Those that nobody has taken.
    shares: Shares,
    /// Groups that have run, and those before the first.
    done: AtomicU64,
    threads: u64,
    /// Who may help, and whether they were asked.
    help: Option<Help>,
    called: AtomicBool,
    asleep: AtomicBool,
    waiter: Thread,
    /// What is left was last expected to take so long by the clock.
    left_ns: AtomicU64,
    /// Whether a helper leaves its processor to the compiler.
    resting: AtomicBool,
    /// The first of those of all threads.
    failure: OnceLock<Error>,
}

impl Job {
    fn new(
        invocation: Arc<Invocation>,
        version: Version,
        groups: Range<u64>,
        shares: Shares,
        help: Option<Help>,
        threads: usize,
    ) -> Job {
        Job {
            invocation,
            version,
            groups: groups.end,
            done: AtomicU64::new(groups.start),
            shares,
            threads: threads.max(1) as u64,
            help,
            called: AtomicBool::new(false),
            asleep: AtomicBool::new(false),
            waiter: std::thread::current(),
            left_ns: AtomicU64::new(u64::MAX),
            resting: AtomicBool::new(false),
            failure: OnceLock::new(),
        }
    }

    /// So many groups have ended in so many nanoseconds: tells what the others are expected to take. Where some have ended, the threads that
    /// ran them have said more, unless that is long ago.
    fn expect_more(&self, ended: u64, since_ns: u64) {
        let tiers = &self.invocation.tiers;
        let left = self.groups - self.done.load(Ordering::Relaxed);
        let is_known = match ended {
            0 => since_ns > LOOKS_ALONE * BETWEEN_LOOKS.as_nanos() as u64,
            _ => since_ns >= tiers.worth_making_ns() / 2,
        };
        if is_known {
            // So long at least, where none has ended.
            let left_ns = match ended {
                0 => (left / self.threads).saturating_mul(since_ns),
                _ => (u128::from(left) * u128::from(since_ns) / u128::from(ended)) as u64,
            };
            tiers.expect(&self.invocation.launch, left_ns);
        }
    }

    /// Runs chunks until none is left, first those of one share, and calls `between` behind each. A fault ends the whole launch.
    fn work(&self, worker: &mut Worker, share: usize, between: impl Fn()) {
        while let Some(chunk) = self.shares.take(share, worker.most()) {
            let ran = worker.run(chunk.start, chunk.end).map_err(|error| self.fail(error));
            self.count(chunk.end - chunk.start);
            if ran.is_ok() {
                let left = self.groups.saturating_sub(self.done.load(Ordering::Relaxed));
                let left_ns = worker.look_ahead(self.shares.left(share), left, self.threads);
                self.left_ns.store(left_ns, Ordering::Relaxed);
            }
            between();
        }
    }

    /// Asks the pool's threads for help, the first time.
    fn call_for_help(self: &Arc<Job>) {
        if let Some(help) = &self.help
            && !self.called.swap(true, Ordering::Relaxed)
        {
            let (job, most) = (self.clone(), help.most);
            if let Some(pool) = help.pool.get() {
                pool.spawn(move || job.lend(most));
            }
        }
    }

    /// A pool thread's time: its part in this launch, and in others that come soon. Where better code is being made, of this kernel or
    /// another one, the compiler needs the processor more. (That better code may come is no reason: that of short launches never does.)
    fn lend(self: Arc<Job>, helpers: usize) {
        let Some(awake) = self.help.as_ref().map(|help| help.awake.clone()) else { return };
        awake.lend(move || {
            self.help(helpers);
            self.invocation.tiers.launches_stay() || !background::is_busy()
        });
    }

    /// How long the launch is expected to take by the clock in the code that it begins with; for ever, if nobody knows.
    fn expected_ns(&self) -> u64 {
        let tiers = &self.invocation.tiers;
        let items = self.groups.saturating_mul(self.invocation.group_items());
        if tiers.is_new() { u64::MAX } else { tiers.pace.estimate_ns(items) / self.threads }
    }

    /// A pool thread's part: it calls two others, who call two each, so that the launching thread wakes only one.
    fn help(self: &Arc<Job>, helpers: usize) {
        let others = helpers - 1;
        for part in [others.div_ceil(2), others / 2] {
            if part > 0 && !self.shares.are_empty() {
                let job = self.clone();
                rayon::spawn(move || job.lend(part));
            }
        }
        // A helper without memory leaves the work to the others.
        let share = rayon::current_thread_index().map_or(0, |index| index + 1);
        self.left_ns.fetch_min(self.expected_ns(), Ordering::Relaxed);
        self.rest();
        if let Ok(mut worker) = Worker::new(&self.invocation, self.version.clone(), share) {
            self.work(&mut worker, share, || self.rest());
            worker.end();
        }
    }

    /// While better code is being made, one helper of a launch that will last leaves its processor to the compiler: the sooner
    /// it is there, the sooner the launch ends.
    fn rest(&self) {
        let rests = || {
            let tiers = &self.invocation.tiers;
            let lasts = || self.left_ns.load(Ordering::Relaxed) >= tiers.worth_making_ns() / 2;
            tiers.is_making() && lasts() && !self.shares.are_empty()
        };
        if !rests() || self.resting.swap(true, Ordering::Relaxed) {
            return;
        }
        while rests() {
            std::thread::sleep(REST);
        }
        self.resting.store(false, Ordering::Relaxed);
    }

    /// Ends the launch: declares the groups that nobody has taken done.
    fn fail(&self, error: Error) {
        let _ = self.failure.set(error);
        while let Some(chunk) = self.shares.take(0, u64::MAX) {
            self.count(chunk.end - chunk.start);
        }
    }

    fn count(&self, groups: u64) {
        // SeqCst with `asleep`: either the waiter sees the last count, or this thread sees it asleep.
        if self.done.fetch_add(groups, Ordering::SeqCst) + groups == self.groups
            && self.asleep.load(Ordering::SeqCst)
        {
            self.waiter.unpark();
        }
    }

    /// Waits for the chunks that others are still running.
    fn wait(&self) {
        if is_soon(|| self.done.load(Ordering::Acquire) == self.groups) {
            return;
        }
        self.asleep.store(true, Ordering::SeqCst);
        while self.done.load(Ordering::SeqCst) != self.groups {
            std::thread::park();
        }
    }
}

/// Looks for something for a while; whether it has come.
fn is_soon(has_come: impl Fn() -> bool) -> bool {
    (0..SPINS).any(|look| {
        if look > 0 {
            std::hint::spin_loop();
        }
        has_come()
    })
}

#[cfg(test)]
mod tests;
