//! Clean-up: loops of few iterations over private arrays are unrolled, so that the arrays become values. In memory they would be
//! kept over every barrier, and packs of work-items would gather what lies apart for each of them. Other loops are left alone.
//!
//! A loop is judged by its size. So functions that compute with what they are given, and can't touch an array, are inlined
//! behind this: a sine in a loop is long, but its call is not.

use super::array_loops;
use super::beyond_arrays;
use super::call_graph::CallGraph;
use super::cleanup::run_stages;
use super::harden::kernel_symbol;
use super::inlining::{Sizes, is_library};
use super::postponed;
use crate::llvm::attribute::Attribute;
use crate::llvm::{self, Edit, Function, LlvmError, Module, Type, View};
use inkwell::llvm_sys::LLVMTypeKind::LLVMArrayTypeKind;
use inkwell::targets::TargetMachine;
use spirula_interface::program::KernelSignature;
use std::collections::{HashMap, HashSet};

const UNROLL: &str =
    "function(loop-unroll<O3;no-partial;no-runtime;no-upperbound;no-peeling;no-profile-peeling>)";

/// Arrays that nothing indexes any more become values.
const TO_VALUES: [&str; 2] =
    ["function(sroa<modify-cfg>,early-cse<memssa>,simplifycfg)", "function(instcombine<no-verify-fixpoint>)"];

/// A function that is inlined only later has at most so many instructions: it may be copied for each iteration.
const MAX_POSTPONED_SIZE: usize = 400;

/// Whether the module may have private arrays in loops.
pub(super) fn has_arrays(module: View) -> bool {
    module.defined_functions().into_iter().any(has_array)
}

fn has_array(function: Function) -> bool {
    // Structures and vectors are not unless they are indexed: nearly every function has some before they become values.
    let is_array = |ty: Type| ty.kind() == LLVMArrayTypeKind;
    let mut all = function.instructions().into_iter();
    all.any(|inst| inst.allocated_type().is_some_and(is_array) || array_loops::indexed(inst).is_some())
}

/// Keeps from being inlined what only computes. Yields the functions' names, for [`resume`](super::postponed::resume).
pub(super) fn postpone<'e>(edit: Edit<'e>, bound: &HashSet<Function<'e>>) -> Vec<String> {
    let mut sizes = Sizes::default();
    let computes = |function: &Function<'e>| {
        function.parameters().iter().all(|parameter| !parameter.ty().is_pointer())
            && !bound.contains(function)
            && sizes.of(*function) <= MAX_POSTPONED_SIZE
    };
    let computing: Vec<Function> = edit.defined_functions().into_iter().filter(computes).collect();
    postponed::postpone(edit, computing)
}

/// Functions that stay calls have their loops unrolled as well if they are no more than so many instructions together.
const MOST_CALLED: usize = 20_000;

/// The kernels, and what they call that will not be inlined: but for the library, which is finished.
fn unrolled_functions(module: View, kernels: &[KernelSignature]) -> HashSet<String> {
    let mut names: HashSet<String> = kernels.iter().map(|kernel| kernel_symbol(&kernel.name)).collect();
    let functions = module.defined_functions().into_iter();
    let called: Vec<Function> = functions.filter(|f| !names.contains(&f.name()) && !is_library(*f)).collect();
    let size = called.iter().map(|function| function.instructions().len()).sum::<usize>();
    if size <= MOST_CALLED {
        names.extend(called.into_iter().map(|function| function.name()));
    }
    names
}

/// Unrolls the loops of kernels with private arrays, and of the functions that stay calls. Yields for each kernel the instructions that are not
/// there only because it's to be done quickly.
pub(super) fn unroll(
    module: &mut Module,
    kernels: &[KernelSignature],
    machine: &TargetMachine,
    is_quick: bool,
) -> Result<Vec<u64>, LlvmError> {
    let functions = unrolled_functions(module.view(), kernels);
    let mut left_out = HashMap::new();
    // An inner loop that counts from, or to, what an outer one counts has a known length once that is unrolled.
    for _ in 0..MOST_ROUNDS {
        let before = blocks_beside_arrays(module.view(), &functions);
        if before == 0 {
            break;
        }
        // Loops that stay are met again.
        for (name, size) in unroll_once(module, &functions, machine, is_quick)? {
            let most: &mut u64 = left_out.entry(name).or_default();
            *most = size.max(*most);
        }
        if blocks_beside_arrays(module.view(), &functions) == before {
            break;
        }
    }
    Ok(of_kernels(module.view(), kernels, &left_out))
}

