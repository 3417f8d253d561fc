//! Widening: what lanes combine.

use super::Widener;
use crate::transform::ContextKind;
use crate::{BinaryOp, CastOp, Constant, ContextSlot, Op, ReduceOp, Scalar, SubGroupOp, Type, Value};

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

/// Operations of sub-groups: a sub-group is a pack.
impl Widener<'_> {
    pub(super) fn sub_group(&mut self, op: SubGroupOp, arguments: &[Value], result: Value) {
        use SubGroupOp::*;
        let value = arguments[0];
        match op {
            Reduce(op) => {
                let lanes = self.active_or_identity(op, value);
                let whole = op.combine_lanes(&mut self.out.function, self.at, lanes);
                self.define_first_lane(result, whole);
            }
            ClusteredReduce(op) => {
                let size = self.body.constant_int(arguments[1]).map_or(1, |size| size as u32);
                let lanes = self.active_or_identity(op, value);
                let wholes = self.reduce_clusters(op, lanes, size);
                self.define_lanes(result, vec![wholes]);
            }
            InclusiveScan(by) | ExclusiveScan(by) => {
                let lanes = self.active_or_identity(by, value);
                let mut sums = by.scan_lanes(&mut self.out.function, self.at, lanes);
                if matches!(op, ExclusiveScan(_)) {
                    sums = by.move_lanes(&mut self.out.function, self.at, sums, 1);
                }
                self.define_lanes(result, vec![sums]);
            }
            Shuffle if self.is_uniform(arguments[1]) => {
                let number = self.first_lane(arguments[1]);
                let most = self.constant(Type::I32, Constant::Int((self.lanes - 1).into()));
                let number = self.binary(BinaryOp::And, number, most);
                let lanes = self.lanes_of(value);
                let one = self.lane_value(value, &lanes, number);
                self.define_first_lane(result, one);
            }
            Shuffle => {
                let moved = self.shuffled(value, arguments[1]);
                self.define_lanes(result, vec![moved]);
            }
            Ballot => {
                let condition = self.lanes_of(value)[0];
                let mask = self.mask();
                let lanes = self.both(mask, condition);
                let bits = self.cast(CastOp::BitCast, Type::int(self.lanes), lanes);
                let bits = if self.lanes < 64 { self.cast(CastOp::ZExt, Type::I64, bits) } else { bits };
                self.define_first_lane(result, bits);
            }
        }
    }

    /// Each lane with its neighbours: in pairs, then in fours, and so on up to `size`.
    fn reduce_clusters(&mut self, op: ReduceOp, lanes: Value, size: u32) -> Value {
        let mut all = lanes;
        let any = self.constant(self.ty(lanes), Constant::Poison);
        let size = size.min(self.lanes);
        for step in std::iter::successors(Some(1), |step| Some(2 * step)).take_while(|&s| s < size) {
            let mask: Vec<i32> = (0..self.lanes).map(|lane| (lane ^ step) as i32).collect();
            let shuffle = Op::Shuffle { first: all, second: any, mask: mask.into() };
            let neighbours = self.push(self.ty(all), shuffle);
            all = op.combine(&mut self.out.function, self.at, all, neighbours);
        }
        all
    }

    /// Each lane's value is taken from the lane that its index names. Where indices are constants, LLVM makes one shuffle of it.
    fn shuffled(&mut self, value: Value, index: Value) -> Value {
        let (lanes, indices) = (self.lanes_of(value)[0], self.lanes_of(index)[0]);
        let most = self.constant(Type::I32, Constant::Int((self.lanes - 1).into()));
        let most = self.splat(most);
        let indices = self.binary(BinaryOp::And, indices, most);
        let ty = self.ty(lanes);
        let element_type = Type::Scalar(ty.scalar().unwrap_or(Scalar::Int(32)));
        let start = self.constant(ty.clone(), Constant::Poison);
        (0..self.lanes).fold(start, |vector, lane| {
            let lane = self.constant(Type::I32, Constant::Int(lane.into()));
            let from = self.push(Type::I32, Op::ExtractElement { vector: indices, index: lane });
            let element = self.push(element_type.clone(), Op::ExtractElement { vector: lanes, index: from });
            self.push(ty.clone(), Op::InsertElement { vector, element, index: lane })
        })
    }
}
