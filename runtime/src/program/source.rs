//! OpenCL C source to SPIR: what the specification's options mean to clang, and what this device defines.

use super::options::Options;
use super::steps::{Built, Failure};
use crate::error::Status;
use crate::platform::Platform;
use crate::platform::device::DeviceInfo;
use crate::platform::extensions::{FLOAT_ATOMICS, OF_EVERY_VERSION, OPENCL_C_20};
use crate::trace;
use spirula_interface::translation::Translation;
use spirula_service as service;
use std::sync::Arc;

/// The default for a device of OpenCL 1.2 or newer: the highest 1.x that it has (OpenCL 3.0, 5.8.6.3).
const DEFAULT_VERSION: &str = "-cl-std=CL1.2";

/// What clang is told of a program; the headers are names and texts. CL_COMPILER_NOT_AVAILABLE.
pub(super) fn translation(
    source: &str,
    headers: Vec<(String, String)>,
    options: &Options,
    device: &DeviceInfo,
) -> crate::Result<Translation> {
    let clang = service::find_clang().ok_or_else(|| Status::CompilerNotAvailable.because(NO_CLANG))?;
    let language = &options.language;
    // What is found in kernels is found at a line of their source, and debuggers are told of lines.
    let settings = &service::settings::get().compiler;
    let has_lines = settings.checks.any() || settings.debug_info || options.compile.debug;
    let lines = has_lines.then_some("-debug-info-kind=line-tables-only").into_iter();
    let given = language.options.iter().rfind(|option| option.starts_with("-cl-std="));
    let version = given.map_or(DEFAULT_VERSION, String::as_str).to_string();
    Ok(Translation {
        clang: clang.clone(),
        addresses: device.addresses,
        source: source.to_string(),
        headers,
        include_folders: language
            .include_folders
            .iter()
            .chain(&service::settings::get().include_folders)
            .cloned()
            .collect(),
        directory: std::env::current_dir().ok(),
        allowed: service::settings::get().include_only.clone(),
        options: capabilities(device, &version)
            .into_iter()
            .chain(given.is_none().then_some(version))
            .chain(language.options.iter().cloned())
            .chain(lines.map(str::to_owned))
            .collect(),
    })
}

/// For the log of a build without a compiler.
pub(super) const NO_CLANG: &str = "OpenCL C needs clang 22: found as clang-22 or clang in PATH, beside LLVM 22, by the \
                                   variable SPIRULA_CLANG, or in the package spirula-clang (pip install spirula[clang]). \
                                   Without it programs must be given as SPIR.";

/// What OpenCL C 2.0 has and devices of 32 bits have not.
const OPTIONAL: &str = "__opencl_c_device_enqueue";

/// The macros of OpenCL C 6.10, and those of the device's extensions and features: clang defines the ones that it knows.
fn capabilities(device: &DeviceInfo, version: &str) -> Vec<String> {
    let [major, minor, _] = Platform::NUMERIC_VERSION;
    let mut known = "-cl-ext=-all".to_string();
    let mut options = vec![format!("-D__OPENCL_VERSION__={}", 100 * major + 10 * minor)];
    for extension in device.extensions {
        known += &format!(",+{}", extension.name);
        options.push(format!("-D{}=1", extension.name));
    }
    options.extend(OF_EVERY_VERSION.iter().map(|feature| format!("-D{feature}=1")));
    let all = device.opencl_c_features.iter().map(|feature| feature.name);
    let features: Vec<&str> = match version {
        "-cl-std=CL2.0" => {
            let of_extensions = all.filter(|name| name.starts_with(FLOAT_ATOMICS));
            let of_language = OPENCL_C_20.iter().chain(&["__opencl_c_fp64", "__opencl_c_images"]).copied();
            let of_language = of_language.filter(|name| *name != OPTIONAL || device.has_feature(name));
            of_language.chain(of_extensions).collect()
        }
        _ => all.collect(),
    };
    known.extend(features.into_iter().map(|feature| format!(",+{feature}")));
    options.push(known);
    options
}

/// Does something with a program's modules, which are translated first if it is a source; the warnings come before that log.
/// `failed` is the step's own error.
pub(super) fn and_then(
    translation: Option<Translation>,
    modules: Arc<[Vec<u8>]>,
    failed: Status,
    follow: impl FnOnce(Arc<[Vec<u8>]>) -> Result<Built, Failure>,
) -> Result<Built, Failure> {
    let Some(translation) = translation else { return follow(modules) };
    let span = trace::span("build", || "clang");
    let translated = service::translate(translation).map_err(|error| Failure::of(error, failed))?;
    drop(span);
    match follow(Arc::from([translated.module])) {
        Ok(built) => Ok(Built { log: translated.log + &built.log, ..built }),
        // What clang made is no binary of the application's that could be invalid.
        Err(failure) => Err(Failure { status: failed, log: translated.log + &failure.log }),
    }
}
