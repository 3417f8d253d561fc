//! Transform: a loop in which all work-items of a group do the same, and nothing but compute, runs once for the group.
//!
//! Barriers around it make it a region of its own, which [`super::form_regions`] sees to be the same for all. Such loops are looked for
//! where every work-item comes by: in front of all branches.

use crate::analysis::{ControlFlow, Frequencies, LoopId, Loops, Uniformity};
use crate::{Block, Function, Inst, Op, Target, Terminator, Value};
use std::collections::HashSet;

/// What takes less than so many instructions is not worth two borders.
const LEAST_WORK: u64 = 100;

/// At most so many loops of a kernel, one behind the other.
const MOST_LOOPS: usize = 8;

/// Parts such loops from what comes before and behind them.
pub fn part_uniform_loops(kernel: &mut Function) {
    let mut start = Some(Block(0));
    for _ in 0..MOST_LOOPS {
        start = start.and_then(|start| Some(find(kernel, start)?.part(kernel)));
    }
}

/// A loop that runs once for the group, and how it is come by.
struct UniformLoop {
    /// Blocks that lead to it, one behind the other.
    before: Vec<Block>,
    /// The way out: the block that it leaves, and the number among its terminator's targets.
    exit: (Block, usize),
    /// Values that the loop uses.
    used: HashSet<Value>,
}

/// The first loop behind `start`, if it is such a one, and all that comes before it just computes.
fn find(kernel: &Function, start: Block) -> Option<UniformLoop> {
    let flow = ControlFlow::new(kernel);
    let loops = Loops::new(&flow)?;
    let (mut before, mut at) = (Vec::new(), start);
    let id = loop {
        if let Some(id) = loops.innermost(at) {
            break id;
        }
        let Terminator::Jump(onward) = &kernel.block(at).terminator else { return None };
        if kernel.block(at).insts.iter().any(|&inst| kernel.op(inst).has_effect()) {
            return None;
        }
        before.push(at);
        at = onward.block;
    };
    let blocks: Vec<Block> =
        flow.reverse_post_order().iter().copied().filter(|&b| loops.contains(id, b)).collect();
    let exit = only_exit(kernel, &loops, id, &blocks).filter(|_| !before.is_empty())?;
    let insts = || blocks.iter().flat_map(|&block| &kernel.block(block).insts).copied();
    let computes = |inst: Inst| {
        let op = kernel.op(inst);
        !op.has_effect() && !matches!(op, Op::SlotAddress(_) | Op::ContextAddress(_))
    };
    let waits = |block: &Block| matches!(kernel.block(*block).terminator, Terminator::Barrier(_));
    if !insts().all(computes) || blocks.iter().any(waits) {
        return None;
    }
    let uniformity = Uniformity::new(kernel, &flow);
    let same = |block: &Block| {
        let data = kernel.block(*block);
        let results = data.insts.iter().filter_map(|&inst| kernel.result(inst));
        let mut values =
            data.terminator.condition().into_iter().chain(data.params.iter().copied()).chain(results);
        uniformity.is_converged(*block) && values.all(|value| uniformity.is_uniform(value))
    };
    let has_parts = || blocks.iter().any(|&block| loops.innermost(block) != Some(id));
    let work = || {
        let iterations = Frequencies::new(kernel, &flow, &loops).iterations(id);
        iterations.map_or(u64::MAX, |n| n.saturating_mul(insts().count() as u64))
    };
    if !blocks.iter().all(same) || !(has_parts() || work() >= LEAST_WORK) {
        return None;
    }
    let mut used: HashSet<Value> = HashSet::new();
    insts().for_each(|inst| {
        kernel.op(inst).visit_operands(|value| {
            used.insert(value);
        })
    });
    used.extend(blocks.iter().flat_map(|&block| kernel.block(block).terminator.operands()));
    Some(UniformLoop { before, exit, used })
}

