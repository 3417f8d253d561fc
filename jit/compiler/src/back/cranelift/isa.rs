//! The baseline's back end: what Cranelift is told of the processor.

use super::BaselineError;
use cranelift_codegen::isa::{self, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable, Flags};
use spirula_interface::target::Target;

/// LLVM's names of features and Cranelift's settings. What the latter implies is named by itself.
const FEATURES: [(&str, &str); 15] = [
    ("sse3", "has_sse3"),
    ("ssse3", "has_ssse3"),
    ("sse4.1", "has_sse41"),
    ("sse4.2", "has_sse42"),
    ("popcnt", "has_popcnt"),
    ("avx", "has_avx"),
    ("avx2", "has_avx2"),
    ("fma", "has_fma"),
    ("bmi", "has_bmi1"),
    ("bmi2", "has_bmi2"),
    ("lzcnt", "has_lzcnt"),
    ("avx512f", "has_avx512f"),
    ("avx512dq", "has_avx512dq"),
    ("avx512vl", "has_avx512vl"),
    ("cx16", "has_cmpxchg16b"),
];

/// Settings for all functions. What is of the object is addressed by its distance, what is outside by its address. Stacks are
/// not probed: frames are as large as LLVM's, which aren't either.
const SETTINGS: [(&str, &str); 7] = [
    ("opt_level", "speed"),
    ("is_pic", "false"),
    ("enable_probestack", "false"),
    ("enable_multi_ret_implicit_sret", "true"),
    // Integers of 128 bits as arguments.
    ("enable_llvm_abi_extensions", "true"),
    ("enable_verifier", "false"),
    ("unwind_info", "false"),
];

/// The processor that code is generated for.
pub(super) fn of(target: &Target, frame_pointers: bool) -> Result<OwnedTargetIsa, BaselineError> {
    let mut shared = settings::builder();
    let frames = if frame_pointers { "true" } else { "false" };
    shared.set("preserve_frame_pointers", frames).map_err(BaselineError::of)?;
    for (name, value) in SETTINGS {
        shared.set(name, value).map_err(BaselineError::of)?;
    }
    let triple = "x86_64-unknown-linux-gnu".parse().map_err(BaselineError::of)?;
    let mut builder = isa::lookup(triple).map_err(BaselineError::of)?;
    for (feature, setting) in FEATURES {
        if target.has(feature) {
            builder.enable(setting).map_err(BaselineError::of)?;
        }
    }
    builder.finish(Flags::new(shared)).map_err(BaselineError::of)
}
