//! Legalization: vectors and aggregates become the scalars that they consist of, in the order in which they lie in memory.
//! What is left of aggregates are flat structures of scalars, where an operation yields several values: a compare-exchange,
//! arithmetic with overflow, a call.

use super::Illegal;
use super::parts::{self, leaves};
use crate::analysis::ControlFlow;
use crate::builder::Builder;
use crate::{
    BinaryOp, Block, CastOp, Constant, Flags, Function, Inst, Intrinsic, Op, Scalar, Shape, Signature,
    Target, Terminator, Type, Value, ValueDef,
};
use std::sync::Arc;

/// The same function in scalars. Callees are expected to become scalar as well.
pub fn scalarize(function: &Function) -> Result<Function, Illegal> {
    let flow = ControlFlow::new(function);
    let mut scalarizer = Scalarizer::new(function)?;
    let order = flow.reverse_post_order();
    for &block in order {
        scalarizer.declare(block)?;
    }
    for &block in order {
        scalarizer.fill(block)?;
    }
    Ok(scalarizer.new)
}

/// What a call yields, or a function returns, of several scalars.
pub(super) fn flat(ty: &Type) -> Result<Type, Illegal> {
    Ok(match leaves(ty)?[..] {
        [scalar] => Type::Scalar(scalar),
        ref several => Type::Struct(several.iter().map(|&scalar| Type::Scalar(scalar)).collect()),
    })
}

struct Scalarizer<'f> {
    old: &'f Function,
    new: Function,
    /// The new block of each old one that is reached.
    blocks: Vec<Option<Block>>,
    /// The scalars of each old value that has been met.
    parts: Vec<Option<Arc<[Value]>>>,
    at: Block,
}

impl<'f> Scalarizer<'f> {
    fn new(old: &'f Function) -> Result<Self, Illegal> {
        let signature = match &old.signature {
            Signature::Function { result: Some(ty) } => Signature::Function { result: Some(flat(ty)?) },
            other => other.clone(),
        };
        let mut new = Function::new(&old.name);
        new.signature = signature;
        new.attributes = old.attributes;
        new.take_locations(old);
        new.slots = old.slots.clone();
        new.local_size = old.local_size;
        new.required_work_group_size = old.required_work_group_size;
        new.row_dimension = old.row_dimension;
        new.required_sub_group_size = old.required_sub_group_size;
        new.remainder_groups = old.remainder_groups;
        let mut parts = vec![None; old.value_count()];
        for param in &old.params {
            let scalars = leaves(old.ty(param.value))?;
            let add = |&scalar: &Scalar| new.add_param(Type::Scalar(scalar), param.offset, param.passing);
            parts[param.value.index()] = Some(scalars.iter().map(add).collect());
        }
        Ok(Scalarizer { old, new, blocks: vec![None; old.blocks.len()], parts, at: Block(0) })
    }

    /// Makes the block and its parameters.
    fn declare(&mut self, block: Block) -> Result<(), Illegal> {
        let made = self.new.add_block();
        self.blocks[block.index()] = Some(made);
        for &param in &self.old.block(block).params {
            let scalars = leaves(self.old.ty(param))?;
            let add = |&scalar: &Scalar| self.new.add_block_param(made, Type::Scalar(scalar));
            self.parts[param.index()] = Some(scalars.iter().map(add).collect());
        }
        Ok(())
    }

    fn fill(&mut self, block: Block) -> Result<(), Illegal> {
        let old = self.old;
        self.at = self.target(block)?;
        for &inst in &old.block(block).insts {
            self.new.at_location = old.location(inst);
            let parts = self.inst(inst)?;
            if let Some(result) = old.result(inst) {
                self.parts[result.index()] = Some(parts.into());
            }
        }
        self.new.at_location = None;
        let terminator = self.terminator(&old.block(block).terminator)?;
        self.new.set_terminator(self.at, terminator);
        self.new.blocks[self.at.index()].loop_hints = old.block(block).loop_hints;
        Ok(())
    }

    fn target(&self, block: Block) -> Result<Block, Illegal> {
        self.blocks[block.index()].ok_or_else(|| Illegal::new(format!("{block}, which nothing leads to,")))
    }

