//! Contraction: `opencl.enable.FP_CONTRACT` says that products and sums of a module may be fused (SPIR 1.2,
//! 2.9.1). It becomes the instructions' own permission, so that it stays with them when modules are joined.

use crate::llvm::{Module, View};
use inkwell::llvm_sys::{LLVMFastMathAllowContract, LLVMFastMathAllowReassoc, LLVMOpcode};

/// Gives the permission where a module states it. In one that was joined of several, it is with those that had it already.
pub(crate) fn allow(module: &mut Module) {
    let parts = module.view().named_metadata(c"opencl.compiler.options").len();
    if parts > 1 || !module.view().has_named_metadata(c"opencl.enable.FP_CONTRACT") {
        return;
    }
    module.edit(|edit| {
        for instruction in edit.defined_functions().into_iter().flat_map(|function| function.instructions()) {
            edit.add_fast_math(instruction, LLVMFastMathAllowContract);
        }
    });
}

/// Whether sums may be fused with products that come to stand beside them: what is inlined and unrolled decides which do.
pub(super) fn is_open(module: View) -> bool {
    let instructions = module.defined_functions().into_iter().flat_map(|function| function.instructions());
    let sums = |opcode| matches!(opcode, LLVMOpcode::LLVMFAdd | LLVMOpcode::LLVMFSub);
    instructions.filter(|inst| sums(inst.opcode())).any(|sum| {
        let flags = sum.fast_math();
        flags & LLVMFastMathAllowContract != 0 && flags & LLVMFastMathAllowReassoc == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::testing;
    use crate::llvm::{Session, print_text};

    const CODE: &str = "define float @f(float %a, float %b, float %c) {
  %p = fmul float %a, %b
  %s = fadd float %p, %c
  ret float %s
}
";

    fn allowed(metadata: &str) -> String {
        let session = Session::new();
        let mut module = testing::module(&session, &format!("{CODE}{metadata}"));
        allow(&mut module);
        print_text(&module)
    }

    #[test]
    fn only_where_the_module_says_so() {
        assert!(allowed("").contains("fadd float"));
        let text = allowed("!opencl.enable.FP_CONTRACT = !{}");
        assert!(text.contains("fmul contract float") && text.contains("fadd contract float"), "{text}");
    }

    #[test]
    fn not_for_all_parts_of_a_joined_module() {
        let joined = "!opencl.enable.FP_CONTRACT = !{}\n!opencl.compiler.options = !{!0, !0}\n!0 = !{}";
        assert!(allowed(joined).contains("fadd float"));
    }
}
