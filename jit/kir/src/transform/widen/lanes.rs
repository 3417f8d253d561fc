//! Widening: instantiation. What can't be done for all lanes at once is done for one active lane after the other.

use super::Widener;
use super::values::components;
use super::variables::{Header, Variable};
use crate::{
    BinaryOp, CastOp, Constant, IntPredicate, Intrinsic, Op, Scalar, Target, Terminator, Type, Value,
};

impl Widener<'_> {
    /// The operation on each active lane's operands, first lane first; `result` is the body's value that it yields.
    pub(super) fn instantiate(&mut self, op: &Op, result: Option<Value>) -> Vec<Value> {
        let ty = result.map(|v| self.body.ty(v).clone());
        let scalars = ty.as_ref().map_or(Vec::new(), components);
        // What the lanes need is spread before the loop.
        let operands: Vec<Vec<Value>> = op
            .operands()
            .iter()
            .map(|&v| if self.is_uniform(v) { vec![self.first_lane(v)] } else { self.lanes_of(v) })
            .collect();
        let short = matches!(op, Op::AtomicRmw { .. }) && self.lanes <= 16;
        if short && let (Some(result), Some(ty), [_]) = (result, &ty, &scalars[..]) {
            let is_used = self.facts.used.contains(result.index());
            return match self.mask() {
                None => self.instantiate_unrolled(op, &operands, ty, is_used),
                Some(_) => self.instantiate_by_bits(op, &operands, ty, is_used),
            };
        }
        let left = self.new_variable();
        let results: Vec<Variable> = scalars.iter().map(|_| self.new_variable()).collect();
        let bits = self.active_bits();
        self.out.write(self.at, left, bits);
        for (&variable, &scalar) in results.iter().zip(&scalars) {
            let none = self.constant(self.wide(scalar), Constant::Poison);
            self.out.write(self.at, variable, none);
        }
        let (iteration, done) = (self.out.add_header(Header::Lanes), self.out.add_block());
        match self.mask() {
            None => self.out.jump(self.at, iteration),
            Some(_) => self.branch_if_any(bits, iteration, done),
        }
        self.at = iteration;
        let bits = self.out.read(iteration, left);
        let lane = self.first_bit(bits);
        let copy = self.instance(op, &operands, lane);
        if let Some(ty) = ty {
            let value = self.push(ty, copy);
            let parts = self.take_apart(value);
            for (&variable, part) in results.iter().zip(parts) {
                let all = self.out.read(self.at, variable);
                let new =
                    self.push(self.ty(all), Op::InsertElement { vector: all, element: part, index: lane });
                self.out.write(self.at, variable, new);
            }
        } else {
            self.out.function.push_effect(self.at, copy);
        }
        let one = self.constant(self.ty(bits), Constant::Int(1));
        let below = self.binary(BinaryOp::Sub, bits, one);
        let rest = self.binary(BinaryOp::And, bits, below);
        self.out.write(self.at, left, rest);
        self.branch_if_any(rest, iteration, done);
        self.out.close(iteration);
        self.out.close(done);
        self.at = done;
        results.into_iter().map(|variable| self.out.read(done, variable)).collect()
    }

    /// All lanes are active: one after the other without a loop.
    fn instantiate_unrolled(
        &mut self,
        op: &Op,
        operands: &[Vec<Value>],
        ty: &Type,
        is_used: bool,
    ) -> Vec<Value> {
        let mut all = self.constant(self.wide(ty.scalar().unwrap_or(Scalar::Int(32))), Constant::Poison);
        for lane in 0..self.lanes {
            let element = self.numbered_instance(op, operands, ty, lane);
            if is_used {
                all = self.with_element(all, element, lane);
            }
        }
        vec![all]
    }

    /// The same where a branch goes around each lane that is not active. A loop would ask memory for each lane's operands, and end where
    /// no processor expects it.
    fn instantiate_by_bits(
        &mut self,
        op: &Op,
        operands: &[Vec<Value>],
        ty: &Type,
        is_used: bool,
    ) -> Vec<Value> {
        let bits = self.active_bits();
        let none = self.constant(self.wide(ty.scalar().unwrap_or(Scalar::Int(32))), Constant::Poison);
        let all = self.new_variable();
        self.out.write(self.at, all, none);
        for lane in 0..self.lanes {
            let own = self.constant(self.ty(bits), Constant::Int(1 << lane));
            let own = self.binary(BinaryOp::And, bits, own);
            let (active, next) = (self.out.add_block(), self.out.add_block());
            self.branch_if_any(own, active, next);
            self.out.close(active);
            self.at = active;
            let element = self.numbered_instance(op, operands, ty, lane);
            if is_used {
                let before = self.out.read(active, all);
                let after = self.with_element(before, element, lane);
                self.out.write(active, all, after);
            }
            self.out.jump(active, next);
            self.out.close(next);
            self.at = next;
        }
        vec![self.out.read(self.at, all)]
    }

    /// The operation with the operands of the lane of that number.
    fn numbered_instance(&mut self, op: &Op, operands: &[Vec<Value>], ty: &Type, lane: u32) -> Value {
        let lane = self.constant(Type::I32, Constant::Int(lane.into()));
        let copy = self.instance(op, operands, lane);
        self.push(ty.clone(), copy)
    }

    pub(super) fn with_element(&mut self, vector: Value, element: Value, lane: u32) -> Value {
        let index = self.constant(Type::I32, Constant::Int(lane.into()));
        self.push(self.ty(vector), Op::InsertElement { vector, element, index })
    }

    /// The operation with one lane's operands.
    fn instance(&mut self, op: &Op, operands: &[Vec<Value>], lane: Value) -> Op {
        let mut copy = op.clone();
        for ((operand, lanes), original) in copy.operands_mut().into_iter().zip(operands).zip(op.operands()) {
            *operand =
                if self.is_uniform(original) { lanes[0] } else { self.lane_value(original, lanes, lane) };
        }
        copy
    }

    pub(super) fn lane_value(&mut self, original: Value, lanes: &[Value], lane: Value) -> Value {
        let mut parts = Vec::new();
        for &all in lanes {
            let scalar = Type::Scalar(self.ty(all).scalar().unwrap_or(Scalar::Int(32)));
            parts.push(self.push(scalar, Op::ExtractElement { vector: all, index: lane }));
        }
        let ty = self.body.ty(original).clone();
        self.put_together(&ty, &mut parts.into_iter())
    }

    /// The value in some active lane, of which it is known that they all have the same.
    pub(super) fn one_lane(&mut self, value: Value) -> Value {
        if self.is_uniform(value) {
            return self.first_lane(value);
        }
        let bits = self.active_bits();
        let lane = self.first_bit(bits);
        let lanes = self.lanes_of(value);
        self.lane_value(value, &lanes, lane)
    }

    pub(super) fn new_variable(&mut self) -> Variable {
        self.temporaries += 1;
        Variable::Temporary(self.temporaries)
    }

    /// The active lanes as an integer's bits.
    pub(super) fn active_bits(&mut self) -> Value {
        let ty = Type::int(self.lanes);
        match self.mask() {
            Some(mask) => self.cast(CastOp::BitCast, ty, mask),
            None => self.all_bits(),
        }
    }

    /// The same if all lanes are active.
    pub(super) fn all_bits(&mut self) -> Value {
        let all = if self.lanes >= 128 { u128::MAX } else { (1 << self.lanes) - 1 };
        self.constant(Type::int(self.lanes), Constant::Int(all))
    }

    pub(super) fn first_bit(&mut self, bits: Value) -> Value {
        let ty = self.ty(bits);
        let certain = self.constant(Type::BOOL, Constant::Int(1));
        let lane = self.intrinsic_of(Intrinsic::TrailingZeros, ty.clone(), vec![bits, certain]);
        match self.lanes {
            0..32 => self.cast(CastOp::ZExt, Type::I32, lane),
            32 => lane,
            _ => self.cast(CastOp::Trunc, Type::I32, lane),
        }
    }

    /// Ends the current block: on to `then` if any bit is set.
    pub(super) fn branch_if_any(&mut self, bits: Value, then: crate::Block, otherwise: crate::Block) {
        let zero = self.constant(self.ty(bits), Constant::Int(0));
        let condition = self.compare(IntPredicate::Ne, bits, zero);
        let branch =
            Terminator::Branch { condition, then: Target::to(then), otherwise: Target::to(otherwise) };
        self.out.end(self.at, branch);
    }

    /// Ends the current block: on to `then` if any lane of the mask is active.
    pub(super) fn branch_if_active(&mut self, mask: Value, then: crate::Block, otherwise: crate::Block) {
        let bits = self.cast(CastOp::BitCast, Type::int(self.lanes), mask);
        self.branch_if_any(bits, then, otherwise);
    }
}
