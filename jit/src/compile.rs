//! The compiler: SPIR bytes in, an object and its kernels' metadata out. Pure functions; `process` calls them.
//!
//! ```text
//! bytes -> SpirModule -> HardenedModule -> LinkedModule -> CleanModule     front: LLVM IR, ever simpler
//!       -> kir::Function -> Lowered                                        one kernel at a time: Kernel IR, then text
//!       -> object                                                          codegen: LLVM for this CPU
//! ```
//!
//! `SPIRULA_DUMP` names a folder that gets what the stages of the last build yielded, for who works on the compiler.

use crate::api::{CompileError, CompileOptions};
use crate::codegen;
use crate::emit::Lowered;
use crate::front::{self, CleanModule};
use crate::llvm::{self, Session};
use crate::program::{CompiledProgram, KernelInfo};
use inkwell::module::{Linkage, Module};
use std::path::PathBuf;

/// See [`crate::api::check`].
pub fn check(module: &[u8], options: &CompileOptions) -> Result<String, CompileError> {
    let session = Session::new();
    front::read_modules(&session, &[module], options)?;
    Ok(session.take_warnings())
}

/// See [`crate::api::link`].
pub fn link(modules: &[&[u8]], options: &CompileOptions) -> Result<Vec<u8>, CompileError> {
    let session = Session::new();
    let joined = front::read_modules(&session, modules, options)?;
    Ok(llvm::write_bitcode(&joined.module))
}

/// See [`crate::api::build`].
pub fn build(modules: &[&[u8]], options: &CompileOptions) -> Result<CompiledProgram, CompileError> {
    let session = Session::new();
    let optimize = !options.optimization_disabled;
    let machine = llvm::host_machine(optimize).map_err(|error| CompileError::Failed(error.to_string()))?;
    let spir = front::read_modules(&session, modules, options)?;
    let hardened = front::harden(spir, &machine, options);
    let linked = front::link(&session, hardened, &machine)?;
    let clean = front::clean_up(linked, &machine, optimize)?;
    expose(&clean.module);
    dump("clean.ll", || llvm::print_text(&clean.module));
    let lowered = lower(&clean)?;
    let object = generate(&session, &clean, &lowered, optimize)?;
    let remarks = lowered.iter().flat_map(|kernel| &kernel.remarks).map(|line| format!("{line}\n"));
    let log = session.take_warnings() + &remarks.collect::<String>();
    let kernels = std::iter::zip(clean.kernels, lowered).map(|(info, lowered)| complete(info, &lowered));
    Ok(CompiledProgram { object, kernels: kernels.collect(), log })
}
