//! Analysis: powers of two that divide integers, also those that loops count. Compilers that make indices of bytes leave it to
//! be found that `i += 4` leads to whole elements.

use crate::{BinaryOp, CastOp, Constant, Function, Op, Scalar, Terminator, Type, UnaryOp, Value, ValueDef};

/// For each value, how many of its lower bits are zero.
pub struct Divisors(Vec<u32>);

/// Zero has all of them.
const ALL: u32 = 128;

impl Divisors {
    /// Of all values: at first each may have any, until its definition says less.
    pub fn new(function: &Function) -> Divisors {
        let bits = (0..function.value_count()).map(|i| match function.def(Value(i as u32)) {
            ValueDef::Constant(Constant::Zero) => ALL,
            ValueDef::Constant(Constant::Int(bits)) => bits.trailing_zeros(),
            ValueDef::Constant(_) | ValueDef::Param(_) => 0,
            _ => match function.ty(Value(i as u32)) {
                Type::Scalar(Scalar::Int(_)) => ALL,
                _ => 0,
            },
        });
        let mut divisors = Divisors(bits.collect());
        while divisors.lower(function) {}
        divisors
    }

    /// The number of a value's lower bits that are zero.
    pub fn of(&self, value: Value) -> u32 {
        self.0[value.index()]
    }

    fn lower(&mut self, function: &Function) -> bool {
        let mut changed = false;
        for block in &function.blocks {
            for &inst in &block.insts {
                if let Some(result) = function.result(inst) {
                    let bits = self.result(function, function.op(inst));
                    changed |= self.set(result, bits);
                }
            }
            for target in Terminator::targets(&block.terminator) {
                let params = &function.block(target.block).params;
                for (&param, &argument) in params.iter().zip(&target.arguments) {
                    changed |= self.set(param, self.of(argument));
                }
            }
        }
        changed
    }

    fn set(&mut self, value: Value, bits: u32) -> bool {
        let known = &mut self.0[value.index()];
        let lower = bits < *known;
        *known = bits.min(*known);
        lower
    }

    fn result(&self, function: &Function, op: &Op) -> u32 {
        let by = |value: Value| function.constant_int(value).and_then(|by| u32::try_from(by).ok());
        match *op {
            Op::Binary { op, lhs, rhs, .. } => {
                let (a, b) = (self.of(lhs), self.of(rhs));
                match op {
                    BinaryOp::Add | BinaryOp::Sub | BinaryOp::Or | BinaryOp::Xor => a.min(b),
                    BinaryOp::And => a.max(b),
                    BinaryOp::Mul => (a + b).min(ALL),
                    BinaryOp::Shl => by(rhs).map_or(a, |by| a.saturating_add(by).min(ALL)),
                    BinaryOp::LShr | BinaryOp::AShr => by(rhs).map_or(0, |by| a.saturating_sub(by)),
                    _ => 0,
                }
            }
            Op::Cast { op: CastOp::Trunc | CastOp::ZExt | CastOp::SExt, value, .. }
            | Op::Unary { op: UnaryOp::Freeze, value, .. } => self.of(value),
            Op::Select { then, otherwise, .. } => self.of(then).min(self.of(otherwise)),
            _ => 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;

    #[test]
    fn loops_count_in_elements() {
        let text = "kernel \"k\"(%0: ptr(global) @ 0, %1: i64 @ 8) {
b0:
  %9: i64 = shl %1, 3:i64
  jump b1(0:i64, 6:i64, %9)
b1(%2: i64, %3: i64, %4: i64):
  %5: i64 = add %2, 4:i64
  %6: i64 = add %3, 4:i64
  %7: i64 = add %4, 8:i64
  %8: i64 = and %7, 12:i64
  %10: i1 = icmp eq %5, 64:i64
  branch %10, b2, b1(%5, %6, %1)
b2:
  return
}";
        let function = parse(text).unwrap_or_else(|error| panic!("{error}"));
        let divisors = Divisors::new(&function);
        let integers = function.insts().filter_map(|inst| function.result(inst));
        let integers = integers.filter(|&value| *function.ty(value) == Type::I64);
        let found: Vec<u32> = integers.map(|value| divisors.of(value)).collect();
        // What comes back to the third parameter may be anything.
        assert_eq!(found, [3, 2, 1, 0, 2]);
    }
}
