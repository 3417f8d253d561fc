//! Types, and the constants that they have by themselves.

use super::value::{Value, handle};
use super::{copy_text, take_message};
use inkwell::llvm_sys::LLVMTypeKind::{self, *};
use inkwell::llvm_sys::core::*;
use inkwell::llvm_sys::prelude::{LLVMContextRef, LLVMTypeRef};
use std::ffi::{CStr, c_uint};

handle!(
    /// A type.
    Type,
    LLVMTypeRef
);

impl std::fmt::Display for Type<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        // SAFETY: the type is alive, and the message is ours.
        f.write_str(&unsafe { take_message(LLVMPrintTypeToString(self.raw)) })
    }
}

impl std::fmt::Debug for Type<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl<'m> Type<'m> {
    pub(crate) fn kind(self) -> LLVMTypeKind {
        // SAFETY: any type has a kind.
        unsafe { LLVMGetTypeKind(self.raw) }
    }

    pub(super) fn context(self) -> LLVMContextRef {
        // SAFETY: any type has a context.
        unsafe { LLVMGetTypeContext(self.raw) }
    }

    pub(crate) fn is_sized(self) -> bool {
        // SAFETY: may be asked of any type.
        unsafe { LLVMTypeIsSized(self.raw) != 0 }
    }

    pub(crate) fn is_pointer(self) -> bool {
        self.kind() == LLVMPointerTypeKind
    }

    pub(crate) fn is_integer(self) -> bool {
        self.kind() == LLVMIntegerTypeKind
    }

    pub(crate) fn is_vector(self) -> bool {
        self.kind() == LLVMVectorTypeKind
    }

    pub(crate) fn is_void(self) -> bool {
        self.kind() == LLVMVoidTypeKind
    }

    /// The bits of an integer type, 0 of another.
    pub(crate) fn integer_width(self) -> u32 {
        // SAFETY: an integer type.
        if self.is_integer() { unsafe { LLVMGetIntTypeWidth(self.raw) } } else { 0 }
    }

    /// A pointer's address space, 0 of another type.
    pub(crate) fn address_space(self) -> u32 {
        // SAFETY: a pointer type.
        if self.is_pointer() { unsafe { LLVMGetPointerAddressSpace(self.raw) } } else { 0 }
    }

