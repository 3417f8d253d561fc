//! The compiler's two doors: bytes to bytes in a supervised process (`compile`), bytes to code in this one (`load`).

pub use crate::clang::{Clang, Translated, Translation, find as find_clang};
use crate::loader;
pub use crate::loader::{LoadError, LoadedProgram};
pub use crate::math_options::MathOptions;
use crate::process::{self, Job, Product};
use crate::program::{CompiledProgram, KernelInfo, RawWorkGroupFn};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// What `clBuildProgram`, `clCompileProgram` and `clLinkProgram` ask of the compiler.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct CompileOptions {
    /// `-spir-std=`, if given: "1.2".
    pub spir_std: Option<String>,
    /// `-cl-opt-disable`.
    pub optimization_disabled: bool,
    /// The options about arithmetic.
    pub math: MathOptions,
    /// Only this kernel, for this local size.
    pub specialization: Option<Specialization>,
}

/// Code for one local size of a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Specialization {
    /// The kernel's name.
    pub kernel: String,
    /// Work-items in each dimension.
    pub local_size: [u32; 3],
}

/// Why a compilation yielded nothing.
#[derive(Clone, Debug, thiserror::Error, Serialize, Deserialize)]
pub enum CompileError {
    /// Not SPIR that this device takes: damaged, 32-bit, of another version. CL_INVALID_BINARY.
    #[error("{0}")]
    InvalidBinary(String),
    /// The module breaks a rule, or something in it can't be resolved. The log for the build.
    #[error("{0}")]
    Failed(String),
    /// The compiler process died or exceeded its time. The log for the build.
    #[error("{0}")]
    Crashed(String),
}

/// Reads a module and checks it against the SPIR rules; yields remarks. Errors: [`CompileError::InvalidBinary`] for
/// what is no valid SPIR of this device's kind, [`CompileError::Failed`] for a rule that it breaks.
pub fn check(module: &[u8], options: &CompileOptions) -> Result<String, CompileError> {
    match process::run(Job::Check { module: module.to_vec(), options: options.clone() })? {
        Product::Checked(remarks) => Ok(remarks),
        _ => Err(wrong_product()),
    }
}

/// Links modules into one without generating code: a library, or an executable's IR. Returns bitcode.
pub fn link(modules: &[&[u8]], options: &CompileOptions) -> Result<Vec<u8>, CompileError> {
    match process::run(Job::Link { modules: owned(modules), options: options.clone() })? {
        Product::Linked(bitcode) => Ok(bitcode),
        _ => Err(wrong_product()),
    }
}

/// Builds an executable program from one or more modules.
pub fn build(modules: &[&[u8]], options: &CompileOptions) -> Result<CompiledProgram, CompileError> {
    match process::run(Job::Build { modules: owned(modules), options: options.clone() })? {
        Product::Built(program) => Ok(program),
        _ => Err(wrong_product()),
    }
}

/// Translates OpenCL C to SPIR. Errors: [`CompileError::Failed`] with the compiler's diagnostics.
pub fn translate(translation: Translation) -> Result<Translated, CompileError> {
    match process::run(Job::Translate(translation))? {
        Product::Translated(translated) => Ok(translated),
        _ => Err(wrong_product()),
    }
}

/// Starts a compiler process in the background, so that the first build finds it ready. Never fails.
pub fn warm_up() {
    process::warm_up();
}

fn owned(modules: &[&[u8]]) -> Vec<Vec<u8>> {
    modules.iter().map(|module| module.to_vec()).collect()
}

fn wrong_product() -> CompileError {
    CompileError::Crashed("the compiler process answered another question".into())
}

/// A kernel's entry, which keeps its program loaded.
#[derive(Clone, Debug)]
pub struct LoadedKernel {
    /// Keeps the code mapped.
    pub program: Arc<LoadedProgram>,
    /// What the host must know.
    pub info: Arc<KernelInfo>,
    /// Valid while `program` lives.
    pub entry: RawWorkGroupFn,
}

/// Loads the object; returns the kernels in their order.
pub fn load(compiled: &CompiledProgram) -> Result<Vec<LoadedKernel>, LoadError> {
    let (program, entries) = loader::load(compiled)?;
    let program = Arc::new(program);
    let kernel = |(info, entry): (&KernelInfo, _)| LoadedKernel {
        program: program.clone(),
        info: Arc::new(info.clone()),
        entry,
    };
    Ok(std::iter::zip(&compiled.kernels, entries).map(kernel).collect())
}
