//! Transform: counters of loops of which only the lowest bits are asked for (LLVM's demanded bits).
//!
//! In `for (int k = get_global_id(0); k < n; k += get_global_size(0))` the sum has 64 bits, and each iteration cuts it to 32 and extends
//! it again before it adds to it. The extension's upper bits are asked by nobody: without it the counter is a sum of what lanes have one
//! after the other and of what they share, and where it is used as an index packs can ask whether it wraps.

use crate::analysis::demanded_bits::{Demanded, asked, width};
use crate::{BinaryOp, CastOp, Flags, Function, Inst, Op, Value, ValueDef};
use fixedbitset::FixedBitSet;

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
pub(super) fn drop_promises(function: &mut Function, demanded: &Demanded, mut changed: FixedBitSet) {
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
