//! Kernel IR: what reductions and scans combine values with.

use crate::instruction::named;
use crate::{
    BinaryOp, Block, Constant, Flags, FloatPredicate, Function, Intrinsic, Op, Predicate, Scalar, Type, Value,
};

named!(
    /// An associative operation with an identity. That of floating-point numbers is taken for associative.
    ReduceOp {
        Add "add", Mul "mul", And "and", Or "or", Xor "xor", SMin "smin", SMax "smax", UMin "umin", UMax "umax",
        FAdd "fadd", FMul "fmul", FMin "fmin", FMax "fmax",
    }
);

impl ReduceOp {
    /// Whether it takes floats; else it takes integers.
    pub fn is_float(self) -> bool {
        matches!(self, ReduceOp::FAdd | ReduceOp::FMul | ReduceOp::FMin | ReduceOp::FMax)
    }

    /// Whether scalars of that type can be combined.
    pub fn takes(self, ty: &Type) -> bool {
        match ty {
            Type::Scalar(Scalar::Int(bits)) => !self.is_float() && *bits <= 64,
            Type::Scalar(Scalar::Float | Scalar::Double) => self.is_float(),
            _ => false,
        }
    }

    /// What changes nothing, of a type that it takes.
    pub fn identity(self, scalar: Scalar) -> Constant {
        let bits = scalar.bits();
        let all = u128::from(u64::MAX >> (64 - bits));
        let float = |double: f64| match scalar {
            Scalar::Double => Constant::Float(double.to_bits()),
            _ => Constant::Float((double as f32).to_bits().into()),
        };
        match self {
            ReduceOp::Add | ReduceOp::Or | ReduceOp::Xor | ReduceOp::UMax => Constant::Int(0),
            ReduceOp::Mul => Constant::Int(1),
            ReduceOp::And | ReduceOp::UMin => Constant::Int(all),
            ReduceOp::SMin => Constant::Int(all >> 1),
            ReduceOp::SMax => Constant::Int(all ^ (all >> 1)),
            ReduceOp::FAdd => float(0.0),
            ReduceOp::FMul => float(1.0),
            ReduceOp::FMin => float(f64::INFINITY),
            ReduceOp::FMax => float(f64::NEG_INFINITY),
        }
    }

    /// Writes the combination of two scalars or vectors, of which the first belongs to earlier work-items.
    pub(crate) fn combine(self, function: &mut Function, at: Block, first: Value, second: Value) -> Value {
        let ty = function.ty(first).clone();
        let binary = |op| Op::Binary { op, flags: Flags::NONE, lhs: first, rhs: second };
        let of = |intrinsic| Op::Intrinsic { intrinsic, flags: Flags::NONE, arguments: vec![first, second] };
        let op = match self {
            ReduceOp::Add => binary(BinaryOp::Add),
            ReduceOp::Mul => binary(BinaryOp::Mul),
            ReduceOp::And => binary(BinaryOp::And),
            ReduceOp::Or => binary(BinaryOp::Or),
            ReduceOp::Xor => binary(BinaryOp::Xor),
            ReduceOp::FAdd => binary(BinaryOp::FAdd),
            ReduceOp::FMul => binary(BinaryOp::FMul),
            ReduceOp::SMin => of(Intrinsic::SignedMin),
            ReduceOp::SMax => of(Intrinsic::SignedMax),
            ReduceOp::UMin => of(Intrinsic::UnsignedMin),
            ReduceOp::UMax => of(Intrinsic::UnsignedMax),
            // As `min` and `max` of OpenCL C, which machines have as one instruction.
            ReduceOp::FMin | ReduceOp::FMax => {
                let predicate =
                    if self == ReduceOp::FMin { FloatPredicate::Olt } else { FloatPredicate::Ogt };
                let predicate = Predicate::Float(predicate);
                let compare = Op::Compare { predicate, flags: Flags::NONE, lhs: first, rhs: second };
                let condition = function.push(at, ty.with_scalar(Scalar::Int(1)), compare);
                Op::Select { flags: Flags::NONE, condition, then: first, otherwise: second }
            }
        };
        function.push(at, ty, op)
    }

