//! What checked kernels call (`SPIRULA_CHECK`). A launch's hidden argument is the address of a [`Block`], which the host makes
//! for it and reads when all work-groups have ended. Behind it lie the [`Bounds`] of the kernel's arguments, in their order.

#![allow(clippy::too_many_arguments)] // Nothing but integers is passed.

use crate::export;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// What a launch's hidden argument points at.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Block {
    /// The address of the [`Record`]s, one for each site.
    pub records: u64,
    /// How many there are.
    pub record_count: u64,
    /// The address of the objects' [`Bounds`], by ascending address.
    pub objects: u64,
    /// How many there are.
    pub object_count: u64,
    /// From local memory to its shadow, which is as large.
    pub local: u64,
    /// The address of [`DUMMY_BYTES`] bytes of a shadow that says that all was written.
    pub written: u64,
    /// The address of as many that nobody reads.
    pub sink: u64,
    /// The bounds of pointers that lead to none of them.
    pub others: Bounds,
    /// The address of the launch's [`crate::races::Races`]; 0 if nobody looks for any.
    pub races: u64,
}

/// Bytes of the shadow of memory that has none.
pub const DUMMY_BYTES: usize = 128;

/// An object in memory.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bounds {
    /// Its address.
    pub base: u64,
    /// Bytes that may be read.
    pub readable: u64,
    /// Bytes that may be written.
    pub writable: u64,
    /// An argument's: how far into the object it points; of the objects that are looked up: the bytes that they take.
    pub offset: u64,
    /// The address of its shadow, which has a bit set for each of its bits that was written; 0 if none is kept.
    pub shadow: u64,
}

impl Bounds {
    /// Of so many bytes, of which nothing else is known.
    pub fn of_anything(base: u64, size: u64) -> Bounds {
        Bounds { base, readable: size, writable: size, offset: 0, shadow: 0 }
    }
}

/// What a site found, and how often it found something. Of all work-items it is the first by its id that is told of, whatever the
/// schedule was, and what that found first; of races it is whoever was found.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Record {
    /// How often, and [`Record::BUSY`] while a thread writes the rest.
    pub count: AtomicU64,
    /// What they mean goes by the site.
    pub values: [u64; 3],
    /// The work-item's global id.
    pub item: [u64; 3],
}

impl Record {
    /// The flag above the count.
    pub const BUSY: u64 = 1 << 63;
}

/// Where a work-group stands: in its local memory, zero at first.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Group {
    /// 1 if its work-items did not come to the same barrier, so that it has to end.
    pub stopped: u64,
    /// Work-items that have come to a barrier.
    arrived: u64,
    /// Where the first of them is.
    site: u64,
    /// Which of the group that is.
    first: u64,
    /// Whether another one is elsewhere.
    differs: u64,
}

/// Bytes of a [`Group`].
pub const GROUP_BYTES: u64 = size_of::<Group>() as u64;

/// Notes what a site found.
///
/// # Safety
/// `block` is the address of a live [`Block`] whose records are as many as it says.
unsafe fn note(block: u64, site: u64, values: [u64; 3], item: [u64; 3]) {
    // SAFETY: stated above. All threads see the rest of the record as atomic.
    let (count, [a, b, c], [x, y, z]) = unsafe {
        let block = &*(block as *const Block);
        if site >= block.record_count {
            return;
        }
        let record = (block.records as *mut Record).add(site as usize);
        let words = |of: *mut [u64; 3]| &*of.cast::<[AtomicU64; 3]>();
        (&(*record).count, words(&raw mut (*record).values), words(&raw mut (*record).item))
    };
    // By the last dimension first, as work-items are numbered.
    let is_earlier = || (item[2], item[1], item[0]) < (z.load(Relaxed), y.load(Relaxed), x.load(Relaxed));
    let mut before = count.load(Relaxed);
    loop {
        let known = before & !Record::BUSY;
        // The id may be another thread's half: it is looked at again then.
        if before & Record::BUSY == 0 && known != 0 && !is_earlier() {
            match count.compare_exchange_weak(before, before + 1, Relaxed, Relaxed) {
                Ok(_) => return,
                Err(now) => before = now,
            }
        } else if before & Record::BUSY == 0 {
            match count.compare_exchange_weak(before, (before + 1) | Record::BUSY, Acquire, Relaxed) {
                Ok(_) if known == 0 || is_earlier() => break,
                Ok(_) => {
                    count.fetch_and(!Record::BUSY, Release);
                    return;
                }
                Err(now) => before = now,
            }
        } else {
            before = count.load(Relaxed);
        }
    }
    a.store(values[0], Relaxed);
    b.store(values[1], Relaxed);
    c.store(values[2], Relaxed);
    x.store(item[0], Relaxed);
    y.store(item[1], Relaxed);
    z.store(item[2], Relaxed);
    count.fetch_and(!Record::BUSY, Release);
}

