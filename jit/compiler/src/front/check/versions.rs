//! What a module says that it is and that it needs: versions, extensions, optional core features.

use super::{Findings, invalid, rules};
use crate::llvm::{Module, View};
use spirula_interface::extensions::is_provided;
use spirula_interface::options::{CompileError, CompileOptions};
use std::ffi::CStr;

/// Versions of SPIR, and of OpenCL C; what clang makes of OpenCL C 3.0 calls itself 3.0 of both.
const SPIR_VERSIONS: &[(u64, u64)] = &[(1, 0), (1, 1), (1, 2), (2, 0), (3, 0)];

/// `opencl.spir.version` and `opencl.ocl.version` (SPIR 2.0, 2.12 and 2.13). Linked modules have several entries, of which the
/// newest is what the whole is.
pub(super) fn version(module: View, options: &CompileOptions) -> Result<(), CompileError> {
    for (node, what, rule) in [
        (c"opencl.spir.version", "SPIR", &rules::SPIR_VERSION),
        (c"opencl.ocl.version", "OpenCL C", &rules::LANGUAGE_VERSION),
    ] {
        for (major, minor) in versions(module, node)? {
            if !SPIR_VERSIONS.contains(&(major, minor)) {
                return invalid(
                    rule,
                    format!(
                        "The binary says that it's {what} {major}.{minor}, which isn't known; 1.2 and 2.0 are."
                    ),
                );
            }
        }
    }
    let Some(std) = &options.spir_std else { return Ok(()) };
    let most = match std.as_str() {
        "1.2" => (1, 2),
        "2.0" => (2, 0),
        _ => {
            return invalid(
                &rules::SPIR_VERSION,
                format!("-spir-std={std} is not supported; 1.2 and 2.0 are."),
            );
        }
    };
    // What clang makes of OpenCL C 3.0 without its optional features is what SPIR 1.2 can say.
    let newest = versions(module, c"opencl.spir.version")?.into_iter().filter(|v| *v != (3, 0)).max();
    match newest {
        Some((major, minor)) if (major, minor) > most => invalid(
            &rules::SPIR_VERSION,
            format!("The binary is SPIR {major}.{minor}, but the options say -spir-std={std}."),
        ),
        _ => Ok(()),
    }
}

/// What a module says that it uses and this device lacks.
pub(super) fn requirements(module: View, findings: &mut Findings) {
    let lists = [
        (c"opencl.used.extensions", "the extension", &rules::EXTENSIONS),
        (c"opencl.used.optional.core.features", "the optional core feature", &rules::FEATURES),
    ];
    for (node, what, rule) in lists {
        let names = module.named_metadata(node).into_iter().flat_map(|entry| entry.operands());
        for name in names.flatten().filter_map(|name| name.metadata_string()) {
            if !is_provided(&name) {
                findings
                    .add(rule, format!("the module uses {what} `{name}`, which this device doesn't have"));
            }
        }
    }
}

/// The newest OpenCL C that a part of a checked module is written in.
pub(crate) fn language(module: &Module) -> (u64, u64) {
    let versions = versions(module.view(), c"opencl.ocl.version").unwrap_or_default();
    versions.into_iter().max().unwrap_or((1, 2))
}

/// The entries of a list of versions. `InvalidBinary` for what isn't one.
pub(super) fn versions(module: View, node: &CStr) -> Result<Vec<(u64, u64)>, CompileError> {
    module
        .named_metadata(node)
        .into_iter()
        .map(|entry| match entry.operands()[..] {
            [Some(major), Some(minor)] => major.constant_bits().zip(minor.constant_bits()),
            _ => None,
        })
        .map(|version| {
            version.ok_or_else(|| {
                let name = node.to_string_lossy();
                let is_spirs = name.contains("spir.version");
                let rule = if is_spirs { &rules::SPIR_VERSION } else { &rules::LANGUAGE_VERSION };
                CompileError::InvalidBinary(format!(
                    "The binary's {name} metadata is malformed. [{}]",
                    rule.cited()
                ))
            })
        })
        .collect()
}
