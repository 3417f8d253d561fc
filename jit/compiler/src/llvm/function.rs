//! Functions and their blocks.

use super::copy_text;
use super::instruction::{Instruction, location_in};
use super::symbol::{Parameter, Symbol};
use super::value::{Value, handle, list, narrower};
use inkwell::llvm_sys::LLVMValueKind::LLVMFunctionValueKind;
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::debuginfo::{LLVMDISubprogramGetLine, LLVMGetSubprogram};
use inkwell::llvm_sys::prelude::LLVMBasicBlockRef;
use spirula_interface::check::Location;
use std::ffi::CStr;

narrower!(
    /// A function, declared or defined.
    Function: Symbol
);

handle!(
    /// A basic block.
    Block,
    LLVMBasicBlockRef
);

impl<'m> Value<'m> {
    pub(crate) fn as_function(self) -> Option<Function<'m>> {
        self.as_symbol().and_then(Symbol::as_function)
    }
}

impl<'m> Symbol<'m> {
    pub(crate) fn as_function(self) -> Option<Function<'m>> {
        (self.kind() == LLVMFunctionValueKind).then_some(Function(self))
    }
}

impl<'m> Function<'m> {
    /// The blocks, the entry first.
    pub(crate) fn blocks(self) -> Vec<Block<'m>> {
        // SAFETY: a function; LLVM writes one entry for each counted block.
        unsafe {
            let mut raw = vec![std::ptr::null_mut(); LLVMCountBasicBlocks(self.raw()) as usize];
            LLVMGetBasicBlocks(self.raw(), raw.as_mut_ptr());
            raw.into_iter().filter_map(|raw| Block::from_raw(raw)).collect()
        }
    }

    /// All instructions.
    pub(crate) fn instructions(self) -> Vec<Instruction<'m>> {
        self.blocks().into_iter().flat_map(Block::instructions).collect()
    }

    pub(crate) fn parameters(self) -> Vec<Parameter<'m>> {
        // SAFETY: a function, and indices below its count of parameters.
        let parameters = unsafe {
            (0..LLVMCountParams(self.raw())).filter_map(|i| Value::from_raw(LLVMGetParam(self.raw(), i)))
        };
        parameters.filter_map(Value::as_parameter).collect()
    }

    /// The garbage collector that it names.
    pub(crate) fn garbage_collector(self) -> Option<String> {
        // SAFETY: a function; null, or text that ends in a zero byte and lives with the context.
        unsafe {
            let name = LLVMGetGC(self.raw());
            (!name.is_null()).then(|| copy_text(name, CStr::from_ptr(name).count_bytes()))
        }
    }

    /// Where the source declares it, by its debug information.
    pub(crate) fn declared_at(self) -> Option<Location> {
        // SAFETY: a function; null, or a scope with a line that lives as long as the context.
        unsafe {
            let subprogram = LLVMGetSubprogram(self.raw());
            if subprogram.is_null() {
                return None;
            }
            location_in(subprogram, LLVMDISubprogramGetLine(subprogram), 0)
        }
    }

    /// Whether data stands before its code.
    pub(crate) fn has_prefix_data(self) -> bool {
        // SAFETY: a function.
        unsafe { LLVMHasPrefixData(self.raw()) != 0 || LLVMHasPrologueData(self.raw()) != 0 }
    }

    /// Whether it names a function for exceptions.
    pub(crate) fn has_personality(self) -> bool {
        // SAFETY: a function.
        unsafe { LLVMHasPersonalityFn(self.raw()) != 0 }
    }

    /// The calling convention, as LLVM numbers them: 75 is `spir_func`, 76 `spir_kernel`.
    pub(crate) fn calling_convention(self) -> u32 {
        // SAFETY: a function.
        unsafe { LLVMGetFunctionCallConv(self.raw()) }
    }
}

impl<'m> Block<'m> {
    /// The instructions in order.
    pub(crate) fn instructions(self) -> Vec<Instruction<'m>> {
        // SAFETY: the block's list of instructions, which live for 'm.
        let instructions = unsafe { list(LLVMGetFirstInstruction(self.raw()), LLVMGetNextInstruction) };
        instructions.into_iter().filter_map(Value::as_instruction).collect()
    }

    /// The last instruction, if it ends the block as it should.
    pub(crate) fn terminator(self) -> Option<Instruction<'m>> {
        // SAFETY: the block is alive; a malformed one yields null.
        unsafe { Value::from_raw(LLVMGetBasicBlockTerminator(self.raw())) }.and_then(Value::as_instruction)
    }

    /// The function that the block is of.
    pub(super) fn function(self) -> Function<'m> {
        // SAFETY: a block with a handle is in a function.
        let function = unsafe { Value::present(LLVMGetBasicBlockParent(self.raw())) };
        function.as_function().unwrap_or_else(|| unreachable!("a block is in a function"))
    }
}
