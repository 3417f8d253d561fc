//! A dying worker's last words: which signal, and what LLVM said before. Everything here runs in signal handlers:
//! system calls on fixed memory, nothing else.

use crate::llvm;
use spirula_interface::protocol::{Tag, header};
use std::ffi::{CStr, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// A worker's end of the socket.
pub const SOCKET: c_int = 0;
/// Where LLVM complains: a file in memory, unless debugging.
pub const COMPLAINTS: c_int = 2;

const TIME_IS_OVER: &CStr = c"exceeded its time limit (SPIRULA_COMPILER_TIMEOUT sets it)";

/// Signals that end a worker, and what the build log says of each.
const SIGNALS: [(c_int, &CStr); 10] = [
    (libc::SIGABRT, c"aborted (SIGABRT)"),
    (libc::SIGSEGV, c"crashed (SIGSEGV)"),
    (libc::SIGBUS, c"crashed (SIGBUS)"),
    (libc::SIGILL, c"crashed (SIGILL)"),
    (libc::SIGFPE, c"crashed (SIGFPE)"),
    (libc::SIGTRAP, c"crashed (SIGTRAP)"),
    (libc::SIGXCPU, c"used up its time"),
    (libc::SIGXFSZ, c"wrote more than it may"),
    (libc::SIGPROF, TIME_IS_OVER),
    (libc::SIGALRM, TIME_IS_OVER),
];

/// Whether there is nobody at the other end of a socket, but a user.
static IS_ALONE: AtomicBool = AtomicBool::new(false);

/// From now on, last words are for the user's eyes.
pub fn speak_to_user() {
    IS_ALONE.store(true, Relaxed);
}

/// Installs the handlers, and LLVM's own door to them.
pub fn install() {
    for (signal, _) in SIGNALS {
        // SAFETY: all zero is a valid sigaction.
        let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        action.sa_sigaction = on_signal as Handler as usize;
        action.sa_flags = libc::SA_ONSTACK | libc::SA_NODEFER | libc::SA_SIGINFO;
        // SAFETY: the handler only makes system calls.
        unsafe { libc::sigaction(signal, &action, null_mut()) };
    }
    llvm::on_fatal_error(|reason| last_words(&[b"gave up, LLVM saying: ", reason.to_bytes()]));
}

type Handler = extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void);

extern "C" fn on_signal(signal: c_int, _: *mut libc::siginfo_t, context: *mut c_void) {
    let known = SIGNALS.iter().find(|(number, _)| *number == signal);
    let what = known.map_or(c"was killed", |(_, what)| what);
    let mut complaints = [MaybeUninit::<u8>::uninit(); 2048];
    // SAFETY: at most the buffer's length is written to it; a COMPLAINTS that is no file is an error, hence empty.
    let read = unsafe { libc::pread(COMPLAINTS, complaints.as_mut_ptr().cast(), complaints.len(), 0) };
    // SAFETY: so many bytes were written.
    let said = unsafe { std::slice::from_raw_parts(complaints.as_ptr().cast(), read.max(0) as usize) };
    let mut digits = [0; 16];
    let place = code_offset(context).map_or(&[][..], |offset| hexadecimal(offset, &mut digits));
    let at: &[u8] = if place.is_empty() { b"" } else { b" at code offset 0x" };
    let saying: &[u8] = if said.is_empty() { b"" } else { b", saying: " };
    last_words(&[what.to_bytes(), at, place, saying, said]);
}

unsafe extern "C" {
    /// Where the linker put the program's first byte, and the end of its code.
    static __executable_start: u8;
    static etext: u8;
}

/// Where in this program the instruction is that a signal interrupted, as `addr2line` takes it; `None` if it is in a library.
fn code_offset(context: *mut c_void) -> Option<u64> {
    let context = context.cast::<libc::ucontext_t>();
    // SAFETY: the third argument of a handler with SA_SIGINFO is the thread's context.
    #[cfg(target_arch = "x86_64")]
    let at = unsafe { (*context).uc_mcontext.gregs[libc::REG_RIP as usize] } as u64;
    // SAFETY: as above.
    #[cfg(target_arch = "aarch64")]
    let at = unsafe { (*context).uc_mcontext.pc };
    let (start, end) = ((&raw const __executable_start) as u64, (&raw const etext) as u64);
    (start..end).contains(&at).then(|| at - start)
}

/// A number's digits, written without an allocation.
fn hexadecimal(mut number: u64, digits: &mut [u8; 16]) -> &[u8] {
    let mut start = digits.len();
    loop {
        start -= 1;
        digits[start] = b"0123456789abcdef"[(number % 16) as usize];
        number /= 16;
        if number == 0 {
            return &digits[start..];
        }
    }
}

/// Sends a [`Tag::Crash`] frame and ends the process.
pub(super) fn last_words(words: &[&[u8]]) -> ! {
    /// Bytes of a part: a frame of this kind is short.
    const MOST: usize = 16 << 10;
    let cut = |part: &&[u8]| part.len().min(MOST);
    let length: usize = words.iter().map(cut).sum();
    if IS_ALONE.load(Relaxed) {
        let all = [&b"error: the compiler "[..]].into_iter().chain(words.iter().copied()).chain([&b"\n"[..]]);
        for part in all {
            // SAFETY: the range is alive.
            unsafe { libc::write(COMPLAINTS, part.as_ptr().cast::<c_void>(), cut(&part)) };
        }
    } else {
        write(&header(Tag::Crash, length as u32));
        for part in words {
            write(&part[..cut(part)]);
        }
    }
    // SAFETY: ends the process at once, without running anything of it.
    unsafe { libc::_exit(70) }
}

fn write(bytes: &[u8]) {
    // SAFETY: the range is alive; who reads it is gone if this fails.
    unsafe { libc::send(SOCKET, bytes.as_ptr().cast::<c_void>(), bytes.len(), libc::MSG_NOSIGNAL) };
}
