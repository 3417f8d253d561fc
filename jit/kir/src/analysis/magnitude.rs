//! Analysis: conditions that say something of a float's magnitude. Most numbers that programs compute with are around one; what is much
//! larger, or no number, has a way of its own in the library's functions and in careful programs, which is seldom gone.

use crate::{Constant, FloatPredicate, Function, Intrinsic, Op, Predicate, Scalar, Value, ValueDef};

/// Magnitudes from here on are rare.
const LARGE: f64 = 64.0;

/// Which of the two a condition seldom is, if it says so.
pub(super) fn seldom(function: &Function, condition: Value) -> Option<bool> {
    let Op::Compare { predicate: Predicate::Float(predicate), lhs, rhs, .. } =
        *function.defining_op(condition)?
    else {
        return None;
    };
    match predicate {
        FloatPredicate::Uno => Some(true),
        FloatPredicate::Ord => Some(false),
        _ => {
            let is_large = is_magnitude(function, lhs) && float(function, rhs)? >= LARGE;
            is_large.then_some(predicate).and_then(is_above)
        }
    }
}

/// Whether it holds for what is above; None where it says nothing of that.
fn is_above(predicate: FloatPredicate) -> Option<bool> {
    use FloatPredicate::*;
    match predicate {
        Ogt | Oge | Ugt | Uge => Some(true),
        Olt | Ole | Ult | Ule => Some(false),
        _ => None,
    }
}

fn is_magnitude(function: &Function, value: Value) -> bool {
    matches!(function.defining_op(value), Some(Op::Intrinsic { intrinsic: Intrinsic::FloatAbs, .. }))
}

fn float(function: &Function, value: Value) -> Option<f64> {
    let ValueDef::Constant(Constant::Float(bits)) = *function.def(value) else { return None };
    match function.ty(value).scalar()? {
        Scalar::Float => Some(f32::from_bits(bits as u32).into()),
        Scalar::Double => Some(f64::from_bits(bits)),
        _ => None,
    }
}
