//! The supervised compiler process: a hostile or unlucky module may crash, hang or bloat it, never the application.
//!
//! ```text
//! application                                    spirula-compiler (no child of the application's, but of its keeper's)
//!   run(request) -> pool -> Worker::perform  == socket ==>  worker::serve -> compile, on a large stack
//!                   |  start, reuse, recycle                |  dies with its socket, by its alarm, at its memory limit
//!                   v                                       v  crash note: signal, LLVM's last words
//!                 spawn: runs the program that `locate` finds beside this very library, under a keeper that buries it
//! ```
//!
//! There is no compiling inside the application. A process that can't be started is an error of the build that needed it,
//! which says what was tried; the next build tries again. The answers to the last requests are kept (`recent`).
//!
//! The border keeps crashes, hangs and memory away from the application. It is no sandbox: who takes over LLVM with a
//! module of evil intent has the rights of the user, in the worker and through the code it returns.

mod keeper;
pub mod locate;
pub mod pool;
mod recent;
pub mod spawn;

use crate::per_process::PerProcess;
use crate::settings;
use pool::{Pool, PoolError};
use recent::Recent;
pub use recent::is_repeatable;
use spirula_interface::options::CompileError;
use spirula_interface::protocol::{self, Conditions, Job, Product};
use spirula_interface::target::Target;

static RECENT: PerProcess<Recent> = PerProcess::new(Recent::new, |_| {});
static POOL: PerProcess<Pool> = PerProcess::new(|| Pool::new(locate::compiler), Pool::disown);

/// A job ready to be sent.
#[derive(Clone, Debug)]
pub struct Request {
    /// The job's bytes.
    pub job: Vec<u8>,
    /// See [`Job::verb`].
    pub verb: &'static str,
    /// Whether the same bytes have the same answer tomorrow.
    repeatable: bool,
}

impl Request {
    /// A job that is to be done each time it is asked for.
    pub fn anew(job: &Job) -> Result<Request, CompileError> {
        Request::new(job, false)
    }

    /// A job whose answer depends on nothing but its bytes, and may be remembered.
    pub fn repeatable(job: &Job) -> Result<Request, CompileError> {
        Request::new(job, true)
    }

    fn new(job: &Job, repeatable: bool) -> Result<Request, CompileError> {
        let too_large = |error| CompileError::Failed(format!("error: the modules can't be sent: {error}\n"));
        Ok(Request { job: protocol::encode(job).map_err(too_large)?, verb: job.verb(), repeatable })
    }
}

/// Has a compiler process do a job, unless it was done lately.
pub fn run(request: Request) -> Result<Product, CompileError> {
    // What is dumped is written by the compiler at work.
    let remembered = request.repeatable && settings::get().dump.is_none();
    if remembered && let Some(product) = RECENT.get().find(&request.job) {
        return Ok(product);
    }
    let product = run_anew(&request)?;
    if remembered {
        RECENT.get().keep(request.job, &product);
    }
    Ok(product)
}

fn run_anew(request: &Request) -> Result<Product, CompileError> {
    let settings = settings::get();
    let seconds = u32::try_from(settings.time_limit.as_secs()).unwrap_or(u32::MAX).max(1);
    let conditions = Conditions { seconds, dump: settings.dump.clone() };
    match POOL.get().run(request, &conditions) {
        Ok(result) => result,
        Err(PoolError::NotStarted(error)) => Err(unavailable(&error)),
        Err(PoolError::Crashed(note)) => {
            Err(CompileError::Crashed(format!("the compiler process {note} while {}", request.verb)))
        }
    }
}

/// What code is to be generated for: this machine, as the compiler sees it.
pub fn target() -> Result<Target, CompileError> {
    POOL.get().target().map_err(|error| unavailable(&error))
}

fn unavailable(error: &str) -> CompileError {
    CompileError::Unavailable(format!("error: the compiler process can't be started: {error}\n"))
}

/// Starts a worker in the background if there is none, so that the first request finds it ready. Never fails.
pub fn warm_up() {
    if !POOL.get().is_empty() {
        return;
    }
    // Without a thread the first request starts the worker.
    let _ = std::thread::Builder::new().name("spirula-warm-up".into()).spawn(|| POOL.get().warm_up());
}
