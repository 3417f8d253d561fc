//! An LLVM context whose diagnostics end in a list, never on the application's stderr.

use super::take_message;
use inkwell::context::Context;
use inkwell::llvm_sys::{LLVMDiagnosticSeverity, core, prelude::LLVMDiagnosticInfoRef};
use std::cell::RefCell;
use std::ffi::c_void;

/// Diagnostics kept for one compilation; a hostile module may cause any number.
const MAX_DIAGNOSTICS: usize = 100;

/// One thread's LLVM context and what LLVM said in it.
#[derive(Debug)]
pub struct Session {
    // Dropped before the list that its handler writes to.
    context: Context,
    diagnostics: Box<Diagnostics>,
}

#[derive(Debug, Default)]
struct Diagnostics {
    errors: RefCell<Vec<String>>,
    warnings: RefCell<Vec<String>>,
}

impl Default for Session {
    fn default() -> Self {
        Self::new()
    }
}

impl Session {
    /// A fresh context.
    pub fn new() -> Self {
        let context = Context::create();
        let diagnostics = Box::<Diagnostics>::default();
        let list = (&raw const *diagnostics).cast_mut().cast::<c_void>();
        // SAFETY: the context is alive, and `list` outlives it: it is boxed, and dropped after the context.
        unsafe { core::LLVMContextSetDiagnosticHandler(context.raw(), Some(record), list) };
        Session { context, diagnostics }
    }

    /// The context, for everything that is made in one.
    pub(super) fn context(&self) -> &Context {
        &self.context
    }

    /// What LLVM complained of since the last call, joined by line ends.
    pub fn take_errors(&self) -> String {
        self.diagnostics.errors.take().join("\n")
    }

    /// What LLVM warned of since the last call, a line each.
    pub fn take_warnings(&self) -> String {
        self.diagnostics.warnings.take().iter().map(|line| format!("warning: {line}\n")).collect()
    }
}

extern "C" fn record(info: LLVMDiagnosticInfoRef, list: *mut c_void) {
    // SAFETY: the address that `Session::new` set, alive as long as the context that calls this.
    let diagnostics = unsafe { &*list.cast::<Diagnostics>() };
    // SAFETY: LLVM passes a diagnostic that is valid during the call.
    let severity = unsafe { core::LLVMGetDiagInfoSeverity(info) };
    let list = match severity {
        LLVMDiagnosticSeverity::LLVMDSError => &diagnostics.errors,
        LLVMDiagnosticSeverity::LLVMDSWarning => &diagnostics.warnings,
        _ => return,
    };
    let mut list = list.borrow_mut();
    if list.len() < MAX_DIAGNOSTICS {
        // SAFETY: as above; the description is a message for the caller to dispose of.
        list.push(unsafe { take_message(core::LLVMGetDiagInfoDescription(info)) });
    }
}
