//! Widening: in which order a pack runs through the blocks of a region.
//!
//! Partial linearization (Moll and Hack, PLDI 2018): blocks stand in a topological order in which loops stay together;
//! uniform branches stay branches; where lanes part, the ways are run one after the other, each under its mask, while lanes
//! wait at the later ones. At every point control goes to the first block at which lanes may wait, so that none is passed over.

use super::Facts;
use super::leaving::SeldomLeft;
use crate::analysis::{LoopId, Loops, Mask, Masks, Node, Shape, Shapes, linear_order};
use crate::transform::ContextKind;
use crate::{Block, Function, Inst, Op, Terminator, Type, UnaryOp, Value};
use std::collections::BTreeSet;

/// One node of the order: a block, or the end of a loop's iteration (where lanes that stay in the loop wait for each other).
#[derive(Clone, Debug)]
pub(super) struct Step {
    /// The block, or the loop whose iteration ends.
    pub node: Node,
    /// Where to go instead if no lane is active; without it the block runs.
    pub skip: Option<usize>,
    /// Where to go next, as step numbers: one for each target of a uniform branch, else the only one. A loop's end goes
    /// on to the header, and from a divergent loop to the second when no lane is left. The steps' count means the end.
    pub ways: Vec<usize>,
}

/// The steps in order.
pub(super) struct Schedule {
    pub steps: Vec<Step>,
    /// The step of each block.
    pub step_of: Vec<usize>,
}

/// The order for a body, whose blocks' values that cross barriers are of these kinds.
pub(super) fn schedule(function: &Function, facts: &Facts, context: &[ContextKind]) -> Schedule {
    let Facts { flow, loops, shapes, masks, seldom_left, .. } = facts;
    let order = linear_order(function, flow, loops);
    let mut step_of = vec![order.len(); function.blocks.len()];
    let mut end_of = vec![order.len(); loops.count()];
    for (i, node) in order.iter().enumerate() {
        match node {
            Node::Block(block) => step_of[block.index()] = i,
            Node::Loop(id) => end_of[id.0] = i,
        }
    }
    let size = order.len();
    let mut cost_before = vec![0];
    for node in &order {
        let cost = if let Node::Block(block) = node { block_cost(function, shapes, *block) } else { 0 };
        cost_before.push(cost_before[cost_before.len() - 1] + cost);
    }
    let planner = Planner {
        function,
        loops,
        shapes,
        masks,
        seldom_left,
        context,
        cost_before,
        order,
        step_of,
        end_of,
        waiting: vec![BTreeSet::new(); size + 1],
        maybe_empty: vec![false; size + 1],
    };
    planner.plan()
}

/// At least that many vector operations are worth a test whether any lane is active.
const GUARDED_COST: usize = 12;

/// Whether something in a block is done once for all lanes: it must not run where no lane is active.
fn acts_once(body: &Function, shapes: &Shapes, context: &[ContextKind], block: Block) -> bool {
    let data = body.block(block);
    let uniform = |v: Value| shapes.shape_at(v, block) == Shape::Uniform;
    let acts_once = |op: &Op| match op {
        Op::Load { pointer, .. } => uniform(*pointer),
        Op::Store { pointer, .. } => uniform(*pointer),
        Op::ContextStore(slot, _) => matches!(context[slot.0 as usize], ContextKind::Uniform(_)),
        Op::Unary { op: UnaryOp::Freeze, .. } => false,
        op => op.has_effect() || !op.is_speculatable(),
    };
    matches!(data.terminator, Terminator::Exit(_))
        || data.insts.iter().any(|&i| acts_once(body.op(i)) || loads_vector(body, i))
}

/// Vector operations of a block, roughly.
fn block_cost(body: &Function, shapes: &Shapes, block: Block) -> usize {
    body.block(block).insts.iter().map(|&i| weight(body, shapes, block, i)).sum()
}

