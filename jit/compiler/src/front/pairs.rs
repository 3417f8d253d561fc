//! Clean-up: whether programs ask for both functions that the library has one for, as sine and cosine of the same number, is answered: each
//! alone is quicker by a function of its own (`builtin::emit`). The program's functions are inlined by then, and calls that compute the same
//! are one.

use crate::builtin::emit::ASKS_FOR_BOTH;
use crate::llvm::{Edit, Instruction, Module, Value};
use inkwell::llvm_sys::LLVMOpcode::{LLVMExtractValue, LLVMSelect};
use std::collections::HashSet;

/// Whether anything asks.
pub(super) fn are_asked_for(module: &Module) -> bool {
    module.view().functions().into_iter().any(|function| function.name().starts_with(ASKS_FOR_BOTH))
}

/// Answers all that ask: of selections by one question each chooses one of the two from the pair.
pub(super) fn answer(edit: Edit) {
    let questions =
        edit.functions().into_iter().filter(|function| function.name().starts_with(ASKS_FOR_BOTH));
    let questions: Vec<Instruction> =
        questions.flat_map(|function| function.users()).filter_map(Value::as_instruction).collect();
    for question in questions {
        let users = question.users().into_iter().filter_map(Value::as_instruction);
        let selections: Vec<Instruction> = users.filter(|user| user.opcode() == LLVMSelect).collect();
        let parts: HashSet<Value> =
            selections.iter().filter_map(|selection| part_of_pair(*selection)).collect();
        for selection in selections {
            let chosen = selection.operand(if parts.len() > 1 { 1 } else { 2 });
            chosen.iter().for_each(|&value| edit.replace_in(&selection.users(), *selection, value));
            edit.erase_instruction(selection);
        }
        edit.erase_instruction(question);
    }
}

/// What a selection takes from the pair.
fn part_of_pair(selection: Instruction) -> Option<Value> {
    selection
        .operand(1)
        .filter(|value| value.as_instruction().is_some_and(|inst| inst.opcode() == LLVMExtractValue))
}

#[cfg(test)]
mod tests {
    use crate::front::cleanup::Effort;
    use crate::front::cleanup::tests::{cleaned, cleaned_by};

    /// A kernel that stores the sine of %x and, of %x or %y, the cosine, each in a function of its own.
    fn kernel(of_cosine: &str) -> String {
        let function = |name: &str, part: u32| {
            format!(
                "define internal double @{name}(double %x) alwaysinline {{
                 %q = call i1 @spirula.asks_for_both.f64(double %x)\n %p = call {{ double, double }} @spirula_sincos_f64(double %x)
                 %s = extractvalue {{ double, double }} %p, {part}\n %a = call double @spirula_{name}_f64(double %x)
                 %r = select i1 %q, double %s, double %a\n ret double %r\n}}\n"
            )
        };
        let alone = |name: &str, op: &str| {
            format!(
                "define internal double @spirula_{name}_f64(double %x) noinline memory(none) nounwind willreturn {{
                 %r = {op} double %x, %x\n ret double %r\n}}\n"
            )
        };
        format!(
            "declare i1 @spirula.asks_for_both.f64(double) memory(none) nounwind willreturn
            define internal {{ double, double }} @spirula_sincos_f64(double %x) noinline memory(none) nounwind willreturn {{
             %r = insertvalue {{ double, double }} zeroinitializer, double %x, 1\n ret {{ double, double }} %r\n}}
            {}{}{}{}define void @spirula.kernel.k(ptr addrspace(1) %p, double %x, double %y) {{
             %a = call double @sin(double %x)\n store double %a, ptr addrspace(1) %p
             %b = call double @cos(double {of_cosine})\n %q = getelementptr double, ptr addrspace(1) %p, i64 1
             store double %b, ptr addrspace(1) %q\n ret void\n}}",
            alone("sin", "fmul"),
            alone("cos", "fdiv"),
            function("sin", 0),
            function("cos", 1)
        )
    }

    /// How often the kernel calls the pair's function, the sine's and the cosine's.
    fn calls(text: &str) -> [usize; 3] {
        let kernel = text.split("@spirula.kernel.k").nth(1).unwrap().to_owned();
        ["@spirula_sincos_f64", "@spirula_sin_f64", "@spirula_cos_f64"]
            .map(|name| kernel.matches(name).count())
    }

    #[test]
    fn both_of_one_number_come_from_one_call() {
        assert_eq!(calls(&cleaned(&kernel("%x"), true)), [1, 0, 0]);
        assert_eq!(calls(&cleaned(&kernel("%y"), true)), [0, 1, 1]);
        for effort in [Effort::Least, Effort::Checked(spirula_interface::check::Checks::NAN)] {
            let (text, _) = cleaned_by(&kernel("%y"), effort);
            assert!(!text.contains("call i1 @spirula.asks"), "{text}");
        }
    }

    /// The same with the cosine in a function of its own, which begins with so many loads.
    fn in_function(attributes: &str, loads: usize) -> String {
        let loads: String =
            (0..loads).map(|i| format!("%l{i} = load volatile i32, ptr addrspace(1) %p\n ")).collect();
        let function = format!(
            "define internal double @own(ptr addrspace(1) %p, double %x) {attributes} {{
             {loads}%b = call double @cos(double %x)\n ret double %b\n}}\ndefine void @spirula.kernel.k"
        );
        let text = kernel("%x").replace("define void @spirula.kernel.k", &function);
        let (before, kernel) = text.rsplit_once("@spirula.kernel.k").unwrap();
        let kernel =
            kernel.replace("call double @cos(double", "call double @own(ptr addrspace(1) %p, double");
        format!("{before}@spirula.kernel.k{kernel}")
    }

    #[test]
    fn what_asks_stays_a_call_where_it_is_to() {
        assert!(cleaned(&in_function("noinline", 0), true).contains("call double @own("));
    }

    #[test]
    fn quick_code_gets_the_same_answers() {
        for effort in [Effort::Quick, Effort::Full] {
            assert_eq!(calls(&cleaned_by(&in_function("", 2_100), effort).0), [1, 0, 0], "{effort:?}");
        }
    }
}
