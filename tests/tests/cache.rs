//! What one process compiled, the next one finds: without a compiler, through damage and kill -9, and never the wrong code.
//! Each test has an installation and a folder of its own, and runs its steps in processes of their own.

use rustix::process::{Pid, Signal, kill_process};
use spirula_tests::cl::{Buffer, Context, Device, Kernel, NdRange, Program, Queue, SPIR12};
use spirula_tests::isolate::{self, ExpectedFailures, Outcome, Test};
use spirula_tests::{cycle, fixtures, icd, supervise};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;
use tempfile::TempDir;

/// Tells a process of a test which step it is.
const STEP: &str = "SPIRULA_CACHE_TEST_STEP";
/// Leads to the source's header.
const FOLDER: &str = "SPIRULA_CACHE_TEST_FOLDER";

fn main() -> ExitCode {
    type Body = fn() -> Outcome;
    let tests: [(&str, Body); 5] = [
        ("what_was_built_needs_no_compiler", no_compiler),
        ("nothing_is_kept_where_nothing_is_to_be", off),
        ("damaged_entries_are_compiled_again", damaged),
        ("a_changed_header_is_seen", header),
        ("killed_processes_leave_nothing_wrong", killed),
    ];
    let tests = tests.map(|(name, body)| Test { limit: Duration::from_secs(300), ..Test::new(name, body) });
    isolate::main(tests.into(), ExpectedFailures::default())
}

/// A folder for the cache, and one for a source's header.
struct Place {
    folder: TempDir,
}

/// A step of a test, in another process.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Step {
    /// Two programs as binaries.
    Binaries,
    /// One of them, with an option.
    Option,
    /// A source, whose header says 1, or 2.
    Source(i32),
}

impl Step {
    const ALL: [Step; 4] = [Step::Binaries, Step::Option, Step::Source(1), Step::Source(2)];

    fn run(self) -> Outcome {
        let device = Device::first();
        match self {
            Step::Binaries => {
                cycle::once(device, 1)?;
                built("bench/saxpy.bc64", SPIR12)
            }
            Step::Option => built("bench/saxpy.bc64", &format!("{SPIR12} -cl-opt-disable")),
            Step::Source(expected) => source(device, expected),
        }
    }
}

fn built(fixture: &str, options: &str) -> Outcome {
    let device = Device::first();
    let context = Context::new(device)?;
    Program::from_binary(&context, device, &fixtures::load(fixture))?.build(options)?;
    Ok(())
}

fn source(device: Device, expected: i32) -> Outcome {
    let context = Context::new(device)?;
    let queue = Queue::new(&context, device)?;
    let text = "#include \"number.h\"\nkernel void k(global int *p) { *p = NUMBER; }";
    let program = Program::from_source(&context, text)?;
    program.build(&format!("-I {}", std::env::var(FOLDER)?))?;
    let mut result = [0_i32];
    let buffer = Buffer::copy_of(&context, &result)?;
    let kernel = Kernel::new(&program, "k")?;
    kernel.set_object(0, Some(&buffer))?;
    queue.launch(&kernel, NdRange::new(&[1], &[1]))?.wait()?;
    queue.read(&buffer, &mut result)?;
    assert_eq!(result, [expected]);
    Ok(())
}

/// The body of a test: its steps come back here, and do what they are to do.
fn with_steps(test: impl FnOnce(&Place) -> Outcome) -> Outcome {
    if let Ok(number) = std::env::var(STEP) {
        return Step::ALL[number.parse::<usize>()?].run();
    }
    test(&Place { folder: tempfile::tempdir()? })
}

impl Place {
    fn cache(&self) -> PathBuf {
        self.folder.path().join("cache")
    }

    fn command(&self, step: Step, compiler: &Path) -> Result<Command, String> {
        let number = Step::ALL.iter().position(|other| *other == step).expect("one of all");
        let mut command = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
        command.env(icd::CACHE_VARIABLE, self.cache()).env(FOLDER, self.folder.path());
        command.env(STEP, number.to_string()).env("SPIRULA_COMPILER", compiler);
        Ok(command)
    }

