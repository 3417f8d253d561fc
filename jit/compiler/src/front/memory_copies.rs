//! Clean-up: copies of memory that lead through a variable, or back to where they came from. A structure that is loaded whole, changed in
//! one member and stored whole is a copy of the members between to a variable and back: the members become values, the rest stays
//! memory. (Particles of 6 kB, of which a kernel changes the force, took fourteen times as long.)

use crate::llvm::{self, Function, LlvmError, Module};
use inkwell::targets::TargetMachine;

const FORWARD: &str = "function(memcpyopt)";

/// While it runs, stores in a row are to stay: as one `memset` they would be a work-item's own, and no pack's.
const NO_NEW_FILLS: &str = "no-builtin-memset";

/// Forwards copies, if there are some. What nobody reads behind it is left for the passes that follow.
pub(super) fn forward(module: &mut Module, machine: &TargetMachine) -> Result<(), LlvmError> {
    if !module.view().defined_functions().into_iter().any(copies) {
        return Ok(());
    }
    module.edit(|edit| {
        for function in edit.defined_functions() {
            edit.add_string_attribute(function, NO_NEW_FILLS, "");
        }
    });
    llvm::run_passes(module, FORWARD, machine)?;
    module.edit(|edit| {
        for function in edit.defined_functions() {
            edit.drop_string_attribute(function, NO_NEW_FILLS);
        }
    });
    Ok(())
}

fn copies(function: Function) -> bool {
    let callees = function.instructions().into_iter().filter_map(|inst| inst.called_function());
    callees.map(|callee| callee.name()).any(|name| name.starts_with("llvm.memcpy."))
}

#[cfg(test)]
mod tests {
    use crate::front::cleanup::tests::cleaned;

    /// A kernel that loads a structure, changes its first member and stores it to `%to`.
    fn changed(before: &str, to: &str) -> String {
        format!(
            "define void @spirula.kernel.k(ptr addrspace(1) %p, ptr addrspace(1) %r) {{
             %s = alloca {{ i32, [100 x i32] }}
             call void @llvm.memcpy.p0.p1.i64(ptr %s, ptr addrspace(1) %p, i64 404, i1 false)
             %x = load i32, ptr %s\n %y = add i32 %x, 1\n store i32 %y, ptr %s\n {before}
             call void @llvm.memcpy.p1.p0.i64(ptr addrspace(1) {to}, ptr %s, i64 404, i1 false)\n ret void\n}}
            declare void @llvm.memcpy.p0.p1.i64(ptr, ptr addrspace(1), i64, i1)
            declare void @llvm.memcpy.p1.p0.i64(ptr addrspace(1), ptr, i64, i1)"
        )
    }

    #[test]
    fn what_is_stored_where_it_came_from_stays_there() {
        let text = cleaned(&changed("", "%p"), true);
        assert!(!text.contains("call void @llvm.memcpy") && !text.contains("alloca"), "{text}");
        assert_eq!(text.matches("store i32").count(), 1, "{text}");
    }

    #[test]
    fn what_was_changed_meanwhile_is_copied() {
        // %r may be %p.
        let text = cleaned(&changed("store i32 7, ptr addrspace(1) %r", "%p"), true);
        assert_eq!(text.matches("call void @llvm.memcpy").count(), 2, "{text}");
    }

    #[test]
    fn stores_in_a_row_stay_stores() {
        let stores: String = (0..8)
            .map(|i| {
                format!("%f{i} = getelementptr i32, ptr addrspace(1) %r, i64 {i}\n store i32 0, ptr addrspace(1) %f{i}\n ")
            })
            .collect();
        let text = cleaned(&changed(&stores, "%p"), true);
        assert!(!text.contains("memset") && !text.contains("no-builtin"), "{text}");
        assert_eq!(text.matches("store i32 0").count(), 8, "{text}");
    }
}
