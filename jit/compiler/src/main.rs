//! `spirula-compiler`: the program that libspirula.so runs to compile, one request after the other, over the socket that is
//! its standard input.

use spirula_compiler::worker;
use std::process::ExitCode;

fn main() -> ExitCode {
    match std::env::args().nth(1).as_deref() {
        Some("--worker") => worker::serve(worker::perform),
        Some("--version") => {
            println!("spirula-compiler {}", spirula_interface::identity::BUILD);
            ExitCode::SUCCESS
        }
        _ => {
            eprintln!("This is Spirula's compiler: libspirula.so runs it. --version names its build.");
            ExitCode::FAILURE
        }
    }
}
