//! Analysis: what is the same for all work-items of a group.
//!
//! A value is *uniform* if all work-items of the group that compute it together get the same; else *varying*.
//! A block is *converged* if either all work-items of the group execute it, or none does. After Karrenberg and Hack, "Improving
//! Performance of OpenCL on CPUs" (2012), and LLVM's sync dependence: a branch on a varying condition makes the
//! parameters varying of every block where its ways meet again.

use super::ControlFlow;
use super::dominators::immediate_dominators;
use crate::{AddressSpace, Block, Function, Inst, Op, Passing, Scalar, Terminator, Type, Value, ValueDef};
use fixedbitset::FixedBitSet;
use std::collections::{HashMap, HashSet};

/// The answer for one kernel.
#[derive(Debug)]
pub struct Uniformity {
    varying: FixedBitSet,
    diverged: FixedBitSet,
}

impl Uniformity {
    /// Analyses a kernel whose barriers stand in it (before region formation).
    pub fn new(function: &Function, flow: &ControlFlow) -> Self {
        // First as if an early return parted the group for good; that tells which branches diverge at all.
        let full = PostDominators::new(flow);
        let first = Solver::solve(function, flow, &full);
        let varies = |b: Block| {
            let condition = function.block(b).terminator.condition();
            condition.is_some_and(|c| first.varying.contains(c.index()))
        };
        let mut post_dominators = PostDominators::new(&without_early_returns(function, flow, varies));
        post_dominators.complete(&full);
        Solver::solve(function, flow, &post_dominators)
    }

    /// Whether all work-items that compute the value get the same.
    pub fn is_uniform(&self, value: Value) -> bool {
        !self.varying.contains(value.index())
    }

    /// Whether the work-items of a group go through the block together.
    pub fn is_converged(&self, block: Block) -> bool {
        !self.diverged.contains(block.index())
    }
}

struct Solver<'a> {
    function: &'a Function,
    flow: &'a ControlFlow,
    post_dominators: &'a PostDominators,
    dirty: DirtyMemory,
    varying: FixedBitSet,
    diverged: FixedBitSet,
    /// Blocks whose divergent branch has been followed.
    split: FixedBitSet,
    elsewhere: UsedElsewhere,
    /// The ways around divergent loops whose values have been marked: all branches by which work-items leave one have the same.
    left: HashSet<FixedBitSet>,
}

impl<'a> Solver<'a> {
    fn solve(
        function: &'a Function,
        flow: &'a ControlFlow,
        post_dominators: &'a PostDominators,
    ) -> Uniformity {
        let mut solver = Solver {
            function,
            flow,
            post_dominators,
            dirty: DirtyMemory::new(function, flow),
            varying: FixedBitSet::with_capacity(function.value_count()),
            diverged: FixedBitSet::with_capacity(function.blocks.len()),
            split: FixedBitSet::with_capacity(function.blocks.len()),
            elsewhere: UsedElsewhere::new(function),
            left: HashSet::new(),
        };
        while solver.step() {}
        Uniformity { varying: solver.varying, diverged: solver.diverged }
    }

    /// One walk over all blocks; whether anything became varying.
    fn step(&mut self) -> bool {
        let mut changed = false;
        for &block in self.flow.reverse_post_order() {
            for (position, &inst) in self.function.block(block).insts.iter().enumerate() {
                if let Some(value) = self.function.result(inst)
                    && !self.varying.contains(value.index())
                    && self.is_source(block, position, inst)
                {
                    self.varying.insert(value.index());
                    changed = true;
                }
            }
            changed |= self.pass_arguments(block);
            let condition = self.function.block(block).terminator.condition();
            if condition.is_some_and(|c| self.varying.contains(c.index())) && !self.split.put(block.index()) {
                self.diverge(block);
                changed = true;
            }
        }
        changed
    }

    fn is_source(&self, block: Block, position: usize, inst: Inst) -> bool {
        let op = self.function.op(inst);
        let mut varies = false;
        op.visit_operands(|v| varies |= self.varying.contains(v.index()));
        if varies {
            return true;
        }
        match op {
            Op::WorkItem { query, dimension } => {
                query.is_varying() && (query.sees_sub_groups() || self.function.extends_in(*dimension))
            }
            // Every work-item has its own.
            Op::SlotAddress(_) => true,
            Op::AtomicRmw { .. } | Op::CompareExchange { .. } => true,
            Op::Load { pointer, .. } => {
                op.has_effect() || self.dirty.may_have_changed(self.function, block, position, *pointer)
            }
            _ => op.has_effect(),
        }
    }

