//! The signal handler, and the stack that it runs on. In the handler there are system calls and plain memory, nothing else.

use super::{Call, Deadline, Fault, Record, records, this_thread};
use libc::{c_int, c_void, pid_t, sigaction, siginfo_t, sigset_t, ucontext_t};
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr::{NonNull, null, null_mut};
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// What a launch is told that has run too long: a signal that nobody minds who isn't meant.
pub(super) const LIMIT: c_int = libc::SIGURG;

/// What the processor raises, and [`LIMIT`].
const SIGNALS: [c_int; 5] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL, LIMIT];
/// How many of these are the processor's.
const RAISED: usize = 4;

/// Whom each of them was for before, in the order of [`SIGNALS`]. Set before our handler is, and never freed.
static OTHERS: [AtomicPtr<sigaction>; SIGNALS.len()] = [const { AtomicPtr::new(null_mut()) }; SIGNALS.len()];

fn zeroed() -> sigaction {
    // SAFETY: all zero is a valid sigaction.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// Installs the handler, once.
pub(super) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| handle(0..RAISED));
}

/// Installs it for the signal of launches that have run too long, once.
pub(super) fn install_for_limits() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| handle(RAISED..SIGNALS.len()));
}

/// A set of the one signal.
fn limit_only() -> sigset_t {
    let mut set = MaybeUninit::uninit();
    // SAFETY: the first call makes it a set.
    unsafe {
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigaddset(set.as_mut_ptr(), LIMIT);
        set.assume_init()
    }
}

/// While it lives, [`LIMIT`] reaches this thread, which the application may have kept from it.
pub(super) struct HearsLimit {
    was_blocked: bool,
}

impl HearsLimit {
    pub(super) fn begin() -> HearsLimit {
        let mut before = MaybeUninit::uninit();
        // SAFETY: concerns this thread; the set is written by a call that can't fail.
        let was_blocked = unsafe {
            libc::pthread_sigmask(libc::SIG_UNBLOCK, &limit_only(), before.as_mut_ptr());
            libc::sigismember(before.as_ptr(), LIMIT) == 1
        };
        HearsLimit { was_blocked }
    }
}

impl Drop for HearsLimit {
    fn drop(&mut self) {
        if self.was_blocked {
            // SAFETY: as it was before.
            unsafe { libc::pthread_sigmask(libc::SIG_BLOCK, &limit_only(), null_mut()) };
        }
    }
}

/// What a signal of ours has with it.
static OURS: u8 = 0;

fn ours() -> *mut c_void {
    (&raw const OURS).cast_mut().cast()
}

/// A `siginfo_t` as rt_tgsigqueueinfo(2) wants it: the rest of its 128 bytes is zero.
#[repr(C)]
struct Queued {
    signal: c_int,
    errno: c_int,
    code: c_int,
    _gap: c_int,
    process: pid_t,
    user: libc::uid_t,
    value: *mut c_void,
    _rest: [u8; 96],
}

const _: () = assert!(size_of::<Queued>() == size_of::<siginfo_t>());

/// Tells the record's thread that its launch has run too long. If it has ended, nobody is told, or who is takes no notice.
pub(super) fn send_limit(record: &Record) {
    let task = record.task.load(Relaxed);
    // SAFETY: sends a signal to a thread of this process, whose handler is installed. If it can't be sent now, it will be later.
    unsafe {
        let (process, user) = (libc::getpid(), libc::getuid());
        let code = libc::SI_QUEUE;
        let what =
            Queued { signal: LIMIT, errno: 0, code, _gap: 0, process, user, value: ours(), _rest: [0; 96] };
        libc::syscall(libc::SYS_rt_tgsigqueueinfo, process, task, LIMIT, &raw const what);
    }
}

fn handle(which: Range<usize>) {
    for (&signal, other) in SIGNALS[which.clone()].iter().zip(&OTHERS[which]) {
        let mut before = Box::new(zeroed());
        // SAFETY: asks only.
        unsafe { libc::sigaction(signal, null(), &mut *before) };
        let mut ours = zeroed();
        ours.sa_sigaction = on_signal as extern "C" fn(c_int, *mut siginfo_t, *mut c_void) as usize;
        // What interrupts a system call goes on as the other handler wants it.
        let restart = if signal == LIMIT { libc::SA_RESTART } else { before.sa_flags & libc::SA_RESTART };
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | restart;
        // The one that can come at any time never interrupts the others.
        ours.sa_mask = limit_only();
        other.store(Box::leak(before), Release);
        // SAFETY: the handler does what handlers may.
        unsafe { libc::sigaction(signal, &ours, null_mut()) };
    }
}

