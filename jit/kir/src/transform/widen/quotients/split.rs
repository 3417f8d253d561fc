//! Widening: a body with a way of their own for packs that lie within rows, and its copy for those which lie anywhere.

use super::super::slots::SlotPlan;
use super::Place;
use super::guesses::{Guess, MOST_GUESSES};
use crate::analysis::{
    ControlFlow, Dominators, ID_LIMIT, LoopId, Loops, MemoryShape, Shape, Shapes, interval,
};
use crate::builder::{Builder, NO_WRAP, copy_blocks, copy_insts, replace_uses_in};
use crate::transform::{ContextKind, GROUP, ITEM};
use crate::{
    BinaryOp, Block, CastOp, Function, Inst, IntPredicate, Intrinsic, Op, Predicate, Scalar, Target,
    Terminator, Type, UnaryOp, Value, ValueDef, WorkItemQuery,
};
use fixedbitset::FixedBitSet;
use std::collections::{HashMap, HashSet};

/// No more divisions are done in front of both ways.
const MOST_DIVISIONS: usize = 8;
/// Lanes' numbers may lie so far apart.
const MOST_APART: i64 = 64;
/// Expressions that are divided are followed so deep.
pub(super) const MOST_DEPTH: u32 = 12;
/// Numbers in a row whose length is unknown: of images and matrices that are worth a kernel. (Most are multiples of a pack as well, of which
/// none lies in two rows.)
pub(super) const ROW: f64 = 1024.0;

/// What divides.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(in crate::transform) enum Divisor {
    /// A number.
    Constant(u64),
    /// As a signed number, or not.
    Value(Value, bool),
}

/// A number that is divided, and what by.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Division {
    number: Value,
    /// Between the numbers of two lanes.
    apart: u64,
    by: Divisor,
}

/// An operation that yields one part of a division.
struct Found {
    result: Value,
    division: Division,
    is_quotient: bool,
}

/// What became of a division.
#[derive(Clone, Copy)]
struct Parts {
    /// Of the first lane.
    number: Value,
    divisor: Value,
    quotient: Option<Value>,
    of_first: Value,
    /// Of each lane.
    remainder: Value,
}

/// How it is written.
#[derive(Clone, Copy)]
pub(super) struct How<'a> {
    pub context: &'a [ContextKind],
    pub lanes: u32,
    /// Whether packs within rows may have a remainder that is zero.
    pub zeros: bool,
    /// Whether packs are asked for more than where their ids lie.
    pub guesses: bool,
}

/// The body while it is written.
pub(super) struct Split<'a> {
    how: How<'a>,
    place: Place,
    pub body: Function,
    /// What packs were asked about.
    pub(super) guessed: HashSet<Value>,
    /// The blocks that are written twice.
    pub(super) blocks: FixedBitSet,
    /// Those in front of them.
    front: FixedBitSet,
    /// Where both ways begin, and each of them: that of packs within rows, and that of packs which lie anywhere.
    pub(super) entry: Block,
    start: Target,
    other: Option<Target>,
    /// What was computed at the entry, by what it was copied from.
    in_front: HashMap<Value, Value>,
    divided: HashMap<Division, Parts>,
    /// Remainders whose first lane's is known to be a multiple of a number.
    multiples: HashMap<Value, u64>,
    /// Whether a pack lies within a row.
    pub tests: Vec<Value>,
    /// The part of packs that does.
    pub share: f64,
    /// Whether remainders are compared with zero.
    pub asks_for_zero: bool,
}

