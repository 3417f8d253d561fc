//! Programs: what was given, what was built of it, and the logs.

mod container;
mod il;
mod options;
mod source;
mod steps;
mod verify;

use crate::context::Context;
use crate::error::{Error, Result, Status};
#[cfg(test)]
use crate::execute::launch::Code;
use crate::execute::tiers::{Maker, Tiers, Version};
use crate::log;
use crate::platform::device::Device;
use crate::trace;
use container::Contents;
use il::Il;
use options::{Options, Step};
use spirula_interface::options::CompileOptions;
use spirula_interface::program::{CompiledProgram, KernelInfo};
use spirula_interface::translation::Translation;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};
use std::time::Instant;
use steps::{Built, Failure};

/// A `cl_program`, for devices of one kind.
#[derive(Debug)]
pub struct Program {
    /// CL_PROGRAM_CONTEXT.
    pub context: Arc<Context>,
    /// One of the devices.
    pub device: Arc<Device>,
    /// CL_PROGRAM_SOURCE, if it has one.
    pub source: Option<String>,
    /// SPIR-V, if it was made of that.
    il: Option<Mutex<Il>>,
    state: Mutex<State>,
}

/// What changes as a program is built.
#[derive(Debug)]
struct State {
    status: BuildStatus,
    options: String,
    log: String,
    kind: BinaryType,
    /// Bitcode; none for sources.
    modules: Arc<[Vec<u8>]>,
    /// How it was compiled, linked or built: linking an object heeds that, and so does code that is made of an executable later.
    compiled_with: CompileOptions,
    /// An executable's code.
    compiled: Option<Arc<CompiledProgram>>,
    /// An executable that can run.
    kernels: Option<Arc<[BuiltKernel]>>,
    /// Kernel objects that exist.
    attached: usize,
    /// What [`Program::binary`] gave, until something is built.
    binary: Option<Arc<[u8]>>,
}

/// A kernel of a built program, as kernel objects share it.
#[derive(Clone, Debug)]
pub(crate) struct BuiltKernel {
    pub info: Arc<KernelInfo>,
    pub tiers: Arc<Tiers>,
}

impl BuiltKernel {
    /// In the code that its program was built with, and what makes better code, if anything does.
    fn new(first: Version, maker: Option<Box<dyn Maker>>) -> BuiltKernel {
        BuiltKernel { info: first.info.clone(), tiers: Tiers::new(first, maker) }
    }

    /// Whether only kernels can launch it.
    pub(crate) fn is_blocks(&self) -> bool {
        self.info.signature.block.is_some()
    }
}

/// `cl_build_status`; discriminants are OpenCL's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(i32)]
#[allow(missing_docs)]
pub enum BuildStatus {
    Success = 0,
    None = -1,
    Error = -2,
    InProgress = -3,
}

/// `cl_program_binary_type`; discriminants are OpenCL's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs)]
pub enum BinaryType {
    None = 0,
    CompiledObject = 1,
    Library = 2,
    Executable = 4,
    /// cl_khr_spir: SPIR, not yet built.
    Intermediate = 0x40E1,
}

/// The first bytes of SPIR: bitcode, raw or in a wrapper.
const BITCODE_MAGICS: [&[u8]; 2] = [b"BC\xC0\xDE", &0x0B17_C0DE_u32.to_le_bytes()];

