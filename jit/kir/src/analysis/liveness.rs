//! Analysis: which values each block needs from before it.

use super::ControlFlow;
use crate::{Block, Function, Value};
use fixedbitset::FixedBitSet;

/// Live-in sets of the reachable blocks. Parameters and constants are never live: they are there anyway.
#[derive(Debug)]
pub struct Liveness {
    live_in: Vec<FixedBitSet>,
}

impl Liveness {
    /// Backward data flow to the least fixed point.
    pub fn new(function: &Function, flow: &ControlFlow) -> Self {
        let size = function.value_count();
        let mut live_in = vec![FixedBitSet::with_capacity(size); function.blocks.len()];
        let mut changed = true;
        while changed {
            changed = false;
            for &block in flow.reverse_post_order().iter().rev() {
                let new = transfer(function, flow, &live_in, block);
                if new != live_in[block.index()] {
                    live_in[block.index()] = new;
                    changed = true;
                }
            }
        }
        Liveness { live_in }
    }

    /// The values that the block uses, or passes on, and does not define. Its own parameters are not among them.
    pub fn live_in(&self, block: Block) -> impl Iterator<Item = Value> + '_ {
        self.live_in[block.index()].ones().map(|v| Value(v as u32))
    }

    /// Whether the value is needed at the block's start.
    pub fn is_live_in(&self, value: Value, block: Block) -> bool {
        self.live_in[block.index()].contains(value.index())
    }
}

fn transfer(function: &Function, flow: &ControlFlow, live_in: &[FixedBitSet], block: Block) -> FixedBitSet {
    let mut live = FixedBitSet::with_capacity(function.value_count());
    for to in flow.successors(block) {
        live.union_with(&live_in[to.index()]);
    }
    let data = function.block(block);
    let use_one = |live: &mut FixedBitSet, operand: Value| {
        if !function.is_given(operand) {
            live.insert(operand.index());
        }
    };
    data.terminator.operands().into_iter().for_each(|operand| use_one(&mut live, operand));
    for &inst in data.insts.iter().rev() {
        if let Some(value) = function.result(inst) {
            live.set(value.index(), false);
        }
        function.op(inst).visit_operands(|operand| use_one(&mut live, operand));
    }
    for param in &data.params {
        live.set(param.index(), false);
    }
    live
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    #[test]
    fn a_loop_keeps_what_it_needs() {
        let kernel = parse(
            r#"kernel "k"(%0: ptr(global) @ 0) {
b0:
  %1: i64 = global_id 0
  jump b1(0:i64)
b1(%2: i64):
  %3: i1 = icmp ult %2, %1
  branch %3, b2, b3
b2:
  %4: i64 = add %2, 1:i64
  jump b1(%4)
b3:
  store %0, %2, align 8
  return
}"#,
        )
        .unwrap();
        let liveness = Liveness::new(&kernel, &ControlFlow::new(&kernel));
        let text = |b| {
            let live: Vec<_> = liveness.live_in(Block(b)).map(|v| kernel.ty(v).to_string()).collect();
            live.len()
        };
        assert_eq!([text(0), text(1), text(2), text(3)], [0, 1, 2, 1]);
    }
}
