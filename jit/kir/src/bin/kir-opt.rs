//! `kir-opt`: runs named passes on a function in Kernel IR's text form, verifies after each, and prints what comes out.
//!
//! ```text
//! cargo run -p spirula-kir --bin kir-opt -- --passes regions,widen,lower FILE
//! ```

use spirula_interface::options::Usual;
use spirula_interface::target::TargetFacts;
use spirula_kir::pipeline::{Form, Options, PASSES, Pass};
use spirula_kir::{parse, verify};
use std::io::Read;
use std::process::ExitCode;

const USAGE: &str = "usage: kir-opt [--passes NAME,NAME...] [--lanes N] [--vector-bits N] FILE

Runs the passes in the order given, all of them if none are named; FILE may be - for standard input.
--lanes N        so many work-items to a pack, 1 for none, instead of what the cost model chooses
--vector-bits N  bits of a vector register, 512 if nothing is said
--linear-memory  pointers are offsets of 32 bits in a block of memory
--rows N         rows are expected to be multiples of so many work-items, and buffers to be disjoint

The passes, in the order of a build:
";

/// What the command line asks for.
struct Request {
    passes: Vec<&'static Pass>,
    options: Options,
    file: String,
}

fn main() -> ExitCode {
    match request(std::env::args().skip(1)).and_then(|request| perform(&request)) {
        Ok(text) => {
            print!("{text}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("kir-opt: {error}");
            ExitCode::FAILURE
        }
    }
}

fn request(mut arguments: impl Iterator<Item = String>) -> Result<Request, String> {
    let mut passes: Vec<&Pass> = PASSES.iter().collect();
    let (mut lanes, mut vector_bits, mut file) = (None, 512, None);
    let (mut linear_memory, mut usual) = (false, None);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or_else(|| format!("{argument} wants a value"));
        match argument.as_str() {
            "--passes" => {
                let named =
                    |name: &str| Pass::named(name).ok_or_else(|| format!("no pass is called `{name}`"));
                passes = value()?.split(',').map(named).collect::<Result<_, String>>()?;
            }
            "--lanes" => {
                let asked = value()?.parse().ok().filter(|n: &u32| n.is_power_of_two() && *n <= 64);
                lanes = Some(asked.ok_or("--lanes wants a power of two up to 64")?);
            }
            "--linear-memory" => linear_memory = true,
            "--rows" => {
                let rows = value()?.parse().map_err(|_| "--rows wants a number")?;
                usual = Some(Usual { rows, disjoint: true, ..Usual::NOTHING });
            }
            "--vector-bits" => {
                let asked = value()?.parse().ok().filter(|bits| [128, 256, 512].contains(bits));
                vector_bits = asked.ok_or("--vector-bits wants 128, 256 or 512")?;
            }
            name if file.is_none() && (name == "-" || !name.starts_with('-')) => file = Some(argument),
            _ => return Err(usage()),
        }
    }
    let facts = TargetFacts::with_vectors(vector_bits);
    Ok(Request {
        passes,
        options: Options {
            facts,
            lanes,
            preferred_lanes: None,
            optimize: true,
            verify: true,
            explain: true,
            linear_memory,
            usual,
        },
        file: file.ok_or_else(usage)?,
    })
}

fn usage() -> String {
    PASSES.iter().fold(USAGE.to_owned(), |text, pass| format!("{text}{:16} {}\n", pass.name, pass.reason))
}

/// The text of what the passes make of the file.
fn perform(request: &Request) -> Result<String, String> {
    let mut text = String::new();
    let read = match request.file.as_str() {
        "-" => std::io::stdin().read_to_string(&mut text).map(drop),
        path => std::fs::read_to_string(path).map(|read| text = read),
    };
    read.map_err(|error| format!("{}: {error}", request.file))?;
    let function = parse(&text).map_err(|error| format!("{}: {error}", request.file))?;
    verify(&function).map_err(|error| format!("{}: {error}", request.file))?;
    let symbol = format!("{}.group", function.name);
    let mut form = Form::Function(function);
    for pass in &request.passes {
        let mut remarks = Vec::new();
        form = pass.apply(form, &symbol, &request.options, &mut remarks).map_err(|e| e.to_string())?;
        remarks.iter().for_each(|remark| eprintln!("{remark}"));
    }
    Ok(form.to_string())
}
