//! Transform: the primitive `spirula.reciprocal_root`, 1/sqrt(x) within 1.2 ULP. Where the processor has an approximation (AVX-512: 14
//! bits, denormals too), it is that and a step of Newton's; elsewhere the quotient itself: the divider works beside what else a
//! kernel does, and steps from an approximation of 12 bits would not.

use crate::builder::{Builder, rewrite};
use crate::{
    BinaryOp, Constant, Flags, FloatPredicate, Function, Inst, Intrinsic, Op, Predicate, Scalar, Type,
    UnaryOp, Value,
};
use spirula_interface::target::TargetFacts;

/// Lanes of a register.
const LANES: u32 = 16;
/// The bits of 1.0.
const ONE: u64 = 0x3f80_0000;
const HALF: u64 = 0x3f00_0000;

/// Replaces the primitive by what the processor has.
pub fn expand_reciprocal_roots(function: &mut Function, facts: &TargetFacts) {
    rewrite(function, |builder, inst| {
        let x = match builder.function.op(inst) {
            Op::Intrinsic { intrinsic: Intrinsic::ReciprocalRoot, arguments, .. } => arguments[0],
            _ => return false,
        };
        if facts.approximates_roots {
            let root = approximate(builder, x);
            improve(builder, inst, x, root);
        } else {
            divide(builder, inst, x);
        }
        true
    });
}

fn divide(builder: &mut Builder, inst: Inst, x: Value) {
    let one = number(builder, x, ONE);
    let root = builder.intrinsic(Intrinsic::SquareRoot, &[x]);
    builder.replace(inst, Op::Binary { op: BinaryOp::FDiv, flags: Flags::NONE, lhs: one, rhs: root });
}

/// A number of which these are the bits, in each lane that `like` has.
fn number(builder: &mut Builder, like: Value, bits: u64) -> Value {
    let (ty, constant) = (builder.ty(like), Constant::Float(bits));
    let constant = match ty {
        Type::Vector(s, n) => Constant::Elements(vec![(Type::Scalar(s), constant); n as usize]),
        _ => constant,
    };
    builder.constant(ty, constant)
}

/// y + y/2 (1 - x y y) with sums that round once, as all processors with an approximation have them. A relative error of 2^-14
/// becomes one of 1.5 2^-28. For zeros and infinity the approximation is the answer, and the step not a number.
fn improve(builder: &mut Builder, inst: Inst, x: Value, root: Value) {
    let (one, half) = (number(builder, x, ONE), number(builder, x, HALF));
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

/// In as many registers as the lanes fill.
fn approximate(builder: &mut Builder, x: Value) -> Value {
    let Type::Vector(_, lanes) = builder.ty(x) else {
        let first = builder.function.int(Type::I32, 0);
        let zeros = builder.constant(register(LANES), Constant::Zero);
        let vector =
            builder.push(register(LANES), Op::InsertElement { vector: zeros, element: x, index: first });
        let roots = approximation(builder, vector);
        return builder.push(Type::Scalar(Scalar::Float), Op::ExtractElement { vector: roots, index: first });
    };
    let mut parts = (0..lanes.div_ceil(LANES)).map(|r| {
        let of = |i: u32| if r * LANES + i < lanes { (r * LANES + i) as i32 } else { -1 };
        let part = cut(builder, x, (0..LANES).map(of).collect());
        approximation(builder, part)
    });
    let parts: Vec<Value> = parts.by_ref().collect();
    // Joined one by one; with a single register, only cut to size.
    let mut whole = parts[0];
    for (r, &part) in (1..).zip(&parts[1..]) {
        let (before, all) = ((r * LANES) as i32, ((r + 1) * LANES) as i32);
        let widened = (0..before).map(|i| if i < LANES as i32 { i } else { -1 }).collect();
        let second = cut(builder, part, widened);
        let mask: Vec<i32> = (0..all).collect();
        whole = builder.push(register(all as u32), Op::Shuffle { first: whole, second, mask: mask.into() });
    }
    let any = builder.constant(builder.ty(whole), Constant::Poison);
    let mask: Vec<i32> = (0..lanes as i32).collect();
    builder.push(register(lanes), Op::Shuffle { first: whole, second: any, mask: mask.into() })
}

fn register(lanes: u32) -> Type {
    Type::Vector(Scalar::Float, lanes)
}

/// The lanes that are asked for; anything for -1.
fn cut(builder: &mut Builder, vector: Value, mask: Vec<i32>) -> Value {
    let any = builder.constant(builder.ty(vector), Constant::Poison);
    let ty = register(mask.len() as u32);
    builder.push(ty, Op::Shuffle { first: vector, second: any, mask: mask.into() })
}

fn approximation(builder: &mut Builder, x: Value) -> Value {
    let zeros = builder.constant(register(LANES), Constant::Zero);
    let all = builder.constant(Type::int(16), Constant::Int(0xffff));
    let intrinsic = Intrinsic::ReciprocalRoot14;
    let op = Op::Intrinsic { intrinsic, flags: Flags::NONE, arguments: vec![x, zeros, all] };
    builder.push(register(LANES), op)
}
