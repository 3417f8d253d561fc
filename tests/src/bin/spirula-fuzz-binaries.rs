//! Builds damaged SPIR binaries, or with `--il` SPIR-V, for as long as it may, and goes on from there the next time:
//! `spirula-fuzz-binaries FOLDER --seconds 180`.
//!
//! A binary that makes the library behave in a new way is kept, and damaged further. Behaviour is what the application gets to see: the
//! outcome, and the build log's lines without names and numbers, those that say what was decided for each kernel included. In the folder:
//!
//! | file | what it holds |
//! |---|---|
//! | `corpus/` | a binary for each behaviour |
//! | `behaviours.txt` | a line for each: how often, its binary, what it is |
//! | `crashes/`, `crashes.txt` | the same for what ended the compiler's process |
//! | `failures/` | binaries that ended or hung the application: there should be none |
//! | `tried.txt` | how many binaries were tried so far |

use clap::Parser;
use spirula_tests::cl::{Context, Device, Program};
use spirula_tests::mutate::{bitcode_mutant, spirv_mutant};
use spirula_tests::supervise::{Lost, Worker};
use spirula_tests::{cycle, fixtures, icd};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::Mutex;
use std::time::{Duration, Instant};
use std::{env, fs, thread};

/// How long the application may take for one binary.
const PATIENCE: Duration = Duration::from_secs(60);
/// Seconds of the compiler for one binary.
const COMPILER_SECONDS: &str = "10";
/// Binaries after which an application's memory is as large as it gets, but for this many KiB.
const WARM: u64 = 500;
const GROWTH_KIB: u64 = 64 << 10;
/// Behaviours of many bytes say little.
const MAX_BEHAVIOUR: usize = 400;
/// How SPIR-V begins.
const SPIRV_MAGIC: [u8; 4] = [3, 2, 0x23, 7];
/// Bytes of a binary that is worth to be damaged further.
const MAX_BINARY: usize = 256 << 10;

/// Builds damaged SPIR binaries.
#[derive(Parser)]
struct Arguments {
    /// Where the corpus is kept
    folder: PathBuf,
    /// How long
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// How many binaries at most, in all runs together
    #[arg(long, default_value_t = u64::MAX)]
    until: u64,
    /// Applications at a time; 0 is one for each processor
    #[arg(long, default_value_t = 0)]
    jobs: usize,
    /// SPIR-V instead of SPIR
    #[arg(long)]
    il: bool,
    /// Build this binary only, and print what the fuzzer sees
    #[arg(long)]
    show: Option<PathBuf>,
    /// In a child process: builds what it is told to
    #[arg(long, hide = true)]
    child: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if arguments.child {
        serve();
        return ExitCode::SUCCESS;
    }
    match if let Some(binary) = &arguments.show { show(binary) } else { run(&arguments) } {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("spirula-fuzz-binaries: {why}");
            ExitCode::from(2)
        }
    }
}

/// The application: answers each path with its resident memory and the behaviour.
fn serve() {
    let device = Device::first();
    let context = Context::new(device).expect("a context");
    Worker::serve(|path| {
        let behaviour = match fs::read(path) {
            Ok(bytes) => behaviour(&context, device, &bytes),
            Err(error) => format!("unreadable: {error}"),
        };
        format!("{} {behaviour}", cycle::resident_kib())
    });
}

fn behaviour(context: &Context, device: Device, bytes: &[u8]) -> String {
    let is_il = bytes.starts_with(&SPIRV_MAGIC);
    let made =
        if is_il { Program::from_il(context, bytes) } else { Program::from_binary(context, device, bytes) };
    let program = match made {
        Ok(program) => program,
        Err(error) => return format!("not made: {error}"),
    };
    let built = program.build("");
    let log = program.log(device).unwrap_or_default();
    let outcome = match built {
        Ok(()) => match program.kernels() {
            Ok(_) => "built".to_string(),
            Err(error) => format!("built, without kernels: {error}"),
        },
        Err(error) if log.trim().is_empty() => format!("FAILED SILENTLY: {error}"),
        Err(error) => error.to_string(),
    };
    let mut lines: Vec<String> = log.lines().map(without_particulars).collect();
    lines.sort();
    lines.dedup();
    let mut text = format!("{outcome} | {}", lines.join(" | "));
    text.truncate(text.floor_char_boundary(MAX_BEHAVIOUR));
    text
}