    fn pass_arguments(&mut self, block: Block) -> bool {
        let mut changed = false;
        for target in self.function.block(block).terminator.targets() {
            let params = &self.function.block(target.block).params;
            for (param, argument) in params.iter().zip(&target.arguments) {
                if self.varying.contains(argument.index()) {
                    changed |= !self.varying.put(param.index());
                }
            }
        }
        changed
    }

    /// Work-items take different ways out of `branch`: marks the blocks on these ways, the parameters where they
    /// meet, and what leaves a loop that some work-items leave earlier than others.
    fn diverge(&mut self, branch: Block) {
        let end = self.post_dominators.immediate(branch);
        let mut ways = FixedBitSet::with_capacity(self.function.blocks.len());
        let mut labels: Vec<Option<Way>> = vec![None; self.function.blocks.len()];
        let targets = self.function.block(branch).terminator.targets();
        let mut work: Vec<(Block, Way)> =
            targets.iter().enumerate().map(|(i, t)| (t.block, Way::Successor(i))).collect();
        while let Some((block, way)) = work.pop() {
            let label = match labels[block.index()] {
                None => way,
                Some(old) if old == way || old == Way::Meeting(block) => continue,
                Some(_) => {
                    self.varying.extend(self.function.block(block).params.iter().map(|p| p.index()));
                    Way::Meeting(block)
                }
            };
            labels[block.index()] = Some(label);
            if Some(block) != end {
                ways.insert(block.index());
                work.extend(self.flow.successors(block).iter().map(|&to| (to, label)));
            }
        }
        // A way that runs into the branch itself again is a loop: its values are seen at different iterations.
        self.diverged.union_with(&ways);
        if ways.contains(branch.index()) && !self.left.contains(&ways) {
            self.mark_live_out(&ways);
            self.left.insert(ways);
        }
    }

    /// Values defined on the ways around a divergent loop and used behind it.
    fn mark_live_out(&mut self, ways: &FixedBitSet) {
        for (value, users) in ways.ones().flat_map(|block| &self.elsewhere.of[block]) {
            if !self.varying.contains(value.index()) && users.iter().any(|user| !ways.contains(user.index()))
            {
                self.varying.insert(value.index());
            }
        }
    }
}

/// For each block its values that other blocks use, and which: few of all.
struct UsedElsewhere {
    of: Vec<Vec<(Value, Vec<Block>)>>,
}

impl UsedElsewhere {
    fn new(function: &Function) -> Self {
        let homes = function.homes();
        let mut users: HashMap<Value, Vec<Block>> = HashMap::new();
        for block in function.block_ids() {
            let data = function.block(block);
            let mut use_one = |value: Value| {
                if homes[value.index()].is_some_and(|home| home != block) {
                    let users = users.entry(value).or_default();
                    if users.last() != Some(&block) {
                        users.push(block);
                    }
                }
            };
            data.insts.iter().for_each(|&inst| function.op(inst).visit_operands(&mut use_one));
            data.terminator.operands().into_iter().for_each(use_one);
        }
        let mut of = vec![Vec::new(); function.blocks.len()];
        for (value, users) in users {
            of[homes[value.index()].map_or(0, |home| home.index())].push((value, users));
        }
        UsedElsewhere { of }
    }
}

/// By which way out of a divergent branch a block is reached.
#[derive(Clone, Copy, PartialEq)]
enum Way {
    Successor(usize),
    /// Several ways met in that block.
    Meeting(Block),
}

