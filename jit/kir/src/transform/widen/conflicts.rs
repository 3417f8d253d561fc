//! Widening: conflict misses. Where each lane walks along a row of its own, a pack uses as many lines of memory as there are lanes, again
//! and again until it has gone through them. If rows are as long as a power of two, these lines share few sets of the first cache, and each is
//! gone when its next element is asked for; scalar code, which walks along one row at a time, meets none of that. How long rows are the
//! launch knows, if it is a parameter that says so: it is asked before packs are run.

use super::distance::Distance;
use super::{Facts, Wrapping};
use crate::analysis::{Leaps, Shape};
use crate::{Block, CastOp, Function, Inst, Op, Value, ValueDef};
use std::collections::BTreeSet;

/// Bytes after which addresses share a set of the first cache, on every x86-64 processor of today.
const SET_SPAN: u64 = 4096;
/// Lines of a set.
const WAYS: u64 = 8;
/// Bytes of a line.
const LINE: u64 = 64;

/// The rows that neighbouring lanes walk along lie as many bytes apart as `factor` times a parameter. Where these are a multiple of `span`,
/// lanes' lines drive each other out of the first cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RowStride {
    /// The parameter's number.
    pub parameter: u32,
    /// Bytes for each of it.
    pub factor: i64,
    /// Bytes, a power of two.
    pub span: u64,
}

/// The lines that a pack walks along with, in loops.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Lines {
    /// All of them.
    count: u64,
    /// Of one buffer: those that may share a set. (Buffers begin at different places of a page.)
    of_one: u64,
    /// Whether some are written.
    stored: bool,
}

impl Lines {
    /// Of packs of so many lanes.
    pub fn new(body: &Function, facts: &Facts, leaps: &Leaps, lanes: u32) -> Lines {
        let mut roots: BTreeSet<Value> = BTreeSet::new();
        let mut stored = false;
        for (_, inst, pointer) in walked(body, facts, leaps) {
            roots.insert(root(body, pointer));
            stored |= matches!(body.op(inst), Op::Store { .. });
        }
        let of_one = u64::from(lanes);
        Lines { count: of_one * roots.len() as u64, of_one, stored }
    }

    /// What an access to one takes besides, in quarters of a cycle, where nothing is known of how rows lie. (As long as one set has room for all,
    /// nothing drives them out; more are no faster on any machine.)
    pub fn expected(self) -> f64 {
        match self.count {
            0..=WAYS => 2.0,
            count if count <= 2 * WAYS => 4.0,
            _ => 8.0,
        }
    }

    /// The same where rows lie so far apart, if nothing else is to be expected.
    pub fn at(self, stride: i64) -> f64 {
        if conflict(stride, self.of_one) { self.in_conflict() } else { self.expected() }
    }

    /// The same where they share a set, as measured on Zen 4: what is read comes from the second cache.
    pub fn in_conflict(self) -> f64 {
        match self.of_one {
            0..=WAYS => self.expected(),
            _ if self.stored => 32.0,
            lines if lines <= 2 * WAYS => 8.0,
            _ => 12.0,
        }
    }
}

/// The rows that a pack of so many lanes walks along, if these may share too few sets.
pub(super) fn row_strides(body: &Function, facts: &Facts, lanes: u32) -> Vec<RowStride> {
    let lines = u64::from(lanes);
    if lines <= WAYS {
        return Vec::new();
    }
    let leaps = Leaps::new(body, &facts.loops);
    let span = (SET_SPAN * WAYS / lines + 1).next_power_of_two().min(SET_SPAN);
    // All of a strip's line is loaded at once.
    let is_strip = |inst| body.result(inst).is_some_and(|loaded| facts.walks.serve(loaded));
    let one_by_one = walked(body, facts, &leaps).into_iter().filter(|(_, inst, _)| !is_strip(*inst));
    let strides = one_by_one.filter_map(|(block, _, pointer)| {
        by_parameter(body, &Distance::of(body, &facts.shapes, pointer, block)?)
    });
    let strides: BTreeSet<(u32, i64)> = strides.collect();
    strides.into_iter().map(|(parameter, factor)| RowStride { parameter, factor, span }).collect()
}

/// Whether lines so many bytes apart share so few sets that so many of them drive each other out.
fn conflict(stride: i64, lines: u64) -> bool {
    let apart = 1_u64 << stride.unsigned_abs().trailing_zeros().min(12);
    lines * apart > SET_SPAN * WAYS
}

