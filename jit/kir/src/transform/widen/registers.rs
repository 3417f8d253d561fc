//! Widening: whether what packs carry through their loops stays in registers.

use super::Facts;
use super::values::components;
use crate::analysis::{ControlFlow, Frequencies, Liveness, Loops, Shape};
use crate::transform::{ContextKind, Region};
use crate::{Block, Function, Value};
use spirula_interface::target::TargetFacts;
use std::collections::HashSet;

/// Whether such packs have registers enough: what inner loops carry and use leaves half of the vector registers free. Where there are no loops,
/// nothing waits for itself, and more than one register for a value is no faster: packs of 64 `uchar16` would be sixteen for each, and take
/// LLVM a second.
pub(super) fn stays_in_registers(
    region: &Region,
    context: &[ContextKind],
    (lanes, target): (u32, &TargetFacts),
) -> bool {
    let body = &region.body;
    let Some(facts) = Facts::new(body, context, lanes) else { return false };
    let bits = |value: Value, block: Block| {
        let is_varying = facts.shapes.shape_at(value, block) == Shape::Varying;
        let is_there = is_varying && !facts.left_out.contains(value.index());
        let components = is_there.then(|| components(body.ty(value)));
        components.into_iter().flatten().map(|scalar| scalar.bits().max(8) * u64::from(lanes))
    };
    let register = u64::from(target.vector_bits.max(1));
    if facts.loops.count() == 0 {
        let mut values = results(body);
        return values.all(|(value, block)| bits(value, block).sum::<u64>() <= register);
    }
    let liveness = Liveness::new(body, &facts.flow);
    let registers = |value: Value, block: Block| bits(value, block).sum::<u64>().div_ceil(register);
    let all = if target.vector_bits >= 512 { 32 } else { 16 };
    // What a loop around keeps for its next iteration lies in memory meanwhile.
    facts.loops.without_inner().all(|id| {
        let blocks =
            || facts.flow.reverse_post_order().iter().filter(|&&block| facts.loops.contains(id, block));
        let used: HashSet<Value> = blocks().flat_map(|&block| used_in(body, block)).collect();
        blocks().all(|&block| {
            let values = liveness.live_in(block).filter(|value| used.contains(value));
            let values = values.chain(body.block(block).params.iter().copied());
            values.map(|value| registers(value, block)).sum::<u64>() <= all / 2
        })
    })
}

/// Whether all inner loops count from one constant to another.
pub(super) fn loops_are_short(body: &Function) -> bool {
    let flow = ControlFlow::new(body);
    let Some(loops) = Loops::new(&flow) else { return false };
    let frequencies = Frequencies::new(body, &flow, &loops);
    loops.without_inner().all(|id| frequencies.iterations(id).is_some())
}

/// What a block's instructions and its end use.
fn used_in(body: &Function, block: Block) -> Vec<Value> {
    let data = body.block(block);
    let operands = data.insts.iter().flat_map(|&inst| body.op(inst).operands());
    operands.chain(data.terminator.operands()).collect()
}

/// What instructions yield, and where.
fn results(body: &Function) -> impl Iterator<Item = (Value, Block)> {
    let blocks = body.block_ids().filter(|block| block.0 > 0);
    let insts = blocks.flat_map(|block| body.block(block).insts.iter().map(move |&inst| (inst, block)));
    insts.filter_map(|(inst, block)| Some((body.result(inst)?, block)))
}
