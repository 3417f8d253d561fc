//! A clang process: its input and output are files in memory, its time and memory are bounded, and it dies with its parent, which
//! is a worker and not the application, if one could be started.

use spirula_interface::protocol::PATIENCE;
use spirula_interface::translation::Clang;
use std::ffi::CStr;
use std::fs::File;
use std::io::{self, Read, Seek, Write};
use std::os::fd::{AsRawFd, FromRawFd};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Bytes of address space.
const ADDRESS_SPACE: u64 = 8 << 30;
/// Bytes of bitcode, or of diagnostics.
const OUTPUT: u64 = 256 << 20;
/// Bytes of diagnostics that reach the log.
const COMPLAINTS: u64 = 1 << 20;

/// How the process ended.
#[derive(Debug)]
pub(super) enum How {
    Success,
    /// It refuses the source.
    Failure,
    /// It did not end by itself: "exceeded …", to follow "clang".
    Death(String),
}

/// An ended process.
#[derive(Debug)]
pub(super) struct Ended {
    pub how: How,
    pub output: Vec<u8>,
    pub complaints: Vec<u8>,
}

/// Runs clang for so long at most. The error says why it did not even start.
pub(super) fn run(clang: &Clang, arguments: &[String], input: &[u8], limit: Duration) -> io::Result<Ended> {
    let input = MemoryFile::new(c"spirula-source", input)?;
    Running::start(clang, arguments, input.file.try_clone()?.into(), limit)?.end(limit)
}

/// A process that was started, and what it writes to.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    output: MemoryFile,
    complaints: MemoryFile,
}

impl Running {
    /// Starts clang; it dies with the calling thread. The limit is one on processor time.
    pub(super) fn start(
        clang: &Clang,
        arguments: &[String],
        input: Stdio,
        limit: Duration,
    ) -> io::Result<Running> {
        let output = MemoryFile::new(c"spirula-bitcode", b"")?;
        let complaints = MemoryFile::new(c"spirula-diagnostics", b"")?;
        let mut command = Command::new(&clang.program);
        command.args(arguments).current_dir("/").env_clear();
        // Else a crashing clang starts another program to name its functions.
        command.env("LLVM_DISABLE_SYMBOLIZATION", "1");
        command.stdin(input).stdout(output.file.try_clone()?).stderr(complaints.file.try_clone()?);
        // SAFETY: `confine` makes system calls only.
        unsafe { command.pre_exec(move || confine(limit)) };
        Ok(Running { child: command.spawn()?, output, complaints })
    }

    /// Ends it at once.
    pub(super) fn stop(mut self) {
        // One that has ended can't be killed, only waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Waits for its end, and no longer than one with that limit on processor time may take on a busy machine.
    pub(super) fn end(mut self, limit: Duration) -> io::Result<Ended> {
        let status = wait(self.child, limit.saturating_mul(PATIENCE))?;
        let how = match (status, status.and_then(|status| status.signal())) {
            (None, _) | (_, Some(libc::SIGXCPU)) => {
                How::Death("exceeded its time limit (SPIRULA_COMPILER_TIMEOUT sets it)".into())
            }
            (_, Some(signal)) => How::Death(format!("crashed (signal {signal})")),
            (Some(status), None) if status.success() => How::Success,
            _ => How::Failure,
        };
        let (output, complaints) = (self.output.contents(OUTPUT)?, self.complaints.contents(COMPLAINTS)?);
        Ok(Ended { how, output, complaints })
    }
}

/// In the new process, before it becomes clang. No allocation: other threads of the parent may hold locks.
fn confine(limit: Duration) -> io::Result<()> {
    let limits = [
        (libc::RLIMIT_CORE, 0),
        (libc::RLIMIT_AS, ADDRESS_SPACE),
        (libc::RLIMIT_FSIZE, OUTPUT),
        (libc::RLIMIT_CPU, limit.as_secs().max(1)),
    ];
    for (resource, most) in limits {
        // SAFETY: concerns this process only; one that is lower already stays.
        unsafe {
            let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            if libc::getrlimit(resource, &mut limit) == 0 {
                limit.rlim_cur = limit.rlim_cur.min(most);
                libc::setrlimit(resource, &limit);
            }
        }
    }
    // SAFETY: concerns this process only. When the thread that waits for it is gone, nobody needs it.
    unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL as libc::c_ulong) };
    Ok(())
}

