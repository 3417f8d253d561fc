//! Transform: vectors of bytes that are divided by constants, in 16 bits: there is a product of which the upper half is kept, and LLVM's way
//! for bytes is twice as long.

use crate::builder::{replace_uses, rewrite};
use crate::{BinaryOp, CastOp, Constant, Flags, Function, Op, Scalar, Type, ValueDef};
use std::collections::HashMap;

/// Widens them.
pub fn widen_byte_divisions(function: &mut Function) {
    let mut replaced = HashMap::new();
    rewrite(function, |builder, inst| {
        let Op::Binary { op, lhs, rhs, .. } = *builder.function.op(inst) else { return false };
        let extend = match op {
            BinaryOp::UDiv | BinaryOp::URem => CastOp::ZExt,
            BinaryOp::SDiv | BinaryOp::SRem => CastOp::SExt,
            _ => return false,
        };
        let ty @ Type::Vector(Scalar::Int(8), _) = builder.ty(lhs) else { return false };
        let is_constant = matches!(builder.function.def(rhs), ValueDef::Constant(Constant::Elements(_)));
        let Some(result) = builder.function.result(inst).filter(|_| is_constant) else { return false };
        let wide = ty.with_scalar(Scalar::Int(16));
        let [lhs, rhs] = [lhs, rhs].map(|value| builder.cast(extend, wide.clone(), value));
        let value = builder.push(wide, Op::Binary { op, flags: Flags::NONE, lhs, rhs });
        replaced.insert(result, builder.cast(CastOp::Trunc, ty, value));
        true
    });
    replace_uses(function, &replaced);
}
