//! Widening: which operations a pack is thought to spend its time on, for those who ask why a kernel has the lanes that it has.

use super::{LONGEST, Model};
use crate::analysis::Shape;
use crate::{Block, Inst, Op, Type};
use std::collections::HashMap;

/// How many kinds of operations are told.
const TOLD: usize = 3;

/// The kinds of operations that take most of a pack's time, the longest first, with their percentage: `scatter of i8 41 %`.
pub(super) fn longest(model: &Model) -> Vec<String> {
    let mut times: HashMap<String, f64> = HashMap::new();
    let blocks = model.facts.flow.reverse_post_order();
    for &block in blocks.iter().filter(|block| block.0 > 0) {
        let (entered, often) = (model.of_pack.of(block), around(model, block));
        let of_lanes = f64::from(model.lanes) * model.frequencies.of(block);
        for &inst in &model.body.block(block).insts {
            let price = &model.insts[inst.index()];
            let time = price.busy.pack * entered + price.each_lane * of_lanes;
            *times.entry(kind(model, block, inst)).or_default() += time * often;
        }
        *times.entry("branches".into()).or_default() += model.prices.branch(block).pack * entered * often;
        *times.entry("values without a register".into()).or_default() +=
            model.spills[block.index()] * entered * often;
    }
    let sum: f64 = times.values().sum();
    let mut times: Vec<(String, f64)> = times.into_iter().filter(|(_, time)| *time > 0.0).collect();
    times.sort_by(|a, b| b.1.total_cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    times.into_iter().take(TOLD).map(|(kind, time)| format!("{kind} {:.0} %", 100.0 * time / sum)).collect()
}

/// How often the loops around a block bring a pack to it.
fn around(model: &Model, block: Block) -> f64 {
    let loops = &model.facts.loops;
    let around = std::iter::successors(loops.innermost(block), |&id| loops.get(id).parent);
    let times = around.map(|id| {
        let longer = if model.facts.shapes.is_divergent_loop(id) { LONGEST } else { 1.0 };
        model.iterations(id) * longer * model.of_pack.entered(id)
    });
    times.product()
}

/// What an instruction is in a pack, and of what type.
fn kind(model: &Model, block: Block, inst: Inst) -> String {
    let body = model.body;
    let ty = |value| body.ty(value);
    let access = |pointer, ty: &Type, [near, apart]: [&str; 2]| {
        let how = match model.prices.shape_of_access(block, pointer) {
            Shape::Uniform => near.to_owned(),
            Shape::Affine { stride, .. } if stride.abs() == ty.size() as i64 => near.to_owned(),
            _ if model.facts.slots.is_interleaved(pointer) => near.to_owned(),
            shape if model.prices.is_one_by_one(block, pointer, shape) => format!("strided {near}"),
            _ => apart.to_owned(),
        };
        format!("{how} of {ty}")
    };
    match (body.op(inst), body.result(inst)) {
        (Op::Load { pointer, .. }, Some(result)) => access(*pointer, ty(result), ["load", "gather"]),
        (Op::Store { pointer, value, .. }, _) => access(*pointer, ty(*value), ["store", "scatter"]),
        (Op::AtomicRmw { .. } | Op::CompareExchange { .. }, _) => "atomics, one lane after the other".into(),
        (Op::Call { .. }, _) => "calls".into(),
        (Op::Binary { op, .. }, Some(result)) => format!("{} of {}", op.name(), ty(result)),
        (Op::Intrinsic { intrinsic, .. }, Some(result)) => format!("{} of {}", intrinsic.name(), ty(result)),
        (_, Some(result)) => format!("moves and conversions to {}", ty(result)),
        _ => "other".into(),
    }
}
