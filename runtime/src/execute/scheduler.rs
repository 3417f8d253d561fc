//! Runs a launch's work-groups over the device's CPUs.
//!
//! The thread that runs the command takes part itself: it begins at once, and asks the pool's threads for help only when
//! the launch is long enough to pay for waking them. Everyone takes chunks of consecutive groups from a shared counter;
//! chunks shrink towards the end, so that all finish together; where better code may come they are short. The counter lives in an `Arc`, so that helpers that come
//! late find nothing to do, and nobody waits for them.

mod worker;

use crate::error::{Error, Result};
use crate::execute::launch::Invocation;
use crate::execute::pace::WORTH_WAKING_NS;
use crate::execute::tiers::Version;
use crate::log;
use crate::machine::affinity::{self, Cpus};
use crate::machine::timer;
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::ops::Range;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread::Thread;
use std::time::Duration;
use worker::Worker;

/// Stack of the threads that run kernels; only touched pages cost memory.
pub(crate) const STACK_SIZE: usize = 16 << 20;
/// How often a thread that waits for the last chunks looks before it sleeps.
const SPINS: u32 = 2_000;

/// How long a helper that rests sleeps before it looks again.
const REST: Duration = Duration::from_micros(200);

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
    pub(crate) fn run(&self, invocation: &Arc<Invocation>) -> Result<()> {
        self.run_groups(invocation, 0..invocation.groups())
    }

    /// As [`Scheduler::run`], for some of the groups.
    pub(crate) fn run_groups(&self, invocation: &Arc<Invocation>, mut groups: Range<u64>) -> Result<()> {
        let count = groups.end - groups.start;
        let items = count.saturating_mul(invocation.group_items());
        let alone = count <= 1 || self.threads == 1;
        let version = invocation.tiers.choose(invocation);
        if !alone && !invocation.tiers.pace.is_short(items) {
            return self.share(invocation, version, groups);
        }
        let mut worker = Worker::new(invocation, version)?;
        let ran = run_here(&mut worker, groups.clone(), alone);
        worker.learn();
        let version = worker.end();
        groups.start = ran?;
        if groups.is_empty() { Ok(()) } else { self.share(invocation, version, groups) }
    }

    /// Runs groups with the pool's help.
    fn share(&self, invocation: &Arc<Invocation>, version: Version, groups: Range<u64>) -> Result<()> {
        let helpers = (self.threads - 1).min((groups.end - groups.start).saturating_sub(1) as usize);
        let job = Arc::new(Job::new(invocation.clone(), version, groups, self.threads));
        if let Some(pool) = self.pool().filter(|_| helpers > 0) {
            let helped = job.clone();
            pool.spawn(move || helped.help(helpers));
        }
        match Worker::new(invocation, job.version.clone()) {
            Ok(mut worker) => {
                job.work(&mut worker, || ());
                worker.learn();
                worker.end();
            }
            Err(error) => job.fail(error),
        }
        job.wait();
        job.failure.get().cloned().map_or(Ok(()), Err)
    }
}

/// Runs groups on this thread until all are done or, unless `alone`, it has taken long enough to call for help. Returns
/// the end of those that are done.
fn run_here(worker: &mut Worker, groups: Range<u64>, alone: bool) -> Result<u64> {
    let started = timer();
    let count = groups.end - groups.start;
    let step = if alone { count } else { count.div_ceil(16) };
    let mut done = groups.start;
    while done < groups.end && (alone || timer() - started < WORTH_WAKING_NS) {
        let end = (done + step.min(worker.most())).min(groups.end);
        worker.run(done, end)?;
        done = end;
    }
    Ok(done)
}

/// A launch that several threads work on.
struct Job {
    invocation: Arc<Invocation>,
    /// The code to begin with.
    version: Version,
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
    /// Whether a helper leaves its processor to the compiler.
    resting: AtomicBool,
    /// The first of those of all threads.
    failure: OnceLock<Error>,
}

impl Job {
    fn new(invocation: Arc<Invocation>, version: Version, groups: Range<u64>, threads: usize) -> Job {
        Job {
            invocation,
            version,
            groups: groups.end,
            next: AtomicU64::new(groups.start),
            done: AtomicU64::new(groups.start),
            divisor: 4 * threads as u64,
            asleep: AtomicBool::new(false),
            waiter: std::thread::current(),
            resting: AtomicBool::new(false),
            failure: OnceLock::new(),
        }
    }

    /// Takes a chunk of groups that nobody else gets, so many at most.
    fn take(&self, most: u64) -> Option<(u64, u64)> {
        let mut first = self.next.load(Ordering::Relaxed);
        while first < self.groups {
            let end = first + ((self.groups - first) / self.divisor).max(1).min(most);
            // The chunk's data are the kernel's; `done` publishes them.
            match self.next.compare_exchange_weak(first, end, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Some((first, end)),
                Err(now) => first = now,
            }
        }
        None
    }

    /// Runs chunks until none is left, and calls `between` behind each. A fault ends the whole launch.
    fn work(&self, worker: &mut Worker, between: impl Fn()) {
        while let Some((first, end)) = self.take(worker.most()) {
            if let Err(error) = worker.run(first, end) {
                self.fail(error);
            }
            self.count(end - first);
            between();
        }
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
        if let Ok(mut worker) = Worker::new(&self.invocation, self.version.clone()) {
            self.work(&mut worker, || self.rest());
            worker.end();
        }
    }

    /// While better code is being made, one helper leaves its processor to the compiler: the sooner it is there, the sooner
    /// the launch ends.
    fn rest(&self) {
        if !self.invocation.tiers.is_making() || self.resting.swap(true, Ordering::Relaxed) {
            return;
        }
        while self.invocation.tiers.is_making() && self.next.load(Ordering::Relaxed) < self.groups {
            std::thread::sleep(REST);
        }
        self.resting.store(false, Ordering::Relaxed);
    }

    /// Ends the launch: declares the groups that nobody has taken done.
    fn fail(&self, error: Error) {
        let _ = self.failure.set(error);
        while let Some((first, end)) = self.take(u64::MAX) {
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
