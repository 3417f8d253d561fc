//! The threads that help with launches: built by the first launch that asks for help.

use crate::execute::scheduler::STACK_SIZE;
use crate::log;
use crate::machine::affinity::{self, Cpus};
use rayon::{ThreadPool, ThreadPoolBuilder};
use std::sync::OnceLock;

/// A device's threads, but the one that runs a command.
#[derive(Debug)]
pub(super) struct Pool {
    /// With that one.
    pub(super) threads: usize,
    /// The CPUs that kernels must run on; None for any.
    pub(super) bound: Option<Cpus>,
    /// None if the system gives no threads.
    built: OnceLock<Option<ThreadPool>>,
}

impl Pool {
    /// For `threads` CPUs, the caller's included, which must be one of `bound`.
    pub(super) fn new(threads: usize, bound: Option<Cpus>) -> Pool {
        Pool { threads: threads.max(1), bound, built: OnceLock::new() }
    }

    /// None if the system gives no threads.
    pub(super) fn get(&self) -> Option<&ThreadPool> {
        let build = || {
            let builder =
                ThreadPoolBuilder::new().num_threads((self.threads - 1).max(1)).stack_size(STACK_SIZE);
            let bound = self.bound.clone();
            let builder = builder.start_handler(move |_| bound.iter().for_each(affinity::bind));
            let pool = builder.thread_name(|index| format!("spirula-{index}")).build();
            pool.inspect_err(|error| log::error(format_args!("kernels run on one thread only: {error}"))).ok()
        };
        self.built.get_or_init(build).as_ref()
    }

    /// Whether anybody asked for help.
    #[cfg(test)]
    pub(super) fn is_built(&self) -> bool {
        self.built.get().is_some()
    }
}
