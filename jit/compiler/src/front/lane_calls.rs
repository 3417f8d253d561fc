//! Clean-up: which functions stay calls although they could be inlined. Packs call them in lanes, and where a large function is called so
//! often that its copies are most of a kernel, one of it is built sooner and is hardly slower. A call with a constant among its arguments
//! is inlined all the same: a sampler that is known makes most of an image access vanish.

use super::call_graph::CallGraph;
use super::cleanup::Effort;
use super::inlining::{Sizes, bound_to_kernels};
use super::postponed::{self, INLINE, SHARE, resume};
use crate::llvm::attribute::Attribute;
use crate::llvm::{self, Call, Edit, Function, LlvmError, Module, Type};
use inkwell::targets::TargetMachine;
use std::collections::{HashMap, HashSet};

/// Smaller functions, by instructions with all that they call, are inlined.
const LEAST_SIZE: usize = 800;

/// Up to so many instructions copies are made in one kernel, or function that stays a call itself, beyond one of each function.
const MOST_COPIED: usize = 8_000;
/// The same of the program.
const MOST_COPIED_IN_ALL: usize = 24_000;

/// Keeps large functions from being inlined, in a module in which all is marked that is to be. Yields their names, for [`settle`].
pub(super) fn postpone(module: &mut Module, effort: Effort) -> Vec<String> {
    match effort {
        Effort::Full | Effort::Quick => module.edit(|edit| postponed::postpone(edit, candidates(edit))),
        Effort::Least | Effort::Checked(_) => Vec::new(),
    }
}

/// Decides which of them stay calls, and where.
pub(super) fn settle(
    module: &mut Module,
    machine: &TargetMachine,
    postponed: &[String],
) -> Result<(), LlvmError> {
    if postponed.is_empty() {
        return Ok(());
    }
    // The program's own functions hand constants on.
    llvm::run_passes(module, INLINE, machine)?;
    llvm::run_passes(module, SHARE, machine)?;
    if module.edit(|edit| inline_where_known(edit, postponed)) {
        llvm::run_passes(module, INLINE, machine)?;
        llvm::run_passes(module, SHARE, machine)?;
    }
    let inlined = module.edit(|edit| decide(edit, postponed));
    resume(module, &inlined);
    Ok(())
}

/// The functions of which copies may be too much: those that are given values, and no pointers to what only memory can be for them.
fn candidates<'e>(edit: Edit<'e>) -> Vec<Function<'e>> {
    let mut sizes = Sizes::default();
    let functions = edit.defined_functions();
    let copied: usize = functions.iter().map(|&f| sizes.of(f)).fold(0, usize::saturating_add);
    if copied <= MOST_COPIED {
        return Vec::new();
    }
    let bound = bound_to_kernels(*edit, &CallGraph::new(*edit));
    let functions = functions.into_iter().filter(|function| function.has_attribute("alwaysinline"));
    let shared = functions.filter(|function| !bound.contains(function));
    shared.filter(|function| may_stay(*function, &mut sizes)).collect()
}

/// Whether calls of a function are kept if they are many.
pub(super) fn may_stay<'m>(function: Function<'m>, sizes: &mut Sizes<'m>) -> bool {
    let is_shared = |ty: &Type| !ty.is_pointer() || matches!(ty.address_space(), 1 | 2);
    function.value_type().parameter_types().iter().all(is_shared) && sizes.of(function) >= LEAST_SIZE
}

/// Who makes calls that may stay, and what inlining them takes, in instructions.
struct Caller<'m> {
    name: String,
    calls: Vec<Call<'m>>,
    /// What each of the calls calls.
    callees: Vec<Function<'m>>,
    /// Of all copies.
    copies: usize,
    /// Of one copy of each function.
    once: usize,
}

/// Marks the calls with constants to be inlined, and says whether there are such.
fn inline_where_known(edit: Edit, postponed: &[String]) -> bool {
    let functions = postponed.iter().filter_map(|name| edit.function_named(name));
    let calls = functions.flat_map(calls_of).filter(|call| call.arguments().iter().any(|a| a.is_constant()));
    calls.map(|call| edit.add_attributes(call, &[Attribute::AlwaysInline])).count() > 0
}

