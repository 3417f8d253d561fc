//! Widening: how far apart neighbouring lanes' numbers are where all are as far apart, which only the running program knows: the rows of
//! `a[item * width + column]`. (Distances that are known before are shapes, see [`Shape::Affine`].)

use super::Widener;
use crate::analysis::{Shape, Shapes};
use crate::{BinaryOp, Block, CastOp, Constant, Flags, Function, Op, Type, Value};

/// Numbers are looked into so deep.
const MOST_DEPTH: u32 = 8;

/// From a lane's number to the next one's, made of what all lanes have in common.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Distance {
    Known(i64),
    Scaled(Box<Distance>, i64),
    Times(Box<Distance>, Value),
    Sum(Box<Distance>, Box<Distance>),
}

impl Distance {
    /// Between the pointers of active lanes, where `user` uses them.
    pub fn of(body: &Function, shapes: &Shapes, pointer: Value, user: Block) -> Option<Distance> {
        Search { body, shapes, user }.distance(pointer, false, 0)
    }

    fn scaled(self, by: i64) -> Option<Distance> {
        match self {
            Distance::Known(distance) => distance.checked_mul(by).map(Distance::Known),
            other if by == 1 => Some(other),
            other => Some(Distance::Scaled(other.into(), by)),
        }
    }

    fn plus(self, other: Distance) -> Option<Distance> {
        match (self, other) {
            (Distance::Known(a), Distance::Known(b)) => a.checked_add(b).map(Distance::Known),
            (Distance::Known(0), any) | (any, Distance::Known(0)) => Some(any),
            (a, b) => Some(Distance::Sum(a.into(), b.into())),
        }
    }
}

struct Search<'a> {
    body: &'a Function,
    shapes: &'a Shapes,
    user: Block,
}

impl Search<'_> {
    /// In the arithmetic of the value's width; or, if it must be `exact`, as signed numbers of any width.
    fn distance(&self, value: Value, exact: bool, depth: u32) -> Option<Distance> {
        // Behind a loop there is of each lane's last iteration the value, and not what it was made of.
        if depth > MOST_DEPTH || self.shapes.leaves_divergent_loop(value, self.user) {
            return None;
        }
        match self.shapes.shape_at(value, self.user) {
            Shape::Uniform => return Some(Distance::Known(0)),
            Shape::Affine { stride, exact: is_exact } => {
                return (is_exact || !exact).then_some(Distance::Known(stride));
            }
            Shape::Varying => {}
        }
        let within = |value| self.distance(value, exact, depth + 1);
        let holds = |flags: Flags| !exact || flags.0 & Flags::NSW != 0;
        match *self.body.defining_op(value)? {
            Op::Address { base, index: None, .. } => within(base),
            Op::Address { base, index: Some(index), scale, .. } if *self.body.ty(index) == Type::I64 => {
                within(base)?.plus(within(index)?.scaled(scale)?)
            }
            Op::Binary { op: BinaryOp::Add, lhs, rhs, flags } if holds(flags) => {
                within(lhs)?.plus(within(rhs)?)
            }
            Op::Binary { op: BinaryOp::Or, lhs, rhs, flags } if flags.0 & Flags::DISJOINT != 0 => {
                within(lhs)?.plus(within(rhs)?)
            }
            Op::Binary { op: BinaryOp::Sub, lhs, rhs, flags } if holds(flags) => {
                within(lhs)?.plus(within(rhs)?.scaled(-1)?)
            }
            Op::Binary { op: BinaryOp::Shl, lhs, rhs, flags } if holds(flags) => {
                let by = self.body.constant_int(rhs).filter(|by| *by < 32)?;
                within(lhs)?.scaled(1 << by)
            }
            Op::Binary { op: BinaryOp::Mul, lhs, rhs, flags } if holds(flags) => {
                let is_shared = |value| self.shapes.shape_at(value, self.user) == Shape::Uniform;
                let (of, by) = [(lhs, rhs), (rhs, lhs)].into_iter().find(|&(_, by)| is_shared(by))?;
                Some(Distance::Times(within(of)?.into(), by))
            }
            Op::Cast { op: CastOp::SExt, value, .. } => self.distance(value, true, depth + 1),
            Op::Cast { op: CastOp::ZExt, value, flags } if flags.0 & Flags::NNEG != 0 => {
                self.distance(value, true, depth + 1)
            }
            // Distances are numbers of 64 bits: what is wider has none.
            Op::Cast { op: CastOp::Trunc, value, .. } if !exact && self.body.ty(value).size() <= 8 => {
                self.distance(value, false, depth + 1)
            }
            _ => None,
        }
    }
}

