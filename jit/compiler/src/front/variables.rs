//! Built-in variables of SPIR-V where they are globals: `@__spirv_BuiltInGlobalInvocationId`. What loads from one calls a function
//! instead that asks for its components, as the same document's other form does.

use super::import::place_in_variable;
use crate::builtin::spirv::components;
use crate::llvm::{self, Global, Instruction, Module, Session, Type, View};
use inkwell::llvm_sys::{LLVMLinkage, LLVMOpcode};
use spirula_interface::options::CompileError;
use std::collections::BTreeMap;

/// What their names begin with.
const PREFIX: &str = "__spirv_BuiltIn";

/// A load from a variable: its name without the prefix, the component where it begins, and the type that is loaded.
struct Load<'m> {
    instruction: Instruction<'m>,
    name: String,
    component: u64,
    ty: Type<'m>,
}

impl Load<'_> {
    /// The name of the function that takes its place.
    fn symbol(&self) -> String {
        let lanes = if self.ty.is_vector() { self.ty.element_count() } else { 1 };
        format!("spirv.load.{}.{}.{}.{lanes}", self.name, self.component, self.ty.scalar().integer_width())
    }

    /// That function.
    fn definition(&self, all: usize) -> String {
        let (ty, lane) = (self.ty.to_string(), self.ty.scalar().to_string());
        let name = format!("{PREFIX}{}", self.name);
        let mut text = format!("define {ty} @\"{}\"() alwaysinline {{\n", self.symbol());
        let symbol = format!("_Z{}{name}{}", name.len(), if all == 1 { "v" } else { "i" });
        let argument = |index: u64| if all == 1 { String::new() } else { format!("i32 {index}") };
        if !self.ty.is_vector() {
            text += &format!(
                "  %v = call spir_func {ty} @{symbol}({})\n  ret {ty} %v\n}}\n",
                argument(self.component)
            );
        } else {
            let mut whole = "poison".to_string();
            for lane_index in 0..self.ty.element_count() {
                let from = argument(self.component + lane_index);
                text += &format!("  %p{lane_index} = call spir_func {lane} @{symbol}({from})\n");
                text += &format!(
                    "  %w{lane_index} = insertelement {ty} {whole}, {lane} %p{lane_index}, i32 {lane_index}\n"
                );
                whole = format!("%w{lane_index}");
            }
            text += &format!("  ret {ty} {whole}\n}}\n");
        }
        text + &format!("declare spir_func {lane} @{symbol}({})\n", if all == 1 { "" } else { "i32" })
    }
}

/// Whether a variable is a built-in one.
pub(crate) fn is_one(variable: Global) -> bool {
    variable.name().starts_with(PREFIX)
}

/// Replaces the loads. Whatever else is done with such a variable leaves it undefined, which is said by its name when the
/// program is linked.
pub(crate) fn replace<'s>(session: &'s Session, module: &mut Module<'s>) -> Result<(), CompileError> {
    if !module.view().globals().into_iter().any(is_one) {
        return Ok(());
    }
    let mut functions = BTreeMap::new();
    for load in loads(module.view()) {
        functions.insert(load.symbol(), load.definition(components(&load.name)));
    }
    for text in functions.values() {
        let (layout, triple) = (module.view().data_layout(), module.view().triple());
        let header = format!("target datalayout = {layout:?}\ntarget triple = {triple:?}\n");
        let wrong = |error: llvm::LlvmError| {
            CompileError::Failed(format!("error: the built-in variables can't be replaced: {error}\n"))
        };
        let source = llvm::parse_text(session, &(header + text)).map_err(wrong)?;
        llvm::link_in(session, module, source).map_err(wrong)?;
    }
    module.edit(|edit| {
        for load in loads(*edit) {
            let Some(function) = edit.function_named(&load.symbol()) else { continue };
            let call = edit.before(load.instruction).call(function, &[]);
            edit.replace_in(&load.instruction.users(), *load.instruction, call);
            edit.erase_instruction(load.instruction);
        }
        for function in functions.keys().filter_map(|name| edit.function_named(name)) {
            edit.set_linkage(*function, LLVMLinkage::LLVMInternalLinkage);
        }
        for global in edit.globals().into_iter().filter(|global| is_one(*global)) {
            edit.erase_global(global);
        }
    });
    Ok(())
}

