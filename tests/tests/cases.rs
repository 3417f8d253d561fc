//! Every case of `fixtures/cases.json` as a test, each in a process of its own: from SPIR, on the
//! device of 32 bits from SPIR of 32 bits, and from the SPIR-V that translators
//! make of the same source, as such and as LLVM IR.

use spirula_tests::cases::{self, Case, Form};
use spirula_tests::fixtures;
use spirula_tests::isolate::{self, DEVICE_OF_32_BITS, ExpectedFailures, Test};
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
    let of = |form| {
        cases.iter().filter(move |case| is_there(case, form)).map(move |case| test(case.clone(), form))
    };
    let forms = [Form::SpirV, Form::SpirV32, Form::Friendly, Form::Spir, Form::Spir32];
    let mut tests: Vec<Test> = forms.into_iter().flat_map(of).collect();
    tests.push(Test::new("expected_failures_are_in_order", move || match complaints.as_slice() {
        [] => Ok(()),
        some => Err(some.join("\n").into()),
    }));
    isolate::main(tests, expected)
}

fn test(case: Case, form: Form) -> Test {
    let prefix = match form {
        Form::Spir => "",
        Form::SpirV => "il_",
        Form::SpirV32 => "cpu32_il_",
        Form::Friendly => "friendly_",
        Form::Spir32 => "cpu32_",
    };
    let is_of_32_bits = [Form::Spir32, Form::SpirV32].contains(&form);
    let variables = if is_of_32_bits { vec![DEVICE_OF_32_BITS] } else { Vec::new() };
    let (name, stdout) = (format!("{prefix}{}", case.name), case.stdout.clone());
    let limit = Duration::from_secs(30);
    Test { stdout, limit, variables, ..Test::new(name, move || cases::run(&case, form)) }
}

/// Whether there are all of a case's files in this form, from a translator that got them right.
fn is_there(case: &Case, form: Form) -> bool {
    // OpImageQueryFormat yields SPIR-V's numbers; clang 22's translator compares them with OpenCL C's.
    let is_wrong = form == Form::SpirV && case.name == "spir12_images_queries";
    let mut files = std::iter::once(&case.file).chain(case.link.iter().flatten());
    !is_wrong && files.all(|file| fixtures::folder().join(form.path(file)).exists())
}

/// What is wrong with the list: promised cases on it, and entries that no case has.
fn complaints(cases: &[Case], expected: &ExpectedFailures) -> Vec<String> {
    let promised = |c: &&Case| c.file.strip_prefix("spir12/").is_some_and(|file| PROMISED.contains(&file));
    let excused = cases.iter().filter(promised).filter(|c| expected.reason(&c.name).is_some());
    let excused = excused.map(|c| format!("{} is promised, but listed as an expected failure", c.name));
    let unknown = expected.unknown(|name| cases.iter().any(|c| c.name == name));
    excused.chain(unknown.into_iter().map(|name| format!("no case is called {name}"))).collect()
}
