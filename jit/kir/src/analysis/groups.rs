//! Analysis: whether a kernel's work-items can tell how the NDRange is divided into work-groups, and in what order those run.

use crate::analysis::{ControlFlow, idle_barriers};
use crate::{Block, BlockData, Function, Op, Passing, Terminator, WorkItemQuery};

/// Whether anything in the kernel depends on its work-group: it asks for it, waits for its work-items, shares local
/// memory with them, or requires a size; or it may wait for another work-item, which would not go on as part of the same pack,
/// if others do that are alone in their groups. If nothing does, any division of the NDRange gives the same results, also one into
/// several launches: that is why the offset, which theirs may differ in, counts too.
pub fn sees_group(kernel: &Function) -> bool {
    let asks = |op: &Op| match op {
        Op::LocalAddress { .. } | Op::GroupReduce { .. } | Op::GroupScan { .. } | Op::SubGroup { .. } => true,
        Op::WorkItem { query, .. } => {
            // How a range is divided is seen in sub-groups, too.
            !matches!(
                query,
                WorkItemQuery::GlobalId
                    | WorkItemQuery::GlobalSize
                    | WorkItemQuery::WorkDim
                    | WorkItemQuery::DisjointBuffers
            )
        }
        _ => false,
    };
    kernel.required_work_group_size.is_some()
        || kernel.local_size > 0
        || kernel.params.iter().any(|param| param.passing == Passing::LocalOffset)
        || may_wait(kernel)
        || kernel.insts().any(|inst| asks(kernel.op(inst)))
        || waits(kernel)
}

/// Whether work-items wait for others of their group, and it matters.
fn waits(kernel: &Function) -> bool {
    let ends = |block: &BlockData| matches!(block.terminator, Terminator::Barrier(_));
    let barriers = kernel.blocks.iter().filter(|block| ends(block)).count();
    barriers > 0 && idle_barriers(kernel).len() < barriers
}

/// Whether nothing in the kernel tells what other work-groups have done, or waits for it: the groups may run in any order. (Those
/// that race for plain memory are in error, whatever the order.)
pub fn any_order(kernel: &Function) -> bool {
    kernel.insts().all(|inst| match kernel.op(inst) {
        Op::Load { volatile, ordering, .. } => !volatile && ordering.is_none(),
        Op::Call { pure, .. } => *pure,
        op => !op.is_atomic(),
    })
}

/// Whether a loop may end by what another work-item writes: it has an atomic operation that tells something, or a call of
/// what has atomics.
fn may_wait(kernel: &Function) -> bool {
    let used = kernel.used_values();
    let tells = |block: &Block| {
        kernel.block(*block).insts.iter().any(|&inst| match kernel.op(inst) {
            Op::Call { nosync, .. } => !nosync,
            op => op.is_atomic() && kernel.result(inst).is_some_and(|result| used.contains(result.index())),
        })
    };
    let telling: Vec<Block> = kernel.block_ids().filter(tells).collect();
    let flow = ControlFlow::new(kernel);
    telling.into_iter().any(|block| flow.is_in_loop(block))
}

/// Whether anything in it depends on how work-groups are divided into sub-groups.
pub fn sees_sub_groups(body: &Function) -> bool {
    body.insts().any(|inst| match body.op(inst) {
        Op::SubGroup { .. } => true,
        Op::WorkItem { query, .. } => query.sees_sub_groups(),
        _ => false,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    fn sees(params: &str, body: &str) -> bool {
        sees_group(&parse(&format!("kernel \"k\"({params}) {{\nb0:\n{body}\n  return\n}}")).unwrap())
    }

    #[test]
    fn groups_that_hear_of_each_other_keep_their_order() {
        let free = |body: &str| {
            any_order(
                &parse(&format!("kernel \"k\"(%0: ptr(global) @ 0) {{\nb0:\n{body}\n  return\n}}")).unwrap(),
            )
        };
        assert!(free("  %1: i64 = group_id 0\n  store %0, %1, align 8\n  %2: i32 = load %0, align 4"));
        assert!(free("  %1: ptr(local) = local_address 0\n  barrier b1\nb1:"));
        for body in [
            "  %1: i32 = load volatile %0, align 4",
            "  %1: i32 = load atomic monotonic %0, align 4",
            "  %1: i32 = rmw atomic monotonic add %0, 1:i32, align 4",
            "  fence seq_cst",
            "  call \"f\"(%0)",
        ] {
            assert!(!free(body), "{body}");
        }
    }

    #[test]
    fn only_what_depends_on_groups_sees_them() {
        let global = "%0: ptr(global) @ 0";
        let unseen = "  %1: i64 = global_id 1\n  %2: i64 = global_size 0\n  %3: i32 = work_dim 0";
        assert!(!sees(global, unseen));
        assert!(!sees(global, "  %1: i32 = rmw atomic monotonic add %0, 1:i32, align 4\n  fence seq_cst"));
        let spins = |op: &str| {
            format!(
                "  jump b1\nb1:\n  %1: i32 = {op}\n  %2: i1 = icmp eq %1, 0:i32\n  branch %2, b1, b2\nb2:"
            )
        };
        assert!(sees(global, &spins("load atomic monotonic %0, align 4")));
        assert!(sees(global, &spins("rmw atomic acquire xchg %0, 1:i32, align 4")));
        assert!(!sees(global, &spins("load %0, align 4")));
        for query in ["local_id", "local_size", "group_id", "num_groups", "global_offset"] {
            assert!(sees(global, &format!("  %1: i64 = {query} 0")), "{query}");
        }
        assert!(sees(global, "  %1: ptr(local) = local_address 0"));
        assert!(sees(global, "  store %0, 1:i64, align 8\n  barrier b1\nb1:\n  %1: i64 = load %0, align 8"));
        assert!(!sees(global, "  store %0, 1:i64, align 8\n  barrier b1\nb1:"), "nothing comes behind it");
        assert!(sees("%0: ptr(local) @ 0 local_offset", ""));
    }
}
