//! Widening: quotients that all lanes have in common. Where one id counts rows and columns, `id / n` and `id % n`, the lanes of a pack that
//! lies within a row have the same row, and columns that follow on each other. Each lane's own division shows nothing of that:
//! `a[row * n + i]` and `b[i * n + column]` would be gathers.
//!
//! So the body is written twice. In front of both, the first lane's id is divided, once for the pack; if the last one's is in the same
//! row, the pack goes through a version in which the quotient is that number, and the remainder counts up from the first lane's.

use super::slots::SlotPlan;
use crate::analysis::{
    ControlFlow, Dominators, ID_LIMIT, LoopId, Loops, MemoryShape, Shape, Shapes, interval,
};
use crate::builder::{Builder, copy_blocks, copy_insts, replace_uses};
use crate::transform::ContextKind;
use crate::{
    BinaryOp, Block, CastOp, Flags, Function, Inst, IntPredicate, Intrinsic, Op, Predicate, Scalar, Target,
    Terminator, Type, Value, ValueDef, WorkItemQuery,
};
use fixedbitset::FixedBitSet;
use std::collections::{HashMap, HashSet};

/// Larger bodies are not written twice.
const MOST_COPIED: usize = 2_000;
/// Nor are more divisions done in front of both.
const MOST_DIVISIONS: usize = 8;
/// Lanes' numbers may lie so far apart.
const MOST_APART: i64 = 64;
/// Expressions that are divided are followed so deep.
const MOST_DEPTH: u32 = 12;
/// Numbers in a row whose length is unknown.
const ROW: f64 = 256.0;

/// The block in front of all work-items, and the one that each starts with.
const GROUP: Block = Block(0);
const ITEM: Block = Block(1);

const NO_WRAP: u16 = Flags::NUW | Flags::NSW;

/// A body in which packs that lie within rows go ways of their own.
pub(super) struct Quotients {
    /// With both ways, or with theirs only where all packs lie within rows.
    pub body: Function,
    /// With theirs only.
    pub straight: Function,
    /// The part of packs that goes there.
    pub share: f64,
}

impl Quotients {
    /// None if nothing is divided so, by all work-items or in a loop of them.
    pub fn new(body: &Function, context: &[ContextKind], lanes: u32) -> Option<Quotients> {
        if body.insts().count() > MOST_COPIED {
            return None;
        }
        let loops = Loops::new(&ControlFlow::new(body))?;
        let loops = (0..loops.count()).map(|number| loops.get(LoopId(number)).header);
        let places = [Place::All].into_iter().chain(loops.map(Place::Loop));
        let mut found: Option<Quotients> = None;
        for place in places {
            let [both, straight] = found.as_ref().map_or([body; 2], |found| [&found.body, &found.straight]);
            let Some(split) = Split::new(straight, place, (context, lanes), false) else { continue };
            let both = Split::new(both, place, (context, lanes), !split.tests.is_empty())?.finish();
            let share = split.share * found.as_ref().map_or(1.0, |found| found.share);
            found = Some(Quotients { body: both, straight: split.body, share });
        }
        found
    }
}

/// What is written twice.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    /// All that work-items do.
    All,
    /// The iterations of the loop with this header, behind it.
    Loop(Block),
}

/// What divides.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Divisor {
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
    /// Of each lane.
    remainder: Value,
}

/// The body while it is written.
struct Split<'a> {
    context: &'a [ContextKind],
    lanes: u32,
    body: Function,
    /// The blocks that are written twice.
    blocks: FixedBitSet,
    /// Those in front of them.
    front: FixedBitSet,
    /// Where both ways begin, and each of them: that of packs within rows, and that of packs which lie anywhere.
    entry: Block,
    start: Target,
    other: Option<Target>,
    /// What was computed at the entry, by what it was copied from.
    in_front: HashMap<Value, Value>,
    divided: HashMap<Division, Parts>,
    /// Remainders whose first lane's is known to be a multiple of a number.
    multiples: HashMap<Value, u64>,
    /// Whether a pack lies within a row.
    tests: Vec<Value>,
    share: f64,
}

