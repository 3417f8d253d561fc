//! Kernel IR: the rules. Every pass must keep them, which tests and debug builds check behind each; and whoever reads
//! Kernel IR from another process checks them before he does anything else with it. No function, however broken, makes
//! the verifier panic.

mod module;
mod operation;
mod tables;

use super::{Block, Function, Signature, Terminator, Type, Value, ValueDef};
use crate::analysis::{ControlFlow, Dominators};

/// Checks that everything exists that is referred to, that every operation gets and yields what it should, that block
/// arguments fit their parameters, and that every use is dominated by its definition. Returns the first rule that is
/// broken, naming block and value.
pub fn verify(function: &Function) -> Result<(), String> {
    tables::check(function)?;
    let flow = ControlFlow::new(function);
    let dominators = Dominators::new(&flow);
    let checker = Checker { function, dominators: &dominators, flow: &flow, places: places(function) };
    function.block_ids().try_for_each(|block| checker.types(block))?;
    flow.reverse_post_order().iter().try_for_each(|&block| checker.dominance(block))
}

/// Where each value is defined: block and position (0 for parameters), given values nowhere.
fn places(function: &Function) -> Vec<Option<(Block, usize)>> {
    let mut places = vec![None; function.value_count()];
    for block in function.block_ids() {
        for &param in &function.block(block).params {
            places[param.index()] = Some((block, 0));
        }
        for (position, &inst) in function.block(block).insts.iter().enumerate() {
            if let Some(value) = function.result(inst) {
                places[value.index()] = Some((block, position + 1));
            }
        }
    }
    places
}

struct Checker<'a> {
    function: &'a Function,
    dominators: &'a Dominators,
    flow: &'a ControlFlow,
    places: Vec<Option<(Block, usize)>>,
}

impl Checker<'_> {
    /// Of reachable blocks and others.
    fn types(&self, block: Block) -> Result<(), String> {
        let data = self.function.block(block);
        if block.0 == 0 && !data.params.is_empty() {
            return Err("the entry block has parameters".into());
        }
        for &inst in &data.insts {
            operation::check(self.function, inst)
                .map_err(|error| format!("{error} in `{}`", self.function.inst_text(inst)))?;
        }
        self.terminator(block)?;
        data.terminator.targets().into_iter().try_for_each(|target| {
            let params = &self.function.block(target.block).params;
            let given = target.arguments.iter().map(|&a| self.function.ty(a));
            if given.eq(params.iter().map(|&p| self.function.ty(p))) {
                Ok(())
            } else {
                Err(format!("{block} passes arguments that don't fit the parameters of {}", target.block))
            }
        })
    }

    fn terminator(&self, block: Block) -> Result<(), String> {
        match &self.function.block(block).terminator {
            Terminator::Branch { condition, .. } if *self.function.ty(*condition) != Type::BOOL => {
                Err(format!("{block} branches on {condition}, which is no i1"))
            }
            Terminator::Switch { value, cases, .. } => {
                let Type::Scalar(crate::Scalar::Int(width)) = *self.function.ty(*value) else {
                    return Err(format!("{block} switches on {value}, which is no integer"));
                };
                let mut values: Vec<u128> = cases.iter().map(|(value, _)| *value).collect();
                values.sort_unstable();
                let twice = values.windows(2).any(|pair| pair[0] == pair[1]);
                if twice || !values.iter().all(|&value| tables::fits_width(value, width)) {
                    return Err(format!("{block} has a case twice, or one that {value} can't have"));
                }
                Ok(())
            }
            Terminator::Return(value) => {
                let given = value.map(|value| self.function.ty(value));
                let wanted = match &self.function.signature {
                    Signature::Function { result } => result.as_ref(),
                    Signature::Kernel => None,
                };
                if given == wanted {
                    Ok(())
                } else {
                    Err(format!("{block} returns what the function doesn't yield"))
                }
            }
            Terminator::Barrier(_) | Terminator::Exit(_) if self.function.signature != Signature::Kernel => {
                Err(format!("{block} ends as only a kernel's can"))
            }
            _ => Ok(()),
        }
    }

    fn dominance(&self, block: Block) -> Result<(), String> {
        let data = self.function.block(block);
        for (position, &inst) in data.insts.iter().enumerate() {
            for operand in self.function.op(inst).operands() {
                self.usable(operand, block, position + 1)
                    .map_err(|e| format!("{e} in `{}`", self.function.inst_text(inst)))?;
            }
        }
        data.terminator
            .operands()
            .into_iter()
            .try_for_each(|operand| self.usable(operand, block, usize::MAX))
            .map_err(|error| format!("{error} at the end of {block}"))
    }

    fn usable(&self, value: Value, block: Block, position: usize) -> Result<(), String> {
        if matches!(self.function.def(value), ValueDef::Param(_) | ValueDef::Constant(_)) {
            return Ok(());
        }
        match self.places[value.index()] {
            None => Err(format!("{value} is used but stands in no block")),
            Some((home, at)) if home == block && at < position => Ok(()),
            Some((home, _))
                if home != block
                    && self.flow.is_reachable(home)
                    && self.dominators.dominates(home, block) =>
            {
                Ok(())
            }
            Some((home, _)) => Err(format!("{value}, defined in {home}, does not reach its use")),
        }
    }
}

#[cfg(test)]
mod tests;
