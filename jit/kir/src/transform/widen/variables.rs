//! Widening: variables that become SSA values while the new function is written, block after block. After Braun et al.,
//! "Simple and Efficient Construction of Static Single Assignment Form" (2013).

use super::dominance::GrowingDominators;
use crate::analysis::{ControlFlow, LoopId, Loops};
use crate::{Block, Constant, Function, Target, Terminator, Type, Value, ValueDef};
use std::collections::HashMap;

/// What changes while a pack runs. Values are those of the body that is widened; the number is that of a component.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Variable {
    /// A value.
    Value(Value, u32),
    /// What a header's parameter will be in the next iteration.
    Next(Value, u32),
    /// A value as the lanes last left it, for the users behind a divergent loop.
    Left(Value, u32),
    /// The lanes that wait at or run through a block.
    Mask(Block),
    /// The lanes that stay in a loop.
    Stay(LoopId),
    /// One for a short while.
    Temporary(u32),
}

/// What a block to which later blocks lead begins.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Header {
    /// One of the body's loops.
    Loop(LoopId),
    /// One over the active lanes, which changes temporaries only.
    Lanes,
}

/// Where a value of the body stands.
#[derive(Clone, Copy)]
struct Home {
    block: Block,
    is_param: bool,
}

/// What is known of a variable where a loop begins.
enum AtHeader {
    /// Nobody asks for what an iteration before left.
    Dead,
    /// The loop does not change it.
    Unchanged,
    Carried,
}

/// The function being written.
pub(super) struct Variables<'a> {
    pub function: Function,
    /// What is widened.
    flow: &'a ControlFlow,
    loops: &'a Loops,
    /// Where each of the body's values stands.
    homes: HashMap<Value, Home>,
    dominators: GrowingDominators,
    /// What is written once, and where: the body's instructions' results.
    written_once: HashMap<Variable, (Block, Value)>,
    current: HashMap<(Block, Variable), Value>,
    types: HashMap<Variable, Type>,
    /// For each block the predecessors' blocks and the number of the target among theirs.
    ways_in: HashMap<Block, Vec<(Block, usize)>>,
    /// Blocks with predecessors to come, and the parameters that wait for them.
    open: HashMap<Block, Vec<(Variable, Value)>>,
    /// Blocks to which later blocks lead.
    headers: HashMap<Block, Header>,
    /// A parameter's values, in the order of the ways into its block.
    arguments: HashMap<Value, Vec<Value>>,
}

impl<'a> Variables<'a> {
    /// For a function that is `body` in lanes.
    pub fn new(function: Function, body: &Function, (flow, loops): (&'a ControlFlow, &'a Loops)) -> Self {
        let homes = body.block_ids().flat_map(|block| {
            let data = body.block(block);
            let results = data.insts.iter().filter_map(|&inst| body.result(inst));
            let results = results.map(move |value| (value, Home { block, is_param: false }));
            data.params.iter().map(move |&value| (value, Home { block, is_param: true })).chain(results)
        });
        Variables {
            function,
            flow,
            loops,
            homes: homes.collect(),
            dominators: GrowingDominators::new(),
            written_once: HashMap::new(),
            current: HashMap::new(),
            types: HashMap::new(),
            ways_in: HashMap::new(),
            open: HashMap::new(),
            headers: HashMap::new(),
            arguments: HashMap::new(),
        }
    }

    /// A new block, to which ways may lead until [`Variables::close`].
    pub fn add_block(&mut self) -> Block {
        let block = self.function.add_block();
        self.open.insert(block, Vec::new());
        block
    }

    /// A new block to which blocks lead that are written after it.
    pub fn add_header(&mut self, of: Header) -> Block {
        let block = self.add_block();
        self.headers.insert(block, of);
        block
    }

    /// Ends a block; all targets are without arguments.
    pub fn end(&mut self, block: Block, terminator: Terminator) {
        for (k, target) in terminator.targets().into_iter().enumerate() {
            debug_assert!(self.open.contains_key(&target.block), "a way into a closed block");
            self.ways_in.entry(target.block).or_default().push((block, k));
            self.dominators.add_way(block, target.block);
        }
        self.function.set_terminator(block, terminator);
    }

    /// Ends a block with a jump.
    pub fn jump(&mut self, block: Block, to: Block) {
        self.end(block, Terminator::Jump(Target::to(to)));
    }

    /// Says that no more ways lead to a block.
    pub fn close(&mut self, block: Block) {
        for (variable, param) in self.open.remove(&block).unwrap_or_default() {
            self.collect(block, variable, param);
        }
    }

    pub fn write(&mut self, block: Block, variable: Variable, value: Value) {
        self.types.entry(variable).or_insert_with(|| self.function.ty(value).clone());
        if let Variable::Value(of, _) = variable
            && self.homes.get(&of).is_some_and(|home| !home.is_param)
        {
            self.written_once.insert(variable, (block, value));
        }
        self.current.insert((block, variable), value);
    }

