//! Faults of kernels: what generated code does to itself (an address that isn't there, an instruction that can't be) ends its
//! launch with an error, not the process.
//!
//! Generated code holds no locks and owns nothing, and calls only functions of the C library that don't either. So it can be left
//! at any instruction: [`call`] notes where it would return to, and the signal handler goes there. What the kernel has written
//! by then stays written, wherever that is.
//!
//! In the same way a launch is left that takes longer than the user allows ([`watch`]): its threads are sent signals until they are found in
//! generated code, and in nothing that it doesn't call.
//!
//! Handlers are a process's own, so that this one is careful. It is installed by the first launch, and passes on whatever
//! did not happen in a kernel, as if it weren't there, to the handler that it found. One that is installed later is asked first, and may
//! pass faults on in the same way. A thread that has no stack for signal handlers gets one.

#![allow(unsafe_code)]

mod signal;
mod watch;

use spirula_interface::program::{Launch, RawWorkGroupFn};
use std::cell::OnceCell;
use std::mem::offset_of;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::{
    AtomicI32, AtomicPtr, AtomicU64, AtomicUsize, Ordering::Relaxed, Ordering::Release, compiler_fence,
};
pub(crate) use watch::Deadline;

/// What ended a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fault {
    signal: i32,
    /// What the code wanted to read or write; None if the processor doesn't say.
    address: Option<usize>,
    writes: bool,
    /// How far into the program's code it is.
    at: usize,
}

impl Fault {
    /// How far into the program's code it is.
    pub(crate) fn offset(&self) -> usize {
        self.at
    }

    /// What happened, where; with the line of the source if it is known.
    pub(crate) fn told(&self, line: Option<&str>) -> String {
        let line = line.map(|line| format!(" ({line})")).unwrap_or_default();
        let at = format!("at {:#x} of its code{line}", self.at);
        let what = if self.writes { "wrote to" } else { "read" };
        let happened = match (self.signal, self.address) {
            (signal::LIMIT, _) => {
                return format!("ran for longer than SPIRULA_TIMEOUT allows, and was {at}");
            }
            (libc::SIGSEGV, Some(address)) => {
                format!("{what} address {address:#x}, which is no memory of its own (SIGSEGV)")
            }
            (libc::SIGSEGV, None) => "used an address that no memory can have (SIGSEGV)".into(),
            (libc::SIGBUS, address) => {
                format!("{what} address {:#x}, behind which there is nothing (SIGBUS)", address.unwrap_or(0))
            }
            (libc::SIGFPE, _) => "calculated what the processor can't (SIGFPE)".into(),
            _ => "ran an instruction that the processor doesn't have (SIGILL)".into(),
        };
        format!("{happened} {at}; memory that it could write to may be damaged")
    }
}

/// A call of generated code, as the assembly below and the handler see it.
#[repr(C)]
struct Call {
    entry: RawWorkGroupFn,
    arguments: *const u8,
    launch: *const Launch,
    first: u64,
    end: u64,
    local: *mut u8,
    scratch: *mut u8,
    /// Where its caller's registers are kept; set by [`enter`].
    stack: usize,
    /// Where it goes on after a fault; set by [`enter`] while it is called, else 0.
    recovery: usize,
    /// The program's code.
    code: Range<usize>,
    fault: Fault,
}

/// A thread that runs kernels, for the handler, which can't use thread-local variables: they may not have been made yet. Records are
/// never freed, but are used again.
struct Record {
    /// As the C library calls it, or 0.
    thread: AtomicUsize,
    /// As the kernel calls it, if the call has a deadline.
    task: AtomicI32,
    call: AtomicPtr<Call>,
    /// The call's [`Deadline`].
    deadline: AtomicU64,
    next: AtomicPtr<Record>,
}

static RECORDS: AtomicPtr<Record> = AtomicPtr::new(null_mut());

fn this_thread() -> usize {
    // SAFETY: has no conditions; of all that handlers may call it does least.
    unsafe { libc::pthread_self() as usize }
}

