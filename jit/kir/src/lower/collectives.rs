//! Lowering: what a group's work-items combine. Each pack adds to a vector, the rest of a row to a scalar, both in registers as
//! far as the back end can see to it; behind the loops they become one value.

use super::Lowering;
use super::layout::SCRATCH_ALIGN;
use crate::transform::{ContextKind, Region};
use crate::{ContextSlot, Function, Op, ReduceOp, Type, Value};
use std::collections::BTreeSet;

/// The reductions and scans of a region: slots and what they combine with.
fn combined(body: &Function, context: &[ContextKind]) -> BTreeSet<ContextSlot> {
    let slots = body.insts().filter_map(|inst| match *body.op(inst) {
        Op::ContextStore(slot, _) | Op::ContextScan { slot, .. } => Some(slot),
        _ => None,
    });
    let combines = |slot: &ContextSlot| {
        matches!(context[slot.0 as usize], ContextKind::Reduction(..) | ContextKind::Carry(..))
    };
    slots.filter(combines).collect()
}

/// A scalar type in so many lanes; one is the scalar itself.
pub(super) fn in_lanes(ty: &Type, lanes: u32) -> Type {
    match ty {
        Type::Scalar(scalar) if lanes > 1 => Type::Vector(*scalar, lanes),
        _ => ty.clone(),
    }
}

pub(super) fn alignment(ty: &Type) -> u32 {
    ty.align().min(SCRATCH_ALIGN) as u32
}

impl Lowering<'_, '_> {
    /// The numbers of lanes in which a region's work-items combine values.
    fn widths(&self, region: &Region) -> Vec<u32> {
        let wide = region.wide.as_ref().filter(|_| self.packs.is_some());
        std::iter::once(1).chain(wide.map(|wide| wide.lanes)).collect()
    }

    /// In front of a region's loops: nothing is combined yet.
    pub(super) fn begin_collectives(&mut self, region: &Region) {
        for slot in combined(&region.body, &self.group.context) {
            match &self.group.context[slot.0 as usize] {
                ContextKind::Reduction(op, ty) => {
                    for lanes in self.widths(region) {
                        let place = self.memory.partial[&(slot, lanes)];
                        self.store_identity(*op, place, &in_lanes(ty, lanes));
                    }
                }
                ContextKind::Carry(op, ty) => {
                    self.store_identity(*op, self.memory.context[slot.0 as usize], ty);
                }
                _ => {}
            }
        }
    }

    fn store_identity(&mut self, op: ReduceOp, place: Value, ty: &Type) {
        let identity = op.identity_of(self.out.function, ty);
        self.out.store(place, identity, alignment(ty));
    }

    /// Behind a region's loops: what packs and single work-items combined becomes the group's value.
    pub(super) fn end_collectives(&mut self, region: &Region) {
        for slot in combined(&region.body, &self.group.context) {
            let ContextKind::Reduction(op, ty) = &self.group.context[slot.0 as usize] else { continue };
            let mut whole: Option<Value> = None;
            for lanes in self.widths(region) {
                let wide = in_lanes(ty, lanes);
                let part = self.out.load(wide.clone(), self.memory.partial[&(slot, lanes)], alignment(&wide));
                let part = op.combine_lanes(self.out.function, self.out.at, part);
                whole = Some(match whole {
                    Some(whole) => op.combine(self.out.function, self.out.at, whole, part),
                    None => part,
                });
            }
            if let Some(whole) = whole {
                self.out.store(self.memory.context[slot.0 as usize], whole, alignment(ty));
            }
        }
    }

    /// Adds a work-item's value, or a pack's, to a reduction.
    pub(super) fn accumulate(&mut self, slot: ContextSlot, op: ReduceOp, value: Value) {
        let ty = self.out.ty(value);
        let place = self.memory.partial[&(slot, ty.lanes())];
        let before = self.out.load(ty.clone(), place, alignment(&ty));
        let sum = op.combine(self.out.function, self.out.at, before, value);
        self.out.store(place, sum, alignment(&ty));
    }

    /// A work-item's value of a scan.
    pub(super) fn scan(&mut self, slot: ContextSlot, inclusive: bool, value: Value) -> Value {
        let ContextKind::Carry(op, ty) = &self.group.context[slot.0 as usize] else {
            unreachable!("a scan carries something on")
        };
        let place = self.memory.context[slot.0 as usize];
        let before = self.out.load(ty.clone(), place, alignment(ty));
        let sum = op.combine(self.out.function, self.out.at, before, value);
        self.out.store(place, sum, alignment(ty));
        if inclusive { sum } else { before }
    }
}
