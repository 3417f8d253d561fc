//! Widening: loops that lanes leave seldom, as searches and iterations of which some lane is done now and then.
//!
//! Where lanes leave one by one, each iteration computes who stays, and keeps for each that leaves what it leaves with. In such a loop a
//! branch asks whether any lane leaves: mostly none does, the mask stays what it was, and no iteration waits for it. What is kept is kept
//! behind that branch, and where no lane is left the loop ends there.
//!
//! Which loops these are: those that also end for all lanes together. A bound that all share is far away, as a rule; one that each lane
//! has for itself, a row's end, is near, and the branch would go now here, now there.

use super::{Place, Schedule, Variable, Widener, values};
use crate::analysis::{
    ControlFlow, Dominators, Frequencies, LoopId, Loops, Mask, Masks, Node, Shape, Shapes,
};
use crate::{BinaryOp, Block, Function, Op, Target, Terminator, Value, ValueDef};
use std::collections::{HashMap, HashSet};

/// In loops that are known to be shorter, lanes leave too often.
const LEAST_ITERATIONS: u64 = 64;

/// Conditions that are and-ed or or-ed are looked at so deep.
const MOST_DEEP: u32 = 4;

/// The loops, and their ways out.
#[derive(Default)]
pub(super) struct SeldomLeft {
    /// Blocks at whose end some lane may leave, by loop.
    exits: HashMap<LoopId, Vec<Block>>,
}

/// A way out of such a loop: its number among the targets, and the other's, which stays.
#[derive(Clone, Copy)]
pub(super) struct WayOut {
    id: LoopId,
    pub(super) leaves: usize,
}

impl SeldomLeft {
    /// Of a region's body.
    pub(super) fn new(
        body: &Function,
        (flow, loops): (&ControlFlow, &Loops),
        (shapes, masks): (&Shapes, &Masks),
    ) -> SeldomLeft {
        let divergent = (0..loops.count()).map(LoopId).filter(|&id| shapes.is_divergent_loop(id));
        let mut found = SeldomLeft::default();
        let mut frequencies = None;
        for id in divergent {
            let Some(exits) = exits(body, (flow, loops), masks, id) else { continue };
            if !ends_together(body, shapes, &exits) {
                continue;
            }
            let frequencies = frequencies.get_or_insert_with(|| Frequencies::new(body, flow, loops));
            if frequencies.iterations(id).is_none_or(|count| count >= LEAST_ITERATIONS) {
                found.exits.insert(id, exits);
            }
        }
        found
    }

    /// Whether it is such a loop.
    pub(super) fn contains(&self, id: LoopId) -> bool {
        self.exits.contains_key(&id)
    }

    /// The way out at a block's end, if there is one.
    pub(super) fn way_out(&self, body: &Function, loops: &Loops, block: Block) -> Option<WayOut> {
        let id = loops.innermost(block)?;
        self.exits.get(&id)?.contains(&block).then_some(())?;
        let targets = body.block(block).terminator.targets();
        let leaves = targets.iter().position(|target| !loops.contains(id, target.block))?;
        Some(WayOut { id, leaves })
    }

    /// Takes out of `left`, which users behind loops see, what is known wherever such a loop is left, and says of each loop what that is.
    pub(super) fn take_known(
        &self,
        body: &Function,
        (flow, loops): (&ControlFlow, &Loops),
        left: &mut HashSet<Value>,
    ) -> HashMap<LoopId, Vec<Value>> {
        let mut taken: HashMap<LoopId, Vec<Value>> = HashMap::new();
        if self.exits.is_empty() {
            return taken;
        }
        let (homes, dominators) = (body.homes(), Dominators::new(flow));
        left.retain(|&value| {
            let Some(home) = homes[value.index()] else { return true };
            let Some(id) = loops.innermost(home) else { return true };
            let Some(exits) = self.exits.get(&id) else { return true };
            let is_known = exits.iter().all(|&exit| dominators.dominates(home, exit));
            if is_known {
                taken.entry(id).or_default().push(value);
            }
            !is_known
        });
        taken.values_mut().for_each(|values| values.sort());
        taken
    }
}

impl WayOut {
    /// The target that stays in the loop.
    pub(super) fn stays(self) -> usize {
        1 - self.leaves
    }
}

