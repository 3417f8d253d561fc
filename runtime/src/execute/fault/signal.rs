//! The signal handler, and the stack that it runs on. In the handler there are system calls and plain memory, nothing else.

use super::{Call, Fault, records, this_thread};
use libc::{c_int, c_void, sigaction, siginfo_t, ucontext_t};
use std::mem::MaybeUninit;
use std::ptr::{NonNull, null, null_mut};
use std::sync::Once;
use std::sync::atomic::{AtomicPtr, Ordering::Acquire, Ordering::Relaxed, Ordering::Release};

/// What the processor raises.
const SIGNALS: [c_int; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGFPE, libc::SIGILL];

/// Whom each of them was for before, in the order of [`SIGNALS`]. Set before our handler is, and never freed.
static OTHERS: [AtomicPtr<sigaction>; SIGNALS.len()] = [const { AtomicPtr::new(null_mut()) }; SIGNALS.len()];

fn zeroed() -> sigaction {
    // SAFETY: all zero is a valid sigaction.
    unsafe { MaybeUninit::zeroed().assume_init() }
}

/// Installs the handler, once.
pub(super) fn install() {
    static INSTALLED: Once = Once::new();
    INSTALLED.call_once(|| {
        for (&signal, other) in SIGNALS.iter().zip(&OTHERS) {
            let mut before = Box::new(zeroed());
            // SAFETY: asks only.
            unsafe { libc::sigaction(signal, null(), &mut *before) };
            let mut ours = zeroed();
            ours.sa_sigaction = on_signal as extern "C" fn(c_int, *mut siginfo_t, *mut c_void) as usize;
            // What interrupts a system call goes on as the other handler wants it.
            ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | before.sa_flags & libc::SA_RESTART;
            other.store(Box::leak(before), Release);
            // SAFETY: the handler does what handlers may.
            unsafe { libc::sigaction(signal, &ours, null_mut()) };
        }
    });
}

extern "C" fn on_signal(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: what the kernel passes to a handler of three arguments, ours for its duration.
    let (information, state) = unsafe { (&*info, &mut *context.cast::<ucontext_t>()) };
    // SAFETY: this thread's own, which is to be as it was when the interrupted code goes on.
    let errno = unsafe { *libc::__errno_location() };
    if !leave_kernel(signal, information, state) {
        pass_on(signal, info, context);
    }
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = errno };
}

/// If the signal was raised by a kernel of this thread: has it return to who called it. Else false.
fn leave_kernel(signal: c_int, info: &siginfo_t, state: &mut ucontext_t) -> bool {
    // Sent by a process, whatever the thread was doing.
    if info.si_code <= 0 {
        return false;
    }
    let this = this_thread();
    let call =
        records().find(|record| record.thread.load(Relaxed) == this).map(|record| record.call.load(Relaxed));
    let Some(call) = call.and_then(NonNull::new) else { return false };
    // SAFETY: valid while it is noted, which ends only when this handler has returned; nobody else reads or writes it meanwhile.
    let Call { stack, recovery, ref code, ref mut fault, .. } = *unsafe { &mut *call.as_ptr() };
    let registers = &mut state.uc_mcontext.gregs;
    let at = registers[libc::REG_RIP as usize] as usize;
    // Or in a function of the C library that it called: none of them has a frame.
    let caller = || word_at(registers[libc::REG_RSP as usize] as usize);
    let is_kernels = |at: &usize| code.contains(at);
    let Some(at) = Some(at).filter(is_kernels).or_else(|| caller().filter(is_kernels)) else { return false };
    /// Of the error code of a page fault: it was a write.
    const WRITE: i64 = 2;
    let error = registers[libc::REG_ERR as usize];
    // SAFETY: these signals have an address.
    let address = unsafe { info.si_addr() } as usize;
    *fault = Fault {
        signal,
        // The kernel itself says that: the processor told no address.
        address: (info.si_code != SI_KERNEL).then_some(address),
        writes: error & WRITE != 0,
        at: at - code.start,
    };
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
