//! Clean-up: LLVM inlines, promotes memory to values and simplifies, so that Kernel IR gets plain code. Loops are left
//! alone, but for those over private arrays (`private_arrays`) and over a few neighbours (`short_loops`): what a work-item's loop
//! becomes is decided over Kernel IR.

use super::call_graph::CallGraph;
use super::harden::kernel_symbol;
use super::image_formats::KnownFormats;
use super::inlining::{self, bound_to_kernels};
use super::{
    CleanModule, LinkedModule, constants, contraction, index_products, lane_calls, memory_copies, pairs,
    postponed, private_arrays, short_loops, undefined,
};
use crate::llvm::{self, Function, LlvmError, Module};
use inkwell::targets::TargetMachine;
use spirula_interface::check::Checks;
use spirula_interface::options::CompileError;
use spirula_interface::program::KernelSignature;
use std::collections::HashSet;

/// In order: what must be inlined, before anything looks at calls; private memory to values, so that the inliner sees
/// true sizes; the inliner by cost.
const PASSES: [&str; 2] = [
    "always-inline,globaldce,function(sroa<modify-cfg>,early-cse,simplifycfg)",
    "function(instcombine<no-verify-fixpoint>),cgscc(inline,function-attrs),globaldce,\
        function(sroa<modify-cfg>,early-cse<memssa>,simplifycfg)",
];

/// Then values to a fixed point of sorts.
const LAST_PASSES: &str = "function(instcombine<no-verify-fixpoint>,\
    sroa<modify-cfg>,early-cse<memssa>,simplifycfg,instcombine<no-verify-fixpoint>,adce,simplifycfg),\
    globaldce";

/// What comes before loops over private arrays are unrolled.
const FIRST_PASSES: [&str; 2] = [PASSES[0], "function(instcombine<no-verify-fixpoint>)"];

/// The passes of `-cl-opt-disable`: only what Kernel IR needs.
const FEWEST_PASSES: &str = "always-inline,globaldce,function(sroa<modify-cfg>)";

/// The passes of kernels that are checked: what they do wrong has to be left in them, so that nothing may run that goes by what is
/// undefined. Only variables whose address nobody takes become values.
const CHECKED_PASSES: [&str; 2] = ["always-inline,globaldce", "function(mem2reg)"];

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Effort {
    /// All that pays.
    Full,
    /// What baseline code needs: large functions stay calls, and long loops over private arrays loops. What would round otherwise
    /// by that, or compute otherwise, has full effort.
    Quick,
    /// What Kernel IR needs.
    Least,
    /// What kernels may have in which mistakes are looked for.
    Checked(Checks),
}

/// Simplifies a linked module, for launches of a kernel with images of these formats, if they are known. Errors: `Failed` if a function that must be inlined couldn't be.
pub fn clean_up<'s>(
    linked: LinkedModule<'s>,
    machine: &TargetMachine,
    wanted: Effort,
    formats: Option<&KnownFormats>,
) -> Result<CleanModule<'s>, CompileError> {
    let LinkedModule { mut module, kernels, checks } = linked;
    let effort = match wanted {
        _ if checks.any() => Effort::Checked(checks),
        Effort::Quick if contraction::is_open(module.view()) || asks_what_is_inlined(&module, &kernels) => {
            Effort::Full
        }
        wanted => wanted,
    };
    let left_out = simplify(&mut module, (&kernels, formats), machine, effort).map_err(|error| {
        CompileError::Failed(format!("error: LLVM can't simplify the program: {error}\n"))
    })?;
    all_inlined(&module, &kernels)?;
    Ok(CleanModule { module, kernels, checks, left_out })
}

/// Whether the answer to what functions ask of where they are called may depend on whether large ones are inlined: code of each effort is to
/// compute the same.
fn asks_what_is_inlined(module: &Module, kernels: &[KernelSignature]) -> bool {
    (constants::are_asked_for(module) || pairs::are_asked_for(module))
        && inlining::leaves_out(module.view(), kernels)
}