extern "C" fn on_signal(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: what the kernel passes to a handler of three arguments, ours for its duration.
    let (information, state) = unsafe { (&*info, &mut *context.cast::<ucontext_t>()) };
    // SAFETY: this thread's own, which is to be as it was when the interrupted code goes on.
    let errno = unsafe { *libc::__errno_location() };
    // SAFETY: a signal that was queued has a value.
    let is_limit = signal == LIMIT
        && information.si_code == libc::SI_QUEUE
        && unsafe { information.si_value() }.sival_ptr == ours();
    match is_limit {
        // One that comes too late, or too early to leave, is nobody else's.
        true => leave_late_kernel(state),
        false if leave_faulty_kernel(signal, information, state) => {}
        false => pass_on(signal, info, context),
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// If the signal was raised by a kernel of this thread: has it return to who called it. Else false.
fn leave_faulty_kernel(signal: c_int, info: &siginfo_t, state: &mut ucontext_t) -> bool {
    // Sent by a process, whatever the thread was doing.
    if info.si_code <= 0 {
        return false;
    }
    /// Of the error code of a page fault: it was a write.
    const WRITE: i64 = 2;
    let error = state.uc_mcontext.gregs[libc::REG_ERR as usize];
    // SAFETY: these signals have an address.
    let address = unsafe { info.si_addr() } as usize;
    // The kernel itself says that: the processor told no address.
    let address = (info.si_code != SI_KERNEL).then_some(address);
    let fault = |at| Fault { signal, address, writes: error & WRITE != 0, at };
    // Or in a function of the C library that it called: none of them has a frame.
    record().is_some_and(|record| leave(record, state, |_| true, fault))
}

/// If this thread is in a kernel whose time is over: has it return to who called it. It may be in a handler of the application's that
/// interrupted the kernel, which is why what the stack says is not enough here.
fn leave_late_kernel(state: &mut ucontext_t) {
    let Some(record) = record() else { return };
    // It may be another launch than the one that the signal was sent to.
    if Deadline(record.deadline.load(Relaxed)).is_over() {
        let fault = |at| Fault { signal: LIMIT, at, ..Fault::default() };
        leave(record, state, copies, fault);
    }
}

/// This thread's.
fn record() -> Option<&'static Record> {
    let this = this_thread();
    records().find(|record| record.thread.load(Relaxed) == this)
}

/// How far behind the beginning of one of the C library's functions its code may lie.
const FUNCTION_SIZE: usize = 4096;

/// Whether it is in one of the functions that generated code calls and that can take long.
fn copies(at: usize) -> bool {
    let functions = [libc::memcpy as *const (), libc::memmove as *const (), libc::memset as *const ()];
    functions.iter().any(|&function| at.wrapping_sub(function as usize) < FUNCTION_SIZE)
}

/// Leaves the kernel that is called, if the thread is in its code, or in what it called and `may_be_called` from there.
fn leave(
    record: &Record,
    state: &mut ucontext_t,
    may_be_called: impl Fn(usize) -> bool,
    why: impl Fn(usize) -> Fault,
) -> bool {
    let Some(call) = NonNull::new(record.call.load(Relaxed)) else { return false };
    // SAFETY: valid while it is noted, which ends only when this handler has returned; nobody else reads or writes it meanwhile.
    let Call { stack, recovery, ref code, ref mut fault, .. } = *unsafe { &mut *call.as_ptr() };
    if recovery == 0 {
        return false;
    }
    let registers = &mut state.uc_mcontext.gregs;
    let at = registers[libc::REG_RIP as usize] as usize;
    let caller = || {
        word_at(registers[libc::REG_RSP as usize] as usize)
            .filter(|_| !code.contains(&at) && may_be_called(at))
    };
    let is_kernels = |at: &usize| code.contains(at);
    let Some(at) = Some(at).filter(is_kernels).or_else(caller).filter(is_kernels) else { return false };
    *fault = why(at - code.start);
    registers[libc::REG_RIP as usize] = recovery as i64;
    registers[libc::REG_RSP as usize] = stack as i64;
    true
}

/// `si_code` of signals that come of no address.
const SI_KERNEL: c_int = 0x80;

/// A word of this process's memory, if it can be read.
fn word_at(address: usize) -> Option<usize> {
    let mut word = 0_usize;
    let to = libc::iovec { iov_base: (&raw mut word).cast(), iov_len: size_of::<usize>() };
    let from = libc::iovec { iov_base: address as *mut c_void, iov_len: size_of::<usize>() };
    // SAFETY: writes a word of ours; what can't be read is an error.
    let read = unsafe { libc::process_vm_readv(libc::getpid(), &to, 1, &from, 1, 0) };
    (read == size_of::<usize>() as isize).then_some(word)
}

/// Does as if our handler weren't there.
fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let place = SIGNALS.iter().position(|&known| known == signal);
    let other = place.map_or(null_mut(), |place| OTHERS[place].load(Acquire));
    // SAFETY: set before our handler was installed, and never freed.
    let other = unsafe { other.as_ref() }.copied().unwrap_or_else(zeroed);
    // SAFETY: as the kernel passed it.
    let was_sent = unsafe { (*info).si_code } <= 0;
    match other.sa_sigaction {
        libc::SIG_IGN if was_sent => {}
        // It is ignored by default.
        libc::SIG_DFL if signal == LIMIT => {}
        // The kernel's own answer: the instruction is run again without us, or the signal sent again.
        libc::SIG_DFL | libc::SIG_IGN => {
            let mut default = zeroed();
            default.sa_sigaction = libc::SIG_DFL;
            // SAFETY: concerns this signal, which ends the process.
            unsafe {
                libc::sigaction(signal, &default, null_mut());
                if was_sent {
                    libc::raise(signal);
                }
            }
        }
        handler => call_other(&other, handler, (signal, info, context)),
    }
}

