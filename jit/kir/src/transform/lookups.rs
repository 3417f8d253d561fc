//! Transform: the primitive `spirula.lookup`, elements of a constant table at the indices that lanes have: AVX-512's permutations of one
//! register or two, and a choice where the table fills four.

use super::registers::{by_register, number};
use crate::builder::{Builder, replace_results};
use crate::{
    BinaryOp, Constant, Flags, Function, IntPredicate, Intrinsic, Op, Predicate, Scalar, Type, Value,
    ValueDef,
};

/// Bits of a register.
const REGISTER: u32 = 512;

/// Replaces the primitive.
pub fn expand_lookups(function: &mut Function) {
    replace_results(function, |builder, inst| {
        let &Op::Intrinsic { intrinsic: Intrinsic::Lookup, ref arguments, .. } = builder.function.op(inst)
        else {
            return None;
        };
        let (index, table) = (arguments[0], arguments[1]);
        let bits = builder.ty(index).scalar()?.bits() as u32;
        let table = registers_of(builder, table, bits)?;
        Some(by_register(builder, &[index], REGISTER / bits, |builder, index| {
            found(builder, index[0], &table, bits)
        }))
    });
}

/// A constant's registers.
fn registers_of(builder: &mut Builder, table: Value, bits: u32) -> Option<Vec<Value>> {
    let ValueDef::Constant(Constant::Elements(elements)) = builder.function.def(table).clone() else {
        return None;
    };
    let lanes = REGISTER / bits;
    let register = Type::Vector(Scalar::Int(bits), lanes);
    let constant =
        |part: &[(Type, Constant)]| builder.constant(register.clone(), Constant::Elements(part.to_vec()));
    Some(elements.chunks_exact(lanes as usize).map(constant).collect())
}

/// What lies at a register of indices.
fn found(builder: &mut Builder, index: Value, table: &[Value], bits: u32) -> Value {
    let (one, two) = match bits {
        8 => (Intrinsic::PermuteBytes, Intrinsic::PermuteTwoOfBytes),
        16 => (Intrinsic::PermuteShorts, Intrinsic::PermuteTwoOfShorts),
        32 => (Intrinsic::PermuteInts, Intrinsic::PermuteTwoOfInts),
        _ => (Intrinsic::PermuteLongs, Intrinsic::PermuteTwoOfLongs),
    };
    match *table {
        [single] => builder.push_intrinsic(builder.ty(index), one, &[single, index]),
        [low, high] => builder.push_intrinsic(builder.ty(index), two, &[low, index, high]),
        _ => {
            let (low, high) = table.split_at(table.len() / 2);
            let ty = builder.ty(index);
            let border = number(builder, &ty, Constant::Int((low.len() as u32 * (REGISTER / bits)).into()));
            let zeros = builder.constant(ty.clone(), Constant::Zero);
            let bit = builder.binary(BinaryOp::And, 0, index, border);
            let predicate = Predicate::Int(IntPredicate::Ne);
            let op = Op::Compare { predicate, flags: Flags::NONE, lhs: bit, rhs: zeros };
            let is_high = builder.push(ty.with_scalar(Scalar::Int(1)), op);
            let (low, high) = (found(builder, index, low, bits), found(builder, index, high, bits));
            builder.select(is_high, high, low)
        }
    }
}
