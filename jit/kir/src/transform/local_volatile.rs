//! Transform: accesses to local and private memory are no longer volatile once the passes that keep values in registers are through.
//!
//! Nobody outside of a work-group's thread sees that memory. What programs mean by `volatile` there is that work-items see each other's
//! stores without a barrier (reductions in the last "warp"): packs give them that, whose lanes all store before any of them goes on, and
//! code behind `widen` has it in whole vectors. Left volatile, an access is made lane by lane.

use super::WorkGroup;
use crate::{AddressSpace, Function, Op, Scalar, Type, Value};

/// Has such accesses be made as others are.
pub fn access_locals_plainly(group: &mut WorkGroup) {
    group.regions.iter_mut().for_each(|region| make_plain(&mut region.body));
}

fn make_plain(body: &mut Function) {
    let insts: Vec<_> = body.block_ids().flat_map(|block| body.block(block).insts.clone()).collect();
    for inst in insts {
        if let Op::Load { pointer, volatile: true, ordering: None, .. }
        | Op::Store { pointer, volatile: true, ordering: None, .. } = *body.op(inst)
            && is_of_the_group(body, pointer)
            && let Op::Load { volatile, .. } | Op::Store { volatile, .. } = body.op_mut(inst)
        {
            *volatile = false;
        }
    }
}

fn is_of_the_group(body: &Function, pointer: Value) -> bool {
    let ty = body.ty(pointer);
    matches!(ty, Type::Scalar(Scalar::Pointer(AddressSpace::Local | AddressSpace::Private)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    #[test]
    fn only_what_others_see_stays_volatile() {
        let mut function = parse(
            "kernel \"k\"(%0: ptr(global) @ 0, %1: ptr(local) @ 8 local_offset) {
b0:
  %2: i32 = load volatile %0, align 4
  %3: i32 = load volatile %1, align 4
  store volatile %0, %3, align 4
  store volatile %1, %2, align 4
  return
}",
        )
        .unwrap();
        make_plain(&mut function);
        let text = function.to_string();
        assert!(text.contains("load volatile %0") && text.contains("store volatile %0"), "{text}");
        assert!(text.contains("load %1") && text.contains("store %1"), "{text}");
    }
}
