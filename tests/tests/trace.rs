//! The timeline of `SPIRULA_TRACE`: whole JSON however the application ends, spans that are nested and belong to each other. And what the
//! log says of launches.

use rustix::process::{Signal, getpid, kill_process};
use serde_json::Value;
use spirula_tests::cl::sys::{CL_COMPLETE, CL_DEVICE_COMPILER_AVAILABLE, CL_TRUE};
use spirula_tests::cl::{Buffer, Context, Device, Event, Kernel, NdRange, Object, Program, Queue, SPIR12};
use spirula_tests::isolate::{self, ExpectedFailures, Failure, Outcome, Test};
use spirula_tests::{call, cycle, fixtures};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, ExitCode};
use std::ptr::null_mut;
use std::time::{Duration, Instant};

/// Tells a process of a test how it is to end.
const END: &str = "SPIRULA_TRACE_TEST";
const TRACE: &str = "SPIRULA_TRACE";

fn main() -> ExitCode {
    if let Some(end) = std::env::var_os(END) {
        return match application(&end.to_string_lossy()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(Failure::Failed(why) | Failure::Skipped(why)) => {
                eprintln!("{why}");
                ExitCode::FAILURE
            }
        };
    }
    type Body = fn() -> Outcome;
    let tests: [(&str, Body); 7] = [
        ("spans_are_nested_and_belong_to_each_other", nested),
        ("clang_ends_where_the_compiler_begins", translated),
        ("an_exit_without_releases_writes_all_of_it", exit),
        ("a_killed_process_leaves_whole_json", killed),
        ("a_path_may_have_the_process_in_it", numbered),
        ("a_file_that_can_not_be_written_costs_nothing_else", no_file),
        ("the_log_has_a_line_for_a_launch_that_takes_its_time", logged),
    ];
    let tests = tests.map(|(name, body)| Test { limit: Duration::from_secs(300), ..Test::new(name, body) });
    isolate::main(tests.into(), ExpectedFailures::default())
}

/// `mandelbrot`, for an image of so many points in a row, each of which takes so many steps at most.
fn mandelbrot(context: &Context, device: Device, (size, steps): (usize, i32)) -> Result<Kernel, Failure> {
    let program = Program::from_binary(context, device, &fixtures::load("bench/mandelbrot.bc64"))?;
    program.build(SPIR12)?;
    let kernel = Kernel::new(&program, "mandelbrot")?;
    let image = Buffer::copy_of(context, &vec![0_i32; size * size])?;
    kernel.set_object(0, Some(&image))?;
    kernel.set(1, size as i32)?;
    kernel.set(2, steps)?;
    // A single point is the middle, which takes all steps.
    let [from, step] = if size == 1 { [0.0, 0.0] } else { [-1.5, 3.0 / size as f32] };
    (3..6).zip([from, from, step]).try_for_each(|(index, value)| kernel.set(index, value))?;
    // The kernel's argument keeps the buffer only in the command that runs.
    std::mem::forget(image);
    Ok(kernel)
}

/// A launch of one work-item whose steps wait for each other: no processor takes two of them in a nanosecond.
fn slow_application() -> Outcome {
    let device = Device::first();
    let context = Context::new(device)?;
    let queue = Queue::new(&context, device)?;
    let kernel = mandelbrot(&context, device, (1, 400_000_000))?;
    queue.launch(&kernel, NdRange { global: &[1, 1], local: None, offset: None })?.wait()?;
    Ok(())
}

/// A build of a source.
fn source_application() -> Outcome {
    let device = Device::first();
    let context = Context::new(device)?;
    Program::from_source(&context, "kernel void k(global int *p) { *p = 1; }")?.build("")?;
    Ok(())
}

