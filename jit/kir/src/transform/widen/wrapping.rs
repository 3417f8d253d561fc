//! Widening: accesses by indices that lie next to their neighbours' unless something happens in between. Narrow indices of which nothing
//! is promised may wrap: unsigned ones, and signed ones of compilers that drop the promise. Others are clamped, as coordinates of images
//! and at the borders of grids: `a[y * width + clamp(x + 1, 0, width - 1)]`. Whether that happens within the pack is asked where the access
//! is, of the first and of the last lane: neighbours become one wide access, and the rest a gather or scatter.

use super::Widener;
use super::interleaved::{LEAST_MASKED_SIZE, MANY_LANES, MOST_APART};
use super::memory::{Elements, Pattern};
use super::strided::{Stride, Strided};
use crate::analysis::{Shape, Shapes};
use crate::{
    BinaryOp, Block, CastOp, Constant, Flags, Function, IntPredicate, Intrinsic, Op, Scalar, Target,
    Terminator, Type, UnaryOp, Value,
};

/// An index is followed through so many operations.
const MOST_STEPS: usize = 12;

/// What becomes of an index on its way to the address. Each keeps the order of the lanes' unless it wraps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// To so many of its lower bits.
    Cut(Scalar),
    Extend(CastOp, Scalar),
    /// By a value that is the same in all lanes.
    Clamp(Intrinsic, Value),
    Add(Value),
    Multiply(i64),
}

/// Of which numbers lanes are known to be in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Signed,
    Unsigned,
}

/// An address by an index of each lane, from a base that is the same in all.
pub(super) struct Indexed {
    pub base: Value,
    pub index: Value,
    pub scale: i64,
    pub offset: i64,
}

impl Indexed {
    /// What a pointer is, where `user` uses it.
    pub fn of(body: &Function, shapes: &Shapes, mut pointer: Value, user: Block) -> Option<Indexed> {
        let mut behind = 0_i64;
        loop {
            let &Op::Address { base, index, scale, offset, .. } = body.defining_op(pointer)? else {
                return None;
            };
            behind = behind.checked_add(offset)?;
            if let Some(index) = index {
                let is_shared = shapes.shape_at(base, user) == Shape::Uniform;
                return is_shared.then_some(Indexed { base, index, scale, offset: behind });
            }
            pointer = base;
        }
    }
}

/// An address whose lanes lie a stride apart if an index neither wraps nor is clamped within the pack.
pub(in crate::transform) struct Wrapping {
    /// The same in all lanes.
    base: Value,
    /// Where lanes lie `apart` by the arithmetic of its width.
    index: Value,
    apart: i64,
    /// From the index on.
    steps: Vec<Step>,
    scale: i64,
    offset: i64,
}

impl Wrapping {
    /// What a pointer is, where `user` uses it.
    pub fn of(body: &Function, shapes: &Shapes, pointer: Value, user: Block) -> Option<Wrapping> {
        let Indexed { base, index, scale, offset } = Indexed::of(body, shapes, pointer, user)?;
        let (index, apart, steps) = way(body, shapes, index, user)?;
        Some(Wrapping { base, index, apart, steps, scale, offset })
    }

    /// Bytes between neighbouring lanes.
    pub fn stride(&self) -> i64 {
        let factor = self.steps.iter().fold(1_i64, |factor, step| match step {
            Step::Multiply(by) => factor.wrapping_mul(*by),
            _ => factor,
        });
        self.apart.wrapping_mul(factor).wrapping_mul(self.scale)
    }

    /// Elements of so many bytes from a lane's to the next one's, where a load of one by each lane leaves some out and is still wide loads,
    /// of which these are picked.
    pub fn elements_apart(&self, size: i64, lanes: u32) -> Option<u32> {
        let apart = self.stride() / size;
        let is_served = lanes >= MANY_LANES && size >= LEAST_MASKED_SIZE && (2..=MOST_APART).contains(&apart);
        (is_served && self.stride() % size == 0).then_some(apart as u32)
    }

