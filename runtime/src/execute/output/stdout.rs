//! What kernels print, to the application's standard output, in order with what it prints itself, which the C library holds back.

#![allow(unsafe_code)]

use std::ffi::{c_int, c_void};

unsafe extern "C" {
    /// The C library's `FILE *`.
    static mut stdout: *mut c_void;
    fn fwrite(data: *const c_void, size: usize, count: usize, file: *mut c_void) -> usize;
    fn fflush(file: *mut c_void) -> c_int;
}

/// Prints bytes at once. That they can't be written is the application's affair, as with its own.
pub(crate) fn print(text: &[u8]) {
    if text.is_empty() {
        return;
    }
    // SAFETY: `stdout` is set before any code runs, and an application that changes it gives it another open file. The
    // file locks itself; the bytes are readable.
    unsafe {
        let file = stdout;
        fwrite(text.as_ptr().cast(), 1, text.len(), file);
        fflush(file);
    }
}
