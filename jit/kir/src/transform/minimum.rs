//! Transform: `minnum` and `maxnum` as comparisons, which say what LLVM leaves open: which zero it is of two that differ in sign.
//! Both tiers compute the same bits then, in scalars and in packs. Where the second operand is known to be a number, as a constant
//! is, a processor of the x86 family has one instruction for it, and else three, as for the intrinsic.

use crate::builder::rewrite;
use crate::transform::exchange_loop::{Access, exchange_loop};
use crate::{CastOp, Flags, FloatPredicate, Function, Intrinsic, Op, Ordering, RmwOp, UnaryOp};

/// Replaces both by comparisons, unless no NaN comes and any zero will do; first the atomic ones by loops around them.
pub fn expand_minima(function: &mut Function) {
    rewrite(function, |builder, inst| {
        let Op::AtomicRmw { op, pointer, value, ordering, volatile, align } = *builder.function.op(inst)
        else {
            return false;
        };
        // What no register holds nobody can exchange.
        let fits = builder.ty(value).scalar().is_some_and(|scalar| scalar.bits() <= 64);
        let is_of_floats = matches!(op, RmwOp::FMin | RmwOp::FMax);
        // Those of integers are LLVM's, if they order other memory.
        let is_relaxed_of_integers = matches!(op, RmwOp::Min | RmwOp::Max | RmwOp::UMin | RmwOp::UMax)
            && ordering == Ordering::Monotonic;
        if !(is_of_floats || is_relaxed_of_integers) || !fits {
            return false;
        }
        let found = exchange_loop(builder, op, Access { pointer, ordering, volatile, align }, value);
        builder.replace(
            inst,
            if is_of_floats {
                Op::Cast { op: CastOp::BitCast, flags: Flags::NONE, value: found }
            } else {
                Op::Unary { op: UnaryOp::Freeze, flags: Flags::NONE, value: found }
            },
        );
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
