//! Widening: whether, and how wide.

use super::adjacent::{Merging, merge_adjacent};
use super::alternatives::Estimates;
use super::conflicts::{RowStride, row_strides};
use super::cost::{Assumed, Cost, cost, cost_if, longest};
use super::quotients::with_quotients;
use super::registers::{loops_are_short, stays_in_registers};
use super::slot_elements::with_common_elements;
use super::{Facts, WideBody, widen};
use crate::analysis::{LoopId, Shape};
use crate::builder::Builder;
use crate::transform::{ContextKind, ITEM, Region, RegionExit, WorkGroup, remove_dead_code};
use crate::{Block, Function, IntPredicate, Op, Terminator, Type, Value, WorkItemQuery};
use spirula_interface::target::TargetFacts;

/// What was decided for a region.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The wide body, if there is one.
    pub wide: Option<WideBody>,
    /// The one for the rest of a row, if packs are so wide that single work-items would take long.
    pub tail: Option<WideBody>,
    /// Why, for the build log.
    pub reason: String,
    /// What was chosen from, unless there was no choice.
    pub estimates: Option<Estimates>,
}

/// Who has a say in how many lanes packs have: powers of two up to 64, and 1 for scalar code.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// What the user asks for, wherever that is possible.
    pub forced: Option<u32>,
    /// What is taken where it is one of those that are chosen from.
    pub preferred: Option<u32>,
    /// Whether the reason is to say what packs spend their time on.
    pub explained: bool,
    /// Whether buffers are expected to have no memory in common: packs may then be made for that alone.
    pub disjoint: bool,
}

/// Packs must be more than so many times as fast as scalar code by estimate.
const LEAST_GAIN: f64 = 1.0;

/// More lanes must be so much faster than fewer: they fill more registers, and take longer to build.
const MORE_LANES_GAIN: f64 = 1.08;

/// Of packs that take so many times as long as scalar code it is asked what they would take if lanes went the same ways: others are tried
/// anyhow.
const SLOW: f64 = 2.0;

/// How long a work-item takes.
struct Times {
    scalar: f64,
    /// In packs.
    pack: f64,
    /// The same if their lanes happen to go the same ways, where that matters.
    together: f64,
    /// In scalar code, if all iterations but those of one lane in a pack are for nothing there.
    apart: f64,
    /// Whether lanes walk along rows that may conflict.
    may_conflict: bool,
}

/// Larger bodies stay scalar: their vectors would not stay in registers, and building takes its time.
const MAX_INSTRUCTIONS: usize = 30_000;

/// The same of packs' instructions, where what is taken apart counts once for each lane: LLVM's time for it grows with its square.
const MAX_PACKED: usize = 60_000;
/// Instructions for one lane of what is taken apart: whether it is active, its part of the operands, the operation, its result.
const FOR_EACH_LANE: usize = 4;

/// The same of more lanes that walk along more rows than a set of the cache has lines for: where rows conflict, fewer are much faster.
const MORE_ROWS_GAIN: f64 = 1.15;

/// Packs may fill so many registers with one number where loops wait for their own results: each is a chain of its own.
const MOST_REGISTERS: u32 = 4;
/// More of them must be so much faster: more registers are in use than is thought, and the rest of a row takes as long as a pack.
const MORE_REGISTERS_GAIN: f64 = 1.15;
/// The same where the lengths of a row and of all loops are known: LLVM unrolls short loops of one register, whose packs overlap then, and
/// lines that lie next to each other are fetched for the next pack.
const MORE_REGISTERS_OF_ROW_GAIN: f64 = 1.85;
/// In larger bodies chains wait for registers, not for results.
const MAX_CHAINED: usize = 2_000;

