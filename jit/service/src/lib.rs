//! The application's side of the compiler: processes that compile, a memory of what they yielded, and the loader that puts
//! their code into this process. Nothing of LLVM is linked here, and nothing of OpenCL's object model is known.
//!
//! ```text
//! bytes -> check, link, build -> process -> CompiledProgram -> load -> loader -> LoadedKernel, callable
//! ```

pub mod cache;
mod clang;
mod includes;
mod loader;
pub mod per_process;
pub mod process;
mod processor;
pub mod settings;
pub mod shared;
mod variables;

pub use clang::find as find_clang;
pub use loader::{LoadError, LoadedProgram, jumps};
pub use process::{cache_problem, ignored_level, keeps_code, missing_protection, warm_up};
pub use processor::level as processor_level;
pub use variables::{Variables, VariablesError};

use cache::Key;
use includes::Includes;
use process::Request;
use spirula_interface::inputs::Inputs;
use spirula_interface::options::{CompileError, CompileOptions, Groups, Specialization, Usual};
use spirula_interface::program::{
    Alternative, CompiledProgram, DATA_SYMBOL, KernelInfo, MEMORY_SYMBOL, RawWorkGroupFn,
};
use spirula_interface::protocol::{self, Job, Product, Stage};
use spirula_interface::tier::Tier;
use spirula_interface::translation::{Translated, Translation};
use std::path::PathBuf;
use std::sync::Arc;

/// Reads a module and checks it against the SPIR rules; yields remarks. Errors: [`CompileError::InvalidBinary`] for
/// what is no valid SPIR of this device's kind, [`CompileError::Failed`] for a rule that it breaks.
pub fn check(module: &[u8], options: &CompileOptions) -> Result<String, CompileError> {
    // No code is made, of whatever tier.
    match process::run(Request::anew(&Job::Check { module, inputs: inputs(options, Tier::Optimized)? })?)? {
        Product::Checked(remarks) => Ok(remarks),
        _ => Err(wrong_product()),
    }
}

/// Links modules into one without generating code: a library, or an executable's IR. Returns bitcode.
pub fn link(modules: &[&[u8]], options: &CompileOptions) -> Result<Vec<u8>, CompileError> {
    let job = Job::Link { modules: modules.to_vec(), inputs: inputs(options, Tier::Optimized)? };
    match process::run(Request::anew(&job)?)? {
        Product::Linked(bitcode) => Ok(bitcode),
        _ => Err(wrong_product()),
    }
}

/// An executable, and how it came about.
#[derive(Clone, Debug)]
pub struct Build {
    /// The executable.
    pub program: CompiledProgram,
    /// What took how long; nothing if it was known.
    pub stages: Vec<Stage>,
}

/// Builds an executable program from one or more modules, or finds what was built of them before.
pub fn build(modules: &[&[u8]], options: &CompileOptions, tier: Tier) -> Result<Build, CompileError> {
    let answer = process::answer(request(modules, options, tier)?)?;
    match answer.product {
        Product::Built(mut program) => {
            if settings::get().compiler.remarks
                && let Some(missing) = missing_protection()
            {
                program.log += &format!("remark: {missing}\n");
            }
            Ok(Build { program, stages: answer.stages })
        }
        _ => Err(wrong_product()),
    }
}

/// What [`build`] asks for.
pub fn request(modules: &[&[u8]], options: &CompileOptions, tier: Tier) -> Result<Request, CompileError> {
    repeatable(modules, inputs(options, tier)?)
}

/// What launches had until now is no part of what the answer is kept under: another process, which has seen none yet, is to find
/// it, and the code does what it should in all launches. (What is made before launches were seen is another answer.)
fn repeatable(modules: &[&[u8]], mut inputs: Inputs) -> Result<Request, CompileError> {
    let modules = modules.to_vec();
    let job = Job::Build { modules: modules.clone(), inputs: inputs.clone() };
    match &mut inputs.options.specialization {
        Some(Specialization { groups: Groups::Usual(usual), .. })
            if ![Usual::NOTHING, Usual::LIKELY].contains(usual) =>
        {
            *usual = Usual::NOTHING;
            let unknown = Request::repeatable(&Job::Build { modules, inputs })?;
            Request::anew(&job).map(|request| request.kept_as(&unknown))
        }
        _ => Request::repeatable(&job),
    }
}

