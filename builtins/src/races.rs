//! What kernels call in which data races are looked for (`SPIRULA_CHECK=races`): before each access of memory that work-items share.
//!
//! Each four bytes of such memory have a [`Cell`] that says who wrote and who read them last, and each single byte has one of its own once
//! somebody has accessed less than four. Two accesses race if one of them writes, not both are atomic, and nothing orders them: within a
//! work-group a barrier does, which begins a new phase; work-groups have no order at all, so that numbers are compared and not times,
//! and a race is found whatever the schedule was. What atomics and fences order is not known exactly: a work-group that has
//! seen what another one's atomic operation left counts as ordered behind all others from then on.

#![allow(clippy::too_many_arguments)] // Nothing but integers is passed.

mod cell;

use crate::check::Record;
use crate::export;
use cell::{Access, Found, Unit};
pub use cell::{CELL_BYTES, Cell};
use std::sync::atomic::Ordering::{Acquire, Relaxed};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// Bytes that have a cell of their own if they are accessed together.
pub const GRAIN: u64 = 4;

/// What a launch's races are found by: [`crate::check::Block::races`] is its address. Behind it stands for each of the kernel's
/// arguments the address of its [`Region`], or zero if nobody writes there or work-items are apart; and for each of its places whether
/// work-items meet there.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Races {
    /// The address of the [`Record`]s, one for each site.
    pub records: u64,
    /// How many there are.
    pub record_count: u64,
    /// The address of the process's counter of what [`Cell`]s are known by.
    pub tags: u64,
    /// This launch's.
    pub tag: u64,
    /// Bytes of local memory.
    pub local_size: u64,
    /// The address of the [`LocalShadow`]s.
    pub locals: u64,
    /// How many there are.
    pub local_count: u64,
    /// The address of the [`Region`]s, by ascending address.
    pub regions: u64,
    /// How many there are.
    pub region_count: u64,
    /// The address of the [`Region`] of the program's variables, or zero if nobody writes there.
    pub data: u64,
}

/// Memory that has cells.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Region {
    /// Its address, a multiple of [`GRAIN`].
    pub start: u64,
    /// Bytes.
    pub size: u64,
    /// The address of the cells, one for each grain.
    pub grains: u64,
    /// The address of the cells of single bytes; 0 if there was no memory for them.
    pub bytes: u64,
}

/// The cells of one thread's local memory.
#[repr(C)]
#[derive(Debug, Default)]
pub struct LocalShadow {
    /// Where that memory is, once a thread has taken it.
    pub memory: AtomicU64,
    /// As in [`Region`].
    pub grains: u64,
    /// As in [`Region`].
    pub bytes: u64,
}

/// A work-group that runs: in its local memory, zero at first.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Team {
    /// The address of the launch's [`Races`].
    races: u64,
    /// Which group it is, counted from 1.
    group: u64,
    /// The number of its first work-item.
    first: u32,
    /// How many numbers its work-items have.
    items: u32,
    /// Its local memory.
    local: Region,
    /// What the cells of global memory are known by: the launch's tag.
    tag: u32,
    /// What those of local memory are, until the next barrier that orders it.
    epoch: u32,
    /// Barriers that ordered global memory.
    phase: u32,
    /// Work-items that have come to a barrier.
    arrived: u64,
    /// Whether it may go by what other groups did before.
    behind_others: u32,
    /// Whether its work-items may go by what others of them did since the last barrier: bit 0 in local, bit 1 in global memory.
    ordered_within: u32,
    /// Both, for what a fence orders: bits 0 and 1, and bit 2 for other groups.
    seen: u32,
}

/// Bytes of a [`Team`].
pub const TEAM_BYTES: u64 = size_of::<Team>() as u64;

/// The words that calls say what they do with: the site in the first 16 bits.
pub mod what {
    /// It writes.
    pub const WRITES: u64 = 1 << 16;
    /// It is atomic.
    pub const ATOMIC: u64 = 1 << 17;
    /// It orders what comes behind it after what was written before what it saw.
    pub const ACQUIRES: u64 = 1 << 18;
    /// What it writes is the value, from the lowest byte on.
    pub const VALUE: u64 = 1 << 20;
    /// What it writes is found at the address that the value is.
    pub const COPIES: u64 = 2 << 20;
    /// What it writes is the value's lowest byte, again and again.
    pub const FILLS: u64 = 3 << 20;
    /// Bits of the kind of value.
    pub const VALUES: u64 = 3 << 20;
    /// The bytes stand above these bits.
    pub const SIZE_SHIFT: u32 = 32;
    /// Sites are below.
    pub const SITES: u64 = 1 << 16;
}

