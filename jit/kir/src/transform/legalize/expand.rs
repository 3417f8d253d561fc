//! Legalization: operations that a simple back end lacks, in operations that it has, on scalars.
//!
//! What stays is what such a back end has as instructions or as calls of C's library: integer arithmetic, counting and
//! reversing of bits, minimum and maximum of integers, sums and products with overflow, rounding (but `round`), `sqrt`,
//! `fma`, `copysign`, `minimum` and `maximum`, conversions between floats and integers of 32 and 64 bits, atomics on
//! integers, `memcpy` and its like.

mod atomics;
mod conversions;
mod floats;
mod half;
mod integers;

use super::Illegal;
use super::replace::{Outcome, replace};
use crate::builder::{Builder, replace_uses};
use crate::transform::scale::scale_in_integers;
use crate::{BinaryOp, Function, Inst, Intrinsic, Op, Scalar, Shape, Type, Value};
use std::collections::HashMap;

/// Expands what has to be. Integers may keep odd widths.
pub fn expand_operations(function: &mut Function) -> Result<(), Illegal> {
    // Each step leaves operations to the next one: atomics the operation that they do, halves that on floats.
    replace(function, atomics::expand)?;
    replace(function, half::expand)?;
    let mut sums = HashMap::new();
    replace(function, |builder, inst| operation(builder, inst, &mut sums))?;
    take_apart(function, &sums);
    Ok(())
}

/// A sum, difference or product, and whether it was too large, by the pair that they were.
type Sums = HashMap<Value, [Value; 2]>;

fn operation(builder: &mut Builder, inst: Inst, sums: &mut Sums) -> Result<Outcome, Illegal> {
    let Some(result) = builder.function.result(inst) else { return Ok(Outcome::Keep) };
    match builder.function.op(inst) {
        Op::Binary { op, .. } => divisible(*op, builder.function.ty(result)).map(|()| Outcome::Keep),
        &Op::Cast { op, value, .. } => conversions::cast(builder, op, value, result),
        Op::Intrinsic { intrinsic, arguments, .. } => {
            let (intrinsic, arguments) = (*intrinsic, arguments.clone());
            if intrinsic.shape() == Shape::IntegerWithOverflow {
                return Ok(match integers::with_overflow(builder, intrinsic, arguments[0], arguments[1])? {
                    None => Outcome::Keep,
                    Some(parts) => {
                        sums.insert(result, parts);
                        Outcome::Done
                    }
                });
            }
            let ty = builder.ty(result);
            expand_intrinsic(builder, intrinsic, &arguments, &ty)
                .map(|value| value.map_or(Outcome::Keep, Outcome::Is))
        }
        _ => Ok(Outcome::Keep),
    }
}

/// Quotients of more than 64 bits are calls of a library that isn't there.
fn divisible(op: BinaryOp, ty: &Type) -> Result<(), Illegal> {
    let divides = matches!(op, BinaryOp::UDiv | BinaryOp::SDiv | BinaryOp::URem | BinaryOp::SRem);
    if divides && bits(ty) > 64 { Err(Illegal::new(format!("`{}` of {ty}", op.name()))) } else { Ok(()) }
}

fn expand_intrinsic(
    builder: &mut Builder,
    intrinsic: Intrinsic,
    arguments: &[Value],
    ty: &Type,
) -> Result<Option<Value>, Illegal> {
    use Intrinsic::*;
    Ok(Some(match (intrinsic, arguments) {
        (SignedAddSaturating | SignedSubSaturating, &[x, y]) => {
            integers::signed_saturating(builder, intrinsic == SignedSubSaturating, x, y)
        }
        (UnsignedAddSaturating, &[x, y]) => integers::unsigned_saturating_sum(builder, x, y),
        (UnsignedSubSaturating, &[x, y]) => integers::unsigned_saturating_difference(builder, x, y),
        (SignedShiftSaturating | UnsignedShiftSaturating, &[x, count]) => {
            integers::saturating_shift(builder, intrinsic == SignedShiftSaturating, x, count)
        }
        (FunnelShiftLeft | FunnelShiftRight, &[high, low, count]) => {
            integers::funnel_shift(builder, intrinsic == FunnelShiftLeft, [high, low], count)?
        }
        (SignedCompare | UnsignedCompare, &[x, y]) => {
            integers::three_way(builder, intrinsic == SignedCompare, x, y, ty)
        }
        (Abs, &[x, flag]) => return Ok(integers::magnitude(builder, x, flag)),
        (LeadingZeros | TrailingZeros, &[x, flag]) => {
            return Ok(integers::count_zeros(builder, intrinsic, x, flag));
        }
        (BitReverse | ByteSwap | PopCount, &[x]) => return Ok(integers::bitwise(builder, intrinsic, x)),
        (SignedMax | SignedMin | UnsignedMax | UnsignedMin, &[x, y]) => {
            return Ok(integers::extremum(builder, intrinsic, x, y));
        }
        (Round, &[x]) => floats::round(builder, x),
        (Canonicalize, &[x]) => floats::canonicalize(builder, x),
        (MinNumber | MaxNumber, &[x, y]) => floats::number(builder, intrinsic, x, y),
        (MinimumNumber | MaximumNumber, &[x, y]) => floats::strict_number(builder, intrinsic, x, y),
        (IsFloatClass, &[x, classes]) => floats::is_class(builder, x, classes),
        (FloatToSignedSaturating | FloatToUnsignedSaturating, &[x]) => {
            return conversions::saturating(builder, intrinsic, x, ty);
        }
        (Scale, &[m, k]) => scale_in_integers(builder, m, k),
        (MultiplyAdd | ReciprocalRoot | Reciprocal, _) => {
            return Err(Illegal::new(format!("`{}`, which another pass decides", intrinsic.name())));
        }
        _ => return Ok(None),
    }))
}

/// Replaces members of pairs by what they are.
fn take_apart(function: &mut Function, sums: &Sums) {
    if sums.is_empty() {
        return;
    }
    let member = |function: &Function, inst: Inst| {
        let Op::ExtractValue { aggregate, indices } = function.op(inst) else { return None };
        let part = *sums.get(aggregate)?.get(*indices.first()? as usize)?;
        Some((function.result(inst)?, part))
    };
    let members: HashMap<Value, Value> = function.insts().filter_map(|inst| member(function, inst)).collect();
    for block in function.block_ids() {
        let mut insts = std::mem::take(&mut function.blocks[block.index()].insts);
        insts.retain(|&inst| member(function, inst).is_none());
        function.blocks[block.index()].insts = insts;
    }
    replace_uses(function, &members);
}

/// The width of an integer or float.
fn bits(ty: &Type) -> u32 {
    ty.scalar().map_or(0, |scalar| scalar.bits() as u32)
}

/// A constant with as many ones.
fn ones(bits: u32) -> u128 {
    u128::MAX >> (128 - bits.clamp(1, 128))
}

/// The integer type of the same width.
fn as_integer(ty: &Type) -> Type {
    Type::int(bits(ty))
}

const HALF: Type = Type::Scalar(Scalar::Half);
const FLOAT: Type = Type::Scalar(Scalar::Float);
const DOUBLE: Type = Type::Scalar(Scalar::Double);
