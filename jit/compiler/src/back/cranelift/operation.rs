//! The baseline's back end: one operation of Kernel IR, which has become as simple as Cranelift's.

use super::function::Translator;
use super::types::{clif, scalar};
use super::{BaselineError, illegal};
use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F32, I8, I32, I64, I128};
use cranelift_codegen::ir::{InstBuilder, Type as Clif, Value as ClifValue};
use spirula_kir::{
    BinaryOp, CastOp, FloatPredicate, Inst, IntPredicate, Op, Predicate, Scalar, UnaryOp, Value,
};

impl Translator<'_> {
    /// What the instruction yields, if anything.
    pub(super) fn operation(&mut self, inst: Inst) -> Result<Vec<ClifValue>, BaselineError> {
        let function = self.function;
        let op = function.op(inst);
        let Some(result) = function.result(inst) else {
            self.effect(op)?;
            return Ok(Vec::new());
        };
        let value = match op {
            Op::Unary { op: UnaryOp::Freeze, value, .. } => return self.get_all(*value),
            Op::Unary { op: UnaryOp::FNeg, value, .. } => {
                let value = self.get(*value)?;
                self.out.ins().fneg(value)
            }
            Op::Binary { op, lhs, rhs, .. } => self.binary(*op, *lhs, *rhs)?,
            Op::Compare { predicate, lhs, rhs, .. } => self.compare(*predicate, *lhs, *rhs)?,
            Op::Cast { op, value, .. } => self.cast(*op, *value, result)?,
            Op::Select { condition, then, otherwise, .. } => {
                let condition = self.get(*condition)?;
                let (then, otherwise) = (self.get_all(*then)?, self.get_all(*otherwise)?);
                let pairs = then.into_iter().zip(otherwise);
                return Ok(pairs.map(|(a, b)| self.select(condition, a, b)).collect());
            }
            Op::Address { base, index, scale, offset, .. } => self.address(*base, *index, *scale, *offset)?,
            Op::SlotAddress(slot) => self.slot(*slot),
            Op::GlobalAddress(name) => self.global(name)?,
            Op::Load { .. } => self.load(op, result)?,
            Op::AtomicRmw { .. } => self.modify(op, result)?,
            Op::CompareExchange { .. } => return self.exchange(op),
            Op::ExtractValue { aggregate, indices } => {
                let parts = self.get_all(*aggregate)?;
                let part = indices.first().and_then(|&index| parts.get(index as usize));
                *part.filter(|_| indices.len() == 1).ok_or_else(|| illegal("a member of a member"))?
            }
            Op::InsertValue { aggregate, value, indices } => {
                let (mut parts, value) = (self.get_all(*aggregate)?, self.get(*value)?);
                let part = indices.first().and_then(|&index| parts.get_mut(index as usize));
                *part.filter(|_| indices.len() == 1).ok_or_else(|| illegal("a member of a member"))? = value;
                return Ok(parts);
            }
            Op::Intrinsic { .. } => return self.intrinsic(op, Some(result)),
            Op::Call { function, arguments, .. } => return self.call_own(function, arguments),
            other => return Err(illegal(format!("{other:?}"))),
        };
        Ok(vec![value])
    }

    /// 128 bits are chosen in halves: Cranelift 0.135 makes minima of such choices, which it then has no instruction for.
    pub(super) fn select(&mut self, condition: ClifValue, a: ClifValue, b: ClifValue) -> ClifValue {
        if self.out.func.dfg.value_type(a) != I128 {
            return self.out.ins().select(condition, a, b);
        }
        let (low, high) = self.out.ins().isplit(a);
        let (other_low, other_high) = self.out.ins().isplit(b);
        let low = self.out.ins().select(condition, low, other_low);
        let high = self.out.ins().select(condition, high, other_high);
        self.out.ins().iconcat(low, high)
    }

    fn effect(&mut self, op: &Op) -> Result<(), BaselineError> {
        match op {
            Op::Store { .. } | Op::NontemporalStore { .. } => self.store(op),
            // More than most orders ask, in code that is replaced where it matters.
            Op::Fence(_) | Op::StreamingFence => {
                self.out.ins().fence();
                Ok(())
            }
            Op::Intrinsic { .. } => self.intrinsic(op, None).map(drop),
            Op::Call { function, arguments, .. } => self.call_own(function, arguments).map(drop),
            other => Err(illegal(format!("{other:?}"))),
        }
    }

    fn call_own(&mut self, name: &str, arguments: &[Value]) -> Result<Vec<ClifValue>, BaselineError> {
        let arguments = arguments.iter().map(|&argument| self.get(argument));
        let arguments = arguments.collect::<Result<Vec<_>, _>>()?;
        self.call(name, &arguments)
    }

    fn binary(&mut self, op: BinaryOp, lhs: Value, rhs: Value) -> Result<ClifValue, BaselineError> {
        let (x, mut y) = (self.get(lhs)?, self.get(rhs)?);
        let ty = self.out.func.dfg.value_type(x);
        if ty == I128 && matches!(op, BinaryOp::Shl | BinaryOp::LShr | BinaryOp::AShr) {
            y = self.out.ins().ireduce(I64, y);
        }
        let divides = matches!(op, BinaryOp::UDiv | BinaryOp::SDiv | BinaryOp::URem | BinaryOp::SRem);
        if ty == I128 && divides {
            return Err(illegal("a division of 128 bits"));
        }
        if op == BinaryOp::FRem {
            let name = if ty == F32 { "fmodf" } else { "fmod" };
            return Ok(self.call(name, &[x, y])?[0]);
        }
        let out = self.out.ins();
        Ok(match op {
            BinaryOp::Add => out.iadd(x, y),
            BinaryOp::Sub => out.isub(x, y),
            BinaryOp::Mul => out.imul(x, y),
            BinaryOp::UDiv => out.udiv(x, y),
            BinaryOp::SDiv => out.sdiv(x, y),
            BinaryOp::URem => out.urem(x, y),
            BinaryOp::SRem => out.srem(x, y),
            BinaryOp::Shl => out.ishl(x, y),
            BinaryOp::LShr => out.ushr(x, y),
            BinaryOp::AShr => out.sshr(x, y),
            BinaryOp::And => out.band(x, y),
            BinaryOp::Or => out.bor(x, y),
            BinaryOp::Xor => out.bxor(x, y),
            BinaryOp::FAdd => out.fadd(x, y),
            BinaryOp::FSub => out.fsub(x, y),
            BinaryOp::FMul => out.fmul(x, y),
            BinaryOp::FDiv => out.fdiv(x, y),
            BinaryOp::FRem => return Err(illegal("frem")),
        })
    }

    fn compare(&mut self, predicate: Predicate, lhs: Value, rhs: Value) -> Result<ClifValue, BaselineError> {
        let (x, y) = (self.get(lhs)?, self.get(rhs)?);
        Ok(match predicate {
            Predicate::Int(predicate) => self.out.ins().icmp(int_condition(predicate), x, y),
            Predicate::Float(FloatPredicate::False) => self.int(I8, 0),
            Predicate::Float(FloatPredicate::True) => self.int(I8, 1),
            Predicate::Float(predicate) => {
                let condition = float_condition(predicate).ok_or_else(|| illegal(predicate.name()))?;
                self.out.ins().fcmp(condition, x, y)
            }
        })
    }

    fn cast(&mut self, op: CastOp, value: Value, result: Value) -> Result<ClifValue, BaselineError> {
        let (from, to) = (scalar(self.function, value)?, scalar(self.function, result)?);
        let (ty, x) = (clif(to)?, self.get(value)?);
        Ok(match op {
            CastOp::Trunc => self.narrowed(x, ty, to),
            CastOp::ZExt => self.widened(x, ty, false),
            CastOp::SExt if from == Scalar::Int(1) => {
                let wide = self.widened(x, ty, false);
                self.out.ins().ineg(wide)
            }
            CastOp::SExt => self.widened(x, ty, true),
            CastOp::PtrToInt if ty.bits() > 64 => self.widened(x, ty, false),
            CastOp::PtrToInt => self.narrowed(x, ty, to),
            CastOp::IntToPtr if from.bits() > 64 => self.out.ins().ireduce(I64, x),
            CastOp::IntToPtr => self.widened(x, I64, false),
            CastOp::AddrSpaceCast => x,
            CastOp::BitCast => self.reinterpreted(ty, x),
            CastOp::FpExt if from == Scalar::Half => self.widened_half(x, ty)?,
            CastOp::FpTrunc if to == Scalar::Half => {
                let name =
                    if from == Scalar::Float { "spirula.float_to_half" } else { "spirula.double_to_half" };
                let bits = self.call(name, &[x])?[0];
                self.out.ins().ireduce(ty, bits)
            }
            CastOp::FpExt => self.out.ins().fpromote(ty, x),
            CastOp::FpTrunc => self.out.ins().fdemote(ty, x),
            CastOp::UiToFp | CastOp::SiToFp => self.float_of(op, x, from, ty)?,
            CastOp::FpToUi | CastOp::FpToSi => self.int_of(op == CastOp::FpToSi, x, to)?,
        })
    }

    /// The low bits.
    pub(super) fn narrowed(&mut self, x: ClifValue, ty: Clif, to: Scalar) -> ClifValue {
        let is_same = self.out.func.dfg.value_type(x) == ty;
        let x = if is_same { x } else { self.out.ins().ireduce(ty, x) };
        if to != Scalar::Int(1) {
            return x;
        }
        let one = self.int(I8, 1);
        self.out.ins().band(x, one)
    }

    pub(super) fn widened(&mut self, x: ClifValue, ty: Clif, signed: bool) -> ClifValue {
        if self.out.func.dfg.value_type(x) == ty {
            x
        } else if signed {
            self.out.ins().sextend(ty, x)
        } else {
            self.out.ins().uextend(ty, x)
        }
    }

    fn widened_half(&mut self, x: ClifValue, ty: Clif) -> Result<ClifValue, BaselineError> {
        let bits = self.out.ins().uextend(I32, x);
        let float = self.call("spirula.half_to_float", &[bits])?[0];
        Ok(if ty == F32 { float } else { self.out.ins().fpromote(ty, float) })
    }

    fn float_of(
        &mut self,
        op: CastOp,
        x: ClifValue,
        from: Scalar,
        ty: Clif,
    ) -> Result<ClifValue, BaselineError> {
        if from.bits() > 64 {
            return Err(illegal("a conversion of 128 bits"));
        }
        let signed = op == CastOp::SiToFp;
        let mut wide =
            if from.bits() < 32 { self.widened(x, I32, signed && from != Scalar::Int(1)) } else { x };
        if signed && from == Scalar::Int(1) {
            wide = self.out.ins().ineg(wide);
        }
        Ok(match signed {
            true => self.out.ins().fcvt_from_sint(ty, wide),
            false => self.out.ins().fcvt_from_uint(ty, wide),
        })
    }

    /// Towards zero; what is out of range becomes the nearest integer, which is as good as any other.
    pub(super) fn int_of(
        &mut self,
        signed: bool,
        x: ClifValue,
        to: Scalar,
    ) -> Result<ClifValue, BaselineError> {
        let ty = clif(to)?;
        if ty.bits() > 64 {
            return Err(illegal("a conversion to 128 bits"));
        }
        let wide = if ty.bits() < 32 { I32 } else { ty };
        let value = match signed {
            true => self.out.ins().fcvt_to_sint_sat(wide, x),
            false => self.out.ins().fcvt_to_uint_sat(wide, x),
        };
        Ok(self.narrowed(value, ty, to))
    }
}