/// The blocks at whose ends the loop is left, if all lanes that are still in it come to each of them: who is left behind them is then
/// all that is left in the loop.
fn exits(
    body: &Function,
    (flow, loops): (&ControlFlow, &Loops),
    masks: &Masks,
    id: LoopId,
) -> Option<Vec<Block>> {
    let mut whole: Vec<Mask> = vec![masks.of(loops.get(id).header)];
    let mut exits = Vec::new();
    for &block in flow.reverse_post_order().iter().filter(|&&block| loops.contains(id, block)) {
        let terminator = &body.block(block).terminator;
        let targets: Vec<Block> = terminator.targets().iter().map(|target| target.block).collect();
        let stays: Vec<Block> =
            targets.iter().copied().filter(|&target| loops.contains(id, target)).collect();
        if !targets.is_empty() && stays.len() == targets.len() {
            continue;
        }
        let is_known = loops.innermost(block) == Some(id) && whole.contains(&masks.of(block));
        let (Terminator::Branch { .. }, [stays], true) = (terminator, &stays[..], is_known) else {
            return None;
        };
        if flow.predecessors(*stays) == [block] {
            whole.push(masks.of(*stays));
        }
        exits.push(block);
    }
    Some(exits)
}

/// Whether one of the conditions to leave, or a part of one, is the same for all lanes.
fn ends_together(body: &Function, shapes: &Shapes, exits: &[Block]) -> bool {
    exits.iter().any(|&block| {
        let condition = body.block(block).terminator.condition();
        condition.is_some_and(|condition| has_uniform_part(body, shapes, condition, MOST_DEEP))
    })
}

fn has_uniform_part(body: &Function, shapes: &Shapes, condition: Value, depth: u32) -> bool {
    if shapes.shape(condition) == Shape::Uniform {
        return !matches!(body.def(condition), ValueDef::Constant(_));
    }
    let ValueDef::Inst(inst) = body.def(condition) else { return false };
    let parts: Vec<Value> = match body.op(*inst) {
        Op::Binary { op: BinaryOp::And | BinaryOp::Or, lhs, rhs, .. } => vec![*lhs, *rhs],
        Op::Select { condition, then, otherwise, .. } => vec![*condition, *then, *otherwise],
        _ => return false,
    };
    depth > 0 && parts.into_iter().any(|part| has_uniform_part(body, shapes, part, depth - 1))
}

