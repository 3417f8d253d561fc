//! Pipelines of LLVM's passes.

use super::{LlvmError, Module, take_error};
use inkwell::llvm_sys::transforms::pass_builder::{
    LLVMCreatePassBuilderOptions, LLVMDisposePassBuilderOptions, LLVMPassBuilderOptionsRef,
    LLVMPassBuilderOptionsSetLoopInterleaving, LLVMPassBuilderOptionsSetLoopUnrolling,
    LLVMPassBuilderOptionsSetLoopVectorization, LLVMPassBuilderOptionsSetSLPVectorization, LLVMRunPasses,
};
use inkwell::targets::TargetMachine;
use std::ffi::CString;

/// Runs a pipeline in `opt -passes=` syntax for the machine, vectorizers on.
pub fn run_passes(module: &mut Module, passes: &str, machine: &TargetMachine) -> Result<(), LlvmError> {
    let passes = CString::new(passes).map_err(|error| LlvmError(error.to_string()))?;
    let options = PassOptions::vectorizing();
    // SAFETY: module, machine and options are alive during the call; the error is ours.
    unsafe { take_error(LLVMRunPasses(module.raw(), passes.as_ptr(), machine.as_mut_ptr(), options.0)) }
}

/// The pass builder's options, disposed of on drop.
struct PassOptions(LLVMPassBuilderOptionsRef);

impl PassOptions {
    fn vectorizing() -> Self {
        // SAFETY: makes an object of ours.
        let options = PassOptions(unsafe { LLVMCreatePassBuilderOptions() });
        for set in [
            LLVMPassBuilderOptionsSetLoopVectorization,
            LLVMPassBuilderOptionsSetSLPVectorization,
            LLVMPassBuilderOptionsSetLoopInterleaving,
            LLVMPassBuilderOptionsSetLoopUnrolling,
        ] {
            // SAFETY: the options are alive.
            unsafe { set(options.0, 1) };
        }
        options
    }
}

impl Drop for PassOptions {
    fn drop(&mut self) {
        // SAFETY: made by LLVMCreatePassBuilderOptions, and disposed of once.
        unsafe { LLVMDisposePassBuilderOptions(self.0) };
    }
}
