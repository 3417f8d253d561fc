//! Lowering: what is the same for all packs of a row.

use crate::analysis::{ControlFlow, Loops};
use crate::{Function, Op};
use fixedbitset::FixedBitSet;

/// How many loads outside of the body's own loops have an address that is the same for all packs of a row.
pub(super) fn repeated_loads(body: &Function, flow: &ControlFlow) -> usize {
    let Some(loops) = Loops::new(flow) else { return 0 };
    let mut same = FixedBitSet::with_capacity(body.value_count());
    let mut loads = 0;
    for &block in flow.reverse_post_order().iter().filter(|&&block| loops.innermost(block).is_none()) {
        for &inst in &body.block(block).insts {
            let op = body.op(inst);
            let is_same = match op {
                Op::WorkItem { query, dimension } => {
                    *dimension != body.row_dimension && !query.sees_sub_groups()
                }
                Op::Load { pointer, volatile: false, ordering: None, .. } => {
                    let is_same = body.is_given(*pointer) || same.contains(pointer.index());
                    loads += usize::from(is_same);
                    is_same
                }
                op => {
                    let mut all = op.is_speculatable();
                    op.visit_operands(|v| all &= body.is_given(v) || same.contains(v.index()));
                    all
                }
            };
            if let (true, Some(result)) = (is_same, body.result(inst)) {
                same.insert(result.index());
            }
        }
    }
    loads
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    #[test]
    fn loads_that_depend_on_the_first_id_or_a_loop_are_others() {
        let body = parse(
            r#"kernel "k"(%0: ptr(global) @ 0, %1: i64 @ 8) {
b0:
  %2: f32 = load %0, align 4
  jump b1
b1:
  %3: i64 = local_id 0
  %4: i64 = local_id 1
  %5: ptr(global) = address %0 + %4*4 + 0
  %6: f32 = load %5, align 4
  %7: ptr(global) = address %0 + %3*4 + 0
  %8: f32 = load %7, align 4
  jump b2(0:i64)
b2(%9: i64):
  %10: f32 = load %0, align 4
  %11: i64 = add %9, 1:i64
  %12: i1 = icmp ult %11, %1
  branch %12, b2(%11), b3
b3:
  store %7, %10, align 4
  return
}"#,
        )
        .unwrap();
        assert_eq!(repeated_loads(&body, &ControlFlow::new(&body)), 2);
    }
}
