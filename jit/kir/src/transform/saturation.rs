//! Transform: conversions of vectors of floats to integers that saturate. Processors without AVX10.2 have none, and LLVM takes those of
//! vectors apart, lane by lane: here the floats are bounded before they are converted.

use super::registers::number;
use crate::builder::{Builder, replace_results};
use crate::{CastOp, Constant, FloatPredicate, Function, Intrinsic, Op, Scalar, Type, Value};

/// Replaces those of vectors; the back ends have those of single numbers.
pub fn expand_saturation(function: &mut Function) {
    replace_results(function, |builder, inst| {
        let Op::Intrinsic { intrinsic, arguments, .. } = builder.function.op(inst) else { return None };
        let (is_signed, x) = match intrinsic {
            Intrinsic::FloatToSignedSaturating => (true, arguments[0]),
            Intrinsic::FloatToUnsignedSaturating => (false, arguments[0]),
            _ => return None,
        };
        let to = builder.ty(builder.function.result(inst)?);
        let Type::Vector(Scalar::Int(bits @ (8 | 16 | 32 | 64)), _) = to else { return None };
        let from = builder.ty(x);
        // Exact.
        let x = match from.scalar()? {
            Scalar::Half => builder.cast(CastOp::FpExt, from.with_scalar(Scalar::Float), x),
            _ => x,
        };
        Some(converted(builder, x, &to, Bounds::new(bits, is_signed)))
    });
}

/// What integers of a type can be.
struct Bounds {
    bits: u32,
    is_signed: bool,
    least: i128,
    largest: i128,
}

impl Bounds {
    fn new(bits: u32, is_signed: bool) -> Bounds {
        let (least, largest) = if is_signed { (-(1 << (bits - 1)), 1 << (bits - 1)) } else { (0, 1 << bits) };
        Bounds { bits, is_signed, least, largest: largest - 1 }
    }
}

fn converted(builder: &mut Builder, x: Value, to: &Type, bounds: Bounds) -> Value {
    let ty = builder.ty(x);
    let float = |builder: &mut Builder, value: i128| {
        let bits = match ty.scalar() {
            Some(Scalar::Double) => (value as f64).to_bits(),
            _ => (value as f32).to_bits().into(),
        };
        number(builder, &ty, Constant::Float(bits))
    };
    let precision =
        if ty.scalar() == Some(Scalar::Double) { f64::MANTISSA_DIGITS } else { f32::MANTISSA_DIGITS };
    let is_exact = bounds.bits <= precision;
    let (least, limit) =
        (float(builder, bounds.least), float(builder, bounds.largest + i128::from(!is_exact)));
    // In this order one instruction each; NaN becomes the least number.
    let above = builder.compare_floats(FloatPredicate::Ogt, x, least);
    let bounded = builder.select(above, x, least);
    let below = builder.compare_floats(FloatPredicate::Olt, bounded, limit);
    let other = if is_exact { limit } else { least };
    let bounded = builder.select(below, bounded, other);
    let op = if bounds.is_signed { CastOp::FpToSi } else { CastOp::FpToUi };
    let mut value = builder.cast(op, to.clone(), bounded);
    if !is_exact {
        let largest = number(builder, to, Constant::Int(bounds.largest as u128));
        let is_beyond = builder.compare_floats(FloatPredicate::Oge, x, limit);
        value = builder.select(is_beyond, largest, value);
    }
    if bounds.is_signed {
        let zero = number(builder, to, Constant::Int(0));
        let is_number = builder.compare_floats(FloatPredicate::Ord, x, x);
        value = builder.select(is_number, value, zero);
    }
    value
}
