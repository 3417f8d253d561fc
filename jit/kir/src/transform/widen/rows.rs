//! Widening: loops in which each work-item walks along a row of its own, such as `a[item * n + i]` for each i. Lanes lie anywhere,
//! but of several iterations a lane's elements lie together: a strip of them is loaded at once (`whole`), for which the
//! loop is strip-mined.

use super::slots::access_size;
use super::whole::{PIECE_BYTES, piece_elements};
use crate::analysis::{LoopId, Loops, Shape, Shapes};
use crate::builder::{Builder, copy_insts};
use crate::{
    AddressSpace, BinaryOp, Block, CastOp, Flags, Function, Inst, IntPredicate, Op, Predicate, Scalar,
    Target, Terminator, Type, Value, ValueDef, WorkItemQuery,
};
use std::collections::{HashMap, HashSet};

/// Bytes of a row in a strip: a line of the caches, which is done with when it is left.
const STRIP_BYTES: u64 = 64;
/// No instruction gathers smaller elements.
const LEAST_GATHERED: u64 = 4;
/// A loop's instructions are not written more often than makes so many.
const MOST_INSTRUCTIONS: usize = 320;
/// More lanes would keep more than the registers hold.
const MOST_LANES: u32 = 16;
/// Indices are looked into so deep.
const MOST_DEPTH: u32 = 8;

/// A loop that walks along rows: a header that tests a counter, and one block.
struct Walk {
    header: Block,
    body: Block,
    /// The header's parameter that is one more in each iteration, and stays below the bound.
    counter: Value,
    bound: Value,
    predicate: IntPredicate,
    /// The test's instruction, and its result where the loop goes on.
    test: Inst,
    passed: bool,
    /// Iterations of a strip.
    strip: u32,
    rows: Vec<Row>,
}

/// A load that walks along a row: from `base` + the sum of each term * its scale + the counter, extended, * the element's size + `offset`.
struct Row {
    load: Inst,
    base: Value,
    terms: Vec<(Value, i64)>,
    offset: i64,
    extension: Option<CastOp>,
}

/// A body's walks.
#[derive(Default)]
pub(super) struct Walks {
    walks: Vec<Walk>,
    loaded: HashSet<Value>,
}

impl Walks {
    pub fn new(body: &Function, loops: &Loops, shapes: &Shapes, lanes: u32) -> Self {
        if lanes > MOST_LANES {
            return Walks::default();
        }
        let uniform = loops.without_inner().filter(|&id| !shapes.is_divergent_loop(id));
        let walks: Vec<Walk> = uniform.filter_map(|id| walk(body, loops, shapes, (id, lanes))).collect();
        let loads = walks.iter().flat_map(|walk| &walk.rows);
        let loaded = loads.filter_map(|row| body.result(row.load)).collect();
        Walks { walks, loaded }
    }

    /// Whether strips are loaded in a load's place.
    pub fn serve(&self, loaded: Value) -> bool {
        self.loaded.contains(&loaded)
    }

    /// The body with a loop for strips in front of each walk, which does the rest.
    pub fn strip_mined(&self, body: &Function) -> Option<Function> {
        if self.walks.is_empty() {
            return None;
        }
        let mut body = body.clone();
        for walk in &self.walks {
            walk.strip_mine(&mut body);
        }
        Some(body)
    }
}

