//! Legalization: halves are stored, moved and converted; what computes with them computes with floats. A float has more than
//! twice a half's digits, so that rounding twice is rounding once.

use super::{DOUBLE, FLOAT, HALF, Illegal, Outcome};
use crate::builder::Builder;
use crate::{BinaryOp, CastOp, FloatPredicate, Inst, Intrinsic, Op, Shape, Type, UnaryOp, Value};

/// Bits of a half: all but the sign.
const MAGNITUDE: u128 = 0x7fff;
const SIGN: u128 = 0x8000;

pub(super) fn expand(builder: &mut Builder, inst: Inst) -> Result<Outcome, Illegal> {
    let result = builder.function.result(inst);
    let op = builder.function.op(inst);
    let concerned = result.is_some_and(|value| *builder.function.ty(value) == HALF)
        || op.operands().into_iter().any(|operand| *builder.function.ty(operand) == HALF);
    let Some(result) = result.filter(|_| concerned) else { return Ok(Outcome::Keep) };
    let op = op.clone();
    Ok(match op {
        Op::Unary { op: UnaryOp::FNeg, value, .. } => Outcome::Is(negate(builder, value)),
        Op::Binary { op, flags, lhs, rhs } => {
            let [lhs, rhs] = [lhs, rhs].map(|value| widen(builder, value));
            let wide = builder.push(FLOAT, Op::Binary { op, flags, lhs, rhs });
            Outcome::Is(narrow(builder, wide))
        }
        Op::Compare { predicate, flags, lhs, rhs } => {
            let [lhs, rhs] = [lhs, rhs].map(|value| widen(builder, value));
            Outcome::Is(builder.push(Type::BOOL, Op::Compare { predicate, flags, lhs, rhs }))
        }
        Op::Cast { op, value, .. } => convert(builder, op, value, result),
        Op::Intrinsic { intrinsic, flags, arguments } => {
            let through = |builder: &mut Builder, ty: Type| {
                let arguments = arguments
                    .iter()
                    .map(|&value| if builder.ty(value) == HALF { widen(builder, value) } else { value });
                let arguments = arguments.collect();
                builder.push(ty, Op::Intrinsic { intrinsic, flags, arguments })
            };
            match (intrinsic, &arguments[..]) {
                // By its bits.
                (Intrinsic::IsFloatClass, _) => Outcome::Keep,
                (Intrinsic::FloatAbs, &[x]) => Outcome::Is(magnitude(builder, x)),
                (Intrinsic::CopySign, &[x, sign]) => Outcome::Is(copy_sign(builder, x, sign)),
                (Intrinsic::FusedMultiplyAdd, &[x, y, z]) => Outcome::Is(fuse(builder, [x, y, z])),
                _ if matches!(intrinsic.shape(), Shape::Floats(_)) => {
                    let wide = through(builder, FLOAT);
                    Outcome::Is(narrow(builder, wide))
                }
                _ if intrinsic.shape() == Shape::FloatToInteger => {
                    let ty = builder.ty(result);
                    Outcome::Is(through(builder, ty))
                }
                _ => return Err(Illegal::new(format!("`{}` of {HALF}", intrinsic.name()))),
            }
        }
        // Moved as they are.
        _ => Outcome::Keep,
    })
}

fn widen(builder: &mut Builder, value: Value) -> Value {
    builder.cast(CastOp::FpExt, FLOAT, value)
}

fn narrow(builder: &mut Builder, value: Value) -> Value {
    builder.cast(CastOp::FpTrunc, HALF, value)
}

fn bits_of(builder: &mut Builder, value: Value) -> Value {
    builder.cast(CastOp::BitCast, Type::int(16), value)
}

fn of_bits(builder: &mut Builder, value: Value) -> Value {
    builder.cast(CastOp::BitCast, HALF, value)
}

fn mask(builder: &mut Builder, op: BinaryOp, value: Value, mask: u128) -> Value {
    let mask = builder.function.int(Type::int(16), mask);
    builder.binary(op, 0, value, mask)
}

fn negate(builder: &mut Builder, value: Value) -> Value {
    let bits = bits_of(builder, value);
    let bits = mask(builder, BinaryOp::Xor, bits, SIGN);
    of_bits(builder, bits)
}

fn magnitude(builder: &mut Builder, value: Value) -> Value {
    let bits = bits_of(builder, value);
    let bits = mask(builder, BinaryOp::And, bits, MAGNITUDE);
    of_bits(builder, bits)
}

fn copy_sign(builder: &mut Builder, value: Value, sign: Value) -> Value {
    let (bits, sign) = (bits_of(builder, value), bits_of(builder, sign));
    let bits = mask(builder, BinaryOp::And, bits, MAGNITUDE);
    let sign = mask(builder, BinaryOp::And, sign, SIGN);
    let bits = builder.binary(BinaryOp::Or, 0, bits, sign);
    of_bits(builder, bits)
}

/// A double holds the product and whatever of the sum can decide how it is rounded.
fn fuse(builder: &mut Builder, factors: [Value; 3]) -> Value {
    let [x, y, z] = factors.map(|value| {
        let value = widen(builder, value);
        builder.cast(CastOp::FpExt, DOUBLE, value)
    });
    let product = builder.binary(BinaryOp::FMul, 0, x, y);
    let sum = builder.binary(BinaryOp::FAdd, 0, product, z);
    from_double(builder, sum)
}

fn convert(builder: &mut Builder, op: CastOp, value: Value, result: Value) -> Outcome {
    let (from, to) = (builder.ty(value), builder.ty(result));
    Outcome::Is(match op {
        CastOp::FpToSi | CastOp::FpToUi => {
            let wide = widen(builder, value);
            builder.cast(op, to, wide)
        }
        // Integers that a float rounds are too large for a half.
        CastOp::SiToFp | CastOp::UiToFp => {
            let wide = builder.cast(op, FLOAT, value);
            narrow(builder, wide)
        }
        CastOp::FpExt if to == DOUBLE => {
            let wide = widen(builder, value);
            builder.cast(CastOp::FpExt, DOUBLE, wide)
        }
        CastOp::FpTrunc if from == DOUBLE => from_double(builder, value),
        _ => return Outcome::Keep,
    })
}

/// Through a float that is odd wherever it isn't exact: it lies on no border, so that rounding it is rounding the double.
fn from_double(builder: &mut Builder, value: Value) -> Value {
    let near = builder.cast(CastOp::FpTrunc, FLOAT, value);
    let back = builder.cast(CastOp::FpExt, DOUBLE, near);
    let bits = builder.cast(CastOp::BitCast, Type::I32, near);
    let larger = {
        let [back, value] = [back, value].map(|x| builder.intrinsic(Intrinsic::FloatAbs, &[x]));
        builder.compare_floats(FloatPredicate::Ogt, back, value)
    };
    let larger = builder.cast(CastOp::ZExt, Type::I32, larger);
    let cut = builder.binary(BinaryOp::Sub, 0, bits, larger);
    let one = builder.function.int(Type::I32, 1);
    let odd = builder.binary(BinaryOp::Or, 0, cut, one);
    // A NaN has no order: it stays what it is.
    let inexact = builder.compare_floats(FloatPredicate::One, back, value);
    let bits = builder.select(inexact, odd, bits);
    let float = builder.cast(CastOp::BitCast, FLOAT, bits);
    narrow(builder, float)
}
