//! LLVM's C API made safe to change modules with: the edits that the front's stages need, and no others.
//! A handle to an instruction that was erased must not be used again; stages collect, edit, and let go.

use super::access::{Type, Value};
use super::{LlvmError, Session};
use inkwell::llvm_sys::bit_reader::LLVMGetBitcodeModuleInContext2;
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::linker::LLVMLinkModules2;
use inkwell::llvm_sys::prelude::*;
use inkwell::llvm_sys::{
    LLVMAttributeFunctionIndex, LLVMAttributeIndex, LLVMAttributeReturnIndex, LLVMIntPredicate, LLVMLinkage,
    LLVMOpcode,
};
use inkwell::module::Module;
use std::ffi::{CStr, CString, c_uint};
use std::marker::PhantomData;

/// Unnamed result, for LLVM.
const UNNAMED: *const std::ffi::c_char = c"".as_ptr();

/// Wraps a value that LLVM has just made.
fn made<'m>(raw: LLVMValueRef) -> Value<'m> {
    // SAFETY: a value of the module that is being built; LLVM's constructors never return null.
    unsafe { Value::from_raw(raw) }.unwrap_or_else(|| unreachable!("LLVM built nothing"))
}

/// Inserts instructions at a place of a function. Constants are folded.
pub(crate) struct Editor<'m> {
    raw: LLVMBuilderRef,
    module: PhantomData<&'m ()>,
}

impl Drop for Editor<'_> {
    fn drop(&mut self) {
        // SAFETY: made by `Editor::before`, and disposed of once.
        unsafe { LLVMDisposeBuilder(self.raw) };
    }
}

impl<'m> Editor<'m> {
    /// Inserts before an instruction.
    pub(crate) fn before(instruction: Value<'m>) -> Self {
        // SAFETY: the instruction is alive and in a block.
        unsafe {
            let context = LLVMGetTypeContext(instruction.ty().raw());
            let raw = LLVMCreateBuilderInContext(context);
            LLVMPositionBuilderBefore(raw, instruction.raw());
            Editor { raw, module: PhantomData }
        }
    }

    /// Inserts after an instruction, which doesn't end its block and is no phi.
    pub(crate) fn after(instruction: Value<'m>) -> Self {
        // SAFETY: the instruction is alive and followed by another.
        unsafe {
            let next = LLVMGetNextInstruction(instruction.raw());
            Editor::before(Value::from_raw(next).unwrap_or(instruction))
        }
    }

    pub(crate) fn binary(&self, op: LLVMOpcode, lhs: Value<'m>, rhs: Value<'m>) -> Value<'m> {
        debug_assert!(lhs.ty() == rhs.ty());
        // SAFETY: both are alive and of the operation's type.
        made(unsafe { LLVMBuildBinOp(self.raw, op, lhs.raw(), rhs.raw(), UNNAMED) })
    }

    pub(crate) fn compare(&self, predicate: LLVMIntPredicate, lhs: Value<'m>, rhs: Value<'m>) -> Value<'m> {
        debug_assert!(lhs.ty() == rhs.ty());
        // SAFETY: both are alive and of one integer type.
        made(unsafe { LLVMBuildICmp(self.raw, predicate, lhs.raw(), rhs.raw(), UNNAMED) })
    }

    pub(crate) fn select(&self, condition: Value<'m>, then: Value<'m>, otherwise: Value<'m>) -> Value<'m> {
        debug_assert!(then.ty() == otherwise.ty());
        // SAFETY: the condition is i1, or a vector of as many as the others have lanes.
        made(unsafe { LLVMBuildSelect(self.raw, condition.raw(), then.raw(), otherwise.raw(), UNNAMED) })
    }

    pub(crate) fn freeze(&self, value: Value<'m>) -> Value<'m> {
        // SAFETY: any first-class value may be frozen.
        made(unsafe { LLVMBuildFreeze(self.raw, value.raw(), UNNAMED) })
    }

    pub(crate) fn alloca(&self, ty: Type<'m>, alignment: u32) -> Value<'m> {
        // SAFETY: the type is sized; the alignment is a power of two.
        unsafe {
            let slot = LLVMBuildAlloca(self.raw, ty.raw(), UNNAMED);
            LLVMSetAlignment(slot, alignment);
            made(slot)
        }
    }

    /// Calls a function with arguments of its parameters' types.
    pub(crate) fn call(&self, function: Value<'m>, arguments: &[Value<'m>]) -> Value<'m> {
        let mut raw: Vec<LLVMValueRef> = arguments.iter().map(|argument| argument.raw()).collect();
        // SAFETY: the function and the arguments are alive and agree; a result that isn't void may go unnamed.
        made(unsafe {
            let ty = function.global_value_type().raw();
            LLVMBuildCall2(self.raw, ty, function.raw(), raw.as_mut_ptr(), raw.len() as c_uint, UNNAMED)
        })
    }

    pub(crate) fn copy_memory(&self, to: Value<'m>, from: Value<'m>, alignment: u32, bytes: u64) {
        // SAFETY: both are pointers to at least `bytes` bytes so aligned.
        unsafe {
            let size = LLVMConstInt(LLVMInt64TypeInContext(LLVMGetTypeContext(to.ty().raw())), bytes, 0);
            LLVMBuildMemCpy(self.raw, to.raw(), alignment, from.raw(), alignment, size);
        }
    }
}

