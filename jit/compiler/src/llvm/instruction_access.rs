//! The particulars of LLVM's instructions, made safe to read: flags, orderings, predicates, cases. Each question is
//! answered neutrally if it is asked of an instruction that it isn't for.

use super::access::{Block, Type, Value};
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::{
    LLVMAtomicOrdering, LLVMAtomicRMWBinOp, LLVMIntPredicate, LLVMOpcode, LLVMRealPredicate, LLVMValueKind,
};

use LLVMOpcode::*;

impl<'m> Value<'m> {
    fn is(self, opcodes: &[LLVMOpcode]) -> bool {
        self.opcode().is_some_and(|opcode| opcodes.contains(&opcode))
    }

    /// What an instruction does; `None` for any other value.
    pub(crate) fn opcode(self) -> Option<LLVMOpcode> {
        // SAFETY: asked of instructions.
        self.is_instruction().then(|| unsafe { LLVMGetInstructionOpcode(self.raw()) })
    }

    /// What an instruction or constant expression does.
    pub(crate) fn operation(self) -> Option<LLVMOpcode> {
        if self.kind() == LLVMValueKind::LLVMConstantExprValueKind {
            // SAFETY: asked of constant expressions.
            return Some(unsafe { LLVMGetConstOpcode(self.raw()) });
        }
        self.opcode()
    }

