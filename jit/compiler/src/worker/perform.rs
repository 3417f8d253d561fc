//! A job done here and now; a panic becomes an error.

use crate::clang;
use crate::compile;
use crate::compile::trace::{Dump, Stages};
use spirula_interface::options::CompileError;
use spirula_interface::protocol::{Conditions, Job, Product, Stage};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// Performs a job. Its stages, as far as it is a build, are added.
pub fn perform(job: Job, conditions: &Conditions, stages: &mut Vec<Stage>) -> Result<Product, CompileError> {
    caught(|| carry_out(job, conditions, stages))
}

/// What the work yields. Errors: its own, and what it panics with.
pub fn caught(work: impl FnOnce() -> Result<Product, CompileError>) -> Result<Product, CompileError> {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|panic| {
        Err(CompileError::Failed(format!("internal error of the compiler: {}", panic_message(&*panic))))
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
