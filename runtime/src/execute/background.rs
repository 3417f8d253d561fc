//! Work that nobody waits for: code that is made while launches run what there is. A few threads do jobs, and end when there are none.
//!
//! What makes a kernel's first optimized code, or code for launches that have none, goes before what finds out whether other code is faster
//! still, and doesn't wait for such a job that is being done: more is to be won. Of urgent jobs the one goes first that saves most for the
//! time that it takes, as far as can be told: its kernel ran long of late in what it replaces, or the job is new ([`gain`]). What ran long ago
//! may never be run again. One that no launch waits for leaves that a moment to begin ([`PAUSE`]): once
//! it is begun it keeps the compiler. One that lasts ([`PATIENCE`]) doesn't keep those back that are expected to be [`SHORT`].
//!
//! A process that exits gives them a moment, for what they make is kept on disk, and many processes live no longer than their launches.
//! What is not done by then another process does ([`finisher`]).

mod gain;

use crate::log;
use crate::machine::{self, affinity};
use gain::Gain;
use spirula_service::per_process::PerProcess;
use spirula_service::process::pool::at_a_time;
use spirula_service::process::{Request, finisher, keeper};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// What is to be done.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

/// For how many nanoseconds launches have run in what a job's code replaces.
pub(crate) type SpentNs = Box<dyn Fn() -> u64 + Send>;

/// What another process can do of a job that this one leaves undone.
pub(crate) type Will = Box<dyn Fn() -> Option<Request> + Send>;

/// An urgent job that is at work for so long makes room for another one: a kernel of a thousand lines would keep all later ones of its program
/// in the baseline for its half minute.
const PATIENCE: Duration = Duration::from_millis(250);
/// A job that is expected to take so long at most may begin beside one that lasts.
const SHORT: Duration = Duration::from_secs(1);

/// What an exit waits at most: the code of a few kernels of some length, which take 100 ms each. Where it is less, programs of
/// short runs stay in the baseline for ever, for none of them lives until their code is there to be kept.
const MOST_AT_EXIT: Duration = Duration::from_secs(1);

/// So many wills are kept of which no job was made: each keeps a kernel.
const MOST_LEFT: usize = 64;

/// Between launches a job waits so long for the next launch, which may be one of another kernel that will have more of its code: so long it
/// takes until that is known.
pub(crate) const PAUSE: Duration = Duration::from_millis(10);

/// An exit waits for nothing any more.
static LEFT: AtomicBool = AtomicBool::new(false);

/// A forked child begins with none of its parent's jobs: the threads that would do them are not there.
static QUEUE: PerProcess<Queue> = PerProcess::new(
    || {
        let processors = machine::usable_cpus();
        let most = at_a_time(processors);
        Queue { lendable: processors - most.min(processors), ..Queue::new(most, PATIENCE) }
    },
    |_| {},
);

/// Has an urgent job done that is expected to take so long, of code that replaces what launches have run in for so many nanoseconds by then. An
/// exit waits for it for a while, and then leaves a will. Errors: no thread does any, and the system has none to give.
pub(crate) fn run_later(takes: Duration, spent_ns: SpentNs, job: Job, will: Will) -> io::Result<()> {
    run_after(Duration::ZERO, takes, spent_ns, job, will)
}

/// The same, begun after such a pause.
pub(crate) fn run_after(
    pause: Duration,
    takes: Duration,
    spent_ns: SpentNs,
    job: Job,
    will: Will,
) -> io::Result<()> {
    let begin = Instant::now() + pause;
    let urgency = Urgency::Urgent { begin, gain: Gain::new(takes, spent_ns) };
    add(job, urgency, Unfinished { will: Some(will), is_waited_for: true })
}

/// The same for what can wait, and what no exit waits for: it leaves the will at once, if there is one. Such jobs are begun in their order
/// when no urgent one is there.
pub(crate) fn run_if_there_is_time(job: Job, will: Option<Will>) -> io::Result<()> {
    add(job, Urgency::Leisurely, Unfinished { will, is_waited_for: false })
}

/// An exit leaves this to another process, if there are not too many such wills by then.
pub(crate) fn leave_at_exit(will: Will) {
    exit_is_watched();
    let mut state = QUEUE.get().lock();
    if state.left.len() < MOST_LEFT {
        state.left.push(will);
    }
}

/// Whether this process exits and waits for nothing any more: jobs fail from here on, and that says nothing of what they do.
pub(crate) fn is_left() -> bool {
    LEFT.load(Ordering::Relaxed)
}

/// Whether something is being done, or is next, that wants a processor.
pub(crate) fn is_busy() -> bool {
    QUEUE.existing().is_some_and(|queue| queue.is_busy())
}

/// So many urgent jobs at a time are done while one thread waits for them ([`lend_processor`]).
pub(crate) fn at_a_time_for_one_that_waits() -> usize {
    let queue = QUEUE.get();
    queue.most + queue.lendable.min(1)
}

/// The calling thread waits for jobs, and leaves its processor to one more of them until this is dropped.
pub(crate) fn lend_processor() -> Lent {
    QUEUE.get().lend()
}