/// The graph without the ways to an early return: where a divergent branch can still reach a barrier on one way and on
/// another can't, the work-items on the latter are gone from the group, and the rest stays together. Not in loops: without its
/// ends, a loop's blocks would seem to be on everybody's way.
fn without_early_returns(
    function: &Function,
    flow: &ControlFlow,
    varies: impl Fn(Block) -> bool,
) -> ControlFlow {
    let mut reaches = FixedBitSet::with_capacity(function.blocks.len());
    let mut work: Vec<Block> = flow.reverse_post_order().to_vec();
    work.retain(|&b| matches!(function.block(b).terminator, Terminator::Barrier(_)));
    while let Some(block) = work.pop() {
        if !reaches.put(block.index()) {
            work.extend(flow.predecessors(block));
        }
    }
    let kept = |block: Block| {
        let to = flow.successors(block).iter().copied();
        let some_reach = varies(block)
            && !flow.is_in_loop(block)
            && flow.successors(block).iter().any(|s| reaches.contains(s.index()));
        to.filter(|s| !some_reach || reaches.contains(s.index())).collect()
    };
    ControlFlow::from_successors(function.block_ids().map(kept).collect(), Block(0))
}

/// Immediate post-dominators; the blocks without successors share one virtual end.
struct PostDominators {
    immediate: Vec<Option<Block>>,
}

impl PostDominators {
    fn new(flow: &ControlFlow) -> Self {
        let blocks = flow.reverse_post_order();
        // Positions: 0 is the virtual end, then the blocks in post-order of the reversed graph.
        let mut order: Vec<Block> = Vec::new();
        let size = flow.block_count();
        let mut position = vec![None; size];
        let mut seen = vec![false; size];
        let ends = blocks.iter().copied().filter(|&b| flow.successors(b).is_empty());
        for end in ends {
            post_order(flow, end, &mut seen, &mut order);
        }
        order.reverse();
        for (i, block) in order.iter().enumerate() {
            position[block.index()] = Some(i + 1);
        }
        let mut predecessors = vec![Vec::new()];
        predecessors.extend(order.iter().map(|&block| {
            let next = flow.successors(block);
            if next.is_empty() { vec![0] } else { next.iter().filter_map(|s| position[s.index()]).collect() }
        }));
        let tree = immediate_dominators(&predecessors);
        let mut immediate = vec![None; size];
        for (i, block) in order.iter().enumerate() {
            immediate[block.index()] = tree[i + 1].checked_sub(1).and_then(|at| order.get(at).copied());
        }
        PostDominators { immediate }
    }

    /// Takes another answer for the blocks of which this one knows nothing, as in a loop without end.
    fn complete(&mut self, other: &PostDominators) {
        for (own, other) in self.immediate.iter_mut().zip(&other.immediate) {
            *own = own.or(*other);
        }
    }

    /// The block where all ways from `block` meet, if they do before the end.
    fn immediate(&self, block: Block) -> Option<Block> {
        self.immediate[block.index()]
    }
}

fn post_order(flow: &ControlFlow, from: Block, seen: &mut [bool], order: &mut Vec<Block>) {
    let mut stack = vec![(from, 0)];
    if std::mem::replace(&mut seen[from.index()], true) {
        return;
    }
    while let Some((block, next)) = stack.last_mut() {
        if let Some(&to) = flow.predecessors(*block).get(*next) {
            *next += 1;
            if !std::mem::replace(&mut seen[to.index()], true) {
                stack.push((to, 0));
            }
        } else {
            order.push(*block);
            stack.pop();
        }
    }
}

/// Which address spaces may have been written since the last barrier. A load from memory that nobody wrote since
/// gives all work-items the same; what they write later without a barrier would be a race. So would be what others write, unless
/// a work-item waits for it: behind an operation that acquires, each may see something else.
struct DirtyMemory {
    at_start: Vec<u8>,
}

impl DirtyMemory {
    fn new(function: &Function, flow: &ControlFlow) -> Self {
        let mut dirty = DirtyMemory { at_start: vec![0; function.blocks.len()] };
        let mut changed = true;
        while changed {
            changed = false;
            for &block in flow.reverse_post_order() {
                let data = function.block(block);
                let mut spaces = dirty.at_start[block.index()];
                spaces |= data.insts.iter().fold(0, |s, &i| s | written_spaces(function, function.op(i)));
                if matches!(data.terminator, Terminator::Barrier(_)) {
                    spaces = 0;
                }
                for to in flow.successors(block) {
                    changed |= spaces & !dirty.at_start[to.index()] != 0;
                    dirty.at_start[to.index()] |= spaces;
                }
            }
        }
        dirty
    }