fn walk(body: &Function, loops: &Loops, shapes: &Shapes, (id, lanes): (LoopId, u32)) -> Option<Walk> {
    let found = loops.get(id);
    let header = found.header;
    let mut others = found.blocks.ones().filter(|&number| number != header.index());
    let (Some(block), None) = (others.next(), others.next()) else { return None };
    let block = Block(block as u32);
    let Terminator::Jump(again) = &body.block(block).terminator else { return None };
    let Terminator::Branch { condition, then, otherwise } = &body.block(header).terminator else {
        return None;
    };
    let stays = then.block == block;
    if stays == (otherwise.block == block) || !body.block(block).params.is_empty() {
        return None;
    }
    let ValueDef::Inst(test) = *body.def(*condition) else { return None };
    let Op::Compare { predicate: Predicate::Int(predicate), lhs, rhs, .. } = *body.op(test) else {
        return None;
    };
    let params = &body.block(header).params;
    let (place, counter, bound, predicate) = match params.iter().position(|&param| param == lhs) {
        Some(place) => (place, lhs, rhs, predicate),
        None => (params.iter().position(|&param| param == rhs)?, rhs, lhs, swapped(predicate)),
    };
    let predicate = bounding(predicate, stays)?;
    let step = body.defining_op(again.arguments[place]);
    let Some(&Op::Binary { op: BinaryOp::Add, flags, lhs, rhs }) = step else { return None };
    if lhs != counter || body.constant_int(rhs) != Some(1) {
        return None;
    }
    let insts = || [header, block].into_iter().flat_map(|block| &body.block(block).insts).copied();
    let inside: HashSet<Value> =
        insts().filter_map(|inst| body.result(inst)).chain(params.iter().copied()).collect();
    let count = insts().count();
    if inside.contains(&bound) || insts().any(|inst| body.op(inst).has_effect()) {
        return None;
    }
    let signed = predicate == IntPredicate::Slt || flags.0 & Flags::NSW != 0;
    let unsigned = predicate == IntPredicate::Ult || flags.0 & Flags::NUW != 0;
    let search = Search { body, inside: &inside, counter, signed, unsigned };
    // Rows that are read once come from far away: gathers leave the processor time to fetch ahead, strips don't.
    let again = loops.get(id).parent.is_some() || has_other_dimensions(body);
    let is_apart = |pointer: Value, size: u64| match shapes.shape_at(pointer, block) {
        Shape::Uniform => false,
        Shape::Affine { stride, .. } => stride.unsigned_abs() > super::interleaved::MOST_APART as u64 * size,
        Shape::Varying => true,
    };
    let row = |&inst: &Inst| {
        let Op::Load { pointer, .. } = *body.op(inst) else { return None };
        let ty = body.ty(body.result(inst)?);
        let size = access_size(ty).filter(|_| matches!(ty, Type::Scalar(Scalar::Int(_))) || ty.is_float())?;
        if matches!(ty, Type::Vector(..)) {
            return None;
        }
        let vector = Type::Vector(ty.scalar()?, (STRIP_BYTES / size) as u32);
        let is_private = body.ty(pointer).scalar() == Some(Scalar::Pointer(AddressSpace::Private));
        piece_elements(&vector, lanes)?;
        if is_private || !is_apart(pointer, size) || !(again || size < LEAST_GATHERED) {
            return None;
        }
        Some((search.row(inst, pointer, size as i64)?, size))
    };
    let (rows, sizes): (Vec<Row>, Vec<u64>) = body.block(block).insts.iter().filter_map(row).unzip();
    let least = PIECE_BYTES / sizes.iter().min()?;
    let mut strip = (STRIP_BYTES / sizes.iter().max()?).max(least);
    while strip as usize * count > MOST_INSTRUCTIONS && strip > least {
        strip /= 2;
    }
    if strip as usize * count > MOST_INSTRUCTIONS {
        return None;
    }
    let strip = strip as u32;
    Some(Walk { header, body: block, counter, bound, predicate, test, passed: stays, strip, rows })
}

/// Whether work-items differ in more than one dimension: then those of another one read the same row.
fn has_other_dimensions(body: &Function) -> bool {
    use WorkItemQuery::{GlobalId, GroupId, LocalId};
    let of_rows = body.row_dimension;
    let is_id = |op: &Op| match op {
        Op::WorkItem { query: GlobalId | GroupId | LocalId, dimension } => *dimension != of_rows,
        _ => false,
    };
    body.insts().any(|inst| is_id(body.op(inst)))
}

fn swapped(predicate: IntPredicate) -> IntPredicate {
    use IntPredicate::*;
    match predicate {
        Ugt => Ult,
        Uge => Ule,
        Ult => Ugt,
        Ule => Uge,
        Sgt => Slt,
        Sge => Sle,
        Slt => Sgt,
        Sle => Sge,
        same => same,
    }
}

/// The test by which the loop goes on, if it does while the counter has not come to the bound.
fn bounding(predicate: IntPredicate, stays: bool) -> Option<IntPredicate> {
    use IntPredicate::*;
    match (predicate, stays) {
        (Slt, true) | (Sge, false) => Some(Slt),
        (Ult, true) | (Uge, false) => Some(Ult),
        (Ne, true) | (Eq, false) => Some(Ne),
        _ => None,
    }
}

/// Looks into addresses.
struct Search<'a> {
    body: &'a Function,
    /// What is defined in the loop.
    inside: &'a HashSet<Value>,
    counter: Value,
    /// Whether the counter does not wrap as such a number.
    signed: bool,
    unsigned: bool,
}

