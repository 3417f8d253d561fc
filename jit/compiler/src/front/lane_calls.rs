//! Clean-up: which functions stay calls although they could be inlined. Packs call them in lanes, and where a large function is called so
//! often that its copies are most of a kernel, one of it is built sooner and is hardly slower. A call with a constant among its arguments
//! is inlined all the same: a sampler that is known makes most of an image access vanish. Private arrays may be handed on by their address if
//! packs know how their elements lie for all lanes: numbers of some hundred bits are such arrays, and a kernel of a hundred products
//! of them inlined is too large for packs.

use super::call_graph::CallGraph;
use super::cleanup::Effort;
use super::inlining::{Sizes, bound_to_kernels, is_library};
use super::postponed::{self, INLINE, SHARE, resume};
use super::unrolled_sizes::UnrolledSizes;
use crate::llvm::attribute::Attribute;
use crate::llvm::{self, Call, Edit, Function, Layout, LlvmError, Module, Type, Value};
use inkwell::llvm_sys::LLVMOpcode;
use inkwell::targets::TargetMachine;
use std::collections::{HashMap, HashSet};

/// Smaller functions, by instructions with all that they call, are inlined.
const LEAST_SIZE: usize = 800;
/// The same of those that are given private arrays, before it's known which of their loops are unrolled.
const LEAST_ROLLED_SIZE: usize = 150;
/// Nor do they stay in programs of fewer instructions, with those of all that each function calls.
const LEAST_ROLLED: usize = 3_000;

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

/// The functions of which copies may be too much: those that are given values, and no pointers but to private arrays and to what all
/// work-items share.
fn candidates<'e>(edit: Edit<'e>) -> Vec<Function<'e>> {
    let mut sizes = Sizes::default();
    let functions = edit.defined_functions();
    let copied: usize = functions.iter().map(|&f| sizes.of(f)).fold(0, usize::saturating_add);
    if copied <= LEAST_ROLLED {
        return Vec::new();
    }
    let bound = bound_to_kernels(*edit, &CallGraph::new(*edit));
    let functions = functions.into_iter().filter(|function| function.has_attribute("alwaysinline"));
    let shared = functions.filter(|function| !bound.contains(function));
    let may_stay = |function: &Function<'e>| match is_given_private_memory(*function) {
        true => may_stay_rolled(*function, &mut sizes),
        false => copied > MOST_COPIED && may_stay(*function, &mut sizes),
    };
    shared.filter(may_stay).collect()
}

/// Whether calls of a function are kept if they are many.
pub(super) fn may_stay<'m>(function: Function<'m>, sizes: &mut Sizes<'m>) -> bool {
    let is_shared = |ty: &Type| !ty.is_pointer() || matches!(ty.address_space(), 1 | 2);
    function.value_type().parameter_types().iter().all(is_shared) && sizes.of(function) >= LEAST_SIZE
}

/// The same of one that is given private arrays. (The library's are taken for nothing but what they compute.)
fn may_stay_rolled<'m>(function: Function<'m>, sizes: &mut Sizes<'m>) -> bool {
    let may_be_passed = |ty: &Type| !ty.is_pointer() || matches!(ty.address_space(), 0..=2);
    let types = function.value_type().parameter_types();
    !is_library(function) && types.iter().all(may_be_passed) && sizes.of(function) >= LEAST_ROLLED_SIZE
}

fn is_given_private_memory(function: Function) -> bool {
    function.value_type().parameter_types().into_iter().any(is_private)
}

fn is_private(ty: Type) -> bool {
    ty.is_pointer() && ty.address_space() == 0
}

/// Whether all that a function does with the private memory that it is given is to access elements of one size.
fn accesses_elements<'m>(function: Function<'m>, layout: Layout<'m>) -> bool {
    function.parameters().into_iter().filter(|parameter| is_private(parameter.ty())).all(|parameter| {
        let mut sizes = HashSet::new();
        find_accesses(*parameter, layout, MOST_NESTED, &mut sizes).is_some() && sizes.len() <= 1
    })
}

