//! Transform: products of 64 bits in loops of which nobody asks for more than 32, as those of `long` random numbers and hashes that end
//! as an `int`.
//!
//! LLVM narrows what leads from loads and parameters to such a cut, but stops where a value comes from the iteration before. Lanes of 32
//! bits are twice as many in a register, and processors multiply them in one step where 64 bits take three.

use super::demanded_bits::drop_promises;
use crate::analysis::demanded_bits::{Demanded, asked};
use crate::builder::{Builder, replace_uses, rewrite};
use crate::{BinaryOp, CastOp, Flags, Function, Inst, Op, Type, Value, ValueDef};
use fixedbitset::FixedBitSet;
use std::collections::{HashMap, HashSet};

/// What is left of the 64.
const NARROW: u32 = 32;

/// Computes them in 32 bits.
pub fn narrow_loops(function: &mut Function) {
    // Most kernels have none, and what is asked for takes a look at all of them.
    if !function.insts().any(|inst| is_product(function, inst)) {
        return;
    }
    let narrow = found(function, &Demanded::new(function));
    if narrow.is_empty() {
        return;
    }
    let mut extended = FixedBitSet::with_capacity(function.value_count());
    let mut cut = HashMap::new();
    narrow.iter().for_each(|&value| function.retype(value, Type::I32));
    rewrite(function, |builder, inst| {
        if builder.function.result(inst).is_some_and(|result| narrow.contains(&result)) {
            compute_narrowly(builder, inst, &narrow);
            return false;
        }
        if let &Op::Cast { op: CastOp::Trunc, value, .. } = builder.function.op(inst)
            && let Some(result) = builder.function.result(inst).filter(|_| narrow.contains(&value))
            && *builder.function.ty(result) == Type::I32
        {
            cut.insert(result, value);
            return true;
        }
        extend_operands(builder, inst, &narrow, &mut extended);
        false
    });
    bring_narrowly(function, &narrow);
    replace_uses(function, &cut);
    extended.grow(function.value_count());
    drop_promises(function, &Demanded::new(function), extended);
}

fn is_product(function: &Function, inst: Inst) -> bool {
    let is_wide = |value| *function.ty(value) == Type::I64;
    matches!(function.op(inst), Op::Binary { op: BinaryOp::Mul, lhs, .. } if is_wide(*lhs))
}

/// What can be computed in 32 bits: all that hangs together, if it has a product and goes around a loop.
fn found(function: &Function, demanded: &Demanded) -> HashSet<Value> {
    let fits = |&value: &Value| {
        (1..=NARROW).contains(&demanded.of(value))
            && *function.ty(value) == Type::I64
            && has_lowest_bits_of_its_operands(function, value)
    };
    let next = neighbours(function, &fits);
    let mut seen = HashSet::new();
    let mut all = HashSet::new();
    for inst in function.insts().filter(|&inst| is_product(function, inst)) {
        let mut work: Vec<Value> = function.result(inst).into_iter().filter(fits).collect();
        let mut part = Vec::new();
        while let Some(value) = work.pop() {
            if seen.insert(value) {
                part.push(value);
                work.extend(next.get(&value).into_iter().flatten());
            }
        }
        if part.iter().any(|&value| matches!(function.def(value), ValueDef::BlockParam(..))) {
            all.extend(part);
        }
    }
    all
}

/// Whether a value's lowest bits are made of those of its operands, or of what is brought to its block.
fn has_lowest_bits_of_its_operands(function: &Function, value: Value) -> bool {
    use BinaryOp::{Add, And, Mul, Or, Shl, Sub, Xor};
    match *function.def(value) {
        ValueDef::BlockParam(..) => true,
        ValueDef::Inst(inst) => match *function.op(inst) {
            Op::Binary { op: Add | Sub | Mul | And | Or | Xor, .. } | Op::Select { .. } => true,
            Op::Binary { op: Shl, rhs, .. } => {
                function.constant_int(rhs).is_some_and(|by| by < NARROW.into())
            }
            _ => false,
        },
        _ => false,
    }
}

