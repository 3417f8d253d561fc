//! Widening: divisions of 64 bits by a constant, as multiplications by its inverse (Granlund and Montgomery, "Division by Invariant
//! Integers using Multiplication", 1994). LLVM makes those of vectors one by one: no instruction has the upper half of their products.
//! It is put together of products of halves here.

use super::Widener;
use crate::{BinaryOp, Constant, Function, Op, Scalar, Type, Value, ValueDef};

/// A quotient is the upper half of a product with `multiplier`, shifted right.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Inverse {
    multiplier: u64,
    shift: u32,
    /// The multiplier has one more bit, the 65th.
    has_more: bool,
}

impl Inverse {
    /// Of what unsigned numbers are divided by: none of a power of two, which is a shift.
    fn unsigned(divisor: u64) -> Option<Inverse> {
        if divisor == 0 || divisor.is_power_of_two() {
            return None;
        }
        let exact = (0..=63).find_map(|shift| Inverse::up_to(divisor, shift, shift));
        exact.or_else(|| {
            let bits = u64::BITS - divisor.leading_zeros();
            // 2^64 less than the multiplier, which so many bits shift to be precise enough.
            let above = (1_u128 << bits) - u128::from(divisor);
            let multiplier = ((above << 64) / u128::from(divisor)) as u64 + 1;
            Some(Inverse { multiplier, shift: bits, has_more: true })
        })
    }

    /// Of the magnitude of what signed numbers are divided by.
    fn signed(divisor: i64) -> Option<Inverse> {
        let divisor = divisor.unsigned_abs();
        if divisor == 0 || divisor.is_power_of_two() {
            return None;
        }
        (0..=63).find_map(|shift| Inverse::up_to(divisor, shift, shift + 1))
    }

    /// 2^(64 + shift) / divisor, rounded up, if it has 64 bits and is precise: times the divisor no more than 2^error above that power.
    fn up_to(divisor: u64, shift: u32, error: u32) -> Option<Inverse> {
        let (power, divisor) = (1_u128 << (64 + shift), u128::from(divisor));
        let multiplier = power.div_ceil(divisor);
        let is_precise = multiplier * divisor - power < 1 << error;
        let multiplier = u64::try_from(multiplier).ok().filter(|_| is_precise)?;
        Some(Inverse { multiplier, shift, has_more: false })
    }
}

/// What a component is divided by, if that is a constant of 64 bits.
fn constant(body: &Function, divisor: Value, component: usize) -> Option<u64> {
    let number = |constant: &Constant| match constant {
        Constant::Int(number) => Some(*number as u64),
        _ => None,
    };
    match body.def(divisor) {
        ValueDef::Constant(Constant::Elements(elements)) => number(&elements.get(component)?.1),
        ValueDef::Constant(constant) => number(constant),
        _ => None,
    }
}

/// Whether a division is one of 64 bits by a constant for which lanes multiply.
pub(super) fn is_long_by_constant(body: &Function, op: &Op) -> bool {
    let Op::Binary { op: kind, rhs, .. } = *op else { return false };
    let ty = body.ty(rhs);
    ty.scalar() == Some(Scalar::Int(64))
        && (0..ty.lanes() as usize)
            .all(|c| constant(body, rhs, c).and_then(|divisor| inverse(kind, divisor)).is_some())
}

fn inverse(kind: BinaryOp, divisor: u64) -> Option<Inverse> {
    match kind {
        BinaryOp::UDiv | BinaryOp::URem => Inverse::unsigned(divisor),
        BinaryOp::SDiv | BinaryOp::SRem => Inverse::signed(divisor as i64),
        _ => None,
    }
}

