//! The library is a program too: its ELF entry point starts the compiler process (see `jit/src/process`).

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-e,spirula_compiler_process");
}
