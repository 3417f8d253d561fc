//! Transform: sums of integers that are shifted left and then right again, to cut them to 32 bits.
//!
//! LLVM makes `(a << 41) + (b << 32) >> 32` of `(int)(a * 512 + b)`. Here it becomes `((a << 9) + b) << 32 >> 32` again, in which
//! the sum is there to be looked at: whether it fits, and whether it is a number for each lane that follows on the one before.
//!
//! Likewise `(a << 2) & 252`, which LLVM makes of `(a & 63) * 4`, becomes `(a & 63) << 2` again: the remainder of what counts several things.

use crate::builder::{Builder, rewrite};
use crate::{BinaryOp, Function, Inst, Op, Type, Value};

/// Shifts by at least so many bits cut a sum to an int or less.
pub(super) const CUT_BITS: u128 = 32;

/// Has such sums and products, and remainders, shifted as a whole. All is modulo 2^64, so nothing is lost.
pub fn factor_shifts(function: &mut Function) {
    rewrite(function, |builder, inst| {
        let Some(shifted) = shifted(builder, inst).or_else(|| shifted_remainder(builder, inst)) else {
            return false;
        };
        builder.replace(inst, shifted);
        true
    });
}

/// What the instruction's result is as a shifted value.
fn shifted(builder: &mut Builder, inst: Inst) -> Option<Op> {
    let Op::Binary { op, lhs, rhs, .. } = *builder.function.op(inst) else { return None };
    if *builder.function.ty(lhs) != Type::I64 {
        return None;
    }
    let (whole, by) = match op {
        BinaryOp::Mul => {
            let by = constant_shift(builder.function, rhs).filter(|&by| by >= CUT_BITS)?;
            let factor = unshifted_constant(builder, rhs, by)?;
            (builder.binary(BinaryOp::Mul, 0, lhs, factor), by)
        }
        BinaryOp::Add | BinaryOp::Sub => {
            let shifts = [lhs, rhs].map(|term| {
                left_shift(builder.function, term)
                    .map(|(_, by)| by)
                    .or_else(|| constant_shift(builder.function, term))
            });
            let by = shifts[0]?.min(shifts[1]?);
            if by < CUT_BITS {
                return None;
            }
            let [lhs, rhs] = [unshifted(builder, lhs, by)?, unshifted(builder, rhs, by)?];
            (builder.binary(op, 0, lhs, rhs), by)
        }
        _ => return None,
    };
    let rhs = builder.int(by as u64);
    Some(Op::Binary { op: BinaryOp::Shl, flags: Default::default(), lhs: whole, rhs })
}

/// What is masked behind a shift, masked before it, if all lower bits are left.
fn shifted_remainder(builder: &mut Builder, inst: Inst) -> Option<Op> {
    let Op::Binary { op: BinaryOp::And, lhs, rhs, .. } = *builder.function.op(inst) else { return None };
    let (ty, mask) = (builder.function.ty(lhs).clone(), builder.function.constant_int(rhs)?);
    let (number, by) = left_shift(builder.function, lhs).filter(|&(_, by)| by > 0)?;
    let left = mask.checked_shr(u32::try_from(by).ok()?)?;
    if left == 0 || !(left + 1).is_power_of_two() {
        return None;
    }
    let mask = builder.function.int(ty.clone(), left);
    let remainder = builder.binary(BinaryOp::And, 0, number, mask);
    let rhs = builder.function.int(ty, by);
    Some(Op::Binary { op: BinaryOp::Shl, flags: Default::default(), lhs: remainder, rhs })
}

/// What is shifted left, and by how much.
fn left_shift(function: &Function, value: Value) -> Option<(Value, u128)> {
    match *function.defining_op(value)? {
        Op::Binary { op: BinaryOp::Shl, lhs, rhs, .. } => {
            Some((lhs, function.constant_int(rhs).filter(|&by| by < 64)?))
        }
        _ => None,
    }
}

/// By how much a constant but zero can be shifted right without a loss.
fn constant_shift(function: &Function, value: Value) -> Option<u128> {
    let bits = function.constant_int(value).filter(|&bits| bits as u64 != 0)?;
    Some(u128::from((bits as u64).trailing_zeros()))
}

fn unshifted(builder: &mut Builder, value: Value, by: u128) -> Option<Value> {
    let Some((inner, own)) = left_shift(builder.function, value) else {
        return unshifted_constant(builder, value, by);
    };
    if own == by {
        return Some(inner);
    }
    let rest = builder.int((own - by) as u64);
    Some(builder.binary(BinaryOp::Shl, 0, inner, rest))
}

/// The constant as a signed number, shifted right.
fn unshifted_constant(builder: &mut Builder, value: Value, by: u128) -> Option<Value> {
    let bits = builder.function.constant_int(value)? as u64 as i64;
    Some(builder.int((bits >> by) as u64))
}
