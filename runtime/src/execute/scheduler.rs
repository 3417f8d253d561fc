//! Runs a launch's work-groups over the device's CPUs.
//!
//! The thread that runs the command takes part itself: it begins at once, and asks the pool's threads for help only when
//! the launch is long enough to pay for waking them. Everyone takes chunks of consecutive groups from a shared counter;
//! chunks shrink towards the end, so that all finish together. The counter lives in an `Arc`, so that helpers that come
//! late find nothing to do, and nobody waits for them.

use crate::error::{Error, Result, Status};
use crate::execute::arena::Arena;
use crate::execute::launch::Invocation;
use crate::log;
use crate::machine::affinity::{self, Cpus};
use crate::machine::timer;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;

/// Stack of the threads that run kernels; only touched pages cost memory.
pub(crate) const STACK_SIZE: usize = 16 << 20;
/// A launch that is expected to take less runs on one thread.
const WORTH_WAKING_NS: u64 = 15_000;
/// A guess for kernels that have not run yet.
const UNKNOWN_ITEM_PS: u32 = 10_000;
/// How often a thread that waits for the last chunks looks before it sleeps.
const SPINS: u32 = 2_000;

/// What earlier launches of a kernel took: picoseconds per work-item on one thread.
#[derive(Debug)]
pub(crate) struct Pace(AtomicU32);

impl Default for Pace {
    fn default() -> Self {
        Pace(AtomicU32::new(UNKNOWN_ITEM_PS))
    }
}

impl Pace {
    /// Nanoseconds that so many work-items are expected to take on one thread.
    pub(crate) fn estimate_ns(&self, items: u64) -> u64 {
        items.saturating_mul(self.0.load(Ordering::Relaxed).into()) / 1000
    }

    /// Whether `items` are expected to take less than waking a thread is worth.
    pub(crate) fn is_short(&self, items: u64) -> bool {
        self.estimate_ns(items) < WORTH_WAKING_NS
    }

    /// Takes in that `items` took `ns`; half of the old value stays.
    fn learn(&self, items: u64, ns: u64) {
        let measured = (ns.saturating_mul(1000) / items.max(1)).min(u32::MAX.into());
        let old = u64::from(self.0.load(Ordering::Relaxed));
        self.0.store(((old + measured) / 2) as u32, Ordering::Relaxed);
    }
}

/// A device's threads.
#[derive(Debug)]
pub(crate) struct Scheduler {
    threads: usize,
    /// Built by the first launch that needs it; None if the system gives no threads.
    pool: OnceLock<Option<ThreadPool>>,
    /// The CPUs that kernels must run on; None for any.
    bound: Option<Cpus>,
}

impl Scheduler {
    /// For `threads` CPUs, the caller's included, which must be one of `bound`.
    pub(crate) fn new(threads: usize, bound: Option<Cpus>) -> Scheduler {
        Scheduler { threads: threads.max(1), pool: OnceLock::new(), bound }
    }

    pub(crate) fn bound(&self) -> Option<&Cpus> {
        self.bound.as_ref()
    }

    pub(crate) fn threads(&self) -> usize {
        self.threads
    }

    fn pool(&self) -> Option<&ThreadPool> {
        let build = || {
            let builder = ThreadPoolBuilder::new().num_threads(self.threads).stack_size(STACK_SIZE);
            let bound = self.bound.clone();
            let builder = builder.start_handler(move |_| bound.iter().for_each(affinity::bind));
            let pool = builder.thread_name(|index| format!("spirula-{index}")).build();
            pool.inspect_err(|error| log::error(format_args!("kernels run on one thread only: {error}"))).ok()
        };
        self.pool.get_or_init(build).as_ref()
    }

    /// Runs all groups and returns when they are done. CL_OUT_OF_RESOURCES without memory for local memory and scratch, and if the
    /// code faults.
    pub(crate) fn run(&self, invocation: &Arc<Invocation>, pace: &Pace) -> Result<()> {
        self.run_groups(invocation, 0..invocation.groups(), pace)
    }

    /// As [`Scheduler::run`], for some of the groups.
    pub(crate) fn run_groups(
        &self,
        invocation: &Arc<Invocation>,
        mut groups: Range<u64>,
        pace: &Pace,
    ) -> Result<()> {
        let count = groups.end - groups.start;
        let alone = count <= 1 || self.threads == 1;
        if alone || pace.is_short(count.saturating_mul(invocation.group_items())) {
            let (end, ns) = self.run_here(invocation, groups.clone(), alone)?;
            pace.learn((end - groups.start) * invocation.group_items(), ns);
            groups.start = end;
            if groups.is_empty() {
                return Ok(());
            }
        }
        self.share(invocation, groups, pace)
    }

