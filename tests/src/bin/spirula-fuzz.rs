//! Compares random OpenCL C kernels in SIMD lanes and in the baseline's code with their scalar code, byte by byte: `spirula-fuzz --kernels N --seed S`.
//! A difference is made small before it is shown.

use clap::Parser;
use spirula_tests::cl::{Context, Device, Program};
use spirula_tests::fuzz::{Launch, Omitted, kernel, prelude, run};
use spirula_tests::{icd, supervise};
use std::fmt::{self, Display, Formatter};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant};
use std::{env, fs};

/// Compares what random kernels compute with vector code of several widths, with the baseline's code, with both in one launch, and with scalar code.
#[derive(Parser)]
struct Arguments {
    /// How many kernels
    #[arg(long, default_value_t = 100)]
    kernels: u64,
    /// Number of the first kernel
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// The widths to compare with scalar code
    #[arg(long, value_delimiter = ',', default_values_t = [2, 4, 8, 16, 32, 64])]
    widths: Vec<u32>,
    /// How many of them, in turn, for each kernel; 0 means all
    #[arg(long, default_value_t = 2)]
    turns: usize,
    /// Kernels in one program
    #[arg(long, default_value_t = 20)]
    batch: u64,
    /// Stop after so many kernels that differ
    #[arg(long, default_value_t = 3)]
    failures: usize,
    /// Show the kernel of this seed instead
    #[arg(long)]
    show: Option<u64>,
    /// In a child process: translates a source, or runs a binary's kernels
    #[arg(long, hide = true, num_args = 3)]
    child: Option<Vec<PathBuf>>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    if let Some(seed) = arguments.show {
        println!("{}{}\n// {:?}", prelude(), kernel(seed, &Omitted::new()).0, Launch::new(seed));
        return ExitCode::SUCCESS;
    }
    let done = match &arguments.child {
        Some(paths) => child(&paths[0], &paths[1], &paths[2]).map(|()| true),
        None => Fuzzer::new(&arguments).and_then(|mut fuzzer| fuzzer.all()),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(why) => {
            eprintln!("spirula-fuzz: {why}");
            ExitCode::from(2)
        }
    }
}

/// `seeds` is `-` to translate, else the kernels' numbers with commas between.
fn child(seeds: &Path, input: &Path, output: &Path) -> Result<(), String> {
    let input = fs::read(input).map_err(|e| e.to_string())?;
    let seeds = seeds.to_string_lossy();
    let result = if seeds == "-" {
        translate(&String::from_utf8_lossy(&input))?
    } else {
        let seeds: Vec<u64> = seeds.split(',').filter_map(|seed| seed.parse().ok()).collect();
        let written = run(&input, &seeds)?;
        written
            .iter()
            .flat_map(|bytes| (bytes.len() as u64).to_le_bytes().into_iter().chain(bytes.iter().copied()))
            .collect()
    };
    fs::write(output, result).map_err(|e| e.to_string())
}

fn translate(source: &str) -> Result<Vec<u8>, String> {
    let device = Device::first();
    let context = Context::new(device).map_err(|e| e.to_string())?;
    let program = Program::from_source(&context, source).map_err(|e| e.to_string())?;
    if let Err(error) = program.compile("-cl-std=CL1.2") {
        return Err(format!("{error}\n{}", program.log(device).unwrap_or_default()));
    }
    program.binary().map_err(|e| e.to_string())
}

/// How code is made.
#[derive(Clone, Copy, PartialEq)]
enum Made {
    /// Optimized, for so many lanes.
    Lanes(u32),
    /// By the baseline tier.
    Baseline,
    /// By that for the first work-groups of a launch, for which optimized code is made that runs the others.
    Both,
}

/// What others are compared with.
const SCALAR: Made = Made::Lanes(1);

impl Display for Made {
    fn fmt(&self, f: &mut Formatter) -> fmt::Result {
        match self {
            Made::Lanes(lanes) => write!(f, "{lanes} lanes"),
            Made::Baseline => f.write_str("baseline"),
            Made::Both => f.write_str("baseline and optimized"),
        }
    }
}

/// Why a kernel is shown.
enum Finding {
    /// Another result in that code.
    Differs { made: Made, byte: usize },
    /// It did not build or run.
    Broken { made: Made, why: String },
}

struct Fuzzer<'a> {
    arguments: &'a Arguments,
    folder: tempfile::TempDir,
    environment: (&'static str, PathBuf),
}

impl Drop for Fuzzer<'_> {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.environment.1);
    }
}

impl<'a> Fuzzer<'a> {
    fn new(arguments: &'a Arguments) -> Result<Self, String> {
        let environment = icd::environment(&icd::library()?).map_err(|e| e.to_string())?;
        let folder = tempfile::tempdir().map_err(|e| e.to_string())?;
        Ok(Fuzzer { arguments, folder, environment })
    }

    /// Whether no kernel differs.
    fn all(&mut self) -> Result<bool, String> {
        let start = Instant::now();
        let (first, end) = (self.arguments.seed, self.arguments.seed + self.arguments.kernels);
        let widths = &self.arguments.widths;
        let mut failures = 0;
        for (turn, from) in (first..end).step_by(self.arguments.batch.max(1) as usize).enumerate() {
            let seeds: Vec<u64> = (from..(from + self.arguments.batch).min(end)).collect();
            let turns = if self.arguments.turns == 0 { widths.len() } else { self.arguments.turns };
            let step = widths.len().div_ceil(turns.max(1)).max(1);
            let lanes = (0..widths.len()).step_by(step).map(|k| widths[(k + turn) % widths.len()]);
            let others: Vec<Made> = lanes.map(Made::Lanes).chain([Made::Baseline, Made::Both]).collect();
            for (seed, finding) in self.compare(&seeds, &others) {
                failures += 1;
                self.show(seed, &finding);
            }
            if failures >= self.arguments.failures.max(1) {
                break;
            }
            if turn % 25 == 24 {
                eprintln!(
                    "{} kernels, {:.0} s",
                    seeds[seeds.len() - 1] + 1 - first,
                    start.elapsed().as_secs_f64()
                );
            }
        }
        println!("{failures} of {} kernels differ", end - first);
        Ok(failures == 0)
    }