/// What [`build`] would find without building. Nothing is compiled for it, and no process started.
pub fn known(modules: &[&[u8]], options: &CompileOptions, tier: Tier) -> Option<CompiledProgram> {
    let inputs =
        Inputs::new(options.clone(), settings::get().compiler.clone(), process::known_target()?, tier);
    match process::known(&repeatable(modules, inputs).ok()?)? {
        Product::Built(program) => Some(program),
        _ => None,
    }
}

/// From now on [`build`] finds with the options `asked` what it has found with `chosen`, the fastest of a kernel's alternatives but for
/// those that are left: nobody measures the others again. Nothing happens if that is not known any more.
pub fn prefer(
    modules: &[&[u8]],
    asked: &CompileOptions,
    (chosen, left): (&CompileOptions, &[Alternative]),
    tier: Tier,
) {
    let Some(mut program) = known(modules, chosen, tier) else { return };
    for kernel in &mut program.kernels {
        kernel.code.alternatives = left.to_vec();
    }
    let Ok(inputs) = inputs(asked, tier) else { return };
    if let Ok(request) = repeatable(modules, inputs) {
        process::keep(&request, &Product::Built(program));
    }
}

/// Translates OpenCL C to SPIR. Errors: [`CompileError::Failed`] with the compiler's diagnostics.
pub fn translate(translation: Translation) -> Result<Translated, CompileError> {
    let job = Job::Translate(translation.clone());
    // The directory makes no difference but by the files that are found in it.
    let anywhere = protocol::encode(&Translation { directory: None, ..translation.clone() });
    let anywhere = anywhere.map_err(|error| CompileError::Failed(format!("error: {error}\n")))?;
    // What is asked says where clang is; what it is may change.
    let depends_on = |names: &[PathBuf]| {
        Some((clang::fingerprint(&translation.clang)?, Includes::now(&translation, names)?))
    };
    let mut before = depends_on(&[]);
    let (mut names, mut place_of_names) = (None, None);
    if let Some((clang, _)) = before.as_ref().filter(|(_, includes)| includes.computed()) {
        let place = Key::of("names", &[&anywhere, clang]);
        names = process::recall::<Vec<PathBuf>>(&place);
        place_of_names = Some(place);
        before = names.as_deref().and_then(depends_on);
    }
    let request = match &before {
        Some((clang, includes)) => {
            Request::kept(&job, Key::of("translation", &[&anywhere, clang, &includes.to_bytes()]))?
        }
        None => Request::anew(&job)?,
    };
    // A file that changed meanwhile may have been read before or after that.
    let answer =
        process::answer_while(request, || depends_on(names.as_deref().unwrap_or_default()) == before)?;
    let Product::Translated(translated) = answer.product else { return Err(wrong_product()) };
    if let (Some(place), Some(read)) = (place_of_names, &translated.read) {
        let now = Includes::names(&translation, read);
        if names.as_ref() != Some(&now) {
            process::remember(&place, &now);
        }
    }
    Ok(translated)
}

fn inputs(options: &CompileOptions, tier: Tier) -> Result<Inputs, CompileError> {
    Ok(Inputs::new(options.clone(), settings::get().compiler.clone(), process::target()?, tier))
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
    /// Valid while `program` and the variables that it was loaded with live.
    pub entry: RawWorkGroupFn,
}

/// Loads the objects, which refer to these variables, for the process that those are for; returns the kernels in their order. Errors: besides the loader's own,
/// variables that were made from another description than the program's.
pub fn load(compiled: &CompiledProgram, variables: &Arc<Variables>) -> Result<Vec<LoadedKernel>, LoadError> {
    let address = variables.address(&compiled.data).map_err(|error| LoadError(error.into()))?;
    let mut outside = vec![loader::External { name: DATA_SYMBOL, address }];
    let memory = variables.shared().and_then(|shared| shared.linear_start());
    outside.extend(memory.map(|address| loader::External { name: MEMORY_SYMBOL, address }));
    let place = variables.shared().and_then(|shared| shared.code.as_ref());
    let (mut program, entries) = loader::load(compiled, &outside, loader::Limits::default(), place)?;
    program.keep(variables.clone());
    let program = Arc::new(program);
    let kernel = |(info, entry): (&KernelInfo, _)| LoadedKernel {
        program: program.clone(),
        info: Arc::new(info.clone()),
        entry,
    };
    Ok(std::iter::zip(&compiled.kernels, entries).map(kernel).collect())
}
