//! What a module says of itself in named metadata: options, features, versions, hints; and what it uses without saying so.

use super::builtins;
use super::findings::Findings;
use super::rules;
use crate::llvm::{Function, Instruction, Node, Type, View};
use inkwell::llvm_sys::LLVMTypeKind::*;
use std::ffi::CStr;

/// OpenCL's options that a module may record (SPIR 2.0, 2.8).
const OPTIONS: [&str; 12] = [
    "cl-single-precision-constant",
    "cl-denorms-are-zero",
    "cl-fp32-correctly-rounded-divide-sqrt",
    "cl-opt-disable",
    "cl-mad-enable",
    "cl-no-signed-zeros",
    "cl-unsafe-math-optimizations",
    "cl-finite-math-only",
    "cl-fast-relaxed-math",
    "w",
    "Werror",
    "cl-kernel-arg-info",
];

/// Names of types that are opaque (table 3).
const OPAQUE: [&CStr; 18] = [
    c"opencl.image1d_t",
    c"opencl.image1d_array_t",
    c"opencl.image1d_buffer_t",
    c"opencl.image2d_t",
    c"opencl.image2d_array_t",
    c"opencl.image3d_t",
    c"opencl.image2d_msaa_t",
    c"opencl.image2d_array_msaa_t",
    c"opencl.image2d_msaa_depth_t",
    c"opencl.image2d_array_msaa_depth_t",
    c"opencl.image2d_depth_t",
    c"opencl.image2d_array_depth_t",
    c"opencl.event_t",
    c"opencl.queue_t",
    c"opencl.clk_event_t",
    c"opencl.reserve_id_t",
    c"opencl.pipe_t",
    c"opencl.block",
];

/// The strings in a list.
fn words(module: View, list: &CStr) -> Vec<String> {
    let operands = module.named_metadata(list).into_iter().flat_map(Node::operands);
    operands.flatten().filter_map(|word| word.metadata_string()).collect()
}

pub(super) fn remarks(module: View, findings: &mut Findings) {
    for (list, known) in [(c"opencl.compiler.options", Some(OPTIONS)), (c"opencl.compiler.ext.options", None)]
    {
        let (name, nodes) = (list.to_string_lossy(), module.named_metadata(list));
        if nodes.len() > 1 {
            findings.add(&rules::COMPILER_OPTIONS, format!("`{name}` has {} lists", nodes.len()));
        }
        for operand in nodes.into_iter().flat_map(Node::operands) {
            match operand.and_then(|operand| operand.metadata_string()) {
                None => findings
                    .add(&rules::COMPILER_OPTIONS, format!("`{name}` has something that is no string")),
                Some(word) if known.is_some_and(|known| !known.contains(&word.trim_start_matches('-'))) => {
                    let word: String = word.chars().take(60).flat_map(char::escape_debug).collect();
                    findings.add(
                        &rules::COMPILER_OPTIONS,
                        format!("`{name}` has `{word}`, which is no option to record"),
                    );
                }
                Some(_) => {}
            }
        }
    }
    if !module.named_metadata(c"opencl.enable.FP_CONTRACT").is_empty() {
        findings.add(&rules::CONTRACTION, "`opencl.enable.FP_CONTRACT` holds something");
    }
    for list in [c"opencl.spir.version", c"opencl.ocl.version"] {
        let count = module.named_metadata(list).len();
        if count != 1 {
            findings.add(&rules::VERSION_COUNT, format!("`{}` has {count} versions", list.to_string_lossy()));
        }
    }
    extensions(module, findings);
    types(module, findings);
    module.defined_functions().into_iter().for_each(|function| unroll_hints(function, findings));
}

fn extensions(module: View, findings: &mut Findings) {
    let features = words(module, c"opencl.used.optional.core.features");
    let has = |name: &str| features.iter().any(|feature| feature == name);
    for name in words(module, c"opencl.used.extensions") {
        if name == "cl_khr_fp64" {
            findings
                .add(&rules::EXTENSION_NAMES, "the module uses `cl_khr_fp64`; SPIR calls that `cl_doubles`");
        }
        if name == "cl_khr_3d_image_writes" && !has("cl_images") {
            findings
                .add(&rules::EXTENSION_NAMES, "the module uses `cl_khr_3d_image_writes` without `cl_images`");
        }
    }
    let instructions = || module.defined_functions().into_iter().flat_map(Function::instructions);
    if !has("cl_doubles")
        && let Some(first) = instructions().find(|instruction| builtins::uses_double(**instruction))
    {
        let text = "the module uses doubles, and doesn't say that it uses `cl_doubles`";
        findings.at(&rules::FEATURE_UNDECLARED, first, text);
    }
    let takes_images = |instruction: &Instruction| {
        let callee = instruction.called_function().filter(|callee| callee.is_declaration());
        callee.is_some_and(|callee| callee.name().contains("ocl_image"))
    };
    if !has("cl_images")
        && let Some(first) = instructions().find(takes_images)
    {
        let text = "the module uses images, and doesn't say that it uses `cl_images`";
        findings.at(&rules::FEATURE_UNDECLARED, first, text);
    }
}

fn types(module: View, findings: &mut Findings) {
    for name in OPAQUE {
        if module.type_named(name).is_some_and(|ty| !ty.is_opaque_structure()) {
            findings
                .add(&rules::OPAQUE_TYPES, format!("the type `{}` is not opaque", name.to_string_lossy()));
        }
    }
    if module.type_named(c"opencl.ndrange_t").is_some_and(|ty| !is_ndrange(ty)) {
        findings.add(&rules::NDRANGE, "the type `opencl.ndrange_t` has other members than it should");
    }
}

fn is_ndrange(ty: Type) -> bool {
    let is_sizes = |ty: &Type| {
        ty.kind() == LLVMArrayTypeKind
            && ty.element_count() == 3
            && ty.element().is_some_and(|element| element.integer_width() == 64)
    };
    matches!(&ty.members()[..], [dimensions, sizes @ ..]
        if dimensions.integer_width() == 32 && sizes.len() == 3 && sizes.iter().all(is_sizes))
}

/// Hints at branches: `!llvm.loop !{self, !{!"opencl.loop.unroll_hint", i32 4}}`.
fn unroll_hints(function: Function, findings: &mut Findings) {
    for branch in function.blocks().into_iter().filter_map(|block| block.terminator()) {
        let Some(node) = branch.metadata("llvm.loop") else { continue };
        for operands in node.operands().into_iter().flatten().filter_map(|v| v.as_node()).map(Node::operands)
        {
            let name = operands.first().copied().flatten().and_then(|name| name.metadata_string());
            if name.as_deref() != Some("opencl.loop.unroll_hint") {
                continue;
            }
            let factor = operands.get(1).copied().flatten();
            if !factor.is_some_and(|factor| factor.ty().integer_width() == 32 && factor.is_constant_integer())
            {
                let text =
                    format!("a loop of the function `{}` has a hint without an i32 factor", function.name());
                findings.at(&rules::UNROLL_HINT, branch, text);
            }
        }
    }
}
