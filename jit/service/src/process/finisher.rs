//! What outlives the application: the builds of code that is kept which it began in the background and did not live to see the end of.
//! Without that, a program whose processes are shorter than its kernels take to be compiled would stay in the baseline for ever.
//!
//! ```text
//! application, at its exit                    spirula-compiler --finisher (an orphan with a session of its own, and nothing of the
//!   leave(requests) -> a file in memory ==>     application's but that file) -> serve -> Pool -> Worker, as ever
//!                                                                                   \--> the cache, as ever
//! ```
//!
//! It is no daemon. It begins nothing once it has run for a minute, gives its compilers no more processor time than what is left of
//! that, as little of the processors as the system knows, and ends. One at a time works for a cache; what others wanted is left to
//! the next process that wants it. An orphan is for PID 1 to wait for, and not every PID 1 does: the one that was there before is looked
//! for, and if it is a zombie, none is started any more.

use super::pool::Pool;
use super::spawn::Launch;
use super::{Request, locate};
use crate::cache::{Cache, Key};
use crate::settings;
use rustix::fs::{FlockOperation, MemfdFlags, flock, memfd_create};
use rustix::process::{Resource, Rlimit, setpriority_process, setrlimit};
use serde::{Deserialize, Serialize};
use spirula_interface::identity;
use spirula_interface::protocol::{self, Conditions, Reply, Role};
use std::ffi::CStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, Write};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// What makes the compiler's program a finisher.
pub const ARGUMENT: &CStr = c"--finisher";

/// How long it begins builds, and what processor time those may take together.
const BUDGET: Duration = Duration::from_secs(60);
/// Bytes of jobs that are left behind.
const MOST: usize = 64 << 20;
/// The file in the cache's folder that says who works for it.
const SLOT: &str = "finisher";

/// What is left to be done.
#[derive(Serialize, Deserialize)]
struct Errand<'e> {
    /// Who can read the jobs.
    build: String,
    folder: PathBuf,
    cache_size: u64,
    /// Of processor time, for each.
    seconds: u32,
    /// With what their answers are kept under.
    #[serde(borrow)]
    jobs: Vec<(&'e [u8], [u8; 32])>,
}

/// Has requests done by another process, for the next ones like this, if what they yield is kept. Returns how many. Errors: why that
/// process can't be had.
pub fn leave(requests: &[Request]) -> io::Result<usize> {
    let settings = settings::get();
    let Some(folder) = settings.cache_folder.as_ref() else { return Ok(0) };
    let mut left = MOST;
    let fitting = |request: &Request| {
        let key = request.key().filter(|_| request.role == Role::Compiler && request.job.len() <= left)?;
        left -= request.job.len();
        Some(key.to_bytes())
    };
    let keys: Vec<Option<[u8; 32]>> = requests.iter().map(fitting).collect();
    let jobs: Vec<(&[u8], [u8; 32])> =
        std::iter::zip(requests, keys).filter_map(|(request, key)| Some((&request.job[..], key?))).collect();
    if jobs.is_empty() || gets_orphans() || !can_be_left(folder) {
        return Ok(0);
    }
    let count = jobs.len();
    let seconds = u32::try_from(settings.time_limit.as_secs()).unwrap_or(u32::MAX).max(1);
    let errand = Errand {
        build: identity::BUILD.to_owned(),
        folder: std::path::absolute(folder)?,
        cache_size: settings.cache_size,
        seconds,
        jobs,
    };
    let mut file = File::from(memfd_create("spirula-errand", MemfdFlags::CLOEXEC)?);
    file.write_all(&protocol::encode(&errand)?)?;
    file.rewind()?;
    let program = locate::compiler().map_err(io::Error::other)?;
    Launch::with_argument(&program, ARGUMENT)?.leave(file.as_fd())?;
    Ok(count)
}

/// Whether an orphan would be this process's own child: that is no business of its. (And all die with PID 1.)
fn gets_orphans() -> bool {
    std::process::id() == 1 || rustix::process::child_subreaper().is_ok_and(|process| process.is_some())
}

/// Whether nobody works for the cache, and who did before was buried.
fn can_be_left(folder: &Path) -> bool {
    Slot::take(folder).is_ok_and(|slot| slot.is_some_and(|mut slot| !slot.holds_zombie()))
}

/// Does what was left behind in the file that is the standard input. What goes wrong nobody is there to hear.
pub fn serve() {
    lower_self();
    let mut bytes = Vec::new();
    let most = MOST as u64 + (1 << 16);
    if io::stdin().take(most).read_to_end(&mut bytes).is_ok()
        && let Ok(errand) = protocol::decode_borrowed::<Errand>(&bytes)
    {
        let _ = carry_out(&errand);
    }
}

