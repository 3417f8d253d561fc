//! Device-side enqueue (OpenCL C 2.0, 6.13.17): what kernels leave for the host to run, and the events that order it.
//!
//! A kernel that enqueues gets the address of a [`Parent`], its launch's own. A queue on the device is a fixed number of slots
//! of 256 bytes. `enqueue_kernel` takes as many as a child's record needs, fills them and pushes the record onto the parent's
//! list of that queue; if there are not enough, the queue is full. The host takes the lists when the parent's work-groups have
//! ended, and gives the slots back when it starts a child. Events are slots of their own, which count their references.
//!
//! Nothing here waits. Free slots are a stack (R. K. Treiber), whose head has a number that changes with each exchange, so
//! that a slot which was taken and given back meanwhile is told from one that stayed; slots that were never used come from
//! a counter, and their memory is not touched before. The lists are stacks to which kernels only push and from which the host
//! only takes all. All shared memory is atomic words.

use std::marker::PhantomData;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use std::sync::atomic::{AtomicU32, AtomicU64};

/// CL_DEVICE_MAX_ON_DEVICE_QUEUES, of a context.
pub const MAX_QUEUES: usize = 8;

/// Words of a queue's slot: the next slot of the record, and the record's.
const SLOT_WORDS: usize = 32;
const SLOT_DATA: usize = SLOT_WORDS - 1;
/// Bytes of a queue's slot.
pub const SLOT_BYTES: usize = SLOT_WORDS * 8;
/// Words in front of a record's wait list, sizes and captures.
const HEAD_WORDS: usize = 14;
/// Words of an event.
const EVENT_WORDS: usize = 8;

/// What `enqueue_kernel` returns (OpenCL C 2.0, 6.13.17.1).
pub mod code {
    #![allow(missing_docs)]
    pub const SUCCESS: i32 = 0;
    pub const ENQUEUE_FAILURE: i32 = -101;
    pub const INVALID_QUEUE: i32 = -102;
    pub const INVALID_NDRANGE: i32 = -160;
    pub const INVALID_EVENT_WAIT_LIST: i32 = -57;
    pub const DEVICE_QUEUE_FULL: i32 = -161;
    pub const INVALID_ARG_SIZE: i32 = -51;
    pub const EVENT_ALLOCATION_FAILURE: i32 = -100;
    pub const OUT_OF_RESOURCES: i32 = -5;
}

/// CLK_ENQUEUE_FLAGS_WAIT_KERNEL: the child begins when all of its parent's work-groups have ended; with the other flags it may
/// when the one has that enqueued it.
pub const WAIT_KERNEL: u32 = 1;

/// The number in place of a kernel's of a marker, which only waits.
pub const MARKER: u32 = u32::MAX;

/// CL_COMPLETE: an event has ended if its status is this or negative.
const COMPLETE: i32 = 0;
/// CL_SUBMITTED.
const SUBMITTED: i32 = 2;

/// `ndrange_t` (SPIR 2.0, 2.1.3.6), which a program has with sizes as wide as its pointers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NdRange {
    /// 1 to 3.
    pub work_dim: u32,
    /// Zeros beyond the dimensions.
    pub offset: [u64; 3],
    /// Ones beyond the dimensions.
    pub global: [u64; 3],
    /// Zeros if none was given; ones beyond the dimensions.
    pub local: [u64; 3],
}

impl NdRange {
    /// Whether a kernel can run in it, of a program whose sizes have so many bytes.
    pub fn is_valid(&self, facts: &KernelFacts, width: u32) -> bool {
        let largest = if width == 4 { u64::from(u32::MAX) } else { u64::MAX };
        let NdRange { work_dim, offset, global, local } = *self;
        if !(1..=3).contains(&work_dim) {
            return false;
        }
        let given = local[0] | local[1] | local[2] != 0;
        let (mut all, mut items) = (1_u64, 1_u64);
        for axis in [0, 1, 2] {
            let (Some(product), Some(_)) = (
                all.checked_mul(global[axis]),
                offset[axis].checked_add(global[axis]).filter(|&end| end <= largest),
            ) else {
                return false;
            };
            all = product;
            if given {
                let uniform = local[axis] != 0 && global[axis].checked_rem(local[axis]) == Some(0);
                let fits = uniform || local[axis] != 0 && facts.remainder_groups != 0;
                items = items.saturating_mul(local[axis]);
                if !fits {
                    return false;
                }
            }
        }
        items <= u64::from(facts.max_group_size)
    }
}

