//! What building, compiling and linking do: they call the compiler and turn its answers into programs and logs.

use super::verify::verify;
use super::{BinaryType, BuiltKernel};
use crate::error::{Error, Status};
use crate::execute::compile_time;
use crate::execute::launch::{Code, Place};
use crate::execute::tiers::at_build::wait_for_optimized;
use crate::execute::tiers::{Maker, Version};
use crate::log;
use crate::platform::device::DeviceInfo;
use crate::platform::extensions::SPIR_VERSIONS;
use crate::trace;
use spirula_interface::options::{CompileError, CompileOptions, Groups, MathOptions, Specialization};
use spirula_interface::program::{Alternative, CompiledProgram};
use spirula_interface::protocol::Stage;
use spirula_interface::tier::Tier;
use spirula_service::process::Request;
use spirula_service::{self as service, Build, LoadedKernel, Variables, settings};
use std::fmt::Display;
use std::sync::Arc;
use std::time::Duration;

/// A step's result.
#[derive(Debug)]
pub(super) struct Built {
    pub kind: BinaryType,
    pub modules: Arc<[Vec<u8>]>,
    /// What it was made with.
    pub options: CompileOptions,
    pub compiled: Option<Arc<CompiledProgram>>,
    pub kernels: Option<Arc<[BuiltKernel]>>,
    pub log: String,
}

impl Built {
    /// With these remarks before its own.
    pub(super) fn after(self, remarks: String) -> Built {
        Built { log: remarks + &self.log, ..self }
    }

    /// What came of it, in words.
    pub(super) fn summary(&self) -> String {
        /// More kernels than that are not named.
        const NAMED: usize = 8;
        let Some(kernels) = &self.kernels else { return format!("{:?}", self.kind) };
        let names: Vec<&str> =
            kernels.iter().take(NAMED).map(|kernel| kernel.info.signature.name.as_str()).collect();
        let more = if kernels.len() > NAMED { ", …" } else { "" };
        format!("kernels {}{more}", names.join(", "))
    }
}

/// Why there is none.
#[derive(Debug)]
pub(super) struct Failure {
    pub status: Status,
    pub log: String,
}

impl Failure {
    /// `failed` is the step's own error.
    pub(super) fn of(error: CompileError, failed: Status) -> Failure {
        let status = match error {
            CompileError::InvalidBinary(_) => Status::InvalidBinary,
            CompileError::Failed(_) | CompileError::Crashed(_) | CompileError::Unavailable(_) => failed,
        };
        Failure { status, log: error.to_string() }
    }
}

impl From<Error> for Failure {
    fn from(Error { status, detail }: Error) -> Self {
        Failure { status, log: detail }
    }
}

/// The step's own error for a `-spir-std=` that the device doesn't have (cl_khr_spir).
fn check_version(options: &CompileOptions, failed: Status) -> Result<(), Failure> {
    match &options.spir_std {
        Some(version) if !SPIR_VERSIONS.split(' ').any(|known| known == version) => {
            let log = format!(
                "error: -spir-std={version} is not supported; this device takes SPIR {SPIR_VERSIONS}"
            );
            Err(Failure { status: failed, log })
        }
        _ => Ok(()),
    }
}

fn slices(modules: &[Vec<u8>]) -> Vec<&[u8]> {
    modules.iter().map(Vec::as_slice).collect()
}

/// The tier of a program's code, as the user says.
fn first_tier() -> Tier {
    settings::get().tier.unwrap_or(Tier::Baseline)
}

/// Whether better code may be made for a program than it was built with, or code for local sizes.
fn improves(options: &CompileOptions) -> bool {
    !options.optimization_disabled && settings::get().tier != Some(Tier::Baseline)
}

/// Whether code that was built with these options before is such as a build would make: one that must be optimized makes no
/// use of the baseline's.
pub(super) fn will_do(compiled: &CompiledProgram, options: &CompileOptions) -> bool {
    let is_baseline = compiled.kernels.iter().any(|kernel| kernel.code.tier == Tier::Baseline);
    !is_baseline || options.optimization_disabled || first_tier() == Tier::Baseline
}

