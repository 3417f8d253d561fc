//! Raw memory: the application's pointers, our allocations, and the copies between them. All of the runtime's pointer
//! arithmetic is here. A [`Span`] knows its length and refuses to leave it (by a panic, which fails the command).

#![allow(unsafe_code)]

mod kept;
mod new_pages;
mod pages;
mod past_caches;

use super::pool::Pool;
use kept::Block;
use spirula_interface::ImageDescriptor;
use spirula_interface::enqueue::host::Memory;
use spirula_interface::enqueue::{KernelFacts, Parent};
use spirula_service::shared::Stretch;
use std::alloc::Layout;
use std::marker::PhantomData;
use std::mem;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A pointer into the application's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostPtr(NonNull<u8>);

// SAFETY: it is an address; whoever made it promised that it may be used from the queue's thread.
unsafe impl Send for HostPtr {}
// SAFETY: as above.
unsafe impl Sync for HostPtr {}

impl HostPtr {
    /// None for a null pointer.
    ///
    /// # Safety
    /// The memory must be valid as, and as long as, the OpenCL function that the pointer was given to says.
    pub unsafe fn new(pointer: *mut u8) -> Option<HostPtr> {
        NonNull::new(pointer).map(HostPtr)
    }

    /// The address.
    pub fn as_ptr(self) -> *mut u8 {
        self.0.as_ptr()
    }

    /// The address `bytes` further on, in the same object.
    pub(crate) fn at(self, bytes: usize) -> HostPtr {
        HostPtr(NonNull::new(self.0.as_ptr().wrapping_add(bytes)).unwrap_or(self.0))
    }

    /// The `bytes` from here on.
    pub(crate) fn span<'a>(self, bytes: usize) -> Span<'a> {
        Span { start: self.0, len: bytes, owner: PhantomData }
    }
}

/// A page. (Small buffers begin with one, larger ones at a place of one; see [`STAGGER`].)
pub(crate) const PAGE: usize = 4096;
/// Buffers and images of some size begin at different places of a page, by so many bytes. Programs keep the fields of what they compute in
/// buffers of one size and access the same place of each: began all with a page, their lines would drive each other out of the first cache, whose
/// sets a page goes through once, and loads would wait for stores to other buffers, which processors tell apart by the same
/// bits. (A 3D FDTD step of twelve buffers: 1.02 or .24 ms.)
const STAGGER: usize = 256;
const STAGGERED: usize = PAGE / STAGGER;
/// Smaller ones come from the allocator's larger pieces.
const LEAST_STAGGERED: usize = 16 << 10;

/// Up to this size memory is aligned here: allocators cut it out of larger pieces for that, which takes longer than a small launch.
const ALIGNED_HERE: usize = 1024;

/// Memory of our own, uninitialized at first.
#[derive(Debug)]
pub(crate) struct Allocation {
    start: NonNull<u8>,
    size: usize,
    owner: Owner,
}

/// Who gets the memory back.
#[derive(Debug)]
enum Owner {
    /// The allocator, or who needs as much next.
    Heap(Block),
    /// The region that an executor has, too.
    Region { _stretch: Stretch },
    /// Nobody: it was given back.
    Nobody,
}

// SAFETY: it is plain memory that this value owns.
unsafe impl Send for Allocation {}
// SAFETY: shared use is through raw copies and kernels, whose races OpenCL leaves to the application.
unsafe impl Sync for Allocation {}

impl Allocation {
    /// `size` bytes aligned to `align` (a power of two). The end is rounded up to 128, so that a vector load that starts
    /// inside never leaves it. None when the system has no memory.
    pub(crate) fn new(size: usize, align: usize) -> Option<Allocation> {
        let padded = size.max(1).checked_next_multiple_of(128)?;
        if padded <= ALIGNED_HERE && align < PAGE {
            return Allocation::aligned_here(size, padded, align);
        }
        let huge = padded >= pages::LEAST;
        let layout = Layout::from_size_align(padded, if huge { pages::HUGE_PAGE } else { align }).ok()?;
        if let Some(block) = kept::take(layout) {
            return Some(Allocation { start: block.start(), size, owner: Owner::Heap(block) });
        }
        let block = Block::new(layout)?;
        let start = block.start();
        if huge {
            // SAFETY: the memory is ours, begins with a page, and nothing is in it yet.
            unsafe { pages::choose(start, padded) };
        }
        Some(Allocation { start, size, owner: Owner::Heap(block) })
    }

