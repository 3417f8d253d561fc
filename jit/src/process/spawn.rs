//! Starts a worker that the application neither owns nor notices: no SIGCHLD, no zombie, nothing for its `wait`.
//!
//! A middle process starts the worker and ends at once, so that the worker belongs to init. The middle one has no
//! exit signal, which makes it invisible to `waitpid(-1)`. Both are started as `posix_spawn` does it: sharing the
//! caller's memory while the calling thread stands still, so that no page table is copied however large the
//! application is, and no lock of another thread is ever waited for.

use super::crash::{COMPLAINTS, SOCKET};
use super::entry::{ROLE, spirula_compiler_process};
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, elf};
use std::ffi::{CString, c_char, c_int, c_void};
use std::fs::File;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::ptr::{null, null_mut};

/// What to run as a worker.
#[derive(Clone, Debug)]
pub struct Launch {
    arguments: Vec<CString>,
    environment: Vec<CString>,
}

impl Launch {
    /// A program, its arguments, and what to add to the environment.
    pub fn new(program: PathBuf, arguments: Vec<CString>, add: &[&str]) -> Result<Self, String> {
        let c_string = |bytes| CString::new(bytes).map_err(|error| error.to_string());
        let program = c_string(program.into_os_string().into_vec())?;
        // Whoever watches or replaces parts of the application has no business in the compiler.
        let kept = std::env::vars_os().filter(|(name, _)| name != "LD_PRELOAD" && name != "LD_AUDIT");
        let joined = kept.map(|(name, value)| [name.into_vec(), value.into_vec()].join(&b'='));
        let environment = joined.chain(add.iter().map(|text| text.as_bytes().to_vec()));
        Ok(Launch {
            arguments: std::iter::once(program).chain(arguments).collect(),
            environment: environment.map(c_string).collect::<Result<_, _>>()?,
        })
    }

    /// This library as a program, if this code is in a library whose entry point is ours.
    pub fn of_this_library() -> Result<Self, String> {
        let library = this_library()?;
        let library = CString::new(library.into_os_string().into_vec()).map_err(|error| error.to_string())?;
        Launch::new(dynamic_loader()?, vec![library, ROLE.to_owned()], &[])
    }

