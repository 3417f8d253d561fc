//! What types SPIR has, and how large a module's may be.

use crate::llvm::{Instruction, Type};
use inkwell::llvm_sys::LLVMTypeKind;

/// Structures within arrays within structures; more than a program has, and few enough to walk.
const MAX_TYPE_DEPTH: u32 = 64;

/// Types that a type consists of, counted as often as they occur; more than a program has.
const MAX_TYPE_NODES: u32 = 10_000;

/// What a value consists of: so much that LLVM, which takes it apart, does not finish, is no program's.
const MAX_ELEMENTS: u64 = 4096;

/// A type in an instruction that no OpenCL C program has.
pub(super) fn foreign(instruction: Instruction) -> Option<String> {
    let types = [Some(instruction.ty()), instruction.allocated_type(), instruction.element_pointer_type()];
    let operands = instruction.operands().into_iter().map(|operand| operand.ty());
    let foreign = types.into_iter().flatten().chain(operands).find(|ty| is_foreign(*ty))?;
    Some(format!("a value of {}", described(foreign)))
}

/// A result that is too large to be one.
pub(super) fn excessive(instruction: Instruction) -> Option<String> {
    let ty = instruction.ty();
    (elements(ty) > MAX_ELEMENTS).then(|| format!("a value of {}, which is too large for one", described(ty)))
}

/// A type for a log: one that is nested without end is not written out.
pub(super) fn described(ty: Type) -> String {
    /// Characters of LLVM's text.
    const READABLE: usize = 100;
    if consists_of(ty, 0, &mut 0, &|_| false) {
        return format!(
            "a type that is nested more than {MAX_TYPE_DEPTH} deep, or has more than {MAX_TYPE_NODES} parts"
        );
    }
    let text = ty.to_string();
    match text.char_indices().nth(READABLE) {
        Some((end, _)) => format!("type {} …", &text[..end]),
        None => format!("type {text}"),
    }
}

fn elements(ty: Type) -> u64 {
    let members = ty.members().into_iter().map(elements).fold(0_u64, u64::saturating_add);
    match ty.element() {
        Some(element) => elements(element).saturating_mul(ty.element_count()),
        None => members.max(1),
    }
}

/// Whether a type is none of SPIR's, or has a part that is none.
pub(super) fn is_foreign(ty: Type) -> bool {
    consists_of(ty, 0, &mut 0, &is_foreign_scalar)
}

/// Whether a type, which is not foreign, is or has a part of a kind.
pub(super) fn has_part(ty: Type, kind: &impl Fn(Type) -> bool) -> bool {
    consists_of(ty, 0, &mut 0, kind)
}

/// Whether a type is or has a part of a kind, or more parts than there are to look at.
fn consists_of(ty: Type, depth: u32, nodes: &mut u32, kind: &impl Fn(Type) -> bool) -> bool {
    *nodes += 1;
    if depth > MAX_TYPE_DEPTH || *nodes > MAX_TYPE_NODES || kind(ty) {
        return true;
    }
    let mut parts = ty.members().into_iter().chain(ty.element());
    parts.any(|part| consists_of(part, depth + 1, nodes, kind))
}

fn is_foreign_scalar(ty: Type) -> bool {
    use LLVMTypeKind::*;
    match ty.kind() {
        LLVMX86_FP80TypeKind
        | LLVMFP128TypeKind
        | LLVMPPC_FP128TypeKind
        | LLVMBFloatTypeKind
        | LLVMScalableVectorTypeKind
        | LLVMX86_AMXTypeKind
        | LLVMTokenTypeKind => true,
        LLVMIntegerTypeKind => ty.integer_width() > 128,
        LLVMPointerTypeKind => ty.address_space() > 4,
        _ => false,
    }
}

pub(super) fn is_double(ty: Type) -> bool {
    ty.kind() == LLVMTypeKind::LLVMDoubleTypeKind
}

pub(super) fn is_aggregate(ty: Type) -> bool {
    matches!(ty.kind(), LLVMTypeKind::LLVMStructTypeKind | LLVMTypeKind::LLVMArrayTypeKind)
}

/// An integer of a width that OpenCL C has no type of.
pub(super) fn is_odd_integer(ty: Type) -> bool {
    ty.is_integer() && ![1, 8, 16, 32, 64].contains(&ty.integer_width())
}

/// A vector of a length that OpenCL C has no type of.
pub(super) fn is_odd_vector(ty: Type) -> bool {
    ty.is_vector() && ![2, 3, 4, 8, 16].contains(&ty.element_count())
}

pub(super) fn is_bool_vector(ty: Type) -> bool {
    ty.is_vector() && ty.scalar().integer_width() == 1
}

pub(super) fn is_generic_pointer(ty: Type) -> bool {
    ty.is_pointer() && ty.address_space() == 4
}
