//! Clean-up: which calls are inlined into kernels that are too large for all of theirs. A kernel spends its time in loops, and what a loop
//! calls is slower than what is inlined into it, or stays scalar: so the calls of those loops are inlined that call the most, with all that these call, as long as the kernel stays
//! small enough. Everything else it still calls.

use super::call_graph::CallGraph;
use super::inlining::{Sizes, is_rare};
use crate::llvm::attribute::Attribute;
use crate::llvm::loops::{MAX_BLOCKS, natural_loops};
use crate::llvm::{Edit, Function, Instruction};
use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

/// A loop that calls less than one part in so many of what the largest calls is left as it is.
const LEAST_SHARE: usize = 2;
/// So many of a kernel's loops are looked at.
const MOST_LOOPS: usize = 8;

/// Marks calls to be inlined into these kernels, up to a number of instructions of each and of all of them together. Functions that are
/// inlined anyhow are marked already.
pub(super) fn mark<'e>(
    edit: Edit<'e>,
    graph: &CallGraph<'e>,
    (kernels, limits): (&[Function<'e>], [usize; 2]),
    sizes: &mut Sizes<'e>,
) {
    let mut calls = Calls::default();
    let mut loops = HashMap::new();
    let mut wanted = HashSet::new();
    let mut rest = limits[1];
    for &kernel in kernels {
        let reached = graph.reached([kernel]);
        reached.iter().for_each(|&function| calls.add(function));
        for &function in &reached {
            loops.entry(function).or_insert_with(|| loop_calls(function, calls.open(function), sizes));
        }
        let mut largest: Vec<&LoopCalls> = reached.iter().flat_map(|function| &loops[function]).collect();
        // By name where they are equal: what is made of a program is always the same.
        largest.sort_by_cached_key(|of| (Reverse(of.size), of.function.name()));
        let least = largest.first().map_or(0, |of| of.size.div_ceil(LEAST_SHARE));
        let mut taken = 0;
        for of in largest.into_iter().take(MOST_LOOPS).filter(|of| of.size >= least) {
            let with = &wanted | &calls.of_loop(graph, &reached, of);
            let size = calls.inlined_size(kernel, &with, &mut HashMap::new());
            if size <= limits[0].min(rest) {
                (wanted, taken) = (with, size);
            }
        }
        rest -= taken;
    }
    let calls = wanted.into_iter().filter_map(Instruction::as_call);
    calls.for_each(|call| edit.add_attributes(call, &[Attribute::AlwaysInline]));
}

/// Calls that a loop makes.
struct LoopCalls<'m> {
    function: Function<'m>,
    calls: Vec<Instruction<'m>>,
    /// Instructions of all that they call.
    size: usize,
}

/// Of a function's outermost loops that make some of these calls.
fn loop_calls<'m>(
    function: Function<'m>,
    open: &[Instruction<'m>],
    sizes: &mut Sizes<'m>,
) -> Vec<LoopCalls<'m>> {
    if open.is_empty() || function.blocks().len() > MAX_BLOCKS {
        return Vec::new();
    }
    let mut loops = natural_loops(function);
    loops.sort_by_key(|(_, _, blocks)| Reverse(blocks.len()));
    let mut within = HashSet::new();
    let mut found = Vec::new();
    for (header, _, blocks) in loops {
        if within.contains(&header) {
            continue;
        }
        let calls: Vec<Instruction> =
            open.iter().filter(|call| blocks.contains(&call.block())).copied().collect();
        let callees = calls.iter().filter_map(|call| call.called_function());
        let size = callees.fold(0_usize, |sum, callee| sum.saturating_add(sizes.of(callee)));
        if size > 0 {
            found.push(LoopCalls { function, calls, size });
        }
        within.extend(blocks);
    }
    found
}

/// What functions call that have a body.
#[derive(Default)]
struct Calls<'m>(HashMap<Function<'m>, Own<'m>>);

/// A function's instructions and calls.
struct Own<'m> {
    size: usize,
    /// Of what is inlined in any case.
    inlined: Vec<Function<'m>>,
    /// Of what may be.
    open: Vec<Instruction<'m>>,
}

