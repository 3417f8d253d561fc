//! The parent of a worker: a process that buries it, so that it is nobody else's zombie.
//!
//! ```text
//! application --line-- keeper (a child without an exit signal, in the application's memory)
//!      \                 worker (runs another program) -> clang
//!       \--- socket -----/
//! ```
//!
//! A worker that runs another program always ends with SIGCHLD, so it can't be the application's child; an orphan would be left
//! to PID 1 or to a subreaper, which may never wait for it, or be the application itself. The keeper waits for the worker and
//! for what that leaves behind, until its line to the application closes; then it kills them, and ends. The application waits
//! for the keeper when it drops it, or when it exits. If it is killed, one keeper for each worker is all that PID 1 gets.
//!
//! The keeper outlives the call that started it, in the memory of the application, whose threads go on. So it has a stack of
//! its own, all signals blocked, no descriptor but its line, and it makes system calls by itself: the C library's `errno` is
//! another thread's. (The library is never unloaded: it is linked with `-z nodelete`.)

use super::spawn::Plan;
use crate::per_process::PerProcess;
use std::arch::asm;
use std::ffi::{c_int, c_long, c_void};
use std::io::{self, Read};
use std::net::Shutdown;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How long a thread waits for the end of a worker that it let go. One that takes longer is looked after later.
const PATIENCE: Duration = Duration::from_millis(100);
/// How long the application's exit may be held up.
const LAST_PATIENCE: Duration = Duration::from_secs(1);
/// How long the keeper waits for what it killed.
const BURIAL: c_long = 5_000;

/// A worker's keeper; both end when this is dropped.
#[derive(Debug)]
pub struct Keeper(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    id: libc::pid_t,
    line: UnixStream,
    /// In use until the process has ended; then there is none.
    stacks: Mutex<Option<Box<[Stack; 2]>>>,
}

/// The keepers that have not been waited for.
static KEEPERS: PerProcess<Mutex<Vec<Arc<Inner>>>> = PerProcess::new(at_first, |_| {});

fn at_first() -> Mutex<Vec<Arc<Inner>>> {
    // SAFETY: the function can be called at any time, and the library is never unloaded. A failure leaves the processes to PID 1.
    unsafe { libc::atexit(end_all) };
    Mutex::default()
}

/// Has the application's exit end the workers, but not before it has called what is registered from here on: that may wait for them.
pub fn end_at_exit() {
    KEEPERS.get();
}

/// At the application's exit.
extern "C" fn end_all() {
    // A process that was forked has none of its own; what holds the lock elsewhere is over at once, or this thread's.
    let Some(keepers) = KEEPERS.existing() else { return };
    let Ok(mut keepers) = keepers.try_lock() else { return };
    let deadline = Instant::now() + LAST_PATIENCE;
    keepers.iter().for_each(|keeper| keeper.let_go());
    keepers.retain(|keeper| !keeper.bury(deadline.saturating_duration_since(Instant::now())));
}

impl Keeper {
    /// Starts a keeper, and through it the worker. The caller has blocked all signals, and the plan's socket is open.
    pub(super) fn start(worker: extern "C" fn(*mut c_void) -> c_int, plan: Plan) -> io::Result<Keeper> {
        sweep();
        let (line, theirs) = UnixStream::pair()?;
        let mut stacks = Box::new([Stack([0; STACK_SIZE]), Stack([0; STACK_SIZE])]);
        let own_stack = stacks[0].top();
        let mut birth = Birth { plan, worker, worker_stack: stacks[1].top(), line: theirs.as_raw_fd() };
        // SAFETY: `keep` needs nothing but its stack and its birth; the one is kept until it has ended, the other until it has
        // reported, which is waited for below.
        let id = unsafe { libc::clone(keep, own_stack, libc::CLONE_VM, (&raw mut birth).cast()) };
        if id < 0 {
            return Err(io::Error::last_os_error());
        }
        drop(theirs);
        let keeper = Keeper(Arc::new(Inner { id, line, stacks: Mutex::new(Some(stacks)) }));
        let keepers = KEEPERS.get();
        keepers.lock().unwrap_or_else(PoisonError::into_inner).push(keeper.0.clone());
        let mut report = [0; 4];
        // Ends with the keeper, too: it holds the only other end.
        match (&keeper.0.line).read_exact(&mut report).map(|()| i32::from_ne_bytes(report)) {
            Ok(0) => Ok(keeper),
            Ok(error) => Err(io::Error::from_raw_os_error(error)),
            Err(_) => Err(io::Error::other("the process that was to start it was killed")),
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        // After a fork the parent's is none of the child's business; it is not listed there either.
        if is_listed(&self.0) {
            self.0.let_go();
            if self.0.bury(PATIENCE) {
                sweep();
            }
        }
    }
}

fn is_listed(keeper: &Arc<Inner>) -> bool {
    let list = |keepers: &'static Mutex<Vec<_>>| keepers.lock().unwrap_or_else(PoisonError::into_inner);
    KEEPERS.existing().is_some_and(|keepers| list(keepers).iter().any(|other| Arc::ptr_eq(other, keeper)))
}

/// Forgets those that have ended, among them any that took longer than a thread would wait.
fn sweep() {
    let mut keepers = KEEPERS.get().lock().unwrap_or_else(PoisonError::into_inner);
    keepers.retain(|keeper| !keeper.has_ended());
}

impl Inner {
    /// Has the keeper kill the worker and end.
    fn let_go(&self) {
        // Reaches it even if a forked child of the application holds the line too. One that has ended can't be told.
        let _ = self.line.shutdown(Shutdown::Write);
    }

