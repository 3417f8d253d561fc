//! `spirula-compiler --check FILE`: what is to be said of a module against SPIR's rules, found under the limits and in the sandbox of
//! a worker.

use super::{caught, confine, crash, memory, on_large_stack, sandbox, set_timers};
use crate::front;
use spirula_interface::options::CompileOptions;
use spirula_interface::protocol::{Product, Role};
use std::io::{self, Read, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

/// Seconds that a module may take.
const PATIENCE: u32 = 120;
/// Bytes of a file.
const MOST: u64 = 1 << 30;

/// Prints the findings. 0 without errors, 1 with some, 2 if there is nothing to check.
pub fn check(file: &Path) -> ExitCode {
    confine();
    crash::speak_to_user();
    let bytes = match std::fs::File::open(file).and_then(read) {
        Ok(bytes) => bytes,
        Err(error) => {
            eprintln!("{}: {error}", file.display());
            return ExitCode::from(2);
        }
    };
    memory::install();
    let missing = sandbox::enter(Role::Compiler, None);
    if !missing.is_empty() {
        eprintln!("this kernel lacks {}", missing.join(", "));
    }
    set_timers(PATIENCE, 0);
    let is_taken = AtomicBool::new(false);
    let report = || {
        let (text, taken) = front::report(&bytes, &CompileOptions::default());
        is_taken.store(taken, Relaxed);
        Ok(Product::Checked(text))
    };
    let text = match on_large_stack(|watch| watch.during(|| caught(report))) {
        Ok(Ok(Product::Checked(text))) => text,
        Ok(Ok(_)) => String::new(),
        Ok(Err(error)) => format!("error: {error}\n"),
        Err(error) => format!("error: no thread: {error}\n"),
    };
    // Who closed the pipe knows enough.
    let _ = io::stdout().write_all(text.as_bytes());
    if is_taken.load(Relaxed) { ExitCode::SUCCESS } else { ExitCode::from(1) }
}

fn read(file: std::fs::File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(MOST + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
}
