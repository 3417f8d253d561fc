//! A sample of Khronos's SPIR suite as part of the tests, if its data is there: every so many-th program, each a test of
//! its own.

use libtest_mimic::{Arguments, Failed, Trial};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::{env, fs};

/// Names the folder of the data.
const VARIABLE: &str = "SPIRULA_KHRONOS_SPIR";
/// Of the 4,357 programs this leaves 312, some of every large suite.
const EVERY: &str = "14";

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let trials = match data() {
        _ if arguments.list => Vec::new(),
        None => vec![
            Trial::test(format!("Khronos's SPIR data is not there: set {VARIABLE} to its folder"), || Ok(()))
                .with_ignored_flag(true),
        ],
        Some(data) => run(&data).unwrap_or_else(|why| vec![Trial::test("sample", || Err(Failed::from(why)))]),
    };
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// The folder that the variable names, or `khronos-spir` or `shared/khronos-spir` beside the repository.
fn data() -> Option<PathBuf> {
    let named = env::var_os(VARIABLE).map(PathBuf::from);
    let beside = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."));
    let folders = named.map_or_else(
        || ["khronos-spir", "shared/khronos-spir"].map(|name| beside().join(name)).to_vec(),
        |folder| vec![folder],
    );
    folders.into_iter().find(|folder| folder.join("khr.csv").exists())
}

/// Runs the sample and makes a test of each outcome.
fn run(data: &Path) -> Result<Vec<Trial>, String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let report = folder.path().join("report.json");
    let mut command = Command::new(env!("CARGO_BIN_EXE_khronos-cts"));
    command.arg("spir").arg("--data").arg(data).args(["--every", EVERY, "--json"]).arg(&report);
    let done = command.output().map_err(|e| e.to_string())?;
    let text = fs::read_to_string(&report).map_err(|_| String::from_utf8_lossy(&done.stderr).into_owned())?;
    let report: Value = serde_json::from_str(&text).map_err(|e| e.to_string())?;
    let outcomes = report["outcomes"].as_array().ok_or("the report has no outcomes")?;
    Ok(outcomes.iter().map(trial).collect())
}

fn trial(outcome: &Value) -> Trial {
    let name = ["suite", "test"].map(|key| outcome[key].as_str().unwrap_or("?")).join("/");
    let verdict = outcome["verdict"].clone();
    let skipped = verdict.get("skipped").is_some();
    let run = move || if verdict == "passed" { Ok(()) } else { Err(Failed::from(verdict.to_string())) };
    Trial::test(name, run).with_ignored_flag(skipped)
}