    fn may_have_changed(&self, function: &Function, block: Block, position: usize, pointer: Value) -> bool {
        if let ValueDef::Param(n) = function.def(root(function, pointer))
            && function.params[*n as usize].passing == Passing::ByAddress
        {
            return false;
        }
        let before = &function.block(block).insts[..position];
        let written = before
            .iter()
            .fold(self.at_start[block.index()], |s, &i| s | written_spaces(function, function.op(i)));
        match space(function, pointer) {
            AddressSpace::Constant => false,
            AddressSpace::Global => written & GLOBAL != 0,
            AddressSpace::Local => written & LOCAL != 0,
            AddressSpace::Private | AddressSpace::Generic | AddressSpace::Context => true,
        }
    }
}

const GLOBAL: u8 = 1;
const LOCAL: u8 = 2;

/// The pointer that an address is computed from.
fn root(function: &Function, mut pointer: Value) -> Value {
    while let Some(Op::Address { base, .. }) = function.defining_op(pointer) {
        pointer = *base;
    }
    pointer
}

fn space(function: &Function, pointer: Value) -> AddressSpace {
    function.ty(pointer).address_space().unwrap_or(AddressSpace::Generic)
}

fn written_spaces(function: &Function, op: &Op) -> u8 {
    let through = |pointers: &[Value]| {
        pointers.iter().fold(0, |s, &p| {
            s | match function.ty(p) {
                Type::Scalar(Scalar::Pointer(AddressSpace::Global)) => GLOBAL,
                Type::Scalar(Scalar::Pointer(AddressSpace::Local)) => LOCAL,
                Type::Scalar(Scalar::Pointer(AddressSpace::Generic)) => GLOBAL | LOCAL,
                _ => 0,
            }
        })
    };
    match op {
        // Of local memory, which nobody else has, nothing can be waited for.
        op if op
            .acquires()
            .is_some_and(|from| from.is_none_or(|p| space(function, p) != AddressSpace::Local)) =>
        {
            GLOBAL | LOCAL
        }
        Op::Store { pointer, .. } | Op::AtomicRmw { pointer, .. } | Op::CompareExchange { pointer, .. } => {
            through(&[*pointer])
        }
        Op::Intrinsic { arguments, .. } if op.has_effect() => through(arguments),
        // An integer may hide a pointer, and an image's descriptor is one to its texels.
        Op::Call { pure: false, .. } => GLOBAL | LOCAL,
        _ => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    /// The names of the varying values and diverged blocks, in the numbers of the text given.
    fn analyse(text: &str) -> String {
        let kernel = parse(text).unwrap_or_else(|e| panic!("{e}"));
        let flow = ControlFlow::new(&kernel);
        let uniformity = Uniformity::new(&kernel, &flow);
        let printed = kernel.to_string();
        let mut values: Vec<(usize, u32)> = (0..kernel.value_count() as u32)
            .filter(|&v| !uniformity.is_uniform(Value(v)))
            .filter_map(|v| Some((printed.find(&format!("%{v}: "))?, v)))
            .collect();
        values.sort();
        let blocks = kernel.block_ids().filter(|&b| !uniformity.is_converged(b)).map(|b| format!(" {b}"));
        // Positions of definitions are the same in both texts, line by line.
        let original: Vec<&str> = text
            .split('%')
            .skip(1)
            .filter_map(|t| t.split_once(": ").map(|(n, _)| n))
            .filter(|n| n.parse::<u32>().is_ok())
            .collect();
        let ours: Vec<u32> =
            printed.split('%').skip(1).filter_map(|t| t.split_once(": ")?.0.parse().ok()).collect();
        let names = values.iter().filter_map(|(_, v)| {
            let place = ours.iter().position(|o| o == v)?;
            Some(format!(" %{}", original[place]))
        });
        format!("varying:{} diverged:{}", names.collect::<String>(), blocks.collect::<String>())
    }

    #[test]
    fn a_uniform_loop_around_a_barrier_stays_uniform() {
        let text = r#"kernel "k"(%0: ptr(local) @ 0 local_offset, %1: i64 @ 8) {
b0:
  %2: i64 = local_id 0
  jump b1(%1)
b1(%3: i64):
  %4: i1 = icmp ugt %3, 0:i64
  branch %4, b2, b5
b2:
  %5: i1 = icmp ult %2, %3
  branch %5, b3, b4
b3:
  store %0, %2, align 8
  jump b4
b4:
  %6: i64 = lshr %3, 1:i64
  barrier b6
b5:
  return
b6:
  jump b1(%6)
}"#;
        assert_eq!(analyse(text), "varying: %2 %5 diverged: b3");
    }

    #[test]
    fn where_ways_meet_parameters_vary() {
        let text = r#"kernel "k"(%0: ptr(global) @ 0, %1: i32 @ 8) {
b0:
  %2: i64 = global_id 0
  %3: i1 = icmp ult %2, 7:i64
  branch %3, b1(1:i32), b1(2:i32)
b1(%4: i32):
  %5: i1 = icmp slt %1, 3:i32
  branch %5, b2(3:i32), b2(4:i32)
b2(%6: i32):
  %7: i32 = add %4, %6
  store %0, %7, align 4
  return
}"#;
        assert_eq!(analyse(text), "varying: %2 %3 %4 %7 diverged:");
    }

    /// Found by the fuzzer (kernel 245): without the way out of the outer loop, b4 seemed to be where all meet.
    #[test]
    fn a_return_in_a_divergent_loop_diverges() {
        let text = r#"kernel "k"(%0: ptr(global) @ 0, %1: i32 @ 8) {
b0:
  %2: i64 = local_id 0
  jump b1(0:i64)
b1(%3: i64):
  %4: i1 = icmp ult %3, 5:i64
  branch %4, b2(0:i64), b8
b2(%5: i64):
  %6: i1 = icmp ult %5, %2
  branch %6, b3, b6(%5)
b3:
  %7: i1 = icmp eq %1, 3:i32
  branch %7, b4, b5
b4:
  return
b5:
  %8: i64 = add %5, 1:i64
  jump b2(%8)
b6(%9: i64):
  barrier b7
b7:
  %10: i64 = add %3, %9
  jump b1(%10)
b8:
  return
}"#;
        let expected = "varying: %2 %3 %4 %5 %6 %8 %9 %10 diverged: b1 b2 b3 b4 b5 b6 b7 b8";
        assert_eq!(analyse(text), expected);
    }

    #[test]
    fn what_is_loaded_behind_an_acquiring_operation_varies() {
        let varying = |operation: &str| {
            let text = format!(
                "kernel \"k\"(%0: ptr(global) @ 0, %1: ptr(local) @ 8 local_offset) {{\nb0:\n  {operation}\n  %3: ptr(global) = \
                 address %0 + 64\n  %4: i32 = load %3, align 4\n  return\n}}"
            );
            analyse(&text).contains("%4")
        };
        for operation in [
            "%2: i32 = load atomic acquire %0, align 4",
            "%2: i32 = load atomic seq_cst %0, align 4",
            "%2: i32 = rmw atomic acq_rel add %0, 1:i32, align 4",
            "%2: {i32, i1} = cmpxchg monotonic acquire %0, 1:i32, 2:i32, align 4",
            "fence acquire",
        ] {
            assert!(varying(operation), "{operation}");
        }
        for operation in [
            "%2: i32 = load atomic monotonic %0, align 4",
            "fence release",
            "%2: i32 = rmw atomic seq_cst add %1, 1:i32, align 4",
        ] {
            assert!(!varying(operation), "{operation}");
        }
    }

    #[test]
    fn what_leaves_a_divergent_loop_varies() {
        let text = r#"kernel "k"(%0: ptr(global) @ 0) {
b0:
  %1: i32 = load %0, align 4
  %2: i64 = global_id 0
  jump b1(0:i64)
b1(%3: i64):
  %4: i64 = add %3, 1:i64
  %5: i1 = icmp ult %4, %2
  branch %5, b1(%4), b2
b2:
  %6: i64 = add %4, 1:i64
  store %0, %6, align 8
  %7: i32 = load %0, align 4
  return
}"#;
        // %4 is used behind the loop, so it varies, and with it the parameter that it becomes.
        assert_eq!(analyse(text), "varying: %2 %3 %4 %5 %6 %7 diverged: b1");
    }
}
