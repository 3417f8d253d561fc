//! Shared virtual memory (OpenCL 2.0, 5.6). Host and kernels share one address space, so all of it is fine-grained, the
//! system's own memory included but in the isolated mode; what is left is to allocate, and to know what was allocated.

use super::pool::Pool;
use super::raw::{Allocation, HostPtr, PAGE};
use crate::error::{Result, Status};
use spirula_interface::check::{Bounds, Checks};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What clSVMAlloc gave to a context and clSVMFree has not taken back.
#[derive(Debug, Default)]
pub struct Svm {
    pool: Pool,
    allocations: Mutex<BTreeMap<usize, Allocation>>,
    /// In the checked mode: what was freed last, released buffers' memory included.
    freed: Mutex<VecDeque<Allocation>>,
}

/// The alignment of OpenCL's largest type, long16: what an alignment of 0 asks for.
const DEFAULT_ALIGN: usize = 128;
/// Bytes that were freed and are kept in the checked mode.
const KEPT: usize = 256 << 20;
/// How many, at most.
const MOST_KEPT: usize = 1024;

/// Whether memory that is released is kept for a while: for kernels that are checked.
pub(super) fn keeps_freed() -> bool {
    spirula_service::settings::get().compiler.checks.contains(Checks::MEMORY)
}

impl Svm {
    /// Nothing yet, of that memory.
    pub(crate) fn new(pool: Pool) -> Svm {
        Svm { pool, allocations: Mutex::default(), freed: Mutex::default() }
    }

    /// clSVMAlloc. CL_INVALID_VALUE for an alignment that is no power of two or larger than a page, CL_OUT_OF_RESOURCES
    /// without memory.
    pub fn allocate(&self, size: usize, alignment: usize) -> Result<*mut u8> {
        let alignment = if alignment == 0 { DEFAULT_ALIGN } else { alignment };
        if !alignment.is_power_of_two() || alignment > PAGE {
            return Err(Status::InvalidValue.because(format!("an SVM alignment of {alignment} bytes")));
        }
        let no_memory = || Status::OutOfResources.because(format!("no memory for {size} bytes of SVM"));
        let memory = self.pool.allocate(size, alignment.max(DEFAULT_ALIGN)).ok_or_else(no_memory)?;
        Pool::clear_new(&memory);
        let address = memory.span().address();
        self.lock().insert(address as usize, memory);
        Ok(address)
    }

    /// clSVMFree; other addresses than those allocated are left alone.
    pub fn free(&self, address: usize) {
        let memory = self.lock().remove(&address);
        if let Some(memory) = memory.filter(|_| keeps_freed()) {
            self.keep_freed(memory);
        }
    }

    /// Nobody else gets it for a while: who still uses it is found.
    pub(super) fn keep_freed(&self, memory: Allocation) {
        let mut freed = self.freed();
        freed.push_back(memory);
        while freed.len() > MOST_KEPT || freed.iter().map(|memory| memory.span().len()).sum::<usize>() > KEPT
        {
            freed.pop_front();
        }
    }

    /// The allocations, for kernels that are checked, and what was freed last, of which nothing may be accessed.
    pub(crate) fn bounds(&self) -> Vec<Bounds> {
        let extent = |memory: &Allocation| (memory.span().address() as u64, memory.span().len() as u64);
        let live = |memory: &Allocation| {
            let (base, size) = extent(memory);
            Bounds { offset: size, ..Bounds::of_anything(base, size) }
        };
        let freed = |memory: &Allocation| {
            let (base, offset) = extent(memory);
            Bounds { base, offset, ..Bounds::default() }
        };
        let mut list: Vec<Bounds> = self.lock().values().map(live).collect();
        list.extend(self.freed().iter().map(freed));
        list.sort_by_key(|bounds| bounds.base);
        list
    }

    fn freed(&self) -> MutexGuard<'_, VecDeque<Allocation>> {
        self.freed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether all of `size` bytes from `address` on are of one allocation.
    pub fn contains(&self, address: usize, size: usize) -> bool {
        self.rest(address).is_some_and(|rest| size <= rest)
    }

    /// The bytes from `address` to the end of the allocation that it is in.
    pub(crate) fn rest(&self, address: usize) -> Option<usize> {
        let allocations = self.lock();
        let (start, memory) = allocations.range(..=address).next_back()?;
        (start + memory.span().len()).checked_sub(address).filter(|&rest| rest > 0)
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<usize, Allocation>> {
        self.allocations.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Whether two stretches of `size` bytes share one.
pub(crate) fn overlap(a: HostPtr, b: HostPtr, size: usize) -> bool {
    a.span(size).overlaps(b.span(size))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_aligned_known_and_freed_once() {
        let svm = Svm::default();
        for alignment in [0, 1, 64, 128, 4096] {
            let address = svm.allocate(1000, alignment).unwrap() as usize;
            assert!(address.is_multiple_of(alignment.max(128)));
            assert!(svm.contains(address, 1000) && svm.contains(address + 999, 1));
            assert_eq!(
                [svm.rest(address), svm.rest(address + 999), svm.rest(address + 1000)],
                [Some(1000), Some(1), None]
            );
            assert!(!svm.contains(address, 1001) && !svm.contains(address + 1000, 0));
            svm.free(address + 1);
            assert!(svm.contains(address, 1000));
            svm.free(address);
            svm.free(address);
            assert!(!svm.contains(address, 1));
        }
        assert!([3, 8192].iter().all(|&alignment| svm.allocate(8, alignment).is_err()));
        assert_eq!(svm.allocate(usize::MAX - 200, 0).unwrap_err().status, Status::OutOfResources);
    }
}
