//! Transform: addresses that lie a constant behind another one are computed where they are used, so that the other one alone
//! is kept over a barrier: offsets are a part of every access and cost nothing.

use crate::{Block, Function, Op, Terminator, Value, ValueDef};
use std::collections::HashMap;

/// Copies constant offsets into the blocks that use them, in a kernel with barriers.
pub(super) fn sink_offsets(kernel: &mut Function) {
    if !kernel.blocks.iter().any(|block| matches!(block.terminator, Terminator::Barrier(_))) {
        return;
    }
    let mut home: HashMap<Value, Block> = HashMap::new();
    for block in kernel.block_ids() {
        home.extend(kernel.block(block).insts.iter().filter_map(|&i| Some((kernel.result(i)?, block))));
    }
    for block in kernel.block_ids().collect::<Vec<_>>() {
        Sinker { kernel, home: &home, block, copies: HashMap::new() }.run();
    }
}

/// Works on one block.
struct Sinker<'a> {
    kernel: &'a mut Function,
    home: &'a HashMap<Value, Block>,
    block: Block,
    copies: HashMap<Value, Value>,
}

impl Sinker<'_> {
    fn run(&mut self) {
        let insts = std::mem::take(&mut self.kernel.blocks[self.block.index()].insts);
        for inst in insts {
            for operand in self.kernel.op(inst).operands() {
                self.copy(operand);
            }
            for operand in self.kernel.op_mut(inst).operands_mut() {
                *operand = self.copies.get(operand).copied().unwrap_or(*operand);
            }
            self.kernel.append(self.block, inst);
        }
        let mut terminator = self.kernel.block(self.block).terminator.clone();
        for operand in terminator.operands_mut() {
            *operand = self.copy(*operand);
        }
        self.kernel.blocks[self.block.index()].terminator = terminator;
    }

    /// What stands for a value in this block: a copy, if it is a constant offset from elsewhere.
    fn copy(&mut self, value: Value) -> Value {
        if let Some(&copy) = self.copies.get(&value) {
            return copy;
        }
        let is_offset = matches!(self.kernel.defining_op(value), Some(Op::Address { index: None, .. }));
        if !is_offset || self.home.get(&value).is_none_or(|&home| home == self.block) {
            return value;
        }
        let ValueDef::Inst(inst) = *self.kernel.def(value) else { return value };
        let mut op = self.kernel.op(inst).clone();
        for operand in op.operands_mut() {
            *operand = self.copy(*operand);
        }
        let copy = self.kernel.push(self.block, self.kernel.ty(value).clone(), op);
        self.copies.insert(value, copy);
        copy
    }
}
