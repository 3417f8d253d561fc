//! Transform: counters of loops of which only the lowest bits are asked for (LLVM's demanded bits).
//!
//! In `for (int k = get_global_id(0); k < n; k += get_global_size(0))` the sum has 64 bits, and each iteration cuts it to 32 and extends
//! it again before it adds to it. The extension's upper bits are asked by nobody: without it the counter is a sum of what lanes have one
//! after the other and of what they share, and where it is used as an index packs can ask whether it wraps.

use crate::{BinaryOp, CastOp, Flags, Function, Inst, Op, Scalar, Terminator, Type, Value, ValueDef};
use fixedbitset::FixedBitSet;
use std::collections::HashMap;

/// Has counters added to as they are, where the bits that an extension changes are not asked for.
pub fn count_in_demanded_bits(function: &mut Function) {
    // Most kernels have none, and what is asked for takes a look at all of them.
    let is_counter = |value: Value| counter(function, value, 0).is_some();
    let adds = |inst: Inst| matches!(*function.op(inst), Op::Binary { lhs, rhs, .. } if is_counter(lhs) || is_counter(rhs));
    if !function.insts().any(adds) {
        return;
    }
    let demanded = Demanded::new(function);
    let mut changed = FixedBitSet::with_capacity(function.value_count());
    let insts: Vec<Inst> = function.insts().collect();
    for inst in insts {
        let (&Op::Binary { op, lhs, rhs, .. }, Some(result)) = (function.op(inst), function.result(inst))
        else {
            continue;
        };
        let bits = demanded.of(result);
        let as_it_is = |number: usize, operand: Value| {
            let asked = asked(function, function.op(inst), number, bits);
            asked.and_then(|asked| counter(function, operand, asked)).unwrap_or(operand)
        };
        let new = (as_it_is(0, lhs), as_it_is(1, rhs));
        if new != (lhs, rhs) {
            *function.op_mut(inst) = Op::Binary { op, flags: Flags::NONE, lhs: new.0, rhs: new.1 };
            changed.insert(result.index());
        }
    }
    if !changed.is_clear() {
        drop_promises(function, &demanded, changed);
    }
}

/// What was promised of results was promised of operands whose upper bits were others: of those that are made of changed ones, as far as
/// not all of their bits are asked for.
fn drop_promises(function: &mut Function, demanded: &Demanded, mut changed: FixedBitSet) {
    let mut before = 0;
    while before != changed.count_ones(..) {
        before = changed.count_ones(..);
        for target in function.blocks.iter().flat_map(|data| data.terminator.targets()) {
            for (param, argument) in function.block(target.block).params.iter().zip(&target.arguments) {
                if changed.contains(argument.index()) {
                    changed.insert(param.index());
                }
            }
        }
        let insts: Vec<Inst> = function.insts().collect();
        for inst in insts {
            let op = function.op(inst);
            let is_of_changed = |(number, operand): (usize, Value)| {
                let is_passed = asked(function, op, number, 0).is_some();
                is_passed && changed.contains(operand.index())
            };
            if !op.operands().into_iter().enumerate().any(is_of_changed) {
                continue;
            }
            let Some(result) = function.result(inst) else { continue };
            match function.op_mut(inst) {
                // Of the bits that are asked for it is the same.
                Op::Binary { op: op @ BinaryOp::Or, flags, .. } if flags.0 & Flags::DISJOINT != 0 => {
                    (*op, *flags) = (BinaryOp::Add, Flags::NONE);
                }
                Op::Binary { flags, .. } | Op::Cast { flags, .. } => *flags = Flags::NONE,
                _ => {}
            }
            if width(function, result).is_some_and(|width| demanded.of(result) < width) {
                changed.insert(result.index());
            }
        }
    }
}

