//! Khronos's SPIR suite, run on its data: each program as a SPIR binary on the ICD under test, and as OpenCL C source on
//! the same or another ICD, with the same arguments; what comes out must agree.

mod argument;
mod difference;
pub mod launch;
mod limits;
pub mod special;

use crate::suite::{Data, Entry};
use crate::vendor::Vendor;
use crate::verdict::Verdict;
use crate::worker::{Answer, Assistant, Form, Task};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Programs that mean different things as a binary and as source, wherever both are right; Khronos's test leaves them
/// out too.
const AMBIGUOUS: &[(&str, &str)] = &[
    ("test_sizeof.sizeof_sampler_t", "a sampler has 4 bytes in SPIR 1.2 and the vendor's size in OpenCL C"),
    ("test.kernel_preprocessor_macros", "macros of the compiler that made the binary"),
];

/// What a binary's results are compared with.
#[derive(Clone, Copy)]
pub enum Reference<'a> {
    /// The source, on the same ICD.
    Source,
    /// The source, on another vendor's, whose rounding may differ too.
    Foreign(&'a Vendor),
    /// The same binary on this: every bit must agree.
    Again(&'a Vendor),
}

/// Judges programs: one worker on the ICD under test, one on the ICD to compare with.
pub struct Judge<'a> {
    subject: Assistant<'a>,
    reference: Assistant<'a>,
    kind: Reference<'a>,
    folder: Result<TempDir, String>,
}

impl<'a> Judge<'a> {
    /// Starts no process yet.
    pub fn new(icd: &'a Vendor, kind: Reference<'a>, data: &'a Data, limit: Duration) -> Self {
        let other = match kind {
            Reference::Source => icd,
            Reference::Foreign(other) | Reference::Again(other) => other,
        };
        Judge {
            subject: Assistant::new(icd, data, limit),
            reference: Assistant::new(other, data, limit),
            kind,
            folder: tempfile::Builder::new().prefix("khronos-cts").tempdir().map_err(|e| e.to_string()),
        }
    }

    /// A program's fate.
    pub fn judge(&mut self, entry: &Entry) -> Verdict {
        if special::is(entry) {
            return match self.subject.ask(entry, Task::Special) {
                Answer::Done => Verdict::Passed,
                Answer::Failed(why) => Verdict::Failed(why),
                Answer::Lacks(need) => Verdict::Skipped(need),
            };
        }
        self.compare(entry).unwrap_or_else(|verdict| verdict)
    }

    fn compare(&mut self, entry: &Entry) -> Result<Verdict, Verdict> {
        let folder = self.folder.as_ref().map_err(|why| Verdict::Failed(why.clone()))?.path();
        let file = |name| -> PathBuf { folder.join(name) };
        let (got, wanted) = (file("subject"), file("reference"));
        if let Some((_, why)) = AMBIGUOUS.iter().find(|(test, _)| *test == entry.test()) {
            return Err(Verdict::Skipped(why.to_string()));
        }
        match ask(&mut self.subject, entry, Form::Spir, None, &got) {
            Answer::Done => {}
            Answer::Failed(why) => return Err(Verdict::Failed(why)),
            Answer::Lacks(need) => return Err(Verdict::Skipped(need)),
        }
        let read = |path| launch::Outcome::read(path).map_err(Verdict::Failed);
        let outcome = read(&got)?;
        if let Some(misprint) = special::misprint(entry, &outcome) {
            return Err(Verdict::Failed(misprint));
        }
        let (form, tolerance) = match self.kind {
            Reference::Source => (Form::Source, limits::tolerance(entry.test(), false)),
            Reference::Foreign(_) => (Form::Source, limits::tolerance(entry.test(), true)),
            Reference::Again(_) => (Form::Spir, limits::EXACT),
        };
        match ask(&mut self.reference, entry, form, Some(&got), &wanted) {
            Answer::Done => {}
            Answer::Failed(why) => return Err(Verdict::Failed(format!("the reference: {why}"))),
            Answer::Lacks(need) => {
                return Err(Verdict::Skipped(format!(
                    "ran, but the reference has nothing to compare: {need}"
                )));
            }
        }
        match difference::find(&outcome, &read(&wanted)?, tolerance) {
            None => Ok(Verdict::Passed),
            Some(difference) => Err(Verdict::Failed(difference)),
        }
    }
}

/// Runs one form of the program into `outcome`. Those that print get a process of their own, whose output is kept.
fn ask(assistant: &mut Assistant, entry: &Entry, form: Form, like: Option<&Path>, outcome: &Path) -> Answer {
    let task = Task::Launch { form, like: like.map(Path::to_path_buf), outcome: outcome.to_path_buf() };
    if entry.suite != "printf" {
        return assistant.ask(entry, task);
    }
    let (answer, printed) = assistant.ask_alone(entry, task);
    if answer != Answer::Done {
        return answer;
    }
    let kept =
        launch::Outcome::read(outcome).and_then(|done| launch::Outcome { printed, ..done }.write(outcome));
    kept.map_or_else(Answer::Failed, |()| Answer::Done)
}
