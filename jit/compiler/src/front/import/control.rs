//! Import: blocks, phis and terminators.

use super::{Import, Importer, types, unsupported};
use crate::llvm::{Block, Function, Instruction};
use inkwell::llvm_sys::LLVMOpcode::*;
use spirula_kir as kir;
use spirula_kir::{Target, Terminator};
use std::collections::HashSet;

impl<'m> Importer<'m, '_> {
    /// All reachable blocks, each after those that dominate it.
    pub(super) fn body(&mut self, source: Function<'m>) -> Import<()> {
        if let Some(location) = source.declared_at() {
            self.function.declare_at(location);
        }
        let order = reverse_post_order(source);
        for &block in &order {
            let new = self.function.add_block();
            self.blocks.insert(block, new);
            for phi in phis(block) {
                let ty = types::import(phi.ty())?;
                let parameter = self.function.add_block_param(new, ty);
                self.values.insert(*phi, parameter);
            }
        }
        order.into_iter().try_for_each(|block| self.block(block))
    }

    fn block(&mut self, block: Block<'m>) -> Import<()> {
        self.at = self.block_of(block)?;
        let terminator = block.terminator().ok_or("has a block without an end")?;
        for instruction in block.instructions() {
            if instruction != terminator && instruction.opcode() != LLVMPHI {
                self.function.at_location =
                    instruction.location().map(|location| self.function.add_location(location));
                self.instruction(*instruction)?;
            }
        }
        self.function.at_location = None;
        let end = self.terminator(terminator, block)?;
        self.function.set_terminator(self.at, end);
        if self.shared.checks.any() {
            self.function.blocks[self.at.index()].location =
                terminator.location().map(|location| self.function.add_location(location));
        }
        Ok(())
    }

    fn block_of(&self, block: Block<'m>) -> Import<kir::Block> {
        self.blocks.get(&block).copied().ok_or_else(|| "jumps to a block that it doesn't have".into())
    }

    fn terminator(&mut self, terminator: Instruction<'m>, from: Block<'m>) -> Import<Terminator> {
        let successors = terminator.successors();
        match terminator.opcode() {
            LLVMRet if terminator.operand_count() == 0 => Ok(Terminator::Return(None)),
            LLVMRet => Ok(Terminator::Return(Some(self.operand(*terminator, 0)?))),
            LLVMUnreachable => Ok(Terminator::Unreachable),
            LLVMBr => match (terminator.branch_condition(), &successors[..]) {
                (Some(condition), &[then, otherwise]) => Ok(Terminator::Branch {
                    condition: self.value(condition)?,
                    then: self.target(from, then)?,
                    otherwise: self.target(from, otherwise)?,
                }),
                (None, &[to]) => Ok(Terminator::Jump(self.target(from, to)?)),
                _ => unsupported(terminator),
            },
            LLVMSwitch => {
                let value = self.operand(*terminator, 0)?;
                let default = *successors.first().ok_or("has a switch without a default")?;
                let mut cases = Vec::new();
                for (case, to) in terminator.switch_cases() {
                    let bits = case.wide_bits().ok_or_else(|| format!("switches on `{case}`"))?;
                    cases.push((bits, self.target(from, to)?));
                }
                Ok(Terminator::Switch { value, cases, default: self.target(from, default)? })
            }
            _ => unsupported(terminator),
        }
    }

    /// A jump, with what the phis get on this way.
    fn target(&mut self, from: Block<'m>, to: Block<'m>) -> Import<Target> {
        let mut arguments = Vec::new();
        for phi in phis(to) {
            let incoming = phi.incoming().into_iter().find(|(_, block)| *block == from);
            let (value, _) = incoming.ok_or_else(|| format!("contains the malformed phi `{phi}`"))?;
            arguments.push(self.value(value)?);
        }
        Ok(Target { block: self.block_of(to)?, arguments })
    }

    /// Ends the block with a barrier, of these flags, and goes on in a new one.
    pub(super) fn barrier(&mut self, flags: kir::Value) {
        let next = self.function.add_block();
        self.function.set_terminator(self.at, Terminator::Barrier(Target::to(next)));
        // What only the launch knows is all.
        let fences = self.function.constant_int(flags).map_or(u8::MAX, |flags| flags as u8);
        let data = &mut self.function.blocks[self.at.index()];
        (data.location, data.fences) = (self.function.at_location, fences);
        self.at = next;
    }
}

fn phis(block: Block) -> impl Iterator<Item = Instruction> {
    block.instructions().into_iter().take_while(|instruction| instruction.opcode() == LLVMPHI)
}

fn reverse_post_order(function: Function) -> Vec<Block> {
    let Some(&entry) = function.blocks().first() else { return Vec::new() };
    fn successors<'m>(block: Block<'m>) -> Vec<Block<'m>> {
        block.terminator().map(Instruction::successors).unwrap_or_default()
    }
    fn push<'m>(stack: &mut Vec<(Block<'m>, Vec<Block<'m>>)>, block: Block<'m>, mut next: Vec<Block<'m>>) {
        next.reverse();
        stack.push((block, next));
    }
    let mut seen = HashSet::from([entry]);
    let mut order = Vec::new();
    let mut stack = Vec::new();
    push(&mut stack, entry, successors(entry));
    while let Some((block, next)) = stack.last_mut() {
        match next.pop() {
            Some(successor) if seen.insert(successor) => push(&mut stack, successor, successors(successor)),
            Some(_) => {}
            None => {
                order.push(*block);
                stack.pop();
            }
        }
    }
    order.reverse();
    order
}