impl<'a> Split<'a> {
    /// Replaces all divisions that it finds, also those of what these became; `with_other` keeps a copy in which none is.
    pub fn new(body: &Function, place: Place, how: How<'a>, with_other: bool) -> Option<Self> {
        let mut split = Split {
            how,
            place,
            body: body.clone(),
            guessed: HashSet::new(),
            blocks: FixedBitSet::new(),
            front: FixedBitSet::new(),
            entry: ITEM,
            start: Target::to(ITEM),
            other: None,
            in_front: HashMap::new(),
            divided: HashMap::new(),
            multiples: HashMap::new(),
            tests: Vec::new(),
            share: 1.0,
            asks_for_zero: false,
        };
        split.go_to()?;
        let (mut seen, mut is_parted) = (HashSet::new(), false);
        loop {
            let found = if split.divided.len() < MOST_DIVISIONS { split.find()? } else { Vec::new() };
            let found: Vec<Found> = found.into_iter().filter(|found| seen.insert(found.result)).collect();
            let guess = if found.is_empty() { split.next_guess() } else { None };
            if found.is_empty() && guess.is_none() {
                return is_parted.then_some(split);
            }
            if !std::mem::replace(&mut is_parted, true) {
                split.part(with_other);
            }
            match guess {
                Some(guess) => split.ask(guess),
                None => split.replace_divisions(found),
            }
        }
    }

    fn next_guess(&self) -> Option<(Value, Guess)> {
        let may = self.how.guesses && self.guessed.len() < MOST_GUESSES;
        if may { self.guess() } else { None }
    }

    fn replace_divisions(&mut self, found: Vec<Found>) {
        let homes = self.body.homes();
        let mut replaced = HashMap::new();
        for Found { result, division, is_quotient } in found {
            let parts = self.divide(&homes, division);
            let part = if is_quotient { self.quotient(division, parts) } else { parts.remainder };
            replaced.insert(result, part);
        }
        self.replace(&replaced);
        self.decide_zeros();
    }

    /// Uses other values in the way of packs within rows.
    pub(super) fn replace(&mut self, replaced: &HashMap<Value, Value>) {
        replace_uses_in(&mut self.body, self.blocks.ones().map(|number| Block(number as u32)), replaced);
    }

    /// Finds what is to be written twice. None of a loop with other ways in or out, or of which something is left behind.
    fn go_to(&mut self) -> Option<()> {
        let body = &self.body;
        let flow = ControlFlow::new(body);
        let Place::Loop(header) = self.place else {
            let behind = |block: &Block| *block != GROUP && flow.is_reachable(*block);
            self.blocks = body.block_ids().filter(behind).map(Block::index).collect();
            self.front = [GROUP.index()].into_iter().collect();
            return Some(());
        };
        let loops = Loops::new(&flow)?;
        let of_header = |id: &LoopId| loops.get(*id).header == header;
        let blocks = &loops.get((0..loops.count()).map(LoopId).find(of_header)?).blocks;
        let Terminator::Branch { then, otherwise, .. } = &body.block(header).terminator else { return None };
        let [inside, outside] = [then, otherwise].map(|target| blocks.contains(target.block.index()));
        let start = if inside { then } else { otherwise };
        if inside == outside || start.block == header || flow.predecessors(start.block) != [header] {
            return None;
        }
        let is_copied = |block: Block| block != header && blocks.contains(block.index());
        let homes = body.homes();
        let is_left = |value: Value| homes[value.index()].is_some_and(is_copied);
        let outside = body.block_ids().filter(|&block| !is_copied(block) && flow.is_reachable(block));
        for block in outside {
            let data = body.block(block);
            let mut insts = data.insts.iter().flat_map(|&inst| body.op(inst).operands());
            if insts.any(is_left) || data.terminator.operands().into_iter().any(is_left) {
                return None;
            }
        }
        let dominators = Dominators::new(&flow);
        let in_front = |block: &Block| !is_copied(*block) && dominators.dominates(*block, start.block);
        self.front = body.block_ids().filter(in_front).map(Block::index).collect();
        self.blocks = blocks.ones().filter(|&number| number != header.index()).collect();
        self.start = start.clone();
        Some(())
    }

