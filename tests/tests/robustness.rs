//! What applications do to the library: the demo's, and for hours damaged binaries, random kernels, and objects made and
//! released. `SPIRULA_MUTANTS=100000` tries that many damaged binaries instead of 200.

use rustix::io::Errno;
use rustix::process::WaitOptions;
use spirula_tests::cl::{Context, Device, Program, SPIR12};
use spirula_tests::isolate::{self, ExpectedFailures, Outcome, Test};
use spirula_tests::mutate::{bitcode_mutant, mutant};
use spirula_tests::{cycle, fixtures, supervise};
use std::fs;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use std::{env, ops::Range, thread};

/// Damaged binaries for each child process.
const BATCH: u64 = 25;
/// How long one damaged binary may take on the average.
const PATIENCE: Duration = Duration::from_secs(20);
/// Memory growth that is no leak, over the last three quarters of the cycles.
const GROWTH_KIB: u64 = 4096;

fn main() -> ExitCode {
    let mutants = env::var("SPIRULA_MUTANTS").ok().and_then(|n| n.parse().ok()).unwrap_or(200u64);
    let batches = (0..mutants).step_by(BATCH as usize).map(|first| first..(first + BATCH).min(mutants));
    let mut tests: Vec<Test> = batches.map(mutants_test).collect();
    let long = |test| Test { limit: Duration::from_secs(300), ..test };
    tests.push(long(Test::new("cycles_200", || cycles(200))));
    tests.push(long(Test { ignored: true, ..Test::new("cycles_10000", || cycles(10_000)) }));
    tests.push(long(Test::new("threads_build_and_run", threads)));
    tests.push(Test::new("no_process_outlives_the_application", || outlived(None)));
    tests.push(Test::new("no_process_outlives_a_killed_application", || {
        outlived(Some(Duration::from_millis(300)))
    }));
    tests.push(Test::new("the_demo_succeeds", demo));
    tests.push(long(Test::new("a_fuzzer_goes_on_where_it_stopped", fuzzer)));
    tests.push(long(Test::new("all_at_once_with_faults", soak)));
    tests.push(long(Test::new("random_kernels_do_the_same_in_lanes", random_kernels)));
    isolate::main(tests, ExpectedFailures::default())
}

fn mutants_test(seeds: Range<u64>) -> Test {
    let name = format!("mutants_{:06}", seeds.start);
    Test { limit: PATIENCE * BATCH as u32, ..Test::new(name, move || try_mutants(seeds.clone())) }
}

fn try_mutants(seeds: Range<u64>) -> Outcome {
    let originals: Vec<Vec<u8>> = fixtures::spir12().iter().map(|path| fixtures::load(path)).collect();
    let device = Device::first();
    let context = Context::new(device)?;
    for seed in seeds {
        eprintln!("mutant {seed}"); // the last line before a crash
        let damage = if seed % 2 == 0 { mutant } else { bitcode_mutant };
        try_mutant(&context, device, &damage(&originals, seed))?;
    }
    Ok(())
}

/// The damaged binary must be refused, or fail to build with a log, or give a program whose kernels can be made.
fn try_mutant(context: &Context, device: Device, binary: &[u8]) -> Outcome {
    let Ok(program) = Program::from_binary(context, device, binary) else { return Ok(()) };
    match program.build(SPIR12) {
        Ok(()) => drop(program.kernels()?),
        Err(error) if program.log(device)?.trim().is_empty() => {
            return Err(format!("{error}, and the log is empty").into());
        }
        Err(_) => {}
    }
    Ok(())
}

fn cycles(count: usize) -> Outcome {
    let device = Device::first();
    let held = || (cycle::resident_kib(), cycle::open_files(), cycle::children());
    let mut before = held();
    for round in 0..count {
        cycle::once(device, round)?;
        if round == count / 4 {
            before = held();
        }
    }
    let after = held();
    if after.0 > before.0 + GROWTH_KIB || after.1 > before.1 || after.2 > before.2 {
        return Err(format!("(resident KiB, open files, children) went from {before:?} to {after:?}").into());
    }
    Ok(())
}

fn threads() -> Outcome {
    let device = Device::first();
    let work = move || (0..5).try_for_each(|round| cycle::once(device, round));
    let threads: Vec<_> = (0..8).map(|_| thread::spawn(work)).collect();
    threads.into_iter().try_for_each(|t| t.join().map_err(|_| "a thread panicked")?)
}

/// Runs an application (this program's own `cycles` tests), to its end or killed after some time, and waits for
/// whatever processes it started: as their adoptive parent, so that none can hide.
fn outlived(killed_after: Option<Duration>) -> Outcome {
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    let test = if killed_after.is_some() { "cycles_10000" } else { "cycles_200" };
    let mut application = isolate::child(test)?.spawn()?;
    if let Some(time) = killed_after {
        thread::sleep(time);
        application.kill()?;
    }
    application.wait()?;
    let start = Instant::now();
    while start.elapsed() < Duration::from_secs(30) {
        match rustix::process::wait(WaitOptions::NOHANG) {
            Err(Errno::CHILD) => return Ok(()),
            Err(error) => return Err(error.into()),
            Ok(_) => thread::sleep(Duration::from_millis(5)),
        }
    }
    Err(format!("{} processes are left", cycle::children()).into())
}

fn demo() -> Outcome {
    let folder = tempfile::tempdir()?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_demo"));
    let done = supervise::run(command.current_dir(&folder), Duration::from_secs(50))?;
    eprintln!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    match done.status {
        Some(status) if status.success() => {}
        Some(status) => return Err(supervise::describe(status).into()),
        None => return Err("the demo hangs".into()),
    }
    let picture = fs::read(folder.path().join("target/demo/mandelbrot.png"))?;
    if picture.starts_with(b"\x89PNG") { Ok(()) } else { Err("the picture is no PNG file".into()) }
}

/// A few of what `spirula-fuzz-binaries` builds by the hundred thousands, in two runs.
fn fuzzer() -> Outcome {
    let folder = tempfile::tempdir()?;
    for until in ["60", "90"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_spirula-fuzz-binaries"));
        command.arg(folder.path()).args(["--seconds", "280", "--until", until]);
        succeeds(&mut command, Duration::from_secs(290))?;
        assert_eq!(fs::read_to_string(folder.path().join("tried.txt"))?, until);
    }
    let behaviours = fs::read_to_string(folder.path().join("behaviours.txt"))?;
    let crashes = fs::read_to_string(folder.path().join("crashes.txt"))?;
    let count = |line: &str| line.split(' ').next().and_then(|n| n.parse::<u64>().ok()).unwrap_or(0);
    assert_eq!(behaviours.lines().chain(crashes.lines()).map(count).sum::<u64>(), 90);
    assert!(behaviours.lines().count() > 5, "{behaviours}");
    Ok(())
}

/// A minute of what `spirula-soak` does for hours.
fn soak() -> Outcome {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spirula-soak"));
    command.args(["--seconds", "15", "--phase", "2", "--threads", "12"]);
    succeeds(&mut command, Duration::from_secs(290))
}

/// A few of what `spirula-fuzz` compares by the thousands.
fn random_kernels() -> Outcome {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spirula-fuzz"));
    command.args(["--kernels", "80", "--turns", "1"]);
    succeeds(&mut command, Duration::from_secs(290))
}

fn succeeds(command: &mut Command, limit: Duration) -> Outcome {
    let done = supervise::run(command, limit)?;
    eprintln!("{}{}", String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    match done.status {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(supervise::describe(status).into()),
        None => Err("too slow".into()),
    }
}