/// What a mutex holds: nothing leaves it half done.
fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Program {
    fn new(
        (context, device): (&Arc<Context>, &Arc<Device>),
        source: Option<String>,
        kind: BinaryType,
        modules: Vec<Vec<u8>>,
    ) -> Program {
        let state = State {
            status: BuildStatus::None,
            options: String::new(),
            log: String::new(),
            kind,
            modules: modules.into(),
            compiled_with: CompileOptions::default(),
            compiled: None,
            kernels: None,
            attached: 0,
            binary: None,
        };
        let (context, device) = (context.clone(), device.clone());
        Program { context, device, source, il: None, state: Mutex::new(state) }
    }

    /// clCreateProgramWithSource, the strings joined.
    pub fn with_source(context: &Arc<Context>, device: &Arc<Device>, source: String) -> Arc<Program> {
        Arc::new(Program::new((context, device), Some(source), BinaryType::None, Vec::new()))
    }

    /// clCreateProgramWithIL. CL_INVALID_VALUE for what is no SPIR-V.
    pub fn with_il(context: &Arc<Context>, device: &Arc<Device>, bytes: &[u8]) -> Result<Arc<Program>> {
        let il = Il::read(bytes)?;
        let program = Program::new((context, device), None, BinaryType::None, vec![bytes.to_vec()]);
        Ok(Arc::new(Program { il: Some(Mutex::new(il)), ..program }))
    }

    /// CL_PROGRAM_IL: as it was given; empty if the program was made of something else.
    pub fn il(&self) -> Vec<u8> {
        self.il.as_ref().map_or_else(Vec::new, |il| unpoisoned(il).bytes.clone())
    }

    /// clSetProgramSpecializationConstant: what is built from now on has the value. CL_INVALID_PROGRAM for a program of no SPIR-V,
    /// CL_INVALID_SPEC_ID, CL_INVALID_VALUE.
    pub fn specialize(&self, id: u32, value: &[u8]) -> Result<()> {
        let Some(il) = &self.il else {
            return Err(
                Status::InvalidProgram.because("the program was not made of an intermediate language")
            );
        };
        unpoisoned(il).specialize(id, value)
    }

    /// clCreateProgramWithBinary for one device: SPIR bitcode or what [`Program::binary`] gave. CL_INVALID_BINARY.
    pub fn with_binary(context: &Arc<Context>, device: &Arc<Device>, binary: &[u8]) -> Result<Arc<Program>> {
        let invalid = |why: &str| Status::InvalidBinary.because(format!("{why} ({} bytes)", binary.len()));
        if container::is_container(binary) {
            let contents = Contents::decode(binary).map_err(invalid)?;
            if let Some(compiled) = &contents.compiled {
                verify::verify(compiled, &device.info).map_err(|what| invalid(&what))?;
            }
            let kind = contents.kind().unwrap_or(BinaryType::None);
            let program = Program::new((context, device), None, kind, contents.modules);
            {
                let mut state = program.state();
                state.compiled_with = contents.options;
                state.compiled = contents.compiled.map(Arc::new);
            }
            return Ok(Arc::new(program));
        }
        if !BITCODE_MAGICS.iter().any(|magic| binary.starts_with(magic)) {
            return Err(invalid("neither SPIR bitcode nor a binary of Spirula's"));
        }
        let (kind, modules) = (BinaryType::Intermediate, vec![binary.to_vec()]);
        Ok(Arc::new(Program::new((context, device), None, kind, modules)))
    }

    /// clBuildProgram. Errors: CL_INVALID_BUILD_OPTIONS, CL_INVALID_OPERATION (kernels exist, or a build is running),
    /// CL_INVALID_BINARY, CL_COMPILER_NOT_AVAILABLE, CL_BUILD_PROGRAM_FAILURE.
    pub fn build(&self, options: &str) -> Result<()> {
        let parsed = self.parse(options, Step::Build)?;
        let failed = Status::BuildProgramFailure;
        let (translation, modules, loadable) = {
            let (mut state, translation) = self.begin(options, &parsed, Step::Build, &[])?;
            // A binary that was loaded is code already; a program that runs is built anew.
            let loadable =
                state.compiled.clone().filter(|_| translation.is_none() && state.kernels.is_none());
            let loadable = loadable.map(|compiled| (compiled, state.compiled_with.clone()));
            state.kernels = None;
            (translation, state.modules.clone(), loadable)
        };
        let (device, place) = (&self.device, &self.context.place);
        let remarks = parsed.remarks();
        let work = move || match loadable {
            Some((compiled, options)) if steps::will_do(&compiled, &options) => {
                steps::load(compiled, modules, &options, place, Status::InvalidBinary)
            }
            Some((_, options)) => steps::build(modules, &options, &device.info, place, failed),
            None => source::and_then(translation, modules, failed, |modules| {
                steps::build(modules, &parsed.compile, &device.info, place, failed)
            }),
        };
        self.perform(Step::Build, || work().map(|built| built.after(remarks)))
    }

    /// clCompileProgram; the headers are source programs by the names that they are included by. Errors as `build`'s, with
    /// CL_INVALID_COMPILER_OPTIONS and CL_COMPILE_PROGRAM_FAILURE.
    pub fn compile(&self, options: &str, headers: &[(String, Arc<Program>)]) -> Result<()> {
        let parsed = self.parse(options, Step::Compile)?;
        let failed = Status::CompileProgramFailure;
        let binary = matches!(self.binary_type(), BinaryType::Library | BinaryType::Executable);
        if binary && self.source.is_none() && self.il.is_none() {
            return Err(
                Status::InvalidOperation.because("the program is neither source nor SPIR to be compiled")
            );
        }
        let (translation, modules) = {
            let (mut state, translation) = self.begin(options, &parsed, Step::Compile, headers)?;
            state.kernels = None;
            (translation, state.modules.clone())
        };
        let work = move || {
            source::and_then(translation, modules, failed, |modules| steps::compile(modules, &parsed.compile))
                .map(|built| built.after(parsed.remarks()))
        };
        self.perform(Step::Compile, work)
    }

    /// clLinkProgram. The outer error is about arguments (CL_INVALID_LINKER_OPTIONS, CL_INVALID_OPERATION): no program.
    /// The inner one is CL_LINK_PROGRAM_FAILURE, whose program has the log.
    pub fn link(
        context: &Arc<Context>,
        device: &Arc<Device>,
        options: &str,
        inputs: &[Arc<Program>],
    ) -> Result<(Arc<Program>, Result<()>)> {
        let mut parsed = options::parse(options, Step::Link)?;
        parsed.compile.addresses = device.info.addresses;
        if inputs.is_empty() {
            return Err(Status::InvalidValue.because("nothing to link"));
        }
        let (mut modules, mut compiled_with) = (Vec::new(), Vec::new());
        for input in inputs {
            let state = input.state();
            if !Arc::ptr_eq(&input.context, context) {
                return Err(Status::InvalidContext.because("a program of another context"));
            }
            if !matches!(state.kind, BinaryType::CompiledObject | BinaryType::Library) {
                return Err(Status::InvalidOperation.because(format!(
                    "a program that is neither compiled nor a library, but {:?}",
                    state.kind
                )));
            }
            modules.extend(state.modules.iter().cloned());
            compiled_with.push(state.compiled_with.clone());
        }
        let merged = steps::merge(&parsed.compile, &compiled_with);
        let program = Arc::new(Program::new((context, device), None, BinaryType::None, modules));
        let modules = {
            let mut state = program.state();
            (state.status, state.options) = (BuildStatus::InProgress, options.to_string());
            state.modules.clone()
        };
        let place = &context.place;
        let work = move || match parsed.create_library {
            true => steps::link(modules, &merged),
            false => {
                let failed = Status::LinkProgramFailure;
                steps::build(modules, &merged, &device.info, place, failed)
            }
        };
        let result = program.perform(Step::Link, work);
        Ok((program, result))
    }

    /// Reads the options. Why they are wrong becomes the program's log, for clients show that rather than what `pfn_notify` gets.
    fn parse(&self, options: &str, step: Step) -> Result<Options> {
        let addresses = self.device.info.addresses;
        let parsed = options::parse(options, step).map(|mut parsed| {
            parsed.compile.addresses = addresses;
            parsed
        });
        parsed.inspect_err(|error| {
            let mut state = self.state();
            // A build that runs or that holds has its own.
            if state.attached == 0 && state.status != BuildStatus::InProgress {
                state.fail(options, error);
            }
        })
    }

    /// Marks a build as begun, and says what to translate if the program is a source. CL_INVALID_OPERATION while kernels exist
    /// or another runs, the step's error for a source that is to be taken as SPIR; CL_COMPILER_NOT_AVAILABLE.
    fn begin(
        &self,
        options: &str,
        parsed: &Options,
        step: Step,
        headers: &[(String, Arc<Program>)],
    ) -> Result<(MutexGuard<'_, State>, Option<Translation>)> {
        let mut state = self.state();
        if state.attached > 0 {
            return Err(
                Status::InvalidOperation.because(format!("{} kernels of the program exist", state.attached))
            );
        }
        if state.status == BuildStatus::InProgress {
            return Err(Status::InvalidOperation.because("the program is being built"));
        }
        if self.source.is_some() && parsed.is_spir {
            let error = options::refuse(step, "-x spir or -spir-std, for a program that is a source");
            state.fail(options, &error);
            return Err(error);
        }
        let translation = self.source.as_deref().map(|text| {
            let text_of = |header: &Program| header.source.clone().unwrap_or_default();
            let headers = headers.iter().map(|(name, header)| (name.clone(), text_of(header))).collect();
            source::translation(text, headers, parsed, &self.device.info)
        });
        let translation = translation.transpose().inspect_err(|error| state.fail(options, error))?;
        if let Some(il) = &self.il {
            state.modules = Arc::from([unpoisoned(il).specialized()]);
            state.compiled = None;
        }
        state.options = options.to_string();
        state.status = BuildStatus::InProgress;
        state.log.clear();
        Ok((state, translation))
    }

    /// Runs a build's work and takes in the result.
    fn perform(&self, step: Step, work: impl FnOnce() -> Result<Built, Failure>) -> Result<()> {
        let (begun, given) = (Instant::now(), self.given());
        let mut span = trace::span("build", || step.function());
        let result = catch_unwind(AssertUnwindSafe(work))
            .unwrap_or_else(|panic| Err(Failure::from(Error::panicked(panic.as_ref()))));
        let took = begun.elapsed();
        let how = result.as_ref().map_or_else(|failure| failure.status.name().into(), Built::summary);
        // Remarks and warnings: not every application shows its build logs.
        let said = result.as_ref().map_or("", |built| built.log.trim_end());
        let said = if said.is_empty() { String::new() } else { format!("\n{said}") };
        span.note("of", &given);
        span.note("result", &how);
        drop(span);
        log::info(format_args!("{} of {given} took {took:.1?}: {how}{said}", step.function()));
        static SAID: Once = Once::new();
        SAID.call_once(|| {
            let said = [spirula_service::missing_protection(), spirula_service::ignored_level()];
            said.iter().flatten().for_each(|what| log::warn(format_args!("{what}")));
        });
        let mut state = self.state();
        match result {
            Ok(built) => {
                state.status = BuildStatus::Success;
                state.log = built.log;
                state.kind = built.kind;
                state.modules = built.modules;
                state.compiled_with = built.options;
                state.compiled = built.compiled;
                state.kernels = built.kernels;
                state.binary = None;
                Ok(())
            }
            Err(Failure { status, log }) => {
                state.status = BuildStatus::Error;
                state.log = log.clone();
                Err(status.because(log))
            }
        }
    }

    /// What a build takes, in words.
    fn given(&self) -> String {
        if let Some(source) = &self.source {
            return format!("{} bytes of OpenCL C", source.len());
        }
        let state = self.state();
        let bytes: usize = state.modules.iter().map(Vec::len).sum();
        let already = if state.compiled.is_some() { " that were built before" } else { "" };
        format!("{bytes} bytes of SPIR{already}")
    }

    /// CL_PROGRAM_BUILD_STATUS.
    pub fn build_status(&self) -> BuildStatus {
        self.state().status
    }

    /// CL_PROGRAM_BUILD_OPTIONS: of the last build, compilation or link.
    pub fn build_options(&self) -> String {
        self.state().options.clone()
    }

    /// CL_PROGRAM_BUILD_LOG.
    pub fn build_log(&self) -> String {
        self.state().log.clone()
    }

    /// CL_PROGRAM_BINARY_TYPE.
    pub fn binary_type(&self) -> BinaryType {
        self.state().kind
    }

    /// CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE: bytes of the variables in program scope that an executable has.
    pub fn variables_size(&self) -> usize {
        self.state().compiled.as_ref().map_or(0, |compiled| compiled.data.variables as usize)
    }

    /// CL_PROGRAM_BINARIES: our container, or the SPIR as it was given while nothing is built; empty for an unbuilt source.
    pub fn binary(&self) -> Arc<[u8]> {
        let mut state = self.state();
        if let Some(binary) = &state.binary {
            return binary.clone();
        }
        let bytes = match state.kind {
            BinaryType::None => Vec::new(),
            BinaryType::Intermediate => state.modules.concat(),
            kind => {
                let compiled = state.compiled.as_deref().cloned().filter(|_| kind == BinaryType::Executable);
                // Encoding to memory can't fail; an empty binary would say so.
                let options = state.compiled_with.clone();
                Contents::new(kind, state.modules.to_vec(), options, compiled).encode().unwrap_or_default()
            }
        };
        let binary: Arc<[u8]> = bytes.into();
        state.binary = Some(binary.clone());
        binary
    }

    /// CL_PROGRAM_KERNEL_NAMES and CL_PROGRAM_NUM_KERNELS. CL_INVALID_PROGRAM_EXECUTABLE without a built executable.
    pub fn kernel_names(&self) -> Result<Vec<String>> {
        let state = self.state();
        let own = state.executable()?.iter().filter(|kernel| !kernel.is_blocks());
        Ok(own.map(|kernel| kernel.info.signature.name.clone()).collect())
    }

    /// The kernels that `select` picks of those that an application can launch, counted as attached from now on, and all that
    /// were built with them. CL_INVALID_PROGRAM_EXECUTABLE.
    pub(crate) fn attach_kernels(
        &self,
        select: impl FnOnce(Vec<BuiltKernel>) -> Result<Vec<BuiltKernel>>,
    ) -> Result<(Vec<BuiltKernel>, Arc<[BuiltKernel]>)> {
        let mut state = self.state();
        let all = state.executable()?.clone();
        let selected = select(all.iter().filter(|kernel| !kernel.is_blocks()).cloned().collect())?;
        state.attached += selected.len();
        Ok((selected, all))
    }

    /// One more kernel object exists beside another.
    pub(crate) fn attach_clone(&self) {
        self.state().attached += 1;
    }

    /// A kernel object is gone.
    pub(crate) fn detach_kernel(&self) {
        self.state().attached -= 1;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        unpoisoned(&self.state)
    }

    /// A program with these kernels.
    #[cfg(test)]
    pub(crate) fn of_kernels(context: &Arc<Context>, kernels: Vec<(KernelInfo, Code)>) -> Arc<Program> {
        let device = context.device();
        let program = Program::new((context, device), None, BinaryType::Executable, vec![Vec::new()]);
        let versions =
            kernels.into_iter().map(|(info, code)| Version { code, info: Arc::new(info), tuning: None });
        let built = versions.map(|version| BuiltKernel::new(version, None));
        program.state().kernels = Some(built.collect());
        program.state().status = BuildStatus::Success;
        Arc::new(program)
    }
}

impl State {
    /// A build with these options has failed before it began.
    fn fail(&mut self, options: &str, error: &Error) {
        self.log = format!("error: {}\n", error.detail);
        self.options = options.to_string();
        self.kernels = None;
        self.status = BuildStatus::Error;
    }

    fn executable(&self) -> Result<&Arc<[BuiltKernel]>, Error> {
        self.kernels.as_ref().filter(|_| self.status == BuildStatus::Success).ok_or_else(|| {
            Status::InvalidProgramExecutable.because(format!("the program was not built: {:?}", self.status))
        })
    }
}

#[cfg(test)]
mod tests;
