//! Transform: which parameters packs may take for small numbers.
//!
//! In `int i = get_global_id(0) + k` the sum may wrap for some work-items, so that lanes would not be neighbours. Programs
//! don't: if indices are made of such a sum, the parameter is called small, and the launch asks once whether it is before it runs
//! packs.

use crate::analysis::{interval, sees_sub_groups};
use crate::{BinaryOp, CastOp, Flags, Function, Op, Passing, Type, Value, ValueDef};
use std::collections::HashSet;

/// Marks them.
pub fn find_small_parameters(function: &mut Function) {
    // The size of sub-groups does not depend on arguments.
    if sees_sub_groups(function) {
        return;
    }
    let extended = |op: &Op| match op {
        Op::Cast { op: CastOp::SExt, value, .. } => Some(*value),
        _ => None,
    };
    let mut work: Vec<Value> = function.insts().filter_map(|inst| extended(function.op(inst))).collect();
    let mut seen: HashSet<Value> = HashSet::new();
    let mut small: HashSet<u32> = HashSet::new();
    while let Some(value) = work.pop() {
        if *function.ty(value) != Type::I32 || !seen.insert(value) {
            continue;
        }
        let Some(&Op::Binary { op, flags, lhs, rhs }) = function.defining_op(value) else { continue };
        if matches!(op, BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Shl) {
            work.extend([lhs, rhs]);
        }
        if matches!(op, BinaryOp::Add | BinaryOp::Sub) && flags.0 & Flags::NSW == 0 {
            for (value, other) in [(lhs, rhs), (rhs, lhs)] {
                if interval(function, other, 0).is_some() {
                    small.extend(parameter(function, value));
                }
            }
        }
    }
    for number in small {
        function.params[number as usize].passing = Passing::Small;
    }
}

/// The i32 parameter that a value is but for constants.
fn parameter(function: &Function, mut value: Value) -> Option<u32> {
    loop {
        if let ValueDef::Param(number) = *function.def(value) {
            let is_direct = function.params[number as usize].passing == Passing::Direct;
            return (is_direct && *function.ty(value) == Type::I32).then_some(number);
        }
        value = match *function.defining_op(value)? {
            Op::Binary { op: BinaryOp::Add | BinaryOp::Sub, lhs, rhs, .. }
                if function.constant_int(rhs).is_some() =>
            {
                lhs
            }
            _ => return None,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    /// Whether %1 is found to be small where this is the index of an access, or of none.
    fn is_small(sum: &str, index: bool) -> bool {
        let used = if index { "  %6: i64 = sext %5\n" } else { "  %6: i64 = zext %5\n" };
        let text = format!(
            "kernel \"k\"(%0: ptr(global) @ 0, %1: i32 @ 8) {{\nb0:\n  %2: i64 = global_id 0\n  %3: i32 = trunc %2\n  %4: i32 = add nsw %1, 1:i32\n\
             %5: i32 = {sum}\n{used}  %7: ptr(global) = address %0 + %6*4 + 0\n  store %7, %3, align 4\n  return\n}}"
        );
        let mut function = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        find_small_parameters(&mut function);
        function.params[1].passing == Passing::Small
    }

    #[test]
    fn what_is_added_to_an_id_in_an_index() {
        assert!(is_small("add %3, %1", true) && is_small("add %4, %3", true) && is_small("sub %3, %4", true));
        assert!(!is_small("add nsw %3, %1", true), "can't wrap");
        assert!(!is_small("add %3, %1", false), "a number");
        assert!(!is_small("mul %3, %1", true));
    }
}
