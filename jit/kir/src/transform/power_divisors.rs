//! Transform: divisions by `1 << n` are shifts, and their remainders masks.
//!
//! LLVM knows that, but not where the divisor was frozen, or guarded against zero, because a program may divide by anything: what is
//! shifted by less than its width is never zero.

use crate::analysis::interval;
use crate::builder::{Builder, rewrite};
use crate::{BinaryOp, Function, Inst, Intrinsic, Op, Scalar, Type, UnaryOp, Value};

/// Writes shifts and masks for unsigned divisions.
pub fn shift_by_powers(function: &mut Function) {
    rewrite(function, |builder, inst| {
        let Some(shifted) = shifted(builder, inst) else { return false };
        builder.replace(inst, shifted);
        true
    });
}

/// What the instruction is, if it is such a division.
fn shifted(builder: &mut Builder, inst: Inst) -> Option<Op> {
    let Op::Binary { op: op @ (BinaryOp::UDiv | BinaryOp::URem), lhs, rhs, .. } = *builder.function.op(inst)
    else {
        return None;
    };
    let by = exponent(builder.function, rhs)?;
    // As the divisor was: whatever it is, it is the same for all that use it.
    let by = builder.freeze(by);
    if op == BinaryOp::UDiv {
        return Some(Op::Binary { op: BinaryOp::LShr, flags: Default::default(), lhs, rhs: by });
    }
    let ty = builder.ty(lhs);
    let one = builder.function.int(ty.clone(), 1);
    let power = builder.binary(BinaryOp::Shl, 0, one, by);
    let mask = builder.binary(BinaryOp::Sub, 0, power, one);
    Some(Op::Binary { op: BinaryOp::And, flags: Default::default(), lhs, rhs: mask })
}

/// n, if a divisor is 1 << n for an n that is less than its width.
fn exponent(function: &Function, divisor: Value) -> Option<Value> {
    let Type::Scalar(Scalar::Int(bits @ 8..=64)) = *function.ty(divisor) else { return None };
    match function.defining_op(divisor)? {
        Op::Unary { op: UnaryOp::Freeze, value, .. } => exponent(function, *value),
        // It isn't zero in any case.
        Op::Intrinsic { intrinsic: Intrinsic::UnsignedMax, arguments, .. }
            if function.constant_int(arguments[1]) == Some(1) =>
        {
            exponent(function, arguments[0])
        }
        &Op::Binary { op: BinaryOp::Shl, lhs, rhs, .. } if function.constant_int(lhs) == Some(1) => {
            let (low, high) = interval(function, rhs, 0)?;
            (low >= 0 && high < i128::from(bits)).then_some(rhs)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    /// What becomes of a division by this, the kernel's own value 9.
    fn operation(divisor: &str) -> BinaryOp {
        let text = format!(
            "kernel \"k\"(%0: ptr(global) @ 0, %1: i32 @ 8, %2: i32 @ 12) {{
b0:
  %3: i32 = and %1, 31:i32
  %4: i32 = and %1, 63:i32
{divisor}  %10: i32 = udiv %2, %9
  store %0, %10, align 4
  return
}}"
        );
        let mut function = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        shift_by_powers(&mut function);
        let stored = function.insts().find_map(|inst| match *function.op(inst) {
            Op::Store { value, .. } => Some(value),
            _ => None,
        });
        match stored.and_then(|value| function.defining_op(value)) {
            Some(Op::Binary { op, .. }) => *op,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn powers_are_found_behind_guards() {
        let power = "  %8: i32 = shl nuw 1:i32, %3\n";
        for guard in ["freeze %8", "intrinsic umax(%8, 1:i32)", "shl 1:i32, %3"] {
            assert_eq!(operation(&format!("{power}  %9: i32 = {guard}\n")), BinaryOp::LShr, "{guard}");
        }
    }

    #[test]
    fn other_divisors_stay() {
        for divisor in ["shl 1:i32, %4", "shl 2:i32, %3", "shl 1:i32, %1", "add %3, 1:i32"] {
            assert_eq!(operation(&format!("  %9: i32 = {divisor}\n")), BinaryOp::UDiv, "{divisor}");
        }
    }
}
