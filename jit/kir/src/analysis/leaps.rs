//! Analysis: how far apart a loop's accesses are from one iteration to the next. Where each goes to another line of the caches, such as
//! `a[i * n + item]` for each i, a pack uses all of a line that it fetches; scalar code comes back for the next work-item's part when the
//! loop has gone through all lines, and often they are gone by then: rows of a power of two lie in few sets. Where each goes on to the next
//! element, a work-item walks along a row.

use super::{Loop, Loops, Shape, Shapes};
use crate::{AddressSpace, BinaryOp, Block, Function, Op, Scalar, Type, Value, ValueDef};

/// Bytes of a line.
const LINE: i128 = 64;
/// Indices are looked into so deep.
const MOST_DEPTH: u32 = 12;

/// How far a value is from what it was one iteration before.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    By(i128),
    /// The same each time, and not known.
    Some,
    /// Nobody knows.
    Any,
}

impl Step {
    fn plus(self, other: Step) -> Step {
        match (self, other) {
            (Step::By(one), Step::By(other)) => one.checked_add(other).map_or(Step::Any, Step::By),
            (Step::Any, _) | (_, Step::Any) => Step::Any,
            _ => Step::Some,
        }
    }

    fn times(self, factor: Option<i128>) -> Step {
        match (self, factor) {
            (Step::By(0), _) => Step::By(0),
            (Step::By(step), Some(factor)) => step.checked_mul(factor).map_or(Step::Any, Step::By),
            (Step::Any, _) => Step::Any,
            _ => Step::Some,
        }
    }
}

/// A body's loops, and where its instructions stand.
pub struct Leaps<'a> {
    body: &'a Function,
    loops: &'a Loops,
    places: Vec<Option<Block>>,
}

impl<'a> Leaps<'a> {
    /// Of a body with these loops.
    pub fn new(body: &'a Function, loops: &'a Loops) -> Self {
        let mut places = vec![None; body.inst_count()];
        for block in body.block_ids() {
            body.block(block).insts.iter().for_each(|inst| places[inst.index()] = Some(block));
        }
        Leaps { body, loops, places }
    }

    /// Whether each iteration of the innermost loop around a block accesses another line by that pointer. A step that is not known is
    /// thought to be long: it is the length of rows, mostly.
    pub fn are_at(&self, block: Block, pointer: Value) -> bool {
        match self.step(block, pointer) {
            Some(Step::By(step)) => step.abs() >= LINE,
            Some(Step::Some) => true,
            _ => false,
        }
    }

    /// Whether each iteration of that loop accesses the next element, of so many bytes.
    pub fn walk_at(&self, block: Block, pointer: Value, size: u64) -> bool {
        self.step(block, pointer) == Some(Step::By(size.into()))
    }

    /// Whether each iteration of that loop accesses the same place.
    pub fn stays_at(&self, block: Block, pointer: Value) -> bool {
        self.step(block, pointer) == Some(Step::By(0))
    }

    /// Bytes from one iteration of that loop to the next, if they are known.
    pub fn step_at(&self, block: Block, pointer: Value) -> Option<i64> {
        match self.step(block, pointer)? {
            Step::By(step) => i64::try_from(step).ok(),
            Step::Some | Step::Any => None,
        }
    }

    /// Whether a pointer changes within the innermost loop around a block, and only by what `is_uniform`: each lane goes through a place of
    /// its own then, all at the same pace.
    pub fn are_at_one_pace(&self, block: Block, pointer: Value, is_uniform: &dyn Fn(Value) -> bool) -> bool {
        let Some(id) = self.loops.innermost(block) else { return false };
        let search = Search { body: self.body, around: self.loops.get(id), places: &self.places };
        search.is_inside(pointer) && search.is_at_one_pace(pointer, is_uniform, 0)
    }

    /// The same of memory that is not near: each lane has lines of its own, and comes back to them for the next element.
    pub fn is_walked(&self, block: Block, pointer: Value, shapes: &Shapes) -> bool {
        use AddressSpace::{Local, Private};
        let is_near = matches!(self.body.ty(pointer), Type::Scalar(Scalar::Pointer(Local | Private)));
        let is_uniform = |value| shapes.shape_at(value, block) == Shape::Uniform;
        !is_near && self.are_at_one_pace(block, pointer, &is_uniform)
    }

    fn step(&self, block: Block, pointer: Value) -> Option<Step> {
        let around = self.loops.get(self.loops.innermost(block)?);
        Some(Search { body: self.body, around, places: &self.places }.step(pointer, 0))
    }
}

