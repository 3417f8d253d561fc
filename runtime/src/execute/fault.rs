//! Faults of kernels: what generated code does to itself (an address that isn't there, an instruction that can't be) ends its
//! launch with an error, not the process.
//!
//! Generated code holds no locks and owns nothing, and calls only functions of the C library that don't either. So it can be left
//! at any instruction: [`call`] notes where it would return to, and the signal handler goes there. What the kernel has written
//! by then stays written, wherever that is.
//!
//! Handlers are a process's own, so that this one is careful. It is installed by the first launch, and passes on whatever
//! did not happen in a kernel, as if it weren't there, to the handler that it found. One that is installed later is asked first, and may
//! pass faults on in the same way. A thread that has no stack for signal handlers gets one.

#![allow(unsafe_code)]

mod signal;

use spirula_interface::program::{Launch, RawWorkGroupFn};
use std::cell::OnceCell;
use std::fmt::{self, Display, Formatter};
use std::mem::offset_of;
use std::ops::Range;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Relaxed, Ordering::Release, compiler_fence};

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

impl Display for Fault {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let what = if self.writes { "wrote to" } else { "read" };
        match (self.signal, self.address) {
            (libc::SIGSEGV, Some(address)) => {
                write!(f, "{what} address {address:#x}, which is no memory of its own (SIGSEGV)")?
            }
            (libc::SIGSEGV, None) => write!(f, "used an address that no memory can have (SIGSEGV)")?,
            (libc::SIGBUS, address) => write!(
                f,
                "{what} address {:#x}, behind which there is nothing (SIGBUS)",
                address.unwrap_or(0)
            )?,
            (libc::SIGFPE, _) => write!(f, "calculated what the processor can't (SIGFPE)")?,
            _ => write!(f, "ran an instruction that the processor doesn't have (SIGILL)")?,
        }
        write!(f, " at {:#x} of its code; memory that it could write to may be damaged", self.at)
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
    /// Where it goes on after a fault; set by [`enter`].
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
    call: AtomicPtr<Call>,
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
                call: AtomicPtr::default(),
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

/// Calls a work-group function. An error says how it ended itself.
///
/// # Safety
/// As calling `entry`, whose program's code, and all of it, is in `code`. It is left in its middle when it faults.
pub(crate) unsafe fn call(
    entry: RawWorkGroupFn,
    code: &Range<usize>,
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
    // Kernels don't call kernels, but a handler of the application's may have interrupted one.
    let before = record.map_or(null_mut(), |record| record.call.swap(place, Relaxed));
    compiler_fence(std::sync::atomic::Ordering::SeqCst);
    // SAFETY: the caller's promise; `place` is valid during the call.
    let faulted = unsafe { enter(place) };
    compiler_fence(std::sync::atomic::Ordering::SeqCst);
    if let Some(record) = record {
        record.call.store(before, Relaxed);
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
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        // Room for the modes of floating-point arithmetic, and a multiple of 16.
        "sub rsp, 8",
        "stmxcsr [rsp]",
        "fnstcw [rsp + 4]",
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
        "xor eax, eax",
        "jmp 2f",
        "3:",
        "cld",
        "fninit",
        "fldcw [rsp + 4]",
        "ldmxcsr [rsp]",
        "mov eax, 1",
        "2:",
        "add rsp, 8",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
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

    fn run(entry: RawWorkGroupFn) -> Result<(), Fault> {
        let launch = Launch::whole(1, [0; 3], [1; 3], [1; 3]);
        // SAFETY: these use nothing that is theirs to use.
        unsafe { call(entry, &(0..usize::MAX), (null_mut(), &launch, 0, 1), (null_mut(), null_mut())) }
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
