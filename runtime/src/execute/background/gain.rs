//! What a job is expected to save: its kernel goes on as it did of late, and nothing is known of a new one.

use super::SpentNs;
use std::time::{Duration, Instant};

/// After so long what was spent counts half.
const HALF_LIFE: Duration = Duration::from_millis(100);

/// A job that was just asked for counts as if its kernel had run so long: mostly that runs now.
const NEW_NS: f64 = 20e6;

/// How much a job saves for the time that it takes.
pub(super) struct Gain {
    takes: Duration,
    spent_ns: SpentNs,
    /// What that said when it was looked at last.
    seen_ns: u64,
    looked: Instant,
    /// What was spent of late.
    recent_ns: f64,
}

impl Gain {
    /// Of a job that takes so long, where launches have run so long in what it replaces. What they ran before they asked for it says nothing: of
    /// a variant's kernel all baseline code is long behind it.
    pub fn new(takes: Duration, spent_ns: SpentNs) -> Gain {
        let seen_ns = spent_ns();
        Gain { takes, spent_ns, seen_ns, looked: Instant::now(), recent_ns: NEW_NS }
    }

    /// How long the job takes.
    pub fn takes(&self) -> Duration {
        self.takes
    }

    /// Looks how long launches have run until now.
    pub fn look(&mut self, now: Instant) {
        let half_lives = now.saturating_duration_since(self.looked).div_duration_f64(HALF_LIFE);
        let spent_ns = (self.spent_ns)();
        let since = spent_ns.saturating_sub(self.seen_ns);
        self.recent_ns = self.recent_ns * (-half_lives).exp2() + since as f64;
        (self.seen_ns, self.looked) = (spent_ns, now);
    }

    /// What is saved in a nanosecond of the job, as far as was seen when it was looked at last.
    pub fn rate(&self) -> f64 {
        self.recent_ns / self.takes.max(Duration::from_micros(1)).as_nanos() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};

    #[test]
    fn what_runs_now_goes_before_what_ran_and_short_jobs_before_long_ones() {
        let spent = Arc::new(AtomicU64::new(0));
        let seen = spent.clone();
        let mut gain = Gain::new(Duration::from_millis(100), Box::new(move || seen.load(Ordering::Relaxed)));
        let begin = gain.looked;
        let new = gain.rate();
        gain.look(begin + HALF_LIFE);
        assert!(gain.rate() < 0.51 * new && gain.rate() > 0.49 * new, "a new one is forgotten");
        spent.store(1_000_000_000, Ordering::Relaxed);
        gain.look(begin + HALF_LIFE);
        let runs = gain.rate();
        assert!(runs > 10.0 && runs < 10.2, "{runs}: ten seconds are saved in one");
        gain.look(begin + 5 * HALF_LIFE);
        assert!(gain.rate() < runs / 15.0, "it doesn't run any more");
        let short = Gain::new(Duration::from_millis(10), Box::new(|| 0));
        let mut old = Gain::new(Duration::from_millis(10), Box::new(|| u64::MAX));
        old.look(old.looked);
        assert_eq!(old.rate(), short.rate(), "what ran before the job was asked for");
        assert!(short.rate() > 9.9 * new);
        assert!(Gain::new(Duration::ZERO, Box::new(|| 0)).rate().is_finite());
    }
}