    /// The variable's value at the end of what is written of `block`; poison if nothing was written on some way.
    pub fn read(&mut self, block: Block, variable: Variable) -> Value {
        if let Some(&value) = self.current.get(&(block, variable)) {
            return value;
        }
        if let Some(&(at, value)) = self.written_once.get(&variable)
            && self.dominators.dominates(at, block)
        {
            return value;
        }
        let Some(ty) = self.types.get(&variable).cloned() else {
            unreachable!("{variable:?} is read before it is written anywhere")
        };
        let value = if let Some(known) = self.before_loop(block, variable, &ty) {
            known
        } else if let Some(waiting) = self.open.get_mut(&block) {
            let param = self.function.add_block_param(block, ty);
            waiting.push((variable, param));
            param
        } else if self.headers.contains_key(&block) {
            let param = self.function.add_block_param(block, ty);
            self.current.insert((block, variable), param);
            self.collect(block, variable, param);
            param
        } else {
            match self.ways_in.get(&block).map(Vec::as_slice) {
                None | Some([]) => self.function.constant(ty, Constant::Poison),
                Some(&[(only, _)]) => self.read(only, variable),
                Some(_) => self.merge(block, variable, ty),
            }
        };
        self.current.insert((block, variable), value);
        value
    }

    /// The variable's value where a loop begins, if it needs no parameter. Without this, each value has one at each block where ways
    /// around masked blocks meet, of all loops around it.
    fn before_loop(&mut self, block: Block, variable: Variable, ty: &Type) -> Option<Value> {
        let header = *self.headers.get(&block)?;
        match self.at_header(header, variable) {
            AtHeader::Dead => Some(self.function.constant(ty.clone(), Constant::Poison)),
            AtHeader::Carried => None,
            AtHeader::Unchanged => {
                let ways = self.ways_in.get(&block)?;
                // The way back is the last one to come.
                let before = if self.open.contains_key(&block) { ways.len() } else { ways.len() - 1 };
                let only = ways.first().filter(|_| before == 1)?.0;
                Some(self.read(only, variable))
            }
        }
    }

    fn at_header(&self, header: Header, variable: Variable) -> AtHeader {
        match (header, variable) {
            (_, Variable::Temporary(_)) => AtHeader::Carried,
            (Header::Lanes, _) => AtHeader::Unchanged,
            (Header::Loop(id), Variable::Value(value, _) | Variable::Left(value, _)) => {
                let Some(&home) = self.homes.get(&value) else { return AtHeader::Carried };
                let is_inside = |block: Block| self.loops.contains(id, block);
                // Edges that leave the loop write the parameters of where they lead.
                let sources = if home.is_param { self.flow.predecessors(home.block) } else { &[] };
                let is_next = home.is_param && home.block == self.loops.get(id).header;
                match variable {
                    _ if !is_inside(home.block) && !sources.iter().copied().any(is_inside) => {
                        AtHeader::Unchanged
                    }
                    // A definition comes before its users in the same iteration.
                    Variable::Value(..) if is_inside(home.block) && !is_next => AtHeader::Dead,
                    _ => AtHeader::Carried,
                }
            }
            _ => AtHeader::Carried,
        }
    }

    /// Whether nothing but poison was written to the variable.
    pub fn is_poison(&self, value: Value) -> bool {
        matches!(self.function.def(value), ValueDef::Constant(Constant::Poison))
    }

    fn incoming(&mut self, block: Block, variable: Variable) -> Vec<Value> {
        let ways = self.ways_in.get(&block).cloned().unwrap_or_default();
        ways.into_iter().map(|(from, _)| self.read(from, variable)).collect()
    }

    fn merge(&mut self, block: Block, variable: Variable, ty: Type) -> Value {
        let values = self.incoming(block, variable);
        // What all ways bring needs no parameter.
        if values.iter().all(|v| *v == values[0]) {
            return values[0];
        }
        let param = self.function.add_block_param(block, ty);
        self.arguments.insert(param, values);
        param
    }

    fn collect(&mut self, block: Block, variable: Variable, param: Value) {
        let values = self.incoming(block, variable);
        self.arguments.insert(param, values);
    }

    /// The function, with all parameters' arguments in place.
    pub fn finish(mut self) -> Function {
        for (&block, ways) in &self.ways_in {
            let params = self.function.block(block).params.clone();
            for (way, &(from, k)) in ways.iter().enumerate() {
                let values: Vec<Value> = params.iter().map(|p| self.arguments[p][way]).collect();
                self.function.blocks[from.index()].terminator.targets_mut()[k].arguments = values;
            }
        }
        self.function
    }
}
