//! Long copies and fills, by several threads: one can't use up the memory's bandwidth, and each clears the pages that it is the first
//! to write to.

use super::{Scheduler, is_soon};
use crate::memory::raw::{Source, Span};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::Thread;

/// Bytes of a part: a huge page.
const PART: usize = 2 << 20;
/// Fewer bytes take about as long as waking a thread.
const LEAST: usize = 2 * PART;
/// So many threads have all of a memory's bandwidth.
const MOST_HELPERS: usize = 15;

impl Scheduler {
    /// Copies all of `source` to where `to` begins; they may overlap. Panics when it doesn't fit.
    pub(crate) fn copy<'s>(&self, to: Span<'_>, source: impl Into<Source<'s>>) {
        let from = source.into();
        let bytes = from.len();
        let to = to.slice(0, bytes);
        if bytes < LEAST || to.overlaps(from.span()) {
            return to.write(from);
        }
        let (to, from) = (to.pointer(), from.span().pointer());
        self.in_parts(bytes, move |start, length| {
            to.at(start).span(length).write_part(from.at(start).span(length), bytes);
        });
    }

    /// Repeats `pattern`, of 128 bytes at most, a power of two, until the end.
    pub(crate) fn fill(&self, to: Span<'_>, pattern: &[u8]) {
        let bytes = to.len();
        if bytes < LEAST {
            return to.fill(pattern);
        }
        let (to, pattern) = (to.pointer(), pattern.to_vec());
        self.in_parts(bytes, move |start, length| to.at(start).span(length).fill(&pattern));
    }

    /// Calls `work` for all parts of so many bytes, with the pool's help, and returns when they are done. Panics if it does.
    fn in_parts(&self, bytes: usize, work: impl Fn(usize, usize) + Send + Sync + 'static) {
        let count = bytes.div_ceil(PART);
        let parts = Arc::new(Parts {
            work,
            bytes,
            count,
            next: AtomicUsize::new(0),
            done: AtomicUsize::new(0),
            failed: AtomicBool::new(false),
            waiter: std::thread::current(),
        });
        let helpers = (self.threads() - 1).min(count - 1).min(MOST_HELPERS);
        if let Some(pool) = self.pool.get().filter(|_| helpers > 0) {
            for _ in 0..helpers {
                let (parts, awake) = (parts.clone(), self.awake.clone());
                pool.spawn(move || {
                    awake.lend(|| {
                        parts.help();
                        true
                    });
                });
            }
        }
        parts.help();
        parts.wait();
        assert!(!parts.failed.load(Ordering::Relaxed), "a part of a copy of {bytes} bytes failed");
    }
}

/// Lives as long as somebody may come to help; who comes late finds nothing to do, and touches no memory.
struct Parts<F> {
    work: F,
    bytes: usize,
    count: usize,
    /// The first that nobody has taken.
    next: AtomicUsize,
    done: AtomicUsize,
    failed: AtomicBool,
    waiter: Thread,
}

impl<F: Fn(usize, usize)> Parts<F> {
    fn help(&self) {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            if number >= self.count {
                return;
            }
            let start = number * PART;
            let length = PART.min(self.bytes - start);
            if catch_unwind(AssertUnwindSafe(|| (self.work)(start, length))).is_err() {
                self.failed.store(true, Ordering::Relaxed);
            }
            if self.done.fetch_add(1, Ordering::Release) + 1 == self.count {
                self.waiter.unpark();
            }
        }
    }

    fn wait(&self) {
        let is_done = || self.done.load(Ordering::Acquire) == self.count;
        if !is_soon(is_done) {
            while !is_done() {
                std::thread::park();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::raw::Allocation;

    #[test]
    fn long_copies_and_fills_are_whole() {
        for threads in [1, 2, 5] {
            let scheduler = Scheduler::new(threads, None);
            for bytes in [1, LEAST - 1, LEAST, LEAST + PART / 2 + 3, 9 * PART] {
                let [from, to] = [0, 1].map(|_| Allocation::new(bytes + 7, 4096).unwrap());
                let wanted: Vec<u8> = (0..bytes).map(|i| (i ^ i >> 8 ^ i >> 16) as u8).collect();
                from.span().slice(7, bytes).write(&wanted[..]);
                to.span().fill(&[0]);
                scheduler.copy(to.span(), from.span().slice(7, bytes));
                let found = to.span().to_vec();
                assert!(found[..bytes] == wanted && found[bytes..] == [0; 7], "{bytes} by {threads}");
                scheduler.fill(to.span().slice(0, bytes), &[1, 2]);
                let found = to.span().to_vec();
                let is_filled = |(i, &byte): (usize, &u8)| byte == 1 + (i & 1) as u8;
                assert!(found[..bytes].iter().enumerate().all(is_filled) && found[bytes..] == [0; 7]);
            }
            // To where its own end lies.
            let memory = Allocation::new(3 * LEAST, 4096).unwrap();
            let wanted: Vec<u8> = (0..2 * LEAST).map(|i| (i >> 12) as u8).collect();
            memory.span().write(&wanted[..]);
            scheduler.copy(memory.span().slice(100, 2 * LEAST), memory.span().slice(0, 2 * LEAST));
            assert!(memory.span().to_vec()[100..100 + 2 * LEAST] == wanted);
        }
    }

    #[test]
    fn what_panics_fails_the_whole() {
        let scheduler = Scheduler::new(2, None);
        let copied = catch_unwind(AssertUnwindSafe(|| {
            scheduler.in_parts(5 * PART, |start, _| assert!(start != 3 * PART, "that one"));
        }));
        assert!(copied.is_err());
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        scheduler.in_parts(5 * PART, move |_, bytes| {
            counted.fetch_add(bytes, Ordering::Relaxed);
        });
        assert_eq!(count.load(Ordering::Relaxed), 5 * PART, "others go on");
    }
}