    /// Starts the worker; returns the application's end of its socket. That the worker really runs shows when it
    /// says hello.
    pub fn start(&self) -> io::Result<UnixStream> {
        let (ours, theirs) = UnixStream::pair()?;
        let pointers = |strings: &[CString]| -> Vec<*const c_char> {
            strings.iter().map(|text| text.as_ptr()).chain([null()]).collect()
        };
        let (arguments, environment) = (pointers(&self.arguments), pointers(&self.environment));
        let mut stacks = Box::new([Stack([0; STACK_SIZE]), Stack([0; STACK_SIZE])]);
        let (middle_stack, worker_stack) = (stacks[0].top(), stacks[1].top());
        let plan = Plan {
            arguments: arguments.as_ptr(),
            environment: environment.as_ptr(),
            socket: theirs.as_raw_fd(),
            keep_stderr: std::env::var_os("SPIRULA_COMPILER_STDERR").is_some(),
            stack: worker_stack,
        };
        let all_blocked = block_signals()?;
        let flags = libc::CLONE_VM | libc::CLONE_VFORK;
        // SAFETY: `middle` makes system calls only; plan and stacks live until it has ended, which CLONE_VFORK waits for.
        let middle_id =
            unsafe { libc::clone(middle, middle_stack, flags, (&raw const plan).cast_mut().cast()) };
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
        let plan = &*plan.cast::<Plan>();
        libc::setsid();
        // Out of the way first: the application may have closed its standard descriptors.
        let socket = libc::fcntl(plan.socket, libc::F_DUPFD, 10);
        let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        let complaints = libc::memfd_create(c"spirula-complaints".as_ptr(), 0);
        libc::dup2(nothing, 1);
        if !plan.keep_stderr {
            libc::dup2(if complaints < 0 { nothing } else { complaints }, COMPLAINTS);
        }
        if socket < 0 || libc::dup2(socket, SOCKET) < 0 {
            libc::_exit(127);
        }
        // The application's own files and sockets are none of the worker's business.
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
        libc::execve(*plan.arguments, plan.arguments, plan.environment);
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

/// The file that this code was loaded from, if running it leads to our entry point.
fn this_library() -> Result<PathBuf, String> {
    let entry = spirula_compiler_process as *const () as usize;
    let mut info = MaybeUninit::<libc::Dl_info>::zeroed();
    // SAFETY: the address is one of this library's; `info` is written when the result is not zero.
    if unsafe { libc::dladdr(entry as *const c_void, info.as_mut_ptr()) } == 0 {
        return Err("the dynamic loader does not know this library".into());
    }
    // SAFETY: written above.
    let base = unsafe { info.assume_init() }.dli_fbase;
    // SAFETY: a loaded file's first page holds its ELF header, for the dynamic loader's own needs too.
    let header = unsafe { &*base.cast::<elf::FileHeader64<Endianness>>() };
    let declared = header.e_entry(Endianness::default()) as usize;
    if declared == 0 || base as usize + declared != entry {
        return Err("this program is not libspirula.so".into());
    }
    let mapping = Mapping::at(entry).ok_or("/proc/self/maps does not say where this library is")?;
    match std::fs::metadata(&mapping.path) {
        Ok(file) if file.ino() == mapping.inode => Ok(mapping.path),
        Ok(_) => Err(format!("{} is another file now", mapping.path.display())),
        Err(error) => Err(format!("{}: {error}", mapping.path.display())),
    }
}

/// A line of /proc/self/maps: `start-end permissions offset device inode path`.
#[derive(Debug, PartialEq)]
struct Mapping {
    inode: u64,
    path: PathBuf,
}

impl Mapping {
    fn at(address: usize) -> Option<Self> {
        let maps = std::fs::read_to_string("/proc/self/maps").ok()?;
        maps.lines().find_map(|line| Mapping::containing(address, line))
    }

    fn containing(address: usize, line: &str) -> Option<Self> {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let bound = |text| usize::from_str_radix(text, 16).ok();
        if !(bound(start)?..bound(end)?).contains(&address) {
            return None;
        }
        let mut fields = rest.splitn(5, ' ');
        let inode = fields.nth(3)?.parse().ok()?;
        Some(Mapping { inode, path: fields.next()?.trim_start().into() })
    }
}

/// The dynamic loader: the application's own, or the one of the platform's ABI when the application has none (it
/// may have been started by the loader, as our worker is).
fn dynamic_loader() -> Result<PathBuf, String> {
    let standard = Path::new(if cfg!(target_arch = "x86_64") {
        "/lib64/ld-linux-x86-64.so.2"
    } else {
        "/lib/ld-linux-aarch64.so.1"
    });
    match interpreter(Path::new("/proc/self/exe")) {
        Some(own) => Ok(own),
        None if standard.exists() => Ok(standard.into()),
        None => Err("there is no dynamic loader to run a compiler process with".into()),
    }
}

/// A program's PT_INTERP, which lies within its first pages.
fn interpreter(program: &Path) -> Option<PathBuf> {
    let mut start = Vec::new();
    File::open(program).ok()?.take(64 << 10).read_to_end(&mut start).ok()?;
    let header = elf::FileHeader64::<Endianness>::parse(&*start).ok()?;
    let endian = header.endian().ok()?;
    let headers = header.program_headers(endian, &*start).ok()?;
    let path = headers.iter().find_map(|header| header.interpreter(endian, &*start).ok().flatten())?;
    Some(PathBuf::from(std::ffi::OsString::from_vec(path.to_vec())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_lines_are_read() {
        let line = "7f00-8f00 r-xp 00001000 fe:01 1234                       /opt/a dir/libspirula.so";
        let mapping = Mapping { inode: 1234, path: "/opt/a dir/libspirula.so".into() };
        assert_eq!(Mapping::containing(0x7f00, line), Some(mapping));
        assert_eq!(Mapping::containing(0x8f00, line), None);
        assert_eq!(Mapping::containing(0x7f00, "7f00-8f00 r-xp 0 0:0 0"), None);
    }

    #[test]
    fn the_loader_of_this_program_is_found() {
        let loader = dynamic_loader().unwrap();
        assert!(loader.to_string_lossy().contains("ld-linux"), "{loader:?}");
        assert!(loader.exists());
    }

    #[test]
    fn a_program_that_is_not_the_library_is_not_run_as_one() {
        assert_eq!(this_library().unwrap_err(), "this program is not libspirula.so");
    }
}
