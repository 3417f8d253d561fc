//! Transform: removes instructions whose results nobody uses and that do nothing else.

use crate::{Function, Inst, Value, ValueDef};
use fixedbitset::FixedBitSet;

/// Keeps what effects, terminators and what they need.
pub fn remove_dead_code(function: &mut Function) {
    let mut live = FixedBitSet::with_capacity(function.inst_count());
    let mut work: Vec<Value> = Vec::new();
    for block in &function.blocks {
        work.extend(block.terminator.operands());
        for &inst in block.insts.iter().filter(|&&i| function.op(i).has_effect()) {
            live.insert(inst.index());
            function.op(inst).visit_operands(|operand| work.push(operand));
        }
    }
    while let Some(value) = work.pop() {
        if let ValueDef::Inst(inst) = *function.def(value)
            && !live.put(inst.index())
        {
            function.op(inst).visit_operands(|operand| work.push(operand));
        }
    }
    let is_live = |inst: &Inst| live.contains(inst.index());
    function.blocks.iter_mut().for_each(|block| block.insts.retain(is_live));
}
