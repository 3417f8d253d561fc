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
//! which says what was tried; the next build tries again. The answers to the last requests are kept in memory (`recent`)
//! and, for other processes, on disk ([`crate::cache`]).
//!
//! The border keeps crashes, hangs and memory away from the application, and a sandbox the worker away from all else: who takes
//! over LLVM with a module of evil intent has a process that can only answer. (The code in its answer is the module's own anyway.)
//! What starts clang is of another kind: it and clang can read the user's files.

pub mod finisher;
pub mod keeper;
pub mod locate;
pub mod pool;
mod recent;
pub mod spawn;

use crate::cache::{Cache, Key};
use crate::per_process::PerProcess;
use crate::processor;
use crate::settings;
use pool::{Pool, PoolError};
use recent::Recent;
use serde::{Serialize, de::DeserializeOwned};
use spirula_interface::options::CompileError;
use spirula_interface::protocol::{self, Conditions, Job, Product, Reply, Role, Stage};
use spirula_interface::target::Target;
use std::sync::OnceLock;

static CACHE: PerProcess<Option<Result<Cache, String>>> = PerProcess::new(open_cache, |_| {});
static TARGET: PerProcess<OnceLock<Target>> = PerProcess::new(OnceLock::new, |_| {});
static RECENT: PerProcess<Recent> = PerProcess::new(Recent::new, |_| {});
static POOL: PerProcess<Pool> = PerProcess::new(|| Pool::new(Role::Compiler, locate::compiler), Pool::disown);
static TRANSLATORS: PerProcess<Pool> =
    PerProcess::new(|| Pool::new(Role::Translator, locate::compiler), Pool::disown);

/// A job ready to be sent.
#[derive(Clone, Debug)]
pub struct Request {
    /// The job's bytes.
    pub job: Vec<u8>,
    /// See [`Job::verb`].
    pub verb: &'static str,
    /// Who does it.
    role: Role,
    /// If the same question has the same answer tomorrow: what that is kept under.
    key: Option<Key>,
}

impl Request {
    /// A job that is to be done each time it is asked for.
    pub fn anew(job: &Job) -> Result<Request, CompileError> {
        let too_large = |error| CompileError::Failed(format!("error: the modules can't be sent: {error}\n"));
        let bytes = protocol::encode(job).map_err(too_large)?;
        protocol::fits(bytes.len()).map_err(too_large)?;
        Ok(Request { job: bytes, verb: job.verb(), role: job.role(), key: None })
    }

    /// A job whose answer depends on nothing but its bytes, and may be remembered.
    pub fn repeatable(job: &Job) -> Result<Request, CompileError> {
        let request = Request::anew(job)?;
        Ok(Request { key: Some(Request::key_of(&request.job)), ..request })
    }

    fn key_of(job: &[u8]) -> Key {
        Key::of("job", &[job])
    }

    /// A job whose answer is known by that key.
    pub fn kept(job: &Job, key: Key) -> Result<Request, CompileError> {
        Ok(Request { key: Some(key), ..Request::anew(job)? })
    }

    /// The same, whose answer is known by the other one's key.
    pub fn kept_as(self, other: &Request) -> Request {
        Request { key: other.key, ..self }
    }

    /// What the answer is kept under, if it is to be. What is dumped is written by the compiler at work.
    fn key(&self) -> Option<Key> {
        self.key.filter(|_| settings::get().dump.is_none())
    }
}

/// What came of a job.
#[derive(Clone, Debug)]
pub struct Answer {
    /// What it yielded.
    pub product: Product,
    /// How long that took a compiler; nothing if the answer was known.
    pub stages: Vec<Stage>,
}

/// Has a compiler process do a job, unless its answer is known.
pub fn run(request: Request) -> Result<Product, CompileError> {
    answer(request).map(|answer| answer.product)
}

/// As [`run`], with what is known of how it was done.
pub fn answer(request: Request) -> Result<Answer, CompileError> {
    answer_while(request, || true)
}

/// The same. The answer is kept if what the key says still holds when it is there.
pub fn answer_while(request: Request, holds: impl FnOnce() -> bool) -> Result<Answer, CompileError> {
    if let Some(product) = known(&request) {
        return Ok(Answer { product, stages: Vec::new() });
    }
    let answer = run_anew(&request)?;
    if holds() {
        keep(&request, &answer.product);
    }
    Ok(answer)
}

/// From now on that is the answer, here and, where code is kept, in other processes.
pub fn keep(request: &Request, product: &Product) {
    if let Some(key) = request.key() {
        remember(&key, product);
    }
}

/// The answer, if it is known.
pub fn known(request: &Request) -> Option<Product> {
    recall(&request.key()?)
}

/// From now on that key leads to this value, here and, where code is kept, in other processes.
pub fn remember(key: &Key, value: &impl Serialize) {
    if let Ok(bytes) = protocol::encode(value) {
        cache().inspect(|cache| cache.keep(key, &bytes));
        RECENT.get().keep(*key, bytes);
    }
}