    /// A vector's element type; the type itself if it is no vector.
    pub(crate) fn scalar(self) -> Type<'m> {
        if self.is_vector() { self.element().unwrap_or(self) } else { self }
    }

    /// The element type of an array or vector.
    pub(crate) fn element(self) -> Option<Type<'m>> {
        match self.kind() {
            // SAFETY: arrays and vectors have an element type.
            LLVMArrayTypeKind | LLVMVectorTypeKind => unsafe { Type::from_raw(LLVMGetElementType(self.raw)) },
            _ => None,
        }
    }

    /// The elements of an array or vector, the members of a structure; 0 of another type.
    pub(crate) fn element_count(self) -> u64 {
        // SAFETY: each question is put to the kind that it's for.
        unsafe {
            match self.kind() {
                LLVMArrayTypeKind => LLVMGetArrayLength2(self.raw),
                LLVMVectorTypeKind => u64::from(LLVMGetVectorSize(self.raw)),
                LLVMStructTypeKind => u64::from(LLVMCountStructElementTypes(self.raw)),
                _ => 0,
            }
        }
    }

    /// The members of a structure; empty for another type.
    pub(crate) fn members(self) -> Vec<Type<'m>> {
        if self.kind() != LLVMStructTypeKind {
            return Vec::new();
        }
        let mut raw = vec![std::ptr::null_mut(); self.element_count() as usize];
        // SAFETY: LLVM writes one entry for each counted member; members live as long as the context.
        unsafe {
            LLVMGetStructElementTypes(self.raw, raw.as_mut_ptr());
            raw.into_iter().filter_map(|raw| Type::from_raw(raw)).collect()
        }
    }

    /// True of a structure without padding.
    pub(crate) fn is_packed(self) -> bool {
        // SAFETY: a structure.
        self.kind() == LLVMStructTypeKind && unsafe { LLVMIsPackedStruct(self.raw) != 0 }
    }

    /// True of a named structure of which nothing is known.
    pub(crate) fn is_opaque_structure(self) -> bool {
        // SAFETY: a structure.
        self.kind() == LLVMStructTypeKind && unsafe { LLVMIsOpaqueStruct(self.raw) != 0 }
    }

    fn is_function(self) -> bool {
        self.kind() == LLVMFunctionTypeKind
    }

    /// The parameter types of a function type.
    pub(crate) fn parameter_types(self) -> Vec<Type<'m>> {
        if !self.is_function() {
            return Vec::new();
        }
        // SAFETY: a function type; LLVM writes one entry for each counted parameter.
        unsafe {
            let mut raw = vec![std::ptr::null_mut(); LLVMCountParamTypes(self.raw) as usize];
            LLVMGetParamTypes(self.raw, raw.as_mut_ptr());
            raw.into_iter().filter_map(|raw| Type::from_raw(raw)).collect()
        }
    }

    /// The return type of a function type.
    pub(crate) fn return_type(self) -> Option<Type<'m>> {
        // SAFETY: a function type.
        self.is_function().then(|| unsafe { Type::present(LLVMGetReturnType(self.raw)) })
    }

    /// True of a function type with `...`.
    pub(crate) fn is_variadic(self) -> bool {
        // SAFETY: a function type.
        self.is_function() && unsafe { LLVMIsFunctionVarArg(self.raw) != 0 }
    }

    /// The name of a `target("...")` type.
    pub(crate) fn target_type_name(self) -> Option<String> {
        if self.kind() != LLVMTargetExtTypeKind {
            return None;
        }
        // SAFETY: a target type; its name ends in a zero byte and lives with it.
        unsafe {
            let name = LLVMGetTargetExtTypeName(self.raw);
            Some(copy_text(name, CStr::from_ptr(name).count_bytes()))
        }
    }

    /// The vector type of so many of these. Panics if they are no numbers.
    pub(crate) fn vector(self, lanes: u32) -> Type<'m> {
        let is_number = matches!(
            self.kind(),
            LLVMIntegerTypeKind | LLVMHalfTypeKind | LLVMFloatTypeKind | LLVMDoubleTypeKind
        );
        assert!(is_number && lanes > 0, "no vector has {lanes} of {self}");
        // SAFETY: a type that vectors may have; types live as long as the context.
        unsafe { Type::present(LLVMVectorType(self.raw, lanes)) }
    }

    /// True of an integer type and a vector of integers.
    pub(super) fn has_integers(self) -> bool {
        self.scalar().is_integer()
    }

    /// An integer constant of an integer type or, in every lane, of a vector of integers. Panics for other types.
    pub(crate) fn integer(self, value: u64) -> Value<'m> {
        assert!(self.has_integers(), "no integer constant has the type {self}");
        // SAFETY: the scalar type is an integer's.
        self.splat(unsafe { Value::present(LLVMConstInt(self.scalar().raw, value, 0)) })
    }

    /// No value at all, of a sized type.
    pub(crate) fn poison(self) -> Value<'m> {
        assert!(self.is_sized(), "nothing has the type {self}");
        // SAFETY: a type that values may have.
        unsafe { Value::present(LLVMGetPoison(self.raw)) }
    }

    /// -1, as for `integer`.
    pub(crate) fn minus_one(self) -> Value<'m> {
        assert!(self.has_integers(), "no integer constant has the type {self}");
        // SAFETY: the scalar type is an integer's.
        self.splat(unsafe { Value::present(LLVMConstAllOnes(self.scalar().raw)) })
    }

    /// The least signed integer, as for `integer`.
    pub(crate) fn minimum(self) -> Value<'m> {
        assert!(self.has_integers(), "no integer constant has the type {self}");
        let sign = self.scalar().integer_width() - 1;
        let words: Vec<u64> =
            (0..=sign / 64).map(|word| if word == sign / 64 { 1 << (sign % 64) } else { 0 }).collect();
        let count = words.len() as c_uint;
        // SAFETY: the scalar type is an integer's, and LLVM reads as many words as are passed.
        self.splat(unsafe {
            Value::present(LLVMConstIntOfArbitraryPrecision(self.scalar().raw, count, words.as_ptr()))
        })
    }

    /// A constant of the scalar type, in every lane if this is a vector.
    fn splat(self, scalar: Value<'m>) -> Value<'m> {
        if !self.is_vector() {
            return scalar;
        }
        let mut lanes = vec![scalar.raw(); self.element_count() as usize];
        // SAFETY: as many constants as are passed, all of one type.
        unsafe { Value::present(LLVMConstVector(lanes.as_mut_ptr(), lanes.len() as c_uint)) }
    }
}
