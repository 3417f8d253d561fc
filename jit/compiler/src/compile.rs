//! The compiler: SPIR bytes in, an object and its kernels' metadata out. Functions of what they are given; `worker` calls them.
//!
//! ```text
//! bytes -> SpirModule -> HardenedModule -> LinkedModule -> CleanModule -> Imported    front: LLVM IR, ever simpler
//!       -> Lowered                       spirula_kir::pipeline: a kernel becomes a work-group function in Kernel IR
//!       -> objects                       parts, back, codegen: by tier; the module's text for LLVM, then code for the target
//! ```
//!
//! If the settings ask for remarks, the build log says what was decided for each kernel. [`trace`] tells what
//! the stages yielded and how long they took, for who works on the compiler.

mod baseline;
mod parts;
mod recent;
pub mod trace;

use crate::front::{
    self, CleanModule, Effort, HardenedModule, Imported, KnownFormats, LinkedModule, SpirModule,
};
use crate::llvm::{self, Session};
use baseline::Baseline;
use inkwell::targets::TargetMachine;
use spirula_interface::check::Checks;
use spirula_interface::image_formats::ImageFormats;
use spirula_interface::inputs::Inputs;
use spirula_interface::options::{CompileError, Groups, Specialization, Usual};
use spirula_interface::program::{CompiledProgram, KernelCode, KernelInfo, KernelSignature};
use spirula_interface::target::TargetFacts;
use spirula_interface::tier::Tier;
use spirula_kir::analysis::{find_effects, sees_sub_groups};
use spirula_kir::lower::WorkGroupFunction;
use spirula_kir::pipeline::{self, Lowered, PASSES, PassError};
use spirula_kir::transform::widen::{Callees, Tables};
use spirula_kir::{Function, Module, transform};
use std::cell::LazyCell;
use std::collections::HashMap;
use std::sync::Arc;
use trace::{Dump, Stages};

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
    let joined = front::read_modules_with(&session, modules, &inputs.options, &inputs.settings)?;
    Ok(llvm::write_bitcode(&joined.module))
}

