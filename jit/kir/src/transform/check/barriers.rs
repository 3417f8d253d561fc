//! Checks: barriers and work-group functions that not all work-items of a group come to, or at different places.
//!
//! Each work-item says where it is before it waits, and where it ends. A region is run for all work-items before any goes on, so that
//! the last one's answer tells whether they are all at one place; if not, nobody goes on behind it, and the group ends.

use super::{ARRIVE, Checker, call, item, query};
use crate::builder::{Builder, rewrite};
use crate::{AddressSpace, BinaryOp, IntPredicate};
use crate::{Block, CastOp, Function, LocationId, Op, Target, Terminator, Type, Value, WorkItemQuery};
use spirula_interface::check::{Checked, GROUP_BYTES};

/// Writes the checks.
pub(super) fn check(function: &mut Function, checker: &mut Checker) {
    let is_barrier = |block: &Block| matches!(function.block(*block).terminator, Terminator::Barrier(_));
    let barriers: Vec<Block> = function.block_ids().filter(is_barrier).collect();
    let meets = |op: &Op| matches!(op, Op::GroupReduce { .. } | Op::GroupScan { .. });
    if barriers.is_empty() && !function.insts().any(|inst| meets(function.op(inst))) {
        return;
    }
    let is_return = |block: &Block| matches!(function.block(*block).terminator, Terminator::Return(_));
    let returns: Vec<Block> = function.block_ids().filter(is_return).collect();
    let offset = function.local_size.next_multiple_of(8);
    function.local_size = offset + GROUP_BYTES;
    let places = Places { offset };

    for block in barriers {
        let location = function.block(block).location;
        places.arrive_at(function, checker, block, location, Checked::Barrier);
        let Terminator::Barrier(onward) = function.block(block).terminator.clone() else { continue };
        let behind = function.add_block();
        function.set_terminator(block, Terminator::Barrier(Target::to(behind)));
        places.go_on(&mut Builder { function, at: behind }, onward);
    }
    rewrite(function, |builder, inst| {
        if !meets(builder.function.op(inst)) {
            return false;
        }
        let (location, at) = (builder.function.location(inst), builder.at);
        places.arrive_at(builder.function, checker, at, location, Checked::Barrier);
        // Work-items go through a scan one after the other, on to where they meet next.
        let (behind, onward) = (builder.function.add_block(), builder.function.add_block());
        builder.function.set_terminator(at, Terminator::Barrier(Target::to(behind)));
        builder.at = behind;
        places.go_on(builder, Target::to(onward));
        builder.at = onward;
        false
    });
    for block in returns {
        // Work-group functions may have split it.
        places.arrive_at(function, checker, end_of(function, block), None, Checked::End);
    }
}

/// Where a block that was split ends.
fn end_of(function: &Function, block: Block) -> Block {
    let mut at = block;
    loop {
        at = match &function.block(at).terminator {
            Terminator::Barrier(behind) => behind.block,
            Terminator::Branch { otherwise, .. } => otherwise.block,
            _ => return at,
        };
    }
}

/// The group's state, in its local memory.
struct Places {
    offset: u64,
}

impl Places {
    fn state(&self, builder: &mut Builder) -> Value {
        builder.push(Type::pointer(AddressSpace::Local), Op::LocalAddress { offset: self.offset })
    }

    /// The work-item says at the end of a block that it has come there.
    fn arrive_at(
        &self,
        function: &mut Function,
        checker: &mut Checker,
        block: Block,
        location: Option<LocationId>,
        what: Checked,
    ) {
        let site = checker.site(function, location, what);
        let builder = &mut Builder { function, at: block };
        let sizes = [0, 1, 2].map(|d| query(builder, WorkItemQuery::LocalSize, d));
        let ids = [0, 1, 2].map(|d| query(builder, WorkItemQuery::LocalId, d));
        let mut product = |a, b| builder.binary(BinaryOp::Mul, 0, a, b);
        let plane = product(sizes[0], sizes[1]);
        let (items, rows, planes) =
            (product(plane, sizes[2]), product(ids[1], sizes[0]), product(ids[2], plane));
        let number = builder.binary(BinaryOp::Add, 0, ids[0], rows);
        let number = builder.binary(BinaryOp::Add, 0, number, planes);
        let state = self.state(builder);
        let state = builder.cast(CastOp::PtrToInt, Type::I64, state);
        let mut arguments = vec![checker.block_address(builder), state, builder.int(site), items, number];
        arguments.extend(item(builder));
        builder.effect(call(ARRIVE, arguments));
    }

    /// Goes on if the group is whole, and else ends the work-item.
    fn go_on(&self, builder: &mut Builder, onward: Target) {
        let state = self.state(builder);
        let stopped = builder.load(Type::I64, state, 8);
        let zero = builder.int(0);
        let condition = builder.compare(IntPredicate::Ne, stopped, zero);
        let end = builder.function.add_block();
        builder.function.set_terminator(end, Terminator::Return(None));
        let (then, otherwise) = (Target::to(end), onward);
        builder.function.set_terminator(builder.at, Terminator::Branch { condition, then, otherwise });
    }
}
