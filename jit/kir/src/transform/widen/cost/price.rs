//! Widening: what each instruction costs.

use super::super::Facts;
use super::super::aos::TRANSPOSE;
use super::super::bit_indices::BitIndex;
use super::super::calls::Estimate;
use super::super::conflicts::Lines;
use super::super::distance::Distance;
use super::super::division::{is_divisor, is_short};
use super::super::long_division::is_long_by_constant;
use super::super::memory::{Elements, word};
use super::super::slots::access_size;
use super::super::values::components;
use super::super::whole::goes_in_pieces;
use super::super::wrapping::Wrapping;
use super::Cost;
use crate::analysis::{Leaps, Mask, Shape};
use crate::transform::ContextKind;
use crate::{BinaryOp, Block, CastOp, Function, Inst, Intrinsic, Op, Scalar, Type, UnaryOp, Value};
use spirula_interface::target::Costs;
use std::collections::HashMap;

/// Of one instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Price {
    /// How long it keeps the processor busy.
    pub busy: Cost,
    /// The same once for each active lane.
    pub each_lane: f64,
    /// How long others wait for its result.
    pub latency: Cost,
}

impl Price {
    fn new(busy: Cost, latency: Cost) -> Self {
        Price { busy, each_lane: 0.0, latency }
    }
}

/// What prices depend on.
pub(super) struct Prices<'a> {
    pub body: &'a Function,
    pub facts: &'a Facts,
    pub leaps: Leaps<'a>,
    /// What calls cost a work-item that are made together for the elements of a vector, one and all of them.
    pub together: HashMap<Inst, [f64; 2]>,
    pub context: &'a [ContextKind],
    pub lanes: u32,
    pub register_bits: u32,
    pub costs: Costs,
    /// That lanes walk along.
    pub lines: Lines,
    /// Whether rows that lanes walk along are thought to share few sets of the first cache.
    pub conflicts: bool,
}

/// Lanes picked out of two registers, against a plain operation: one unit does it, and where they go is a constant to load.
const PICK: f64 = 2.0;

/// What else it takes to hand a lane's compare-exchange its three operands and pick up both of its results.
const EXCHANGED: f64 = 36.0;

/// What is left of calls is long.
const CALL: f64 = 80.0;
/// Scalar accesses to anywhere keep the processor busy for less than others: its ports do two or three at once, and little else is
/// done in the loops that consist of them.
const BESIDE_OTHERS: f64 = 0.6;
/// What it takes to fetch a line from the second cache, against a plain operation, while others are fetched.
const LINE: f64 = 16.0;
/// What counts up with work-items is a counter of scalar code's loop, or part of an address.
const FOLDED: f64 = 0.25;
/// Operations on words by which narrower elements are gathered. Scatters of them, which are taken apart, take as long.
const NARROW: f64 = 8.0;
/// So many of the accesses by indices of which the code asks whether they are neighbours' are such.
const TOGETHER: f64 = 0.5;
/// Operations on words by which it asks.
const ASKED: f64 = 3.0;

