//! The compiler: SPIR bytes in, an object and its kernels' metadata out. Functions of what they are given; `worker` calls them.
//!
//! ```text
//! bytes -> SpirModule -> HardenedModule -> LinkedModule -> CleanModule -> Imported    front: LLVM IR, ever simpler
//!       -> Lowered                       transform, emit: a kernel's Kernel IR becomes a work-group function's text
//!       -> objects                       parts, codegen: the texts and what stayed LLVM, for this CPU
//! ```
//!
//! If the settings ask for remarks, the build log says what was decided for each kernel. A [`Dump`] gets what the stages
//! yielded, for who works on the compiler.

mod parts;

use crate::emit::{self, Lowered};
use crate::front::{self, CleanModule, HardenedModule, Imported, LinkedModule, SpirModule};
use crate::llvm::{self, LlvmError, Session};
use spirula_interface::inputs::Inputs;
use spirula_interface::options::{CompileError, Specialization};
use spirula_interface::program::{CompiledProgram, KernelInfo};
use spirula_kir::transform::widen::VectorTarget;
use std::path::Path;

/// Reads a module and checks it against the SPIR rules; yields remarks. Errors: [`CompileError::InvalidBinary`] for
/// what is no valid SPIR of this device's kind, [`CompileError::Failed`] for a rule that it breaks.
pub fn check(module: &[u8], inputs: &Inputs) -> Result<String, CompileError> {
    let session = Session::new();
    front::read_modules(&session, &[module], &inputs.options)?;
    Ok(session.take_warnings())
}

/// Links modules into one without generating code. Returns bitcode.
pub fn link(modules: &[&[u8]], inputs: &Inputs) -> Result<Vec<u8>, CompileError> {
    let session = Session::new();
    let joined = front::read_modules(&session, modules, &inputs.options)?;
    Ok(llvm::write_bitcode(&joined.module))
}

/// Builds an executable program of one or more modules.
pub fn build(modules: &[&[u8]], inputs: &Inputs, dump: Dump) -> Result<CompiledProgram, CompileError> {
    let session = Session::new();
    let Inputs { options, settings, target, .. } = inputs;
    let optimize = !options.optimization_disabled;
    let machine = llvm::machine(target, optimize).map_err(|error| fault("no machine", &error))?;

    let spir: SpirModule = front::read_modules(&session, modules, options)?;
    let hardened: HardenedModule = front::harden(spir, &machine);
    let linked: LinkedModule = front::link(&session, hardened, &machine)?;
    let clean: CleanModule = front::clean_up(linked, &machine, optimize)?;
    dump.write("clean.ll", || clean.text());
    let Imported { mut kernels, mut rest } = front::import(clean, &machine)?;
    if let Some(wanted) = &options.specialization {
        specialize(&mut kernels, wanted);
    }
    let vectors = if optimize { vectors(inputs) } else { VectorTarget::none() };
    let (infos, lowered): (Vec<KernelInfo>, Vec<Lowered>) =
        kernels.into_iter().enumerate().map(|kernel| lower(kernel, vectors, dump)).unzip();
    let objects = parts::objects(&session, &mut rest, &lowered, (target, optimize), dump)?;

    let mut log = session.take_warnings();
    // Only on demand: clients such as pyopencl warn of every log that says anything.
    if settings.remarks {
        log.extend(lowered.iter().flat_map(|kernel| &kernel.remarks).map(|line| format!("{line}\n")));
    }
    Ok(CompiledProgram { objects, kernels: infos, log })
}

/// Keeps the one kernel, which is lowered as if it required the local size; what the host knows of it stays.
fn specialize(kernels: &mut Vec<(KernelInfo, spirula_kir::Function)>, wanted: &Specialization) {
    kernels.retain(|(info, _)| info.name == wanted.kernel);
    for (_, body) in kernels {
        body.required_work_group_size = Some(wanted.local_size);
    }
}

/// A kernel's work-group function, and what the host must know of it.
fn lower(
    (number, (info, body)): (usize, (KernelInfo, spirula_kir::Function)),
    vectors: VectorTarget,
    dump: Dump,
) -> (KernelInfo, Lowered) {
    // A hostile module's kernels may be called anything; these names go into text.
    let is_plain = info.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let symbol = format!("spirula.group.{number}.{}", if is_plain { &info.name } else { "" });
    dump.write(&format!("{symbol}.kir"), || body.to_string());
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

/// The machine's vectors, and what the user asks of them.
fn vectors(inputs: &Inputs) -> VectorTarget {
    let register_bits = match () {
        () if inputs.target.has("avx512f") => 512,
        () if inputs.target.has("avx") => 256,
        () => 128,
    };
    VectorTarget { register_bits, forced_lanes: inputs.settings.vector_width }
}

/// Where the stages of a build are to be written, if anywhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dump<'f>(Option<&'f Path>);

impl<'f> Dump<'f> {
    /// Into that folder.
    pub fn new(folder: Option<&'f Path>) -> Self {
        Dump(folder)
    }

    /// Whether anything is to be written.
    fn is_wanted(self) -> bool {
        self.0.is_some()
    }

    /// Writes what a stage yielded. Failing to is nobody's problem.
    fn write(self, name: &str, text: impl FnOnce() -> String) {
        if let Some(folder) = self.0 {
            let _ = std::fs::write(folder.join(name), text());
        }
    }
}

#[cfg(test)]
mod tests;