/// Decides for one region. `unseen` says that the kernel can't tell how its range is divided: then rows are made to suit packs.
pub fn choose(
    region: &Region,
    context: &[ContextKind],
    facts: &TargetFacts,
    wanted: Wanted,
    unseen: bool,
) -> Choice {
    let forced_lanes = wanted.forced;
    let no = |reason: &str| Choice { wide: None, tail: None, reason: reason.into(), estimates: None };
    if let Some(reason) = obstacle(region, context) {
        return no(reason);
    }
    let widest = forced_lanes.unwrap_or(facts.vector_bits / NARROWEST_BITS);
    if widest < 2 {
        return no("scalar, as asked for");
    }
    let common = with_one_size_of_elements(region, context, widest);
    let own = common.as_ref().unwrap_or(region);
    let with_fewer = merged(own, context, (widest, wanted.disjoint));
    let (region, disjoint) =
        with_fewer.as_ref().map_or((own, false), |(region, disjoint)| (region, *disjoint));
    // Most bodies are small enough if all of them were taken apart.
    let may_be_large = size(&region.body) * FOR_EACH_LANE * widest as usize > MAX_PACKED;
    if may_be_large && forced_lanes.is_none() && packed_size(region, context, widest) > MAX_PACKED {
        return no("too large in lanes, of which much would be taken apart");
    }
    let rows_lie_in = usize::from(region.body.row_dimension);
    let row =
        region.body.required_work_group_size.map(|size| size[rows_lie_in]).filter(|_| forced_lanes.is_none());
    // Packs longer than a row are never full.
    let longest = row.unwrap_or(u32::MAX);
    if longest < 2 {
        return no("scalar: no row has a second work-item");
    }
    let fits_row = row.is_none_or(|row| row.is_multiple_of(widest));
    let least = match (forced_lanes, fits_row) {
        (Some(lanes), _) => lanes,
        (None, true) => (widest / 2).max(2),
        (None, false) => 2,
    };
    // Who has measured may want fewer than are thought of.
    let least = wanted.preferred.filter(|preferred| (2..least).contains(preferred)).unwrap_or(least);
    // Of rows that are known those packs are enough that fill them.
    let most = match row {
        _ if forced_lanes.is_some() || size(&region.body) > MAX_CHAINED => widest,
        Some(row) if fits_row => widest << (row / widest).trailing_zeros().min(MOST_REGISTERS.ilog2()),
        None if unseen => MOST_REGISTERS * widest,
        _ => widest,
    };
    let widths = std::iter::successors(Some(least), |n| (*n < most.min(longest)).then_some(n * 2));
    let widths = widths.filter(|&lanes| lanes <= longest);
    let widths =
        widths.filter(|&lanes| lanes <= widest || stays_in_registers(region, context, (lanes, facts)));
    let tried = widths.filter_map(|lanes| Some((lanes, times(region, context, (lanes, facts), row)?)));
    let tried: Vec<(u32, Times)> = tried.collect();
    let is_unrolled = row.is_some() && loops_are_short(&region.body);
    let conflicting = tried.iter().find(|(_, times)| times.may_conflict).map(|(lanes, _)| *lanes);
    let better = |best: (u32, f64), new: (u32, f64)| {
        let least = match is_unrolled {
            _ if new.0 <= widest && conflicting == Some(new.0) => MORE_ROWS_GAIN,
            _ if new.0 <= widest => MORE_LANES_GAIN,
            false => MORE_REGISTERS_GAIN,
            true => MORE_REGISTERS_OF_ROW_GAIN,
        };
        if new.1 > least * best.1 { new } else { best }
    };
    let gains = tried.iter().map(|(lanes, times)| (*lanes, times.scalar / times.pack));
    let Some((lanes, gain)) = gains.clone().reduce(better) else {
        return no("a loop with several entries");
    };
    let apart = tried.iter().map(|(_, times)| times.apart).fold(f64::INFINITY, f64::min);
    let estimates = forced_lanes.is_none().then(|| Estimates {
        chosen: if gain > LEAST_GAIN { lanes } else { 1 },
        of_each: tried
            .iter()
            .map(|(lanes, times)| (*lanes, times.pack, times.together))
            .chain([(1, tried[0].1.scalar, apart)])
            .collect(),
    });
    let spent = |lanes| if wanted.explained { spent(region, context, (lanes, facts)) } else { String::new() };
    let made = estimates.as_ref().map_or(lanes, |estimates| estimates.made(wanted.preferred));
    if made == 1 {
        let reason =
            format!("scalar: {lanes} lanes would be {gain:.1} times as fast by estimate{}", spent(lanes));
        return Choice { estimates, ..no(&reason) };
    }
    let (lanes, gain) = gains.into_iter().find(|(lanes, _)| *lanes == made).unwrap_or((lanes, gain));
    let mined = |region: &Region| strip_mined(region, context, lanes).unwrap_or_else(|| region.clone());
    let guarded = (lanes > widest && row.is_none()).then(|| {
        // All launches run it.
        let plain = if disjoint { merged(own, context, (widest, false)) } else { with_fewer.clone() };
        let region = mined(plain.as_ref().map_or(own, |(region, _)| region));
        Region { body: with_guard(&region.body), ..region }
    });
    let tail = guarded.and_then(|guarded| widen(&guarded, return_exit(region), context, lanes));
    let known = Facts::new(&region.body, context, lanes);
    let rows = known.as_ref().map(|known| rows_in_conflict(region, known, context, (lanes, facts)));
    let split = known.and_then(|known| with_quotients(region, &known, context, (lanes, facts)));
    let region = mined(split.as_ref().map_or(region, |(split, _)| split));
    match widen(&region, return_exit(&region), context, lanes) {
        Some(wide) => Choice {
            wide: Some(WideBody { disjoint, rows: rows.unwrap_or_default(), ..wide }),
            tail,
            reason: format!("{lanes} lanes, {gain:.1} times as fast by estimate{}", spent(lanes)),
            estimates,
        },
        None => no("a loop with several entries"),
    }
}