/// Waits so long; then the process is killed, and there is no status.
fn wait(mut child: Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let deadline = Instant::now() + limit;
    // SAFETY: a process of ours, not yet waited for. A kernel without this call returns an error, and we wait without a limit;
    // the one on processor time holds.
    let handle = unsafe { libc::syscall(libc::SYS_pidfd_open, child.id() as libc::pid_t, 0) };
    if handle >= 0 {
        // SAFETY: a descriptor that was just made and is nobody else's.
        let handle = unsafe { File::from_raw_fd(handle as i32) };
        let mut ended = libc::pollfd { fd: handle.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = i32::try_from(left.as_millis()).unwrap_or(i32::MAX);
            // SAFETY: one pollfd, alive during the call.
            match unsafe { libc::poll(&mut ended, 1, left) } {
                0 => {
                    child.kill()?;
                    child.wait()?;
                    return Ok(None);
                }
                1.. => break,
                _ if io::Error::last_os_error().kind() == io::ErrorKind::Interrupted => {}
                _ => break,
            }
        }
    }
    child.wait().map(Some)
}

/// A file that is nowhere: it ends with its last descriptor. Processes started from this one inherit it.
#[derive(Debug)]
pub(super) struct MemoryFile {
    file: File,
}

impl MemoryFile {
    pub(super) fn new(name: &CStr, contents: &[u8]) -> io::Result<MemoryFile> {
        // SAFETY: a C string; the result is checked.
        let descriptor = unsafe { libc::memfd_create(name.as_ptr(), 0) };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: just made, and nobody else's.
        let mut file = unsafe { File::from_raw_fd(descriptor) };
        file.write_all(contents)?;
        file.rewind()?;
        Ok(MemoryFile { file })
    }

    /// Where the process that inherits it finds it.
    pub(super) fn path(&self) -> String {
        format!("/proc/self/fd/{}", self.file.as_raw_fd())
    }

    /// The first so many bytes.
    pub(super) fn contents(&mut self, most: u64) -> io::Result<Vec<u8>> {
        let mut bytes = Vec::new();
        self.file.rewind()?;
        (&self.file).take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A shell in clang's place.
    fn shell(script: &str, input: &[u8], limit: Duration) -> Ended {
        let clang = Clang { program: "/bin/sh".into(), headers: "/".into() };
        run(&clang, &["-c".into(), script.into()], input, limit).unwrap()
    }

    const LIMIT: Duration = Duration::from_secs(60);

    #[test]
    fn how_a_process_ends_is_told() {
        assert!(
            matches!(shell("cat", b"echoed", LIMIT), Ended { how: How::Success, output, .. } if output == b"echoed")
        );
        let failed = shell("echo no >&2; exit 3", b"", LIMIT);
        assert!(matches!(failed.how, How::Failure) && failed.complaints == b"no\n", "{failed:?}");
        let how = |script, limit| match shell(script, b"", limit).how {
            How::Death(why) => why,
            other => panic!("{script}: {other:?}"),
        };
        assert_eq!(how("kill -SEGV $$", LIMIT), "crashed (signal 11)");
        assert!(how("exec sleep 600", Duration::from_millis(50)).contains("time limit"));
        // Processor time has a limit of its own, in whole seconds.
        assert!(how("while :; do :; done", Duration::from_secs(1)).contains("time limit"));
    }

    #[test]
    fn a_flood_of_output_is_cut() {
        let done = shell("head -c 3000000 /dev/zero >&2", b"", LIMIT);
        assert!(matches!(done.how, How::Success) && done.complaints.len() as u64 == COMPLAINTS);
    }

    #[test]
    fn memory_is_limited_and_nothing_is_dumped() {
        let limits = shell("ulimit -v; ulimit -c", b"", LIMIT).output;
        let limits = String::from_utf8(limits).unwrap();
        let numbers: Vec<u64> = limits.split_whitespace().map(|word| word.parse().unwrap()).collect();
        assert!(numbers[0] <= ADDRESS_SPACE / 1024 && numbers[1] == 0, "{limits}");
    }
}