/// Builds and launches that take all the ways, and an end.
fn application(end: &str) -> Outcome {
    match end {
        "slow" => return slow_application(),
        "source" => return source_application(),
        _ => {}
    }
    let device = Device::first();
    cycle::once(device, 1)?;
    let context = Context::new(device)?;
    let queue = Queue::new(&context, device)?;
    let size = 1024;
    let kernel = mandelbrot(&context, device, (size, 500))?;
    let read = Buffer::copy_of(&context, &[0_i32; 16])?;
    let before = Event::user(&context)?;
    call!(clEnqueueBarrierWithWaitList(queue.raw(), 1, &before.raw(), null_mut()))?;
    let range = NdRange { global: &[size, size], local: None, offset: None };
    let launch = queue.launch(&kernel, range)?;
    let told = std::thread::spawn(move || {
        std::thread::sleep(Duration::from_millis(20));
        before.set_status(CL_COMPLETE)
    });
    launch.wait()?;
    told.join().expect("it sets a status")?;
    for _ in 0..10 {
        queue.launch(&kernel, range)?;
    }
    queue.read(&read, &mut [0_i32; 16])?;
    queue.finish()?;
    match end {
        "exit" => std::process::exit(0),
        "kill" => {
            // Until it is there: nobody says when it will be.
            let path = std::env::var(TRACE)?;
            let begun = Instant::now();
            while !fs::read_to_string(&path)?.contains("\"launch\"")
                && begun.elapsed() < Duration::from_secs(60)
            {
                std::thread::sleep(Duration::from_millis(5));
            }
            kill_process(getpid(), Signal::KILL)?;
        }
        _ => {}
    }
    Ok(())
}

/// Has another process run that way, and returns its events.
fn traced(path: &Path, end: &str) -> Result<Vec<Value>, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    let status = command.env(END, end).env(TRACE, path).status()?;
    if status.success() == (end == "kill") {
        return Err(Failure::Failed(format!("it ended with {status}")));
    }
    parse(path)
}

fn parse(path: &Path) -> Result<Vec<Value>, Failure> {
    let text = fs::read_to_string(path)?;
    let events: Value =
        serde_json::from_str(&text).map_err(|error| Failure::Failed(format!("{error}: {text:.2000}")))?;
    Ok(events.as_array().cloned().unwrap_or_default())
}

/// A span that has begun and ended on one thread, in ns.
#[derive(Clone, Debug)]
struct Span {
    thread: i64,
    category: String,
    name: String,
    begun: u64,
    ended: u64,
    /// In µs and in floating point, as viewers have them.
    shown: [f64; 2],
    launch: Option<String>,
}

impl Span {
    fn of(event: &Value) -> Option<Span> {
        let ns = |name: &str| event[name].as_f64().map(|micros| (micros * 1000.0).round() as u64);
        let begun = (event["ph"] == "X").then(|| ns("ts")).flatten()?;
        Some(Span {
            thread: event["tid"].as_i64()?,
            category: event["cat"].as_str()?.into(),
            name: event["name"].as_str()?.into(),
            begun,
            ended: begun + ns("dur")?,
            shown: event["ts"].as_f64().zip(event["dur"].as_f64()).map(|(ts, dur)| [ts, ts + dur])?,
            launch: event["args"]["launch"].as_str().map(str::to_owned),
        })
    }

    fn contains(&self, other: &Span) -> bool {
        self.begun <= other.begun && other.ended <= self.ended
    }
}

/// Checks what holds of every timeline.
fn check(events: &[Value]) -> Vec<Span> {
    let spans: Vec<Span> = events.iter().filter_map(Span::of).collect();
    let mut threads: BTreeMap<i64, Vec<&Span>> = BTreeMap::new();
    spans.iter().for_each(|span| threads.entry(span.thread).or_default().push(span));
    for spans in threads.values_mut() {
        spans.sort_by_key(|span| (span.begun, std::cmp::Reverse(span.ended)));
        let mut open: Vec<&Span> = Vec::new();
        for span in spans.iter() {
            open.retain(|outer| outer.shown[1] > span.shown[0]);
            if let Some(outer) = open.last() {
                assert!(outer.contains(span), "{span:?} is only in part within {outer:?}");
            }
            open.push(span);
        }
    }
    let within = |inner: &Span, category: &str| {
        spans
            .iter()
            .any(|outer| outer.category == category && outer.thread == inner.thread && outer.contains(inner))
    };
    for span in &spans {
        match &*span.category {
            "chunk" => {
                let launches =
                    spans.iter().filter(|launch| launch.category == "launch" && launch.launch == span.launch);
                let mut launches =
                    launches.filter(|launch| launch.contains(span) && launch.name == span.name);
                assert!(launches.next().is_some(), "{span:?} belongs to no launch");
            }
            "launch" => assert!(within(span, "command"), "{span:?} is in no command"),
            "stage" => assert!(within(span, "build"), "{span:?} is in no build"),
            _ => {}
        }
    }
    let named: BTreeSet<i64> = events
        .iter()
        .filter(|event| event["name"] == "thread_name")
        .filter_map(|event| event["tid"].as_i64())
        .collect();
    let unnamed: Vec<_> = threads.keys().filter(|thread| !named.contains(thread)).collect();
    assert!(unnamed.is_empty(), "{unnamed:?} have no names");
    // What waits in a queue has begun and ended.
    let phase = |phase: &str| events.iter().filter(|event| event["ph"] == phase).count();
    assert_eq!(phase("b"), phase("e"));
    spans
}

