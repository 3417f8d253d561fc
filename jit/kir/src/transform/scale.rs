//! Transform: the primitive `spirula.scale`, m 2^k of floats for an integer k, rounded once. AVX-512 has an instruction for vectors of
//! them; elsewhere, and for single numbers, it is two products with powers of two, of which the first is exact.
//!
//! The library asks for it where that instruction is (`builtins/src/scale.rs`), with m around 1 and a k below twice the exponents that
//! normal numbers have; NaN as k comes with NaN as m.

use super::registers::{by_register, number};
use crate::builder::{Builder, replace_results};
use crate::{BinaryOp, CastOp, Constant, Flags, Function, Intrinsic, Op, Scalar, Type, Value};
use spirula_interface::target::TargetFacts;

/// "Rounding as the mode says", an operand of AVX-512's intrinsics.
const CURRENT_ROUNDING: u64 = 4;

/// Replaces the primitive by what the processor has.
pub fn expand_scales(function: &mut Function, facts: &TargetFacts) {
    replace_results(function, |builder, inst| {
        let (m, k) = match builder.function.op(inst) {
            Op::Intrinsic { intrinsic: Intrinsic::Scale, arguments, .. } => (arguments[0], arguments[1]),
            _ => return None,
        };
        Some(match builder.ty(m) {
            Type::Vector(scalar @ (Scalar::Float | Scalar::Double), _) if facts.avx512 => {
                by_instruction(builder, m, k, scalar)
            }
            _ => scale_in_integers(builder, m, k),
        })
    });
}

fn by_instruction(builder: &mut Builder, m: Value, k: Value, scalar: Scalar) -> Value {
    let (lanes, intrinsic) = match scalar {
        Scalar::Float => (16, Intrinsic::ScaleFloats),
        _ => (8, Intrinsic::ScaleDoubles),
    };
    by_register(builder, &[m, k], lanes, |builder, parts| {
        let register = Type::Vector(scalar, lanes);
        let zeros = builder.constant(register.clone(), Constant::Zero);
        let all = builder.constant(Type::int(lanes), Constant::Int((1 << lanes) - 1));
        let rounding = builder.constant(Type::I32, Constant::Int(CURRENT_ROUNDING.into()));
        let arguments = vec![parts[0], parts[1], zeros, all, rounding];
        builder.push(register, Op::Intrinsic { intrinsic, flags: Flags::NONE, arguments })
    })
}

/// m 2^h 2^(k - h) with h = k/2: k and a number whose last bits are whole ones have k in the low bits of their sum.
pub(super) fn scale_in_integers(builder: &mut Builder, m: Value, k: Value) -> Value {
    let ty = builder.ty(m);
    let (fraction_bits, bias) = match ty.scalar() {
        Some(Scalar::Double) => (52u32, 1023u64),
        _ => (23, 127),
    };
    let bits = if fraction_bits == 52 { 64 } else { 32 };
    // 1.5 2^fraction_bits.
    let round = ((bias + u64::from(fraction_bits)) << fraction_bits) | 1 << (fraction_bits - 1);
    let integers = ty.with_scalar(Scalar::Int(bits));
    let rounder = number(builder, &ty, Constant::Float(round));
    let [round, one, bias, width] = [round, 1, bias, fraction_bits.into()]
        .map(|constant| number(builder, &integers, Constant::Int(constant.into())));
    let shifted = builder.binary(BinaryOp::FAdd, 0, k, rounder);
    let shifted = builder.cast(CastOp::BitCast, integers.clone(), shifted);
    let k = builder.binary(BinaryOp::Sub, 0, shifted, round);
    let half = builder.binary(BinaryOp::AShr, 0, k, one);
    let rest = builder.binary(BinaryOp::Sub, 0, k, half);
    [half, rest].into_iter().fold(m, |product, exponent| {
        let field = builder.binary(BinaryOp::Add, 0, exponent, bias);
        let field = builder.binary(BinaryOp::Shl, 0, field, width);
        let power = builder.cast(CastOp::BitCast, ty.clone(), field);
        builder.binary(BinaryOp::FMul, 0, product, power)
    })
}
