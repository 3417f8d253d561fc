//! Checks: infinities and NaNs that are born, of finite numbers. What is computed of those is none of its business.

use super::{Checker, arithmetic};
use crate::builder::{Builder, rewrite};
use crate::{BinaryOp, CastOp, Flags, FloatPredicate, Intrinsic, Op, Predicate, Scalar, Type, Value};
use spirula_interface::check::Checked;

/// Writes the checks.
pub(super) fn check(function: &mut crate::Function, checker: &mut Checker) {
    rewrite(function, |builder, inst| {
        let Some(result) = builder.function.result(inst).filter(|&result| builder.ty(result).is_float())
        else {
            return false;
        };
        let Some(operands) = operands(builder.function.op(inst)) else { return false };
        let operands: Vec<Value> = operands
            .into_iter()
            .filter(|&operand| {
                let ty = builder.function.ty(operand);
                ty.is_float() && ty.lane_count() == builder.function.ty(result).lane_count()
            })
            .collect();
        if operands.is_empty() {
            return false;
        }
        builder.function.append(builder.at, inst);
        let mut bad = is_finite(builder, result, false);
        for operand in operands {
            let finite = is_finite(builder, operand, true);
            bad = builder.binary(BinaryOp::And, 0, bad, finite);
        }
        arithmetic::tell(builder, checker, inst, bad, Checked::NotFinite);
        true
    });
}

/// What an operation computes with, if it can make something infinite.
fn operands(op: &Op) -> Option<Vec<Value>> {
    match op {
        Op::Binary { lhs, rhs, .. } => Some(vec![*lhs, *rhs]),
        Op::Cast { op: CastOp::FpTrunc, value, .. } => Some(vec![*value]),
        Op::Intrinsic { arguments, .. } | Op::Call { arguments, .. } => Some(arguments.clone()),
        _ => None,
    }
}

/// Whether each lane is a finite number, or is none.
fn is_finite(builder: &mut Builder, value: Value, finite: bool) -> Value {
    let ty = builder.ty(value);
    let size = builder.push_intrinsic(ty.clone(), Intrinsic::FloatAbs, &[value]);
    let infinite = match ty.scalar() {
        Some(Scalar::Half) => 0x7c00,
        Some(Scalar::Float) => u64::from(f32::INFINITY.to_bits()),
        _ => f64::INFINITY.to_bits(),
    };
    let limit = arithmetic::lanes_of(builder, &ty, infinite);
    let predicate = Predicate::Float(if finite { FloatPredicate::Olt } else { FloatPredicate::Uge });
    let lanes: Type = ty.with_scalar(Scalar::Int(1));
    builder.push(lanes, Op::Compare { predicate, flags: Flags::NONE, lhs: size, rhs: limit })
}