/// Yields for each kernel the instructions that full effort would add, about; none for any if it would yield the same.
fn simplify(
    module: &mut Module,
    (kernels, formats): (&[KernelSignature], Option<&KnownFormats>),
    machine: &TargetMachine,
    effort: Effort,
) -> Result<Vec<u64>, LlvmError> {
    let nothing = vec![0; kernels.len()];
    let mut left_out = inlining::mark(module, kernels, machine, effort)?;
    match effort {
        Effort::Checked(checks) => {
            constants::answer(module, machine)?;
            module.edit(pairs::answer);
            llvm::run_passes(module, CHECKED_PASSES[0], machine)?;
            if checks.contains(Checks::UNINITIALIZED) {
                module.edit(undefined::mark);
            }
            return llvm::run_passes(module, CHECKED_PASSES[1], machine).map(|()| nothing);
        }
        Effort::Least => {
            constants::answer(module, machine)?;
            module.edit(pairs::answer);
            return llvm::run_passes(module, FEWEST_PASSES, machine).map(|()| nothing);
        }
        Effort::Quick | Effort::Full => {}
    }
    let tell = |module: &mut Module| formats.iter().for_each(|formats| formats.tell(module, kernels));
    let large = lane_calls::postpone(module, effort);
    postponed::share_calls(module, machine)?;
    lane_calls::settle(module, machine, &large)?;
    if private_arrays::has_arrays(module.view()) {
        let postponed = module
            .edit(|edit| private_arrays::postpone(edit, &bound_to_kernels(*edit, &CallGraph::new(*edit))));
        run_stages(module, &FIRST_PASSES, machine)?;
        tell(module);
        let loops = private_arrays::unroll(module, kernels, machine, effort == Effort::Quick)?;
        std::iter::zip(&mut left_out, loops).for_each(|(sum, size)| *sum += size);
        postponed::resume(module, &postponed);
    }
    run_stages(module, &PASSES, machine)?;
    tell(module);
    memory_copies::forward(module, machine)?;
    module.edit(index_products::widen);
    llvm::run_passes(module, LAST_PASSES, machine)?;
    short_loops::unroll(module, machine)?;
    Ok(left_out)
}

/// Runs passes in stages. All but the first begin with InstCombine, from which what is promised of indices is kept before.
pub(super) fn run_stages(
    module: &mut Module,
    stages: &[&str],
    machine: &TargetMachine,
) -> Result<(), LlvmError> {
    for (number, stage) in stages.iter().enumerate() {
        if number > 0 {
            module.edit(index_products::widen);
        }
        llvm::run_passes(module, stage, machine)?;
    }
    Ok(())
}

/// Whether it is one of the library's functions that are given no pointers.
pub(super) fn is_of_values(function: Function) -> bool {
    let ty = function.value_type();
    function.name().starts_with("spirula_") && ty.parameter_types().iter().all(|ty| !ty.is_pointer())
}

