//! Widening: accesses by indices that are put together of an id's bits, as partners in a butterfly are (`i ^ j`, `2 * i - (i & (j - 1))`), and
//! by multiples that a parameter says, as the increments of BLAS (`x[i * incx]`). Whether the lanes' lie next to each other depends on
//! what the launch brings: in most steps of a sort or a transform they do, and most increments are 1. All lanes' indices are asked;
//! neighbours become one wide access, the rest a gather or scatter.

use super::Widener;
use super::memory::{Elements, Pattern};
use super::wrapping::Indexed;
use crate::analysis::{Shape, Shapes};
use crate::{
    AddressSpace, BinaryOp, Block, CastOp, Constant, Flags, Function, IntPredicate, Op, Scalar, Type,
    UnaryOp, Value, ValueDef,
};

/// An index is put together of so many operations at most.
const MOST_OPERATIONS: u32 = 24;

/// A part that all lanes share is looked through so far.
const FEW_OPERATIONS: u32 = 6;

/// Neighbours of which bits are taken lie no further apart.
const FURTHEST: i64 = 4;

/// Fewer lanes are as well accessed one by one.
const LEAST_LANES: u32 = 4;

/// An address by such an index.
pub(super) struct BitIndex {
    /// The same in all lanes.
    base: Value,
    index: Value,
    /// How the index is extended, and to what.
    extension: Option<(CastOp, Scalar)>,
    /// Between neighbours' indices.
    apart: i64,
    scale: i64,
    offset: i64,
}

impl BitIndex {
    /// What a pointer to such elements is, where `user` uses it in so many lanes.
    pub(super) fn of(
        body: &Function,
        shapes: &Shapes,
        (pointer, user): (Value, Block),
        (elements, lanes): (Elements, u32),
    ) -> Option<BitIndex> {
        let is_private = matches!(
            body.ty(pointer),
            Type::Scalar(Scalar::Pointer(AddressSpace::Private | AddressSpace::Context))
        );
        if elements.count != 1 || lanes < LEAST_LANES || is_private {
            return None;
        }
        let Indexed { base, index, scale, offset } = Indexed::of(body, shapes, pointer, user)?;
        if scale <= 0 || elements.size % scale != 0 {
            return None;
        }
        let (index, extension) = match body.defining_op(index)? {
            &Op::Cast { op: op @ (CastOp::SExt | CastOp::ZExt), value, .. } => {
                (value, Some((op, body.ty(index).scalar()?)))
            }
            _ => (index, None),
        };
        let mut search = Search {
            body,
            shapes,
            user,
            lanes,
            left: MOST_OPERATIONS,
            takes_bits: false,
            is_multiple: false,
            goes_along: false,
        };
        // Behind a loop there is of each lane's last iteration what is used there: the pointer, and not what it was made of.
        let is_at_hand = !shapes.leaves_divergent_loop(index, user);
        let is_found = is_at_hand
            && matches!(body.ty(index), Type::Scalar(Scalar::Int(32 | 64)))
            && search.put_together(index) == Some(Lanes::MayBeInOrder)
            && (search.takes_bits || search.is_multiple)
            && !(search.is_multiple && search.goes_along);
        let apart = elements.size / scale;
        is_found.then_some(BitIndex { base, index, extension, apart, scale, offset })
    }
}

/// How lanes' indices may lie, or parts of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Lanes {
    /// In most packs they are the same, as rows of ids (`i & ~255`, `i >> 8`).
    Alike,
    MayBeInOrder,
}

struct Search<'a> {
    body: &'a Function,
    shapes: &'a Shapes,
    user: Block,
    lanes: u32,
    left: u32,
    takes_bits: bool,
    /// Whether something is multiplied by a parameter.
    is_multiple: bool,
    /// Whether a part comes of a loop's counter, or of another dimension's id: what is multiplied then are rows, which those go along.
    goes_along: bool,
}