    /// Comparisons that are asked.
    pub fn questions(&self) -> f64 {
        let of = |step: &Step| match step {
            Step::Clamp(..) => 2.0,
            Step::Extend(..) => 1.0,
            Step::Cut(_) | Step::Add(_) | Step::Multiply(_) => 0.0,
        };
        self.steps.iter().map(of).sum()
    }
}

/// The index that an index comes of, and its lanes' distance, whether that is exact, and the steps between the two.
fn way(body: &Function, shapes: &Shapes, mut index: Value, user: Block) -> Option<(Value, i64, Vec<Step>)> {
    let mut steps = Vec::new();
    while steps.len() < MOST_STEPS {
        let Type::Scalar(Scalar::Int(8..=64)) = body.ty(index) else { return None };
        match shapes.shape_at(index, user) {
            Shape::Affine { stride, .. } if stride != 0 && !steps.is_empty() => {
                steps.reverse();
                return Some((index, stride, steps));
            }
            Shape::Varying => {}
            _ => return None,
        }
        let uniform = |value: Value| shapes.shape_at(value, user) == Shape::Uniform;
        // The one that is the same in all lanes second.
        let parted = |a: Value, b: Value| if uniform(a) { (b, a) } else { (a, b) };
        if let Some((inner, by, (cut, extension))) = resized(body, index) {
            // From the address on.
            steps.extend((by > 1).then_some(Step::Multiply(by)));
            steps.extend([Step::Extend(extension, body.ty(index).scalar()?), Step::Cut(cut)]);
            index = inner;
            continue;
        }
        let (inner, step) = match body.defining_op(index)? {
            &Op::Cast { op: op @ (CastOp::SExt | CastOp::ZExt), value, flags } => {
                // What isn't negative is extended either way.
                let op = if flags.0 & Flags::NNEG != 0 { CastOp::SExt } else { op };
                (value, Step::Extend(op, body.ty(index).scalar()?))
            }
            Op::Intrinsic { intrinsic, arguments, .. } if clamp_order(*intrinsic).is_some() => {
                let (inner, bound) = parted(arguments[0], arguments[1]);
                (inner, Step::Clamp(*intrinsic, bound))
            }
            &Op::Binary { op: BinaryOp::Add, lhs, rhs, .. } => {
                let (inner, other) = parted(lhs, rhs);
                (inner, Step::Add(other))
            }
            // A sum, to lanes that come here.
            &Op::Binary { op: BinaryOp::Or, lhs, rhs, flags } if flags.0 & Flags::DISJOINT != 0 => {
                let (inner, other) = parted(lhs, rhs);
                (inner, Step::Add(other))
            }
            &Op::Binary { op: op @ (BinaryOp::Mul | BinaryOp::Shl), lhs, rhs, .. } => {
                let by =
                    i64::try_from(body.constant_int(rhs)?).ok().filter(|by| (0..=1 << 20).contains(by))?;
                let by = if op == BinaryOp::Mul { by } else { 1_i64.checked_shl(u32::try_from(by).ok()?)? };
                (lhs, Step::Multiply(by))
            }
            _ => return None,
        };
        if let Step::Clamp(_, other) | Step::Add(other) = step
            && !uniform(other)
        {
            return None;
        }
        steps.push(step);
        index = inner;
    }
    None
}

/// What is cut to a narrower integer that is then extended again, in one operation or two: `x << 32 >> 30`, or `x & 0xffff`. Yields the
/// value, what it is multiplied by behind that, the narrower type, and how it is extended.
fn resized(body: &Function, value: Value) -> Option<(Value, i64, (Scalar, CastOp))> {
    let &Op::Binary { op, lhs, rhs, .. } = body.defining_op(value)? else { return None };
    let Type::Scalar(Scalar::Int(width)) = *body.ty(value) else { return None };
    let constant = body.constant_int(rhs)?;
    let narrower = |bits: u32| matches!(bits, 8 | 16 | 32).then_some(Scalar::Int(bits));
    match op {
        BinaryOp::And if constant.checked_add(1)?.is_power_of_two() => {
            let cut = narrower(constant.trailing_ones()).filter(|cut| cut.bits() < u64::from(width))?;
            Some((lhs, 1, (cut, CastOp::ZExt)))
        }
        BinaryOp::AShr | BinaryOp::LShr => {
            let &Op::Binary { op: BinaryOp::Shl, lhs: inner, rhs: by, .. } = body.defining_op(lhs)? else {
                return None;
            };
            let (left, right) = (u32::try_from(body.constant_int(by)?).ok()?, u32::try_from(constant).ok()?);
            let more = left.checked_sub(right).filter(|more| *more <= 20)?;
            // Zeroes come in where something goes out, not further down.
            let extension = match op {
                BinaryOp::AShr => CastOp::SExt,
                _ if width == 64 => CastOp::ZExt,
                _ => return None,
            };
            Some((inner, 1 << more, (narrower(width.checked_sub(left)?)?, extension)))
        }
        _ => None,
    }
}

