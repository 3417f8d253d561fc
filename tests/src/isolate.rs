//! The tests' own runner: every test in a child process with a time limit, so that a crash or a hang costs one test.
//! The same program is parent and child; libtest-mimic gives the parent the usual command line and output.

use crate::{icd, shuffle, supervise};
use libtest_mimic::{Arguments, Completion, Failed, Trial};
use std::collections::HashMap;
use std::ffi::c_int;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;
use std::{env, fs, panic};

/// Tells a child which test to run.
const CHILD_VARIABLE: &str = "SPIRULA_TEST";
/// Has the library run kernels in another process.
pub const ISOLATE: &str = "SPIRULA_ISOLATE";
/// Has the library offer no device but that whose pointers have 32 bits.
pub const DEVICE_OF_32_BITS: (&str, &str) = ("SPIRULA_DEVICES", "cpu32");
/// A child's exit status for a test that does not apply.
const SKIPPED: i32 = 77;
/// A child's exit status for a test that panicked, as Rust's programs have it.
const PANICKED: i32 = 101;

/// Why a test did not pass.
#[derive(Debug)]
pub enum Failure {
    /// Something is wrong.
    Failed(String),
    /// The device lacks what the test needs, and says so.
    Skipped(String),
}

impl<E: std::fmt::Display> From<E> for Failure {
    fn from(error: E) -> Self {
        Failure::Failed(error.to_string())
    }
}

/// What a test's body returns; it may also panic.
pub type Outcome = Result<(), Failure>;

/// A test.
pub struct Test {
    /// Unique in its program.
    pub name: String,
    /// The body, run in the child.
    pub body: Arc<dyn Fn() -> Outcome + Send + Sync>,
    /// Variables that the library reads in the child.
    pub variables: Vec<(&'static str, &'static str)>,
    /// The text that the child must print on standard output.
    pub stdout: Option<String>,
    /// How long it may take.
    pub limit: Duration,
    /// Only run with `--ignored`.
    pub ignored: bool,
}

impl Test {
    /// A test with the usual time limit.
    pub fn new(name: impl Into<String>, body: impl Fn() -> Outcome + Send + Sync + 'static) -> Test {
        let (body, limit) = (Arc::new(body), Duration::from_secs(60));
        Test { name: name.into(), body, variables: Vec::new(), stdout: None, limit, ignored: false }
    }

    /// The same test once more, in the isolated mode.
    pub fn isolated(&self) -> Test {
        self.again("isolated", (ISOLATE, "1"))
    }

    /// The same test once more, on the device of 32 bits.
    pub fn on_32_bits(&self) -> Test {
        self.again("cpu32", DEVICE_OF_32_BITS)
    }

    /// The same test once more, with both devices.
    pub fn on_both_devices(&self) -> Test {
        self.again("both", ("SPIRULA_DEVICES", "cpu64,cpu32"))
    }

    fn again(&self, prefix: &str, variable: (&'static str, &'static str)) -> Test {
        Test {
            name: format!("{prefix}::{}", self.name),
            body: self.body.clone(),
            variables: [&self.variables[..], &[variable]].concat(),
            stdout: self.stdout.clone(),
            ..*self
        }
    }

    /// The test's exit status.
    fn run_here(&self) -> i32 {
        leave_on_panic();
        match shuffle::watch(&*self.body) {
            Ok(()) => 0,
            Err(Failure::Failed(why)) => {
                eprintln!("{why}");
                1
            }
            Err(Failure::Skipped(why)) => {
                eprintln!("{why}");
                SKIPPED
            }
        }
    }

    fn run_in_child(&self, environment: &(&'static str, PathBuf)) -> Outcome {
        let mut command = child(&self.name)?;
        command.env(environment.0, &environment.1).env(icd::CACHE_VARIABLE, "");
        command.envs(self.variables.iter().copied());
        if let Some(seed) = shuffle::seed() {
            command.env(shuffle::VARIABLE, seed.to_string());
        }
        let done = supervise::run(&mut command, self.limit)?;
        let message = String::from_utf8_lossy(&done.stderr).trim_end().to_string();
        let Some(status) = done.status else {
            return Err(Failure::Failed(format!("{message}\ntimed out after {} s", self.limit.as_secs())));
        };
        match (status.code(), &self.stdout) {
            (Some(SKIPPED), _) => Err(Failure::Skipped(message)),
            (Some(0), Some(expected)) if done.stdout != expected.as_bytes() => {
                let got = String::from_utf8_lossy(&done.stdout);
                Err(Failure::Failed(format!("printed {got:?}, expected {expected:?}")))
            }
            (Some(0), _) => Ok(()),
            _ => Err(Failure::Failed(format!("{message}\n{}", supervise::describe(status)))),
        }
    }
}

/// Makes a panic, of any thread, the process's end: unwinding would free what queued commands still use, and what is wrong
/// has been said.
fn leave_on_panic() {
    unsafe extern "C" {
        safe fn _exit(status: c_int) -> !;
    }
    let report = panic::take_hook();
    panic::set_hook(Box::new(move |panic| {
        report(panic);
        _exit(PANICKED)
    }));
}

/// The command that runs one of this program's tests alone.
pub fn child(test: &str) -> std::io::Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.env(CHILD_VARIABLE, test);
    Ok(command)
}

