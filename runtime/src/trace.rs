//! The timeline that `SPIRULA_TRACE` asks for, in Chrome's trace event format, which Perfetto opens: spans of builds and their stages, of
//! commands, launches, chunks of work-groups on each thread, and waits.
//!
//! While it is off, a span costs one relaxed load. While it is on, spans are kept in memory of a fixed size until a thread writes them,
//! every few milliseconds; what comes faster is lost, and it is said how much. The file is a whole JSON document after every write, for
//! each write ends with the list's end and the next one begins there: whoever is killed leaves what was written.
//!
//! Spans of a thread are nested; a chunk names its launch, and a launch stands within its command.

mod file;

use crate::log;
use crate::machine::timer;
use file::TraceFile;
use std::cell::Cell;
use std::fmt::{self, Display};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, Once, OnceLock, PoisonError};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// How often spans are written.
const INTERVAL: Duration = Duration::from_millis(20);
/// Shards, so that threads seldom meet; spans that each has room for.
const SHARDS: usize = 16;
const ROOM: usize = 8192;
/// What an exit waits at most for another thread that is writing.
const MOST_AT_EXIT: Duration = Duration::from_secs(1);

/// Whether anything is recorded.
static ON: AtomicBool = AtomicBool::new(false);
static TRACE: OnceLock<Trace> = OnceLock::new();

/// Something that took its time, or that is told of a thread.
#[derive(Debug)]
struct Record {
    thread: i32,
    what: What,
}

#[derive(Debug)]
enum What {
    /// A thread's name.
    Thread(String),
    Span {
        category: &'static str,
        name: String,
        begun: u64,
        ended: u64,
        notes: Notes,
    },
    /// Of no thread: begun on one, and ended on another.
    Between {
        category: &'static str,
        name: String,
        begun: u64,
        ended: u64,
        number: u64,
    },
}

/// What else is to be said of a span: names and values.
type Notes = Vec<(&'static str, String)>;

/// The records that were not written yet.
#[derive(Debug, Default)]
struct Shard {
    records: Vec<Record>,
    lost: u64,
}

struct Trace {
    shards: [Mutex<Shard>; SHARDS],
    file: Mutex<TraceFile>,
    /// Who writes.
    writer: OnceLock<Thread>,
}

/// Begins to record, if the settings say so; once for a process.
pub(crate) fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let Some(path) = spirula_service::settings::get().trace.as_deref() else { return };
        if let Err(error) = start_at(path) {
            log::error(format_args!("no timeline is written to {}: {error}", path.display()));
        }
    });
}

fn start_at(path: &Path) -> std::io::Result<()> {
    let trace = Trace {
        shards: Default::default(),
        file: Mutex::new(TraceFile::create(path)?),
        writer: OnceLock::new(),
    };
    if TRACE.set(trace).is_err() {
        return Ok(());
    }
    let write = || {
        loop {
            std::thread::park_timeout(INTERVAL);
            if let Some(trace) = TRACE.get() {
                trace.write(&mut trace.file());
            }
        }
    };
    let writer = std::thread::Builder::new().name("spirula-trace".into()).spawn(write)?;
    if let Some(trace) = TRACE.get() {
        let _ = trace.writer.set(writer.thread().clone());
    }
    write_at_exit();
    ON.store(true, Ordering::Relaxed);
    Ok(())
}

