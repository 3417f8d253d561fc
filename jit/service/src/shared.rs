//! Memory that an executor process maps at the addresses that it has in the application, so that pointers mean the same in both.
//!
//! A [`Region`] is a file in memory and a stretch of address space that all of it may ever need. The file grows as stretches of it are
//! handed out, and never shrinks: whatever an executor does, what the application reads is there.

#![allow(unsafe_code)]

mod free_list;

use free_list::FreeList;
use rustix::fs::{
    FallocateFlags, MemfdFlags, SealFlags, fallocate, fcntl_add_seals, ftruncate, memfd_create,
};
use rustix::io::Errno;
use rustix::mm::{
    Advice, MapFlags, MprotectFlags, ProtFlags, madvise, mmap, mmap_anonymous, mprotect, munmap,
};
use spirula_interface::address_bits::{GUARD_BYTES as GUARD, LINEAR_BYTES as LINEAR};
use std::ffi::c_void;
use std::io;
use std::ops::Range;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Bytes of a page.
pub const PAGE: usize = 4096;
/// The file grows by so much at a time.
const STEP: usize = 2 << 20;
/// Memory of so many bytes goes back to the system when it is given back, in one piece or with its neighbours.
const RETURNED: usize = 64 << 10;
/// So much in smaller pieces may stay for the next ones who ask.
const MOST_KEPT: usize = 16 << 20;

/// Where regions are looked for: programs, libraries and stacks lie above, in the application as in an executor.
const ADDRESSES: Range<usize> = 0x2000_0000_0000..0x4000_0000_0000;
/// The same for linear memories; all multiples of their size.
const LINEAR_ADDRESSES: Range<usize> = 0x4000_0000_0000..0x5000_0000_0000;
/// Places that are tried.
const ATTEMPTS: usize = 64;

/// What a context's kernels can reach, where that is less than the process has: a linear memory, what an executor has, too, or both.
#[derive(Debug)]
pub struct Shared {
    /// Buffers and all that kernels write to.
    pub data: Arc<Region>,
    /// For an executor: code, which nothing there can change and nothing in the application can run. Its first page is the
    /// executor's own: the functions that code may call.
    pub code: Option<Arc<Region>>,
    /// Of which process it is.
    process: u32,
}

/// Nothing is mapped at the beginning of a linear memory either: null leads there.
const NULL: usize = 64 << 10;

/// Address space for code.
const CODE_ROOM: usize = 16 << 30;

impl Shared {
    /// For an executor, with room for so many bytes of data. The error says what the system refused.
    pub fn new(data_room: usize) -> io::Result<Arc<Shared>> {
        Shared::with_code(Region::new(c"spirula-data", data_room, 0)?)
    }

    /// The same with a linear memory.
    pub fn linear_with_code() -> io::Result<Arc<Shared>> {
        Shared::with_code(Region::linear()?)
    }

    fn with_code(data: Arc<Region>) -> io::Result<Arc<Shared>> {
        let code = Region::new(c"spirula-code", CODE_ROOM, PAGE)?;
        data.seal(SealFlags::SHRINK | SealFlags::SEAL)?;
        // The application's view exists already, and stays the only one that can be written to.
        code.seal(SealFlags::SHRINK | SealFlags::FUTURE_WRITE | SealFlags::SEAL)?;
        Ok(Arc::new(Shared { data, code: Some(code), process: std::process::id() }))
    }

    /// A linear memory, for code of this process. The error says what the system refused.
    pub fn linear() -> io::Result<Arc<Shared>> {
        Ok(Arc::new(Shared { data: Region::linear()?, code: None, process: std::process::id() }))
    }

    /// Where pointers of 32 bits count from; None if there are none.
    pub fn linear_start(&self) -> Option<usize> {
        self.data.guard.is_some().then(|| self.data.addresses().start)
    }