impl Widener<'_> {
    /// As a number of 64 bits.
    pub(super) fn distance(&mut self, distance: &Distance) -> Value {
        match distance {
            Distance::Known(distance) => self.constant(Type::I64, Constant::Int(*distance as u64 as u128)),
            Distance::Scaled(of, by) => {
                let (of, by) = (self.distance(of), self.distance(&Distance::Known(*by)));
                self.binary(BinaryOp::Mul, of, by)
            }
            Distance::Times(of, by) => {
                let (of, by) = (self.distance(of), self.first_lane(*by));
                let by = if self.ty(by) == Type::I64 { by } else { self.cast(CastOp::SExt, Type::I64, by) };
                self.binary(BinaryOp::Mul, of, by)
            }
            Distance::Sum(a, b) => {
                let (a, b) = (self.distance(a), self.distance(b));
                self.binary(BinaryOp::Add, a, b)
            }
        }
    }

    /// The first lane's part of a value whose lanes are a distance apart.
    pub(super) fn first_of(&mut self, value: Value) -> Value {
        if self.shape(value) != Shape::Varying {
            return self.first_lane(value);
        }
        let Some(mut op) = self.body.defining_op(value).cloned() else { return self.first_lane(value) };
        for operand in op.operands_mut() {
            *operand = self.first_of(*operand);
        }
        self.push(self.body.ty(value).clone(), op)
    }
}

#[cfg(test)]
mod tests {
    use crate::parse;
    use crate::transform::form_regions;
    use crate::transform::widen::widen;

    /// Gathers, and scalar loads, of a pack that loads a word by %9: %3 is the work-item, %4 a word of its own, %2 a number that all share.
    fn loads(index: &str) -> (usize, usize) {
        let text = format!(
            "kernel \"k\"(%0: ptr(global) @ 0, %1: ptr(global) @ 8, %2: i32 @ 16) {{\nb0:\n  %3: i64 = global_id 0\n  %13: i32 = trunc %3\n  \
             %5: ptr(global) = address %1 + %3*4 + 0\n  %4: i32 = load %5, align 4\n{index}  \
             %10: ptr(global) = address %0 + %9*4 + 0\n  %11: i32 = load %10, align 4\n  store %5, %11, align 4\n  return\n}}"
        );
        let group = form_regions(parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}")));
        let body = widen(&group.regions[0], None, &group.context, 8).unwrap().body.to_string();
        (body.matches("= masked_load").count(), body.matches(": i32 = load").count())
    }

    #[test]
    fn distances_that_all_lanes_share_are_no_gathers() {
        let one_by_one = (0, 8);
        assert_eq!(
            loads("  %6: i32 = mul nsw %13, %2\n  %7: i32 = add nsw %6, 3:i32\n  %9: i64 = sext %7\n"),
            one_by_one
        );
        assert_eq!(
            loads(
                "  %6: i64 = zext %2\n  %7: i64 = mul %6, %3\n  %8: i64 = mul %7, %6\n  %9: i64 = add %8, %3\n"
            ),
            one_by_one
        );
        assert_eq!(
            loads("  %6: i32 = mul nsw %13, %2\n  %7: i32 = sub nsw %6, %13\n  %9: i64 = zext nneg %7\n"),
            one_by_one
        );
        assert_eq!(loads("  %9: i64 = mul %3, 40:i64\n"), one_by_one);
    }

    #[test]
    fn others_are() {
        // A product that may wrap, a number of each lane's own, and what is not linear.
        assert_eq!(loads("  %6: i32 = mul %13, %2\n  %7: i32 = mul %6, %2\n  %9: i64 = sext %7\n").0, 1);
        assert_eq!(loads("  %9: i64 = sext %4\n"), (1, 0));
        assert_eq!(loads("  %9: i64 = mul %3, %3\n"), (1, 0));
        let wide =
            "  %6: i128 = sext %13\n  %7: i128 = sext %2\n  %8: i128 = mul %6, %7\n  %9: i64 = trunc %8\n";
        assert_eq!(loads(wide).1, 0);
    }
}
