//! Widening: whether, and how wide.

use super::cost::cost;
use super::{Facts, WideBody, widen};
use crate::builder::Builder;
use crate::transform::{ContextKind, Region, RegionExit, WorkGroup};
use crate::{Block, Function, IntPredicate, Op, Terminator, Type, WorkItemQuery};
use spirula_interface::target::TargetFacts;

/// What was decided for a region.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The wide body, if there is one.
    pub wide: Option<WideBody>,
    /// Why, for the build log.
    pub reason: String,
}

/// Packs must be more than so many times as fast as scalar code by estimate.
const LEAST_GAIN: f64 = 1.0;

/// More lanes must be so much faster than fewer: they fill more registers, and take longer to build.
const MORE_LANES_GAIN: f64 = 1.08;

/// Larger bodies stay scalar: their vectors would not stay in registers, and building takes its time.
const MAX_INSTRUCTIONS: usize = 6_000;

/// Decides for one region. `forced_lanes` is what the user asks for, a power of two up to 64; 1 means scalar code.
pub fn choose(
    region: &Region,
    context: &[ContextKind],
    facts: &TargetFacts,
    forced_lanes: Option<u32>,
) -> Choice {
    let no = |reason: &str| Choice { wide: None, reason: reason.into() };
    if let Some(reason) = obstacle(region, context) {
        return no(reason);
    }
    let widest = forced_lanes.unwrap_or(facts.vector_bits / NARROWEST_BITS);
    if widest < 2 {
        return no("scalar, as asked for");
    }
    let row = region.body.required_work_group_size.map(|size| size[0]).filter(|_| forced_lanes.is_none());
    let fits_row = row.is_none_or(|row| row.is_multiple_of(widest));
    let least = match (forced_lanes, fits_row) {
        (Some(lanes), _) => lanes,
        (None, true) => (widest / 2).max(2),
        (None, false) => 2,
    };
    let widths = std::iter::successors(Some(least), |n| (*n < widest).then_some(n * 2));
    let tried = widths.filter_map(|lanes| Some((lanes, gain(region, context, (lanes, facts), row)?)));
    let better =
        |best: (u32, f64), new: (u32, f64)| if new.1 > MORE_LANES_GAIN * best.1 { new } else { best };
    let Some((lanes, gain)) = tried.reduce(better) else {
        return no("a loop with several entries");
    };
    if forced_lanes.is_none() && gain <= LEAST_GAIN {
        return no(&format!("scalar: {lanes} lanes would be {gain:.1} times as fast by estimate"));
    }
    match widen(region, return_exit(region), context, lanes) {
        Some(wide) => {
            Choice { wide: Some(wide), reason: format!("{lanes} lanes, {gain:.1} times as fast by estimate") }
        }
        None => no("a loop with several entries"),
    }
}

/// Why a region stays scalar in any case.
fn obstacle(region: &Region, context: &[ContextKind]) -> Option<&'static str> {
    if region.once {
        return Some("runs once for the group");
    }
    let insts = || region.body.blocks.iter().flat_map(|b| &b.insts).map(|&i| region.body.op(i));
    if size(&region.body) > MAX_INSTRUCTIONS {
        return Some("too large");
    }
    let odd_context = |op: &Op| match op {
        Op::ContextLoad(slot) | Op::ContextStore(slot, _) => {
            let kind = &context[slot.0 as usize];
            let for_group =
                matches!(kind, ContextKind::Uniform(_) | ContextKind::Reduction(..) | ContextKind::Carry(..));
            !for_group && super::Widener::context_elements(kind).is_none()
        }
        _ => false,
    };
    insts().any(odd_context).then_some("keeps structures over a barrier")
}

