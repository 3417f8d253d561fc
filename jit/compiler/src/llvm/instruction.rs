//! Instructions: where they are, calls, and how a block ends and begins. What constant expressions have too is in `operator`.

use super::copy_text;
use super::function::{Block, Function};
use super::metadata::Node;
use super::types::Type;
use super::value::{Value, narrower};
use inkwell::llvm_sys::LLVMOpcode::{self, *};
use inkwell::llvm_sys::LLVMValueKind::LLVMInstructionValueKind;
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::debuginfo::*;
use inkwell::llvm_sys::prelude::LLVMMetadataRef;
use spirula_interface::check::Location;
use std::ffi::c_uint;

narrower!(
    /// An instruction in a block.
    Instruction: Value
);

narrower!(
    /// A call of any kind: plain, `invoke` or `callbr`.
    Call: Instruction
);

/// The kind of metadata that a loop's hints are.
pub(super) const LOOP_HINTS: &str = "llvm.loop";

/// A place in a scope's file; none if the line or the file isn't known.
///
/// # Safety
/// The scope is one of debug information, and lives.
pub(super) unsafe fn location_in(scope: LLVMMetadataRef, line: u32, column: u32) -> Option<Location> {
    // SAFETY: a scope; its file is null or lives as long.
    let file = unsafe { LLVMDIScopeGetFile(scope) };
    if line == 0 || file.is_null() {
        return None;
    }
    let mut length = 0;
    // SAFETY: a file, whose names live with the context.
    let [file, directory] = [LLVMDIFileGetFilename, LLVMDIFileGetDirectory].map(|name| unsafe {
        let name = name(file, &mut length);
        copy_text(name, length as usize)
    });
    Some(Location { file, directory, line, column })
}

impl<'m> Value<'m> {
    pub(crate) fn as_instruction(self) -> Option<Instruction<'m>> {
        (self.kind() == LLVMInstructionValueKind).then_some(Instruction(self))
    }

    pub(crate) fn as_call(self) -> Option<Call<'m>> {
        self.as_instruction().and_then(Instruction::as_call)
    }
}

