//! What a module's data layout says of types.

use super::types::Type;
use super::value::{Brand, Value};
use super::view::View;
use inkwell::llvm_sys::LLVMTypeKind;
use inkwell::llvm_sys::prelude::LLVMContextRef;
use inkwell::llvm_sys::target::*;
use std::marker::PhantomData;

/// A module's data layout.
#[derive(Clone, Copy)]
pub(crate) struct Layout<'m> {
    raw: LLVMTargetDataRef,
    context: LLVMContextRef,
    brand: Brand<'m>,
}

impl<'m> View<'m> {
    /// The module's data layout.
    pub(crate) fn layout(self) -> Layout<'m> {
        // SAFETY: the layout is a part of the module, which is alive for 'm.
        let raw = unsafe { LLVMGetModuleDataLayout(self.raw()) };
        Layout { raw, context: self.context(), brand: PhantomData }
    }
}

impl<'m> Layout<'m> {
    /// A layout remembers structures by their address, so that those of other contexts can't be asked about.
    fn knows(self, ty: Type<'m>) -> bool {
        ty.is_sized() && ty.context() == self.context
    }

    /// Bytes that a `getelementptr` with constant indices adds.
    pub(crate) fn constant_offset(self, pointer: Value<'m>) -> Option<i64> {
        let mut ty = pointer.element_pointer_type().filter(|ty| ty.is_sized())?;
        let mut offset = 0_i64;
        for (number, index) in pointer.operands().into_iter().skip(1).enumerate() {
            if number > 0 {
                ty = ty.element()?;
            }
            let size = i64::try_from(self.size(ty)).ok()?;
            offset = offset.checked_add(index.constant_signed()?.checked_mul(size)?)?;
        }
        Some(offset)
    }

    /// Bytes from one element of an array to the next; 0 for a type without a size.
    pub(crate) fn size(self, ty: Type<'m>) -> u64 {
        // SAFETY: a sized type of the layout's context.
        if self.knows(ty) { unsafe { LLVMABISizeOfType(self.raw, ty.raw()) } } else { 0 }
    }

    /// The natural alignment in bytes; 1 for a type without a size.
    pub(crate) fn alignment(self, ty: Type<'m>) -> u32 {
        // SAFETY: a sized type of the layout's context.
        if self.knows(ty) { unsafe { LLVMABIAlignmentOfType(self.raw, ty.raw()) } } else { 1 }
    }

    /// The byte offset of a structure's member; `None` for what is no sized structure or has no such member.
    pub(crate) fn member_offset(self, structure: Type<'m>, index: u32) -> Option<u64> {
        let is_structure = structure.kind() == LLVMTypeKind::LLVMStructTypeKind && self.knows(structure);
        let is_member = is_structure && u64::from(index) < structure.element_count();
        // SAFETY: a sized structure of the layout's context, and one of its members.
        is_member.then(|| unsafe { LLVMOffsetOfElement(self.raw, structure.raw(), index) })
    }

    /// Bytes of a pointer.
    pub(crate) fn pointer_bytes(self, address_space: u32) -> u32 {
        // SAFETY: a layout has an answer for every address space.
        unsafe { LLVMPointerSizeForAS(self.raw, address_space) }
    }

    /// True if the least significant byte comes first.
    pub(crate) fn is_little_endian(self) -> bool {
        // SAFETY: the layout is alive.
        unsafe { LLVMByteOrder(self.raw) == LLVMByteOrdering::LLVMLittleEndian }
    }
}
