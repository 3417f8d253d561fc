//! Checks: integer divisions that have no result, and conversions of floats to integers that can't hold them.
//!
//! The front has made both harmless: a divisor is replaced by one where it must not be, and what a conversion yields is frozen. By
//! that they are known from what the builtins do.

use super::Checker;
use crate::builder::{Builder, rewrite};
use crate::{
    BinaryOp, CastOp, Constant, Flags, FloatPredicate, Function, Inst, Op, Predicate, Scalar, Type, UnaryOp,
    Value,
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
                op: BinaryOp::UDiv | BinaryOp::SDiv | BinaryOp::URem | BinaryOp::SRem, rhs, ..
            } => {
                if let Some(bad) = guard(builder.function, rhs) {
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

/// When the front takes another divisor.
fn guard(function: &Function, divisor: Value) -> Option<Value> {
    let Some(&Op::Select { condition, then, .. }) = function.defining_op(divisor) else { return None };
    let is_one = match function.def(then) {
        crate::ValueDef::Constant(Constant::Elements(list)) => {
            list.iter().all(|(_, lane)| *lane == Constant::Int(1))
        }
        _ => function.constant_int(then) == Some(1),
    };
    is_one.then_some(condition)
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
