//! What variables a module may have. Sizes in SPIR are any 64-bit numbers, and wrap: here they are computed so that they
//! don't, before anything else computes with them.

use super::check::rules::{self, Rule};
use crate::llvm::{Call, Global, Instruction, Layout, Type, Value};
use inkwell::llvm_sys::LLVMTypeKind::*;
use spirula_interface::program::{MAX_ALIGNMENT, MAX_PROGRAM_DATA};

/// Bytes of one private variable of one work-item.
pub(super) const MAX_PRIVATE_BYTES: u64 = 1 << 28;

/// Bytes of one local variable: offsets into local memory have 32 bits.
const MAX_LOCAL_BYTES: u64 = u32::MAX as u64;

/// Bytes of a process's addresses, and hence of anything in it.
const MAX_COPIED_BYTES: u64 = 1 << 47;

/// Structures in arrays in structures.
const MAX_DEPTH: u32 = 64;

/// Bytes of a sized type; `None` if they are more than 64 bits can say.
pub(super) fn bytes<'m>(layout: Layout<'m>, ty: Type<'m>) -> Option<u64> {
    sized(layout, ty, 0)
}

fn sized<'m>(layout: Layout<'m>, ty: Type<'m>, depth: u32) -> Option<u64> {
    if depth > MAX_DEPTH {
        return None;
    }
    match ty.kind() {
        LLVMArrayTypeKind => sized(layout, ty.element()?, depth + 1)?.checked_mul(ty.element_count()),
        LLVMStructTypeKind => {
            let aligned = |at: u64, ty: Type<'m>| {
                let align = if ty.is_packed() { 1 } else { layout.alignment(ty) };
                at.checked_next_multiple_of(u64::from(align.max(1)))
            };
            let mut end = 0_u64;
            for member in ty.members() {
                let start = if ty.is_packed() { end } else { aligned(end, member)? };
                end = start.checked_add(sized(layout, member, depth + 1)?)?;
            }
            aligned(end, ty)
        }
        // LLVM ends the process when it is asked for such a size.
        LLVMScalableVectorTypeKind => None,
        _ => Some(layout.size(ty)),
    }
}

/// What is wrong with a program-scope or local variable, if anything. Adds its size to the program's.
pub(super) fn variable<'m>(
    layout: Layout<'m>,
    variable: Global<'m>,
    total: &mut u64,
) -> Option<(&'static Rule, String)> {
    let name = variable.name();
    let ty = variable.value_type();
    if let Some(align) = excessive_alignment(**variable) {
        let text = format!("the variable `{name}` is aligned to {align} bytes; the most is {MAX_ALIGNMENT}");
        return Some((&rules::ALIGNMENT, text));
    }
    if !ty.is_sized() {
        return None; // An image or the like; what can't be compiled is refused when it is used.
    }
    let size = bytes(layout, ty);
    if variable.ty().address_space() == 3 {
        let fits = size.is_some_and(|size| size <= MAX_LOCAL_BYTES);
        return (!fits)
            .then(|| format!("the local variable `{name}` has {}; the most is 4 GiB", count(size)))
            .map(|text| (&rules::SIZE, text));
    }
    *total = total.saturating_add(size.unwrap_or(u64::MAX));
    (*total > MAX_PROGRAM_DATA).then(|| {
        let most = MAX_PROGRAM_DATA >> 20;
        let size = count(size);
        let text = format!(
            "the variable `{name}` has {size}; all variables and constants of a program may have {most} MiB"
        );
        (&rules::SIZE, text)
    })
}

/// What is wrong with an `alloca`, if anything.
pub(super) fn private<'m>(layout: Layout<'m>, alloca: Instruction<'m>) -> Option<(&'static Rule, String)> {
    let ty = alloca.allocated_type().filter(|ty| ty.is_sized())?;
    if let Some(align) = excessive_alignment(*alloca) {
        let text =
            format!("a private variable that is aligned to {align} bytes; the most is {MAX_ALIGNMENT}");
        return Some((&rules::ALIGNMENT, text));
    }
    let elements = alloca.operand(0).and_then(Value::constant_bits).unwrap_or(1);
    let size = bytes(layout, ty).and_then(|size| size.checked_mul(elements));
    let fits = size.is_some_and(|size| size <= MAX_PRIVATE_BYTES);
    let most = MAX_PRIVATE_BYTES >> 20;
    (!fits).then(|| (&rules::SIZE, format!("a private variable of {}; the most is {most} MiB", count(size))))
}

/// The bytes that a call of `llvm.memcpy` or its like moves, if they are constant and more than any memory has.
pub(super) fn excessive_copy(call: Call) -> Option<u64> {
    let name = call.called_function()?.name();
    let is_copy =
        ["llvm.memcpy.", "llvm.memmove.", "llvm.memset."].iter().any(|start| name.starts_with(start));
    let bytes = call.arguments().get(2).filter(|_| is_copy)?.constant_bits()?;
    (bytes > MAX_COPIED_BYTES).then_some(bytes)
}

/// The alignment of a variable if that is too large.
fn excessive_alignment(variable: Value) -> Option<u64> {
    let align = if variable.has_largest_alignment() { 1 << 32 } else { u64::from(variable.alignment()) };
    (align > MAX_ALIGNMENT.into()).then_some(align)
}

fn count(size: Option<u64>) -> String {
    size.map_or("more than 2^64 bytes".into(), |size| format!("{size} bytes"))
}
