//! Legalization: atomics on floats and pointers, by atomics on integers.

use super::{Illegal, Outcome, as_integer, bits};
use crate::builder::Builder;
use crate::transform::exchange_loop::{Access, exchange_loop, from_integer, to_integer};
use crate::{Inst, Op, RmwOp, Scalar, Type, Value};

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
                let found = exchange_loop(builder, op, access, value);
                return Ok(Outcome::Is(from_integer(builder, found, &ty)));
            }
            let value = to_integer(builder, value, &integer);
            let op = Op::AtomicRmw { op, pointer, value, ordering, volatile, align };
            let old = builder.push(integer, op);
            Ok(Outcome::Is(from_integer(builder, old, &ty)))
        }
        _ => Ok(Outcome::Keep),
    }
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
