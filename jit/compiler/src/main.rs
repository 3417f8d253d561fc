//! `spirula-compiler`: the program that libspirula.so runs to compile, one request after the other, over the socket that is
//! its standard input; in the isolated mode, to run kernels; and at its end, to finish what is kept.

use spirula_compiler::worker;
use spirula_interface::protocol::Role;
use spirula_service::process::finisher;
use std::process::ExitCode;

fn main() -> ExitCode {
    let first = std::env::args_os().nth(1).map(|first| first.to_string_lossy().into_owned());
    match first.as_deref().and_then(Role::of_argument) {
        Some(Role::Executor) => spirula_runtime::isolation::serve(worker::confine_executor),
        Some(role) => worker::serve(role, worker::perform),
        None => {}
    }
    match first.as_deref() {
        Some(first) if Ok(first) == finisher::ARGUMENT.to_str() => {
            finisher::serve();
            ExitCode::SUCCESS
        }
        Some("--version") => {
            println!("spirula-compiler {}", spirula_interface::identity::BUILD);
            ExitCode::SUCCESS
        }
        Some("--check") if std::env::args_os().len() == 3 => {
            let file = std::env::args_os().nth(2).unwrap_or_default();
            worker::check(std::path::Path::new(&file))
        }
        _ => {
            eprintln!(
                "This is Spirula's compiler: libspirula.so runs it. --version names its build, --check FILE says what is \
                 against SPIR's rules in a binary."
            );
            ExitCode::FAILURE
        }
    }
}
