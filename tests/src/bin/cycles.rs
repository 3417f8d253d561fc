//! Repeats the whole life of OpenCL objects and prints the memory that the process holds: `cycles [COUNT]`.

use spirula_tests::isolate::Failure;
use spirula_tests::{cl::Device, cycle, icd};
use std::process::ExitCode;
use std::time::Instant;

fn main() -> ExitCode {
    let count = match std::env::args().nth(1).map_or(Ok(10_000), |text| text.parse::<usize>()) {
        Ok(count) if count > 0 => count,
        _ => {
            eprintln!("usage: cycles [COUNT]");
            return ExitCode::from(2);
        }
    };
    match cycles(count) {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Failed(why) | Failure::Skipped(why)) => {
            eprintln!("cycles: {why}");
            ExitCode::FAILURE
        }
    }
}

fn cycles(count: usize) -> Result<(), Failure> {
    let _selected = icd::select()?;
    let device = Device::first();
    let start = Instant::now();
    println!("  cycle  resident KiB  open files  children  seconds");
    for round in 0..=count {
        cycle::once(device, round)?;
        if round % count.div_ceil(20) == 0 || round == count {
            let (memory, files, children) = (cycle::resident_kib(), cycle::open_files(), cycle::children());
            println!("{round:7} {memory:13} {files:11} {children:9} {:8.1}", start.elapsed().as_secs_f64());
        }
    }
    Ok(())
}
