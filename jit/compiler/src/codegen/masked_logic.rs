//! A mistake of LLVM, up to 22.1.8 at least, that code is kept from: of three operands of bitwise logic that are merged with one of
//! them under a mask, where another one comes from memory or is a constant, AVX-512's `vpternlog` gets the truth table of other places of its
//! operands (llvm/llvm-project, issue 157929). Logic that has a second use is not merged.

use crate::llvm::{Edit, Instruction, Value};
use inkwell::llvm_sys::LLVMOpcode::{self, *};

/// LLVM looks through so many operations for operands of one instruction.
const MAX_DEPTH: u32 = 4;

/// Gives logic a second use where it is chosen by a mask of lanes instead of one of its operands.
pub(super) fn keep_apart(edit: Edit) {
    let instructions = edit.defined_functions().into_iter().flat_map(|function| function.instructions());
    let choices = instructions.filter(|inst| inst.opcode() == LLVMSelect && inst.ty().is_vector());
    for choice in choices.collect::<Vec<_>>() {
        let [_, then, otherwise] = choice.operands()[..] else { continue };
        for (logic, other) in [(then, otherwise), (otherwise, then)] {
            let is_here = logic.as_instruction().is_some_and(|inst| inst.block() == choice.block());
            if is_here && is_made_of(logic, other, MAX_DEPTH) {
                edit.before(choice).fake_use(logic);
            }
        }
    }
}

/// Whether a value is bitwise logic with that operand.
fn is_made_of<'m>(logic: Value<'m>, operand: Value<'m>, depth: u32) -> bool {
    let Some(inst) = logic.as_instruction().filter(|inst| depth > 0 && is_logic(*inst)) else { return false };
    inst.operands().into_iter().any(|value| value == operand || is_made_of(value, operand, depth - 1))
}

/// Whether it becomes bitwise logic, or nothing.
fn is_logic(inst: Instruction) -> bool {
    const LOGIC: [LLVMOpcode; 5] = [LLVMAnd, LLVMOr, LLVMXor, LLVMBitCast, LLVMFreeze];
    let name = inst.called_function().map(|function| function.name()).unwrap_or_default();
    LOGIC.contains(&inst.opcode()) || name.starts_with("llvm.copysign.") || name.starts_with("llvm.fabs.")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llvm::{self, Session};

    /// What is kept apart in a function that chooses between the last line's %o and %a.
    fn kept(body: &str) -> usize {
        let text = format!(
            "define <4 x i32> @f(<4 x i32> %a, <4 x i32> %b, <4 x i1> %c) {{\n {body}
             %r = select <4 x i1> %c, <4 x i32> %o, <4 x i32> %a\n ret <4 x i32> %r\n}}"
        );
        let session = Session::new();
        let mut module = llvm::parse_text(&session, &text).unwrap();
        module.edit(keep_apart);
        llvm::verify(&module).unwrap();
        llvm::print_text(&module).matches("call void (...) @llvm.fake.use(<4 x i32> %o)").count()
    }

    #[test]
    fn logic_of_what_it_is_chosen_instead_of_is_kept_apart() {
        let bits = "%p = and <4 x i32> %a, splat (i32 -8)\n %q = and <4 x i32> %b, splat (i32 7)\n";
        assert_eq!(kept(&format!("{bits} %o = or disjoint <4 x i32> %p, %q")), 1);
        assert_eq!(kept("%x = xor <4 x i32> %b, %a\n %o = and <4 x i32> %x, splat (i32 7)"), 1);
        assert_eq!(kept("%x = xor <4 x i32> %b, splat (i32 9)\n %o = and <4 x i32> %x, splat (i32 7)"), 0);
        assert_eq!(kept("%o = add <4 x i32> %b, %a"), 0);
    }
}