/// The bounds of the object that an address lies in, or right behind the end of.
///
/// # Safety
/// `block` is the address of a live [`Block`] with as many objects as it says.
unsafe fn find(block: u64, address: u64) -> u64 {
    // SAFETY: stated above.
    let (block, objects) = unsafe {
        let block = &*(block as *const Block);
        (block, std::slice::from_raw_parts(block.objects as *const Bounds, block.object_count as usize))
    };
    let (mut low, mut high) = (0, objects.len());
    while low < high {
        let middle = low + (high - low) / 2;
        match objects.get(middle) {
            Some(object) if object.base <= address => low = middle + 1,
            _ => high = middle,
        }
    }
    let last = low.checked_sub(1).and_then(|last| objects.get(last));
    let found = last.filter(|object| address.wrapping_sub(object.base) <= object.offset);
    std::ptr::from_ref(found.unwrap_or(&block.others)) as u64
}

/// A work-item comes to a barrier, or to the end of the kernel.
///
/// # Safety
/// As for [`note`]; `group` is the address of this thread's [`Group`].
unsafe fn arrive(block: u64, group: u64, site: u64, items: u64, number: u64, item: [u64; 3]) {
    // SAFETY: stated above.
    let state = unsafe { &mut *(group as *mut Group) };
    if state.arrived == 0 {
        *state = Group { stopped: 0, arrived: 0, site, first: number, differs: 0 };
    } else if state.site != site && state.differs == 0 {
        state.differs = 1;
        // SAFETY: the caller's promise.
        unsafe { note(block, site, [state.site, state.first, number], item) };
    }
    state.arrived += 1;
    if state.arrived == items {
        state.arrived = 0;
        state.stopped = state.differs;
    }
}

/// The address of the shadow of so many bytes, or `other`, if they are in no object whose shadow is kept.
///
/// # Safety
/// As for [`find`].
unsafe fn shadow(block: u64, address: u64, size: u64, other: u64) -> u64 {
    // SAFETY: the caller's promise; what is found lives as long as the block.
    let object = unsafe { &*(find(block, address) as *const Bounds) };
    let offset = address.wrapping_sub(object.base);
    let is_within = offset.checked_add(size).is_some_and(|end| end <= object.readable);
    if object.shadow != 0 && is_within { object.shadow + offset } else { other }
}

/// Copies a shadow; what comes from no shadow was written. Whether there was one, which says that no bit was written.
///
/// # Safety
/// Each is 0 or the address of `size` bytes of a shadow.
unsafe fn copy_shadow(to: u64, from: u64, size: u64) -> u64 {
    let size = size as usize;
    let source = (from != 0).then_some(from as *const u8);
    // SAFETY: stated above.
    let nothing = source.is_some_and(|from| size > 0 && (0..size).all(|at| unsafe { *from.add(at) == 0 }));
    if to != 0 {
        // SAFETY: stated above; they may overlap.
        unsafe {
            match source {
                Some(from) => std::ptr::copy(from, to as *mut u8, size),
                None => std::ptr::write_bytes(to as *mut u8, 0xff, size),
            }
        }
    }
    nothing.into()
}

