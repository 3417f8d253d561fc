//! What a launch's data races are found by: cells for the memory that its work-items share.

use super::{Objects, bytes, placed};
use crate::machine;
use crate::memory::raw::Allocation;
use spirula_interface::check::races::{CELL_BYTES, GRAIN, LocalShadow, Region};
use spirula_interface::check::{Access, Checked, Object, Space};
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

/// From so many bytes of cells on it is asked how many there are.
const LARGE: usize = 64 << 20;

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
    /// For a launch of that kernel with so many bytes of local memory, in which work-items meet at those of its places; its findings go
    /// to `records`. The error says what there is no memory for.
    pub(super) fn new(
        signature: &KernelSignature,
        (objects, meets): (&Objects, &[bool]),
        local_size: usize,
        records: &Allocation,
    ) -> Result<RaceMemory, String> {
        let shared = shared(signature, objects, meets);
        let written: u64 = shared.iter().map(|range| range.end - range.start).sum();
        let no_memory = || {
            format!(
                "SPIRULA_CHECK=races keeps eight times the {written} bytes of memory that it writes, for which there is no room: \
                 run it with less data, or check without races"
            )
        };
        let made = RaceMemory::of(signature, (objects, meets), (shared, local_size), records);
        made.ok_or_else(no_memory)
    }

    /// As [`RaceMemory::new`], for these ranges.
    fn of(
        signature: &KernelSignature,
        (objects, meets): (&Objects, &[bool]),
        (shared, local_size): (Vec<Range<u64>>, usize),
        records: &Allocation,
    ) -> Option<RaceMemory> {
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
        let region_of = |address: u64| {
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
            region_of(objects.data.start),
        ];
        let of_arguments = (0..signature.arguments.len()).map(|number| {
            let is_buffer = signature.arguments[number].kind == ArgumentKind::Buffer;
            let bounds = objects.arguments.get(number).filter(|_| is_buffer).copied().unwrap_or_default();
            region_of(bounds.base.wrapping_add(bounds.offset))
        });
        let meets = meets.iter().map(|&meets| u64::from(meets));
        let head = placed(&bytes(head.into_iter().chain(of_arguments).chain(meets)))?;
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
        // What is given without memory behind it would end the process where it is used.
        let room = if size >= LARGE { machine::available_memory() / 8 * 7 } else { u64::MAX };
        if size as u64 > room {
            return None;
        }
        let all = size.checked_mul(GRAIN as usize).filter(|bytes| bytes.saturating_add(size) as u64 <= room);
        let bytes = all.and_then(Allocation::zeroed);
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
        Checked::Race { object: Object::Any | Object::Own(Space::Local), .. } => true,
        _ => false,
    })
}