/// What a launch's hidden argument points at.
#[repr(C)]
#[derive(Debug, Default)]
pub struct Parent {
    /// The newest child of each queue: its first slot's number and one; 0 for none.
    pub children: [AtomicU64; MAX_QUEUES],
    /// The address of the default [`Queue`], or 0.
    pub default_queue: u64,
    /// The address of the [`Events`].
    pub events: u64,
    /// The address of the program's [`KernelFacts`].
    pub kernels: u64,
    /// How many there are.
    pub kernel_count: u32,
    /// Bytes of local memory that a work-group may have.
    pub local_memory: u64,
}

/// What kernels can ask, or must heed, of a kernel.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct KernelFacts {
    /// Work-items that a group may have.
    pub max_group_size: u32,
    /// CL_KERNEL_PREFERRED_WORK_GROUP_SIZE_MULTIPLE.
    pub preferred_multiple: u32,
    /// Work-items of a sub-group, if a group's rows are multiples of it or one row is all; else one.
    pub sub_group_size: u32,
    /// Whether that is so of all groups, whose rows end within sub-groups.
    pub rows_end_sub_groups: u32,
    /// Local memory of its own.
    pub static_local_size: u32,
    /// Whether groups at the end of a range may be smaller.
    pub remainder_groups: u32,
}

impl KernelFacts {
    /// Why sizes of local memory are none that the kernel can have; [`code::SUCCESS`] if they are.
    pub fn check_locals(&self, sizes: impl Iterator<Item = u64>, most: u64) -> i32 {
        let mut bytes = u64::from(self.static_local_size);
        for size in sizes {
            if size == 0 {
                return code::INVALID_ARG_SIZE;
            }
            // As the host aligns it.
            bytes = bytes.saturating_add(127) / 128 * 128;
            bytes = bytes.saturating_add(size);
        }
        if bytes > most { code::OUT_OF_RESOURCES } else { code::SUCCESS }
    }
}

/// Words of shared memory. A number beyond the end is the last word's.
#[derive(Clone, Copy, Debug)]
struct Words<'a> {
    start: *const AtomicU64,
    last: usize,
    owner: PhantomData<&'a [AtomicU64]>,
}

impl<'a> Words<'a> {
    /// # Safety
    /// There must be `count` words, and at least one, for `'a`.
    unsafe fn at(start: *const AtomicU64, count: usize) -> Words<'a> {
        Words { start, last: count - 1, owner: PhantomData }
    }

    /// Slots of so many words.
    fn slots(self, each: usize) -> u64 {
        (self.last as u64 + 1) / each as u64
    }

    fn word(self, index: usize) -> &'a AtomicU64 {
        // SAFETY: at most the last of the words that there are.
        unsafe { &*self.start.add(if index < self.last { index } else { self.last }) }
    }
}

/// Slots that are taken and given back. Their first word links those that are free.
#[repr(C)]
#[derive(Debug)]
struct Slots {
    /// The address of the words.
    memory: u64,
    /// Slots in all.
    count: u32,
    /// Slots that were ever used.
    used: AtomicU32,
    /// The number and one of the first that is free, and how often this changed.
    free: AtomicU64,
}

impl Slots {
    /// The words of all slots.
    ///
    /// # Safety
    /// `memory` must be the address of so many words for each slot, while these are borrowed, and there must be a slot.
    unsafe fn words(&self, each: usize) -> Words<'_> {
        let start = std::ptr::with_exposed_provenance(self.memory as usize);
        // SAFETY: the caller's promise.
        unsafe { Words::at(start, self.count as usize * each) }
    }

    fn take(&self, words: Words, each: usize) -> Option<u32> {
        let mut head = self.free.load(Acquire);
        while head as u32 != 0 {
            let slot = head as u32 - 1;
            let next = words.word(slot as usize * each).load(Relaxed) as u32;
            match self.free.compare_exchange_weak(head, changed(head, next), AcqRel, Acquire) {
                Ok(_) => return Some(slot),
                Err(now) => head = now,
            }
        }
        let mut used = self.used.load(Relaxed);
        while used < self.count {
            match self.used.compare_exchange_weak(used, used + 1, Relaxed, Relaxed) {
                Ok(_) => return Some(used),
                Err(now) => used = now,
            }
        }
        None
    }

    fn give_back(&self, words: Words, each: usize, slot: u32) {
        let mut head = self.free.load(Relaxed);
        loop {
            words.word(slot as usize * each).store(u64::from(head as u32), Relaxed);
            match self.free.compare_exchange_weak(head, changed(head, slot + 1), AcqRel, Relaxed) {
                Ok(_) => return,
                Err(now) => head = now,
            }
        }
    }
}

