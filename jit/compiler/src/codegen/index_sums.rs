//! Indices that are sums of 32 bits, such as `a[ld * row + k + offset]`, are summed in 64 bits, as addresses are. A C compiler promises that
//! signed sums don't wrap, but LLVM, which asks where neighbouring elements lie, takes such a promise for the whole sum only where it can
//! prove that for its parts: of `ld * row + k`, `k + 1` and so on it sees that they follow on each other, and with an offset behind them it
//! gathers. (A matrix by a vector of lc0's took 12 or 5 ms.)

use crate::llvm::{Builder, Edit, Function, Instruction, Type, Value};
use inkwell::llvm_sys::LLVMOpcode::*;
use std::collections::HashMap;

/// Sums that an index is followed through.
const MAX_DEPTH: u32 = 8;

/// Does so in all functions.
pub(super) fn widen(edit: Edit) {
    edit.defined_functions().into_iter().for_each(|function| widen_in(edit, function));
}

fn widen_in<'e>(edit: Edit<'e>, function: Function<'e>) {
    let mut known = HashMap::new();
    for inst in function.instructions() {
        let Some(narrow) = inst.narrow_index() else { continue };
        // (A sum of two is seen through.)
        let is_long = terms(narrow, 0).is_some_and(|terms| terms > 2);
        if let Some(wide) = is_long.then(|| widened(edit, narrow, (inst.ty(), 0), &mut known)).flatten() {
            edit.replace_in(&inst.users(), *inst, wide);
        }
    }
}

/// The operands of a sum that can't wrap.
fn addends<'e>(narrow: Value<'e>, depth: u32) -> Option<(Instruction<'e>, [Value<'e>; 2])> {
    let inst = narrow.as_instruction().filter(|_| depth < MAX_DEPTH)?;
    let is_sum = match inst.opcode() {
        LLVMAdd | LLVMSub => narrow.no_wrap().1,
        LLVMOr => narrow.is_disjoint(),
        _ => false,
    };
    let [lhs, rhs] = *inst.operands() else { return None };
    is_sum.then_some((inst, [lhs, rhs]))
}

/// Of how many values but constants it is a sum; nothing where it is none.
fn terms(narrow: Value, depth: u32) -> Option<u32> {
    let (_, operands) = addends(narrow, depth)?;
    let counted = operands.iter().filter(|operand| !operand.is_constant_integer());
    Some(counted.map(|&operand| terms(operand, depth + 1).unwrap_or(1)).sum())
}

/// A sum of 32 bits as one of its extended terms.
fn widened<'e>(
    edit: Edit<'e>,
    narrow: Value<'e>,
    (ty, depth): (Type<'e>, u32),
    known: &mut HashMap<Instruction<'e>, Value<'e>>,
) -> Option<Value<'e>> {
    let (inst, operands) = addends(narrow, depth)?;
    if let Some(&wide) = known.get(&inst) {
        return Some(wide);
    }
    let inner = operands.map(|operand| widened(edit, operand, (ty, depth + 1), known));
    let builder: Builder = edit.after(inst)?;
    let [lhs, rhs] =
        std::array::from_fn(|at| inner[at].unwrap_or_else(|| builder.sign_extend(operands[at], ty)));
    let wide = if inst.opcode() == LLVMSub { builder.subtract(lhs, rhs) } else { builder.add(lhs, rhs) };
    known.insert(inst, wide);
    Some(wide)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llvm::{self, Session};

    fn summed(index: &str) -> String {
        let text = format!(
            "define ptr @f(ptr %p, i32 %x, i32 %y, i32 %z) {{\n {index}\n %w = sext i32 %i to i64
             %q = getelementptr float, ptr %p, i64 %w\n ret ptr %q\n}}"
        );
        let session = Session::new();
        let mut module = llvm::parse_text(&session, &text).unwrap();
        module.edit(widen);
        llvm::verify(&module).unwrap();
        llvm::print_text(&module)
    }

    #[test]
    fn sums_of_several_values_are_those_of_64_bits() {
        for (index, sums) in [
            ("%s = add nsw i32 %x, %y\n %i = add nsw i32 %s, %z", ["add i64", "add i64"]),
            (
                "%s = or disjoint i32 %x, %y\n %t = add nsw i32 %s, 5\n %i = sub nsw i32 %t, %z",
                ["add i64", "sub i64"],
            ),
        ] {
            let text = summed(index);
            assert!(sums.iter().all(|sum| text.contains(sum)), "{text}");
            assert_eq!(text.matches("sext i32 %x to i64").count(), 1, "{text}");
            assert!(!text.contains("i64 %w"), "{text}");
        }
    }

    #[test]
    fn what_may_wrap_or_is_short_stays() {
        for index in [
            "%s = add i32 %x, %y\n %i = add i32 %s, %z",
            "%s = add nsw i32 %x, %y\n %i = add nsw i32 %s, 7",
            "%s = or i32 %x, %y\n %i = add nsw i32 %s, %z",
            "%i = mul nsw i32 %x, %y",
        ] {
            assert!(summed(index).contains("i64 %w"), "{index}");
        }
        // Of what may wrap the rest is not asked.
        let text = summed("%t = add i32 %x, 1\n %s = add nsw i32 %t, %y\n %i = add nsw i32 %s, %z");
        assert!(text.contains("sext i32 %t to i64"), "{text}");
    }
}