/// The memory that work-items may share and that one of them may write, without overlaps: but for those arguments' at which they don't
/// meet.
fn shared(signature: &KernelSignature, objects: &Objects, meets: &[bool]) -> Vec<Range<u64>> {
    let Objects { arguments, others, data } = objects;
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
    let is_data = |object: &Object| matches!(object, Object::Variable { space: Space::Global, .. });
    let mut all: Vec<Range<u64>> = (0..arguments.len()).filter_map(of_argument).collect();
    let data = range(data.start, data.end - data.start).filter(|_| accessed(false, &is_data));
    all.extend(data.clone());
    if accessed(false, &is_unknown) {
        all.extend(others.iter().filter_map(|bounds| range(bounds.base, bounds.readable)));
    }
    let written_unknown = accessed(true, &is_unknown);
    let written: Vec<Range<u64>> = (0..arguments.len())
        .filter(|&number| accessed(true, &|object| *object == Object::Argument(number as u32)))
        .filter_map(of_argument)
        .chain(data.filter(|_| accessed(true, &is_data)))
        .collect();
    let alone: Vec<Range<u64>> = signature
        .places
        .iter()
        .zip(meets)
        .filter(|(_, meets)| !**meets)
        .filter_map(|(places, _)| of_argument(places.argument? as usize))
        // Nobody else's, and so there once.
        .filter(|range| all.iter().filter(|other| overlap(other, range)).count() == 1)
        .collect();
    all.retain(|range| !alone.contains(range));
    let mut merged = merged(all);
    merged.retain(|range| written_unknown || written.iter().any(|other| overlap(other, range)));
    merged
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
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
    use crate::kernel::tests::info;
    use spirula_interface::check::places::Places;
    use spirula_interface::check::{Bounds, Site};

    #[test]
    fn ranges_that_overlap_become_one() {
        assert_eq!(merged(vec![8..12, 0..4, 10..20, 20..24, 11..13]), [0..4, 8..20, 20..24]);
    }

    #[test]
    fn only_what_somebody_writes_is_shared() {
        let site = |access, object| Site { location: None, what: Checked::Race { access, size: 4, object } };
        let mut signature = info("k", &[ArgumentKind::Buffer; 3]).signature;
        let read = |number| site(Access::Read, Object::Argument(number));
        signature.sites = vec![read(0), read(1), site(Access::Write, Object::Argument(2))];
        let bounds = |base, readable| Bounds { base, readable, ..Bounds::default() };
        let objects = |first| Objects {
            arguments: vec![bounds(first, 32), bounds(1000, 42), bounds(64, 32)],
            others: vec![bounds(5000, 8)],
            data: 6000..6400,
        };
        let (alone, overlapping) = (64..96, 64..124);
        assert_eq!(shared(&signature, &objects(96), &[]), [alone]);
        assert_eq!(shared(&signature, &objects(90), &[]), [overlapping]);
        // Where work-items have places of their own, and nobody else's argument leads.
        signature.places = vec![Places { argument: Some(2), strides: Vec::new() }];
        assert_eq!(shared(&signature, &objects(96), &[false]), []);
        let (alone, overlapping) = (64..96, 64..124);
        assert_eq!(shared(&signature, &objects(96), &[true]), [alone]);
        assert_eq!(shared(&signature, &objects(90), &[false]), [overlapping]);
        signature.places.clear();
        let variable = Object::Variable { space: Space::Global, name: None, size: 4 };
        signature.sites.push(site(Access::Write, variable));
        assert_eq!(shared(&signature, &objects(96), &[]), [64..96, 6000..6400]);
        signature.sites.push(site(Access::Atomic, Object::Any));
        assert_eq!(
            shared(&signature, &objects(96), &[]),
            [64..96, 96..128, 1000..1044, 5000..5008, 6000..6400]
        );
    }

    #[test]
    fn what_there_is_no_memory_for_is_said() {
        let mut signature = info("k", &[ArgumentKind::Buffer]).signature;
        let what = Checked::Race { access: Access::Write, size: 4, object: Object::Argument(0) };
        signature.sites = vec![Site { location: None, what }];
        let records = Allocation::zeroed(1).unwrap();
        let made = |readable| {
            let objects = Objects {
                arguments: vec![Bounds { base: 4096, readable, ..Bounds::default() }],
                ..Objects::default()
            };
            RaceMemory::new(&signature, (&objects, &[]), 0, &records).map(drop)
        };
        assert_eq!(made(1 << 20), Ok(()));
        // More than a machine has, and more than there are addresses.
        for readable in [1 << 40, 1 << 44, 1 << 62] {
            let why = made(readable).unwrap_err();
            assert!(why.contains(&format!("the {readable} bytes")) && why.contains("without races"), "{why}");
        }
    }

    #[test]
    fn cells_are_used_again_under_another_tag() {
        let mut signature = info("k", &[ArgumentKind::Buffer]).signature;
        let what = Checked::Race { access: Access::Write, size: 4, object: Object::Argument(0) };
        signature.sites = vec![Site { location: None, what }];
        let objects = Objects {
            arguments: vec![Bounds { base: 4096, readable: 1 << 12, ..Bounds::default() }],
            ..Objects::default()
        };
        let records = Allocation::zeroed(1).unwrap();
        let words = |memory: &RaceMemory| -> Vec<u64> {
            let bytes = memory.head.span().to_vec();
            bytes.chunks_exact(8).map(|word| u64::from_ne_bytes(word.try_into().unwrap())).collect()
        };
        let one = RaceMemory::new(&signature, (&objects, &[]), 0, &records).unwrap();
        let other = RaceMemory::new(&signature, (&objects, &[]), 0, &records).unwrap();
        let (first, second) = (words(&one), words(&other));
        assert_ne!(first[3], second[3], "each launch has a tag");
        assert_eq!(first[8..11], [1, 0, first[7]], "the argument has the only region");
    }
}
