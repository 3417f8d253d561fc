//! Kernel IR: how blocks end, and where control goes.

use super::{Block, Value};
use serde::{Deserialize, Serialize};

/// Where control goes, with the values of the block's parameters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub struct Target {
    pub block: Block,
    pub arguments: Vec<Value>,
}

impl Target {
    /// A jump to a block without parameters.
    pub fn to(block: Block) -> Target {
        Target { block, arguments: Vec::new() }
    }
}

/// How a block ends.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[allow(missing_docs)]
pub enum Terminator {
    Jump(Target),
    Branch {
        condition: Value,
        then: Target,
        otherwise: Target,
    },
    Switch {
        value: Value,
        cases: Vec<(u128, Target)>,
        default: Target,
    },
    /// Every work-item of the group arrives here before any goes on.
    Barrier(Target),
    /// The function ends, with a value if it yields one; kernels yield none.
    Return(Option<Value>),
    Unreachable,
    /// The work-item leaves its region by that exit; only in barrier regions.
    Exit(u32),
}

impl Terminator {
    /// The successors in order.
    pub fn targets(&self) -> Vec<&Target> {
        match self {
            Terminator::Jump(t) | Terminator::Barrier(t) => vec![t],
            Terminator::Branch { then, otherwise, .. } => vec![then, otherwise],
            Terminator::Switch { cases, default, .. } => {
                cases.iter().map(|(_, t)| t).chain(std::iter::once(default)).collect()
            }
            Terminator::Return(_) | Terminator::Unreachable | Terminator::Exit(_) => Vec::new(),
        }
    }

    /// The successors in order, to be changed.
    pub fn targets_mut(&mut self) -> Vec<&mut Target> {
        match self {
            Terminator::Jump(t) | Terminator::Barrier(t) => vec![t],
            Terminator::Branch { then, otherwise, .. } => vec![then, otherwise],
            Terminator::Switch { cases, default, .. } => {
                cases.iter_mut().map(|(_, t)| t).chain(std::iter::once(default)).collect()
            }
            Terminator::Return(_) | Terminator::Unreachable | Terminator::Exit(_) => Vec::new(),
        }
    }

    /// The value that chooses between successors.
    pub fn condition(&self) -> Option<Value> {
        match self {
            Terminator::Branch { condition, .. } => Some(*condition),
            Terminator::Switch { value, .. } => Some(*value),
            _ => None,
        }
    }

    /// The condition, to be changed.
    pub fn condition_mut(&mut self) -> Option<&mut Value> {
        match self {
            Terminator::Branch { condition, .. } => Some(condition),
            Terminator::Switch { value, .. } => Some(value),
            _ => None,
        }
    }

    /// The condition or what is returned, and all block arguments.
    pub fn operands(&self) -> Vec<Value> {
        let returned = if let Terminator::Return(value) = self { *value } else { None };
        let arguments = self.targets().into_iter().flat_map(|t| t.arguments.iter().copied());
        self.condition().into_iter().chain(returned).chain(arguments).collect()
    }

    /// The same, to be changed.
    pub fn operands_mut(&mut self) -> Vec<&mut Value> {
        match self {
            Terminator::Branch { condition, then, otherwise } => std::iter::once(condition)
                .chain(&mut then.arguments)
                .chain(&mut otherwise.arguments)
                .collect(),
            Terminator::Switch { value, cases, default } => {
                let cases = cases.iter_mut().flat_map(|(_, target)| &mut target.arguments);
                std::iter::once(value).chain(cases).chain(&mut default.arguments).collect()
            }
            Terminator::Return(value) => value.iter_mut().collect(),
            Terminator::Jump(target) | Terminator::Barrier(target) => target.arguments.iter_mut().collect(),
            Terminator::Unreachable | Terminator::Exit(_) => Vec::new(),
        }
    }
}
