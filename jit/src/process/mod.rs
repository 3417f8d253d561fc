//! The supervised compiler process: a hostile or unlucky module may crash, hang or bloat it, never the application.
//!
//! ```text
//! application                                    worker (no child of the application's)
//!   run(job) -> pool -> Worker::perform  == socket ==>  worker::serve -> compile, on a large stack
//!               |  start, reuse, recycle                |  dies with its socket, by its alarm, at its memory limit
//!               v                                       v  crash note: signal, LLVM's last words
//!             spawn: ld.so runs this very library from its ELF entry point, entry::spirula_compiler_process
//! ```
//!
//! Settings, from the environment:
//! - `SPIRULA_COMPILER_PROCESS`: `on` compiles in a process or not at all, `off` always inside the application; by
//!   default in a process where one can be started, else inside, which is said once in a build log.
//! - `SPIRULA_COMPILER_TIMEOUT`: seconds for one request, 120 by default.
//! - `SPIRULA_COMPILER_STDERR`: when set, workers write to the application's stderr, for debugging.
//!
//! The answers to the last requests are kept in the application (`recent`).
//!
//! What it costs, measured on two cores: starting a worker 15 ms, most of it the dynamic loader's work on libLLVM, while
//! the application goes on ([`warm_up`]); its first build 2 ms for the builtin library; every request 0.2 ms, thread and
//! socket included; 75 MB of resident memory, 55 of which are libLLVM's file. A first build of a small kernel took
//! 31 ms, the next ones 14. 650 builds left the application 0.6 MB and the worker nothing larger.
//!
//! The border keeps crashes, hangs and memory away from the application. It is no sandbox: who takes over LLVM with a
//! module of evil intent has the rights of the user, in the worker and through the code it returns.

mod crash;
mod entry;
mod perform;
mod pool;
mod protocol;
mod recent;
mod spawn;
#[cfg(test)]
mod tests;
mod worker;

pub use protocol::{Job, Product};

use crate::api::CompileError;
use pool::{Pool, PoolError};
use recent::Recent;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

static RECENT: Recent = Recent::new();
static DUMPS: LazyLock<bool> = LazyLock::new(|| std::env::var_os("SPIRULA_DUMP").is_some());
static POOL: LazyLock<Pool> = LazyLock::new(|| Pool::new(spawn::Launch::of_this_library()));

/// Where compilation runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// In a process, or not at all.
    On,
    /// Inside the application.
    Off,
    /// In a process where one can be started.
    Auto,
}

static MODE: LazyLock<Mode> =
    LazyLock::new(|| match std::env::var("SPIRULA_COMPILER_PROCESS").unwrap_or_default().as_str() {
        "on" => Mode::On,
        "off" => Mode::Off,
        _ => Mode::Auto,
    });

static TIME_LIMIT: LazyLock<Duration> = LazyLock::new(|| {
    let seconds = std::env::var("SPIRULA_COMPILER_TIMEOUT").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.filter(|&seconds| seconds > 0).unwrap_or(120))
});

/// How long one request may take.
pub(crate) fn time_limit() -> Duration {
    *TIME_LIMIT
}

/// Performs a job where [`Mode`] says, unless it has been done lately.
pub fn run(job: Job) -> Result<Product, CompileError> {
    // The stages are written by the compiler at work, and benches measure it.
    let key = if *DUMPS || *MODE == Mode::Off { None } else { Recent::key(&job) };
    if let Some(product) = key.as_ref().and_then(|key| RECENT.find(key)) {
        return Ok(product);
    }
    let product = run_anew(job)?;
    if let Some(key) = key {
        RECENT.keep(key, &product);
    }
    Ok(product)
}

fn run_anew(job: Job) -> Result<Product, CompileError> {
    if *MODE == Mode::Off {
        return perform::perform(job);
    }
    match POOL.run(&job, *TIME_LIMIT) {
        Ok(result) => result,
        Err(PoolError::Crashed(note)) => {
            Err(CompileError::Crashed(format!("the compiler process {note} while {}", job.verb())))
        }
        Err(PoolError::NotStarted(error)) if *MODE == Mode::On => {
            Err(CompileError::Failed(format!("the compiler process can't be started: {error}")))
        }
        Err(PoolError::NotStarted(error)) => perform::perform(job).map(|product| note_once(product, &error)),
    }
}

/// Starts a worker in the background, so that the first request finds it ready.
pub fn warm_up() {
    if *MODE != Mode::Off {
        // No thread, no warmth: the first request starts the worker then.
        let _ = std::thread::Builder::new().name("spirula-warm-up".into()).spawn(|| POOL.warm_up());
    }
}

/// Says in the first build's log that it was made inside the application.
fn note_once(product: Product, error: &str) -> Product {
    static SAID: AtomicBool = AtomicBool::new(false);
    match product {
        Product::Built(mut program) if !SAID.swap(true, Ordering::Relaxed) => {
            let note = format!("note: compiled inside the application, for want of a process: {error}\n");
            program.log.insert_str(0, &note);
            Product::Built(program)
        }
        other => other,
    }
}