/// Builds an executable program of one or more modules.
pub fn build(
    modules: &[&[u8]],
    inputs: &Inputs,
    dump: Dump,
    stages: &mut Stages,
) -> Result<CompiledProgram, CompileError> {
    let session = Session::new();
    let Inputs { options, settings, target, .. } = inputs;
    let machine =
        llvm::machine(target, !options.optimization_disabled).map_err(|error| fault("no machine", &error))?;

    let known = options.specialization.as_ref().and_then(|_| recent::find(modules, inputs));
    let imported = match known.filter(|_| !dump.is_wanted()) {
        Some(known) => known,
        None => {
            let imported = Arc::new(import_for_tier(&session, modules, inputs, &machine, dump, stages)?);
            recent::keep(modules, inputs, &imported);
            imported
        }
    };
    let Imported { kernels: signatures, module, left_out, .. } = &*imported;
    let left_out = left_out.iter().copied().chain(std::iter::repeat(0));
    let kernels = std::iter::zip(std::iter::zip(signatures, &module.kernels), left_out);
    let kernels: Vec<_> = match &options.specialization {
        Some(wanted) => {
            kernels.filter_map(|(kernel, rest)| Some((specialized(kernel, wanted)?, rest))).collect()
        }
        None => kernels.map(|((signature, body), rest)| ((signature.clone(), body.clone()), rest)).collect(),
    };
    let scalar = in_scalars(module, &target.facts());
    let mut baseline = Baseline::new(&scalar, inputs.tier);
    let stack = module.stack_sizes();
    let is_whole = !settings.checks.any() && !options.addresses.is_linear();
    // The baseline has no lanes.
    let known = LazyCell::new(|| match is_whole {
        true => {
            let tables = Tables::new(module, target.facts());
            (Callees::new(module, target.facts(), &tables), tables)
        }
        false => Default::default(),
    });
    let (mut infos, mut remarks) = (Vec::new(), Vec::new());
    let (mut lowered, mut rests) = (Vec::new(), Vec::new());
    for (number, ((signature, body), left_out)) in kernels.into_iter().enumerate() {
        let calls = call_stack(&signature.name, &body, &stack)?;
        let (mut tier, name) = (tier_of(&body, inputs), &signature.name);
        if tier == Tier::Baseline {
            let (code, kernel) = lower(number, name, body.clone(), (tier, inputs, Groups::Any), dump)?;
            match baseline.add(&kernel.group) {
                Ok(()) => {
                    remarks.extend(kernel.remarks);
                    let code = KernelCode {
                        private_size: code.private_size + calls,
                        operations: u32::try_from(left_out)
                            .map_or(u32::MAX, |rest| code.operations.saturating_add(rest)),
                        ..code
                    };
                    infos.push(KernelInfo { signature, code });
                    continue;
                }
                Err(illegal) => {
                    remarks.push(format!("kernel {name}: optimized at once: {illegal}"));
                    tier = Tier::Optimized;
                }
            }
        }
        let mut body = body;
        (body.callees, body.tables) = LazyCell::force(&known).clone();
        let lowered_for = |groups| lower(number, name, body.clone(), (tier, inputs, groups), dump);
        let (mut code, mut kernel) = lowered_for(wanted_groups(inputs))?;
        if let Some(rest) = kernel.group.rest.take() {
            match baseline.add_rest(&rest) {
                Ok(()) => rests.push(*rest),
                Err(_) => (code, kernel) = lowered_for(Groups::Any)?,
            }
        }
        infos.push(KernelInfo {
            signature,
            code: KernelCode { private_size: code.private_size + calls, ..code },
        });
        remarks.extend(kernel.remarks);
        lowered.push(kernel.group);
    }
    let baseline = baseline.module();
    let mut module = Module { functions: scalar.functions, ..module.without_code() };
    for WorkGroupFunction { function, remainder, called, .. } in lowered {
        module.kernels.push(function);
        module.functions.extend(remainder.map(|function| *function));
        for function in called {
            if module.functions.iter().all(|known| known.name != function.name) {
                module.functions.push(function);
            }
        }
    }
    if settings.verify {
        // What is compiled elsewhere is called nevertheless.
        let whole = module.functions.iter().cloned().chain(rests).collect();
        let whole = Module { functions: whole, kernels: module.kernels.clone(), ..module.without_code() };
        whole.verify().map_err(|rule| broken("the lowering", &rule))?;
    }
    stages.end("Kernel IR");
    if settings.verify {
        baseline.verify().map_err(|rule| broken("the legalization", &rule))?;
    }
    dump.write("baseline.kir", || baseline.to_string());
    let programs = [(Tier::Baseline, &baseline), (Tier::Optimized, &module)];
    let objects = parts::objects(&session, &programs, (&machine, inputs), dump)?;
    stages.end("code");

    let mut log = session.take_warnings();
    log.extend(objects.iter().filter_map(|object| object.warning.as_deref()));
    // Only on demand: clients such as pyopencl warn of every log that says anything.
    if settings.remarks {
        log.extend(remarks.iter().map(|line| format!("{line}\n")));
    }
    let objects = objects.into_iter().map(|object| object.bytes).collect();
    Ok(CompiledProgram { objects, kernels: infos, data: module.data, log })
}

/// The front, with as little effort as the tier needs.
fn import_for_tier(
    session: &Session,
    modules: &[&[u8]],
    inputs: &Inputs,
    machine: &TargetMachine,
    dump: Dump,
    stages: &mut Stages,
) -> Result<Imported, CompileError> {
    let mut with_effort = |effort| import(session, modules, inputs, (machine, effort), dump, stages);
    match inputs.tier {
        _ if inputs.options.optimization_disabled => with_effort(Effort::Least),
        Tier::Optimized => with_effort(Effort::Full),
        Tier::Baseline => {
            let imported = with_effort(Effort::Quick)?;
            if is_for_baseline(&imported, inputs) { Ok(imported) } else { with_effort(Effort::Full) }
        }
    }
}

/// Whether baseline code can be made of it, if it isn't what optimized code would be made of.
fn is_for_baseline(imported: &Imported, inputs: &Inputs) -> bool {
    let module = &imported.module;
    let stack = module.stack_sizes();
    let fits = |kernel: &Function| kernel.call_stack_size(&stack).is_some_and(|size| size <= MAX_CALL_STACK);
    let mut kernels = module.kernels.iter();
    imported.is_whole() || kernels.all(|kernel| tier_of(kernel, inputs) == Tier::Baseline && fits(kernel))
}

/// Modules of so many bytes are not read whole for one of their kernels. Of smaller ones all kernels are made ready at once: who asks for
/// code of one mostly asks for the others' as well.
const LARGE: usize = 256 << 10;

