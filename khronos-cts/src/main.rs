//! Answers "is it conformant?" for an OpenCL ICD: runs Khronos's SPIR suite by itself and Khronos's own programs where
//! they are built, and keeps and compares the results.

mod compare;
mod html;
mod pool;
mod programs;
mod progress;
mod report;
mod results;
mod spir;
mod suite;
mod vendor;
mod verdict;
mod worker;

use clap::{Args, Parser, Subcommand};
use programs::{Profile, Settings};
use progress::Progress;
use results::{Outcome, Results};
use spir::Reference;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use suite::{Data, Entry};
use vendor::Vendor;
use verdict::Verdict;
use worker::{Answer, Assistant, Task};

/// Runs Khronos's OpenCL conformance data and programs against an ICD.
#[derive(Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Runs the SPIR 1.2 suite: each program as SPIR and as OpenCL C source, with the same arguments; the results must
    /// agree.
    Spir {
        #[command(flatten)]
        tests: Tests,
        /// Run the source on this ICD instead, so that a mistake shared by both forms shows.
        #[arg(long)]
        against: Option<PathBuf>,
        /// Run the binary again with this variable, instead of the source: every bit must agree.
        #[arg(long, value_name = "NAME=VALUE", conflicts_with = "against")]
        again: Option<String>,
        #[command(flatten)]
        common: Common,
    },
    /// Only builds every binary of the SPIR suite, and reports what fails and what is slow.
    Build {
        #[command(flatten)]
        tests: Tests,
        /// Programs that took longest to name.
        #[arg(long, default_value_t = 5)]
        slowest: usize,
        #[command(flatten)]
        common: Common,
    },
    /// Runs Khronos's own conformance programs from a build of OpenCL-CTS, each sub-test in a process of its own.
    Run {
        /// The build's folder; the programs may lie at any depth.
        #[arg(long)]
        bin: PathBuf,
        /// How thoroughly.
        #[arg(long, value_enum, default_value = "quick")]
        profile: Profile,
        /// Only these programs, such as test_api.
        #[arg(long, value_delimiter = ',')]
        program: Vec<String>,
        /// Only sub-tests whose PROGRAM/NAME contains this.
        #[arg(long, default_value = "")]
        only: String,
        /// Gigabytes of address space that a sub-test may have.
        #[arg(long, default_value_t = 16)]
        memory: u64,
        /// Where the outputs are kept.
        #[arg(long, default_value = "cts-logs")]
        logs: PathBuf,
        /// More arguments for every program, such as `--compilation-mode binary`.
        #[arg(last = true)]
        arguments: Vec<String>,
        #[command(flatten)]
        common: Common,
    },
    /// Shows what changed between two reports; fails if something got worse.
    Compare {
        /// The earlier report.
        before: PathBuf,
        /// The later report.
        after: PathBuf,
    },
    /// Writes reports of several ICDs side by side, test by test, as one HTML file that needs no network.
    Html {
        /// The reports, as FILE or NAME=FILE.
        #[arg(required = true, value_name = "[NAME=]FILE")]
        reports: Vec<String>,
        /// Where the page goes.
        #[arg(short, long)]
        output: PathBuf,
    },
    /// Does what standard input asks for; started by the others.
    #[command(hide = true)]
    Worker {
        /// As of the others.
        #[arg(long, num_args = 1.., required = true)]
        data: Vec<PathBuf>,
        /// One request, instead of those of standard input.
        #[arg(long)]
        once: Option<String>,
    },
}

#[derive(Args)]
struct Tests {
    /// The folder of OpenCL-CTS/test_conformance/spir's zip files and khr.csv, or some of the zip files, or where they are
    /// unpacked.
    #[arg(long, num_args = 1.., required = true)]
    data: Vec<PathBuf>,
    /// Only these suites (zip files' names).
    #[arg(long, value_delimiter = ',')]
    suite: Vec<String>,
    /// Only programs whose SUITE/NAME contains this.
    #[arg(long, default_value = "")]
    only: String,
    /// Only every so many-th of the programs.
    #[arg(long, default_value_t = 1)]
    every: usize,
}

