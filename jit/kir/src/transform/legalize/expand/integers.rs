//! Legalization: intrinsics on integers, of any width.

use super::{Illegal, bits, ones};
use crate::builder::Builder;
use crate::{BinaryOp, CastOp, IntPredicate, Intrinsic, Type, Value};

/// Whether registers hold integers of that width, and operations on them are instructions.
fn is_plain(bits: u32) -> bool {
    matches!(bits, 8 | 16 | 32 | 64)
}

/// A constant of the value's type.
fn like(builder: &mut Builder, value: Value, number: u128) -> Value {
    builder.function.int(builder.ty(value), number)
}

/// The least or the largest number, whichever has the sign of `x`.
fn bound_of_sign(builder: &mut Builder, x: Value) -> Value {
    let width = bits(builder.function.ty(x));
    let last = like(builder, x, u128::from(width - 1));
    let sign = builder.binary(BinaryOp::AShr, 0, x, last);
    let largest = like(builder, x, ones(width) >> 1);
    builder.binary(BinaryOp::Xor, 0, sign, largest)
}

pub(super) fn signed_saturating(builder: &mut Builder, subtract: bool, x: Value, y: Value) -> Value {
    let op = if subtract { BinaryOp::Sub } else { BinaryOp::Add };
    let sum = builder.binary(op, 0, x, y);
    // A sum overflows if both operands have another sign than it, a difference if x has another one than both others.
    let one = builder.binary(BinaryOp::Xor, 0, x, sum);
    let other = builder.binary(BinaryOp::Xor, 0, y, if subtract { x } else { sum });
    let both = builder.binary(BinaryOp::And, 0, one, other);
    let zero = like(builder, x, 0);
    let overflow = builder.compare(IntPredicate::Slt, both, zero);
    let bound = bound_of_sign(builder, x);
    builder.select(overflow, bound, sum)
}

pub(super) fn unsigned_saturating_sum(builder: &mut Builder, x: Value, y: Value) -> Value {
    let sum = builder.binary(BinaryOp::Add, 0, x, y);
    let overflow = builder.compare(IntPredicate::Ult, sum, x);
    let largest = like(builder, x, ones(bits(builder.function.ty(x))));
    builder.select(overflow, largest, sum)
}

pub(super) fn unsigned_saturating_difference(builder: &mut Builder, x: Value, y: Value) -> Value {
    let difference = builder.binary(BinaryOp::Sub, 0, x, y);
    let overflow = builder.compare(IntPredicate::Ult, x, y);
    let zero = like(builder, x, 0);
    builder.select(overflow, zero, difference)
}

pub(super) fn saturating_shift(builder: &mut Builder, signed: bool, x: Value, count: Value) -> Value {
    let shifted = builder.binary(BinaryOp::Shl, 0, x, count);
    let back = if signed { BinaryOp::AShr } else { BinaryOp::LShr };
    let back = builder.binary(back, 0, shifted, count);
    let fits = builder.compare(IntPredicate::Eq, back, x);
    let bound = match signed {
        true => bound_of_sign(builder, x),
        false => like(builder, x, ones(bits(builder.function.ty(x)))),
    };
    builder.select(fits, shifted, bound)
}

/// The upper or, shifted right, the lower half of two integers that stand end to end.
pub(super) fn funnel_shift(
    builder: &mut Builder,
    left: bool,
    [high, low]: [Value; 2],
    count: Value,
) -> Result<Value, Illegal> {
    let width = bits(builder.function.ty(high));
    if width == 1 {
        return Ok(if left { high } else { low });
    }
    let count = modulo(builder, count, width)?;
    Ok(shifted(builder, left, [high, low], count))
}

/// The same by a count below the width.
fn shifted(builder: &mut Builder, left: bool, [high, low]: [Value; 2], count: Value) -> Value {
    let width = bits(builder.function.ty(high));
    if let Some(count) = builder.function.constant_int(count) {
        let (up, down) =
            if left { (count, u128::from(width) - count) } else { (u128::from(width) - count, count) };
        return match count {
            0 => {
                if left {
                    high
                } else {
                    low
                }
            }
            _ => join(builder, (high, up), (low, down)),
        };
    }
    let (up, down) = (BinaryOp::Shl, BinaryOp::LShr);
    let rest = {
        let most = like(builder, count, u128::from(width - 1));
        builder.binary(BinaryOp::Sub, 0, most, count)
    };
    // The other part goes the rest of the way in two steps: it may be the whole width.
    let one = like(builder, count, 1);
    let (kept, other) = match left {
        true => {
            let kept = builder.binary(up, 0, high, count);
            let other = builder.binary(down, 0, low, one);
            (kept, builder.binary(down, 0, other, rest))
        }
        false => {
            let kept = builder.binary(down, 0, low, count);
            let other = builder.binary(up, 0, high, one);
            (kept, builder.binary(up, 0, other, rest))
        }
    };
    builder.binary(BinaryOp::Or, 0, kept, other)
}

fn join(builder: &mut Builder, (high, up): (Value, u128), (low, down): (Value, u128)) -> Value {
    let (up, down) = (like(builder, high, up), like(builder, low, down));
    let high = builder.binary(BinaryOp::Shl, 0, high, up);
    let low = builder.binary(BinaryOp::LShr, 0, low, down);
    builder.binary(BinaryOp::Or, 0, high, low)
}

