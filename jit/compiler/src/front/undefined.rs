//! Variables that nothing has written yet, for kernels in which those are looked for: each is given a value that depends on nothing, where its
//! life begins. What a variable has on some way only then stays apart from what it has on the others, where LLVM would
//! take the one for the other.

use crate::llvm::{Edit, Instruction, Type, Value};

/// Marks the variables that may become values.
pub(super) fn mark(edit: Edit) {
    for function in edit.defined_functions() {
        for alloca in function.instructions() {
            if let Some(ty) = alloca.allocated_type().filter(|ty| is_of_register(*ty)) {
                begin(edit, alloca, ty);
            }
        }
    }
}

fn is_of_register(ty: Type) -> bool {
    ty.is_sized() && ty.element_count() <= if ty.is_vector() { 16 } else { 0 }
}

fn begin<'e>(edit: Edit<'e>, alloca: Instruction<'e>, ty: Type<'e>) {
    let starts = alloca.users().into_iter().filter_map(Value::as_call).filter(|call| {
        call.called_function().is_some_and(|callee| callee.name().starts_with("llvm.lifetime.start"))
    });
    let places: Vec<Instruction> = std::iter::once(alloca).chain(starts.map(|call| *call)).collect();
    for place in places {
        if let Some(builder) = edit.after(place) {
            let nothing = builder.freeze(ty.poison());
            builder.store(nothing, *alloca);
        }
    }
}
