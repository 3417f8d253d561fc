//! Who accessed some bytes last, and whether who comes now races with them.

use super::LAST_PHASE;
use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// What is known of four bytes, or of one. Whoever changes one that other threads may use has it locked; zero at first.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Cell {
    /// The tag that the rest is valid under, and flags above it.
    head: AtomicU64,
    /// Who wrote last: the work-item, the phase, the site.
    writer: AtomicU64,
    /// Who read last.
    reader: AtomicU64,
    /// What was written last, and above it a work-item that shares one of both places.
    rest: AtomicU64,
}

/// Bytes of a [`Cell`].
pub const CELL_BYTES: u64 = size_of::<Cell>() as u64;

/// The cell is being changed.
const LOCKED: u64 = 1 << 63;
/// Each byte has a cell of its own.
const SPLIT: u64 = 1 << 62;
/// The value is known.
const KNOWN: u64 = 1 << 61;
/// Flags of a place begin here.
const WRITER: u32 = 32;
const READER: u32 = 40;
/// Somebody is there.
const TAKEN: u64 = 1;
/// Whoever is there now is atomic.
const ATOMIC: u64 = 2;
/// Somebody who ever was there was not atomic.
const PLAIN: u64 = 4;
/// Several work-items of the group.
const ITEMS: u64 = 8;
/// Several groups.
const GROUPS: u64 = 16;
/// A place's bits of the phase.
const PHASE: u64 = 0xffff << 32;
/// Those of the work-item as well.
const ITEM_AND_PHASE: u64 = (1 << 48) - 1;

/// An access of some bytes.
#[derive(Clone, Copy)]
pub struct Access {
    /// The work-item's number in the launch.
    pub item: u32,
    /// That of the first of its group.
    pub first: u32,
    /// How many numbers the group has.
    pub items: u32,
    /// What cells are valid under.
    pub tag: u32,
    /// Barriers before it.
    pub phase: u16,
    /// Where in the kernel.
    pub site: u16,
    pub writes: bool,
    pub atomic: bool,
    /// What others of its group did counts as done before.
    pub ordered_within: bool,
    /// What other groups did does.
    pub behind_others: bool,
    /// What it writes, if that is known.
    pub value: Option<u32>,
}

/// Somebody else's access that nothing orders with this one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Found {
    pub item: u32,
    pub site: u16,
    /// Both write, and the same.
    pub same_value: bool,
}

/// The part of a grain that is accessed.
pub struct Unit<'c> {
    pub cell: &'c Cell,
    /// The address of the cells of its bytes.
    pub bytes: u64,
    pub has_bytes: bool,
    /// The first byte, and how many.
    pub from: u64,
    pub size: u64,
}

/// A cell's content.
#[derive(Clone, Copy)]
struct Content {
    head: u64,
    writer: u64,
    reader: u64,
    value: u32,
    other: u32,
}

impl Access {
    /// The work-item and the phase, as places have them.
    fn key(&self) -> u64 {
        u64::from(self.item) | u64::from(self.phase) << 32
    }

    fn is_of_group(&self, item: u32) -> bool {
        item.wrapping_sub(self.first) < self.items
    }

    /// Whether the cell says all that this access would make it say, so that whoever comes next finds it.
    #[inline]
    pub fn is_known(&self, cell: &Cell) -> bool {
        let head = cell.head.load(Relaxed);
        if head as u32 != self.tag || head & (LOCKED | SPLIT) != 0 || self.atomic {
            return false;
        }
        let (place, shift) = if self.writes { (&cell.writer, WRITER) } else { (&cell.reader, READER) };
        let flags = head >> shift;
        if flags & (TAKEN | ATOMIC) != TAKEN {
            return false;
        }
        let there = place.load(Relaxed);
        let mine = there & ITEM_AND_PHASE == self.key();
        // Several of this group, in this phase.
        let ours = flags & (ITEMS | GROUPS) == ITEMS
            && (there ^ self.key()) & PHASE == 0
            && self.is_of_group(there as u32);
        if !self.writes {
            return mine || ours || flags & (GROUPS | PLAIN) == GROUPS | PLAIN;
        }
        if head & KNOWN == 0 {
            return false;
        }
        let Some(value) = self.value else { return false };
        let rest = cell.rest.load(Relaxed);
        if flags & (ITEMS | GROUPS) != 0 {
            // All of them were told if they did not write the same.
            return rest as u32 == value && (ours || flags & (GROUPS | PLAIN) == GROUPS | PLAIN);
        }
        if !mine {
            return false;
        }
        if rest as u32 != value {
            // Whoever comes between is found by its place, and told what either value was.
            cell.rest.store(rest & !u64::from(u32::MAX) | u64::from(value), Relaxed);
        }
        true
    }
}

impl Unit<'_> {
    /// Enters an access. Somebody whom it races with.
    pub fn access<const SHARED: bool>(&self, access: &Access) -> Option<Found> {
        if self.size == super::GRAIN && access.is_known(self.cell) {
            return None;
        }
        self.enter::<SHARED>(access)
    }

    fn enter<const SHARED: bool>(&self, access: &Access) -> Option<Found> {
        let mut content = self.cell.open::<SHARED>(access.tag);
        if self.size == super::GRAIN && content.head & SPLIT == 0 {
            let found = content.enter(access);
            self.cell.close::<SHARED>(&content);
            return found;
        }
        if self.has_bytes && content.head & SPLIT == 0 {
            for byte in 0..super::GRAIN {
                let value = content.value >> (8 * byte) & 0xff;
                self.byte(byte).close::<false>(&Content { value, ..content });
            }
            content.head |= SPLIT;
        }
        self.cell.close::<SHARED>(&content);
        if !self.has_bytes {
            return None;
        }
        let mut first = None;
        for byte in self.from..self.from + self.size {
            let value = access.value.map(|value| value >> (8 * (byte - self.from)) & 0xff);
            let cell = self.byte(byte);
            let mut content = cell.open::<SHARED>(access.tag);
            let found = content.enter(&Access { value, ..*access });
            cell.close::<SHARED>(&content);
            // Bytes that are the same don't make up for one that isn't.
            first = match (first, found) {
                (Some(Found { same_value: false, .. }), _) | (_, None) => first,
                (_, found) => found,
            };
        }
        first
    }

    fn byte(&self, byte: u64) -> &Cell {
        // SAFETY: each byte of the region has one.
        unsafe { &*(self.bytes as *const Cell).add(byte as usize) }
    }
}