impl Widener<'_> {
    /// A component's lanes divided by the constant that this component of `rhs` is; none unless [`is_long_by_constant`].
    pub(super) fn divide_long(
        &mut self,
        kind: BinaryOp,
        lhs: Value,
        (rhs, component): (Value, usize),
    ) -> Option<Value> {
        let divisor = constant(self.body, rhs, component)?;
        let inverse = inverse(kind, divisor)?;
        let quotient = match kind {
            BinaryOp::UDiv | BinaryOp::URem => self.unsigned_quotient(lhs, inverse),
            _ => self.signed_quotient(lhs, inverse, (divisor as i64) < 0),
        };
        if matches!(kind, BinaryOp::UDiv | BinaryOp::SDiv) {
            return Some(quotient);
        }
        let divisor = self.long(divisor);
        let product = self.binary(BinaryOp::Mul, quotient, divisor);
        Some(self.binary(BinaryOp::Sub, lhs, product))
    }

    fn unsigned_quotient(&mut self, x: Value, inverse: Inverse) -> Value {
        let upper = self.upper_product(x, inverse.multiplier);
        if !inverse.has_more {
            return self.shifted(BinaryOp::LShr, upper, inverse.shift);
        }
        // The sum of both has 65 bits, half of it 64.
        let rest = self.binary(BinaryOp::Sub, x, upper);
        let half = self.shifted(BinaryOp::LShr, rest, 1);
        let sum = self.binary(BinaryOp::Add, half, upper);
        self.shifted(BinaryOp::LShr, sum, inverse.shift - 1)
    }

    /// Rounded down, and then up where it is negative.
    fn signed_quotient(&mut self, x: Value, inverse: Inverse, is_negated: bool) -> Value {
        let sign = self.shifted(BinaryOp::AShr, x, 63);
        let multiplier = self.long(inverse.multiplier);
        // As an unsigned number, a negative one has 2^64 more.
        let more = self.binary(BinaryOp::And, sign, multiplier);
        let upper = self.upper_product(x, inverse.multiplier);
        let upper = self.binary(BinaryOp::Sub, upper, more);
        let down = self.shifted(BinaryOp::AShr, upper, inverse.shift);
        match is_negated {
            false => self.binary(BinaryOp::Sub, down, sign),
            true => self.binary(BinaryOp::Sub, sign, down),
        }
    }

    /// The upper 64 bits of an unsigned product.
    fn upper_product(&mut self, x: Value, multiplier: u64) -> Value {
        let halves = [multiplier & u64::from(u32::MAX), multiplier >> 32].map(|half| self.long(half));
        let [low, high] = [self.low_half(x), self.shifted(BinaryOp::LShr, x, 32)];
        let lowest = self.binary(BinaryOp::Mul, low, halves[0]);
        let carried = self.shifted(BinaryOp::LShr, lowest, 32);
        let product = self.binary(BinaryOp::Mul, high, halves[0]);
        let middle = self.binary(BinaryOp::Add, product, carried);
        let product = self.binary(BinaryOp::Mul, low, halves[1]);
        let rest = self.low_half(middle);
        let other = self.binary(BinaryOp::Add, product, rest);
        let highest = self.binary(BinaryOp::Mul, high, halves[1]);
        [middle, other].into_iter().fold(highest, |sum, part| {
            let carried = self.shifted(BinaryOp::LShr, part, 32);
            self.binary(BinaryOp::Add, sum, carried)
        })
    }

    fn low_half(&mut self, x: Value) -> Value {
        let mask = self.long(u32::MAX.into());
        self.binary(BinaryOp::And, x, mask)
    }

    fn shifted(&mut self, op: BinaryOp, x: Value, by: u32) -> Value {
        let by = self.long(by.into());
        self.binary(op, x, by)
    }

    /// That number in all lanes.
    fn long(&mut self, number: u64) -> Value {
        let number = self.constant(Type::I64, Constant::Int(number.into()));
        self.splat(number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn upper(a: u64, b: u64) -> u64 {
        ((u128::from(a) * u128::from(b)) >> 64) as u64
    }

    /// What lanes compute.
    fn unsigned_quotient(x: u64, inverse: Inverse) -> u64 {
        let product = upper(x, inverse.multiplier);
        match inverse.has_more {
            false => product >> inverse.shift,
            true => (((x - product) >> 1) + product) >> (inverse.shift - 1),
        }
    }

    fn signed_quotient(x: i64, inverse: Inverse, is_negated: bool) -> i64 {
        let sign = x >> 63;
        let product = upper(x as u64, inverse.multiplier).wrapping_sub(sign as u64 & inverse.multiplier);
        let down = product as i64 >> inverse.shift;
        if is_negated { sign - down } else { down - sign }
    }

    #[test]
    fn products_are_quotients() {
        let mut drawn = 0x9e37_79b9_7f4a_7c15_u64;
        let mut draw = || {
            drawn ^= drawn << 13;
            drawn ^= drawn >> 7;
            drawn ^= drawn << 17;
            // Of any length.
            drawn >> (drawn.rotate_left(7) % 64)
        };
        let ends =
            [3, 5, 7, 10, 641, 1_000_000_007, (1 << 32) - 1, (1 << 32) + 1, (1 << 63) - 1, (1 << 63) + 1];
        let divisors: Vec<u64> = ends.into_iter().chain([u64::MAX, u64::MAX - 1]).collect();
        let divisors = divisors.into_iter().chain((0..20_000).map(|_| draw()).collect::<Vec<_>>());
        for y in divisors.filter(|y| *y > 0 && !y.is_power_of_two()) {
            let multiple = draw() / y * y;
            let largest = u64::MAX / y * y;
            for x in [multiple, largest, draw(), u64::MAX, 1 << 63, 0] {
                for x in [x.saturating_sub(1), x, x.saturating_add(1)] {
                    let inverse = Inverse::unsigned(y).unwrap();
                    assert_eq!(unsigned_quotient(x, inverse), x / y, "{x} / {y}: {inverse:?}");
                    let (x, y) = (x as i64, y as i64);
                    let Some(inverse) = Inverse::signed(y) else { continue };
                    for x in [x, x.wrapping_neg()] {
                        let quotient = signed_quotient(x, inverse, y < 0);
                        assert_eq!(quotient, x.wrapping_div(y), "{x} / {y}: {inverse:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn shifts_are_no_products() {
        assert!([0, 1, 2, 1 << 63].into_iter().all(|divisor| Inverse::unsigned(divisor).is_none()));
        assert!([0, 1, -1, -4, i64::MIN].into_iter().all(|divisor| Inverse::signed(divisor).is_none()));
        assert!(Inverse::unsigned(7).unwrap().has_more && !Inverse::unsigned(3).unwrap().has_more);
    }
}
