//! Transform: vectors of bytes that are divided by constants, in 16 bits: there is a product of which the upper half is kept, and LLVM's way
//! for bytes is twice as long.

use crate::builder::replace_results;
use crate::{BinaryOp, CastOp, Constant, Flags, Function, Op, Scalar, Type, ValueDef};

/// Widens them.
pub fn widen_byte_divisions(function: &mut Function) {
    replace_results(function, |builder, inst| {
        let Op::Binary { op, lhs, rhs, .. } = *builder.function.op(inst) else { return None };
        let extend = match op {
            BinaryOp::UDiv | BinaryOp::URem => CastOp::ZExt,
            BinaryOp::SDiv | BinaryOp::SRem => CastOp::SExt,
            _ => return None,
        };
        let ty @ Type::Vector(Scalar::Int(8), _) = builder.ty(lhs) else { return None };
        let ValueDef::Constant(Constant::Elements(_)) = builder.function.def(rhs) else { return None };
        let wide = ty.with_scalar(Scalar::Int(16));
        let [lhs, rhs] = [lhs, rhs].map(|value| builder.cast(extend, wide.clone(), value));
        let value = builder.push(wide, Op::Binary { op, flags: Flags::NONE, lhs, rhs });
        Some(builder.cast(CastOp::Trunc, ty, value))
    });
}