/// The one edge that leads out of a loop.
fn only_exit(kernel: &Function, loops: &Loops, id: LoopId, blocks: &[Block]) -> Option<(Block, usize)> {
    let mut exits = blocks.iter().flat_map(|&block| {
        let targets = kernel.block(block).terminator.targets().into_iter().enumerate();
        targets
            .filter(|(_, target)| !loops.contains(id, target.block))
            .map(move |(number, _)| (block, number))
    });
    exits.next().filter(|_| exits.next().is_none())
}

impl UniformLoop {
    /// Puts a barrier in front of the loop and one behind it. Returns the block behind them, which computes what the loop had no use for.
    fn part(mut self, kernel: &mut Function) -> Block {
        let [end, behind] = std::array::from_fn(|_| kernel.add_block());
        let (from, number) = self.exit;
        let mut targets = kernel.blocks[from.index()].terminator.targets_mut();
        let onward = std::mem::replace(&mut *targets[number], Target::to(end));
        kernel.set_terminator(end, Terminator::Barrier(Target::to(behind)));
        for inst in self.take_unused(kernel) {
            kernel.append(behind, inst);
        }
        kernel.set_terminator(behind, Terminator::Jump(onward));
        if let Some(&last) = self.before.last()
            && let Terminator::Jump(onward) = kernel.block(last).terminator.clone()
        {
            kernel.set_terminator(last, Terminator::Barrier(onward));
        }
        behind
    }