export! {
    /// A check failed.
    spirula_check_note(block: u64, site: u64, a: u64, b: u64, c: u64, x: u64, y: u64, z: u64) -> () = {
        // SAFETY: checked kernels pass their own hidden argument.
        unsafe { note(block, site, [a, b, c], [x, y, z]) }
    };
    /// The address of the bounds of whatever a pointer leads to.
    spirula_check_find(block: u64, address: u64) -> u64 = {
        // SAFETY: as above.
        unsafe { find(block, address) }
    };
    /// The address of the shadow of so many bytes, or `other`.
    spirula_check_shadow(block: u64, address: u64, size: u64, other: u64) -> u64 = {
        // SAFETY: as above.
        unsafe { shadow(block, address, size, other) }
    };
    /// Sets so many bytes of a shadow, if there is one.
    spirula_check_fill_shadow(to: u64, byte: u64, size: u64) -> () = {
        if to != 0 {
            // SAFETY: checked kernels ask for that much of a shadow before.
            unsafe { std::ptr::write_bytes(to as *mut u8, byte as u8, size as usize) }
        }
    };
    /// Copies so many bytes of a shadow. 1 if none of them was written.
    spirula_check_copy_shadow(to: u64, from: u64, size: u64) -> u64 = {
        // SAFETY: as above.
        unsafe { copy_shadow(to, from, size) }
    };
    /// A work-item comes to a place where its group meets.
    spirula_check_arrive(block: u64, group: u64, site: u64, items: u64, number: u64, x: u64, y: u64, z: u64) -> () = {
        // SAFETY: as above, and a place in their local memory.
        unsafe { arrive(block, group, site, items, number, [x, y, z]) }
    };
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address<T>(of: &T) -> u64 {
        std::ptr::from_ref(of) as u64
    }

    fn block(records: &mut [Record], objects: &[Bounds]) -> Block {
        Block {
            records: records.as_mut_ptr() as u64,
            record_count: records.len() as u64,
            objects: objects.as_ptr() as u64,
            object_count: objects.len() as u64,
            others: Bounds { readable: 7, ..Bounds::default() },
            ..Block::default()
        }
    }

    #[test]
    fn the_first_work_items_finding_is_kept_and_all_are_counted() {
        let mut records = [Record::default(), Record::default()];
        let block = block(&mut records, &[]);
        for (value, item) in
            [(2, [20, 0, 0]), (1, [10, 0, 0]), (3, [10, 0, 0]), (4, [5, 1, 0]), (5, [0, 0, 1])]
        {
            let [x, y, z] = item;
            spirula_check_note(address(&block), 1, value, 0, 0, x, y, z);
        }
        spirula_check_note(address(&block), 2, 0, 0, 0, 0, 0, 0);
        assert_eq!(records[0].count.load(Relaxed), 0);
        assert_eq!(
            (records[1].count.load(Relaxed), records[1].values, records[1].item),
            (5, [1, 0, 0], [10, 0, 0])
        );
    }

    #[test]
    fn threads_agree_on_the_first_work_item() {
        let mut records = [Record::default()];
        let block = block(&mut records, &[]);
        let at = address(&block);
        std::thread::scope(|scope| {
            for thread in 0..4 {
                scope.spawn(move || {
                    for item in (0..1000).rev() {
                        let item = 4 * item + thread;
                        spirula_check_note(at, 0, item, item, item, item, 0, 0);
                    }
                });
            }
        });
        let [record] = &records;
        assert_eq!((record.count.load(Relaxed), record.values, record.item), (4000, [0; 3], [0; 3]));
    }

    #[test]
    fn the_object_of_an_address_is_found() {
        let bounds = |base, readable| Bounds { base, offset: readable, ..Bounds::default() };
        let objects = [bounds(100, 50), bounds(150, 10), bounds(1000, 1)];
        let block = block(&mut [], &objects);
        let found = |at| {
            let at = spirula_check_find(address(&block), at);
            objects.iter().position(|object| address(object) == at)
        };
        assert_eq!(
            [99, 100, 149, 150, 160, 161].map(found),
            [None, Some(0), Some(0), Some(1), Some(1), None]
        );
        assert_eq!([999, 1000, 1001, 1002, u64::MAX].map(found), [None, Some(2), Some(2), None, None]);
        assert_eq!(spirula_check_find(address(&block), 0), address(&block.others));
    }

    #[test]
    fn shadows_are_found_filled_and_copied() {
        let objects = [Bounds { base: 100, readable: 50, offset: 50, shadow: 7000, ..Bounds::default() }];
        let block = block(&mut [], &objects);
        let at = |address, size| spirula_check_shadow(std::ptr::from_ref(&block) as u64, address, size, 3);
        assert_eq!([at(100, 50), at(149, 1), at(150, 0)], [7000, 7049, 7050]);
        assert_eq!([at(100, 51), at(99, 1), at(150, 1), at(120, u64::MAX)], [3; 4]);

        let mut bytes = [0_u8; 8];
        let start = bytes.as_mut_ptr() as u64;
        spirula_check_fill_shadow(0, 1, 8);
        spirula_check_fill_shadow(start, 0xff, 3);
        assert_eq!(spirula_check_copy_shadow(start + 4, start + 2, 3), 0);
        assert_eq!(std::hint::black_box(bytes), [255, 255, 255, 0, 255, 0, 0, 0]);
        assert_eq!(spirula_check_copy_shadow(start, start + 5, 2), 1);
        assert_eq!(spirula_check_copy_shadow(start + 6, 0, 2), 0);
        assert_eq!(std::hint::black_box(bytes), [0, 0, 255, 0, 255, 0, 255, 255]);
    }

    #[test]
    fn who_is_elsewhere_stops_the_group() {
        let mut records = [Record::default(), Record::default(), Record::default()];
        let block = block(&mut records, &[]);
        let group = Group::default();
        let arrive = |site, number| {
            spirula_check_arrive(address(&block), address(&group), site, 3, number, number, 0, 0)
        };
        let stopped = || std::hint::black_box(&group).stopped;
        (0..3).for_each(|item| arrive(0, item));
        assert_eq!(stopped(), 0);
        [(1, 0), (2, 1), (2, 2)].into_iter().for_each(|(site, item)| arrive(site, item));
        assert_eq!(stopped(), 1);
        // The next group on this thread.
        (0..3).for_each(|item| arrive(0, item));
        assert_eq!(stopped(), 0);
        assert_eq!(
            (records[2].count.load(Relaxed), records[2].values, records[2].item),
            (1, [1, 0, 1], [1, 0, 0])
        );
        assert_eq!(records[1].count.load(Relaxed), 0);
    }
}