impl<'a> Split<'a> {
    /// Replaces all divisions that it finds, also those of what these became; `with_other` keeps a copy in which none is.
    fn new(
        body: &Function,
        place: Place,
        (context, lanes): (&'a [ContextKind], u32),
        with_other: bool,
    ) -> Option<Self> {
        let mut split = Split {
            context,
            lanes,
            body: body.clone(),
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
        };
        split.go_to(place)?;
        let mut found = split.find()?;
        if found.is_empty() {
            return None;
        }
        split.part(place, with_other);
        let mut seen = HashSet::new();
        while !found.is_empty() && split.divided.len() < MOST_DIVISIONS {
            let homes = split.body.homes();
            let mut replaced = HashMap::new();
            for Found { result, division, is_quotient } in found {
                let parts = split.divide(&homes, division);
                let part = if is_quotient { split.quotient(division, parts) } else { parts.remainder };
                replaced.insert(result, part);
            }
            replace_uses(&mut split.body, &replaced);
            seen.extend(replaced.into_keys());
            found = split.find()?.into_iter().filter(|found| !seen.contains(&found.result)).collect();
        }
        Some(split)
    }

    /// Finds what is to be written twice. None of a loop with other ways in or out, or of which something is left behind.
    fn go_to(&mut self, place: Place) -> Option<()> {
        let body = &self.body;
        let flow = ControlFlow::new(body);
        let Place::Loop(header) = place else {
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
    fn part(&mut self, place: Place, with_other: bool) {
        let body = &mut self.body;
        let blocks: Vec<Block> = self.blocks.ones().map(|number| Block(number as u32)).collect();
        let copies = if with_other { copy_blocks(body, &blocks) } else { HashMap::new() };
        self.other = copies.get(&self.start.block).map(|&copy| Target { block: copy, ..self.start.clone() });
        let new = body.add_block();
        [&mut self.front, &mut self.blocks].into_iter().for_each(|set| set.grow(body.blocks.len()));
        match place {
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
    fn finish(mut self) -> Function {
        let mut builder = Builder { function: &mut self.body, at: self.entry };
        let all = self.tests.into_iter().reduce(|all, test| builder.binary(BinaryOp::And, 0, all, test));
        if let (Some(condition), Some(otherwise)) = (all, self.other) {
            let terminator = Terminator::Branch { condition, then: self.start, otherwise };
            self.body.set_terminator(self.entry, terminator);
        }
        self.body
    }

    /// The divisions of which lanes may have parts in common.
    fn find(&self) -> Option<Vec<Found>> {
        let body = &self.body;
        let flow = ControlFlow::new(body);
        let loops = Loops::new(&flow)?;
        let slots = SlotPlan::new(body, self.lanes);
        let (slot_strides, interleaved) = (&slots.strides, &slots.interleaved);
        let memory = MemoryShape { context: self.context, slot_strides, interleaved };
        let shapes = Shapes::new(body, &flow, &loops, &memory);
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
        let span = apart * u64::from(self.lanes - 1);
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
        match homes[value.index()] {
            Some(home) => self.front.contains(home.index()),
            None => self.body.is_given(value),
        }
    }

    /// Whether it does, or can be computed there.
    fn is_known_in_front(&self, homes: &[Option<Block>], value: Value, depth: u32) -> bool {
        let is_copied = |op: &Op| {
            let is_plain = matches!(op, Op::Binary { .. } | Op::Cast { .. } | Op::WorkItem { .. });
            let operands = op.operands();
            is_plain
                && self.body.may_speculate(op)
                && operands.iter().all(|&value| self.is_known_in_front(homes, value, depth + 1))
        };
        self.stands_in_front(homes, value)
            || (depth < MOST_DEPTH && self.body.defining_op(value).is_some_and(is_copied))
    }

    /// A value that is known there, computed there if it is not.
    fn in_front(&mut self, homes: &[Option<Block>], value: Value) -> Value {
        if let Some(&known) = self.in_front.get(&value) {
            return known;
        }
        match *self.body.def(value) {
            ValueDef::Inst(inst) if !self.stands_in_front(homes, value) => {
                for operand in self.body.op(inst).operands() {
                    self.in_front(homes, operand);
                }
                copy_insts(&mut self.body, &[inst], self.entry, &mut self.in_front);
                self.in_front[&value]
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
        let (span, pack) = (apart * u64::from(self.lanes - 1), apart * u64::from(self.lanes));
        let multiple = self.multiple_of(number, 0);
        let own = self.in_front(homes, number);
        let given = match by {
            Divisor::Constant(_) => None,
            Divisor::Value(by, signed) => Some((self.in_front(homes, by), signed)),
        };
        let mut builder = Builder { function: &mut self.body, at: self.entry };
        let ty = builder.ty(own);
        let int = |builder: &mut Builder, number: u64| builder.function.int(ty.clone(), number.into());
        let query = WorkItemQuery::SubGroupLocalId;
        let lane = builder.push(Type::I64, Op::WorkItem { query, dimension: 0 });
        let lane = if ty == Type::I64 { lane } else { builder.cast(CastOp::Trunc, ty.clone(), lane) };
        let [zero, one, apart] = [0, 1, apart].map(|number| int(&mut builder, number));
        let behind_first = builder.binary(BinaryOp::Mul, NO_WRAP, lane, apart);
        let first = builder.binary(BinaryOp::Sub, 0, own, behind_first);
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
        let parts = Parts { number: first, divisor, quotient: None, remainder };
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
                self.lanes.into()
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
fn divisor(body: &Function, op: BinaryOp, rhs: Value) -> Option<(bool, Divisor)> {
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

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{parse, transform, verify};

    /// Of a kernel that stores at a quotient and a remainder in 16 lanes: both ways, and how an address differs from lane to lane in that of
    /// packs within rows.
    fn split(operations: &str) -> Option<(Function, Vec<Shape>, f64)> {
        let text = format!(
            "kernel \"k\"(%0: ptr(global) @ 0, %1: i32 @ 8, %2: i64 @ 16) {{\nb0:\n  %3: i64 = global_id 0\n  %4: i64 = local_id 0\n  %5: i32 = trunc %3\n\
             {operations}\n  %30: ptr(global) = address %0 + %20*4 + 0\n  %31: ptr(global) = address %0 + %21*4 + 0\n  store %30, %1, align 4\n  \
             store %31, %1, align 4\n  return\n}}"
        );
        let group = transform::form_regions(parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}")));
        let Quotients { body, straight, share } = Quotients::new(&group.regions[0].body, &group.context, 16)?;
        [&body, &straight].into_iter().for_each(|body| verify(body).unwrap());
        let flow = ControlFlow::new(&straight);
        let loops = Loops::new(&flow).unwrap();
        let memory = MemoryShape { context: &[], slot_strides: &[], interleaved: &Default::default() };
        let shapes = Shapes::new(&straight, &flow, &loops, &memory);
        let stored = straight.insts().filter_map(|inst| match *straight.op(inst) {
            Op::Store { pointer, .. } => Some(shapes.shape(pointer)),
            _ => None,
        });
        let stored = stored.collect();
        Some((body, stored, share))
    }

    const NEXT: Shape = Shape::Affine { stride: 4, exact: false };
    const WIDE: &str = "  %20: i64 = udiv %3, %2\n  %21: i64 = urem %3, %2";

    fn ways(body: &Function) -> usize {
        body.block(ITEM).terminator.targets().len()
    }

    #[test]
    fn rows_are_the_same_and_columns_follow_on_each_other() {
        let signed =
            "  %6: i32 = sdiv %5, %1\n  %7: i32 = srem %5, %1\n  %20: i64 = sext %6\n  %21: i64 = sext %7";
        let bits = "  %20: i64 = lshr %3, 8:i64\n  %21: i64 = and %3, 255:i64";
        for operations in [WIDE, signed, bits, "  %20: i64 = udiv %3, 100:i64\n  %21: i64 = urem %3, 100:i64"]
        {
            let (body, stored, _) = split(operations).unwrap();
            assert_eq!((ways(&body), &stored[..]), (2, &[Shape::Uniform, NEXT][..]), "{operations}");
        }
    }

    #[test]
    fn what_was_divided_is_divided_again() {
        let rest = "  %20: i64 = udiv %6, 64:i64\n  %21: i64 = urem %7, 32:i64";
        let (_, stored, share) =
            split(&format!("  %6: i64 = udiv %3, %2\n  %7: i64 = urem %3, 192:i64\n{rest}")).unwrap();
        assert_eq!(stored, [Shape::Uniform, NEXT]);
        assert_eq!(share, 1.0 - 15.0 / ROW);
    }

    #[test]
    fn local_ids_need_no_question() {
        let tile = "  %20: i64 = lshr %4, 4:i64\n  %21: i64 = and %4, 15:i64";
        let (body, stored, share) = split(tile).unwrap();
        assert_eq!((ways(&body), stored, share), (1, vec![Shape::Uniform, NEXT], 1.0));
        // Not in the middle of a row.
        let moved = "  %6: i64 = add %4, 8:i64\n  %20: i64 = lshr %6, 4:i64\n  %21: i64 = and %6, 15:i64";
        assert_eq!(ways(&split(moved).unwrap().0), 2);
    }

    #[test]
    fn division_that_would_overflow_stands_in_a_choice() {
        let guarded = |not: &str| {
            format!(
                "  %6: i1 = icmp eq %1, {not}:i32\n  %7: i32 = add %1, 1:i32\n  %8: i1 = icmp ult %7, 2:i32\n  %9: i32 = select %8, 1:i32, %1\n  \
                 %10: i32 = sdiv %5, %9\n  %11: i32 = sub 0:i32, %5\n  %12: i32 = select %6, %11, %10\n  %20: i64 = sext %12\n  \
                 %13: i32 = srem %5, %9\n  %21: i64 = sext %13"
            )
        };
        assert_eq!(split(&guarded("4294967295")).unwrap().1, [Shape::Uniform, NEXT]);
        // One that it might be, where a pack lies within a row.
        assert_eq!(split(&guarded("20")).unwrap().1, [Shape::Varying, NEXT]);
    }

    /// A loop that strides over a grid, with a test of its bound in its header, by a step that `flags` promise not to wrap.
    fn strided(flags: &str, behind: &str) -> Option<Quotients> {
        let text = format!(
            "kernel \"k\"(%0: ptr(global) @ 0, %1: i32 @ 8, %2: i32 @ 12) {{\nb0:\n  %3: i64 = global_id 0\n  %4: i32 = trunc %3\n  jump b1(%4, 0:i32)\n\
             b1(%5: i32, %15: i32):\n  %6: i1 = icmp slt %5, %1\n  branch %6, b2, b3\nb2:\n  %7: i32 = udiv %5, %2\n  %8: i32 = urem %5, %2\n\
             %9: i64 = sext %7\n  %10: i64 = sext %8\n  %11: ptr(global) = address %0 + %9*4 + 0\n  %12: ptr(global) = address %11 + %10*4 + 0\n\
             store %12, %1, align 4\n  %13: i32 = add {flags} %5, %1\n  jump b1(%13, %7)\nb3:\n{behind}  return\n}}"
        );
        let group = transform::form_regions(parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}")));
        let found = Quotients::new(&group.regions[0].body, &group.context, 16)?;
        [&found.body, &found.straight].into_iter().for_each(|body| verify(body).unwrap());
        Some(found)
    }

    #[test]
    fn iterations_of_a_loop_are_parted_too() {
        let found = strided("nsw", "  store %0, %15, align 4\n").unwrap();
        let text = found.straight.to_string();
        assert!(text.contains("sub_group_local_id") && !text.contains("udiv %5"), "{text}");
        let branches = |body: &Function| {
            let parted = |block: &crate::BlockData| block.terminator.targets().len() == 2;
            body.blocks.iter().filter(|block| parted(block)).count()
        };
        assert_eq!((branches(&found.straight), branches(&found.body)), (1, 2));
        // Lanes' numbers may wrap.
        assert!(strided("", "").is_none());
    }

    #[test]
    fn others_are_left_alone() {
        for operations in [
            // Rows shorter than a pack.
            "  %20: i64 = lshr %3, 3:i64\n  %21: i64 = and %3, 7:i64",
            // Numbers, and divisors, of each lane.
            "  %6: i64 = mul %3, %3\n  %20: i64 = udiv %6, %2\n  %21: i64 = urem %2, %3",
            // What may be negative.
            "  %6: i32 = sub %5, %1\n  %7: i32 = sdiv %6, 64:i32\n  %20: i64 = sext %7\n  %21: i64 = sext %7",
            // What is known behind a load only.
            "  %6: i64 = load %0, align 8\n  %20: i64 = udiv %3, %6\n  %21: i64 = urem %3, %6",
        ] {
            assert!(split(operations).is_none(), "{operations}");
        }
        assert!(split(&WIDE.replace(", %2", ", 0:i64")).is_none());
    }
}
