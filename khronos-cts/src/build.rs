//! Builds binaries in supervised worker processes: one that crashes or hangs costs its program, no more.

use crate::suite::{self, Archives, Entry, Needs};
use spirula_tests::cl::{Context, Device, Program, SPIR12};
use spirula_tests::icd;
use spirula_tests::supervise::{Lost, Worker};
use std::path::Path;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{env, thread};

/// A program's fate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was built and its kernels could be made.
    Passed,
    /// It was not, and the first line of the reason.
    Failed(String),
    /// The device says that it lacks this.
    Skipped(String),
}

/// Builds all programs whose name contains `only`; in the suite's order.
pub fn run(
    data: &Path,
    icd: Option<&Path>,
    jobs: usize,
    timeout: Duration,
    only: &str,
) -> Result<Vec<(Entry, Verdict)>, String> {
    let library = match icd {
        Some(path) => path.canonicalize().map_err(|e| format!("{}: {e}", path.display()))?,
        None => icd::library()?,
    };
    let _selected = icd::select_library(&library)?; // the workers inherit it
    let mut entries = suite::entries(data)?;
    entries.retain(|entry| entry.name().contains(only));
    let exe = env::current_exe().map_err(|e| format!("can't find this program's own path: {e}"))?;
    let verdicts = Mutex::new(vec![None; entries.len()]);
    let next = AtomicUsize::new(0);
    let supervise = || -> Result<(), String> {
        let start = || {
            let mut command = Command::new(&exe);
            command.arg("worker").arg("--data").arg(data);
            Worker::start(&mut command).map_err(|e| format!("can't start a worker: {e}"))
        };
        let mut worker = start()?;
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(entry) = entries.get(index) else { return Ok(()) };
            let verdict = match worker.ask(&format!("{} {}", entry.suite, entry.path), timeout) {
                Ok(answer) => parse(&answer),
                Err(lost) => {
                    worker = start()?;
                    Verdict::Failed(match lost {
                        Lost::Died(how) => format!("the process was lost: {how}"),
                        Lost::TimedOut => format!("timed out after {} s", timeout.as_secs()),
                    })
                }
            };
            if let Ok(mut verdicts) = verdicts.lock() {
                verdicts[index] = Some(verdict);
            }
        }
    };
    thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs.max(1)).map(|_| scope.spawn(supervise)).collect();
        threads.into_iter().try_for_each(|t| t.join().map_err(|_| "a supervisor panicked".to_string())?)
    })?;
    let verdicts = verdicts.into_inner().map_err(|_| "a supervisor panicked".to_string())?;
    let missing = || Verdict::Failed("no verdict".to_string());
    Ok(entries.into_iter().zip(verdicts).map(|(entry, v)| (entry, v.unwrap_or_else(missing))).collect())
}

/// The worker's part: answers "SUITE PATH" with a verdict.
pub fn serve(data: &Path) -> Result<(), String> {
    let needs = Needs::load(data)?;
    let mut archives = Archives::new(data);
    let device = Device::first();
    let context = Context::new(device).map_err(|e| e.to_string())?;
    Worker::serve(|request| {
        let (suite, path) = request.split_once(' ').unwrap_or((request, ""));
        let entry = Entry { suite: suite.to_string(), path: path.to_string() };
        let verdict = match needs.lacking(&entry, device) {
            Some(need) => Verdict::Skipped(need),
            None => {
                match archives.read(suite, path).and_then(|binary| build(&context, device, path, &binary)) {
                    Ok(()) => Verdict::Passed,
                    Err(why) => Verdict::Failed(why),
                }
            }
        };
        print(&verdict)
    });
    Ok(())
}

/// Builds one binary. The modules of "compile_and_link" need each other: they are compiled only.
fn build(context: &Context, device: Device, path: &str, binary: &[u8]) -> Result<(), String> {
    let program = Program::from_binary(context, device, binary).map_err(|e| e.to_string())?;
    let part = path.starts_with("compile_and_link/");
    let built = if part { program.compile(SPIR12) } else { program.build(SPIR12) };
    built.map_err(|error| {
        let log = program.log(device).unwrap_or_default();
        let first = log.lines().map(str::trim).find(|line| !line.is_empty());
        format!("{error}: {}", first.unwrap_or("the log is empty"))
    })?;
    if !part {
        program.kernels().map_err(|e| e.to_string())?;
    }
    Ok(())
}

fn print(verdict: &Verdict) -> String {
    match verdict {
        Verdict::Passed => "passed ".to_string(),
        Verdict::Failed(why) => format!("failed {why}"),
        Verdict::Skipped(why) => format!("skipped {why}"),
    }
}

fn parse(answer: &str) -> Verdict {
    match answer.split_once(' ') {
        Some(("passed", _)) => Verdict::Passed,
        Some(("skipped", why)) => Verdict::Skipped(why.to_string()),
        Some(("failed", why)) => Verdict::Failed(why.to_string()),
        _ => Verdict::Failed(format!("the worker answered {answer:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_survive_the_pipe() {
        for verdict in [
            Verdict::Passed,
            Verdict::Failed("clBuildProgram returned X: no symbol f(int)".into()),
            Verdict::Skipped("cl_khr_fp16".into()),
        ] {
            assert_eq!(parse(&print(&verdict)), verdict);
        }
        assert!(matches!(parse("nonsense"), Verdict::Failed(_)));
    }
}
