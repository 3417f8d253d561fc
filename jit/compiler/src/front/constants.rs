//! Clean-up: whether builtins' arguments are constants of the program, which some ask (`builtin::emit`), is answered: by then
//! the program's functions are inlined, so that what they hand on is known.

use crate::llvm::{self, LlvmError, Module};
use inkwell::targets::TargetMachine;

/// Answers, and drops the calls that nobody wants then.
const ANSWER: &str = "function(lower-constant-intrinsics,dce)";

/// Whether anything asks.
pub(super) fn are_asked_for(module: &Module) -> bool {
    module
        .view()
        .functions()
        .into_iter()
        .any(|function| function.name().starts_with("llvm.is.constant.") && !function.users().is_empty())
}

/// Answers all that ask: no value that isn't a constant by now will be one.
pub(super) fn answer(module: &mut Module, machine: &TargetMachine) -> Result<(), LlvmError> {
    if are_asked_for(module) { llvm::run_passes(module, ANSWER, machine) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use crate::front::cleanup::tests::cleaned;

    /// A kernel whose library function takes a number or, through a function of its own, another one.
    fn kernel(exponent: &str) -> String {
        format!(
            "declare i1 @llvm.is.constant.f32(float)
            define internal float @spirula_known_pow_f32(float %x, float %y) noinline memory(none) nounwind willreturn {{\n %r = fmul float %x, %y\n ret float %r\n}}
            define internal float @spirula_pow_f32(float %x, float %y) noinline memory(none) nounwind willreturn {{\n %r = fdiv float %x, %y\n ret float %r\n}}
            define internal float @_Z3powff(float %x, float %y) alwaysinline {{
             %c = call i1 @llvm.is.constant.f32(float %y)
             %k = call float @spirula_known_pow_f32(float %x, float %y) memory(none) nounwind willreturn
             %a = call float @spirula_pow_f32(float %x, float %y) memory(none) nounwind willreturn
             %r = select i1 %c, float %k, float %a\n ret float %r\n}}
            define internal float @own(float %x, float %y) {{\n %v = alloca float\n store float %y, ptr %v\n %w = load float, ptr %v
             %r = call float @_Z3powff(float %x, float %w)\n ret float %r\n}}
            define void @spirula.kernel.k(ptr addrspace(1) %p, float %x, float %y) {{
             %a = call float @own(float %x, float {exponent})\n store float %a, ptr addrspace(1) %p\n ret void\n}}"
        )
    }

    #[test]
    fn constants_are_known_through_functions_and_variables() {
        let calls = |exponent, optimize| {
            let text = cleaned(&kernel(exponent), optimize);
            let kernel = text.split("@spirula.kernel.k").nth(1).unwrap().to_owned();
            ["@spirula_known_pow_f32", "@spirula_pow_f32"].map(|name| kernel.contains(name))
        };
        assert_eq!(calls("2.0", true), [true, false]);
        assert_eq!(calls("%y", true), [false, true]);
        assert_eq!(calls("%y", false), [false, true]);
    }
}