impl Search<'_> {
    fn row(&self, load: Inst, pointer: Value, size: i64) -> Option<Row> {
        let &Op::Address { base, index, scale, offset, .. } = self.body.defining_op(pointer)? else {
            return None;
        };
        if !self.is_invariant(base, 0) {
            // The counter is further down.
            if index.is_some_and(|index| !self.is_invariant(index, 0)) {
                return None;
            }
            let mut row = self.row(load, base, size)?;
            row.terms.extend(index.map(|index| (index, scale)));
            row.offset = row.offset.wrapping_add(offset);
            return Some(row);
        }
        let mut terms = Vec::new();
        let index = index.filter(|&index| scale == size && *self.body.ty(index) == Type::I64)?;
        let extension = self.summands(index, false, 0, &mut terms)?;
        let terms = terms.into_iter().map(|term| (term, scale)).collect();
        Some(Row { load, base, terms, offset, extension })
    }

    /// What is added to the counter in a value, and how the counter is extended. `exact` says that the sum is extended as a signed number.
    fn summands(
        &self,
        value: Value,
        exact: bool,
        depth: u32,
        terms: &mut Vec<Value>,
    ) -> Option<Option<CastOp>> {
        if value == self.counter {
            let extension = exact.then_some(CastOp::SExt);
            return (self.signed || !exact).then_some(extension);
        }
        if depth > MOST_DEPTH {
            return None;
        }
        match *self.body.defining_op(value)? {
            Op::Cast { op: CastOp::SExt, value, .. } => self.summands(value, true, depth + 1, terms),
            Op::Cast { op: CastOp::ZExt, value, flags } if value == self.counter && !exact => {
                let fits = self.unsigned || (self.signed && flags.0 & Flags::NNEG != 0);
                fits.then_some(Some(CastOp::ZExt))
            }
            // (Bits that are nowhere in both are sums, of which none wraps.)
            Op::Binary { op, flags, lhs, rhs }
                if match op {
                    BinaryOp::Add => !exact || flags.0 & Flags::NSW != 0,
                    _ => op == BinaryOp::Or && flags.0 & Flags::DISJOINT != 0,
                } =>
            {
                let (counted, other) = if self.is_invariant(rhs, 0) { (lhs, rhs) } else { (rhs, lhs) };
                if !self.is_invariant(other, 0) {
                    return None;
                }
                terms.push(other);
                self.summands(counted, exact, depth + 1, terms)
            }
            _ => None,
        }
    }

    /// Whether a value is the same in each iteration, and can be computed in front of the loop.
    fn is_invariant(&self, value: Value, depth: u32) -> bool {
        if !self.inside.contains(&value) {
            return true;
        }
        let Some(op) = self.body.defining_op(value).filter(|_| depth < MOST_DEPTH) else { return false };
        let is_plain = matches!(op, Op::Binary { .. } | Op::Cast { .. } | Op::Address { .. });
        is_plain && op.is_speculatable() && op.operands().iter().all(|&v| self.is_invariant(v, depth + 1))
    }
}

impl Walk {
    fn strip_mine(&self, body: &mut Function) {
        let params = body.block(self.header).params.clone();
        let types: Vec<Type> = params.iter().map(|&param| body.ty(param).clone()).collect();
        let [entry, header, strip] = std::array::from_fn(|_| body.add_block());
        let entered = |body: &mut Function, block: Block| -> Vec<Value> {
            types.iter().map(|ty| body.add_block_param(block, ty.clone())).collect()
        };
        for from in body.block_ids().filter(|&from| from != self.body) {
            let targets = body.blocks[from.index()].terminator.targets_mut().into_iter();
            targets.filter(|target| target.block == self.header).for_each(|target| target.block = entry);
        }
        let at_entry = entered(body, entry);
        let mut known = HashMap::new();
        let starts: Vec<Value> =
            self.rows.iter().map(|row| self.start(body, (row, entry), &mut known)).collect();
        let mut builder = Builder { function: body, at: entry };
        builder.jump(header, &at_entry);
        let at_header = entered(body, header);
        self.test_strip(body, (header, strip), &at_header, &params);
        self.write_strip(body, (header, strip), &at_header, (&starts, &known));
    }

    /// A row's pointer without the counter, in front of the loop.
    fn start(
        &self,
        body: &mut Function,
        (row, at): (&Row, Block),
        known: &mut HashMap<Value, Value>,
    ) -> Value {
        let mut start = self.in_front(body, row.base, at, known);
        for &(term, scale) in &row.terms {
            let term = self.in_front(body, term, at, known);
            let mut builder = Builder { function: body, at };
            let term = match builder.ty(term) {
                Type::I64 => term,
                _ => builder.cast(CastOp::SExt, Type::I64, term),
            };
            let op = Op::Address { base: start, index: Some(term), scale, offset: 0, inbounds: false };
            start = builder.push(builder.ty(start), op);
        }
        start
    }

