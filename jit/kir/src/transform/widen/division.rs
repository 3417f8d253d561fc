//! Widening: divisions of integers, which vector units don't have. By a constant they are LLVM's, which makes shifts or a multiplication
//! of them. Up to 32 bits they go by way of `double`, up to 16 by way of `float`, whose quotients, rounded toward zero, are exact; where
//! all lanes divide by the same, they multiply. So do those of 64 bits whose upper ones are zero, as ids' are, and those by a constant
//! (`long_division`).

use super::Widener;
use super::long_division::is_long_by_constant;
use crate::analysis::interval;
use crate::{BinaryOp, CastOp, Constant, Flags, Function, Intrinsic, Op, Scalar, Type, Value, ValueDef};

impl Widener<'_> {
    /// Inactive lanes divide by one where theirs could be a division by zero that the processor minds.
    pub(super) fn divide(&mut self, op: &Op, scalars: &[Scalar]) -> Vec<Value> {
        let Op::Binary { op: kind, flags, lhs, rhs } = *op else { unreachable!("asked for divisions only") };
        if is_divisor(self.body, rhs) {
            return self.by_component(op, &[lhs, rhs], scalars);
        }
        if is_short(self.body, op) {
            return vec![self.divide_short(kind, lhs, rhs)];
        }
        if is_long_by_constant(self.body, op) {
            let lanes = self.lanes_of(lhs).into_iter().enumerate();
            return lanes.filter_map(|(c, lhs)| self.divide_long(kind, lhs, (rhs, c))).collect();
        }
        let is_uniform = self.is_uniform(rhs);
        let own = (is_uniform && scalars.len() == 1).then(|| self.first_lane(rhs));
        let (lhs, rhs) = (self.lanes_of(lhs), self.lanes_of(rhs));
        (lhs.into_iter().zip(rhs).zip(scalars))
            .map(|((lhs, rhs), &scalar)| match scalar {
                Scalar::Int(2..=32) => self.divide_lanes(kind, scalar, lhs, (rhs, own)),
                _ => {
                    let rhs = self.harmless(scalar, rhs);
                    self.push(self.wide(scalar), Op::Binary { op: kind, flags, lhs, rhs })
                }
            })
            .collect()
    }

    /// Of up to 32 bits, by the same in all lanes if that is given as a number as well.
    fn divide_lanes(
        &mut self,
        kind: BinaryOp,
        scalar: Scalar,
        lhs: Value,
        (rhs, own): (Value, Option<Value>),
    ) -> Value {
        if let Some(own) = own {
            let inverse = self.inverse(kind, scalar, own);
            return self.divide_as_float(kind, scalar, lhs, rhs, BinaryOp::FMul, inverse);
        }
        let rhs = self.harmless(scalar, rhs);
        let divisor = self.cast(conversions(kind).0, self.wide(float_for(scalar)), rhs);
        self.divide_as_float(kind, scalar, lhs, rhs, BinaryOp::FDiv, divisor)
    }

    /// One in inactive lanes.
    fn harmless(&mut self, scalar: Scalar, divisor: Value) -> Value {
        let Some(mask) = self.mask() else { return divisor };
        let one = self.constant(Type::Scalar(scalar), Constant::Int(1));
        let one = self.splat(one);
        self.select(mask, divisor, one)
    }

    /// 64 bits of which the upper ones are zero in what is divided. A divisor that has more than 32 counts as the largest of
    /// 32, which is larger than that number as well.
    fn divide_short(&mut self, kind: BinaryOp, lhs: Value, rhs: Value) -> Value {
        let kind = match kind {
            BinaryOp::SDiv | BinaryOp::UDiv => BinaryOp::UDiv,
            _ => BinaryOp::URem,
        };
        let (long, short) = (Scalar::Int(64), Scalar::Int(32));
        let (constant, own) =
            (self.body.constant_int(rhs), self.is_uniform(rhs).then(|| self.first_lane(rhs)));
        let [lhs, rhs] = [lhs, rhs].map(|value| self.lanes_of(value)[0]);
        let lhs = self.cast(CastOp::Trunc, self.wide(short), lhs);
        let quotient = match constant.and_then(|divisor| u32::try_from(divisor).ok()) {
            Some(divisor @ 1..) => {
                let divisor = self.constant(Type::Scalar(short), Constant::Int(divisor.into()));
                let rhs = self.splat(divisor);
                self.push(self.wide(short), Op::Binary { op: kind, flags: Flags::NONE, lhs, rhs })
            }
            _ => {
                let own = own.map(|own| self.cut_divisor(Type::Scalar(short), own));
                let rhs = self.cut_divisor(self.wide(short), rhs);
                self.divide_lanes(kind, short, lhs, (rhs, own))
            }
        };
        self.cast(CastOp::ZExt, self.wide(long), quotient)
    }

    /// To 32 bits.
    fn cut_divisor(&mut self, to: Type, divisor: Value) -> Value {
        let ty = self.ty(divisor);
        let largest = self.constant(Type::I64, Constant::Int(u32::MAX.into()));
        let largest = if matches!(ty, Type::Vector(..)) { self.splat(largest) } else { largest };
        let arguments = vec![divisor, largest];
        let cut =
            self.push(ty, Op::Intrinsic { intrinsic: Intrinsic::UnsignedMin, flags: Flags::NONE, arguments });
        self.cast(CastOp::Trunc, to, cut)
    }

    /// What all lanes are to be multiplied by instead of dividing by one number y of up to 32 bits: 1/y and a little more. A product
    /// is never less than the quotient then, and more by so little that it stays below the next integer: x/y is at least 1/y from it,
    /// and the product of doubles too large by no more than x/y 2^-51, which for an x of 32 bits is less than 2^-19 of that; of floats
    /// by no more than x/y 2^-22, for an x of 16 bits 2^-6. Inactive lanes may get what is no number where y is zero.
    fn inverse(&mut self, kind: BinaryOp, scalar: Scalar, divisor: Value) -> Value {
        let (float, one) = match float_for(scalar) {
            Scalar::Float => (Type::Scalar(Scalar::Float), 1.0_f32.to_bits().into()),
            _ => (Type::Scalar(Scalar::Double), 1.0_f64.to_bits()),
        };
        let bits = Type::int(float.scalar().map_or(0, |scalar| scalar.bits() as u32));
        let divisor = self.cast(conversions(kind).0, float.clone(), divisor);
        let one = self.constant(float.clone(), Constant::Float(one));
        let inverse = self.binary(BinaryOp::FDiv, one, divisor);
        let inverse = self.cast(CastOp::BitCast, bits.clone(), inverse);
        let last = self.constant(bits, Constant::Int(1));
        let inverse = self.binary(BinaryOp::Add, inverse, last);
        let inverse = self.cast(CastOp::BitCast, float, inverse);
        self.splat(inverse)
    }

    /// `operand` is `rhs` as a float, to divide by, or what is to be multiplied by instead.
    fn divide_as_float(
        &mut self,
        kind: BinaryOp,
        scalar: Scalar,
        lhs: Value,
        rhs: Value,
        operation: BinaryOp,
        operand: Value,
    ) -> Value {
        let ((to, from), whole) = (conversions(kind), self.wide(scalar));
        let x = self.cast(to, self.wide(float_for(scalar)), lhs);
        let quotient = self.binary(operation, x, operand);
        let quotient = self.cast(from, whole, quotient);
        if matches!(kind, BinaryOp::UDiv | BinaryOp::SDiv) {
            return quotient;
        }
        let product = self.binary(BinaryOp::Mul, quotient, rhs);
        self.binary(BinaryOp::Sub, lhs, product)
    }
}

