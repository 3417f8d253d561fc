//! Work that nobody waits for: code that is made while launches run what there is. A few threads do jobs, and end when there are none.
//!
//! What makes a kernel's first optimized code, or code for launches that have none, goes before what finds out whether other code is faster
//! still, and doesn't wait for such a job that is being done: more is to be won. Of urgent jobs the newest goes first: who asked last runs
//! now, and what others asked for before may never be run again. One that no launch waits for leaves that a moment to begin ([`PAUSE`]): once
//! it is begun it keeps the compiler. One that lasts ([`PATIENCE`]) doesn't keep those back that are expected to be [`SHORT`].
//!
//! A process that exits gives them a moment, for what they make is kept on disk, and many processes live no longer than their launches.
//! What is not done by then another process does ([`finisher`]).

use crate::log;
use crate::machine::{self, affinity};
use spirula_service::per_process::PerProcess;
use spirula_service::process::pool::at_a_time;
use spirula_service::process::{Request, finisher};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, Once, PoisonError};
use std::thread::Builder;
use std::time::{Duration, Instant};

/// What is to be done.
pub(crate) type Job = Box<dyn FnOnce() + Send>;

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

/// Between launches a job waits so long for the next launch, which may be one of another kernel that will have more of its code: so long it
/// takes until that is known.
pub(crate) const PAUSE: Duration = Duration::from_millis(10);

/// An exit waits for nothing any more.
static LEFT: AtomicBool = AtomicBool::new(false);

/// A forked child begins with none of its parent's jobs: the threads that would do them are not there.
static QUEUE: PerProcess<Queue> =
    PerProcess::new(|| Queue::new(at_a_time(machine::usable_cpus()), PATIENCE), |_| {});

/// Has an urgent job done that is expected to take so long, before those that are there. An exit waits for it for a while, and then leaves
/// a will. Errors: no thread does any, and the system has none to give.
pub(crate) fn run_later(takes: Duration, job: Job, will: Will) -> io::Result<()> {
    run_after(Duration::ZERO, takes, job, will)
}

/// The same, begun after such a pause.
pub(crate) fn run_after(pause: Duration, takes: Duration, job: Job, will: Will) -> io::Result<()> {
    let urgency = Urgency::Urgent { begin: Instant::now() + pause, is_short: takes <= SHORT };
    add(job, urgency, Unfinished { will: Some(will), is_waited_for: true })
}

/// The same for what can wait, and what no exit waits for: it leaves the will at once, if there is one. Such jobs are begun in their order
/// when no urgent one is there.
pub(crate) fn run_if_there_is_time(job: Job, will: Option<Will>) -> io::Result<()> {
    add(job, Urgency::Leisurely, Unfinished { will, is_waited_for: false })
}

/// Whether this process exits and waits for nothing any more: jobs fail from here on, and that says nothing of what they do.
pub(crate) fn is_left() -> bool {
    LEFT.load(Ordering::Relaxed)
}

/// Whether something is being done, or is next, that wants a processor.
pub(crate) fn is_busy() -> bool {
    QUEUE.existing().is_some_and(|queue| queue.is_busy())
}

