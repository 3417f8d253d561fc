//! Clean-up: how large functions will be once their loops over private arrays are unrolled (`private_arrays`), by estimate.

use super::array_loops::MAX_UNROLLED;
use crate::llvm::loops::{self, MAX_BLOCKS};
use crate::llvm::{Block, Function, Instruction};
use inkwell::llvm_sys::LLVMOpcode;
use std::collections::HashMap;

/// Functions' sizes as if everything were inlined, and such loops unrolled.
#[derive(Default)]
pub(super) struct UnrolledSizes<'m>(HashMap<Function<'m>, usize>);

impl<'m> UnrolledSizes<'m> {
    /// In instructions.
    pub fn of(&mut self, function: Function<'m>) -> usize {
        if let Some(&known) = self.0.get(&function) {
            return known;
        }
        self.0.insert(function, 0); // In a cycle, which only the library could have.
        let mut blocks: HashMap<Block, usize> = HashMap::new();
        for block in function.blocks() {
            let instructions = block.instructions();
            let callees = instructions.iter().filter_map(|call| call.called_function());
            let inner = callees.fold(0_usize, |sum, callee| sum.saturating_add(self.of(callee)));
            blocks.insert(block, instructions.len().saturating_add(inner));
        }
        unroll(function, &mut blocks);
        let size = blocks.into_values().fold(0, usize::saturating_add);
        self.0.insert(function, size);
        size
    }
}

/// Multiplies blocks' sizes by the iterations of loops that count which element of private memory is meant, the innermost first.
fn unroll<'m>(function: Function<'m>, sizes: &mut HashMap<Block<'m>, usize>) {
    if function.blocks().len() > MAX_BLOCKS {
        return;
    }
    let mut loops = loops::loops(function);
    loops.sort_by_key(|found| found.blocks.len());
    for found in loops {
        let mut instructions = found.blocks.iter().flat_map(|block| block.instructions());
        let Some(iterations) = loops::last_number(&found) else { continue };
        let size = found.blocks.iter().fold(0_usize, |sum, block| sum.saturating_add(sizes[block]));
        let unrolled = (size as u64).saturating_mul(iterations);
        if iterations > 1 && unrolled <= MAX_UNROLLED && instructions.any(indexes_private_memory) {
            let blocks = found.blocks.iter();
            blocks.for_each(|block| *sizes.entry(*block).or_default() *= iterations as usize);
        }
    }
}

fn indexes_private_memory(inst: Instruction) -> bool {
    inst.opcode() == LLVMOpcode::LLVMGetElementPtr
        && inst.ty().address_space() == 0
        && inst.operands().iter().skip(1).any(|index| !index.is_constant())
}