    /// Its identity in a scalar or in each lane of a vector.
    pub(crate) fn identity_of(self, function: &mut Function, ty: &Type) -> Value {
        let scalar = ty.scalar().unwrap_or(Scalar::Int(32));
        let one = self.identity(scalar);
        let constant = match ty {
            Type::Vector(_, n) => Constant::Elements(vec![(Type::Scalar(scalar), one); *n as usize]),
            _ => one,
        };
        function.constant(ty.clone(), constant)
    }

    /// Writes the combination of a vector's lanes, whose number is a power of two: halves, then quarters, and so on.
    pub(crate) fn combine_lanes(self, function: &mut Function, at: Block, vector: Value) -> Value {
        let Type::Vector(scalar, mut lanes) = *function.ty(vector) else { return vector };
        let mut all = vector;
        while lanes > 1 {
            lanes /= 2;
            let ty = Type::Vector(scalar, lanes);
            let any = function.constant(function.ty(all).clone(), Constant::Poison);
            let halves = [0, lanes].map(|start| {
                let mask: Vec<i32> = (start..start + lanes).map(|lane| lane as i32).collect();
                function.push(at, ty.clone(), Op::Shuffle { first: all, second: any, mask: mask.into() })
            });
            all = self.combine(function, at, halves[0], halves[1]);
        }
        let index = function.int(Type::I32, 0);
        function.push(at, Type::Scalar(scalar), Op::ExtractElement { vector: all, index })
    }

    /// Writes the combination of each lane with all before it: in steps of one lane, two, four.
    pub(crate) fn scan_lanes(self, function: &mut Function, at: Block, vector: Value) -> Value {
        let ty = function.ty(vector).clone();
        let mut all = vector;
        for step in std::iter::successors(Some(1), |step| Some(2 * step)).take_while(|&s| s < ty.lanes()) {
            let moved = self.move_lanes(function, at, all, step);
            all = self.combine(function, at, moved, all);
        }
        all
    }

    /// Writes the lanes moved up by so many, with the identity in the first ones.
    pub(crate) fn move_lanes(self, function: &mut Function, at: Block, vector: Value, by: u32) -> Value {
        let ty = function.ty(vector).clone();
        let lanes = ty.lanes();
        let first = self.identity_of(function, &ty);
        let mask: Vec<i32> =
            (0..lanes).map(|lane| if lane < by { lane } else { lanes + lane - by } as i32).collect();
        function.push(at, ty, Op::Shuffle { first, second: vector, mask: mask.into() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_change_nothing() {
        use ReduceOp::*;
        let int = |op: ReduceOp, bits| match op.identity(Scalar::Int(bits)) {
            Constant::Int(value) => value,
            other => panic!("{other:?}"),
        };
        assert_eq!([Add, Mul, And, SMin, SMax].map(|op| int(op, 8)), [0, 1, 0xff, 0x7f, 0x80]);
        assert_eq!([UMin, UMax, Or].map(|op| int(op, 64)), [u128::from(u64::MAX), 0, 0]);
        assert_eq!(FMin.identity(Scalar::Float), Constant::Float(f32::INFINITY.to_bits().into()));
        assert_eq!(FMax.identity(Scalar::Double), Constant::Float(f64::NEG_INFINITY.to_bits()));
    }

    #[test]
    fn integers_and_floats_are_told_apart() {
        for &op in ReduceOp::ALL {
            assert_eq!(op.takes(&Type::I32), !op.is_float());
            assert_eq!(op.takes(&Type::Scalar(Scalar::Double)), op.is_float());
            assert!(!op.takes(&Type::PRIVATE_POINTER) && !op.takes(&Type::Vector(Scalar::Int(32), 4)));
        }
    }
}