/// All records. They live for ever.
fn records() -> impl Iterator<Item = &'static Record> {
    // SAFETY: records are leaked boxes, and each is complete before it is in the list.
    let get = |record: *mut Record| unsafe { record.as_ref() };
    std::iter::successors(get(RECORDS.load(std::sync::atomic::Ordering::Acquire)), move |record| {
        get(record.next.load(Relaxed))
    })
}

impl Record {
    fn take() -> &'static Record {
        let thread = this_thread();
        let claim = |record: &&Record| record.thread.compare_exchange(0, thread, Relaxed, Relaxed).is_ok();
        records().find(claim).unwrap_or_else(|| {
            let record = Box::leak(Box::new(Record {
                thread: AtomicUsize::new(thread),
                task: AtomicI32::default(),
                call: AtomicPtr::default(),
                deadline: AtomicU64::default(),
                next: AtomicPtr::default(),
            }));
            let link = |head| {
                record.next.store(head, Relaxed);
                Some(&raw mut *record)
            };
            let _ = RECORDS.fetch_update(Release, Relaxed, link);
            record
        })
    }
}

/// What a thread has while it lives that has run a kernel.
struct Thread {
    record: &'static Record,
    _stack: Option<signal::Stack>,
}

impl Drop for Thread {
    fn drop(&mut self) {
        self.record.thread.store(0, Relaxed);
    }
}

thread_local! {
    static THREAD: OnceCell<Thread> = const { OnceCell::new() };
}

/// The record of this thread, which has a stack for handlers from now on. None at the very end of the thread.
fn record() -> Option<&'static Record> {
    let make = || {
        signal::install();
        Thread { record: Record::take(), _stack: signal::Stack::install() }
    };
    THREAD.try_with(|thread| thread.get_or_init(make).record).ok()
}

/// Calls a work-group function. An error says how it ended itself, or that its time was over.
///
/// # Safety
/// As calling `entry`, whose program's code, and all of it, is in `code`. It is left in its middle when it faults.
pub(crate) unsafe fn call(
    entry: RawWorkGroupFn,
    (code, deadline): (&Range<usize>, Deadline),
    (arguments, launch, first, end): (*const u8, &Launch, u64, u64),
    (local, scratch): (*mut u8, *mut u8),
) -> Result<(), Fault> {
    let fault = Fault::default();
    let mut call = Call {
        entry,
        arguments,
        launch,
        first,
        end,
        local,
        scratch,
        stack: 0,
        recovery: 0,
        code: code.clone(),
        fault,
    };
    let place = &raw mut call;
    let record = record();
    if deadline.is_over() {
        return Err(Fault { signal: signal::LIMIT, ..fault });
    }
    let _heard = (deadline != Deadline::NEVER).then(|| {
        // SAFETY: asks only. (After a fork it is another than before.)
        record.inspect(|record| record.task.store(unsafe { libc::gettid() }, Relaxed));
        signal::HearsLimit::begin()
    });
    // Kernels don't call kernels, but a handler of the application's may have interrupted one.
    let before = record.map_or((null_mut(), 0), |record| {
        (record.call.swap(place, Relaxed), record.deadline.swap(deadline.0, Relaxed))
    });
    compiler_fence(std::sync::atomic::Ordering::SeqCst);
    // SAFETY: the caller's promise; `place` is valid during the call.
    let faulted = unsafe { enter(place) };
    compiler_fence(std::sync::atomic::Ordering::SeqCst);
    if let Some(record) = record {
        record.deadline.store(before.1, Relaxed);
        record.call.store(before.0, Relaxed);
    }
    if faulted == 0 {
        return Ok(());
    }
    // SAFETY: the handler wrote there, through the same pointer.
    Err(unsafe { (*place).fault })
}