/// Tests that are known to fail, with the reason: lines `NAME  REASON`, `#` comments; a name may end in `*`.
#[derive(Debug, Default)]
pub struct ExpectedFailures {
    exact: HashMap<String, String>,
    prefixes: Vec<(String, String)>,
}

impl ExpectedFailures {
    /// Parses the list's text.
    pub fn parse(text: &str) -> ExpectedFailures {
        let mut list = ExpectedFailures::default();
        for line in text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let (name, reason) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
            let reason = reason.trim().to_string();
            match name.strip_suffix('*') {
                Some(prefix) => list.prefixes.push((prefix.to_string(), reason)),
                None => drop(list.exact.insert(name.to_string(), reason)),
            }
        }
        list
    }

    /// The reason, if the test is listed.
    pub fn reason(&self, name: &str) -> Option<&str> {
        let by_prefix = || self.prefixes.iter().find(|(p, _)| name.starts_with(p.as_str())).map(|(_, r)| r);
        self.exact.get(name).or_else(by_prefix).map(String::as_str)
    }

    /// Exact entries that no test has.
    pub fn unknown(&self, is_test: impl Fn(&str) -> bool) -> Vec<&str> {
        self.exact.keys().map(String::as_str).filter(|name| !is_test(name)).collect()
    }
}

/// Whether the library runs kernels in another process.
pub fn isolates() -> bool {
    env::var_os(ISOLATE).is_some_and(|value| value != "0")
}

/// A test's outcome where kernels run in another process, if it needs them in this one.
pub fn needs_one_process() -> Outcome {
    match isolates() {
        true => Err(Failure::Skipped(format!("with {ISOLATE} kernels can't reach the application"))),
        false => Ok(()),
    }
}

/// A test program's `main`.
pub fn main(tests: Vec<Test>, expected: ExpectedFailures) -> ExitCode {
    if let Ok(name) = env::var(CHILD_VARIABLE) {
        let test = tests.iter().find(|test| test.name == name).expect("the parent names one of the tests");
        // Not a return from main: the application's exit, with its handlers, belongs to the test.
        std::process::exit(test.run_here());
    }
    let arguments = Arguments::from_args();
    let environment = match icd::library().and_then(|l| icd::environment(&l).map_err(|e| e.to_string())) {
        Ok(environment) => Arc::new(environment),
        Err(why) => {
            eprintln!("{why}");
            return ExitCode::FAILURE;
        }
    };
    shuffle::seed(); // which is printed if it is a new one: before anything else
    let expected = Arc::new(expected);
    let trials = tests.into_iter().map(|test| trial(test, &environment, &expected)).collect();
    let conclusion = libtest_mimic::run(&arguments, trials);
    let _ = fs::remove_dir_all(&environment.1);
    conclusion.exit_code()
}

fn trial(test: Test, environment: &Arc<(&'static str, PathBuf)>, expected: &Arc<ExpectedFailures>) -> Trial {
    let (environment, expected) = (environment.clone(), expected.clone());
    let (name, ignored) = (test.name.clone(), test.ignored);
    let body = move || verdict(test.run_in_child(&environment), expected.reason(&test.name));
    Trial::ignorable_test(name, body).with_ignored_flag(ignored)
}

/// A known failure counts as ignored; one that passes is an error, so that the list shrinks.
fn verdict(outcome: Outcome, expected: Option<&str>) -> Result<Completion, Failed> {
    match (outcome, expected) {
        (Ok(()), None) => Ok(Completion::Completed),
        (Ok(()), Some(_)) => Err("passes, though listed as an expected failure: take it off the list".into()),
        (Err(Failure::Skipped(why)), _) => Ok(Completion::ignored_with(format!("skipped, {why}"))),
        (Err(Failure::Failed(_)), Some(reason)) => Ok(Completion::ignored_with(format!("fails, {reason}"))),
        (Err(Failure::Failed(why)), None) => Err(why.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_expected_failures() {
        let list =
            ExpectedFailures::parse("# comment\nspir20_*  issue 5\n\nspir12_printf  issue 4: printf\n");
        assert_eq!(list.reason("spir20_anything"), Some("issue 5"));
        assert_eq!(list.reason("spir12_printf"), Some("issue 4: printf"));
        assert_eq!(list.reason("spir12_printf_more"), None);
        assert_eq!(list.unknown(|_| false), ["spir12_printf"]);
        assert!(list.unknown(|name| name == "spir12_printf").is_empty());
    }

    #[test]
    fn a_listed_test_that_passes_is_an_error() {
        assert!(verdict(Ok(()), Some("why")).is_err());
        assert!(verdict(Ok(()), None).is_ok());
        assert!(verdict(Err(Failure::Failed("x".into())), Some("why")).is_ok());
        assert!(verdict(Err(Failure::Failed("x".into())), None).is_err());
    }
}
