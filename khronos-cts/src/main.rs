//! Runs Khronos's SPIR suite against an ICD. Today: does every 64-bit binary of the suite build?

mod build;
mod report;
mod suite;

use clap::{Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Runs Khronos's SPIR 1.2 conformance data against an OpenCL ICD.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Builds every 64-bit binary and reports what fails, and why.
    Build {
        /// The folder of OpenCL-CTS/test_conformance/spir's zip files and khr.csv.
        #[arg(long)]
        data: PathBuf,
        /// The ICD's shared library; by default the libspirula.so built beside this program.
        #[arg(long)]
        icd: Option<PathBuf>,
        /// Programs built at the same time.
        #[arg(long, default_value_t = std::thread::available_parallelism().map_or(1, usize::from))]
        jobs: usize,
        /// Seconds that one program may take.
        #[arg(long, default_value_t = 60)]
        timeout: u64,
        /// Only programs whose SUITE/NAME contains this.
        #[arg(long, default_value = "")]
        only: String,
        /// Programs named for each reason of failure.
        #[arg(long, default_value_t = 5)]
        examples: usize,
    },
    /// Builds what standard input names; started by `build`.
    #[command(hide = true)]
    Worker {
        /// As of `build`.
        #[arg(long)]
        data: PathBuf,
    },
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Build { data, icd, jobs, timeout, only, examples } => {
            let timeout = Duration::from_secs(timeout);
            build::run(&data, icd.as_deref(), jobs, timeout, &only)
                .map(|verdicts| report::print(&verdicts, examples))
        }
        Command::Worker { data } => build::serve(&data).map(|()| ExitCode::SUCCESS),
    };
    outcome.unwrap_or_else(|why| {
        eprintln!("khronos-cts: {why}");
        ExitCode::from(2)
    })
}
