//! The time that commands may take, and the watch over it: a thread that sends signals to those that are in a kernel for longer, until
//! they have left it.

use super::{records, signal};
use crate::log;
use crate::machine::timer;
use spirula_service::settings;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

/// How often the watch looks.
const INTERVAL: Duration = Duration::from_millis(20);

/// When a command must have ended, in the time of [`timer`]; 0 is never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Deadline(pub(super) u64);

impl Deadline {
    /// Of what may take as long as it likes.
    pub(crate) const NEVER: Deadline = Deadline(0);

    /// Of a command that begins now.
    pub(crate) fn of_command() -> Deadline {
        settings::get().launch_limit.map_or(Deadline::NEVER, Deadline::after)
    }

    /// Somebody watches from now on.
    pub(crate) fn after(limit: Duration) -> Deadline {
        begin_watch();
        Deadline(timer().saturating_add(u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX)))
    }

    /// How long there is to go; None if it never comes.
    pub(crate) fn left(self) -> Option<Duration> {
        (self != Deadline::NEVER).then(|| Duration::from_nanos(self.0.saturating_sub(timer())))
    }

    pub(crate) fn is_over(self) -> bool {
        self != Deadline::NEVER && timer() > self.0
    }
}

/// Begins the watch, once for each process: a forked child has no such thread.
fn begin_watch() {
    static WATCHED: AtomicU32 = AtomicU32::new(0);
    let process = std::process::id();
    if WATCHED.load(Relaxed) == process || WATCHED.swap(process, Relaxed) == process {
        return;
    }
    signal::install_for_limits();
    if let Err(error) = std::thread::Builder::new().name("spirula-watch".into()).spawn(watch) {
        WATCHED.store(0, Relaxed);
        log::error(format_args!("no thread that ends kernels by SPIRULA_TIMEOUT: {error}"));
    }
}

fn watch() {
    loop {
        std::thread::sleep(INTERVAL);
        let late = |deadline: u64| Deadline(deadline).is_over();
        for record in records().filter(|record| late(record.deadline.load(Relaxed))) {
            signal::send_limit(record);
        }
    }
}