/// A head with another first slot.
fn changed(head: u64, first: u32) -> u64 {
    ((head >> 32).wrapping_add(1) << 32) | u64::from(first)
}

/// A queue on the device.
#[repr(C)]
#[derive(Debug)]
pub struct Queue {
    slots: Slots,
    /// Below [`MAX_QUEUES`].
    number: u32,
}

/// A child as it was enqueued, but for what it captured.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// The kernel's number in its program, or [`MARKER`].
    pub kernel: u32,
    /// `kernel_enqueue_flags_t`.
    pub flags: u32,
    /// The range.
    pub range: NdRange,
    /// Its event, or 0.
    pub event: u64,
    /// Events that it waits for.
    pub waits: u32,
    /// Sizes of local memory.
    pub locals: u32,
    /// Bytes that the block captured.
    pub captured: u32,
}

impl Head {
    /// The slots that the record takes.
    pub fn slots(&self) -> u32 {
        (HEAD_WORDS + payload_words(self.waits, self.locals, self.captured)).div_ceil(SLOT_DATA) as u32
    }
}

/// The words behind the head: waits and sizes one each, and the captures.
fn payload_words(waits: u32, locals: u32, captured: u32) -> usize {
    waits as usize + locals as usize + (captured as usize).div_ceil(8)
}

/// A record's words, which follow each other through its slots.
#[derive(Clone, Copy)]
struct Record<'a> {
    words: Words<'a>,
    slot: u32,
    /// Of the slot; the first word is the link.
    index: usize,
}

impl<'a> Record<'a> {
    fn new(words: Words<'a>, slot: u32) -> Record<'a> {
        Record { words, slot, index: 1 }
    }

    /// The next word.
    fn next(&mut self) -> &'a AtomicU64 {
        if self.index == SLOT_WORDS {
            let link = self.words.word(self.slot as usize * SLOT_WORDS).load(Relaxed);
            (self.slot, self.index) = (link as u32, 1);
        }
        let word = self.words.word(self.slot as usize * SLOT_WORDS + self.index);
        self.index += 1;
        word
    }

    fn put(&mut self, value: u64) {
        self.next().store(value, Relaxed);
    }

    fn get(&mut self) -> u64 {
        self.next().load(Relaxed)
    }

    fn put_head(&mut self, head: &Head) {
        self.put(u64::from(head.kernel) | u64::from(head.flags) << 32);
        self.put(u64::from(head.range.work_dim) | u64::from(head.captured) << 32);
        self.put(u64::from(head.waits) | u64::from(head.locals) << 32);
        self.put(head.event);
        let NdRange { offset, global, local, .. } = head.range;
        for sizes in [offset, global, local] {
            sizes.into_iter().for_each(|size| self.put(size));
        }
    }
}

impl Queue {
    /// # Safety
    /// The queue's memory must be there.
    unsafe fn words(&self) -> Words<'_> {
        // SAFETY: the caller's promise.
        unsafe { self.slots.words(SLOT_WORDS) }
    }

    /// Slots for so many words, linked; None if there are not enough.
    fn take(&self, words: Words, count: usize) -> Option<u32> {
        let mut first = None;
        let mut left = count.div_ceil(SLOT_DATA);
        while left > 0 {
            let Some(slot) = self.slots.take(words, SLOT_WORDS) else {
                if let Some(first) = first {
                    self.give_back(words, first);
                }
                return None;
            };
            let next = first.map_or(u64::MAX, u64::from);
            words.word(slot as usize * SLOT_WORDS).store(next, Relaxed);
            first = Some(slot);
            left -= 1;
        }
        first
    }

    /// Gives a record's slots back, as many as there are at most.
    fn give_back(&self, words: Words, first: u32) {
        let count = words.slots(SLOT_WORDS);
        let (mut slot, mut left) = (u64::from(first), count);
        while slot < count && left > 0 {
            let next = words.word(slot as usize * SLOT_WORDS).load(Relaxed);
            self.slots.give_back(words, SLOT_WORDS, slot as u32);
            slot = next;
            left -= 1;
        }
    }
}

/// The events of a context. An event's number has its slot and one, and above how often that was used: no more bits than a pointer of
/// 32, in whose place it goes.
#[repr(C)]
#[derive(Debug)]
pub struct Events {
    slots: Slots,
    /// How often an event's status was set.
    changes: AtomicU64,
}

