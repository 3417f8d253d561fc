//! Khronos's own conformance programs, run as a user built them: each sub-test in a process of its own, with limits of
//! time and memory, its output kept.

mod outcome;
mod table;

use crate::vendor::Vendor;
use crate::verdict::Verdict;
use spirula_tests::supervise::{self, Finished};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
pub use table::Profile;
use table::Program;

/// How the programs are run.
pub struct Settings<'a> {
    /// The ICD under test.
    pub icd: &'a Vendor,
    /// Where they lie, at any depth.
    pub folder: &'a Path,
    /// How thoroughly.
    pub profile: Profile,
    /// What each sub-test may take.
    pub limit: Duration,
    /// Bytes of address space that each may have.
    pub memory: u64,
    /// More arguments for each.
    pub arguments: &'a [String],
    /// Where each leaves its output, as PROGRAM/SUB-TEST.log.
    pub logs: &'a Path,
}

/// A sub-test of a program.
pub struct SubTest {
    /// The program's name.
    pub program: &'static str,
    /// The sub-test's own.
    pub name: String,
    path: PathBuf,
    arguments: Vec<String>,
}

/// The sub-tests of all programs that are there and that `wanted` names, if it names any; and the programs that are not
/// there.
pub fn sub_tests(
    settings: &Settings,
    wanted: &[String],
) -> Result<(Vec<SubTest>, Vec<&'static str>), String> {
    if let Some(unknown) = wanted.iter().find(|name| !table::PROGRAMS.iter().any(|p| p.name == **name)) {
        let known: Vec<&str> = table::PROGRAMS.iter().map(|p| p.name).collect();
        return Err(format!("no program is called {unknown:?}; there are {}", known.join(", ")));
    }
    let (mut found, mut missing) = (Vec::new(), Vec::new());
    for program in table::PROGRAMS.iter().filter(|p| wanted.is_empty() || wanted.iter().any(|w| w == p.name))
    {
        match find(settings.folder, program.name) {
            Some(path) => found.extend(list(settings, program, &path)?),
            None => missing.push(program.name),
        }
    }
    match found.is_empty() {
        true => Err(format!("{}: none of the programs is there", settings.folder.display())),
        false => Ok((found, missing)),
    }
}

/// The file of this name in the folder or below.
fn find(folder: &Path, name: &str) -> Option<PathBuf> {
    let mut folders = vec![folder.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(folder).ok()?.flatten() {
            let (path, kind) = (entry.path(), entry.file_type().ok()?);
            if kind.is_dir() && entry.file_name() != "CMakeFiles" {
                folders.push(path);
            } else if !kind.is_dir() && entry.file_name() == name {
                return path.canonicalize().ok();
            }
        }
    }
    None
}

fn list(settings: &Settings, program: &Program, path: &Path) -> Result<Vec<SubTest>, String> {
    let explain = |what: String| format!("{}, asked for its sub-tests: {what}", path.display());
    let mut command = Command::new(path);
    command.arg("--list");
    settings.icd.select(&mut command);
    let done = supervise::run(&mut command, settings.limit).map_err(|e| explain(e.to_string()))?;
    match done.status {
        Some(status) if status.success() => {}
        Some(status) => return Err(explain(supervise::describe(status))),
        None => return Err(explain("timed out".to_string())),
    }
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    let arguments = |name: &str| {
        let general = program.arguments(settings.profile).iter().copied().map(String::from);
        let all = general.chain(settings.arguments.iter().cloned());
        all.chain(program.choice(name).map(String::from)).collect()
    };
    let names = text.lines().filter_map(|line| line.strip_prefix('\t')).map(str::trim);
    let wanted = names.filter(|name| !name.is_empty() && program.includes(settings.profile, name));
    let sub_test = |name: &str| SubTest {
        program: program.name,
        name: name.to_string(),
        path: path.to_path_buf(),
        arguments: arguments(name),
    };
    Ok(wanted.map(sub_test).collect())
}

/// Runs a sub-test; gives what it tested with its fate: mostly itself, for the SPIR program each binary.
pub fn run(settings: &Settings, test: &SubTest) -> Vec<(String, Verdict)> {
    try_run(settings, test).unwrap_or_else(|e| vec![(test.name.clone(), Verdict::Failed(e.to_string()))])
}

fn try_run(settings: &Settings, test: &SubTest) -> io::Result<Vec<(String, Verdict)>> {
    let scratch = tempfile::Builder::new().prefix("khronos-cts").tempdir()?;
    let results = scratch.path().join("results.json");
    let folder = test.path.parent().unwrap_or(settings.folder);
    // The shell sets the limit, since only the child itself may lower it before it starts.
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -v \"$0\" && exec \"$@\""]).arg((settings.memory >> 10).to_string());
    command.arg(&test.path).args(&test.arguments);
    command.env("CL_CONFORMANCE_RESULTS_FILENAME", &results);
    if settings.profile == Profile::Quick {
        command.env("CL_WIMPY_MODE", "1");
    }
    command.current_dir(folder);
    settings.icd.select(&mut command);
    let done = supervise::run(&mut command, settings.limit)?;
    keep_log(settings, test, &done)?;
    let text = String::from_utf8_lossy(&done.stdout) + String::from_utf8_lossy(&done.stderr);
    let results = fs::read_to_string(&results).ok();
    Ok(match test.program {
        "test_spir" => outcome::of_spir(&test.name, done.status, &text),
        _ => vec![(test.name.clone(), outcome::of(&test.name, done.status, results.as_deref(), &text))],
    })
}

fn keep_log(settings: &Settings, test: &SubTest, done: &Finished) -> io::Result<()> {
    let folder = settings.logs.join(test.program);
    fs::create_dir_all(&folder)?;
    let status = done.status.map_or("killed: its time was over".to_string(), supervise::describe);
    let end = format!("\n-- standard error --\n{}\n-- {status}\n", String::from_utf8_lossy(&done.stderr));
    fs::write(folder.join(format!("{}.log", test.name)), [&done.stdout, end.as_bytes()].concat())
}
