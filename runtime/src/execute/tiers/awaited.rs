//! Who waits for a kernel's code: launches of kernels whose times the application reads. It measures, and goes by what it finds: programs
//! that tune themselves choose sizes by their first launches, and would choose them for code that is gone an instant later. Such a launch
//! begins, and its time with it, when the code is there.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Launches wait until so long after code was last asked for. Few kernels take a compiler longer.
const MOST_WAITED: Duration = Duration::from_secs(10);

/// Code that is being made.
#[derive(Default)]
pub(super) struct Awaited {
    /// The application reads how long launches take. (Most don't, and their launches ask for nothing else.)
    is_timed: AtomicBool,
    state: Mutex<State>,
    ended: Condvar,
}

#[derive(Default)]
struct State {
    /// So much is being made, or is next.
    making: u32,
    /// Since that was asked for last.
    since: Option<Instant>,
    /// How long launches have waited for it.
    waited: Duration,
}

impl Awaited {
    /// The application has read how long a launch took. Whether it is the first time.
    pub(super) fn time(&self) -> bool {
        !self.is_timed.swap(true, Ordering::Relaxed)
    }

    /// Code was asked for.
    pub(super) fn begin(&self) {
        let mut state = self.lock();
        state.making += 1;
        state.since = Some(Instant::now());
        state.waited = Duration::ZERO;
    }

    /// It is there, or will not come.
    pub(super) fn end(&self) {
        self.lock().making -= 1;
        self.ended.notify_all();
    }

    /// Whether a launch that begins now is to wait.
    pub(super) fn is_awaited(&self) -> bool {
        self.is_timed.load(Ordering::Relaxed) && self.lock().has_to_wait()
    }

    /// Waits for what is being made, for a while, but so long at most, with what others have waited for it: of a thousand launches each would
    /// wait in vain.
    pub(super) fn wait(&self, most: Duration) {
        let begun = Instant::now();
        let end = self.lock().end_of_wait(begun, most);
        if let Some(end) = end.filter(|end| *end > begun) {
            self.wait_until(end);
            self.lock().waited += begun.elapsed();
        }
    }

    /// Waits for what is being made, until then.
    pub(super) fn wait_until(&self, end: Instant) {
        let left = end.saturating_duration_since(Instant::now());
        let waited = self.ended.wait_timeout_while(self.lock(), left, |state| state.has_to_wait());
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Waits for what is being made, however long that takes.
    pub(super) fn wait_for_all(&self) {
        let waited = self.ended.wait_while(self.lock(), |state| state.making > 0);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Until when a launch waits that may wait so long from now on; None where nothing was asked for.
    fn end_of_wait(&self, now: Instant, most: Duration) -> Option<Instant> {
        let most = most.min(MOST_WAITED).saturating_sub(self.waited);
        Some((now + most).min(self.since? + MOST_WAITED))
    }

    fn has_to_wait(&self) -> bool {
        self.making > 0 && self.since.is_some_and(|since| since.elapsed() < MOST_WAITED)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn launches_wait_no_longer_together_than_one_may() {
        const MOST: Duration = Duration::from_millis(3);
        let awaited = Awaited::default();
        let now = Instant::now();
        assert_eq!(awaited.lock().end_of_wait(now, MOST), None);
        awaited.begin();
        let now = Instant::now();
        assert_eq!(awaited.lock().end_of_wait(now, MOST), Some(now + MOST));
        awaited.wait(MOST);
        assert!(awaited.lock().waited >= MOST, "in vain");
        assert_eq!(awaited.lock().end_of_wait(now, MOST), Some(now), "the next one doesn't");
        awaited.lock().waited = MOST;
        assert_eq!(awaited.lock().end_of_wait(now, 3 * MOST), Some(now + 2 * MOST), "a longer one does");
        awaited.begin();
        assert_eq!(awaited.lock().end_of_wait(now, MOST), Some(now + MOST), "for other code");
        awaited.lock().waited = Duration::ZERO;
        assert!(awaited.lock().end_of_wait(now, Duration::MAX) <= Some(Instant::now() + MOST_WAITED));
    }
}
