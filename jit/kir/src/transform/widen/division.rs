//! Widening: divisions of integers, which vector units don't have. By a constant they are LLVM's, which makes shifts or a multiplication
//! of them. Up to 32 bits they go by way of `double`, whose quotient, rounded toward zero, is exact; where all lanes divide by the same, they
//! multiply.

use super::Widener;
use crate::{BinaryOp, CastOp, Constant, Function, Op, Scalar, Type, Value};

impl Widener<'_> {
    /// Inactive lanes divide by one where theirs could be a division by zero that the processor minds.
    pub(super) fn divide(&mut self, op: &Op, scalars: &[Scalar]) -> Vec<Value> {
        let Op::Binary { op: kind, flags, lhs, rhs } = *op else { unreachable!("asked for divisions only") };
        if is_divisor(self.body, rhs) {
            return self.by_component(op, &[lhs, rhs], scalars);
        }
        if let (true, [scalar @ Scalar::Int(2..=32)]) = (self.is_uniform(rhs), scalars) {
            let (lhs, own, rhs) = (self.lanes_of(lhs)[0], self.first_lane(rhs), self.lanes_of(rhs)[0]);
            let inverse = self.inverse(kind, own);
            return vec![self.divide_as_double(kind, *scalar, lhs, rhs, BinaryOp::FMul, inverse)];
        }
        let (lhs, rhs) = (self.lanes_of(lhs), self.lanes_of(rhs));
        (lhs.into_iter().zip(rhs).zip(scalars))
            .map(|((lhs, rhs), &scalar)| {
                let rhs = match self.mask() {
                    Some(mask) => {
                        let one = self.constant(Type::Scalar(scalar), Constant::Int(1));
                        let one = self.splat(one);
                        self.select(mask, rhs, one)
                    }
                    None => rhs,
                };
                if matches!(scalar, Scalar::Int(2..=32)) {
                    let divisor = self.cast(conversions(kind).0, self.wide(Scalar::Double), rhs);
                    return self.divide_as_double(kind, scalar, lhs, rhs, BinaryOp::FDiv, divisor);
                }
                self.push(self.wide(scalar), Op::Binary { op: kind, flags, lhs, rhs })
            })
            .collect()
    }

    /// What all lanes are to be multiplied by instead of dividing by one number y of up to 32 bits: 1/y and a little more. A product
    /// is never less than the quotient then, and more by so little that it stays below the next integer: x/y is at least 1/y from it,
    /// and the product too large by no more than x/y 2^-51, which for an x of 32 bits is less than 2^-19 of that. Inactive
    /// lanes may get what is no number where y is zero.
    fn inverse(&mut self, kind: BinaryOp, divisor: Value) -> Value {
        let double = Type::Scalar(Scalar::Double);
        let divisor = self.cast(conversions(kind).0, double.clone(), divisor);
        let one = self.constant(double.clone(), Constant::Float(1.0_f64.to_bits()));
        let inverse = self.binary(BinaryOp::FDiv, one, divisor);
        let bits = self.cast(CastOp::BitCast, Type::I64, inverse);
        let last = self.constant(Type::I64, Constant::Int(1));
        let bits = self.binary(BinaryOp::Add, bits, last);
        let inverse = self.cast(CastOp::BitCast, double, bits);
        self.splat(inverse)
    }

    /// `rhs` as double, to divide by, or what is to be multiplied by instead.
    fn divide_as_double(
        &mut self,
        kind: BinaryOp,
        scalar: Scalar,
        lhs: Value,
        rhs: Value,
        operation: BinaryOp,
        operand: Value,
    ) -> Value {
        let ((to, from), whole) = (conversions(kind), self.wide(scalar));
        let x = self.cast(to, self.wide(Scalar::Double), lhs);
        let quotient = self.binary(operation, x, operand);
        let quotient = self.cast(from, whole, quotient);
        if matches!(kind, BinaryOp::UDiv | BinaryOp::SDiv) {
            return quotient;
        }
        let product = self.binary(BinaryOp::Mul, quotient, rhs);
        self.binary(BinaryOp::Sub, lhs, product)
    }
}

/// How a division's operands become doubles, and a double its quotient.
fn conversions(kind: BinaryOp) -> (CastOp, CastOp) {
    match kind {
        BinaryOp::SDiv | BinaryOp::SRem => (CastOp::SiToFp, CastOp::FpToSi),
        _ => (CastOp::UiToFp, CastOp::FpToUi),
    }
}

/// Whether it is a constant by which anything of up to 32 bits can be divided: not zero, nor -1.
pub(super) fn is_divisor(body: &Function, divisor: Value) -> bool {
    let Type::Scalar(Scalar::Int(bits @ 2..=32)) = *body.ty(divisor) else { return false };
    let ones = (1 << bits) - 1;
    body.constant_int(divisor)
        .map(|divisor| divisor & ones)
        .is_some_and(|divisor| divisor != 0 && divisor != ones)
}

#[cfg(test)]
mod tests {
    /// What lanes compute with [`super::Widener::inverse`].
    fn quotient(x: f64, y: f64) -> i64 {
        (x * f64::from_bits((1.0 / y).to_bits() + 1)) as i64
    }

    #[test]
    fn products_are_quotients() {
        let mut drawn = 0x9e37_79b9_7f4a_7c15_u64;
        let mut draw = || {
            drawn ^= drawn << 13;
            drawn ^= drawn >> 7;
            drawn ^= drawn << 17;
            // Of any length.
            (drawn >> 32) >> (drawn % 32)
        };
        let last = u64::from(u32::MAX);
        let ends = [1, 2, 3, 641, 65_535, 65_537, 1 << 31, (1 << 31) - 1, last - 1, last];
        let divisors: Vec<u64> = ends.into_iter().chain((0..20_000).map(|_| draw().max(1))).collect();
        for y in divisors {
            let multiple = draw() / y * y;
            let largest = last / y * y;
            for x in [multiple, largest, draw(), last, 0] {
                for x in [x.saturating_sub(1), x, (x + 1).min(last)] {
                    let expected = (x / y) as i64;
                    assert_eq!(quotient(x as f64, y as f64), expected, "{x} / {y}");
                    assert_eq!(quotient(-(x as f64), y as f64), -expected, "-{x} / {y}");
                    assert_eq!(quotient(x as f64, -(y as f64)), -expected, "{x} / -{y}");
                }
            }
        }
    }
}