    /// Makes a block in front of what is written twice, and the copy.
    fn part(&mut self, with_other: bool) {
        let body = &mut self.body;
        let blocks: Vec<Block> = self.blocks.ones().map(|number| Block(number as u32)).collect();
        let copies = if with_other { copy_blocks(body, &blocks) } else { HashMap::new() };
        self.other = copies.get(&self.start.block).map(|&copy| Target { block: copy, ..self.start.clone() });
        let new = body.add_block();
        [&mut self.front, &mut self.blocks].into_iter().for_each(|set| set.grow(body.blocks.len()));
        match self.place {
            Place::All => {
                body.blocks.swap(ITEM.index(), new.index());
                self.start.block = new;
                self.blocks.set(ITEM.index(), false);
                self.blocks.insert(new.index());
            }
            Place::Loop(header) => {
                let start = self.start.block;
                let targets = body.blocks[header.index()].terminator.targets_mut().into_iter();
                targets.filter(|target| target.block == start).for_each(|target| *target = Target::to(new));
                self.entry = new;
            }
        }
        body.set_terminator(self.entry, Terminator::Jump(self.start.clone()));
        self.front.insert(self.entry.index());
    }

    /// On to the straight version if all tests say so.
    pub fn finish(mut self) -> Function {
        let mut builder = Builder { function: &mut self.body, at: self.entry };
        let all = self.tests.into_iter().reduce(|all, test| builder.binary(BinaryOp::And, 0, all, test));
        if let (Some(condition), Some(otherwise)) = (all, self.other) {
            let terminator = Terminator::Branch { condition, then: self.start, otherwise };
            self.body.set_terminator(self.entry, terminator);
        }
        self.body
    }

    /// Where a remainder of lanes that are away from the row's first is compared with zero, what follows.
    fn decide_zeros(&mut self) {
        let remainders: HashMap<Value, Value> =
            self.divided.values().map(|parts| (parts.remainder, parts.of_first)).collect();
        let mut decided = HashMap::new();
        let blocks: Vec<Block> = self.blocks.ones().map(|number| Block(number as u32)).collect();
        let insts: Vec<Inst> =
            blocks.iter().flat_map(|&block| self.body.block(block).insts.clone()).collect();
        for inst in insts {
            let &Op::Compare { predicate: Predicate::Int(predicate), lhs, rhs, .. } = self.body.op(inst)
            else {
                continue;
            };
            let (Some(&of_first), Some(0)) = (remainders.get(&lhs), self.body.constant_int(rhs)) else {
                continue;
            };
            let is_asked = matches!(predicate, IntPredicate::Eq | IntPredicate::Ne);
            let Some(result) = self.body.result(inst).filter(|_| is_asked) else { continue };
            self.asks_for_zero = true;
            if !self.how.zeros {
                let mut builder = Builder { function: &mut self.body, at: self.entry };
                self.tests.push(builder.compare(IntPredicate::Ne, of_first, rhs));
                decided.insert(result, self.body.int(Type::BOOL, (predicate == IntPredicate::Ne).into()));
            }
        }
        self.replace(&decided);
        if !decided.is_empty() {
            self.follow_constants(&blocks);
        }
    }

    /// Choices by a constant are made.
    fn follow_constants(&mut self, blocks: &[Block]) {
        let mut chosen = HashMap::new();
        for &block in blocks {
            for &inst in &self.body.block(block).insts {
                let &Op::Select { condition, then, otherwise, .. } = self.body.op(inst) else { continue };
                let constant =
                    self.body.constant_int(condition).filter(|_| *self.body.ty(condition) == Type::BOOL);
                if let (Some(number), Some(result)) = (constant, self.body.result(inst)) {
                    chosen.insert(result, if number == 0 { otherwise } else { then });
                }
            }
            if let Terminator::Branch { condition, then, otherwise } = &self.body.block(block).terminator
                && let Some(number) = self.body.constant_int(*condition)
            {
                let target = if number == 0 { otherwise } else { then }.clone();
                self.body.set_terminator(block, Terminator::Jump(target));
            }
        }
        self.replace(&chosen);
    }

    pub(super) fn shapes(&self) -> Option<(ControlFlow, Shapes)> {
        let flow = ControlFlow::new(&self.body);
        let loops = Loops::new(&flow)?;
        let slots = SlotPlan::new(&self.body, self.how.context, self.how.lanes);
        let (slot_strides, interleaved) = (&slots.strides, &slots.interleaved);
        let memory = MemoryShape { context: self.how.context, slot_strides, interleaved };
        let shapes = Shapes::new(&self.body, &flow, &loops, &memory);
        Some((flow, shapes))
    }

