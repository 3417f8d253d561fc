//! Clean-up: functions that are inlined only later, and what is gained by it. While they are calls, LLVM knows them for the same
//! if they compute the same ([`share_calls`]), and a loop with them for small (`private_arrays`).

use super::cleanup::is_of_values;
use super::{constants, element_calls, pairs};
use crate::llvm::attribute::Attribute;
use crate::llvm::{self, Edit, Function, LlvmError, Module};
use inkwell::targets::TargetMachine;

/// Inlines the program's own functions.
pub(super) const INLINE: &str = "always-inline,globaldce";
/// Finds calls that compute the same.
pub(super) const SHARE: &str = "function(sroa<modify-cfg>,early-cse)";

/// Keeps those of the functions that are to be inlined from it. Yields their names, for [`resume`].
pub(super) fn postpone<'e>(edit: Edit<'e>, functions: impl IntoIterator<Item = Function<'e>>) -> Vec<String> {
    let wanted = functions.into_iter().filter(|function| function.has_attribute("alwaysinline"));
    let postpone = |function: Function<'e>| {
        edit.drop_attribute(function, "alwaysinline");
        // LLVM unrolls no loop with a call that it may inline yet.
        edit.add_attributes(function, &[Attribute::NoInline]);
        function.name()
    };
    wanted.map(postpone).collect()
}

/// Has those functions inlined after all.
pub(super) fn resume(module: &mut Module, postponed: &[String]) {
    module.edit(|edit| {
        for function in postponed.iter().filter_map(|name| edit.function_named(name)) {
            edit.drop_attribute(function, "noinline");
            edit.add_attributes(function, &[Attribute::AlwaysInline]);
        }
    });
}

/// Calls of the library that compute the same become one. Once they are inlined nobody finds that any more: what is rare has a
/// branch of its own there, and values that are chosen behind two branches are two values.
pub(super) fn share_calls(module: &mut Module, machine: &TargetMachine) -> Result<(), LlvmError> {
    let postponed = module.edit(|edit| {
        let library = edit.defined_functions().into_iter().filter(|&function| is_of_values(function));
        postpone(edit, library)
    });
    let asks = constants::are_asked_for(module) || pairs::are_asked_for(module);
    if postponed.is_empty() && !asks {
        return Ok(());
    }
    llvm::run_passes(module, INLINE, machine)?;
    let view = module.view();
    let mut left = postponed.iter().filter_map(|name| view.function_named(name));
    if asks || left.any(|function| function.users().len() > 1) {
        llvm::run_passes(module, SHARE, machine)?;
        constants::answer(module, machine)?;
        module.edit(pairs::answer);
    }
    module.edit(element_calls::keep);
    resume(module, &postponed);
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::front::cleanup::tests::cleaned;

    /// A kernel that computes a function of the library three times, in functions of its own, twice of the same; with a store between,
    /// and there a branch that is too long to become a selection.
    fn kernel(attributes: &str) -> String {
        let long: String = (0..40)
            .map(|i| format!("%z{} = fdiv float %z{i}, %x\n %w{i} = fadd float %z{}, 1.0\n ", i + 1, i + 1))
            .collect();
        format!(
            "define linkonce_odr float @spirula_test_f32(float %x) {attributes} {{
             %c = fcmp olt float %x, 9.0\n br i1 %c, label %a, label %b\na:\n %y = fmul float %x, %x\n br label %e
             b:\n %z0 = fsub float 1.0, %x\n {long} br label %e\ne:\n %r = phi float [ %y, %a ], [ %z40, %b ]\n ret float %r\n}}
            define internal float @own(float %x) {{\n %v = alloca float\n store float %x, ptr %v\n %w = load float, ptr %v
             %r = call float @spirula_test_f32(float %w)\n ret float %r\n}}
            define void @spirula.kernel.k(ptr addrspace(1) %p, float %x, float %y) {{
             %a = call float @own(float %x)\n store float %a, ptr addrspace(1) %p
             %b = call float @own(float %y)\n %q = getelementptr float, ptr addrspace(1) %p, i64 1\n store float %b, ptr addrspace(1) %q
             %c = call float @own(float %x)\n %r = getelementptr float, ptr addrspace(1) %p, i64 2\n store float %c, ptr addrspace(1) %r
             ret void\n}}"
        )
    }

    /// How many branches the kernel has in the end.
    fn branches(attributes: &str) -> usize {
        let text = cleaned(&kernel(attributes), true);
        let kernel = text.split("@spirula.kernel.k").nth(1).unwrap();
        assert!(!kernel.contains("call"), "{text}");
        kernel.matches("br i1").count()
    }

    #[test]
    fn what_is_computed_twice_is_computed_once() {
        assert_eq!(branches("nounwind willreturn memory(none)"), 2);
        // That may read what is stored between.
        assert_eq!(branches("nounwind willreturn memory(read)"), 3);
    }
}
