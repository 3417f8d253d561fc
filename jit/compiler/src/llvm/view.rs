//! A module's contents, to read.

use super::function::Function;
use super::symbol::{Global, Symbol};
use super::types::Type;
use super::value::{Brand, Value, list};
use super::{Module, copy_text};
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::{LLVMContextRef, LLVMModuleRef};
use std::ffi::CStr;
use std::marker::PhantomData;

/// A borrow of a module; all handles to what it contains begin here.
#[derive(Clone, Copy)]
pub(crate) struct View<'m> {
    raw: LLVMModuleRef,
    brand: Brand<'m>,
}

impl Module<'_> {
    /// The contents, which stay as they are for as long as they are looked at.
    pub(crate) fn view(&self) -> View<'_> {
        // SAFETY: the module is alive, and can't change, for as long as it is borrowed.
        unsafe { View::new(self.raw()) }
    }
}

impl<'m> View<'m> {
    /// # Safety
    /// The module is alive for `'m`, and nothing in it is freed for as long.
    pub(super) unsafe fn new(raw: LLVMModuleRef) -> Self {
        View { raw, brand: PhantomData }
    }

    pub(super) fn raw(self) -> LLVMModuleRef {
        self.raw
    }

    pub(super) fn context(self) -> LLVMContextRef {
        // SAFETY: the module is alive.
        unsafe { LLVMGetModuleContext(self.raw) }
    }

    /// All functions, declared and defined.
    pub(crate) fn functions(self) -> Vec<Function<'m>> {
        // SAFETY: the module's list of functions, which live for 'm.
        let functions = unsafe { list(LLVMGetFirstFunction(self.raw), LLVMGetNextFunction) };
        functions.into_iter().filter_map(Value::as_function).collect()
    }

    /// All functions that have a body.
    pub(crate) fn defined_functions(self) -> Vec<Function<'m>> {
        self.functions().into_iter().filter(|function| !function.is_declaration()).collect()
    }

    /// All global variables.
    pub(crate) fn globals(self) -> Vec<Global<'m>> {
        // SAFETY: the module's list of variables, which live for 'm.
        let globals = unsafe { list(LLVMGetFirstGlobal(self.raw), LLVMGetNextGlobal) };
        globals.into_iter().filter_map(Value::as_global).collect()
    }

    /// All functions and global variables.
    pub(crate) fn symbols(self) -> impl Iterator<Item = Symbol<'m>> {
        self.functions().into_iter().map(|f| *f).chain(self.globals().into_iter().map(|g| *g))
    }

    /// All aliases and ifuncs.
    pub(crate) fn indirect_symbols(self) -> Vec<Symbol<'m>> {
        // SAFETY: the module's lists of aliases and of ifuncs, which live for 'm.
        let (aliases, ifuncs) = unsafe {
            let aliases = list(LLVMGetFirstGlobalAlias(self.raw), LLVMGetNextGlobalAlias);
            (aliases, list(LLVMGetFirstGlobalIFunc(self.raw), LLVMGetNextGlobalIFunc))
        };
        aliases.into_iter().chain(ifuncs).filter_map(Value::as_symbol).collect()
    }

    /// The function of this name.
    pub(crate) fn function_named(self, name: &str) -> Option<Function<'m>> {
        // SAFETY: the name is passed with its length; the result is null or a function of the module.
        let found = unsafe {
            Value::from_raw(LLVMGetNamedFunctionWithLength(self.raw, name.as_ptr().cast(), name.len()))
        };
        found.and_then(Value::as_function)
    }

    /// The module-level assembly text.
    pub(crate) fn assembly(self) -> String {
        let mut length = 0;
        // SAFETY: the text belongs to the module and has `length` bytes.
        unsafe {
            let pointer = LLVMGetModuleInlineAsm(self.raw, &mut length);
            copy_text(pointer, length)
        }
    }

    pub(crate) fn triple(self) -> String {
        // SAFETY: text of the module's that ends in a zero byte.
        unsafe { CStr::from_ptr(LLVMGetTarget(self.raw)) }.to_string_lossy().into_owned()
    }

    /// The data layout as a module's text has it; empty if it states none.
    pub(crate) fn data_layout(self) -> String {
        // SAFETY: text of the module's that ends in a zero byte.
        unsafe { CStr::from_ptr(LLVMGetDataLayoutStr(self.raw)) }.to_string_lossy().into_owned()
    }

    /// The named structure of the module's session.
    pub(crate) fn type_named(self, name: &CStr) -> Option<Type<'m>> {
        // SAFETY: a name that ends in a zero byte; null, or a type, which lives as long as the context.
        unsafe { Type::from_raw(LLVMGetTypeByName2(self.context(), name.as_ptr())) }
    }

    /// The integer type of 1 to 64 bits. Panics for another width.
    pub(crate) fn integer_type(self, bits: u32) -> Type<'m> {
        assert!((1..=64).contains(&bits), "no integer type has {bits} bits here");
        // SAFETY: a width that LLVM has; types live as long as the context.
        unsafe { Type::present(LLVMIntTypeInContext(self.context(), bits)) }
    }

    pub(crate) fn float_type(self) -> Type<'m> {
        // SAFETY: types live as long as the context.
        unsafe { Type::present(LLVMFloatTypeInContext(self.context())) }
    }

    pub(crate) fn double_type(self) -> Type<'m> {
        // SAFETY: types live as long as the context.
        unsafe { Type::present(LLVMDoubleTypeInContext(self.context())) }
    }
}
