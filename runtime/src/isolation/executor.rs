//! The application's end of an executor: a process, and a lane to it for each launch that runs at the time.

use super::message::{Answer, Begin, MAX_ANSWER};
use super::passing;
use crate::log;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, recv, send, socketpair};
use spirula_interface::identity;
use spirula_interface::protocol::{self, Hello, Role, Tag};
use spirula_service::process::keeper::Keeper;
use spirula_service::process::{locate, spawn};
use spirula_service::settings;
use spirula_service::shared::Shared;
use std::fmt::Display;
use std::ops::Range;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, Once, PoisonError};
use std::time::{Duration, Instant};

/// It says hello within this time, also on a machine that swaps.
const HELLO_LIMIT: Duration = Duration::from_secs(30);
/// It ends launches by itself whose time is over. One that has not done so after this long is ended.
const GRACE: Duration = Duration::from_secs(2);
/// How often a thread looks for an answer before it sleeps.
const SPINS: u32 = 30;

/// An executor process.
#[derive(Debug)]
pub(super) struct Executor {
    control: UnixStream,
    /// Lanes that nobody uses.
    lanes: Mutex<Vec<OwnedFd>>,
    /// Ends it when this is dropped.
    _keeper: Keeper,
}

/// It is gone.
#[derive(Debug)]
pub(super) enum Lost {
    /// When it was asked.
    Before,
    /// Later; how, in words.
    Meanwhile(String),
}

impl Executor {
    /// Begins one that has this memory, and so many bytes of its own. The error says what was tried.
    pub(super) fn begin(
        shared: &Shared,
        launches: Option<Range<usize>>,
        memory: u64,
    ) -> Result<Executor, String> {
        let program = locate::compiler()?;
        let named = |error: &dyn Display| format!("{}: {error}", program.display());
        let launch = spawn::Launch::new(&program, Role::Executor)
            .and_then(|launch| launch.with(None, settings::get().compiler_stderr));
        let started = launch.and_then(|launch| launch.start()).map_err(|error| named(&error))?;
        let (control, keeper) = (started.socket, started.keeper);
        let code = shared.code.as_ref().ok_or_else(|| named(&"there is no place for its code"))?;
        let (data, unmapped) = (shared.data.addresses(), shared.data.unmapped());
        let data = data.start + unmapped..data.end;
        let begin = Begin { data, data_offset: unmapped as u64, launches, code: code.addresses(), memory };
        let bytes = protocol::encode(&begin).map_err(|error| named(&error))?;
        let files = shared.data.file().and_then(|data| Ok([data, code.file()?]));
        // One that is no executor hears nothing, and says nothing.
        let _ = passing::send(control.as_fd(), &bytes, &files.map_err(|error| named(&error))?);
        let _ = control.set_read_timeout(Some(HELLO_LIMIT));
        let silent = "it ended or kept silent instead of saying which build it is";
        let (tag, payload) = protocol::receive(&control).map_err(|_| named(&silent))?;
        let hello = match tag {
            Tag::Hello => protocol::decode::<Hello>(&payload).ok(),
            Tag::Crash => return Err(named(&String::from_utf8_lossy(&payload))),
            _ => None,
        };
        let hello = hello.ok_or_else(|| named(&"it is of another build than this library"))?;
        if hello.build != identity::BUILD {
            let error = format!("it is of build {}, this library of build {}", hello.build, identity::BUILD);
            return Err(named(&error));
        }
        check_sandbox(&hello.missing).map_err(|error| named(&error))?;
        let _ = control.set_write_timeout(Some(GRACE));
        Ok(Executor { control, lanes: Mutex::default(), _keeper: keeper })
    }

    /// Has it run what is asked, for so long at most.
    pub(super) fn run(&self, request: &[u8], patience: Option<Duration>) -> Result<Answer, Lost> {
        let lane = self.lane()?;
        if send(&lane, request, SendFlags::NOSIGNAL).is_err() {
            return Err(Lost::Before);
        }
        let answer = wait(&lane, patience.map(|patience| Instant::now() + patience + GRACE))?;
        self.lanes.lock().unwrap_or_else(PoisonError::into_inner).push(lane);
        Ok(answer)
    }

    /// A lane to an executor that lives.
    fn lane(&self) -> Result<OwnedFd, Lost> {
        if let Some(lane) = self.lanes.lock().unwrap_or_else(PoisonError::into_inner).pop() {
            let mut nothing = [0; 1];
            let looks = RecvFlags::PEEK | RecvFlags::DONTWAIT;
            return match recv(&lane, &mut nothing, looks) {
                Err(Errno::AGAIN) => Ok(lane),
                // Closed, or said what nobody asked for.
                _ => Err(Lost::Before),
            };
        }
        let failed = |error: Errno| Lost::Meanwhile(format!("no socket to the executor process: {error}"));
        let (lane, theirs) =
            socketpair(AddressFamily::UNIX, SocketType::SEQPACKET, SocketFlags::CLOEXEC, None)
                .map_err(failed)?;
        match passing::send(self.control.as_fd(), &[0], &[theirs.as_fd()]) {
            Ok(()) => Ok(lane),
            Err(Errno::PIPE | Errno::CONNRESET) => Err(Lost::Before),
            Err(error) => Err(failed(error)),
        }
    }
}

/// Waits for the answer until then.
fn wait(lane: &OwnedFd, deadline: Option<Instant>) -> Result<Answer, Lost> {
    let mut bytes = [0; MAX_ANSWER];
    let mut looks = 0;
    loop {
        match recv(lane, &mut bytes, RecvFlags::DONTWAIT) {
            Ok((0, _)) => break,
            Ok((length, _)) => {
                let nonsense = |_| Lost::Meanwhile("the process that ran it answered with nonsense".into());
                let answer: Answer =
                    postcard::from_bytes(bytes.get(..length).unwrap_or_default()).map_err(nonsense)?;
                // Words are for logs and terminals.
                return Ok(answer.map_err(|words| words.replace(char::is_control, " ")));
            }
            Err(Errno::AGAIN) => {}
            Err(Errno::INTR) => continue,
            // It was killed before it had read what it was asked.
            Err(Errno::CONNRESET) => return Err(Lost::Before),
            Err(_) => break,
        }
        looks += 1;
        if looks < SPINS {
            std::hint::spin_loop();
            continue;
        }
        let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
        if left.is_some_and(|left| left.is_zero()) {
            let why =
                "it ran for longer than SPIRULA_TIMEOUT allows, and its process did not end it by itself";
            return Err(Lost::Meanwhile(why.into()));
        }
        let left = left.and_then(|left| Timespec::try_from(left).ok());
        // Whatever it says, what comes next tells.
        let _ = poll(&mut [PollFd::new(lane, PollFlags::IN)], left.as_ref());
    }
    let why = "the process that ran it ended: its kernels damaged it, or it was killed; the context's memory is as they left it";
    Err(Lost::Meanwhile(why.into()))
}

/// An error if kernels would not be confined. What only makes it a little less is told once.
fn check_sandbox(missing: &[String]) -> Result<(), String> {
    if let Some(what) = missing.iter().find(|what| what.starts_with("seccomp")) {
        return Err(format!("this system can't confine it: it lacks {what}"));
    }
    static SAID: Once = Once::new();
    if !missing.is_empty() {
        SAID.call_once(|| {
            log::warn(format_args!(
                "executors are confined by seccomp alone: this system lacks {}",
                missing.join(" and ")
            ));
        });
    }
    Ok(())
}