/// What a value's step in a loop is found with.
struct Search<'a> {
    body: &'a Function,
    around: &'a Loop,
    places: &'a [Option<Block>],
}

impl Search<'_> {
    fn step(&self, value: Value, depth: u32) -> Step {
        let step = |value: Value| self.step(value, depth + 1);
        match *self.body.def(value) {
            ValueDef::Param(_) | ValueDef::Constant(_) => return Step::By(0),
            ValueDef::BlockParam(block, number) if block == self.around.header => {
                return self.counter(value, number as usize);
            }
            _ if !self.is_inside(value) => return Step::By(0),
            _ if depth > MOST_DEPTH => return Step::Any,
            _ => {}
        }
        match self.body.defining_op(value) {
            Some(&Op::Address { base, index, scale, .. }) => {
                let index = index.map_or(Step::By(0), step);
                step(base).plus(index.times(Some(scale.into())))
            }
            Some(&Op::Binary { op: BinaryOp::Add | BinaryOp::Or, lhs, rhs, .. }) => step(lhs).plus(step(rhs)),
            Some(&Op::Binary { op: BinaryOp::Sub, lhs, rhs, .. }) => {
                step(lhs).plus(step(rhs).times(Some(-1)))
            }
            Some(&Op::Binary { op: BinaryOp::Mul, lhs, rhs, .. }) => match (step(lhs), step(rhs)) {
                (Step::By(0), other) => other.times(self.constant(lhs)),
                (other, Step::By(0)) => other.times(self.constant(rhs)),
                _ => Step::Any,
            },
            Some(&Op::Binary { op: BinaryOp::Shl, lhs, rhs, .. }) => {
                let factor = self.constant(rhs).filter(|by| (0..64).contains(by)).map(|by| 1 << by);
                step(lhs).times(factor)
            }
            Some(&Op::Cast { value, .. }) => step(value),
            // Made anew of what stays.
            Some(op) if !op.reads_memory() && op.operands().into_iter().all(|v| step(v) == Step::By(0)) => {
                Step::By(0)
            }
            _ => Step::Any,
        }
    }

    fn is_at_one_pace(&self, value: Value, is_uniform: &dyn Fn(Value) -> bool, depth: u32) -> bool {
        use BinaryOp::{Add, Mul, Or, Shl, Sub};
        if !self.is_inside(value) || is_uniform(value) {
            return true;
        }
        let made_of = match self.body.defining_op(value) {
            Some(
                op @ (Op::Address { .. }
                | Op::Cast { .. }
                | Op::Binary { op: Add | Or | Sub | Mul | Shl, .. }),
            ) => op.operands(),
            _ => return false,
        };
        depth < MOST_DEPTH && made_of.into_iter().all(|of| self.is_at_one_pace(of, is_uniform, depth + 1))
    }

    /// A parameter of the header, by what comes from the loop's end.
    fn counter(&self, counter: Value, number: usize) -> Step {
        let inside = self.around.blocks.ones().map(|block| self.body.block(Block(block as u32)));
        let again = inside.flat_map(|block| block.terminator.targets());
        let mut again = again.filter(|target| target.block == self.around.header);
        let (Some(next), None) = (again.next().and_then(|target| target.arguments.get(number)), again.next())
        else {
            return Step::Any;
        };
        let own = |other: Value| other == counter;
        let still = |by: Value| self.step_of_invariant(by);
        match self.body.defining_op(*next) {
            Some(&Op::Binary { op: BinaryOp::Add, lhs, rhs, .. }) if own(lhs) => still(rhs),
            Some(&Op::Binary { op: BinaryOp::Add, lhs, rhs, .. }) if own(rhs) => still(lhs),
            Some(&Op::Address { base, index, scale, offset, .. }) if own(base) => match index {
                None => Step::By(offset.into()),
                Some(index) => still(index).times(Some(scale.into())),
            },
            _ => Step::Any,
        }
    }

    /// What is added in each iteration.
    fn step_of_invariant(&self, by: Value) -> Step {
        match self.constant(by) {
            Some(by) => Step::By(by),
            None if self.is_inside(by) => Step::Any,
            None => Step::Some,
        }
    }

    fn is_inside(&self, value: Value) -> bool {
        let block = match *self.body.def(value) {
            ValueDef::Param(_) | ValueDef::Constant(_) => None,
            ValueDef::BlockParam(block, _) => Some(block),
            ValueDef::Inst(inst) => self.places[inst.index()],
        };
        block.is_some_and(|block| self.around.blocks.contains(block.index()))
    }

    fn constant(&self, value: Value) -> Option<i128> {
        let bits = self.body.constant_int(value)?;
        let width = self.body.ty(value).size() as u32 * 8;
        // As a signed number.
        (1..=64).contains(&width).then(|| ((bits << (128 - width)) as i128) >> (128 - width))
    }
}

