//! Transform: the upper half of 64-bit products, which the front end writes as a product of 128 bits. No processor has that for vectors:
//! lane by lane it costs four moves beside the product. Of halves of 32 bits it is four products of whole registers.

use super::registers::number;
use crate::builder::{Builder, replace_results};
use crate::{BinaryOp, CastOp, Constant, Function, Inst, Op, Scalar, Type, Value, ValueDef};

const LONG: Scalar = Scalar::Int(64);
const PRODUCT: Scalar = Scalar::Int(128);
/// In fewer lanes the product of 128 bits is faster.
const LEAST_LANES: u32 = 4;

/// A factor of 64 bits, and whether its highest bit is its sign.
struct Factor {
    value: Value,
    is_signed: bool,
}

/// Replaces what is cut out of vectors of such products' upper halves.
pub fn expand_high_products(function: &mut Function) {
    replace_results(function, |builder, inst| {
        let (product, shift, beyond) = upper_part(builder.function, inst)?;
        let &Op::Binary { op: BinaryOp::Mul, lhs, rhs, .. } = builder.function.defining_op(product)? else {
            return None;
        };
        let [a, b] = [factor(builder, lhs)?, factor(builder, rhs)?];
        let upper = upper_half(builder, &a, &b);
        Some(if beyond == 0 { upper } else { by_constant(builder, shift, upper, beyond) })
    });
}

/// The product whose upper half an instruction cuts out, and how it is shifted further.
fn upper_part(function: &Function, inst: Inst) -> Option<(Value, BinaryOp, u64)> {
    let &Op::Cast { op: CastOp::Trunc, value, .. } = function.op(inst) else { return None };
    let is_long = |&lanes: &u32| *function.ty(value) == Type::Vector(PRODUCT, lanes);
    match *function.ty(function.result(inst)?) {
        Type::Vector(LONG, lanes) if lanes >= LEAST_LANES && is_long(&lanes) => {}
        _ => return None,
    }
    let &Op::Binary { op: op @ (BinaryOp::LShr | BinaryOp::AShr), lhs, rhs, .. } =
        function.defining_op(value)?
    else {
        return None;
    };
    let shift = u64::try_from(splat(function, rhs)?).ok()?;
    (64..128).contains(&shift).then(|| (lhs, op, shift - 64))
}

/// What all elements of a constant vector are.
fn splat(function: &Function, value: Value) -> Option<u128> {
    let ValueDef::Constant(Constant::Elements(elements)) = function.def(value) else { return None };
    let (_, first) = elements.first()?;
    let Constant::Int(bits) = first else { return None };
    elements.iter().all(|(_, element)| element == first).then_some(*bits)
}

/// What was extended to 128 bits.
fn factor(builder: &mut Builder, wide: Value) -> Option<Factor> {
    if let Some(&Op::Cast { op: op @ (CastOp::ZExt | CastOp::SExt), value, .. }) =
        builder.function.defining_op(wide)
    {
        let of_longs = builder.ty(value).scalar() == Some(LONG);
        return of_longs.then_some(Factor { value, is_signed: op == CastOp::SExt });
    }
    let bits = splat(builder.function, wide)?;
    let (cut, ty) = (bits as u64, builder.ty(wide).with_scalar(LONG));
    let is_signed = bits != u128::from(cut);
    let is_extended = !is_signed || bits == i128::from(cut as i64) as u128;
    is_extended.then(|| Factor { value: number(builder, &ty, Constant::Int(cut.into())), is_signed })
}

/// By columns of halves, as on paper: none of the sums is longer than 64 bits.
fn upper_half(builder: &mut Builder, a: &Factor, b: &Factor) -> Value {
    let [(a_low, a_high), (b_low, b_high)] = [a.value, b.value].map(|factor| halves(builder, factor));
    let [low, left, right, high] = [(a_low, b_low), (a_high, b_low), (a_low, b_high), (a_high, b_high)]
        .map(|(a, b)| builder.binary(BinaryOp::Mul, 0, a, b));
    let carried = by_constant(builder, BinaryOp::LShr, low, 32);
    let left = builder.binary(BinaryOp::Add, 0, left, carried);
    let (left_low, left_high) = halves(builder, left);
    let right = builder.binary(BinaryOp::Add, 0, right, left_low);
    let carried = by_constant(builder, BinaryOp::LShr, right, 32);
    let sum = builder.binary(BinaryOp::Add, 0, high, left_high);
    let sum = builder.binary(BinaryOp::Add, 0, sum, carried);
    // A negative factor is taken for one that is 2^64 more.
    [(a, b), (b, a)].into_iter().filter(|(factor, _)| factor.is_signed).fold(sum, |sum, (factor, other)| {
        let sign = by_constant(builder, BinaryOp::AShr, factor.value, 63);
        let excess = builder.binary(BinaryOp::And, 0, sign, other.value);
        builder.binary(BinaryOp::Sub, 0, sum, excess)
    })
}

/// The lower and the upper 32 bits.
fn halves(builder: &mut Builder, value: Value) -> (Value, Value) {
    let low = by_constant(builder, BinaryOp::And, value, u32::MAX.into());
    (low, by_constant(builder, BinaryOp::LShr, value, 32))
}

fn by_constant(builder: &mut Builder, op: BinaryOp, value: Value, constant: u64) -> Value {
    let ty = builder.ty(value);
    let constant = number(builder, &ty, Constant::Int(constant.into()));
    builder.binary(op, 0, value, constant)
}
