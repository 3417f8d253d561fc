//! Workers on demand, about as many as CPUs, one request at a time each; replaced when they die, grow or have done much.

use super::Request;
use super::keeper::Keeper;
use super::spawn::{Launch, Started};
use crate::settings;
use spirula_interface::identity;
use spirula_interface::protocol::{self, Conditions, Hello, Reply, Role, Tag};
use spirula_interface::target::Target;
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Requests that a worker serves before it is replaced: what leaks in LLVM leaks no further.
const MAX_REQUESTS: u32 = 500;
/// Resident bytes after which it is replaced.
const MAX_RESIDENT: u64 = 1 << 30;
/// A worker says hello within this time, also on a machine that swaps.
const HELLO_LIMIT: Duration = Duration::from_secs(30);
/// A worker that is over its time ends itself. One that has not done so after this long is no longer waited for.
const GRACE: Duration = Duration::from_secs(3);

/// Why a request got no answer.
#[derive(Debug)]
pub enum PoolError {
    /// There is no worker, and none can be had.
    NotStarted(String),
    /// The worker died over this request: "aborted (SIGABRT), saying …".
    Crashed(String),
}

/// Says where the compiler program is, or why there is none. Asked for every worker, so that a compiler that appears later
/// is found then.
pub type Locate = fn() -> Result<PathBuf, String>;

/// The application's workers.
pub struct Pool {
    role: Role,
    locate: Locate,
    state: Mutex<State>,
    returned: Condvar,
}

struct State {
    idle: Vec<Worker>,
    /// Idle and busy ones.
    live: usize,
    /// How many there may be.
    limit: usize,
    /// Those that are being started before anybody needs one, and callers that wait for one of these.
    coming: usize,
    awaiting: usize,
    /// What the first worker said of the machine.
    target: Option<Target>,
    /// What it said that can't be kept from it.
    missing: Vec<String>,
}

/// So many jobs of a kind are done at a time that nobody waits for. More would only wait for compilers, or keep launches from processors.
pub fn at_a_time(processors: usize) -> usize {
    (processors / 2).clamp(1, 4)
}

/// Those are of three kinds: urgent ones, such beside those that last, and leisurely ones.
const KINDS: usize = 3;

/// As many as CPUs, but more on few: what nobody waits for has not all of them, so that a build, which somebody waits for, always finds one.
fn most_workers(processors: usize) -> usize {
    processors.max(KINDS * at_a_time(processors) + 1)
}

impl State {
    fn new() -> Self {
        let limit = most_workers(std::thread::available_parallelism().map_or(1, |count| count.get()));
        State { idle: Vec::new(), live: 0, limit, coming: 0, awaiting: 0, target: None, missing: Vec::new() }
    }
}

impl Pool {
    /// An empty pool of workers for this.
    pub fn new(role: Role, locate: Locate) -> Self {
        Pool { role, locate, state: Mutex::new(State::new()), returned: Condvar::new() }
    }

    /// Has a worker do the job.
    pub fn run(&self, request: &Request, conditions: &Conditions) -> Result<Reply, PoolError> {
        loop {
            let mut seat = self.take_seat().map_err(PoolError::NotStarted)?;
            match seat.perform(request, conditions) {
                Ok(Answer::Reply(reply)) => return Ok(reply),
                Ok(Answer::Left) => {}
                Err(note) => return Err(PoolError::Crashed(note)),
            }
        }
    }

    /// The machine, as the workers see it.
    /// Errors: why no worker can be had.
    pub fn target(&self) -> Result<Target, String> {
        if let Some(target) = &self.lock().target {
            return Ok(target.clone());
        }
        self.take_seat()?;
        // The seat's worker has said so; a fork in between would be the caller's own.
        self.lock().target.clone().ok_or_else(|| "it does not know this machine".into())
    }

    /// What the kernel can't keep from the workers, in words; none before there was one.
    pub fn missing(&self) -> Vec<String> {
        self.lock().missing.clone()
    }

    /// Whether there is no worker.
    pub fn is_empty(&self) -> bool {
        self.lock().live == 0
    }

