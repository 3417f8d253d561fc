//! Clean-up: which functions are inlined. Packs call what isn't in lanes, but what is known where it is called is lost, and variables whose
//! address is handed on stay in memory. So all that a kernel calls is inlined, as long as that gives code of a size which
//! is compiled in reasonable time (`lane_calls` may still keep some from it); where it doesn't, what isn't large is.

use super::call_graph::CallGraph;
use super::cleanup::{Effort, is_of_values};
use super::frames::Frames;
use super::harden::kernel_symbol;
use super::import::only_computes;
use super::{lane_calls, loop_calls};
use crate::llvm::attribute::Attribute;
use crate::llvm::{self, Edit, Function, Instruction, LlvmError, Module, View};
use inkwell::targets::TargetMachine;
use spirula_interface::check::Checks;
use spirula_interface::program::KernelSignature;
use std::collections::{HashMap, HashSet};

/// What makes functions as small as they are in the end, before they are copied and their size is asked for: code without
/// optimization is mostly loads and stores of variables.
const SHRINK: &str = "function(sroa<modify-cfg>,early-cse,simplifycfg)";

/// The number of instructions of a function with all that it calls, up to which it is inlined into any kernel.
const MAX_INLINED_SIZE: usize = 2_000;
/// The same, summed over all calls of the function.
const MAX_COPIED_SIZE: usize = 30_000;
/// The number of instructions of a kernel with all that it calls, up to which everything is inlined into it.
const MAX_KERNEL_SIZE: usize = 60_000;
/// The same, summed over the program's kernels, the smallest first.
const MAX_PROGRAM_SIZE: usize = 150_000;
/// Programs of so many are inlined as little as it goes: their kernels are scalar code anyhow. Those limits are a tenth then, and what takes
/// more of the stack than others may stays a call as well.
const HUGE_PROGRAM_SIZE: usize = 10 * MAX_PROGRAM_SIZE;
const SMALLER: usize = 10;

/// Marks what is to be inlined, and what never is. Yields for each kernel the instructions that are not there only because it's to be
/// done quickly.
pub(super) fn mark(
    module: &mut Module,
    kernels: &[KernelSignature],
    machine: &TargetMachine,
    effort: Effort,
) -> Result<Vec<u64>, LlvmError> {
    let is_full = effort == Effort::Full;
    let mut left_out = vec![0; kernels.len()];
    if matches!(effort, Effort::Quick | Effort::Full) {
        module.edit(keep_library);
        let calls_of_large = calls_of_large_functions(module.view(), kernels);
        if !is_full {
            left_out = calls_of_large;
        } else if calls_of_large.iter().any(|&size| size > 0) {
            llvm::run_passes(module, SHRINK, machine)?;
        }
    }
    module.edit(|edit| {
        let graph = CallGraph::new(*edit);
        let mut sizes = Sizes::default();
        let bound = bound_to_kernels(*edit, &graph);
        let whole =
            if is_full { of_small_kernels(*edit, &graph, kernels, &mut sizes) } else { HashSet::new() };
        let all = kernels.iter().filter_map(|kernel| edit.function_named(&kernel_symbol(&kernel.name)));
        let size = all.map(|kernel| sizes.of(kernel)).fold(0_usize, usize::saturating_add);
        let is_huge = size > HUGE_PROGRAM_SIZE;
        let mut frames = Frames::new(edit.layout(), is_huge);
        for function in edit.defined_functions() {
            // Who the caller is, and what its pointers lead to, only the kernel knows.
            let checked = matches!(effort, Effort::Checked(_)) && !is_of_values(function);
            // What the library computes on its way may be infinite: only its results are looked at.
            let by_result = matches!(effort, Effort::Checked(checks) if checks.contains(Checks::NAN))
                && is_of_values(function);
            let mut inlined = |f| {
                bound.contains(&f) || !is_rare(f) && (whole.contains(&f) || is_small(f, &mut sizes, is_huge))
            };
            let must = checked || bound.contains(&function) || frames.are_too_large(function, &mut inlined);
            if must {
                edit.drop_attribute(function, "noinline");
                edit.drop_attribute(function, "optnone");
            }
            if must || !by_result && inlined(function) {
                edit.add_attributes(function, &[Attribute::AlwaysInline]);
            } else if is_huge && !function.name().starts_with(LIBRARY_PREFIX) {
                // Whatever its author wishes, who may have marked all that there is.
                edit.drop_attribute(function, "alwaysinline");
            }
        }
        if is_full {
            let large = kernels.iter().filter_map(|kernel| edit.function_named(&kernel_symbol(&kernel.name)));
            let large: Vec<Function> = large.filter(|kernel| !whole.contains(kernel)).collect();
            loop_calls::mark(edit, &graph, (&large, [MAX_KERNEL_SIZE, MAX_PROGRAM_SIZE]), &mut sizes);
        }
    });
    Ok(left_out)
}