#[derive(Args)]
struct Common {
    /// The ICD's shared library; by default the libspirula.so built beside this program.
    #[arg(long)]
    icd: Option<PathBuf>,
    /// Tests at the same time.
    #[arg(long, default_value_t = std::thread::available_parallelism().map_or(1, usize::from))]
    jobs: usize,
    /// Seconds that one test may take; by default 60, for `run` 1800.
    #[arg(long)]
    timeout: Option<u64>,
    /// Write a report that `compare` reads.
    #[arg(long)]
    json: Option<PathBuf>,
    /// Write a report for people.
    #[arg(long)]
    markdown: Option<PathBuf>,
    /// Tests named for each reason of failure.
    #[arg(long, default_value_t = 5)]
    examples: usize,
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().command {
        Command::Spir { tests, against, again, common } => {
            spir(&tests, against.as_deref(), again.as_deref(), &common)
        }
        Command::Build { tests, slowest, common } => build(&tests, slowest, &common),
        Command::Run { bin, profile, program, only, memory, logs, arguments, common } => (|| {
            let icd = Vendor::new(common.icd.as_deref())?;
            let (folder, logs, memory) = (bin.as_path(), logs.as_path(), memory << 30);
            let (limit, arguments) = (common.limit(1800), arguments.as_slice());
            let settings = Settings { icd: &icd, folder, profile, limit, memory, arguments, logs };
            run_programs(&settings, &program, &only, &common)
        })(),
        Command::Compare { before, after } => compare(&before, &after),
        Command::Html { reports, output } => write_page(&reports, &output),
        Command::Worker { data, once } => worker::serve(&data, once.as_deref()).map(|()| ExitCode::SUCCESS),
    };
    outcome.unwrap_or_else(|why| {
        eprintln!("khronos-cts: {why}");
        ExitCode::from(2)
    })
}

/// Writes the reports, as FILE or NAME=FILE, side by side.
fn write_page(reports: &[String], output: &Path) -> Result<ExitCode, String> {
    let run = |report: &String| {
        let (name, file) =
            report.split_once('=').map_or((None, &**report), |(name, file)| (Some(name), file));
        let results = Results::read(Path::new(file))?;
        let library = Path::new(&results.icd).file_stem().map(|stem| stem.to_string_lossy().into_owned());
        let name = name.map_or_else(|| library.unwrap_or_else(|| file.to_owned()), str::to_owned);
        Ok(html::Run { name, results })
    };
    let runs: Vec<html::Run> = reports.iter().map(run).collect::<Result<_, String>>()?;
    fs::write(output, html::page(&runs)).map_err(|error| format!("{}: {error}", output.display()))?;
    println!("{}: {} runs side by side", output.display(), runs.len());
    Ok(ExitCode::SUCCESS)
}

impl Tests {
    fn entries(&self, data: &Data) -> Result<Vec<Entry>, String> {
        let mut entries = data.entries()?;
        if let Some(unknown) = self.suite.iter().find(|name| !entries.iter().any(|e| e.suite == **name)) {
            return Err(format!("the data has no suite {unknown:?}"));
        }
        entries.retain(|e| self.suite.is_empty() || self.suite.contains(&e.suite));
        entries.retain(|e| e.name().contains(&self.only));
        if entries.is_empty() {
            return Err(format!("no program's SUITE/NAME contains {:?}", self.only));
        }
        Ok(entries.into_iter().step_by(self.every.max(1)).collect())
    }
}

impl Common {
    fn limit(&self, default: u64) -> Duration {
        Duration::from_secs(self.timeout.unwrap_or(default))
    }

    /// Prints the report and writes those that were asked for.
    fn report(&self, results: &Results) -> Result<ExitCode, String> {
        if let Some(path) = &self.json {
            results.write(path)?;
        }
        if let Some(path) = &self.markdown {
            fs::write(path, report::markdown(results)).map_err(|e| format!("{}: {e}", path.display()))?;
        }
        Ok(report::print(results, self.examples))
    }
}

