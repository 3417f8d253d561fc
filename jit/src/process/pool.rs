//! Workers on demand, as many as CPUs, one request at a time each; replaced when they die, grow or have done much.

use super::protocol::{self, IDENTITY, Job, Product, Reply, Request, Tag};
use super::spawn::Launch;
use crate::api::CompileError;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Requests that a worker serves before it is replaced: what leaks in LLVM leaks no further.
const MAX_REQUESTS: u32 = 500;
/// Resident bytes after which it is replaced.
const MAX_RESIDENT: u64 = 1 << 30;
/// A worker says hello within this time, also on a machine that swaps.
const HELLO_LIMIT: Duration = Duration::from_secs(30);
/// A worker that is over its time ends itself; who has not said so after this long is given up.
const GRACE: Duration = Duration::from_secs(3);

/// Why a request got no answer.
#[derive(Debug)]
pub enum PoolError {
    /// There is no worker, and none can be had.
    NotStarted(String),
    /// The worker died over this request: "aborted (SIGABRT), saying …".
    Crashed(String),
}

/// The application's workers.
pub struct Pool {
    launch: Result<Launch, String>,
    state: Mutex<State>,
    returned: Condvar,
}

struct State {
    /// The process that these workers belong to: after `fork`, the child starts its own.
    owner: u32,
    idle: Vec<Worker>,
    /// Idle and busy ones.
    live: usize,
    /// How many there may be: as many as CPUs, or as the system let us start.
    limit: usize,
    /// Why there can be none.
    failure: Option<String>,
}

impl State {
    fn new() -> Self {
        let limit = std::thread::available_parallelism().map_or(1, |count| count.get());
        State { owner: std::process::id(), idle: Vec::new(), live: 0, limit, failure: None }
    }
}

impl Pool {
    /// An empty pool.
    pub fn new(launch: Result<Launch, String>) -> Self {
        Pool { launch, state: Mutex::new(State::new()), returned: Condvar::new() }
    }

    /// Has a worker do the job.
    pub fn run(&self, job: &Job, time_limit: Duration) -> Result<Result<Product, CompileError>, PoolError> {
        loop {
            let mut seat = self.sit()?;
            // If there are others, one of them will do.
            let Some(worker) = seat.worker() else { continue };
            match worker.perform(job, time_limit) {
                Ok(Answer::Reply(reply)) => {
                    if worker.served >= MAX_REQUESTS || reply.resident > MAX_RESIDENT {
                        seat.dismiss();
                    }
                    return Ok(reply.result);
                }
                Ok(Answer::Left) => seat.dismiss(),
                Err(note) => {
                    seat.dismiss();
                    return Err(PoolError::Crashed(note));
                }
            }
        }
    }

    /// Starts a worker unless there is one.
    pub fn warm_up(&self) {
        if self.lock().live == 0
            && let Ok(mut seat) = self.sit()
        {
            // The first request meets the same failure, and reports it.
            seat.worker();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if state.owner != std::process::id() {
            // Closes copies of the parent's sockets; the parent's workers do not notice.
            *state = State::new();
        }
        state
    }

    /// Waits for a place among the workers, with an idle one if there is any.
    fn sit(&self) -> Result<Seat<'_>, PoolError> {
        let mut state = self.lock();
        loop {
            if let Some(worker) = state.idle.pop() {
                return Ok(Seat { pool: self, worker: Some(worker) });
            }
            if let Some(failure) = &state.failure {
                return Err(PoolError::NotStarted(failure.clone()));
            }
            if state.live < state.limit {
                state.live += 1;
                return Ok(Seat { pool: self, worker: None });
            }
            state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// One caller's place: its worker goes back to the idle ones at the end, or is gone.
struct Seat<'p> {
    pool: &'p Pool,
    worker: Option<Worker>,
}

impl Seat<'_> {
    /// The worker, started if need be. When that fails, the pool is as large as it can get.
    fn worker(&mut self) -> Option<&mut Worker> {
        if self.worker.is_none() {
            let launch = self.pool.launch.as_ref().map_err(String::clone);
            match launch.and_then(|launch| Worker::start(launch).map_err(|error| error.to_string())) {
                Ok(worker) => self.worker = Some(worker),
                Err(error) => {
                    let mut state = self.pool.lock();
                    state.limit = state.live.saturating_sub(1);
                    state.failure = (state.limit == 0).then_some(error);
                }
            }
        }
        self.worker.as_mut()
    }

    fn dismiss(&mut self) {
        if let Some(worker) = self.worker.take() {
            // Reaches the worker even if a forked child of the application holds the socket too.
            let _ = worker.socket.shutdown(std::net::Shutdown::Both);
        }
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        let mut state = self.pool.lock();
        match self.worker.take() {
            Some(worker) => state.idle.push(worker),
            None => state.live = state.live.saturating_sub(1),
        }
        drop(state);
        // All: when no worker can be had any more, everybody must learn it.
        self.pool.returned.notify_all();
    }
}

/// The application's end of a worker.
struct Worker {
    socket: UnixStream,
    served: u32,
}

/// What a worker says to a request when it does not die of it.
enum Answer {
    Reply(Reply),
    /// It had already left when the request came.
    Left,
}

impl Worker {
    fn start(launch: &Launch) -> io::Result<Self> {
        let worker = Worker { socket: launch.start()?, served: 0 };
        let (tag, payload) = protocol::receive(worker.until(Instant::now() + HELLO_LIMIT))?;
        if tag == Tag::Hello && protocol::decode::<String>(&payload)? == IDENTITY {
            Ok(worker)
        } else {
            Err(io::Error::other("the compiler process is of another version"))
        }
    }

    /// The error is what became of the worker, to follow "the compiler process".
    fn perform(&mut self, job: &Job, time_limit: Duration) -> Result<Answer, String> {
        let seconds = u32::try_from(time_limit.as_secs()).unwrap_or(u32::MAX).max(1);
        let deadline = Instant::now() + time_limit + GRACE;
        let _ = self.socket.set_write_timeout(Some(time_limit + GRACE));
        let first = self.served == 0;
        self.served += 1;
        // A worker that has left can't be written to, but its last frame can still be read.
        let sent = protocol::send(self.socket.as_fd(), Tag::Request, &Request { seconds, job });
        match protocol::receive(self.until(deadline)) {
            Ok((Tag::Reply, payload)) => protocol::decode(&payload)
                .map(Answer::Reply)
                .map_err(|error| format!("answered with nonsense ({error})")),
            Ok((Tag::Crash, note)) => Err(String::from_utf8_lossy(&note).trim_end().to_owned()),
            Ok((Tag::Bye, _)) => Ok(Answer::Left),
            Ok((Tag::Hello | Tag::Request, _)) => Err("answered with nonsense".into()),
            Err(error) if matches!(error.kind(), io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock) => {
                Err("exceeded its time limit (SPIRULA_COMPILER_TIMEOUT sets it)".into())
            }
            // Killed while idle, which is nobody's fault here. One that was just started gets no second try.
            Err(_) if sent.is_err() && !first => Ok(Answer::Left),
            Err(_) => Err("ended without a word (out of memory, or killed)".into()),
        }
    }

    fn until(&self, deadline: Instant) -> UntilDeadline<'_> {
        UntilDeadline { socket: &self.socket, deadline }
    }
}

/// Reads that fail once the deadline is over, however little comes each time.
struct UntilDeadline<'w> {
    socket: &'w UnixStream,
    deadline: Instant,
}

impl Read for UntilDeadline<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let left = self.deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        self.socket.set_read_timeout(Some(left))?;
        self.socket.read(buffer)
    }
}