/// Decides for all regions of a kernel that uses sub-groups, which are packs: of one size, and also at the end of a row, where less
/// than a pack is left. What can't be widened has sub-groups of one work-item. Yields the size, and why for the build log.
pub fn choose_sub_groups(
    group: &mut WorkGroup,
    facts: &TargetFacts,
    forced_lanes: Option<u32>,
) -> (u32, String) {
    let lanes = forced_lanes.unwrap_or(facts.vector_bits / 32);
    if lanes < 2 {
        return (1, "sub-groups of 1 work-item, as asked for".into());
    }
    let mut bodies = Vec::new();
    for (number, region) in group.regions.iter().enumerate().filter(|(_, region)| !region.once) {
        let widen = |region: &Region| widen(region, return_exit(region), &group.context, lanes);
        let tail = Region { body: with_guard(&region.body), ..region.clone() };
        match (obstacle(region, &group.context), widen(region), widen(&tail)) {
            (None, Some(wide), Some(tail)) => bodies.push((number, wide, tail)),
            (reason, ..) => {
                let reason = reason.unwrap_or("a loop with several entries");
                return (
                    1,
                    format!("sub-groups of 1 work-item, for region {number} can't be widened: {reason}"),
                );
            }
        }
    }
    for (number, wide, tail) in bodies {
        (group.regions[number].wide, group.regions[number].tail) = (Some(wide), Some(tail));
    }
    (lanes, format!("sub-groups of {lanes} work-items"))
}

/// The body for those lanes only that are within their row.
fn with_guard(body: &Function) -> Function {
    const ITEM: Block = Block(1);
    let mut body = body.clone();
    let [within, beyond] = std::array::from_fn(|_| body.add_block());
    let data = &mut body.blocks[ITEM.index()];
    let insts = std::mem::take(&mut data.insts);
    let terminator = std::mem::replace(&mut data.terminator, Terminator::Unreachable);
    for inst in insts {
        body.append(within, inst);
    }
    body.set_terminator(within, terminator);
    body.set_terminator(beyond, Terminator::Return(None));
    let mut builder = Builder { function: &mut body, at: ITEM };
    let [id, size] = [WorkItemQuery::LocalId, WorkItemQuery::LocalSize]
        .map(|query| builder.push(Type::I64, Op::WorkItem { query, dimension: 0 }));
    let is_within = builder.compare(IntPredicate::Ult, id, size);
    builder.branch(is_within, (within, &[]), (beyond, &[]));
    body
}

fn return_exit(region: &Region) -> Option<u32> {
    region.exits.iter().position(|exit| *exit == RegionExit::Return).map(|exit| exit as u32)
}

/// How many times as fast packs would be by estimate, for long rows or those of so many work-items, of which some
/// fill no pack. None for a loop with several entries.
fn gain(
    region: &Region,
    context: &[ContextKind],
    (lanes, target): (u32, &TargetFacts),
    row: Option<u32>,
) -> Option<f64> {
    let facts = Facts::new(&region.body, context, lanes)?;
    let cost = cost(&region.body, &facts, context, lanes, target);
    let (packs, rest) = row.map_or((1, 0), |row| (row / lanes, row % lanes));
    let time = f64::from(packs) * cost.pack.max(1.0) + f64::from(rest) * cost.scalar;
    Some(cost.scalar * f64::from(packs * lanes + rest) / time)
}

/// Instructions, once for each component of their results.
fn size(body: &Function) -> usize {
    let components = |inst| body.result(inst).map_or(1, |value| body.ty(value).lanes() as usize);
    body.insts().map(components).sum()
}

/// As many lanes as a register holds of such numbers are tried, and half as many.
const NARROWEST_BITS: u32 = 32;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;
    use crate::transform::form_regions;

    fn lanes(required: &str) -> Option<u32> {
        let text = format!(
            "kernel \"k\"(%0: ptr(global) @ 0) {{\n{required}b0:
  %1: i64 = global_id 0
  %2: ptr(global) = address %0 + %1*4 + 0
  %3: i32 = load %2, align 4
  %4: i32 = mul %3, %3
  %5: i32 = mul %4, %3
  store %2, %5, align 4
  return\n}}"
        );
        let group = form_regions(parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}")));
        choose(&group.regions[0], &group.context, &TargetFacts::with_vectors(512), None)
            .wide
            .map(|wide| wide.lanes)
    }

    #[test]
    fn lanes_fit_the_rows_of_a_required_size() {
        assert_eq!(lanes(""), Some(16));
        for (row, expected) in
            [(64, Some(16)), (8, Some(8)), (24, Some(8)), (100, Some(16)), (4, Some(4)), (1, None)]
        {
            assert_eq!(lanes(&format!("  work_group_size {row} 2 1\n")), expected, "{row}");
        }
    }
}
