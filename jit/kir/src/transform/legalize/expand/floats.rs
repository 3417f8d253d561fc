//! Legalization: intrinsics on floats and doubles.

use super::{as_integer, bits, ones};
use crate::builder::Builder;
use crate::{
    BinaryOp, CastOp, Constant, FloatPredicate, Function, IntPredicate, Intrinsic, Scalar, Type, Value,
    ValueDef,
};

/// Bits of a format's fraction.
fn fraction_bits(ty: &Type) -> u32 {
    match ty.scalar() {
        Some(Scalar::Half) => 10,
        Some(Scalar::Float) => 23,
        _ => 52,
    }
}

/// Bits of infinity.
fn infinity(ty: &Type) -> u128 {
    let fraction = fraction_bits(ty);
    ones(bits(ty) - 1) >> fraction << fraction
}

/// Bits of 1.0: half the largest exponent, rounded down.
fn one(ty: &Type) -> u64 {
    let fraction = fraction_bits(ty);
    ((infinity(ty) >> (fraction + 1)) << fraction) as u64
}

fn float(builder: &mut Builder, ty: Type, bits: u64) -> Value {
    builder.constant(ty, Constant::Float(bits))
}

/// Half away from zero: the largest number below one half is added, for one half itself would round some numbers below
/// one half up before they are cut.
pub(super) fn round(builder: &mut Builder, x: Value) -> Value {
    let ty = builder.ty(x);
    let below_half = one(&ty) - (1 << fraction_bits(&ty)) - 1;
    let below_half = float(builder, ty, below_half);
    let step = builder.intrinsic(Intrinsic::CopySign, &[below_half, x]);
    let sum = builder.binary(BinaryOp::FAdd, 0, x, step);
    builder.intrinsic(Intrinsic::Truncate, &[sum])
}

pub(super) fn canonicalize(builder: &mut Builder, x: Value) -> Value {
    let ty = builder.ty(x);
    let one = one(&ty);
    let one = float(builder, ty, one);
    builder.binary(BinaryOp::FMul, 0, x, one)
}

/// `minnum` or `maxnum` as x86's instructions make it, which yield their second operand if the two have no order or are
/// equal, zeros of either sign among them.
pub(super) fn number(builder: &mut Builder, which: Intrinsic, x: Value, y: Value) -> Value {
    let first = if which == Intrinsic::MinNumber { FloatPredicate::Olt } else { FloatPredicate::Ogt };
    if is_number(builder.function, y) {
        let before = builder.compare_floats(first, x, y);
        return builder.select(before, x, y);
    }
    let before = builder.compare_floats(first, y, x);
    let chosen = builder.select(before, y, x);
    let none = builder.compare_floats(FloatPredicate::Uno, x, x);
    builder.select(none, y, chosen)
}

/// Whether it is a constant other than NaN.
fn is_number(function: &Function, value: Value) -> bool {
    let ty = function.ty(value);
    match function.def(value) {
        ValueDef::Constant(Constant::Float(number)) => {
            u128::from(*number) & ones(bits(ty) - 1) <= infinity(ty)
        }
        ValueDef::Constant(Constant::Zero) => true,
        _ => false,
    }
}

/// `minimumnum` or `maximumnum`: NaN only if both are, and -0 is less than 0.
pub(super) fn strict_number(builder: &mut Builder, which: Intrinsic, x: Value, y: Value) -> Value {
    let strict = if which == Intrinsic::MinimumNumber { Intrinsic::Minimum } else { Intrinsic::Maximum };
    let [x, y] = [[x, y], [y, x]].map(|[value, other]| {
        let none = builder.compare_floats(FloatPredicate::Uno, value, value);
        builder.select(none, other, value)
    });
    builder.intrinsic(strict, &[x, y])
}

// The classes of `is.fpclass`, negative before positive where there are two.
const SIGNALLING: u128 = 1;
const QUIET: u128 = 1 << 1;
const INFINITE: [u128; 2] = [1 << 2, 1 << 9];
const NORMAL: [u128; 2] = [1 << 3, 1 << 8];
const SUBNORMAL: [u128; 2] = [1 << 4, 1 << 7];
const ZERO: [u128; 2] = [1 << 5, 1 << 6];
const ALL: u128 = 0x3ff;

/// Whether a float is of one of the classes, by its bits.
pub(super) fn is_class(builder: &mut Builder, x: Value, classes: Value) -> Value {
    let classes = builder.function.constant_int(classes).unwrap_or(0) & ALL;
    let none = builder.function.int(Type::BOOL, 0);
    if classes == 0 {
        return none;
    }
    let ty = builder.ty(x);
    let integer = as_integer(&ty);
    let pattern = builder.cast(CastOp::BitCast, integer.clone(), x);
    let mask = builder.function.int(integer, ones(bits(&ty) - 1));
    let magnitude = builder.binary(BinaryOp::And, 0, pattern, mask);
    let (infinity, least_normal) = (infinity(&ty), 1u128 << fraction_bits(&ty));
    let quiet = infinity | least_normal >> 1;
    let mut found = Vec::new();
    // Magnitudes from one number up to before another.
    let ranges = [
        (ZERO, 0, 1),
        (SUBNORMAL, 1, least_normal),
        (NORMAL, least_normal, infinity),
        (INFINITE, infinity, infinity + 1),
        ([SIGNALLING; 2], infinity + 1, quiet),
        ([QUIET; 2], quiet, ones(bits(&ty) - 1) + 1),
    ];
    for ([negative, positive], from, end) in ranges {
        let wanted = (classes & negative != 0, classes & positive != 0);
        if wanted == (false, false) {
            continue;
        }
        let lies = is_between(builder, magnitude, from, end);
        found.push(match wanted {
            (true, true) => lies,
            (is_negative, _) => {
                let sign = has_sign(builder, pattern, is_negative);
                builder.binary(BinaryOp::And, 0, lies, sign)
            }
        });
    }
    found.into_iter().reduce(|a, b| builder.binary(BinaryOp::Or, 0, a, b)).unwrap_or(none)
}

fn is_between(builder: &mut Builder, magnitude: Value, from: u128, end: u128) -> Value {
    let ty = builder.ty(magnitude);
    let start = builder.function.int(ty.clone(), from);
    let size = builder.function.int(ty, end - from);
    let above = if from == 0 { magnitude } else { builder.binary(BinaryOp::Sub, 0, magnitude, start) };
    builder.compare(IntPredicate::Ult, above, size)
}

fn has_sign(builder: &mut Builder, pattern: Value, negative: bool) -> Value {
    let ty = builder.ty(pattern);
    let zero = builder.function.int(ty, 0);
    builder.compare(if negative { IntPredicate::Slt } else { IntPredicate::Sge }, pattern, zero)
}