fn modulo(builder: &mut Builder, count: Value, width: u32) -> Result<Value, Illegal> {
    if let Some(constant) = builder.function.constant_int(count) {
        return Ok(like(builder, count, constant % u128::from(width)));
    }
    let (op, operand) = match width.is_power_of_two() {
        true => (BinaryOp::And, width - 1),
        false => (BinaryOp::URem, width),
    };
    super::divisible(op, builder.function.ty(count))?;
    let operand = like(builder, count, operand.into());
    Ok(builder.binary(op, 0, count, operand))
}

/// 1, 0 or -1.
pub(super) fn three_way(builder: &mut Builder, signed: bool, x: Value, y: Value, ty: &Type) -> Value {
    let (above, below) = match signed {
        true => (IntPredicate::Sgt, IntPredicate::Slt),
        false => (IntPredicate::Ugt, IntPredicate::Ult),
    };
    let [above, below] = [above, below].map(|predicate| {
        let holds = builder.compare(predicate, x, y);
        builder.cast(CastOp::ZExt, ty.clone(), holds)
    });
    builder.binary(BinaryOp::Sub, 0, above, below)
}

/// The width of the instructions that count and compare what is narrower.
fn counted_width(width: u32) -> Option<u32> {
    match width {
        32 | 64 | 128 => None,
        0..32 => Some(32),
        33..64 => Some(64),
        _ => Some(128),
    }
}

pub(super) fn magnitude(builder: &mut Builder, x: Value, flag: Value) -> Option<Value> {
    let ty = builder.ty(x);
    let wide = counted_width(bits(&ty))?;
    let x = builder.cast(CastOp::SExt, Type::int(wide), x);
    let magnitude = builder.intrinsic(Intrinsic::Abs, &[x, flag]);
    Some(builder.cast(CastOp::Trunc, ty, magnitude))
}

pub(super) fn count_zeros(builder: &mut Builder, which: Intrinsic, x: Value, flag: Value) -> Option<Value> {
    let ty = builder.ty(x);
    let width = bits(&ty);
    let wide = counted_width(width)?;
    let x = builder.cast(CastOp::ZExt, Type::int(wide), x);
    let count = if which == Intrinsic::LeadingZeros {
        let count = builder.intrinsic(which, &[x, flag]);
        let added = like(builder, x, u128::from(wide - width));
        builder.binary(BinaryOp::Sub, 0, count, added)
    } else {
        // A one behind the last bit ends the count there.
        let end = like(builder, x, 1 << width);
        let x = builder.binary(BinaryOp::Or, 0, x, end);
        builder.intrinsic(which, &[x, flag])
    };
    Some(builder.cast(CastOp::Trunc, ty, count))
}

/// What goes bit by bit, or byte by byte.
pub(super) fn bitwise(builder: &mut Builder, which: Intrinsic, x: Value) -> Option<Value> {
    let ty = builder.ty(x);
    let width = bits(&ty);
    let wide = match width {
        ..8 => 8,
        _ => width.next_power_of_two(),
    };
    if wide == width {
        return None;
    }
    let x = builder.cast(CastOp::ZExt, Type::int(wide), x);
    let mut result = builder.intrinsic(which, &[x]);
    if which != Intrinsic::PopCount {
        // What was first is last now, behind what was added.
        let added = like(builder, x, u128::from(wide - width));
        result = builder.binary(BinaryOp::LShr, 0, result, added);
    }
    Some(builder.cast(CastOp::Trunc, ty, result))
}

/// Of integers that are too wide for the instructions.
pub(super) fn extremum(builder: &mut Builder, which: Intrinsic, x: Value, y: Value) -> Option<Value> {
    let predicate = match which {
        _ if bits(builder.function.ty(x)) <= 64 => return None,
        Intrinsic::SignedMax => IntPredicate::Sgt,
        Intrinsic::SignedMin => IntPredicate::Slt,
        Intrinsic::UnsignedMax => IntPredicate::Ugt,
        _ => IntPredicate::Ult,
    };
    let first = builder.compare(predicate, x, y);
    Some(builder.select(first, x, y))
}

/// A sum, difference or product, and whether it doesn't fit; None if that is an instruction.
pub(super) fn with_overflow(
    builder: &mut Builder,
    which: Intrinsic,
    x: Value,
    y: Value,
) -> Result<Option<[Value; 2]>, Illegal> {
    use Intrinsic::*;
    let ty = builder.ty(x);
    let width = bits(&ty);
    let (op, signed) = match which {
        SignedAddWithOverflow => (BinaryOp::Add, true),
        UnsignedAddWithOverflow => (BinaryOp::Add, false),
        SignedSubWithOverflow => (BinaryOp::Sub, true),
        UnsignedSubWithOverflow => (BinaryOp::Sub, false),
        SignedMulWithOverflow => (BinaryOp::Mul, true),
        _ => (BinaryOp::Mul, false),
    };
    match width {
        _ if is_plain(width) => return Ok(None),
        128 if op != BinaryOp::Mul => return Ok(None),
        ..64 => {}
        _ => return Err(Illegal::new(format!("`{}` of {ty}", which.name()))),
    }
    // Twice the width holds any of them.
    let extend = if signed { CastOp::SExt } else { CastOp::ZExt };
    let wide = Type::int((2 * width).next_power_of_two().max(8));
    let [x, y] = [x, y].map(|value| builder.cast(extend, wide.clone(), value));
    let whole = builder.binary(op, 0, x, y);
    let part = builder.cast(CastOp::Trunc, ty, whole);
    let again = builder.cast(extend, wide, part);
    let overflow = builder.compare(IntPredicate::Ne, again, whole);
    Ok(Some([part, overflow]))
}
