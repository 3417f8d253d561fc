//! Workers that crash, hang, bloat and behave; the test program plays the worker itself, as there is no library here.

use super::pool::{Pool, PoolError};
use super::protocol::{Job, Product};
use super::spawn::Launch;
use crate::api::CompileError;
use serde::{Deserialize, Serialize};
use std::time::{Duration, Instant};

/// What a hostile module might cause.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub enum Misbehaviour {
    None,
    Abort,
    FatalError,
    Overflow,
    Panic,
    Spin,
    Allocate,
    Exit,
    ProcessId,
}

impl Misbehaviour {
    pub fn carry_out(self) -> Result<Product, CompileError> {
        match self {
            Misbehaviour::None => {}
            Misbehaviour::Abort => {
                eprintln!("the worker's last words");
                std::process::abort()
            }
            Misbehaviour::FatalError => {
                // LLVM takes this as its own user's mistake, and ends the process.
                inkwell::targets::TargetData::create("nonsense");
            }
            Misbehaviour::Overflow => {
                std::hint::black_box(recurse(1));
            }
            Misbehaviour::Panic => panic!("a bug of ours"),
            Misbehaviour::Spin => loop {
                std::hint::spin_loop();
            },
            Misbehaviour::Allocate => {
                let mut hoard = Vec::new();
                loop {
                    hoard.push(vec![0u8; 1 << 30]);
                }
            }
            Misbehaviour::Exit => std::process::exit(0),
            Misbehaviour::ProcessId => return Ok(Product::Checked(std::process::id().to_string())),
        }
        Ok(Product::Checked("fine".into()))
    }
}

/// Deeper than any stack.
#[allow(unconditional_recursion)]
fn recurse(depth: u64) -> u64 {
    std::hint::black_box(recurse(std::hint::black_box(depth + 1))) + depth
}

/// The worker, when this program was started as one.
#[test]
fn worker_process() {
    if std::env::var_os("SPIRULA_TEST_WORKER").is_some() {
        super::worker::serve();
    }
}

fn pool() -> Pool {
    let arguments = ["process::tests::worker_process", "--exact", "--nocapture"];
    let arguments = arguments.map(|text| std::ffi::CString::new(text).unwrap()).to_vec();
    let program = std::env::current_exe().unwrap();
    Pool::new(Launch::new(program, arguments, &["SPIRULA_TEST_WORKER=1"]))
}

fn run(pool: &Pool, how: Misbehaviour, seconds: u64) -> Result<Result<Product, CompileError>, PoolError> {
    pool.run(&Job::Misbehave(how), Duration::from_secs(seconds))
}

fn text(outcome: Result<Result<Product, CompileError>, PoolError>) -> String {
    match outcome {
        Ok(Ok(Product::Checked(text))) => text,
        other => panic!("no answer: {other:?}"),
    }
}

#[test]
fn a_crash_is_an_error_that_says_what_happened() {
    let pool = pool();
    let cases = [
        (Misbehaviour::Abort, "aborted (SIGABRT), saying: the worker's last words"),
        (Misbehaviour::FatalError, "gave up, LLVM saying: "),
        (Misbehaviour::Overflow, "crashed (SIGSEGV)"),
        (Misbehaviour::Allocate, "aborted (SIGABRT), saying: memory allocation of 1073741824 bytes failed"),
        (Misbehaviour::Spin, "exceeded its time limit"),
        (Misbehaviour::Exit, "ended without a word"),
    ];
    for (how, expected) in cases {
        match run(&pool, how, 2) {
            Err(PoolError::Crashed(note)) => assert!(note.starts_with(expected), "{how:?}: {note}"),
            other => panic!("{how:?}: {other:?}"),
        }
        assert_eq!(text(run(&pool, Misbehaviour::None, 60)), "fine", "after {how:?}");
    }
}

#[test]
fn a_panic_is_an_error_and_the_worker_lives_on() {
    let pool = pool();
    let before = text(run(&pool, Misbehaviour::ProcessId, 60));
    match run(&pool, Misbehaviour::Panic, 60) {
        Ok(Err(CompileError::Failed(message))) => assert!(message.ends_with("a bug of ours"), "{message}"),
        other => panic!("{other:?}"),
    }
    assert_eq!(text(run(&pool, Misbehaviour::ProcessId, 60)), before);
}

#[test]
fn a_worker_is_reused_and_is_no_child_of_ours() {
    let pool = pool();
    let first = text(run(&pool, Misbehaviour::ProcessId, 60));
    assert_eq!(text(run(&pool, Misbehaviour::ProcessId, 60)), first);
    let status = std::fs::read_to_string(format!("/proc/{first}/status")).unwrap();
    let parent = status.lines().find_map(|line| line.strip_prefix("PPid:")).unwrap().trim();
    assert_ne!(parent, std::process::id().to_string());
    // SAFETY: asks only. Other tests beside this one have children of their own.
    let child = unsafe { libc::waitpid(first.parse().unwrap(), std::ptr::null_mut(), libc::WNOHANG) };
    assert_eq!(child, -1, "waiting finds a child that is not the application's");
}

#[test]
fn a_worker_ends_with_its_application_whatever_it_is_doing() {
    let pool = pool();
    let id = text(run(&pool, Misbehaviour::ProcessId, 60));
    let gone = || !std::path::Path::new(&format!("/proc/{id}/exe")).exists();
    assert!(std::fs::read_link(format!("/proc/{id}/exe")).is_ok());
    drop(pool);
    let start = Instant::now();
    while std::fs::read_link(format!("/proc/{id}/exe")).is_ok() && !gone() {
        assert!(start.elapsed() < Duration::from_secs(10), "worker {id} is still there");
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_worker_killed_while_idle_is_replaced() {
    let pool = pool();
    let id: i32 = text(run(&pool, Misbehaviour::ProcessId, 60)).parse().unwrap();
    // SAFETY: a worker of this test's own.
    unsafe { libc::kill(id, libc::SIGKILL) };
    std::thread::sleep(Duration::from_millis(100));
    assert_ne!(text(run(&pool, Misbehaviour::ProcessId, 60)), id.to_string());
}

#[test]
fn what_cannot_be_started_is_said_at_once_and_again() {
    let pool = Pool::new(Launch::new("/nonexistent/loader".into(), Vec::new(), &[]));
    for _ in 0..2 {
        let outcome = run(&pool, Misbehaviour::None, 60);
        assert!(matches!(outcome, Err(PoolError::NotStarted(_))), "{outcome:?}");
    }
}

#[test]
fn many_threads_share_few_workers() {
    let pool = pool();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..20 {
                    assert_eq!(text(run(&pool, Misbehaviour::None, 60)), "fine");
                }
            });
        }
    });
}
