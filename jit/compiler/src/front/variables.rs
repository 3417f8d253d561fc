//! Built-in variables of SPIR-V in LLVM IR. Where they are globals, `@__spirv_BuiltInGlobalInvocationId`, what loads from one calls a
//! function instead that asks for its components, as the same document's other form does. In both forms translators make
//! `get_global_size(n)` the element n of the whole vector, which in LLVM has no value beyond the third; OpenCL's has one for every n, so
//! such an element is asked for by its number.

use super::import::place_in_variable;
use crate::builtin::spirv::components;
use crate::llvm::{self, Function, Global, Instruction, Module, Session, Type, Value, View};
use inkwell::llvm_sys::{LLVMLinkage, LLVMOpcode};
use spirula_interface::options::CompileError;
use std::collections::BTreeMap;

/// What their names begin with.
const PREFIX: &str = "__spirv_BuiltIn";

/// No variable has more components.
const MOST: u64 = 4;

/// An instruction that yields a part of a variable: the variable's name without the prefix, and which part.
struct Access<'m> {
    instruction: Instruction<'m>,
    name: String,
    part: Part<'m>,
}

#[derive(Clone, Copy)]
enum Part<'m> {
    /// As many components as the instruction's type has, from this one on.
    From(u64),
    /// The component of a number that is computed.
    Numbered(Value<'m>),
}

impl<'m> Access<'m> {
    fn ty(&self) -> Type<'m> {
        self.instruction.ty()
    }

    /// The name of the function that takes its place.
    fn symbol(&self) -> String {
        let (name, bits) = (&self.name, self.ty().scalar().integer_width());
        match self.part {
            Part::From(component) => {
                let lanes = if self.ty().is_vector() { self.ty().element_count() } else { 1 };
                format!("spirv.load.{name}.{component}.{bits}.{lanes}")
            }
            Part::Numbered(number) => {
                format!("spirv.component.{name}.{bits}.{}", number.ty().integer_width())
            }
        }
    }

    /// That function's arguments.
    fn arguments(&self) -> Vec<Value<'m>> {
        match self.part {
            Part::From(_) => Vec::new(),
            Part::Numbered(number) => vec![number],
        }
    }

    /// That function.
    fn definition(&self) -> String {
        let (ty, lane, all) = (self.ty().to_string(), self.ty().scalar().to_string(), components(&self.name));
        let name = format!("{PREFIX}{}", self.name);
        let symbol = format!("_Z{}{name}{}", name.len(), if all == 1 { "v" } else { "i" });
        let argument = |index: u64| if all == 1 { String::new() } else { format!("i32 {index}") };
        let (mut parameter, mut text) = (String::new(), String::new());
        match self.part {
            Part::From(component) if !self.ty().is_vector() => {
                let from = argument(component);
                text += &format!("  %v = call spir_func {ty} @{symbol}({from})\n  ret {ty} %v\n}}\n");
            }
            Part::From(component) => {
                let mut whole = "poison".to_string();
                for lane_index in 0..self.ty().element_count() {
                    let from = argument(component + lane_index);
                    text += &format!("  %p{lane_index} = call spir_func {lane} @{symbol}({from})\n");
                    text += &format!(
                        "  %w{lane_index} = insertelement {ty} {whole}, {lane} %p{lane_index}, i32 {lane_index}\n"
                    );
                    whole = format!("%w{lane_index}");
                }
                text += &format!("  ret {ty} {whole}\n}}\n");
            }
            Part::Numbered(number) => {
                parameter = format!("{} %n", number.ty());
                let index = match number.ty().integer_width() {
                    32 => "%k = freeze i32 %n".to_string(),
                    bits if bits > 32 => format!("%k = trunc {} %n to i32", number.ty()),
                    _ => format!("%k = zext {} %n to i32", number.ty()),
                };
                text +=
                    &format!("  {index}\n  %v = call spir_func {ty} @{symbol}(i32 %k)\n  ret {ty} %v\n}}\n");
            }
        }
        format!("define {ty} @\"{}\"({parameter}) alwaysinline {{\n{text}", self.symbol())
            + &format!("declare spir_func {lane} @{symbol}({})\n", if all == 1 { "" } else { "i32" })
    }
}