/// The rows that packs walk along, if these are slower than scalar code where rows' lines drive each other out of the cache.
fn rows_in_conflict(
    region: &Region,
    facts: &Facts,
    context: &[ContextKind],
    (lanes, target): (u32, &TargetFacts),
) -> Vec<RowStride> {
    let body = &region.body;
    let rows = row_strides(body, facts, lanes);
    if rows.is_empty() {
        return rows;
    }
    let pack = cost_if(Assumed::Conflicts, body, facts, context, (lanes, target));
    let scalar = cost(body, facts, context, lanes, target).scalar;
    if pack > f64::from(lanes) * scalar { rows } else { Vec::new() }
}

/// With one access for those that follow on each other, if there are such; and whether it is for disjoint buffers only, if these are expected.
fn merged(
    region: &Region,
    context: &[ContextKind],
    (lanes, disjoint): (u32, bool),
) -> Option<(Region, bool)> {
    let facts = Facts::new(&region.body, context, lanes)?;
    let Merging { body, disjoint } = merge_adjacent(&region.body, &facts, disjoint)?;
    Some((Region { body, ..region.clone() }, disjoint))
}

/// With private memory in elements of one size, where it has several.
fn with_one_size_of_elements(region: &Region, context: &[ContextKind], lanes: u32) -> Option<Region> {
    let facts = || Facts::new(&region.body, context, lanes);
    let body = (!region.body.slots.is_empty()).then(facts).flatten();
    let body = with_common_elements(&region.body, &body?, lanes)?;
    Some(Region { body, ..region.clone() })
}

/// With a loop for strips in front of each that walks along rows, if there is one.
fn strip_mined(region: &Region, context: &[ContextKind], lanes: u32) -> Option<Region> {
    let mut body = Facts::new(&region.body, context, lanes)?.walks.strip_mined(&region.body)?;
    remove_dead_code(&mut body);
    Some(Region { body, ..region.clone() })
}

/// Why a region stays scalar in any case.
fn obstacle(region: &Region, context: &[ContextKind]) -> Option<&'static str> {
    if region.once {
        return Some("runs once for the group");
    }
    if size(&region.body) > MAX_INSTRUCTIONS {
        return Some("too large");
    }
    odd_context(region, context)
}

/// Whether something crosses the region's borders that packs can't have.
fn odd_context(region: &Region, context: &[ContextKind]) -> Option<&'static str> {
    let mut insts = region.body.blocks.iter().flat_map(|b| &b.insts).map(|&i| region.body.op(i));
    let odd_context = |op: &Op| match op {
        Op::ContextLoad(slot) | Op::ContextStore(slot, _) => {
            let kind = &context[slot.0 as usize];
            let for_group =
                matches!(kind, ContextKind::Uniform(_) | ContextKind::Reduction(..) | ContextKind::Carry(..));
            !for_group && super::Widener::context_elements(kind).is_none()
        }
        _ => false,
    };
    insts.any(odd_context).then_some("keeps structures over a barrier")
}

/// Work-items in a sub-group where nobody asks for a number: as many 32-bit numbers as a vector register holds.
pub fn usual_sub_groups(facts: &TargetFacts) -> u32 {
    (facts.vector_bits / 32).max(1)
}