/// Modules to an executable that is loaded, and that the device can hold.
pub(super) fn build(
    modules: Arc<[Vec<u8>]>,
    options: &CompileOptions,
    device: &DeviceInfo,
    place: &Place,
    failed: Status,
) -> Result<Built, Failure> {
    check_version(options, failed)?;
    let built = told("a program", &modules, options, first_tier());
    let compiled = built.map_err(|error| Failure::of(error, failed))?.program;
    verify(&compiled, device).map_err(|what| Failure { status: failed, log: format!("error: {what}\n") })?;
    load(Arc::new(compiled), modules, options, place, failed)
}

/// What the compiler makes; how it came about is written to the log and the timeline.
fn told(
    what: &str,
    modules: &[Vec<u8>],
    options: &CompileOptions,
    tier: Tier,
) -> Result<Build, CompileError> {
    let mut span = trace::span("build", || format!("compile {what}"));
    let begun = trace::now();
    let built = service::build(&slices(modules), options, tier)?;
    let stages = &built.stages;
    span.note("tier", format_args!("{tier:?}"));
    // Another process took that time; it is told as if no time passed between the stages.
    let now = trace::now();
    stages.iter().fold(begun, |begun, Stage { name, time }| {
        let end = (begun + time.as_nanos() as u64).min(now);
        trace::ended("stage", name, begun, end);
        end
    });
    if stages.is_empty() {
        log::debug(format_args!("{what}: was compiled before"));
    } else {
        let list: Vec<String> =
            stages.iter().map(|Stage { name, time }| format!("{name} {time:.1?}")).collect();
        log::debug(format_args!("{what}: compiled; {}", list.join(", ")));
    }
    Ok(built)
}

/// Code, whose description was verified, to an executable that is loaded, whose kernels may get better code. `failed` if it
/// can't be.
pub(super) fn load(
    compiled: Arc<CompiledProgram>,
    modules: Arc<[Vec<u8>]>,
    options: &CompileOptions,
    place: &Place,
    failed: Status,
) -> Result<Built, Failure> {
    let invalid = |error: &dyn Display| Failure { status: failed, log: format!("error: {error}\n") };
    let variables = Variables::new(&compiled.data, place.memory.shared());
    let variables = Arc::new(variables.map_err(|error| invalid(&error))?);
    let span = trace::span("build", || "load");
    let loaded = service::load(&compiled, &variables).map_err(|error| invalid(&error))?;
    drop(span);
    let built = |kernel: &LoadedKernel| {
        let recipe = || Recipe {
            kernel: kernel.info.signature.name.clone(),
            modules: modules.clone(),
            options: options.clone(),
            variables: variables.clone(),
            place: place.clone(),
        };
        let maker = improves(options).then(|| Box::new(recipe()) as Box<dyn Maker>);
        BuiltKernel::new(version(kernel, place), maker)
    };
    let kernels: Arc<[BuiltKernel]> = loaded.iter().map(built).collect();
    let launched = kernels.iter().filter(|kernel| !kernel.is_blocks());
    wait_for_optimized(&launched.map(|kernel| &kernel.tiers).collect::<Vec<_>>());
    Ok(Built {
        kind: BinaryType::Executable,
        modules,
        options: options.clone(),
        kernels: Some(kernels),
        log: compiled.log.clone(),
        compiled: Some(compiled),
    })
}

fn version(kernel: &LoadedKernel, place: &Place) -> Version {
    Version { code: Code::of(kernel, place), info: kernel.info.clone(), tuning: None }
}

/// All that it takes to make optimized code of a kernel. Who uses that compares its description with the kernel's own.
struct Recipe {
    kernel: String,
    modules: Arc<[Vec<u8>]>,
    options: CompileOptions,
    variables: Arc<Variables>,
    place: Place,
}

impl Recipe {
    fn options(&self, groups: Groups, lanes: Option<u32>) -> CompileOptions {
        let specialization = Some(Specialization { kernel: self.kernel.clone(), groups, lanes });
        CompileOptions { specialization, ..self.options.clone() }
    }

    fn load(&self, compiled: &CompiledProgram) -> Result<Version, String> {
        let loaded = service::load(compiled, &self.variables).map_err(|error| error.to_string())?.pop();
        let version = |kernel| version(kernel, &self.place);
        loaded.as_ref().map(version).ok_or_else(|| format!("the compiler left {} out", self.kernel))
    }
}

