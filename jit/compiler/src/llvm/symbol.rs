//! Functions and global variables as what the linker sees, and functions' parameters.

use super::copy_text;
use super::function::Function;
use super::types::Type;
use super::value::{Value, narrower};
use inkwell::llvm_sys::LLVMValueKind::*;
use inkwell::llvm_sys::comdat::LLVMGetComdat;
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::{LLVMLinkage, LLVMVisibility};
use std::ffi::CStr;

narrower!(
    /// What has a linkage: a function, global variable, alias or ifunc.
    Symbol: Value
);

narrower!(
    /// A global variable.
    Global: Symbol
);

narrower!(
    /// A function's parameter.
    Parameter: Value
);

impl<'m> Value<'m> {
    pub(crate) fn as_symbol(self) -> Option<Symbol<'m>> {
        let kinds = [
            LLVMFunctionValueKind,
            LLVMGlobalVariableValueKind,
            LLVMGlobalAliasValueKind,
            LLVMGlobalIFuncValueKind,
        ];
        kinds.contains(&self.kind()).then_some(Symbol(self))
    }

    pub(crate) fn as_global(self) -> Option<Global<'m>> {
        self.as_symbol().filter(|symbol| symbol.kind() == LLVMGlobalVariableValueKind).map(Global)
    }

    pub(crate) fn as_parameter(self) -> Option<Parameter<'m>> {
        (self.kind() == LLVMArgumentValueKind).then_some(Parameter(self))
    }
}

impl<'m> Symbol<'m> {
    pub(crate) fn is_declaration(self) -> bool {
        // SAFETY: a symbol.
        unsafe { LLVMIsDeclaration(self.raw()) != 0 }
    }

    pub(crate) fn linkage(self) -> LLVMLinkage {
        // SAFETY: a symbol.
        unsafe { LLVMGetLinkage(self.raw()) }
    }

    /// Whether it is chosen at run time.
    pub(crate) fn is_ifunc(self) -> bool {
        self.kind() == LLVMGlobalIFuncValueKind
    }

    pub(crate) fn has_default_visibility(self) -> bool {
        // SAFETY: a symbol.
        unsafe { LLVMGetVisibility(self.raw()) == LLVMVisibility::LLVMDefaultVisibility }
    }

    /// The section that it asks for.
    pub(crate) fn section(self) -> Option<String> {
        // SAFETY: a symbol; null, or text of its own that ends in a zero byte.
        let text = unsafe {
            let section = LLVMGetSection(self.raw());
            if section.is_null() {
                String::new()
            } else {
                copy_text(section, CStr::from_ptr(section).count_bytes())
            }
        };
        (!text.is_empty()).then_some(text)
    }

    pub(crate) fn is_in_comdat(self) -> bool {
        // SAFETY: a function or variable; of others it is not asked.
        self.kind() != LLVMGlobalAliasValueKind
            && !self.is_ifunc()
            && unsafe { !LLVMGetComdat(self.raw()).is_null() }
    }

    /// The function's or variable's type (not the pointer's).
    pub(crate) fn value_type(self) -> Type<'m> {
        // SAFETY: a symbol, which has such a type.
        unsafe { Type::present(LLVMGlobalGetValueType(self.raw())) }
    }
}

impl<'m> Global<'m> {
    /// What a constant variable holds.
    pub(crate) fn constant_initializer(self) -> Option<Value<'m>> {
        // SAFETY: a global variable; null without an initializer.
        unsafe {
            if LLVMIsGlobalConstant(self.raw()) == 0 {
                return None;
            }
            Value::from_raw(LLVMGetInitializer(self.raw()))
        }
    }

    /// What it holds at first.
    pub(crate) fn initializer(self) -> Option<Value<'m>> {
        // SAFETY: a global variable; null without an initializer.
        unsafe { Value::from_raw(LLVMGetInitializer(self.raw())) }
    }

    /// Whether it never changes.
    pub(crate) fn is_constant_variable(self) -> bool {
        // SAFETY: a global variable.
        unsafe { LLVMIsGlobalConstant(self.raw()) != 0 }
    }

    pub(crate) fn is_thread_local(self) -> bool {
        // SAFETY: a global variable.
        unsafe { LLVMIsThreadLocal(self.raw()) != 0 }
    }
}

impl<'m> Parameter<'m> {
    /// The function that has it.
    pub(crate) fn function(self) -> Function<'m> {
        // SAFETY: a parameter, which is one of a function.
        let function = unsafe { Value::present(LLVMGetParamParent(self.raw())) };
        function.as_function().unwrap_or_else(|| unreachable!("a parameter is a function's"))
    }
}
