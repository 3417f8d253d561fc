//! Where a context's memory comes from that kernels use: this process's own, or what its executor has, too.

use super::raw::{Allocation, Words};
use spirula_interface::enqueue::host::Memory;
use spirula_service::shared::Shared;
use std::sync::Arc;

/// The source of a context's memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pool(Option<Arc<Shared>>);

impl Pool {
    /// Of what is shared with an executor, if there is one.
    pub(crate) fn new(shared: Option<Arc<Shared>>) -> Pool {
        Pool(shared)
    }

    /// Whether kernels can use its memory only.
    pub(crate) fn is_shared(&self) -> bool {
        self.0.is_some()
    }

    /// As [`Allocation::new`].
    pub(crate) fn allocate(&self, size: usize, align: usize) -> Option<Allocation> {
        match &self.0 {
            None => Allocation::new(size, align),
            Some(shared) => shared.data.take(size, align.max(128)).map(Allocation::shared),
        }
    }

    /// Zeros for a queue on the device or its events.
    pub(crate) fn words(&self, bytes: usize) -> Option<Box<dyn Memory>> {
        let memory = self.zeroed(bytes)?;
        Some(Box::new(Words { memory, pool: self.clone() }))
    }

    /// Whether kernels can have the host write there: what an executor can't reach is none of their business.
    pub(super) fn may_write(&self, address: u64, bytes: usize) -> bool {
        self.0.as_ref().is_none_or(|shared| {
            usize::try_from(address).is_ok_and(|address| shared.data.contains(address, bytes))
        })
    }

    /// As [`Allocation::zeroed`].
    pub(crate) fn zeroed(&self, size: usize) -> Option<Allocation> {
        match &self.0 {
            None => Allocation::zeroed(size),
            Some(shared) => shared.data.take_zeros(size).map(Allocation::shared),
        }
    }
}