    /// Waits so long for the end of one that was let go.
    fn bury(&self, patience: Duration) -> bool {
        // The line ends with the keeper. (No time at all would be an error, and forever.)
        let _ = self.line.set_read_timeout(Some(patience.max(Duration::from_millis(1))));
        let over = matches!((&self.line).read(&mut [0]), Ok(0)) && self.wait(0);
        over || self.has_ended()
    }

    fn has_ended(&self) -> bool {
        self.wait(libc::WNOHANG)
    }

    fn wait(&self, options: c_int) -> bool {
        let mut stacks = self.stacks.lock().unwrap_or_else(PoisonError::into_inner);
        if stacks.is_some() {
            // SAFETY: asks for a child of this process that nobody else waits for.
            let answer = unsafe { libc::waitpid(self.id, std::ptr::null_mut(), libc::__WCLONE | options) };
            let is_unknown = answer < 0 && io::Error::last_os_error().raw_os_error() == Some(libc::ECHILD);
            if answer > 0 || is_unknown {
                *stacks = None;
            }
        }
        stacks.is_none()
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // A process that runs on its stack after all keeps it.
        if let Some(stacks) = self.stacks.get_mut().unwrap_or_else(PoisonError::into_inner).take() {
            Box::leak(stacks);
        }
    }
}

/// Where a kernel can't close a range, higher ones stay open as long as the keeper.
const MOST_DESCRIPTORS: c_int = 1 << 16;

const STACK_SIZE: usize = 32 << 10;

/// A stack for one of the processes that share our memory.
#[repr(C, align(16))]
struct Stack([u8; STACK_SIZE]);

impl std::fmt::Debug for Stack {
    fn fmt(&self, f: &mut std::fmt::Formatter) -> std::fmt::Result {
        f.write_str("Stack")
    }
}

impl Stack {
    fn top(&mut self) -> *mut c_void {
        self.0.as_mut_ptr_range().end.cast()
    }
}

/// What the keeper starts from.
struct Birth {
    plan: Plan,
    worker: extern "C" fn(*mut c_void) -> c_int,
    worker_stack: *mut c_void,
    /// Its end of the line.
    line: c_int,
}

/// The keeper's life. No allocation, no lock, no panic, no `errno`: it shares the application's memory.
extern "C" fn keep(birth: *mut c_void) -> c_int {
    let birth = birth.cast::<Birth>();
    // SAFETY: the birth that `start` passed, alive until it hears the report; after that only this process's own descriptors,
    // children and stack are touched. The worker shares memory with a keeper that stands still until it runs its program.
    unsafe {
        let (line, socket) = ((*birth).line, (*birth).plan.socket);
        system_call(libc::SYS_setsid, [0; 4]);
        system_call(libc::SYS_prctl, [libc::PR_SET_NAME.into(), c"spirula-keeper".as_ptr() as c_long, 0, 0]);
        system_call(libc::SYS_prctl, [libc::PR_SET_CHILD_SUBREAPER.into(), 1, 0, 0]);
        let stderr = if (*birth).plan.keep_stderr { libc::STDERR_FILENO } else { socket };
        close_all_but([line, socket, stderr]);
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::SIGCHLD;
        // `errno` is still ours to use: the thread that it belongs to waits for our report.
        let worker =
            libc::clone((*birth).worker, (*birth).worker_stack, flags, (&raw mut (*birth).plan).cast());
        let error = match worker {
            ..0 => *libc::__errno_location(),
            _ => (&raw const (*birth).plan.error).read_volatile(),
        };
        for used in [socket, stderr] {
            system_call(libc::SYS_close, [used.into(), 0, 0, 0]);
        }
        // Read before the report: then it may be gone.
        let is_left = (*birth).plan.is_left && error == 0;
        let report = &raw const error;
        system_call(libc::SYS_write, [line.into(), report as c_long, 4, 0]);
        if is_left {
            end()
        }
        watch(line, worker)
    }
}

/// Until the line closes: buries. Then kills, buries, and ends.
///
/// # Safety
/// The worker is a child of this process, or negative.
unsafe fn watch(line: c_int, worker: libc::pid_t) -> ! {
    let poll = |descriptors: &mut [libc::pollfd], limit: c_long| {
        // SAFETY: the descriptors are alive during the call.
        unsafe {
            system_call(
                libc::SYS_poll,
                [descriptors.as_mut_ptr() as c_long, descriptors.len() as c_long, limit, 0],
            )
        }
    };
    let mut is_alive = worker > 0;
    // SAFETY: asks for a descriptor of a child. Old kernels have none; then its end is looked for each second.
    let handle = unsafe { system_call(libc::SYS_pidfd_open, [worker.into(), 0, 0, 0]) } as c_int;
    loop {
        let mut events = [
            libc::pollfd { fd: line, events: libc::POLLIN, revents: 0 },
            libc::pollfd { fd: if is_alive { handle } else { -1 }, events: libc::POLLIN, revents: 0 },
        ];
        let has_children = bury_some(worker, &mut is_alive);
        let idle = !has_children || (is_alive && handle >= 0);
        poll(&mut events, if idle { -1 } else { 1_000 });
        if events[0].revents != 0 {
            break;
        }
    }
    if is_alive {
        // SAFETY: a child that has not been waited for, so the number is still its own.
        unsafe { system_call(libc::SYS_kill, [worker.into(), libc::SIGKILL.into(), 0, 0]) };
    }
    let mut waited = 0;
    while bury_some(worker, &mut is_alive) && waited < BURIAL {
        poll(&mut [], 1);
        waited += 1;
    }
    end()
}

/// Ends this process at once.
fn end() -> ! {
    loop {
        // SAFETY: nothing runs behind it.
        unsafe { system_call(libc::SYS_exit_group, [0; 4]) };
    }
}

/// Waits for every child that has ended. Whether there are others.
fn bury_some(worker: libc::pid_t, is_alive: &mut bool) -> bool {
    loop {
        let options = libc::WNOHANG | libc::__WALL;
        // SAFETY: asks for this process's own children.
        match unsafe { system_call(libc::SYS_wait4, [-1, 0, options.into(), 0]) } {
            0 => return true,
            ended if ended == c_long::from(worker) => *is_alive = false,
            1.. => {}
            error if error == -c_long::from(libc::EINTR) => {}
            _ => return false,
        }
    }
}

/// Closes this process's copies of the application's descriptors.
///
/// # Safety
/// Nothing of this process uses them.
unsafe fn close_all_but(mut kept: [c_int; 3]) {
    kept.sort_unstable();
    let [low, middle, high] = kept;
    for [first, last] in [[0, low - 1], [low + 1, middle - 1], [middle + 1, high - 1], [high + 1, c_int::MAX]]
    {
        if first <= last {
            // SAFETY: the caller's promise.
            let done = unsafe { system_call(libc::SYS_close_range, [first.into(), last.into(), 0, 0]) };
            // Before Linux 5.9.
            for descriptor in first..=if done < 0 { last.min(MOST_DESCRIPTORS) } else { -1 } {
                // SAFETY: the caller's promise.
                unsafe { system_call(libc::SYS_close, [descriptor.into(), 0, 0, 0]) };
            }
        }
    }
}

/// A system call without the C library. Errors are negative.
///
/// # Safety
/// As the system call's.
#[inline(always)]
unsafe fn system_call(number: c_long, [a, b, c, d]: [c_long; 4]) -> c_long {
    let result;
    // SAFETY: the caller's promise; the kernel keeps all registers but these.
    unsafe {
        asm!("syscall", inlateout("rax") number => result, in("rdi") a, in("rsi") b, in("rdx") c, in("r10") d,
             lateout("rcx") _, lateout("r11") _, options(nostack));
    }
    result
}
