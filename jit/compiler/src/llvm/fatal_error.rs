//! Who is called when LLVM gives up.

use inkwell::llvm_sys::error_handling::LLVMInstallFatalErrorHandler;
use std::ffi::{CStr, c_char};
use std::sync::OnceLock;

/// Who is told why LLVM gives up.
static LAST_RESORT: OnceLock<fn(&CStr) -> !> = OnceLock::new();

/// Sets who is told, with LLVM's reason, when it can't go on; the first one stays.
pub fn on_fatal_error(handler: fn(&CStr) -> !) {
    if LAST_RESORT.set(handler).is_ok() {
        // SAFETY: installed once, and never returns, as LLVM expects of it.
        unsafe { LLVMInstallFatalErrorHandler(Some(give_up)) };
    }
}

extern "C" fn give_up(reason: *const c_char) {
    // SAFETY: LLVM passes text that ends in a zero byte.
    let reason = unsafe { CStr::from_ptr(reason) };
    match LAST_RESORT.get() {
        Some(handler) => handler(reason),
        None => std::process::abort(),
    }
}