fn count(spans: &[Span], category: &str, name: &str) -> usize {
    spans.iter().filter(|span| span.category == category && span.name.contains(name)).count()
}

fn has_everything(spans: &[Span]) {
    assert_eq!(count(spans, "build", "clBuildProgram"), 2, "{spans:?}");
    assert_eq!(count(spans, "build", "load"), 2);
    assert!(count(spans, "stage", "") >= 4, "{spans:?}");
    let launches = spans.iter().filter(|span| span.category == "launch" && span.name == "mandelbrot");
    assert!(launches.count() >= 11);
    assert!(count(spans, "chunk", "mandelbrot") >= 11);
    assert!(count(spans, "command", "CL_COMMAND_NDRANGE_KERNEL") >= 12);
    assert!(count(spans, "command", "CL_COMMAND_READ_BUFFER") >= 1);
    assert!(count(spans, "wait", "wait for CL_COMMAND_NDRANGE_KERNEL") >= 1);
    assert_eq!(count(spans, "wait", "CL_COMMAND_BARRIER waits for its events"), 1);
}

fn nested() -> Outcome {
    let folder = tempfile::tempdir()?;
    let events = traced(&folder.path().join("trace.json"), "return")?;
    has_everything(&check(&events));
    let queued = |event: &&Value| event["ph"] == "b" && event["cat"] == "queued";
    assert!(events.iter().filter(queued).count() >= 12);
    Ok(())
}

fn translated() -> Outcome {
    if Device::first().info::<u32>(CL_DEVICE_COMPILER_AVAILABLE)? != CL_TRUE {
        return Err(Failure::Skipped("CL_DEVICE_COMPILER_AVAILABLE is false".into()));
    }
    let folder = tempfile::tempdir()?;
    let spans = check(&traced(&folder.path().join("trace.json"), "source")?);
    let one = |name: &str| spans.iter().find(|span| span.name.contains(name)).ok_or(format!("no {name}"));
    assert!(one("clang")?.ended <= one("compile a program")?.begun, "{spans:?}");
    Ok(())
}

fn exit() -> Outcome {
    let folder = tempfile::tempdir()?;
    has_everything(&check(&traced(&folder.path().join("trace.json"), "exit")?));
    Ok(())
}

fn killed() -> Outcome {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("trace.json");
    let spans = check_of_killed(&traced(&path, "kill")?);
    assert!(count(&spans, "launch", "") >= 1, "{spans:?}");
    Ok(())
}

/// What was not written yet may be what others stand in.
fn check_of_killed(events: &[Value]) -> Vec<Span> {
    events.iter().filter_map(Span::of).collect()
}

fn numbered() -> Outcome {
    let folder = tempfile::tempdir()?;
    let mut command = Command::new(std::env::current_exe()?);
    let mut child = command.env(END, "return").env(TRACE, folder.path().join("trace-%p.json")).spawn()?;
    assert!(child.wait()?.success());
    check(&parse(&folder.path().join(format!("trace-{}.json", child.id())))?);
    Ok(())
}

fn no_file() -> Outcome {
    let mut command = Command::new(std::env::current_exe()?);
    let command = command.env(END, "return").env(TRACE, "/nowhere/trace.json").env("SPIRULA_LOG", "error");
    let output = command.output()?;
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    assert!(said.contains("no timeline is written to /nowhere/trace.json"), "{said}");
    Ok(())
}

fn logged() -> Outcome {
    let said = |level: &str| -> Result<String, Failure> {
        let mut command = Command::new(std::env::current_exe()?);
        let output = command.env(END, "slow").env_remove(TRACE).env("SPIRULA_LOG", level).output()?;
        assert!(output.status.success(), "{}", output.status);
        Ok(String::from_utf8(output.stderr)?)
    };
    let info = said("info")?;
    assert_eq!(info.matches("info: a launch of kernel mandelbrot took ").count(), 1, "{info}");
    assert_eq!(info.matches("info: clBuildProgram of ").count(), 1, "{info}");
    assert_eq!(said("warn")?.matches("took").count(), 0);
    Ok(())
}
