//! An atomic operation that few processors have, on floats or a minimum or maximum, as a loop that computes a new value and exchanges it
//! for the old one until nobody else has come between. A minimum that changes nothing is only a load, where no other memory is
//! ordered by it: most attempts to lower a distance or a bound find that somebody was there before, and an exchange takes the line
//! away from all others.

use crate::builder::Builder;
use crate::{
    BinaryOp, CastOp, IntPredicate, Intrinsic, Op, Ordering, RmwOp, Scalar, Target, Terminator, Type, Value,
};

/// What is accessed, and how.
pub(crate) struct Access {
    pub pointer: Value,
    pub ordering: Ordering,
    pub volatile: bool,
    pub align: u32,
}

/// Writes the loop. Yields the bits of what was there before.
pub(crate) fn exchange_loop(builder: &mut Builder, op: RmwOp, access: Access, value: Value) -> Value {
    let Access { pointer, ordering, volatile, align } = access;
    let ty = builder.ty(value);
    let integer = Type::int(ty.scalar().map_or(0, Scalar::bits) as u32);
    let (attempt, done) = (builder.function.add_block(), builder.function.add_block());
    let expected = builder.function.add_block_param(attempt, integer.clone());
    let relaxed = Some(Ordering::Monotonic);
    let first = builder.push(integer.clone(), Op::Load { pointer, align, volatile, ordering: relaxed });
    builder.jump(attempt, &[first]);

    builder.at = attempt;
    let old = from_integer(builder, expected, &ty);
    let new = combine(builder, op, old, value);
    let replacement = to_integer(builder, new, &integer);
    if is_extreme(op) && ordering == Ordering::Monotonic {
        let change = builder.function.add_block();
        let is_same = builder.compare(IntPredicate::Eq, replacement, expected);
        builder.branch(is_same, (done, &[]), (change, &[]));
        builder.at = change;
    }
    let failure = match ordering {
        Ordering::Release => Ordering::Monotonic,
        Ordering::AcqRel => Ordering::Acquire,
        other => other,
    };
    let pair = Type::Struct([integer.clone(), Type::BOOL].into());
    let exchange = Op::CompareExchange {
        pointer,
        expected,
        replacement,
        success: ordering,
        failure,
        weak: false,
        volatile,
        align,
    };
    let pair = builder.push(pair, exchange);
    let mut member = |ty: Type, index: u32| {
        builder.push(ty, Op::ExtractValue { aggregate: pair, indices: [index].as_slice().into() })
    };
    let (found, exchanged) = (member(integer, 0), member(Type::BOOL, 1));
    builder.function.set_terminator(
        builder.at,
        Terminator::Branch {
            condition: exchanged,
            then: Target::to(done),
            otherwise: Target { block: attempt, arguments: vec![found] },
        },
    );
    builder.at = done;
    expected
}

/// Whether it often leaves what it finds.
fn is_extreme(op: RmwOp) -> bool {
    matches!(op, RmwOp::Max | RmwOp::Min | RmwOp::UMax | RmwOp::UMin | RmwOp::FMax | RmwOp::FMin)
}

/// The bits of a float, or a pointer's address; an integer as it is.
pub(crate) fn to_integer(builder: &mut Builder, value: Value, integer: &Type) -> Value {
    if builder.ty(value) == *integer {
        return value;
    }
    let op = if builder.ty(value).is_float() { CastOp::BitCast } else { CastOp::PtrToInt };
    builder.cast(op, integer.clone(), value)
}

/// The float of some bits, or the pointer to an address; an integer as it is.
pub(crate) fn from_integer(builder: &mut Builder, value: Value, ty: &Type) -> Value {
    if builder.ty(value) == *ty {
        return value;
    }
    let op = if ty.is_float() { CastOp::BitCast } else { CastOp::IntToPtr };
    builder.cast(op, ty.clone(), value)
}

fn combine(builder: &mut Builder, op: RmwOp, old: Value, value: Value) -> Value {
    match op {
        RmwOp::FAdd => builder.binary(BinaryOp::FAdd, 0, old, value),
        RmwOp::FSub => builder.binary(BinaryOp::FSub, 0, old, value),
        RmwOp::FMax => builder.intrinsic(Intrinsic::MaxNumber, &[old, value]),
        RmwOp::FMin => builder.intrinsic(Intrinsic::MinNumber, &[old, value]),
        RmwOp::Max => builder.intrinsic(Intrinsic::SignedMax, &[old, value]),
        RmwOp::Min => builder.intrinsic(Intrinsic::SignedMin, &[old, value]),
        RmwOp::UMax => builder.intrinsic(Intrinsic::UnsignedMax, &[old, value]),
        RmwOp::UMin => builder.intrinsic(Intrinsic::UnsignedMin, &[old, value]),
        _ => unreachable!("processors have the others, and the verifier allows no others on floats"),
    }
}
