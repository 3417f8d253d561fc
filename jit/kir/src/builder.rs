//! Writes instructions at the end of a block, and rewrites functions block by block.

use crate::{
    BinaryOp, Block, CastOp, Constant, Flags, FloatPredicate, Function, Inst, IntPredicate, Intrinsic,
    LocationId, LoopHints, Op, Predicate, Scalar, Target, Terminator, Type, UnaryOp, Value, ValueDef,
};
use std::collections::HashMap;

/// Promises of arithmetic on sizes and ids, whose results are such.
pub(crate) const NO_WRAP: u16 = Flags::NUW | Flags::NSW;

/// Writes at the end of a block.
pub(crate) struct Builder<'f> {
    pub function: &'f mut Function,
    /// Where instructions go.
    pub at: Block,
}

impl Builder<'_> {
    pub fn push(&mut self, ty: Type, op: Op) -> Value {
        self.function.push(self.at, ty, op)
    }

    pub fn effect(&mut self, op: Op) -> Inst {
        self.function.push_effect(self.at, op)
    }

    /// Puts an existing instruction here, as another operation: whoever uses its result uses the new one's.
    pub fn replace(&mut self, inst: Inst, op: Op) {
        *self.function.op_mut(inst) = op;
        self.function.append(self.at, inst);
    }

    pub fn ty(&self, value: Value) -> Type {
        self.function.ty(value).clone()
    }

    /// An i64.
    pub fn int(&mut self, number: u64) -> Value {
        self.function.int(Type::I64, number.into())
    }

    pub fn constant(&mut self, ty: Type, constant: Constant) -> Value {
        self.function.constant(ty, constant)
    }

    pub fn binary(&mut self, op: BinaryOp, flags: u16, lhs: Value, rhs: Value) -> Value {
        self.push(self.ty(lhs), Op::Binary { op, flags: Flags(flags), lhs, rhs })
    }

    /// Of two scalars.
    pub fn compare(&mut self, predicate: IntPredicate, lhs: Value, rhs: Value) -> Value {
        let predicate = Predicate::Int(predicate);
        self.push(Type::BOOL, Op::Compare { predicate, flags: Flags::NONE, lhs, rhs })
    }

    pub fn compare_floats(&mut self, predicate: FloatPredicate, lhs: Value, rhs: Value) -> Value {
        let predicate = Predicate::Float(predicate);
        let ty = self.ty(lhs).with_scalar(Scalar::Int(1));
        self.push(ty, Op::Compare { predicate, flags: Flags::NONE, lhs, rhs })
    }

    /// That yields what it takes.
    pub fn intrinsic(&mut self, intrinsic: Intrinsic, arguments: &[Value]) -> Value {
        self.push_intrinsic(self.ty(arguments[0]), intrinsic, arguments)
    }

    pub fn push_intrinsic(&mut self, ty: Type, intrinsic: Intrinsic, arguments: &[Value]) -> Value {
        self.push(ty, Op::Intrinsic { intrinsic, flags: Flags::NONE, arguments: arguments.to_vec() })
    }

    pub fn cast(&mut self, op: CastOp, ty: Type, value: Value) -> Value {
        self.push(ty, Op::Cast { op, flags: Flags::NONE, value })
    }

    /// What a value is, if it is poison some value, for all who use this.
    pub fn freeze(&mut self, value: Value) -> Value {
        self.push(self.ty(value), Op::Unary { op: UnaryOp::Freeze, flags: Flags::NONE, value })
    }

    pub fn select(&mut self, condition: Value, then: Value, otherwise: Value) -> Value {
        self.push(self.ty(then), Op::Select { flags: Flags::NONE, condition, then, otherwise })
    }

    /// base + index*scale + offset, all within one block of memory.
    pub fn element(&mut self, base: Value, index: Value, scale: u64, offset: u64) -> Value {
        let (scale, offset) = (scale as i64, offset as i64);
        self.push(self.ty(base), Op::Address { base, index: Some(index), scale, offset, inbounds: true })
    }

    /// A place within the block of memory that `base` leads to.
    pub fn offset(&mut self, base: Value, bytes: u64) -> Value {
        let offset = bytes as i64;
        self.push(self.ty(base), Op::Address { base, index: None, scale: 0, offset, inbounds: true })
    }

    /// A scalar in each lane of a vector type; as it is, if the type is none, and a vector as well.
    pub fn splat(&mut self, value: Value, ty: &Type) -> Value {
        let (&Type::Vector(_, lanes), Type::Scalar(scalar)) = (ty, self.ty(value)) else { return value };
        let ty = Type::Vector(scalar, lanes);
        let first = self.function.int(Type::I32, 0);
        let any = self.constant(ty.clone(), Constant::Poison);
        let vector = self.push(ty.clone(), Op::InsertElement { vector: any, element: value, index: first });
        self.push(ty, Op::Shuffle { first: vector, second: any, mask: vec![0; lanes as usize].into() })
    }

    pub fn load(&mut self, ty: Type, pointer: Value, align: u32) -> Value {
        self.push(ty, Op::Load { pointer, align, volatile: false, ordering: None })
    }

    pub fn store(&mut self, pointer: Value, value: Value, align: u32) -> Inst {
        self.effect(Op::Store { pointer, value, align, volatile: false, ordering: None })
    }

    pub fn jump(&mut self, to: Block, arguments: &[Value]) {
        let target = Target { block: to, arguments: arguments.to_vec() };
        self.function.set_terminator(self.at, Terminator::Jump(target));
    }

    pub fn branch(&mut self, condition: Value, then: (Block, &[Value]), otherwise: (Block, &[Value])) {
        let target = |(block, arguments): (Block, &[Value])| Target { block, arguments: arguments.to_vec() };
        let (then, otherwise) = (target(then), target(otherwise));
        self.function.set_terminator(self.at, Terminator::Branch { condition, then, otherwise });
    }
}

