//! The one room for LLVM: nothing else in this crate calls its C API.
//!
//! ```text
//! context, fatal_error    what LLVM says goes to a list, and what it says last to a handler
//! target                  machines, and object files for them
//! module, passes          modules in and out, linked, and through pipelines of passes
//! view, value, ...        reading what a module contains
//! edit, builder           changing it
//! ```
//!
//! What a module contains is read through handles, small copyable pointers that follow LLVM's classes:
//!
//! ```text
//! Value ─┬─ Instruction ── Call          Type   Block   Node (of metadata)
//!        ├─ Parameter
//!        └─ Symbol ─┬─ Function
//!                   └─ Global
//! ```
//!
//! A narrower handle is made by a checked cast only (`as_call`), so that what LLVM answers for calls alone is a method of
//! [`Call`] alone. Nothing that safe code does with a handle can make it dangle:
//!
//! * Handles for reading come from [`Module::view`], which borrows the module. Whatever may free something (passes,
//!   linking, code generation) takes `&mut Module`, so that no handle outlives it.
//! * A module is changed inside [`Module::edit`], and what happens there frees nothing: an erased value is only noted, and
//!   goes when the session ends. The session's lifetime is its own (`for<'e>`) and handles are invariant in it, so that none
//!   leaves the session, and none of another module comes in.

pub(crate) mod attribute;
mod builder;
mod context;
mod edit;
mod fatal_error;
mod function;
mod instruction;
mod layout;
pub(crate) mod loops;
mod metadata;
mod module;
mod operator;
mod passes;
mod symbol;
mod target;
mod types;
mod value;
mod view;

pub(crate) use builder::Builder;
pub use context::Session;
pub(crate) use edit::Edit;
pub use fatal_error::on_fatal_error;
pub(crate) use function::{Block, Function};
pub use inkwell::targets::FileType;
pub(crate) use instruction::{Call, Instruction};
pub(crate) use layout::Layout;
pub(crate) use metadata::Node;
pub use module::{Module, link_in, parse_bitcode, parse_text, print_text, set_target, verify, write_bitcode};
pub(crate) use module::{Unread, addresses, complete_layout};
pub(crate) use module::{link_lazily, link_text};
pub use passes::run_passes;
pub(crate) use symbol::{Global, Parameter, Symbol};
pub use target::{Machine, emit, facts, host, machine};
pub(crate) use types::Type;
pub(crate) use value::Value;
pub(crate) use view::View;

use inkwell::llvm_sys;
use std::ffi::{CStr, c_char};

/// What LLVM had against it, in its own words.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct LlvmError(pub String);

/// Takes over a message that LLVM allocated; null is the empty string.
///
/// # Safety
/// The message is null, or the caller's to read and to dispose of.
unsafe fn take_message(message: *mut c_char) -> String {
    if message.is_null() {
        return String::new();
    }
    // SAFETY: LLVM's messages end in a zero byte, and this one is ours until it is disposed of.
    let text = unsafe { CStr::from_ptr(message) }.to_string_lossy().into_owned();
    // SAFETY: allocated by LLVM, and disposed of once.
    unsafe { llvm_sys::core::LLVMDisposeMessage(message) };
    text
}

/// Takes over an error of LLVM's; null is success.
///
/// # Safety
/// The error is null, or the caller's to consume.
unsafe fn take_error(error: llvm_sys::error::LLVMErrorRef) -> Result<(), LlvmError> {
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

/// Copies text that LLVM owns.
///
/// # Safety
/// The pointer is null or to `length` bytes that are alive.
unsafe fn copy_text(pointer: *const c_char, length: usize) -> String {
    if pointer.is_null() || length == 0 {
        return String::new();
    }
    // SAFETY: not null, so `length` bytes that are alive.
    let bytes = unsafe { std::slice::from_raw_parts(pointer.cast::<u8>(), length) };
    String::from_utf8_lossy(bytes).into_owned()
}

/// Text in quotes, as LLVM's assembly has it.
pub(crate) fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for byte in text.bytes() {
        match byte {
            b' '..=b'~' if byte != b'"' && byte != b'\\' => quoted.push(byte as char),
            _ => quoted += &format!("\\{byte:02X}"),
        }
    }
    quoted + "\""
}
