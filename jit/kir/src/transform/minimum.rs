//! Transform: `minnum` and `maxnum` as comparisons, which say what LLVM leaves open: which zero it is of two that differ in sign.
//! Both tiers compute the same bits then, in scalars and in packs. Where the second operand is known to be a number, as a constant
//! is, a processor of the x86 family has one instruction for it, and else three, as for the intrinsic.

use crate::builder::rewrite;
use crate::transform::exchange_loop::{Access, exchange_loop};
use crate::{CastOp, Flags, FloatPredicate, Function, Intrinsic, Op, RmwOp};

/// Replaces both by comparisons, unless no NaN comes and any zero will do; first the atomic ones by loops around them.
pub fn expand_minima(function: &mut Function) {
    rewrite(function, |builder, inst| {
        let Op::AtomicRmw { op, pointer, value, ordering, volatile, align } = *builder.function.op(inst)
        else {
            return false;
        };
        // What no register holds nobody can exchange.
        let fits = builder.ty(value).scalar().is_some_and(|scalar| scalar.bits() <= 64);
        if !matches!(op, RmwOp::FMin | RmwOp::FMax) || !fits {
            return false;
        }
        let found = exchange_loop(builder, op, Access { pointer, ordering, volatile, align }, value);
        builder.replace(inst, Op::Cast { op: CastOp::BitCast, flags: Flags::NONE, value: found });
        true
    });
    rewrite(function, |builder, inst| {
        let Op::Intrinsic { intrinsic, flags, arguments } = builder.function.op(inst) else { return false };
        let first = match intrinsic {
            Intrinsic::MinNumber => FloatPredicate::Olt,
            Intrinsic::MaxNumber => FloatPredicate::Ogt,
            _ => return false,
        };
        let liberties = Flags::NO_NANS | Flags::NO_SIGNED_ZEROS;
        let (flags, [x, y]) = (*flags, [arguments[0], arguments[1]]);
        if flags.0 & liberties == liberties {
            return false;
        }
        // The second of two equal ones, and of two that have no order the first only if the second is NaN.
        let before = builder.compare_floats(first, x, y);
        let chosen = builder.select(before, x, y);
        let none = builder.compare_floats(FloatPredicate::Uno, y, y);
        builder.replace(inst, Op::Select { flags: Flags::NONE, condition: none, then: x, otherwise: chosen });
        true
    });
}
