//! Widening: how the lanes of a pack part.

use crate::analysis::{Shape, Shapes};
use crate::{BinaryOp, Block, Function, IntPredicate, Op, Predicate, Value};

/// Conditions of more levels are thought to be any.
const MOST_DEPTH: u32 = 8;

/// Whether a branch compares what counts up with the lanes with what they have in common, as `id < n` does: of the packs in a row, one
/// parts there at most, and all others go one way.
pub(super) fn part_in_one_pack(body: &Function, shapes: &Shapes, block: Block) -> bool {
    let condition = body.block(block).terminator.condition();
    condition.is_some_and(|condition| is_ordered(body, shapes, block, (condition, 0)))
}

fn is_ordered(body: &Function, shapes: &Shapes, block: Block, (condition, depth): (Value, u32)) -> bool {
    let shape = |value| shapes.shape_at(value, block);
    match body.defining_op(condition) {
        _ if shape(condition) == Shape::Uniform => true,
        Some(&Op::Binary { op: BinaryOp::And | BinaryOp::Or, lhs, rhs, .. }) => {
            let is_ordered = |side| is_ordered(body, shapes, block, (side, depth + 1));
            depth < MOST_DEPTH && [lhs, rhs].into_iter().all(is_ordered)
        }
        Some(&Op::Compare { predicate: Predicate::Int(predicate), lhs, rhs, .. }) => {
            !matches!(predicate, IntPredicate::Eq | IntPredicate::Ne)
                && [lhs, rhs].into_iter().all(|side| shape(side) != Shape::Varying)
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::Facts;
    use super::part_in_one_pack;
    use crate::transform::form_regions;
    use crate::{Terminator, parse};

    /// Whether a kernel parts in one pack at its condition, %9; %1 is the work-item's number in its group, %2 a word of its own, %3 a number.
    fn is_so(condition: &str) -> bool {
        let text = format!(
            "kernel \"k\"(%0: ptr(global) @ 0, %3: i64 @ 8) {{\nb0:\n  %1: i64 = local_id 0\n  %4: ptr(global) = address %0 + %1*8 + 0\n  \
             %2: i64 = load %4, align 8\n{condition}  branch %9, b1, b2\nb1:\n  store %4, 0:i64, align 8\n  jump b2\nb2:\n  return\n}}"
        );
        let group = form_regions(parse(&text).unwrap_or_else(|e| panic!("{e}\n{text}")));
        let body = &group.regions[0].body;
        let facts = Facts::new(body, &group.context, 16).unwrap();
        let parting =
            |block: &crate::Block| matches!(body.block(*block).terminator, Terminator::Branch { .. });
        let block = body.block_ids().find(parting).expect("a branch");
        part_in_one_pack(body, &facts.shapes, block)
    }

    #[test]
    fn lanes_in_order_part_in_one_pack() {
        assert!(is_so("  %9: i1 = icmp ult %1, %3\n"));
        assert!(is_so("  %5: i64 = mul %1, 2:i64\n  %9: i1 = icmp sge %3, %5\n"));
        assert!(!is_so("  %9: i1 = icmp ult %2, %3\n"), "what each has of its own");
        assert!(!is_so("  %5: i64 = and %1, 1:i64\n  %9: i1 = icmp ult %5, %3\n"), "every other one");
        assert!(!is_so("  %9: i1 = icmp eq %1, %3\n"), "one of them all");
    }

    #[test]
    fn conditions_together_part_where_one_of_them_does() {
        let both = |second: &str| {
            format!(
                "  %5: i1 = icmp ult %1, %3\n  %6: i1 = icmp ugt {second}, 7:i64\n  %9: i1 = and %5, %6\n"
            )
        };
        assert!(is_so(&both("%1")) && is_so(&both("%3")) && !is_so(&both("%2")));
    }

    #[test]
    fn long_conditions_are_not_followed_to_their_end() {
        // Each of the one before, twice: a walk over all ways would not end, and one as deep as this has no stack.
        let chain = |count: usize| {
            let first = "  %10: i1 = icmp ult %1, %3\n".to_owned();
            let next = |n: usize| format!("  %{}: i1 = and %{n}, %{n}\n", n + 1);
            let last = format!("  %9: i1 = or %{0}, %{0}\n", 10 + count);
            first + &(10..10 + count).map(next).collect::<String>() + &last
        };
        assert!(is_so(&chain(3)) && !is_so(&chain(20_000)));
    }
}