/// A barrier's flags, as OpenCL C has them.
const LOCAL_FENCE: u64 = 1;
const GLOBAL_FENCE: u64 = 2;

/// Global memory's phase in which nothing is said of a group's own work-items: there were too many barriers.
pub(crate) const LAST_PHASE: u16 = u16::MAX;

/// The group that a work-item is of.
///
/// # Safety
/// `team` is the address of this thread's [`Team`].
unsafe fn team<'a>(team: u64) -> &'a mut Team {
    // SAFETY: stated above; only this thread has its local memory.
    unsafe { &mut *(team as *mut Team) }
}

/// A new tag.
///
/// # Safety
/// `races` is a launch's.
unsafe fn next_tag(races: &Races) -> u32 {
    // SAFETY: stated above.
    let tags = unsafe { &*(races.tags as *const AtomicU32) };
    match tags.fetch_add(1, Relaxed) {
        // Cells that nobody has used have that.
        0 => tags.fetch_add(1, Relaxed),
        tag => tag,
    }
}

/// A work-item begins: the first of a group makes it this thread's.
///
/// # Safety
/// As for [`team`]; `races` is the address of a live [`Races`], and `local` that of this thread's local memory.
unsafe fn begin(races: u64, own: u64, local: u64, group: u64, items: u64) {
    // SAFETY: the caller's promise.
    let (team, launch) = unsafe { (team(own), &*(races as *const Races)) };
    if team.group == group + 1 {
        return;
    }
    // SAFETY: the caller's promise.
    let epoch = unsafe { next_tag(launch) };
    let known = if team.races == races { team.local } else { Region::default() };
    *team = Team {
        races,
        group: group + 1,
        first: (group * items) as u32,
        items: items as u32,
        // SAFETY: the caller's promise.
        local: if known.start == local { known } else { unsafe { cells_of(launch, local) } },
        tag: launch.tag as u32,
        epoch,
        ..Team::default()
    };
}

/// The cells of a thread's local memory; none if more threads came than were expected.
///
/// # Safety
/// `launch` is a live one.
unsafe fn cells_of(launch: &Races, local: u64) -> Region {
    for number in 0..launch.local_count {
        // SAFETY: there are as many.
        let shadow = unsafe { &*(launch.locals as *const LocalShadow).add(number as usize) };
        let owner = shadow.memory.load(Relaxed);
        let mine = owner == local
            || owner == 0 && shadow.memory.compare_exchange(0, local, Relaxed, Relaxed).is_ok();
        if mine {
            let (start, size) = (local, launch.local_size);
            return Region { start, size, grains: shadow.grains, bytes: shadow.bytes };
        }
    }
    Region { start: local, ..Region::default() }
}

/// A work-item waits for its group, with these flags.
///
/// # Safety
/// As for [`team`], of which a work-item has begun.
unsafe fn wait(own: u64, items: u64, fences: u64) {
    // SAFETY: the caller's promise.
    let team = unsafe { team(own) };
    team.arrived += 1;
    if team.arrived < items {
        return;
    }
    team.arrived = 0;
    if fences & LOCAL_FENCE != 0 {
        // SAFETY: the launch is live.
        team.epoch = unsafe { next_tag(&*(team.races as *const Races)) };
        team.ordered_within &= !1;
    }
    if fences & GLOBAL_FENCE != 0 {
        team.phase = (team.phase + 1).min(LAST_PHASE.into());
        team.ordered_within &= !2;
        team.behind_others |= team.seen >> 2;
    }
    team.seen &= !(fences as u32);
}

/// What a team says of an access of one of its work-items.
fn access_of<const SHARED: bool>(team: &Team, what: u64, number: u64) -> Access {
    let ordered = if SHARED { team.ordered_within & 2 } else { team.ordered_within & 1 };
    Access {
        item: team.first.wrapping_add(number as u32),
        first: team.first,
        items: team.items,
        tag: if SHARED { team.tag } else { team.epoch },
        phase: if SHARED { team.phase as u16 } else { 0 },
        site: what as u16,
        writes: what & what::WRITES != 0,
        atomic: what & what::ATOMIC != 0,
        ordered_within: ordered != 0,
        behind_others: team.behind_others != 0,
        value: None,
    }
}