/// What functions of these names have, for each kernel that reaches them.
fn of_kernels(module: View, kernels: &[KernelSignature], sizes: &HashMap<String, u64>) -> Vec<u64> {
    if sizes.is_empty() {
        return vec![0; kernels.len()];
    }
    let graph = CallGraph::new(module);
    let of_kernel = |kernel: &KernelSignature| {
        let reached = graph.reached(module.function_named(&kernel_symbol(&kernel.name)));
        reached.iter().filter_map(|function| sizes.get(&function.name())).sum()
    };
    kernels.iter().map(of_kernel).collect()
}

/// Loops are looked at so many times.
const MOST_ROUNDS: usize = 3;

/// The number of blocks of those functions with private arrays.
fn blocks_beside_arrays(module: View, functions: &HashSet<String>) -> usize {
    let all = module.defined_functions().into_iter();
    let wanted = all.filter(|function| functions.contains(&function.name()) && has_array(*function));
    wanted.map(|function| function.blocks().len()).sum()
}

fn unroll_once(
    module: &mut Module,
    functions: &HashSet<String>,
    machine: &TargetMachine,
    is_quick: bool,
) -> Result<HashMap<String, u64>, LlvmError> {
    let mut left_out = HashMap::new();
    let wants = |function: Function| functions.contains(&function.name()) && has_array(function);
    module.edit(|edit| {
        let mut sizes = Sizes::default();
        let wanted = edit.defined_functions().into_iter().filter(|&function| wants(function));
        for function in wanted {
            let size = array_loops::mark(edit, function, &mut sizes, is_quick);
            if size > 0 {
                left_out.insert(function.name(), size);
            }
        }
    });
    unroll_marked(module, machine, wants)?;
    Ok(left_out)
}

