//! Transform: the primitive `spirula.reciprocal_root`, an approximation of 1/sqrt(x) that builtins make better. Where the
//! processor has one (AVX-512: 14 bits, denormals too), it is that; elsewhere the quotient itself.

use crate::builder::{Builder, rewrite};
use crate::{BinaryOp, Constant, Flags, Function, Inst, Intrinsic, Op, Scalar, Type, Value};
use spirula_interface::target::TargetFacts;

/// Lanes of a register.
const LANES: u32 = 16;
/// The bits of 1.0.
const ONE: u64 = 0x3f80_0000;

/// Replaces the primitive by what the processor has.
pub fn expand_reciprocal_roots(function: &mut Function, facts: &TargetFacts) {
    rewrite(function, |builder, inst| {
        let x = match builder.function.op(inst) {
            Op::Intrinsic { intrinsic: Intrinsic::ReciprocalRoot, arguments, .. } => arguments[0],
            _ => return false,
        };
        if facts.approximates_roots {
            approximate(builder, inst, x);
        } else {
            divide(builder, inst, x);
        }
        true
    });
}

fn divide(builder: &mut Builder, inst: Inst, x: Value) {
    let ty = builder.ty(x);
    let one = Constant::Float(ONE);
    let one = match ty {
        Type::Vector(s, n) => Constant::Elements(vec![(Type::Scalar(s), one); n as usize]),
        _ => one,
    };
    let one = builder.constant(ty.clone(), one);
    let intrinsic = Intrinsic::SquareRoot;
    let root = builder.push(ty, Op::Intrinsic { intrinsic, flags: Flags::NONE, arguments: vec![x] });
    builder.replace(inst, Op::Binary { op: BinaryOp::FDiv, flags: Flags::NONE, lhs: one, rhs: root });
}

/// In as many registers as the lanes fill.
fn approximate(builder: &mut Builder, inst: Inst, x: Value) {
    let Type::Vector(_, lanes) = builder.ty(x) else {
        let first = builder.function.int(Type::I32, 0);
        let zeros = builder.constant(register(LANES), Constant::Zero);
        let vector =
            builder.push(register(LANES), Op::InsertElement { vector: zeros, element: x, index: first });
        let roots = approximation(builder, vector);
        builder.replace(inst, Op::ExtractElement { vector: roots, index: first });
        return;
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
    builder.replace(inst, Op::Shuffle { first: whole, second: any, mask: mask.into() });
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