    /// Takes away what is computed before the loop for what comes behind it: in the same order, so that it need not be kept meanwhile.
    fn take_unused(&mut self, kernel: &mut Function) -> Vec<Inst> {
        let mut taken = Vec::new();
        for &block in self.before.iter().rev() {
            self.used.extend(kernel.block(block).terminator.operands());
            let insts = std::mem::take(&mut kernel.blocks[block.index()].insts);
            let mut kept = Vec::new();
            for inst in insts.into_iter().rev() {
                if kernel.result(inst).is_some_and(|result| !self.used.contains(&result)) {
                    taken.push(inst);
                } else {
                    kernel.op(inst).visit_operands(|value| {
                        self.used.insert(value);
                    });
                    kept.push(inst);
                }
            }
            kept.reverse();
            kernel.blocks[block.index()].insts = kept;
        }
        taken.reverse();
        taken
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::transform::form_regions;
    use crate::{parse, verify};

    /// Which regions run once, of a kernel that loads a number of its own, has a loop with this body, and stores what comes of both.
    /// %1 is a size, %2 a buffer, %5 the counter, %6 what is carried, %7 the next one.
    fn once(before: &str, body: &str) -> Vec<bool> {
        let text = format!(
            "kernel \"k\"(%0: ptr(global) @ 0, %1: i64 @ 8, %2: ptr(global) @ 16) {{\nb0:\n  %3: i64 = global_id 0\n  %4: ptr(global) = address %0 + %3*4 + 0\n\
             %20: f32 = load %4, align 4\n{before}  jump b1(0:i64, 0x0:f32)\n\
             b1(%5: i64, %6: f32):\n  %8: i1 = icmp ult %5, %1\n  branch %8, b2, b3\nb2:\n{body}  %9: i64 = add %5, 1:i64\n  jump b1(%9, %7)\n\
             b3:\n  %21: f32 = fadd %20, %6\n  store %4, %21, align 4\n  return\n}}"
        );
        let mut kernel = parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        part_uniform_loops(&mut kernel);
        verify(&kernel).unwrap_or_else(|e| panic!("{e}\n{kernel}"));
        let group = form_regions(kernel);
        group
            .regions
            .iter()
            .for_each(|region| verify(&region.body).unwrap_or_else(|e| panic!("{e}\n{group}")));
        group.regions.iter().map(|region| region.once).collect()
    }

    const SUM: &str = "  %10: ptr(global) = address %2 + %5*4 + 0\n  %11: f32 = load %10, align 4\n  %7: f32 = fadd %6, %11\n";

    #[test]
    fn what_all_do_alike_runs_once() {
        assert_eq!(once("", SUM), [true, true, false]);
    }

    #[test]
    fn what_differs_or_has_effects_stays() {
        let of_item = SUM.replace("%2 + %5*4", "%4 + %5*4");
        let stored = format!("{SUM}  store %10, %7, align 4\n");
        for body in [of_item, stored, "  %7: f32 = fadd %6, %20\n".to_owned()] {
            assert_eq!(once("", &body), [false], "{body}");
        }
        assert_eq!(once("  store %4, %20, align 4\n", SUM), [false], "what was stored may be what is loaded");
    }

    #[test]
    fn loops_with_barriers_stay() {
        let text = "kernel \"k\"(%0: ptr(global) @ 0, %1: i64 @ 8) {\nb0:\n  jump b1(0:i64)\nb1(%5: i64):\n  barrier b2\nb2:\n  %9: i64 = add %5, 1:i64\n\
                    %8: i1 = icmp ult %9, %1\n  branch %8, b1(%9), b3\nb3:\n  store %0, %9, align 8\n  return\n}";
        let mut kernel = parse(text).unwrap();
        let before = kernel.to_string();
        part_uniform_loops(&mut kernel);
        assert_eq!(kernel.to_string(), before);
    }

    #[test]
    fn loops_behind_each_other_are_parted_up_to_a_number() {
        let text = |loops: usize| {
            let each: String = (0..loops)
                .map(|i| {
                    let [head, body, next] = [2 * i + 1, 2 * i + 2, 2 * i + 3];
                    let [at, sum, more, square, count] = [0, 1, 2, 3, 4].map(|n| 10 * (i + 1) + n);
                    format!(
                        "b{head}(%{at}: i64, %{sum}: f32):\n  %{more}: i1 = icmp ult %{at}, 1000:i64\n  branch %{more}, b{body}, b{next}(0:i64, %{sum})\n\
                         b{body}:\n  %{square}: f32 = fmul %{sum}, %{sum}\n  %{count}: i64 = add %{at}, 1:i64\n  jump b{head}(%{count}, %{square})\n"
                    )
                })
                .collect();
            let last = 2 * loops + 1;
            format!(
                "kernel \"k\"(%0: ptr(global) @ 0, %1: f32 @ 8) {{\nb0:\n  jump b1(0:i64, %1)\n{each}\
                 b{last}(%2: i64, %3: f32):\n  %4: i64 = global_id 0\n  %5: ptr(global) = address %0 + %4*4 + 0\n  store %5, %3, align 4\n  return\n}}"
            )
        };
        for (loops, parted) in [(1, 1), (3, 3), (MOST_LOOPS, MOST_LOOPS), (MOST_LOOPS + 2, MOST_LOOPS)] {
            let mut kernel = parse(&text(loops)).unwrap_or_else(|e| panic!("{e}\n{}", text(loops)));
            part_uniform_loops(&mut kernel);
            verify(&kernel).unwrap_or_else(|e| panic!("{e}\n{kernel}"));
            let barriers =
                kernel.blocks.iter().filter(|block| matches!(block.terminator, Terminator::Barrier(_)));
            assert_eq!(barriers.count(), 2 * parted, "{kernel}");
        }
    }

    #[test]
    fn short_loops_stay() {
        let text = |bound: u64| {
            format!(
                "kernel \"k\"(%0: ptr(global) @ 0, %1: f32 @ 8) {{\nb0:\n  jump b1(0:i64, %1)\n\
                 b1(%5: i64, %6: f32):\n  %8: i1 = icmp ult %5, {bound}:i64\n  branch %8, b2, b3\nb2:\n  %7: f32 = fmul %6, %6\n  %9: i64 = add %5, 1:i64\n  jump b1(%9, %7)\n\
                 b3:\n  %3: i64 = global_id 0\n  %4: ptr(global) = address %0 + %3*4 + 0\n  store %4, %6, align 4\n  return\n}}"
            )
        };
        for (bound, regions) in [(4, 1), (1000, 3)] {
            let mut kernel = parse(&text(bound)).unwrap();
            part_uniform_loops(&mut kernel);
            assert_eq!(form_regions(kernel).regions.len(), regions);
        }
    }
}