/// Whether a variable is a built-in one.
pub(crate) fn is_one(variable: Global) -> bool {
    variable.name().starts_with(PREFIX)
}

/// Replaces the accesses. Whatever else is done with such a variable leaves it undefined, which is said by its name when the
/// program is linked.
pub(crate) fn replace<'s>(session: &'s Session, module: &mut Module<'s>) -> Result<(), CompileError> {
    let mut functions = BTreeMap::new();
    for access in accesses(module.view()) {
        functions.entry(access.symbol()).or_insert_with(|| access.definition());
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
        for access in accesses(*edit) {
            let Some(function) = edit.function_named(&access.symbol()) else { continue };
            let call = edit.before(access.instruction).call(function, &access.arguments());
            edit.replace_in(&access.instruction.users(), *access.instruction, call);
            edit.erase_instruction(access.instruction);
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

/// What reads from built-in variables: components by their numbers before the loads that they are of.
fn accesses<'m>(module: View<'m>) -> Vec<Access<'m>> {
    let is_there = module.symbols().any(|symbol| symbol.name().contains(PREFIX));
    if !is_there {
        return Vec::new();
    }
    let instructions: Vec<Instruction<'m>> =
        module.defined_functions().into_iter().flat_map(|function| function.instructions()).collect();
    let numbered = instructions.iter().filter_map(|instruction| numbered(module, *instruction));
    let loads = instructions.iter().filter_map(|instruction| load(module, *instruction));
    numbered.chain(loads).collect()
}

/// A load of whole components.
fn load<'m>(module: View<'m>, instruction: Instruction<'m>) -> Option<Access<'m>> {
    if instruction.opcode() != LLVMOpcode::LLVMLoad {
        return None;
    }
    let (base, offset) = place_in_variable(instruction.operand(0)?, module.layout())?;
    let name = base.as_global()?.name().strip_prefix(PREFIX)?.to_string();
    let ty = instruction.ty();
    let bytes = u64::from(ty.scalar().integer_width()) / 8;
    let offset = u64::try_from(offset).ok()?;
    let lanes = if ty.is_vector() { ty.element_count() } else { 1 };
    let component = offset.checked_div(bytes)?;
    let is_whole = offset.is_multiple_of(bytes) && component + lanes <= components(&name) as u64;
    is_whole.then_some(Access { instruction, name, part: Part::From(component) })
}

/// An element of a whole variable, unless its number is known to be one that the vector has.
fn numbered<'m>(module: View<'m>, instruction: Instruction<'m>) -> Option<Access<'m>> {
    if instruction.opcode() != LLVMOpcode::LLVMExtractElement {
        return None;
    }
    let (vector, number) = (instruction.operand(0)?, instruction.operand(1)?);
    let count = vector.ty().element_count();
    if count > MOST || number.constant_bits().is_some_and(|number| number < count) {
        return None;
    }
    let loaded = vector.as_instruction().and_then(|vector| load(module, vector)).map(|access| access.name);
    let name = loaded.or_else(|| joined(vector))?;
    (components(&name) as u64 == count).then_some(Access { instruction, name, part: Part::Numbered(number) })
}

/// The variable whose components stand in a vector, each in its place.
fn joined(vector: Value) -> Option<String> {
    let mut missing: Vec<u64> = (0..vector.ty().element_count()).collect();
    let (mut name, mut rest) = (None, vector);
    while !missing.is_empty() {
        let insertion =
            rest.as_instruction().filter(|rest| rest.opcode() == LLVMOpcode::LLVMInsertElement)?;
        let place = insertion.operand(2)?.constant_bits()?;
        rest = insertion.operand(0)?;
        if !missing.contains(&place) {
            return None;
        }
        missing.retain(|other| *other != place);
        let call = insertion.operand(1)?.as_call()?;
        let asked = variable_of(call.called_function()?)?;
        let [number] = call.arguments()[..] else { return None };
        if number.constant_bits() != Some(place) || name.as_ref().is_some_and(|name| *name != asked) {
            return None;
        }
        name = Some(asked);
    }
    name
}

