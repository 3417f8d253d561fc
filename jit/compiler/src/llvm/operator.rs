//! The particulars of LLVM's operators, which are instructions and constant expressions: flags, predicates, orderings, indices.
//! Whoever imports them has a value that may be either; each question is answered neutrally about what it isn't for.

use super::types::Type;
use super::value::Value;
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::{
    LLVMAtomicOrdering, LLVMAtomicRMWBinOp, LLVMIntPredicate,
    LLVMOpcode::{self, *},
    LLVMRealPredicate,
    LLVMValueKind::{LLVMConstantExprValueKind, LLVMGlobalVariableValueKind},
};

impl<'m> Value<'m> {
    /// What an instruction or constant expression does.
    pub(crate) fn operation(self) -> Option<LLVMOpcode> {
        if self.kind() == LLVMConstantExprValueKind {
            // SAFETY: a constant expression.
            return Some(unsafe { LLVMGetConstOpcode(self.raw()) });
        }
        self.as_instruction().map(|instruction| instruction.opcode())
    }

    /// True of an instruction, and of no constant expression, that does one of these.
    fn is(self, opcodes: &[LLVMOpcode]) -> bool {
        self.as_instruction().is_some_and(|instruction| opcodes.contains(&instruction.opcode()))
    }

    /// No unsigned wrap, no signed wrap.
    pub(crate) fn no_wrap(self) -> (bool, bool) {
        if !self.is(&[LLVMAdd, LLVMSub, LLVMMul, LLVMShl, LLVMTrunc]) {
            return (false, false);
        }
        // SAFETY: one of the instructions that have the flags.
        unsafe { (LLVMGetNUW(self.raw()) != 0, LLVMGetNSW(self.raw()) != 0) }
    }

    pub(crate) fn is_exact(self) -> bool {
        // SAFETY: one of the instructions that have the flag.
        self.is(&[LLVMUDiv, LLVMSDiv, LLVMLShr, LLVMAShr]) && unsafe { LLVMGetExact(self.raw()) != 0 }
    }

    pub(crate) fn is_disjoint(self) -> bool {
        // SAFETY: one of the instructions that have the flag.
        self.is(&[LLVMOr]) && unsafe { LLVMGetIsDisjoint(self.raw()) != 0 }
    }

    /// The operand isn't negative.
    pub(crate) fn is_nonnegative_cast(self) -> bool {
        // SAFETY: one of the instructions that have the flag.
        self.is(&[LLVMZExt, LLVMUIToFP]) && unsafe { LLVMGetNNeg(self.raw()) != 0 }
    }

    pub(crate) fn has_same_sign(self) -> bool {
        // SAFETY: one of the instructions that have the flag.
        self.is(&[LLVMICmp]) && unsafe { LLVMGetICmpSameSign(self.raw()) != 0 }
    }

    /// LLVM's fast-math bits.
    pub(crate) fn fast_math(self) -> u32 {
        // SAFETY: one of the instructions that LLVM says have the flags.
        unsafe {
            let can = self.as_instruction().is_some() && LLVMCanValueUseFastMathFlags(self.raw()) != 0;
            if can { LLVMGetFastMathFlags(self.raw()) } else { 0 }
        }
    }

    pub(crate) fn integer_predicate(self) -> Option<LLVMIntPredicate> {
        // SAFETY: one of the integer comparisons.
        self.is(&[LLVMICmp]).then(|| unsafe { LLVMGetICmpPredicate(self.raw()) })
    }

    pub(crate) fn float_predicate(self) -> Option<LLVMRealPredicate> {
        // SAFETY: one of the float comparisons.
        self.is(&[LLVMFCmp]).then(|| unsafe { LLVMGetFCmpPredicate(self.raw()) })
    }

    /// Bytes; of memory accesses, allocas and global variables.
    pub(crate) fn alignment(self) -> u32 {
        let accesses = [LLVMLoad, LLVMStore, LLVMAlloca, LLVMAtomicRMW, LLVMAtomicCmpXchg];
        if !self.is(&accesses) && self.kind() != LLVMGlobalVariableValueKind {
            return 1;
        }
        // SAFETY: one of the values that have an alignment.
        unsafe { LLVMGetAlignment(self.raw()).max(1) }
    }