/// The loads that are of whole components.
fn loads<'m>(module: View<'m>) -> Vec<Load<'m>> {
    let layout = module.layout();
    let instructions = module.defined_functions().into_iter().flat_map(|function| function.instructions());
    let load = |instruction: Instruction<'m>| {
        if instruction.opcode() != LLVMOpcode::LLVMLoad {
            return None;
        }
        let (base, offset) = place_in_variable(instruction.operand(0)?, layout)?;
        let name = base.as_global()?.name().strip_prefix(PREFIX)?.to_string();
        let ty = instruction.ty();
        let bytes = u64::from(ty.scalar().integer_width()) / 8;
        let offset = u64::try_from(offset).ok()?;
        let lanes = if ty.is_vector() { ty.element_count() } else { 1 };
        let component = offset.checked_div(bytes)?;
        let is_whole = offset.is_multiple_of(bytes) && component + lanes <= components(&name) as u64;
        is_whole.then_some(Load { instruction, name, component, ty })
    };
    instructions.filter_map(load).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::front::testing;
    use crate::llvm::print_text;

    fn replaced(text: &str) -> String {
        let session = Session::new();
        let mut module = testing::module(&session, text);
        replace(&session, &mut module).unwrap();
        llvm::verify(&module).unwrap();
        print_text(&module)
    }

    const VARIABLES: &str =
        "@__spirv_BuiltInGlobalInvocationId = external addrspace(1) constant <3 x i64>, align 32
        @__spirv_BuiltInSubgroupSize = external addrspace(1) constant i32
        @__spirv_BuiltInFragCoord = external addrspace(1) constant <4 x i32>\n";

    #[test]
    fn loads_of_all_kinds_become_calls() {
        let text = replaced(&format!(
            "{VARIABLES}define spir_func i64 @f() {{
             %all = load <3 x i64>, ptr addrspace(1) @__spirv_BuiltInGlobalInvocationId
             %x = extractelement <3 x i64> %all, i32 0
             %y = load i64, ptr addrspace(1) getelementptr (i8, ptr addrspace(1) @__spirv_BuiltInGlobalInvocationId, i64 8)
             %z = load i64, ptr addrspace(4) getelementptr (i64, ptr addrspace(4) addrspacecast (ptr addrspace(1) @__spirv_BuiltInGlobalInvocationId to ptr addrspace(4)), i64 2)
             %size = load i32, ptr addrspace(1) @__spirv_BuiltInSubgroupSize
             %wide = zext i32 %size to i64\n %a = add i64 %x, %y\n %b = add i64 %z, %wide\n %c = add i64 %a, %b\n ret i64 %c\n}}"
        ));
        for call in ["Idi(i32 0)", "Idi(i32 1)", "Idi(i32 2)", "_Z27__spirv_BuiltInSubgroupSizev()"] {
            assert!(text.contains(call), "{call}: {text}");
        }
        assert!(!text.contains(" load "), "{text}");
    }

    #[test]
    fn what_is_no_such_load_stays() {
        let text = replaced(&format!(
            "{VARIABLES}define spir_func i64 @f(ptr %p) {{
             store ptr addrspace(1) @__spirv_BuiltInGlobalInvocationId, ptr %p
             %beyond = load i64, ptr addrspace(1) getelementptr (i8, ptr addrspace(1) @__spirv_BuiltInGlobalInvocationId, i64 24)
             %other = load <4 x i32>, ptr addrspace(1) @__spirv_BuiltInFragCoord\n ret i64 %beyond\n}}"
        ));
        assert_eq!(text.matches(" load ").count(), 2, "{text}");
    }
}