/// Keeps all passes from the library's functions that are never inlined: they were simplified when the library was built.
fn keep_library(edit: Edit) {
    let functions = edit.defined_functions().into_iter();
    functions
        .filter(|function| is_finished(*function))
        .for_each(|f| edit.add_attributes(f, &[Attribute::NoInline, Attribute::OptimizeNone]));
}

/// Whether it is one of those.
fn is_finished(function: Function) -> bool {
    function.has_attribute("noinline") && function.name().starts_with(LIBRARY_PREFIX)
}

/// Whether a function is the builtin library's.
pub(super) fn is_library(function: Function) -> bool {
    let name = function.name();
    name.starts_with(LIBRARY_PREFIX) || name.starts_with("spirula_")
}

/// What Rust's names of the library's functions begin with.
const LIBRARY_PREFIX: &str = "_ZN16spirula_builtins";

/// Whether full effort inlines functions that are left out of quick code.
pub(super) fn leaves_out(module: View, kernels: &[KernelSignature]) -> bool {
    calls_of_large_functions(module, kernels).iter().any(|&size| size > 0)
}

/// For each kernel the instructions of those functions whose size decides what becomes of them, once for each call of what it reaches that may
/// be inlined.
fn calls_of_large_functions(module: View, kernels: &[KernelSignature]) -> Vec<u64> {
    let mut sizes = Sizes::default();
    let functions = module.defined_functions().into_iter().filter(|function| !is_rare(*function));
    let large = functions.filter(|function| !is_small(*function, &mut sizes, false)).collect::<Vec<_>>();
    let large: Vec<(usize, bool, Vec<Function>)> =
        large.into_iter().map(|f| (sizes.of(f), lane_calls::may_stay(f, &mut sizes), callers(f))).collect();
    if large.is_empty() {
        return vec![0; kernels.len()];
    }
    let graph = CallGraph::new(module);
    let of_kernel = |kernel: &KernelSignature| {
        let reached = graph.reached(module.function_named(&kernel_symbol(&kernel.name)));
        let copied = large.iter().map(|(size, may_stay, callers)| {
            let calls = callers.iter().filter(|caller| reached.contains(caller)).count();
            size.saturating_mul(if *may_stay { calls.min(1) } else { calls })
        });
        copied.fold(0_usize, usize::saturating_add) as u64
    };
    kernels.iter().map(of_kernel).collect()
}

/// The functions that a function is used in, one entry for each use.
fn callers<'m>(function: Function<'m>) -> Vec<Function<'m>> {
    let users = function.users().into_iter().filter_map(|user| user.as_instruction());
    users.map(Instruction::parent_function).collect()
}

/// The functions of those kernels into which everything is inlined, without the ones that other kernels call as well.
fn of_small_kernels<'m>(
    module: View<'m>,
    graph: &CallGraph<'m>,
    kernels: &[KernelSignature],
    sizes: &mut Sizes<'m>,
) -> HashSet<Function<'m>> {
    let functions = kernels.iter().filter_map(|kernel| module.function_named(&kernel_symbol(&kernel.name)));
    let mut kernels: Vec<(usize, Function)> = functions.map(|kernel| (sizes.of(kernel), kernel)).collect();
    kernels.sort_by_key(|(size, _)| *size);
    let mut sum = 0_usize;
    let small = kernels.partition_point(|(size, _)| *size <= MAX_KERNEL_SIZE);
    let fit = kernels[..small].iter().take_while(|(size, _)| {
        sum = sum.saturating_add(*size);
        sum <= MAX_PROGRAM_SIZE
    });
    let (small, large) = kernels.split_at(fit.count());
    let reached =
        |kernels: &[(usize, Function<'m>)]| graph.reached(kernels.iter().map(|(_, kernel)| *kernel));
    &reached(small) - &reached(large)
}

/// Functions that work only as a part of their kernel: they ask for a work-item's place, synchronize, or name local
/// memory, which each kernel lays out for itself.
pub(super) fn bound_to_kernels<'m>(module: View<'m>, graph: &CallGraph<'m>) -> HashSet<Function<'m>> {
    let primitives = module.functions().into_iter().filter(|function| {
        let name = function.name();
        function.is_declaration() && name.starts_with("spirula.") && !only_computes(&name)
    });
    let local = module.globals().into_iter().filter(|global| global.ty().address_space() == 3);
    graph.reaching(primitives.chain(local.flat_map(|global| global.using_functions())))
}

/// Whether a function is to stay a call, by what its author says.
pub(super) fn is_rare(function: Function) -> bool {
    ["noinline", "cold", "optnone"].iter().any(|name| function.has_attribute(name))
}

fn is_small<'m>(function: Function<'m>, sizes: &mut Sizes<'m>, is_huge: bool) -> bool {
    let size = sizes.of(function).saturating_mul(if is_huge { SMALLER } else { 1 });
    size <= MAX_INLINED_SIZE && size.saturating_mul(function.users().len()) <= MAX_COPIED_SIZE
}