/// Makes the call; returns 0, or 1 if the handler sent it to `recovery`.
#[unsafe(naked)]
unsafe extern "C" fn enter(call: *mut Call) -> u64 {
    std::arch::naked_asm!(
        // Debuggers unwind through it.
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset 6, -16",
        "push rbx",
        ".cfi_def_cfa_offset 24",
        ".cfi_offset 3, -24",
        "push r12",
        ".cfi_def_cfa_offset 32",
        ".cfi_offset 12, -32",
        "push r13",
        ".cfi_def_cfa_offset 40",
        ".cfi_offset 13, -40",
        "push r14",
        ".cfi_def_cfa_offset 48",
        ".cfi_offset 14, -48",
        "push r15",
        ".cfi_def_cfa_offset 56",
        ".cfi_offset 15, -56",
        // Room for the modes of floating-point arithmetic and `call`, and a multiple of 16.
        "sub rsp, 24",
        ".cfi_def_cfa_offset 80",
        "stmxcsr [rsp]",
        "fnstcw [rsp + 4]",
        "mov [rsp + 8], rdi",
        "mov [rdi + {stack}], rsp",
        "lea rax, [rip + 3f]",
        "mov [rdi + {recovery}], rax",
        "mov rax, [rdi + {entry}]",
        "mov rsi, [rdi + {launch}]",
        "mov rdx, [rdi + {first}]",
        "mov rcx, [rdi + {end}]",
        "mov r8, [rdi + {local}]",
        "mov r9, [rdi + {scratch}]",
        "mov rdi, [rdi + {arguments}]",
        "call rax",
        "mov rdi, [rsp + 8]",
        "mov qword ptr [rdi + {recovery}], 0",
        "xor eax, eax",
        "jmp 2f",
        "3:",
        "cld",
        "fninit",
        "fldcw [rsp + 4]",
        "ldmxcsr [rsp]",
        "mov rdi, [rsp + 8]",
        "mov qword ptr [rdi + {recovery}], 0",
        "mov eax, 1",
        "2:",
        "add rsp, 24",
        ".cfi_def_cfa_offset 56",
        "pop r15",
        ".cfi_def_cfa_offset 48",
        "pop r14",
        ".cfi_def_cfa_offset 40",
        "pop r13",
        ".cfi_def_cfa_offset 32",
        "pop r12",
        ".cfi_def_cfa_offset 24",
        "pop rbx",
        ".cfi_def_cfa_offset 16",
        "pop rbp",
        ".cfi_def_cfa_offset 8",
        "ret",
        ".cfi_endproc",
        stack = const offset_of!(Call, stack),
        entry = const offset_of!(Call, entry),
        launch = const offset_of!(Call, launch),
        first = const offset_of!(Call, first),
        end = const offset_of!(Call, end),
        local = const offset_of!(Call, local),
        scratch = const offset_of!(Call, scratch),
        arguments = const offset_of!(Call, arguments),
        recovery = const offset_of!(Call, recovery),
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use spirula_interface::program::Launch;

    /// A work-group function of one instruction.
    macro_rules! faulty {
        ($name:ident, $($code:tt)*) => {
            #[unsafe(naked)]
            unsafe extern "C" fn $name(
                _: *const u8, _: *const Launch, _: u64, _: u64, _: *mut u8, _: *mut u8,
            ) {
                std::arch::naked_asm!($($code)*)
            }
        };
    }

    // With registers and modes of floating-point arithmetic that must not come back.
    faulty!(
        reads,
        "push 0x1f00",
        "ldmxcsr [rsp]",
        "xor ebx, ebx",
        "mov r12, rbx",
        "std",
        "mov rbp, [rbx + 0x30]"
    );
    faulty!(writes, "mov qword ptr [0x40], 1");
    faulty!(strays, "mov rax, 0x123456789abcdef0", "mov [rax], eax");
    faulty!(divides, "xor ecx, ecx", "xor edx, edx", "div ecx");
    faulty!(cannot_be, "ud2");
    faulty!(calls_deeply, "2: sub rsp, 512", "call 2b");
    faulty!(is_fine, "ret");
    faulty!(never_ends, "2: jmp 2b");

    fn run(entry: RawWorkGroupFn) -> Result<(), Fault> {
        let launch = Launch::whole(1, [0; 3], [1; 3], [1; 3]);
        // SAFETY: these use nothing that is theirs to use.
        unsafe {
            call(
                entry,
                (&(0..usize::MAX), Deadline::NEVER),
                (null_mut(), &launch, 0, 1),
                (null_mut(), null_mut()),
            )
        }
    }

    #[test]
    fn each_fault_is_told() {
        let fault = |entry| run(entry).unwrap_err();
        for _ in 0..3 {
            let read = fault(reads);
            assert_eq!((read.signal, read.address, read.writes), (libc::SIGSEGV, Some(0x30), false));
            let written = fault(writes);
            assert_eq!((written.signal, written.writes), (libc::SIGSEGV, true));
            assert_eq!(written.address, Some(0x40));
            assert_eq!((fault(strays).signal, fault(strays).address), (libc::SIGSEGV, None));
            assert_eq!(fault(divides).signal, libc::SIGFPE);
            assert_eq!(fault(cannot_be).signal, libc::SIGILL);
            assert_eq!(run(is_fine), Ok(()));
        }
        // Rounding is to the nearest again.
        let third = std::hint::black_box(1.0_f32) / std::hint::black_box(3.0);
        assert_eq!(third.to_bits(), 0x3eaa_aaab);
    }

    /// Calls what uses no memory.
    fn run_until(entry: RawWorkGroupFn, deadline: Deadline) -> Result<(), Fault> {
        let launch = Launch::whole(1, [0; 3], [1; 3], [1; 3]);
        let code = entry as usize..entry as usize + 2;
        // SAFETY: it uses nothing that is not its own.
        unsafe { call(entry, (&code, deadline), (null_mut(), &launch, 0, 1), (null_mut(), null_mut())) }
    }

    #[test]
    fn what_never_ends_is_ended() {
        for _ in 0..3 {
            let deadline = Deadline::after(std::time::Duration::from_millis(30));
            let fault = run_until(never_ends, deadline).unwrap_err();
            assert_eq!(fault.signal, signal::LIMIT);
            let words = "ran for longer than SPIRULA_TIMEOUT allows, and was at 0x0 of its code";
            assert_eq!(fault.told(None), words);
            assert_eq!(fault.told(Some("a.cl:3")), format!("{words} (a.cl:3)"));
            assert!(deadline.is_over());
            // Too late to begin.
            assert_eq!(run_until(is_fine, deadline).unwrap_err().signal, signal::LIMIT);
            assert_eq!(run_until(is_fine, Deadline::NEVER), Ok(()));
        }
    }

    /// The application may use the signal for itself, and keep it from its threads.
    #[test]
    fn a_thread_that_hears_no_signal_is_told_and_hears_none_after() {
        let thread = || {
            let mut mask = std::mem::MaybeUninit::uninit();
            // SAFETY: of this thread; the sets are written before they are read.
            unsafe {
                libc::sigfillset(mask.as_mut_ptr());
                libc::pthread_sigmask(libc::SIG_SETMASK, mask.as_ptr(), null_mut());
            }
            let limit = std::time::Duration::from_millis(30);
            let fault = run_until(never_ends, Deadline::after(limit)).unwrap_err();
            // SAFETY: as above.
            let is_blocked = unsafe {
                libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), mask.as_mut_ptr());
                libc::sigismember(mask.as_ptr(), signal::LIMIT)
            };
            (fault.signal, is_blocked)
        };
        assert_eq!(std::thread::spawn(thread).join().unwrap(), (signal::LIMIT, 1));
    }

    #[test]
    fn a_stack_that_is_used_up_is_a_fault() {
        let ran =
            std::thread::Builder::new().stack_size(256 << 10).spawn(|| run(calls_deeply)).unwrap().join();
        let fault = ran.unwrap().unwrap_err();
        assert_eq!((fault.signal, fault.writes), (libc::SIGSEGV, true));
    }

    #[test]
    fn records_are_used_again() {
        let threads = || std::thread::spawn(|| run(is_fine)).join().unwrap().unwrap();
        threads();
        let count = records().count();
        (0..100).for_each(|_| threads());
        // Other tests have threads too.
        assert!(records().count() < count + 50);
    }
}
