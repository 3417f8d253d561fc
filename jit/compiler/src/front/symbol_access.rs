//! What LLVM knows of functions and global variables, made safe to read.

use super::llvm_access::{Block, Type, Value};
use inkwell::llvm_sys::LLVMLinkage;
use inkwell::llvm_sys::core::*;
use std::ffi::c_uint;

/// Of functions and global variables.
impl<'m> Value<'m> {
    pub(crate) fn is_declaration(self) -> bool {
        // SAFETY: asked of globals and functions.
        unsafe { LLVMIsDeclaration(self.raw()) != 0 }
    }

    pub(crate) fn linkage(self) -> LLVMLinkage {
        // SAFETY: asked of globals and functions.
        unsafe { LLVMGetLinkage(self.raw()) }
    }

    /// A function's or global variable's type (not the pointer's).
    pub(crate) fn global_value_type(self) -> Type<'m> {
        // SAFETY: asked of globals and functions, which have one.
        unsafe { Type::from_raw(LLVMGlobalGetValueType(self.raw())) }.unwrap_or_else(|| self.ty())
    }

    /// What a constant global variable holds.
    pub(crate) fn constant_initializer(self) -> Option<Value<'m>> {
        // SAFETY: asked of a global variable; null without an initializer.
        unsafe {
            let constant = self.is_global_variable() && LLVMIsGlobalConstant(self.raw()) != 0;
            if constant { Value::from_raw(LLVMGetInitializer(self.raw())) } else { None }
        }
    }

    /// What a global variable holds at first.
    pub(crate) fn initializer(self) -> Option<Value<'m>> {
        // SAFETY: asked of a global variable; null without an initializer.
        if self.is_global_variable() {
            unsafe { Value::from_raw(LLVMGetInitializer(self.raw())) }
        } else {
            None
        }
    }

    /// Whether a global variable never changes.
    pub(crate) fn is_constant_variable(self) -> bool {
        // SAFETY: asked of a global variable.
        self.is_global_variable() && unsafe { LLVMIsGlobalConstant(self.raw()) != 0 }
    }

    /// The bytes of a constant array or vector of numbers, as they lie in memory.
    pub(crate) fn raw_data(self) -> Option<Vec<u8>> {
        use inkwell::llvm_sys::LLVMValueKind::*;
        if !matches!(self.kind(), LLVMConstantDataArrayValueKind | LLVMConstantDataVectorValueKind) {
            return None;
        }
        let mut size = 0_usize;
        // SAFETY: asked of such constants. LLVM takes the address of a size, though llvm-sys 221 declares a number; the
        // bytes belong to the constant.
        unsafe {
            let data = LLVMGetRawDataValues(self.raw(), &raw mut size as usize);
            Some(std::slice::from_raw_parts(data.cast::<u8>(), size).to_vec())
        }
    }

    pub(crate) fn is_thread_local(self) -> bool {
        // SAFETY: asked of a global variable.
        self.is_global_variable() && unsafe { LLVMIsThreadLocal(self.raw()) != 0 }
    }

    /// A function's blocks, the entry first.
    pub(crate) fn blocks(self) -> Vec<Block<'m>> {
        if !self.is_function() {
            return Vec::new();
        }
        // SAFETY: LLVM writes one entry for each counted block.
        unsafe {
            let mut raw = vec![std::ptr::null_mut(); LLVMCountBasicBlocks(self.raw()) as usize];
            LLVMGetBasicBlocks(self.raw(), raw.as_mut_ptr());
            raw.into_iter().filter_map(|raw| Block::from_raw(raw)).collect()
        }
    }

    /// All instructions of a function.
    pub(crate) fn instructions(self) -> Vec<Value<'m>> {
        self.blocks().into_iter().flat_map(Block::instructions).collect()
    }

    /// A function's parameters.
    pub(crate) fn parameters(self) -> Vec<Value<'m>> {
        if !self.is_function() {
            return Vec::new();
        }
        // SAFETY: the indices are below the count; parameters are never null.
        unsafe {
            (0..LLVMCountParams(self.raw()))
                .filter_map(|i| Value::from_raw(LLVMGetParam(self.raw(), i)))
                .collect()
        }
    }

    /// A function's calling convention, as LLVM numbers them: 75 is `spir_func`, 76 `spir_kernel`.
    pub(crate) fn calling_convention(self) -> u32 {
        // SAFETY: asked of functions.
        if self.is_function() { unsafe { LLVMGetFunctionCallConv(self.raw()) } } else { 0 }
    }

    /// The type of an attribute such as `byval(T)` on a function's parameter (from 0).
    pub(crate) fn parameter_type_attribute(self, parameter: u32, attribute: &str) -> Option<Type<'m>> {
        // SAFETY: LLVM numbers parameters from 1; the attribute found is a type attribute, so it holds a type.
        unsafe {
            let kind = LLVMGetEnumAttributeKindForName(attribute.as_ptr().cast(), attribute.len());
            let found = LLVMGetEnumAttributeAtIndex(self.raw(), parameter + 1, kind);
            if found.is_null() || LLVMIsTypeAttribute(found) == 0 {
                return None;
            }
            Type::from_raw(LLVMGetTypeAttributeValue(found))
        }
    }

    /// The value of an integer attribute such as `align` on a function's parameter (from 0).
    pub(crate) fn parameter_integer_attribute(self, parameter: u32, attribute: &str) -> Option<u64> {
        // SAFETY: as above, for an enum attribute.
        unsafe {
            let kind = LLVMGetEnumAttributeKindForName(attribute.as_ptr().cast(), attribute.len());
            let found = LLVMGetEnumAttributeAtIndex(self.raw(), parameter + 1, kind);
            if found.is_null() || LLVMIsEnumAttribute(found) == 0 {
                return None;
            }
            Some(LLVMGetEnumAttributeValue(found))
        }
    }

    /// True if a function itself has this attribute.
    pub(crate) fn has_function_attribute(self, attribute: &str) -> bool {
        // SAFETY: asked of functions.
        unsafe {
            let kind = LLVMGetEnumAttributeKindForName(attribute.as_ptr().cast(), attribute.len());
            !LLVMGetEnumAttributeAtIndex(self.raw(), inkwell::llvm_sys::LLVMAttributeFunctionIndex, kind)
                .is_null()
        }
    }

    /// A metadata attachment of a function or instruction.
    pub(crate) fn attachment(self, kind: &str) -> Option<Value<'m>> {
        // SAFETY: the kind is passed with its length; functions' attachments come back as a list to dispose of.
        unsafe {
            let context = LLVMGetTypeContext(self.ty().raw());
            let id = LLVMGetMDKindIDInContext(context, kind.as_ptr().cast(), kind.len() as c_uint);
            if self.is_instruction() {
                return Value::from_raw(LLVMGetMetadata(self.raw(), id));
            }
            let mut count = 0;
            let entries = LLVMGlobalCopyAllMetadata(self.raw(), &mut count);
            let found = (0..count as c_uint)
                .find(|&i| LLVMValueMetadataEntriesGetKind(entries, i) == id)
                .map(|i| LLVMMetadataAsValue(context, LLVMValueMetadataEntriesGetMetadata(entries, i)));
            LLVMDisposeValueMetadataEntries(entries);
            found.and_then(|raw| Value::from_raw(raw))
        }
    }
}
