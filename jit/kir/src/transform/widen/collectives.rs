//! Widening: what lanes combine.

use super::Widener;
use crate::transform::ContextKind;
use crate::{Constant, ContextSlot, Op, ReduceOp, Type, Value};

impl Widener<'_> {
    /// A value's lanes, and the identity in those that are not active.
    pub(super) fn active_or_identity(&mut self, op: ReduceOp, value: Value) -> Value {
        let lanes = self.lanes_of(value)[0];
        match self.mask() {
            Some(mask) => {
                let ty = self.ty(lanes);
                let identity = op.identity_of(&mut self.out.function, &ty);
                self.select(mask, lanes, identity)
            }
            None => lanes,
        }
    }

    /// Of each lane with those before it and with the packs before this one, which leaves its sum to the next.
    pub(super) fn scan(&mut self, slot: ContextSlot, inclusive: bool, value: Value) -> Value {
        let ContextKind::Carry(op, ref ty) = *self.context_kind(slot) else {
            unreachable!("a scan carries something on")
        };
        let ty = ty.clone();
        let lanes = self.active_or_identity(op, value);
        let sums = op.scan_lanes(&mut self.out.function, self.at, lanes);
        let carry = self.push(ty.clone(), Op::ContextLoad(slot));
        let last = self.constant(Type::I32, Constant::Int((self.lanes - 1).into()));
        let sum = self.push(ty, Op::ExtractElement { vector: sums, index: last });
        let next = op.combine(&mut self.out.function, self.at, carry, sum);
        self.out.function.push_effect(self.at, Op::ContextStore(slot, next));
        let own = if inclusive { sums } else { op.move_lanes(&mut self.out.function, self.at, sums, 1) };
        let before = self.splat(carry);
        op.combine(&mut self.out.function, self.at, before, own)
    }
}
