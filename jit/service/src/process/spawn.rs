//! Starts a worker that the application neither owns nor notices: no SIGCHLD, no zombie, nothing for its `wait`.
//!
//! Between the two stands a keeper ([`super::keeper`]), the worker's parent, which has no exit signal and is hence invisible to
//! `waitpid(-1)`. Both are started as `posix_spawn` does it: in the application's memory, so that no page table is copied
//! however large it is, and no lock of another thread is ever waited for.

use super::keeper::Keeper;
use spirula_interface::protocol::Role;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::ptr::{null, null_mut};

/// The worker's end of the socket.
const SOCKET: c_int = 0;
/// Where LLVM complains: a file in memory, unless debugging.
const COMPLAINTS: c_int = 2;
/// What to run as a worker. It gets no variable of the application's environment.
#[derive(Clone, Debug)]
pub struct Launch {
    program: CString,
    argument: &'static CStr,
    /// A folder that it may write to.
    dump: Option<CString>,
    /// Whether it writes to the application's stderr.
    keep_stderr: bool,
}

impl Launch {
    /// Of this program. Errors: the path has a zero byte.
    pub fn new(program: &Path, role: Role) -> io::Result<Self> {
        Self::with_argument(program, role.argument())
    }

    /// The same, as what its argument makes of it.
    pub(super) fn with_argument(program: &Path, argument: &'static CStr) -> io::Result<Self> {
        Ok(Launch { program: c_path(program)?, argument, dump: None, keep_stderr: false })
    }

    /// As the settings want it for who works on the compiler: it dumps into a folder, and writes to the application's stderr.
    pub fn with(self, dump: Option<&Path>, keep_stderr: bool) -> io::Result<Self> {
        Ok(Launch { dump: dump.map(c_path).transpose()?, keep_stderr, ..self })
    }

    /// Starts the worker. That it is a compiler shows when it says hello.
    pub fn start(&self) -> io::Result<Started> {
        let (socket, theirs) = UnixStream::pair()?;
        let keeper = self.start_with(theirs.as_fd(), false)?;
        Ok(Started { socket, keeper })
    }

    /// Starts the program with that as its standard input and leaves it behind: it is an orphan as soon as it runs.
    pub(super) fn leave(&self, input: BorrowedFd) -> io::Result<()> {
        self.start_with(input, true).map(drop)
    }

    fn start_with(&self, input: BorrowedFd, is_left: bool) -> io::Result<Keeper> {
        let dump = self.dump.as_ref().map_or(null(), |folder| folder.as_ptr());
        let arguments = [self.program.as_ptr(), self.argument.as_ptr(), dump, null()];
        let environment = [null()];
        let plan = Plan {
            arguments: arguments.as_ptr(),
            environment: environment.as_ptr(),
            socket: input.as_raw_fd(),
            keep_stderr: self.keep_stderr,
            is_left,
            error: 0,
        };
        let all_blocked = block_signals()?;
        let keeper = Keeper::start(worker, plan);
        restore_signals(&all_blocked);
        keeper
    }
}

fn c_path(path: &Path) -> io::Result<CString> {
    Ok(CString::new(path.as_os_str().as_bytes())?)
}

/// A worker that was started.
#[derive(Debug)]
pub struct Started {
    /// The application's end of its socket.
    pub socket: UnixStream,
    /// Ends the worker when it is dropped.
    pub keeper: Keeper,
}

/// What the worker is started from; every pointer lives until it has been.
pub(super) struct Plan {
    arguments: *const *const c_char,
    environment: *const *const c_char,
    pub(super) socket: c_int,
    pub(super) keep_stderr: bool,
    /// Whether its keeper ends as soon as it runs.
    pub(super) is_left: bool,
    /// The errno of the worker's failure to run its program, else 0.
    pub(super) error: c_int,
}

/// The worker until it runs its own program. No allocation, no lock, no panic: it shares the application's memory.
extern "C" fn worker(plan: *mut c_void) -> c_int {
    // SAFETY: the plan that `start` passed, alive until this process runs another program. All calls are system
    // calls on this process's own descriptors, signals and session, which are copies.
    unsafe {
        let plan = plan.cast::<Plan>();
        libc::setsid();
        // The application's own files and sockets are none of the worker's business, and it may have used up the numbers.
        let given = (*plan).socket;
        if given > 3 {
            libc::syscall(libc::SYS_close_range, 3, given - 1, 0);
        }
        libc::syscall(libc::SYS_close_range, given.max(2) + 1, u32::MAX, 0);
        // Out of the way of the standard descriptors, which may all be free.
        let away = |descriptor| libc::fcntl(descriptor, libc::F_DUPFD, 10);
        let socket = away(given);
        let nothing = away(libc::open(c"/dev/null".as_ptr(), libc::O_RDWR));
        let complaints = away(libc::memfd_create(c"spirula-complaints".as_ptr(), 0));
        libc::dup2(nothing, 1);
        if !(*plan).keep_stderr {
            libc::dup2(if complaints < 0 { nothing } else { complaints }, COMPLAINTS);
        }
        if socket < 0 || libc::dup2(socket, SOCKET) < 0 {
            (*plan).error = libc::EMFILE;
            libc::_exit(127);
        }
        libc::syscall(libc::SYS_close_range, 3, u32::MAX, 0);
        // No handler of the application may run here, in memory that is the application's.
        let mut default: libc::sigaction = MaybeUninit::zeroed().assume_init();
        default.sa_sigaction = libc::SIG_DFL;
        for signal in 1..=64 {
            libc::sigaction(signal, &default, null_mut());
        }
        let mut none = MaybeUninit::uninit();
        libc::sigemptyset(none.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, none.as_ptr(), null_mut());
        libc::execve(*(*plan).arguments, (*plan).arguments, (*plan).environment);
        (*plan).error = errno();
        libc::_exit(127)
    }
}

fn errno() -> c_int {
    // SAFETY: the C library's errno of this thread.
    unsafe { *libc::__errno_location() }
}

/// Blocks every signal for this thread; returns what was blocked before.
fn block_signals() -> io::Result<libc::sigset_t> {
    let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
    // SAFETY: both sets are written before they are read.
    let error = unsafe {
        libc::sigfillset(all.as_mut_ptr());
        libc::pthread_sigmask(libc::SIG_SETMASK, all.as_ptr(), before.as_mut_ptr())
    };
    // SAFETY: written by a call that succeeded.
    if error == 0 { Ok(unsafe { before.assume_init() }) } else { Err(io::Error::from_raw_os_error(error)) }
}

fn restore_signals(before: &libc::sigset_t) {
    // SAFETY: a set that `block_signals` returned.
    unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, null_mut()) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn what_cannot_be_run_is_an_error_with_its_reason() {
        let launch = |path: &str| Launch::new(Path::new(path), Role::Compiler).unwrap();
        let start = |path: &str| launch(path).start().map(drop);
        assert_eq!(start("/nonexistent/spirula-compiler").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(start("/dev/null").unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_program_that_ends_closes_its_socket() {
        let mut started = Launch::new(Path::new("/bin/false"), Role::Compiler).unwrap().start().unwrap();
        assert_eq!(started.socket.read(&mut [0]).unwrap(), 0);
    }
}