/// An integer constant of a type, in every lane if it is a vector.
pub(crate) fn integer<'m>(ty: Type<'m>, value: u64, signed: bool) -> Value<'m> {
    let scalar = ty.scalar();
    // SAFETY: the scalar type is an integer's (callers ask for operands of integer operations).
    let one = unsafe { LLVMConstInt(scalar.raw(), value, signed.into()) };
    if ty.is_vector() {
        let mut lanes = vec![one; ty.element_count() as usize];
        // SAFETY: as many constants of the element type as are passed.
        return made(unsafe { LLVMConstVector(lanes.as_mut_ptr(), lanes.len() as c_uint) });
    }
    made(one)
}

/// The most negative integer of a type, in every lane.
pub(crate) fn minimum<'m>(ty: Type<'m>) -> Value<'m> {
    let width = ty.scalar().integer_width();
    let words: Vec<u64> = (0..width.div_ceil(64))
        .map(|word| {
            let top = width - 1;
            if word == top / 64 { 1 << (top % 64) } else { 0 }
        })
        .collect();
    // SAFETY: LLVM reads as many words as are passed.
    let one =
        unsafe { LLVMConstIntOfArbitraryPrecision(ty.scalar().raw(), words.len() as c_uint, words.as_ptr()) };
    if ty.is_vector() {
        let mut lanes = vec![one; ty.element_count() as usize];
        // SAFETY: as in `integer`.
        return made(unsafe { LLVMConstVector(lanes.as_mut_ptr(), lanes.len() as c_uint) });
    }
    made(one)
}

/// All uses of one value use the other, of the same type, instead.
pub(crate) fn replace_uses<'m>(old: Value<'m>, new: Value<'m>) {
    if old != new && old.ty() == new.ty() {
        // SAFETY: both are alive and of one type.
        unsafe { LLVMReplaceAllUsesWith(old.raw(), new.raw()) };
    }
}

/// Replaces an operand.
pub(crate) fn set_operand<'m>(user: Value<'m>, index: u32, value: Value<'m>) {
    if index < user.operand_count() {
        // SAFETY: the index is within bounds; callers keep the operand's type.
        unsafe { LLVMSetOperand(user.raw(), index, value.raw()) };
    }
}

/// Removes an instruction that nothing uses.
pub(crate) fn erase_instruction(instruction: Value) {
    if instruction.is_instruction() && !instruction.has_uses() {
        // SAFETY: alive and unused; the caller lets its handle go.
        unsafe { LLVMInstructionEraseFromParent(instruction.raw()) };
    }
}

/// Removes a function that nothing uses.
pub(crate) fn erase_function(function: Value) {
    if !function.has_uses() {
        // SAFETY: alive and unused; the caller lets its handle go.
        unsafe { LLVMDeleteFunction(function.raw()) };
    }
}

/// Removes a global variable that nothing uses.
pub(crate) fn erase_global(global: Value) {
    if !global.has_uses() {
        // SAFETY: alive and unused; the caller lets its handle go.
        unsafe { LLVMDeleteGlobal(global.raw()) };
    }
}

/// Sets the linkage of a global variable or function.
pub(crate) fn set_linkage(global: Value, linkage: LLVMLinkage) {
    // SAFETY: asked of functions and global variables.
    unsafe { LLVMSetLinkage(global.raw(), linkage) };
}