/// The front: modules to Kernel IR in which all is decided that is the same in every tier.
fn import(
    session: &Session,
    modules: &[&[u8]],
    inputs: &Inputs,
    (machine, effort): (&TargetMachine, Effort),
    dump: Dump,
    stages: &mut Stages,
) -> Result<Imported, CompileError> {
    let Inputs { options, settings, target, .. } = inputs;
    if settings.checks.any() && options.addresses.is_linear() {
        let why = "error: SPIRULA_CHECK: kernels can't be checked on a device of 32 bits\n";
        return Err(CompileError::Failed(why.to_owned()));
    }
    let only = options.specialization.as_ref().map(|wanted| wanted.kernel.as_str());
    let of_kernel = match only.filter(|_| modules.iter().map(|bytes| bytes.len()).sum::<usize>() >= LARGE) {
        Some(kernel) => front::read_kernel(session, modules, kernel, options, settings)?,
        None => None,
    };
    let only = only.filter(|_| of_kernel.is_some()).map(str::to_owned);
    let spir: SpirModule = match of_kernel {
        Some(of_kernel) => of_kernel,
        None => front::read_modules_with(session, modules, options, settings)?,
    };
    stages.end("read");
    dump.write("spir.ll", || llvm::print_text(&spir.module));
    let hardened: HardenedModule = front::harden(spir, machine);
    stages.end("harden");
    let linked: LinkedModule = front::link(session, hardened, machine)?;
    stages.end("link");
    let clean: CleanModule = front::clean_up(linked, machine, effort, known_formats(inputs).as_ref())?;
    stages.end("clean up");
    dump.write("clean.ll", || clean.text());
    let mut imported = Imported { only, ..front::import(clean)? };
    stages.end("import");
    if settings.checks.any() {
        instrument(session, &mut imported, machine, settings.checks)?;
        stages.end("checks");
    }
    let module = &mut imported.module;
    dump.write("imported.kir", || module.to_string());
    if settings.verify {
        module.verify().map_err(|rule| broken("the import", &rule))?;
    }
    let facts = target.facts();
    for function in &mut module.functions {
        transform::infer_spaces(function);
        transform::decide_contraction(function, &facts);
        if options.addresses.is_linear() {
            transform::enter_linear_memory(function, None);
            if settings.verify {
                transform::check_linear_memory(function, None)
                    .map_err(|rule| broken("the linear memory", &rule))?;
            }
        }
    }
    Ok(imported)
}

/// A module's functions as one work-item calls them. (In lanes the processor has other instructions for some of what they do.)
fn in_scalars(module: &Module, facts: &TargetFacts) -> Module {
    let mut scalar = Module { functions: module.functions.clone(), ..module.without_code() };
    for function in &mut scalar.functions {
        transform::expand_minima(function);
        transform::expand_reciprocals(function, facts);
        transform::expand_scales(function, facts);
        transform::widen_narrow_conversions(function);
    }
    scalar
}

/// Writes checks into the kernels, and adds the functions that those call.
fn instrument(
    session: &Session,
    imported: &mut Imported,
    machine: &TargetMachine,
    checks: Checks,
) -> Result<(), CompileError> {
    let Imported { kernels, module, variables, .. } = imported;
    module.functions.extend(front::check_functions(session, machine)?);
    transform::check::instrument(module, kernels, variables, checks);
    find_effects(module);
    Ok(())
}

/// The one kernel, to be lowered as if it required the local size, if there is one; what the host knows of it stays.
fn specialized(
    (signature, body): (&KernelSignature, &Function),
    wanted: &Specialization,
) -> Option<(KernelSignature, Function)> {
    if signature.name != wanted.kernel {
        return None;
    }
    let mut body = body.clone();
    if let Some(local_size) = wanted.groups.size() {
        body.required_work_group_size = Some(local_size);
        // Smaller groups run the general code.
        body.remainder_groups = false;
    }
    Some((signature.clone(), body))
}

/// What code is wanted for.
fn wanted_groups(inputs: &Inputs) -> Groups {
    inputs.options.specialization.as_ref().map_or(Groups::Any, |wanted| wanted.groups)
}