/// Another processor for jobs.
pub(crate) struct Lent(&'static Queue);

impl Drop for Lent {
    fn drop(&mut self) {
        self.0.lock().lent -= 1;
    }
}

fn add(job: Job, urgency: Urgency, unfinished: Unfinished) -> io::Result<()> {
    if spirula_service::keeps_code() {
        exit_is_watched();
    }
    QUEUE.get().add(job, urgency, unfinished)
}

/// Has an exit look after what is unfinished.
fn exit_is_watched() {
    static AT_EXIT: Once = Once::new();
    AT_EXIT.call_once(finish_at_exit);
}

fn finish_at_exit() {
    extern "C" fn finish() {
        // Not a forked child's copy of its parent's.
        let Some(queue) = QUEUE.existing() else { return };
        queue.finish(MOST_AT_EXIT);
        LEFT.store(true, Ordering::Relaxed);
        // A panic must not leave this function.
        let _ = catch_unwind(AssertUnwindSafe(|| bequeath(&queue.wills())));
    }
    // The last one that is registered is called first.
    keeper::end_at_exit();
    #[expect(unsafe_code, reason = "the C library's list of what to do at exit")]
    // SAFETY: the function is there as long as this library, takes nothing and ends.
    unsafe {
        libc::atexit(finish)
    };
}

fn bequeath(requests: &[Request]) {
    match finisher::leave(requests) {
        Ok(0) => {}
        Ok(count) => log::debug(format_args!("builds that were left to another process: {count}")),
        Err(error) => log::warn(format_args!("builds can't be left to another process: {error}")),
    }
}

/// Which jobs go before others.
enum Urgency {
    /// Not before then.
    Urgent {
        begin: Instant,
        gain: Gain,
    },
    Leisurely,
}

/// An urgent job that waits.
struct Urgent {
    begin: Instant,
    gain: Gain,
    number: u64,
    job: Job,
}

/// Jobs, and the threads that do them. There may be more compilers than all of these have ([`at_a_time`]): a build, which somebody waits for,
/// never waits behind them. That is why they have a queue of their own.
struct Queue {
    /// So many threads for urgent jobs, as many beside those that last, and so many for others.
    most: usize,
    /// So many more of them may be done while as many threads wait for jobs.
    lendable: usize,
    /// How long a job may take before it lasts.
    patience: Duration,
    state: Mutex<State>,
    /// A job came, and no thread but those that are at work.
    wanted: Condvar,
}

#[derive(Default)]
struct State {
    urgent: Vec<Urgent>,
    leisurely: VecDeque<(u64, Job)>,
    threads: usize,
    /// Those of them that are at a leisurely job.
    at_leisure: usize,
    /// Others that wait for jobs, and leave their processors to these.
    lent: usize,
    /// The urgent jobs that are being done, and since when.
    at_work: Vec<(u64, Instant)>,
    /// Jobs that were not finished yet, by their numbers.
    unfinished: BTreeMap<u64, Unfinished>,
    /// How many there were.
    count: u64,
    /// What another process does of which no job was made.
    left: Vec<Will>,
}

/// What an exit does about a job.
struct Unfinished {
    will: Option<Will>,
    is_waited_for: bool,
}

impl State {
    fn push(&mut self, urgency: Urgency, (number, job): (u64, Job)) {
        match urgency {
            Urgency::Urgent { begin, gain } => self.urgent.push(Urgent { begin, gain, number, job }),
            Urgency::Leisurely => self.leisurely.push_back((number, job)),
        }
    }

    /// The urgent job to begin with now, where so many are done at a time and as many beside those that last; else how long it is until
    /// there may be one, if any is there.
    fn pop_urgent(&mut self, most: usize, patience: Duration) -> Result<(u64, Job), Option<Duration>> {
        let now = Instant::now();
        let (all, lasting) = (self.at_work.len(), self.lasting(patience));
        let is_short = |job: &Urgent| job.gain.takes() <= SHORT;
        let is_welcome = |job: &Urgent| all < most || all - lasting < most && all < 2 * most && is_short(job);
        self.urgent.iter_mut().for_each(|job| job.gain.look(now));
        let ready = self.urgent.iter().enumerate().filter(|(_, job)| job.begin <= now && is_welcome(job));
        // Of equals the newest.
        let best = ready.max_by(|(_, one), (_, other)| one.gain.rate().total_cmp(&other.gain.rate()));
        if let Some(at) = best.map(|(at, _)| at) {
            let Urgent { number, job, .. } = self.urgent.remove(at);
            self.at_work.push((number, now));
            return Ok((number, job));
        }
        let pauses = self.urgent.iter().map(|job| job.begin.saturating_duration_since(now));
        // Where others are at work, room is made by one that lasts, or ends, which is told.
        let room = if all < most { Duration::ZERO } else { patience };
        Err(pauses.min().map(|pause| pause.max(room)))
    }

    /// How many of the urgent jobs that are being done last.
    fn lasting(&self, patience: Duration) -> usize {
        self.at_work.iter().filter(|(_, since)| since.elapsed() >= patience).count()
    }

    /// Takes back what was pushed last.
    fn take_back(&mut self, is_urgent: bool) {
        match is_urgent {
            true => drop(self.urgent.pop()),
            false => drop(self.leisurely.pop_back()),
        }
    }

    /// Whether an urgent job, or one that isn't, has all the threads that it may have, of so many.
    fn is_full(&self, is_urgent: bool, (most, patience): (usize, Duration)) -> bool {
        match is_urgent {
            true => self.threads - self.at_leisure >= 2 * most,
            false => self.threads - self.lasting(patience) >= most,
        }
    }

    /// Whether an exit has nothing to wait for.
    fn is_done(&self) -> bool {
        let is_waited_for = || self.unfinished.values().any(|unfinished| unfinished.is_waited_for);
        self.threads == 0 || !self.unfinished.is_empty() && !is_waited_for()
    }
}

impl Queue {
    /// With so many threads at most.
    fn new(most: usize, patience: Duration) -> Queue {
        Queue { most, lendable: 0, patience, state: Mutex::default(), wanted: Condvar::new() }
    }

    fn add(&'static self, job: Job, urgency: Urgency, unfinished: Unfinished) -> io::Result<()> {
        let mut state = self.lock();
        let number = state.count;
        state.count += 1;
        let is_urgent = matches!(urgency, Urgency::Urgent { .. });
        state.push(urgency, (number, job));
        state.unfinished.insert(number, unfinished);
        if state.is_full(is_urgent, (self.most, self.patience)) {
            drop(state);
            self.wanted.notify_all();
            return Ok(());
        }
        match self.begin_thread(&mut state) {
            Err(error) if state.threads == 0 => {
                state.take_back(is_urgent);
                state.unfinished.remove(&number);
                return Err(error);
            }
            // Others are at it.
            Err(_) => self.wanted.notify_all(),
            Ok(()) => {}
        }
        Ok(())
    }

    fn lend(&'static self) -> Lent {
        self.lock().lent += 1;
        Lent(self)
    }

    /// How many urgent jobs are done at a time at the moment.
    fn most(&self, state: &State) -> usize {
        self.most + state.lent.min(self.lendable)
    }

    fn begin_thread(&'static self, state: &mut State) -> io::Result<()> {
        // Who asks may be bound to a part of the machine, and this is none of its work.
        let free = affinity::before_binding();
        let work = move || {
            free.iter().for_each(affinity::bind);
            self.work();
        };
        Builder::new().name("spirula-optimize".into()).spawn(work)?;
        state.threads += 1;
        Ok(())
    }

    /// Whether a job is unfinished. Never blocks: where the queue is being changed one is.
    fn is_busy(&self) -> bool {
        self.state.try_lock().map_or(true, |state| !state.unfinished.is_empty())
    }

    /// Waits until all is done, but for so long at most. Whether it is. Never blocks: who exits may have interrupted anything.
    fn finish(&self, most: Duration) -> bool {
        let until = Instant::now() + most;
        let is_done = || self.state.try_lock().is_ok_and(|state| state.is_done());
        while !is_done() {
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }

    /// What others can do of what is not done, in its order. Never blocks, either.
    fn wills(&self) -> Vec<Request> {
        let state = self.state.try_lock();
        state.map_or_else(
            |_| Vec::new(),
            |state| {
                let wills = state.unfinished.values().filter_map(|unfinished| unfinished.will.as_ref());
                wills.chain(&state.left).filter_map(|will| will()).collect()
            },
        )
    }

    /// A thread's life.
    fn work(&'static self) {
        while let Some((is_leisurely, (number, job))) = self.next() {
            if catch_unwind(AssertUnwindSafe(job)).is_err() {
                log::error("code that was made in the background: internal error");
            }
            let mut state = self.lock();
            state.at_leisure -= usize::from(is_leisurely);
            state.at_work.retain(|&(other, _)| other != number);
            let unfinished = state.unfinished.remove(&number);
            drop(state);
            self.wanted.notify_all();
            drop(unfinished); // With a program, perhaps, which takes its time.
        }
    }

    /// The next job, and whether it is a leisurely one; without one the calling thread is to end.
    fn next(&'static self) -> Option<(bool, (u64, Job))> {
        let mut state = self.lock();
        // A thread that comes from a leisurely job may be one too many.
        while state.threads - state.at_leisure <= 2 * self.most {
            let most = self.most(&state);
            let pause = match state.pop_urgent(most, self.patience) {
                Ok(job) => return Some((false, job)),
                Err(pause) => pause,
            };
            let at_work = state.at_work.len() - state.lasting(self.patience);
            let has_place = state.at_leisure + at_work < self.most;
            if let Some(job) = state.leisurely.pop_front_if(|_| has_place) {
                state.at_leisure += 1;
                if pause.is_some() {
                    // This thread may not be back in time. Without another one the job waits for it.
                    let _ = self.begin_thread(&mut state);
                }
                return Some((true, job));
            }
            let Some(pause) = pause else { break };
            let waited = self.wanted.wait_timeout(state, pause);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.threads -= 1;
        None
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests;
