//! The compiler: SPIR bytes in, object files and what the host must know of their kernels out. The only crate that knows LLVM.
//!
//! ```text
//! spirv     SPIR-V -> the text of LLVM IR, which the front takes as any other
//! front     bytes -> checked SPIR -> hardened -> linked with the builtins -> cleaned -> Kernel IR
//! back      Kernel IR, lowered to work-group functions by `spirula_kir::pipeline`, -> the text of LLVM IR
//! codegen   -> passes and code of LLVM -> object files
//! worker    all of it as a process that serves an application
//! ```

pub mod back;
pub mod builtin;
pub mod clang;
pub mod codegen;
pub mod compile;
pub mod front;
mod large_stack;
pub mod llvm;
mod spirv;
pub mod worker;

/// Inputs for the machine that tests run on.
#[cfg(test)]
fn host_inputs() -> spirula_interface::inputs::Inputs {
    use spirula_interface::{inputs::Inputs, tier::Tier};
    let mut inputs = Inputs::new(Default::default(), Default::default(), llvm::host(), Tier::Optimized);
    inputs.settings.verify = true;
    inputs
}

/// The kernels of a program that a test built, in this process.
#[cfg(test)]
fn loaded(
    program: &spirula_interface::program::CompiledProgram,
) -> Result<Vec<spirula_service::LoadedKernel>, spirula_service::LoadError> {
    let variables = spirula_service::Variables::new(&program.data, None).expect("a compiler's description");
    spirula_service::load(program, &std::sync::Arc::new(variables))
}
