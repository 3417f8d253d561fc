//! Target machines, and object files for them.

use super::{LlvmError, Module};
use inkwell::OptimizationLevel;
use inkwell::llvm_sys::support::LLVMParseCommandLineOptions;
use inkwell::targets::{
    CodeModel, FileType, InitializationConfig, RelocMode, Target as Registry, TargetMachine,
};
use spirula_interface::target::{Target, TargetFacts};
use std::ffi::CStr;
use std::mem::ManuallyDrop;
use std::ops::Deref;
use std::sync::{LazyLock, Mutex, PoisonError};

/// LLVM's registry of targets is filled, and its options are set, once for each process.
static TARGETS: LazyLock<Result<(), String>> = LazyLock::new(|| {
    set_options();
    Registry::initialize_native(&InitializationConfig::default())
});

fn set_options() {
    // The scheduler behind register allocation takes up to half of a build with long blocks, and gains nothing on
    // processors that reorder by themselves.
    // Register allocation looks for the regions in which a live range is to be split, and counts the edges that it goes over. LLVM's
    // limit is so high that this takes more than half of code generation where lanes part often; the code is as good with less.
    let options = [c"spirula", c"-post-RA-scheduler=0", c"-grow-region-complexity-budget=500"];
    let arguments = options.map(CStr::as_ptr);
    // SAFETY: as many C strings as said, alive during the call; a null overview is none. Nothing reads the options meanwhile:
    // they are code generation's, which needs a machine, and the first of these is yet to be made.
    unsafe { LLVMParseCommandLineOptions(arguments.len() as i32, arguments.as_ptr(), std::ptr::null()) };
}

/// The processor that this process runs on, as LLVM names it.
pub fn host() -> Target {
    Target {
        cpu: TargetMachine::get_host_cpu_name().to_string(),
        features: TargetMachine::get_host_cpu_features().to_string(),
        threads: 1,
    }
}

/// A machine that generates code. LLVM derives what it knows of the processor anew for each, which takes a millisecond: they are
/// kept for who asks next.
#[derive(Debug)]
pub struct Machine {
    kind: Kind,
    machine: ManuallyDrop<TargetMachine>,
}

/// What a machine is made from: processor, features and whether it optimizes.
type Kind = (String, String, bool);

/// A machine that nobody uses.
struct Idle(Kind, TargetMachine);

// SAFETY: a machine is bound to no thread or context, and is used by one at a time.
unsafe impl Send for Idle {}

/// Machines that nobody uses, a few.
static IDLE: Mutex<Vec<Idle>> = Mutex::new(Vec::new());
const MOST_IDLE: usize = 16;

impl Deref for Machine {
    type Target = TargetMachine;

    fn deref(&self) -> &TargetMachine {
        &self.machine
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // SAFETY: nobody sees it after its drop.
        let machine = unsafe { ManuallyDrop::take(&mut self.machine) };
        let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
        // Who panics with one may leave it in any state.
        if std::thread::panicking() {
            return;
        }
        // What nobody has asked for the longest time gives way.
        if idle.len() == MOST_IDLE {
            idle.remove(0);
        }
        idle.push(Idle(std::mem::take(&mut self.kind), machine));
    }
}

/// A machine for that processor; position-independent code. `optimize` is the code generator's level: aggressive or none.
pub fn machine(target: &Target, optimize: bool) -> Result<Machine, LlvmError> {
    let kind = (target.cpu.clone(), target.features.clone(), optimize);
    let mut idle = IDLE.lock().unwrap_or_else(PoisonError::into_inner);
    let known = idle.iter().position(|Idle(other, _)| *other == kind).map(|at| idle.remove(at).1);
    drop(idle);
    let machine = known.map_or_else(|| new_machine(target, optimize), Ok)?;
    Ok(Machine { kind, machine: ManuallyDrop::new(machine) })
}

fn new_machine(target: &Target, optimize: bool) -> Result<TargetMachine, LlvmError> {
    TARGETS.clone().map_err(LlvmError)?;
    let triple = TargetMachine::get_default_triple();
    let registered = Registry::from_triple(&triple).map_err(|error| LlvmError(error.to_string()))?;
    let level = if optimize { OptimizationLevel::Aggressive } else { OptimizationLevel::None };
    let (cpu, features) = (&target.cpu, &target.features);
    registered
        .create_target_machine(&triple, cpu, features, level, RelocMode::PIC, CodeModel::Small)
        .ok_or_else(|| LlvmError(format!("LLVM has no code generator for {triple}")))
}

/// What of the processor matters.
pub fn facts(machine: &TargetMachine) -> TargetFacts {
    let features = machine.get_feature_string().to_string_lossy();
    Target { features: features.into_owned(), ..Target::default() }.facts()
}

/// Generates code for a module that has the machine's triple and data layout: an object, or the text of its assembly.
pub fn emit(module: &mut Module, machine: &TargetMachine, kind: FileType) -> Result<Vec<u8>, LlvmError> {
    let buffer = machine
        .write_to_memory_buffer(module.inkwell(), kind)
        .map_err(|error| LlvmError(error.to_string()))?;
    Ok(buffer.as_slice().to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::llvm;

    #[test]
    fn machines_are_used_again_by_whom_they_suit() {
        let host = llvm::host();
        let own = Target { cpu: "x86-64".into(), features: "+sse4.2".into(), threads: 1 };
        let address = |target: &Target, optimize| machine(target, optimize).unwrap().as_mut_ptr();
        let first = machine(&own, true).unwrap();
        let (one, other) = (first.as_mut_ptr(), address(&own, true));
        assert_ne!(one, other, "one is in use");
        drop(first);
        assert!([one, other].contains(&address(&own, true)));
        assert!(![one, other].contains(&address(&own, false)));
        assert!(![one, other].contains(&address(&host, true)));
    }
}