    /// Starts a worker unless there is one.
    pub fn warm_up(&self) {
        let mut state = self.lock();
        if state.live > 0 {
            return;
        }
        state.live += 1;
        state.coming += 1;
        drop(state);
        // The first request meets the same failure, and reports it.
        let started = self.start();
        let mut state = self.lock();
        state.coming = state.coming.saturating_sub(1);
        state.idle.extend(started.ok());
        drop(state);
        self.returned.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// In a forked child: closes copies of the parent's sockets, unless a thread of the parent's was at it. The parent's
    /// workers do not notice.
    pub fn disown(&self) {
        if let Ok(mut state) = self.state.try_lock() {
            state.idle.clear();
        }
    }

    /// Waits for a place among the workers: an idle one, or a new one where there is room. If none can be started, those
    /// that are there will do.
    fn take_seat(&self) -> Result<Seat<'_>, String> {
        let mut state = self.lock();
        let mut failure = None;
        loop {
            if let Some(worker) = state.idle.pop() {
                return Ok(Seat { pool: self, worker: Some(worker), was_idle: true });
            }
            // Another one would come later, and take the processor from the one that is coming.
            if state.awaiting < state.coming {
                state.awaiting += 1;
                state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner);
                state.awaiting -= 1;
                continue;
            }
            if failure.is_none() && state.live < state.limit {
                state.live += 1;
                drop(state);
                match self.start() {
                    Ok(worker) => return Ok(Seat { pool: self, worker: Some(worker), was_idle: false }),
                    Err(error) => failure = Some(error),
                }
                state = self.lock();
                continue;
            }
            match failure.take_if(|_| state.live == 0) {
                Some(error) => return Err(error),
                None => state = self.returned.wait(state).unwrap_or_else(PoisonError::into_inner),
            }
        }
    }
}

impl Pool {
    /// Starts a worker, which counts as live already.
    fn start(&self) -> Result<Worker, String> {
        let started = (self.locate)().and_then(|program| Worker::start(program, self.role));
        let mut state = self.lock();
        match &started {
            Ok(worker) => {
                state.target.get_or_insert_with(|| worker.host.clone());
                state.missing.clone_from(&worker.missing);
            }
            Err(_) => {
                state.live = state.live.saturating_sub(1);
                drop(state);
                // Whoever waits for this place must learn that it is free, and that it may stay so.
                self.returned.notify_all();
            }
        }
        started
    }
}

/// One caller's place: its worker goes back to the idle ones at the end, or is gone.
struct Seat<'p> {
    pool: &'p Pool,
    worker: Option<Worker>,
    /// Whether it waited for this request, and may have been killed meanwhile.
    was_idle: bool,
}

impl Seat<'_> {
    /// Has the worker do the job, and lets it go if it should not do another.
    fn perform(&mut self, request: &Request, conditions: &Conditions) -> Result<Answer, String> {
        let Some(mut worker) = self.worker.take() else { return Ok(Answer::Left) };
        let answer = worker.perform(request, conditions, self.was_idle);
        match &answer {
            Ok(Answer::Reply(reply)) if worker.served < MAX_REQUESTS && reply.resident <= MAX_RESIDENT => {
                self.worker = Some(worker);
            }
            _ => drop(worker),
        }
        answer
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
    /// Ends the worker's process, whatever that does, when this is dropped.
    _keeper: Keeper,
    served: u32,
    /// The machine as it sees it.
    host: Target,
    /// What this kernel can't keep from it.
    missing: Vec<String>,
}

/// What a worker says to a request when it does not die of it.
enum Answer {
    Reply(Reply),
    /// It had already left when the request came.
    Left,
}

impl Worker {
    /// The error says what was tried.
    fn start(program: PathBuf, role: Role) -> Result<Self, String> {
        let named = |error: &dyn std::fmt::Display| format!("{}: {error}", program.display());
        let settings = settings::get();
        // Only what compiles has something to dump.
        let dump = settings.dump.as_deref().filter(|_| role == Role::Compiler);
        let launch =
            Launch::new(&program, role).and_then(|launch| launch.with(dump, settings.compiler_stderr));
        let launch = launch.map_err(|error| named(&error))?;
        let Started { socket, keeper } = launch.start().map_err(|error| named(&error))?;
        let mut worker =
            Worker { socket, _keeper: keeper, served: 0, host: Target::default(), missing: Vec::new() };
        let silent = "it ended or kept silent instead of saying which build it is";
        let (tag, payload) =
            protocol::receive(worker.until(Instant::now() + HELLO_LIMIT)).map_err(|_| named(&silent))?;
        match protocol::decode::<Hello>(&payload) {
            Ok(hello) if tag == Tag::Hello && hello.build == identity::BUILD => {
                worker.host = hello.host;
                worker.missing = hello.missing;
                Ok(worker)
            }
            Ok(hello) if tag == Tag::Hello => {
                let error =
                    format!("it is of build {}, this library of build {}", hello.build, identity::BUILD);
                Err(named(&error))
            }
            _ => Err(named(&"it is of another build than this library")),
        }
    }