/// Those values that fit which each of them is made of or brought to, both ways.
fn neighbours(function: &Function, fits: &impl Fn(&Value) -> bool) -> HashMap<Value, Vec<Value>> {
    let mut next: HashMap<Value, Vec<Value>> = HashMap::new();
    let mut join = |one: Value, other: Value| {
        if fits(&one) && fits(&other) {
            next.entry(one).or_default().push(other);
            next.entry(other).or_default().push(one);
        }
    };
    for inst in function.insts() {
        let Some(result) = function.result(inst) else { continue };
        let op = function.op(inst);
        for (number, operand) in op.operands().into_iter().enumerate() {
            if asked(function, op, number, 0).is_some() {
                join(result, operand);
            }
        }
    }
    for target in function.blocks.iter().flat_map(|data| data.terminator.targets()) {
        let params = &function.block(target.block).params;
        params.iter().zip(&target.arguments).for_each(|(&param, &argument)| join(param, argument));
    }
    next
}

/// Has an operation of 64 bits take what it is to take in 32. It may wrap where it didn't.
fn compute_narrowly(builder: &mut Builder, inst: Inst, narrow: &HashSet<Value>) {
    let mut op = builder.function.op(inst).clone();
    for operand in op.operands_mut() {
        if *builder.function.ty(*operand) == Type::I64 {
            *operand = lowest_bits(builder, *operand, narrow);
        }
    }
    if let Op::Binary { flags, .. } = &mut op {
        *flags = Flags::NONE;
    }
    *builder.function.op_mut(inst) = op;
}

fn lowest_bits(builder: &mut Builder, value: Value, narrow: &HashSet<Value>) -> Value {
    if narrow.contains(&value) {
        return value;
    }
    if let Some(bits) = builder.function.constant_int(value) {
        return builder.function.int(Type::I32, bits & u128::from(u32::MAX));
    }
    match builder.function.defining_op(value) {
        Some(&Op::Cast { op: CastOp::SExt | CastOp::ZExt, value: inner, .. })
            if *builder.function.ty(inner) == Type::I32 =>
        {
            inner
        }
        _ => builder.cast(CastOp::Trunc, Type::I32, value),
    }
}

/// Has others, who ask for no more either, take zeros for the upper bits.
fn extend_operands(builder: &mut Builder, inst: Inst, narrow: &HashSet<Value>, extended: &mut FixedBitSet) {
    let mut op = builder.function.op(inst).clone();
    let is_short =
        |result: Value| builder.function.ty(result).scalar().is_some_and(|to| to.bits() < NARROW.into());
    if matches!(op, Op::Cast { op: CastOp::Trunc, .. }) && builder.function.result(inst).is_some_and(is_short)
    {
        return;
    }
    let mut any = false;
    for operand in op.operands_mut().into_iter().filter(|operand| narrow.contains(operand)) {
        *operand = builder.cast(CastOp::ZExt, Type::I64, *operand);
        extended.grow(operand.index() + 1);
        extended.insert(operand.index());
        any = true;
    }
    if any {
        *builder.function.op_mut(inst) = op;
    }
}

/// What is brought to parameters that have 32 bits now.
fn bring_narrowly(function: &mut Function, narrow: &HashSet<Value>) {
    for block in function.block_ids() {
        let mut terminator = function.block(block).terminator.clone();
        let mut any = false;
        for target in terminator.targets_mut() {
            let params = function.block(target.block).params.clone();
            for (param, argument) in params.iter().zip(&mut target.arguments) {
                if narrow.contains(param) && *function.ty(*argument) == Type::I64 {
                    *argument = lowest_bits(&mut Builder { function, at: block }, *argument, narrow);
                    any = true;
                }
            }
        }
        if any {
            function.set_terminator(block, terminator);
        }
    }
}