    /// The callee of a call; a function, or whatever pointer is called.
    pub(crate) fn callee(self) -> Option<Value<'m>> {
        let call =
            matches!(self.opcode()?, LLVMOpcode::LLVMCall | LLVMOpcode::LLVMInvoke | LLVMOpcode::LLVMCallBr);
        // SAFETY: asked of calls.
        if call { unsafe { Value::from_raw(LLVMGetCalledValue(self.raw())) } } else { None }
    }

    /// The function that a call names directly.
    pub(crate) fn called_function(self) -> Option<Value<'m>> {
        self.callee().filter(|callee| callee.is_function())
    }

    /// The type that a call gives its callee.
    pub(crate) fn called_type(self) -> Option<Type<'m>> {
        self.callee()?;
        // SAFETY: asked of calls.
        unsafe { Type::from_raw(LLVMGetCalledFunctionType(self.raw())) }
    }

    /// A call's arguments.
    pub(crate) fn call_arguments(self) -> Vec<Value<'m>> {
        if self.callee().is_none() {
            return Vec::new();
        }
        // SAFETY: a call's first operands are its arguments.
        let count = unsafe { LLVMGetNumArgOperands(self.raw()) };
        (0..count).filter_map(|i| self.operand(i)).collect()
    }

    /// The block of an instruction.
    pub(crate) fn parent_block(self) -> Option<Block<'m>> {
        if !self.is_instruction() {
            return None;
        }
        // SAFETY: asked of instructions.
        unsafe { Block::from_raw(LLVMGetInstructionParent(self.raw())) }
    }

    /// The function that holds an instruction.
    pub(crate) fn parent_function(self) -> Option<Value<'m>> {
        // SAFETY: a block that is in a module has a function.
        self.parent_block().and_then(|block| unsafe { Value::from_raw(LLVMGetBasicBlockParent(block.raw())) })
    }

    /// A terminator's successors.
    pub(crate) fn successors(self) -> Vec<Block<'m>> {
        // SAFETY: asked of terminators only; the indices are below the count.
        unsafe {
            if LLVMIsATerminatorInst(self.raw()).is_null() {
                return Vec::new();
            }
            (0..LLVMGetNumSuccessors(self.raw()))
                .filter_map(|i| Block::from_raw(LLVMGetSuccessor(self.raw(), i)))
                .collect()
        }
    }

    /// No unsigned wrap, no signed wrap.
    pub(crate) fn no_wrap(self) -> (bool, bool) {
        if !self.is(&[LLVMAdd, LLVMSub, LLVMMul, LLVMShl, LLVMTrunc]) {
            return (false, false);
        }
        // SAFETY: asked of instructions that have the flags.
        unsafe { (LLVMGetNUW(self.raw()) != 0, LLVMGetNSW(self.raw()) != 0) }
    }

    pub(crate) fn is_exact(self) -> bool {
        // SAFETY: asked of instructions that have the flag.
        self.is(&[LLVMUDiv, LLVMSDiv, LLVMLShr, LLVMAShr]) && unsafe { LLVMGetExact(self.raw()) != 0 }
    }

    pub(crate) fn is_disjoint(self) -> bool {
        // SAFETY: asked of instructions that have the flag.
        self.is(&[LLVMOr]) && unsafe { LLVMGetIsDisjoint(self.raw()) != 0 }
    }

    /// The operand isn't negative.
    pub(crate) fn is_nonnegative_cast(self) -> bool {
        // SAFETY: asked of instructions that have the flag.
        self.is(&[LLVMZExt, LLVMUIToFP]) && unsafe { LLVMGetNNeg(self.raw()) != 0 }
    }

    pub(crate) fn has_same_sign(self) -> bool {
        // SAFETY: asked of instructions that have the flag.
        self.is(&[LLVMICmp]) && unsafe { LLVMGetICmpSameSign(self.raw()) != 0 }
    }

    /// LLVM's fast-math bits.
    pub(crate) fn fast_math(self) -> u32 {
        // SAFETY: asked of instructions that LLVM says have the flags.
        unsafe {
            let can = self.is_instruction() && LLVMCanValueUseFastMathFlags(self.raw()) != 0;
            if can { LLVMGetFastMathFlags(self.raw()) } else { 0 }
        }
    }

    pub(crate) fn integer_predicate(self) -> Option<LLVMIntPredicate> {
        // SAFETY: asked of integer comparisons.
        self.is(&[LLVMICmp]).then(|| unsafe { LLVMGetICmpPredicate(self.raw()) })
    }

    pub(crate) fn float_predicate(self) -> Option<LLVMRealPredicate> {
        // SAFETY: asked of float comparisons.
        self.is(&[LLVMFCmp]).then(|| unsafe { LLVMGetFCmpPredicate(self.raw()) })
    }

    /// Bytes; of memory accesses, allocas and global variables.
    pub(crate) fn alignment(self) -> u32 {
        let accesses = [LLVMLoad, LLVMStore, LLVMAlloca, LLVMAtomicRMW, LLVMAtomicCmpXchg];
        if !self.is(&accesses) && !self.is_global_variable() {
            return 1;
        }
        // SAFETY: asked of values that have an alignment.
        unsafe { LLVMGetAlignment(self.raw()).max(1) }
    }

    pub(crate) fn is_volatile(self) -> bool {
        let accesses = [LLVMLoad, LLVMStore, LLVMAtomicRMW, LLVMAtomicCmpXchg];
        // SAFETY: asked of memory accesses.
        self.is(&accesses) && unsafe { LLVMGetVolatile(self.raw()) != 0 }
    }

    /// Of loads, stores, fences and read-modify-writes.
    pub(crate) fn ordering(self) -> LLVMAtomicOrdering {
        if !self.is(&[LLVMLoad, LLVMStore, LLVMFence, LLVMAtomicRMW]) {
            return LLVMAtomicOrdering::LLVMAtomicOrderingNotAtomic;
        }
        // SAFETY: asked of instructions that have an ordering.
        unsafe { LLVMGetOrdering(self.raw()) }
    }

    /// Success, failure, weak; of compare-exchanges.
    pub(crate) fn exchange_orderings(self) -> Option<(LLVMAtomicOrdering, LLVMAtomicOrdering, bool)> {
        // SAFETY: asked of compare-exchanges.
        self.is(&[LLVMAtomicCmpXchg]).then(|| unsafe {
            let success = LLVMGetCmpXchgSuccessOrdering(self.raw());
            (success, LLVMGetCmpXchgFailureOrdering(self.raw()), LLVMGetWeak(self.raw()) != 0)
        })
    }

    pub(crate) fn modify_operation(self) -> Option<LLVMAtomicRMWBinOp> {
        // SAFETY: asked of read-modify-writes.
        self.is(&[LLVMAtomicRMW]).then(|| unsafe { LLVMGetAtomicRMWBinOp(self.raw()) })
    }

    pub(crate) fn allocated_type(self) -> Option<Type<'m>> {
        if !self.is(&[LLVMAlloca]) {
            return None;
        }
        // SAFETY: asked of allocas.
        unsafe { Type::from_raw(LLVMGetAllocatedType(self.raw())) }
    }

    /// The type that the indices of a `getelementptr`, instruction or constant, walk through.
    pub(crate) fn element_pointer_type(self) -> Option<Type<'m>> {
        if self.operation()? != LLVMGetElementPtr {
            return None;
        }
        // SAFETY: asked of address computations.
        unsafe { Type::from_raw(LLVMGetGEPSourceElementType(self.raw())) }
    }

    pub(crate) fn is_inbounds(self) -> bool {
        // SAFETY: asked of address computations.
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
        // SAFETY: asked of shuffles, below the count.
        unsafe { (0..LLVMGetNumMaskElements(self.raw())).map(|i| LLVMGetMaskValue(self.raw(), i)).collect() }
    }

    /// A phi's values and the blocks that they come from.
    pub(crate) fn incoming(self) -> Vec<(Value<'m>, Block<'m>)> {
        if !self.is(&[LLVMPHI]) {
            return Vec::new();
        }
        // SAFETY: asked of phis, below the count.
        unsafe {
            (0..LLVMCountIncoming(self.raw()))
                .filter_map(|i| {
                    let value = Value::from_raw(LLVMGetIncomingValue(self.raw(), i))?;
                    Some((value, Block::from_raw(LLVMGetIncomingBlock(self.raw(), i))?))
                })
                .collect()
        }
    }

    /// The condition of a conditional branch.
    pub(crate) fn branch_condition(self) -> Option<Value<'m>> {
        // SAFETY: asked of conditional branches.
        unsafe {
            if self.is(&[LLVMBr]) && LLVMIsConditional(self.raw()) != 0 {
                Value::from_raw(LLVMGetCondition(self.raw()))
            } else {
                None
            }
        }
    }

    /// A switch's cases with their successors; the first successor is the default.
    pub(crate) fn switch_cases(self) -> Vec<(Value<'m>, Block<'m>)> {
        if !self.is(&[LLVMSwitch]) {
            return Vec::new();
        }
        let successors = self.successors().into_iter().enumerate().skip(1);
        // SAFETY: LLVM numbers the cases by their successors, from 1.
        successors
            .filter_map(|(i, block)| unsafe {
                Some((Value::from_raw(LLVMGetSwitchCaseValue(self.raw(), i as u32))?, block))
            })
            .collect()
    }

    /// The bits of a constant integer of any width up to 128.
    pub(crate) fn wide_bits(self) -> Option<u128> {
        if let Some(bits) = self.constant_bits() {
            return Some(u128::from(bits));
        }
        let width = self.ty().integer_width();
        if !self.is_constant_integer() || width > 128 {
            return None;
        }
        // The C API has no way to wide constants but their text, "i128 -5".
        let text = self.to_string();
        let number = text.rsplit(' ').next()?;
        let bits = match number.strip_prefix('-') {
            Some(digits) => digits.parse::<u128>().ok()?.wrapping_neg(),
            None => number.parse().ok()?,
        };
        Some(if width < 128 { bits & ((1 << width) - 1) } else { bits })
    }

    /// The bits of a constant float of up to 64 bits, in its own format.
    pub(crate) fn float_bits(self) -> Option<u64> {
        use inkwell::llvm_sys::LLVMTypeKind::*;
        if self.kind() != LLVMValueKind::LLVMConstantFPValueKind {
            return None;
        }
        // SAFETY: a constant float's bits are a constant integer of its width, which LLVM folds at once.
        unsafe {
            let context = LLVMGetTypeContext(self.ty().raw());
            let integer = match self.ty().kind() {
                LLVMHalfTypeKind => LLVMInt16TypeInContext(context),
                LLVMFloatTypeKind => LLVMInt32TypeInContext(context),
                LLVMDoubleTypeKind => LLVMInt64TypeInContext(context),
                _ => return None,
            };
            Value::from_raw(LLVMConstBitCast(self.raw(), integer))?.constant_bits()
        }
    }

    /// The value of an integer attribute such as `align` on a call's argument (from 0).
    pub(crate) fn argument_integer_attribute(self, argument: u32, attribute: &str) -> Option<u64> {
        self.callee()?;
        // SAFETY: asked of calls; an absent attribute is null.
        unsafe {
            let kind = LLVMGetEnumAttributeKindForName(attribute.as_ptr().cast(), attribute.len());
            let found = LLVMGetCallSiteEnumAttribute(self.raw(), argument + 1, kind);
            (!found.is_null()).then(|| LLVMGetEnumAttributeValue(found))
        }
    }
}
