//! Import: instructions that compute on registers, and the walk that sends the others to their files.

use super::{Import, Importer, types, unsupported};
use crate::llvm::Value;
use inkwell::llvm_sys::LLVMOpcode::{self, *};
use inkwell::llvm_sys::{LLVMIntPredicate, LLVMRealPredicate};
use spirula_kir as kir;
use spirula_kir::{BinaryOp, CastOp, Flags, FloatPredicate, IntPredicate, Op, Predicate, UnaryOp};

impl<'m> Importer<'m, '_> {
    /// Imports an instruction and remembers its value.
    pub(super) fn instruction(&mut self, instruction: Value<'m>) -> Import<()> {
        if let Some(value) = self.instruction_value(instruction)? {
            self.values.insert(instruction, value);
        }
        Ok(())
    }

    /// What an instruction or constant expression computes; `None` if it has no result.
    pub(super) fn instruction_value(&mut self, source: Value<'m>) -> Import<Option<kir::Value>> {
        let Some(opcode) = source.operation() else { return unsupported(source) };
        match opcode {
            LLVMAlloca => self.alloca(source).map(Some),
            LLVMLoad => self.load(source).map(Some),
            LLVMStore => self.store(source).map(|()| None),
            LLVMGetElementPtr => self.element_pointer(source).map(Some),
            LLVMAtomicRMW => self.modify(source).map(Some),
            LLVMAtomicCmpXchg => self.compare_exchange(source).map(Some),
            LLVMFence => self.fence(source).map(|()| None),
            LLVMCall => self.call(source),
            LLVMFreeze => {
                let value = self.operand(source, 0)?;
                if self.function.is_never_poison(value) {
                    return Ok(Some(value));
                }
                let op = Op::Unary { op: UnaryOp::Freeze, flags: Flags::NONE, value };
                Ok(Some(self.push(self.function.ty(value).clone(), op)))
            }
            _ => {
                let op = self.operation(opcode, source)?;
                let ty = types::import(source.ty())?;
                Ok(Some(self.push(ty, op)))
            }
        }
    }

    fn operation(&mut self, opcode: LLVMOpcode, source: Value<'m>) -> Import<Op> {
        let flags = flags(source);
        if let Some(op) = binary(opcode) {
            let (lhs, rhs) = (self.operand(source, 0)?, self.operand(source, 1)?);
            return Ok(Op::Binary { op, flags, lhs, rhs });
        }
        if let Some(op) = cast(opcode) {
            return Ok(Op::Cast { op, flags, value: self.operand(source, 0)? });
        }
        Ok(match opcode {
            LLVMFNeg => Op::Unary { op: UnaryOp::FNeg, flags, value: self.operand(source, 0)? },
            LLVMICmp | LLVMFCmp => {
                let Some(predicate) = predicate(source) else { return unsupported(source) };
                Op::Compare { predicate, flags, lhs: self.operand(source, 0)?, rhs: self.operand(source, 1)? }
            }
            LLVMSelect => Op::Select {
                flags,
                condition: self.operand(source, 0)?,
                then: self.operand(source, 1)?,
                otherwise: self.operand(source, 2)?,
            },
            LLVMExtractElement => {
                Op::ExtractElement { vector: self.operand(source, 0)?, index: self.operand(source, 1)? }
            }
            LLVMInsertElement => Op::InsertElement {
                vector: self.operand(source, 0)?,
                element: self.operand(source, 1)?,
                index: self.operand(source, 2)?,
            },
            LLVMShuffleVector => Op::Shuffle {
                first: self.operand(source, 0)?,
                second: self.operand(source, 1)?,
                mask: source.shuffle_mask().into(),
            },
            LLVMExtractValue => Op::ExtractValue {
                aggregate: self.operand(source, 0)?,
                indices: source.aggregate_indices().into(),
            },
            LLVMInsertValue => Op::InsertValue {
                aggregate: self.operand(source, 0)?,
                value: self.operand(source, 1)?,
                indices: source.aggregate_indices().into(),
            },
            _ => return unsupported(source),
        })
    }
}