    fn out(&mut self) -> Builder<'_> {
        Builder { function: &mut self.new, at: self.at }
    }

    /// A value's scalars.
    fn get(&mut self, value: Value) -> Result<Arc<[Value]>, Illegal> {
        if let Some(parts) = &self.parts[value.index()] {
            return Ok(parts.clone());
        }
        let ValueDef::Constant(constant) = self.old.def(value) else {
            return Err(Illegal::new(format!("{value}, which is used before it is there,")));
        };
        let scalars = parts::constants(self.old.ty(value), constant)?;
        let values = scalars.into_iter().map(|(ty, constant)| self.new.constant(ty, constant));
        let values: Arc<[Value]> = values.collect();
        self.parts[value.index()] = Some(values.clone());
        Ok(values)
    }

    /// The only scalar of a scalar.
    fn one(&mut self, value: Value) -> Result<Value, Illegal> {
        Ok(self.get(value)?[0])
    }

    /// What stands for an instruction.
    fn inst(&mut self, inst: Inst) -> Result<Vec<Value>, Illegal> {
        let op = self.old.op(inst);
        let Some(result) = self.old.result(inst) else {
            self.effect(op)?;
            return Ok(Vec::new());
        };
        let ty = self.old.ty(result);
        match op {
            Op::Cast { op: CastOp::BitCast, value, .. } => self.bit_cast(*value, ty),
            Op::Load { pointer, .. } => self.load(op, *pointer, ty),
            Op::ExtractElement { vector, index } => Ok(vec![self.extract(*vector, *index)?]),
            Op::InsertElement { vector, element, index } => self.insert(*vector, *element, *index),
            Op::Shuffle { first, second, mask } => self.shuffle((*first, *second), mask, ty),
            Op::ExtractValue { aggregate, indices } => {
                let range = parts::member(self.old.ty(*aggregate), indices)?;
                Ok(self.get(*aggregate)?[range].to_vec())
            }
            Op::InsertValue { aggregate, value, indices } => {
                let range = parts::member(ty, indices)?;
                let mut parts = self.get(*aggregate)?.to_vec();
                parts.splice(range, self.get(*value)?.iter().copied());
                Ok(parts)
            }
            Op::Call { arguments, .. } => {
                let call = self.call(op, arguments)?;
                self.several(flat(ty)?, call)
            }
            Op::CompareExchange { .. } => {
                let copy = self.copy(op, 0)?;
                self.several(ty.clone(), copy)
            }
            Op::Intrinsic { intrinsic, arguments, .. } => self.intrinsic(op, *intrinsic, arguments, ty),
            Op::MaskedLoad { .. } => Err(Illegal::new("a masked load")),
            _ => self.lane_by_lane(op, ty),
        }
    }

    /// An operation without a result.
    fn effect(&mut self, op: &Op) -> Result<(), Illegal> {
        let op = match op {
            Op::Store { pointer, value, .. } => return self.store(op, *pointer, *value),
            &Op::NontemporalStore { pointer, value, align } => {
                let plain = Op::Store { pointer, value, align, volatile: false, ordering: None };
                return self.store(&plain, pointer, value);
            }
            // There is nothing that it would order.
            Op::StreamingFence => return Ok(()),
            Op::MaskedStore { .. } | Op::SetExit(_) => return Err(Illegal::new("a masked store")),
            Op::Call { arguments, .. } => self.call(op, arguments)?,
            other => self.copy(other, 0)?,
        };
        self.out().effect(op);
        Ok(())
    }

    /// The operation on that lane of its operands; those that are scalars are the same in all lanes.
    fn copy(&mut self, op: &Op, lane: usize) -> Result<Op, Illegal> {
        let mut op = op.clone();
        for operand in op.operands_mut() {
            let parts = self.get(*operand)?;
            *operand = if parts.len() == 1 { parts[0] } else { parts[lane] };
        }
        Ok(op)
    }

    fn lane_by_lane(&mut self, op: &Op, ty: &Type) -> Result<Vec<Value>, Illegal> {
        let lanes = leaves(ty)?;
        let lane = |(lane, &scalar): (usize, &Scalar)| {
            let op = self.copy(op, lane)?;
            Ok(self.out().push(Type::Scalar(scalar), op))
        };
        lanes.iter().enumerate().map(lane).collect()
    }

    /// An operation that yields several scalars at once, taken apart.
    fn several(&mut self, ty: Type, op: Op) -> Result<Vec<Value>, Illegal> {
        let whole = self.out().push(ty.clone(), op);
        let Type::Struct(members) = ty else { return Ok(vec![whole]) };
        let member = |(number, ty): (u32, &Type)| {
            let op = Op::ExtractValue { aggregate: whole, indices: [number].into() };
            self.out().push(ty.clone(), op)
        };
        Ok((0..).zip(members.iter()).map(member).collect())
    }

    /// The call with the scalars of its arguments.
    fn call(&mut self, op: &Op, given: &[Value]) -> Result<Op, Illegal> {
        let mut scalars = Vec::new();
        for &argument in given {
            scalars.extend(self.get(argument)?.iter());
        }
        let mut call = op.clone();
        if let Op::Call { arguments, .. } = &mut call {
            *arguments = scalars;
        }
        Ok(call)
    }

    fn terminator(&mut self, terminator: &Terminator) -> Result<Terminator, Illegal> {
        let mut copy = terminator.clone();
        if let Some(condition) = copy.condition_mut() {
            *condition = self.one(*condition)?;
        }
        for target in copy.targets_mut() {
            let mut arguments = Vec::new();
            for &argument in &target.arguments {
                arguments.extend(self.get(argument)?.iter());
            }
            *target = Target { block: self.target(target.block)?, arguments };
        }
        if let Terminator::Return(Some(value)) = &mut copy {
            *value = self.returned(*value)?;
        }
        Ok(copy)
    }

    /// What is returned: a scalar, or a flat structure of them.
    fn returned(&mut self, value: Value) -> Result<Value, Illegal> {
        let ty = flat(self.old.ty(value))?;
        let parts = self.get(value)?;
        if parts.len() == 1 {
            return Ok(parts[0]);
        }
        let mut whole = self.new.constant(ty.clone(), Constant::Poison);
        for (number, &value) in (0..).zip(parts.iter()) {
            let op = Op::InsertValue { aggregate: whole, value, indices: [number].into() };
            whole = self.out().push(ty.clone(), op);
        }
        Ok(whole)
    }

    /// Scalar by scalar; lanes that share bytes come in one integer.
    fn load(&mut self, op: &Op, pointer: Value, ty: &Type) -> Result<Vec<Value>, Illegal> {
        let pointer = self.one(pointer)?;
        let Some(places) = parts::places(ty)? else {
            let (bits, lanes) = parts::packed(ty)?;
            let all = self.access(op, pointer, 0);
            let all = self.out().push(Type::int(bits * lanes), all);
            return Ok(self.split(all, bits, lanes));
        };
        let load = |&(scalar, at): &(Scalar, u64)| {
            let part = self.access(op, pointer, at);
            self.out().push(Type::Scalar(scalar), part)
        };
        Ok(places.iter().map(load).collect())
    }

    fn store(&mut self, op: &Op, pointer: Value, value: Value) -> Result<(), Illegal> {
        let ty = self.old.ty(value);
        let (pointer, parts) = (self.one(pointer)?, self.get(value)?);
        let (places, parts) = match parts::places(ty)? {
            Some(places) => (places, parts.to_vec()),
            None => {
                let (bits, lanes) = parts::packed(ty)?;
                (vec![(Scalar::Int(bits * lanes), 0)], vec![self.join(&parts, bits)])
            }
        };
        for ((_, at), part) in places.into_iter().zip(parts) {
            let mut store = self.access(op, pointer, at);
            if let Op::Store { value, .. } = &mut store {
                *value = part;
            }
            self.out().effect(store);
        }
        Ok(())
    }

    /// The same access so many bytes farther on.
    fn access(&mut self, op: &Op, base: Value, at: u64) -> Op {
        let mut op = op.clone();
        if let Op::Load { pointer, align, .. } | Op::Store { pointer, align, .. } = &mut op {
            *pointer = if at == 0 { base } else { self.out().offset(base, at) };
            *align = (*align).min(1 << at.trailing_zeros().min(24));
        }
        op
    }

    fn extract(&mut self, vector: Value, index: Value) -> Result<Value, Illegal> {
        let lanes = self.get(vector)?;
        if let Some(index) = self.old.constant_int(index) {
            let lane = usize::try_from(index).ok().and_then(|index| lanes.get(index));
            let ty = self.new.ty(lanes[0]).clone();
            // There is no such lane: any value will do.
            return Ok(lane.copied().unwrap_or_else(|| self.new.constant(ty, Constant::Poison)));
        }
        let index = self.one(index)?;
        let mut chosen = lanes[0];
        for (number, &lane) in lanes.iter().enumerate().skip(1) {
            let is_this = self.is_lane(index, number);
            chosen = self.out().select(is_this, lane, chosen);
        }
        Ok(chosen)
    }

    fn insert(&mut self, vector: Value, element: Value, index: Value) -> Result<Vec<Value>, Illegal> {
        let mut lanes = self.get(vector)?.to_vec();
        let element = self.one(element)?;
        if let Some(index) = self.old.constant_int(index) {
            let lane = usize::try_from(index).ok().and_then(|index| lanes.get_mut(index));
            lane.into_iter().for_each(|lane| *lane = element);
            return Ok(lanes);
        }
        let index = self.one(index)?;
        for (number, lane) in lanes.iter_mut().enumerate() {
            let is_this = self.is_lane(index, number);
            *lane = self.out().select(is_this, element, *lane);
        }
        Ok(lanes)
    }

    fn is_lane(&mut self, index: Value, number: usize) -> Value {
        let ty = self.new.ty(index).clone();
        let number = self.new.int(ty, number as u128);
        self.out().compare(crate::IntPredicate::Eq, index, number)
    }

    fn shuffle(
        &mut self,
        (first, second): (Value, Value),
        mask: &[i32],
        ty: &Type,
    ) -> Result<Vec<Value>, Illegal> {
        let lanes = [self.get(first)?, self.get(second)?].concat();
        let any = leaves(ty)?[0];
        let any = self.new.constant(Type::Scalar(any), Constant::Poison);
        let lane = |&number: &i32| usize::try_from(number).ok().and_then(|n| lanes.get(n).copied());
        Ok(mask.iter().map(|number| lane(number).unwrap_or(any)).collect())
    }

    fn intrinsic(
        &mut self,
        op: &Op,
        intrinsic: Intrinsic,
        arguments: &[Value],
        ty: &Type,
    ) -> Result<Vec<Value>, Illegal> {
        match intrinsic.shape() {
            Shape::IntegerReduction | Shape::FloatReduction => {
                let lanes = self.get(arguments[0])?;
                Ok(vec![self.fold(intrinsic, lanes[0], &lanes[1..])?])
            }
            Shape::FloatSum => {
                let (start, lanes) = (self.one(arguments[0])?, self.get(arguments[1])?);
                Ok(vec![self.fold(intrinsic, start, &lanes)?])
            }
            Shape::MaskedRegister => self.masked_register(intrinsic, arguments),
            Shape::RoundedRegisters => {
                // All lanes take part, and round as ever (`transform::scale`).
                let (ms, ks) = (self.get(arguments[0])?, self.get(arguments[1])?);
                let scale = |(&m, &k): (&Value, &Value)| self.out().intrinsic(Intrinsic::Scale, &[m, k]);
                Ok(ms.iter().zip(ks.iter()).map(scale).collect())
            }
            // Of packs on processors that have them.
            Shape::Lookup | Shape::Permutation | Shape::PermutationOfTwo => {
                Err(Illegal::new(intrinsic.name()))
            }
            Shape::IntegerWithOverflow => {
                let Type::Struct(members) = ty else { return Err(Illegal::new(intrinsic.name())) };
                let (mut values, mut flags) = (Vec::new(), Vec::new());
                for (lane, scalar) in leaves(&members[0])?.into_iter().enumerate() {
                    let op = self.copy(op, lane)?;
                    let pair = Type::Struct([Type::Scalar(scalar), Type::BOOL].into());
                    let parts = self.several(pair, op)?;
                    values.push(parts[0]);
                    flags.push(parts[1]);
                }
                Ok([values, flags].concat())
            }
            _ => self.lane_by_lane(op, ty),
        }
    }

    /// One lane after the other, in their order.
    fn fold(&mut self, reduction: Intrinsic, start: Value, lanes: &[Value]) -> Result<Value, Illegal> {
        let step = step(reduction).ok_or_else(|| Illegal::new(reduction.name()))?;
        Ok(lanes.iter().fold(start, |all, &lane| match step {
            Step::Binary(op) => self.out().binary(op, 0, all, lane),
            Step::Intrinsic(intrinsic) => {
                let op = Op::Intrinsic { intrinsic, flags: Flags::NONE, arguments: vec![all, lane] };
                let ty = self.new.ty(all).clone();
                self.out().push(ty, op)
            }
        }))
    }

    /// The processor's approximation, for one lane at a time.
    fn masked_register(&mut self, intrinsic: Intrinsic, arguments: &[Value]) -> Result<Vec<Value>, Illegal> {
        let (lanes, others) = (self.get(arguments[0])?, self.get(arguments[1])?);
        let mask = self.old.constant_int(arguments[2]).unwrap_or(0);
        let of_one = match intrinsic {
            Intrinsic::Reciprocal14 | Intrinsic::Reciprocal14OfDoubles => Intrinsic::ReciprocalOne14,
            _ => Intrinsic::ReciprocalRootOne14,
        };
        let approximation = |(number, (&x, &other)): (usize, (&Value, &Value))| {
            if mask & (1 << number) == 0 {
                return other;
            }
            self.out().intrinsic(of_one, &[x])
        };
        Ok(lanes.iter().zip(others.iter()).enumerate().map(approximation).collect())
    }

    /// The same bits in lanes of another width.
    fn bit_cast(&mut self, value: Value, ty: &Type) -> Result<Vec<Value>, Illegal> {
        let from = leaves(self.old.ty(value))?;
        let (to, parts) = (leaves(ty)?, self.get(value)?);
        let (a, b) = (from[0].bits() as u32, to[0].bits() as u32);
        if a == b {
            return Ok(parts.iter().map(|&part| self.reinterpret(part, to[0])).collect());
        }
        let ints: Vec<Value> = parts.iter().map(|&part| self.reinterpret(part, Scalar::Int(a))).collect();
        let total = a * ints.len() as u32;
        let ints: Vec<Value> = if a % b == 0 {
            ints.iter().flat_map(|&int| self.split(int, b, a / b)).collect()
        } else if b % a == 0 {
            ints.chunks((b / a) as usize).map(|chunk| self.join(chunk, a)).collect()
        } else if total <= 128 {
            let all = self.join(&ints, a);
            self.split(all, b, total / b)
        } else {
            return Err(Illegal::new(format!("a cast of {} to {ty}", self.old.ty(value))));
        };
        Ok(ints.into_iter().map(|int| self.reinterpret(int, to[0])).collect())
    }

    fn reinterpret(&mut self, value: Value, to: Scalar) -> Value {
        let to = Type::Scalar(to);
        if *self.new.ty(value) == to { value } else { self.out().cast(CastOp::BitCast, to, value) }
    }

    /// An integer of so many lanes of so many bits, taken apart from the lowest on.
    fn split(&mut self, all: Value, bits: u32, lanes: u32) -> Vec<Value> {
        let ty = self.new.ty(all).clone();
        let lane = |number: u32| {
            let distance = self.new.int(ty.clone(), (number * bits).into());
            let moved = match number {
                0 => all,
                _ => self.out().binary(BinaryOp::LShr, 0, all, distance),
            };
            if lanes == 1 { moved } else { self.out().cast(CastOp::Trunc, Type::int(bits), moved) }
        };
        (0..lanes).map(lane).collect()
    }

    /// The other way: values of so many bits, as one integer.
    fn join(&mut self, parts: &[Value], bits: u32) -> Value {
        let ty = Type::int(bits * parts.len() as u32);
        let mut all = None;
        for (number, &part) in (0..).zip(parts) {
            let part = self.reinterpret(part, Scalar::Int(bits));
            if parts.len() == 1 {
                return part;
            }
            let wide = self.out().cast(CastOp::ZExt, ty.clone(), part);
            let distance = self.new.int(ty.clone(), u128::from(number * bits));
            all = Some(match all {
                None => wide,
                Some(all) => {
                    let moved = self.out().binary(BinaryOp::Shl, 0, wide, distance);
                    self.out().binary(BinaryOp::Or, 0, all, moved)
                }
            });
        }
        all.unwrap_or_else(|| self.new.constant(ty, Constant::Poison))
    }
}

/// What a reduction does with two lanes.
#[derive(Clone, Copy)]
enum Step {
    Binary(BinaryOp),
    Intrinsic(Intrinsic),
}

fn step(reduction: Intrinsic) -> Option<Step> {
    use Intrinsic::*;
    use Step::{Binary, Intrinsic as Call};
    Some(match reduction {
        ReduceAdd => Binary(BinaryOp::Add),
        ReduceMul => Binary(BinaryOp::Mul),
        ReduceAnd => Binary(BinaryOp::And),
        ReduceOr => Binary(BinaryOp::Or),
        ReduceXor => Binary(BinaryOp::Xor),
        ReduceFloatAdd => Binary(BinaryOp::FAdd),
        ReduceFloatMul => Binary(BinaryOp::FMul),
        ReduceSignedMax => Call(SignedMax),
        ReduceSignedMin => Call(SignedMin),
        ReduceUnsignedMax => Call(UnsignedMax),
        ReduceUnsignedMin => Call(UnsignedMin),
        ReduceMaxNumber => Call(MaxNumber),
        ReduceMinNumber => Call(MinNumber),
        ReduceMaximum => Call(Maximum),
        ReduceMinimum => Call(Minimum),
        _ => return None,
    })
}
