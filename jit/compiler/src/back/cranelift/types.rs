//! The baseline's back end: types, and functions outside of the object that do what no instruction does.

use super::{BaselineError, illegal};
use cranelift_codegen::ir::Type as Clif;
use cranelift_codegen::ir::types::{F32, F64, I8, I16, I32, I64, I128};
use spirula_kir::{BinaryOp, CastOp, Function, Inst, Intrinsic, Op, Scalar, Type, Value};

/// A scalar's type in registers.
pub(super) fn clif(scalar: Scalar) -> Result<Clif, BaselineError> {
    Ok(match scalar {
        Scalar::Int(1 | 8) => I8,
        Scalar::Int(16) | Scalar::Half => I16,
        Scalar::Int(32) => I32,
        Scalar::Int(64) | Scalar::Pointer(_) => I64,
        Scalar::Int(128) => I128,
        Scalar::Float => F32,
        Scalar::Double => F64,
        Scalar::Int(bits) => return Err(illegal(format!("an integer of {bits} bits"))),
    })
}

/// A function that the loader provides.
#[derive(Clone, Copy)]
pub(super) struct Helper {
    pub symbol: &'static str,
    pub parameters: &'static [Clif],
    pub result: Option<Clif>,
}

const fn computes(symbol: &'static str, parameters: &'static [Clif], result: Clif) -> Helper {
    Helper { symbol, parameters, result: Some(result) }
}

/// The function that the instruction calls, if it takes one.
pub(super) fn helper(function: &Function, inst: Inst) -> Option<Helper> {
    let scalar = |value: Value| function.ty(value).scalar();
    let result = function.result(inst).and_then(scalar);
    match function.op(inst) {
        Op::Binary { op: BinaryOp::FRem, .. } if result == Some(Scalar::Float) => {
            Some(computes("fmodf", &[F32, F32], F32))
        }
        Op::Binary { op: BinaryOp::FRem, .. } => Some(computes("fmod", &[F64, F64], F64)),
        Op::Cast { op: CastOp::FpExt, value, .. } if scalar(*value) == Some(Scalar::Half) => {
            Some(computes("spirula.half_to_float", &[I32], F32))
        }
        Op::Cast { op: CastOp::FpTrunc, value, .. } if result == Some(Scalar::Half) => {
            Some(match scalar(*value) {
                Some(Scalar::Double) => computes("spirula.double_to_half", &[F64], I32),
                _ => computes("spirula.float_to_half", &[F32], I32),
            })
        }
        Op::Intrinsic { intrinsic, .. } => match intrinsic {
            Intrinsic::CopyMemory => Some(computes("memcpy", &[I64, I64, I64], I64)),
            Intrinsic::MoveMemory => Some(computes("memmove", &[I64, I64, I64], I64)),
            Intrinsic::FillMemory => Some(computes("memset", &[I64, I32, I64], I64)),
            Intrinsic::ReciprocalRootOne14 if result == Some(Scalar::Double) => {
                Some(computes("spirula.rsqrt14.f64", &[F64], F64))
            }
            Intrinsic::ReciprocalRootOne14 => Some(computes("spirula.rsqrt14", &[F32], F32)),
            Intrinsic::ReciprocalOne14 if result == Some(Scalar::Double) => {
                Some(computes("spirula.rcp14.f64", &[F64], F64))
            }
            Intrinsic::ReciprocalOne14 => Some(computes("spirula.rcp14", &[F32], F32)),
            _ => None,
        },
        _ => None,
    }
}

/// The scalar that a value is.
pub(super) fn scalar(function: &Function, value: Value) -> Result<Scalar, BaselineError> {
    match function.ty(value) {
        Type::Scalar(scalar) => Ok(*scalar),
        other => Err(illegal(format!("a value of type {other}"))),
    }
}
