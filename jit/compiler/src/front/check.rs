//! The rules of SPIR 1.2 and 2.0, each of which is a line of `check/rules.rs`. What isn't of this device's kind is an invalid
//! binary; a broken rule is a finding of the build log. What a producer did beyond the letter but without ambiguity is
//! accepted: who asks (`spirula-compiler --check`) gets it as a remark.
//!
//! ```text
//! rules, findings     which rules there are; what was found, and where
//! versions, modules   what a module says of itself
//! symbols, kernels    functions and variables; what is said of kernels
//! functions, instructions, types, blocks, builtins
//! ```

mod blocks;
mod builtins;
#[cfg(test)]
mod examples;
mod findings;
mod functions;
mod instructions;
mod kernels;
mod modules;
pub(crate) mod rules;
mod symbols;
#[cfg(test)]
mod tests;
mod types;
mod versions;

use super::call_graph::CallGraph;
use crate::llvm::{Function, Module, Value, View};
use findings::Findings;
use instructions::Surroundings;
use rules::Rule;
use spirula_interface::address_bits::AddressBits;
use spirula_interface::options::{CompileError, CompileOptions};
pub(crate) use versions::language;
use versions::{requirements, version, versions};

/// Checks a module that was read. Errors: `InvalidBinary` for another device's or version's module, `Failed` with a
/// line for each broken rule.
pub(crate) fn check(module: &Module, options: &CompileOptions) -> Result<(), CompileError> {
    findings(module.view(), options, false)?.result()
}

/// Checks a module as [`check`] does, and returns the remarks too: what SPIR's letter forbids and is taken all the same.
pub(crate) fn with_remarks(
    module: &Module,
    options: &CompileOptions,
) -> Result<(String, Result<(), CompileError>), CompileError> {
    let findings = findings(module.view(), options, true)?;
    Ok((findings.remarks(), findings.result()))
}

fn findings(module: View, options: &CompileOptions, with_remarks: bool) -> Result<Findings, CompileError> {
    target(module, options.addresses)?;
    version(module, options)?;
    let mut findings = Findings::new(with_remarks);
    let says = |number| versions(module, c"opencl.spir.version").unwrap_or_default().contains(&number);
    let around = Surroundings {
        layout: module.layout(),
        has_blocks: may_have_blocks(module),
        is_of_1_2: says((1, 2)) && !says((2, 0)),
    };
    requirements(module, &mut findings);
    symbols::module(module, around.is_of_1_2, &mut findings);
    for function in module.functions() {
        if function.name().starts_with("llvm.") {
            functions::intrinsic(function, &mut findings);
            continue;
        }
        functions::function(function, around.has_blocks, &mut findings);
        instructions::function(function, around, &mut findings);
    }
    recursion(module).unwrap_or_else(|finding| findings.add(&rules::RECURSION, finding));
    if with_remarks {
        modules::remarks(module, &mut findings);
        kernels::remarks(module, &mut findings);
        let declared = module.functions().into_iter().filter(|function| function.is_declaration());
        declared.for_each(|function| builtins::declaration(function, &mut findings));
    }
    Ok(findings)
}

/// Whether a module is of OpenCL C 2.0 or later.
fn may_have_blocks(module: View) -> bool {
    let versions = versions(module, c"opencl.ocl.version").unwrap_or_default();
    versions.into_iter().any(|version| version >= (2, 0))
}

/// The finding if functions call each other in a circle.
pub(crate) fn recursion(module: View) -> Result<(), String> {
    let Some(cycle) = CallGraph::new(module).cycle() else { return Ok(()) };
    let path: Vec<String> = cycle.iter().map(|name| format!("`{name}`")).collect();
    Err(format!("recursion is not allowed in OpenCL C: {}", path.join(" calls ")))
}

/// Whether a function is used for anything but to be called.
pub(crate) fn has_address_taken<'m>(function: Function<'m>) -> bool {
    let calls = |user: Value<'m>| {
        user.as_call().is_some_and(|call| {
            call.called_function() == Some(function) && call.arguments().iter().all(|a| *a != **function)
        })
    };
    !function.users().into_iter().all(calls)
}

fn invalid(rule: &'static Rule, text: String) -> Result<(), CompileError> {
    Err(CompileError::InvalidBinary(format!("{text} [{}]", rule.cited())))
}

/// Triple and data layout, for the device's pointers (SPIR 2.0, 3.1 and 3.2).
fn target(module: View, device: AddressBits) -> Result<(), CompileError> {
    let (triple, spir) = (module.triple(), device.spir());
    // SPIR-V has its own name for the same.
    let bits = match triple.split('-').next().unwrap_or("") {
        "spir64" | "spirv64" => AddressBits::Bits64,
        "spir" | "spirv" | "spirv32" => AddressBits::Bits32,
        "" => {
            return invalid(
                &rules::TRIPLE,
                format!("The binary has no target triple; SPIR's is {spir}-unknown-unknown."),
            );
        }
        other => {
            return invalid(
                &rules::TRIPLE,
                format!("The binary is for {other} (triple {triple}); SPIR's is {spir}-unknown-unknown."),
            );
        }
    };
    if bits != device {
        return invalid(
            &rules::TRIPLE,
            format!(
                "The binary is a {}-bit module (triple {triple}) on a {}-bit device; it must be compiled for {spir}.",
                bits.number(),
                device.number()
            ),
        );
    }
    let layout = module.layout();
    if module.data_layout().is_empty() {
        return Ok(()); // Any SPIR module has one and the same.
    }
    if !layout.is_little_endian() || (0..=4).any(|space| layout.pointer_bytes(space) != device.bytes()) {
        return invalid(
            &rules::DATA_LAYOUT,
            format!(
                "The binary's data layout isn't {spir}'s: little-endian with {}-bit pointers.",
                device.number()
            ),
        );
    }
    let natural = [
        (module.integer_type(8), 1),
        (module.integer_type(16), 2),
        (module.integer_type(32), 4),
        (module.integer_type(64), 8),
        (module.float_type(), 4),
        (module.double_type(), 8),
        (module.float_type().vector(3), 16),
        (module.double_type().vector(16), 128),
    ];
    for (ty, expected) in natural {
        let found = layout.alignment(ty);
        if found != expected {
            return invalid(
                &rules::DATA_LAYOUT,
                format!(
                    "The binary's data layout isn't {spir}'s: it aligns {ty} to {found} bytes instead of {expected}."
                ),
            );
        }
    }
    Ok(())
}
