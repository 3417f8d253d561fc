//! Copies to pages that the system has not provided yet: a buffer's first contents, or an array that is read into. A fault for each page takes
//! longer than its bytes, and a store past the caches finds the zeroes there that the system has just written, and waits until they are in
//! memory. Pages are provided some at a time instead, and copied to while they are in the cache. (64 MiB on Granite Rapids by two
//! threads: 12 ms, with faults 14, past the caches 22; in pages that were there 5.)

#![allow(unsafe_code)]

use super::PAGE;
use rustix::mm::{Advice, madvise};

/// It is not asked where fewer bytes are copied to.
pub(super) const LEAST: usize = 256 << 10;
/// So many bytes are provided at a time: less than the second cache has room for.
const STEP: usize = 256 << 10;

/// Whether the page at an address is one that the system has not provided yet. False where it doesn't say.
pub(super) fn is_absent(address: *const u8) -> bool {
    let page = address.map_addr(|address| address & !(PAGE - 1));
    let mut resident = 1_u8;
    // SAFETY: a page's start; of so many bytes, which is one page, a byte is written. Where nothing is mapped it fails.
    let result = unsafe { libc::mincore(page.cast_mut().cast(), PAGE, &raw mut resident) };
    result == 0 && resident & 1 == 0
}

/// Has the system provide what is absent of the pages that these bytes lie in.
///
/// # Safety
/// They must be writable.
pub(super) unsafe fn provide(start: *mut u8, len: usize) {
    let page = start.map_addr(|address| address & !(PAGE - 1));
    let bytes = (start.addr() - page.addr() + len).next_multiple_of(PAGE);
    // SAFETY: whole pages, whose contents stay. That it fails, as it does on Linux before 5.14, costs only speed.
    let _ = unsafe { madvise(page.cast(), bytes, Advice::LinuxPopulateWrite) };
}

/// Copies bytes.
///
/// # Safety
/// Both must be valid for so many bytes, and may not overlap.
pub(super) unsafe fn copy(from: *const u8, to: *mut u8, len: usize) {
    for start in (0..len).step_by(STEP) {
        let bytes = STEP.min(len - start);
        // SAFETY: below `len`, up to which the caller promises both to be valid and apart.
        unsafe {
            provide(to.add(start), bytes);
            std::ptr::copy_nonoverlapping(from.add(start), to.add(start), bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Span;
    use super::*;
    use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous, munmap};
    use std::marker::PhantomData;
    use std::ptr::NonNull;

    #[test]
    fn what_nobody_wrote_to_is_absent_and_is_copied_to_like_the_rest() {
        const ROOM: usize = 4 * STEP;
        let flags = ProtFlags::READ | ProtFlags::WRITE;
        // SAFETY: new memory, which nothing else knows.
        let start = unsafe { mmap_anonymous(std::ptr::null_mut(), ROOM, flags, MapFlags::PRIVATE) }.unwrap();
        let memory = Span { start: NonNull::new(start.cast()).unwrap(), len: ROOM, owner: PhantomData };
        let at = |offset: usize| memory.slice(offset, 1).address();
        assert!(is_absent(at(0)) && is_absent(at(ROOM - 1)));
        let bytes: Vec<u8> = (0..3 * STEP + 5).map(|i| (i ^ i >> 8 ^ i >> 16) as u8).collect();
        let copied = memory.slice(ROOM - bytes.len() - 3, bytes.len());
        copied.write(&bytes[..]);
        assert!(copied.to_vec() == bytes);
        assert!(is_absent(at(0)) && !is_absent(at(ROOM - 1)));
        // SAFETY: mapped above, to be written to.
        unsafe { provide(at(5), 1) };
        assert!(!is_absent(at(0)) && is_absent(at(PAGE)));
        memory.slice(PAGE, LEAST).fill(&[7]);
        assert!(!is_absent(at(PAGE)) && memory.slice(PAGE, LEAST).to_vec().iter().all(|&byte| byte == 7));
        // SAFETY: as it was mapped; it is not used any more.
        unsafe { munmap(start, ROOM) }.unwrap();
        // Nothing is mapped there.
        assert!(!is_absent(std::ptr::null()));
    }
}
