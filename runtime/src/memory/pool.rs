//! Where a context's memory comes from that kernels use: this process's own, what its executor has, too, or a linear memory.

use super::raw::{Allocation, PAGE, Words};
use spirula_interface::enqueue::host::Memory;
use spirula_service::shared::{Region, Shared};
use std::sync::{Arc, Mutex, PoisonError};

/// The source of a context's memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool(Option<Arc<Source>>);

#[derive(Debug)]
struct Source {
    data: Arc<Region>,
    /// None in an executor.
    shared: Option<Arc<Shared>>,
    /// Memory of work-groups that have ended.
    spare: Mutex<Vec<Allocation>>,
}

/// More than that is not kept.
const MOST_SPARE: usize = 256;
/// Up to this size objects begin as zeros. Larger ones come from the system when they are new to the process, which clears them.
const CLEARED: usize = 128 << 10;

impl Pool {
    /// Of what kernels can reach, if that is not all.
    pub(crate) fn new(shared: Option<Arc<Shared>>) -> Pool {
        Pool(shared.map(|shared| {
            Arc::new(Source { data: shared.data.clone(), shared: Some(shared), spare: Mutex::default() })
        }))
    }

    /// In an executor: of linear memory that it was given.
    pub(crate) fn lent(data: Arc<Region>) -> Pool {
        Pool(Some(Arc::new(Source { data, shared: None, spare: Mutex::default() })))
    }

    fn data(&self) -> Option<&Arc<Region>> {
        self.0.as_ref().map(|source| &source.data)
    }

    /// Whether kernels can use its memory only.
    pub(crate) fn is_shared(&self) -> bool {
        self.0.is_some()
    }

    /// What its memory is part of, if it is not this process's.
    pub(crate) fn shared(&self) -> Option<&Arc<Shared>> {
        self.0.as_ref()?.shared.as_ref()
    }

    /// Whether pointers count from its beginning.
    fn is_linear(&self) -> bool {
        self.shared().is_some_and(|shared| shared.linear_start().is_some())
    }

    /// Where the memory comes from that a launch itself needs: in linear memory work-items have pointers to that as well.
    pub(crate) fn of_launches(&self) -> Pool {
        if self.is_linear() { self.clone() } else { Pool::default() }
    }

    /// As [`Allocation::new`].
    pub(crate) fn allocate(&self, size: usize, align: usize) -> Option<Allocation> {
        match self.data() {
            None => Allocation::new(size, align),
            Some(data) => data.take(size, align.max(128)).map(Allocation::shared),
        }
    }

    /// Memory for a buffer or an image.
    pub(super) fn allocate_object(&self, size: usize) -> Option<Allocation> {
        match self.data() {
            None => Allocation::of_object(size),
            Some(data) => data.take(size, PAGE).map(Allocation::shared),
        }
    }

    /// What a buffer, an image or SVM begins with that nothing was written to. OpenCL leaves it undefined, but what graphics drivers hand out
    /// was cleared, and programs that were run on those alone count on it where they count.
    pub(super) fn clear_new(memory: &Allocation) {
        if memory.span().len() <= CLEARED {
            memory.span().fill(&[0]);
        }
    }

    /// Memory of that size at least that was given back; None if there is none, or this process's own is meant.
    pub(crate) fn take_spare(&self, size: usize) -> Option<Allocation> {
        let mut spare = self.0.as_ref()?.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let fitting = spare.iter().rposition(|memory| memory.span().len() >= size)?;
        Some(spare.swap_remove(fitting))
    }

    /// Keeps memory for the next one who asks.
    pub(crate) fn keep(&self, memory: Allocation) {
        let Some(source) = &self.0 else { return };
        let mut spare = source.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < MOST_SPARE {
            spare.push(memory);
        }
    }

    /// Zeros for a queue on the device or its events.
    pub(crate) fn words(&self, bytes: usize) -> Option<Box<dyn Memory>> {
        let memory = self.zeroed(bytes)?;
        Some(Box::new(Words { memory, pool: self.clone() }))
    }

    /// Where the host writes if kernels want it at this address of theirs: what they can't reach is none of their business.
    pub(super) fn place_of(&self, address: u64, bytes: usize) -> Option<u64> {
        let Some(data) = self.data() else { return Some(address) };
        let start = self.shared().and_then(|shared| shared.linear_start()).unwrap_or(0);
        let offset = u32::try_from(address).map(|offset| start + offset as usize);
        let place = offset.or_else(|_| usize::try_from(address)).ok()?;
        data.contains(place, bytes).then_some(place as u64)
    }

    /// As [`Allocation::zeroed`].
    pub(crate) fn zeroed(&self, size: usize) -> Option<Allocation> {
        match self.data() {
            None => Allocation::zeroed(size),
            Some(data) => data.take_zeros(size).map(Allocation::shared),
        }
    }
}
