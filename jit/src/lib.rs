//! SPIR bytes in, callable work-group functions out: read, check, harden, link, lower, generate code, load.
//! Nothing of OpenCL's object model is known here. `compile` is a function from bytes to bytes that runs in a
//! supervised process; `load` puts its result into this one.

pub mod analysis;
pub mod api;
pub mod builtin;
pub mod clang;
pub mod codegen;
mod compile;
pub mod emit;
pub mod front;
pub mod kir;
mod large_stack;
pub mod llvm;
mod loader;
pub mod math_options;
mod object_file;
pub mod printf;
pub mod process;
pub mod program;
pub mod transform;

pub use spirula_builtins::image::ImageDescriptor;
