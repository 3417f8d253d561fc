//! Widening: what becomes of an instruction.

use super::Widener;
use super::values::{components, field};
use crate::analysis::Shape;
use crate::transform::ContextKind;
use crate::{BinaryOp, CastOp, Constant, Flags, Inst, IntPredicate, Op, Scalar, Type, UnaryOp, Value};

impl Widener<'_> {
    pub(super) fn instruction(&mut self, inst: Inst) {
        let op = self.body.op(inst).clone();
        let result = self.body.result(inst);
        let shape = result.map(|v| self.facts.shapes.shape(v));
        match (&op, result, shape) {
            (Op::Store { pointer, value, align, volatile: false, ordering: None }, ..) => {
                self.store(*pointer, *value, *align);
            }
            (Op::ContextStore(slot, value), ..) => self.context_store(*slot, *value),
            (&Op::ContextScan { slot, inclusive, value: operand }, Some(value), _) => {
                let lanes = self.scan(slot, inclusive, operand);
                self.define_lanes(value, vec![lanes]);
            }
            (Op::SubGroup { op, arguments }, Some(value), _) => self.sub_group(*op, arguments, value),
            (Op::Fence(_), ..) => {
                self.out.function.push_effect(self.at, op);
            }
            (Op::Intrinsic { intrinsic, .. }, None, _) if intrinsic.is_hint() => {}
            (Op::AtomicRmw { .. }, Some(value), _) if self.combined_atomic(&op, value) => {}
            (Op::Call { .. }, _, shape) if shape != Some(Shape::Uniform) => {
                match (self.call(&op, result), result) {
                    (Some(lanes), Some(value)) => self.define_lanes(value, lanes),
                    (Some(_), None) => {}
                    (None, _) => {
                        let lanes = self.instantiate(&op, result);
                        result.into_iter().for_each(|value| self.define_lanes(value, lanes.clone()));
                    }
                }
            }
            (_, Some(value), Some(Shape::Uniform)) => self.uniform(&op, value),
            (_, Some(value), Some(Shape::Affine { .. })) => self.affine_instruction(&op, value),
            (_, Some(value), _) => {
                let lanes = self.varying(&op, value);
                self.define_lanes(value, lanes);
            }
            (_, None, _) => {
                self.instantiate(&op, None);
            }
        }
    }

    /// The same instruction once for all lanes.
    fn uniform(&mut self, op: &Op, value: Value) {
        let mut copy = op.clone();
        let affine = op.operands().iter().any(|&v| !self.is_uniform(v));
        for operand in copy.operands_mut() {
            *operand = self.first_lane(*operand);
        }
        if affine {
            drop_promises(&mut copy);
        }
        let new = self.push(self.body.ty(value).clone(), copy);
        self.define_first_lane(value, new);
    }

    /// The first lane's instruction. It may be inactive: nothing is promised that holds for active lanes only.
    fn affine_instruction(&mut self, op: &Op, value: Value) {
        let exact = matches!(self.facts.shapes.shape(value), Shape::Affine { exact: true, .. });
        let narrow = matches!(self.body.ty(value), Type::Scalar(Scalar::Int(bits)) if *bits < 64);
        let first = match op {
            Op::Binary { op, lhs, rhs, .. } if exact && narrow => {
                let lhs = self.extended(*lhs);
                let rhs = self.extended(*rhs);
                let op = if *op == BinaryOp::Or { BinaryOp::Add } else { *op };
                self.binary(op, lhs, rhs)
            }
            Op::Cast { op: CastOp::Trunc | CastOp::SExt | CastOp::ZExt, value: operand, .. } if exact => {
                self.extended(*operand)
            }
            Op::ContextLoad(slot) if !self.arguments.is_empty() => self.arguments[slot.0 as usize][0],
            Op::WorkItem { .. } | Op::SlotAddress(_) | Op::ContextAddress(_) => {
                self.push(self.body.ty(value).clone(), op.clone())
            }
            _ => {
                let mut copy = op.clone();
                for operand in copy.operands_mut() {
                    *operand = self.first_lane(*operand);
                }
                drop_promises(&mut copy);
                self.interleave_address(&mut copy, op);
                self.push(self.body.ty(value).clone(), copy)
            }
        };
        self.define_first_lane(value, first);
    }

    /// In a slot whose lanes are interleaved, an offset counts once for each lane.
    fn interleave_address(&self, copy: &mut Op, original: &Op) {
        if let (Op::Address { scale, offset, .. }, Op::Address { base, .. }) = (copy, original)
            && self.facts.slots.is_interleaved(*base)
        {
            *scale *= i64::from(self.lanes);
            *offset *= i64::from(self.lanes);
        }
    }

    fn varying(&mut self, op: &Op, value: Value) -> Vec<Value> {
        if self.facts.aos.contains(value) {
            return self.in_memory_order(op, value);
        }
        let ty = self.body.ty(value).clone();
        let scalars = components(&ty);
        match op {
            Op::Unary { op: UnaryOp::Freeze | UnaryOp::FNeg, value: operand, .. } => {
                self.by_component(op, &[*operand], &scalars)
            }
            Op::Binary { op: BinaryOp::UDiv | BinaryOp::SDiv | BinaryOp::URem | BinaryOp::SRem, .. } => {
                self.divide(op, &scalars)
            }
            Op::Binary { lhs, rhs, .. } | Op::Compare { lhs, rhs, .. } => {
                self.by_component(op, &[*lhs, *rhs], &scalars)
            }
            Op::Cast { op: CastOp::BitCast, value: operand, .. } => self.bit_cast(*operand, &scalars),
            Op::Cast { value: operand, .. } => self.by_component(op, &[*operand], &scalars),
            Op::Select { condition, then, otherwise, .. } => {
                self.select_lanes(op, (*condition, *then, *otherwise), &scalars)
            }
            Op::Address { .. } => vec![self.addresses(op, scalars[0])],
            Op::Load { pointer, align, volatile: false, ordering: None } => {
                let interleaved = self.interleaved_load(value, *pointer, &ty, *align);
                let loaded = interleaved.or_else(|| self.load(*pointer, &ty, *align));
                loaded.unwrap_or_else(|| self.instantiate(op, Some(value)))
            }
            Op::ContextLoad(slot) => self.context_load(*slot, &scalars),
            Op::ExtractElement { vector, index } => self.extract_element(*vector, *index),
            Op::InsertElement { vector, element, index } => self.insert_element(*vector, *element, *index),
            Op::Shuffle { first, second, mask } => {
                let mut all = self.lanes_of(*first);
                all.extend(self.lanes_of(*second));
                let any = self.constant(self.wide(scalars[0]), Constant::Poison);
                mask.iter().map(|&lane| usize::try_from(lane).map_or(any, |lane| all[lane])).collect()
            }
            Op::ExtractValue { aggregate, indices } => {
                let (start, count) = field(self.body.ty(*aggregate), indices);
                self.lanes_of(*aggregate)[start..start + count].to_vec()
            }
            Op::InsertValue { aggregate, value, indices } => {
                let (start, count) = field(self.body.ty(*aggregate), indices);
                let mut all = self.lanes_of(*aggregate);
                let new = self.lanes_of(*value);
                all.splice(start..start + count, new);
                all
            }
            Op::Intrinsic { intrinsic, flags, arguments } => self
                .intrinsic(*intrinsic, *flags, arguments, &ty)
                .unwrap_or_else(|| self.instantiate(op, Some(value))),
            _ => self.instantiate(op, Some(value)),
        }
    }

    /// The same operation on the vectors of each component.
    pub(super) fn by_component(&mut self, op: &Op, operands: &[Value], scalars: &[Scalar]) -> Vec<Value> {
        let lanes: Vec<Vec<Value>> = operands.iter().map(|&v| self.lanes_of(v)).collect();
        self.for_each_part(op, &lanes, scalars)
    }

    /// The same operation on each part of its operands.
    pub(super) fn for_each_part(
        &mut self,
        op: &Op,
        operands: &[Vec<Value>],
        scalars: &[Scalar],
    ) -> Vec<Value> {
        (scalars.iter().enumerate())
            .map(|(part, &scalar)| {
                let mut copy = op.clone();
                for (operand, parts) in copy.operands_mut().into_iter().zip(operands) {
                    *operand = parts[part];
                }
                self.push(self.wide(scalar), copy)
            })
            .collect()
    }

    /// Bits keep their places in memory: the first component holds the lowest.
    fn bit_cast(&mut self, operand: Value, to: &[Scalar]) -> Vec<Value> {
        let from = self.lanes_of(operand);
        let width = |w: &Self, v: Value| w.ty(v).scalar().map_or(0, Scalar::bits) as u32;
        let (narrow, target) = (width(self, from[0]), to[0].bits() as u32);
        if narrow == target {
            let cast = |w: &mut Self, v| w.cast(CastOp::BitCast, w.wide(to[0]), v);
            return from.into_iter().map(|v| cast(self, v)).collect();
        }
        let int = self.wide(Scalar::Int(target));
        let parts: Vec<Value> = if narrow < target {
            let pieces = (target / narrow) as usize;
            from.chunks(pieces).map(|chunk| self.join_bits(chunk, narrow, &int)).collect()
        } else {
            let pieces = narrow / target;
            from.iter().flat_map(|&v| self.split_bits(v, narrow, pieces, &int)).collect()
        };
        parts.into_iter().map(|v| self.cast(CastOp::BitCast, self.wide(to[0]), v)).collect()
    }

    fn join_bits(&mut self, chunk: &[Value], width: u32, int: &Type) -> Value {
        let mut whole: Option<Value> = None;
        for (i, &piece) in chunk.iter().enumerate() {
            let bits = self.cast(CastOp::BitCast, self.wide(Scalar::Int(width)), piece);
            let bits = self.cast(CastOp::ZExt, int.clone(), bits);
            let bits = self.shift(BinaryOp::Shl, bits, width * i as u32);
            whole = Some(match whole {
                Some(low) => self.binary(BinaryOp::Or, low, bits),
                None => bits,
            });
        }
        whole.unwrap_or_else(|| self.constant(int.clone(), Constant::Zero))
    }

    fn split_bits(&mut self, value: Value, width: u32, pieces: u32, int: &Type) -> Vec<Value> {
        let bits = self.cast(CastOp::BitCast, self.wide(Scalar::Int(width)), value);
        (0..pieces)
            .map(|i| {
                let part = self.shift(BinaryOp::LShr, bits, i * (width / pieces));
                self.cast(CastOp::Trunc, int.clone(), part)
            })
            .collect()
    }

    fn shift(&mut self, op: BinaryOp, value: Value, by: u32) -> Value {
        if by == 0 {
            return value;
        }
        let scalar = Type::Scalar(self.ty(value).scalar().unwrap_or(Scalar::Int(32)));
        let by = self.constant(scalar, Constant::Int(by.into()));
        let by = self.splat(by);
        self.binary(op, value, by)
    }

    fn select_lanes(
        &mut self,
        op: &Op,
        (condition, then, otherwise): (Value, Value, Value),
        scalars: &[Scalar],
    ) -> Vec<Value> {
        let scalar_condition = *self.body.ty(condition) == Type::BOOL;
        let conditions = if scalar_condition && self.is_uniform(condition) {
            vec![self.first_lane(condition)]
        } else {
            self.lanes_of(condition)
        };
        let (thens, otherwises) = (self.lanes_of(then), self.lanes_of(otherwise));
        let Op::Select { flags, .. } = *op else { unreachable!("asked for selections only") };
        (scalars.iter().enumerate())
            .map(|(c, &scalar)| {
                let condition = conditions[if scalar_condition { 0 } else { c }];
                let op = Op::Select { flags, condition, then: thens[c], otherwise: otherwises[c] };
                self.push(self.wide(scalar), op)
            })
            .collect()
    }

    /// An address a constant behind another one by that one's base and index: lanes are gathered from a base that they share.
    fn with_shared_base(&self, op: &Op) -> Op {
        let mut folded = op.clone();
        while let Op::Address { base, index: None, offset: behind, .. } = folded
            && self.shape(base) == Shape::Varying
            && !self.facts.slots.is_interleaved(base)
            && let Some(&Op::Address { base: inner, index, scale, offset, .. }) = self.body.defining_op(base)
            && let Some(offset) = offset.checked_add(behind)
            && [Some(inner), index].into_iter().flatten().all(|v| self.is_known_here(v))
        {
            folded = Op::Address { base: inner, index, scale, offset, inbounds: false };
        }
        folded
    }

    fn is_known_here(&self, value: Value) -> bool {
        !self.facts.shapes.leaves_divergent_loop(value, self.user)
    }

    fn addresses(&mut self, op: &Op, pointer: Scalar) -> Value {
        let op = &self.with_shared_base(op);
        let Op::Address { base, index, .. } = op else { unreachable!("asked for addresses only") };
        let part = |w: &mut Self, v: Value| if w.is_uniform(v) { w.first_lane(v) } else { w.lanes_of(v)[0] };
        let mut copy = op.clone();
        let (mut new_base, new_index) = (part(self, *base), index.map(|i| part(self, i)));
        let is_wide = |w: &Self, v: Value| matches!(w.ty(v), Type::Vector(..));
        if !is_wide(self, new_base) && !new_index.is_some_and(|i| is_wide(self, i)) {
            new_base = self.splat(new_base);
        }
        if let Op::Address { base, index, .. } = &mut copy {
            (*base, *index) = (new_base, new_index);
        }
        self.interleave_address(&mut copy, op);
        self.push(self.wide(pointer), copy)
    }

    fn extract_element(&mut self, vector: Value, index: Value) -> Vec<Value> {
        let parts = self.lanes_of(vector);
        if let Some(constant) = self.body.constant_int(index) {
            let any = self.constant(self.ty(parts[0]), Constant::Poison);
            return vec![parts.get(constant as usize).copied().unwrap_or(any)];
        }
        let index = self.lanes_of(index)[0];
        let last = parts[parts.len() - 1];
        let chosen = (0..parts.len() - 1).rev().fold(last, |rest, i| {
            let here = self.equals(index, i);
            self.select(here, parts[i], rest)
        });
        vec![chosen]
    }

    fn insert_element(&mut self, vector: Value, element: Value, index: Value) -> Vec<Value> {
        let mut parts = self.lanes_of(vector);
        let element = self.lanes_of(element)[0];
        if let Some(constant) = self.body.constant_int(index) {
            if let Some(part) = parts.get_mut(constant as usize) {
                *part = element;
            }
            return parts;
        }
        let index = self.lanes_of(index)[0];
        for (i, part) in parts.iter_mut().enumerate() {
            let here = self.equals(index, i);
            *part = self.select(here, element, *part);
        }
        parts
    }

    fn equals(&mut self, index: Value, number: usize) -> Value {
        let scalar = Type::Scalar(self.ty(index).scalar().unwrap_or(Scalar::Int(32)));
        let number = self.constant(scalar, Constant::Int(number as u128));
        let number = self.splat(number);
        self.compare(IntPredicate::Eq, index, number)
    }

    pub(super) fn context_kind(&self, slot: crate::transform::ContextSlot) -> &ContextKind {
        &self.context[slot.0 as usize]
    }
}

/// Takes back what would make a result poison.
fn drop_promises(op: &mut Op) {
    if let Op::Binary { op: or @ BinaryOp::Or, flags, .. } = op
        && flags.0 & Flags::DISJOINT != 0
    {
        // Affine as the sum that it was promised to be.
        *or = BinaryOp::Add;
    }
    match op {
        Op::Unary { flags, .. }
        | Op::Binary { flags, .. }
        | Op::Compare { flags, .. }
        | Op::Cast { flags, .. }
        | Op::Select { flags, .. }
        | Op::Intrinsic { flags, .. } => *flags = Flags::NONE,
        Op::Address { inbounds, .. } => *inbounds = false,
        _ => {}
    }
}