impl Search<'_> {
    /// How an index lies that is made of ids, and of what all lanes have in common, by sums and operations on bits; None if it is made of
    /// anything else.
    fn put_together(&mut self, index: Value) -> Option<Lanes> {
        match self.shapes.shape_at(index, self.user) {
            Shape::Uniform => {
                self.goes_along |= self.is_counted(index, 0);
                return Some(Lanes::Alike);
            }
            Shape::Affine { stride, .. } => return (stride.abs() <= FURTHEST).then_some(Lanes::MayBeInOrder),
            Shape::Varying => {}
        }
        self.left = self.left.checked_sub(1)?;
        match *self.body.defining_op(index)? {
            Op::Cast { op: CastOp::SExt | CastOp::ZExt | CastOp::Trunc, value, .. } => {
                self.put_together(value)
            }
            Op::Binary { op: BinaryOp::Mul, lhs, rhs, .. } => {
                if self.body.constant_int(rhs).is_some() {
                    return self.put_together(lhs);
                }
                let (of, _) = [(lhs, rhs), (rhs, lhs)].into_iter().find(|(_, by)| self.is_parameter(*by))?;
                self.is_multiple = true;
                self.put_together(of)
            }
            Op::Binary { op, lhs, rhs, .. } => {
                use BinaryOp::{AShr, Add, And, LShr, Or, Shl, Sub, Xor};
                if !matches!(op, Add | Sub | And | Or | Xor | Shl | LShr | AShr) {
                    return None;
                }
                self.takes_bits |= !matches!(op, Add | Sub);
                let both = self.put_together(lhs)?.max(self.put_together(rhs)?);
                Some(if self.is_row(op, rhs) { Lanes::Alike } else { both })
            }
            _ => None,
        }
    }

    /// Whether a value is a parameter, of any width.
    fn is_parameter(&self, value: Value) -> bool {
        match self.body.defining_op(value) {
            Some(&Op::Cast { op: CastOp::SExt | CastOp::ZExt | CastOp::Trunc, value, .. }) => {
                self.is_parameter(value)
            }
            _ => matches!(self.body.def(value), ValueDef::Param(_)),
        }
    }

    /// Whether a value changes from iteration to iteration, or from row to row.
    fn is_counted(&self, value: Value, depth: u32) -> bool {
        if let Some(Op::WorkItem { query, .. }) = self.body.defining_op(value) {
            return query.is_varying();
        }
        if depth == FEW_OPERATIONS || matches!(self.body.def(value), ValueDef::BlockParam(..)) {
            return true;
        }
        let operands = self.body.defining_op(value).map(Op::operands).unwrap_or_default();
        operands.into_iter().any(|operand| self.is_counted(operand, depth + 1))
    }

    /// Whether an operation takes away the bits in which lanes differ.
    fn is_row(&self, op: BinaryOp, by: Value) -> bool {
        let lanes = u128::from(self.lanes);
        self.body.constant_int(by).is_some_and(|by| match op {
            BinaryOp::And => by & (lanes - 1) == 0,
            BinaryOp::LShr | BinaryOp::AShr => by >= lanes.ilog2().into(),
            _ => false,
        })
    }
}

