//! Memory that code is copied to and then runs from, here or in an executor. The loader's only unsafe code: a stretch is writable at
//! first, and when it becomes executable nobody can write to it any more. What runs in an executor is never executable here.

#![allow(unsafe_code)]

use super::error::Cause;
use crate::shared::{Region, Stretch};
use crate::variables::VariablesError;
use rustix::io::Errno;
use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};
use spirula_interface::program::RawWorkGroupFn;
use std::ops::Range;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

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
    /// An executor's; else they are of this process alone.
    shared: Option<Stretch>,
}

// SAFETY: a plain stretch of memory that this value owns, and gives nobody a reference to while it is shared.
unsafe impl Send for Pages {}
// SAFETY: as above.
unsafe impl Sync for Pages {}

impl Drop for Pages {
    fn drop(&mut self) {
        if let Some(stretch) = &self.shared {
            // For those who get it next.
            let _ = stretch.protect(true);
            return;
        }
        // SAFETY: mapped in `Writable::new` with this length, and unmapped once. It can fail only for want of kernel
        // memory, when there is nothing to be done: the pages stay mapped.
        let _ = unsafe { munmap(self.start.as_ptr().cast(), self.len) };
    }
}

/// Zeroed memory that is being filled.
#[derive(Debug)]
pub(super) struct Writable(Pages);

impl Writable {
    /// At least `size` bytes, and one page, for code that runs in an executor if there is a place for that.
    pub(super) fn new(size: usize, place: Option<&Arc<Region>>) -> Result<Writable, Errno> {
        let len = size.max(1).checked_next_multiple_of(PAGE).ok_or(Errno::NOMEM)?;
        if let Some(region) = place {
            let stretch = region.take(len, PAGE).ok_or(Errno::NOMEM)?;
            stretch.clear();
            return Ok(Writable(Pages { start: stretch.start(), len, shared: Some(stretch) }));
        }
        // SAFETY: the kernel chooses a free address, so that no memory of others is touched.
        let start = unsafe {
            mmap_anonymous(null_mut(), len, ProtFlags::READ | ProtFlags::WRITE, MapFlags::PRIVATE)?
        };
        let start = NonNull::new(start.cast()).ok_or(Errno::NOMEM)?;
        Ok(Writable(Pages { start, len, shared: None }))
    }

    /// Where it is and will be.
    pub(super) fn address(&self) -> usize {
        self.0.start.as_ptr() as usize
    }

    pub(super) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: `len` bytes that are mapped, zeroed and writable as long as this value exists, and that
        // only this borrow reaches.
        unsafe { std::slice::from_raw_parts_mut(self.0.start.as_ptr(), self.0.len) }
    }

    /// Ends writing: each part, which begins at a page's start, gets its protection.
    pub(super) fn protect(self, parts: &[(Range<usize>, Protection)]) -> Result<Mapped, Cause> {
        if let Some(stretch) = &self.0.shared {
            let is_written = |(part, protection): &(Range<usize>, Protection)| {
                *protection == Protection::ReadWrite && !part.is_empty()
            };
            if parts.iter().any(is_written) {
                return Err(Cause::Variables(VariablesError::InCode));
            }
            stretch.protect(false)?;
            return Ok(Mapped(self.0));
        }
        for (part, protection) in parts.iter().filter(|(part, _)| !part.is_empty()) {
            if part.end > self.0.len {
                return Err(Errno::INVAL.into());
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
        let mut memory = Writable::new(PAGE + 1, None).unwrap();
        assert_eq!(memory.bytes(), [0; 2 * PAGE]);
        assert!(memory.address().is_multiple_of(PAGE));
        let outside = [(PAGE..3 * PAGE, Protection::ReadExecute)];
        assert_eq!(memory.protect(&outside).unwrap_err(), Cause::Memory(Errno::INVAL));
        let mapped = Writable::new(0, None).unwrap().protect(&[(0..0, Protection::Read)]).unwrap();
        assert!(mapped.function(PAGE - 1).is_some() && mapped.function(PAGE).is_none());
        assert_eq!(Writable::new(usize::MAX, None).unwrap_err(), Errno::NOMEM);
        assert_eq!(
            Writable::new(usize::MAX / 2, None).unwrap_err(),
            Errno::NOMEM,
            "more than any address space has"
        );
    }

    #[test]
    fn an_executors_code_is_zero_at_first_and_can_not_be_run_here() {
        let shared = crate::shared::Shared::new(1 << 20).unwrap();
        for _ in 0..2 {
            let mut memory = Writable::new(PAGE, shared.code.as_ref()).unwrap();
            assert!(memory.bytes().iter().all(|&byte| byte == 0));
            memory.bytes().fill(0xc3);
            let mapped = memory.protect(&[(0..PAGE, Protection::ReadExecute)]).unwrap();
            let (range, maps) = (mapped.range(), std::fs::read_to_string("/proc/self/maps").unwrap());
            let line = maps.lines().find(|line| line.starts_with(&format!("{:x}-", range.start))).unwrap();
            assert!(line.contains(" r--s "), "{line}");
        }
        let memory = Writable::new(2 * PAGE, shared.code.as_ref()).unwrap();
        let parts = [(0..PAGE, Protection::ReadExecute), (PAGE..2 * PAGE, Protection::ReadWrite)];
        assert_eq!(memory.protect(&parts).unwrap_err(), Cause::Variables(VariablesError::InCode));
    }
}
