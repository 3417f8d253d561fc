//! Widening: values that lanes have in common, or that follow on each other, though nothing in the program says so. Where neighbouring
//! work-items are in one cell, window or row, most packs are: they ask, once, and go a way of their own.
//!
//! What is asked for is what most would come of: where loops begin and end, what indices are made of by multiplication, and what is
//! added to that.

use super::super::wrapping::Wrapping;
use super::split::{MOST_DEPTH, Split, lane};
use crate::analysis::{ID_LIMIT, LoopId, Loops, Shape, Shapes};
use crate::builder::{Builder, NO_WRAP};
use crate::{
    BinaryOp, Block, Function, IntPredicate, Intrinsic, Op, Scalar, SubGroupOp, Terminator, Type, Value,
};
use std::collections::HashMap;

/// No more values are asked about in front of both ways.
pub(super) const MOST_GUESSES: usize = 6;
/// So many packs are as is guessed first, and of those what is guessed then.
const RIGHT: f64 = 0.75;
const RIGHT_AGAIN: f64 = 0.9;
/// Rows are longer than that.
const LEAST_ROW: u128 = 16;

/// What a value is thought to be.
#[derive(Clone, Copy)]
pub(super) enum Guess {
    /// The same in all lanes.
    Same,
    /// One more in each lane.
    Next,
}

impl Split<'_> {
    /// A value to ask about: first those of which more follows, the others when that is known.
    pub(super) fn guess(&self) -> Option<(Value, Guess)> {
        let (flow, shapes) = self.shapes()?;
        let loops = Loops::new(&flow)?;
        let homes = self.body.homes();
        let is_open = |&(block, value): &(Block, Value)| {
            matches!(self.body.ty(value), Type::Scalar(Scalar::Int(32 | 64)))
                && shapes.shape_at(value, block) == Shape::Varying
                && !self.guessed.contains(&value)
                && !is_spread(&self.body, &shapes, (block, value), 0)
                && !is_scrambled(&self.body, value, 0)
                && self.is_known_in_front(&homes, value, 0)
        };
        let blocks = || flow.reverse_post_order().iter().filter(|block| self.blocks.contains(block.index()));
        let ops = |block: Block| self.body.block(block).insts.iter().map(|&inst| self.body.op(inst));
        let mut same = blocks().flat_map(|&block| {
            let bounds = bounds(&self.body, &loops, block).into_iter();
            let rows = ops(block).filter_map(|op| row(&self.body, op));
            bounds.chain(rows).map(move |value| (block, value))
        });
        if let Some((_, value)) = same.find(is_open) {
            return Some((value, Guess::Same));
        }
        let shapes = &shapes;
        let mut next = blocks().flat_map(|&block| {
            let columns = ops(block).filter_map(move |op| column(&self.body, shapes, block, op));
            columns.map(move |value| (block, value))
        });
        next.find(is_open).map(|(_, value)| (value, Guess::Next))
    }

    /// Asks whether it is so in front of both ways, and takes it for granted in that of packs of which it is.
    pub(super) fn ask(&mut self, (value, guess): (Value, Guess)) {
        self.share *= if self.guessed.is_empty() { RIGHT } else { RIGHT_AGAIN };
        self.guessed.insert(value);
        let homes = self.body.homes();
        let in_front = self.in_front(&homes, value);
        let mut builder = Builder { function: &mut self.body, at: self.entry };
        let ty = builder.ty(in_front);
        // (What lanes hold that are not active may be poison.)
        let own = builder.freeze(in_front);
        let zero = builder.function.int(Type::I32, 0);
        let first = Op::SubGroup { op: SubGroupOp::Shuffle, arguments: vec![own, zero] };
        let first = builder.push(ty.clone(), first);
        let thought = match guess {
            Guess::Same => first,
            Guess::Next => {
                let lane = lane(&mut builder, &ty);
                // As small as ids: what is added doesn't wrap.
                let most = builder.function.int(ty, ID_LIMIT as u128);
                self.tests.push(builder.compare(IntPredicate::Ule, first, most));
                let first = builder.intrinsic(Intrinsic::UnsignedMin, &[first, most]);
                builder.binary(BinaryOp::Add, NO_WRAP, first, lane)
            }
        };
        let differs = builder.compare(IntPredicate::Ne, own, thought);
        let differing = Op::SubGroup { op: SubGroupOp::Ballot, arguments: vec![differs] };
        let differing = builder.push(Type::I64, differing);
        let none = builder.int(0);
        self.tests.push(builder.compare(IntPredicate::Eq, differing, none));
        self.replace(&HashMap::from([(value, thought), (in_front, thought)]));
    }
}