/// Whether it loads vectors: lanes that are not active load what an active one does.
fn loads_vector(body: &Function, inst: Inst) -> bool {
    let result = body.result(inst).filter(|_| matches!(body.op(inst), Op::Load { .. }));
    result.is_some_and(|result| matches!(body.ty(result), Type::Vector(..)))
}

/// Vector operations of an instruction, roughly.
fn weight(body: &Function, shapes: &Shapes, block: Block, inst: Inst) -> usize {
    let Some(result) = body.result(inst) else { return 2 };
    if shapes.shape_at(result, block) != Shape::Varying {
        return 0;
    }
    let lanes = super::values::components(body.ty(result)).len();
    match body.op(inst) {
        Op::Load { .. } | Op::Call { .. } => 4 * lanes,
        _ => lanes,
    }
}

struct Planner<'a> {
    function: &'a Function,
    loops: &'a Loops,
    shapes: &'a Shapes,
    masks: &'a Masks,
    seldom_left: &'a SeldomLeft,
    context: &'a [ContextKind],
    /// The vector operations in front of each step.
    cost_before: Vec<usize>,
    order: Vec<Node>,
    step_of: Vec<usize>,
    end_of: Vec<usize>,
    /// The later steps at which lanes may wait when control comes to a step.
    waiting: Vec<BTreeSet<usize>>,
    /// Whether control may come there although no lane does.
    maybe_empty: Vec<bool>,
}

