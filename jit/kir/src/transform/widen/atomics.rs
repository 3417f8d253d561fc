//! Widening: atomic operations. They are instantiated for each active lane, but where all of them go to one place and nobody asks
//! for what was there before, one operation does for all.

use super::Widener;
use crate::{CastOp, Constant, Intrinsic, Op, RmwOp, Scalar, Type, Value};

impl Widener<'_> {
    /// One operation for all active lanes; false if it must be instantiated. Its block runs only if there is one.
    pub(super) fn combined_atomic(&mut self, op: &Op, result: Value) -> bool {
        let Op::AtomicRmw { op: kind, pointer, value, .. } = *op else { return false };
        let Type::Scalar(Scalar::Int(bits)) = *self.body.ty(value) else { return false };
        if self.facts.used.contains(result.index()) || !self.is_uniform(pointer) {
            return false;
        }
        let Some((reduction, identity)) = reduction(kind, bits) else { return false };
        let idempotent = !matches!(kind, RmwOp::Add | RmwOp::Sub | RmwOp::Xor);
        let all = if self.is_uniform(value) && idempotent {
            self.first_lane(value)
        } else if self.is_uniform(value) && kind != RmwOp::Xor {
            let value = self.first_lane(value);
            let count = self.active_count(bits);
            self.binary(crate::BinaryOp::Mul, value, count)
        } else {
            let lanes = self.lanes_of(value)[0];
            self.reduce_active(reduction, lanes, identity, bits)
        };
        let mut once = op.clone();
        if let Op::AtomicRmw { pointer, value, .. } = &mut once {
            *pointer = self.first_lane(*pointer);
            *value = all;
        }
        let ty = Type::int(bits);
        self.push(ty, once);
        true
    }

    fn reduce_active(&mut self, reduction: Intrinsic, lanes: Value, identity: u128, bits: u32) -> Value {
        let lanes = match self.mask() {
            Some(mask) => {
                let identity = self.constant(Type::int(bits), Constant::Int(identity));
                let identity = self.splat(identity);
                self.select(mask, lanes, identity)
            }
            None => lanes,
        };
        self.intrinsic_of(reduction, Type::int(bits), vec![lanes])
    }

    fn active_count(&mut self, bits: u32) -> Value {
        let active = self.active_bits();
        let count = self.intrinsic_of(Intrinsic::PopCount, Type::int(self.lanes), vec![active]);
        let (from, to) = (self.lanes, bits);
        match from.cmp(&to) {
            std::cmp::Ordering::Less => self.cast(CastOp::ZExt, Type::int(to), count),
            std::cmp::Ordering::Equal => count,
            std::cmp::Ordering::Greater => self.cast(CastOp::Trunc, Type::int(to), count),
        }
    }
}

/// The reduction for an operation, and the value that changes nothing.
fn reduction(op: RmwOp, bits: u32) -> Option<(Intrinsic, u128)> {
    let all = if bits >= 128 { u128::MAX } else { (1 << bits) - 1 };
    let top = 1 << (bits - 1);
    Some(match op {
        RmwOp::Add | RmwOp::Sub => (Intrinsic::ReduceAdd, 0),
        RmwOp::Or => (Intrinsic::ReduceOr, 0),
        RmwOp::Xor => (Intrinsic::ReduceXor, 0),
        RmwOp::And => (Intrinsic::ReduceAnd, all),
        RmwOp::Max => (Intrinsic::ReduceSignedMax, top),
        RmwOp::Min => (Intrinsic::ReduceSignedMin, all ^ top),
        RmwOp::UMax => (Intrinsic::ReduceUnsignedMax, 0),
        RmwOp::UMin => (Intrinsic::ReduceUnsignedMin, all),
        _ => return None,
    })
}
