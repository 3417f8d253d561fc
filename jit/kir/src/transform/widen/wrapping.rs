//! Widening: accesses by narrow indices of which nothing is promised. Unsigned ones may wrap, and so may signed ones of compilers
//! that drop the promise: `a[y * width + x]` leads to neighbours, unless the sum wraps within the pack. That is asked where the
//! access is: neighbours become one wide access, and what wraps a gather or scatter.

use super::Widener;
use super::memory::{Elements, Pattern};
use crate::analysis::{Shape, Shapes};
use crate::{Block, CastOp, Constant, Function, IntPredicate, Op, Scalar, Target, Terminator, Type, Value};

/// An address whose lanes lie a stride apart if an index doesn't wrap within the pack.
pub(super) struct Wrapping {
    /// The same in all lanes.
    base: Value,
    /// Not extended yet.
    index: Value,
    extension: CastOp,
    /// Between the indices of neighbouring lanes.
    step: i64,
    scale: i64,
    offset: i64,
}

impl Wrapping {
    /// What a pointer is, where `user` uses it.
    pub fn of(body: &Function, shapes: &Shapes, pointer: Value, user: Block) -> Option<Wrapping> {
        let (mut pointer, mut behind) = (pointer, 0_i64);
        loop {
            let &Op::Address { base, index, scale, offset, .. } = body.defining_op(pointer)? else {
                return None;
            };
            behind = behind.checked_add(offset)?;
            let Some(index) = index else {
                pointer = base;
                continue;
            };
            let &Op::Cast { op: extension @ (CastOp::SExt | CastOp::ZExt), value: index, .. } =
                body.defining_op(index)?
            else {
                return None;
            };
            let narrow = matches!(body.ty(index), Type::Scalar(Scalar::Int(8..=32)));
            return match (shapes.shape_at(base, user), shapes.shape_at(index, user)) {
                (Shape::Uniform, Shape::Affine { stride: step, .. }) if narrow && step != 0 => {
                    Some(Wrapping { base, index, extension, step, scale, offset: behind })
                }
                _ => None,
            };
        }
    }

    /// Bytes between neighbouring lanes.
    pub fn stride(&self) -> i64 {
        self.step.wrapping_mul(self.scale)
    }

    /// The condition on the first lane's index, by which no lane's wraps; none if that can't be.
    fn condition(&self, bits: u32, lanes: u32) -> Option<(IntPredicate, i128)> {
        let way = i128::from(self.step) * i128::from(lanes - 1);
        let signed = self.extension == CastOp::SExt;
        let [least, most] =
            if signed { [-(1 << (bits - 1)), (1 << (bits - 1)) - 1] } else { [0, (1 << bits) - 1] };
        let (predicate, limit) = match (way > 0, signed) {
            (true, true) => (IntPredicate::Sle, most - way),
            (true, false) => (IntPredicate::Ule, most - way),
            (false, true) => (IntPredicate::Sge, least - way),
            (false, false) => (IntPredicate::Uge, least - way),
        };
        (least..=most).contains(&limit).then_some((predicate, limit))
    }
}

impl Widener<'_> {
    /// Writes an access in both ways, if its lanes are neighbours unless an index wraps: `access` gets the pattern, and yields the
    /// result's parts.
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
        let neighbours = elements.neighbours(way.stride())?;
        let first = self.first_lane(way.index);
        let Type::Scalar(Scalar::Int(bits)) = self.ty(first) else { return None };
        let (predicate, limit) = way.condition(bits, self.lanes)?;
        let limit = limit as u128 & ((1 << bits) - 1);
        let limit = self.constant(self.ty(first), Constant::Int(limit));
        let condition = self.compare(predicate, first, limit);
        let [near, far, done] = std::array::from_fn(|_| self.out.add_block());
        let (then, otherwise) = (Target::to(near), Target::to(far));
        self.out.end(self.at, Terminator::Branch { condition, then, otherwise });
        self.out.close(near);
        self.out.close(far);

        let base = self.first_lane(way.base);
        let &Wrapping { scale, offset, extension, .. } = &way;
        let address = |index| Op::Address { base, index: Some(index), scale, offset, inbounds: false };
        self.at = near;
        let index = self.cast(extension, Type::I64, first);
        let at = self.push(self.ty(base), address(index));
        let parts = access(self, neighbours.from(at));
        let variables: Vec<_> = parts.iter().map(|_| self.new_variable()).collect();
        for (&variable, part) in variables.iter().zip(parts) {
            self.out.write(self.at, variable, part);
        }
        self.out.jump(self.at, done);

        self.at = far;
        let lanes = self.affine(first, way.step);
        let index = self.cast(extension, self.wide(Scalar::Int(64)), lanes);
        let pointers = self.ty(base).scalar().map(|scalar| self.wide(scalar))?;
        let at = self.push(pointers, address(index));
        let parts = access(self, Pattern::Scattered(at, elements.size));
        for (&variable, part) in variables.iter().zip(parts) {
            self.out.write(self.at, variable, part);
        }
        self.out.jump(self.at, done);
        self.out.close(done);
        self.at = done;
        Some(variables.into_iter().map(|variable| self.out.read(done, variable)).collect())
    }
}
