//! The OpenCL C builtin library: scalar functions in plain Rust, compiled twice. Natively they serve their own
//! tests and the host side of images; `jit`'s build script compiles the same files to LLVM bitcode that generated
//! code is linked with. Only scalar kernels live here: vector overloads and mangled names are `jit`'s business.

pub mod image;
