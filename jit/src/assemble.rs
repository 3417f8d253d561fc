//! Linked LLVM IR and the work-group functions' text become one module: what the kernels still call and name is made
//! visible to the text, the kernels themselves make way for it.

use crate::llvm::{self, LlvmError, Session};
use inkwell::module::{Linkage, Module};
use inkwell::values::FunctionValue;

/// Gives every function and variable that a work-group function may refer to a plain name and external linkage. Comes
/// before the import, which takes the names.
pub(crate) fn expose(module: &Module) {
    for (number, function) in defined_functions(module).enumerate() {
        if !is_plain(function.get_name().to_bytes()) {
            function.as_global_value().set_name(&format!("spirula.function.{number}"));
        }
        function.set_linkage(Linkage::External);
    }
    let variables = module.get_globals().filter(|global| global.get_initializer().is_some());
    for (number, variable) in variables.enumerate() {
        if !is_plain(variable.get_name().to_bytes()) {
            variable.set_name(&format!("spirula.variable.{number}"));
        }
        variable.set_linkage(Linkage::External);
    }
}

/// Whether a name can stand in text as it is. Those of SPIR modules may be any bytes, or none.
fn is_plain(name: &[u8]) -> bool {
    !name.is_empty() && name.iter().all(|byte| byte.is_ascii_alphanumeric() || b"_.$-".contains(byte))
}

fn defined_functions<'m>(module: &Module<'m>) -> impl Iterator<Item = FunctionValue<'m>> {
    module.get_functions().filter(|function| function.count_basic_blocks() > 0)
}

/// Replaces the functions called `kernels` by the functions that the texts define.
pub(crate) fn assemble<'s>(
    session: &'s Session,
    module: &Module<'s>,
    kernels: &[String],
    texts: impl Iterator<Item = String>,
) -> Result<(), LlvmError> {
    for function in kernels.iter().filter_map(|name| module.get_function(name)) {
        let value = function.as_global_value().as_pointer_value();
        // Calls of kernels are inlined by now; what could be left is dead.
        value.replace_all_uses_with(value.get_type().const_null());
        // SAFETY: nothing uses it any more, and the handle is not used again.
        unsafe { function.delete() };
    }
    for text in texts {
        let text = llvm::parse_text(session, &text)?;
        text.set_data_layout(&module.get_data_layout());
        text.set_triple(&module.get_triple());
        llvm::link_in(session, module, text)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const LINKED: &str = r#"
@0 = private constant [2 x i32] [i32 5, i32 6]
@"odd \22 name" = internal global i32 0
define internal i32 @helper(i32 %x) {
  ret i32 %x
}
define void @spirula.kernel.k() {
  call i32 @helper(i32 1)
  ret void
}
"#;

    #[test]
    fn names_become_plain_and_visible() {
        let session = Session::new();
        let module = llvm::parse_text(&session, LINKED).unwrap();
        expose(&module);
        let text = llvm::print_text(&module);
        for expected in [
            "@spirula.variable.0 = constant",
            "@spirula.variable.1 = global i32",
            "define i32 @helper",
            "define void @spirula.kernel.k",
        ] {
            assert!(text.contains(expected), "{expected} in\n{text}");
        }
    }

    #[test]
    fn kernels_make_way_for_work_group_functions() {
        let session = Session::new();
        let module = llvm::parse_text(&session, LINKED).unwrap();
        expose(&module);
        let text = "@spirula.variable.0 = external global i8\n\
                    declare i32 @helper(i32)\n\
                    define i32 @group() {\n %x = load i32, ptr @spirula.variable.0\n \
                    %y = call i32 @helper(i32 %x)\n ret i32 %y\n}\n";
        assemble(&session, &module, &["spirula.kernel.k".into()], [text.to_owned()].into_iter()).unwrap();
        let text = llvm::print_text(&module);
        assert!(!text.contains("spirula.kernel.k"), "{text}");
        assert!(text.contains("define i32 @group") && text.contains("constant [2 x i32]"), "{text}");
        assert!(llvm::verify(&module).is_ok());
    }
}