impl Cell {
    /// What it says under a tag, nothing if it isn't of that; other threads wait until it is closed.
    fn open<const SHARED: bool>(&self, tag: u32) -> Content {
        let mut head = self.head.load(Relaxed);
        if SHARED {
            loop {
                if head & LOCKED == 0 {
                    match self.head.compare_exchange_weak(head, head | LOCKED, Acquire, Relaxed) {
                        Ok(_) => break,
                        Err(now) => head = now,
                    }
                } else {
                    head = self.head.load(Relaxed);
                }
            }
        }
        if head as u32 != tag {
            return Content { head: tag.into(), writer: 0, reader: 0, value: 0, other: 0 };
        }
        let rest = self.rest.load(Relaxed);
        Content {
            head,
            writer: self.writer.load(Relaxed),
            reader: self.reader.load(Relaxed),
            value: rest as u32,
            other: (rest >> 32) as u32,
        }
    }

    fn close<const SHARED: bool>(&self, content: &Content) {
        self.writer.store(content.writer, Relaxed);
        self.reader.store(content.reader, Relaxed);
        self.rest.store(u64::from(content.value) | u64::from(content.other) << 32, Relaxed);
        self.head.store(content.head & !LOCKED, if SHARED { Release } else { Relaxed });
    }

    /// Whether others of a work-item's group, or of other groups, have written it.
    pub fn written_by_others(&self, tag: u32, item: u32, (first, items): (u32, u32)) -> (bool, bool) {
        let head = self.head.load(Acquire);
        let flags = head >> WRITER;
        if head as u32 != tag || head & SPLIT != 0 || flags & TAKEN == 0 {
            // Of bytes it isn't looked up.
            return (head as u32 == tag && head & SPLIT != 0, head as u32 == tag && head & SPLIT != 0);
        }
        let writer = self.writer.load(Relaxed) as u32;
        let of_group = writer.wrapping_sub(first) < items;
        (flags & ITEMS != 0 || of_group && writer != item, flags & GROUPS != 0 || !of_group)
    }
}

impl Content {
    fn enter(&mut self, access: &Access) -> Option<Found> {
        let found = self.race(access);
        let before = match access.writes {
            true => &mut self.writer,
            false => &mut self.reader,
        };
        let shift = if access.writes { WRITER } else { READER };
        let flags = self.head >> shift & 0xff;
        let (item, phase) = (*before as u32, (*before >> 32) as u16);
        let own = u64::from(access.site) << 48 | access.key();
        let kind = if access.atomic { ATOMIC } else { PLAIN };
        // Who was not atomic stays known: that races with more.
        let ever = flags & (PLAIN | GROUPS);
        let new = if flags & TAKEN == 0 {
            *before = own;
            kind
        } else if !access.is_of_group(item) {
            self.other = item;
            *before = own;
            ever | GROUPS | kind
        } else if phase != access.phase {
            *before = own;
            ever | kind
        } else {
            let several = flags & ITEMS | if item == access.item { 0 } else { ITEMS };
            if item != access.item {
                self.other = item;
            }
            let atomic = flags & ATOMIC & kind;
            if !access.atomic || atomic != 0 {
                *before = own;
            }
            ever | several | atomic | kind & PLAIN
        };
        self.head = self.head & !(0xff << shift) | (new | TAKEN) << shift;
        if access.writes {
            self.head &= !KNOWN;
            if let (Some(value), false) = (access.value, access.atomic) {
                self.value = value;
                self.head |= KNOWN;
            }
        }
        found
    }

    fn race(&self, access: &Access) -> Option<Found> {
        let written = self.meets(access, self.writer, self.head >> WRITER);
        if let Some(found) = written {
            let same = access.writes && !access.atomic && self.head & KNOWN != 0;
            let found = Found { same_value: same && access.value == Some(self.value), ..found };
            if !found.same_value {
                return Some(found);
            }
        }
        let read = if access.writes { self.meets(access, self.reader, self.head >> READER) } else { None };
        read.or(written.map(|found| Found { same_value: true, ..found }))
    }

    /// Somebody else of a place whom nothing orders with this access.
    fn meets(&self, access: &Access, place: u64, flags: u64) -> Option<Found> {
        if flags & TAKEN == 0 {
            return None;
        }
        let (item, phase, site) = (place as u32, (place >> 32) as u16, (place >> 48) as u16);
        let of_group = access.is_of_group(item);
        let found = |item| Some(Found { item, site, same_value: false });
        let at_once = of_group && phase == access.phase && phase != LAST_PHASE && !access.ordered_within;
        if at_once && !(access.atomic && flags & ATOMIC != 0) {
            if item != access.item {
                return found(item);
            }
            if flags & ITEMS != 0 {
                return found(self.other);
            }
        }
        if !(access.behind_others || access.atomic && flags & PLAIN == 0) {
            if !of_group {
                return found(item);
            }
            if flags & GROUPS != 0 {
                return found(self.other);
            }
        }
        None
    }
}
