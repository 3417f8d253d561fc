//! Opaque types: today's clang writes images, samplers and events as `target("spirv.…")` types.
//! They become what SPIR has in their place, so that later stages know one form: pointers, and 32 bits for a sampler.

use crate::builtin::spirv::SAMPLED_IMAGE;
use crate::llvm::{self, Module, Session, Type};
use spirula_interface::options::CompileError;

/// How such a type begins in LLVM's text.
const PREFIX: &str = "target(\"spirv.";

/// What stands for a type, by the word behind "spirv.".
const REPLACEMENTS: [(&str, &str); 8] = [
    ("Image\"", "ptr addrspace(1)"),
    ("SampledImage\"", SAMPLED_IMAGE),
    ("Sampler\"", "i32"),
    ("Event\"", "ptr"),
    ("Pipe\"", "ptr addrspace(1)"),
    ("ReserveId\"", "ptr"),
    ("Queue\"", "ptr"),
    ("DeviceEvent\"", "ptr"),
];

/// Clang's conversion of a sampler's bits to a sampler: nothing is to be done once a sampler is its bits.
pub(crate) const SAMPLER_INITIALIZER: &str = "__translate_sampler_initializer";

/// Replaces a module that has such types. Errors: `Failed` if one has no counterpart in SPIR.
pub(crate) fn replace<'s>(session: &'s Session, module: Module<'s>) -> Result<Module<'s>, CompileError> {
    if !module.view().functions().into_iter().any(|function| is_opaque(function.value_type())) {
        return Ok(module);
    }
    // LLVM can't change a value's type in place; its text form can.
    let text = rewrite(&llvm::print_text(&module)).map_err(|name| {
        CompileError::Failed(format!(
            "error: the module uses the type target(\"spirv.{name}), which isn't supported\n"
        ))
    })?;
    llvm::parse_text(session, &text).map_err(|error| {
        CompileError::Failed(format!("error: the module's opaque types can't be replaced: {error}\n"))
    })
}

/// Whether a function takes or returns such a type: its values come from nowhere else.
fn is_opaque(function: Type) -> bool {
    let types = function.parameter_types().into_iter().chain(function.return_type());
    types.into_iter().any(|ty| ty.target_type_name().is_some())
}

/// The text with every such type replaced; the error is the beginning of a type without a replacement.
fn rewrite(text: &str) -> Result<String, String> {
    let mut result = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, behind)) = rest.split_once(PREFIX) {
        let end = behind.find(')').ok_or("")?;
        let word = &behind[..end];
        let found = REPLACEMENTS.iter().find(|(name, _)| word.starts_with(name));
        let (_, replacement) = found.ok_or_else(|| word.to_owned())?;
        result.push_str(before);
        result.push_str(replacement);
        rest = &behind[end + 1..];
    }
    result.push_str(rest);
    Ok(result)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_become_pointers_and_bits() {
        let text =
            "declare i32 @f(target(\"spirv.Image\", void, 1, 0) %i, target(\"spirv.Sampler\") %s, ptr %p)";
        assert_eq!(rewrite(text).unwrap(), "declare i32 @f(ptr addrspace(1) %i, i32 %s, ptr %p)");
        assert_eq!(rewrite("target(\"spirv.Pipe\", 1) %p").unwrap(), "ptr addrspace(1) %p");
        assert_eq!(rewrite("target(\"spirv.Quux\")").unwrap_err(), "Quux\"");
    }

    #[test]
    fn a_module_of_todays_clang_is_rewritten() {
        let session = Session::new();
        let text = "define spir_kernel void @k(target(\"spirv.Image\", void, 1, 0, 0, 0, 0, 0, 0) %i) {\n ret void\n}\n";
        let module = replace(&session, llvm::parse_text(&session, text).unwrap()).unwrap();
        assert!(llvm::print_text(&module).contains("@k(ptr addrspace(1) %i)"));
    }
}