impl Prices<'_> {
    pub fn instruction(&self, block: Block, inst: Inst) -> Price {
        let op = self.body.op(inst);
        let result = self.body.result(inst);
        let shape = result.map(|v| self.facts.shapes.shape_at(v, block));
        let access = self.costs.access;
        match op {
            Op::Load { pointer, volatile: false, ordering: None, .. } => match (shape, result) {
                (Some(Shape::Varying), Some(result)) if self.facts.groups.of(result).is_some() => {
                    self.interleaved(result, self.body.ty(result))
                }
                (Some(Shape::Varying), Some(result)) => {
                    let price = self.looked_up(block, *pointer, result);
                    let is_strip = self.facts.walks.serve(result);
                    let price = price.or_else(|| self.pieces(block, result, *pointer, is_strip));
                    price.unwrap_or_else(|| self.access(block, *pointer, (result, true)))
                }
                _ => Price::new(Cost::both(access), Cost::both(self.costs.latency.load)),
            },
            Op::Store { pointer, value, volatile: false, ordering: None, .. } => {
                let varies = self.facts.shapes.shape_at(*pointer, block) != Shape::Uniform;
                let pieces = varies.then(|| self.pieces(block, *value, *pointer, false)).flatten();
                pieces.unwrap_or_else(|| self.access(block, *pointer, (*value, false)))
            }
            Op::AtomicRmw { .. } | Op::Load { .. } | Op::Store { .. } => self.instance(4.0 * access),
            Op::CompareExchange { .. } => {
                let price = self.instance(4.0 * access);
                Price { each_lane: price.each_lane + EXCHANGED, ..price }
            }
            Op::Call { arguments, .. } => {
                let mut price = self.call(block, op, arguments);
                if let Some(&[share, whole]) = self.together.get(&inst) {
                    (price.busy.scalar, price.latency.scalar) = (share, whole);
                }
                price
            }
            Op::ContextLoad(slot) | Op::ContextStore(slot, _) => {
                let registers = match &self.context[slot.0 as usize] {
                    ContextKind::Varying(ty) => self.registers(ty),
                    ContextKind::Affine { ty, .. } if result.is_none() => self.registers(ty),
                    _ => 1.0,
                };
                let busy = Cost { scalar: access, pack: access * registers };
                Price::new(busy, Cost::both(self.costs.latency.load))
            }
            Op::ContextScan { value, .. } => {
                let steps = f64::from(self.lanes.ilog2() + 1);
                let registers = self.registers(self.body.ty(*value));
                let pack = 2.0 * steps * self.costs.vector * registers + access;
                let busy = Cost { scalar: self.costs.scalar + access, pack };
                Price::new(busy, Cost::both(self.costs.latency.load))
            }
            _ => {
                let ty = result.map_or(&Type::BOOL, |v| self.body.ty(v));
                let mut price = Price::new(self.arithmetic(op, ty), self.latency(op, ty));
                if result.is_some_and(|result| self.facts.left_out.contains(result.index())) {
                    (price.busy.pack, price.latency.pack) = (0.0, 0.0);
                    return price;
                }
                if shape == Some(Shape::Varying) {
                    price.busy.pack += result.map_or(0.0, |result| self.reordered(block, op, result));
                    return price;
                }
                let pack = price.busy.scalar;
                let folded = if shape.is_some_and(|shape| shape != Shape::Uniform) { FOLDED } else { 1.0 };
                Price::new(Cost { scalar: folded * pack, pack }, Cost::both(price.latency.scalar))
            }
        }
    }

    /// What is done for one lane after the other.
    fn instance(&self, once: f64) -> Price {
        let each_lane = once + self.costs.instance;
        let latency = Cost { scalar: once, pack: f64::from(self.lanes) * each_lane };
        Price { busy: Cost { scalar: once, pack: 0.0 }, each_lane, latency }
    }

    /// A call, which packs make once if the function is widened.
    fn call(&self, block: Block, op: &Op, arguments: &[Value]) -> Price {
        let arguments = arguments.iter().map(|&argument| self.facts.passing(argument, block)).collect();
        match self.body.callees.estimate(op, self.lanes, arguments) {
            Some(Estimate { cost, in_lanes: true }) => Price::new(cost, cost),
            Some(Estimate { cost, in_lanes: false }) => self.instance(cost.scalar),
            None => self.instance(CALL),
        }
    }

    fn arithmetic(&self, op: &Op, ty: &Type) -> Cost {
        let (scalar_registers, registers) = (self.scalar_registers(ty), self.registers(ty));
        // Floats, and vectors of the kernel's own, keep vector units busy as packs do.
        let one = if ty.lanes() > 1 || ty.is_float() { self.costs.vector } else { self.costs.scalar };
        let plain = Cost { scalar: one * scalar_registers, pack: self.costs.vector * registers };
        let elements = f64::from(ty.lanes());
        match op {
            // Shifts, or the upper half of a product and a few more.
            Op::Binary {
                op: op @ (BinaryOp::UDiv | BinaryOp::SDiv | BinaryOp::URem | BinaryOp::SRem),
                rhs,
                ..
            } if is_divisor(self.body, *rhs) => {
                let plain = self.body.constant_int(*rhs).is_some_and(|divisor| divisor.is_power_of_two());
                let rest = if matches!(op, BinaryOp::URem | BinaryOp::SRem) { 2.0 } else { 0.0 };
                let (own, wide) = if plain { (3.0, 3.0) } else { (4.0, 9.0 + rest) };
                let scalar = (own + rest) * self.costs.scalar;
                Cost { scalar, pack: wide * self.costs.vector * registers }
            }
            Op::Binary {
                op: BinaryOp::UDiv | BinaryOp::SDiv | BinaryOp::URem | BinaryOp::SRem, rhs, ..
            } => {
                let is_long = ty.scalar() == Some(Scalar::Int(64)) && !is_short(self.body, op);
                let by_constant = self.body.constant_int(*rhs).is_some();
                if is_long && (by_constant || is_long_by_constant(self.body, op)) {
                    return self.long_division(op, (self.costs.scalar * elements, registers));
                }
                let pack = if is_long {
                    40.0 * f64::from(self.lanes) * elements
                } else if ty.scalar() == Some(Scalar::Int(64)) && by_constant {
                    10.0 * self.costs.vector * registers
                } else if self.facts.shapes.shape(*rhs) == Shape::Uniform {
                    // Multiplied as doubles, which fill two registers.
                    8.0 * self.costs.vector * registers
                } else {
                    3.0 * self.costs.division * registers
                };
                Cost { scalar: 24.0 * elements, pack }
            }
            Op::Binary { op: BinaryOp::FDiv, .. }
            | Op::Intrinsic { intrinsic: Intrinsic::SquareRoot | Intrinsic::ReciprocalRoot, .. } => Cost {
                scalar: self.costs.division * scalar_registers,
                pack: 1.5 * self.costs.division * registers,
            },
            // An approximation and four steps, or a division.
            Op::Intrinsic { intrinsic: Intrinsic::Reciprocal, .. } => Cost {
                scalar: self.costs.division * scalar_registers,
                pack: 6.0 * self.costs.vector * registers,
            },
            // Instantiated: a call of C's library.
            Op::Binary { op: BinaryOp::FRem, .. } => {
                Cost { scalar: CALL * elements, pack: CALL * f64::from(self.lanes) * elements }
            }
            Op::Binary { op: BinaryOp::Mul, .. } if ty.scalar() == Some(Scalar::Int(64)) => {
                Cost { scalar: one * scalar_registers, pack: 3.0 * self.costs.vector * registers }
            }
            Op::Binary { op: BinaryOp::Mul, .. } if ty.scalar() == Some(Scalar::Int(32)) => {
                let own = if ty.lanes() > 1 { 2.0 * one } else { one };
                Cost { scalar: own * scalar_registers, pack: 2.0 * self.costs.vector * registers }
            }
            // Taken apart and put together: nothing, as components are apart in lanes.
            Op::ExtractElement { .. } | Op::InsertElement { .. } | Op::Shuffle { .. } => {
                Cost { scalar: self.costs.scalar * scalar_registers, pack: 0.0 }
            }
            Op::ExtractValue { .. } | Op::InsertValue { .. } => Cost::default(),
            _ => plain,
        }
    }

    /// Of 64 bits by a constant: a product whose upper half scalar code has at once and lanes put together, or a shift.
    fn long_division(&self, op: &Op, (scalar, registers): (f64, f64)) -> Cost {
        let is_product = is_long_by_constant(self.body, op);
        let (own, wide) = if is_product { (5.0, 20.0) } else { (3.0, 3.0) };
        Cost { scalar: own * scalar, pack: wide * self.costs.vector * registers }
    }

    /// What it takes to bring a result's operands into memory's order, to move elements in that order, or to take the result apart.
    fn reordered(&self, block: Block, op: &Op, result: Value) -> f64 {
        let aos = &self.facts.aos;
        if !aos.contains(result) {
            return 0.0;
        }
        let is_apart = |&value: &Value| {
            let varies = self.facts.shapes.shape_at(value, block) == Shape::Varying;
            varies && self.body.ty(value).lanes() > 1 && !aos.contains(value)
        };
        let operands = op.operands();
        let moved = operands
            .iter()
            .copied()
            .filter(is_apart)
            .chain(Some(result).filter(|_| aos.is_taken_apart(result)));
        let transposed: f64 = moved.map(|value| TRANSPOSE * self.registers(self.body.ty(value))).sum();
        let within = matches!(op, Op::Shuffle { .. } | Op::InsertElement { .. });
        let within = if within { self.registers(self.body.ty(result)) } else { 0.0 };
        self.costs.vector * (transposed + within)
    }

    fn latency(&self, op: &Op, ty: &Type) -> Cost {
        let times = self.costs.latency;
        let product = if ty.lanes() > 1 { times.vector_product } else { times.product };
        match op {
            Op::ExtractValue { .. } | Op::InsertValue { .. } => Cost::default(),
            Op::Binary { op: BinaryOp::Mul, .. } => Cost { scalar: product, pack: times.vector_product },
            Op::Binary {
                op: BinaryOp::UDiv | BinaryOp::SDiv | BinaryOp::URem | BinaryOp::SRem, rhs, ..
            } => match is_divisor(self.body, *rhs) {
                true => Cost { scalar: times.product, pack: times.vector_product },
                false => Cost { scalar: times.division, pack: 2.0 * times.division },
            },
            Op::Binary { op: BinaryOp::FDiv | BinaryOp::FRem, .. }
            | Op::Intrinsic { intrinsic: Intrinsic::SquareRoot | Intrinsic::ReciprocalRoot, .. } => {
                Cost::both(times.division)
            }
            Op::Intrinsic { intrinsic: Intrinsic::Reciprocal, .. } => Cost::both(5.0 * times.float),
            Op::Unary { op: UnaryOp::FNeg, .. } => Cost::both(times.simple),
            Op::Cast { op: CastOp::BitCast, .. } => Cost::both(0.0),
            Op::Binary { .. } | Op::Intrinsic { .. } if ty.is_float() => Cost::both(times.float),
            Op::Cast {
                op:
                    CastOp::FpToSi
                    | CastOp::FpToUi
                    | CastOp::SiToFp
                    | CastOp::UiToFp
                    | CastOp::FpExt
                    | CastOp::FpTrunc,
                ..
            } => Cost::both(times.float),
            _ => Cost::both(times.simple),
        }
    }

    /// A load or store of a value by a pointer of any shape.
    fn access(&self, block: Block, pointer: Value, (value, is_load): (Value, bool)) -> Price {
        let ty = self.body.ty(value);
        let in_order = self.facts.aos.contains(value);
        let Costs { access, scalar: simple, vector, latency, .. } = self.costs;
        let mut scalar = access * self.scalar_registers(ty);
        let size = access_size(ty).unwrap_or(1) as i64;
        let registers = self.registers(ty);
        let masking = if self.facts.masks.of(block) == Mask::Full { 1.0 } else { 1.5 };
        let way = self.way(block, pointer);
        let apart = way.as_ref().filter(|_| is_load && ty.lanes() == 1);
        let apart = apart.and_then(|way| way.elements_apart(size, self.lanes)).map_or(0.0, f64::from);
        let (shape, questions) = self.address_shape(block, pointer);
        let asking = 2.0 * simple * questions;
        let (pack, wait) = match shape {
            Shape::Uniform => (access, latency.load),
            Shape::Affine { stride, .. } if stride == size => {
                let fetched = if self.leaps.are_at(block, pointer) { LINE } else { 0.0 };
                scalar += fetched;
                // Lines that follow on each other come together.
                (access * registers * masking + fetched, latency.load)
            }
            Shape::Affine { .. } if apart > 0.0 => {
                let picked = (access * apart + PICK * vector * (apart - 1.0)) * masking;
                (picked * registers, latency.load + latency.float)
            }
            Shape::Affine { stride, .. } if stride == -size && ty.lanes() == 1 => {
                ((access + PICK * vector) * registers * masking, latency.load + latency.float)
            }
            Shape::Affine { stride, .. }
                if ty.lanes() > 1 && stride > 0 && stride <= size * i64::from(ty.lanes() + 1) =>
            {
                let moves = if in_order { 0.0 } else { TRANSPOSE };
                ((access + moves * vector) * registers * masking, latency.load + moves * latency.float)
            }
            _ if self.is_one_by_one(block, pointer, shape) => {
                scalar *= BESIDE_OTHERS;
                let longer = match shape {
                    _ if !self.leaps.is_walked(block, pointer, &self.facts.shapes) => 0.0,
                    Shape::Affine { stride, .. } => self.lines.at(stride),
                    Shape::Varying if self.conflicts => self.lines.in_conflict(),
                    _ => self.lines.expected(),
                };
                let each = if is_load { access } else { access + vector } + longer;
                let asking = if masking > 1.0 { 3.0 * simple } else { 0.0 };
                let (elements, moved) = self.elements_apart(pointer, ty);
                (each * elements + moved + asking, latency.load + 2.0 * latency.float)
            }
            _ => {
                scalar *= BESIDE_OTHERS;
                self.anywhere(block, pointer, ty, access * registers * masking)
            }
        };
        Price::new(Cost { scalar, pack: pack + asking }, Cost { scalar: latency.load, pack: wait })
    }

    /// A gather or scatter, and how long it takes until others can use the result; `together` is what neighbours' access takes.
    fn anywhere(&self, block: Block, pointer: Value, ty: &Type, together: f64) -> (f64, f64) {
        let Costs { vector, latency, .. } = self.costs;
        let (lanes, moved) = self.elements_apart(pointer, ty);
        let bits = ty.scalar().map_or(64, |scalar| scalar.bits());
        let bits = if moved > 0.0 { bits * u64::from(ty.lanes()) } else { bits };
        let words = (u64::from(self.lanes) * 32).div_ceil(u64::from(self.register_bits.max(1)));
        let more = if bits < 32 { NARROW * vector * words as f64 } else { 0.0 };
        let count = ty.lanes();
        let apart = self.gathered(block, pointer, bits) * lanes + moved + more;
        let elements = Elements { size: access_size(ty).unwrap_or(1) as i64, count, padded: None };
        match BitIndex::of(self.body, &self.facts.shapes, (pointer, block), (elements, self.lanes)) {
            Some(_) => {
                let asked = ASKED * vector * words as f64;
                (asked + TOGETHER * together + (1.0 - TOGETHER) * apart, latency.gather)
            }
            None => (apart, latency.gather),
        }
    }

    /// Elements of all lanes that lie apart, and what it takes to have components of them: a small vector is one.
    fn elements_apart(&self, pointer: Value, ty: &Type) -> (f64, f64) {
        let (lanes, count) = (f64::from(self.lanes), ty.lanes());
        let scalar = ty.scalar().filter(|_| !self.facts.slots.is_interleaved(pointer));
        match scalar.and_then(|scalar| word(scalar, count)) {
            Some(_) => (lanes, TRANSPOSE * self.costs.vector * self.registers(ty)),
            None => (lanes * f64::from(count), 0.0),
        }
    }

    /// One lane's part of a gather or scatter of elements of so many bits.
    fn gathered(&self, block: Block, pointer: Value, bits: u64) -> f64 {
        match bits < 32 || self.leaps.is_walked(block, pointer, &self.facts.shapes) {
            true => self.costs.gathered_slowly,
            false => self.costs.gathered,
        }
    }

    /// Whether what lanes of that shape access is accessed one by one where all are active.
    pub(super) fn is_one_by_one(&self, block: Block, pointer: Value, shape: Shape) -> bool {
        let is_strided = || match shape {
            Shape::Varying => Distance::of(self.body, &self.facts.shapes, pointer, block).is_some(),
            _ => true,
        };
        self.facts.is_small && !self.facts.slots.is_interleaved(pointer) && is_strided()
    }

    /// How a pointer's lanes lie where what the code asks of an index for it is so.
    pub(super) fn shape_of_access(&self, block: Block, pointer: Value) -> Shape {
        self.address_shape(block, pointer).0
    }

    /// How a pointer's lanes lie, and what the code asks of an index for it.
    fn address_shape(&self, block: Block, pointer: Value) -> (Shape, f64) {
        match self.way(block, pointer) {
            Some(way) => (Shape::Affine { stride: way.stride(), exact: false }, way.questions()),
            None => (self.facts.shapes.shape_at(pointer, block), 0.0),
        }
    }

    /// How lanes come to an address that lies a stride from their neighbours' unless an index wraps.
    fn way(&self, block: Block, pointer: Value) -> Option<Wrapping> {
        let varies = self.facts.shapes.shape_at(pointer, block) == Shape::Varying;
        let may_be = varies && !self.facts.slots.is_interleaved(pointer);
        may_be.then(|| Wrapping::of(self.body, &self.facts.shapes, pointer, block)).flatten()
    }

    /// An access to vectors in pieces that are transposed, or a load of a strip's part.
    fn pieces(&self, block: Block, value: Value, pointer: Value, is_strip: bool) -> Option<Price> {
        let Costs { access, scalar, vector, latency, .. } = self.costs;
        let ty = self.body.ty(value);
        let (whole, count, placed) = match is_strip {
            true => (&Type::Vector(ty.scalar()?, self.lanes), 1.0, 0.0),
            false => (ty, f64::from(ty.lanes()), 2.0 * scalar * f64::from(self.lanes)),
        };
        let elements = goes_in_pieces(self.body, pointer, whole, self.lanes)?;
        let size = access_size(ty)? as i64;
        if let (Shape::Affine { stride, .. }, _) = self.address_shape(block, pointer)
            && count > 1.0
            && (stride == size || (stride == size * count as i64 && count <= 2.0 * f64::from(elements)))
        {
            return None;
        }
        let rows = f64::from(self.lanes / elements);
        let of_each = rows * (access + vector)
            + f64::from(elements.ilog2()) * vector * self.registers(&Type::Scalar(ty.scalar()?));
        let wait = latency.load + latency.float * f64::from(elements.ilog2() + 1);
        let busy = Cost { scalar: access * self.scalar_registers(ty), pack: count * of_each + placed };
        Some(Price::new(busy, Cost { scalar: latency.load, pack: wait }))
    }

    /// A load from a table that registers hold.
    fn looked_up(&self, block: Block, pointer: Value, loaded: Value) -> Option<Price> {
        let Costs { access, vector, latency, .. } = self.costs;
        let shape = self.facts.shapes.shape_at(pointer, block);
        let ty = self.body.ty(loaded);
        let lookup = self.body.tables.lookup(self.body, (pointer, shape), ty)?;
        let pack = lookup.operations() * vector * self.registers(ty);
        let busy = Cost { scalar: BESIDE_OTHERS * access, pack };
        Some(Price::new(busy, Cost { scalar: latency.load, pack: 2.0 * latency.float }))
    }

    /// A load that shares its pieces with others.
    fn interleaved(&self, loaded: Value, ty: &Type) -> Price {
        let Costs { access, vector, latency, .. } = self.costs;
        let plain = access * self.scalar_registers(ty);
        let Some(group) = self.facts.groups.of(loaded) else { return Price::default() };
        let (pieces, fields) = (group.pieces(self.lanes) as f64, group.fields as f64);
        let registers = self.registers(ty);
        let pack = (access * pieces / fields + PICK * vector * (pieces - 1.0).max(1.0)) * registers;
        let wait = latency.load + latency.float * pieces.min(3.0);
        Price::new(Cost { scalar: plain, pack }, Cost { scalar: latency.load, pack: wait })
    }

    pub fn branch(&self, block: Block) -> Cost {
        let targets = self.body.block(block).terminator.targets().len();
        if targets < 2 {
            Cost::default()
        } else if self.facts.shapes.is_divergent_branch(block) {
            Cost { scalar: self.costs.mispredicted, pack: 4.0 * self.costs.vector }
        } else {
            Cost::both(self.costs.scalar)
        }
    }

    /// Vector registers that a value fills in all lanes.
    pub fn registers(&self, ty: &Type) -> f64 {
        let in_lanes = |scalar: &Scalar| {
            let bits = u64::from(self.lanes) * scalar.bits().max(8);
            bits.div_ceil(u64::from(self.register_bits.max(1)))
        };
        components(ty).iter().map(in_lanes).sum::<u64>() as f64
    }

    /// Registers that a value fills in scalar code, where OpenCL's vectors are vectors.
    fn scalar_registers(&self, ty: &Type) -> f64 {
        (ty.size() * 8).div_ceil(u64::from(self.register_bits.max(64))).max(1) as f64
    }
}
