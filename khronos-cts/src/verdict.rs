//! The three fates of a test, and how many met each.

use serde::{Deserialize, Serialize};

/// A test's fate.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Verdict {
    /// As it must be.
    Passed,
    /// It was not, and the first line of the reason.
    Failed(String),
    /// It was not tried, or there was nothing to compare with, and why.
    Skipped(String),
}

/// Passed, failed and skipped tests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// How many passed.
    pub passed: usize,
    /// How many failed.
    pub failed: usize,
    /// How many were skipped.
    pub skipped: usize,
}

impl Count {
    /// One more.
    pub fn add(&mut self, verdict: &Verdict) {
        match verdict {
            Verdict::Passed => self.passed += 1,
            Verdict::Failed(_) => self.failed += 1,
            Verdict::Skipped(_) => self.skipped += 1,
        }
    }

    /// Of all these.
    pub fn of<'a>(verdicts: impl IntoIterator<Item = &'a Verdict>) -> Count {
        let mut count = Count::default();
        verdicts.into_iter().for_each(|verdict| count.add(verdict));
        count
    }
}

impl std::fmt::Display for Count {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}
