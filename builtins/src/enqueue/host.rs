//! Device-side enqueue: the host's side, which owns queues and events and takes what kernels left.
//!
//! Kernels may run in another process, and may have written anything: of what lies in the memory only the atomic words are read here,
//! and none of them is believed to be a number of slots, a length or an address.

use super::*;
use std::fmt::Debug;
use std::ptr::NonNull;

/// Memory of a queue or of events.
///
/// # Safety
/// It must have been zero and aligned to 16, and be nobody else's but kernels' as long as this lives.
pub unsafe trait Memory: Debug + Send + Sync {
    /// Its first byte.
    fn start(&self) -> NonNull<u8>;

    /// Where the host writes so many bytes if a kernel wants them at this address of its own; None if it must not.
    fn place_of(&self, address: u64, bytes: usize) -> Option<u64>;
}

/// Gives memory of so many bytes; None if the system has none.
pub type Source<'a> = &'a dyn Fn(usize) -> Option<Box<dyn Memory>>;

/// Bytes in front of the slots.
const HEADER_BYTES: usize = 64;
const _: () = assert!(size_of::<Queue>() <= HEADER_BYTES && size_of::<Events>() <= HEADER_BYTES);

/// A header and slots.
#[derive(Debug)]
struct Block {
    memory: Box<dyn Memory>,
    count: u32,
    /// Words of a slot.
    each: usize,
}

impl Block {
    /// Writes the header, of which `make` is told the slots.
    fn new<T>(source: Source, count: u32, each: usize, make: impl FnOnce(Slots) -> T) -> Option<Block> {
        let memory = source(HEADER_BYTES + count as usize * each * size_of::<AtomicU64>())?;
        let block = Block { memory, count, each };
        let slots = Slots {
            memory: block.slots_start().expose_provenance() as u64,
            count,
            used: AtomicU32::new(0),
            free: AtomicU64::new(0),
        };
        // SAFETY: the memory begins with room for it, and is nobody else's yet.
        unsafe { block.memory.start().cast::<T>().write(make(slots)) };
        Some(block)
    }

    fn slots_start(&self) -> *mut AtomicU64 {
        // SAFETY: the slots are behind the header.
        unsafe { self.memory.start().as_ptr().add(HEADER_BYTES).cast() }
    }

    fn address(&self) -> u64 {
        self.memory.start().as_ptr().expose_provenance() as u64
    }

    /// # Safety
    /// It must be what the block was made with.
    unsafe fn header<T>(&self) -> &T {
        // SAFETY: the caller's promise; but for atomic words the host reads nothing of it.
        unsafe { self.memory.start().cast::<T>().as_ref() }
    }

    fn words(&self) -> Words<'_> {
        // SAFETY: the memory has so many words behind the header, at least one, and is borrowed with this.
        unsafe { Words::at(self.slots_start(), self.count as usize * self.each) }
    }
}

/// A queue with its memory.
#[derive(Debug)]
pub struct OwnedQueue {
    block: Block,
    number: u32,
    /// Slots of children that the host has taken from their parents and not opened.
    held: AtomicU32,
}

/// A child in a queue. It is there until it is opened.
#[derive(Debug, PartialEq, Eq)]
pub struct Child {
    first: u32,
    slots: u32,
}

/// A child that was taken out of its queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    /// All that is of fixed size.
    pub head: Head,
    /// The events that it waited for, which are still retained.
    pub waits: Vec<u64>,
    /// Bytes of its local arguments.
    pub locals: Vec<u64>,
    /// What its block captured.
    pub captures: Vec<u8>,
}

impl OwnedQueue {
    /// A queue of so many bytes, rounded down to slots, and at least one; None without memory. `number` is below [`MAX_QUEUES`].
    pub fn new(number: u32, bytes: u32, source: Source) -> Option<OwnedQueue> {
        let count = (bytes / SLOT_BYTES as u32).max(1);
        let block = Block::new(source, count, SLOT_WORDS, |slots| Queue { slots, number })?;
        Some(OwnedQueue { block, number, held: AtomicU32::new(0) })
    }

    fn queue(&self) -> &Queue {
        // SAFETY: made with one.
        unsafe { self.block.header() }
    }

    /// What stands for it in kernels.
    pub fn address(&self) -> u64 {
        self.block.address()
    }

    /// Which of a parent's lists is its.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Slots in all.
    pub fn slots(&self) -> u32 {
        self.block.count
    }

    /// Slots that the host knows of no child in.
    pub fn room(&self) -> u32 {
        self.slots().saturating_sub(self.held.load(Relaxed))
    }

