//! `spirula compile`: a program ahead of time.

use crate::Result;
use crate::arguments::{Common, Compile};
use crate::client::{Context, Device, Program};
use crate::input::Input;
use crate::library::Library;
use crate::output::{self, Doing};
use serde::{Deserialize, Serialize};
use spirula_interface::bundle;
use spirula_interface::target::Level;
use std::ffi::OsStr;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

/// What came of it.
#[derive(Serialize, Deserialize)]
struct Compiled {
    output: PathBuf,
    bytes: usize,
    kernels: Vec<String>,
    seconds: f64,
    /// Warnings and remarks.
    log: String,
}

pub fn run(common: &Common, wanted: &Compile) -> Result<bool> {
    let mut levels: Vec<Level> = wanted.cpu.iter().map(|level| level.known()).collect();
    // Whoever loads the program takes the first that fits.
    levels.sort_by_key(|&level| std::cmp::Reverse(level));
    levels.dedup();
    let own = spirula_service::processor_level();
    if let Some(level) = levels.first().filter(|&&level| own < Some(level)) {
        let level = level.name();
        return Err(
            format!("this processor is not of {level}: programs for it are made on one that is").into()
        );
    }
    let compiled = match levels[..] {
        [] => one(common, wanted, None)?,
        [level] => one(common, wanted, Some(level))?,
        _ => several(common, wanted, &levels)?,
    };
    if common.json {
        output::json(&compiled)?;
        return Ok(true);
    }
    output::note(&compiled.log);
    let Compiled { output, bytes, kernels, .. } = &compiled;
    let size = output::bytes(*bytes as u64);
    output::text(&format!("{}: {size}, kernels {}\n", output.display(), kernels.join(", ")))?;
    Ok(true)
}

/// For this machine or for a level.
fn one(common: &Common, wanted: &Compile, level: Option<Level>) -> Result<Compiled> {
    let inputs: Vec<Input> = wanted.files.iter().map(|file| Input::read(file)).collect::<Result<_>>()?;
    // Whoever compiles ahead of time has the time.
    let mut variables = vec![("SPIRULA_TIER", OsStr::new("optimized"))];
    variables.extend(level.map(|level| ("SPIRULA_CPU", OsStr::new(level.name()))));
    let library = Library::load(common, &variables)?;
    let device = Device::first(&library)?;
    let context = Context::new(&device)?;
    let (doing, begun) = (Doing::new("compiling"), Instant::now());
    let program = Program::build(&context, &device, &inputs, &wanted.options)?;
    let (seconds, binary) = (begun.elapsed().as_secs_f64(), program.binary()?);
    drop(doing);
    let (kernels, log) = (program.kernel_names()?, program.log(&device)?);
    write(wanted, &binary)?;
    Ok(Compiled { output: wanted.output.clone(), bytes: binary.len(), kernels, seconds, log })
}

/// For each level in a process of its own: the library has one for as long as it is loaded.
fn several(common: &Common, wanted: &Compile, levels: &[Level]) -> Result<Compiled> {
    let folder = tempfile::tempdir()?;
    let mut binaries = Vec::new();
    let mut all: Option<Compiled> = None;
    for level in levels {
        let place = folder.path().join(level.name());
        let mut command = Command::new(std::env::current_exe()?);
        command
            .args(common.library.iter().flat_map(|library| [OsStr::new("--library"), library.as_os_str()]));
        command.args(["--json", "compile", "--cpu", level.name(), "--options", &wanted.options, "--output"]);
        let done = command.arg(&place).arg("--").args(&wanted.files).output()?;
        if !done.status.success() {
            let said = String::from_utf8_lossy(&done.stderr).into_owned();
            return Err(said.trim_start_matches("spirula: ").to_owned().into());
        }
        let one: Compiled = serde_json::from_slice(&done.stdout)?;
        binaries.push(std::fs::read(&place)?);
        let seconds = all.as_ref().map_or(0.0, |all| all.seconds) + one.seconds;
        all = Some(Compiled { seconds, ..one });
    }
    let file = bundle::join(&binaries);
    write(wanted, &file)?;
    let all = all.ok_or("there is no level")?;
    Ok(Compiled { output: wanted.output.clone(), bytes: file.len(), ..all })
}

fn write(wanted: &Compile, bytes: &[u8]) -> Result<()> {
    let failed = |error| format!("{}: {error}", wanted.output.display());
    Ok(std::fs::write(&wanted.output, bytes).map_err(failed)?)
}
