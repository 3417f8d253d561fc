//! `spirula`: what the library is, what it makes of a program, and how fast it is here, for who sits at a terminal.
//!
//! Whatever builds or runs a program does so through libspirula.so as an application would (`library`, `client`); whatever only looks
//! at files uses the library's own code (`spirula-service`).

mod arguments;
mod bench;
mod built;
mod cache;
mod check;
mod client;
mod compile;
mod explain;
mod info;
mod input;
mod library;
mod output;
mod show;

use arguments::{Arguments, Command};
use clap::{CommandFactory, Parser};
use std::io;
use std::process::ExitCode;

/// Something that was looked at is not as it should be: it was said where.
const WRONG: u8 = 1;
/// What was asked for can't be done.
const FAILED: u8 = 2;

/// Why something can't be done, in words.
type Error = Box<dyn std::error::Error>;
type Result<T, E = Error> = std::result::Result<T, E>;

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(&arguments) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::from(WRONG),
        Err(error) if is_closed_pipe(&*error) => ExitCode::SUCCESS,
        Err(error) => {
            output::error(&error.to_string());
            ExitCode::from(FAILED)
        }
    }
}

/// Whether all is as it should be.
fn run(arguments: &Arguments) -> Result<bool> {
    let Arguments { common, command } = arguments;
    match command {
        Command::Info => info::run(common),
        Command::Check { files } => check::run(common, files),
        Command::Compile(wanted) => compile::run(common, wanted),
        Command::Show(wanted) => show::run(common, wanted),
        Command::Explain(wanted) => explain::run(common, wanted),
        Command::Cache { action } => cache::run(common, *action),
        Command::Bench { seconds } => bench::run(common, *seconds),
        Command::Manual => {
            clap_mangen::Man::new(Arguments::command()).render(&mut io::stdout())?;
            Ok(true)
        }
        Command::Completions { shell } => {
            clap_complete::generate(*shell, &mut Arguments::command(), "spirula", &mut io::stdout());
            Ok(true)
        }
    }
}

/// Whoever closed the pipe has seen enough.
fn is_closed_pipe(error: &(dyn std::error::Error + 'static)) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