/// How a block ends, while its instructions are written anew: it may end as another block.
pub(crate) struct Ending {
    pub terminator: Terminator,
    hints: Option<LoopHints>,
    pub location: Option<LocationId>,
    fences: u8,
}

impl Ending {
    /// Takes a block's instructions and its end out of it.
    pub fn take(function: &mut Function, block: Block) -> (Vec<Inst>, Ending) {
        let data = &mut function.blocks[block.index()];
        let ending = Ending {
            terminator: std::mem::replace(&mut data.terminator, Terminator::Unreachable),
            hints: data.loop_hints.take(),
            location: data.location.take(),
            fences: data.fences,
        };
        (std::mem::take(&mut data.insts), ending)
    }

    pub fn put(self, function: &mut Function, block: Block) {
        let data = &mut function.blocks[block.index()];
        data.terminator = self.terminator;
        (data.loop_hints, data.location, data.fences) = (self.hints, self.location, self.fences);
    }
}

/// Shows each instruction to `rewrite`, which writes what is to stand in its place, or says false to keep it. It may go on
/// in a block of its own: what follows stands there.
pub(crate) fn rewrite(function: &mut Function, mut rewrite: impl FnMut(&mut Builder, Inst) -> bool) {
    for block in function.block_ids() {
        let (insts, ending) = Ending::take(function, block);
        let mut builder = Builder { function, at: block };
        for inst in insts {
            builder.function.at_location = builder.function.location(inst);
            if !rewrite(&mut builder, inst) {
                builder.function.append(builder.at, inst);
            }
        }
        let end = builder.at;
        function.at_location = None;
        ending.put(function, end);
    }
}

/// Shows each instruction to `write`, which writes what computes its result in another way and yields that, or nothing to keep it.
pub(crate) fn replace_results(
    function: &mut Function,
    mut write: impl FnMut(&mut Builder, Inst) -> Option<Value>,
) {
    let mut replaced = HashMap::new();
    rewrite(function, |builder, inst| {
        let Some(value) = write(builder, inst) else { return false };
        replaced.extend(builder.function.result(inst).map(|result| (result, value)));
        true
    });
    if !replaced.is_empty() {
        replace_uses(function, &replaced);
    }
}

/// Uses other values wherever one of these is used; those may themselves be replaced.
pub(crate) fn replace_uses(function: &mut Function, replaced: &HashMap<Value, Value>) {
    replace_uses_in(function, function.block_ids(), replaced);
}

/// The same in some blocks.
pub(crate) fn replace_uses_in(
    function: &mut Function,
    blocks: impl IntoIterator<Item = Block>,
    replaced: &HashMap<Value, Value>,
) {
    let resolve = |value: &mut Value| {
        while let Some(&new) = replaced.get(value) {
            *value = new;
        }
    };
    for block in blocks {
        for inst in function.block(block).insts.clone() {
            function.op_mut(inst).operands_mut().into_iter().for_each(resolve);
        }
        function.blocks[block.index()].terminator.operands_mut().into_iter().for_each(resolve);
    }
}

/// Copies instructions to the end of a block, with the values that are known, and adds their results to those.
pub(crate) fn copy_insts(
    function: &mut Function,
    insts: &[Inst],
    to: Block,
    known: &mut HashMap<Value, Value>,
) {
    for &inst in insts {
        let mut op = function.op(inst).clone();
        op.operands_mut().into_iter().for_each(|v| *v = known.get(v).copied().unwrap_or(*v));
        let group = function.access_group(inst);
        function.at_location = function.location(inst);
        let copy = match function.result(inst) {
            Some(result) => {
                let new = function.push(to, function.ty(result).clone(), op);
                known.insert(result, new);
                match function.def(new) {
                    ValueDef::Inst(copy) => *copy,
                    _ => continue,
                }
            }
            None => function.push_effect(to, op),
        };
        function.set_access_group(copy, group);
    }
    function.at_location = None;
}

/// Copies blocks that lead to each other, and says which became which.
pub(crate) fn copy_blocks(function: &mut Function, blocks: &[Block]) -> HashMap<Block, Block> {
    let mut known: HashMap<Value, Value> = HashMap::new();
    let mut copies: HashMap<Block, Block> = HashMap::new();
    for &block in blocks {
        let copy = function.add_block();
        copies.insert(block, copy);
        for param in function.block(block).params.clone() {
            let new = function.add_block_param(copy, function.ty(param).clone());
            known.insert(param, new);
        }
    }
    for &block in blocks {
        let from = function.block(block).clone();
        copy_insts(function, &from.insts, copies[&block], &mut known);
        let to = &mut function.blocks[copies[&block].index()];
        (to.loop_hints, to.location, to.fences) = (from.loop_hints, from.location, from.fences);
    }
    let resolve = |value: &mut Value| *value = known.get(value).copied().unwrap_or(*value);
    for &block in blocks {
        // Also those that were copied before what they use.
        for inst in function.block(copies[&block]).insts.clone() {
            function.op_mut(inst).operands_mut().into_iter().for_each(resolve);
        }
        let mut terminator = function.block(block).terminator.clone();
        terminator.operands_mut().into_iter().for_each(resolve);
        for target in terminator.targets_mut() {
            target.block = copies.get(&target.block).copied().unwrap_or(target.block);
        }
        function.set_terminator(copies[&block], terminator);
    }
    copies
}
