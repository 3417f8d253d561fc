//! Transform: work-group functions become barriers and what regions know.
//!
//! A reduction is a value that each work-item adds to a context slot before a barrier and that the group has behind it;
//! several that stand together share a barrier. A scan needs none: work-items run one after the other, packs as well, in
//! the order of their numbers, and each takes what those before it left. But they must do so once in a region: in a loop a
//! scan is the first thing behind a barrier.

use super::ContextKind;
use crate::analysis::ControlFlow;
use crate::{Block, ContextSlot, Function, Inst, Op, ReduceOp, Target, Terminator, Value, ValueDef};

/// Expands the work-group functions of a kernel. Yields the slots that they use.
pub(super) fn expand(kernel: &mut Function) -> Vec<ContextKind> {
    let uses = |op: &Op| matches!(op, Op::GroupReduce { .. } | Op::GroupScan { .. });
    let users: Vec<Block> =
        kernel.block_ids().filter(|&b| kernel.block(b).insts.iter().any(|&i| uses(kernel.op(i)))).collect();
    if users.is_empty() {
        return Vec::new();
    }
    let flow = ControlFlow::new(kernel);
    let mut expander = Expander { kernel, slots: Vec::new() };
    for block in users {
        let begins_region = match flow.predecessors(block) {
            [only] => matches!(expander.kernel.block(*only).terminator, Terminator::Barrier(_)),
            _ => false,
        };
        expander.block(block, begins_region || !flow.is_in_loop(block));
    }
    expander.slots
}

struct Expander<'k> {
    kernel: &'k mut Function,
    slots: Vec<ContextKind>,
}

impl Expander<'_> {
    fn slot(&mut self, kind: ContextKind) -> ContextSlot {
        self.slots.push(kind);
        ContextSlot(self.slots.len() as u32 - 1)
    }

    /// `once`: whether work-items come here at most once in a region.
    fn block(&mut self, mut block: Block, mut once: bool) {
        let mut insts = std::mem::take(&mut self.kernel.blocks[block.index()].insts).into_iter();
        while let Some(inst) = insts.next() {
            match *self.kernel.op(inst) {
                Op::GroupReduce { .. } => {
                    let rest: Vec<Inst> = insts.collect();
                    let (together, rest) = self.independent(inst, rest);
                    block = self.reduce(block, &together);
                    (insts, once) = (rest.into_iter(), true);
                }
                Op::GroupScan { op, inclusive, value } => {
                    if !once {
                        block = self.wait(block);
                        once = true;
                    }
                    let slot = self.slot(ContextKind::Carry(op, self.kernel.ty(value).clone()));
                    *self.kernel.op_mut(inst) = Op::ContextScan { slot, inclusive, value };
                    self.kernel.append(block, inst);
                }
                _ => self.kernel.append(block, inst),
            }
        }
    }

    /// The first reduction with those of the rest that need nothing of what is between, and what is left.
    fn independent(&self, first: Inst, rest: Vec<Inst>) -> (Vec<Inst>, Vec<Inst>) {
        let kernel = &*self.kernel;
        let later: Vec<Value> =
            std::iter::once(&first).chain(&rest).filter_map(|&i| kernel.result(i)).collect();
        let is_there = |value: Value| match kernel.def(value) {
            ValueDef::Inst(_) => !later.contains(&value),
            _ => true,
        };
        let fits =
            |inst: &Inst| matches!(kernel.op(*inst), Op::GroupReduce { value, .. } if is_there(*value));
        let (mut together, left): (Vec<Inst>, Vec<Inst>) = rest.into_iter().partition(fits);
        together.insert(0, first);
        (together, left)
    }

    fn reduce(&mut self, block: Block, reductions: &[Inst]) -> Block {
        let mut slots = Vec::new();
        for &inst in reductions {
            let Some((op, value)) = self.reduction(inst) else { continue };
            let slot = self.slot(ContextKind::Reduction(op, self.kernel.ty(value).clone()));
            self.kernel.push_effect(block, Op::ContextStore(slot, value));
            slots.push((inst, slot));
        }
        let next = self.wait(block);
        for (inst, slot) in slots {
            *self.kernel.op_mut(inst) = Op::ContextLoad(slot);
            self.kernel.append(next, inst);
        }
        next
    }

    fn reduction(&self, inst: Inst) -> Option<(ReduceOp, Value)> {
        match *self.kernel.op(inst) {
            Op::GroupReduce { op, value } => Some((op, value)),
            _ => None,
        }
    }

    /// Ends a block with a barrier; returns the one behind it, which ends as the block did.
    fn wait(&mut self, block: Block) -> Block {
        let next = self.kernel.add_block();
        let barrier = Terminator::Barrier(Target::to(next));
        let end = std::mem::replace(&mut self.kernel.blocks[block.index()].terminator, barrier);
        self.kernel.set_terminator(next, end);
        next
    }
}
