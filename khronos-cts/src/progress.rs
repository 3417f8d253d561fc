//! What is seen while tests run: a bar with rate and failures on a terminal, plain lines elsewhere.

use crate::verdict::{Count, Verdict};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{IsTerminal, stderr};
use std::sync::Mutex;

/// Without a terminal, a line is printed for each failure and after each so many tests.
const STEP: usize = 500;

/// Progress of a run, on standard error.
pub struct Progress {
    bar: Option<ProgressBar>,
    count: Mutex<Count>,
    total: usize,
    quiet: bool,
}

impl Progress {
    /// Of so many tests.
    pub fn new(total: usize) -> Self {
        let bar = stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(total as u64);
            let template = "{elapsed_precise} {wide_bar} {pos}/{len} {per_sec}, {eta} left, {msg}";
            if let Ok(style) = ProgressStyle::with_template(template) {
                bar.set_style(style);
            }
            bar.set_message("no failures");
            bar
        });
        Progress { bar, count: Mutex::default(), total, quiet: false }
    }

    /// Prints nothing.
    #[cfg(test)]
    pub fn silent() -> Self {
        Progress { bar: None, count: Mutex::default(), total: 0, quiet: true }
    }

    /// One test is done.
    pub fn tell(&self, suite: &str, test: &str, verdict: &Verdict) {
        let Ok(mut count) = self.count.lock() else { return };
        count.add(verdict);
        let done = count.passed + count.failed + count.skipped;
        let failure = match verdict {
            Verdict::Failed(why) => Some(format!("FAILED {suite}/{test}: {why}")),
            _ => None,
        };
        match &self.bar {
            Some(bar) => {
                if let Some(failure) = failure {
                    bar.println(failure);
                    bar.set_message(format!("{} failed", count.failed));
                }
                bar.inc(1);
            }
            None if self.quiet => {}
            None => {
                if let Some(failure) = failure {
                    eprintln!("{failure}");
                }
                if done % STEP == 0 || done == self.total {
                    eprintln!("{done} of {}: {count}", self.total);
                }
            }
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