    /// Whether the step succeeds.
    fn step(&self, step: Step, compiler: &Path) -> Result<bool, String> {
        let done = supervise::run(&mut self.command(step, compiler)?, Duration::from_secs(100));
        let done = done.map_err(|error| error.to_string())?;
        eprintln!("{step:?}: {:?} {}", done.status, String::from_utf8_lossy(&done.stderr));
        done.status.map(|status| status.success()).ok_or_else(|| format!("{step:?} does not end"))
    }

    fn compiles(&self, step: Step) -> Outcome {
        assert!(self.step(step, &icd::compiler()?)?, "{step:?} fails");
        Ok(())
    }

    fn is_known(&self, step: Step) -> Result<bool, String> {
        self.step(step, Path::new("/bin/false"))
    }

    fn entries(&self) -> Vec<PathBuf> {
        let inside = |folder: &Path| fs::read_dir(folder).into_iter().flatten().flatten();
        let shares = inside(&self.cache()).map(|share| share.path());
        shares.flat_map(|share| inside(&share).map(|file| file.path()).collect::<Vec<_>>()).collect()
    }
}

fn no_compiler() -> Outcome {
    with_steps(|place| {
        assert!(!place.is_known(Step::Binaries)?, "who has compiled it?");
        place.compiles(Step::Binaries)?;
        assert!(place.is_known(Step::Binaries)?, "it has to be compiled again");
        assert!(!place.is_known(Step::Option)?, "another option, another program");
        place.compiles(Step::Option)?;
        assert!(place.is_known(Step::Option)?);
        Ok(())
    })
}

fn off() -> Outcome {
    with_steps(|place| {
        let compiler = icd::compiler()?;
        let mut command = place.command(Step::Binaries, &compiler)?;
        command.env(icd::CACHE_VARIABLE, "").env("HOME", place.folder.path()).env_remove("XDG_CACHE_HOME");
        assert!(command.status()?.success());
        assert_eq!(fs::read_dir(place.folder.path())?.count(), 0, "something was kept");
        command.env_remove(icd::CACHE_VARIABLE);
        assert!(command.status()?.success());
        assert!(place.folder.path().join(".cache/spirula/0").is_dir(), "by default it is there");
        // A folder that can't be used costs nothing but the time.
        fs::write(place.cache(), "a file")?;
        place.compiles(Step::Binaries)
    })
}

fn damaged() -> Outcome {
    with_steps(|place| {
        place.compiles(Step::Binaries)?;
        let entries = place.entries();
        assert!(entries.len() >= 3, "two programs and a processor: {entries:?}");
        for (number, entry) in entries.iter().enumerate() {
            let mut bytes = fs::read(entry)?;
            let middle = bytes.len() / 2;
            if number % 2 == 0 {
                bytes[middle] ^= 0x10;
            } else {
                bytes.truncate(middle);
            }
            fs::write(entry, bytes)?;
        }
        assert!(!place.is_known(Step::Binaries)?);
        place.compiles(Step::Binaries)?;
        assert!(place.is_known(Step::Binaries)?, "they were not replaced");
        Ok(())
    })
}

fn header() -> Outcome {
    with_steps(|place| {
        for number in [1, 2, 1] {
            fs::write(place.folder.path().join("number.h"), format!("#define NUMBER {number}\n"))?;
            place.compiles(Step::Source(number))?;
            place.compiles(Step::Source(number))?;
        }
        Ok(())
    })
}

fn killed() -> Outcome {
    with_steps(|place| {
        let compiler = icd::compiler()?;
        let start = || -> Result<Child, String> {
            let mut command = place.command(Step::Binaries, &compiler)?;
            command.stderr(Stdio::null()).spawn().map_err(|error| error.to_string())
        };
        // Killed after different times, from at once to after the end.
        for round in 0..6_u64 {
            let mut children = (0..4).map(|_| start()).collect::<Result<Vec<_>, _>>()?;
            for (number, child) in children.iter_mut().enumerate() {
                std::thread::sleep(Duration::from_millis(7 * round + 3 * number as u64));
                kill_process(Pid::from_child(child), Signal::KILL)?;
                child.wait()?;
            }
        }
        place.compiles(Step::Binaries)?;
        assert!(place.is_known(Step::Binaries)?);
        Ok(())
    })
}
