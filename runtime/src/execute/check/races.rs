//! What a launch's data races are found by: cells for the memory that its work-items share.

use super::{Objects, bytes, placed};
use crate::memory::raw::Allocation;
use spirula_interface::check::races::{CELL_BYTES, GRAIN, LocalShadow, Region};
use spirula_interface::check::{Access, Bounds, Checked, Object, Space};
use spirula_interface::program::{ArgumentKind, KernelSignature};
use std::ops::Range;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

/// What cells are known by that were never used for anything else: a launch's, and those of local memory between two barriers.
static TAGS: AtomicU32 = AtomicU32::new(1);

/// Cells that no launch uses: what is in them has old tags.
static SPARE: Mutex<Vec<Cells>> = Mutex::new(Vec::new());

/// Bytes of cells that are kept between launches at most, each kind.
const KEPT: usize = 1 << 30;

/// Threads that run a launch, at most; of more local memory isn't looked at.
const THREADS: usize = 64;

/// Cells for grains and for single bytes: those come only if there is memory for so many.
#[derive(Debug)]
struct Cells {
    grains: Allocation,
    bytes: Option<Allocation>,
}

/// The memory of a launch's search for races.
#[derive(Debug)]
pub(super) struct RaceMemory {
    /// A [`spirula_interface::check::races::Races`], and the addresses of the arguments' regions.
    head: Allocation,
    _regions: Allocation,
    _locals: Allocation,
    cells: Option<Cells>,
}

impl RaceMemory {
    /// For a launch of that kernel with so many bytes of local memory; its findings go to `records`. None without memory.
    pub(super) fn new(
        signature: &KernelSignature,
        objects: &Objects,
        local_size: usize,
        records: &Allocation,
    ) -> Option<RaceMemory> {
        let shared = shared(signature, &objects.arguments, &objects.others);
        let grains_of = |size: u64| size.div_ceil(GRAIN);
        let local_size = if uses_local_memory(signature) { local_size as u64 } else { 0 };
        let grains: u64 = shared.iter().map(|range| grains_of(range.end - range.start)).sum();
        let count = grains.checked_add(grains_of(local_size).checked_mul(THREADS as u64)?)?;
        let cells = Cells::take(usize::try_from(count.checked_mul(CELL_BYTES)?).ok()?)?;
        let grain_cells = cells.grains.span().address() as u64;
        let byte_cells = cells.bytes.as_ref().map(|bytes| bytes.span().address() as u64);
        let mut used = 0;
        let mut next = |size: u64| {
            let first = used;
            used += grains_of(size);
            let bytes = byte_cells.map_or(0, |bytes| bytes + first * GRAIN * CELL_BYTES);
            [grain_cells + first * CELL_BYTES, bytes]
        };
        let regions: Vec<Region> = shared
            .iter()
            .map(|range| {
                let (start, size) = (range.start, range.end - range.start);
                let [grains, bytes] = next(size);
                Region { start, size, grains, bytes }
            })
            .collect();
        let locals = if local_size > 0 { THREADS } else { 0 };
        let placed_locals = (0..locals).flat_map(|_| {
            let [grains, bytes] = next(local_size);
            [0, grains, bytes]
        });
        let placed_locals = placed(&bytes(placed_locals))?;
        debug_assert_eq!(size_of::<LocalShadow>(), 24);
        let region_words =
            regions.iter().flat_map(|region| [region.start, region.size, region.grains, region.bytes]);
        let placed_regions = placed(&bytes(region_words))?;
        let region_of = |bounds: &Bounds| {
            let address = bounds.base.wrapping_add(bounds.offset);
            let found = regions.iter().position(|region| address.wrapping_sub(region.start) < region.size);
            found.map_or(0, |number| {
                (placed_regions.span().address() as usize + number * size_of::<Region>()) as u64
            })
        };
        let mut tag = TAGS.fetch_add(1, Ordering::Relaxed);
        if tag == 0 {
            // Cells that nobody has used have that.
            tag = TAGS.fetch_add(1, Ordering::Relaxed);
        }
        let head = [
            records.span().address() as u64,
            signature.sites.len() as u64,
            &raw const TAGS as u64,
            tag.into(),
            local_size,
            placed_locals.span().address() as u64,
            locals as u64,
            placed_regions.span().address() as u64,
            regions.len() as u64,
        ];
        let none = Bounds::default();
        let of_arguments = (0..signature.arguments.len()).map(|number| {
            let is_buffer = signature.arguments[number].kind == ArgumentKind::Buffer;
            region_of(objects.arguments.get(number).filter(|_| is_buffer).unwrap_or(&none))
        });
        let head = placed(&bytes(head.into_iter().chain(of_arguments)))?;
        Some(RaceMemory { head, _regions: placed_regions, _locals: placed_locals, cells: Some(cells) })
    }