/// Calls a handler as the kernel would, but on this stack.
fn call_other(
    other: &sigaction,
    handler: usize,
    (signal, info, context): (c_int, *mut siginfo_t, *mut c_void),
) {
    let mut before = MaybeUninit::uninit();
    // SAFETY: signals are blocked as the handler asked for when it was installed, and restored after; it has the signature that its
    // flags say.
    unsafe {
        let mut blocked = other.sa_mask;
        if other.sa_flags & libc::SA_NODEFER == 0 {
            libc::sigaddset(&mut blocked, signal);
        }
        libc::pthread_sigmask(libc::SIG_BLOCK, &blocked, before.as_mut_ptr());
        if other.sa_flags & libc::SA_NODEFER != 0 {
            let mut open = MaybeUninit::uninit();
            libc::sigemptyset(open.as_mut_ptr());
            libc::sigaddset(open.as_mut_ptr(), signal);
            libc::pthread_sigmask(libc::SIG_UNBLOCK, open.as_ptr(), null_mut());
        }
        if other.sa_flags & libc::SA_SIGINFO != 0 {
            let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) = std::mem::transmute(handler);
            handler(signal, info, context);
        } else {
            let handler: extern "C" fn(c_int) = std::mem::transmute(handler);
            handler(signal);
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, before.as_ptr(), null_mut());
    }
}

/// A thread's stack for signal handlers, which it had none of.
pub(super) struct Stack {
    memory: NonNull<c_void>,
}

/// What the processor's registers take there, at most, is a few pages.
const STACK_SIZE: usize = 64 << 10;
const PAGE: usize = 4096;

impl Stack {
    /// None if the thread has one, or there is no memory.
    pub(super) fn install() -> Option<Stack> {
        let mut now = MaybeUninit::<libc::stack_t>::uninit();
        // SAFETY: asks only.
        if unsafe { libc::sigaltstack(null(), now.as_mut_ptr()) } != 0 {
            return None;
        }
        // SAFETY: written by a call that succeeded.
        if unsafe { now.assume_init() }.ss_flags & libc::SS_DISABLE == 0 {
            return None;
        }
        let (access, kind) = (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: new memory, of which the first page is taken back, so that a handler that needs more stops there.
        let memory = unsafe {
            let memory = libc::mmap(null_mut(), PAGE + STACK_SIZE, access, kind, -1, 0);
            if memory == libc::MAP_FAILED {
                return None;
            }
            libc::mprotect(memory, PAGE, libc::PROT_NONE);
            memory
        };
        let stack = Stack { memory: NonNull::new(memory)? };
        let new = libc::stack_t { ss_sp: stack.usable(), ss_flags: 0, ss_size: STACK_SIZE };
        // SAFETY: the memory stays until `drop` has taken it back.
        (unsafe { libc::sigaltstack(&new, null_mut()) } == 0).then_some(stack)
    }

    fn usable(&self) -> *mut c_void {
        self.memory.as_ptr().wrapping_byte_add(PAGE)
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        let mut now = MaybeUninit::<libc::stack_t>::uninit();
        let none = libc::stack_t { ss_sp: null_mut(), ss_flags: libc::SS_DISABLE, ss_size: 0 };
        // SAFETY: the memory is ours, and is freed unless the system may still use it.
        unsafe {
            if libc::sigaltstack(null(), now.as_mut_ptr()) == 0
                && now.assume_init().ss_sp == self.usable()
                && libc::sigaltstack(&none, null_mut()) != 0
            {
                return;
            }
            libc::munmap(self.memory.as_ptr(), PAGE + STACK_SIZE);
        }
    }
}