/// A work-item accesses memory that has cells: `address` and the bytes of `what` in `region`.
///
/// # Safety
/// As for [`team`], of which a work-item has begun; `region` is a live one's, and the value's address one that can be read, where `what`
/// says that it is one.
unsafe fn access<const SHARED: bool>(
    team: &Team,
    region: &Region,
    address: u64,
    what: u64,
    number: u64,
    value: u64,
) {
    let (size, offset) = (what >> what::SIZE_SHIFT, address.wrapping_sub(region.start));
    if offset >= region.size || size > region.size - offset {
        return;
    }
    let is_single = size == GRAIN && offset.is_multiple_of(GRAIN) && what & what::COPIES == 0;
    if is_single {
        let access = access_of::<SHARED>(team, what, number);
        let value = if what & what::VALUES == what::VALUE { Some(value as u32) } else { None };
        // SAFETY: the region has a cell for each grain.
        let cell = unsafe { &*(region.grains as *const Cell).add((offset / GRAIN) as usize) };
        if (Access { value, ..access }).is_known(cell) {
            return;
        }
    }
    // SAFETY: the caller's promise.
    unsafe { enter::<SHARED>(team, region, offset, what, number, value) }
}

/// Enters an access, of which the cells don't know yet.
///
/// # Safety
/// As for [`access`], of bytes that the region has from `offset` on.
#[inline(never)]
unsafe fn enter<const SHARED: bool>(
    team: &Team,
    region: &Region,
    offset: u64,
    what: u64,
    number: u64,
    value: u64,
) {
    let access = access_of::<SHARED>(team, what, number);
    let (mut at, end) = (offset, offset + (what >> what::SIZE_SHIFT));
    while at < end {
        let grain = at / GRAIN;
        let next = end.min((grain + 1) * GRAIN);
        // SAFETY: the region has a cell for each grain, and the value as many bytes; the launch is live.
        unsafe {
            let value = value_at(what, value, at - offset, next - at);
            let unit = Unit {
                cell: &*(region.grains as *const Cell).add(grain as usize),
                bytes: region.bytes + grain * GRAIN * CELL_BYTES,
                has_bytes: region.bytes != 0,
                from: at % GRAIN,
                size: next - at,
            };
            let found = unit.access::<SHARED>(&Access { value, ..access });
            if let Some(found) = found {
                tell(&*(team.races as *const Races), &access, &found, region.start + at);
            }
        }
        at = next;
    }
}

/// The bytes that are written, from one on; None if nobody knows.
///
/// # Safety
/// The value is an address of memory that is read where `what` says so.
unsafe fn value_at(what: u64, value: u64, from: u64, size: u64) -> Option<u32> {
    let mask = if size >= 4 { u32::MAX } else { (1 << (8 * size)) - 1 };
    match what & what::VALUES {
        what::VALUE if from < 8 => Some((value >> (8 * from)) as u32 & mask),
        what::FILLS => Some((value as u8 as u32).wrapping_mul(0x0101_0101) & mask),
        what::COPIES => {
            let mut bits = 0;
            for byte in 0..size {
                // SAFETY: stated above.
                let byte_there = unsafe { ((value + from + byte) as *const u8).read() };
                bits |= u32::from(byte_there) << (8 * byte);
            }
            Some(bits)
        }
        _ => None,
    }
}

/// Notes a race at the one of both sites that comes later in the kernel, whoever was first, or that both write the same.
///
/// # Safety
/// `launch` is a live one.
unsafe fn tell(launch: &Races, access: &Access, found: &Found, address: u64) {
    let own = (u64::from(access.site), u64::from(access.item));
    let other = (u64::from(found.site), u64::from(found.item));
    let (at, with) = if own.0 >= other.0 { (own, other) } else { (other, own) };
    if at.0 >= launch.record_count {
        return;
    }
    // SAFETY: there are so many. Who counts the first one is the only one to write.
    unsafe {
        let record = (launch.records as *mut Record).add(at.0 as usize);
        if found.same_value {
            let [count, with_both, item] =
                (&raw mut (*record).item).cast::<[AtomicU64; 3]>().as_ref().unwrap_unchecked();
            if count.fetch_add(1, Relaxed) == 0 {
                with_both.store(with.0 << 32 | with.1, Relaxed);
                item.store(at.1, Relaxed);
            }
        } else if (*record).count.fetch_add(1, Acquire) == 0 {
            (*record).values = [with.0 << 32 | with.1, at.1, address];
        }
    }
}