/// In which quotients of such integers are exact when rounded toward zero: the next integer is at least the x-th part of x/y away.
fn float_for(scalar: Scalar) -> Scalar {
    if scalar.bits() <= 16 { Scalar::Float } else { Scalar::Double }
}

/// How a division's operands become floats, and a float its quotient.
fn conversions(kind: BinaryOp) -> (CastOp, CastOp) {
    match kind {
        BinaryOp::SDiv | BinaryOp::SRem => (CastOp::SiToFp, CastOp::FpToSi),
        _ => (CastOp::UiToFp, CastOp::FpToUi),
    }
}

/// Whether it is a constant by which anything of up to 32 bits can be divided, or a vector of such: not zero, nor -1.
pub(super) fn is_divisor(body: &Function, divisor: Value) -> bool {
    let Some(Scalar::Int(bits @ 2..=32)) = body.ty(divisor).scalar() else { return false };
    let ones = (1_u128 << bits) - 1;
    let is_one = |constant: &Constant| matches!(constant, Constant::Int(number) if number & ones != 0 && number & ones != ones);
    match body.def(divisor) {
        ValueDef::Constant(Constant::Elements(elements)) => {
            elements.iter().all(|(_, element)| is_one(element))
        }
        ValueDef::Constant(constant) => is_one(constant),
        _ => false,
    }
}

/// Whether it is a division of 64 bits, which vector units have nothing for, of a number that has 32 in packs: one made of ids.
pub(super) fn is_short(body: &Function, op: &Op) -> bool {
    let Op::Binary { op: kind, lhs, rhs, .. } = *op else { return false };
    if *body.ty(lhs) != Type::I64 {
        return false;
    }
    let is_unsigned = match kind {
        BinaryOp::UDiv | BinaryOp::URem => true,
        BinaryOp::SDiv | BinaryOp::SRem => interval(body, rhs, 0).is_some_and(|(least, _)| least > 0),
        _ => false,
    };
    let fits = |(least, largest): (i128, i128)| least >= 0 && largest < u32::MAX.into();
    is_unsigned && interval(body, lhs, 0).is_some_and(fits)
}

#[cfg(test)]
mod tests {
    /// What lanes compute with [`super::Widener::inverse`].
    fn quotient(x: f64, y: f64) -> i64 {
        (x * f64::from_bits((1.0 / y).to_bits() + 1)) as i64
    }

    /// The same of up to 16 bits, and what lanes compute that divide each by its own.
    fn short_quotients(x: f32, y: f32) -> [i32; 2] {
        [(x * f32::from_bits((1.0 / y).to_bits() + 1)) as i32, (x / y) as i32]
    }

    #[test]
    fn floats_divide_short_numbers() {
        for y in 1..=u16::MAX {
            let near = |x: u16| [x.saturating_sub(1), x, x.saturating_add(1)];
            let multiples = [1, 2, 3, 7, 100, u16::MAX / y].map(|by| near(y.saturating_mul(by)));
            for x in multiples.into_iter().flatten().chain([u16::MAX, 0]) {
                let expected = i32::from(x / y);
                assert_eq!(short_quotients(x.into(), y.into()), [expected; 2], "{x} / {y}");
                assert_eq!(short_quotients(-f32::from(x), y.into()), [-expected; 2], "-{x} / {y}");
                assert_eq!(short_quotients(x.into(), -f32::from(y)), [-expected; 2], "{x} / -{y}");
            }
        }
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