fn int_condition(predicate: IntPredicate) -> IntCC {
    match predicate {
        IntPredicate::Eq => IntCC::Equal,
        IntPredicate::Ne => IntCC::NotEqual,
        IntPredicate::Ugt => IntCC::UnsignedGreaterThan,
        IntPredicate::Uge => IntCC::UnsignedGreaterThanOrEqual,
        IntPredicate::Ult => IntCC::UnsignedLessThan,
        IntPredicate::Ule => IntCC::UnsignedLessThanOrEqual,
        IntPredicate::Sgt => IntCC::SignedGreaterThan,
        IntPredicate::Sge => IntCC::SignedGreaterThanOrEqual,
        IntPredicate::Slt => IntCC::SignedLessThan,
        IntPredicate::Sle => IntCC::SignedLessThanOrEqual,
    }
}

/// None for those that are constants.
fn float_condition(predicate: FloatPredicate) -> Option<FloatCC> {
    Some(match predicate {
        FloatPredicate::Oeq => FloatCC::Equal,
        FloatPredicate::Ogt => FloatCC::GreaterThan,
        FloatPredicate::Oge => FloatCC::GreaterThanOrEqual,
        FloatPredicate::Olt => FloatCC::LessThan,
        FloatPredicate::Ole => FloatCC::LessThanOrEqual,
        FloatPredicate::One => FloatCC::OrderedNotEqual,
        FloatPredicate::Ord => FloatCC::Ordered,
        FloatPredicate::Ueq => FloatCC::UnorderedOrEqual,
        FloatPredicate::Ugt => FloatCC::UnorderedOrGreaterThan,
        FloatPredicate::Uge => FloatCC::UnorderedOrGreaterThanOrEqual,
        FloatPredicate::Ult => FloatCC::UnorderedOrLessThan,
        FloatPredicate::Ule => FloatCC::UnorderedOrLessThanOrEqual,
        FloatPredicate::Une => FloatCC::NotEqual,
        FloatPredicate::Uno => FloatCC::Unordered,
        FloatPredicate::False | FloatPredicate::True => return None,
    })
}
