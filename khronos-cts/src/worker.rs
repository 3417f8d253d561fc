//! The worker process: builds and runs programs on the one ICD that its environment names, as it is asked line by line.

use crate::spir::{launch, special};
use crate::suite::{Archives, Data, Entry};
use crate::vendor::Vendor;
use serde::{Deserialize, Serialize};
use spirula_tests::cl::{Context, Device, Platform, Program, Queue, SPIR12, sys};
use spirula_tests::supervise::{self, Lost, Worker};
use std::env;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

/// What a worker is asked to do.
#[derive(Serialize, Deserialize)]
pub enum Task {
    /// Only to build the binary.
    Build,
    /// To run the kernels of one form of the program, with arguments as of an earlier outcome, and write what came out
    /// ([`launch::Outcome`]) to a file.
    Launch { form: Form, like: Option<PathBuf>, outcome: PathBuf },
    /// To check what Khronos's test of this program checks.
    Special,
}

/// The two forms of a program.
#[derive(Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Form {
    /// The SPIR binary of the device's address width.
    Spir,
    /// The OpenCL C source.
    Source,
}

/// What came of it.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// It was done.
    Done,
    /// It could not be done, and why.
    Failed(String),
    /// The device says that it lacks what this needs.
    Lacks(String),
}

#[derive(Serialize, Deserialize)]
struct Request {
    entry: Entry,
    task: Task,
}

/// A worker process and what is needed to replace it when it dies.
pub struct Assistant<'a> {
    vendor: &'a Vendor,
    data: &'a Data,
    limit: Duration,
    worker: Option<Worker>,
}

impl<'a> Assistant<'a> {
    /// None is started before it is asked.
    pub fn new(vendor: &'a Vendor, data: &'a Data, limit: Duration) -> Self {
        Assistant { vendor, data, limit, worker: None }
    }

    /// The answer; a crash, a hang and a child that can't start are failures.
    pub fn ask(&mut self, entry: &Entry, task: Task) -> Answer {
        let answer = self.try_ask(&Request { entry: entry.clone(), task });
        answer.unwrap_or_else(|why| {
            self.worker = None;
            Answer::Failed(why)
        })
    }

    /// The answer of a process of its own, and all that it printed; of tests whose kernels print.
    pub fn ask_alone(&self, entry: &Entry, task: Task) -> (Answer, String) {
        let attempt = || -> Result<_, String> {
            let request =
                serde_json::to_string(&Request { entry: entry.clone(), task }).map_err(|e| e.to_string())?;
            let done = supervise::run(self.command()?.arg("--once").arg(request), self.limit);
            let done = done.map_err(|e| format!("can't start a worker: {e}"))?;
            let status = done.status.ok_or_else(|| format!("timed out after {} s", self.limit.as_secs()))?;
            let printed = String::from_utf8_lossy(&done.stdout).into_owned();
            // `serve` puts the answer into a line of its own.
            let split = printed.split_once(&format!("\n{}", Worker::MARK));
            let (before, from) =
                split.ok_or_else(|| format!("the process was lost: {}", supervise::describe(status)))?;
            let (answer, behind) = from.split_once('\n').unwrap_or((from, ""));
            let answer =
                serde_json::from_str(answer).map_err(|_| format!("the worker answered {answer:?}"))?;
            let rest = format!("{before}{behind}");
            Ok((answer, rest))
        };
        attempt().unwrap_or_else(|why| (Answer::Failed(why), String::new()))
    }

    fn try_ask(&mut self, request: &Request) -> Result<Answer, String> {
        let request = serde_json::to_string(request).map_err(|e| e.to_string())?;
        let worker = match &mut self.worker {
            Some(worker) => worker,
            None => self.worker.insert(self.start()?),
        };
        let answer = worker.ask(&request, self.limit).map_err(|lost| match lost {
            Lost::Died(how) => format!("the process was lost: {how}"),
            Lost::TimedOut => format!("timed out after {} s", self.limit.as_secs()),
        })?;
        serde_json::from_str(&answer).map_err(|_| format!("the worker answered {answer:?}"))
    }

    fn command(&self) -> Result<Command, String> {
        let exe = env::current_exe().map_err(|e| format!("can't find this program's own path: {e}"))?;
        let mut command = Command::new(exe);
        command.arg("worker").arg("--data").args(&self.data.paths);
        self.vendor.select(&mut command);
        Ok(command)
    }

