//! What a build tells of its stages: what each yielded, for who works on the compiler, and how long it took.

use spirula_interface::protocol::Stage;
use std::path::Path;
use std::time::Instant;

/// Where the stages of a build are to be written, if anywhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dump<'f>(Option<&'f Path>);

impl<'f> Dump<'f> {
    /// Into that folder.
    pub fn new(folder: Option<&'f Path>) -> Self {
        Dump(folder)
    }

    /// Whether anything is to be written.
    pub(super) fn is_wanted(self) -> bool {
        self.0.is_some()
    }

    /// Writes what a stage yielded. Failing to is nobody's problem.
    pub(super) fn write(self, name: &str, text: impl FnOnce() -> String) {
        if let Some(folder) = self.0 {
            let _ = std::fs::write(folder.join(name), text());
        }
    }
}

/// The stages of a build, as they end.
#[derive(Debug)]
pub struct Stages {
    ended: Vec<Stage>,
    since: Instant,
}

impl Stages {
    /// The first one begins now.
    pub fn begin() -> Stages {
        Stages { ended: Vec::new(), since: Instant::now() }
    }

    /// One ends, and the next begins.
    pub(super) fn end(&mut self, name: &str) {
        let now = Instant::now();
        self.ended.push(Stage { name: name.into(), time: now - self.since });
        self.since = now;
    }

    /// Those that have ended.
    pub fn ended(self) -> Vec<Stage> {
        self.ended
    }
}
