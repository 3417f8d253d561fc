//! Builds that notify: they wait for their turn here, so that a thousand of them don't take a thousand threads.

use std::collections::VecDeque;
use std::io;
use std::sync::{Mutex, PoisonError};

/// What is called when a build has ended.
pub(super) type Notify = Box<dyn FnOnce() + Send>;

/// A build that yields whom to notify.
pub(super) type Work = Box<dyn FnOnce() -> Notify + Send>;

/// Builds in the background.
pub(super) struct Background {
    state: Mutex<State>,
}

struct State {
    /// Whose threads these are: a forked child has none.
    process: u32,
    waiting: VecDeque<Work>,
    /// Threads at work. One that notifies isn't: the application may wait there for another build.
    building: usize,
}

impl Background {
    pub(super) const fn new() -> Background {
        Background { state: Mutex::new(State { process: 0, waiting: VecDeque::new(), building: 0 }) }
    }

    /// Does the work on a thread, at once or when one of as many as there are CPUs is free. Errors: there is no thread at all.
    pub(super) fn run(&'static self, work: Work) -> io::Result<()> {
        let limit = std::thread::available_parallelism().map_or(1, |count| count.get());
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let process = std::process::id();
        if state.process != process {
            *state = State { process, waiting: VecDeque::new(), building: 0 };
        }
        if state.building >= limit {
            state.waiting.push_back(work);
            return Ok(());
        }
        // Before anybody else can count.
        self.begin(work).map(|()| state.building += 1).map_err(|(error, _)| error)
    }

    /// A thread for this work and what waits behind it. Gives the work back if there is none.
    fn begin(&'static self, work: Work) -> Result<(), (io::Error, Option<Work>)> {
        let work = std::sync::Arc::new(Mutex::new(Some(work)));
        let taken = work.clone();
        let take = |work: &Mutex<Option<Work>>| work.lock().unwrap_or_else(PoisonError::into_inner).take();
        let begun = std::thread::Builder::new().name("spirula-build".into()).spawn(move || {
            if let Some(work) = take(&taken) {
                self.serve(work);
            }
        });
        begun.map(drop).map_err(|error| (error, take(&work)))
    }

    fn serve(&'static self, work: Work) {
        let mut work = work;
        loop {
            let notify = work();
            let next = {
                let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
                let next = state.waiting.pop_front();
                if next.is_none() {
                    state.building -= 1;
                }
                next
            };
            // Another thread builds on, whatever the application does now.
            let left = next.and_then(|next| self.begin(next).err()).and_then(|(_, work)| work);
            notify();
            match left {
                Some(next) => work = next,
                None => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
    use std::sync::mpsc::channel;

    #[test]
    fn few_build_at_a_time_and_none_waits_for_a_callback() {
        static BACKGROUND: Background = Background::new();
        static BUILDING: AtomicUsize = AtomicUsize::new(0);
        static MOST: AtomicUsize = AtomicUsize::new(0);
        let (sender, receiver) = channel();
        let (last, waiter) = channel();
        // A callback that waits for the last build.
        let (first, told) = (sender.clone(), Mutex::new(waiter));
        let wait = Box::new(move || {
            told.lock().unwrap().recv().unwrap();
            first.send(()).unwrap();
        });
        BACKGROUND.run(Box::new(move || wait)).unwrap();
        for number in 0..500 {
            let (sender, last) = (sender.clone(), last.clone());
            let work = move || -> Notify {
                MOST.fetch_max(BUILDING.fetch_add(1, SeqCst) + 1, SeqCst);
                std::thread::sleep(std::time::Duration::from_micros(100));
                BUILDING.fetch_sub(1, SeqCst);
                Box::new(move || {
                    if number == 499 {
                        last.send(()).unwrap();
                    }
                    sender.send(()).unwrap();
                })
            };
            BACKGROUND.run(Box::new(work)).unwrap();
        }
        (0..501).for_each(|_| receiver.recv().unwrap());
        let limit = std::thread::available_parallelism().unwrap().get();
        assert!((1..=limit).contains(&MOST.load(SeqCst)), "{MOST:?} at a time");
    }
}