fn all_inlined(module: &Module, kernels: &[KernelSignature]) -> Result<(), CompileError> {
    let own: HashSet<String> = kernels.iter().map(|kernel| kernel_symbol(&kernel.name)).collect();
    let view = module.view();
    let left: Vec<String> = bound_to_kernels(view, &CallGraph::new(view))
        .into_iter()
        .filter(|function| !function.is_declaration())
        .map(|function| function.name())
        .filter(|name| !own.contains(name))
        .map(|name| format!("error: the function `{name}` can't be inlined, but uses work-item functions\n"))
        .collect();
    if left.is_empty() { Ok(()) } else { Err(CompileError::Failed(left.concat())) }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::front::testing;
    use crate::llvm::Session;

    pub(in crate::front) fn cleaned(text: &str, optimize: bool) -> String {
        let (text, left_out) = cleaned_by(text, if optimize { Effort::Full } else { Effort::Least });
        assert_eq!(left_out, 0);
        text
    }

    /// What becomes of a module, and the instructions that full effort would add.
    pub(in crate::front) fn cleaned_by(text: &str, effort: Effort) -> (String, u64) {
        let session = Session::new();
        let machine = llvm::machine(&llvm::host(), true).unwrap();
        let mut module = testing::module(&session, text);
        llvm::set_target(&mut module, &machine, Default::default());
        let named = testing::module(&session, "define spir_kernel void @k() {\n ret void\n}");
        let kernel = crate::front::metadata::kernels(&named).unwrap().remove(0);
        let clean = clean_up(
            LinkedModule { module, kernels: vec![kernel], checks: Checks::NONE },
            &machine,
            effort,
            None,
        )
        .unwrap();
        llvm::verify(&clean.module).unwrap_or_else(|e| panic!("{e}"));
        (llvm::print_text(&clean.module), clean.left_out.iter().sum())
    }

    /// A kernel that reaches a barrier and local memory by two functions, one of them `noinline`.
    const NESTED: &str = "declare void @spirula.barrier(i32) convergent
        @l = internal addrspace(3) global i32 undef
        define internal void @sync() noinline {\n call void @spirula.barrier(i32 1)\n ret void\n}
        define internal void @put(i32 %x) noinline {\n store i32 %x, ptr addrspace(3) @l\n call void @sync()\n ret void\n}
        define internal i32 @far(i32 %x) noinline {\n %y = mul i32 %x, %x\n ret i32 %y\n}
        define void @spirula.kernel.k(i32 %x) {\n %y = call i32 @far(i32 %x)\n call void @put(i32 %y)\n ret void\n}";

    #[test]
    fn what_is_bound_to_its_kernel_is_inlined() {
        for optimize in [true, false] {
            let text = cleaned(NESTED, optimize);
            assert!(!text.contains("@put") && !text.contains("@sync"), "{text}");
            assert!(text.contains("call i32 @far"), "a function that needn't be inlined may stay: {text}");
            let body = text.split("@spirula.kernel.k").nth(1).unwrap();
            assert!(body.contains("store i32") && body.contains("@spirula.barrier"), "{text}");
        }
    }

    #[test]
    fn what_only_computes_is_bound_to_no_kernel() {
        let text = NESTED
            .replace(
                "%y = mul i32 %x, %x",
                "%f = bitcast i32 %x to float\n %r = call float @spirula.reciprocal_root.f32(float %f)\n \
                %s = call float @spirula.scale.f32(float %r, float %f)\n %y = bitcast float %s to i32",
            )
            .replace(
                "declare void @spirula.barrier",
                "declare float @spirula.reciprocal_root.f32(float)\n\
                declare float @spirula.scale.f32(float, float)\ndeclare void @spirula.barrier",
            );
        assert!(cleaned(&text, true).contains("call i32 @far"));
    }

    #[test]
    fn large_functions_are_inlined_into_optimized_code_only() {
        let loads: String =
            (0..2_100).map(|i| format!("%l{i} = load volatile i32, ptr addrspace(1) %p\n ")).collect();
        let text = format!(
            "define internal i32 @large(ptr addrspace(1) %p, i32 %x) {{\n {loads}ret i32 %x\n}}
            define void @spirula.kernel.k(ptr addrspace(1) %p, i32 %x) {{
             %z = call i32 @large(ptr addrspace(1) %p, i32 %x)\n %y = call i32 @large(ptr addrspace(1) %p, i32 %z)\n store i32 %y, ptr addrspace(1) %p\n ret void\n}}"
        );
        for (effort, stays) in [(Effort::Quick, true), (Effort::Full, false)] {
            let (text, left_out) = cleaned_by(&text, effort);
            assert_eq!(
                (text.contains("define internal i32 @large"), left_out > 2_000),
                (stays, stays),
                "{effort:?}"
            );
        }
        assert_eq!(cleaned_by(NESTED, Effort::Quick).1, 0, "a source's wish is kept in both");
    }

    #[test]
    fn what_stays_a_call_in_the_library_is_as_it_was_built() {
        let text = |name: &str| {
            cleaned(
                &format!(
                    "define internal i32 @{name}(i32 %x) noinline {{\n %y = mul i32 %x, 1\n ret i32 %y\n}}
                    define void @spirula.kernel.k(ptr addrspace(1) %p, i32 %x) {{
                     %y = call i32 @{name}(i32 %x)\n store i32 %y, ptr addrspace(1) %p\n ret void\n}}"
                ),
                true,
            )
        };
        assert!(text("_ZN16spirula_builtins5image4rareE").contains("mul i32 %x, 1"));
        assert!(!text("own").contains("mul"));
    }

    #[test]
    fn memory_becomes_values_but_not_across_barriers() {
        let text = cleaned(
            "declare void @spirula.barrier(i32) convergent
             define void @spirula.kernel.k(ptr addrspace(3) %l, ptr addrspace(1) %p) {
               %s = alloca i32\n store i32 7, ptr %s\n store i32 1, ptr addrspace(3) %l\n call void @spirula.barrier(i32 1)
               %a = load i32, ptr addrspace(3) %l\n %b = load i32, ptr %s\n %c = add i32 %a, %b
               store i32 %c, ptr addrspace(1) %p\n ret void\n}",
            true,
        );
        assert!(!text.contains("alloca"), "{text}");
        assert!(
            text.contains("%a = load i32, ptr addrspace(3) %l") && text.contains("add i32 %a, 7"),
            "{text}"
        );
    }

    #[test]
    fn barriers_of_two_branches_stay_two() {
        let text = cleaned(
            "declare void @spirula.barrier(i32) convergent\ndefine void @spirula.kernel.k(ptr addrspace(3) %l, i1 %c) {
             br i1 %c, label %a, label %b\na:\n store i32 1, ptr addrspace(3) %l\n call void @spirula.barrier(i32 1)\n br label %e
             b:\n store i32 2, ptr addrspace(3) %l\n call void @spirula.barrier(i32 1)\n br label %e\ne:\n ret void\n}",
            true,
        );
        assert_eq!(text.matches("call void @spirula.barrier").count(), 2, "{text}");
    }

    #[test]
    fn loops_are_left_alone() {
        let text = cleaned(
            "define void @spirula.kernel.k(ptr addrspace(1) %p) {\n br label %h\nh:\n %i = phi i64 [ 0, %0 ], [ %j, %b ]
             %c = icmp ult i64 %i, 99\n br i1 %c, label %b, label %e\nb:\n %q = getelementptr i64, ptr addrspace(1) %p, i64 %i
             store i64 %i, ptr addrspace(1) %q\n %j = add i64 %i, 1\n br label %h\ne:\n ret void\n}",
            true,
        );
        assert_eq!(text.matches("store i64").count(), 1, "{text}");
        assert!(text.contains("phi i64"), "{text}");
    }
}