    fn start(&self) -> Result<Worker, String> {
        Worker::start(&mut self.command()?).map_err(|e| format!("can't start a worker: {e}"))
    }
}

/// What the worker has open.
pub struct Bench {
    /// The ICD's only device.
    pub device: Device,
    /// A context of it.
    pub context: Context,
    /// A queue of it.
    pub queue: Queue,
    archives: Archives,
}

impl Bench {
    fn new(data: &[PathBuf]) -> Result<Bench, String> {
        let platforms = Platform::all().map_err(|e| format!("the loader finds no platform: {e}"))?;
        let [platform] = platforms[..] else {
            return Err(format!("the loader finds {} platforms instead of one", platforms.len()));
        };
        let devices = platform.devices().map_err(|e| format!("the platform has no device: {e}"))?;
        let device = *devices.first().ok_or("the platform has no device")?;
        let context = Context::new(device).map_err(|e| e.to_string())?;
        let queue = Queue::new(&context, device).map_err(|e| e.to_string())?;
        Ok(Bench { device, context, queue, archives: Archives::new(Data::open(data)?) })
    }

    /// Makes the program in this form; does not build it.
    pub fn program(&mut self, entry: &Entry, form: Form) -> Result<Program, String> {
        match form {
            Form::Source => {
                let source = self.archives.read(entry, "cl")?;
                Program::from_source(&self.context, &String::from_utf8_lossy(&source))
            }
            Form::Spir => {
                let narrow =
                    self.device.info::<u32>(sys::CL_DEVICE_ADDRESS_BITS).is_ok_and(|bits| bits == 32);
                let binary = self.archives.read(entry, if narrow { "bc32" } else { "bc64" })?;
                Program::from_binary(&self.context, self.device, &binary)
            }
        }
        .map_err(|e| e.to_string())
    }

    /// A build's error with the first line of its log.
    pub fn explain(&self, program: &Program, error: spirula_tests::cl::Error) -> String {
        let log = program.log(self.device).unwrap_or_default();
        let first = log.lines().map(str::trim).find(|line| !line.is_empty());
        format!("{error}: {}", first.unwrap_or("the log is empty"))
    }

    fn perform(&mut self, request: Request) -> Result<Answer, String> {
        let Request { entry, task } = request;
        if let Some(need) = self.archives.data.lacking(&entry, self.device) {
            return Ok(Answer::Lacks(need));
        }
        match task {
            Task::Build => self.build(&entry)?,
            Task::Special => special::check(self, &entry)?,
            Task::Launch { form, like, outcome } => {
                if let Some(lack) = launch::lacking(&entry, form, self.device) {
                    return Ok(Answer::Lacks(lack));
                }
                let like = like.map(|path| launch::Outcome::read(&path)).transpose()?.unwrap_or_default();
                launch::run(self, &entry, form, &like)?.write(&outcome)?;
            }
        }
        Ok(Answer::Done)
    }

    /// Builds one binary. The modules of "compile_and_link" need each other: they are compiled only.
    fn build(&mut self, entry: &Entry) -> Result<(), String> {
        let program = self.program(entry, Form::Spir)?;
        let part = entry.suite == "compile_and_link";
        let built = if part { program.compile(SPIR12) } else { program.build(SPIR12) };
        built.map_err(|error| self.explain(&program, error))?;
        if !part {
            program.kernels().map_err(|e| e.to_string())?;
        }
        Ok(())
    }
}

/// The process's main loop, or its only deed.
pub fn serve(data: &[PathBuf], once: Option<&str>) -> Result<(), String> {
    let mut bench = Bench::new(data); // if it fails, that is the answer to everything
    let mut answer = |line: &str| {
        let request = serde_json::from_str(line).map_err(|e| format!("not a request: {e}"));
        let bench = bench.as_mut().map_err(|why| why.clone());
        let answer = request.and_then(|request| bench?.perform(request)).unwrap_or_else(Answer::Failed);
        serde_json::to_string(&answer).unwrap_or_else(|e| e.to_string())
    };
    match once {
        // What a kernel printed need not end its line.
        Some(request) => println!("\n{}{}", Worker::MARK, answer(request)),
        None => Worker::serve(answer),
    }
    Ok(())
}