impl<'m> Instruction<'m> {
    pub(crate) fn as_call(self) -> Option<Call<'m>> {
        matches!(self.opcode(), LLVMCall | LLVMInvoke | LLVMCallBr).then_some(Call(self))
    }

    pub(crate) fn opcode(self) -> LLVMOpcode {
        // SAFETY: an instruction.
        unsafe { LLVMGetInstructionOpcode(self.raw()) }
    }

    /// The signed number of 32 bits that it extends to 64, as indices are.
    pub(crate) fn narrow_index(self) -> Option<Value<'m>> {
        let is_number = |ty: Type, bits| ty.is_integer() && ty.integer_width() == bits;
        let narrow = self.operand(0).filter(|narrow| is_number(narrow.ty(), 32));
        narrow.filter(|_| self.opcode() == LLVMOpcode::LLVMSExt && is_number(self.ty(), 64))
    }

    /// The function that a plain call, `invoke` or `callbr` names directly.
    pub(crate) fn called_function(self) -> Option<Function<'m>> {
        self.as_call().and_then(Call::called_function)
    }

    /// The block that it is in.
    pub(crate) fn block(self) -> Block<'m> {
        // SAFETY: an instruction with a handle is in a block.
        unsafe { Block::present(LLVMGetInstructionParent(self.raw())) }
    }

    pub(crate) fn parent_function(self) -> Function<'m> {
        self.block().function()
    }

    /// The metadata attached to it under a name.
    pub(crate) fn metadata(self, kind: &str) -> Option<Node<'m>> {
        // SAFETY: the kind is passed with its length; null, or a node that lives as long as the context.
        let found = unsafe {
            let id =
                LLVMGetMDKindIDInContext(self.ty().context(), kind.as_ptr().cast(), kind.len() as c_uint);
            Value::from_raw(LLVMGetMetadata(self.raw(), id))
        };
        found.and_then(Value::as_node)
    }

    /// Whether it leads back to the start of a loop that has a hint whose name begins so.
    pub(crate) fn has_loop_hint(self, prefix: &str) -> bool {
        self.metadata(LOOP_HINTS).is_some_and(|node| node.names_a_hint(prefix))
    }

    /// The instruction behind it; none behind the last one of a block.
    pub(super) fn next(self) -> Option<Instruction<'m>> {
        // SAFETY: an instruction in a block.
        unsafe { Value::from_raw(LLVMGetNextInstruction(self.raw())) }.and_then(Value::as_instruction)
    }

    /// Where the source has it, by the debug information of the innermost function that says a line.
    pub(crate) fn location(self) -> Option<Location> {
        // SAFETY: an instruction; null, or a location that lives as long as the context.
        let mut at = unsafe { LLVMInstructionGetDebugLoc(self.raw()) };
        while !at.is_null() {
            // SAFETY: a location, whose scope, place and surroundings live as long as it does.
            unsafe {
                let (line, column) = (LLVMDILocationGetLine(at), LLVMDILocationGetColumn(at));
                if let Some(location) = location_in(LLVMDILocationGetScope(at), line, column) {
                    return Some(location);
                }
                // Null if it is of the function itself.
                at = LLVMDILocationGetInlinedAt(at);
            }
        }
        None
    }

    /// True of a memory access with an atomic ordering.
    pub(crate) fn is_atomic(self) -> bool {
        // SAFETY: may be asked of any instruction.
        unsafe { LLVMIsAtomic(self.raw()) != 0 }
    }

    /// A terminator's successors.
    pub(crate) fn successors(self) -> Vec<Block<'m>> {
        // SAFETY: asked of terminators only, with indices below the count.
        unsafe {
            if LLVMIsATerminatorInst(self.raw()).is_null() {
                return Vec::new();
            }
            (0..LLVMGetNumSuccessors(self.raw()))
                .filter_map(|i| Block::from_raw(LLVMGetSuccessor(self.raw(), i)))
                .collect()
        }
    }

    /// The condition of a conditional branch.
    pub(crate) fn branch_condition(self) -> Option<Value<'m>> {
        if self.opcode() != LLVMBr {
            return None;
        }
        // SAFETY: a branch, and asked for its condition if it has one.
        unsafe {
            if LLVMIsConditional(self.raw()) == 0 {
                return None;
            }
            Value::from_raw(LLVMGetCondition(self.raw()))
        }
    }

    /// A switch's cases with their successors; the first successor is the default.
    pub(crate) fn switch_cases(self) -> Vec<(Value<'m>, Block<'m>)> {
        if self.opcode() != LLVMSwitch {
            return Vec::new();
        }
        let successors = self.successors().into_iter().enumerate().skip(1);
        // SAFETY: a switch; LLVM numbers the cases by their successors, from 1.
        successors
            .filter_map(|(i, block)| unsafe {
                Some((Value::from_raw(LLVMGetSwitchCaseValue(self.raw(), i as u32))?, block))
            })
            .collect()
    }

    /// A phi's values and the blocks that they come from.
    pub(crate) fn incoming(self) -> Vec<(Value<'m>, Block<'m>)> {
        if self.opcode() != LLVMPHI {
            return Vec::new();
        }
        // SAFETY: a phi, and indices below the count.
        unsafe {
            (0..LLVMCountIncoming(self.raw()))
                .filter_map(|i| {
                    let value = Value::from_raw(LLVMGetIncomingValue(self.raw(), i))?;
                    Some((value, Block::from_raw(LLVMGetIncomingBlock(self.raw(), i))?))
                })
                .collect()
        }
    }
}

impl<'m> Call<'m> {
    /// What is called: a function, inline assembly, or whatever pointer.
    pub(crate) fn callee(self) -> Value<'m> {
        // SAFETY: a call, which has a callee.
        unsafe { Value::present(LLVMGetCalledValue(self.raw())) }
    }

    /// The function that is called directly.
    pub(crate) fn called_function(self) -> Option<Function<'m>> {
        self.callee().as_function()
    }

    /// As LLVM numbers them: see [`Function::calling_convention`].
    pub(crate) fn calling_convention(self) -> u32 {
        // SAFETY: a call.
        unsafe { LLVMGetInstructionCallConv(self.raw()) }
    }

    /// The type that the call gives its callee.
    pub(crate) fn called_type(self) -> Type<'m> {
        // SAFETY: a call.
        unsafe { Type::present(LLVMGetCalledFunctionType(self.raw())) }
    }

    pub(crate) fn arguments(self) -> Vec<Value<'m>> {
        // SAFETY: a call, whose first operands are its arguments.
        let count = unsafe { LLVMGetNumArgOperands(self.raw()) };
        (0..count).filter_map(|i| self.operand(i)).collect()
    }
}