/// Renames a global or function.
pub(crate) fn set_name(value: Value, name: &str) {
    // SAFETY: the name is passed with its length.
    unsafe { LLVMSetValueName2(value.raw(), name.as_ptr().cast(), name.len()) };
}

/// Gives functions and calls the C calling convention.
pub(crate) fn use_c_convention(value: Value) {
    // SAFETY: 0 is C's number; asked of functions and calls.
    unsafe {
        if value.is_function() {
            LLVMSetFunctionCallConv(value.raw(), 0);
        } else if value.callee().is_some() {
            LLVMSetInstructionCallConv(value.raw(), 0);
        }
    }
}

/// Removes every attribute of a function or call but those named.
pub(crate) fn drop_attributes(value: Value, keep: &[&str]) {
    let keep: Vec<u32> = keep.iter().map(|name| attribute_kind(name)).collect();
    let parameters =
        if value.is_function() { value.parameters().len() } else { value.call_arguments().len() };
    let positions = (0..parameters as u32).map(|i| i + 1);
    for index in positions.chain([LLVMAttributeReturnIndex, LLVMAttributeFunctionIndex]) {
        drop_attributes_at(value, index, &keep);
    }
}

fn attribute_kind(name: &str) -> u32 {
    // SAFETY: the name is passed with its length.
    unsafe { LLVMGetEnumAttributeKindForName(name.as_ptr().cast(), name.len()) }
}

fn drop_attributes_at(value: Value, index: LLVMAttributeIndex, keep: &[u32]) {
    let function = value.is_function();
    // SAFETY: asked of functions and calls; LLVM writes one entry for each counted attribute, and attributes
    // live with the context, so that removing one leaves the list valid.
    unsafe {
        let count = if function {
            LLVMGetAttributeCountAtIndex(value.raw(), index)
        } else {
            LLVMGetCallSiteAttributeCount(value.raw(), index)
        };
        let mut list = vec![std::ptr::null_mut(); count as usize];
        if function {
            LLVMGetAttributesAtIndex(value.raw(), index, list.as_mut_ptr());
        } else {
            LLVMGetCallSiteAttributes(value.raw(), index, list.as_mut_ptr());
        }
        for attribute in list {
            if LLVMIsStringAttribute(attribute) != 0 {
                let mut length = 0;
                let name = LLVMGetStringAttributeKind(attribute, &mut length);
                if function {
                    LLVMRemoveStringAttributeAtIndex(value.raw(), index, name, length);
                } else {
                    LLVMRemoveCallSiteStringAttribute(value.raw(), index, name, length);
                }
                continue;
            }
            let kind = LLVMGetEnumAttributeKind(attribute);
            if keep.contains(&kind) {
                continue;
            }
            if function {
                LLVMRemoveEnumAttributeAtIndex(value.raw(), index, kind);
            } else {
                LLVMRemoveCallSiteEnumAttribute(value.raw(), index, kind);
            }
        }
    }
}

/// Removes an attribute of the function itself.
pub(crate) fn drop_function_attribute(function: Value, name: &str) {
    // SAFETY: asked of functions; an absent attribute is no error.
    unsafe {
        LLVMRemoveEnumAttributeAtIndex(function.raw(), LLVMAttributeFunctionIndex, attribute_kind(name))
    };
}

/// Adds attributes without a value (`memory` means `memory(none)`) to a function or call.
pub(crate) fn add_attributes(value: Value, names: &[&str]) {
    for name in names {
        // SAFETY: the kind is one of LLVM's; asked of functions and calls.
        unsafe {
            let attribute =
                LLVMCreateEnumAttribute(LLVMGetTypeContext(value.ty().raw()), attribute_kind(name), 0);
            if value.is_function() {
                LLVMAddAttributeAtIndex(value.raw(), LLVMAttributeFunctionIndex, attribute);
            } else if value.callee().is_some() {
                LLVMAddCallSiteAttribute(value.raw(), LLVMAttributeFunctionIndex, attribute);
            }
        }
    }
}

/// Adds attributes with their values (0 for none) to a function's parameter (from 0).
pub(crate) fn add_parameter_attributes(function: Value, parameter: u32, attributes: &[(&str, u64)]) {
    for &(name, value) in attributes {
        // SAFETY: the kind is one of LLVM's; asked of functions; LLVM numbers parameters from 1.
        unsafe {
            let context = LLVMGetTypeContext(function.ty().raw());
            let attribute = LLVMCreateEnumAttribute(context, attribute_kind(name), value);
            LLVMAddAttributeAtIndex(function.raw(), parameter + 1, attribute);
        }
    }
}

