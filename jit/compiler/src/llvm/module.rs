//! Modules: bitcode and text in and out, verification, linking, passes.

use super::{LlvmError, Session, take_error, take_message};
use inkwell::llvm_sys::transforms::pass_builder::{
    LLVMCreatePassBuilderOptions, LLVMDisposePassBuilderOptions, LLVMPassBuilderOptionsRef,
    LLVMPassBuilderOptionsSetLoopInterleaving, LLVMPassBuilderOptionsSetLoopUnrolling,
    LLVMPassBuilderOptionsSetLoopVectorization, LLVMPassBuilderOptionsSetSLPVectorization, LLVMRunPasses,
};
use inkwell::llvm_sys::{analysis, bit_reader, ir_reader, linker};
use inkwell::memory_buffer::MemoryBuffer;
use inkwell::module::Module;
use inkwell::targets::TargetMachine;
use std::ffi::CString;
use std::mem::ManuallyDrop;
use std::ptr::null_mut;

/// Reads bitcode of any version that LLVM still upgrades. LLVM may abort on damaged input: only the compiler
/// process calls this with bytes from outside.
pub fn parse_bitcode<'s>(session: &'s Session, bitcode: &[u8]) -> Result<Module<'s>, LlvmError> {
    let buffer = MemoryBuffer::create_from_memory_range_copy(bitcode, "module");
    let mut module = null_mut();
    // SAFETY: context and buffer are alive; the reader copies what it needs of the buffer.
    let failed = unsafe {
        bit_reader::LLVMParseBitcodeInContext2(session.context().raw(), buffer.as_mut_ptr(), &mut module)
    };
    if failed != 0 {
        return Err(LlvmError(session.take_errors()));
    }
    // SAFETY: a module of this session's context that nobody else owns.
    Ok(unsafe { Module::new(module) })
}

/// Reads LLVM assembly.
pub fn parse_text<'s>(session: &'s Session, text: &str) -> Result<Module<'s>, LlvmError> {
    let buffer = MemoryBuffer::create_from_memory_range_copy(text.as_bytes(), "kernel");
    let (mut module, mut message) = (null_mut(), null_mut());
    // SAFETY: context and buffer are alive; the buffer (a copy that ends in a zero byte) stays ours.
    let failed = unsafe {
        ir_reader::LLVMParseIRInContext2(
            session.context().raw(),
            buffer.as_mut_ptr(),
            &mut module,
            &mut message,
        )
    };
    let message = take_message(message);
    if failed != 0 {
        return Err(LlvmError(message));
    }
    // SAFETY: a module of this session's context that nobody else owns.
    Ok(unsafe { Module::new(module) })
}

/// The module as bitcode of this LLVM.
pub fn write_bitcode(module: &Module) -> Vec<u8> {
    module.write_bitcode_to_memory().as_slice().to_vec()
}

/// The module as LLVM assembly.
pub fn print_text(module: &Module) -> String {
    module.print_to_string().to_string_lossy().into_owned()
}

/// LLVM's verifier; its findings are the error.
pub fn verify(module: &Module) -> Result<(), LlvmError> {
    let mut message = null_mut();
    let action = analysis::LLVMVerifierFailureAction::LLVMReturnStatusAction;
    // SAFETY: the module is alive; the message is for us to dispose of in either case.
    let failed = unsafe { analysis::LLVMVerifyModule(module.as_mut_ptr(), action, &mut message) };
    let message = take_message(message);
    if failed != 0 { Err(LlvmError(message)) } else { Ok(()) }
}

/// Moves everything in `source` into `destination`.
pub fn link_in<'s>(
    session: &'s Session,
    destination: &Module<'s>,
    source: Module<'s>,
) -> Result<(), LlvmError> {
    let source = ManuallyDrop::new(source);
    // SAFETY: both modules are alive and of one context; `source` is consumed and not used again.
    let failed = unsafe { linker::LLVMLinkModules2(destination.as_mut_ptr(), source.as_mut_ptr()) };
    if failed != 0 { Err(LlvmError(session.take_errors())) } else { Ok(()) }
}

/// Runs a pipeline in `opt -passes=` syntax for the machine, vectorizers on.
pub fn run_passes(module: &Module, passes: &str, machine: &TargetMachine) -> Result<(), LlvmError> {
    let passes = CString::new(passes).map_err(|error| LlvmError(error.to_string()))?;
    let options = PassOptions::vectorizing();
    // SAFETY: module, machine and options are alive during the call.
    take_error(unsafe {
        LLVMRunPasses(module.as_mut_ptr(), passes.as_ptr(), machine.as_mut_ptr(), options.0)
    })
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

#[cfg(test)]
mod tests {
    use super::*;

    const MODULE: &str = "define i32 @f(i32 %x) {\n  %y = add i32 %x, 1\n  ret i32 %y\n}\n";

    #[test]
    fn text_and_bitcode_round_trip() {
        let session = Session::new();
        let module = parse_text(&session, MODULE).unwrap();
        let bitcode = write_bitcode(&module);
        let again = parse_bitcode(&session, &bitcode).unwrap();
        assert!(print_text(&again).contains("%y = add i32 %x, 1"));
        assert!(verify(&again).is_ok());
    }

    #[test]
    fn damaged_input_is_an_error_with_a_reason() {
        let session = Session::new();
        let text = parse_text(&session, "define i32 @f(").unwrap_err().0;
        assert!(text.contains("expected type"), "{text}");
        let bitcode = write_bitcode(&parse_text(&session, MODULE).unwrap());
        let error = parse_bitcode(&session, &bitcode[..bitcode.len() / 2]).unwrap_err().0;
        assert!(!error.is_empty());
        assert_eq!(session.take_errors(), "", "the error was taken");
    }

    #[test]
    fn linking_reports_duplicates() {
        let session = Session::new();
        let [one, two] = [MODULE, MODULE].map(|text| parse_text(&session, text).unwrap());
        let error = link_in(&session, &one, two).unwrap_err().0;
        assert!(error.contains("multiply defined") && error.contains('f'), "{error}");
    }
}
