//! Analysis: which of a kernel's buffers are written and never read, so that what goes there need not stay in a cache.

use crate::{AddressSpace, Function, Op, Scalar, Type, Value, ValueDef};
use fixedbitset::FixedBitSet;

/// The parameters, by number, to which some body stores and from which none loads, as far as the kernel's own pointers tell:
/// two parameters may name one buffer. None at all if work-groups speak with each other.
pub fn written_only<'a>(bodies: impl Iterator<Item = &'a Function> + Clone) -> FixedBitSet {
    let mut written = FixedBitSet::new();
    let mut kept = FixedBitSet::new();
    for body in bodies {
        written.grow(body.params.len());
        kept.grow(body.params.len());
        for block in &body.blocks {
            for op in block.insts.iter().map(|&inst| body.op(inst)) {
                if speaks(body, op) {
                    return FixedBitSet::new();
                }
                let (stored_to, others) = uses(op);
                stored_to.and_then(|p| buffer(body, p)).into_iter().for_each(|n| written.insert(n));
                others.iter().filter_map(|&p| buffer(body, p)).for_each(|n| kept.insert(n));
            }
            block.terminator.operands().iter().filter_map(|&p| buffer(body, p)).for_each(|n| kept.insert(n));
        }
    }
    written.difference_with(&kept);
    written
}

/// The `global` pointer parameter that an address is made from.
pub fn buffer(body: &Function, mut pointer: Value) -> Option<usize> {
    while let Some(Op::Address { base, .. }) = body.defining_op(pointer) {
        pointer = *base;
    }
    let ValueDef::Param(number) = body.def(pointer) else { return None };
    let global = *body.ty(pointer) == Type::Scalar(Scalar::Pointer(AddressSpace::Global));
    global.then_some(*number as usize)
}

/// Whether it orders or publishes accesses to memory that others see.
fn speaks(body: &Function, op: &Op) -> bool {
    match op {
        Op::Fence(_) | Op::Call { nosync: false, .. } => true,
        Op::Load { ordering, .. } | Op::Store { ordering, .. } => ordering.is_some(),
        Op::AtomicRmw { pointer, .. } | Op::CompareExchange { pointer, .. } => {
            body.ty(*pointer).scalar() != Some(Scalar::Pointer(AddressSpace::Local))
        }
        _ => false,
    }
}

/// The pointer that is stored to, and the operands by which memory may be read.
fn uses(op: &Op) -> (Option<Value>, Vec<Value>) {
    match op {
        Op::Store { pointer, value, .. } | Op::MaskedStore { pointer, value, .. } => {
            (Some(*pointer), vec![*value])
        }
        // What becomes of the new address is seen where it is used.
        Op::Address { .. } => (None, Vec::new()),
        op => (None, op.operands()),
    }
}
