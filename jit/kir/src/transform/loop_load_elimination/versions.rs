//! Loop-load elimination: a second version of loops that gain where buffers are disjoint (LLVM's `LoopVersioningLICM`).
//!
//! The launch knows of each buffer where it lies, so that one question in front of a loop takes the place of all run-time checks.
//! The loop itself becomes the version for disjoint buffers, which is only entered if it has an iteration; a copy of it
//! does what it did before.

use super::{Homes, Search};
use crate::analysis::{ControlFlow, Dominators, Loops};
use crate::builder::{Builder, copy_blocks, copy_insts};
use crate::{Block, Function, Inst, IntPredicate, Op, Target, Terminator, Type, Value, WorkItemQuery};
use fixedbitset::FixedBitSet;
use std::collections::HashMap;

/// Larger loops are not written twice.
const MOST_COPIED: usize = 200;
/// Nor are more of them in one kernel.
const MOST_VERSIONS: usize = 16;

/// Writes them, and says which headers' loops are those for disjoint buffers.
pub(super) fn make(function: &mut Function) -> FixedBitSet {
    let mut headers = FixedBitSet::with_capacity(function.blocks.len());
    let flow = ControlFlow::new(function);
    let Some(loops) = Loops::new(&flow) else { return headers };
    let dominators = Dominators::new(&flow);
    let mut homes = Homes::new(function);
    for id in loops.without_inner() {
        let (header, body) = (loops.get(id).header, &loops.get(id).blocks);
        let search =
            Search { function, flow: &flow, dominators: &dominators, homes: &homes, body, disjoint: true };
        if headers.count_ones(..) < MOST_VERSIONS
            && let Some(leaves) = worth_it(&search, header)
        {
            Version { header, body, leaves }.write(function, &homes);
            homes.grow(function.value_count());
            headers.insert(header.index());
        }
    }
    headers
}

/// A loop that is to have one.
struct Version<'a> {
    header: Block,
    body: &'a FixedBitSet,
    /// The one way out: from where, and by which of its targets.
    leaves: (Block, usize),
}

/// Whether a loop gains; its one way out.
fn worth_it(search: &Search, header: Block) -> Option<(Block, usize)> {
    let Search { function, body, .. } = *search;
    let blocks = || body.ones().map(|number| Block(number as u32));
    let size: usize = blocks().map(|block| function.block(block).insts.len()).sum();
    if header.0 == 0 || size > MOST_COPIED {
        return None;
    }
    let mut ways = blocks().flat_map(|block| {
        let targets = function.block(block).terminator.targets().into_iter().enumerate();
        let out = targets.filter(|(_, target)| !body.contains(target.block.index()));
        out.map(move |(way, _)| (block, way)).collect::<Vec<_>>()
    });
    let (Some(leaves), None) = (ways.next(), ways.next()) else { return None };
    let (_, stores) = search.accesses()?;
    let carried = search.carried(header);
    let sunk = carried.iter().flat_map(|place| &place.sunk);
    let sinks = sunk.clone().next().is_some();
    // Without a store it may wait for another work-item's.
    if stores.is_empty() || (!sinks && search.hoisted(header, &carried).is_empty()) {
        return None;
    }
    let stored_before = |inst: &Inst| {
        let home = stores.iter().find(|store| store.inst == *inst).map(|store| store.block);
        home.is_some_and(|home| search.dominators.dominates(home, leaves.0))
    };
    let leaves_at_header = leaves.0 == header && search.is_repeatable(header);
    let leaves_at_end = leaves.0 != header || body.count_ones(..) == 1;
    let fits = leaves_at_header || (leaves_at_end && sunk.clone().all(stored_before));
    fits.then_some(leaves)
}

impl Version<'_> {
    fn write(&self, function: &mut Function, homes: &Homes) {
        let blocks: Vec<Block> = self.body.ones().map(|number| Block(number as u32)).collect();
        let behind = self.close(function, &blocks, homes);
        let params = function.block(self.header).params.clone();
        let entry = function.add_block();
        let entered: Vec<Value> =
            params.iter().map(|&param| function.add_block_param(entry, function.ty(param).clone())).collect();
        for from in function.block_ids().filter(|from| !blocks.contains(from)) {
            let targets = function.blocks[from.index()].terminator.targets_mut().into_iter();
            targets.filter(|target| target.block == self.header).for_each(|target| target.block = entry);
        }
        let copied = copy_blocks(function, &blocks);
        let mut builder = Builder { function, at: entry };
        let query = Op::WorkItem { query: WorkItemQuery::DisjointBuffers, dimension: 0 };
        let disjoint = builder.push(Type::I64, query);
        let none = builder.int(0);
        let disjoint = builder.compare(IntPredicate::Ne, disjoint, none);
        let (fast, arguments) = (builder.function.add_block(), &entered[..]);
        builder.branch(disjoint, (fast, &[]), (copied[&self.header], arguments));
        builder.at = fast;
        if self.leaves.0 == self.header && self.body.count_ones(..) > 1 {
            self.guard(&mut builder, arguments, behind);
        } else {
            builder.jump(self.header, arguments);
        }
    }

    /// What is used behind the loop goes there by parameters of a block of its own, which is told.
    fn close(&self, function: &mut Function, blocks: &[Block], homes: &Homes) -> Block {
        let (from, way) = self.leaves;
        let behind = function.add_block();
        let out = {
            let mut targets = function.blocks[from.index()].terminator.targets_mut();
            std::mem::replace(targets[way], Target::to(behind))
        };
        function.set_terminator(behind, Terminator::Jump(out));
        let mut left: HashMap<Value, Value> = HashMap::new();
        let mut arguments = Vec::new();
        for block in function.block_ids().filter(|block| !blocks.contains(block)) {
            let insts = function.block(block).insts.iter().flat_map(|&inst| function.op(inst).operands());
            let used: Vec<Value> = insts.chain(function.block(block).terminator.operands()).collect();
            for value in used.into_iter().filter(|&value| homes.is_inside(value, self.body)) {
                left.entry(value).or_insert_with(|| {
                    arguments.push(value);
                    function.add_block_param(behind, function.ty(value).clone())
                });
            }
            let resolve = |value: &mut Value| *value = left.get(value).copied().unwrap_or(*value);
            for inst in function.block(block).insts.clone() {
                function.op_mut(inst).operands_mut().into_iter().for_each(resolve);
            }
            function.blocks[block.index()].terminator.operands_mut().into_iter().for_each(resolve);
        }
        function.blocks[from.index()].terminator.targets_mut()[way].arguments = arguments;
        behind
    }

    /// The header's test in front of the loop.
    fn guard(&self, builder: &mut Builder, entered: &[Value], behind: Block) {
        let data = builder.function.block(self.header).clone();
        let mut known: HashMap<Value, Value> =
            data.params.iter().copied().zip(entered.iter().copied()).collect();
        copy_insts(builder.function, &data.insts, builder.at, &mut known);
        let mut terminator = data.terminator;
        let resolve = |value: &mut Value| *value = known.get(value).copied().unwrap_or(*value);
        terminator.operands_mut().into_iter().for_each(resolve);
        for target in terminator.targets_mut().into_iter().filter(|target| target.block != behind) {
            *target = Target { block: self.header, arguments: entered.to_vec() };
        }
        builder.function.set_terminator(builder.at, terminator);
    }
}
