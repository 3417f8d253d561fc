//! A dying worker's last words: which signal, and what LLVM said before. Everything here runs in signal handlers:
//! system calls on fixed memory, nothing else.

use crate::llvm;
use spirula_interface::protocol::{Tag, header};
use std::ffi::{CStr, c_int, c_void};
use std::mem::MaybeUninit;
use std::ptr::null_mut;

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

/// Installs the handlers, and LLVM's own door to them.
pub fn install() {
    for (signal, _) in SIGNALS {
        // SAFETY: all zero is a valid sigaction.
        let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        action.sa_sigaction = on_signal as extern "C" fn(c_int) as usize;
        action.sa_flags = libc::SA_ONSTACK | libc::SA_NODEFER;
        // SAFETY: the handler only makes system calls.
        unsafe { libc::sigaction(signal, &action, null_mut()) };
    }
    llvm::on_fatal_error(|reason| last_words(&[b"gave up, LLVM saying: ", reason.to_bytes()]));
}

extern "C" fn on_signal(signal: c_int) {
    let known = SIGNALS.iter().find(|(number, _)| *number == signal);
    let what = known.map_or(c"was killed", |(_, what)| what);
    let mut complaints = [MaybeUninit::<u8>::uninit(); 2048];
    // SAFETY: at most the buffer's length is written to it; a COMPLAINTS that is no file is an error, hence empty.
    let read = unsafe { libc::pread(COMPLAINTS, complaints.as_mut_ptr().cast(), complaints.len(), 0) };
    // SAFETY: so many bytes were written.
    let said = unsafe { std::slice::from_raw_parts(complaints.as_ptr().cast(), read.max(0) as usize) };
    last_words(&[what.to_bytes(), if said.is_empty() { b"" } else { b", saying: " }, said]);
}

/// Sends a [`Tag::Crash`] frame and ends the process.
pub(super) fn last_words(words: &[&[u8]]) -> ! {
    /// Bytes of a part: a frame of this kind is short.
    const MOST: usize = 16 << 10;
    let cut = |part: &&[u8]| part.len().min(MOST);
    let length: usize = words.iter().map(cut).sum();
    write(&header(Tag::Crash, length as u32));
    for part in words {
        write(&part[..cut(part)]);
    }
    // SAFETY: ends the process at once, without running anything of it.
    unsafe { libc::_exit(70) }
}

fn write(bytes: &[u8]) {
    // SAFETY: the range is alive; who reads it is gone if this fails.
    unsafe { libc::send(SOCKET, bytes.as_ptr().cast::<c_void>(), bytes.len(), libc::MSG_NOSIGNAL) };
}
