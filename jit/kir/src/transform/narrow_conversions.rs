//! Transform: conversions of floats to integers below 32 bits. What such an integer can't hold is undefined, and back ends differ: LLVM's
//! vectors saturate, single numbers wrap. By way of 32 bits all of them keep the last bits, as C compilers do on this processor, and
//! programs compare with what those yield.

use crate::builder::replace_results;
use crate::{CastOp, Function, Op, Scalar};

/// Makes them conversions to 32 bits, of which the last are kept.
pub fn widen_narrow_conversions(function: &mut Function) {
    replace_results(function, |builder, inst| {
        let &Op::Cast { op: CastOp::FpToSi | CastOp::FpToUi, value, .. } = builder.function.op(inst) else {
            return None;
        };
        let to = builder.ty(builder.function.result(inst)?);
        let Some(Scalar::Int(2..32)) = to.scalar() else { return None };
        let whole = builder.cast(CastOp::FpToSi, to.with_scalar(Scalar::Int(32)), value);
        Some(builder.cast(CastOp::Trunc, to, whole))
    });
}
