//! Transform: `minnum` and `maxnum` as comparisons, which say what LLVM leaves open: which zero it is of two that differ in sign.
//! Both tiers compute the same bits then, in scalars and in packs. Where the second operand is known to be a number, as a constant
//! is, a processor of the x86 family has one instruction for it, and else three, as for the intrinsic.

use crate::builder::{replace_results, rewrite};
use crate::transform::exchange_loop::{Access, exchange_loop, from_integer};
use crate::{Flags, FloatPredicate, Function, Intrinsic, Op, Ordering, RmwOp};

/// Replaces both by comparisons, unless no NaN comes and any zero will do; first the atomic ones by loops around them, and those of
/// integers that order no other memory, which change nothing most times.
pub fn expand_minima(function: &mut Function) {
    replace_results(function, |builder, inst| {
        let Op::AtomicRmw { op, pointer, value, ordering, volatile, align } = *builder.function.op(inst)
        else {
            return None;
        };
        // What no register holds nobody can exchange.
        let fits = builder.ty(value).scalar().is_some_and(|scalar| scalar.bits() <= 64);
        let is_of_floats = matches!(op, RmwOp::FMin | RmwOp::FMax);
        // Those of integers are LLVM's, if they order other memory.
        let is_relaxed_of_integers = matches!(op, RmwOp::Min | RmwOp::Max | RmwOp::UMin | RmwOp::UMax)
            && ordering == Ordering::Monotonic;
        if !(is_of_floats || is_relaxed_of_integers) || !fits {
            return None;
        }
        let ty = builder.ty(value);
        let found = exchange_loop(builder, op, Access { pointer, ordering, volatile, align }, value);
        Some(from_integer(builder, found, &ty))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    /// What becomes of an atomic operation on memory.
    fn expanded(operation: &str) -> String {
        let text = format!(
            "kernel \"k\"(%0: ptr(global) @ 0, %1: i32 @ 8) {{\nb0:\n  %2: i32 = rmw atomic {operation}\n  store %0, %2, align 4\n  return\n}}"
        );
        let mut function = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        expand_minima(&mut function);
        crate::verify(&function).unwrap_or_else(|error| panic!("{error}"));
        function.to_string()
    }

    #[test]
    fn a_minimum_that_changes_nothing_is_a_load() {
        for op in ["min", "max", "umin", "umax"] {
            let text = expanded(&format!("monotonic {op} %0, %1, align 4"));
            assert_eq!(text.matches("  branch ").count(), 2, "to what was there, and once more: {text}");
            let text = expanded(&format!("seq_cst {op} %0, %1, align 4"));
            assert!(text.contains("= rmw") && !text.contains("  branch "), "{text}");
        }
        assert!(expanded("monotonic add %0, %1, align 4").contains("= rmw atomic monotonic add"));
    }
}
