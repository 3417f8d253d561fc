//! A run's results, as they are kept in a JSON file.

use crate::verdict::{Count, Verdict};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;

/// One test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// The suite, or the conformance program.
    pub suite: String,
    /// Its name in that.
    pub test: String,
    /// What came of it.
    pub verdict: Verdict,
    /// How long it took.
    pub seconds: f64,
}

/// A run.
#[derive(Debug, Serialize, Deserialize)]
pub struct Results {
    /// What was run: "spir", "build" or "run".
    pub command: String,
    /// The library under test.
    pub icd: String,
    /// The library that it was compared with, if another.
    pub against: Option<String>,
    /// How long all of it took.
    pub seconds: f64,
    /// Every test, in order.
    pub outcomes: Vec<Outcome>,
}

impl Results {
    /// Reads what [`Results::write`] wrote.
    pub fn read(path: &Path) -> Result<Results, String> {
        let text = fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        serde_json::from_str(&text)
            .map_err(|e| format!("{}: not a report of this program: {e}", path.display()))
    }

    /// Writes them as JSON.
    pub fn write(&self, path: &Path) -> Result<(), String> {
        let text = serde_json::to_string_pretty(self).map_err(|e| e.to_string())?;
        fs::write(path, text + "\n").map_err(|e| format!("{}: {e}", path.display()))
    }

    /// Of all tests.
    pub fn count(&self) -> Count {
        Count::of(self.outcomes.iter().map(|o| &o.verdict))
    }

    /// Each suite with its outcomes, in order.
    pub fn suites(&self) -> impl Iterator<Item = (&str, &[Outcome])> {
        self.outcomes.chunk_by(|a, b| a.suite == b.suite).map(|chunk| (&*chunk[0].suite, chunk))
    }
}