impl Planner<'_> {
    fn plan(mut self) -> Schedule {
        let mut steps = Vec::new();
        for at in 0..self.order.len() {
            let step = match self.order[at] {
                Node::Block(block) => self.block(at, block),
                Node::Loop(id) => self.loop_end(at, id),
            };
            steps.push(step);
        }
        Schedule { steps, step_of: self.step_of }
    }

    fn block(&mut self, at: usize, block: Block) -> Step {
        let empty = match self.masks.of(block) {
            Mask::Full => false,
            Mask::Of(first) if first == block => self.maybe_empty[at],
            Mask::Of(first) => self.maybe_empty[self.step_of[first.index()]],
        };
        self.maybe_empty[at] = empty;
        let waiting = self.waiting[at].clone();
        let targets: Vec<Block> =
            self.function.block(block).terminator.targets().iter().map(|t| t.block).collect();
        let is_header = self.loops.innermost(block).is_some_and(|id| self.loops.get(id).header == block);
        let decides = targets.len() > 1 && !self.shapes.is_divergent_branch(block);
        let mut skip = None;
        if empty
            && let Some(&first) = waiting.first()
            && (is_header
                || decides
                || self.wants_all_lanes_guard(at, block, first)
                || self.goes_on_beyond(block))
        {
            self.maybe_empty[at] = false;
            self.go(at, first, waiting.clone());
            self.maybe_empty[first] = true;
            skip = Some(first);
        }
        let ways = if targets.is_empty() {
            let to = self.leave(self.loops.innermost(block), None);
            vec![self.certain(at, to, waiting)]
        } else if self.shapes.is_divergent_branch(block) {
            let from = self.loops.innermost(block);
            match self.seldom_left.way_out(self.function, self.loops, block) {
                // Lanes that leave are no longer asked for in the loop.
                Some(way) => {
                    let to = self.leave(from, Some(targets[way.stays()]));
                    vec![self.certain(at, to, waiting)]
                }
                None => {
                    let to: BTreeSet<usize> = targets.iter().map(|&t| self.leave(from, Some(t))).collect();
                    vec![self.part(at, to, waiting)]
                }
            }
        } else {
            let from = self.loops.innermost(block);
            targets
                .iter()
                .map(|&target| {
                    let to = self.leave(from, Some(target));
                    // All lanes of a uniform loop leave it together: none waits in it.
                    let kept = waiting.iter().copied().filter(|&w| !self.left_behind(block, to, w)).collect();
                    self.certain(at, to, kept)
                })
                .collect()
        };
        Step { node: Node::Block(block), skip, ways }
    }

    /// Whether a block wants an all-lanes guard (a branch around it where no lane is active, BOSCC): something in it is done once for all lanes,
    /// or what lies in front of the step at which lanes may wait, all of which is skipped, is long.
    fn wants_all_lanes_guard(&self, at: usize, block: Block, first: usize) -> bool {
        self.cost_before[first] - self.cost_before[at] >= GUARDED_COST
            || acts_once(self.function, self.shapes, self.context, block)
    }

    /// Whether a block comes behind the question whether its loop goes on, which accesses memory. When the last lanes have left, that memory may
    /// lie beyond the buffer, where none may be: processors take a hundred cycles to find that no lane of an access is active.
    fn goes_on_beyond(&self, block: Block) -> bool {
        let Some(id) = self.loops.innermost(block).filter(|id| self.shapes.is_divergent_loop(*id)) else {
            return false;
        };
        let blocks = || self.loops.get(id).blocks.ones().map(|number| Block(number as u32));
        let asks = |from: Block| {
            let targets = self.function.block(from).terminator.targets();
            targets.iter().any(|to| to.block == block)
                && targets.iter().any(|to| !self.loops.contains(id, to.block))
        };
        let accesses = |&inst: &Inst| matches!(self.function.op(inst), Op::Load { .. } | Op::Store { .. });
        blocks().any(asks) && blocks().any(|of| self.function.block(of).insts.iter().any(accesses))
    }

    fn loop_end(&mut self, at: usize, id: LoopId) -> Step {
        let header = self.loops.get(id).header;
        let mut ways = vec![self.step_of[header.index()]];
        if self.shapes.is_divergent_loop(id) {
            let parent = self.loops.get(id).parent;
            let to: BTreeSet<usize> =
                self.exits(id).into_iter().map(|target| self.leave(parent, target)).collect();
            let waiting = self.waiting[at].clone();
            let only = to.iter().copied().next().filter(|_| to.len() == 1);
            self.maybe_empty[at] = false;
            ways.push(match only {
                Some(to) => self.certain(at, to, waiting),
                None => self.part(at, to, waiting),
            });
        }
        Step { node: Node::Loop(id), skip: None, ways }
    }

    /// The blocks to which a loop is left; none stands for the function's end.
    fn exits(&self, id: LoopId) -> Vec<Option<Block>> {
        let blocks = self.loops.get(id).blocks.ones().map(|b| Block(b as u32));
        let targets = blocks.flat_map(|b| {
            let targets = self.function.block(b).terminator.targets();
            let none = targets.is_empty().then_some(None);
            targets.into_iter().map(|t| Some(t.block)).chain(none).collect::<Vec<_>>()
        });
        targets.filter(|t| t.is_none_or(|b| !self.loops.contains(id, b))).collect()
    }

    /// The step at which a lane waits that goes to `target` (none: the end) from within `from`: iterations of loops and
    /// divergent loops end together.
    fn leave(&self, from: Option<LoopId>, target: Option<Block>) -> usize {
        for id in self.loops.around(from) {
            match target {
                Some(block) if self.loops.get(id).header == block => return self.end_of[id.0],
                Some(block) if self.loops.contains(id, block) => break,
                _ if self.shapes.is_divergent_loop(id) => return self.end_of[id.0],
                _ => {}
            }
        }
        target.map_or(self.order.len(), |block| self.step_of[block.index()])
    }

    fn left_behind(&self, from: Block, to: usize, waiting: usize) -> bool {
        let inside = |id: LoopId, step: usize| match self.order.get(step) {
            Some(Node::Block(block)) => self.loops.contains(id, *block),
            Some(Node::Loop(inner)) => self.loops.contains(id, self.loops.get(*inner).header),
            None => false,
        };
        self.loops.around(self.loops.innermost(from)).any(|id| !inside(id, to) && inside(id, waiting))
    }

    /// All active lanes go to one step.
    fn certain(&mut self, at: usize, to: usize, mut waiting: BTreeSet<usize>) -> usize {
        waiting.insert(to);
        let next = waiting.first().copied().unwrap_or(to);
        if next != to || self.maybe_empty[at] {
            self.maybe_empty[to] = true;
        }
        self.go(at, next, waiting);
        next
    }

    /// Active lanes go to several steps.
    fn part(&mut self, at: usize, to: BTreeSet<usize>, mut waiting: BTreeSet<usize>) -> usize {
        to.iter().for_each(|&t| self.maybe_empty[t] = true);
        waiting.extend(to);
        let next = waiting.first().copied().unwrap_or(self.order.len());
        self.go(at, next, waiting);
        next
    }

    fn go(&mut self, at: usize, next: usize, waiting: BTreeSet<usize>) {
        debug_assert!(next > at, "control went back from {at} to {next}");
        self.waiting[next].extend(waiting.into_iter().filter(|&w| w != next));
    }
}

