//! Lowering: where context slots and private slots lie.

use super::spaces;
use crate::transform::{ContextKind, WorkGroup};
use crate::{ContextSlot, Slot};

/// Private slots of more than this many bytes together lie in scratch memory instead of the thread's stack; so do those of
/// kernels that ask which pointers are private, for nobody knows where a stack ends.
const STACK_LIMIT: u64 = 16 * 1024;

/// Alignment of scratch memory, and the granularity in which work-items are counted there.
pub(super) const SCRATCH_ALIGN: u64 = 128;

/// Where a private slot lies.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum SlotPlace {
    /// No region uses it.
    Nowhere,
    /// On the stack; the work-items, or packs of them, use it one after the other.
    #[allow(missing_docs)]
    Stack { size: u64, align: u32 },
    /// That many bytes behind the per-item part of scratch.
    Scratch(u64),
}

/// The layout of one work-group's scratch memory: for each context slot an array over the work-items, then the large
/// private slots.
pub(super) struct Layout {
    /// Bytes for each work-item.
    pub per_item: u64,
    /// Bytes for the group.
    pub fixed: u64,
    /// Bytes of private memory that a work-item uses, wherever they lie.
    pub private_size: u64,
    before: Vec<u64>,
    slots: Vec<SlotPlace>,
}

impl Layout {
    pub(super) fn new(group: &WorkGroup, linear_memory: bool) -> Self {
        let mut per_item = 0;
        let before = group.context.iter().map(|kind| {
            let start = per_item;
            per_item += element_size(kind);
            start
        });
        let before = before.collect();
        let mut layout = Layout { per_item, fixed: 0, private_size: per_item, before, slots: Vec::new() };
        layout.place_slots(group, linear_memory);
        layout
    }

    /// Bytes for one work-item that lie before the slot's array; the array starts at this times the padded item count.
    pub(super) fn before(&self, slot: ContextSlot) -> u64 {
        self.before[slot.0 as usize]
    }

    /// Where a private slot lies.
    pub(super) fn slot(&self, slot: Slot) -> SlotPlace {
        self.slots[slot.index()]
    }

    fn place_slots(&mut self, group: &WorkGroup, linear_memory: bool) {
        let Some(first) = group.regions.first() else { return };
        let used = |slot: Slot| group.regions.iter().any(|r| r.body.uses_slot(slot));
        // Of a pack's lanes each has its own.
        let bodies = || {
            group
                .regions
                .iter()
                .flat_map(|r| std::iter::once(&r.body).chain(r.wide.as_ref().map(|w| &w.body)))
        };
        let slots: Vec<(Slot, u64, u64)> = (0..first.body.slots.len())
            .map(|i| {
                let all = || bodies().map(|body| body.slots[i]);
                let size = all().map(|data| data.size).max().unwrap_or(0);
                let align = all().map(|data| data.align).max().unwrap_or(1);
                (Slot(i as u32), size, u64::from(align).max(1))
            })
            .collect();
        let total: u64 = slots.iter().filter(|s| used(s.0)).map(|s| s.1).sum();
        self.private_size += total;
        let on_stack = !linear_memory && total <= STACK_LIMIT && !spaces::asks_for_private(group);
        for (slot, size, align) in slots {
            let place = if !used(slot) {
                SlotPlace::Nowhere
            } else if on_stack {
                SlotPlace::Stack { size, align: align as u32 }
            } else {
                let at = self.fixed.next_multiple_of(align.min(SCRATCH_ALIGN));
                self.fixed = at + size;
                SlotPlace::Scratch(at)
            };
            self.slots.push(place);
        }
    }
}

/// Bytes of a slot for one work-item; a uniform slot is no memory.
pub(super) fn element_size(kind: &ContextKind) -> u64 {
    match kind {
        ContextKind::Uniform(_) | ContextKind::Reduction(..) | ContextKind::Carry(..) => 0,
        ContextKind::Varying(ty) | ContextKind::Affine { ty, .. } | ContextKind::Interleaved { ty, .. } => {
            ty.size()
        }
        ContextKind::Memory { size, align } => size.next_multiple_of(u64::from(*align).max(1)),
    }
}
