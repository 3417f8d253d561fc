//! A job done here and now, on a stack that LLVM's recursions fit in; a panic becomes an error.

use super::protocol::{Job, Product};
use crate::api::CompileError;
use crate::clang;
use crate::compile;
use crate::large_stack;

/// Performs a job on a thread of its own.
pub fn perform(job: Job) -> Result<Product, CompileError> {
    let failed = |what: &str| CompileError::Failed(format!("internal error of the compiler: {what}"));
    std::thread::scope(|scope| {
        match large_stack::spawn(scope, || carry_out(job)).map(|thread| thread.join()) {
            Ok(Ok(result)) => result,
            Ok(Err(panic)) => Err(failed(panic_message(&*panic))),
            Err(error) => Err(failed(&format!("no thread: {error}"))),
        }
    })
}

fn carry_out(job: Job) -> Result<Product, CompileError> {
    match job {
        Job::Check { module, options } => compile::check(&module, &options).map(Product::Checked),
        Job::Link { modules, options } => compile::link(&slices(&modules), &options).map(Product::Linked),
        Job::Build { modules, options } => compile::build(&slices(&modules), &options).map(Product::Built),
        Job::Translate(translation) => clang::translate(&translation).map(Product::Translated),
        #[cfg(test)]
        Job::Misbehave(how) => how.carry_out(),
    }
}

fn slices(modules: &[Vec<u8>]) -> Vec<&[u8]> {
    modules.iter().map(Vec::as_slice).collect()
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let literal = panic.downcast_ref::<&str>().copied();
    literal.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic")
}