/// A line without what differs from module to module: quoted names, LLVM's names, numbers.
fn without_particulars(line: &str) -> String {
    let mut text = String::new();
    let mut rest = line.trim();
    // Where code stood is what tells crashes apart.
    if let Some((before, after)) = rest.split_once("at code offset ") {
        let end = after.find(|c: char| !c.is_ascii_hexdigit() && c != 'x').unwrap_or(after.len());
        return format!("{} at code offset {}", without_particulars(before), &after[..end]);
    }
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '`' => rest[1..].find('`').map_or(rest.len(), |end| end + 2),
            '\'' | '"' => rest[1..].find(c).map_or(1, |end| end + 2),
            '%' | '@' | '!' => {
                let name = |c: char| c.is_ascii_alphanumeric() || "._-$".contains(c);
                1 + rest[1..].find(|c| !name(c)).unwrap_or(rest.len() - 1)
            }
            c if c.is_ascii_digit() => rest.find(|c: char| !c.is_ascii_hexdigit()).unwrap_or(rest.len()),
            c => {
                text.push(c);
                rest = &rest[c.len_utf8()..];
                continue;
            }
        };
        text.push('#');
        rest = &rest[length..];
    }
    text
}

/// An application in a process.
fn application(environment: &(&'static str, PathBuf)) -> Result<Worker, String> {
    let mut command = Command::new(env::current_exe().map_err(|e| e.to_string())?);
    command.arg("--child").arg("-");
    command
        .env(environment.0, &environment.1)
        .env(icd::CACHE_VARIABLE, "")
        .env("SPIRULA_COMPILER_TIMEOUT", COMPILER_SECONDS)
        .env("SPIRULA_VERIFY", "1")
        .env("SPIRULA_REMARKS", "1");
    Worker::start(&mut command).map_err(|e| e.to_string())
}

fn environment() -> Result<(&'static str, PathBuf), String> {
    icd::environment(&icd::library()?).map_err(|e| e.to_string())
}

fn show(binary: &Path) -> Result<bool, String> {
    let environment = environment()?;
    let answer = application(&environment)?.ask(&binary.display().to_string(), PATIENCE);
    let _ = fs::remove_dir_all(&environment.1);
    println!("{answer:?}");
    Ok(answer.is_ok())
}

/// What was seen of a kind.
#[derive(Clone, Debug)]
struct Kind {
    count: u64,
    file: String,
}

/// The state of all runs.
struct State {
    folder: PathBuf,
    is_il: bool,
    tried: u64,
    corpus: Vec<Vec<u8>>,
    behaviours: BTreeMap<String, Kind>,
    crashes: BTreeMap<String, Kind>,
    failures: Vec<String>,
}

/// Lines of `COUNT FILE TEXT`.
fn read_kinds(path: &Path) -> BTreeMap<String, Kind> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let kind = |line: &str| {
        let mut parts = line.splitn(3, ' ');
        let (count, file) = (parts.next()?.parse().ok()?, parts.next()?.to_string());
        Some((parts.next()?.to_string(), Kind { count, file }))
    };
    text.lines().filter_map(kind).collect()
}

fn write_kinds(path: &Path, kinds: &BTreeMap<String, Kind>) -> Result<(), String> {
    let mut list: Vec<_> = kinds.iter().collect();
    list.sort_by_key(|(_, kind)| std::cmp::Reverse(kind.count));
    let mut text = String::new();
    for (what, kind) in list {
        let _ = writeln!(text, "{} {} {what}", kind.count, kind.file);
    }
    // In one step: what is interrupted leaves the last state.
    let new = path.with_extension("new");
    fs::write(&new, text).and_then(|()| fs::rename(&new, path)).map_err(|e| e.to_string())
}

impl State {
    fn open(folder: &Path, is_il: bool) -> Result<State, String> {
        for name in ["corpus", "crashes", "failures"] {
            fs::create_dir_all(folder.join(name)).map_err(|e| format!("{}: {e}", folder.display()))?;
        }
        let paths = if is_il { fixtures::spirv() } else { fixtures::spir12() };
        let mut corpus: Vec<Vec<u8>> = paths.iter().map(|path| fixtures::load(path)).collect();
        let behaviours = read_kinds(&folder.join("behaviours.txt"));
        let kept =
            behaviours.values().filter_map(|kind| fs::read(folder.join("corpus").join(&kind.file)).ok());
        corpus.extend(kept.filter(|bytes| bytes.len() <= MAX_BINARY));
        let tried = fs::read_to_string(folder.join("tried.txt")).unwrap_or_default();
        Ok(State {
            folder: folder.to_path_buf(),
            is_il,
            tried: tried.trim().parse().unwrap_or(0),
            corpus,
            behaviours,
            crashes: read_kinds(&folder.join("crashes.txt")),
            failures: Vec::new(),
        })
    }

    fn save(&self) -> Result<(), String> {
        write_kinds(&self.folder.join("behaviours.txt"), &self.behaviours)?;
        write_kinds(&self.folder.join("crashes.txt"), &self.crashes)?;
        fs::write(self.folder.join("tried.txt"), self.tried.to_string()).map_err(|e| e.to_string())
    }

