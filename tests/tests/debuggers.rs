//! Kernels under their names in GDB and perf (`SPIRULA_DEBUG`).

use spirula_tests::cl::{Buffer, Context, Device, Kernel, NdRange, Program, Queue, SPIR12};
use spirula_tests::isolate::{self, ExpectedFailures, Failure, Outcome, Test};
use spirula_tests::{fixtures, supervise};
use std::fs;
use std::process::{Command, ExitCode};
use std::time::Duration;

/// Tells a process of a test that it is to be looked at.
const SUBJECT: &str = "SPIRULA_DEBUG_TEST";
const DEBUG: &str = "SPIRULA_DEBUG";

fn main() -> ExitCode {
    if std::env::var_os(SUBJECT).is_some() {
        return match subject() {
            Ok(()) => ExitCode::SUCCESS,
            Err(_) => ExitCode::FAILURE,
        };
    }
    let test =
        |name: &str, body: fn() -> Outcome| Test { limit: Duration::from_secs(300), ..Test::new(name, body) };
    let tests = [("optimized", "gdb_stops_at_a_kernel"), ("baseline", "gdb_stops_at_baseline_code")];
    let mut tests: Vec<Test> = tests
        .map(|(tier, name)| {
            let body = move || stops_at_a_kernel(tier);
            Test { limit: Duration::from_secs(300), ..Test::new(name, body) }
        })
        .into();
    tests.push(test("perf_is_told_the_names_of_kernels", perf_map));
    tests.push(test("nobody_is_told_without_being_asked_for", untold));
    isolate::main(tests, ExpectedFailures::default())
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

/// GDB stops where the kernel begins, which was loaded after it was asked to, and knows who called it.
fn stops_at_a_kernel(tier: &str) -> Outcome {
    if Command::new("gdb").arg("--version").output().is_err() {
        return Err(Failure::Skipped("there is no gdb".into()));
    }
    let script = [
        "set breakpoint pending on",
        "set debuginfod enabled off",
        "handle SIGCHLD SIGALRM nostop noprint",
        "break -qualified saxpy",
        "run",
        "printf \"here: \"",
        "info symbol $pc",
        "backtrace",
        "kill",
    ];
    let mut gdb = Command::new("gdb");
    gdb.args(["-nx", "-batch"]).args(script.iter().flat_map(|line| ["-ex", line])).arg("--args");
    gdb.arg(std::env::current_exe()?).env(SUBJECT, "1").env(DEBUG, "gdb").env("SPIRULA_TIER", tier);
    let done = supervise::run(&mut gdb, Duration::from_secs(200))?;
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    if said.contains("ptrace: Operation not permitted") {
        return Err(Failure::Skipped("nothing may be traced here".into()));
    }
    assert!(said.contains("Breakpoint 1, 0x") && said.contains("here: saxpy"), "{said}");
    // From the kernel to where its thread began.
    let ends = ["start_thread", "main ()"];
    assert!(
        said.contains("spirula_runtime::execute::") && ends.iter().any(|end| said.contains(end)),
        "{said}"
    );
    assert!(!said.contains("Backtrace stopped: previous frame"), "{said}");
    Ok(())
}

/// The map that a process leaves.
fn map(debug: Option<&str>) -> Result<Option<String>, Failure> {
    let mut command = Command::new(std::env::current_exe()?);
    command.env(SUBJECT, "1").env_remove(DEBUG).envs(debug.map(|debug| (DEBUG, debug)));
    let mut child = command.spawn()?;
    assert!(child.wait()?.success());
    let path = format!("/tmp/perf-{}.map", child.id());
    let text = fs::read_to_string(&path).ok();
    let _ = fs::remove_file(path);
    Ok(text)
}

fn perf_map() -> Outcome {
    let text = map(Some("perf"))?.ok_or("there is no map")?;
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

fn untold() -> Outcome {
    assert_eq!(map(None)?, None);
    assert_eq!(map(Some("gdb"))?, None);
    Ok(())
}
