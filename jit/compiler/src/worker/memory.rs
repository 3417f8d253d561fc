//! How much memory a job may take: a share of the machine's. The limit on address space is a rougher one, for stacks and what
//! allocators reserve count there, which is never used.

use super::crash;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::Thread;
use std::time::Duration;

/// How often somebody looks.
const INTERVAL: Duration = Duration::from_millis(50);
/// Every machine has so many bytes to spare for a compiler.
const LEAST: u64 = 2 << 30;

/// The process's own file of sizes, opened while files can be.
static SIZES: OnceLock<File> = OnceLock::new();
static LIMIT: AtomicU64 = AtomicU64::new(u64::MAX);

/// From now on a job that takes more than this process's share ends it.
pub(super) fn install() {
    if let Ok(file) = File::open("/proc/self/statm") {
        let _ = SIZES.set(file);
    }
    // SAFETY: asks only.
    let (pages, size) = unsafe { (libc::sysconf(libc::_SC_PHYS_PAGES), libc::sysconf(libc::_SC_PAGESIZE)) };
    let all = u64::try_from(pages).unwrap_or(0).saturating_mul(u64::try_from(size).unwrap_or(0));
    let workers = std::thread::available_parallelism().map_or(1, |count| count.get() as u64);
    limit(share(all, workers));
}

/// Lowers the limit.
pub fn limit(bytes: u64) {
    LIMIT.fetch_min(bytes, Relaxed);
}

/// Three quarters of the machine's memory for all workers, of which there are as many as processors.
fn share(all: u64, workers: u64) -> u64 {
    (all / 4 * 3 / workers.max(1)).max(LEAST)
}

/// Resident bytes of this process; 0 if nobody knows.
pub fn resident() -> u64 {
    let mut text = [0; 128];
    let length = SIZES.get().and_then(|file| file.read_at(&mut text, 0).ok()).unwrap_or(0);
    let text = std::str::from_utf8(&text[..length]).unwrap_or_default();
    text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).map_or(0, |pages| pages * 4096)
}

/// Has one thread look after the memory that another one's jobs take.
#[derive(Debug)]
pub(super) struct Watch {
    watcher: Thread,
    /// Whether a job is being done.
    at_work: AtomicBool,
    /// Whether no other one will come.
    is_over: AtomicBool,
}

impl Watch {
    /// The calling thread is to watch.
    pub fn by_this_thread() -> Watch {
        let watcher = std::thread::current();
        Watch { watcher, at_work: AtomicBool::new(false), is_over: AtomicBool::new(false) }
    }

    /// Does a job, watched.
    pub fn during<T>(&self, job: impl FnOnce() -> T) -> T {
        self.at_work.store(true, Relaxed);
        // It sleeps between jobs.
        self.watcher.unpark();
        let result = job();
        // This it sees when it looks the next time.
        self.at_work.store(false, Relaxed);
        result
    }

    /// Lets the watching thread go.
    pub fn end(&self) {
        self.is_over.store(true, Relaxed);
        self.watcher.unpark();
    }

    /// Watches until the end.
    pub fn keep(&self) {
        while !self.is_over.load(Relaxed) {
            if self.at_work.load(Relaxed) {
                std::thread::park_timeout(INTERVAL);
                check();
                super::pace::look();
            } else {
                std::thread::park();
            }
        }
    }
}

/// Ends the process if it has more than its share.
fn check() {
    let (now, most) = (resident(), LIMIT.load(Relaxed));
    if now > most {
        let words = format!("used {} MiB of memory, and may use {}", now >> 20, most >> 20);
        crash::last_words(&[words.as_bytes()]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_leave_something() {
        assert_eq!(share(64 << 30, 8), 6 << 30);
        assert_eq!(share(4 << 30, 64), LEAST);
        assert_eq!(share(0, 0), LEAST);
    }
}