    /// The divisions of which lanes may have parts in common.
    fn find(&self) -> Option<Vec<Found>> {
        let body = &self.body;
        let (flow, shapes) = self.shapes()?;
        let homes = body.homes();
        let blocks = flow.reverse_post_order().iter().filter(|block| self.blocks.contains(block.index()));
        let insts = blocks.flat_map(|&block| body.block(block).insts.iter().map(move |&inst| (block, inst)));
        Some(insts.filter_map(|(block, inst)| self.found((&shapes, &homes), block, inst)).collect())
    }

    fn found(&self, (shapes, homes): (&Shapes, &[Option<Block>]), block: Block, inst: Inst) -> Option<Found> {
        let (body, result) = (&self.body, self.body.result(inst)?);
        let Op::Binary { op, lhs: number, rhs, .. } = *divided(body, body.op(inst)) else { return None };
        let (is_quotient, by) = divisor(body, op, rhs)?;
        let apart = match shapes.shape_at(number, block) {
            Shape::Affine { stride: apart @ 1..=MOST_APART, exact: true } => apart as u64,
            _ => return None,
        };
        let span = apart * u64::from(self.how.lanes - 1);
        let Type::Scalar(Scalar::Int(32 | 64)) = *body.ty(number) else { return None };
        let in_front = |value: Value| self.is_known_in_front(homes, value, 0);
        let may_be_common = match by {
            Divisor::Constant(by) => by > span,
            Divisor::Value(by, _) => shapes.shape_at(by, block) == Shape::Uniform && in_front(by),
        };
        let is_apart = shapes.shape(result) == Shape::Varying;
        let division = Division { number, apart, by };
        (may_be_common && is_apart && in_front(number)).then_some(Found { result, division, is_quotient })
    }

    /// Whether a value stands in front of all that work-items do.
    fn stands_in_front(&self, homes: &[Option<Block>], value: Value) -> bool {
        match homes.get(value.index()) {
            Some(Some(home)) => self.front.contains(home.index()),
            Some(None) => self.body.is_given(value),
            // It was written there since.
            None => true,
        }
    }

    /// Whether it does, or can be computed there.
    pub(super) fn is_known_in_front(&self, homes: &[Option<Block>], value: Value, depth: u32) -> bool {
        let is_copied = |op: &Op| {
            use Op::{Binary, Cast, Compare, ContextLoad, Intrinsic, Select, WorkItem};
            // What crossed a barrier is loaded before anything else is done.
            let is_first =
                || self.place == Place::All && homes.get(value.index()) == Some(&Some(self.start.block));
            let is_plain = match op {
                Binary { .. } | Cast { .. } | Compare { .. } | Select { .. } | WorkItem { .. } => true,
                Intrinsic { .. } => !op.has_effect(),
                ContextLoad(_) if is_first() => return true,
                op => is_frozen(op),
            };
            let operands = op.operands();
            is_plain
                && (self.body.may_speculate(op) || is_frozen(op))
                && operands.iter().all(|&value| self.is_known_in_front(homes, value, depth + 1))
        };
        self.stands_in_front(homes, value)
            || (depth < MOST_DEPTH && self.body.defining_op(value).is_some_and(is_copied))
    }

    /// A value that is known there, computed there if it is not.
    pub(super) fn in_front(&mut self, homes: &[Option<Block>], value: Value) -> Value {
        if let Some(&known) = self.in_front.get(&value) {
            return known;
        }
        match *self.body.def(value) {
            ValueDef::Inst(inst) if !self.stands_in_front(homes, value) => {
                for operand in self.body.op(inst).operands() {
                    self.in_front(homes, operand);
                }
                copy_insts(&mut self.body, &[inst], self.entry, &mut self.in_front);
                let copy = self.in_front[&value];
                if is_frozen(self.body.op(inst)) {
                    // Of an undefined value the copy may be another one.
                    self.replace(&HashMap::from([(value, copy)]));
                }
                copy
            }
            _ => value,
        }
    }

