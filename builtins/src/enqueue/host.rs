//! Device-side enqueue: the host's side, which owns queues and events and takes what kernels left.

use super::*;
use std::alloc::{Layout, alloc_zeroed};

/// Zeros, which take no memory until they are written to; None if the system has none.
fn zeroed(words: usize) -> Option<Box<[AtomicU64]>> {
    let layout = Layout::array::<AtomicU64>(words).ok().filter(|layout| layout.size() > 0)?;
    // SAFETY: the layout's size isn't zero; zeros are such words, and the box frees what was allocated with this layout.
    unsafe {
        let start = alloc_zeroed(layout).cast::<AtomicU64>();
        (!start.is_null()).then(|| Box::from_raw(std::ptr::slice_from_raw_parts_mut(start, words)))
    }
}

impl Slots {
    fn over(memory: &[AtomicU64], count: u32) -> Slots {
        Slots {
            memory: memory.as_ptr().expose_provenance() as u64,
            count,
            used: AtomicU32::new(0),
            free: AtomicU64::new(0),
        }
    }
}

/// A queue with its memory.
#[derive(Debug)]
pub struct OwnedQueue {
    queue: Box<Queue>,
    /// Slots of children that the host has taken from their parents and not opened.
    held: AtomicU32,
    _memory: Box<[AtomicU64]>,
}

/// A child in a queue, by its first slot. It is there until it is opened.
#[derive(Debug, PartialEq, Eq)]
pub struct Child(u32);

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
    pub fn new(number: u32, bytes: u32) -> Option<OwnedQueue> {
        let count = (bytes / SLOT_BYTES as u32).max(1);
        let memory = zeroed(count as usize * SLOT_WORDS)?;
        let queue = Box::new(Queue { slots: Slots::over(&memory, count), number });
        Some(OwnedQueue { queue, held: AtomicU32::new(0), _memory: memory })
    }

    /// What stands for it in kernels.
    pub fn address(&self) -> u64 {
        (&raw const *self.queue).expose_provenance() as u64
    }

    /// Which of a parent's lists is its.
    pub fn number(&self) -> u32 {
        self.queue.number
    }

    /// Slots in all.
    pub fn slots(&self) -> u32 {
        self.queue.slots.count
    }

    /// Slots that the host knows of no child in.
    pub fn room(&self) -> u32 {
        self.slots().saturating_sub(self.held.load(Relaxed))
    }

    fn words(&self) -> Words<'_> {
        // SAFETY: the memory is this queue's own, and borrowed with it.
        unsafe { self.queue.words() }
    }

    /// Takes a parent's children that are in this queue, the oldest first.
    pub fn children(&self, parent: &Parent) -> Vec<Child> {
        let mut list = Vec::new();
        let Some(newest) = parent.children.get(self.queue.number as usize) else { return list };
        let mut next = newest.swap(0, Acquire);
        while next != 0 && list.len() < self.queue.slots.count as usize {
            let slot = next as u32 - 1;
            list.push(Child(slot));
            self.held.fetch_add(self.head(&Child(slot)).slots(), Relaxed);
            next = self.words().word(slot as usize * SLOT_WORDS + 1).load(Relaxed);
        }
        list.reverse();
        list
    }

    fn read(&self, child: &Child) -> (Head, Record<'_>) {
        let mut record = Record::new(self.words(), child.0);
        record.get();
        let halves = |word: u64| (word as u32, (word >> 32) as u32);
        let (kernel, flags) = halves(record.get());
        let (work_dim, captured) = halves(record.get());
        let (waits, locals) = halves(record.get());
        let event = record.get();
        let mut sizes = || std::array::from_fn(|_| record.get());
        let range = NdRange { work_dim, offset: sizes(), global: sizes(), local: sizes() };
        (Head { kernel, flags, range, event, waits, locals, captured }, record)
    }

    /// A child as it was enqueued, but for what it captured.
    pub fn head(&self, child: &Child) -> Head {
        self.read(child).0
    }

    /// The events that a child waits for.
    pub fn waits(&self, child: &Child) -> Vec<u64> {
        let (head, mut record) = self.read(child);
        (0..head.waits).map(|_| record.get()).collect()
    }

    /// Takes a child out: its slots are free again.
    pub fn open(&self, child: Child) -> Opened {
        let (head, mut record) = self.read(&child);
        let waits = (0..head.waits).map(|_| record.get()).collect();
        let locals = (0..head.locals).map(|_| record.get()).collect();
        let captured = head.captured as usize;
        let mut captures: Vec<u8> =
            (0..captured.div_ceil(8)).flat_map(|_| record.get().to_ne_bytes()).collect();
        captures.truncate(captured);
        self.held.fetch_sub(head.slots(), Relaxed);
        self.queue.give_back(self.words(), child.0);
        Opened { head, waits, locals, captures }
    }
}

/// Events with their memory.
#[derive(Debug)]
pub struct OwnedEvents {
    events: Box<Events>,
    _memory: Box<[AtomicU64]>,
}

impl OwnedEvents {
    /// At most so many events, and at least one; None without memory.
    pub fn new(count: u32) -> Option<OwnedEvents> {
        let count = count.max(1);
        let memory = zeroed(count as usize * EVENT_WORDS)?;
        let events = Box::new(Events { slots: Slots::over(&memory, count), changes: AtomicU64::new(0) });
        Some(OwnedEvents { events, _memory: memory })
    }

    /// What stands for them in kernels.
    pub fn address(&self) -> u64 {
        (&raw const *self.events).expose_provenance() as u64
    }

    fn words(&self) -> Words<'_> {
        // SAFETY: the memory is these events' own, and borrowed with them.
        unsafe { self.events.words() }
    }

    /// Positive, CL_COMPLETE, or an error; None if there is no such event.
    pub fn status(&self, event: u64) -> Option<i32> {
        let place = self.events.live(self.words(), event)?;
        Some(place[STATUS].load(Acquire) as u32 as i32)
    }

    /// Whether a kernel sets its status.
    pub fn is_users(&self, event: u64) -> bool {
        self.events.live(self.words(), event).is_some_and(|place| place[IS_USERS].load(Relaxed) != 0)
    }

    /// Ends a kernel's event: CL_COMPLETE or an error, with the nanoseconds that the kernel ran, and with its children.
    pub fn end(&self, event: u64, status: i32, executed: u64, completed: u64) {
        if let Some(place) = self.events.live(self.words(), event) {
            place[EXECUTED].store(executed, Relaxed);
            place[COMPLETED].store(completed, Relaxed);
            self.events.end(self.words(), event, status);
        }
    }

    /// Gives up a reference.
    pub fn release(&self, event: u64) {
        self.events.release(self.words(), event);
    }

    /// Grows whenever an event ends.
    pub fn changes(&self) -> u64 {
        self.events.changes.load(Acquire)
    }
}