/// Functions' sizes as if everything were inlined but what the library never inlines.
#[derive(Default)]
pub(super) struct Sizes<'m>(HashMap<Function<'m>, usize>);

impl<'m> Sizes<'m> {
    /// In instructions.
    pub fn of(&mut self, function: Function<'m>) -> usize {
        if let Some(&known) = self.0.get(&function) {
            return known;
        }
        self.0.insert(function, 0); // In a cycle, which only the library could have.
        let instructions = function.instructions();
        let callees = instructions.iter().filter_map(|call| call.called_function());
        let callees: Vec<_> = callees.filter(|callee| !is_finished(*callee)).collect();
        let inner = callees.into_iter().fold(0_usize, |sum, callee| sum.saturating_add(self.of(callee)));
        let size = instructions.len().saturating_add(inner);
        self.0.insert(function, size);
        size
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::front::testing;
    use crate::llvm::Session;

    /// What `of` finds in a module whose calls are marked, with these kernels.
    pub(in crate::front) fn marked<R>(
        text: &str,
        kernels: &[&str],
        effort: Effort,
        of: impl FnOnce(&mut Module, &TargetMachine) -> R,
    ) -> R {
        marked_and_left_out(text, kernels, effort, of).0
    }

    /// The same, and what [`mark`] yields.
    fn marked_and_left_out<R>(
        text: &str,
        kernels: &[&str],
        effort: Effort,
        of: impl FnOnce(&mut Module, &TargetMachine) -> R,
    ) -> (R, Vec<u64>) {
        let session = Session::new();
        let machine = llvm::machine(&llvm::host(), true).unwrap();
        let mut module = testing::module(&session, text);
        llvm::set_target(&mut module, &machine, Default::default());
        let named =
            kernels.iter().map(|name| format!("define spir_kernel void @{name}() {{\n ret void\n}}\n"));
        let named = testing::module(&session, &named.collect::<String>());
        let kernels = crate::front::metadata::kernels(&named).unwrap();
        let left_out = mark(&mut module, &kernels, &machine, effort).unwrap();
        (of(&mut module, &machine), left_out)
    }

    #[test]
    fn each_kernel_leaves_its_own_calls_out() {
        let loads: String = (0..2_100).map(|i| format!("%l{i} = load volatile i32, ptr %p\n ")).collect();
        let text = format!(
            "define internal void @large(ptr %p) {{\n {loads}ret void\n}}
            define internal void @between(ptr %p) {{\n call void @large(ptr %p)\n ret void\n}}
            define void @spirula.kernel.a(ptr %p) {{\n call void @large(ptr %p)\n call void @between(ptr %p)\n ret void\n}}
            define void @spirula.kernel.b(ptr %p) {{\n call void @between(ptr %p)\n ret void\n}}
            define void @spirula.kernel.c(ptr %p) {{\n ret void\n}}"
        );
        let (_, left_out) = marked_and_left_out(&text, &["a", "b", "c"], Effort::Quick, |_, _| ());
        assert!(left_out[0] > left_out[1] && left_out[1] > 2_000 && left_out[2] == 0, "{left_out:?}");
        let (_, left_out) = marked_and_left_out(&text, &["a", "b", "c"], Effort::Full, |_, _| ());
        assert_eq!(left_out, [0; 3]);
    }

    /// Whether a function is to stay a call.
    fn is_kept(module: &Module, name: &str) -> bool {
        !module.view().function_named(name).unwrap().has_attribute("alwaysinline")
    }

    /// The names of the functions that kernels still call, if each of the kernels calls `f` so many times, and `f` and `g` have
    /// these many loads, of which `f` calls the second. What has no loads is not there.
    fn called(kernels: &[usize], [f, g]: [usize; 2]) -> Vec<&'static str> {
        let function = |name: &str, loads: usize, rest: &str| {
            let loads: String =
                (0..loads).map(|i| format!("%l{i} = load volatile i32, ptr null\n ")).collect();
            format!("define internal i32 @{name}(i32 %x) {{\n {loads}{rest} ret i32 %x\n}}\n")
        };
        let call_g = if g > 0 { "%y = call i32 @g(i32 %x)\n" } else { "" };
        let mut text = function("f", f, call_g);
        if g > 0 {
            text += &function("g", g, "");
        }
        for (number, calls) in kernels.iter().enumerate() {
            let calls: String = (0..*calls).map(|i| format!("%c{i} = call i32 @f(i32 %x)\n ")).collect();
            text += &format!("define void @spirula.kernel.k{number}(i32 %x) {{\n {calls}ret void\n}}\n");
        }
        let names: Vec<String> = (0..kernels.len()).map(|n| format!("k{n}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        marked(&text, &names, Effort::Full, |module, machine| {
            llvm::run_passes(module, "always-inline,globaldce", machine).unwrap();
            ["f", "g"].into_iter().filter(|name| module.view().function_named(name).is_some()).collect()
        })
    }