/// Removes string attributes that tie a function to the machine that it was compiled for.
pub(crate) fn drop_target_attributes(function: Value) {
    for name in ["target-cpu", "target-features", "tune-cpu", "probe-stack", "frame-pointer"] {
        // SAFETY: the name is passed with its length; an absent attribute is no error.
        unsafe {
            LLVMRemoveStringAttributeAtIndex(
                function.raw(),
                LLVMAttributeFunctionIndex,
                name.as_ptr().cast(),
                name.len() as c_uint,
            );
        }
    }
}

/// Sets triple and data layout.
pub(crate) fn set_target(module: &Module, triple: &str, data_layout: &str) {
    let (Ok(triple), Ok(layout)) = (CString::new(triple), CString::new(data_layout)) else { return };
    // SAFETY: both are NUL-terminated; the layout is one that LLVM wrote itself.
    unsafe {
        LLVMSetTarget(module.as_mut_ptr(), triple.as_ptr());
        LLVMSetDataLayout(module.as_mut_ptr(), layout.as_ptr());
    }
}

/// Removes metadata attachments of an instruction.
pub(crate) fn drop_attachments(instruction: Value, kinds: &[&str]) {
    // SAFETY: asked of instructions; each kind is passed with its length, and null removes the attachment.
    unsafe {
        if !instruction.is_instruction() || LLVMHasMetadata(instruction.raw()) == 0 {
            return;
        }
        let context = LLVMGetTypeContext(instruction.ty().raw());
        for kind in kinds {
            let id = LLVMGetMDKindIDInContext(context, kind.as_ptr().cast(), kind.len() as c_uint);
            LLVMSetMetadata(instruction.raw(), id, std::ptr::null_mut());
        }
    }
}

/// Adds fast-math permissions (LLVM's bits) to an instruction that takes them.
pub(crate) fn add_fast_math(instruction: Value, flags: u32) {
    // SAFETY: asked only where LLVM says that the instruction has such flags.
    unsafe {
        if LLVMCanValueUseFastMathFlags(instruction.raw()) != 0 {
            LLVMSetFastMathFlags(instruction.raw(), LLVMGetFastMathFlags(instruction.raw()) | flags);
        }
    }
}

/// Adds a node without operands to a module's named metadata.
pub(crate) fn add_empty_metadata(module: &Module, name: &CStr) {
    // SAFETY: the node belongs to the module's own context.
    unsafe {
        let context = LLVMGetModuleContext(module.as_mut_ptr());
        let node = LLVMMDNodeInContext2(context, std::ptr::null_mut(), 0);
        let value = LLVMMetadataAsValue(context, node);
        LLVMAddNamedMetadataOperand(module.as_mut_ptr(), name.as_ptr(), value);
    }
}

/// True of a load or store with an atomic ordering.
pub(crate) fn is_atomic(instruction: Value) -> bool {
    // SAFETY: asked of loads and stores.
    unsafe { LLVMIsAtomic(instruction.raw()) != 0 }
}

/// Links from bitcode only what the module needs of it, if all of that has linkonce linkage.
pub(crate) fn link_lazily(
    session: &Session,
    module: &Module,
    bitcode: &'static [u8],
) -> Result<(), LlvmError> {
    let mut source = std::ptr::null_mut();
    // SAFETY: the buffer refers to bytes that live forever and need no zero byte behind them; the reader owns it if it
    // succeeds, else it is ours to dispose of. The linker consumes the source.
    unsafe {
        let name = c"builtins".as_ptr();
        let buffer = LLVMCreateMemoryBufferWithMemoryRange(bitcode.as_ptr().cast(), bitcode.len(), name, 0);
        if LLVMGetBitcodeModuleInContext2(session.context().raw(), buffer, &mut source) != 0 {
            LLVMDisposeMemoryBuffer(buffer);
            return Err(LlvmError(session.take_errors()));
        }
        if LLVMLinkModules2(module.as_mut_ptr(), source) != 0 {
            return Err(LlvmError(session.take_errors()));
        }
    }
    Ok(())
}