impl Widener<'_> {
    /// Writes an access in both ways, if its index is such a one.
    pub(super) fn if_bits_are_in_order(
        &mut self,
        pointer: Value,
        elements: Elements,
        mut access: impl FnMut(&mut Self, Pattern) -> Vec<Value>,
    ) -> Option<Vec<Value>> {
        if self.shape(pointer) != Shape::Varying || self.facts.slots.is_interleaved(pointer) {
            return None;
        }
        let known = (elements, self.lanes);
        let found = BitIndex::of(self.body, &self.facts.shapes, (pointer, self.user), known)?;
        let lanes = self.lanes_of(found.index)[0];
        // Inactive lanes' are asked as well, of which nothing is promised.
        let freeze = Op::Unary { op: UnaryOp::Freeze, flags: Flags::NONE, value: lanes };
        let lanes = self.push(self.ty(lanes), freeze);
        let zero = self.constant(Type::I32, Constant::Int(0));
        let scalar = Type::Scalar(self.ty(lanes).scalar()?);
        let first = self.push(scalar, Op::ExtractElement { vector: lanes, index: zero });
        let condition = self.are_in_order(&found, lanes, first)?;
        let base = self.first_lane(found.base);
        let far = self.lanes_of(pointer)[0];
        let near = |widener: &mut Self| {
            let index = match found.extension {
                Some((extension, to)) => widener.cast(extension, Type::Scalar(to), first),
                None => first,
            };
            let BitIndex { scale, offset, .. } = found;
            let address = Op::Address { base, index: Some(index), scale, offset, inbounds: false };
            widener.push(widener.ty(base), address)
        };
        Some(self.two_ways(condition, |widener, is_near| match is_near {
            true => {
                let at = near(widener);
                access(widener, Pattern::Planes(at, elements.size))
            }
            false => match widener.by_stride(pointer, elements, &mut access) {
                Some(parts) => parts,
                None => access(widener, Pattern::Scattered(far, elements.size)),
            },
        }))
    }

    /// Whether each lane's index comes behind that of the lane before, and none wraps when it is extended.
    fn are_in_order(&mut self, found: &BitIndex, lanes: Value, first: Value) -> Option<Value> {
        let ty = self.ty(lanes);
        let Scalar::Int(bits) = ty.scalar()? else { return None };
        let scalar = Type::int(bits);
        let steps = (0..self.lanes)
            .map(|lane| (scalar.clone(), Constant::Int(u128::from(lane) * found.apart as u128)));
        let steps = self.constant(ty, Constant::Elements(steps.collect()));
        let first_of_all = self.splat(first);
        let expected = self.binary(BinaryOp::Add, first_of_all, steps);
        let different = self.compare(IntPredicate::Ne, lanes, expected);
        let different = self.cast(CastOp::BitCast, Type::int(self.lanes), different);
        let none = self.constant(self.ty(different), Constant::Int(0));
        let are = self.compare(IntPredicate::Eq, different, none);
        let Some((extension, _)) = found.extension else { return Some(are) };
        let farthest = u128::from(self.lanes - 1) * found.apart as u128;
        let (predicate, most) = match extension {
            CastOp::SExt => (IntPredicate::Sle, (1 << (bits - 1)) - 1 - farthest),
            _ => (IntPredicate::Ule, (1 << bits) - 1 - farthest),
        };
        let most = self.constant(scalar, Constant::Int(most));
        let stays = self.compare(predicate, first, most);
        let stays =
            self.push(Type::BOOL, Op::Unary { op: UnaryOp::Freeze, flags: Flags::NONE, value: stays });
        Some(self.binary(BinaryOp::And, are, stays))
    }
}

#[cfg(test)]
mod tests {
    use crate::parse;
    use crate::transform::form_regions;
    use crate::transform::widen::widen;

    /// Branches of a pack that loads a word by %9: %3 is the work-item, %4 a word of its own, %2 a number that all share.
    fn branches(index: &str) -> usize {
        let text = format!(
            "kernel \"k\"(%0: ptr(global) @ 0, %1: ptr(global) @ 8, %2: i64 @ 16) {{\nb0:\n  %3: i64 = global_id 0\n  \
             %5: ptr(global) = address %1 + %3*4 + 0\n  %4: i32 = load %5, align 4\n{index}  \
             %10: ptr(global) = address %0 + %9*4 + 0\n  %11: i32 = load %10, align 4\n  store %5, %11, align 4\n  return\n}}"
        );
        let group = form_regions(parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}")));
        let body = widen(&group.regions[0], None, &group.context, 16).unwrap().body.to_string();
        body.matches("  branch ").count()
    }

