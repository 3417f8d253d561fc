//! Memory orders: SPIR 2.0 numbers them one way (table 9), today's clang as C11 compilers do, and both call them
//! `memory_order`. Before modules of different producers are joined, the names of the builtins that take one say which.

use crate::builtin::{C11_ORDER, SPIR_ORDER};
use crate::llvm::{Function, Module, View};

/// How either producer mangles the type.
const MANGLED: &str = "12memory_order";

/// Names each declared atomic function for its module's way of numbering. Modules that this was done to stay as they are.
pub(crate) fn tell_apart(module: &mut Module) {
    let order = if is_of_clang(module.view()) { C11_ORDER } else { SPIR_ORDER };
    let mangled = format!("{}{order}", order.len());
    module.edit(|edit| {
        for function in edit.functions().into_iter().filter(takes_order) {
            edit.set_name(*function, &function.name().replace(MANGLED, &mangled));
        }
    });
}

fn takes_order(function: &Function) -> bool {
    let name = function.name();
    function.is_declaration() && name.contains(MANGLED) && name.starts_with("_Z") && name.contains("atomic_")
}

/// Whether a module comes from clang 3.9 or newer: then an address space stands before other qualifiers in mangled names, and
/// kernels aren't listed.
fn is_of_clang(module: View) -> bool {
    let names: Vec<String> = module.functions().into_iter().map(|function| function.name()).collect();
    let any = |ways: &[&str]| names.iter().any(|name| ways.iter().any(|way| name.contains(way)));
    if any(&["VU3AS", "KU3AS"]) {
        return false;
    }
    let spaces = ["U3AS1", "U3AS2", "U3AS3", "U3AS4"];
    let clang: Vec<String> =
        spaces.iter().flat_map(|space| ["V", "K"].map(|q| format!("{space}{q}"))).collect();
    let clang: Vec<&str> = clang.iter().map(String::as_str).collect();
    any(&clang) || module.named_metadata(c"opencl.kernels").is_empty()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::testing;
    use crate::llvm::{self, Session};

    fn told(text: &str) -> String {
        let session = Session::new();
        let mut module = testing::module(&session, text);
        tell_apart(&mut module);
        let once = llvm::print_text(&module);
        tell_apart(&mut module);
        assert_eq!(llvm::print_text(&module), once, "once is enough");
        once
    }

    #[test]
    fn names_say_whose_numbers_they_take() {
        let fence = "declare void @_Z22atomic_work_item_fencej12memory_order12memory_scope(i32, i32, i32)";
        let load = |pointer: &str| {
            format!(
                "{fence}\ndeclare i32 @_Z20atomic_load_explicit{pointer}U7_Atomici12memory_order(ptr addrspace(4), i32)"
            )
        };
        let spir = told(&load("PVU3AS4"));
        assert!(spir.contains("fencej17spir_memory_order12memory_scope("), "{spir}");
        assert!(spir.contains("Atomici17spir_memory_order("), "{spir}");
        let clang = told(&load("PU3AS4V"));
        assert!(clang.contains("fencej16c11_memory_order12memory_scope("), "{clang}");
        let listed = "define spir_kernel void @k() {\n ret void\n}\n!opencl.kernels = !{!0}\n!0 = !{ptr @k}";
        assert!(told(&format!("{fence}\n{listed}")).contains("17spir_memory_order"));
        assert!(told(fence).contains("16c11_memory_order"));
    }
}
