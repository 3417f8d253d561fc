//! The worker's life: limits first, then what takes its time and is trusted, then the sandbox, and in it request after request,
//! until its socket closes or nothing comes. One thread with a large stack does all of them: where launches use every processor,
//! one that sleeps gets one back at once, and a new one would wait its turn for milliseconds.

mod check;
mod crash;
mod memory;
mod pace;
mod perform;
mod prepare;
mod sandbox;

pub use check::check;
pub use memory::{limit as limit_memory, resident};
pub use perform::{caught, perform};

use crate::large_stack;
use crash::{COMPLAINTS, SOCKET};
use memory::Watch;
use spirula_interface::identity;
use spirula_interface::options::CompileError;
use spirula_interface::protocol::{self, Conditions, Hello, Job, Product, Reply, Role, Stage, Tag};
use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd};
use std::path::PathBuf;

/// Bytes of address space: more than any sane compilation takes, less than what stalls a machine.
const ADDRESS_SPACE: u64 = 8 << 30;
/// How willingly the kernel ends a worker when memory is short, from -1000 to 1000.
const OOM_SCORE: &str = "800";
/// Bytes of a file, which is what LLVM says on stderr, or a dump.
const FILE_SIZE: u64 = 256 << 20;
/// Milliseconds without a request after which a worker leaves.
const IDLE_LIMIT: i32 = 60_000;

/// What does the jobs, on a stack that LLVM's recursions fit in: [`perform`], or what a test puts in its place.
pub type Performer = fn(Job, &Conditions, &mut Vec<Stage>) -> Result<Product, CompileError>;

/// Serves the application at the other end of its standard input, a socket; never returns. The program's second argument may be a
/// folder for what its requests want to be dumped.
pub fn serve(role: Role, performer: Performer) -> ! {
    confine();
    let served =
        begin(role).and_then(|hello| on_large_stack(|watch| converse(&hello, role, performer, watch)));
    let end = match served.flatten() {
        Ok(()) => 0,
        Err(_) => 1,
    };
    // SAFETY: ends the process without the destructors of LLVM, which nobody waits for.
    unsafe { libc::_exit(end) }
}

/// Gives up, for good, what a process that runs kernels of people whom nobody trusts does not need, for this thread and those that it
/// starts from now on. It may have so many bytes of memory of its own. Returns what this kernel can't withhold, in words.
pub fn confine_executor(memory: u64) -> Vec<String> {
    limit(libc::RLIMIT_CORE, 0);
    limit(libc::RLIMIT_DATA, memory);
    limit(libc::RLIMIT_FSIZE, FILE_SIZE);
    renounce();
    sandbox::enter(Role::Executor, None)
}

/// What any process does that is about to read what nobody vouches for.
fn confine() {
    limit(libc::RLIMIT_CORE, 0);
    limit(libc::RLIMIT_AS, ADDRESS_SPACE);
    limit(libc::RLIMIT_FSIZE, FILE_SIZE);
    renounce();
    crash::install();
}

/// Works on a thread of its own with a large stack, while this one looks after the memory that is taken. Errors: the system has
/// no thread to give.
fn on_large_stack<T: Send>(work: impl FnOnce(&Watch) -> T + Send) -> io::Result<T> {
    struct Ending<'w>(&'w Watch);
    impl Drop for Ending<'_> {
        fn drop(&mut self) {
            self.0.end();
        }
    }
    let watch = Watch::by_this_thread();
    std::thread::scope(|scope| {
        let thread = large_stack::spawn(scope, || {
            // After a panic as well.
            let _ending = Ending(&watch);
            work(&watch)
        })?;
        watch.keep();
        Ok(thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
    })
}

/// All that comes before the first request. What is given up holds for this thread and those that it starts behind this.
fn begin(role: Role) -> io::Result<Hello> {
    let host = crate::llvm::host();
    if role == Role::Compiler {
        // What takes its time and serves every request.
        let _ = crate::llvm::machine(&host, true);
    }
    memory::install();
    pace::install();
    let dump = std::env::args_os().nth(2).map(PathBuf::from);
    let missing = sandbox::enter(role, dump.as_deref());
    leave_with_the_application()?;
    if role == Role::Translator {
        crate::clang::keep_one();
    }
    Ok(Hello { build: identity::BUILD.to_owned(), host, missing })
}