fn add(job: Job, urgency: Urgency, unfinished: Unfinished) -> io::Result<()> {
    if spirula_service::keeps_code() {
        static AT_EXIT: Once = Once::new();
        AT_EXIT.call_once(finish_at_exit);
    }
    QUEUE.get().add(job, urgency, unfinished)
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
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Urgency {
    /// Not before then.
    Urgent {
        begin: Instant,
        is_short: bool,
    },
    Leisurely,
}

/// An urgent job that waits.
struct Urgent {
    begin: Instant,
    is_short: bool,
    number: u64,
    job: Job,
}

/// Jobs, and the threads that do them. There may be more compilers than all of these have ([`at_a_time`]): a build, which somebody waits for,
/// never waits behind them. That is why they have a queue of their own.
struct Queue {
    /// So many threads for urgent jobs, as many beside those that last, and so many for others.
    most: usize,
    /// How long a job may take before it lasts.
    patience: Duration,
    state: Mutex<State>,
    /// A job came, and no thread but those that are at work.
    wanted: Condvar,
}

#[derive(Default)]
struct State {
    /// The last one goes first, of those that may begin.
    urgent: Vec<Urgent>,
    leisurely: VecDeque<(u64, Job)>,
    threads: usize,
    /// Those of them that are at a leisurely job.
    at_leisure: usize,
    /// The urgent jobs that are being done, and since when.
    at_work: Vec<(u64, Instant)>,
    /// Jobs that were not finished yet, by their numbers.
    unfinished: BTreeMap<u64, Unfinished>,
    /// How many there were.
    count: u64,
}

/// What an exit does about a job.
struct Unfinished {
    will: Option<Will>,
    is_waited_for: bool,
}

impl State {
    fn push(&mut self, urgency: Urgency, (number, job): (u64, Job)) {
        match urgency {
            Urgency::Urgent { begin, is_short } => {
                self.urgent.push(Urgent { begin, is_short, number, job });
            }
            Urgency::Leisurely => self.leisurely.push_back((number, job)),
        }
    }

    /// The urgent job to begin with now, where so many are done at a time and as many beside those that last; else how long it is until
    /// there may be one, if any is there.
    fn pop_urgent(&mut self, most: usize, patience: Duration) -> Result<(u64, Job), Option<Duration>> {
        let now = Instant::now();
        let (all, lasting) = (self.at_work.len(), self.lasting(patience));
        let is_welcome = |job: &Urgent| all < most || all - lasting < most && all < 2 * most && job.is_short;
        let ready = self.urgent.iter().rposition(|job| job.begin <= now && is_welcome(job));
        if let Some(at) = ready {
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
    fn take_back(&mut self, urgency: Urgency) {
        match urgency {
            Urgency::Urgent { .. } => drop(self.urgent.pop()),
            Urgency::Leisurely => drop(self.leisurely.pop_back()),
        }
    }

    /// Whether a job of that urgency has all the threads that it may have, of so many.
    fn is_full(&self, urgency: Urgency, (most, patience): (usize, Duration)) -> bool {
        match urgency {
            Urgency::Urgent { .. } => self.threads - self.at_leisure >= 2 * most,
            Urgency::Leisurely => self.threads - self.lasting(patience) >= most,
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
        Queue { most, patience, state: Mutex::default(), wanted: Condvar::new() }
    }

    fn add(&'static self, job: Job, urgency: Urgency, unfinished: Unfinished) -> io::Result<()> {
        let mut state = self.lock();
        let number = state.count;
        state.count += 1;
        state.push(urgency, (number, job));
        state.unfinished.insert(number, unfinished);
        if state.is_full(urgency, (self.most, self.patience)) {
            drop(state);
            self.wanted.notify_all();
            return Ok(());
        }
        match self.begin_thread(&mut state) {
            Err(error) if state.threads == 0 => {
                state.take_back(urgency);
                state.unfinished.remove(&number);
                return Err(error);
            }
            // Others are at it.
            Err(_) => self.wanted.notify_all(),
            Ok(()) => {}
        }
        Ok(())
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
                wills.filter_map(|will| will()).collect()
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
            let pause = match state.pop_urgent(self.most, self.patience) {
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
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::mpsc::{Receiver, channel};
    use std::sync::{Arc, Barrier};

    fn queue(most: usize) -> &'static Queue {
        Box::leak(Box::new(Queue::new(most, LONG)))
    }

    /// Nothing that another process could do, but something to wait for.
    fn none() -> Unfinished {
        Unfinished { will: Some(Box::new(|| None)), is_waited_for: true }
    }

    fn after(pause: Duration) -> Urgency {
        Urgency::Urgent { begin: Instant::now() + pause, is_short: true }
    }

    const LEISURELY: Urgency = Urgency::Leisurely;

    const LONG: Duration = Duration::from_secs(60);

    fn received<T>(receiver: &Receiver<T>, count: usize) -> Vec<T> {
        (0..count).map(|_| receiver.recv_timeout(LONG).expect("the jobs are done")).collect()
    }

    #[test]
    fn leisurely_jobs_are_done_in_their_order_and_threads_end() {
        let queue = queue(1);
        let (sender, receiver) = channel();
        for round in 0..3 {
            for number in 0..20 {
                let sender = sender.clone();
                queue.add(Box::new(move || sender.send(number).unwrap()), LEISURELY, none()).unwrap();
            }
            assert_eq!(received(&receiver, 20), (0..20).collect::<Vec<_>>(), "{round}");
            while queue.lock().threads > 0 {
                std::thread::yield_now();
            }
        }
    }

    #[test]
    fn the_newest_urgent_job_goes_first_and_waits_for_no_leisurely_one() {
        let queue = queue(1);
        let (sender, receiver) = channel();
        let (begin, begun) = channel();
        let begins = begin.clone();
        let (end, ended) = channel::<()>();
        let leisurely = move || {
            begins.send(()).unwrap();
            let _ = ended.recv_timeout(LONG);
        };
        queue.add(Box::new(leisurely), LEISURELY, none()).unwrap();
        received(&begun, 1);
        // Beside it, and before another one; what comes while an urgent job is done goes by its age.
        let (first, others_are_there) = channel::<()>();
        let telling = |number: u32| {
            let sender = sender.clone();
            move || sender.send(number).unwrap()
        };
        let tell = telling(0);
        let waits = move || {
            begin.send(()).unwrap();
            let _ = others_are_there.recv_timeout(LONG);
            tell();
        };
        queue.add(Box::new(waits), after(Duration::ZERO), none()).unwrap();
        received(&begun, 1);
        queue.add(Box::new(telling(1)), LEISURELY, none()).unwrap();
        queue.add(Box::new(telling(2)), after(Duration::ZERO), none()).unwrap();
        queue.add(Box::new(telling(3)), after(Duration::ZERO), none()).unwrap();
        assert!(queue.lock().threads <= 3);
        drop(first);
        assert_eq!(received(&receiver, 3), [0, 3, 2], "the leisurely job is not done");
        drop(end);
        assert_eq!(received(&receiver, 1), [1]);
    }

    #[test]
    fn an_exit_waits_for_what_will_end_and_no_longer() {
        let queue = queue(1);
        let (sender, receiver) = channel::<()>();
        let wait = move || {
            let _ = receiver.recv_timeout(LONG);
        };
        assert!(!queue.is_busy());
        queue.add(Box::new(wait), after(Duration::ZERO), none()).unwrap();
        assert!(!queue.finish(Duration::from_millis(20)));
        assert_eq!(queue.lock().threads, 1, "the job has not ended");
        assert!(queue.is_busy());
        drop(sender);
        assert!(queue.finish(LONG));
        assert_eq!(queue.lock().threads, 0);
        assert!(!queue.is_busy());
    }

    #[test]
    fn an_exit_leaves_what_it_does_not_wait_for() {
        let queue = queue(1);
        let (sender, receiver) = channel::<()>();
        let wait = move || {
            let _ = receiver.recv_timeout(LONG);
        };
        let (first, begun) = channel();
        queue.add(Box::new(move || first.send(()).unwrap()), after(Duration::ZERO), none()).unwrap();
        received(&begun, 1);
        let asked = Arc::new(AtomicUsize::new(0));
        let asking = asked.clone();
        let will = move || {
            asking.fetch_add(1, SeqCst);
            None
        };
        let unfinished = Unfinished { will: Some(Box::new(will)), is_waited_for: false };
        queue.add(Box::new(wait), LEISURELY, unfinished).unwrap();
        assert!(queue.finish(LONG));
        assert_eq!(queue.lock().unfinished.len(), 1, "the job has not ended");
        assert!(queue.wills().is_empty());
        assert_eq!(asked.load(SeqCst), 1, "another process can end it");
        drop(sender);
    }

    #[test]
    fn there_are_as_many_threads_as_there_may_be() {
        let queue = queue(3);
        let meet = Arc::new(Barrier::new(3));
        let (running, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (sender, receiver) = channel();
        for _ in 0..9 {
            let (meet, running, most, sender) = (meet.clone(), running.clone(), most.clone(), sender.clone());
            let job = move || {
                most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
                meet.wait(); // With fewer threads nobody would get on.
                running.fetch_sub(1, SeqCst);
                sender.send(()).unwrap();
            };
            queue.add(Box::new(job), after(Duration::ZERO), none()).unwrap();
        }
        received(&receiver, 9);
        assert_eq!(most.load(SeqCst), 3);
    }

    #[test]
    fn a_job_that_pauses_first_lets_others_begin_and_is_done_though_they_last() {
        let queue = queue(1);
        let (sender, receiver) = channel();
        let telling = |number: u32| {
            let sender = sender.clone();
            Box::new(move || sender.send(number).unwrap())
        };
        let (end, ended) = channel::<()>();
        let tell = telling(2);
        let lasting = Box::new(move || {
            tell();
            let _ = ended.recv_timeout(LONG);
        });
        queue.add(telling(3), after(Duration::from_millis(100)), none()).unwrap();
        queue.add(telling(1), after(Duration::ZERO), none()).unwrap();
        assert_eq!(received(&receiver, 1), [1]);
        queue.add(lasting, LEISURELY, none()).unwrap();
        let mut others = received(&receiver, 2);
        others.sort_unstable(); // On a slow machine the pause ends first.
        assert_eq!(others, [2, 3], "the job waits for a leisurely one");
        drop(end);
    }

    #[test]
    fn a_job_that_lasts_keeps_no_short_one_back() {
        for is_short in [true, false] {
            let queue: &Queue = Box::leak(Box::new(Queue::new(1, Duration::from_millis(20))));
            let (sender, receiver) = channel();
            let (end, ended) = channel::<()>();
            let lasting = move || {
                let _ = ended.recv_timeout(LONG);
            };
            let urgency = |is_short| Urgency::Urgent { begin: Instant::now(), is_short };
            queue.add(Box::new(lasting), urgency(true), none()).unwrap();
            while queue.lock().at_work.is_empty() {
                std::thread::yield_now();
            }
            let long = sender.clone();
            queue.add(Box::new(move || long.send(1).unwrap()), urgency(false), none()).unwrap();
            if is_short {
                queue.add(Box::new(move || sender.send(2).unwrap()), urgency(true), none()).unwrap();
                assert_eq!(received(&receiver, 1), [2]);
            }
            assert!(receiver.try_recv().is_err(), "two jobs of a minute take the processors from launches");
            drop(end);
            assert_eq!(received(&receiver, 1), [1]);
            assert!(queue.finish(LONG));
        }
    }

    #[test]
    fn beside_jobs_that_last_only_short_ones_begin_and_as_many_as_else() {
        const PATIENCE: Duration = Duration::from_secs(30);
        let now = Instant::now();
        let long_ago = now - 2 * PATIENCE;
        let next = |at_work: &[Instant], is_short: bool| {
            let at_work = (100..).zip(at_work.iter().copied()).collect();
            let mut state = State { at_work, ..State::default() };
            state.push(Urgency::Urgent { begin: now, is_short }, (7, Box::new(|| {})));
            match state.pop_urgent(1, PATIENCE) {
                Ok((number, _)) => {
                    assert_eq!((number, state.at_work.last().unwrap().0), (7, 7));
                    true
                }
                Err(pause) => {
                    assert_eq!(pause, Some(PATIENCE), "who waits looks again");
                    false
                }
            }
        };
        for (at_work, short, long) in [
            (&[][..], true, true),
            (&[now], false, false),
            (&[long_ago], true, false),
            (&[long_ago, now], false, false),
            (&[long_ago, long_ago], false, false),
        ] {
            assert_eq!((next(at_work, true), next(at_work, false)), (short, long), "{at_work:?}");
        }
    }

    #[test]
    fn a_panic_costs_its_job_alone() {
        let queue = queue(1);
        let (sender, receiver) = channel();
        for number in 0..4 {
            let sender = sender.clone();
            let job = move || {
                assert!(number % 2 == 0, "of the test");
                sender.send(number).unwrap();
            };
            queue.add(Box::new(job), LEISURELY, none()).unwrap();
        }
        assert_eq!(received(&receiver, 2), [0, 2]);
    }
}