impl<'m> Calls<'m> {
    fn add(&mut self, function: Function<'m>) {
        self.0.entry(function).or_insert_with(|| {
            let instructions = function.instructions();
            let mut own = Own { size: instructions.len(), inlined: Vec::new(), open: Vec::new() };
            for call in instructions {
                match call.called_function() {
                    Some(callee) if callee.has_attribute("alwaysinline") => own.inlined.push(callee),
                    Some(callee) if !callee.is_declaration() && !is_rare(callee) => own.open.push(call),
                    _ => {}
                }
            }
            own
        });
    }

    fn open(&self, function: Function<'m>) -> &[Instruction<'m>] {
        self.0.get(&function).map_or(&[], |own| &own.open)
    }

    /// A loop's, those of all that it calls, and those by which a kernel that reaches these functions comes to the loop.
    fn of_loop(
        &self,
        graph: &CallGraph<'m>,
        reached: &HashSet<Function<'m>>,
        of: &LoopCalls<'m>,
    ) -> HashSet<Instruction<'m>> {
        let callees = graph.reached(of.calls.iter().filter_map(|call| call.called_function()));
        let below = callees.into_iter().flat_map(|function| self.open(function));
        let above = graph.reaching([of.function]);
        let leads = |call: &&Instruction<'m>| call.called_function().is_some_and(|f| above.contains(&f));
        let ways = reached.iter().flat_map(|&function| self.open(function)).filter(leads);
        below.chain(ways).chain(&of.calls).copied().collect()
    }

    /// Instructions of a function with all that is inlined into it if these calls are.
    fn inlined_size(
        &self,
        function: Function<'m>,
        wanted: &HashSet<Instruction<'m>>,
        known: &mut HashMap<Function<'m>, usize>,
    ) -> usize {
        if let Some(&size) = known.get(&function) {
            return size;
        }
        known.insert(function, 0); // In a cycle, which only the library could have.
        let Some(own) = self.0.get(&function) else { return 0 };
        let wanted_here = own.open.iter().filter(|call| wanted.contains(call));
        let callees =
            wanted_here.filter_map(|call| call.called_function()).chain(own.inlined.iter().copied());
        let size = callees
            .fold(own.size, |sum, callee| sum.saturating_add(self.inlined_size(callee, wanted, known)));
        known.insert(function, size);
        size
    }
}

#[cfg(test)]
mod tests {
    use crate::front::cleanup::Effort;
    use crate::front::inlining;
    use crate::llvm;

    /// The calls that are left of a kernel that calls `g`, which calls `f`, of so many instructions, in a loop of `h`, and outside of it so
    /// many times.
    fn left(size: usize, outside: usize) -> [usize; 3] {
        let loads: String = (0..size).map(|i| format!("%l{i} = load volatile i32, ptr null\n ")).collect();
        let again: String = (0..outside).map(|i| format!("call void @f(i32 {i})\n ")).collect();
        let text = format!(
            "define internal void @f(i32 %x) {{\n {loads} ret void\n}}
            define internal void @g(i32 %x) {{\n call void @f(i32 %x)\n ret void\n}}
            define internal void @h(i32 %x) {{\n br label %l\nl:\n %i = phi i32 [ 0, %0 ], [ %j, %l ], [ %j, %m ]\n call void @g(i32 %i)
             %j = add i32 %i, 1\n %c = icmp ult i32 %j, %x\n br i1 %c, label %l, label %m\nm:\n %d = icmp ult i32 %j, 99\n br i1 %d, label %l, label %e
            e:\n ret void\n}}
            define void @spirula.kernel.k(i32 %x) {{\n {again} call void @h(i32 %x)\n ret void\n}}"
        );
        inlining::tests::marked(&text, &["k"], Effort::Full, |module, machine| {
            llvm::run_passes(module, "always-inline,globaldce", machine).unwrap();
            let text = llvm::print_text(module);
            ["f", "g", "h"].map(|name| text.matches(&format!("call void @{name}(")).count())
        })
    }

    #[test]
    fn kernels_that_are_too_large_inline_what_their_loops_call() {
        assert_eq!(left(4_000, 2), [0, 0, 0]);
        assert_eq!(left(4_000, 20), [20, 0, 0]);
        // Not if that is too large, too.
        let [calls, ..] = left(61_000, 1);
        assert_eq!(calls, 2);
    }
}
