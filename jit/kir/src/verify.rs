//! Kernel IR: structural rules. Every pass must keep them; tests and debug builds check.

use super::{Block, Function, Terminator, Value, ValueDef};
use crate::analysis::{ControlFlow, Dominators};

/// Checks that block arguments fit their parameters, that every use is dominated by its definition, and that
/// conditions have the right type. Returns the first rule that is broken, naming block and value.
pub fn verify(function: &Function) -> Result<(), String> {
    let flow = ControlFlow::new(function);
    let dominators = Dominators::new(&flow);
    let checker = Checker { function, dominators: &dominators, flow: &flow, places: places(function) };
    flow.reverse_post_order().iter().try_for_each(|&block| checker.block(block))
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
    fn block(&self, block: Block) -> Result<(), String> {
        let data = self.function.block(block);
        if block.0 == 0 && !data.params.is_empty() {
            return Err("the entry block has parameters".into());
        }
        for (position, &inst) in data.insts.iter().enumerate() {
            let mut checked = Ok(());
            self.function.op(inst).visit_operands(|operand| {
                if checked.is_ok() {
                    checked = self.usable(operand, block, position + 1);
                }
            });
            checked.map_err(|e| format!("{e} in `{}`", self.function.inst_text(inst)))?;
        }
        for operand in data.terminator.operands() {
            self.usable(operand, block, usize::MAX).map_err(|e| format!("{e} at the end of {block}"))?;
        }
        if let Terminator::Branch { condition, .. } = &data.terminator
            && *self.function.ty(*condition) != super::Type::BOOL
        {
            return Err(format!("{block} branches on {condition}, which is no i1"));
        }
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
