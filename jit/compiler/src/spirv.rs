//! SPIR-V binaries become LLVM IR in the form of "SPIR-V representation in LLVM IR": what LLVM has instructions for are
//! those, all else are calls of `__spirv_…`, which the table of builtins has (`builtin/spirv.rs`). From there on a module is
//! one as any other. The IR is text: LLVM's parser and verifier check types again, of whatever a hostile module says.
//!
//! ```text
//! stream       bytes to instructions
//! module       instructions to sections: capabilities, decorations, globals, functions
//! support      what is supported, by name
//! types, constants, fold    what globals are
//! write        the module's text: globals, functions, kernels' metadata
//! function     a function's blocks; `arithmetic`, `memory`, `composite`, `enqueue`, `calls` its instructions
//! ```
//!
//! Nothing here panics or recurses by what a module says, and nothing takes more memory than a few times the module's size:
//! what would is refused.

mod arithmetic;
mod calls;
mod composite;
mod constants;
mod enqueue;
mod fold;
mod function;
mod kernels;
mod memory;
mod module;
mod stream;
mod support;
#[cfg(test)]
mod tests;
mod types;
mod write;

use rspirv::spirv;

/// Why a module is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

type Result<T, E = Refused> = std::result::Result<T, E>;

/// An id of a module.
type Id = u32;

/// A refusal as a result.
fn refuse<T>(why: impl Into<String>) -> Result<T> {
    Err(Refused(why.into()))
}

/// Whether bytes begin as SPIR-V does, in either order of bytes.
pub fn is_spirv(bytes: &[u8]) -> bool {
    let magic = spirv::MAGIC_NUMBER;
    bytes.starts_with(&magic.to_le_bytes()) || bytes.starts_with(&magic.to_be_bytes())
}

/// The module as the text of LLVM IR.
pub fn to_llvm(bytes: &[u8]) -> Result<String> {
    let words = stream::words(bytes)?;
    let module = module::read(&words)?;
    write::module(&module)
}
