//! Legalization: atomics on floats and pointers, by atomics on integers.

use super::{Illegal, Outcome, as_integer, bits};
use crate::builder::Builder;
use crate::{
    BinaryOp, CastOp, Inst, Intrinsic, Op, Ordering, RmwOp, Scalar, Target, Terminator, Type, Value,
};

pub(super) fn expand(builder: &mut Builder, inst: Inst) -> Result<Outcome, Illegal> {
    let op = builder.function.op(inst).clone();
    let result = builder.function.result(inst);
    match (op, result) {
        (Op::Load { pointer, align, volatile, ordering: Some(ordering) }, Some(result)) => {
            let ty = atomic_type(builder, result)?;
            let Some(integer) = integer_of(&ty) else { return Ok(Outcome::Keep) };
            let ordering = Some(ordering);
            let loaded = builder.push(integer, Op::Load { pointer, align, volatile, ordering });
            Ok(Outcome::Is(from_integer(builder, loaded, &ty)))
        }
        (Op::Store { pointer, value, align, volatile, ordering: Some(ordering) }, _) => {
            let ty = atomic_type(builder, value)?;
            let Some(integer) = integer_of(&ty) else { return Ok(Outcome::Keep) };
            let value = to_integer(builder, value, &integer);
            builder.effect(Op::Store { pointer, value, align, volatile, ordering: Some(ordering) });
            Ok(Outcome::Done)
        }
        (Op::CompareExchange { expected, .. }, _) => atomic_type(builder, expected).map(|_| Outcome::Keep),
        (Op::AtomicRmw { op, pointer, value, ordering, volatile, align }, _) => {
            let ty = atomic_type(builder, value)?;
            let Some(integer) = integer_of(&ty) else { return Ok(Outcome::Keep) };
            if op != RmwOp::Xchg {
                let access = Access { pointer, ordering, volatile, align };
                return Ok(Outcome::Is(compare_and_exchange(builder, op, access, value, &ty)));
            }
            let value = to_integer(builder, value, &integer);
            let op = Op::AtomicRmw { op, pointer, value, ordering, volatile, align };
            let old = builder.push(integer, op);
            Ok(Outcome::Is(from_integer(builder, old, &ty)))
        }
        _ => Ok(Outcome::Keep),
    }
}

struct Access {
    pointer: Value,
    ordering: Ordering,
    volatile: bool,
    align: u32,
}

/// The type that is accessed, if a register holds it.
fn atomic_type(builder: &Builder, value: Value) -> Result<Type, Illegal> {
    let ty = builder.ty(value);
    if bits(&ty) > 64 { Err(Illegal::new(format!("an atomic access to {ty}"))) } else { Ok(ty) }
}

/// None if it is one.
fn integer_of(ty: &Type) -> Option<Type> {
    (!matches!(ty, Type::Scalar(Scalar::Int(_)))).then(|| as_integer(ty))
}

fn to_integer(builder: &mut Builder, value: Value, integer: &Type) -> Value {
    let op = if builder.ty(value).is_float() { CastOp::BitCast } else { CastOp::PtrToInt };
    builder.cast(op, integer.clone(), value)
}

fn from_integer(builder: &mut Builder, value: Value, ty: &Type) -> Value {
    let op = if ty.is_float() { CastOp::BitCast } else { CastOp::IntToPtr };
    builder.cast(op, ty.clone(), value)
}

/// A loop that exchanges what it has computed, until nobody else has come between. Yields what was there before.
fn compare_and_exchange(builder: &mut Builder, op: RmwOp, access: Access, value: Value, ty: &Type) -> Value {
    let Access { pointer, ordering, volatile, align } = access;
    let integer = as_integer(ty);
    let (attempt, done) = (builder.function.add_block(), builder.function.add_block());
    let expected = builder.function.add_block_param(attempt, integer.clone());
    let relaxed = Some(Ordering::Monotonic);
    let first = builder.push(integer.clone(), Op::Load { pointer, align, volatile, ordering: relaxed });
    builder.jump(attempt, &[first]);

    builder.at = attempt;
    let old = from_integer(builder, expected, ty);
    let new = combine(builder, op, old, value);
    let replacement = to_integer(builder, new, &integer);
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
        attempt,
        Terminator::Branch {
            condition: exchanged,
            then: Target::to(done),
            otherwise: Target { block: attempt, arguments: vec![found] },
        },
    );
    builder.at = done;
    old
}

fn combine(builder: &mut Builder, op: RmwOp, old: Value, value: Value) -> Value {
    match op {
        RmwOp::FAdd => builder.binary(BinaryOp::FAdd, 0, old, value),
        RmwOp::FSub => builder.binary(BinaryOp::FSub, 0, old, value),
        RmwOp::FMax => builder.intrinsic(Intrinsic::MaxNumber, &[old, value]),
        RmwOp::FMin => builder.intrinsic(Intrinsic::MinNumber, &[old, value]),
        _ => unreachable!("the verifier allows no other operation on floats"),
    }
}