/// Unrolls the loops that are marked, and in functions that want it others that LLVM finds short.
pub(super) fn unroll_marked(
    module: &mut Module,
    machine: &TargetMachine,
    wants: impl Fn(Function) -> bool,
) -> Result<(), LlvmError> {
    // What is to be small is not unrolled by itself.
    let small = module.edit(|edit| {
        let others = edit.defined_functions().into_iter();
        let others = others.filter(|&f| !wants(f) && !f.has_attribute("optsize"));
        let mark = |function| edit.add_attributes(function, &[Attribute::OptimizeForSize]);
        others.map(|function| (mark(function), function.name()).1).collect::<Vec<String>>()
    });
    llvm::run_passes(module, UNROLL, machine)?;
    module.edit(|edit| {
        let functions = edit.defined_functions().into_iter();
        functions.for_each(|function| beyond_arrays::settle(edit, function));
    });
    run_stages(module, &TO_VALUES, machine)?;
    module.edit(|edit| {
        for function in small.iter().filter_map(|name| edit.function_named(name)) {
            edit.drop_attribute(function, "optsize");
        }
    });
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::front::cleanup::Effort;
    use crate::front::cleanup::tests::{cleaned, cleaned_by};

    /// A kernel that fills and sums an array of `size` in two loops; `fill` makes the loop's %v of its %x.
    fn kernel(size: u32, fill: &str) -> String {
        format!(
            "define internal float @far(float %x) {{\n {}%r = fadd float %v99, 1.0\n ret float %r\n}}
            define void @spirula.kernel.k(ptr addrspace(1) %p) {{
              %a = alloca [{size} x float]\n br label %h
            h:\n %i = phi i64 [ 0, %0 ], [ %j, %b ]\n %c = icmp ult i64 %i, {size}\n br i1 %c, label %b, label %s
            b:\n %q = getelementptr float, ptr addrspace(1) %p, i64 %i\n %x = load float, ptr addrspace(1) %q
              {fill}\n %to = getelementptr float, ptr %a, i64 %i\n store float %v, ptr %to\n %j = add i64 %i, 1\n br label %h
            s:\n %k = phi i64 [ 0, %h ], [ %l, %t ]\n %sum = phi float [ 0.0, %h ], [ %next, %t ]
              %d = icmp ult i64 %k, {size}\n br i1 %d, label %t, label %e
            t:\n %m = sub i64 {}, %k\n %from = getelementptr float, ptr %a, i64 %m\n %y = load float, ptr %from
              %next = fadd float %sum, %y\n %l = add i64 %k, 1\n br label %s
            e:\n store float %sum, ptr addrspace(1) %p\n ret void\n}}",
            (0..100).map(|i| {
                let before = if i == 0 { "%x".to_owned() } else { format!("%v{}", i - 1) };
                format!("%v{i} = fmul float {before}, {before}\n ")
            }).collect::<String>(),
            size - 1,
        )
    }

    const SQUARE: &str = "%v = fmul float %x, %x";
    const CALL: &str = "%v = call float @far(float %x)";

    #[test]
    fn small_arrays_become_values() {
        for fill in [SQUARE, CALL] {
            let text = cleaned(&kernel(8, fill), true);
            assert!(!text.contains("alloca") && !text.contains("phi") && !text.contains("@far"), "{text}");
        }
    }

    #[test]
    fn arrays_in_structures_and_vectors_by_element_become_values() {
        for ty in ["{ [8 x float], i32 }", "<8 x float>"] {
            let text =
                cleaned(&kernel(8, SQUARE).replace("alloca [8 x float]", &format!("alloca {ty}")), true);
            assert!(!text.contains("alloca") && !text.contains("phi"), "{ty}: {text}");
        }
    }

    #[test]
    fn arrays_in_the_order_of_a_table_become_values() {
        let table = |kind: &str| {
            let text = kernel(4, SQUARE).replace(
                "%to = getelementptr float, ptr %a, i64 %i",
                "%in = getelementptr inbounds [4 x i32], ptr addrspace(2) @order, i64 0, i64 %i\n %n = load i32, ptr addrspace(2) %in
                 %at = sext i32 %n to i64\n %to = getelementptr float, ptr %a, i64 %at",
            );
            let order = "[4 x i32] [i32 2, i32 0, i32 3, i32 1]";
            cleaned(&format!("@order = internal addrspace(2) {kind} {order}\n{text}"), true)
        };
        let text = table("constant");
        assert!(!text.contains("alloca") && !text.contains("phi") && !text.contains("@order"), "{text}");
    }

    /// A kernel that adds to an array's elements in a loop within another, which counts to what it is given, and stores them all.
    fn tile(size: u32, count: &str) -> String {
        let store = |n: u32| {
            format!(
                "%l{n} = getelementptr float, ptr %a, i64 {n}\n %r{n} = load float, ptr %l{n}
                 %t{n} = getelementptr float, ptr addrspace(1) %p, i64 {n}\n store float %r{n}, ptr addrspace(1) %t{n}\n"
            )
        };
        format!(
            "define void @spirula.kernel.k(ptr addrspace(1) %p, i64 %n) {{
              %a = alloca [{size} x float]\n call void @llvm.memset.p0.i64(ptr %a, i8 0, i64 {}, i1 false)\n br label %o
            o:\n %j = phi i64 [ 0, %0 ], [ %l, %m ]\n %c = icmp ult i64 %j, %n\n br i1 %c, label %h, label %e
            h:\n %i = phi i64 [ 0, %o ], [ %k, %b ]\n %d = icmp ult i64 %i, {count}\n br i1 %d, label %b, label %m
            b:\n %q = getelementptr float, ptr addrspace(1) %p, i64 %i\n %x = load float, ptr addrspace(1) %q
              %s = and i64 %i, {}\n %to = getelementptr float, ptr %a, i64 %s\n %y = load float, ptr %to
              %z = load float, ptr addrspace(1) %p\n %xz = fmul float %x, %z\n %v = fadd float %y, %xz
              store float %v, ptr %to\n %k = add i64 %i, 1\n br label %h
            m:\n %l = add i64 %j, 1\n br label %o
            e:\n {} ret void\n}}
            declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)",
            size * 4,
            size - 1,
            (0..size).map(store).collect::<String>(),
        )
    }

    #[test]
    fn tiles_become_values_though_their_loops_are_long() {
        let text = cleaned(&tile(64, "64"), true);
        assert!(!text.contains("alloca") && text.matches(" fadd ").count() >= 64, "{text}");
    }

    #[test]
    fn baseline_code_keeps_long_loops_where_that_changes_no_bits() {
        let (size, count) = (128, "128");
        let (text, left_out) = cleaned_by(&tile(size, count), Effort::Quick);
        assert!(left_out > 1000 && text.contains("alloca") && text.contains("phi"), "{text}");
        let contracted = tile(size, count).replace("fadd float", "fadd contract float");
        let (text, left_out) = cleaned_by(&contracted, Effort::Quick);
        assert!(left_out == 0 && !text.contains("alloca"), "{text}");
        let (text, left_out) = cleaned_by(&tile(16, "16"), Effort::Quick);
        assert!(left_out == 0 && !text.contains("alloca"), "{text}");
    }

    /// A kernel that sorts an array of 9 by exchanging neighbours: its inner loop goes up to what its outer one counts.
    const SORT: &str = "define void @spirula.kernel.k(ptr addrspace(1) %p) {
          %a = alloca [9 x i32]\n call void @llvm.memcpy.p0.p1.i64(ptr %a, ptr addrspace(1) %p, i64 36, i1 false)\n br label %o
        o:\n %i = phi i64 [ 8, %0 ], [ %l, %m ]\n %c = icmp ne i64 %i, 0\n br i1 %c, label %h, label %e
        h:\n %j = phi i64 [ 0, %o ], [ %k, %b ]\n %d = icmp ult i64 %j, %i\n br i1 %d, label %b, label %m
        b:\n %q = getelementptr i32, ptr %a, i64 %j\n %x = load i32, ptr %q\n %k = add i64 %j, 1
          %r = getelementptr i32, ptr %a, i64 %k\n %y = load i32, ptr %r
          %s = call i32 @llvm.umin.i32(i32 %x, i32 %y)\n %t = call i32 @llvm.umax.i32(i32 %x, i32 %y)
          store i32 %s, ptr %q\n store i32 %t, ptr %r\n br label %h
        m:\n %l = sub i64 %i, 1\n br label %o
        e:\n %f = getelementptr i32, ptr %a, i64 4\n %v = load i32, ptr %f\n store i32 %v, ptr addrspace(1) %p\n ret void\n}
        declare i32 @llvm.umin.i32(i32, i32)\ndeclare i32 @llvm.umax.i32(i32, i32)
        declare void @llvm.memcpy.p0.p1.i64(ptr, ptr addrspace(1), i64, i1)";

    #[test]
    fn inner_loops_that_depend_on_outer_ones_are_unrolled_behind_them() {
        let text = cleaned(SORT, true);
        assert!(!text.contains("alloca") && !text.contains("phi"), "{text}");
    }

    /// A kernel as of a hash function: a ring of 16 words that is gone around four times, by a loop that carries a constant of its own
    /// and has a hint.
    fn ring(hint: &str) -> String {
        format!(
            "define void @spirula.kernel.k(ptr addrspace(1) %p) {{
              %a = alloca [16 x i32]\n call void @llvm.memcpy.p0.p1.i64(ptr %a, ptr addrspace(1) %p, i64 64, i1 false)\n br label %h
            h:\n %i = phi i64 [ 16, %0 ], [ %j, %b ]\n %s = phi i32 [ 1732584193, %0 ], [ %t, %b ]
              %c = icmp ult i64 %i, 77\n br i1 %c, label %b, label %e
            b:\n %k = and i64 %i, 15\n %q = getelementptr i32, ptr %a, i64 %k\n %x = load i32, ptr %q
              %t = mul i32 %s, %x\n store i32 %t, ptr %q\n %j = add i64 %i, 1\n br label %h, !llvm.loop !0
            e:\n store i32 %s, ptr addrspace(1) %p\n ret void\n}}
            declare void @llvm.memcpy.p0.p1.i64(ptr, ptr addrspace(1), i64, i1)
            !0 = distinct !{{!0, !1}}\n!1 = !{{!\"{hint}\"}}"
        )
    }

    #[test]
    fn hints_of_a_number_do_not_keep_an_array_in_memory() {
        for hint in
            ["llvm.loop.unroll.count\", i32 61, !\"", "llvm.loop.unroll.enable", "llvm.loop.mustprogress"]
        {
            let text = cleaned(&ring(hint), true);
            assert!(!text.contains("alloca") && !text.contains("phi"), "{hint}: {text}");
        }
        assert!(cleaned(&ring("llvm.loop.unroll.disable"), true).contains("alloca"));
    }

    #[test]
    fn loops_that_go_around_a_tile_stay() {
        for (size, count) in [(64, "1000"), (512, "512"), (64, "%n")] {
            let text = cleaned(&tile(size, count), true);
            assert!(text.contains("alloca") && text.matches(" fadd ").count() == 1, "{text}");
        }
    }

    #[test]
    fn large_ones_stay_and_are_computed_with_in_place() {
        for fill in [SQUARE, CALL] {
            let text = cleaned(&kernel(500, fill), true);
            assert!(text.contains("alloca") && text.contains("phi") && !text.contains("@far"), "{text}");
            assert!(!text.contains("optsize"), "{text}");
        }
    }
}
