//! Runs child processes that may crash or hang: one to its end, or one that answers line by line.

use crate::running::Running;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// How a child ended.
#[derive(Debug)]
pub struct Finished {
    /// Its exit status; `None` if it was killed because its time was over.
    pub status: Option<ExitStatus>,
    /// All of its standard output.
    pub stdout: Vec<u8>,
    /// All of its standard error.
    pub stderr: Vec<u8>,
}

/// Runs a command to its end, or for so long. Its output goes through files: a grandchild that outlives the child
/// and holds its pipes can't make this wait.
pub fn run(command: &mut Command, limit: Duration) -> io::Result<Finished> {
    let (mut stdout, mut stderr) = (tempfile::tempfile()?, tempfile::tempfile()?);
    command.stdin(Stdio::null()).stdout(stdout.try_clone()?).stderr(stderr.try_clone()?).process_group(0);
    let mut child = command.spawn()?;
    let status = wait(&mut child, limit)?;
    Ok(Finished { status, stdout: contents(&mut stdout)?, stderr: contents(&mut stderr)? })
}

/// "killed by signal 11", "exited with status 3".
pub fn describe(status: ExitStatus) -> String {
    match (status.signal(), status.code()) {
        (Some(signal), _) => format!("killed by signal {signal}"),
        (None, Some(code)) => format!("exited with status {code}"),
        (None, None) => "ended in an unknown way".to_string(),
    }
}

fn wait(child: &mut Child, limit: Duration) -> io::Result<Option<ExitStatus>> {
    let mut clock = Running::start();
    loop {
        if let Some(status) = child.try_wait()? {
            return Ok(Some(status));
        }
        if clock.now() > limit {
            kill_group(child);
            child.wait()?;
            return Ok(None);
        }
        thread::sleep(Duration::from_millis(2));
    }
}

/// Kills the child, which leads a process group, and what it started.
fn kill_group(child: &Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw) {
        let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
    }
}

fn contents(file: &mut File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// A child that reads requests and writes answers, a line each. Answers start with [`Worker::MARK`], so that
/// whatever else the library under test prints is no answer.
pub struct Worker {
    child: Child,
    answers: Receiver<String>,
}

/// Why a worker gave no answer; it is gone then.
#[derive(Debug)]
pub enum Lost {
    /// It died, and how.
    Died(String),
    /// It took too long and was killed.
    TimedOut,
}

impl Worker {
    /// What an answer's line starts with.
    pub const MARK: &str = "@answer ";

    /// Starts it; its standard error is dropped.
    pub fn start(command: &mut Command) -> io::Result<Worker> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()?;
        let stdout = child.stdout.take().expect("stdout is piped");
        let (sender, answers) = channel();
        thread::spawn(move || {
            for line in BufReader::new(stdout).lines().map_while(Result::ok) {
                if let Some(answer) = line.strip_prefix(Self::MARK)
                    && sender.send(answer.to_string()).is_err()
                {
                    break;
                }
            }
        });
        Ok(Worker { child, answers })
    }

    /// Sends a request (one line) and waits for its answer.
    pub fn ask(&mut self, request: &str, limit: Duration) -> Result<String, Lost> {
        let stdin = self.child.stdin.as_mut().expect("stdin is piped");
        let _ = writeln!(stdin, "{request}").and_then(|()| stdin.flush()); // a dead child shows below
        match self.answers.recv_timeout(limit) {
            Ok(answer) => Ok(answer),
            Err(RecvTimeoutError::Timeout) => {
                kill_group(&self.child);
                let _ = self.child.wait();
                Err(Lost::TimedOut)
            }
            Err(RecvTimeoutError::Disconnected) => {
                Err(Lost::Died(self.child.wait().map_or_else(|e| e.to_string(), describe)))
            }
        }
    }

    /// The child's part: answers each line of standard input until it ends.
    pub fn serve(mut answer: impl FnMut(&str) -> String) {
        for line in io::stdin().lines().map_while(Result::ok) {
            println!("{}{}", Self::MARK, answer(&line).replace('\n', " "));
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.child.stdin.take()); // the end of its input ends it
        if !matches!(wait(&mut self.child, Duration::from_secs(5)), Ok(Some(_))) {
            kill_group(&self.child);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn output_and_status_of_a_child() {
        let done = run(&mut shell("echo out; echo err >&2; exit 3"), Duration::from_secs(10)).unwrap();
        assert_eq!(done.status.map(describe).as_deref(), Some("exited with status 3"));
        assert_eq!((&done.stdout[..], &done.stderr[..]), (&b"out\n"[..], &b"err\n"[..]));
    }

    #[test]
    fn a_crash_is_named_and_a_hang_ends() {
        let crashed = run(&mut shell("kill -SEGV $$"), Duration::from_secs(10)).unwrap();
        assert_eq!(crashed.status.map(describe).as_deref(), Some("killed by signal 11"));
        let start = std::time::Instant::now();
        let hung = run(&mut shell("sleep 60 & sleep 60"), Duration::from_millis(50)).unwrap();
        assert!(hung.status.is_none());
        assert!(start.elapsed() < Duration::from_secs(60), "it was not waited for");
    }

    #[test]
    fn a_worker_answers_until_it_dies() {
        let script = "while read x; do [ $x = die ] && exit 9; echo noise; echo \"@answer got $x\"; done";
        let mut worker = Worker::start(&mut shell(script)).unwrap();
        let limit = Duration::from_secs(10);
        assert_eq!(worker.ask("a", limit).unwrap(), "got a");
        assert_eq!(worker.ask("b", limit).unwrap(), "got b");
        assert!(matches!(worker.ask("die", limit), Err(Lost::Died(how)) if how == "exited with status 9"));
    }

    #[test]
    fn a_worker_that_hangs_is_killed() {
        let mut worker = Worker::start(&mut shell("read x; sleep 60")).unwrap();
        assert!(matches!(worker.ask("a", Duration::from_millis(50)), Err(Lost::TimedOut)));
    }
}