    /// Whether this process made it, and not one that this was forked from, which goes on using it.
    pub fn is_ours(&self) -> bool {
        self.process == std::process::id()
    }
}

/// A stretch of address space over a file in memory.
#[derive(Debug)]
pub struct Region {
    /// None if what it consists of is another's.
    file: Option<OwnedFd>,
    start: NonNull<u8>,
    room: usize,
    /// All that is reserved, of a linear memory.
    guard: Option<Range<usize>>,
    /// Of which process it is: what is forked from that has the same memory, and leaves it alone.
    process: u32,
    state: Mutex<State>,
}

// SAFETY: what is mapped stays mapped as long as this lives; what is written to it is up to who was given a stretch.
unsafe impl Send for Region {}
// SAFETY: as above; the rest is behind a lock.
unsafe impl Sync for Region {}

#[derive(Debug)]
struct State {
    free: FreeList,
    /// Bytes of the file.
    size: usize,
    /// Bytes that were given back in small pieces since the last time that pages of what is free went back to the system.
    kept: usize,
}

impl Region {
    /// With room for so many bytes, of which the first ones are not handed out.
    fn new(name: &std::ffi::CStr, room: usize, reserved: usize) -> io::Result<Arc<Region>> {
        static NEXT: AtomicUsize = AtomicUsize::new(ADDRESSES.start);
        let file = memfd_create(name, MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        let room = room.max(1).next_multiple_of(STEP);
        let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::NORESERVE);
        for _ in 0..ATTEMPTS {
            let next = |at: usize| {
                let start = if at < ADDRESSES.end.saturating_sub(room) { at } else { ADDRESSES.start };
                // A gap, into which nothing writes that runs over an end.
                Some(start + room + STEP)
            };
            let before = NEXT.fetch_update(Relaxed, Relaxed, next).unwrap_or_else(|at| at);
            let at = next(before).map_or(before, |end| end - room - STEP);
            // SAFETY: nothing that is mapped is replaced.
            match unsafe {
                mmap(at as *mut c_void, room, access, flags | MapFlags::FIXED_NOREPLACE, &file, 0)
            } {
                Ok(start) if start as usize == at => {
                    let start: NonNull<u8> = NonNull::new(start.cast()).ok_or(Errno::NOMEM)?;
                    // SAFETY: it changes no contents. Failure costs only speed.
                    let _ = unsafe { madvise(start.as_ptr().cast(), room, Advice::LinuxHugepage) };
                    let state = Mutex::new(State { free: FreeList::new(reserved..room), size: 0, kept: 0 });
                    let process = std::process::id();
                    let file = Some(file);
                    return Ok(Arc::new(Region { file, start, room, guard: None, process, state }));
                }
                Ok(elsewhere) => {
                    // SAFETY: mapped just now, by a kernel that doesn't know the flag.
                    let _ = unsafe { munmap(elsewhere, room) };
                }
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(no_room())
    }

    /// A linear memory: 4 GiB at a multiple of that, with guards.
    fn linear() -> io::Result<Arc<Region>> {
        static NEXT: AtomicUsize = AtomicUsize::new(LINEAR_ADDRESSES.start);
        const WHOLE: usize = GUARD + LINEAR + GUARD;
        let file = memfd_create(c"spirula-linear", MemfdFlags::CLOEXEC | MemfdFlags::ALLOW_SEALING)?;
        for _ in 0..ATTEMPTS {
            let next = |at: usize| {
                let fits = at < LINEAR_ADDRESSES.end.saturating_sub(WHOLE);
                Some(if fits { at + WHOLE } else { LINEAR_ADDRESSES.start })
            };
            let at = NEXT.fetch_update(Relaxed, Relaxed, next).unwrap_or_else(|at| at);
            let reserved = MapFlags::PRIVATE | MapFlags::NORESERVE | MapFlags::FIXED_NOREPLACE;
            // SAFETY: nothing that is mapped is replaced.
            match unsafe { mmap_anonymous(at as *mut c_void, WHOLE, ProtFlags::empty(), reserved) } {
                Ok(start) if start as usize == at => {}
                Ok(elsewhere) => {
                    // SAFETY: mapped just now, by a kernel that doesn't know the flag.
                    let _ = unsafe { munmap(elsewhere, WHOLE) };
                    continue;
                }
                Err(Errno::EXIST) => continue,
                Err(error) => return Err(error.into()),
            }
            let start = NonNull::new((at + GUARD) as *mut u8).ok_or(Errno::NOMEM)?;
            let state = Mutex::new(State { free: FreeList::new(NULL..LINEAR), size: 0, kept: 0 });
            let guard = Some(at..at + WHOLE);
            let process = std::process::id();
            let region = Region { file: Some(file), start, room: LINEAR, guard, process, state };
            let (access, flags) = (ProtFlags::READ | ProtFlags::WRITE, MapFlags::SHARED | MapFlags::FIXED);
            let from = start.as_ptr().wrapping_add(NULL).cast();
            // SAFETY: within what was reserved just now, and is nobody's yet.
            unsafe {
                mmap(from, LINEAR - NULL, access, flags | MapFlags::NORESERVE, region.file()?, NULL as u64)?;
                // It changes no contents. Failure costs only speed.
                let _ = madvise(from, LINEAR - NULL, Advice::LinuxHugepage);
            }
            return Ok(Arc::new(region));
        }
        Err(no_room())
    }

    /// The bytes at its beginning at which nothing is mapped.
    pub fn unmapped(&self) -> usize {
        if self.guard.is_some() { NULL } else { 0 }
    }

    fn seal(&self, seals: SealFlags) -> io::Result<()> {
        Ok(fcntl_add_seals(self.file()?, seals)?)
    }

    /// The file, for an executor.
    pub fn file(&self) -> io::Result<BorrowedFd<'_>> {
        self.file.as_ref().map(OwnedFd::as_fd).ok_or_else(|| Errno::BADF.into())
    }

    /// In an executor: these addresses of what it shares, which nobody else there hands out.
    ///
    /// # Safety
    /// They are mapped, and stay so for as long as the process lives.
    pub unsafe fn lent(addresses: Range<usize>) -> Option<Arc<Region>> {
        let (start, room) = (NonNull::new(addresses.start as *mut u8)?, addresses.len());
        let state = Mutex::new(State { free: FreeList::new(0..room), size: room, kept: 0 });
        Some(Arc::new(Region { file: None, start, room, guard: None, process: std::process::id(), state }))
    }

    /// The addresses that it takes.
    pub fn addresses(&self) -> Range<usize> {
        let start = self.start.as_ptr() as usize;
        start..start + self.room
    }

    /// Whether so many bytes at an address can be read and written without a fault.
    pub fn contains(&self, address: usize, bytes: usize) -> bool {
        let end = self.addresses().start + self.lock().size;
        address >= self.addresses().start + self.unmapped()
            && address.checked_add(bytes).is_some_and(|last| last <= end)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// `size` bytes that begin at a multiple of `align`, a power of two up to a page, with anything in them. None without memory.
    pub fn take(self: &Arc<Region>, size: usize, align: usize) -> Option<Stretch> {
        if !self.is_ours() {
            return None;
        }
        let align = if size >= PAGE { PAGE } else { align };
        let padded = size.max(1).checked_next_multiple_of(if size >= PAGE { PAGE } else { 128 })?;
        let mut state = self.lock();
        let offset = state.free.take(padded, align)?;
        if offset + padded > state.size {
            let size = (offset + padded).next_multiple_of(STEP).min(self.room);
            let grown = self.file().is_ok_and(|file| may_grow(size) && ftruncate(file, size as u64).is_ok());
            if !grown {
                state.free.give_back(offset, padded);
                return None;
            }
            state.size = size;
        }
        drop(state);
        Some(Stretch { region: self.clone(), offset, size, padded })
    }

    /// As [`Region::take`], of zeros, aligned to 128, which take no memory until they are written to.
    pub fn take_zeros(self: &Arc<Region>, size: usize) -> Option<Stretch> {
        let stretch = self.take(size, 128)?;
        stretch.clear();
        Some(stretch)
    }

    fn is_ours(&self) -> bool {
        self.process == std::process::id()
    }

    /// Gives pages' memory back to the system of which small pieces have left nothing in use.
    fn empty_free_parts(&self, state: &mut State) {
        state.kept = 0;
        let handed_out =
            |part: Range<usize>| part.start.next_multiple_of(PAGE)..part.end.min(state.size) / PAGE * PAGE;
        for pages in state.free.parts_from(RETURNED).map(handed_out).filter(|pages| !pages.is_empty()) {
            // While this holds the lock they are nobody's.
            self.empty(pages.start, pages.len());
        }
    }

    /// Gives pages' memory back to the system; they are zero then. Whether it could be.
    fn empty(&self, offset: usize, bytes: usize) -> bool {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        self.file().is_ok_and(|file| fallocate(file, flags, offset as u64, bytes as u64).is_ok())
    }
}

fn no_room() -> io::Error {
    io::Error::other("there is no room for it at the addresses that executors have free")
}

/// Whether the user lets this process have files of that size: growing one beyond would be a signal.
fn may_grow(size: usize) -> bool {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Fsize);
    limit.current.is_none_or(|most| size as u64 <= most)
}

impl Drop for Region {
    fn drop(&mut self) {
        if self.file.is_none() {
            return;
        }
        let all = self.guard.clone().unwrap_or_else(|| self.addresses());
        // SAFETY: mapped in `new` or `linear`, and unmapped once.
        let _ = unsafe { munmap(all.start as *mut c_void, all.len()) };
    }
}

/// A part of a region; given back when it is dropped.
#[derive(Debug)]
pub struct Stretch {
    region: Arc<Region>,
    offset: usize,
    size: usize,
    /// With what fills it up.
    padded: usize,
}

impl Stretch {
    /// Where it begins.
    pub fn start(&self) -> NonNull<u8> {
        // SAFETY: the offset lies in the region.
        unsafe { self.region.start.add(self.offset) }
    }

