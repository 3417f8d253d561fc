//! Huge pages, where they pay: fewer translations to look up, and one fault for 512. But a virtual machine whose free memory went
//! back to its host gets a huge page from there, piece by piece, while the system has small ones in stock: then they take several
//! times as long as those. Some of an allocation's first ones tell, before there are more.

#![allow(unsafe_code)]

use super::PAGE;
use rustix::mm::{Advice, madvise};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Bytes of a huge page.
pub(super) const HUGE_PAGE: usize = 2 << 20;
/// From this size on memory is asked for in huge pages: two to try, and small ones to compare with.
pub(super) const LEAST: usize = 4 * HUGE_PAGE;
/// Of so many one is tried, and not more: what was given back last comes first, and is quick.
const TRIED_OF: usize = 16;
const MOST_TRIED: usize = 8;
/// Small pages that are tried.
const SMALL: usize = 16;
/// Having a page cleared takes so long at least.
const LEAST_FAULT: Duration = Duration::from_nanos(200);

/// Whether huge pages were found to be slow; they are as long as the process lives.
static ARE_SLOW: AtomicBool = AtomicBool::new(false);

/// Has fresh memory, from a multiple of `HUGE_PAGE` on, in huge pages unless these are slow.
///
/// # Safety
/// The caller must own `bytes` from `start` on, `LEAST` or more of them, whose contents are not needed.
pub(super) unsafe fn ask_for_huge(start: NonNull<u8>, bytes: usize) {
    let pages = bytes / PAGE * PAGE;
    if ARE_SLOW.load(Ordering::Relaxed) {
        // SAFETY: whole pages of the caller's memory; the advice changes no contents, and that it fails costs only speed.
        let _ = unsafe { madvise(start.as_ptr().cast(), pages, Advice::LinuxNoHugepage) };
        return;
    }
    let all = bytes / HUGE_PAGE * HUGE_PAGE;
    let last = all - HUGE_PAGE;
    let tried = (all / HUGE_PAGE / TRIED_OF).clamp(2, MOST_TRIED);
    // SAFETY: all of it are whole pages of the caller's memory; as above.
    unsafe {
        let _ = madvise(start.as_ptr().cast(), last, Advice::LinuxHugepage);
        let _ = madvise(start.as_ptr().add(last).cast(), HUGE_PAGE, Advice::LinuxNoHugepage);
        let huge = (0..tried).map(|page| time_to_touch(start.add(page * HUGE_PAGE))).collect();
        let small = (0..SMALL).map(|page| time_to_touch(start.add(last + page * PAGE))).sum();
        if are_slow(huge, small) {
            ARE_SLOW.store(true, Ordering::Relaxed);
            let rest = tried * HUGE_PAGE;
            let _ = madvise(start.as_ptr().add(rest).cast(), pages - rest, Advice::LinuxNoHugepage);
        } else {
            let _ = madvise(start.as_ptr().cast(), pages, Advice::LinuxHugepage);
        }
    }
}

/// Whether two huge pages or more take clearly longer than as many small ones as each stands for, given the time of `SMALL` of them.
fn are_slow(mut huge: Vec<Duration>, small: Duration) -> bool {
    huge.sort_unstable_by(|a, b| b.cmp(a));
    let instead = small * (HUGE_PAGE / PAGE / SMALL) as u32;
    // Small ones that were there before tell nothing.
    small >= LEAST_FAULT * SMALL as u32 && huge.get(1).is_some_and(|&huge| 2 * huge > 3 * instead)
}

/// # Safety
/// The caller must own the page.
unsafe fn time_to_touch(page: NonNull<u8>) -> Duration {
    let begin = Instant::now();
    // SAFETY: the caller's promise.
    unsafe { page.write_volatile(0) };
    begin.elapsed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_pages_are_slow_only_beside_small_ones() {
        let micros = |times: &[u64]| times.iter().copied().map(Duration::from_micros).collect();
        let are_slow = |huge: &[u64], small| are_slow(micros(huge), Duration::from_micros(small));
        // A machine that clears a huge page in 150 us and a small one in 0.6 us; one that gets huge pages from its host, after some
        // that it had; and one that was busy with something else for a moment.
        assert!(!are_slow(&[150, 150], 10));
        assert!(are_slow(&[1500, 1200], 20) && are_slow(&[110, 120, 100, 2500, 1200], 20));
        assert!(!are_slow(&[900, 900], 20) && !are_slow(&[120, 9000, 120], 20));
        // Memory that had pages before.
        assert!(!are_slow(&[1, 1], 0) && !are_slow(&[150, 150], 1));
    }
}