/// Loads and stores by which lanes walk along rows, and their pointers.
fn walked(body: &Function, facts: &Facts, leaps: &Leaps) -> Vec<(Block, Inst, Value)> {
    let pointers = accesses(body).filter_map(|(block, inst)| {
        let pointer = strided_pointer(body, facts, (block, inst))?;
        leaps.is_walked(block, pointer, &facts.shapes).then_some((block, inst, pointer))
    });
    pointers.collect()
}

fn accesses(body: &Function) -> impl Iterator<Item = (Block, Inst)> {
    let blocks = body.block_ids().filter(|block| block.0 > 0);
    blocks.flat_map(|block| body.block(block).insts.iter().map(move |&inst| (block, inst)))
}

/// The pointer of a load or store whose lanes' elements all lie as far apart and are accessed one by one.
fn strided_pointer(body: &Function, facts: &Facts, (block, inst): (Block, Inst)) -> Option<Value> {
    let pointer = match *body.op(inst) {
        Op::Load { pointer, volatile: false, ordering: None, .. } => {
            facts.groups.of(body.result(inst)?).is_none().then_some(pointer)?
        }
        Op::Store { pointer, volatile: false, ordering: None, .. } => pointer,
        _ => return None,
    };
    let is_far = |stride: i64| stride.unsigned_abs() >= LINE;
    let is_strided = match facts.shapes.shape_at(pointer, block) {
        Shape::Uniform => false,
        Shape::Affine { stride, .. } => is_far(stride),
        Shape::Varying => {
            let way = Wrapping::of(body, &facts.shapes, pointer, block);
            way.is_some_and(|way| is_far(way.stride()))
                || Distance::of(body, &facts.shapes, pointer, block).is_some()
        }
    };
    is_strided.then_some(pointer)
}

/// What a pointer is counted from.
fn root(body: &Function, mut pointer: Value) -> Value {
    while let Some(&Op::Address { base, .. }) = body.defining_op(pointer) {
        pointer = base;
    }
    pointer
}

/// A distance that is a multiple of a parameter.
fn by_parameter(body: &Function, distance: &Distance) -> Option<(u32, i64)> {
    match distance {
        Distance::Scaled(of, by) => {
            let (parameter, factor) = by_parameter(body, of)?;
            Some((parameter, factor.checked_mul(*by)?))
        }
        Distance::Times(of, by) => match **of {
            Distance::Known(factor) => Some((parameter(body, *by)?, factor)),
            _ => None,
        },
        Distance::Known(_) | Distance::Sum(..) => None,
    }
}

fn parameter(body: &Function, value: Value) -> Option<u32> {
    match (body.def(value), body.defining_op(value)) {
        (ValueDef::Param(number), _) => Some(*number),
        (_, Some(&Op::Cast { op: CastOp::SExt, value, .. })) => parameter(body, value),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    /// Each work-item adds up the products of two buffers' rows, which are as long as a parameter says.
    const PRODUCT: &str = "kernel \"k\"(%0: ptr(global) @ 0, %1: ptr(global) @ 8, %2: i64 @ 16) {
b0:
  %3: i64 = global_id 0
  %4: i64 = mul %3, %2
  jump b1(0:i64, 0x0:f32)
b1(%5: i64, %6: f32):
  %7: i64 = add %4, %5
  %8: ptr(global) = address %0 + %7*4 + 0
  %9: f32 = load %8, align 4
  %10: ptr(global) = address %1 + %7*4 + 0
  %11: f32 = load %10, align 4
  %12: f32 = fmul %9, %11
  %13: f32 = fadd %6, %12
  %14: i64 = add %5, 1:i64
  %15: i1 = icmp ult %14, %2
  branch %15, b1(%14, %13), b2
b2:
  %16: ptr(global) = address %0 + %3*4 + 0
  store %16, %13, align 4
  return
}";

    #[test]
    fn buffers_do_not_conflict_with_each_other() {
        let group = crate::transform::form_regions(parse(PRODUCT).unwrap());
        let body = &group.regions[0].body;
        let spans = |lanes| {
            let facts = Facts::new(body, &group.context, lanes).unwrap();
            row_strides(body, &facts, lanes).iter().map(|row| row.span).collect::<Vec<_>>()
        };
        assert_eq!([spans(8), spans(16), spans(32)], [vec![], vec![4096], vec![2048]]);
    }
}
