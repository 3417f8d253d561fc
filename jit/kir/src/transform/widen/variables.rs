//! Widening: variables that become SSA values while the new function is written, block after block. After Braun et al.,
//! "Simple and Efficient Construction of Static Single Assignment Form" (2013).

use crate::analysis::LoopId;
use crate::{Block, Constant, Function, Target, Terminator, Type, Value, ValueDef};
use std::collections::{HashMap, HashSet};

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

/// The function being written.
pub(super) struct Variables {
    pub function: Function,
    current: HashMap<(Block, Variable), Value>,
    types: HashMap<Variable, Type>,
    /// For each block the predecessors' blocks and the number of the target among theirs.
    ways_in: HashMap<Block, Vec<(Block, usize)>>,
    /// Blocks with predecessors to come, and the parameters that wait for them.
    open: HashMap<Block, Vec<(Variable, Value)>>,
    /// Blocks to which later blocks lead.
    headers: HashSet<Block>,
    /// A parameter's values, in the order of the ways into its block.
    arguments: HashMap<Value, Vec<Value>>,
}

impl Variables {
    pub fn new(function: Function) -> Self {
        Variables {
            function,
            current: HashMap::new(),
            types: HashMap::new(),
            ways_in: HashMap::new(),
            open: HashMap::new(),
            headers: HashSet::new(),
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
    pub fn add_header(&mut self) -> Block {
        let block = self.add_block();
        self.headers.insert(block);
        block
    }

    /// Ends a block; all targets are without arguments.
    pub fn end(&mut self, block: Block, terminator: Terminator) {
        for (k, target) in terminator.targets().into_iter().enumerate() {
            debug_assert!(self.open.contains_key(&target.block), "a way into a closed block");
            self.ways_in.entry(target.block).or_default().push((block, k));
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
        self.current.insert((block, variable), value);
    }

    /// The variable's value at the end of what is written of `block`; poison if nothing was written on some way.
    pub fn read(&mut self, block: Block, variable: Variable) -> Value {
        if let Some(&value) = self.current.get(&(block, variable)) {
            return value;
        }
        let Some(ty) = self.types.get(&variable).cloned() else {
            unreachable!("{variable:?} is read before it is written anywhere")
        };
        let value = if let Some(waiting) = self.open.get_mut(&block) {
            let param = self.function.add_block_param(block, ty);
            waiting.push((variable, param));
            param
        } else if self.headers.contains(&block) {
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