/// Nobody waits for this process, and nobody needs the folder that the application was in.
fn lower_self() {
    let _ = std::env::set_current_dir("/");
    let _ = setpriority_process(None, 19);
    for (resource, most) in [(Resource::Core, 0), (Resource::Cpu, 2 * BUDGET.as_secs())] {
        let _ = setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) });
    }
}

fn carry_out(errand: &Errand) -> Result<(), String> {
    if errand.build != identity::BUILD {
        return Err("of another build".into());
    }
    let begun = Instant::now();
    let cache = Cache::open(&errand.folder, errand.cache_size)?;
    let slot = Slot::take(&errand.folder).map_err(|error| error.to_string())?;
    let Some(mut slot) = slot else { return Ok(()) };
    slot.sign().map_err(|error| error.to_string())?;
    let program = || std::env::current_exe().map_err(|error| error.to_string());
    let pool = Pool::new(Role::Compiler, program);
    for &(job, key) in &errand.jobs {
        let key = Key::of_bytes(key);
        if cache.find(&key).is_some() {
            continue;
        }
        let left = BUDGET.saturating_sub(begun.elapsed()).as_secs();
        let seconds = errand.seconds.min(u32::try_from(left).unwrap_or(0));
        if seconds == 0 {
            break;
        }
        let request = Request { job: job.to_vec(), verb: "finishing", role: Role::Compiler, key: Some(key) };
        if let Ok(Reply { result: Ok(product), .. }) = pool.run(&request, &Conditions { seconds, dump: None })
            && let Ok(bytes) = protocol::encode(&product)
        {
            cache.keep(&key, &bytes);
        }
    }
    Ok(())
}

/// The place of who works for a cache: a locked file, with the process and when that began.
struct Slot(File);

impl Slot {
    /// None if somebody has it. Errors: nobody can have it.
    fn take(folder: &Path) -> io::Result<Option<Slot>> {
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false).mode(0o600);
        let file = options.custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK).open(folder.join(SLOT))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Slot(file))),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Says that it is this process's.
    fn sign(&mut self) -> io::Result<()> {
        let began = State::of(std::process::id()).map_or(0, |state| state.began);
        self.0.set_len(0)?;
        self.0.rewind()?;
        writeln!(self.0, "{} {began}", std::process::id())
    }

    /// Whether the process that had it before has ended, and nobody has waited for it.
    fn holds_zombie(&mut self) -> bool {
        let mut text = String::new();
        if (&self.0).take(64).read_to_string(&mut text).is_err() {
            return false;
        }
        let mut numbers = text.split_whitespace().map_while(|word| word.parse::<u64>().ok());
        let (Some(process), Some(began)) = (numbers.next(), numbers.next()) else { return false };
        let state = u32::try_from(process).ok().and_then(State::of);
        state.is_some_and(|state| state.is_zombie && state.began == began)
    }
}

/// What the system says of a process.
struct State {
    is_zombie: bool,
    /// In ticks since the system's start: others that get its number later began later.
    began: u64,
}

impl State {
    /// None if there is no such process, or nothing is known.
    fn of(process: u32) -> Option<State> {
        let text = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        // Behind the name, which may be anything.
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_whitespace().collect();
        Some(State { is_zombie: *fields.first()? == "Z", began: fields.get(19)?.parse().ok()? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn one_at_a_time_has_a_place() {
        let folder = tempfile::tempdir().unwrap();
        let mut slot = Slot::take(folder.path()).unwrap().expect("nobody has it");
        assert!(Slot::take(folder.path()).unwrap().is_none());
        assert!(!can_be_left(folder.path()));
        slot.sign().unwrap();
        drop(slot);
        assert!(can_be_left(folder.path()), "it is this process, which is no zombie");
        assert!(!can_be_left(Path::new("/nonexistent")), "nothing can be kept there");
    }

    #[test]
    fn where_nobody_buries_orphans_there_is_one_at_most() {
        let folder = tempfile::tempdir().unwrap();
        let mut child = Command::new("/bin/true").spawn().unwrap();
        let began = State::of(child.id()).expect("it is not waited for").began;
        fs::write(folder.path().join(SLOT), format!("{} {began}\n", child.id())).unwrap();
        while !State::of(child.id()).unwrap().is_zombie {
            std::thread::yield_now();
        }
        assert!(!can_be_left(folder.path()));
        child.wait().unwrap();
        assert!(can_be_left(folder.path()));
        // Another process of that number.
        fs::write(folder.path().join(SLOT), format!("{} 1\n", std::process::id())).unwrap();
        assert!(can_be_left(folder.path()));
    }
}
