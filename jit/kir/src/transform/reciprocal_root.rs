//! Transform: the primitive `spirula.reciprocal_root`, 1/sqrt(x) within 1.2 ULP. Where the processor has an approximation (AVX-512: 14
//! bits, denormals too), it is that and a step of Newton's; elsewhere the quotient itself: the divider works beside what else a
//! kernel does, and steps from an approximation of 12 bits would not.

use super::registers::{by_register, number};
use crate::builder::{Builder, rewrite};
use crate::{
    BinaryOp, Constant, Flags, FloatPredicate, Function, Inst, Intrinsic, Op, Predicate, Scalar, Type,
    UnaryOp, Value,
};
use spirula_interface::target::TargetFacts;

/// Lanes of a register.
const LANES: u32 = 16;
const ONE: Constant = Constant::Float(0x3f80_0000);
const HALF: Constant = Constant::Float(0x3f00_0000);

/// Replaces the primitive by what the processor has.
pub fn expand_reciprocal_roots(function: &mut Function, facts: &TargetFacts) {
    rewrite(function, |builder, inst| {
        let x = match builder.function.op(inst) {
            Op::Intrinsic { intrinsic: Intrinsic::ReciprocalRoot, arguments, .. } => arguments[0],
            _ => return false,
        };
        if facts.avx512 {
            let root = by_register(builder, &[x], LANES, |builder, parts| approximation(builder, parts[0]));
            improve(builder, inst, x, root);
        } else {
            divide(builder, inst, x);
        }
        true
    });
}

fn divide(builder: &mut Builder, inst: Inst, x: Value) {
    let one = number(builder, &builder.ty(x), ONE);
    let root = builder.intrinsic(Intrinsic::SquareRoot, &[x]);
    builder.replace(inst, Op::Binary { op: BinaryOp::FDiv, flags: Flags::NONE, lhs: one, rhs: root });
}

/// y + y/2 (1 - x y y) with sums that round once, as all processors with an approximation have them. A relative error of 2^-14
/// becomes one of 1.5 2^-28. For zeros and infinity the approximation is the answer, and the step not a number.
fn improve(builder: &mut Builder, inst: Inst, x: Value, root: Value) {
    let [one, half] = [ONE, HALF].map(|constant| number(builder, &builder.ty(x), constant));
    let product = builder.binary(BinaryOp::FMul, 0, x, root);
    let ty = builder.ty(x);
    let negative = Op::Unary { op: UnaryOp::FNeg, flags: Flags::NONE, value: product };
    let product = builder.push(ty.clone(), negative);
    let error = builder.intrinsic(Intrinsic::FusedMultiplyAdd, &[product, root, one]);
    let half = builder.binary(BinaryOp::FMul, 0, root, half);
    let closer = builder.intrinsic(Intrinsic::FusedMultiplyAdd, &[half, error, root]);
    let predicate = Predicate::Float(FloatPredicate::Ord);
    let compare = Op::Compare { predicate, flags: Flags::NONE, lhs: error, rhs: error };
    let is_number = builder.push(ty.with_scalar(Scalar::Int(1)), compare);
    builder.replace(
        inst,
        Op::Select { flags: Flags::NONE, condition: is_number, then: closer, otherwise: root },
    );
}

fn approximation(builder: &mut Builder, x: Value) -> Value {
    let register = Type::Vector(Scalar::Float, LANES);
    let zeros = builder.constant(register.clone(), Constant::Zero);
    let all = builder.constant(Type::int(16), Constant::Int(0xffff));
    let intrinsic = Intrinsic::ReciprocalRoot14;
    let op = Op::Intrinsic { intrinsic, flags: Flags::NONE, arguments: vec![x, zeros, all] };
    builder.push(register, op)
}
