//! `spirula compile`: a program ahead of time.

use crate::Result;
use crate::arguments::{Common, Compile, Level};
use crate::client::{Context, Device, Program};
use crate::input::Input;
use crate::library::Library;
use crate::output::{self, Doing};
use clap::ValueEnum;
use serde::Serialize;
use std::ffi::OsStr;
use std::path::Path;
use std::time::Instant;

/// What came of it.
#[derive(Serialize)]
struct Compiled<'a> {
    output: &'a Path,
    bytes: usize,
    kernels: Vec<String>,
    seconds: f64,
    /// Warnings and remarks.
    log: String,
}

pub fn run(common: &Common, wanted: &Compile) -> Result<bool> {
    let inputs: Vec<Input> = wanted.files.iter().map(|file| Input::read(file)).collect::<Result<_>>()?;
    let level = wanted.cpu.as_ref().and_then(Level::to_possible_value);
    // Whoever compiles ahead of time has the time.
    let mut variables = vec![("SPIRULA_TIER", OsStr::new("optimized"))];
    variables.extend(level.as_ref().map(|level| ("SPIRULA_CPU", OsStr::new(level.get_name()))));
    let library = Library::load(common, &variables)?;
    let device = Device::first(&library)?;
    let context = Context::new(&device)?;
    let (doing, begun) = (Doing::new("compiling"), Instant::now());
    let program = Program::build(&context, &device, &inputs, &wanted.options)?;
    let (seconds, binary) = (begun.elapsed().as_secs_f64(), program.binary()?);
    drop(doing);
    let failed = |error| format!("{}: {error}", wanted.output.display());
    std::fs::write(&wanted.output, &binary).map_err(failed)?;
    let compiled = Compiled {
        output: &wanted.output,
        bytes: binary.len(),
        kernels: program.kernel_names()?,
        seconds,
        log: program.log(&device)?,
    };
    if common.json {
        output::json(&compiled)?;
        return Ok(true);
    }
    output::note(&compiled.log);
    let Compiled { bytes, kernels, .. } = &compiled;
    let size = output::bytes(*bytes as u64);
    output::text(&format!("{}: {size}, kernels {}\n", wanted.output.display(), kernels.join(", ")))?;
    Ok(true)
}