fn write_at_exit() {
    extern "C" fn write() {
        let until = Instant::now() + MOST_AT_EXIT;
        let Some(trace) = TRACE.get() else { return };
        // Who exits may have interrupted the writer for good.
        loop {
            if let Ok(mut file) = trace.file.try_lock() {
                return trace.write(&mut file);
            }
            if Instant::now() > until {
                return;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    #[expect(unsafe_code, reason = "the C library's list of what to do at exit")]
    // SAFETY: the function is there as long as this library, takes nothing and ends.
    unsafe {
        libc::atexit(write)
    };
}

impl Trace {
    fn file(&self) -> MutexGuard<'_, TraceFile> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn shard(&self, thread: i32) -> MutexGuard<'_, Shard> {
        self.shards[thread as usize % SHARDS].lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, record: Record) {
        let mut shard = self.shard(record.thread);
        if shard.records.len() >= ROOM {
            shard.lost += 1;
            return;
        }
        shard.records.push(record);
        let half_full = shard.records.len() == ROOM / 2;
        drop(shard);
        if half_full && let Some(writer) = self.writer.get() {
            writer.unpark();
        }
    }

    /// Writes what has come.
    fn write(&self, file: &mut TraceFile) {
        for shard in 0..SHARDS {
            let Shard { records, lost } = std::mem::take(&mut *self.shard(shard as i32));
            file.write(&records, lost);
        }
    }
}

/// Something goes on as long as this lives.
#[must_use]
pub(crate) struct Span(Option<Open>);

struct Open {
    category: &'static str,
    name: String,
    begun: u64,
    notes: Notes,
}

fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// The time at which something begins that may be told of; 0 while nothing is recorded.
pub(crate) fn now() -> u64 {
    if is_on() { timer() } else { 0 }
}

/// A span of that category begins on this thread; its name is asked for if it is recorded.
pub(crate) fn span<N: Into<String>>(category: &'static str, name: impl FnOnce() -> N) -> Span {
    if !is_on() {
        return Span(None);
    }
    Span(Some(Open { category, name: name().into(), begun: timer(), notes: Vec::new() }))
}

impl Span {
    /// Says more of it.
    pub(crate) fn note(&mut self, name: &'static str, value: impl Display) {
        if let Some(open) = &mut self.0 {
            open.notes.push((name, value.to_string()));
        }
    }
}

impl Drop for Span {
    fn drop(&mut self) {
        if let Some(Open { category, name, begun, notes }) = self.0.take() {
            record(What::Span { category, name, begun, ended: timer(), notes });
        }
    }
}

/// A span of this thread that has ended; nothing if recording was off when it began.
pub(crate) fn ended(category: &'static str, name: &str, begun: u64, ended: u64) {
    if begun != 0 && is_on() {
        record(What::Span { category, name: name.to_owned(), begun, ended, notes: Vec::new() });
    }
}

/// Something that began on one thread and has ended on this one; nothing if recording was off when it began.
pub(crate) fn between(category: &'static str, name: &str, begun: u64) {
    static NUMBER: AtomicU64 = AtomicU64::new(0);
    if begun != 0 && is_on() {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        record(What::Between { category, name: name.to_owned(), begun, ended: timer(), number });
    }
}

fn record(what: What) {
    thread_local! {
        static IS_NAMED: Cell<bool> = const { Cell::new(false) };
    }
    let Some(trace) = TRACE.get() else { return };
    let thread = rustix::thread::gettid().as_raw_nonzero().get();
    // A thread that is ending has no cells any more.
    if !IS_NAMED.try_with(|named| named.replace(true)).unwrap_or(true) {
        trace.add(Record { thread, what: What::Thread(thread_name()) });
    }
    trace.add(Record { thread, what });
}

/// This thread's name: Rust's, or the application's, which the kernel has.
fn thread_name() -> String {
    let known = || std::fs::read_to_string("/proc/thread-self/comm").unwrap_or_default();
    std::thread::current().name().map_or_else(|| known().trim_end().to_owned(), str::to_owned)
}

/// What a launch's spans name it by.
pub(crate) fn address_of<T>(launch: &T) -> impl Display {
    struct Address(usize);
    impl Display for Address {
        fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
            write!(f, "{:#x}", self.0)
        }
    }
    Address((&raw const *launch).addr())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_recorded_that_nobody_asked_for() {
        let mut span = span("test", || -> String { unreachable!("it is off") });
        span.note("more", "text");
        assert!(span.0.is_none() && now() == 0);
        between("test", "nothing", 0);
        ended("test", "nothing", 0, 1);
    }

    #[test]
    fn a_shard_that_is_full_counts_what_it_loses() {
        let folder = std::env::temp_dir().join(format!("spirula-trace-{}", std::process::id()));
        let trace = Trace {
            shards: Default::default(),
            file: Mutex::new(TraceFile::create(&folder).unwrap()),
            writer: OnceLock::new(),
        };
        for _ in 0..ROOM + 5 {
            trace.add(Record { thread: 3, what: What::Thread("t".into()) });
        }
        let held = || {
            let shard = trace.shard(3);
            (shard.records.len(), shard.lost)
        };
        assert_eq!(held(), (ROOM, 5));
        trace.write(&mut trace.file());
        assert_eq!(held(), (0, 0));
        let text = std::fs::read_to_string(&folder).unwrap();
        std::fs::remove_file(&folder).unwrap();
        assert_eq!(text.matches("thread_name").count(), ROOM);
        assert!(text.contains("5 spans were lost") && text.ends_with("\n]\n"), "{text:.500}");
    }
}
