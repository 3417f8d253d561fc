//! The library's ELF entry point: where the dynamic loader jumps to when it is asked to run the library as a program.

use super::worker;
use std::ffi::{c_char, c_int};

unsafe extern "C" {
    /// The C library's start of every program: runs constructors, calls `main`, exits with its result.
    fn __libc_start_main();
}

/// Named as the library's entry by `icd/build.rs`. Does what every program's `_start` does; the C library then
/// calls [`main`].
///
/// # Safety
/// Only the dynamic loader may jump here, with argument count and vector on the stack.
#[unsafe(no_mangle)]
#[unsafe(naked)]
#[cfg(target_arch = "x86_64")]
pub unsafe extern "C" fn spirula_compiler_process() {
    core::arch::naked_asm!(
        "xor ebp, ebp",
        "mov r9, rdx",
        "pop rsi",
        "mov rdx, rsp",
        "and rsp, -16",
        "push rax",
        "push rsp",
        "xor r8d, r8d",
        "xor ecx, ecx",
        "lea rdi, [rip + {main}]",
        "call [rip + {start}@GOTPCREL]",
        "hlt",
        main = sym main,
        start = sym __libc_start_main,
    )
}

/// As above, for 64-bit ARM.
///
/// # Safety
/// Only the dynamic loader may jump here, with argument count and vector on the stack.
#[unsafe(no_mangle)]
#[unsafe(naked)]
#[cfg(target_arch = "aarch64")]
pub unsafe extern "C" fn spirula_compiler_process() {
    core::arch::naked_asm!(
        "mov x29, #0",
        "mov x30, #0",
        "mov x5, x0",
        "ldr x1, [sp]",
        "add x2, sp, #8",
        "mov x6, sp",
        "mov x3, #0",
        "mov x4, #0",
        "adrp x0, {main}",
        "add x0, x0, :lo12:{main}",
        "bl {start}",
        "brk #1",
        main = sym main,
        start = sym __libc_start_main,
    )
}

extern "C" fn main(count: c_int, arguments: *const *const c_char) -> c_int {
    let role = match count {
        // SAFETY: the C library passes `count` strings.
        2.. => unsafe { std::ffi::CStr::from_ptr(*arguments.add(1)) },
        _ => c"",
    };
    if role == ROLE {
        worker::serve();
    }
    eprintln!("This is an OpenCL driver: applications find it through the ICD loader (OCL_ICD_VENDORS).");
    1
}

/// The argument that makes the program a worker.
pub const ROLE: &std::ffi::CStr = c"--spirula-compiler-process";
