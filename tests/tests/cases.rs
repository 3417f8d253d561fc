//! Every case of `fixtures/cases.json` as a test, each in a process of its own.

use spirula_tests::cases::{self, Case};
use spirula_tests::isolate::{self, ExpectedFailures, Test};
use std::process::ExitCode;
use std::time::Duration;

/// The files whose cases must all pass: no entry of `expected-failures.txt` may excuse one.
const PROMISED: [&str; 20] = [
    "vadd",
    "args",
    "structs",
    "ids",
    "localmem",
    "barriers",
    "reqd",
    "kcall",
    "helpers",
    "loops",
    "loops_fib",
    "control",
    "vectors",
    "consts",
    "intops",
    "atomics",
    "link_main",
    "unresolved",
    "phi_select",
    "volatiles",
];

fn main() -> ExitCode {
    let expected = ExpectedFailures::parse(include_str!("../expected-failures.txt"));
    let cases = cases::load();
    let complaints = complaints(&cases, &expected);
    let mut tests: Vec<Test> = cases.into_iter().map(test).collect();
    tests.push(Test::new("expected_failures_are_in_order", move || match complaints.as_slice() {
        [] => Ok(()),
        some => Err(some.join("\n").into()),
    }));
    isolate::main(tests, expected)
}

fn test(case: Case) -> Test {
    let (name, stdout) = (case.name.clone(), case.stdout.clone());
    Test { stdout, limit: Duration::from_secs(30), ..Test::new(name, move || cases::run(&case)) }
}

/// What is wrong with the list: promised cases on it, and entries that no case has.
fn complaints(cases: &[Case], expected: &ExpectedFailures) -> Vec<String> {
    let promised = |c: &&Case| c.file.strip_prefix("spir12/").is_some_and(|file| PROMISED.contains(&file));
    let excused = cases.iter().filter(promised).filter(|c| expected.reason(&c.name).is_some());
    let excused = excused.map(|c| format!("{} is promised, but listed as an expected failure", c.name));
    let unknown = expected.unknown(|name| cases.iter().any(|c| c.name == name));
    excused.chain(unknown.into_iter().map(|name| format!("no case is called {name}"))).collect()
}