/// All flags that an instruction has.
pub(super) fn flags(source: Value) -> Flags {
    let (nuw, nsw) = source.no_wrap();
    let promises = [
        (nuw, Flags::NUW),
        (nsw, Flags::NSW),
        (source.is_exact(), Flags::EXACT),
        (source.is_disjoint(), Flags::DISJOINT),
        (source.is_nonnegative_cast(), Flags::NNEG),
        (source.has_same_sign(), Flags::SAMESIGN),
    ];
    // Kernel IR numbers the fast-math permissions as LLVM does.
    let fast_math = source.fast_math() as u16 & Flags::FAST_MATH;
    Flags(promises.iter().filter(|(given, _)| *given).fold(fast_math, |all, (_, flag)| all | flag))
}

fn binary(opcode: LLVMOpcode) -> Option<BinaryOp> {
    Some(match opcode {
        LLVMAdd => BinaryOp::Add,
        LLVMSub => BinaryOp::Sub,
        LLVMMul => BinaryOp::Mul,
        LLVMUDiv => BinaryOp::UDiv,
        LLVMSDiv => BinaryOp::SDiv,
        LLVMURem => BinaryOp::URem,
        LLVMSRem => BinaryOp::SRem,
        LLVMShl => BinaryOp::Shl,
        LLVMLShr => BinaryOp::LShr,
        LLVMAShr => BinaryOp::AShr,
        LLVMAnd => BinaryOp::And,
        LLVMOr => BinaryOp::Or,
        LLVMXor => BinaryOp::Xor,
        LLVMFAdd => BinaryOp::FAdd,
        LLVMFSub => BinaryOp::FSub,
        LLVMFMul => BinaryOp::FMul,
        LLVMFDiv => BinaryOp::FDiv,
        LLVMFRem => BinaryOp::FRem,
        _ => return None,
    })
}

fn cast(opcode: LLVMOpcode) -> Option<CastOp> {
    Some(match opcode {
        LLVMTrunc => CastOp::Trunc,
        LLVMZExt => CastOp::ZExt,
        LLVMSExt => CastOp::SExt,
        LLVMFPToUI => CastOp::FpToUi,
        LLVMFPToSI => CastOp::FpToSi,
        LLVMUIToFP => CastOp::UiToFp,
        LLVMSIToFP => CastOp::SiToFp,
        LLVMFPTrunc => CastOp::FpTrunc,
        LLVMFPExt => CastOp::FpExt,
        LLVMPtrToInt | LLVMPtrToAddr => CastOp::PtrToInt,
        LLVMIntToPtr => CastOp::IntToPtr,
        LLVMBitCast => CastOp::BitCast,
        LLVMAddrSpaceCast => CastOp::AddrSpaceCast,
        _ => return None,
    })
}

fn predicate(source: Value) -> Option<Predicate> {
    use LLVMIntPredicate::*;
    use LLVMRealPredicate::*;
    if let Some(predicate) = source.integer_predicate() {
        return Some(Predicate::Int(match predicate {
            LLVMIntEQ => IntPredicate::Eq,
            LLVMIntNE => IntPredicate::Ne,
            LLVMIntUGT => IntPredicate::Ugt,
            LLVMIntUGE => IntPredicate::Uge,
            LLVMIntULT => IntPredicate::Ult,
            LLVMIntULE => IntPredicate::Ule,
            LLVMIntSGT => IntPredicate::Sgt,
            LLVMIntSGE => IntPredicate::Sge,
            LLVMIntSLT => IntPredicate::Slt,
            LLVMIntSLE => IntPredicate::Sle,
        }));
    }
    Some(Predicate::Float(match source.float_predicate()? {
        LLVMRealPredicateFalse => FloatPredicate::False,
        LLVMRealOEQ => FloatPredicate::Oeq,
        LLVMRealOGT => FloatPredicate::Ogt,
        LLVMRealOGE => FloatPredicate::Oge,
        LLVMRealOLT => FloatPredicate::Olt,
        LLVMRealOLE => FloatPredicate::Ole,
        LLVMRealONE => FloatPredicate::One,
        LLVMRealORD => FloatPredicate::Ord,
        LLVMRealUNO => FloatPredicate::Uno,
        LLVMRealUEQ => FloatPredicate::Ueq,
        LLVMRealUGT => FloatPredicate::Ugt,
        LLVMRealUGE => FloatPredicate::Uge,
        LLVMRealULT => FloatPredicate::Ult,
        LLVMRealULE => FloatPredicate::Ule,
        LLVMRealUNE => FloatPredicate::Une,
        LLVMRealPredicateTrue => FloatPredicate::True,
    }))
}
