//! Transform: atomic operations on local memory. A work-group runs on one thread, so nobody else sees its local memory
//! between a load and the store after it: they need not be atomic, only in order.
//!
//! It runs behind the lowering: the accesses are in no access group, for one work-item's depends on another's.

use crate::builder::{Builder, rewrite};
use crate::{
    AddressSpace, BinaryOp, Constant, Flags, Function, Inst, IntPredicate, Intrinsic, Op, RmwOp, Scalar,
    Value,
};

/// Replaces them by loads, operations and stores.
pub fn expand_local_atomics(function: &mut Function) {
    rewrite(function, |builder, inst| {
        let op = builder.function.op(inst).clone();
        let (Op::AtomicRmw { pointer, .. } | Op::CompareExchange { pointer, .. }) = op else { return false };
        if builder.ty(pointer).address_space() != Some(AddressSpace::Local) {
            return false;
        }
        match op {
            Op::AtomicRmw { op, pointer, value, align, .. } => {
                modify(builder, inst, op, pointer, value, align)
            }
            Op::CompareExchange { pointer, expected, replacement, align, .. } => {
                exchange(builder, inst, pointer, (expected, replacement), align);
            }
            _ => unreachable!("asked for atomics only"),
        }
        true
    });
}

fn modify(builder: &mut Builder, inst: Inst, op: RmwOp, pointer: Value, value: Value, align: u32) {
    builder.replace(inst, Op::Load { pointer, align, volatile: false, ordering: None });
    let Some(old) = builder.function.result(inst) else { return };
    let new = if op == RmwOp::Xchg { value } else { combine(builder, op, old, value) };
    builder.store(pointer, new, align);
}

fn exchange(
    builder: &mut Builder,
    inst: Inst,
    pointer: Value,
    (expected, replacement): (Value, Value),
    align: u32,
) {
    let Some(pair) = builder.function.result(inst).map(|result| builder.ty(result)) else { return };
    let old = builder.load(builder.ty(expected), pointer, align);
    let same = builder.compare(IntPredicate::Eq, old, expected);
    let new = builder.select(same, replacement, old);
    builder.store(pointer, new, align);
    let nothing = builder.constant(pair.clone(), Constant::Poison);
    let half = builder
        .push(pair, Op::InsertValue { aggregate: nothing, value: old, indices: [0].as_slice().into() });
    builder.replace(inst, Op::InsertValue { aggregate: half, value: same, indices: [1].as_slice().into() });
}

/// What the operation makes of two values.
fn combine(builder: &mut Builder, op: RmwOp, old: Value, value: Value) -> Value {
    let ty = builder.ty(old);
    let mut plain = |op| builder.binary(op, 0, old, value);
    let intrinsic = match op {
        RmwOp::Add => return plain(BinaryOp::Add),
        RmwOp::Sub => return plain(BinaryOp::Sub),
        RmwOp::And => return plain(BinaryOp::And),
        RmwOp::Or => return plain(BinaryOp::Or),
        RmwOp::Xor => return plain(BinaryOp::Xor),
        RmwOp::FAdd => return plain(BinaryOp::FAdd),
        RmwOp::FSub => return plain(BinaryOp::FSub),
        RmwOp::Nand => {
            let both = plain(BinaryOp::And);
            let bits = ty.scalar().map_or(0, Scalar::bits) as u32;
            let ones = builder.constant(ty, Constant::Int(u128::MAX >> (128 - bits.clamp(1, 128))));
            return builder.binary(BinaryOp::Xor, 0, both, ones);
        }
        RmwOp::Xchg => return value,
        RmwOp::Max => Intrinsic::SignedMax,
        RmwOp::Min => Intrinsic::SignedMin,
        RmwOp::UMax => Intrinsic::UnsignedMax,
        RmwOp::UMin => Intrinsic::UnsignedMin,
        RmwOp::FMax => Intrinsic::MaxNumber,
        RmwOp::FMin => Intrinsic::MinNumber,
    };
    builder.push(ty, Op::Intrinsic { intrinsic, flags: Flags::NONE, arguments: vec![old, value] })
}