impl Widener<'_> {
    /// The way out of a loop that is seldom left at a block's end.
    pub(super) fn way_out(&self, block: Block) -> Option<WayOut> {
        self.facts.seldom_left.way_out(self.body, &self.facts.loops, block)
    }

    /// Lanes may leave at the end of this block: the others go on.
    pub(super) fn part_seldom(&mut self, block: Block, way: WayOut, outside: Block) {
        let Terminator::Branch { condition, then, otherwise } = &self.body.block(block).terminator else {
            unreachable!("a loop is left by branches")
        };
        let targets = [then, otherwise];
        let mask = self.mask();
        let condition = self.lanes_of(*condition)[0];
        let leaving = if way.leaves == 0 { condition } else { self.opposite(condition) };
        let leaving = self.both(mask, leaving);
        let all = mask.unwrap_or_else(|| self.all_lanes(self.lanes));
        let staying = self.new_variable();
        let [parts, rest, onward] = std::array::from_fn(|_| self.out.add_block());
        self.out.write(self.at, staying, all);
        self.branch_if_active(leaving, parts, onward);
        self.enter(parts);
        self.go_out(block, targets[way.leaves], way, Some(leaving));
        let left = self.binary(BinaryOp::Xor, all, leaving);
        self.branch_if_active(left, rest, outside);
        self.enter(rest);
        self.out.write(rest, staying, left);
        self.out.jump(rest, onward);
        self.enter(onward);
        let lanes = self.out.read(onward, staying);
        self.pass(block, targets[way.stays()], Some(lanes));
    }

    /// What an edge out of such a loop brings, and what the lanes that take it leave with.
    pub(super) fn go_out(&mut self, block: Block, target: &Target, way: WayOut, lanes: Option<Value>) {
        let values = self.left_at_exits.get(&way.id).cloned().unwrap_or_default();
        for value in values {
            self.keep(value, lanes);
        }
        self.pass(block, target, lanes);
    }

    /// Where control goes that leaves the loop, for all lanes have.
    pub(super) fn outside(&self, way: WayOut, plan: &Schedule, places: &[Place]) -> Block {
        let end = plan.steps.iter().find(|step| matches!(step.node, Node::Loop(id) if id == way.id));
        let out = end.and_then(|end| end.ways.get(1));
        places[out.copied().unwrap_or(plan.steps.len())].entry
    }

    /// Before the loop there is nothing that lanes have left with.
    pub(super) fn forget_left(&mut self) {
        let mut left: Vec<Value> =
            self.left.iter().chain(self.left_at_exits.values().flatten()).copied().collect();
        left.sort();
        for value in left {
            for (c, scalar) in values::components(self.body.ty(value)).into_iter().enumerate() {
                let poison = self.constant(self.wide(scalar), crate::Constant::Poison);
                self.out.write(self.at, Variable::Left(value, c as u32), poison);
            }
        }
    }

    fn enter(&mut self, block: Block) {
        self.out.close(block);
        self.at = block;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;
    use crate::transform::form_regions;
    use crate::transform::widen::{Facts, widen};

    /// A loop whose conditions to go on these are: %2 is the work-item, %4 a word of its own, %5 the counter, %7 a word that all share, %12 a
    /// bound for all.
    fn searched(first: &str, second: &str) -> String {
        format!(
            "kernel \"k\"(%0: ptr(global) @ 0, %1: ptr(global) @ 8, %12: i64 @ 16) {{\nb0:\n  %2: i64 = global_id 0\n  \
             %3: ptr(global) = address %1 + %2*4 + 0\n  %4: i32 = load %3, align 4\n  jump b1(0:i64)\nb1(%5: i64):\n  \
             %6: i1 = {first}\n  branch %6, b2, b3\nb2:\n  %8: ptr(global) = address %0 + %5*4 + 0\n  \
             %7: i32 = load %8, align 4\n  %9: i1 = {second}\n  %10: i64 = add %5, 1:i64\n  branch %9, b1(%10), b3\n\
             b3:\n  %11: i32 = trunc %5\n  store %3, %11, align 4\n  return\n}}"
        )
    }

    fn facts(text: &str, with: impl FnOnce(&Function, &Facts)) {
        let group = form_regions(parse(text).unwrap_or_else(|e| panic!("{e}\n{text}")));
        let body = &group.regions[0].body;
        with(body, &Facts::new(body, &group.context, 16).unwrap());
    }

    fn is_seldom_left(text: &str) -> bool {
        let mut found = false;
        facts(text, |_, facts| found = facts.seldom_left.contains(LoopId(0)));
        found
    }

    const SHARED: &str = "icmp ult %5, %12";
    const OWN: &str = "icmp ult %7, %4";

    #[test]
    fn a_loop_that_also_ends_for_all_is_seldom_left() {
        assert!(
            is_seldom_left(&searched(SHARED, OWN))
                && is_seldom_left(&searched(OWN.replace("%7", "%4").as_str(), SHARED))
        );
        assert!(!is_seldom_left(&searched("icmp ult %5, %2", OWN)), "each has a bound of its own");
        assert!(!is_seldom_left(&searched(SHARED, "icmp ult %7, 9:i32")), "nobody leaves alone");
        assert!(!is_seldom_left(&searched("icmp ult %5, 9:i64", OWN)), "it is short");
        assert!(is_seldom_left(&searched("icmp ult %5, 900:i64", OWN)));
        // Both in one condition.
        let both = searched(SHARED, OWN)
            .replace("branch %6, b2, b3", "jump b2")
            .replace("branch %9, b1", "%13: i1 = select %9, %6, 0:i1\n  branch %13, b1");
        assert!(is_seldom_left(&both));
    }

    #[test]
    fn what_lanes_leave_with_is_kept_behind_the_question_who_leaves() {
        let text = searched(SHARED, OWN);
        let group = form_regions(parse(&text).unwrap());
        let wide = widen(&group.regions[0], None, &group.context, 16).unwrap().body.to_string();
        // The counter is kept in one block for those that leave it alone, and in one for all.
        let choices: Vec<&str> =
            wide.split("\nb").filter(|block| block.contains(": <16 x i64> = select")).collect();
        assert_eq!(choices.len(), 2, "{wide}");
        let asks = |block: &str| block.contains("icmp ne") || block.contains("<16 x i32> = icmp");
        assert!(choices.iter().all(|block| !block.contains("load")), "{wide}");
        assert!(choices.iter().filter(|block| asks(block)).count() <= 1, "{wide}");
    }

    #[test]
    fn what_only_some_ways_out_know_is_kept_where_it_is_computed() {
        facts(&searched(SHARED, OWN), |body, facts| {
            let loops = (&facts.flow, &facts.loops);
            let named = |number: usize| {
                body.block_ids().flat_map(|b| body.block(b).params.clone()).nth(number).unwrap()
            };
            let counter = named(0);
            // What is loaded in the second block is not known in the first.
            let in_loop = body.block_ids().filter(|&block| facts.loops.innermost(block).is_some());
            let insts = in_loop.flat_map(|block| body.block(block).insts.clone());
            let loads = insts.filter(|&inst| matches!(body.op(inst), Op::Load { .. }));
            let word = loads.filter_map(|inst| body.result(inst)).next().unwrap();
            let mut left = HashSet::from([counter, word]);
            let taken = facts.seldom_left.take_known(body, loops, &mut left);
            let known: Vec<Value> = taken.into_values().flatten().collect();
            assert!(
                known.contains(&counter) && !known.contains(&word) && left == HashSet::from([word]),
                "{known:?} {left:?}"
            );
        });
    }
}
