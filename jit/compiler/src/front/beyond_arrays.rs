//! Clean-up: loads beyond their private array's end, or in front of it, yield zero. LLVM takes them for undefined, then all that is computed with
//! them, and stores nothing of it. Programs have loops that go one element too far, and ran elsewhere: what they make of that
//! element they can't rely on, but of the rest they do. (clEsperanto's `sobel_3d` has a loop over four of three elements.)

use crate::llvm::{Edit, Function, Instruction, Layout, Type, Value};
use inkwell::llvm_sys::LLVMTypeKind::*;
use inkwell::llvm_sys::{LLVMOpcode, LLVMTypeKind};

/// In one function. Stores there go without a trace.
pub(super) fn settle<'e>(edit: Edit<'e>, function: Function<'e>) {
    let layout = edit.layout();
    for alloca in function.instructions() {
        let Some(ty) = alloca.allocated_type().filter(|ty| ty.is_sized()) else { continue };
        // Several of that type are seldom asked for, and not here.
        if alloca.operand(0).and_then(Value::constant_signed) != Some(1) {
            continue;
        }
        for load in loads_beyond(alloca, layout.size(ty), layout) {
            let value: Value = *load;
            edit.replace_in(&value.users(), value, edit.null(value.ty()));
        }
    }
}

/// Whether a type is of those that all have a zero.
fn has_zero(ty: Type) -> bool {
    const KINDS: [LLVMTypeKind; 6] = [
        LLVMIntegerTypeKind,
        LLVMHalfTypeKind,
        LLVMFloatTypeKind,
        LLVMDoubleTypeKind,
        LLVMPointerTypeKind,
        LLVMVectorTypeKind,
    ];
    KINDS.contains(&ty.kind())
}

/// The loads at constant places that no byte of these `size` is at.
fn loads_beyond<'m>(alloca: Instruction<'m>, size: u64, layout: Layout<'m>) -> Vec<Instruction<'m>> {
    let (mut found, mut places) = (Vec::new(), vec![(*alloca, 0_i64)]);
    while let Some((pointer, offset)) = places.pop() {
        for user in pointer.users() {
            match user.operation() {
                Some(LLVMOpcode::LLVMLoad) if has_zero(user.ty()) => {
                    let ends_in_front = i64::try_from(layout.size(user.ty())).is_ok_and(|len| offset <= -len);
                    if ends_in_front || u64::try_from(offset).is_ok_and(|offset| offset >= size) {
                        found.extend(user.as_instruction());
                    }
                }
                Some(LLVMOpcode::LLVMGetElementPtr) if user.operand(0) == Some(pointer) => {
                    let place = layout.constant_offset(user).and_then(|by| offset.checked_add(by));
                    places.extend(place.map(|place| (user, place)));
                }
                _ => {}
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use crate::front::cleanup::tests::cleaned;

    /// Sums the elements from one place up to another of an array of three, which a loop fills.
    fn kernel(from: i32, to: u32) -> String {
        format!(
            "define void @spirula.kernel.k(ptr addrspace(1) %p) {{
              %a = alloca [3 x [1 x float]]\n br label %b
            b:\n %i = phi i64 [ 0, %0 ], [ %j, %b ]\n %q = getelementptr float, ptr addrspace(1) %p, i64 %i
              %x = load float, ptr addrspace(1) %q\n %to = getelementptr inbounds [3 x [1 x float]], ptr %a, i64 0, i64 %i, i64 0
              store float %x, ptr %to\n %j = add nuw i64 %i, 1\n %c = icmp ult i64 %j, 3\n br i1 %c, label %b, label %t
            t:\n %k = phi i64 [ {from}, %b ], [ %l, %t ]\n %sum = phi float [ 1.0, %b ], [ %next, %t ]
              %row = getelementptr inbounds [3 x [1 x float]], ptr %a, i64 0, i64 %k
              %from = getelementptr inbounds [1 x float], ptr %row, i64 0, i64 0\n %y = load float, ptr %from
              %next = fadd float %sum, %y\n %l = add i64 %k, 1\n %d = icmp ult i64 %l, {to}
              br i1 %d, label %t, label %e
            e:\n store float %next, ptr addrspace(1) %p\n ret void\n}}"
        )
    }

    #[test]
    fn an_element_too_much_is_zero() {
        let text = cleaned(&kernel(0, 3), true);
        assert!(!text.contains("alloca") && text.matches("fadd").count() == 3, "{text}");
        for (from, to) in [(0, 4), (-1, 3)] {
            let text = cleaned(&kernel(from, to), true);
            assert!(text.contains("store float") && text.matches("load float").count() == 3, "{text}");
            assert!(
                !text.contains("alloca") && !text.contains("poison") && !text.contains("undef"),
                "{text}"
            );
        }
    }
}