    #[test]
    fn all_that_a_kernel_calls_is_inlined_up_to_a_size() {
        assert!(called(&[1, 2], [100, 0]).is_empty());
        assert!(called(&[1, 2], [5_000, 3_000]).is_empty());
        assert_eq!(called(&[2], [31_000, 0]), ["f"]);
        // What is small is inlined into what is large.
        assert_eq!(called(&[2], [31_000, 100]), ["f"]);
    }

    #[test]
    fn what_a_large_kernel_calls_stays_a_call_in_small_ones() {
        assert_eq!(called(&[1, 13], [5_000, 0]), ["f"]);
    }

    #[test]
    fn all_kernels_together_have_a_limit() {
        assert!(called(&[1; 3], [30_000, 0]).is_empty());
        assert_eq!(called(&[1; 5], [30_000, 0]), ["f"]);
    }

    /// Of a program as large as that of a path tracer little is inlined, whatever its author wishes: neither what has variables in memory,
    /// unless the calls that wait for each other have much of it, nor what would be small elsewhere.
    #[test]
    fn huge_programs_keep_their_calls() {
        let kept = |bytes: u32, kernel_calls: usize| {
            let loads: String =
                (0..1_000).map(|i| format!("%l{i} = load volatile i32, ptr null\n ")).collect();
            let array = format!(
                "%v = alloca [{bytes} x i8]\n %p = getelementptr i8, ptr %v, i32 %x\n store volatile i8 1, ptr %p\n "
            );
            let text = format!(
                "define internal i32 @g(i32 %x) alwaysinline {{\n {array} {loads} ret i32 %x\n}}
                define internal i32 @f(i32 %x) alwaysinline {{\n {array} {loads} %y = call i32 @g(i32 %x)\n ret i32 %y\n}}
                define void @spirula.kernel.k(i32 %x) {{\n {} ret void\n}}",
                "call i32 @f(i32 %x)\n ".repeat(kernel_calls)
            );
            marked(&text, &["k"], Effort::Quick, |module, _| ["f", "g"].map(|name| is_kept(module, name)))
        };
        let huge = HUGE_PROGRAM_SIZE / 2_000 + 1;
        assert_eq!(kept(2_000, 1), [false, false]);
        assert_eq!(kept(2_000, huge), [true, true]);
        assert_eq!(kept(20_000, huge), [false, true], "the two together are too much for a stack");
        assert_eq!(kept(40_000, huge), [false, false]);
    }

    /// What is called stays a call where its own variables take no room, or little.
    #[test]
    fn frames_are_of_what_stays_in_memory() {
        let called = |variables: &str| {
            let loads: String =
                (0..2_100).map(|i| format!("%l{i} = load volatile i32, ptr null\n ")).collect();
            let text = format!(
                "define internal i32 @f(i32 %x) {{\n {variables} {loads} ret i32 %x\n}}
                define void @spirula.kernel.k(i32 %x) {{\n %a = call i32 @f(i32 %x)\n ret void\n}}"
            );
            marked(&text, &[], Effort::Quick, |module, _| is_kept(module, "f"))
        };
        let scalars: String = (0..400)
            .map(|i| {
                format!("%v{i} = alloca i64\n store i64 {i}, ptr %v{i}\n %r{i} = load i64, ptr %v{i}\n ")
            })
            .collect();
        assert!(called(&scalars));
        assert!(!called(
            "%v = alloca [400 x i64]\n %p = getelementptr i64, ptr %v, i32 %x\n store i64 1, ptr %p\n"
        ));
        assert!(!called(&scalars.replace(" = load i64", " = load volatile i64")));
    }

    #[test]
    fn variables_of_unoptimized_code_do_not_count() {
        let store = "store i32 %x, ptr %v\n ";
        let f = format!(
            "define internal void @f(i32 %x) {{\n %v = alloca i32\n {}ret void\n}}\n",
            store.repeat(3_000)
        );
        let kernel = format!(
            "define void @spirula.kernel.k(i32 %x) {{\n {}ret void\n}}\n",
            "call void @f(i32 %x)\n ".repeat(20)
        );
        let is_kept = marked(&format!("{f}{kernel}"), &["k"], Effort::Full, |module, _| is_kept(module, "f"));
        assert!(!is_kept);
    }
}
