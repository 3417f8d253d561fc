//! Clean-up: calls of the library for each element of a vector, as a sine of a `float8` is eight, stay calls: where work-items run one by one
//! Kernel IR makes one of them, in lanes (widening's `element_calls`). Inlined they would be eight branches to what is rare, and eight
//! times the code.

use super::cleanup::is_of_values;
use super::inlining::Sizes;
use crate::llvm::attribute::Attribute;
use crate::llvm::{Call, Edit, Function, Instruction, Layout, Value};
use inkwell::llvm_sys::LLVMOpcode;
use std::collections::{HashMap, HashSet};

/// Smaller functions, by instructions, are inlined: LLVM makes vectors of them.
const LEAST_SIZE: usize = 8;
/// Shorter vectors, in bits, are not worth a call in lanes.
const LEAST_BITS: u64 = 96;

/// What calls for all elements of a vector are given.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
enum Argument<'m> {
    Same(Value<'m>),
    ElementOf(Value<'m>),
}

/// Marks such calls in all functions, which have their library's functions as calls yet.
pub(super) fn keep(edit: Edit) {
    // Where memory is linear nothing is called in lanes.
    if edit.layout().pointer_bytes(0) < 8 {
        return;
    }
    let mut sizes = Sizes::default();
    for function in edit.defined_functions() {
        for call in wanted(edit, function, &mut sizes) {
            edit.add_attributes(call, &[Attribute::NoInline]);
        }
    }
}

fn wanted<'m>(edit: Edit<'m>, function: Function<'m>, sizes: &mut Sizes<'m>) -> Vec<Call<'m>> {
    let mut found = Vec::new();
    for block in function.blocks() {
        let mut groups: HashMap<Called, Vec<(Call, u64)>> = HashMap::new();
        for inst in block.instructions() {
            let Some((call, called, element)) = element_call(inst) else { continue };
            groups.entry(called).or_default().push((call, element));
        }
        for ((callee, arguments), calls) in groups {
            if is_whole(edit.layout(), &arguments, &calls) && sizes.of(callee) >= LEAST_SIZE {
                found.extend(calls.into_iter().map(|(call, _)| call));
            }
        }
    }
    found
}

/// What is called for elements, and with what.
type Called<'m> = (Function<'m>, Vec<Argument<'m>>);

/// A call of the library that is given elements of vectors, and of which number all of them are.
fn element_call<'m>(inst: Instruction<'m>) -> Option<(Call<'m>, Called<'m>, u64)> {
    let call = inst.as_call()?;
    let callee = call.called_function().filter(|callee| !callee.is_declaration() && is_of_values(*callee))?;
    let mut element = None;
    let mut argument = |value: Value<'m>| {
        let extract = value.as_instruction().filter(|inst| inst.opcode() == LLVMOpcode::LLVMExtractElement);
        let Some(extract) = extract else { return Some(Argument::Same(value)) };
        let index = extract.operand(1)?.constant_bits()?;
        (*element.get_or_insert(index) == index).then_some(Argument::ElementOf(extract.operand(0)?))
    };
    let arguments = call.arguments().into_iter().map(&mut argument).collect::<Option<Vec<_>>>()?;
    Some((call, (callee, arguments), element?))
}

/// Whether they are for all elements of vectors of one length.
fn is_whole<'m>(layout: Layout<'m>, arguments: &[Argument<'m>], calls: &[(Call<'m>, u64)]) -> bool {
    let mut vectors = arguments.iter().filter_map(|argument| match argument {
        Argument::ElementOf(vector) => Some(vector.ty()),
        Argument::Same(_) => None,
    });
    let Some(first) = vectors.next() else { return false };
    let length = first.element_count();
    let elements: HashSet<u64> = calls.iter().map(|&(_, element)| element).collect();
    vectors.all(|ty| ty.element_count() == length)
        && (0..length).all(|element| elements.contains(&element))
        && length * 8 * layout.size(first.scalar()) >= LEAST_BITS
}

#[cfg(test)]
mod tests {
    use crate::front::cleanup::tests::cleaned;

    /// The calls that are left of a kernel that calls a function of the library for these elements of a vector of so many.
    fn left(elements: &[u32], length: u32, second: &str, body: &str) -> usize {
        let calls: String = elements
            .iter()
            .map(|i| {
                format!(
                    "%x{i} = extractelement <{length} x float> %v, i64 {i}\n %r{i} = call float @spirula_test_f32(float %x{i}, float {second})
                     %q{i} = getelementptr float, ptr addrspace(1) %p, i64 {i}\n store float %r{i}, ptr addrspace(1) %q{i}\n "
                )
            })
            .collect();
        let text = format!(
            "define linkonce_odr float @spirula_test_f32(float %x, float %y) nounwind willreturn memory(none) {{
             {body} ret float %z9\n}}
            define void @spirula.kernel.k(ptr addrspace(1) %p, float %y) {{
             %v = load <{length} x float>, ptr addrspace(1) %p\n %w = extractelement <{length} x float> %v, i64 0\n {calls} ret void\n}}"
        );
        cleaned(&text, true).matches("call float @spirula_test_f32").count()
    }

    fn long() -> String {
        (0..9)
            .map(|i| {
                format!(
                    "%z{} = fdiv float %{}, %y\n ",
                    i + 1,
                    if i == 0 { "x".into() } else { format!("z{i}") }
                )
            })
            .collect()
    }

    #[test]
    fn calls_for_all_elements_stay() {
        assert_eq!(left(&[0, 1, 2, 3], 4, "%y", &long()), 4);
        assert_eq!(left(&[2, 1, 0], 3, "2.0", &long()), 3);
    }

    #[test]
    fn others_are_inlined() {
        assert_eq!(left(&[0, 1, 3], 4, "%y", &long()), 0, "an element is missing");
        assert_eq!(left(&[0, 1], 2, "%y", &long()), 0, "a short vector");
        assert_eq!(left(&[0, 1, 2, 3], 4, "%w", &long()), 0, "not the element of the same number");
        assert_eq!(left(&[0, 1, 2, 3], 4, "%y", "%z9 = fdiv float %x, %y\n "), 0, "a small function");
    }
}