    /// Divides the first lane's number, and asks whether the last one's has the same quotient.
    fn divide(&mut self, homes: &[Option<Block>], division: Division) -> Parts {
        if let Some(&parts) = self.divided.get(&division) {
            return parts;
        }
        let Division { number, apart, by } = division;
        let (span, pack) = (apart * u64::from(self.how.lanes - 1), apart * u64::from(self.how.lanes));
        let multiple = self.multiple_of(number, 0);
        let own = self.in_front(homes, number);
        let given = match by {
            Divisor::Constant(_) => None,
            Divisor::Value(by, signed) => Some((self.in_front(homes, by), signed)),
        };
        let mut builder = Builder { function: &mut self.body, at: self.entry };
        let ty = builder.ty(own);
        let int = |builder: &mut Builder, number: u64| builder.function.int(ty.clone(), number.into());
        let lane = lane(&mut builder, &ty);
        let [zero, one, apart] = [0, 1, apart].map(|number| int(&mut builder, number));
        let behind_first = builder.binary(BinaryOp::Mul, NO_WRAP, lane, apart);
        let first = builder.binary(BinaryOp::Sub, 0, own, behind_first);
        // What is computed in front of the condition that it stood behind may be poison there.
        let first = builder.freeze(first);
        let given = given.map(|(by, signed)| (builder.freeze(by), signed));
        // Remainders are not larger than what is divided: where that is as small as ids are, no sum wraps.
        let known = interval(builder.function, number, 0);
        let known = known.filter(|&(least, most)| least >= 0 && most <= ID_LIMIT);
        let most = int(&mut builder, known.map_or(ID_LIMIT, |(_, most)| most) as u64);
        if known.is_none() {
            self.tests.push(builder.compare(IntPredicate::Ule, first, most));
        }
        let first = builder.intrinsic(Intrinsic::UnsignedMin, &[first, most]);
        let divisor = match (by, given) {
            (Divisor::Constant(by), _) => int(&mut builder, by),
            (_, Some((by, signed))) => {
                let predicate = if signed { IntPredicate::Sgt } else { IntPredicate::Ne };
                let divides = builder.compare(predicate, by, zero);
                builder.select(divides, by, one)
            }
            _ => one,
        };
        let of_first = builder.binary(BinaryOp::URem, 0, first, divisor);
        let remainder = builder.binary(BinaryOp::Add, NO_WRAP, of_first, behind_first);
        let within = match by {
            Divisor::Constant(by) => {
                self.multiples.insert(remainder, gcd(multiple, by));
                if by.is_multiple_of(pack) { 1.0 } else { 1.0 - span as f64 / by as f64 }
            }
            Divisor::Value(..) => 1.0 - span as f64 / ROW,
        };
        self.share *= within.max(0.0);
        let is_within =
            matches!(by, Divisor::Constant(by) if by.is_multiple_of(pack)) && multiple.is_multiple_of(pack);
        if !is_within {
            let (by, signed) = given.unwrap_or((divisor, false));
            let span = int(&mut builder, span);
            let last = builder.binary(BinaryOp::Add, NO_WRAP, of_first, span);
            let predicate = if signed { IntPredicate::Slt } else { IntPredicate::Ult };
            self.tests.push(builder.compare(predicate, last, by));
        }
        let parts = Parts { number: first, divisor, quotient: None, of_first, remainder };
        self.divided.insert(division, parts);
        parts
    }

    fn quotient(&mut self, division: Division, parts: Parts) -> Value {
        let Parts { number, divisor, quotient, .. } = parts;
        let mut builder = Builder { function: &mut self.body, at: self.entry };
        let quotient = quotient.unwrap_or_else(|| builder.binary(BinaryOp::UDiv, 0, number, divisor));
        self.divided.insert(division, Parts { quotient: Some(quotient), ..parts });
        quotient
    }

