//! Huge pages, where they pay: fewer translations to look up, and one fault for 512. They may not where a virtual machine tells its host
//! which of its memory is free (virtio 1.2, 5.5.6.7, free page reporting): the host takes that away after a while, and whoever is given
//! such a huge page next waits for milliseconds until it is back, while the system has small ones in stock. There each one is
//! touched at once, until they get slow.

#![allow(unsafe_code)]

use super::PAGE;
use rustix::mm::{Advice, madvise};
use std::fs;
use std::path::Path;
use std::ptr::NonNull;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Bytes of a huge page.
pub(super) const HUGE_PAGE: usize = 2 << 20;
/// From this size on memory is asked for in huge pages.
pub(super) const LEAST: usize = 4 * HUGE_PAGE;
/// Huge pages that are touched at most: an application need not use all that it asks for.
const MOST_TOUCHED: usize = 512;
/// Small pages that they are compared with.
const SMALL: usize = 16;
/// Having a page cleared takes so long at least.
const LEAST_FAULT: Duration = Duration::from_nanos(200);

/// Has fresh memory in huge pages, or in small ones where those are quicker.
///
/// # Safety
/// The caller must own `bytes` from `start` on, a page's start and `LEAST` or more of them, whose contents are not needed.
pub(super) unsafe fn choose(start: NonNull<u8>, bytes: usize) {
    static LOSES_FREE_MEMORY: OnceLock<bool> = OnceLock::new();
    /// As long as the process lives.
    static ARE_SLOW: AtomicBool = AtomicBool::new(false);
    let loses = *LOSES_FREE_MEMORY.get_or_init(|| loses_free_memory(Path::new("/sys/bus/virtio/devices")));
    // SAFETY: the caller's promise.
    unsafe {
        if loses && !ARE_SLOW.load(Ordering::Relaxed) {
            // Another thread may have found out meanwhile.
            ARE_SLOW.fetch_or(!touched_in_time(start, bytes), Ordering::Relaxed);
        } else {
            advise(start, 0..bytes, if loses { Advice::LinuxNoHugepage } else { Advice::LinuxHugepage });
        }
    }
}

/// Touches one huge page after the other while they come in time; what is left behind a slow one is in small ones. Whether all came so.
///
/// # Safety
/// As for [`choose`].
unsafe fn touched_in_time(start: NonNull<u8>, bytes: usize) -> bool {
    let last = bytes / HUGE_PAGE - 1;
    // SAFETY: all of it are whole pages of the caller's memory.
    unsafe {
        advise(start, last * HUGE_PAGE..bytes, Advice::LinuxNoHugepage);
        advise(start, 0..last * HUGE_PAGE, Advice::LinuxHugepage);
        let small = (0..SMALL).map(|page| time_to_touch(start.add(last * HUGE_PAGE + page * PAGE))).sum();
        let times = (0..last.min(MOST_TOUCHED)).map(|page| time_to_touch(start.add(page * HUGE_PAGE)));
        let slow = second_slow(times, small);
        if let Some(slow) = slow {
            advise(start, (slow + 1) * HUGE_PAGE..last * HUGE_PAGE, Advice::LinuxNoHugepage);
        } else {
            advise(start, last * HUGE_PAGE..bytes, Advice::LinuxHugepage);
        }
        slow.is_none()
    }
}

/// The second of the huge pages that was slow, with which asking for more ends. A single one may have been interrupted.
fn second_slow(huge: impl Iterator<Item = Duration>, small: Duration) -> Option<usize> {
    huge.enumerate().filter(|&(_, huge)| is_slow(huge, small)).map(|(page, _)| page).nth(1)
}

/// Whether a huge page took clearly longer than as many small ones as it stands for, given the time of `SMALL` of them.
fn is_slow(huge: Duration, small: Duration) -> bool {
    let instead = small * (HUGE_PAGE / PAGE / SMALL) as u32;
    // Small ones that were there before tell nothing.
    small >= LEAST_FAULT * SMALL as u32 && 2 * huge > 3 * instead
}

/// # Safety
/// The caller must own the bytes in `range` behind `start`, which it begins with a page of.
unsafe fn advise(start: NonNull<u8>, range: std::ops::Range<usize>, advice: Advice) {
    let pages = range.len() / PAGE * PAGE;
    // SAFETY: whole pages of the caller's memory; the advice changes no contents, and that it fails costs only speed.
    let _ = unsafe { madvise(start.as_ptr().add(range.start).cast(), pages, advice) };
}

/// # Safety
/// The caller must own the page.
unsafe fn time_to_touch(page: NonNull<u8>) -> Duration {
    let begin = Instant::now();
    // SAFETY: the caller's promise.
    unsafe { page.write_volatile(0) };
    begin.elapsed()
}

/// Whether this is a virtual machine whose host takes what is free. `devices` is where the system lists virtio's devices.
fn loses_free_memory(devices: &Path) -> bool {
    let Ok(devices) = fs::read_dir(devices) else { return false };
    devices.flatten().any(|device| is_reporting_balloon(&device.path()).unwrap_or(false))
}

/// Whether a device is a memory balloon that free pages are reported to. None if it doesn't say.
fn is_reporting_balloon(device: &Path) -> Option<bool> {
    const BALLOON: &str = "0x0005";
    /// VIRTIO_BALLOON_F_REPORTING.
    const REPORTING: usize = 5;
    let said = |what| fs::read_to_string(device.join(what)).ok();
    // The features are digits, the first bit first.
    Some(said("device")?.trim() == BALLOON && said("features")?.as_bytes().get(REPORTING) == Some(&b'1'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn huge_pages_are_slow_only_beside_small_ones() {
        let is_slow = |huge, small| is_slow(Duration::from_micros(huge), Duration::from_micros(small));
        // A machine that clears a huge page in 150 us and a small one in 0.6 us, and one that gets huge pages from its host.
        assert!(!is_slow(150, 10) && is_slow(1200, 20));
        // Memory that had small pages before.
        assert!(!is_slow(150, 0) && !is_slow(150, 1));
    }

    #[test]
    fn no_more_are_touched_behind_the_second_slow_one() {
        let small = Duration::from_micros(20);
        let mut touched = 0;
        let mut second = |times: &[u64]| {
            touched = 0;
            let times = times.iter().inspect(|_| touched += 1).map(|&time| Duration::from_micros(time));
            (second_slow(times, small), touched)
        };
        assert_eq!(second(&[110, 2500, 100, 1200, 5000, 5000]), (Some(3), 4));
        assert_eq!(second(&[110, 9000, 120]), (None, 3), "busy with something else for a moment");
    }

    #[test]
    fn balloons_say_whether_free_memory_is_taken() {
        let devices = tempfile::tempdir().unwrap();
        let add = |name, device, features| {
            let path = devices.path().join(name);
            fs::create_dir(&path).unwrap();
            fs::write(path.join("device"), device).unwrap();
            fs::write(path.join("features"), features).unwrap();
        };
        assert!(!loses_free_memory(&devices.path().join("none")), "no virtual machine");
        add("virtio0", "0x0001\n", "1111111100000000\n");
        add("virtio1", "0x0005\n", "0110000000000000\n");
        fs::create_dir(devices.path().join("virtio2")).unwrap();
        assert!(!loses_free_memory(devices.path()));
        add("virtio3", "0x0005\n", "0110010000000000\n");
        assert!(loses_free_memory(devices.path()));
    }
}
