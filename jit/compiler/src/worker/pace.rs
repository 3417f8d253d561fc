//! Who goes first where all processors are busy. The kernel shares them among sessions (autogroup), and a worker is one of its own: it takes as
//! much as the whole application. That is right where code is waited for, and too much for code that only might be faster than
//! what is used: the launches beside it would take twice as long, for seconds.

use std::fs::File;
use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

/// What takes no longer is not worth a change.
const PATIENCE: Duration = Duration::from_millis(500);
/// How nice the session is then: a tenth of an equal share.
const NICE: i32 = 10;
/// The kernel lets sessions change ten times a second, all together.
const ATTEMPTS: usize = 15;
const PAUSE: Duration = Duration::from_millis(10);

/// The session's place in the kernel's order, opened while files can be.
static SESSION: OnceLock<Session> = OnceLock::new();

struct Session {
    file: File,
    /// How nice the application is.
    usual: i32,
    /// Since when something is done that nobody waits for.
    since: Mutex<Option<Instant>>,
    is_slow: AtomicBool,
}

/// From now on jobs that nobody waits for go slowly, where the kernel knows of sessions.
pub(super) fn install() {
    // SAFETY: asks for this process's own.
    let usual = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    if let Ok(file) = File::options().write(true).open("/proc/self/autogroup") {
        let _ = SESSION.set(Session::new(file, usual));
    }
}

/// Does a job; is it one that nobody waits for?
pub(super) fn during<T>(nobody_waits: bool, job: impl FnOnce() -> T) -> T {
    let Some(session) = SESSION.get().filter(|_| nobody_waits) else { return job() };
    session.begin();
    let result = job();
    session.end();
    result
}

/// Looked at now and then while a job is being done.
pub(super) fn look() {
    if let Some(session) = SESSION.get() {
        session.look(PATIENCE);
    }
}

impl Session {
    fn new(file: File, usual: i32) -> Self {
        Session { file, usual, since: Mutex::new(None), is_slow: AtomicBool::new(false) }
    }

    fn begin(&self) {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
    }

    /// Goes slowly if the job takes longer than that. A kernel that has no time for the change is asked again at the next look.
    fn look(&self, patience: Duration) {
        let since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        let is_due = since.is_some_and(|since| since.elapsed() >= patience) && self.usual < NICE;
        if is_due && !self.is_slow.load(Relaxed) && self.set(NICE) {
            self.is_slow.store(true, Relaxed);
        }
    }

    /// The next job may be waited for.
    fn end(&self) {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = None;
        if !self.is_slow.swap(false, Relaxed) {
            return;
        }
        for _ in 0..ATTEMPTS {
            if self.set(self.usual) {
                return;
            }
            std::thread::sleep(PAUSE);
        }
    }

    fn set(&self, nice: i32) -> bool {
        (&self.file).write_all(format!("{nice}\n").as_bytes()).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek};

    /// What is written while a job is looked at so often, by a process that is so nice.
    fn written(looks: usize, patience: Duration, usual: i32) -> String {
        let mut file = tempfile::tempfile().unwrap();
        let session = Session::new(file.try_clone().unwrap(), usual);
        session.begin();
        (0..looks).for_each(|_| session.look(patience));
        session.end();
        session.look(Duration::ZERO);
        let mut text = String::new();
        file.rewind().unwrap();
        file.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn long_jobs_go_slowly_and_the_next_one_does_not() {
        assert_eq!(written(3, Duration::ZERO, 0), "10\n0\n");
        assert_eq!(written(3, Duration::ZERO, 5), "10\n5\n");
        assert_eq!(written(3, Duration::from_secs(1000), 0), "", "a short one");
        assert_eq!(written(3, Duration::ZERO, 19), "", "it is nicer as it is");
    }
}
