//! The compiler: SPIR bytes in, an object and its kernels' metadata out. Pure functions; `process` calls them.
//!
//! ```text
//! bytes -> SpirModule -> HardenedModule -> LinkedModule -> CleanModule -> Imported    front: LLVM IR, ever simpler
//!       -> Lowered                       transform, emit: a kernel's Kernel IR becomes a work-group function's text
//!       -> objects                       parts, codegen: the texts and what stayed LLVM, for this CPU
//! ```
//!
//! With `SPIRULA_REMARKS` set the build log says what was decided for each kernel.
//! `SPIRULA_DUMP` names a folder that gets what the stages of the last build yielded, for who works on the compiler.

mod parts;

use crate::api::{CompileError, CompileOptions, Specialization};
use crate::emit::{self, Lowered};
use crate::front::{self, CleanModule, HardenedModule, Imported, LinkedModule, SpirModule};
use crate::kir;
use crate::llvm::{self, LlvmError, Session};
use crate::program::{CompiledProgram, KernelInfo};
use crate::transform::widen::VectorTarget;
use std::path::Path;

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
    let machine = llvm::host_machine(optimize).map_err(|error| fault("no machine", &error))?;

    let spir: SpirModule = front::read_modules(&session, modules, options)?;
    let hardened: HardenedModule = front::harden(spir, &machine);
    let linked: LinkedModule = front::link(&session, hardened, &machine)?;
    let clean: CleanModule = front::clean_up(linked, &machine, optimize)?;
    dump("clean.ll", || clean.text());
    let Imported { mut kernels, rest } = front::import(clean, &machine)?;
    if let Some(wanted) = &options.specialization {
        specialize(&mut kernels, wanted);
    }
    let features = machine.get_feature_string().to_string_lossy().into_owned();
    let vectors = if optimize { VectorTarget::new(&features) } else { VectorTarget::none() };
    let (infos, lowered): (Vec<KernelInfo>, Vec<Lowered>) =
        kernels.into_iter().enumerate().map(|kernel| lower(kernel, vectors)).unzip();
    let objects = parts::objects(&session, &rest, &lowered, optimize)?;

    let mut log = session.take_warnings();
    // Only on demand: clients such as pyopencl warn of every log that says anything.
    if std::env::var_os("SPIRULA_REMARKS").is_some() {
        log.extend(lowered.iter().flat_map(|kernel| &kernel.remarks).map(|line| format!("{line}\n")));
    }
    Ok(CompiledProgram { objects, kernels: infos, log })
}

/// Keeps the one kernel, which is lowered as if it required the local size; what the host knows of it stays.
fn specialize(kernels: &mut Vec<(KernelInfo, kir::Function)>, wanted: &Specialization) {
    kernels.retain(|(info, _)| info.name == wanted.kernel);
    for (_, body) in kernels {
        body.required_work_group_size = Some(wanted.local_size);
    }
}

/// A kernel's work-group function, and what the host must know of it.
fn lower(
    (number, (info, body)): (usize, (KernelInfo, kir::Function)),
    vectors: VectorTarget,
) -> (KernelInfo, Lowered) {
    // A hostile module's kernels may be called anything; these names go into text.
    let is_plain = info.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let symbol = format!("spirula.group.{number}.{}", if is_plain { &info.name } else { "" });
    dump(&format!("{symbol}.kir"), || body.to_string());
    let lowered = emit::lower(body, &symbol, vectors);
    let info = KernelInfo {
        symbol: lowered.symbol.clone(),
        static_local_size: lowered.static_local_size,
        private_size: lowered.private_size,
        scratch_per_item: lowered.scratch_per_item,
        scratch_fixed: lowered.scratch_fixed,
        sees_group: lowered.sees_group,
        lanes: lowered.lanes,
        ..info
    };
    (info, lowered)
}

/// A mistake of ours, not of the program.
fn fault(what: &str, error: &LlvmError) -> CompileError {
    CompileError::Failed(format!("error: internal error of the compiler: {what}: {error}\n"))
}

/// Whether stages are to be written to `SPIRULA_DUMP`.
fn is_dumping() -> bool {
    std::env::var_os("SPIRULA_DUMP").is_some()
}

/// Writes what a stage yielded to `SPIRULA_DUMP`, if that is set. Failing to is nobody's problem.
fn dump(name: &str, text: impl FnOnce() -> String) {
    if let Some(folder) = std::env::var_os("SPIRULA_DUMP") {
        let _ = std::fs::write(Path::new(&folder).join(name), text());
    }
}

#[cfg(test)]
mod tests;
