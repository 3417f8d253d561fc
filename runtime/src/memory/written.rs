//! Which bytes of a buffer anything has written, where kernels are looked at for what nothing wrote: a shadow of its memory, with a bit set for
//! each bit that was written. Kernels that are checked keep it up to date themselves.

use super::raw::Allocation;
use super::rect::{self, Placement};
use spirula_interface::check::Checks;

/// The shadow of some memory.
#[derive(Debug)]
pub(super) struct Written(Allocation);

impl Written {
    /// Of so many bytes that nothing wrote; None if nobody asks, or without memory: all is taken for written then, which is told.
    pub fn new(size: usize) -> Option<Written> {
        if !spirula_service::settings::get().compiler.checks.contains(Checks::UNINITIALIZED) {
            return None;
        }
        let made = Allocation::zeroed(size).map(Written);
        if made.is_none() {
            eprintln!(
                "spirula: SPIRULA_CHECK=uninitialized: no memory to keep what is written to a buffer of {size} bytes; all of it counts as written"
            );
        }
        made
    }

    /// The address of the shadow of a byte.
    pub fn address(&self, offset: usize) -> u64 {
        (self.0.span().address() as u64).wrapping_add(offset as u64)
    }

    /// A box of bytes was written.
    pub fn set(&self, place: Placement, region: [usize; 3]) {
        rect::fill(self.0.span(), place, region, &[0xff]);
    }

    /// A box of bytes was copied here; what has no shadow was written.
    pub fn copy(
        &self,
        place: Placement,
        source: Option<&Written>,
        source_place: Placement,
        region: [usize; 3],
    ) {
        match source {
            Some(source) => rect::copy(self.0.span(), place, source.0.span(), source_place, region),
            None => self.set(place, region),
        }
    }
}
