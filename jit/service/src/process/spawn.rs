//! Starts a worker that the application neither owns nor notices: no SIGCHLD, no zombie, nothing for its `wait`.
//!
//! A middle process starts the worker and ends at once, so that the worker belongs to init. The middle one has no
//! exit signal, which makes it invisible to `waitpid(-1)`. Both are started as `posix_spawn` does it: sharing the
//! caller's memory while the calling thread stands still, so that no page table is copied however large the
//! application is, and no lock of another thread is ever waited for.

use std::ffi::{CString, c_char, c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::ptr::{null, null_mut};

/// The worker's end of the socket.
const SOCKET: c_int = 0;
/// Where LLVM complains: a file in memory, unless debugging.
const COMPLAINTS: c_int = 2;
/// The argument that makes the program a worker.
const ROLE: &std::ffi::CStr = c"--worker";

/// What to run as a worker. It gets no variable of the application's environment.
#[derive(Clone, Debug)]
pub struct Launch {
    program: CString,
    /// Whether it writes to the application's stderr.
    keep_stderr: bool,
}

impl Launch {
    /// Of this program. Errors: the path has a zero byte.
    pub fn new(program: &Path, keep_stderr: bool) -> io::Result<Self> {
        Ok(Launch { program: CString::new(program.as_os_str().as_bytes())?, keep_stderr })
    }

    /// Starts the worker; returns the application's end of its socket. That it is a compiler shows when it says hello.
    pub fn start(&self) -> io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        let arguments = [self.program.as_ptr(), ROLE.as_ptr(), null()];
        let environment = [null()];
        let mut stacks = Box::new([Stack([0; STACK_SIZE]), Stack([0; STACK_SIZE])]);
        let (middle_stack, worker_stack) = (stacks[0].top(), stacks[1].top());
        let mut plan = Plan {
            arguments: arguments.as_ptr(),
            environment: environment.as_ptr(),
            socket: theirs.as_raw_fd(),
            keep_stderr: self.keep_stderr,
            stack: worker_stack,
            error: 0,
        };
        let all_blocked = block_signals()?;
        let flags = libc::CLONE_VM | libc::CLONE_VFORK;
        // SAFETY: `middle` makes system calls only; plan and stacks live until it has ended, which CLONE_VFORK waits for.
        let middle_id = unsafe { libc::clone(middle, middle_stack, flags, (&raw mut plan).cast()) };
        let error = io::Error::last_os_error();
        restore_signals(&all_blocked);
        if middle_id < 0 {
            return Err(error);
        }
        let mut status = 0;
        // SAFETY: our own process, which `__WCLONE` alone finds; a failure leaves `status` at zero, and the missing
        // hello tells.
        unsafe { libc::waitpid(middle_id, &mut status, libc::__WCLONE) };
        if libc::WIFEXITED(status) && libc::WEXITSTATUS(status) != 0 {
            return Err(io::Error::from_raw_os_error(libc::WEXITSTATUS(status)));
        }
        // SAFETY: the processes that wrote to it, in memory that they shared, run another program or have ended.
        match unsafe { (&raw const plan.error).read_volatile() } {
            0 => {}
            error => return Err(io::Error::from_raw_os_error(error)),
        }
        Ok(ours)
    }
}

const STACK_SIZE: usize = 32 << 10;

/// A stack for one of the processes that share our memory.
#[repr(C, align(16))]
struct Stack([u8; STACK_SIZE]);

impl Stack {
    fn top(&mut self) -> *mut c_void {
        self.0.as_mut_ptr_range().end.cast()
    }
}

/// What the worker is started from; every pointer lives until it has been.
struct Plan {
    arguments: *const *const c_char,
    environment: *const *const c_char,
    socket: c_int,
    keep_stderr: bool,
    stack: *mut c_void,
    /// The errno of the worker's failure to run its program, else 0.
    error: c_int,
}

/// The middle process: starts the worker and ends with 0 or an errno. No allocation, no lock, no panic: it shares
/// the application's memory.
extern "C" fn middle(plan: *mut c_void) -> c_int {
    // SAFETY: the plan that `start` passed, alive until this process ends.
    let stack = unsafe { (*plan.cast::<Plan>()).stack };
    let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
    // SAFETY: as in `start`, with a stack of its own.
    if unsafe { libc::clone(worker, stack, flags, plan) } < 0 { errno() } else { 0 }
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
        // Out of the way of the standard descriptors, which the application may have closed.
        let socket = libc::fcntl(given, libc::F_DUPFD, 10);
        let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        let complaints = libc::memfd_create(c"spirula-complaints".as_ptr(), 0);
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
        let start = |path: &str| Launch::new(Path::new(path), false).unwrap().start().map(drop);
        assert_eq!(start("/nonexistent/spirula-compiler").unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(start("/dev/null").unwrap_err().kind(), io::ErrorKind::PermissionDenied);
    }

    #[test]
    fn a_program_that_ends_closes_its_socket() {
        let mut socket = Launch::new(Path::new("/bin/false"), false).unwrap().start().unwrap();
        assert_eq!(socket.read(&mut [0]).unwrap(), 0);
    }
}