/// The loop's or block's parameter that an operand's lowest bits, so many, are those of, if it is an extension of it.
fn counter(function: &Function, operand: Value, asked: u32) -> Option<Value> {
    let inner = match *function.defining_op(operand)? {
        Op::Binary { op: BinaryOp::And, lhs, rhs, .. } => {
            let kept = function.constant_int(rhs)?.trailing_ones();
            (kept >= asked).then_some(lhs)
        }
        Op::Binary { op: BinaryOp::AShr | BinaryOp::LShr, lhs, rhs, .. } => {
            let &Op::Binary { op: BinaryOp::Shl, lhs: inner, rhs: left, .. } = function.defining_op(lhs)?
            else {
                return None;
            };
            let (left, right) = (function.constant_int(left)?, function.constant_int(rhs)?);
            let kept = u128::from(width(function, operand)?).checked_sub(left)?;
            (left == right && kept >= asked.into()).then_some(inner)
        }
        Op::Cast { op: CastOp::SExt | CastOp::ZExt, value, .. } => {
            let &Op::Cast { op: CastOp::Trunc, value: inner, .. } = function.defining_op(value)? else {
                return None;
            };
            let is_same = function.ty(inner) == function.ty(operand);
            (is_same && width(function, value)? >= asked).then_some(inner)
        }
        _ => None,
    }?;
    matches!(function.def(inner), ValueDef::BlockParam(..)).then_some(inner)
}

/// Of an integer, in bits.
fn width(function: &Function, value: Value) -> Option<u32> {
    match *function.ty(value) {
        Type::Scalar(Scalar::Int(bits @ 1..=64)) => Some(bits),
        _ => None,
    }
}

/// How many of an operand's lowest bits decide so many of an operation's result; None: all of them.
fn asked(function: &Function, op: &Op, operand: usize, bits: u32) -> Option<u32> {
    match *op {
        Op::Binary {
            op: BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Or | BinaryOp::Xor,
            ..
        } => Some(bits),
        Op::Binary { op: BinaryOp::And, rhs, .. } => {
            let mask = function.constant_int(rhs).map_or(bits, |mask| u128::BITS - mask.leading_zeros());
            Some(bits.min(mask))
        }
        Op::Binary { op: BinaryOp::Shl, rhs, .. } if operand == 0 => {
            let by = u32::try_from(function.constant_int(rhs)?).ok()?;
            Some(bits.saturating_sub(by))
        }
        Op::Cast { op: CastOp::Trunc, .. } => Some(bits),
        Op::Cast { op: CastOp::SExt | CastOp::ZExt, value, .. } => Some(bits.min(width(function, value)?)),
        Op::Select { .. } if operand > 0 => Some(bits),
        _ => None,
    }
}

/// How many of each value's lowest bits are asked for.
struct Demanded {
    bits: Vec<u32>,
}

impl Demanded {
    fn new(function: &Function) -> Self {
        let mut brought: HashMap<Value, Vec<Value>> = HashMap::new();
        let mut found = Demanded { bits: vec![0; function.value_count()] };
        let mut work = Vec::new();
        for data in &function.blocks {
            for target in data.terminator.targets() {
                let params = &function.block(target.block).params;
                for (&param, &argument) in params.iter().zip(&target.arguments) {
                    brought.entry(param).or_default().push(argument);
                }
            }
            let returned = if let Terminator::Return(value) = data.terminator { value } else { None };
            for operand in data.terminator.condition().into_iter().chain(returned) {
                found.ask(function, operand, None, &mut work);
            }
            for &inst in &data.insts {
                let op = function.op(inst);
                for (number, operand) in op.operands().into_iter().enumerate() {
                    let bits = function.result(inst).and_then(|_| asked(function, op, number, 0));
                    found.ask(function, operand, bits, &mut work);
                }
            }
        }
        while let Some(value) = work.pop() {
            let bits = found.of(value);
            if let ValueDef::BlockParam(..) = function.def(value) {
                for &argument in brought.get(&value).into_iter().flatten() {
                    found.ask(function, argument, Some(bits), &mut work);
                }
            }
            if let Some(op) = function.defining_op(value) {
                for (number, operand) in op.operands().into_iter().enumerate() {
                    found.ask(function, operand, asked(function, op, number, bits), &mut work);
                }
            }
        }
        found
    }

    fn of(&self, value: Value) -> u32 {
        self.bits[value.index()]
    }

    fn ask(&mut self, function: &Function, value: Value, bits: Option<u32>, work: &mut Vec<Value>) {
        let all = width(function, value).unwrap_or(u32::MAX);
        let bits = bits.unwrap_or(all).min(all);
        if bits > self.of(value) {
            self.bits[value.index()] = bits;
            work.push(value);
        }
    }
}