    /// The error is what became of the worker, to follow "the compiler process".
    fn perform(
        &mut self,
        request: &Request,
        conditions: &Conditions,
        was_idle: bool,
    ) -> Result<Answer, String> {
        let limit = Duration::from_secs(conditions.patience().into()) + GRACE;
        let deadline = Instant::now() + limit;
        let _ = self.socket.set_write_timeout(Some(limit));
        self.served += 1;
        // A worker that has left can't be written to, but its last frame can still be read.
        let _ = protocol::send_request(self.socket.as_fd(), conditions, &request.job);
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
            // Killed while idle, most likely, which is nobody's fault here. A new worker gets no second try.
            Err(_) if was_idle => Ok(Answer::Left),
            Err(_) => Err("ended without a word (out of memory, or killed)".into()),
        }
    }

    fn until(&self, deadline: Instant) -> UntilDeadline<'_> {
        UntilDeadline { socket: &self.socket, left: deadline.saturating_duration_since(Instant::now()) }
    }
}

/// Reads that fail once the time is over, however little comes each time. It goes by in short steps: while this process is stopped, as by
/// Ctrl-Z or with its container, the other one mostly is, too, and at the end of that has said nothing yet.
struct UntilDeadline<'w> {
    socket: &'w UnixStream,
    left: Duration,
}

/// What a stop costs at most.
const STEP: Duration = Duration::from_millis(500);

impl UntilDeadline<'_> {
    /// A step took so long, in which this process may have been stopped.
    fn spend(&mut self, step: Duration, took: Duration) {
        self.left = self.left.saturating_sub(took.min(step));
    }
}

impl Read for UntilDeadline<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while !self.left.is_zero() {
            let step = self.left.min(STEP);
            self.socket.set_read_timeout(Some(step))?;
            let begun = Instant::now();
            let read = self.socket.read(buffer);
            self.spend(step, begun.elapsed());
            match read {
                Err(error) if matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) => {
                }
                read => return read,
            }
        }
        Err(io::ErrorKind::TimedOut.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::sync::Barrier;
    use std::sync::atomic::{AtomicU32, Ordering::SeqCst};

    #[test]
    fn what_says_nothing_is_waited_for_no_longer_than_asked() {
        let (here, there) = UnixStream::pair().unwrap();
        let mut buffer = [0; 8];
        let mut reader = UntilDeadline { socket: &here, left: Duration::from_millis(3) };
        assert_eq!(reader.read(&mut buffer).unwrap_err().kind(), io::ErrorKind::TimedOut);
        (&there).write_all(b"hello").unwrap();
        assert_eq!(reader.read(&mut buffer).unwrap_err().kind(), io::ErrorKind::TimedOut);
        let mut reader = UntilDeadline { socket: &here, left: 3 * STEP };
        assert_eq!(reader.read(&mut buffer).unwrap(), 5);
        assert!(reader.left > Duration::ZERO);
    }

    #[test]
    fn a_stop_costs_a_step_at_most() {
        let (here, _there) = UnixStream::pair().unwrap();
        let mut reader = UntilDeadline { socket: &here, left: 3 * STEP };
        reader.spend(STEP, Duration::from_secs(3600));
        assert_eq!(reader.left, 2 * STEP);
        reader.spend(STEP, STEP / 2);
        assert_eq!(reader.left, STEP + STEP / 2);
    }

    #[test]
    fn a_build_finds_a_place_beside_what_nobody_waits_for() {
        for (processors, most) in [(1, 4), (2, 4), (8, 13), (64, 64)] {
            assert_eq!(most_workers(processors), most);
            assert!(KINDS * at_a_time(processors) < most);
        }
    }

    #[test]
    fn who_comes_while_a_worker_is_started_ahead_waits_for_that_one() {
        static STARTED: AtomicU32 = AtomicU32::new(0);
        static GO_ON: Barrier = Barrier::new(2);
        let locate = || {
            if STARTED.fetch_add(1, SeqCst) == 0 {
                GO_ON.wait();
            }
            Err("of the test".to_owned())
        };
        let pool = Pool::new(Role::Compiler, locate);
        std::thread::scope(|scope| {
            scope.spawn(|| pool.warm_up());
            while STARTED.load(SeqCst) == 0 {
                std::thread::yield_now();
            }
            let caller = scope.spawn(|| pool.target());
            while pool.lock().awaiting == 0 {
                std::thread::yield_now();
            }
            assert_eq!(STARTED.load(SeqCst), 1, "another one is on its way");
            GO_ON.wait();
            // None came, so it tries for itself.
            assert_eq!(caller.join().unwrap(), Err("of the test".to_owned()));
            assert_eq!(STARTED.load(SeqCst), 2);
        });
        let state = pool.lock();
        assert_eq!((state.live, state.coming, state.awaiting), (0, 0, 0));
    }
}