    /// Runs groups on this thread until all are done or, unless `alone`, it has taken long enough to call for help. Returns
    /// the end of those that are done, and the time.
    fn run_here(&self, invocation: &Invocation, groups: Range<u64>, alone: bool) -> Result<(u64, u64)> {
        let started = timer();
        let mut arena = arena_for(invocation)?;
        let count = groups.end - groups.start;
        let step = if alone { count } else { count.div_ceil(16) };
        let (mut done, mut ns) = (groups.start, 0);
        while done < groups.end && (alone || ns < WORTH_WAKING_NS) {
            let end = (done + step).min(groups.end);
            invocation.run(&mut arena, done, end)?;
            done = end;
            ns = timer() - started;
        }
        arena.give_back();
        Ok((done, ns))
    }

    /// Runs groups with the pool's help.
    fn share(&self, invocation: &Arc<Invocation>, groups: Range<u64>, pace: &Pace) -> Result<()> {
        let helpers = (self.threads - 1).min((groups.end - groups.start).saturating_sub(1) as usize);
        let job = Arc::new(Job::new(invocation.clone(), groups, self.threads));
        if let Some(pool) = self.pool().filter(|_| helpers > 0) {
            let helped = job.clone();
            pool.spawn(move || helped.help(helpers));
        }
        let started = timer();
        let done = match arena_for(invocation) {
            Ok(mut arena) => {
                let done = job.work(&mut arena);
                arena.give_back();
                done
            }
            Err(error) => {
                job.fail(error);
                0
            }
        };
        if done > 0 {
            pace.learn(done * invocation.group_items(), timer() - started);
        }
        job.wait();
        job.failure.get().cloned().map_or(Ok(()), Err)
    }
}

fn arena_for(invocation: &Invocation) -> Result<Arena> {
    let (local, scratch) = (invocation.local_size, invocation.scratch_size);
    Arena::take(local, scratch).ok_or_else(|| {
        Status::OutOfResources
            .because(format!("no memory for {local} bytes of local memory and {scratch} of scratch"))
    })
}

/// A launch that several threads work on.
struct Job {
    invocation: Arc<Invocation>,
    /// The end of its groups.
    groups: u64,
    /// The next group that nobody has taken.
    next: AtomicU64,
    /// Groups that have run, and those before the first.
    done: AtomicU64,
    /// A chunk is this part of what is left.
    divisor: u64,
    asleep: AtomicBool,
    waiter: Thread,
    /// The first of those of all threads.
    failure: OnceLock<Error>,
}

impl Job {
    fn new(invocation: Arc<Invocation>, groups: Range<u64>, threads: usize) -> Job {
        Job {
            invocation,
            groups: groups.end,
            next: AtomicU64::new(groups.start),
            done: AtomicU64::new(groups.start),
            divisor: 4 * threads as u64,
            asleep: AtomicBool::new(false),
            waiter: std::thread::current(),
            failure: OnceLock::new(),
        }
    }

    /// Takes a chunk of groups that nobody else gets.
    fn take(&self) -> Option<(u64, u64)> {
        let mut first = self.next.load(Ordering::Relaxed);
        while first < self.groups {
            let end = first + ((self.groups - first) / self.divisor).max(1);
            // The chunk's data are the kernel's; `done` publishes them.
            match self.next.compare_exchange_weak(first, end, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some((first, end)),
                Err(now) => first = now,
            }
        }
        None
    }

    /// Runs chunks until none is left; returns the groups that ran here. A fault ends the whole launch.
    fn work(&self, arena: &mut Arena) -> u64 {
        let mut ran = 0;
        while let Some((first, end)) = self.take() {
            match self.invocation.run(arena, first, end) {
                Ok(()) => ran += end - first,
                Err(error) => self.fail(error),
            }
            self.count(end - first);
        }
        ran
    }

    /// A pool thread's part: it calls two others, who call two each, so that the launching thread wakes only one.
    fn help(self: Arc<Job>, helpers: usize) {
        let others = helpers - 1;
        for part in [others.div_ceil(2), others / 2] {
            if part > 0 && self.next.load(Ordering::Relaxed) < self.groups {
                let job = self.clone();
                rayon::spawn(move || job.help(part));
            }
        }
        // A helper without memory leaves the work to the others.
        if let Ok(mut arena) = arena_for(&self.invocation) {
            self.work(&mut arena);
            arena.give_back();
        }
    }

    /// Ends the launch: declares the groups that nobody has taken done.
    fn fail(&self, error: Error) {
        let _ = self.failure.set(error);
        while let Some((first, end)) = self.take() {
            self.count(end - first);
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
        for _ in 0..SPINS {
            if self.done.load(Ordering::Acquire) == self.groups {
                return;
            }
            std::hint::spin_loop();
        }
        self.asleep.store(true, Ordering::SeqCst);
        while self.done.load(Ordering::SeqCst) != self.groups {
            std::thread::park();
        }
    }
}

#[cfg(test)]
mod tests;
