//! Transform: the primitives `spirula.reciprocal_root`, 1/sqrt(x) of float and double within 1.2 ULP, and `spirula.reciprocal`, 1/x
//! likewise. Where the processor has an approximation (AVX-512: 14 bits, denormals too), they are that and one step or two towards the
//! answer; elsewhere the quotient itself: the divider works beside what else a kernel does, and steps from an approximation of 12 bits
//! would not. Where 2.4 ULP will do (`afn`), LLVM finds that approximation; where 8192 will (`afn arcp`, OpenCL's `half_` functions), the
//! one of 14 bits is the answer.
//!
//! The library's functions ask for reciprocals (`builtins/src/reciprocal.rs`) of normal numbers which have normal ones.

use super::registers::{by_register, number};
use crate::builder::{Builder, replace_results};
use crate::{
    BinaryOp, Constant, Flags, FloatPredicate, Function, Intrinsic, Op, Scalar, Type, UnaryOp, Value,
};
use spirula_interface::target::TargetFacts;

/// What there is for a type of floats.
struct Format {
    one: Constant,
    /// The approximations, of so many lanes, and what that of a root is improved by.
    root: Intrinsic,
    reciprocal: Intrinsic,
    lanes: u32,
    terms: Vec<Constant>,
}

/// ((1 - e)^-1/2 - 1) / e for |e| <= 2^-13, to 2^-27 and 2^-56: Taylor's, but for what the third of the second has of the term behind it
/// (35/128 2^-26, times 2 √2 - 2, which leaves least).
const SINGLE_TERMS: [f32; 1] = [0.5];
const DOUBLE_TERMS: [f64; 3] = [0.5, 0.375_000_003_375_456, 0.3125];

fn format(scalar: Option<Scalar>) -> Format {
    match scalar {
        Some(Scalar::Double) => Format {
            one: Constant::Float(1.0_f64.to_bits()),
            root: Intrinsic::ReciprocalRoot14OfDoubles,
            reciprocal: Intrinsic::Reciprocal14OfDoubles,
            lanes: 8,
            terms: DOUBLE_TERMS.iter().map(|term| Constant::Float(term.to_bits())).collect(),
        },
        _ => Format {
            one: Constant::Float(1.0_f32.to_bits().into()),
            root: Intrinsic::ReciprocalRoot14,
            reciprocal: Intrinsic::Reciprocal14,
            lanes: 16,
            terms: SINGLE_TERMS.iter().map(|term| Constant::Float(term.to_bits().into())).collect(),
        },
    }
}

/// Replaces the primitives by what the processor has.
pub fn expand_reciprocals(function: &mut Function, facts: &TargetFacts) {
    replace_results(function, |builder, inst| {
        let Op::Intrinsic { intrinsic, arguments, flags } = builder.function.op(inst) else { return None };
        let (intrinsic, x, flags) = (*intrinsic, *arguments.first()?, flags.0);
        match intrinsic {
            Intrinsic::ReciprocalRoot => Some(reciprocal_root(builder, x, facts.avx512, flags)),
            Intrinsic::Reciprocal => Some(reciprocal(builder, x, facts.avx512, flags)),
            _ => None,
        }
    });
}

/// Whether an approximation needs no steps.
fn is_rough(flags: u16) -> bool {
    flags & Flags::APPROXIMATE != 0 && flags & Flags::RECIPROCAL != 0
}

fn reciprocal_root(builder: &mut Builder, x: Value, avx512: bool, flags: u16) -> Value {
    let format = format(builder.ty(x).scalar());
    if avx512 {
        let root = approximation(builder, x, format.root, format.lanes);
        if is_rough(flags) { root } else { improved_root(builder, x, root, &format) }
    } else if flags & Flags::APPROXIMATE != 0 {
        quick_root(builder, x, &format)
    } else {
        let one = number(builder, &builder.ty(x), format.one);
        let root = builder.intrinsic(Intrinsic::SquareRoot, &[x]);
        builder.binary(BinaryOp::FDiv, 0, one, root)
    }
}

