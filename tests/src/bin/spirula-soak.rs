//! Everything that applications do, on many threads, for long: `spirula-soak --seconds 600`. Meanwhile compiler processes are killed, and
//! in every second phase calls of the library fail as they do on a machine that is short of memory, threads, descriptors and processes.
//!
//! What an act says to have done must be done; an act may fail only where a fault was injected or a compiler killed, and between the
//! phases, when all objects are released, the process has as many threads and descriptors as after the first ones, and no more memory.

use clap::Parser;
use spirula_tests::cl::Device;
use spirula_tests::mutate::Random;
use spirula_tests::running::Running;
use spirula_tests::soak::{ACTS, Stage, Trouble};
use spirula_tests::{cycle, icd, supervise};
use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use std::{env, fs, thread};

/// What makes calls fail.
const FAULTS: &str = include_str!("../soak/faults.c");
/// One call in so many.
const RATE: u32 = 40;
/// Descriptors that the application has of each compiler: its socket, and a line to who buries it.
const FILES_OF_COMPILER: usize = 2;
/// Phases until all has been used that is kept for later.
const WARM: usize = 4;
/// Growth that is no leak: what allocators keep.
const GROWTH_KIB: u64 = 96 << 10;
/// Allocators keep more after one phase and less after the next: a leak shows behind each of so many.
const LAST: usize = 3;
/// Seconds after its end at which a process hangs.
const PATIENCE: u64 = 180;
/// How long the threads and descriptors of what is released may stay.
const SETTLING: Duration = Duration::from_secs(75);

#[derive(Parser)]
struct Arguments {
    /// How long; while it is stopped (`kill -STOP`) its clock stands
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Threads
    #[arg(long, default_value_t = 32)]
    threads: u64,
    /// Seconds of a phase
    #[arg(long, default_value_t = 10)]
    phase: u64,
    /// Leaves out the faults
    #[arg(long)]
    without_faults: bool,
    /// Begins the random sequences
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// In the child process
    #[arg(long, hide = true)]
    child: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let done = if arguments.child { soak(&arguments) } else { supervised(&arguments) };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            eprintln!("spirula-soak: {why}");
            ExitCode::FAILURE
        }
    }
}

/// Runs this program again with the faults loaded into it.
fn supervised(arguments: &Arguments) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
    let _selected = icd::select()?;
    let mut command = Command::new(env::current_exe().map_err(|e| e.to_string())?);
    command.args(env::args_os().skip(1)).arg("--child").env(icd::CACHE_VARIABLE, "");
    if !arguments.without_faults {
        command.env("LD_PRELOAD", faults(folder.path())?);
    }
    let done = supervise::run(&mut command, Duration::from_secs(arguments.seconds + PATIENCE))
        .map_err(|e| e.to_string())?;
    print!("{}", String::from_utf8_lossy(&done.stdout));
    eprint!("{}", String::from_utf8_lossy(&done.stderr));
    match done.status {
        Some(status) if status.success() => Ok(()),
        Some(status) => Err(supervise::describe(status)),
        None => Err("it hangs".into()),
    }
}

