//! The compiler: SPIR bytes in, an object and its kernels' metadata out. Functions of what they are given; `worker` calls them.
//!
//! ```text
//! bytes -> SpirModule -> HardenedModule -> LinkedModule -> CleanModule -> Imported    front: LLVM IR, ever simpler
//!       -> Lowered                       spirula_kir::pipeline: a kernel becomes a work-group function in Kernel IR
//!       -> objects                       parts, back, codegen: the module's text for LLVM, then code for the target
//! ```
//!
//! If the settings ask for remarks, the build log says what was decided for each kernel. A [`Dump`] gets what the stages
//! yielded, for who works on the compiler.

mod parts;

use crate::front::{self, CleanModule, HardenedModule, Imported, LinkedModule, SpirModule};
use crate::llvm::{self, Session};
use spirula_interface::inputs::Inputs;
use spirula_interface::options::{CompileError, Specialization};
use spirula_interface::program::{CompiledProgram, KernelCode, KernelInfo, KernelSignature};
use spirula_interface::target::TargetFacts;
use spirula_kir::pipeline::{self, Lowered, PASSES};
use spirula_kir::{Function, transform};
use std::collections::HashMap;
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
    let Imported { kernels: signatures, mut module } = front::import(clean)?;
    dump.write("imported.kir", || module.to_string());
    if settings.verify {
        module.verify().map_err(|rule| broken("the import", &rule))?;
    }
    let mut kernels: Vec<_> = std::iter::zip(signatures, std::mem::take(&mut module.kernels)).collect();
    if let Some(wanted) = &options.specialization {
        specialize(&mut kernels, wanted);
    }
    let passes = pass_options(inputs);
    for function in &mut module.functions {
        transform::infer_spaces(function);
        transform::decide_contraction(function, &passes.facts);
    }
    let stack = module.stack_sizes();
    let (mut infos, mut remarks) = (Vec::new(), Vec::new());
    let mut lowered = Vec::new();
    for (number, (signature, body)) in kernels.into_iter().enumerate() {
        let calls = call_stack(&signature.name, &body, &stack)?;
        let (code, kernel) = lower(number, &signature.name, body, &passes, dump)?;
        infos.push(KernelInfo {
            signature,
            code: KernelCode { private_size: code.private_size + calls, ..code },
        });
        remarks.extend(kernel.remarks);
        lowered.push(kernel.group.function);
    }
    module.kernels = lowered;
    if settings.verify {
        module.verify().map_err(|rule| broken("the lowering", &rule))?;
    }
    let objects = parts::objects(&session, &module, &machine, (target, optimize), dump)?;

    let mut log = session.take_warnings();
    // Only on demand: clients such as pyopencl warn of every log that says anything.
    if settings.remarks {
        log.extend(remarks.iter().map(|line| format!("{line}\n")));
    }
    Ok(CompiledProgram { objects, kernels: infos, data: module.data, log })
}

/// Keeps the one kernel, which is lowered as if it required the local size; what the host knows of it stays.
fn specialize(kernels: &mut Vec<(KernelSignature, Function)>, wanted: &Specialization) {
    kernels.retain(|(signature, _)| signature.name == wanted.kernel);
    for (_, body) in kernels {
        body.required_work_group_size = Some(wanted.local_size);
        // Smaller groups run the general code.
        body.remainder_groups = false;
    }
}

/// Bytes of stack that functions which stay calls may use: they run on the application's threads as well, of which nobody
/// knows how much there is. What needs more is inlined, so that its memory is the kernel's.
const MAX_CALL_STACK: u64 = 64 << 10;

/// Bytes of private memory that a kernel's calls need.
fn call_stack(name: &str, body: &Function, known: &HashMap<&str, u64>) -> Result<u64, CompileError> {
    let size = body.call_stack_size(known).unwrap_or(u64::MAX);
    if size <= MAX_CALL_STACK {
        return Ok(size);
    }
    Err(CompileError::Failed(format!(
        "error: the kernel `{name}` calls functions that need {size} bytes of private memory; the most is {MAX_CALL_STACK}\n"
    )))
}

/// A kernel's work-group function, and what the host must know of it.
fn lower(
    number: usize,
    name: &str,
    body: Function,
    options: &pipeline::Options,
    dump: Dump,
) -> Result<(KernelCode, Lowered), CompileError> {
    // A hostile module's kernels may be called anything; these names go into text.
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let symbol = format!("spirula.group.{number}.{}", if is_plain { name } else { "" });
    dump.write(&format!("{symbol}.0.imported.kir"), || body.to_string());
    let position =
        |pass: &str| 1 + PASSES.iter().position(|other| other.name == pass).unwrap_or(PASSES.len());
    let lowered = pipeline::run(body, &symbol, options, |pass, form| {
        let file = format!("{symbol}.{}.{}.kir", position(pass.name), pass.name);
        dump.write(&file, || form.to_string());
    });
    let lowered = lowered.map_err(|error| fault(&format!("the kernel `{name}`"), &error))?;
    let code = KernelCode {
        symbol,
        static_local_size: lowered.static_local_size,
        private_size: lowered.group.private_size,
        scratch_per_item: lowered.group.scratch_per_item,
        scratch_fixed: lowered.group.scratch_fixed,
        sees_group: lowered.sees_group,
        lanes: lowered.lanes,
        sub_group_size: lowered.sub_group_size,
    };
    Ok((code, lowered))
}

/// A mistake of ours, not of the program.
fn fault(what: &str, error: &dyn std::error::Error) -> CompileError {
    CompileError::Failed(format!("error: internal error of the compiler: {what}: {error}\n"))
}

/// Kernel IR that breaks a rule: a mistake of ours as well.
fn broken(stage: &str, rule: &str) -> CompileError {
    CompileError::Failed(format!(
        "error: internal error of the compiler: {stage} broke a rule of Kernel IR: {rule}\n"
    ))
}

/// What passes go by; without optimization kernels stay scalar.
fn pass_options(inputs: &Inputs) -> pipeline::Options {
    let Inputs { options, settings, target, .. } = inputs;
    let verify = settings.verify;
    let facts = target.facts();
    if options.optimization_disabled {
        // The bits stay what they are.
        let facts = TargetFacts { fuses: facts.fuses, ..TargetFacts::with_vectors(128) };
        pipeline::Options { facts, lanes: Some(1), verify }
    } else {
        pipeline::Options { facts, lanes: settings.vector_width, verify }
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
