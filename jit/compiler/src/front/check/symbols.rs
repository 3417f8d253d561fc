//! Functions and variables as symbols, and variables as what they hold.

use super::findings::Findings;
use super::rules;
use super::types::{described, has_part, is_foreign, is_odd_integer, is_odd_vector};
use crate::front::limits;
use crate::llvm::{Global, Layout, Symbol, View};
use inkwell::llvm_sys::LLVMLinkage;

/// Globals that tell LLVM which symbols to keep, and mean nothing here.
const IGNORED_GLOBALS: [&str; 2] = ["llvm.used", "llvm.compiler.used"];

/// Globals that name functions to be run before or after all others.
const CONSTRUCTORS: [&str; 2] = ["llvm.global_ctors", "llvm.global_dtors"];

/// All variables, aliases and ifuncs, and the module's assembly.
pub(super) fn module(module: View, is_of_1_2: bool, findings: &mut Findings) {
    if !module.assembly().is_empty() {
        findings.add(&rules::ASSEMBLY, "module-level inline assembly is not allowed in SPIR");
    }
    for symbol in module.indirect_symbols() {
        let name = symbol.name();
        if symbol.is_ifunc() {
            findings.about(&rules::IFUNC, symbol, format!("`{name}` is an ifunc, which SPIR doesn't have"));
        } else {
            findings.about(&rules::ALIAS, symbol, format!("`{name}` is an alias, which SPIR doesn't have"));
        }
    }
    let layout = module.layout();
    let mut data = 0;
    for global in module.globals() {
        let name = global.name();
        if IGNORED_GLOBALS.contains(&name.as_str()) {
            continue;
        }
        if CONSTRUCTORS.contains(&name.as_str()) {
            let text =
                format!("`{name}` names functions that run before or after kernels, which SPIR doesn't have");
            findings.about(&rules::GLOBAL_CONSTRUCTOR, *global, text);
            continue;
        }
        self::symbol(*global, findings);
        variable(global, findings);
        if is_foreign(global.value_type()) {
            let text = format!("the variable `{name}` has {}", described(global.value_type()));
            findings.about(&rules::TYPES, *global, text);
            continue;
        }
        if let Some((rule, text)) = limits::variable(layout, global, &mut data) {
            findings.about(rule, *global, text);
        }
        if findings.wants_remarks() {
            remarks(global, layout, is_of_1_2, findings);
        }
    }
}

/// The linkage types of SPIR 1.2, table 16.
fn linkage_is_allowed(linkage: LLVMLinkage) -> bool {
    use LLVMLinkage::*;
    matches!(
        linkage,
        LLVMExternalLinkage
            | LLVMInternalLinkage
            | LLVMPrivateLinkage
            | LLVMAvailableExternallyLinkage
            | LLVMCommonLinkage
    )
}

/// What holds for a function and a variable alike.
pub(super) fn symbol(symbol: Symbol, findings: &mut Findings) {
    let name = symbol.name();
    if !linkage_is_allowed(symbol.linkage()) {
        let linkage = format!("{:?}", symbol.linkage());
        let linkage = linkage.trim_start_matches("LLVM").trim_end_matches("Linkage").to_lowercase();
        let text = format!("`{name}` has {linkage} linkage, which SPIR doesn't allow (table 16)");
        findings.about(&rules::LINKAGE, symbol, text);
    }
    if let Some(section) = symbol.section() {
        let section: String = section.chars().take(60).collect();
        findings.about(&rules::SECTION, symbol, format!("`{name}` is in the section `{section}`"));
    }
    if !findings.wants_remarks() {
        return;
    }
    if !symbol.has_default_visibility() {
        findings.about(&rules::VISIBILITY, symbol, format!("`{name}` is hidden or protected"));
    }
    if symbol.is_in_comdat() {
        findings.about(&rules::COMDAT, symbol, format!("`{name}` is in a comdat"));
    }
    // A number in its place is no name.
    if !name.is_empty() && !is_identifier(&name) {
        let text = format!("`{}` is not of letters, digits, `$`, `.` and `_`", name.escape_debug());
        findings.about(&rules::IDENTIFIER, symbol, text);
    }
    if ["spir.", "opencl."].iter().any(|prefix| name.starts_with(prefix)) {
        findings.about(&rules::RESERVED_NAME, symbol, format!("`{name}` has a reserved name"));
    }
}

fn is_identifier(name: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "$._".contains(c);
    name.chars().all(plain) && !name.starts_with(|c: char| c.is_ascii_digit())
}

fn variable(global: Global, findings: &mut Findings) {
    let name = global.name();
    if global.is_thread_local() {
        let text = format!("the variable `{name}` is thread-local, which SPIR doesn't have");
        findings.about(&rules::THREAD_LOCAL, *global, text);
    }
    let space = global.ty().address_space();
    if space > 4 {
        let text = format!("the variable `{name}` is in address space {space}; SPIR's are 0 to 4");
        findings.about(&rules::ADDRESS_SPACE, *global, text);
    }
}

fn remarks<'m>(global: Global<'m>, layout: Layout<'m>, is_of_1_2: bool, findings: &mut Findings) {
    let (name, ty) = (global.name(), global.value_type());
    let natural = layout.alignment(ty);
    if ty.is_sized() && global.alignment() < natural && global.alignment() > 1 {
        let text =
            format!("the variable `{name}` is aligned to {} bytes instead of {natural}", global.alignment());
        findings.about(&rules::VARIABLE_ALIGNMENT, *global, text);
    }
    odd_types(has_part(ty, &is_odd_integer), has_part(ty, &is_odd_vector), |rule| {
        findings.about(rule, *global, format!("the variable `{name}` has {}", described(ty)));
    });
    match global.ty().address_space() {
        0 => findings.about(
            &rules::PRIVATE_VARIABLE,
            *global,
            format!("the variable `{name}` is in the private address space"),
        ),
        1 if is_of_1_2 => findings.about(
            &rules::GLOBAL_VARIABLE,
            *global,
            format!("the variable `{name}` is in the global address space, in a module of SPIR 1.2"),
        ),
        2 if !global.is_constant_variable() => findings.about(
            &rules::CONSTANT_VARIABLE,
            *global,
            format!("the variable `{name}` is in the constant address space, and no constant"),
        ),
        3 => local(global, findings),
        _ => {}
    }
}

/// Which of the rules of types' sizes are broken.
pub(super) fn odd_types(integer: bool, vector: bool, mut found: impl FnMut(&'static rules::Rule)) {
    [(integer, &rules::INTEGER_WIDTH), (vector, &rules::VECTOR_LENGTH)]
        .into_iter()
        .filter(|(is_broken, _)| *is_broken)
        .for_each(|(_, rule)| found(rule));
}

fn local(global: Global, findings: &mut Findings) {
    let name = global.name();
    let owners = global.using_functions();
    let is_named = |function: &str| name.strip_prefix(function).is_some_and(|rest| rest.starts_with('.'));
    if !owners.is_empty() && !owners.iter().any(|owner| is_named(&owner.name())) {
        let text = format!("the local variable `{name}` is not named for the function that uses it");
        findings.about(&rules::LOCAL_NAME, *global, text);
    }
    if global.initializer().is_some_and(|value| !value.is_null() && !value.is_undefined()) {
        findings.about(
            &rules::LOCAL_INITIALIZER,
            *global,
            format!("the local variable `{name}` has an initial value"),
        );
    }
}