/// As LLVM does it where it may: on x86-64 an approximation and a step of Newton's, which is not a number for zeros, denormals and
/// infinity. Programs mask these out, if at all, behind the function: they get the limits.
fn quick_root(builder: &mut Builder, x: Value, format: &Format) -> Value {
    const WITH: u16 = Flags::REASSOC | Flags::RECIPROCAL | Flags::CONTRACT | Flags::APPROXIMATE;
    let ty = builder.ty(x);
    let root = Op::Intrinsic { intrinsic: Intrinsic::SquareRoot, flags: Flags(WITH), arguments: vec![x] };
    let root = builder.push(ty.clone(), root);
    let one = number(builder, &ty, format.one.clone());
    let quotient = builder.binary(BinaryOp::FDiv, WITH, one, root);
    let float = |x: f32| Constant::Float(x.to_bits().into());
    let [zero, least, infinity] =
        [0.0, f32::MIN_POSITIVE, f32::INFINITY].map(|x| number(builder, &ty, float(x)));
    let magnitude = builder.intrinsic(Intrinsic::FloatAbs, &[x]);
    let is_small = builder.compare_floats(FloatPredicate::Olt, magnitude, least);
    let is_large = builder.compare_floats(FloatPredicate::Oeq, x, infinity);
    let quotient = builder.select(is_small, infinity, quotient);
    builder.select(is_large, zero, quotient)
}

/// y (1 - e)^-1/2 with e = 1 - x y y, by the format's terms and sums that round once, as all processors with an approximation have them.
/// A relative error of 2^-14 becomes one of 1.5 2^-28 in float, and of 2^-56 in double, but for rounding. For zeros and infinity the
/// approximation is the answer, and the step not a number.
fn improved_root(builder: &mut Builder, x: Value, root: Value, format: &Format) -> Value {
    let ty = builder.ty(x);
    let one = number(builder, &ty, format.one.clone());
    let product = builder.binary(BinaryOp::FMul, 0, x, root);
    let negative = negated(builder, product);
    let error = builder.intrinsic(Intrinsic::FusedMultiplyAdd, &[negative, root, one]);
    let terms: Vec<Value> = format.terms.iter().map(|term| number(builder, &ty, term.clone())).collect();
    let sum = terms
        .into_iter()
        .rev()
        .reduce(|sum, term| builder.intrinsic(Intrinsic::FusedMultiplyAdd, &[sum, error, term]));
    let share = builder.binary(BinaryOp::FMul, 0, root, error);
    let closer = match sum {
        Some(sum) => builder.intrinsic(Intrinsic::FusedMultiplyAdd, &[share, sum, root]),
        None => root,
    };
    let is_number = builder.compare_floats(FloatPredicate::Ord, error, error);
    builder.select(is_number, closer, root)
}

/// y (1 + e) with e = 1 - x y for float, of whose 2^-14 2^-28 is left, and for double times 1 + e², which leaves 2^-56. The library
/// asks for normal numbers' of double; programs ask for any float's: of zeros, infinities and denormals the approximation is the answer.
fn reciprocal(builder: &mut Builder, x: Value, avx512: bool, flags: u16) -> Value {
    let (ty, format) = (builder.ty(x), format(builder.ty(x).scalar()));
    let one = number(builder, &ty, format.one);
    if !avx512 {
        return builder.binary(BinaryOp::FDiv, 0, one, x);
    }
    let first = approximation(builder, x, format.reciprocal, format.lanes);
    if is_rough(flags) {
        return first;
    }
    let negative = negated(builder, x);
    let error = builder.intrinsic(Intrinsic::FusedMultiplyAdd, &[negative, first, one]);
    let closer = builder.intrinsic(Intrinsic::FusedMultiplyAdd, &[first, error, first]);
    if ty.scalar() == Some(Scalar::Double) {
        let square = builder.binary(BinaryOp::FMul, 0, error, error);
        return builder.intrinsic(Intrinsic::FusedMultiplyAdd, &[closer, square, closer]);
    }
    let is_number = builder.compare_floats(FloatPredicate::Ord, closer, closer);
    builder.select(is_number, closer, first)
}

fn negated(builder: &mut Builder, value: Value) -> Value {
    let ty = builder.ty(value);
    builder.push(ty, Op::Unary { op: UnaryOp::FNeg, flags: Flags::NONE, value })
}

/// What an instruction for registers of so many lanes makes of a number or a vector.
fn approximation(builder: &mut Builder, x: Value, intrinsic: Intrinsic, lanes: u32) -> Value {
    by_register(builder, &[x], lanes, |builder, parts| {
        let register @ Type::Vector(_, lanes) = builder.ty(parts[0]) else { unreachable!("a register") };
        let zeros = builder.constant(register.clone(), Constant::Zero);
        let all = builder.constant(Type::int(lanes), Constant::Int((1 << lanes) - 1));
        let op = Op::Intrinsic { intrinsic, flags: Flags::NONE, arguments: vec![parts[0], zeros, all] };
        builder.push(register, op)
    })
}