/// The region that an address is in.
///
/// # Safety
/// `launch` is a live one.
unsafe fn region_of(launch: &Races, address: u64) -> Option<&Region> {
    let regions = launch.regions as *const Region;
    let (mut low, mut high) = (0, launch.region_count);
    while low < high {
        let middle = low + (high - low) / 2;
        // SAFETY: there are as many.
        match unsafe { (*regions.add(middle as usize)).start <= address } {
            true => low = middle + 1,
            false => high = middle,
        }
    }
    // SAFETY: as above.
    let region = unsafe { &*regions.add(low.checked_sub(1)? as usize) };
    (address.wrapping_sub(region.start) < region.size).then_some(region)
}

/// An atomic operation has seen what was there: what others did before they wrote it may be ordered before what comes now.
///
/// # Safety
/// As for [`access`]; `region` may be 0.
unsafe fn observe(own: u64, region: u64, address: u64, what: u64, number: u64) {
    // SAFETY: the caller's promise.
    unsafe {
        let team = team(own);
        let launch = &*(team.races as *const Races);
        let is_local = address.wrapping_sub(team.local.start) < team.local.size;
        let region = match region {
            _ if is_local => &team.local,
            0 => match region_of(launch, address) {
                Some(region) => region,
                None => return,
            },
            region => &*(region as *const Region),
        };
        let offset = address.wrapping_sub(region.start);
        if offset >= region.size {
            return;
        }
        let cell = &*(region.grains as *const Cell).add((offset / GRAIN) as usize);
        let item = team.first.wrapping_add(number as u32);
        let tag = if is_local { team.epoch } else { team.tag };
        let (within, others) = cell.written_by_others(tag, item, (team.first, team.items));
        let seen = if within { 3 } else { 0 } | if others { 4 } else { 0 };
        team.seen |= seen;
        if what & what::ACQUIRES != 0 {
            team.ordered_within |= seen & 3;
            team.behind_others |= seen >> 2;
        }
    }
}

/// A fence makes of what was seen what is ordered. With `all`, work-items have met that are not the whole group.
///
/// # Safety
/// As for [`team`].
unsafe fn fence(own: u64, all: u64) {
    // SAFETY: the caller's promise.
    let team = unsafe { team(own) };
    team.ordered_within |= team.seen & 3 | if all != 0 { 3 } else { 0 };
    team.behind_others |= team.seen >> 2;
}

export! {
    /// A work-item begins.
    spirula_races_begin(races: u64, team: u64, local: u64, group: u64, items: u64) -> () = {
        // SAFETY: checked kernels pass what they were given.
        unsafe { begin(races, team, local, group, items) }
    };
    /// A work-item waits for its group.
    spirula_races_wait(team: u64, items: u64, fences: u64) -> () = {
        // SAFETY: as above.
        unsafe { wait(team, items, fences) }
    };
    /// An access of memory that a region is known of.
    spirula_races_global(own: u64, region: u64, address: u64, what: u64, number: u64, value: u64) -> () = {
        // SAFETY: as above.
        unsafe { access::<true>(team(own), &*(region as *const Region), address, what, number, value) }
    };
    /// An access of local memory.
    spirula_races_local(own: u64, address: u64, what: u64, number: u64, value: u64) -> () = {
        // SAFETY: as above.
        unsafe {
            let team = team(own);
            access::<false>(team, &team.local, address, what, number, value)
        }
    };
    /// An access of whatever memory.
    spirula_races_any(own: u64, address: u64, what: u64, number: u64, value: u64) -> () = {
        // SAFETY: as above.
        unsafe {
            let team = team(own);
            if address.wrapping_sub(team.local.start) < team.local.size {
                access::<false>(team, &team.local, address, what, number, value)
            } else if let Some(region) = region_of(&*(team.races as *const Races), address) {
                access::<true>(team, region, address, what, number, value)
            }
        }
    };
    /// Behind an atomic operation that reads.
    spirula_races_observe(own: u64, region: u64, address: u64, what: u64, number: u64) -> () = {
        // SAFETY: as above.
        unsafe { observe(own, region, address, what, number) }
    };
    /// A fence, or a meeting of some.
    spirula_races_fence(own: u64, all: u64) -> () = {
        // SAFETY: as above.
        unsafe { fence(own, all) }
    };
}

#[cfg(test)]
mod tests;