/// The formats of images that code is wanted for, if they are known. Kernels that are checked or not to be optimized are what they always are.
fn known_formats(inputs: &Inputs) -> Option<KnownFormats<'_>> {
    let Specialization { kernel, groups, .. } = inputs.options.specialization.as_ref()?;
    let Groups::Usual(Usual { formats, .. }) = groups else { return None };
    let may_differ = inputs.options.optimization_disabled || inputs.settings.checks.any();
    (!formats.is_unknown() && !may_differ).then_some(KnownFormats { kernel, formats: *formats })
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

/// What a kernel's code is made by. Sub-groups are packs of work-items, which scalar code has not; their size is not the
/// tier's to choose.
fn tier_of(kernel: &Function, inputs: &Inputs) -> Tier {
    if sees_sub_groups(kernel) { Tier::Optimized } else { inputs.tier }
}

/// A kernel's work-group function, and what the host must know of it.
fn lower(
    number: usize,
    name: &str,
    body: Function,
    (tier, inputs, groups): (Tier, &Inputs, Groups),
    dump: Dump,
) -> Result<(KernelCode, Lowered), CompileError> {
    // A hostile module's kernels may be called anything; these names go into text.
    let is_plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    let symbol = format!("spirula.group.{number}.{}", if is_plain { name } else { "" });
    dump.write(&format!("{symbol}.0.imported.kir"), || body.to_string());
    let position =
        |pass: &str| 1 + PASSES.iter().position(|other| other.name == pass).unwrap_or(PASSES.len());
    let operations = u32::try_from(body.insts().count()).unwrap_or(u32::MAX);
    let is_sub_group_size_required = body.required_sub_group_size.is_some();
    let lowered = pipeline::run(body, &symbol, &pass_options(tier, inputs, groups), |pass, form| {
        let file = format!("{symbol}.{}.{}.kir", position(pass.name), pass.name);
        dump.write(&file, || form.to_string());
    });
    let lowered = lowered.map_err(|error| match error {
        PassError::SubGroups { .. } => CompileError::Failed(format!("error: the kernel `{name}`: {error}\n")),
        _ => fault(&format!("the kernel `{name}`"), &error),
    })?;
    let local_size = wanted_groups(inputs).size();
    let code = KernelCode {
        symbol,
        tier,
        static_local_size: lowered.static_local_size,
        private_size: lowered.group.private_size,
        scratch_per_item: lowered.group.scratch_per_item,
        scratch_fixed: lowered.group.scratch_fixed,
        // A size that is a constant is asked for no more, and still matters.
        sees_group: lowered.sees_group || local_size.is_some(),
        any_order: lowered.any_order,
        lanes: lowered.lanes,
        row_dimension: lowered.row_dimension,
        wants_filled: lowered.group.rest.is_some(),
        wants_disjoint: lowered.group.rest_overlaps,
        local_size,
        formats: known_formats(inputs).map_or(ImageFormats::UNKNOWN, |known| known.formats),
        // What checks find is told by the lanes in which it is found.
        alternatives: if inputs.settings.checks.any() { Vec::new() } else { lowered.alternatives.clone() },
        operations,
        sub_group_size: lowered.sub_group_size,
        is_sub_group_size_required,
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

/// What passes go by; without optimization, and in the baseline, kernels stay scalar.
fn pass_options(tier: Tier, inputs: &Inputs, groups: Groups) -> pipeline::Options {
    let Inputs { options, settings, target, .. } = inputs;
    let verify = settings.verify;
    let linear_memory = options.addresses.is_linear();
    let facts = target.facts();
    let usual = match groups {
        // All of a program in linear memory is one object, in which each access is checked.
        Groups::Usual(usual) if !linear_memory => Some(usual),
        _ => None,
    };
    if options.optimization_disabled {
        // The bits stay what they are.
        let TargetFacts { fuses, avx512, .. } = facts;
        let facts = TargetFacts { fuses, avx512, ..TargetFacts::with_vectors(128) };
        pipeline::Options {
            facts,
            lanes: Some(1),
            preferred_lanes: None,
            optimize: false,
            verify,
            explain: settings.remarks,
            linear_memory,
            usual: None,
        }
    } else {
        let lanes = match tier {
            Tier::Baseline => Some(1),
            Tier::Optimized => settings.vector_width,
        };
        let preferred_lanes = options.specialization.as_ref().and_then(|wanted| wanted.lanes);
        pipeline::Options {
            facts,
            lanes,
            preferred_lanes,
            optimize: true,
            verify,
            explain: settings.remarks,
            linear_memory,
            usual,
        }
    }
}

#[cfg(test)]
mod tests;
