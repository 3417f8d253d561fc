//! The compiler: SPIR bytes in, an object and its kernels' metadata out. Functions of what they are given; `worker` calls them.
//!
//! ```text
//! bytes -> SpirModule -> HardenedModule -> LinkedModule -> CleanModule -> Imported    front: LLVM IR, ever simpler
//!       -> Lowered                       spirula_kir::pipeline: a kernel becomes a work-group function in Kernel IR
//!       -> KernelText                    back: its text for LLVM
//!       -> objects                       parts, codegen: the texts and what stayed LLVM, for this CPU
//! ```
//!
//! If the settings ask for remarks, the build log says what was decided for each kernel. A [`Dump`] gets what the stages
//! yielded, for who works on the compiler.

mod parts;

use crate::back::llvm::Text;
use crate::front::{self, CleanModule, HardenedModule, Imported, LinkedModule, SpirModule};
use crate::llvm::{self, Session};
use spirula_interface::inputs::Inputs;
use spirula_interface::options::{CompileError, Specialization};
use spirula_interface::program::{CompiledProgram, KernelInfo, ProgramData};
use spirula_interface::target::TargetFacts;
use spirula_kir::Function;
use spirula_kir::pipeline::{self, PASSES};
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
    let Imported { mut kernels, rest } = front::import(clean, &machine)?;
    if let Some(wanted) = &options.specialization {
        specialize(&mut kernels, wanted);
    }
    let passes = pass_options(inputs);
    let (mut infos, mut texts) = (Vec::new(), Vec::new());
    for (number, (info, body)) in kernels.into_iter().enumerate() {
        let (info, text) = lower(number, info, body, &passes, dump)?;
        infos.push(info);
        texts.push(text);
    }
    let objects = parts::objects(&session, &rest, &texts, (target, optimize), dump)?;

    let mut log = session.take_warnings();
    // Only on demand: clients such as pyopencl warn of every log that says anything.
    if settings.remarks {
        log.extend(texts.iter().flat_map(|kernel| &kernel.remarks).map(|line| format!("{line}\n")));
    }
    Ok(CompiledProgram { objects, kernels: infos, data: ProgramData::default(), log })
}

/// Keeps the one kernel, which is lowered as if it required the local size; what the host knows of it stays.
fn specialize(kernels: &mut Vec<(KernelInfo, Function)>, wanted: &Specialization) {
    kernels.retain(|(info, _)| info.name == wanted.kernel);
    for (_, body) in kernels {
        body.required_work_group_size = Some(wanted.local_size);
    }
}

/// A kernel's work-group function as text.
#[derive(Clone)]
struct KernelText {
    symbol: String,
    /// LLVM IR: the definition of the symbol and declarations of what it uses.
    ir: String,
    /// What was decided, a line each.
    remarks: Vec<String>,
}

/// A kernel's work-group function, and what the host must know of it.
fn lower(
    number: usize,
    info: KernelInfo,
    body: Function,
    options: &pipeline::Options,
    dump: Dump,
) -> Result<(KernelInfo, KernelText), CompileError> {
    // A hostile module's kernels may be called anything; these names go into text.
    let is_plain = info.name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let symbol = format!("spirula.group.{number}.{}", if is_plain { &info.name } else { "" });
    dump.write(&format!("{symbol}.0.imported.kir"), || body.to_string());
    let position =
        |pass: &str| 1 + PASSES.iter().position(|other| other.name == pass).unwrap_or(PASSES.len());
    let lowered = pipeline::run(body, &symbol, options, |pass, form| {
        let name = format!("{symbol}.{}.{}.kir", position(pass.name), pass.name);
        dump.write(&name, || form.to_string());
    });
    let lowered = lowered.map_err(|error| fault(&format!("the kernel `{}`", info.name), &error))?;
    let mut text = Text::default();
    text.add(&lowered.group.function);
    let info = KernelInfo {
        symbol: symbol.clone(),
        static_local_size: lowered.static_local_size,
        private_size: lowered.group.private_size,
        scratch_per_item: lowered.group.scratch_per_item,
        scratch_fixed: lowered.group.scratch_fixed,
        sees_group: lowered.sees_group,
        lanes: lowered.lanes,
        ..info
    };
    Ok((info, KernelText { symbol, ir: text.finish(), remarks: lowered.remarks }))
}

/// A mistake of ours, not of the program.
fn fault(what: &str, error: &dyn std::error::Error) -> CompileError {
    CompileError::Failed(format!("error: internal error of the compiler: {what}: {error}\n"))
}

/// What passes go by; without optimization kernels stay scalar.
fn pass_options(inputs: &Inputs) -> pipeline::Options {
    let Inputs { options, settings, target, .. } = inputs;
    let verify = settings.verify;
    if options.optimization_disabled {
        pipeline::Options { facts: TargetFacts::with_vectors(128), lanes: Some(1), verify }
    } else {
        pipeline::Options { facts: target.facts(), lanes: settings.vector_width, verify }
    }
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