    /// As [`Allocation::new`], for a buffer or an image: see [`STAGGER`].
    pub(crate) fn of_object(size: usize) -> Option<Allocation> {
        static NUMBER: AtomicUsize = AtomicUsize::new(0);
        if size < LEAST_STAGGERED {
            return Allocation::new(size, PAGE);
        }
        let mut memory = Allocation::new(size.checked_add(PAGE)?, PAGE)?;
        // Neighbouring numbers are far apart, and each place comes once in as many objects.
        let place = NUMBER.fetch_add(5, Ordering::Relaxed) % STAGGERED * STAGGER;
        // SAFETY: less than a page, by which there is more.
        memory.start = unsafe { memory.start.add(place) };
        memory.size = size;
        Some(memory)
    }

    /// As [`Allocation::new`], with some more memory than needed, which begins anywhere.
    fn aligned_here(size: usize, padded: usize, align: usize) -> Option<Allocation> {
        let layout = Layout::from_size_align(padded + align, 16).ok()?;
        let block = Block::new(layout)?;
        let all = block.start();
        // SAFETY: the next multiple of `align` is less than `align` bytes away, and there are `padded` more.
        let start = unsafe { all.add(all.align_offset(align)) };
        Some(Allocation { start, size, owner: Owner::Heap(block) })
    }

    /// As [`Allocation::new`], aligned to 16, of zeros, which take no memory until they are written to.
    pub(crate) fn zeroed(size: usize) -> Option<Allocation> {
        let padded = size.max(1).checked_next_multiple_of(128)?;
        let layout = Layout::from_size_align(padded, 16).ok()?;
        let block = Block::zeroed(layout)?;
        Some(Allocation { start: block.start(), size, owner: Owner::Heap(block) })
    }

    /// What an executor has, too.
    pub(super) fn shared(stretch: Stretch) -> Allocation {
        let (start, size) = (stretch.start(), stretch.size());
        Allocation { start, size, owner: Owner::Region { _stretch: stretch } }
    }

    /// All of it.
    pub(crate) fn span(&self) -> Span<'_> {
        Span { start: self.start, len: self.size, owner: PhantomData }
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        if let Owner::Heap(block) = mem::replace(&mut self.owner, Owner::Nobody) {
            kept::keep(block);
        }
    }
}

/// A stretch of raw memory that lives for `'a`. Others (kernels, the application) may change it at any time, so it is
/// never seen as a slice.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Span<'a> {
    start: NonNull<u8>,
    len: usize,
    owner: PhantomData<&'a u8>,
}

impl<'a> Span<'a> {
    /// The address of its first byte.
    pub(crate) fn address(self) -> *mut u8 {
        self.start.as_ptr()
    }

    pub(crate) fn len(self) -> usize {
        self.len
    }

    /// Its beginning, for whoever sees to it that the memory lives long enough.
    pub(crate) fn pointer(self) -> HostPtr {
        HostPtr(self.start)
    }

    /// Whether the two have a byte in common.
    pub(crate) fn overlaps(self, other: Span<'_>) -> bool {
        let (a, b) = (self.address() as usize, other.address() as usize);
        a < b.saturating_add(other.len) && b < a.saturating_add(self.len)
    }

