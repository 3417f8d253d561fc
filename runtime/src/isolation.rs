//! The isolated mode (`SPIRULA_ISOLATE`): work-groups run in another process, the context's executor, which can do nothing but
//! compute and write to the context's memory.
//!
//! ```text
//! application                                              spirula-compiler --executor
//!   schedule -> Executor::run(Request) == a lane, a socket ==> serve: a thread for each lane
//!                                      <==     Answer     ==     -> Scheduler, as in an application without isolation
//!   memory and code: `spirula_service::shared`, files in memory that both map at the same addresses
//! ```
//!
//! What is compiled is loaded as ever, to addresses at which the executor can run it, and the application can't. Arguments travel in
//! requests; all else that kernels use lies in what is shared. Nothing that an executor says or writes there is trusted: an answer is a
//! status and a text, and what the application reads of shared memory (records of printf, queues on the device) is data of which
//! anything may be wrong.
//!
//! An executor whose kernel faulted may be damaged, and gets no more launches. One that is gone takes its running commands with it. The
//! next launch begins a new one, over the same memory.

mod executor;
mod message;
mod passing;
mod schedule;
mod serve;

use crate::error::{Result, Status};
use crate::log;
use executor::{Executor, Lost};
pub(crate) use message::CodeFacts;
use message::{Done, Request};
pub(crate) use schedule::run_groups;
pub use serve::serve;
use spirula_interface::address_bits::AddressBits;
use spirula_service::shared::{PAGE, Shared, Stretch};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// A context's executor, and what it shares with the application.
#[derive(Debug)]
pub(crate) struct Isolation {
    shared: Arc<Shared>,
    /// The one for the next launch, if it was begun.
    executor: Mutex<Option<Arc<Executor>>>,
    /// Of linear memory what launches themselves need there.
    launches: Option<Stretch>,
    /// Bytes that an executor may have of its own.
    memory: u64,
}

/// Bytes of linear memory for what launches themselves need; they take no memory until they are written to.
const LAUNCHES: usize = 512 << 20;

/// A launch that meets an executor that was killed while it had nothing to do is tried again, so often.
const ATTEMPTS: u32 = 3;

impl Isolation {
    /// For a device with so many bytes of memory. CL_OUT_OF_RESOURCES if the system can't share memory.
    pub(crate) fn new(memory: u64, addresses: AddressBits) -> Result<Arc<Isolation>> {
        let no_memory = |error| {
            let why = format!("SPIRULA_ISOLATE: no memory that an executor process could share: {error}");
            Status::OutOfResources.because(why)
        };
        // Twice what there is: what is in use is never in one piece.
        let room = usize::try_from(memory.saturating_mul(2)).unwrap_or(usize::MAX).clamp(16 << 30, 8 << 40);
        let shared = match addresses {
            AddressBits::Bits64 => Shared::new(room),
            AddressBits::Bits32 => Shared::linear_with_code(),
        };
        let shared = shared.map_err(no_memory)?;
        let launches = addresses.is_linear().then(|| {
            shared
                .data
                .take(LAUNCHES, PAGE)
                .ok_or_else(|| no_memory(std::io::Error::other("there is too little")))
        });
        let launches = launches.transpose()?;
        // Stacks count, though they are hardly used.
        let memory = memory.saturating_add(4 << 30);
        Ok(Arc::new(Isolation { shared, executor: Mutex::default(), launches, memory }))
    }

    /// What the executor has, too.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    fn current(&self) -> MutexGuard<'_, Option<Arc<Executor>>> {
        self.executor.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The executor for the next launch. CL_OUT_OF_RESOURCES if there is none and none can be begun.
    fn executor(&self) -> Result<Arc<Executor>> {
        if !self.shared.is_ours() {
            let why = "SPIRULA_ISOLATE: the context is of the process that this one was forked from";
            return Err(Status::OutOfResources.because(why));
        }
        let mut current = self.current();
        if let Some(executor) = &*current {
            return Ok(executor.clone());
        }
        let launches = self.launches.as_ref().map(|launches| {
            let start = launches.start().as_ptr() as usize;
            start..start + launches.size()
        });
        let begun = Executor::begin(&self.shared, launches, self.memory).map_err(|error| {
            Status::OutOfResources.because(format!("SPIRULA_ISOLATE: no process to run kernels in: {error}"))
        })?;
        let begun = Arc::new(begun);
        *current = Some(begun.clone());
        Ok(begun)
    }

    /// Gives an executor no more launches.
    fn retire(&self, executor: &Arc<Executor>) {
        let mut current = self.current();
        let retired = current.take_if(|current| Arc::ptr_eq(current, executor));
        // It may take a moment to end.
        drop(current);
        drop(retired);
    }

    /// Has the executor run some groups. CL_OUT_OF_RESOURCES if they fault, or it is lost.
    fn run(&self, request: &Request, patience: Option<Duration>) -> Result<Done> {
        let failed = |why: String| Err(Status::OutOfResources.because(why));
        let request = request.encode().map_err(|error| Status::OutOfResources.because(error))?;
        for _ in 0..ATTEMPTS {
            let executor = self.executor()?;
            match executor.run(&request, patience) {
                Ok(Ok(done)) => return Ok(done),
                Ok(Err(why)) => {
                    self.retire(&executor);
                    return failed(why);
                }
                Err(Lost::Before) => {
                    log::warn(format_args!("the executor process was gone; another one is begun"));
                    self.retire(&executor);
                }
                Err(Lost::Meanwhile(why)) => {
                    self.retire(&executor);
                    return failed(why);
                }
            }
        }
        failed("the processes to run it in were killed, one after the other".into())
    }
}
