//! Helpers that have nothing to do any more stay awake for a while: many launches come in a row, and where processors sleep deeply, as
//! virtual ones do, it takes tens of microseconds to wake one. Meanwhile they remember for others what may have to be done soon.

use crate::machine::timer;
use rayon::Yield;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// So long a helper looks for more before it sleeps.
const LINGER_NS: u64 = 1_000_000;
/// How often it waits for a moment between two looks.
const SPINS: u32 = 16;
/// Who has not got the processor back in that time finds that others want it. Then nobody waits for several times as long as that took:
/// who sleeps gets it at once when he is woken, who waited would come last. (Not for longer: what the system itself does now and then
/// takes as long, and a compiler is done before.)
const CONTENDED_NS: u64 = 50_000;
const CONTENDED_TIMES: u64 = 8;
const CONTENDED_MOST_NS: u64 = 100_000_000;
/// So long a reminder waits: mostly it has been done by then.
pub(crate) const SOON_NS: u64 = 20_000;

/// What a scheduler's awake helpers share.
#[derive(Default)]
pub(super) struct Awake {
    count: AtomicUsize,
    /// Until then others want the processors.
    contended_until: AtomicU64,
    reminders: Mutex<VecDeque<Reminder>>,
}

/// To be called at that time.
struct Reminder(u64, Box<dyn FnOnce() + Send>);

impl std::fmt::Debug for Awake {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Awake").field(&self.count).finish()
    }
}

impl Awake {
    /// Has it called in a moment, or sooner. False if nobody is awake who could.
    pub(super) fn remind(&self, call: impl FnOnce() + Send + 'static) -> bool {
        if self.count.load(Ordering::Relaxed) == 0 {
            return false;
        }
        self.lock().push_back(Reminder(timer() + SOON_NS, Box::new(call)));
        // Either this sees that the last one has left, or he sees the reminder.
        if self.count.load(Ordering::SeqCst) == 0 {
            self.call_until(u64::MAX);
        }
        true
    }

    /// What a thread of the pool does when it has done `work`, which it does at once: it waits for more, unless that is not to be
    /// expected.
    pub(super) fn lend(&self, work: impl FnOnce() -> bool) {
        thread_local! {
            /// Whether this thread is here already, waiting, and was given this work there.
            static WAITS: Cell<bool> = const { Cell::new(false) };
        }
        if WAITS.get() {
            self.leave();
            work();
            self.enter();
            return;
        }
        if !work() || timer() < self.contended_until.load(Ordering::Relaxed) {
            return;
        }
        WAITS.set(true);
        self.enter();
        let mut until = timer() + LINGER_NS;
        loop {
            let now = timer();
            if now >= until {
                break;
            }
            self.call_until(now);
            if rayon::yield_now() == Some(Yield::Executed) {
                until = timer() + LINGER_NS;
            }
            (0..SPINS).for_each(|_| std::hint::spin_loop());
            // Whoever else wants this processor has it first.
            let before = timer();
            std::thread::yield_now();
            let after = timer();
            if after - before > CONTENDED_NS {
                let stays = ((after - before) * CONTENDED_TIMES).min(CONTENDED_MOST_NS);
                self.contended_until.store(after + stays, Ordering::Relaxed);
                break;
            }
        }
        self.leave();
        WAITS.set(false);
    }

    fn enter(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
    }

    fn leave(&self) {
        if self.count.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.call_until(u64::MAX);
        }
    }

    /// Calls what is due at that time.
    fn call_until(&self, now: u64) {
        // Those that come of these wait for their time.
        let due: Vec<Reminder> = {
            let mut reminders = self.lock();
            let count = reminders.partition_point(|Reminder(when, _)| *when <= now);
            reminders.drain(..count).collect()
        };
        due.into_iter().for_each(|Reminder(_, call)| call());
    }

    fn lock(&self) -> MutexGuard<'_, VecDeque<Reminder>> {
        self.reminders.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    const LONG: Duration = Duration::from_secs(60);

    #[test]
    fn nobody_reminds_who_is_not_awake() {
        let awake = Awake::default();
        assert!(!awake.remind(|| panic!("nobody is there")));
        awake.lend(|| false);
        assert!(!awake.remind(|| panic!("nobody stayed")));
    }

    #[test]
    fn reminders_are_called_once_whoever_leaves() {
        let awake = Arc::new(Awake::default());
        let pool = rayon::ThreadPoolBuilder::new().num_threads(2).build().unwrap();
        let (sender, receiver) = channel();
        let mut taken = 0;
        for number in 0..2000 {
            let lent = awake.clone();
            pool.spawn(move || lent.lend(|| true));
            let sender = sender.clone();
            taken += u32::from(awake.remind(move || sender.send(number).unwrap()));
        }
        drop(sender);
        // Work that comes while a thread waits is done, and reminders are not kept from it.
        let (worked, works) = channel();
        let lent = awake.clone();
        pool.spawn(move || lent.lend(|| worked.send(()).is_ok()));
        works.recv_timeout(LONG).expect("it is done");
        let called: Vec<i32> = receiver.iter().collect();
        assert_eq!(called.len(), taken as usize, "each reminder that was taken is called once");
        while awake.count.load(Ordering::SeqCst) > 0 {
            std::thread::yield_now();
        }
        assert!(awake.lock().is_empty() && !awake.remind(|| ()));
    }
}
