//! Clean-up: multiples of sums in indices, such as `3 * (y * width + x + 1)`, are computed in 64 bits.
//!
//! A C compiler promises that signed sums and products don't wrap. LLVM's InstCombine makes `3 * s + 3` of `3 * (s + 1)`, of which
//! that needn't hold, and drops the promise. Without it nobody knows whether neighbouring work-items' elements lie three apart, and
//! all that is made of such an index is gathered. Addresses have 64 bits: there nothing is lost when a factor is distributed.

use crate::llvm::{Builder, Edit, Function, Instruction, Type, Value};
use inkwell::llvm_sys::LLVMOpcode;
use std::collections::HashMap;

/// Operations that an index is followed through.
const MAX_DEPTH: u32 = 8;

/// Does so in all functions.
pub(super) fn widen(edit: Edit) {
    edit.defined_functions().into_iter().for_each(|function| widen_in(edit, function));
}

fn widen_in<'e>(edit: Edit<'e>, function: Function<'e>) {
    let mut widening = Widening { edit, wide: HashMap::new() };
    for inst in function.instructions() {
        let Some(narrow) = inst.narrow_index() else { continue };
        if let Some(wide) = widening.widened(narrow, inst.ty(), (false, 0)) {
            edit.replace_in(&inst.users(), *inst, wide);
        }
    }
}

struct Widening<'e> {
    edit: Edit<'e>,
    /// What has been computed in 64 bits already, behind itself, as a factor or not.
    wide: HashMap<(Instruction<'e>, bool), Option<Value<'e>>>,
}

impl<'e> Widening<'e> {
    /// A value sign-extended, if it has a multiple of a sum with a constant in it, or is such a sum and a factor.
    fn widened(
        &mut self,
        narrow: Value<'e>,
        ty: Type<'e>,
        (is_factor, depth): (bool, u32),
    ) -> Option<Value<'e>> {
        let inst = narrow.as_instruction().filter(|_| depth < MAX_DEPTH && narrow.no_wrap().1)?;
        if let Some(&known) = self.wide.get(&(inst, is_factor)) {
            return known;
        }
        let wide = self.computed(inst, ty, (is_factor, depth));
        self.wide.insert((inst, is_factor), wide);
        wide
    }

    fn computed(
        &mut self,
        inst: Instruction<'e>,
        ty: Type<'e>,
        (is_factor, depth): (bool, u32),
    ) -> Option<Value<'e>> {
        let [lhs, rhs] = *inst.operands() else { return None };
        let has_constant = [lhs, rhs].iter().any(|operand| operand.is_constant_integer());
        type Build<'e> = fn(&Builder<'e>, Value<'e>, Value<'e>) -> Value<'e>;
        let (build, operands_are_factors): (Build<'e>, bool) = match inst.opcode() {
            LLVMOpcode::LLVMAdd => (Builder::add, is_factor),
            LLVMOpcode::LLVMSub => (Builder::subtract, is_factor),
            LLVMOpcode::LLVMMul if has_constant => (Builder::multiply, true),
            _ => return None,
        };
        let inner = [lhs, rhs].map(|value| self.widened(value, ty, (operands_are_factors, depth + 1)));
        let is_shifted = is_factor && has_constant && inst.opcode() != LLVMOpcode::LLVMMul;
        if !is_shifted && inner.iter().all(Option::is_none) {
            return None;
        }
        let builder = self.edit.after(inst)?;
        let extended = |value: Value<'e>, inner: Option<Value<'e>>| {
            inner.unwrap_or_else(|| builder.sign_extend(value, ty))
        };
        Some(build(&builder, extended(lhs, inner[0]), extended(rhs, inner[1])))
    }
}

#[cfg(test)]
mod tests {
    use crate::front::cleanup::tests::cleaned;

    /// A kernel that stores to what `index` makes of %x and %y.
    fn kernel(index: &str) -> String {
        format!(
            "define void @spirula.kernel.k(ptr addrspace(1) %p, i32 %x, i32 %y) {{
              {index}\n %w = sext i32 %i to i64\n %q = getelementptr i8, ptr addrspace(1) %p, i64 %w
              store i8 0, ptr addrspace(1) %q\n ret void\n}}"
        )
    }

    #[test]
    fn multiples_of_sums_do_not_wrap() {
        for index in [
            "%s = add nsw i32 %x, 1\n %i = mul nsw i32 %s, 3",
            "%s = add nsw i32 %x, 1\n %m = mul nsw i32 3, %s\n %i = add nsw i32 %m, %y",
            "%r = mul nsw i32 %x, %y\n %t = add nsw i32 %r, -1\n %s = add nsw i32 %t, %x\n %m = mul nsw i32 %s, 6\n %i = sub nsw i32 %m, 2",
        ] {
            let text = cleaned(&kernel(index), true);
            let lost = [" add i32", " mul i32", " sub i32"];
            assert!(lost.iter().all(|op| !text.contains(op)), "what has 32 bits keeps its promise: {text}");
            assert!(text.contains(" mul ") && text.contains("sext i32 %"), "{text}");
        }
    }

    #[test]
    fn what_may_wrap_stays_as_it_is() {
        for index in [
            "%s = add i32 %x, 1\n %i = mul nsw i32 %s, 3",
            "%s = add nsw i32 %x, 1\n %i = mul i32 %s, 3",
            "%s = add nsw i32 %x, %y\n %i = mul nsw i32 %s, 3",
        ] {
            let text = cleaned(&kernel(index), true);
            let is_wide = |line: &str| line.contains(" mul ") && line.contains(" i64 ");
            assert!(text.contains("sext i32 %") && !text.lines().any(is_wide), "{text}");
        }
    }
}