    /// What the first lane's number is known to be a multiple of: packs begin at multiples of their lanes.
    fn multiple_of(&self, value: Value, depth: u32) -> u64 {
        let of = |value: Value| self.multiple_of(value, depth + 1);
        let constant =
            |value: Value| self.body.constant_int(value).and_then(|number| u64::try_from(number).ok());
        if let Some(known) = self.multiples.get(&value).copied().or_else(|| constant(value)) {
            return known;
        }
        match self.body.defining_op(value).filter(|_| depth < MOST_DEPTH) {
            Some(&Op::WorkItem { query: WorkItemQuery::LocalId, dimension })
                if dimension == self.body.row_dimension =>
            {
                self.how.lanes.into()
            }
            Some(&Op::Cast { op: CastOp::Trunc | CastOp::ZExt | CastOp::SExt, value, .. }) => of(value),
            Some(&Op::Binary { op, lhs, rhs, .. }) => match (op, constant(rhs)) {
                (BinaryOp::Add, _) => gcd(of(lhs), of(rhs)),
                (BinaryOp::Mul, Some(by)) => of(lhs).saturating_mul(by),
                (BinaryOp::Shl, Some(by @ 0..32)) => of(lhs).saturating_mul(1 << by),
                _ => 1,
            },
            _ => 1,
        }
    }
}

/// The division that an operation is: one of signed numbers may stand in a choice of what it yields where it would overflow. That chooses
/// by the divisor, of which one is made then; which no pack is within.
fn divided<'a>(body: &'a Function, op: &'a Op) -> &'a Op {
    let overflows = |condition: Value, by: Value| {
        let Some(&Op::Compare { predicate: Predicate::Int(IntPredicate::Eq), lhs, rhs, .. }) =
            body.defining_op(condition)
        else {
            return false;
        };
        let Some(&Op::Select { then, otherwise, .. }) = body.defining_op(by) else { return false };
        let Type::Scalar(Scalar::Int(bits @ 1..=64)) = *body.ty(rhs) else { return false };
        let is_negative = body.constant_int(rhs).is_some_and(|number| number >> (bits - 1) & 1 == 1);
        is_negative && body.constant_int(then) == Some(1) && lhs == otherwise
    };
    match *op {
        Op::Select { condition, otherwise, .. } => match body.defining_op(otherwise) {
            Some(division @ &Op::Binary { op: BinaryOp::SDiv | BinaryOp::SRem, rhs, .. })
                if overflows(condition, rhs) =>
            {
                division
            }
            _ => op,
        },
        _ => op,
    }
}

/// What an operation divides by, and whether it yields the quotient.
pub(in crate::transform) fn divisor(body: &Function, op: BinaryOp, rhs: Value) -> Option<(bool, Divisor)> {
    use BinaryOp::{AShr, And, LShr, SDiv, SRem, UDiv, URem};
    let constant = body.constant_int(rhs);
    let divisor = match (op, constant) {
        (LShr | AShr, Some(by @ 1..=30)) => Divisor::Constant(1 << by),
        (And, Some(mask @ 1..=0x7fff_ffff)) if (mask + 1).is_power_of_two() => {
            Divisor::Constant(mask as u64 + 1)
        }
        (UDiv | URem | SDiv | SRem, Some(by @ 1..=0x7fff_ffff)) => Divisor::Constant(by as u64),
        (UDiv | URem, None) => Divisor::Value(rhs, false),
        (SDiv | SRem, None) => Divisor::Value(rhs, true),
        _ => return None,
    };
    Some((matches!(op, LShr | AShr | UDiv | SDiv), divisor))
}

/// The number of each lane.
pub(super) fn lane(builder: &mut Builder, ty: &Type) -> Value {
    let query = WorkItemQuery::SubGroupLocalId;
    let lane = builder.push(Type::I64, Op::WorkItem { query, dimension: 0 });
    if *ty == Type::I64 { lane } else { builder.cast(CastOp::Trunc, ty.clone(), lane) }
}

fn is_frozen(op: &Op) -> bool {
    matches!(op, Op::Unary { op: UnaryOp::Freeze, .. })
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}