    /// What is found among these kernels; several that don't run together are tried apart.
    fn compare(&self, seeds: &[u64], others: &[Made]) -> Vec<(u64, Finding)> {
        match self.compare_once(seeds, &Omitted::new(), others) {
            Ok(found) => found,
            Err(Finding::Broken { .. }) if seeds.len() > 1 => {
                let (left, right) = seeds.split_at(seeds.len() / 2);
                let mut found = self.compare(left, others);
                found.extend(self.compare(right, others));
                found
            }
            Err(finding) => vec![(seeds[0], finding)],
        }
    }

    fn compare_once(
        &self,
        seeds: &[u64],
        omitted: &Omitted,
        others: &[Made],
    ) -> Result<Vec<(u64, Finding)>, Finding> {
        let source = seeds.iter().fold(prelude(), |text, &seed| text + &kernel(seed, omitted).0);
        let broken = |made| move |why| Finding::Broken { made, why };
        fs::write(self.path("source.cl"), source).map_err(|e| broken(SCALAR)(e.to_string()))?;
        self.start("-", "source.cl", "program.spir", SCALAR).map_err(broken(SCALAR))?;
        let scalar = self.results(seeds, SCALAR).map_err(broken(SCALAR))?;
        let mut found = Vec::new();
        for &made in others {
            let other = self.results(seeds, made).map_err(broken(made))?;
            for ((&seed, scalar), other) in seeds.iter().zip(&scalar).zip(&other) {
                if let Some(byte) = scalar.iter().zip(other).position(|(a, b)| a != b) {
                    found.push((seed, Finding::Differs { made, byte }));
                }
            }
        }
        found.sort_by_key(|(seed, _)| *seed);
        found.dedup_by_key(|(seed, _)| *seed);
        Ok(found)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// What each kernel wrote.
    fn results(&self, seeds: &[u64], made: Made) -> Result<Vec<Vec<u8>>, String> {
        let list = seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(",");
        self.start(&list, "program.spir", "results", made)?;
        let all = fs::read(self.path("results")).map_err(|e| e.to_string())?;
        let mut rest = all.as_slice();
        let mut results = Vec::new();
        while let Some((length, after)) = rest.split_first_chunk() {
            let (written, after) = after.split_at(u64::from_le_bytes(*length) as usize);
            results.push(written.to_vec());
            rest = after;
        }
        Ok(results)
    }

    fn start(&self, seeds: &str, input: &str, output: &str, made: Made) -> Result<(), String> {
        let exe = env::current_exe().map_err(|e| e.to_string())?;
        let mut command = Command::new(exe);
        let tier = match made {
            Made::Lanes(_) => "optimized",
            Made::Baseline => "baseline",
            Made::Both => "auto",
        };
        command.arg("--child").arg(seeds).arg(self.path(input)).arg(self.path(output));
        command
            .env(self.environment.0, &self.environment.1)
            .env("SPIRULA_TIER", tier)
            .env(icd::CACHE_VARIABLE, "");
        match made {
            Made::Lanes(lanes) => command.env("SPIRULA_VECTOR_WIDTH", lanes.to_string()),
            Made::Both => command.env("SPIRULA_TUNE", "always"),
            Made::Baseline => &mut command,
        };
        let done = supervise::run(&mut command, Duration::from_secs(300)).map_err(|e| e.to_string())?;
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        match done.status {
            Some(status) if status.success() => Ok(()),
            Some(status) => Err(format!("{said}\n{}", supervise::describe(status))),
            None => Err(format!("{said}\ntoo slow")),
        }
    }

    fn show(&self, seed: u64, finding: &Finding) {
        let made = match finding {
            Finding::Differs { made, .. } | Finding::Broken { made, .. } => *made,
        };
        let (omitted, finding) = self.reduce(seed, made);
        let launch = Launch::new(seed);
        println!("{}\n// kernel {seed}, {launch:?}", kernel(seed, &omitted).0);
        match finding {
            Some(Finding::Differs { byte, .. }) => {
                println!("// {made}: another result, {}", launch.place(byte))
            }
            Some(Finding::Broken { why, .. }) => println!("// {made}: {why}"),
            None => println!("// {made}: differs at times only"),
        }
    }

    /// Leaves out what can be left out.
    fn reduce(&self, seed: u64, made: Made) -> (Omitted, Option<Finding>) {
        let mut omitted = Omitted::new();
        let other = if made == SCALAR { Made::Lanes(2) } else { made };
        let is_bad = |omitted: &Omitted| match self.compare_once(&[seed], omitted, &[other]) {
            Ok(mut found) => found.pop().map(|(_, finding)| finding),
            Err(finding) => Some(finding),
        };
        let mut last = is_bad(&omitted);
        let count = kernel(seed, &omitted).1;
        for _ in 0..if last.is_some() { 2 } else { 0 } {
            for statement in 0..count {
                if omitted.insert(statement) {
                    match is_bad(&omitted) {
                        Some(finding) => last = Some(finding),
                        None => drop(omitted.remove(&statement)),
                    }
                }
            }
        }
        (omitted, last)
    }
}
