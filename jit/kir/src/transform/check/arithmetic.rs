//! Checks: integer divisions that have no result, and conversions of floats to integers that can't hold them.
//!
//! The front has made both harmless: a divisor is replaced by one where it must not be, and what a conversion yields is frozen. By
//! that they are known from what the builtins do.

use super::Checker;
use crate::builder::{Builder, rewrite};
use crate::{
    BinaryOp, CastOp, Constant, Flags, FloatPredicate, Function, Inst, IntPredicate, Op, Predicate, Scalar,
    Type, UnaryOp, Value, ValueDef,
};
use spirula_interface::check::Checked;
use std::collections::HashSet;

/// Writes the checks.
pub(super) fn check(function: &mut Function, checker: &mut Checker) {
    let frozen: HashSet<Value> = function
        .insts()
        .filter_map(|inst| match function.op(inst) {
            Op::Unary { op: UnaryOp::Freeze, value, .. } => Some(*value),
            _ => None,
        })
        .collect();
    rewrite(function, |builder, inst| {
        match builder.function.op(inst).clone() {
            Op::Binary {
                op: op @ (BinaryOp::UDiv | BinaryOp::SDiv | BinaryOp::URem | BinaryOp::SRem),
                lhs,
                rhs,
                ..
            } => {
                let signed = matches!(op, BinaryOp::SDiv | BinaryOp::SRem);
                if let Some(bad) = has_no_result(builder, (lhs, rhs), signed) {
                    tell(builder, checker, inst, bad, Checked::Division);
                }
            }
            Op::Cast { op: op @ (CastOp::FpToSi | CastOp::FpToUi), value, .. } => {
                let result = builder.function.result(inst).filter(|result| frozen.contains(result));
                let bits = result.and_then(|result| builder.function.ty(result).scalar()).map(Scalar::bits);
                if let Some(bits) = bits
                    && let Some(good) = fits(builder, value, op == CastOp::FpToSi, bits)
                {
                    let bad = negated(builder, good);
                    tell(builder, checker, inst, bad, Checked::Conversion);
                }
            }
            _ => {}
        }
        false
    });
}

/// When a division has no result, if the front has replaced its divisor: by zero, or of the least integer by -1.
fn has_no_result(builder: &mut Builder, (dividend, divisor): (Value, Value), signed: bool) -> Option<Value> {
    let Some(&Op::Select { condition, then, otherwise, .. }) = builder.function.defining_op(divisor) else {
        return None;
    };
    let is_one = match builder.function.def(then) {
        ValueDef::Constant(Constant::Elements(list)) => {
            list.iter().all(|(_, lane)| *lane == Constant::Int(1))
        }
        _ => builder.function.constant_int(then) == Some(1),
    };
    if !is_one {
        return None;
    }
    // The divisor is replaced wherever it is -1, unless it is a constant.
    if !signed || matches!(builder.function.def(otherwise), ValueDef::Constant(_)) {
        return Some(condition);
    }
    let ty = builder.ty(divisor);
    let bits = ty.scalar().map_or(64, Scalar::bits);
    let mut equals = |value, number| {
        let number = integer_lanes(builder, &ty, number);
        let predicate = Predicate::Int(IntPredicate::Eq);
        let op = Op::Compare { predicate, flags: Flags::NONE, lhs: value, rhs: number };
        builder.push(ty.with_scalar(Scalar::Int(1)), op)
    };
    let is_zero = equals(otherwise, 0);
    let is_minus_one = equals(otherwise, u128::MAX >> (128 - bits));
    let is_least = equals(dividend, 1 << (bits - 1));
    let overflows = builder.binary(BinaryOp::And, 0, is_least, is_minus_one);
    Some(builder.binary(BinaryOp::Or, 0, is_zero, overflows))
}

/// An integer in each lane.
fn integer_lanes(builder: &mut Builder, ty: &Type, bits: u128) -> Value {
    let constant = match ty {
        Type::Vector(scalar, lanes) => {
            Constant::Elements(vec![(Type::Scalar(*scalar), Constant::Int(bits)); *lanes as usize])
        }
        _ => Constant::Int(bits),
    };
    builder.constant(ty.clone(), constant)
}

/// Whether a float, or each of a vector's, is in the range of an integer type. None if all numbers that it can be are.
fn fits(builder: &mut Builder, value: Value, signed: bool, bits: u64) -> Option<Value> {
    let ty = builder.ty(value);
    let scalar = ty.scalar()?;
    let mantissa = match scalar {
        Scalar::Half => return None,
        Scalar::Float => 24,
        Scalar::Double => 53,
        _ => return None,
    };
    // The first number that is too large, and the last one that is too small: with its fraction, if there is room for one.
    let end = 2f64.powi(bits as i32 - i32::from(signed));
    let (least, predicate) = match signed {
        true if bits < mantissa => (-end - 1.0, FloatPredicate::Ogt),
        true => (-end, FloatPredicate::Oge),
        false => (-1.0, FloatPredicate::Ogt),
    };
    let low = float(builder, &ty, scalar, least);
    let high = float(builder, &ty, scalar, end);
    let lanes = ty.with_scalar(Scalar::Int(1));
    let mut compare = |predicate, rhs| {
        let predicate = Predicate::Float(predicate);
        builder.push(lanes.clone(), Op::Compare { predicate, flags: Flags::NONE, lhs: value, rhs })
    };
    let (above, below) = (compare(predicate, low), compare(FloatPredicate::Olt, high));
    Some(builder.binary(BinaryOp::And, 0, above, below))
}

fn float(builder: &mut Builder, ty: &Type, scalar: Scalar, value: f64) -> Value {
    let bits = if scalar == Scalar::Float { u64::from((value as f32).to_bits()) } else { value.to_bits() };
    lanes_of(builder, ty, bits)
}

/// A float's bits in each lane.
pub(super) fn lanes_of(builder: &mut Builder, ty: &Type, bits: u64) -> Value {
    let constant = match ty {
        Type::Vector(scalar, lanes) => {
            let lane = (Type::Scalar(*scalar), Constant::Float(bits));
            Constant::Elements(vec![lane; *lanes as usize])
        }
        _ => Constant::Float(bits),
    };
    builder.constant(ty.clone(), constant)
}

fn negated(builder: &mut Builder, bits: Value) -> Value {
    let ty = builder.ty(bits);
    let all = match ty {
        Type::Vector(_, lanes) => Constant::Elements(vec![(Type::BOOL, Constant::Int(1)); lanes as usize]),
        _ => Constant::Int(1),
    };
    let all = builder.constant(ty, all);
    builder.binary(BinaryOp::Xor, 0, bits, all)
}

/// Tells where a bit, or any of a vector's, is set.
pub(super) fn tell(builder: &mut Builder, checker: &mut Checker, inst: Inst, bad: Value, what: Checked) {
    let any = match builder.ty(bad) {
        Type::Vector(_, lanes) => {
            let mut any = builder.function.int(Type::BOOL, 0);
            for lane in 0..lanes {
                let index = builder.function.int(Type::I32, lane.into());
                let bit = builder.push(Type::BOOL, Op::ExtractElement { vector: bad, index });
                any = builder.binary(BinaryOp::Or, 0, any, bit);
            }
            any
        }
        _ => bad,
    };
    let good = negated(builder, any);
    let site = checker.site(builder.function, builder.function.location(inst), what);
    checker.note_unless(builder, good, site);
}