fn calls_of(function: Function<'_>) -> Vec<Call<'_>> {
    let calls = function.users().into_iter().filter_map(|user| user.as_call());
    calls.filter(|call| call.called_function() == Some(function)).collect()
}

/// Marks calls to be inlined, and yields the functions of which all are.
fn decide<'e>(edit: Edit<'e>, postponed: &[String]) -> Vec<String> {
    let functions: Vec<Function> = postponed.iter().filter_map(|name| edit.function_named(name)).collect();
    let mut sizes = Sizes::default();
    let (mut inlined, mut left) = (Vec::new(), HashSet::new());
    let mut calls: HashMap<Function, Vec<Call>> = HashMap::new();
    for call in functions.iter().copied().flat_map(calls_of) {
        calls.entry(call.parent_function()).or_default().push(call);
    }
    let callers = calls.into_iter().map(|(caller, calls)| {
        let callees: Vec<Function> = calls.iter().filter_map(|call| call.called_function()).collect();
        let once: HashSet<Function> = callees.iter().copied().collect();
        let mut size = |callees: &mut dyn Iterator<Item = Function<'e>>| {
            callees.map(|callee| sizes.of(callee)).fold(0, usize::saturating_add)
        };
        let copies = size(&mut callees.iter().copied());
        Caller { name: caller.name(), copies, once: size(&mut once.iter().copied()), calls, callees }
    });
    let mut callers: Vec<Caller> = callers.collect();
    // By name where they are equal: what is made of a program is always the same.
    callers.sort_by(|a, b| (a.copies, &a.name).cmp(&(b.copies, &b.name)));
    let mut all = 0_usize;
    for Caller { copies, once, calls, callees, .. } in callers {
        all = all.saturating_add(copies);
        if copies - once <= MOST_COPIED && all <= MOST_COPIED_IN_ALL {
            inlined.extend(calls);
        } else {
            left.extend(callees);
        }
    }
    // The others' are inlined by their own mark.
    let mixed = inlined.into_iter().filter(|call| call.called_function().is_some_and(|f| left.contains(&f)));
    mixed.for_each(|call| edit.add_attributes(call, &[Attribute::AlwaysInline]));
    functions.iter().filter(|function| !left.contains(function)).map(|function| function.name()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::cleanup::tests::cleaned_by;

    /// The calls that are left of a kernel that calls a function of some 900 instructions so many times, by a function of its
    /// own, which hands a constant on if it's told to.
    fn left(times: usize, argument: &str, effort: Effort) -> usize {
        let work: String = (0..900)
            .map(|i| format!("%v{} = call float @llvm.fma.f32(float %v{i}, float %x, float %v{i})\n ", i + 1))
            .collect();
        let calls: String = (0..times)
            .map(|i| {
                format!(
                    "%p{i} = getelementptr float, ptr addrspace(1) %p, i64 {i}\n %a{i} = load float, ptr addrspace(1) %p{i}
                     %r{i} = call float @own(float %a{i}, i1 %c)\n store float %r{i}, ptr addrspace(1) %p{i}\n "
                )
            })
            .collect();
        let text = format!(
            "declare float @llvm.fma.f32(float, float, float)
            define internal float @large(float %x, i1 %c) {{\n br i1 %c, label %l, label %s\nl:
             %v0 = fadd float %x, 1.0\n {work} ret float %v900\ns:\n ret float %x\n}}
            define internal float @own(float %x, i1 %c) {{\n %r = call float @large(float %x, i1 {argument})\n ret float %r\n}}
            define void @spirula.kernel.k(ptr addrspace(1) %p, i1 %c) {{\n {calls} ret void\n}}"
        );
        let clean = cleaned_by(&text, effort).0;
        ["large", "own"].iter().map(|name| clean.matches(&format!("= call float @{name}(")).count()).sum()
    }

    #[test]
    fn what_is_called_often_stays_a_call() {
        assert_eq!(left(8, "%c", Effort::Full), 0);
        assert_eq!(left(30, "%c", Effort::Full), 30);
        assert_eq!(left(30, "%c", Effort::Quick), 30);
        // Code without optimization is not decided about here.
        assert_eq!(left(30, "%c", Effort::Least), 0);
    }

    #[test]
    fn what_constants_make_small_is_inlined() {
        assert_eq!(left(60, "false", Effort::Full), 0);
        assert_eq!(left(60, "true", Effort::Full), 60);
    }
}