/// Which numbers an intrinsic takes its operands for, if it is a minimum or maximum.
fn clamp_order(intrinsic: Intrinsic) -> Option<Order> {
    match intrinsic {
        Intrinsic::SignedMin | Intrinsic::SignedMax => Some(Order::Signed),
        Intrinsic::UnsignedMin | Intrinsic::UnsignedMax => Some(Order::Unsigned),
        _ => None,
    }
}

impl Widener<'_> {
    /// Writes an access in both ways, if its lanes are neighbours unless something happens to an index: `access` gets the pattern, and
    /// yields the result's parts.
    pub(super) fn unless_wrapping(
        &mut self,
        pointer: Value,
        elements: Elements,
        mut access: impl FnMut(&mut Self, Pattern) -> Vec<Value>,
    ) -> Option<Vec<Value>> {
        if self.shape(pointer) != Shape::Varying || self.facts.slots.is_interleaved(pointer) {
            return None;
        }
        let way = Wrapping::of(self.body, &self.facts.shapes, pointer, self.user)?;
        let (neighbours, stride) = (elements.neighbours(way.stride()), way.stride());
        if neighbours.is_none() && !self.is_one_by_one(pointer, elements, stride) {
            return None;
        }
        let (condition, index) = self.in_order(&way)?;
        let all = if neighbours.is_none() { self.all_active() } else { None };
        let condition = all.map_or(condition, |all| self.binary(BinaryOp::And, condition, all));
        let base = self.first_lane(way.base);
        let &Wrapping { scale, offset, .. } = &way;
        let address = |index| Op::Address { base, index: Some(index), scale, offset, inbounds: false };
        let pointers = self.ty(base).scalar().map(|scalar| self.wide(scalar))?;
        Some(self.two_ways(condition, |widener, is_near| {
            if is_near {
                let at = widener.push(widener.ty(base), address(index));
                let strided = || {
                    Pattern::Strided(Strided {
                        first: at,
                        stride: Stride::Known(stride),
                        plane: elements.size,
                    })
                };
                return access(widener, neighbours.map_or_else(strided, |near| near.from(at)));
            }
            let first = widener.first_lane(way.index);
            let lanes = widener.affine(first, way.apart);
            let index = way.steps.iter().fold(lanes, |index, step| widener.step(*step, index));
            let at = widener.push(pointers.clone(), address(index));
            access(widener, Pattern::Scattered(at, elements.size))
        }))
    }

    /// Writes what comes of it if a condition holds, and what if not; yields its parts.
    pub(super) fn two_ways(
        &mut self,
        condition: Value,
        mut write: impl FnMut(&mut Self, bool) -> Vec<Value>,
    ) -> Vec<Value> {
        let [near, far, done] = std::array::from_fn(|_| self.out.add_block());
        let (then, otherwise) = (Target::to(near), Target::to(far));
        self.out.end(self.at, Terminator::Branch { condition, then, otherwise });
        let mut variables = Vec::new();
        for (block, holds) in [(near, true), (far, false)] {
            self.out.close(block);
            self.at = block;
            let parts = write(self, holds);
            variables.resize_with(parts.len(), || self.new_variable());
            for (&variable, part) in variables.iter().zip(parts) {
                self.out.write(self.at, variable, part);
            }
            self.out.jump(self.at, done);
        }
        self.out.close(done);
        self.at = done;
        variables.into_iter().map(|variable| self.out.read(done, variable)).collect()
    }

    /// Whether the lanes' indices go through all steps as they are, and the first lane's in the end. None if they can't.
    fn in_order(&mut self, way: &Wrapping) -> Option<(Value, Value)> {
        let mut first = self.first_lane(way.index);
        let mut distance = i128::from(way.apart) * i128::from(self.lanes - 1);
        let mut last = self.distant(first, distance);
        // What is promised of sums holds for active lanes, which these may not be.
        let mut order = None;
        let mut conditions = Vec::new();
        for &step in &way.steps {
            let wanted = match step {
                Step::Extend(CastOp::SExt, _) => Some(Order::Signed),
                Step::Extend(..) => Some(Order::Unsigned),
                Step::Clamp(intrinsic, _) => clamp_order(intrinsic),
                Step::Cut(_) | Step::Add(_) | Step::Multiply(_) => None,
            };
            if let Some(wanted) = wanted.filter(|wanted| order != Some(*wanted)) {
                let Type::Scalar(Scalar::Int(bits)) = self.ty(first) else { return None };
                // Further apart they are in order by chance.
                if distance.unsigned_abs() >= 1 << (bits - 1) {
                    return None;
                }
                let predicate = match (distance > 0, wanted) {
                    (true, Order::Signed) => IntPredicate::Sle,
                    (true, Order::Unsigned) => IntPredicate::Ule,
                    (false, Order::Signed) => IntPredicate::Sge,
                    (false, Order::Unsigned) => IntPredicate::Uge,
                };
                conditions.push(self.compare(predicate, first, last));
            }
            match step {
                Step::Clamp(..) => {
                    for end in [first, last] {
                        let clamped = self.step(step, end);
                        conditions.push(self.compare(IntPredicate::Eq, clamped, end));
                    }
                }
                _ => (first, last) = (self.step(step, first), self.step(step, last)),
            }
            order = wanted;
            if let Step::Multiply(by) = step {
                distance *= i128::from(by);
            }
        }
        let condition = conditions.into_iter().reduce(|a, b| self.binary(BinaryOp::And, a, b))?;
        // Where no lane is active, a bound may be anything.
        let freeze = Op::Unary { op: UnaryOp::Freeze, flags: Flags::NONE, value: condition };
        Some((self.push(Type::BOOL, freeze), first))
    }

    fn distant(&mut self, first: Value, distance: i128) -> Value {
        let ty = self.ty(first);
        let mask = match ty {
            Type::Scalar(Scalar::Int(bits @ 1..=127)) => (1 << bits) - 1,
            _ => u128::MAX,
        };
        let distance = self.constant(ty, Constant::Int(distance as u128 & mask));
        self.binary(BinaryOp::Add, first, distance)
    }

    /// A step of one lane's index, or of all lanes'.
    fn step(&mut self, step: Step, index: Value) -> Value {
        let ty = self.ty(index);
        let is_wide = matches!(ty, Type::Vector(..));
        let scalar = Type::Scalar(ty.scalar().unwrap_or(Scalar::Int(64)));
        let other = match step {
            Step::Extend(op, to) => {
                let to = if is_wide { self.wide(to) } else { Type::Scalar(to) };
                return self.cast(op, to, index);
            }
            Step::Cut(to) => {
                let to = if is_wide { self.wide(to) } else { Type::Scalar(to) };
                return self.cast(CastOp::Trunc, to, index);
            }
            Step::Clamp(_, other) | Step::Add(other) => self.first_lane(other),
            Step::Multiply(by) => self.constant(scalar, Constant::Int(by as u128)),
        };
        let other = if is_wide { self.splat(other) } else { other };
        match step {
            Step::Clamp(intrinsic, _) => {
                let arguments = vec![index, other];
                self.push(ty, Op::Intrinsic { intrinsic, flags: Flags::NONE, arguments })
            }
            Step::Multiply(_) => self.binary(BinaryOp::Mul, index, other),
            _ => self.binary(BinaryOp::Add, index, other),
        }
    }
}