    #[test]
    fn increments_are_asked() {
        assert_eq!(branches("  %9: i64 = mul %3, %2\n"), 1);
        assert_eq!(
            branches(
                "  %6: i32 = trunc %3\n  %7: i32 = trunc %2\n  %8: i32 = mul %7, %6\n  %12: i32 = add %8, %7\n  %9: i64 = sext %12\n"
            ),
            1
        );
        // By what comes from memory, or is computed.
        assert_eq!(branches("  %6: i64 = sext %4\n  %9: i64 = mul %3, %6\n"), 0);
        assert_eq!(branches("  %6: i64 = mul %2, %2\n  %9: i64 = mul %3, %6\n"), 0);
    }

    /// Lanes leave the loop one by one, with a pointer of which only itself is seen behind it.
    #[test]
    fn a_pointer_from_a_loop_is_taken_as_it_is() {
        let text = "kernel \"k\"(%0: ptr(global) @ 0, %1: i32 @ 8) {
b0:
  %2: i64 = global_id 0
  %3: i32 = trunc %2
  jump b1(0:i32)
b1(%4: i32):
  %5: i32 = xor %3, %1
  %6: i64 = zext %5
  %7: ptr(global) = address %0 + %6*4 + 0
  %8: i32 = add %4, 1:i32
  %9: i1 = icmp ult %8, %3
  branch %9, b1(%8), b2
b2:
  %10: i32 = load %7, align 4
  store %7, %10, align 4
  return
}";
        let group = form_regions(parse(text).unwrap());
        assert!(widen(&group.regions[0], None, &group.context, 16).is_some());
    }

    #[test]
    fn rows_that_a_loop_goes_along_are_none() {
        let text = "kernel \"k\"(%0: ptr(global) @ 0, %1: i64 @ 8) {
b0:
  %2: i64 = global_id 0
  %3: i64 = mul %2, %1
  %4: ptr(global) = address %0 + %2*4 + 0
  jump b1(0:i64)
b1(%5: i64):
  %6: i64 = add %3, %5
  %7: ptr(global) = address %0 + %6*4 + 0
  %8: i32 = load %7, align 4
  store %4, %8, align 4
  %9: i64 = add %5, 1:i64
  %10: i1 = icmp ult %9, %1
  branch %10, b1(%9), b2
b2:
  return
}";
        let group = form_regions(parse(text).unwrap());
        let body = widen(&group.regions[0], None, &group.context, 16).unwrap().body.to_string();
        assert_eq!(body.matches("  branch ").count(), 1, "the loop's: {body}");
    }

    #[test]
    fn indices_of_bits_are_asked() {
        assert_eq!(branches("  %9: i64 = xor %3, %2\n"), 1);
        assert_eq!(
            branches(
                "  %6: i32 = trunc %3\n  %7: i32 = trunc %2\n  %8: i32 = xor %6, %7\n  %9: i64 = zext %8\n"
            ),
            1
        );
        assert_eq!(
            branches("  %6: i64 = and %3, %2\n  %7: i64 = shl %3, 1:i64\n  %9: i64 = sub %7, %6\n"),
            1
        );
        // What comes from memory is anywhere, and so is what is far apart.
        assert_eq!(branches("  %6: i64 = zext %4\n  %9: i64 = xor %6, %2\n"), 0);
        assert_eq!(branches("  %6: i64 = mul %3, 77:i64\n  %9: i64 = xor %6, %2\n"), 0);
        assert_eq!(branches("  %9: i64 = add %3, %2\n"), 0, "no bits are taken");
        // Rows of a square that a pack lies in, and its columns.
        assert_eq!(branches("  %6: i64 = and %3, 18446744073709551360:i64\n  %9: i64 = or %6, %2\n"), 0);
        assert_eq!(branches("  %6: i64 = lshr %3, 8:i64\n  %9: i64 = add %6, %2\n"), 0);
        assert_eq!(branches("  %6: i64 = and %3, 255:i64\n  %9: i64 = or %6, %2\n"), 1);
    }
}
