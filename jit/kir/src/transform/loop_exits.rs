//! Transform: loop exits. Work-items that leave a loop at different iterations take what they saw last along, each its own, even of
//! values that are the same for all of them in every iteration. Analyses and packs look at where a value is used for that: an edge out of a
//! loop that passes values of the loop to a block's parameters gets a block of its own, behind the loop, which passes them on.

use crate::analysis::{ControlFlow, Loops};
use crate::{Block, Function, Target, Terminator, Value};

/// Gives edges out of loops that pass values of these loops a block of their own.
pub fn split_loop_exits(function: &mut Function) {
    let Some(loops) = Loops::new(&ControlFlow::new(function)) else { return };
    if loops.count() == 0 {
        return;
    }
    let homes = function.homes();
    for block in function.block_ids().collect::<Vec<_>>() {
        let leaves = |target: &Target| {
            let is_left = |value: &Value| {
                let home = homes[value.index()].and_then(|home| loops.innermost(home));
                loops.around(home).any(|id| !loops.contains(id, target.block))
            };
            target.arguments.iter().any(is_left)
        };
        for number in 0..function.block(block).terminator.targets().len() {
            let target = function.block(block).terminator.targets()[number].clone();
            if leaves(&target) {
                let exit = function.add_block();
                function.set_terminator(exit, Terminator::Jump(target));
                set_target(function, block, number, exit);
            }
        }
    }
}

fn set_target(function: &mut Function, block: Block, number: usize, to: Block) {
    let target = Target { block: to, arguments: Vec::new() };
    *function.blocks[block.index()].terminator.targets_mut().remove(number) = target;
}