#[cfg(test)]
mod tests {
    use super::super::ControlFlow;
    use super::*;
    use crate::parse;

    /// Whether the store in a loop goes to another line each time; %1 is a number, %2 the work-item, %3 the counter, which grows by
    /// `step`, and %9 the place.
    fn leap(step: &str, place: &str) -> bool {
        let text = format!(
            "kernel \"k\"(%0: ptr(global) @ 0, %1: i64 @ 8) {{\nb0:\n  %2: i64 = global_id 0\n  jump b1(%2)\n\
             b1(%3: i64):\n{place}  store %9, 0:i32, align 4\n  %4: i64 = add %3, {step}\n  %5: i1 = icmp ult %4, %1\n  \
             branch %5, b1(%4), b2\nb2:\n  return\n}}"
        );
        let body = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
        let loops = Loops::new(&ControlFlow::new(&body)).unwrap();
        let store = body.block(Block(1)).insts.iter().map(|&inst| body.op(inst));
        let pointer =
            store.filter_map(|op| if let Op::Store { pointer, .. } = op { Some(*pointer) } else { None });
        let pointers: Vec<Value> = pointer.collect();
        Leaps::new(&body, &loops).are_at(Block(1), pointers[0])
    }

    #[test]
    fn places_of_lanes_are_gone_through_at_one_pace_or_not() {
        let is_so = |place: &str, uniform: &[&str]| {
            let text = format!(
                "kernel \"k\"(%0: ptr(global) @ 0, %1: i64 @ 8) {{\nb0:\n  %2: i64 = global_id 0\n  %6: i64 = mul %2, %1\n  jump b1(0:i64)\n\
                 b1(%3: i64):\n{place}  %9: ptr(global) = address %0 + %8*4 + 0\n  store %9, 0:i32, align 4\n  %4: i64 = add %3, 1:i64\n  \
                 %5: i1 = icmp ult %4, %1\n  branch %5, b1(%4), b2\nb2:\n  return\n}}"
            );
            let body = parse(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
            let loops = Loops::new(&ControlFlow::new(&body)).unwrap();
            let store = body.block(Block(1)).insts.iter().find_map(|&inst| match body.op(inst) {
                Op::Store { pointer, .. } => Some(*pointer),
                _ => None,
            });
            let counter = body.block(Block(1)).params[0];
            let is_uniform = |value: Value| value == counter && uniform.contains(&"%3");
            Leaps::new(&body, &loops).are_at_one_pace(Block(1), store.unwrap(), &is_uniform)
        };
        let (row, mixed) = ("  %8: i64 = add %6, %3\n", "  %8: i64 = xor %6, %3\n");
        assert!(is_so(row, &["%3"]));
        assert!(!is_so(row, &[]), "each has a counter of its own");
        assert!(!is_so(mixed, &["%3"]), "anywhere");
    }

    #[test]
    fn steps_are_found_and_compared_with_a_line() {
        let at = |index: &str| format!("  %6: i64 = {index}\n  %9: ptr(global) = address %0 + %6*4 + 0\n");
        let plain = "  %9: ptr(global) = address %0 + %3*4 + 0\n";
        assert_eq!(
            ["1:i64", "15:i64", "16:i64", "%1"].map(|step| leap(step, plain)),
            [false, false, true, true]
        );
        assert!(!leap("18446744073709551601:i64", plain) && leap("18446744073709551600:i64", plain));
        assert!(leap("1:i64", &at("mul %3, %1")), "rows of a length that is the same each time");
        assert!(leap("1:i64", &at("shl %3, 4:i64")) && !leap("1:i64", &at("shl %3, 3:i64")));
        assert!(!leap("1:i64", &at("mul %3, %3")) && !leap("1:i64", &at("xor %3, %1")), "nobody knows");
        assert!(!leap("1:i64", &at("mul %2, %1")), "the same place each time");
        assert!(!leap("%3", plain), "another step each time");
        let local = "  %6: ptr(local) = local_address 0\n  %9: ptr(local) = address %6 + %3*4 + 0\n";
        assert!(leap("16:i64", local) && !leap("15:i64", local), "an address that is made anew");
    }
}
