//! Addresses that others are computed from by distances that only the running program knows, as those of lanes that lie a row apart: code
//! generation shouldn't look through them. LLVM's loop strength reduction sees sums of all that they were made of instead, in each lane's
//! address anew, takes its time for what could be shared by which (seven eighths of code generation for multigrid's restriction in eight lanes), and
//! keeps an address in a register, or on the stack, for each lane where processors add the distances while they load.

use crate::llvm::{Edit, Instruction, Value};
use inkwell::llvm_sys::LLVMOpcode::LLVMGetElementPtr;

/// From fewer addresses a base is none of lanes'.
const LEAST_ADDRESSES: usize = 3;

/// Hides how those bases were computed.
pub(super) fn hide(edit: Edit) {
    let instructions = edit.defined_functions().into_iter().flat_map(|function| function.instructions());
    let bases: Vec<Instruction> = instructions.filter(|inst| is_base(*inst)).collect();
    for base in bases {
        let users = base.users();
        if let Some(builder) = edit.after(base) {
            edit.replace_in(&users, *base, builder.same_address(*base));
        }
    }
}

fn is_base(inst: Instruction) -> bool {
    let count = || inst.users().into_iter().filter(|&user| is_at_unknown_distance(user, *inst)).count();
    is_address(inst) && count() >= LEAST_ADDRESSES
}

fn is_at_unknown_distance<'m>(user: Value<'m>, base: Value<'m>) -> bool {
    let Some(address) = user.as_instruction().filter(|user| is_address(*user)) else { return false };
    let operands = address.operands();
    operands.first() == Some(&base) && operands[1..].iter().any(|index| !index.is_constant())
}

fn is_address(inst: Instruction) -> bool {
    inst.opcode() == LLVMGetElementPtr && inst.ty().is_pointer()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llvm::{self, Session};

    /// What becomes of four loads from a base on, so far apart.
    fn hidden(distances: [&str; 3]) -> String {
        let load = |(number, distance): (usize, &str)| {
            format!(
                " %a{number} = getelementptr i8, ptr %base, i64 {distance}\n %v{number} = load float, ptr %a{number}\n \
                 %s{number} = fadd float %s{}, %v{number}\n",
                number - 1
            )
        };
        let text = format!(
            "define float @f(ptr %p, i64 %i, i64 %d, i64 %e) {{\n %base = getelementptr float, ptr %p, i64 %i\n %s0 = load float, ptr %base\n\
             {} ret float %s3\n}}",
            (1..).zip(distances).map(load).collect::<String>()
        );
        let session = Session::new();
        let mut module = llvm::parse_text(&session, &text).unwrap();
        module.edit(hide);
        llvm::verify(&module).unwrap();
        llvm::print_text(&module)
    }

    #[test]
    fn bases_of_lanes_are_hidden() {
        let text = hidden(["%d", "%e", "%i"]);
        assert!(text.contains("%1 = call ptr @llvm.strip.invariant.group.p0(ptr %base)"), "{text}");
        assert_eq!(text.matches("ptr %base").count(), 1, "{text}");
        assert_eq!(text.matches("ptr %1").count(), 4, "{text}");
        assert!(
            !hidden(["%d", "16", "32"]).contains("strip"),
            "distances that are known are part of an instruction"
        );
    }
}
