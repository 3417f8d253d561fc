//! Kernels under their names, and their sources' lines, in GDB and perf (`SPIRULA_DEBUG`).

use spirula_tests::cl::sys::{CL_DEVICE_COMPILER_AVAILABLE, CL_TRUE};
use spirula_tests::cl::{Buffer, Context, Device, Kernel, NdRange, Program, Queue, SPIR12};
use spirula_tests::isolate::{self, ExpectedFailures, Failure, Outcome, Test};
use spirula_tests::{fixtures, supervise};
use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, ExitCode};
use std::time::Duration;

/// Tells a process of a test that it is to be looked at.
const SUBJECT: &str = "SPIRULA_DEBUG_TEST";
const DEBUG: &str = "SPIRULA_DEBUG";
/// What it is told: to run [`TEXT`], optimized or so that each line has one place, or a binary without lines.
const SOURCE: &str = "source";
const PLAIN: &str = "plain";
const BINARY: &str = "binary";

/// A kernel whose work is on lines of its own, some of them another function's.
const TEXT: &str = "float third(float x)
{
    return x / 3;
}

kernel void lines(global float *x, int n)
{
    size_t i = get_global_id(0);
    for (int k = 0; k < n; k++) {
        x[i] = third(x[i])
             + sqrt(x[i] + k);
    }
    x[i] += 1;
}
";
/// Where it computes and stores.
const LINES: [u32; 4] = [3, 10, 11, 13];