/// An event's words: the free list's link; uses << 32 | references; status; what else is told of it.
mod event_word {
    pub const USES: usize = 1;
    pub const STATUS: usize = 2;
    pub const EXECUTED: usize = 3;
    pub const COMPLETED: usize = 4;
    /// Where the times are wanted.
    pub const WANTED: usize = 5;
    pub const IS_USERS: usize = 6;
}
use event_word::*;

/// Bits of an event's number that say which slot is its.
const SLOT_BITS: u32 = 17;
/// CL_DEVICE_MAX_ON_DEVICE_EVENTS, of a context.
pub const MAX_EVENTS: u32 = 1 << (SLOT_BITS - 1);

/// An event's number.
fn event_number(uses: u64, slot: u32) -> u64 {
    u64::from((uses as u32) << SLOT_BITS | (slot + 1))
}

/// The slot of an event's number; a very large one for none.
fn event_slot(event: u64) -> u32 {
    (event as u32 & ((1 << SLOT_BITS) - 1)).wrapping_sub(1)
}

impl Events {
    /// # Safety
    /// The events' memory must be there.
    unsafe fn words(&self) -> Words<'_> {
        // SAFETY: the caller's promise.
        unsafe { self.slots.words(EVENT_WORDS) }
    }

    /// The words of an event that is alive.
    fn live<'a>(&self, words: Words<'a>, event: u64) -> Option<[&'a AtomicU64; EVENT_WORDS]> {
        let slot = event_slot(event);
        if u64::from(slot) >= words.slots(EVENT_WORDS) {
            return None;
        }
        let place: [&AtomicU64; EVENT_WORDS] =
            std::array::from_fn(|index| words.word(slot as usize * EVENT_WORDS + index));
        let uses = place[USES].load(Acquire);
        (event_number(uses >> 32, slot) == event && uses as u32 != 0).then_some(place)
    }

    fn create(&self, words: Words, references: u32, is_users: bool) -> Option<u64> {
        let slot = self.slots.take(words, EVENT_WORDS)?;
        let word = |index| words.word(slot as usize * EVENT_WORDS + index);
        word(STATUS).store(SUBMITTED as u64, Relaxed);
        word(WANTED).store(0, Relaxed);
        word(IS_USERS).store(is_users.into(), Relaxed);
        let uses = word(USES).load(Relaxed) >> 32;
        word(USES).store(uses << 32 | u64::from(references), Release);
        Some(event_number(uses, slot))
    }

    fn retain(&self, words: Words, event: u64) -> bool {
        let Some(place) = self.live(words, event) else { return false };
        place[USES].fetch_add(1, Relaxed);
        true
    }

    fn release(&self, words: Words, event: u64) {
        let Some(place) = self.live(words, event) else { return };
        if place[USES].fetch_sub(1, AcqRel) as u32 == 1 {
            // Numbers of this use are no event's from now on.
            place[USES].fetch_add(1 << 32, Relaxed);
            self.slots.give_back(words, EVENT_WORDS, event_slot(event));
        }
    }

    /// Ends an event; false if it had ended, or is none.
    fn end(&self, words: Words, event: u64, status: i32) -> bool {
        self.end_with(words, event, status, Some)
    }

    /// The same by who does not write to every address that a kernel wants times at, nor always has them in the same place.
    fn end_with(&self, words: Words, event: u64, status: i32, place_of: impl Fn(u64) -> Option<u64>) -> bool {
        let Some(place) = self.live(words, event) else { return false };
        let (old, new) = (SUBMITTED as u64, u64::from(status as u32));
        let first = place[STATUS].compare_exchange(old, new, SeqCst, Acquire).is_ok();
        if first {
            tell_times(place, place_of);
            self.changes.fetch_add(1, Release);
        }
        first
    }
}

/// Writes an event's times to where they are wanted, if they are and it has ended.
fn tell_times(place: [&AtomicU64; EVENT_WORDS], place_of: impl Fn(u64) -> Option<u64>) {
    if place[STATUS].load(SeqCst) as u32 as i32 > COMPLETE {
        return;
    }
    let wanted = place[WANTED].swap(0, SeqCst);
    if wanted != 0
        && let Some(address) = place_of(wanted)
    {
        let to = std::ptr::with_exposed_provenance_mut::<u64>(address as usize);
        // SAFETY: the kernel that asked for the times promised room for two numbers until the event has ended, and who does not
        // believe it has looked.
        unsafe {
            to.write_unaligned(place[EXECUTED].load(Relaxed));
            to.wrapping_add(1).write_unaligned(place[COMPLETED].load(Relaxed));
        }
    }
}

#[cfg(not(spirula_bitcode))]
pub mod host;
mod kernel;

pub use kernel::*;