    fn keep(&self, folder: &str, name: &str, bytes: &[u8]) {
        if let Err(error) = fs::write(self.folder.join(folder).join(name), bytes) {
            eprintln!("{folder}/{name}: {error}");
        }
    }

    /// Takes note of what a binary did.
    fn note(&mut self, number: u64, bytes: Vec<u8>, behaviour: &str) {
        let file = format!("{number:08}.bc");
        let crash = behaviour.contains("the compiler process ") || behaviour.contains("internal error");
        let (kinds, folder) =
            if crash { (&mut self.crashes, "crashes") } else { (&mut self.behaviours, "corpus") };
        match kinds.get_mut(behaviour) {
            Some(kind) => kind.count += 1,
            None => {
                kinds.insert(behaviour.to_string(), Kind { count: 1, file: file.clone() });
                self.keep(folder, &file, &bytes);
                if !crash && bytes.len() <= MAX_BINARY {
                    self.corpus.push(bytes);
                }
            }
        }
    }

    fn fail(&mut self, number: u64, bytes: &[u8], what: String) {
        self.keep("failures", &format!("{number:08}.bc"), bytes);
        self.failures.push(format!("binary {number}: {what}"));
    }
}

fn run(arguments: &Arguments) -> Result<bool, String> {
    let environment = environment()?;
    let state = Mutex::new(State::open(&arguments.folder, arguments.il)?);
    let end = Instant::now() + Duration::from_secs(arguments.seconds);
    let jobs = match arguments.jobs {
        0 => thread::available_parallelism().map_or(1, usize::from),
        jobs => jobs,
    };
    let results: Vec<Result<(), String>> = thread::scope(|scope| {
        let work = |job| work(&state, (end, arguments.until), &environment, job);
        let jobs: Vec<_> = (0..jobs).map(|job| scope.spawn(move || work(job))).collect();
        jobs.into_iter().map(|job| job.join().unwrap_or_else(|_| Err("a thread panicked".into()))).collect()
    });
    let _ = fs::remove_dir_all(&environment.1);
    let state = state.into_inner().map_err(|e| e.to_string())?;
    state.save()?;
    let (behaviours, crashes) = (state.behaviours.len(), state.crashes.values().map(|kind| kind.count));
    println!(
        "{} binaries tried so far: {behaviours} behaviours; {} crashes of the compiler, of {} kinds",
        state.tried,
        crashes.sum::<u64>(),
        state.crashes.len()
    );
    state.failures.iter().for_each(|failure| println!("FAILURE: {failure}"));
    results.into_iter().collect::<Result<Vec<()>, String>>()?;
    Ok(state.failures.is_empty())
}

/// One application after the other, each for as long as it lives.
fn work(
    state: &Mutex<State>,
    (end, until): (Instant, u64),
    environment: &(&'static str, PathBuf),
    job: usize,
) -> Result<(), String> {
    let lock = || state.lock().map_err(|e| e.to_string());
    let file = lock()?.folder.join(format!("job{job}.bc"));
    let mut worker = application(environment)?;
    let (mut asked, mut before) = (0, 0);
    while Instant::now() < end {
        let (number, bytes) = {
            let mut state = lock()?;
            if state.tried >= until {
                break;
            }
            state.tried += 1;
            let seed = state.tried;
            let mutant = if state.is_il { spirv_mutant } else { bitcode_mutant };
            (seed, mutant(&state.corpus, seed))
        };
        fs::write(&file, &bytes).map_err(|e| e.to_string())?;
        match worker.ask(&file.display().to_string(), PATIENCE) {
            Ok(answer) => {
                let (resident, behaviour) = answer.split_once(' ').unwrap_or(("0", &answer));
                let resident: u64 = resident.parse().unwrap_or(0);
                asked += 1;
                if asked == WARM {
                    before = resident;
                }
                let mut state = lock()?;
                if behaviour.starts_with("FAILED SILENTLY") {
                    state.fail(number, &bytes, behaviour.to_string());
                }
                if asked > WARM && resident > before + GROWTH_KIB {
                    state.fail(
                        number,
                        &bytes,
                        format!("the application grew from {before} to {resident} KiB"),
                    );
                    before = resident;
                }
                state.note(number, bytes, behaviour);
                if number.is_multiple_of(2_000) {
                    state.save()?;
                }
            }
            Err(lost) => {
                let what = match lost {
                    Lost::Died(how) => format!("the application {how}"),
                    Lost::TimedOut => "the application hangs".to_string(),
                };
                lock()?.fail(number, &bytes, what);
                worker = application(environment)?;
                (asked, before) = (0, 0);
            }
        }
    }
    let _ = fs::remove_file(&file);
    Ok(())
}