/// What a key leads to.
pub fn recall<T: DeserializeOwned>(key: &Key) -> Option<T> {
    if let Some(value) = RECENT.get().find(key) {
        return Some(value);
    }
    let (value, bytes) = kept(key)?;
    RECENT.get().keep(*key, bytes);
    Some(value)
}

/// What an earlier process kept on disk: the value and its bytes.
fn kept<T: DeserializeOwned>(key: &Key) -> Option<(T, Vec<u8>)> {
    let cache = cache()?;
    let bytes = cache.find(key)?;
    // Whole, and yet no answer: it is of no use to anybody.
    let value = protocol::decode(&bytes).inspect_err(|_| cache.remove(key)).ok()?;
    Some((value, bytes))
}

fn cache() -> Option<&'static Cache> {
    CACHE.get().as_ref()?.as_ref().ok()
}

fn open_cache() -> Option<Result<Cache, String>> {
    let settings = settings::get();
    settings.cache_folder.as_ref().map(|folder| Cache::open(folder, settings.cache_size))
}

/// Why nothing is kept on disk, though it should be.
pub fn cache_problem() -> Option<&'static str> {
    CACHE.get().as_ref()?.as_ref().err().map(String::as_str)
}

fn run_anew(request: &Request) -> Result<Answer, CompileError> {
    let settings = settings::get();
    let seconds = u32::try_from(settings.time_limit.as_secs()).unwrap_or(u32::MAX).max(1);
    let conditions = Conditions { seconds, dump: settings.dump.clone() };
    let pool = match request.role {
        Role::Translator => &TRANSLATORS,
        Role::Compiler | Role::Executor => &POOL,
    };
    match pool.get().run(request, &conditions) {
        Ok(Reply { result, stages, .. }) => result.map(|product| Answer { product, stages }),
        Err(PoolError::NotStarted(error)) => Err(unavailable(&error)),
        Err(PoolError::Crashed(note)) => {
            Err(CompileError::Crashed(format!("the compiler process {note} while {}", request.verb)))
        }
    }
}

/// What code is to be generated for: this machine, as the compiler sees it.
pub fn target() -> Result<Target, CompileError> {
    if let Some(target) = known_target() {
        return Ok(target);
    }
    let found = POOL.get().target().map_err(|error| unavailable(&error))?;
    if let (Some(cache), Some(key), Ok(bytes)) = (cache(), target_key(), protocol::encode(&found)) {
        cache.keep(&key, &bytes);
    }
    Ok(set_target(found))
}

/// The same, if no compiler must be asked.
pub fn known_target() -> Option<Target> {
    if let Some(target) = TARGET.get().get() {
        return Some(target.clone());
    }
    let (found, _) = kept(&target_key()?)?;
    Some(set_target(found))
}

fn target_key() -> Option<Key> {
    processor::identity().map(|processor| Key::of("target", &[&processor]))
}

/// The compiler's target for this application's processors.
fn set_target(found: Target) -> Target {
    let threads = std::thread::available_parallelism().map_or(1, |count| count.get());
    let target = Target { threads: u32::try_from(threads).unwrap_or(1), ..found };
    let target = settings::get().level.and_then(|level| target.at_level(level)).unwrap_or(target);
    TARGET.get().get_or_init(|| target).clone()
}

fn unavailable(error: &str) -> CompileError {
    CompileError::Unavailable(format!("error: the compiler process can't be started: {error}\n"))
}

/// What the user asked for and this processor isn't, in words; None if nothing, or before it was known.
pub fn ignored_level() -> Option<String> {
    let (level, target) = (settings::get().level?, known_target()?);
    target
        .at_level(level)
        .is_none()
        .then(|| "SPIRULA_CPU is ignored: this processor is not of that level".to_owned())
}

/// Whether what is compiled is there for other processes, too.
pub fn keeps_code() -> bool {
    cache().is_some()
}

/// What this system can't keep from the compiler processes, in words; None if nothing, or before there was one.
pub fn missing_protection() -> Option<String> {
    let mut missing = [POOL.get().missing(), TRANSLATORS.get().missing()].concat();
    missing.sort();
    missing.dedup();
    (!missing.is_empty())
        .then(|| format!("the compiler is not fully confined: this system lacks {}", missing.join(" and ")))
}

/// Starts a worker in the background if there is none, so that the first request finds it ready. Never fails. Where an earlier
/// process of this machine kept what it compiled, there may be nothing to compile: the first program that is new starts it.
pub fn warm_up() {
    if !POOL.get().is_empty() || cache().is_some() && known_target().is_some() {
        return;
    }
    // Without a thread the first request starts the worker.
    let _ = std::thread::Builder::new().name("spirula-warm-up".into()).spawn(|| POOL.get().warm_up());
}