/// Decides for all regions of a kernel that uses sub-groups, which are packs: of one size, and also at the end of a row, where less
/// than a pack is left. What can't be widened has sub-groups of one work-item. Yields the size, and why for the build log.
pub fn choose_sub_groups(
    group: &mut WorkGroup,
    facts: &TargetFacts,
    forced_lanes: Option<u32>,
) -> (u32, String) {
    let required = group.regions.iter().find_map(|region| region.body.required_sub_group_size);
    let lanes = required.or(forced_lanes).unwrap_or(usual_sub_groups(facts));
    if lanes < 2 {
        return (1, "sub-groups of 1 work-item, as asked for".into());
    }
    let mut bodies = Vec::new();
    for (number, region) in group.regions.iter().enumerate().filter(|(_, region)| !region.once) {
        let merged = merged(region, &group.context, (lanes, false));
        let region = merged.as_ref().map_or(region, |(region, _)| region);
        let widen = |region: &Region| widen(region, return_exit(region), &group.context, lanes);
        let tail = Region { body: with_guard(&region.body), ..region.clone() };
        // However large it is, if its kernel asks for the size.
        let reason = match required {
            Some(_) => odd_context(region, &group.context),
            None => obstacle(region, &group.context),
        };
        match (reason, widen(region), widen(&tail)) {
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
    let dimension = body.row_dimension;
    let mut builder = Builder { function: &mut body, at: ITEM };
    let [id, size] = [WorkItemQuery::LocalId, WorkItemQuery::LocalSize]
        .map(|query| builder.push(Type::I64, Op::WorkItem { query, dimension }));
    let is_within = builder.compare(IntPredicate::Ult, id, size);
    builder.branch(is_within, (within, &[]), (beyond, &[]));
    body
}

fn return_exit(region: &Region) -> Option<u32> {
    region.exits.iter().position(|exit| *exit == RegionExit::Return).map(|exit| exit as u32)
}

/// How long a work-item takes by estimate in scalar code and in packs, in long rows or in those of so many, of which some fill no
/// pack. None for a loop with several entries.
fn times(
    region: &Region,
    context: &[ContextKind],
    (lanes, target): (u32, &TargetFacts),
    row: Option<u32>,
) -> Option<Times> {
    let body = &region.body;
    let facts = Facts::new(body, context, lanes)?;
    let Cost { scalar, pack } = cost(body, &facts, context, lanes, target);
    let split = with_quotients(region, &facts, context, (lanes, target));
    let part = split.map_or(1.0, |(_, part)| part);
    let (packs, rest) = row.map_or((1, 0), |row| (row / lanes, row % lanes));
    let of_item = |pack: f64| {
        let time = f64::from(packs) * (part * pack).max(1.0) + f64::from(rest) * scalar;
        time / f64::from(packs * lanes + rest)
    };
    let may_part = || body.block_ids().any(|block| facts.shapes.is_divergent_branch(block));
    let together = match of_item(pack) > SLOW * scalar && may_part() {
        true => cost_if(Assumed::Together, body, &facts, context, (lanes, target)),
        false => pack,
    };
    let waits = (0..facts.loops.count()).any(|id| facts.shapes.is_divergent_loop(LoopId(id)));
    let apart = if waits { scalar / f64::from(lanes) } else { scalar };
    let may_conflict = !row_strides(body, &facts, lanes).is_empty();
    Some(Times { scalar, pack: of_item(pack), together: of_item(together), apart, may_conflict })
}

/// What packs of so many lanes spend most of their time on, for the build log.
fn spent(region: &Region, context: &[ContextKind], (lanes, target): (u32, &TargetFacts)) -> String {
    let Some(facts) = Facts::new(&region.body, context, lanes) else { return String::new() };
    let longest = longest(&region.body, &facts, context, lanes, target);
    if longest.is_empty() { String::new() } else { format!(" (of a pack's time: {})", longest.join(", ")) }
}

/// Instructions, once for each component of their results.
fn size(body: &Function) -> usize {
    let components = |inst| body.result(inst).map_or(1, |value| body.ty(value).lanes() as usize);
    body.insts().map(components).sum()
}

/// Instructions of packs of so many lanes.
fn packed_size(region: &Region, context: &[ContextKind], lanes: u32) -> usize {
    let body = &region.body;
    let Some(facts) = Facts::new(body, context, lanes) else { return 0 };
    let is_apart = |block: Block, pointer: Value, value: Value| {
        let is_narrow = body.ty(value).scalar().is_some_and(|scalar| scalar.bits() < NARROWEST_BITS.into());
        is_narrow
            && match facts.shapes.shape_at(pointer, block) {
                Shape::Uniform => false,
                Shape::Affine { stride, .. } => stride.abs() != body.ty(value).size() as i64,
                Shape::Varying => true,
            }
    };
    let of_one = |block: Block, inst| {
        let taken_apart = match (body.op(inst), body.result(inst)) {
            (Op::Load { pointer, .. }, Some(value)) => is_apart(block, *pointer, value),
            (Op::Store { pointer, value, .. }, _) => is_apart(block, *pointer, *value),
            (Op::AtomicRmw { .. } | Op::CompareExchange { .. } | Op::Call { .. }, _) => true,
            _ => false,
        };
        if taken_apart { FOR_EACH_LANE * lanes as usize } else { 1 }
    };
    let blocks = body.blocks.iter().zip(0..);
    blocks.flat_map(|(data, n)| data.insts.iter().map(move |&inst| of_one(Block(n), inst))).sum()
}

/// As many lanes as a register holds of such numbers are tried, and half as many.
const NARROWEST_BITS: u32 = 32;

#[cfg(test)]
mod tests;
