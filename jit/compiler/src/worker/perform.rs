//! A job done here and now, on a stack that LLVM's recursions fit in; a panic becomes an error.

use super::memory;
use crate::clang;
use crate::compile;
use crate::compile::trace::{Dump, Stages};
use crate::large_stack;
use spirula_interface::options::CompileError;
use spirula_interface::protocol::{Conditions, Job, Product, Stage};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
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
    let (waiter, is_done) = (std::thread::current(), AtomicBool::new(false));
    let job = || {
        let result = catch_unwind(AssertUnwindSafe(work));
        is_done.store(true, Ordering::Release);
        waiter.unpark();
        result
    };
    std::thread::scope(|scope| {
        let thread =
            large_stack::spawn(scope, job).map_err(|error| failed(&format!("no thread: {error}")))?;
        while !is_done.load(Ordering::Acquire) {
            std::thread::park_timeout(memory::INTERVAL);
            memory::check();
        }
        // What panics is caught within.
        thread.join().and_then(|result| result).unwrap_or_else(|panic| Err(failed(panic_message(&*panic))))
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
