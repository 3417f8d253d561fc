//! Target machines, and object files for them.

use super::{LlvmError, Module};
use inkwell::OptimizationLevel;
use inkwell::llvm_sys::support::LLVMParseCommandLineOptions;
use inkwell::targets::{
    CodeModel, FileType, InitializationConfig, RelocMode, Target as Registry, TargetMachine,
};
use spirula_interface::target::Target;
use std::sync::LazyLock;

/// LLVM's registry of targets is filled, and its options are set, once for each process.
static TARGETS: LazyLock<Result<(), String>> = LazyLock::new(|| {
    set_options();
    Registry::initialize_native(&InitializationConfig::default())
});

fn set_options() {
    // The scheduler behind register allocation takes up to half of a build with long blocks, and gains nothing on
    // processors that reorder by themselves.
    let arguments = [c"spirula".as_ptr(), c"-post-RA-scheduler=0".as_ptr()];
    // SAFETY: as many C strings as said, alive during the call; a null overview is none. Nothing reads the option meanwhile:
    // it is one of code generation, which needs a machine, and the first of these is yet to be made.
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

/// A machine for that processor; position-independent code. `optimize` is the code generator's level: aggressive or none.
pub fn machine(target: &Target, optimize: bool) -> Result<TargetMachine, LlvmError> {
    TARGETS.clone().map_err(LlvmError)?;
    let triple = TargetMachine::get_default_triple();
    let registered = Registry::from_triple(&triple).map_err(|error| LlvmError(error.to_string()))?;
    let level = if optimize { OptimizationLevel::Aggressive } else { OptimizationLevel::None };
    registered
        .create_target_machine(
            &triple,
            &target.cpu,
            &target.features,
            level,
            RelocMode::PIC,
            CodeModel::Small,
        )
        .ok_or_else(|| LlvmError(format!("LLVM has no code generator for {triple}")))
}

/// Generates code for a module that has the machine's triple and data layout.
pub fn emit_object(module: &mut Module, machine: &TargetMachine) -> Result<Vec<u8>, LlvmError> {
    let buffer = machine
        .write_to_memory_buffer(module.inkwell(), FileType::Object)
        .map_err(|error| LlvmError(error.to_string()))?;
    Ok(buffer.as_slice().to_vec())
}