/// Whether lanes' values lie apart by a number that is the same for all of them, as where each has a row of its own: then they are neither
/// the same nor neighbours.
fn is_spread(body: &Function, shapes: &Shapes, (block, value): (Block, Value), depth: u32) -> bool {
    let shape = |value: Value| shapes.shape_at(value, block);
    let of = |value: Value| is_spread(body, shapes, (block, value), depth + 1);
    let is_linear = |value: Value| matches!(shape(value), Shape::Affine { .. }) || of(value);
    match body.defining_op(value).filter(|_| depth < MOST_DEPTH) {
        Some(&Op::Cast { value, .. }) => of(value),
        Some(&Op::Binary { op: BinaryOp::Mul | BinaryOp::Shl, lhs, rhs, .. }) => {
            (is_linear(lhs) && shape(rhs) == Shape::Uniform)
                || (shape(lhs) == Shape::Uniform && is_linear(rhs))
        }
        Some(&Op::Binary { op: BinaryOp::Add | BinaryOp::Sub, lhs, rhs, .. }) => {
            (of(lhs) && shape(rhs) != Shape::Varying) || (of(rhs) && shape(lhs) != Shape::Varying)
        }
        _ => false,
    }
}

/// Whether bits are mixed in a value, as in hashes and permutations: neighbours' have nothing in common.
fn is_scrambled(body: &Function, value: Value, depth: u32) -> bool {
    match body.defining_op(value).filter(|_| depth < MOST_DEPTH) {
        Some(Op::Binary { op: BinaryOp::Xor, .. }) => true,
        Some(op @ (Op::Binary { .. } | Op::Cast { .. } | Op::Select { .. } | Op::Intrinsic { .. })) => {
            op.operands().into_iter().any(|operand| is_scrambled(body, operand, depth + 1))
        }
        _ => false,
    }
}

/// What a loop that begins behind a block, or whose header it is, counts from and to.
fn bounds(body: &Function, loops: &Loops, block: Block) -> Vec<Value> {
    let is_header = |block: Block| loops.innermost(block).filter(|&id| loops.get(id).header == block);
    let terminator = &body.block(block).terminator;
    let enters = |id: LoopId| !loops.contains(id, block);
    let targets =
        terminator.targets().into_iter().filter(|target| is_header(target.block).is_some_and(enters));
    let mut found: Vec<Value> = targets.flat_map(|target| target.arguments.iter().copied()).collect();
    if let (Terminator::Branch { condition, .. }, Some(_)) = (terminator, is_header(block))
        && let Some(&Op::Compare { lhs, rhs, .. }) = body.defining_op(*condition)
    {
        found.extend([lhs, rhs]);
    }
    found
}

/// What an operation multiplies by the length of rows.
fn row(body: &Function, op: &Op) -> Option<Value> {
    let is_long = |by: Value| body.constant_int(by).is_none_or(|by| by >= LEAST_ROW);
    match *op {
        Op::Binary { op: BinaryOp::Mul, lhs, rhs, .. } if is_long(rhs) => Some(lhs),
        Op::Binary { op: BinaryOp::Shl, lhs, rhs, .. } => {
            body.constant_int(rhs).filter(|&by| by >= LEAST_ROW.ilog2().into()).map(|_| lhs)
        }
        _ => None,
    }
}

/// What is added to values that all lanes have in common, in an access's index.
fn column(body: &Function, shapes: &Shapes, block: Block, op: &Op) -> Option<Value> {
    let (Op::Load { pointer, .. } | Op::Store { pointer, .. }) = *op else { return None };
    let &Op::Address { base, index: Some(mut index), .. } = body.defining_op(pointer)? else { return None };
    let is_common = |value: Value| shapes.shape_at(value, block) == Shape::Uniform;
    // Where lanes are neighbours unless an index wraps, accesses ask for themselves.
    if !is_common(base) || Wrapping::of(body, shapes, pointer, block).is_some() {
        return None;
    }
    loop {
        index = match body.defining_op(index) {
            Some(&Op::Cast { value, .. }) => value,
            Some(&Op::Binary { op: BinaryOp::Add, lhs, rhs, .. }) if is_common(lhs) => rhs,
            Some(&Op::Binary { op: BinaryOp::Add, lhs, rhs, .. }) if is_common(rhs) => lhs,
            _ => return Some(index),
        }
    }
}