    /// `len` bytes from `offset` on. Panics when they are not all inside.
    pub(crate) fn slice(self, offset: usize, len: usize) -> Span<'a> {
        let inside = offset.checked_add(len).is_some_and(|end| end <= self.len);
        assert!(inside, "bytes {offset}..+{len} of memory that has {}", self.len);
        // SAFETY: offset <= self.len, checked above; the result stays in the same memory.
        Span { start: unsafe { self.start.add(offset) }, len, owner: PhantomData }
    }

    /// Copies all of `source` here; they may overlap. Panics when it doesn't fit.
    pub(crate) fn write<'s>(self, source: impl Into<Source<'s>>) {
        let source = source.into();
        self.write_part(source, source.len());
    }

    /// As [`Span::write`], of a part of a copy of `whole` bytes.
    pub(crate) fn write_part<'s>(self, source: impl Into<Source<'s>>, whole: usize) {
        let Source(source) = source.into();
        assert!(source.len <= self.len, "{} bytes into {}", source.len, self.len);
        let (from, to) = (source.address(), self.address());
        let is_apart = !self.overlaps(source);
        if is_apart && source.len >= new_pages::LEAST && new_pages::is_absent(to) {
            // SAFETY: as below, and they don't overlap.
            return unsafe { new_pages::copy(from, to, source.len) };
        }
        if is_apart && whole >= past_caches::LEAST {
            // SAFETY: as below, and they don't overlap.
            return unsafe { past_caches::copy(from, to, source.len) };
        }
        // SAFETY: both stretches are valid for `source.len` bytes by their constructors; `copy` allows overlap.
        unsafe { std::ptr::copy(from, to, source.len) }
    }

    /// Writes to each of its pages. An access whose mask is empty, to a page that the system has not provided yet, takes processors
    /// hundreds of cycles, each time: it must not fault, so that the page stays away.
    pub(crate) fn provide_pages(self) {
        let starts = (0..self.len).step_by(PAGE);
        starts.for_each(|start| self.slice(start, 1).write(&[0][..]));
    }

    /// A copy of its bytes.
    pub(crate) fn to_vec(self) -> Vec<u8> {
        let mut copy = Vec::with_capacity(self.len);
        // SAFETY: the stretch is valid for `len` bytes by its constructor, and the vector has room for them, which are
        // all written before its length says so.
        unsafe {
            std::ptr::copy_nonoverlapping(self.start.as_ptr(), copy.as_mut_ptr(), self.len);
            copy.set_len(self.len);
        }
        copy
    }

    /// Repeats `pattern` until the end; a last partial one is cut.
    pub(crate) fn fill(self, pattern: &[u8]) {
        if self.len >= new_pages::LEAST && new_pages::is_absent(self.address()) {
            // What follows copies too little at a time to ask.
            // SAFETY: it is valid for `len` bytes by its constructor.
            unsafe { new_pages::provide(self.address(), self.len) };
        }
        let mut done = pattern.len().min(self.len);
        self.write(&pattern[..done]);
        // What is copied doubles until it is worth a copy, and then stays in the cache.
        let mut block = done;
        while done > 0 && done < self.len {
            let step = block.min(self.len - done);
            self.slice(done, step).write(self.slice(0, step));
            done += step;
            block = if block < 16 << 10 { done } else { block };
        }
    }
}

/// What bytes are copied from: raw memory, or a Rust slice, which nobody may write to. The span inside is only read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Source<'a>(Span<'a>);

impl<'a> Source<'a> {
    pub(crate) fn len(self) -> usize {
        self.0.len()
    }

    /// Where they lie.
    pub(crate) fn span(self) -> Span<'a> {
        self.0
    }

    /// As [`Span::slice`].
    pub(crate) fn slice(self, offset: usize, len: usize) -> Source<'a> {
        Source(self.0.slice(offset, len))
    }
}

impl<'a> From<Span<'a>> for Source<'a> {
    fn from(span: Span<'a>) -> Self {
        Source(span)
    }
}

impl<'a> From<&'a [u8]> for Source<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Source(Span { start: NonNull::from(bytes).cast(), len: bytes.len(), owner: PhantomData })
    }
}

/// Plain data at an address that kernels can be given.
pub(crate) trait Plain {}

impl Plain for ImageDescriptor {}
impl Plain for KernelFacts {}

impl Plain for Parent {}

/// Plain data in a context's memory.
#[derive(Debug)]
pub(crate) struct Placed<T> {
    memory: Allocation,
    kind: PhantomData<fn() -> T>,
}

