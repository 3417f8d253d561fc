//! The compiler: SPIR bytes in, an object and its kernels' metadata out. Pure functions; `process` calls them.

use crate::api::{CompileError, CompileOptions};
use crate::program::CompiledProgram;

/// See [`crate::api::check`].
pub fn check(module: &[u8], options: &CompileOptions) -> Result<String, CompileError> {
    let _ = (module, options);
    todo!()
}

/// See [`crate::api::link`].
pub fn link(modules: &[&[u8]], options: &CompileOptions) -> Result<Vec<u8>, CompileError> {
    let _ = (modules, options);
    todo!()
}

/// See [`crate::api::build`].
pub fn build(modules: &[&[u8]], options: &CompileOptions) -> Result<CompiledProgram, CompileError> {
    let _ = (modules, options);
    todo!()
}
