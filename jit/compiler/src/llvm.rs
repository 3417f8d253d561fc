//! Thin wrappers over LLVM: contexts that keep their diagnostics, modules in and out, passes, machine code.

pub(crate) mod access;
mod context;
pub(crate) mod edit;
mod instruction_access;
mod module;
mod symbol_access;
mod target;

pub use context::Session;
pub use module::{link_in, parse_bitcode, parse_text, print_text, run_passes, verify, write_bitcode};
pub use target::{emit_object, host, machine, set_process_options};

use inkwell::llvm_sys;
use std::ffi::{CStr, c_char};

/// What LLVM had against it, in its own words.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct LlvmError(pub String);

/// Takes over a message that LLVM allocated; null is the empty string.
fn take_message(message: *mut c_char) -> String {
    if message.is_null() {
        return String::new();
    }
    // SAFETY: LLVM's messages end in a zero byte, and this one is ours to read until it is disposed of.
    let text = unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned();
    // SAFETY: allocated by LLVM, and disposed of once.
    unsafe { llvm_sys::core::LLVMDisposeMessage(message) };
    text
}

/// Takes over an error of LLVM's; null is success.
pub(crate) fn take_error(error: llvm_sys::error::LLVMErrorRef) -> Result<(), LlvmError> {
    if error.is_null() {
        return Ok(());
    }
    // SAFETY: an error that is not null; this consumes it and yields a message.
    let message = unsafe { llvm_sys::error::LLVMGetErrorMessage(error) };
    // SAFETY: such a message ends in a zero byte.
    let text = unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned();
    // SAFETY: made by LLVMGetErrorMessage, and disposed of once.
    unsafe { llvm_sys::error::LLVMDisposeErrorMessage(message) };
    Err(LlvmError(text))
}