    fn words(&self) -> Words<'_> {
        self.block.words()
    }

    /// Takes a parent's children that are in this queue, the oldest first.
    pub fn children(&self, parent: &Parent) -> Vec<Child> {
        let mut list = Vec::new();
        let Some(newest) = parent.children.get(self.number as usize) else { return list };
        let mut next = newest.swap(0, Acquire);
        while next != 0 && list.len() < self.slots() as usize {
            let first = (next as u32).wrapping_sub(1);
            let slots = self.read(first).0.slots();
            list.push(Child { first, slots });
            self.held.fetch_add(slots, Relaxed);
            next = self.words().word(first as usize * SLOT_WORDS + 1).load(Relaxed);
        }
        list.reverse();
        list
    }

    /// The record that begins there. One that is longer than the queue has slots is as none: of a kernel that there isn't.
    fn read(&self, first: u32) -> (Head, Record<'_>) {
        let mut record = Record::new(self.words(), first);
        record.get();
        let halves = |word: u64| (word as u32, (word >> 32) as u32);
        let (kernel, flags) = halves(record.get());
        let (work_dim, captured) = halves(record.get());
        let (waits, locals) = halves(record.get());
        let event = record.get();
        let mut sizes = || std::array::from_fn(|_| record.get());
        let range = NdRange { work_dim, offset: sizes(), global: sizes(), local: sizes() };
        let head = Head { kernel, flags, range, event, waits, locals, captured };
        let nonsense = Head { kernel: MARKER - 1, event, ..Head::default() };
        (if head.slots() <= self.slots() { head } else { nonsense }, record)
    }

    /// A child as it was enqueued, but for what it captured.
    pub fn head(&self, child: &Child) -> Head {
        self.read(child.first).0
    }

    /// The events that a child waits for.
    pub fn waits(&self, child: &Child) -> Vec<u64> {
        let (head, mut record) = self.read(child.first);
        (0..head.waits).map(|_| record.get()).collect()
    }

    /// Takes a child out: its slots are free again.
    pub fn open(&self, child: Child) -> Opened {
        let (head, mut record) = self.read(child.first);
        let waits = (0..head.waits).map(|_| record.get()).collect();
        let locals = (0..head.locals).map(|_| record.get()).collect();
        let captured = head.captured as usize;
        let mut captures: Vec<u8> =
            (0..captured.div_ceil(8)).flat_map(|_| record.get().to_ne_bytes()).collect();
        captures.truncate(captured);
        self.held.fetch_sub(child.slots, Relaxed);
        self.queue().give_back(self.words(), child.first);
        Opened { head, waits, locals, captures }
    }
}

/// Events with their memory.
#[derive(Debug)]
pub struct OwnedEvents(Block);

impl OwnedEvents {
    /// At most so many events, and at least one; None without memory.
    pub fn new(count: u32, source: Source) -> Option<OwnedEvents> {
        let make = |slots| Events { slots, changes: AtomicU64::new(0) };
        Block::new(source, count.max(1), EVENT_WORDS, make).map(OwnedEvents)
    }

    fn events(&self) -> &Events {
        // SAFETY: made with them.
        unsafe { self.0.header() }
    }

    /// What stands for them in kernels.
    pub fn address(&self) -> u64 {
        self.0.address()
    }

    fn words(&self) -> Words<'_> {
        self.0.words()
    }

    /// Positive, CL_COMPLETE, or an error; None if there is no such event.
    pub fn status(&self, event: u64) -> Option<i32> {
        let place = self.events().live(self.words(), event)?;
        Some(place[STATUS].load(Acquire) as u32 as i32)
    }

    /// Whether a kernel sets its status.
    pub fn is_users(&self, event: u64) -> bool {
        self.events().live(self.words(), event).is_some_and(|place| place[IS_USERS].load(Relaxed) != 0)
    }

    /// Ends a kernel's event: CL_COMPLETE or an error, with the nanoseconds that the kernel ran, and with its children.
    pub fn end(&self, event: u64, status: i32, executed: u64, completed: u64) {
        if let Some(place) = self.events().live(self.words(), event) {
            place[EXECUTED].store(executed, Relaxed);
            place[COMPLETED].store(completed, Relaxed);
            let place_of = |address| self.0.memory.place_of(address, 2 * size_of::<u64>());
            self.events().end_with(self.words(), event, status, place_of);
        }
    }

    /// Gives up a reference.
    pub fn release(&self, event: u64) {
        self.events().release(self.words(), event);
    }

    /// Grows whenever an event ends.
    pub fn changes(&self) -> u64 {
        self.events().changes.load(Acquire)
    }
}
