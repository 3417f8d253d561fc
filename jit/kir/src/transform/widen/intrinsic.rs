//! Widening: intrinsics. Those that work element by element take vectors over the lanes as they take scalars.

use super::Widener;
use super::values::components;
use crate::{BinaryOp, Flags, IntPredicate, Intrinsic, Op, Scalar, Shape, Type, Value};

impl Widener<'_> {
    /// None if it must be instantiated for each lane.
    pub(super) fn intrinsic(
        &mut self,
        intrinsic: Intrinsic,
        flags: Flags,
        arguments: &[Value],
        ty: &Type,
    ) -> Option<Vec<Value>> {
        if intrinsic.shape() == Shape::IntegerReduction {
            return self.reduce(intrinsic, arguments);
        }
        if !intrinsic.is_elementwise() {
            return None;
        }
        let scalars = components(ty);
        let is_flag = |i: usize| intrinsic.is_constant_operand(i);
        let lanes: Vec<Vec<Value>> = (arguments.iter().enumerate())
            .map(|(i, &a)| if is_flag(i) { vec![self.first_lane(a)] } else { self.lanes_of(a) })
            .collect();
        let component = |w: &mut Self, c: usize, scalar: Scalar| {
            let arguments = lanes.iter().map(|l| l[c.min(l.len() - 1)]).collect();
            w.push(w.wide(scalar), Op::Intrinsic { intrinsic, flags, arguments })
        };
        Some(scalars.iter().enumerate().map(|(c, &s)| component(self, c, s)).collect())
    }

    /// Over the components of an OpenCL vector.
    fn reduce(&mut self, intrinsic: Intrinsic, arguments: &[Value]) -> Option<Vec<Value>> {
        let op = match intrinsic {
            Intrinsic::ReduceAdd => Ok(BinaryOp::Add),
            Intrinsic::ReduceMul => Ok(BinaryOp::Mul),
            Intrinsic::ReduceAnd => Ok(BinaryOp::And),
            Intrinsic::ReduceOr => Ok(BinaryOp::Or),
            Intrinsic::ReduceXor => Ok(BinaryOp::Xor),
            Intrinsic::ReduceSignedMax => Err(IntPredicate::Sgt),
            Intrinsic::ReduceSignedMin => Err(IntPredicate::Slt),
            Intrinsic::ReduceUnsignedMax => Err(IntPredicate::Ugt),
            Intrinsic::ReduceUnsignedMin => Err(IntPredicate::Ult),
            _ => return None,
        };
        let parts = self.lanes_of(arguments[0]);
        let combine = |w: &mut Self, a: Value, b: Value| match op {
            Ok(op) => w.binary(op, a, b),
            Err(predicate) => {
                let chosen = w.compare(predicate, a, b);
                w.select(chosen, a, b)
            }
        };
        let whole = parts.into_iter().reduce(|a, b| combine(self, a, b))?;
        Some(vec![whole])
    }
}