    /// Whether an alloca or a global variable is aligned to 2^32 bytes, for which [`Value::alignment`] has no number.
    pub(crate) fn has_largest_alignment(self) -> bool {
        let is_variable = self.kind() == LLVMGlobalVariableValueKind;
        if !is_variable && !self.is(&[LLVMAlloca]) {
            return false;
        }
        // SAFETY: one of the values that have an alignment.
        if unsafe { LLVMGetAlignment(self.raw()) } != 0 {
            return false;
        }
        // A variable without an alignment answers alike, but every producer writes one.
        let text = if is_variable { self.to_string() } else { return true };
        let behind = text.rsplit('"').next().unwrap_or_default();
        behind.contains(", align 4294967296")
    }

    pub(crate) fn is_volatile(self) -> bool {
        let accesses = [LLVMLoad, LLVMStore, LLVMAtomicRMW, LLVMAtomicCmpXchg];
        // SAFETY: one of the memory accesses.
        self.is(&accesses) && unsafe { LLVMGetVolatile(self.raw()) != 0 }
    }

    /// Of loads, stores, fences and read-modify-writes.
    pub(crate) fn ordering(self) -> LLVMAtomicOrdering {
        if !self.is(&[LLVMLoad, LLVMStore, LLVMFence, LLVMAtomicRMW]) {
            return LLVMAtomicOrdering::LLVMAtomicOrderingNotAtomic;
        }
        // SAFETY: one of the instructions that have an ordering.
        unsafe { LLVMGetOrdering(self.raw()) }
    }

    /// Success, failure, weak; of compare-exchanges.
    pub(crate) fn exchange_orderings(self) -> Option<(LLVMAtomicOrdering, LLVMAtomicOrdering, bool)> {
        // SAFETY: one of the compare-exchanges.
        self.is(&[LLVMAtomicCmpXchg]).then(|| unsafe {
            let success = LLVMGetCmpXchgSuccessOrdering(self.raw());
            (success, LLVMGetCmpXchgFailureOrdering(self.raw()), LLVMGetWeak(self.raw()) != 0)
        })
    }

    pub(crate) fn modify_operation(self) -> Option<LLVMAtomicRMWBinOp> {
        // SAFETY: one of the read-modify-writes.
        self.is(&[LLVMAtomicRMW]).then(|| unsafe { LLVMGetAtomicRMWBinOp(self.raw()) })
    }

    pub(crate) fn allocated_type(self) -> Option<Type<'m>> {
        if !self.is(&[LLVMAlloca]) {
            return None;
        }
        // SAFETY: one of the allocas.
        unsafe { Type::from_raw(LLVMGetAllocatedType(self.raw())) }
    }

    /// The type that the indices of a `getelementptr`, instruction or constant, walk through.
    pub(crate) fn element_pointer_type(self) -> Option<Type<'m>> {
        if self.operation()? != LLVMGetElementPtr {
            return None;
        }
        // SAFETY: one of the address computations.
        unsafe { Type::from_raw(LLVMGetGEPSourceElementType(self.raw())) }
    }

    pub(crate) fn is_inbounds(self) -> bool {
        // SAFETY: one of the address computations.
        self.operation() == Some(LLVMGetElementPtr) && unsafe { LLVMIsInBounds(self.raw()) != 0 }
    }

    /// Of `extractvalue` and `insertvalue`.
    pub(crate) fn aggregate_indices(self) -> Vec<u32> {
        if !self.is(&[LLVMExtractValue, LLVMInsertValue]) {
            return Vec::new();
        }
        // SAFETY: as many indices as LLVM counts, alive with the instruction.
        unsafe {
            std::slice::from_raw_parts(LLVMGetIndices(self.raw()), LLVMGetNumIndices(self.raw()) as usize)
        }
        .to_vec()
    }

    /// The lanes that a shuffle takes, -1 for any value.
    pub(crate) fn shuffle_mask(self) -> Vec<i32> {
        if self.operation() != Some(LLVMShuffleVector) {
            return Vec::new();
        }
        // SAFETY: one of the shuffles, below the count.
        unsafe { (0..LLVMGetNumMaskElements(self.raw())).map(|i| LLVMGetMaskValue(self.raw(), i)).collect() }
    }
}