/// The variable whose components a function yields: `_Z33__spirv_BuiltInGlobalInvocationIdi`.
fn variable_of(function: Function) -> Option<String> {
    let symbol = function.name();
    let digits_and_name = symbol.strip_prefix("_Z")?.strip_suffix('i')?;
    let name = digits_and_name.trim_start_matches(|c: char| c.is_ascii_digit());
    let length = &digits_and_name[..digits_and_name.len() - name.len()];
    (length == name.len().to_string()).then_some(())?;
    Some(name.strip_prefix(PREFIX)?.to_string())
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
    #[test]
    fn elements_with_computed_numbers_are_asked_for_by_number() {
        let text = replaced(&format!(
            "{VARIABLES}declare spir_func i64 @_Z28__spirv_BuiltInWorkgroupSizei(i32)
            define spir_func i64 @f(i32 %n, i64 %m) {{
             %all = load <3 x i64>, ptr addrspace(1) @__spirv_BuiltInGlobalInvocationId
             %id = extractelement <3 x i64> %all, i32 %n
             %far = extractelement <3 x i64> %all, i64 %m
             %x = call spir_func i64 @_Z28__spirv_BuiltInWorkgroupSizei(i32 0)
             %1 = insertelement <3 x i64> undef, i64 %x, i32 0
             %y = call spir_func i64 @_Z28__spirv_BuiltInWorkgroupSizei(i32 1)
             %2 = insertelement <3 x i64> %1, i64 %y, i32 1
             %z = call spir_func i64 @_Z28__spirv_BuiltInWorkgroupSizei(i32 2)
             %3 = insertelement <3 x i64> %2, i64 %z, i32 2
             %size = extractelement <3 x i64> %3, i32 %n
             %beyond = extractelement <3 x i64> %3, i32 3
             %a = add i64 %id, %far\n %b = add i64 %size, %beyond\n %c = add i64 %a, %b\n ret i64 %c\n}}"
        ));
        for part in [
            "@spirv.component.GlobalInvocationId.64.32(i32 %n)",
            "@spirv.component.GlobalInvocationId.64.64(i64 %m)",
            "@spirv.component.WorkgroupSize.64.32(i32 %n)",
            "@spirv.component.WorkgroupSize.64.32(i32 3)",
            "call spir_func i64 @_Z28__spirv_BuiltInWorkgroupSizei(i32 %k)",
        ] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert!(!text.contains("extractelement"), "{text}");
    }

    #[test]
    fn elements_of_other_vectors_stay() {
        let text = replaced(
            "declare spir_func i64 @_Z28__spirv_BuiltInWorkgroupSizei(i32)
            declare spir_func i64 @_Z28__spirv_BuiltInNumWorkgroupsi(i32)
            define spir_func i64 @f(i32 %n, <3 x i64> %other) {
             %x = call spir_func i64 @_Z28__spirv_BuiltInWorkgroupSizei(i32 0)
             %y = call spir_func i64 @_Z28__spirv_BuiltInWorkgroupSizei(i32 1)
             %z = call spir_func i64 @_Z28__spirv_BuiltInWorkgroupSizei(i32 2)
             %p = call spir_func i64 @_Z28__spirv_BuiltInNumWorkgroupsi(i32 2)
             %1 = insertelement <3 x i64> %other, i64 %x, i32 0
             %2 = insertelement <3 x i64> %1, i64 %y, i32 1
             %two = extractelement <3 x i64> %2, i32 %n
             %3 = insertelement <3 x i64> %2, i64 %p, i32 2
             %mixed = extractelement <3 x i64> %3, i32 %n
             %4 = insertelement <3 x i64> %1, i64 %z, i32 1
             %5 = insertelement <3 x i64> %4, i64 %y, i32 2
             %turned = extractelement <3 x i64> %5, i32 %n
             %6 = insertelement <3 x i64> %2, i64 %z, i32 2
             %known = extractelement <3 x i64> %6, i32 2
             %a = add i64 %two, %mixed\n %b = add i64 %turned, %known\n %c = add i64 %a, %b\n ret i64 %c\n}",
        );
        assert_eq!(text.matches("extractelement").count(), 4, "{text}");
        assert!(!text.contains("spirv.component"), "{text}");
    }
}