fn main() -> ExitCode {
    if let Some(what) = std::env::var_os(SUBJECT) {
        let ran = match what.to_str() {
            Some(SOURCE) => from_source(""),
            Some(PLAIN) => from_source("-cl-opt-disable"),
            _ => subject(),
        };
        return match ran {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    let test =
        |name: &str, body: fn() -> Outcome| Test { limit: Duration::from_secs(300), ..Test::new(name, body) };
    let tests = [
        test("gdb_stops_at_a_kernel", || stops_at_a_kernel("optimized")),
        test("gdb_stops_at_baseline_code", || stops_at_a_kernel("baseline")),
        test("gdb_stops_at_a_line", || stops_at_a_line("optimized")),
        test("gdb_stops_at_a_line_of_baseline_code", || stops_at_a_line("baseline")),
        test("perf_is_told_the_names_of_kernels", perf_map),
        test("perf_is_told_the_lines_of_kernels", perf_lines),
        test("nobody_is_told_without_being_asked_for", untold),
    ];
    isolate::main(tests.into(), ExpectedFailures::default())
}

/// Runs a kernel a few times, of several programs, one after the other.
fn subject() -> Outcome {
    (0..3).try_for_each(|_| program())
}

fn program() -> Outcome {
    let device = Device::first();
    let context = Context::new(device)?;
    let queue = Queue::new(&context, device)?;
    let program = Program::from_binary(&context, device, &fixtures::load("bench/saxpy.bc64"))?;
    program.build(SPIR12)?;
    let kernel = Kernel::new(&program, "saxpy")?;
    let values = vec![1.0_f32; 1 << 16];
    let (x, y) = (Buffer::copy_of(&context, &values)?, Buffer::copy_of(&context, &values)?);
    kernel.set_object(0, Some(&x))?;
    kernel.set_object(1, Some(&y))?;
    kernel.set(2, 2.0_f32)?;
    for _ in 0..3 {
        queue.launch(&kernel, NdRange { global: &[1 << 16], local: None, offset: None })?;
    }
    queue.finish()?;
    Ok(())
}

/// Builds and runs a program whose source is known.
fn from_source(options: &str) -> Outcome {
    let device = Device::first();
    let context = Context::new(device)?;
    let queue = Queue::new(&context, device)?;
    let program = Program::from_source(&context, TEXT)?;
    program.build(options)?;
    let kernel = Kernel::new(&program, "lines")?;
    let x = Buffer::copy_of(&context, &[1.0_f32; 1024])?;
    kernel.set_object(0, Some(&x))?;
    kernel.set(1, 3)?;
    queue.launch(&kernel, NdRange::new(&[1024], &[64]))?;
    queue.finish()?;
    Ok(())
}

/// What GDB says that runs these commands on a process of a test.
fn gdb(subject: &str, tier: &str, commands: &[&str]) -> Result<String, Failure> {
    if Command::new("gdb").arg("--version").output().is_err() {
        return Err(Failure::Skipped("there is no gdb".into()));
    }
    let always =
        ["set breakpoint pending on", "set debuginfod enabled off", "handle SIGCHLD SIGALRM nostop noprint"];
    let mut gdb = Command::new("gdb");
    let script = always.iter().chain(commands).chain(&["kill"]);
    gdb.args(["-nx", "-batch"]).args(script.flat_map(|line| ["-ex", line])).arg("--args");
    gdb.arg(std::env::current_exe()?).env(SUBJECT, subject).env(DEBUG, "gdb").env("SPIRULA_TIER", tier);
    let done = supervise::run(&mut gdb, Duration::from_secs(200))?;
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    if said.contains("ptrace: Operation not permitted") {
        return Err(Failure::Skipped("nothing may be traced here".into()));
    }
    Ok(said)
}

/// GDB stops where the kernel begins, which was loaded after it was asked to, and knows who called it.
fn stops_at_a_kernel(tier: &str) -> Outcome {
    let commands = ["break -qualified saxpy", "run", "printf \"here: \"", "info symbol $pc", "backtrace"];
    let said = gdb(BINARY, tier, &commands)?;
    assert!(said.contains("Breakpoint 1, 0x") && said.contains("here: saxpy"), "{said}");
    assert_is_called(&said);
    Ok(())
}

/// The backtrace goes from the kernel to where its thread began.
fn assert_is_called(said: &str) {
    let ends = ["start_thread", "main ()"];
    assert!(
        said.contains("spirula_runtime::execute::") && ends.iter().any(|end| said.contains(end)),
        "{said}"
    );
    assert!(!said.contains("Backtrace stopped: previous frame"), "{said}");
}

/// GDB stops at a line of the kernel, and at one of a function that was inlined there.
fn stops_at_a_line(tier: &str) -> Outcome {
    needs_a_compiler()?;
    let commands = ["break source.cl:3", "tbreak source.cl:13", "run", "backtrace", "delete 1", "continue"];
    let said = gdb(PLAIN, tier, &commands)?;
    let stops: Vec<&str> =
        said.lines().filter(|line| line.contains("reakpoint") && line.contains(", ")).collect();
    let [first, second] = stops[..] else { panic!("{said}") };
    assert!(first.contains("lines () at source.cl:3"), "{said}");
    assert!(second.contains("lines () at source.cl:13"), "{said}");
    assert_is_called(&said);
    Ok(())
}

fn needs_a_compiler() -> Outcome {
    match Device::first().info::<u32>(CL_DEVICE_COMPILER_AVAILABLE)? {
        CL_TRUE => Ok(()),
        _ => Err(Failure::Skipped("CL_DEVICE_COMPILER_AVAILABLE is false".into())),
    }
}

/// What a process leaves for perf: its map, and its dump of code.
fn left_behind(subject: &str, debug: Option<&str>) -> Result<(Option<String>, Option<Vec<u8>>), Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.env(SUBJECT, subject).env_remove(DEBUG).envs(debug.map(|debug| (DEBUG, debug)));
    let mut child = command.spawn()?;
    assert!(child.wait()?.success());
    let paths = ["perf-", "jit-"].map(|name| format!("/tmp/{name}{}", child.id()));
    let (map, dump) = (format!("{}.map", paths[0]), format!("{}.dump", paths[1]));
    let left = (fs::read_to_string(&map).ok(), fs::read(&dump).ok());
    let _ = (fs::remove_file(map), fs::remove_file(dump));
    Ok(left)
}

fn perf_map() -> Outcome {
    let text = left_behind(BINARY, Some("perf"))?.0.ok_or("there is no map")?;
    let mut places = Vec::new();
    for line in text.lines().filter(|line| line.ends_with(" saxpy")) {
        let mut numbers = line.split(' ').map(|number| u64::from_str_radix(number, 16));
        let (Some(Ok(start)), Some(Ok(size))) = (numbers.next(), numbers.next()) else {
            return Err(Failure::Failed(format!("what is {line:?}?")));
        };
        assert!(start > 4096 && (1..1 << 20).contains(&size), "{line}");
        places.push(start..start + size);
    }
    places.sort_by_key(|place| place.start);
    assert!(places.len() >= 3, "{text}");
    assert!(places.windows(2).all(|pair| pair[0].end <= pair[1].start), "where was what? {text}");
    Ok(())
}

/// perf's dump has the kernel's code and the lines of its source, which come from DWARF.
fn perf_lines() -> Outcome {
    needs_a_compiler()?;
    let dump = left_behind(SOURCE, Some("perf"))?.1.ok_or("there is no dump")?;
    let number = |at: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| dump[at + byte]));
    let text = |at: usize| {
        let bytes = dump[at..].iter().copied().take_while(|&byte| byte != 0).collect();
        String::from_utf8(bytes).unwrap_or_default()
    };
    assert_eq!([number(0), number(4), number(8)], [0x4A69_5444, 1, 40]);
    let (mut lines, mut names) = (BTreeSet::new(), Vec::new());
    let mut at = 40;
    while at < dump.len() {
        match number(at) {
            0 => names.push(text(at + 56)),
            2 => {
                let mut entry = at + 32;
                for _ in 0..number(at + 24) {
                    let file = text(entry + 16);
                    assert_eq!(file, "source.cl");
                    lines.insert(number(entry + 8));
                    entry += 16 + file.len() + 1;
                }
            }
            kind => return Err(format!("what is a record {kind}?").into()),
        }
        at += number(at + 4) as usize;
    }
    assert!(names.iter().any(|name| name == "lines"), "{names:?}");
    assert!(LINES.iter().all(|line| lines.contains(line)), "{lines:?}");
    Ok(())
}

fn untold() -> Outcome {
    assert_eq!(left_behind(BINARY, None)?, (None, None));
    assert_eq!(left_behind(BINARY, Some("gdb"))?, (None, None));
    Ok(())
}
