//! What each pointer leads to: the value that its object is known by, through arithmetic, casts, and the ways of blocks and selects
//! that agree.

use crate::analysis::ControlFlow;
use crate::{CastOp, Function, Op, Scalar, Type, UnaryOp, Value, ValueDef};
use spirula_interface::program::DATA_SYMBOL;

/// Where pointers come from.
pub(super) struct Provenance {
    roots: Vec<Option<Value>>,
    /// What block parameters may be, of the blocks that are reached.
    incoming: Vec<Vec<Value>>,
}

impl Provenance {
    pub fn new(function: &Function, flow: &ControlFlow) -> Provenance {
        let mut incoming = vec![Vec::new(); function.value_count()];
        for &block in flow.reverse_post_order() {
            for target in function.block(block).terminator.targets() {
                let params = &function.block(target.block).params;
                for (param, argument) in params.iter().zip(&target.arguments) {
                    incoming[param.index()].push(*argument);
                }
            }
        }
        let mut provenance = Provenance { roots: vec![None; function.value_count()], incoming };
        let pointers: Vec<Value> = function
            .value_table()
            .filter(|(_, ty, _)| matches!(ty, Type::Scalar(Scalar::Pointer(_))))
            .map(|(value, ..)| value)
            .collect();
        // What is merged of several has a root of its own, which it keeps: each value changes twice at most.
        let mut changed = true;
        while changed {
            changed = false;
            for &value in &pointers {
                let root = provenance.transfer(function, value);
                if root != provenance.roots[value.index()] {
                    provenance.roots[value.index()] = root;
                    changed = true;
                }
            }
        }
        provenance
    }

    /// The value that what it leads to is known by.
    pub fn root(&self, pointer: Value) -> Value {
        self.roots.get(pointer.index()).copied().flatten().unwrap_or(pointer)
    }

    /// What a block parameter may be.
    pub fn incoming(&self, param: Value) -> &[Value] {
        &self.incoming[param.index()]
    }

    fn transfer(&self, function: &Function, value: Value) -> Option<Value> {
        if self.roots[value.index()] == Some(value) {
            return Some(value);
        }
        match function.def(value) {
            ValueDef::BlockParam(..) => self.merged(value, self.incoming(value)),
            ValueDef::Inst(inst) => match function.op(*inst) {
                Op::Select { then, otherwise, .. } => self.merged(value, &[*then, *otherwise]),
                op => match base(function, op) {
                    Some(base) => self.roots[base.index()],
                    None => Some(value),
                },
            },
            _ => Some(value),
        }
    }

    /// The one root of all that have one by now, or the value itself.
    fn merged(&self, value: Value, sources: &[Value]) -> Option<Value> {
        let mut roots = sources.iter().filter_map(|source| self.roots[source.index()]);
        let first = roots.next()?;
        if roots.all(|root| root == first) { Some(first) } else { Some(value) }
    }
}

/// The pointer whose object an operation's result leads to as well.
pub(super) fn base(function: &Function, op: &Op) -> Option<Value> {
    match op {
        // The variables of the program lie in one block, but each is an object.
        Op::Address { base, .. } if is_block(function, *base) => None,
        Op::Address { base, .. } => Some(*base),
        Op::Cast { op: CastOp::AddrSpaceCast | CastOp::BitCast, value, .. }
        | Op::Unary { op: UnaryOp::Freeze, value, .. } => {
            let is_pointer = matches!(function.ty(*value), Type::Scalar(Scalar::Pointer(_)));
            is_pointer.then_some(*value)
        }
        _ => None,
    }
}

/// Whether it is the address of the block of the program's variables.
pub(super) fn is_block(function: &Function, value: Value) -> bool {
    matches!(function.defining_op(value), Some(Op::GlobalAddress(name)) if **name == *DATA_SYMBOL)
}