impl<T: Plain> Placed<T> {
    /// All of these, one behind the other; None without memory.
    pub(crate) fn all(pool: &Pool, values: &[T]) -> Option<Placed<T>> {
        const { assert!(align_of::<T>() <= 128) };
        let memory = pool.allocate(size_of_val(values), 128)?;
        let bytes =
            Span { start: NonNull::from(values).cast(), len: size_of_val(values), owner: PhantomData };
        memory.span().write(bytes);
        Some(Placed { memory, kind: PhantomData })
    }

    /// Its bytes.
    #[cfg(test)]
    pub(crate) fn span(&self) -> Span<'_> {
        self.memory.span()
    }

    /// Where kernels find it.
    pub(crate) fn address(&self) -> u64 {
        self.memory.start.as_ptr().expose_provenance() as u64
    }
}

impl Placed<Parent> {
    /// What kernels fill. Anything may be in it.
    pub(crate) fn lists(&self) -> &Parent {
        // SAFETY: one was put there, and its lists are all that changes, by atomic writes.
        unsafe { self.memory.start.cast().as_ref() }
    }
}

/// Memory of words that kernels and the host share.
#[derive(Debug)]
pub(super) struct Words {
    pub(super) memory: Allocation,
    pub(super) pool: Pool,
}

// SAFETY: zeros of its own, which were allocated aligned to 16 at least.
unsafe impl Memory for Words {
    fn start(&self) -> NonNull<u8> {
        self.memory.start
    }

    fn place_of(&self, address: u64, bytes: usize) -> Option<u64> {
        self.pool.place_of(address, bytes)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The byte at `index`.
    pub(crate) fn byte(span: Span<'_>, index: usize) -> u8 {
        // SAFETY: `slice` checks that the byte is inside.
        unsafe { span.slice(index, 1).address().read_volatile() }
    }

    /// Memory as an application's. It is never freed, for nobody knows what a test that fails leaves in a queue.
    pub(crate) struct HostMemory(Span<'static>);

    impl HostMemory {
        pub(crate) fn new(bytes: &[u8]) -> HostMemory {
            let memory: &'static Allocation =
                Box::leak(Box::new(Allocation::new(bytes.len(), PAGE).unwrap()));
            memory.span().write(bytes);
            HostMemory(memory.span())
        }

        pub(crate) fn pointer(&self) -> HostPtr {
            HostPtr(self.0.start)
        }

        pub(crate) fn bytes(&self) -> Vec<u8> {
            self.0.to_vec()
        }
    }

    #[test]
    fn objects_of_one_size_begin_at_different_places_of_a_page() {
        let objects: Vec<Allocation> =
            (0..STAGGERED).map(|_| Allocation::of_object(LEAST_STAGGERED).unwrap()).collect();
        let starts = objects.iter().map(|object| object.span().address() as usize);
        assert!(starts.clone().all(|start| start.is_multiple_of(STAGGER)));
        // (Other tests make some meanwhile.)
        let places: std::collections::BTreeSet<usize> = starts.map(|start| start % PAGE).collect();
        assert!(places.len() > STAGGERED / 4, "{places:?}");
        let last = objects.last().unwrap().span();
        last.fill(&[7]);
        assert_eq!((last.len(), last.to_vec()), (LEAST_STAGGERED, vec![7; LEAST_STAGGERED]));
        assert!(Allocation::of_object(usize::MAX - 5).is_none());
    }

    #[test]
    fn allocations_are_aligned_and_sized() {
        for (size, align) in
            [1, 127, 1024, 4096, 5 << 20].iter().flat_map(|size| [(*size, PAGE), (*size, 128)])
        {
            let memory = Allocation::new(size, align).unwrap();
            assert_eq!(memory.span().address() as usize % align, 0);
            assert_eq!(memory.span().len(), size);
            memory.span().fill(&[7]);
            assert_eq!(byte(memory.span(), size - 1), 7);
        }
        assert!(Allocation::new(usize::MAX - 5, PAGE).is_none());
    }

    #[test]
    #[should_panic(expected = "memory that has 8")]
    fn spans_refuse_to_be_left() {
        let memory = Allocation::new(8, PAGE).unwrap();
        memory.span().slice(4, 5);
    }
}
