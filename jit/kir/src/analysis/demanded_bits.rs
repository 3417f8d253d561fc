//! Analysis: how many of each value's lowest bits decide what a function does (LLVM's demanded bits).

use crate::{BinaryOp, CastOp, Function, Op, Scalar, Terminator, Type, Value, ValueDef};
use std::collections::HashMap;

/// Of an integer, in bits.
pub(crate) fn width(function: &Function, value: Value) -> Option<u32> {
    match *function.ty(value) {
        Type::Scalar(Scalar::Int(bits @ 1..=64)) => Some(bits),
        _ => None,
    }
}

/// How many of an operand's lowest bits decide so many of an operation's result; None: all of them.
pub(crate) fn asked(function: &Function, op: &Op, operand: usize, bits: u32) -> Option<u32> {
    match *op {
        Op::Binary {
            op: BinaryOp::Add | BinaryOp::Sub | BinaryOp::Mul | BinaryOp::Or | BinaryOp::Xor,
            ..
        } => Some(bits),
        Op::Binary { op: BinaryOp::And, rhs, .. } => {
            let mask = function.constant_int(rhs).map_or(bits, |mask| u128::BITS - mask.leading_zeros());
            Some(bits.min(mask))
        }
        Op::Binary { op: BinaryOp::Shl, rhs, .. } if operand == 0 => {
            let by = u32::try_from(function.constant_int(rhs)?).ok()?;
            Some(bits.saturating_sub(by))
        }
        Op::Cast { op: CastOp::Trunc, .. } => Some(bits),
        Op::Cast { op: CastOp::SExt | CastOp::ZExt, value, .. } => Some(bits.min(width(function, value)?)),
        Op::Select { .. } if operand > 0 => Some(bits),
        _ => None,
    }
}

/// How many of each value's lowest bits are asked for.
pub(crate) struct Demanded {
    bits: Vec<u32>,
}

impl Demanded {
    pub(crate) fn new(function: &Function) -> Self {
        let mut brought: HashMap<Value, Vec<Value>> = HashMap::new();
        let mut found = Demanded { bits: vec![0; function.value_count()] };
        let mut work = Vec::new();
        for data in &function.blocks {
            for target in data.terminator.targets() {
                let params = &function.block(target.block).params;
                for (&param, &argument) in params.iter().zip(&target.arguments) {
                    brought.entry(param).or_default().push(argument);
                }
            }
            let returned = if let Terminator::Return(value) = data.terminator { value } else { None };
            for operand in data.terminator.condition().into_iter().chain(returned) {
                found.ask(function, operand, None, &mut work);
            }
            for &inst in &data.insts {
                let op = function.op(inst);
                for (number, operand) in op.operands().into_iter().enumerate() {
                    let bits = function.result(inst).and_then(|_| asked(function, op, number, 0));
                    found.ask(function, operand, bits, &mut work);
                }
            }
        }
        while let Some(value) = work.pop() {
            let bits = found.of(value);
            if let ValueDef::BlockParam(..) = function.def(value) {
                for &argument in brought.get(&value).into_iter().flatten() {
                    found.ask(function, argument, Some(bits), &mut work);
                }
            }
            if let Some(op) = function.defining_op(value) {
                for (number, operand) in op.operands().into_iter().enumerate() {
                    found.ask(function, operand, asked(function, op, number, bits), &mut work);
                }
            }
        }
        found
    }

    pub(crate) fn of(&self, value: Value) -> u32 {
        self.bits[value.index()]
    }

    fn ask(&mut self, function: &Function, value: Value, bits: Option<u32>, work: &mut Vec<Value>) {
        let all = width(function, value).unwrap_or(u32::MAX);
        let bits = bits.unwrap_or(all).min(all);
        if bits > self.of(value) {
            self.bits[value.index()] = bits;
            work.push(value);
        }
    }
}