fn spir(
    tests: &Tests,
    against: Option<&Path>,
    again: Option<&str>,
    common: &Common,
) -> Result<ExitCode, String> {
    let icd = Vendor::new(common.icd.as_deref())?;
    let against = against.map(|path| Vendor::new(Some(path))).transpose()?;
    let again = again.map(|setting| Vendor::new(common.icd.as_deref())?.with(setting)).transpose()?;
    let reference = match (&against, &again) {
        (Some(other), _) => Reference::Foreign(other),
        (None, Some(other)) => Reference::Again(other),
        (None, None) => Reference::Source,
    };
    let data = Data::open(&tests.data)?;
    let start = || spir::Judge::new(&icd, reference, &data, common.limit(60));
    let entries = tests.entries(&data)?;
    let results = run("spir", &entries, common, &icd, start, |judge, entry| judge.judge(entry))?;
    common.report(&Results { against: against.map(|a| a.library.display().to_string()), ..results })
}

fn build(tests: &Tests, slowest: usize, common: &Common) -> Result<ExitCode, String> {
    let icd = Vendor::new(common.icd.as_deref())?;
    let data = Data::open(&tests.data)?;
    let start = || Assistant::new(&icd, &data, common.limit(60));
    let entries = tests.entries(&data)?;
    let results =
        run("build", &entries, common, &icd, start, |worker, entry| match worker.ask(entry, Task::Build) {
            Answer::Done => Verdict::Passed,
            Answer::Failed(why) => Verdict::Failed(why),
            Answer::Lacks(need) => Verdict::Skipped(need),
        })?;
    let mut by_time: Vec<&Outcome> = results.outcomes.iter().collect();
    by_time.sort_by(|a, b| b.seconds.total_cmp(&a.seconds));
    for outcome in by_time.iter().take(slowest) {
        println!("{:8.3} s {}/{}", outcome.seconds, outcome.suite, outcome.test);
    }
    common.report(&results)
}

fn run<H>(
    command: &str,
    entries: &[Entry],
    common: &Common,
    icd: &Vendor,
    start: impl Fn() -> H + Sync,
    judge: impl Fn(&mut H, &Entry) -> Verdict + Sync,
) -> Result<Results, String> {
    let began = Instant::now();
    let progress = Progress::new(entries.len());
    let judge = |helper: &mut H, entry: &Entry| {
        vec![(entry.suite.clone(), entry.test().to_string(), judge(helper, entry))]
    };
    Ok(results(command, icd, began, pool::run(entries, common.jobs, &progress, start, judge)?))
}

fn run_programs(
    settings: &Settings,
    wanted: &[String],
    only: &str,
    common: &Common,
) -> Result<ExitCode, String> {
    let began = Instant::now();
    let (mut tests, missing) = programs::sub_tests(settings, wanted)?;
    if !missing.is_empty() {
        eprintln!("not built: {}", missing.join(" "));
    }
    tests.retain(|test| format!("{}/{}", test.program, test.name).contains(only));
    let progress = Progress::new(tests.len());
    let judge = |(): &mut (), test: &programs::SubTest| {
        let verdicts = programs::run(settings, test);
        verdicts.into_iter().map(|(name, verdict)| (test.program.to_string(), name, verdict)).collect()
    };
    let outcomes = pool::run(&tests, common.jobs, &progress, || (), judge)?;
    common.report(&results("run", settings.icd, began, outcomes))
}

fn results(command: &str, icd: &Vendor, began: Instant, outcomes: Vec<Outcome>) -> Results {
    let icd = icd.library.display().to_string();
    let seconds = began.elapsed().as_secs_f64();
    Results { command: command.to_string(), icd, against: None, seconds, outcomes }
}

fn compare(before: &Path, after: &Path) -> Result<ExitCode, String> {
    Ok(compare::print(&Results::read(before)?, &Results::read(after)?))
}