    /// Bytes that were asked for.
    pub fn size(&self) -> usize {
        self.size
    }

    /// Fills it with zeros.
    pub fn clear(&self) {
        if self.padded < RETURNED || !self.region.empty(self.offset, self.padded) {
            // SAFETY: it is this stretch's own memory.
            unsafe { self.start().write_bytes(0, self.padded) };
        }
    }

    /// Lets the application write to its pages, or only read them.
    pub(crate) fn protect(&self, writable: bool) -> Result<(), Errno> {
        let write = if writable { MprotectFlags::WRITE } else { MprotectFlags::empty() };
        // SAFETY: whole pages of this stretch, whose only user gives them up or takes them back.
        unsafe { mprotect(self.start().as_ptr().cast(), self.padded, MprotectFlags::READ | write) }
    }
}

impl Drop for Stretch {
    fn drop(&mut self) {
        if !self.region.is_ours() {
            return;
        }
        let is_large = self.padded >= RETURNED;
        if is_large {
            self.region.empty(self.offset, self.padded);
        }
        let mut state = self.region.lock();
        state.free.give_back(self.offset, self.padded);
        if !is_large {
            state.kept += self.padded;
            if state.kept >= MOST_KEPT {
                self.region.empty_free_parts(&mut state);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(stretch: &Stretch) -> Vec<u8> {
        // SAFETY: the test's own memory.
        unsafe { std::slice::from_raw_parts(stretch.start().as_ptr(), stretch.size()) }.to_vec()
    }

    #[test]
    fn stretches_are_aligned_apart_and_used_again() {
        let shared = Shared::new(1 << 30).unwrap();
        let small = shared.data.take(5, 128).unwrap();
        let large = shared.data.take(100_000, 8).unwrap();
        let (a, b) = (small.start().as_ptr() as usize, large.start().as_ptr() as usize);
        assert_eq!((a % 128, b % PAGE), (0, 0));
        assert!(a + 128 <= b || b + 100_000 <= a);
        // SAFETY: the test's own memory.
        unsafe { large.start().write_bytes(7, 100_000) };
        assert_eq!(bytes(&large), [7; 100_000]);
        drop(large);
        let again = shared.data.take_zeros(100_000).unwrap();
        assert_eq!((again.start().as_ptr() as usize, bytes(&again)), (b, vec![0; 100_000]));
        assert!(shared.data.take((1 << 30) + 1, 1).is_none() && shared.data.take(usize::MAX, 1).is_none());
        assert!(shared.data.take(1 << 29, 1).is_some());
    }

    /// The memory that the region's file takes.
    fn taken(region: &Region) -> usize {
        rustix::fs::fstat(region.file().unwrap()).unwrap().st_blocks as usize * 512
    }

    #[test]
    fn memory_goes_back_to_the_system() {
        let shared = Shared::linear().unwrap();
        let region = &shared.data;
        let fill = |stretch: &Stretch| {
            // SAFETY: the test's own memory.
            unsafe { stretch.start().write_bytes(7, stretch.size()) };
        };
        let large: Vec<Stretch> = (0..4).map(|_| region.take(16 << 20, PAGE).unwrap()).collect();
        large.iter().for_each(fill);
        assert!(taken(region) >= 64 << 20);
        drop(large);
        assert!(taken(region) <= 2 << 20, "{}", taken(region));
        // As much in small pieces, one of which stays.
        let mut small: Vec<Stretch> = (0..64 << 10).map(|_| region.take(1 << 10, 128).unwrap()).collect();
        small.iter().for_each(fill);
        assert!(taken(region) >= 64 << 20);
        let last = small.swap_remove(small.len() / 2);
        drop(small);
        assert!(taken(region) <= MOST_KEPT + (4 << 20), "{}", taken(region));
        assert_eq!(bytes(&last), [7; 1 << 10]);
    }

    #[test]
    fn what_was_handed_out_can_be_touched_and_nothing_beyond() {
        let shared = Shared::new(64 << 20).unwrap();
        let stretch = shared.data.take(3 << 20, PAGE).unwrap();
        let start = stretch.start().as_ptr() as usize;
        assert!(shared.data.contains(start, 3 << 20));
        assert!(!shared.data.contains(start, 64 << 20) && !shared.data.contains(start - PAGE, 8));
        assert!(!shared.data.contains(usize::MAX, 8));
    }

    #[test]
    fn files_can_not_be_cut_and_code_gets_no_second_writer() {
        let shared = Shared::new(1 << 20).unwrap();
        let _some = (shared.data.take(10, 1).unwrap(), shared.code.as_ref().unwrap().take(10, 1).unwrap());
        for region in [&shared.data, shared.code.as_ref().unwrap()] {
            assert_eq!(ftruncate(region.file().unwrap(), 0), Err(Errno::PERM));
            assert_eq!(fcntl_add_seals(region.file().unwrap(), SealFlags::GROW), Err(Errno::PERM));
        }
        let map = |region: &Region| {
            let access = ProtFlags::READ | ProtFlags::WRITE;
            // SAFETY: at a place of the kernel's choice; never used, nor unmapped.
            unsafe { mmap(std::ptr::null_mut(), PAGE, access, MapFlags::SHARED, region.file().unwrap(), 0) }
                .is_ok()
        };
        assert!(map(&shared.data) && !map(shared.code.as_ref().unwrap()));
        assert!(shared.code.as_ref().unwrap().take(10, PAGE).unwrap().offset >= PAGE);
    }
}
