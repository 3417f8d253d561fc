//! A job done here and now, on a stack that LLVM's recursions fit in; a panic becomes an error.

use crate::clang;
use crate::compile;
use crate::compile::trace::{Dump, Stages};
use crate::large_stack;
use spirula_interface::options::CompileError;
use spirula_interface::protocol::{Conditions, Job, Product, Stage};
use std::time::Duration;

/// Performs a job. Its stages, as far as it is a build, are added.
pub fn perform(job: Job, conditions: &Conditions, stages: &mut Vec<Stage>) -> Result<Product, CompileError> {
    on_large_stack(|| carry_out(job, conditions, stages))
}

/// Works on a thread of its own.
pub fn on_large_stack(
    work: impl FnOnce() -> Result<Product, CompileError> + Send,
) -> Result<Product, CompileError> {
    let failed = |what: &str| CompileError::Failed(format!("internal error of the compiler: {what}"));
    std::thread::scope(|scope| match large_stack::spawn(scope, work).map(|thread| thread.join()) {
        Ok(Ok(result)) => result,
        Ok(Err(panic)) => Err(failed(panic_message(&*panic))),
        Err(error) => Err(failed(&format!("no thread: {error}"))),
    })
}

fn carry_out(job: Job, conditions: &Conditions, stages: &mut Vec<Stage>) -> Result<Product, CompileError> {
    let dump = Dump::new(conditions.dump.as_deref());
    match job {
        Job::Check { module, inputs } => compile::check(module, &inputs).map(Product::Checked),
        Job::Link { modules, inputs } => compile::link(&modules, &inputs).map(Product::Linked),
        Job::Build { modules, inputs } => {
            let mut own = Stages::begin();
            let built = compile::build(&modules, &inputs, dump, &mut own);
            stages.extend(own.ended());
            built.map(Product::Built)
        }
        Job::Translate(translation) => {
            let limit = Duration::from_secs(conditions.seconds.into());
            clang::translate(&translation, limit).map(Product::Translated)
        }
    }
}

fn panic_message(panic: &(dyn std::any::Any + Send)) -> &str {
    let literal = panic.downcast_ref::<&str>().copied();
    literal.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("a panic")
}