/// Calls in which a pointer is handed on are followed so deep.
const MOST_NESTED: u32 = 8;

/// The bytes of each element that is accessed by a pointer; none if something else is done with it. (Copies are of elements as large as those of
/// what they are copied to.)
fn find_accesses<'m>(
    pointer: Value<'m>,
    layout: Layout<'m>,
    depth: u32,
    sizes: &mut HashSet<u64>,
) -> Option<()> {
    for user in pointer.users() {
        let inst = user.as_instruction()?;
        match inst.opcode() {
            LLVMOpcode::LLVMGetElementPtr if inst.operand(0) == Some(pointer) => {
                find_accesses(*inst, layout, depth, sizes)?;
            }
            LLVMOpcode::LLVMLoad => {
                sizes.insert(layout.size(inst.ty().scalar()));
            }
            LLVMOpcode::LLVMStore if inst.operand(0) != Some(pointer) => {
                sizes.insert(layout.size(inst.operand(0)?.ty().scalar()));
            }
            LLVMOpcode::LLVMCall => {
                let callee = inst.called_function()?;
                if callee.is_declaration() {
                    callee.name().starts_with("llvm.").then_some(())?;
                    continue;
                }
                let (arguments, depth) = (inst.as_call()?.arguments(), depth.checked_sub(1)?);
                for (argument, parameter) in arguments.into_iter().zip(callee.parameters()) {
                    if argument == pointer {
                        find_accesses(*parameter, layout, depth, sizes)?;
                    }
                }
            }
            _ => return None,
        }
    }
    Some(())
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
    let mut sizes = UnrolledSizes::default();
    let stays: HashMap<Function, bool> = functions
        .iter()
        .map(|&f| (f, sizes.of(f) >= LEAST_SIZE && accesses_elements(f, edit.layout())))
        .collect();
    let (mut inlined, mut left) = (Vec::new(), HashSet::new());
    let mut calls: HashMap<Function, Vec<Call>> = HashMap::new();
    for call in functions.iter().copied().filter(|function| stays[function]).flat_map(calls_of) {
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

    /// The calls that are left of a kernel that so many times has a function add to an array of eight, by a loop of so many steps that writes
    /// elements of one type, and reads those of another.
    fn left_of_arrays(times: usize, steps: u32, [stored, loaded]: [&str; 2]) -> usize {
        let work: String = (0..200).map(|i| format!("%v{} = mul i64 %v{i}, %l\n ", i + 1)).collect();
        let text = format!(
            "define internal void @add(ptr %to, i64 %n) {{\n br label %h\nh:\n %i = phi i64 [ 0, %0 ], [ %j, %b ]
             %c = icmp ult i64 %i, {steps}\n br i1 %c, label %b, label %e\nb:\n %q = getelementptr {stored}, ptr %to, i64 %i
             %x = load {loaded}, ptr %q\n %l = zext {loaded} %x to i64\n %v0 = add i64 %l, %n\n {work}%y = trunc i64 %v200 to {stored}
             store {stored} %y, ptr %q\n %j = add i64 %i, 1\n br label %h\ne:\n ret void\n}}
            define void @spirula.kernel.k(ptr addrspace(1) %p, i64 %n) {{\n %a = alloca [8 x i32]\n store i32 7, ptr %a
             {} %r = load i32, ptr %a\n store i32 %r, ptr addrspace(1) %p\n ret void\n}}",
            "call void @add(ptr %a, i64 %n)\n ".repeat(times)
        );
        cleaned_by(&text, Effort::Full).0.matches("call void @add(").count()
    }

    #[test]
    fn arrays_are_handed_on_if_their_elements_are_of_one_size() {
        assert_eq!(left_of_arrays(60, 6, ["i32", "i32"]), 60);
        assert_eq!(left_of_arrays(60, 6, ["i32", "i16"]), 0);
        // Small once it is unrolled, or few calls.
        assert_eq!(left_of_arrays(60, 3, ["i32", "i32"]), 0);
        assert_eq!(left_of_arrays(4, 6, ["i32", "i32"]), 0);
    }
}
