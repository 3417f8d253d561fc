//! The library stays loaded until the process ends: its threads, handlers and keepers run its code after `dlclose` too.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete");
}