#[cfg(test)]
mod tests {
    use crate::parse;
    use crate::transform::form_regions;
    use crate::transform::widen::widen;

    /// Branches of a pack whose lanes go by steps of the NDRange's size, and do this.
    fn branches(body: &str, exit: &str) -> usize {
        let text = format!(
            "kernel \"k\"(%0: ptr(global) @ 0, %1: i64 @ 8) {{
b0:
  %2: i64 = global_id 0
  %3: i64 = global_size 0
  jump b1(%2)
b1(%4: i64):
  %5: i1 = icmp slt %4, %1
  branch %5, b2, {exit}
b2:
{body}  %9: i64 = add %4, %3
  jump b1(%9)
{exit}:
  return
}}"
        );
        branches_of(&text)
    }

    fn branches_of(text: &str) -> usize {
        let group = form_regions(parse(text).unwrap_or_else(|e| panic!("{e}\n{text}")));
        let body = widen(&group.regions[0], None, &group.context, 16).unwrap().body.to_string();
        body.matches("  branch ").count()
    }

    /// `each` additions in each of three blocks for some lanes, the second one for fewer of them (whose sum nobody needs).
    fn branches_around_three_blocks(each: usize) -> usize {
        let mut last = 4;
        let mut additions = || {
            let lines = (0..each).map(|_| {
                last += 1;
                format!("  %{last}: i32 = add %{}, %4\n", last - 1)
            });
            (lines.collect::<String>(), last)
        };
        let (first, at_first) = additions();
        let (second, at_second) = additions();
        let (third, at_third) = additions();
        branches_of(&format!(
            "kernel \"k\"(%0: ptr(global) @ 0) {{
b0:
  %1: i64 = global_id 0
  %2: ptr(global) = address %0 + %1*4 + 0
  %4: i32 = load %2, align 4
  %91: i1 = icmp sgt %4, 7:i32
  branch %91, b1, b4(%4)
b1:
{first}  %92: i1 = icmp sgt %{at_first}, 9:i32
  branch %92, b2, b3
b2:
{second}  jump b3
b3:
{}  jump b4(%{at_third})
b4(%93: i32):
  store %2, %93, align 4
  return
}}",
            third.replacen(&format!("add %{at_second},"), &format!("add %{at_first},"), 1)
        ))
    }

    #[test]
    fn a_guard_is_worth_all_the_blocks_that_it_skips() {
        assert_eq!(branches_around_three_blocks(2), 0);
        assert_eq!(branches_around_three_blocks(8), 1);
    }

    #[test]
    fn nothing_is_accessed_behind_the_last_iteration() {
        let access = "  %6: ptr(global) = address %0 + %4*4 + 0\n  %7: i32 = load %6, align 4\n  store %6, %7, align 4\n";
        assert_eq!(branches(access, "b3"), 2);
        let later =
            format!("  %8: i1 = icmp eq %4, 7:i64\n  branch %8, b3, b4\nb3:\n{access}  jump b4\nb4:\n");
        assert_eq!(branches(&later, "b5"), 2, "nor later in it");
        assert_eq!(branches("", "b3"), 1);
    }
}
