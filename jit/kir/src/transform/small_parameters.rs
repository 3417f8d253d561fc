//! Transform: which parameters packs may take for small numbers.
//!
//! In `int i = get_global_id(0) + k` the sum may wrap for some work-items, so that lanes would not be neighbours. Programs
//! don't: if indices are made of such a sum, the parameter is called small, and the launch asks once whether it is before it runs
//! packs. The same holds for `get_group_id(0) * 256 + get_local_id(0)`: it asks whether the groups are so few.

use crate::analysis::{interval, sees_sub_groups};
use crate::transform::shifted_sums::CUT_BITS;
use crate::{BinaryOp, CastOp, Flags, Function, Op, Passing, Type, Value, ValueDef, WorkItemQuery};
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
    (function.group_factors, function.id_factor) = factors(function);
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

/// Larger factors are no group's size.
const MOST_PER_GROUP: u128 = 1 << 12;

/// By what groups' numbers, and ids, are multiplied in sums that are cut to 32 bits.
fn factors(function: &Function) -> ([u32; 3], u32) {
    let (mut factors, mut of_ids) = ([0; 3], 0);
    let cut = |op: &Op| match *op {
        Op::Cast { op: CastOp::SExt, value, .. } if *function.ty(value) == Type::I32 => Some(value),
        Op::Binary { op: BinaryOp::AShr, lhs, .. } => match *function.defining_op(lhs)? {
            Op::Binary { op: BinaryOp::Shl, lhs: sum, rhs: by, .. }
                if function.constant_int(by).is_some_and(|by| by >= CUT_BITS) =>
            {
                Some(sum)
            }
            _ => None,
        },
        _ => None,
    };
    let mut work: Vec<Value> = function.insts().filter_map(|inst| cut(function.op(inst))).collect();
    work.extend(unsigned_indices(function));
    let mut seen: HashSet<Value> = HashSet::new();
    while let Some(value) = work.pop() {
        let Some(&Op::Binary { op, lhs, rhs, .. }) =
            function.defining_op(value).filter(|_| seen.insert(value))
        else {
            continue;
        };
        let factor = function.constant_int(rhs).and_then(|constant| match op {
            BinaryOp::Mul => Some(constant),
            BinaryOp::Shl => 1_u128.checked_shl(constant.try_into().ok()?),
            _ => None,
        });
        match (op, factor, place(function, lhs)) {
            (_, Some(factor), Some((WorkItemQuery::GroupId, dimension))) if factor <= MOST_PER_GROUP => {
                let largest = &mut factors[usize::from(dimension)];
                *largest = (*largest).max(factor as u32);
            }
            (_, Some(factor), Some((WorkItemQuery::GlobalId, _))) if factor <= MOST_PER_GROUP => {
                of_ids = of_ids.max(factor as u32);
            }
            (BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Shl | BinaryOp::Or, ..) => {
                work.extend([lhs, rhs]);
            }
            _ => {}
        }
    }
    (factors, of_ids)
}

/// What is cut to 32 bits and extended by zeroes for an address. (For others than addresses, programs multiply unsigned numbers so that
/// they wrap: random numbers, and hashes.)
fn unsigned_indices(function: &Function) -> Vec<Value> {
    let mut work: Vec<Value> = Vec::new();
    work.extend(function.insts().filter_map(|inst| match *function.op(inst) {
        Op::Address { index, .. } => index,
        _ => None,
    }));
    let (mut seen, mut found): (HashSet<Value>, Vec<Value>) = Default::default();
    while let Some(value) = work.pop() {
        if !seen.insert(value) {
            continue;
        }
        match function.defining_op(value) {
            Some(&Op::Cast { op: CastOp::ZExt, value, .. }) if *function.ty(value) == Type::I32 => {
                found.push(value);
            }
            Some(&Op::Binary { op: BinaryOp::And, lhs, rhs, .. })
                if function.constant_int(rhs) == Some(u32::MAX.into()) =>
            {
                found.push(lhs);
            }
            Some(&Op::Binary {
                op: BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Shl,
                lhs,
                rhs,
                ..
            }) => work.extend([lhs, rhs]),
            _ => {}
        }
    }
    found
}

/// Which place in the NDRange a value is, of whatever width.
fn place(function: &Function, value: Value) -> Option<(WorkItemQuery, u8)> {
    match *function.defining_op(value)? {
        Op::WorkItem { query, dimension } if dimension < 3 => Some((query, dimension)),
        Op::Cast { op: CastOp::Trunc | CastOp::SExt | CastOp::ZExt, value, .. } => place(function, value),
        _ => None,
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
    fn groups_numbers_in_indices_have_factors() {
        let factors = |index: &str| {
            let text = format!(
                "kernel \"k\"(%0: ptr(global) @ 0) {{\nb0:\n  %1: i64 = group_id 1\n  %2: i32 = trunc %1\n  %3: i64 = local_id 0\n  %4: i32 = trunc %3\n{index}  return\n}}"
            );
            let mut function = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
            find_small_parameters(&mut function);
            (function.group_factors, function.id_factor)
        };
        let narrow = "  %5: i32 = mul %2, 66:i32\n  %6: i32 = add %5, %4\n  %7: i64 = sext %6\n";
        let shifted = "  %5: i64 = shl %1, 9:i64\n  %6: i64 = add %5, %3\n  %7: i64 = shl %6, 32:i64\n  %8: i64 = ashr %7, 29:i64\n";
        let whole = "  %5: i64 = shl %1, 9:i64\n  %6: i64 = add %5, %3\n";
        let huge = "  %5: i32 = mul %2, 6600:i32\n  %7: i64 = sext %5\n";
        assert_eq!(
            [narrow, shifted, whole, huge].map(factors),
            [([0, 66, 0], 0), ([0, 512, 0], 0), ([0; 3], 0), ([0; 3], 0)]
        );
        let of_id = |text: &str| {
            factors(&text.replace("%1,", "%8,").replace("%2,", "%9,").replacen(
                "  %5",
                "  %8: i64 = global_id 0\n  %9: i32 = trunc %8\n  %5",
                1,
            ))
        };
        assert_eq!([narrow, huge].map(of_id), [([0; 3], 66), ([0; 3], 0)]);
    }

    #[test]
    fn what_is_added_to_an_id_in_an_index() {
        assert!(is_small("add %3, %1", true) && is_small("add %4, %3", true) && is_small("sub %3, %4", true));
        assert!(!is_small("add nsw %3, %1", true), "can't wrap");
        assert!(!is_small("add %3, %1", false), "a number");
        assert!(!is_small("mul %3, %1", true));
    }
}