/// The faults as a library.
fn faults(folder: &Path) -> Result<std::path::PathBuf, String> {
    let (source, library) = (folder.join("faults.c"), folder.join("faults.so"));
    fs::write(&source, FAULTS).map_err(|e| e.to_string())?;
    let mut command = Command::new("cc");
    command.args(["-shared", "-fPIC", "-O1", "-o"]).arg(&library).arg(&source).arg("-ldl");
    let output = command.output().map_err(|e| format!("cc: {e}"))?;
    if output.status.success() {
        Ok(library)
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// The shared numbers of the faults, if they are loaded.
#[derive(Clone, Copy)]
struct Faults {
    rate: &'static AtomicU32,
    failed: &'static AtomicU32,
}

impl Faults {
    fn find() -> Option<Faults> {
        let here = libloading::os::unix::Library::this();
        let number = |name: &[u8]| {
            // SAFETY: numbers of a library that stays loaded, which are atomic there too.
            unsafe { here.get::<*const AtomicU32>(name).ok().map(|place| &**place) }
        };
        Some(Faults { rate: number(b"soak_rate\0")?, failed: number(b"soak_failed\0")? })
    }
}

#[derive(Default)]
struct Counts {
    done: BTreeMap<&'static str, u64>,
    failed: BTreeMap<String, u64>,
    wrong: Vec<String>,
}

fn soak(arguments: &Arguments) -> Result<(), String> {
    let faults = Faults::find();
    let device = Device::first();
    let counts = Arc::new(Mutex::new(Counts::default()));
    let mut clock = Running::start();
    let mut held = Vec::new();
    println!(
        "seconds  phase  faults     acts  killed  threads  other files  children too many  resident KiB"
    );
    for phase in 0.. {
        if clock.now() >= Duration::from_secs(arguments.seconds) && held.len() > WARM {
            break;
        }
        let rate = if phase % 2 == 1 { RATE } else { 0 };
        if let Some(faults) = faults {
            faults.rate.store(rate, Ordering::Relaxed);
        }
        let is_faulty = rate > 0 && faults.is_some();
        let killed = phase_of(device, arguments, phase, is_faulty, &counts, &mut clock);
        if let Some(faults) = faults {
            faults.rate.store(0, Ordering::Relaxed);
        }
        let counts = counts.lock().map_err(|e| e.to_string())?;
        let acts: u64 = counts.done.values().sum();
        let now = settled((held.len() > WARM).then(|| most(&held[..=WARM])).as_ref(), &mut clock);
        let (threads, files, children, memory) = now;
        let seconds = clock.now().as_secs();
        println!(
            "{seconds:7} {phase:6} {:>7} {acts:8} {killed:7} {threads:8} {files:12} {children:18} {memory:13}",
            if is_faulty { "some" } else { "none" }
        );
        if !counts.wrong.is_empty() {
            break;
        }
        held.push(now);
    }
    let counts = counts.lock().map_err(|e| e.to_string())?;
    println!("{:?}", counts.done);
    for (what, count) in &counts.failed {
        println!("failed {count} times: {what}");
    }
    if let Some(faults) = faults {
        println!("{} calls of the library failed by injection", faults.failed.load(Ordering::Relaxed));
    }
    if let Some(wrong) = counts.wrong.first() {
        return Err(format!("{} wrong results, the first: {wrong}", counts.wrong.len()));
    }
    let Some(last) = held.get(WARM..).and_then(<[Held]>::last) else { return Err("too short".into()) };
    let (warm, later) = held.split_at((WARM + 1).min(held.len()));
    let (first, memory) = (most(warm), later.iter().rev().take(LAST).map(|held| held.3).min());
    let last = &(last.0, last.1, last.2, memory.unwrap_or(last.3));
    if last.0 > first.0 || last.1 > first.1 || last.2 > first.2 || last.3 > first.3 + GROWTH_KIB {
        return Err(format!(
            "(threads, other files, children too many, KiB) went from {first:?} to {last:?}"
        ));
    }
    Ok(())
}

type Held = (usize, usize, usize, u64);

/// What was held most of each.
fn most(held: &[Held]) -> Held {
    held.iter().fold((0, 0, 0, 0), |a, b| (a.0.max(b.0), a.1.max(b.1), a.2.max(b.2), a.3.max(b.3)))
}

/// What is held but for the compilers that there may be: how many of them are idle at a moment is chance, and they stay.
fn held_now() -> Held {
    let threads = fs::read_dir("/proc/self/task").map_or(0, Iterator::count);
    let children = cycle::children();
    let files = cycle::open_files().saturating_sub(FILES_OF_COMPILER * children);
    (threads, files, children.saturating_sub(most_compilers()), cycle::resident_kib())
}

/// So many compilers an application has at most: one for each processor, and on few of them one for each kind of what is made in the
/// background beside a build's.
fn most_compilers() -> usize {
    let processors = thread::available_parallelism().map_or(1, |count| count.get());
    processors.max(3 * (processors / 2).clamp(1, 4) + 1)
}

/// What the process holds, once it holds no more than before, or after some time.
fn settled(before: Option<&Held>, clock: &mut Running) -> Held {
    let start = clock.now();
    loop {
        let now = held_now();
        let settled = before.is_none_or(|before| now.0 <= before.0 && now.1 <= before.1 && now.2 <= before.2);
        if settled || clock.now() - start > SETTLING {
            return now;
        }
        thread::sleep(Duration::from_millis(100));
    }
}

/// All threads, until the phase is over. Returns how many compilers were killed.
fn phase_of(
    device: Device,
    arguments: &Arguments,
    phase: u64,
    is_faulty: bool,
    counts: &Arc<Mutex<Counts>>,
    clock: &mut Running,
) -> u64 {
    let (is_ending, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
    thread::scope(|scope| {
        let killer = scope.spawn(|| kill_compilers(&is_over, arguments.seed + phase));
        let threads: Vec<_> = (0..arguments.threads)
            .map(|number| {
                let random = Random::new(arguments.seed << 32 | phase << 16 | number);
                let is_ending = &is_ending;
                scope.spawn(move || act(device, random, is_ending, is_faulty, counts))
            })
            .collect();
        let end = clock.now() + Duration::from_secs(arguments.phase);
        while clock.now() < end {
            thread::sleep(Duration::from_millis(20));
        }
        is_ending.store(true, Ordering::Relaxed);
        for thread in threads {
            while !thread.is_finished() {
                clock.now();
                thread::sleep(Duration::from_millis(1));
            }
            if thread.join().is_err()
                && let Ok(mut counts) = counts.lock()
            {
                counts.wrong.push("a thread panicked".into());
            }
        }
        is_over.store(true, Ordering::Relaxed);
        killer.join().unwrap_or(0)
    })
}

fn act(device: Device, mut random: Random, is_ending: &AtomicBool, is_faulty: bool, counts: &Mutex<Counts>) {
    let mut stage = None;
    while !is_ending.load(Ordering::Relaxed) {
        let (name, act) = ACTS[random.below(ACTS.len())];
        let result = match &stage {
            Some(stage) => act(stage, &mut random),
            None => Stage::new(device).map(|new| stage = Some(new)),
        };
        let Ok(mut counts) = counts.lock() else { return };
        match result {
            Ok(()) => *counts.done.entry(name).or_default() += 1,
            Err(Trouble::Failed(why)) => {
                // A compiler that is killed again and again fails its build, and says so.
                let is_of_killed = why.contains("compiler process");
                let why: String = why.lines().next().unwrap_or_default().chars().take(150).collect();
                if !is_faulty && !is_of_killed {
                    counts.wrong.push(format!("{name} failed without a fault: {why}"));
                }
                *counts.failed.entry(format!("{name}: {why}")).or_default() += 1;
            }
            Err(Trouble::Wrong(why)) => counts.wrong.push(format!("{name}: {why}")),
        }
        if !counts.wrong.is_empty() {
            return;
        }
        drop(counts);
        // A new context now and then.
        if random.below(20) == 0 {
            stage = None;
        }
    }
}

/// Kills a compiler process now and then.
fn kill_compilers(is_over: &AtomicBool, seed: u64) -> u64 {
    let (mut random, mut killed) = (Random::new(seed), 0);
    while !is_over.load(Ordering::Relaxed) {
        thread::sleep(Duration::from_millis(50 + random.below(300) as u64));
        let compilers = cycle::compilers();
        if compilers.is_empty() {
            continue;
        }
        let victim = compilers[random.below(compilers.len())];
        if let Some(victim) = rustix::process::Pid::from_raw(victim) {
            killed += u64::from(rustix::process::kill_process(victim, rustix::process::Signal::KILL).is_ok());
        }
    }
    killed
}
