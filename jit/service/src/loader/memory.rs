//! Memory that code is copied to and then runs from. The loader's only unsafe code: a stretch is writable at first,
//! and when it becomes executable nobody can write to it any more.

#![allow(unsafe_code)]

use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use spirula_interface::program::RawWorkGroupFn;
use std::ops::Range;
use std::ptr::{NonNull, null_mut};

/// The granularity of protection on x86-64, the one CPU that there is a loader for.
pub(super) const PAGE: usize = 4096;

/// What may be done with a part of the memory in the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protection {
    ReadExecute,
    Read,
    ReadWrite,
}

/// Pages of our own, given back on drop.
#[derive(Debug)]
struct Pages {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a plain stretch of memory that this value owns, and gives nobody a reference to while it is shared.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Drop for Pages {
    fn drop(&mut self) {
        // SAFETY: mapped in `Writable::new` with this length, and unmapped once. It can fail only for want of kernel
        // memory, when there is nothing to be done: the pages stay mapped.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// Zeroed memory that is being filled.
#[derive(Debug)]
pub(super) struct Writable(Pages);

impl Writable {
    /// At least `size` bytes, and one page.
    pub(super) fn new(size: usize) -> Result<Writable, Errno> {
        let len = size.max(1).checked_next_multiple_of(PAGE).ok_or(Errno::NOMEM)?;
        // SAFETY: the kernel chooses a free address, so that no memory of others is touched.
        let start = unsafe {
            mmap_anonymous(null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)?
        };
        Ok(Writable(Pages { start: NonNull::new(start.cast()).ok_or(Errno::NOMEM)?, len }))
    }

    /// Where it is and will be.
    pub(super) fn address(&self) -> usize {
        self.0.start.as_ptr() as usize
    }

    pub(super) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: `len` bytes that are mapped, zeroed by the kernel and writable as long as this value exists, and that
        // only this borrow reaches.
        unsafe { std::slice::from_raw_parts_mut(self.0.start.as_ptr(), self.0.len) }
    }

    /// Ends writing: each part, which begins at a page's start, gets its protection.
    pub(super) fn protect(self, parts: &[(Range<usize>, Protection)]) -> Result<Mapped, Errno> {
        for (part, protection) in parts.iter().filter(|(part, _)| !part.is_empty()) {
            if part.end > self.0.len {
                return Err(Errno::INVAL);
            }
            let flags = match protection {
                Protection::ReadExecute => MprotectFlags::READ | MprotectFlags::EXEC,
                Protection::Read => MprotectFlags::READ,
                Protection::ReadWrite => continue,
            };
            // SAFETY: the part lies in our pages, and `self` was the only way to write to them through Rust.
            unsafe { mprotect(self.0.start.as_ptr().add(part.start).cast(), part.len(), flags)? };
        }
        Ok(Mapped(self.0))
    }
}

/// Memory that code runs from.
#[derive(Debug)]
pub(super) struct Mapped(Pages);

impl Mapped {
    /// All of it.
    pub(super) fn range(&self) -> Range<usize> {
        let start = self.0.start.as_ptr() as usize;
        start..start + self.0.len
    }

    /// The function at an offset; None outside. Making the pointer is safe, calling it is not.
    pub(super) fn function(&self, offset: usize) -> Option<RawWorkGroupFn> {
        // SAFETY: the address lies in our pages, so that it isn't null; a pointer to an unsafe function promises no more.
        (offset < self.0.len).then(|| unsafe {
            std::mem::transmute::<*mut u8, RawWorkGroupFn>(self.0.start.as_ptr().add(offset))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zero_at_first_and_never_outside() {
        let mut memory = Writable::new(PAGE + 1).unwrap();
        assert_eq!(memory.bytes(), [0; 2 * PAGE]);
        assert!(memory.address().is_multiple_of(PAGE));
        let outside = [(PAGE..3 * PAGE, Protection::ReadExecute)];
        assert_eq!(memory.protect(&outside).unwrap_err(), Errno::INVAL);
        let mapped = Writable::new(0).unwrap().protect(&[(0..0, Protection::Read)]).unwrap();
        assert!(mapped.function(PAGE - 1).is_some() && mapped.function(PAGE).is_none());
        assert_eq!(Writable::new(usize::MAX).unwrap_err(), Errno::NOMEM);
        assert_eq!(
            Writable::new(usize::MAX / 2).unwrap_err(),
            Errno::NOMEM,
            "more than any address space has"
        );
    }
}