    /// A value that is the same in all iterations, computed in front of the loop if it is not there.
    fn in_front(
        &self,
        body: &mut Function,
        value: Value,
        at: Block,
        known: &mut HashMap<Value, Value>,
    ) -> Value {
        if let Some(&known) = known.get(&value) {
            return known;
        }
        let ValueDef::Inst(inst) = *body.def(value) else { return value };
        let is_inside = [self.header, self.body].iter().any(|&block| body.block(block).insts.contains(&inst));
        if !is_inside {
            return value;
        }
        for operand in body.op(inst).operands() {
            self.in_front(body, operand, at, known);
        }
        copy_insts(body, &[inst], at, known);
        known[&value]
    }

    /// On to the strip while that many iterations are left, else to the loop as it was.
    fn test_strip(
        &self,
        body: &mut Function,
        (header, strip): (Block, Block),
        arguments: &[Value],
        params: &[Value],
    ) {
        let place = params.iter().position(|&param| param == self.counter).unwrap_or(0);
        let mut builder = Builder { function: body, at: header };
        let counter = arguments[place];
        let ty = builder.ty(counter);
        let left = builder.binary(BinaryOp::Sub, 0, self.bound, counter);
        let least = builder.function.int(ty, self.strip.into());
        let mut enough = builder.compare(IntPredicate::Uge, left, least);
        if self.predicate != IntPredicate::Ne {
            let within = builder.compare(self.predicate, counter, self.bound);
            enough = builder.binary(BinaryOp::And, 0, within, enough);
        }
        builder.branch(enough, (strip, &[]), (self.header, arguments));
    }

    /// All rows' strips are loaded, then the loop's iterations follow on each other.
    fn write_strip(
        &self,
        body: &mut Function,
        (header, strip): (Block, Block),
        arguments: &[Value],
        (starts, known): (&[Value], &HashMap<Value, Value>),
    ) {
        let params = body.block(self.header).params.clone();
        let place = params.iter().position(|&param| param == self.counter).unwrap_or(0);
        let counter = arguments[place];
        let loaded: Vec<Value> = self
            .rows
            .iter()
            .zip(starts)
            .map(|(row, &start)| self.load_strip(body, strip, row, (start, counter)))
            .collect();
        let is_copied = |body: &Function, inst: &Inst| {
            let result = body.result(*inst);
            *inst != self.test && !result.is_some_and(|result| known.contains_key(&result))
        };
        let insts: Vec<Inst> =
            [self.header, self.body].into_iter().flat_map(|block| body.block(block).insts.clone()).collect();
        let rows: HashMap<Inst, usize> =
            self.rows.iter().enumerate().map(|(number, row)| (row.load, number)).collect();
        let copied: Vec<Inst> =
            insts.into_iter().filter(|inst| is_copied(body, inst) && !rows.contains_key(inst)).collect();
        let Terminator::Jump(again) = body.block(self.body).terminator.clone() else { return };
        let passed = body.int(Type::BOOL, self.passed.into());
        let passed = body.result(self.test).map(|test| (test, passed));
        let mut current = arguments.to_vec();
        for iteration in 0..self.strip {
            let mut known = known.clone();
            known.extend(params.iter().copied().zip(current).chain(passed));
            for (row, &strip_value) in self.rows.iter().zip(&loaded) {
                let index = body.int(Type::I32, iteration.into());
                let Some(result) = body.result(row.load) else { continue };
                let op = Op::ExtractElement { vector: strip_value, index };
                let element = body.push(strip, body.ty(result).clone(), op);
                known.insert(result, element);
            }
            copy_insts(body, &copied, strip, &mut known);
            let next = again.arguments.iter().map(|v| known.get(v).copied().unwrap_or(*v));
            current = next.collect();
        }
        body.set_terminator(strip, Terminator::Jump(Target { block: header, arguments: current }));
    }

    fn load_strip(
        &self,
        body: &mut Function,
        at: Block,
        row: &Row,
        (start, counter): (Value, Value),
    ) -> Value {
        let (align, ty) = match (body.op(row.load), body.result(row.load)) {
            (&Op::Load { align, .. }, Some(result)) => (align, body.ty(result).clone()),
            _ => unreachable!("a row is loaded"),
        };
        let size = access_size(&ty).unwrap_or(1) as i64;
        let mut builder = Builder { function: body, at };
        let index = match row.extension {
            Some(op) => builder.cast(op, Type::I64, counter),
            None => counter,
        };
        let op =
            Op::Address { base: start, index: Some(index), scale: size, offset: row.offset, inbounds: false };
        let pointer = builder.push(builder.ty(start), op);
        let scalar = ty.scalar().unwrap_or(Scalar::Int(8));
        builder.load(Type::Vector(scalar, self.strip), pointer, align)
    }
}