/// Says hello, and answers request after request.
fn converse(hello: &Hello, role: Role, performer: Performer, watch: &Watch) -> io::Result<()> {
    // SAFETY: whoever started this process put the socket there, and it stays open until the end.
    let socket = unsafe { BorrowedFd::borrow_raw(SOCKET) };
    // SAFETY: as above; never closed through this.
    let stream = ManuallyDrop::new(unsafe { File::from_raw_fd(SOCKET) });
    protocol::send(socket.as_fd(), Tag::Hello, hello)?;
    // A request that is there already is not to share the processor with it.
    if role == Role::Compiler && !has_request(0) {
        prepare::begin(&hello.host);
    }
    while has_request(IDLE_LIMIT) {
        let (tag, payload) = protocol::receive(&*stream)?;
        if tag != Tag::Request {
            return Err(io::Error::other("not a request"));
        }
        let (conditions, job) = protocol::decode_request(&payload)?;
        // SAFETY: COMPLAINTS is this process's own; what was said before does not concern this request.
        unsafe {
            libc::ftruncate(COMPLAINTS, 0);
            libc::lseek(COMPLAINTS, 0, libc::SEEK_SET);
        }
        set_timers(conditions.seconds, conditions.patience());
        let mut stages = Vec::new();
        let nobody_waits = only_might_be_faster(&job);
        let work = || performer(job, &conditions, &mut stages);
        let result = watch.during(|| pace::during(nobody_waits, work));
        set_timers(0, 0);
        let resident = resident();
        let sent = protocol::send(socket.as_fd(), Tag::Reply, &Reply { result, stages, resident });
        match sent {
            Err(error) if error.kind() == io::ErrorKind::FileTooLarge => {
                let result =
                    Err(CompileError::Failed(format!("error: the results can't be sent: {error}\n")));
                let reply = Reply { result, stages: Vec::new(), resident };
                protocol::send(socket.as_fd(), Tag::Reply, &reply)?;
            }
            sent => sent?,
        }
    }
    protocol::send(socket.as_fd(), Tag::Bye, &())
}

/// Whether a job is code in other lanes than the cost model chose, to be measured beside what is used already.
fn only_might_be_faster(job: &Job) -> bool {
    let Job::Build { inputs, .. } = job else { return false };
    inputs.options.specialization.as_ref().is_some_and(|wanted| wanted.lanes.is_some())
}

/// Ends the process as soon as the application closes its end, whatever LLVM may be doing then.
fn leave_with_the_application() -> io::Result<()> {
    let watch = || {
        let mut socket = libc::pollfd { fd: SOCKET, events: libc::POLLRDHUP, revents: 0 };
        loop {
            // SAFETY: one pollfd, alive during the call.
            if unsafe { libc::poll(&mut socket, 1, -1) } > 0 {
                // SAFETY: ends the process at once.
                unsafe { libc::_exit(0) }
            }
        }
    };
    std::thread::Builder::new().name("spirula-watch".into()).spawn(watch).map(drop)
}

/// Whether a request comes within so many milliseconds.
fn has_request(milliseconds: i32) -> bool {
    let mut socket = libc::pollfd { fd: SOCKET, events: libc::POLLIN, revents: 0 };
    // SAFETY: one pollfd, alive during the call. An error is left for the read to find.
    unsafe { libc::poll(&mut socket, 1, milliseconds) != 0 }
}

/// Gives up what no compilation needs: rights that a program run from here might gain, and precedence when memory is short.
fn renounce() {
    // SAFETY: concerns this process and those that it starts.
    unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    stay_nice();
    // The kernel ends the compiler before the application. Without /proc it decides by itself.
    let _ = std::fs::write("/proc/self/oom_score_adj", OOM_SCORE);
}

/// A session of its own would make it the equal of all others on systems that share the processors among sessions, however nice whoever
/// started it is.
fn stay_nice() {
    // SAFETY: asks for this process's own.
    let nice = unsafe { libc::getpriority(libc::PRIO_PROCESS, 0) };
    if nice > 0 {
        let _ = std::fs::write("/proc/self/autogroup", nice.to_string());
    }
}

/// Lowers a limit for good; one that is lower already stays.
fn limit(resource: libc::__rlimit_resource_t, value: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is alive; lowering a limit concerns this process only.
    unsafe {
        if libc::getrlimit(resource, &mut limit) == 0 {
            limit.rlim_max = limit.rlim_max.min(value);
            limit.rlim_cur = limit.rlim_cur.min(limit.rlim_max);
            libc::setrlimit(resource, &limit);
        }
    }
}

/// Ends this process after so many seconds of processor time, or by the clock; 0 is never.
fn set_timers(processor: u32, clock: u32) {
    for (timer, seconds) in [(libc::ITIMER_PROF, processor), (libc::ITIMER_REAL, clock)] {
        let none = libc::timeval { tv_sec: 0, tv_usec: 0 };
        let end =
            libc::itimerval { it_interval: none, it_value: libc::timeval { tv_sec: seconds.into(), ..none } };
        // SAFETY: sets a timer of this process.
        unsafe { libc::setitimer(timer, &end, std::ptr::null_mut()) };
    }
}
