//! What is seen while tests run: a bar with rate and failures on a terminal, plain lines elsewhere.

use crate::verdict::{Count, Verdict};
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use std::fmt::Write;
use std::io::{IsTerminal, stderr};
use std::sync::Mutex;

/// Without a terminal, a line is printed for each failure and after each so many tests.
const STEP: usize = 500;

/// Progress of a run, on standard error.
pub struct Progress {
    bar: Option<ProgressBar>,
    state: Mutex<State>,
    total: usize,
    quiet: bool,
}

#[derive(Default)]
struct State {
    done: usize,
    count: Count,
}

impl Progress {
    /// Of so many tests.
    pub fn new(total: usize) -> Self {
        let bar = stderr().is_terminal().then(|| {
            let bar = ProgressBar::new(total as u64);
            let template = "{elapsed_precise} {wide_bar} {pos}/{len} {rate}, {eta} left, {msg}";
            if let Ok(style) = ProgressStyle::with_template(template) {
                let rate = |state: &ProgressState, to: &mut dyn Write| {
                    let _ = write!(to, "{:.1}/s", state.per_sec());
                };
                bar.set_style(style.with_key("rate", rate));
            }
            bar.set_message("no failures");
            bar
        });
        Progress { bar, state: Mutex::default(), total, quiet: false }
    }

    /// Prints nothing.
    #[cfg(test)]
    pub fn silent() -> Self {
        Progress { bar: None, state: Mutex::default(), total: 0, quiet: true }
    }

    /// One test is done, which may consist of several: suite, name, verdict.
    pub fn tell(&self, verdicts: &[(String, String, Verdict)]) {
        let Ok(mut state) = self.state.lock() else { return };
        state.done += 1;
        for (suite, test, verdict) in verdicts {
            state.count.add(verdict);
            if let Verdict::Failed(why) = verdict {
                self.line(&format!("FAILED {suite}/{test}: {why}"));
            }
        }
        match &self.bar {
            Some(bar) => {
                bar.set_message(format!("{} failed", state.count.failed));
                bar.inc(1);
            }
            None if state.done % STEP == 0 || state.done == self.total => {
                self.line(&format!("{} of {}: {}", state.done, self.total, state.count));
            }
            None => {}
        }
    }

    fn line(&self, text: &str) {
        match &self.bar {
            Some(bar) => bar.println(text),
            None if self.quiet => {}
            None => eprintln!("{text}"),
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