    /// The address of the launch's [`spirula_interface::check::races::Races`].
    pub(super) fn address(&self) -> u64 {
        self.head.span().address() as u64
    }
}

impl Drop for RaceMemory {
    fn drop(&mut self) {
        let Some(cells) = self.cells.take() else { return };
        let size = cells.grains.span().len();
        let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
        if size <= KEPT && spare.len() < 4 {
            spare.push(cells);
        }
    }
}

impl Cells {
    /// So many bytes of cells of grains.
    fn take(size: usize) -> Option<Cells> {
        let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = spare.iter().position(|cells| cells.grains.span().len() >= size) {
            return Some(spare.swap_remove(known));
        }
        // The next launch will find one that is large enough.
        spare.pop();
        drop(spare);
        let bytes = size.checked_mul(GRAIN as usize).and_then(Allocation::zeroed);
        Some(Cells { grains: Allocation::zeroed(size)?, bytes })
    }
}

fn uses_local_memory(signature: &KernelSignature) -> bool {
    signature.sites.iter().any(|site| match &site.what {
        Checked::Race { object: Object::Variable { space, .. }, .. } => *space == Space::Local,
        Checked::Race { object: Object::Argument(number), .. } => signature
            .arguments
            .get(*number as usize)
            .is_some_and(|argument| argument.kind == ArgumentKind::Local),
        Checked::Race { object: Object::Any, .. } => true,
        _ => false,
    })
}

/// The memory that work-items may share and that one of them may write, without overlaps.
fn shared(signature: &KernelSignature, arguments: &[Bounds], others: &[Bounds]) -> Vec<Range<u64>> {
    let range = |base: u64, size: u64| {
        let end = base.saturating_add(size).checked_next_multiple_of(GRAIN)?;
        let start = base & !(GRAIN - 1);
        // Nobody knows how large the application's own memory is.
        (size > 0 && size < u64::MAX / 2).then_some(start..end)
    };
    let of_argument = |number: usize| {
        let is_buffer = signature.arguments.get(number)?.kind == ArgumentKind::Buffer;
        arguments.get(number).filter(|_| is_buffer).and_then(|bounds| range(bounds.base, bounds.readable))
    };
    let accessed = |writes: bool, object: &dyn Fn(&Object) -> bool| {
        signature.sites.iter().any(|site| match &site.what {
            Checked::Race { access, object: o, .. } => (!writes || *access != Access::Read) && object(o),
            _ => false,
        })
    };
    let is_unknown = |object: &Object| matches!(object, Object::Any);
    let mut all: Vec<Range<u64>> = (0..arguments.len()).filter_map(of_argument).collect();
    if accessed(false, &is_unknown) {
        all.extend(others.iter().filter_map(|bounds| range(bounds.base, bounds.readable)));
    }
    let written_unknown = accessed(true, &is_unknown);
    let written: Vec<Range<u64>> = (0..arguments.len())
        .filter(|&number| accessed(true, &|object| *object == Object::Argument(number as u32)))
        .filter_map(of_argument)
        .collect();
    let mut merged = merged(all);
    merged.retain(|range| {
        written_unknown || written.iter().any(|other| other.start < range.end && range.start < other.end)
    });
    merged
}

/// Ranges by address, those that overlap made one.
fn merged(mut ranges: Vec<Range<u64>>) -> Vec<Range<u64>> {
    ranges.sort_by_key(|range| range.start);
    let mut list: Vec<Range<u64>> = Vec::new();
    for range in ranges {
        match list.last_mut() {
            Some(last) if range.start < last.end => last.end = last.end.max(range.end),
            _ => list.push(range),
        }
    }
    list
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_that_overlap_become_one() {
        assert_eq!(merged(vec![8..12, 0..4, 10..20, 20..24, 11..13]), [0..4, 8..20, 20..24]);
    }
}
