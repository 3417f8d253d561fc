//! Widening: what packs spend on values that find no register.

use super::price::Prices;
use crate::analysis::{Liveness, Shape};
use crate::{Block, Value};
use std::collections::HashMap;

/// What a pack spends in each block on loads and stores of such values. Where more is alive than there are registers, each value's
/// chance to be in memory is thought to be the same.
pub(super) fn spills(prices: &Prices) -> Vec<f64> {
    let (body, flow) = (prices.body, &prices.facts.flow);
    let all = if prices.register_bits >= 512 { 32.0 } else { 16.0 };
    let mut spills = vec![0.0; body.blocks.len()];
    let registers = |value: Value, block: Block| match body.is_given(value) {
        true => 0.0,
        false => match prices.facts.shapes.shape_at(value, block) {
            Shape::Varying => prices.registers(body.ty(value)),
            _ => 0.0,
        },
    };
    let blocks = flow.reverse_post_order();
    let results = blocks.iter().flat_map(|&block| {
        let insts = body.block(block).insts.iter().filter_map(|&inst| body.result(inst));
        insts.chain(body.block(block).params.iter().copied()).map(move |value| (value, block))
    });
    // Those that fit in any case are most.
    if results.map(|(value, block)| registers(value, block)).sum::<f64>() <= all {
        return spills;
    }
    let liveness = Liveness::new(body, flow);
    for &block in blocks {
        let data = body.block(block);
        let mut alive: HashMap<Value, f64> = HashMap::new();
        let mut count = 0.0;
        let use_one = |alive: &mut HashMap<Value, f64>, count: &mut f64, value: Value| {
            alive.entry(value).or_insert_with(|| {
                let own = registers(value, block);
                *count += own;
                own
            });
        };
        let behind = flow.successors(block).iter().flat_map(|&to| liveness.live_in(to));
        behind.chain(data.terminator.operands()).for_each(|v| use_one(&mut alive, &mut count, v));
        let mut most: f64 = count;
        let mut moved = 0.0;
        for &inst in data.insts.iter().rev() {
            if let Some(result) = body.result(inst) {
                let own = alive.remove(&result).unwrap_or(0.0);
                count -= own;
                moved += 2.0 * own;
            }
            body.op(inst).visit_operands(|v| {
                use_one(&mut alive, &mut count, v);
                moved += alive[&v];
            });
            most = most.max(count);
        }
        if most > all {
            spills[block.index()] = (most - all) / most * moved * prices.costs.access;
        }
    }
    spills
}
