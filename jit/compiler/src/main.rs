//! `spirula-compiler`: the program that libspirula.so runs to compile, one request after the other, over the socket that is
//! its standard input.

use spirula_compiler::worker;
use spirula_interface::protocol::Role;
use std::process::ExitCode;

fn main() -> ExitCode {
    let first = std::env::args().nth(1);
    if let Some(role) = first.as_deref().and_then(Role::of_argument) {
        worker::serve(role, worker::perform);
    }
    match first.as_deref() {
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