impl Maker for Recipe {
    fn make(&self, groups: Groups, lanes: Option<u32>) -> Result<Version, String> {
        let (what, options) = (format!("kernel {}", self.kernel), self.options(groups, lanes));
        let built =
            told(&what, &self.modules, &options, Tier::Optimized).map_err(|error| error.to_string())?;
        let (time, compiled): (Duration, _) =
            (built.stages.iter().map(|stage| stage.time).sum(), built.program);
        // Nothing if it was known.
        if let [kernel] = &compiled.kernels[..]
            && !time.is_zero()
        {
            let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            compile_time::HERE.learn(kernel.code.operations, ns);
        }
        self.load(&compiled)
    }

    fn request(&self, groups: Groups, lanes: Option<u32>) -> Option<Request> {
        let options = self.options(groups, lanes);
        service::request(&slices(&self.modules), &options, Tier::Optimized).ok()
    }

    fn known(&self, groups: Groups) -> Option<Version> {
        let options = self.options(groups, None);
        let known = service::known(&slices(&self.modules), &options, Tier::Optimized);
        self.load(&known?).ok()
    }

    fn prefer(&self, groups: Groups, lanes: Option<u32>, left: &[Alternative]) {
        let (asked, chosen) = (self.options(groups, None), self.options(groups, lanes));
        service::prefer(&slices(&self.modules), &asked, (&chosen, left), Tier::Optimized);
    }
}

/// A module to an object that can be linked: it is checked, and stays SPIR.
pub(super) fn compile(modules: Arc<[Vec<u8>]>, options: &CompileOptions) -> Result<Built, Failure> {
    let failed = Status::CompileProgramFailure;
    check_version(options, failed)?;
    let mut log = String::new();
    for module in modules.iter() {
        log += &service::check(module, options).map_err(|error| Failure::of(error, failed))?;
    }
    let (kind, options) = (BinaryType::CompiledObject, options.clone());
    Ok(Built { kind, modules, options, compiled: None, kernels: None, log })
}

/// Modules to a library.
pub(super) fn link(modules: Arc<[Vec<u8>]>, options: &CompileOptions) -> Result<Built, Failure> {
    let failed = Status::LinkProgramFailure;
    check_version(options, failed)?;
    let linked = service::link(&slices(&modules), options).map_err(|error| Failure::of(error, failed))?;
    let modules = Arc::from([linked]);
    let (kind, options) = (BinaryType::Library, options.clone());
    Ok(Built { kind, modules, options, compiled: None, kernels: None, log: String::new() })
}

/// The options for code that is linked of objects: a liberty holds if the link grants it, or if all objects had it; without
/// optimization if any object was.
pub(super) fn merge(link: &CompileOptions, objects: &[CompileOptions]) -> CompileOptions {
    CompileOptions {
        spir_std: link.spir_std.clone(),
        optimization_disabled: objects.iter().any(|object| object.optimization_disabled),
        uniform_groups: objects.iter().any(|object| object.uniform_groups),
        debug: link.debug || objects.iter().any(|object| object.debug),
        math: link.math | MathOptions::common(objects.iter().map(|object| object.math)),
        specialization: None,
        addresses: link.addresses,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn liberties_need_all_objects_or_the_link() {
        let mad = CompileOptions { math: MathOptions::MAD_ENABLE, ..Default::default() };
        let none = CompileOptions::default();
        assert_eq!(merge(&none, &[mad.clone(), mad.clone()]).math, mad.math);
        assert_eq!(merge(&none, &[mad.clone(), none.clone()]).math, MathOptions::NONE);
        assert_eq!(merge(&mad, std::slice::from_ref(&none)).math, mad.math);
        let unoptimized = CompileOptions { optimization_disabled: true, ..Default::default() };
        assert!(merge(&none, &[none.clone(), unoptimized]).optimization_disabled);
    }

    #[test]
    fn other_spir_versions_fail_by_name() {
        let options = CompileOptions { spir_std: Some("2.1".into()), ..Default::default() };
        let device = &crate::platform::Platform::get().devices()[0].info;
        let failure =
            build(Arc::from([Vec::new()]), &options, device, &Place::default(), Status::BuildProgramFailure)
                .unwrap_err();
        assert_eq!(failure.status, Status::BuildProgramFailure);
        assert!(failure.log.contains("-spir-std=2.1"));
    }
}
