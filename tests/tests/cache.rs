//! What one process compiled, the next one finds: without a compiler, through damage and kill -9, and never the wrong code.
//! Each test has an installation and a folder of its own, and runs its steps in processes of their own.

use rustix::process::{Pid, Signal, WaitOptions, kill_process};
use spirula_tests::cl::{Buffer, Context, Device, Kernel, NdRange, Program, Queue, SPIR12};
use spirula_tests::isolate::{self, ExpectedFailures, Failure, Outcome, Test};
use spirula_tests::{cycle, fixtures, icd, supervise};
use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// Tells a process of a test which step it is.
const STEP: &str = "SPIRULA_CACHE_TEST_STEP";
/// How many programs the attack is on, 8 by default: with 100 or more there are 8 processes.
const SIZE: &str = "SPIRULA_CACHE_ATTACK";
/// Leads to the source's header.
const FOLDER: &str = "SPIRULA_CACHE_TEST_FOLDER";

fn main() -> ExitCode {
    type Body = fn() -> Outcome;
    let tests: [(&str, Body); 12] = [
        ("what_was_built_needs_no_compiler", no_compiler),
        ("nothing_is_kept_where_nothing_is_to_be", off),
        ("damaged_entries_are_compiled_again", damaged),
        ("a_changed_header_is_seen", header),
        ("a_header_that_a_macro_names_is_known", macros),
        ("a_build_outlives_its_application", outlived),
        ("a_build_outlives_an_application_that_built_nothing_itself", outlived_by_the_first),
        ("killed_processes_leave_nothing_wrong", killed),
        ("a_cache_under_attack_yields_the_right_code", attacked),
        ("a_full_disk_costs_only_what_it_would_keep", full_disk),
        ("a_folder_that_is_only_for_reading_is_read", read_only),
        ("a_folder_of_another_user_is_neither_read_nor_written", another_user),
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
    /// A source whose header is named by macros, and says 1, or 2.
    Macros(i32),
    /// Many sources, whose results differ.
    Many,
    /// A program that is built.
    Slow,
    /// Launches that are worth better code, and an end before that can be there.
    Hasty,
    /// The same kernel once.
    Again,
}

impl Step {
    const ALL: [Step; 10] = [
        Step::Binaries,
        Step::Option,
        Step::Source(1),
        Step::Source(2),
        Step::Macros(1),
        Step::Macros(2),
        Step::Many,
        Step::Slow,
        Step::Hasty,
        Step::Again,
    ];

    fn run(self) -> Outcome {
        let device = Device::first();
        match self {
            Step::Binaries => {
                cycle::once(device, 1)?;
                built("bench/saxpy.bc64", SPIR12)
            }
            Step::Option => built("bench/saxpy.bc64", &format!("{SPIR12} -cl-opt-disable")),
            Step::Source(expected) => {
                let text = "#include \"number.h\"\nkernel void k(global int *p) { *p = NUMBER; }";
                source(device, text, &format!("-I {}", std::env::var(FOLDER)?), expected)
            }
            Step::Macros(expected) => {
                let text = "#include OF(FOLDER/number.h)\nkernel void k(global int *p) { *p = NUMBER; }";
                let options = format!("-D FOLDER={} -D NAME(x)=#x -D OF(x)=NAME(x)", std::env::var(FOLDER)?);
                source(device, text, &options, expected)
            }
            Step::Many => many(device),
            Step::Slow => slow(device).map(drop),
            Step::Hasty => long_launches(device, true),
            Step::Again => long_launches(device, false),
        }
    }
}

fn built(fixture: &str, options: &str) -> Outcome {
    let device = Device::first();
    let context = Context::new(device)?;
    Program::from_binary(&context, device, &fixtures::load(fixture))?.build(options)?;
    Ok(())
}

fn source(device: Device, text: &str, options: &str, expected: i32) -> Outcome {
    let context = Context::new(device)?;
    let queue = Queue::new(&context, device)?;
    let program = Program::from_source(&context, text)?;
    program.build(options)?;
    let mut result = [0_i32];
    let buffer = Buffer::copy_of(&context, &result)?;
    let kernel = Kernel::new(&program, "k")?;
    kernel.set_object(0, Some(&buffer))?;
    queue.launch(&kernel, NdRange::new(&[1], &[1]))?.wait()?;
    queue.read(&buffer, &mut result)?;
    assert_eq!(result, [expected]);
    Ok(())
}

/// A kernel that takes its time.
fn slow(device: Device) -> Result<(Context, Kernel), Failure> {
    const TEXT: &str = "kernel void slow(global uint *p) {
        uint i = get_global_id(0), x = p[i];
        for (int n = 0; n < 2000; n++) x = x * 1664525 + i;
        p[i] = x;
    }";
    let context = Context::new(device)?;
    let program = Program::from_source(&context, TEXT)?;
    program.build("")?;
    let kernel = Kernel::new(&program, "slow")?;
    Ok((context, kernel))
}

/// Launches it: once, or for long with compilers that do nothing any more.
fn long_launches(device: Device, hasty: bool) -> Outcome {
    let (context, kernel) = slow(device)?;
    let queue = Queue::new(&context, device)?;
    let buffer = Buffer::copy_of(&context, &[1_u32; 1024])?;
    kernel.set_object(0, Some(&buffer))?;
    let begun = Instant::now();
    loop {
        // (One that doesn't run its program yet keeps who starts it waiting, and must go on.)
        let runs = |worker: &i32| {
            fs::read_link(format!("/proc/{worker}/exe")).is_ok_and(|exe| exe.ends_with("spirula-compiler"))
        };
        for worker in cycle::compilers().into_iter().filter(|worker| hasty && runs(worker)) {
            kill_process(Pid::from_raw(worker).ok_or("no process")?, Signal::STOP)?;
        }
        queue.launch(&kernel, NdRange::new(&[1024], &[64]))?.wait()?;
        if !hasty || begun.elapsed() > Duration::from_millis(300) {
            return Ok(());
        }
    }
}

/// How many programs there are.
fn size() -> i32 {
    std::env::var(SIZE).ok().and_then(|size| size.parse().ok()).unwrap_or(8)
}

/// Each process begins with another one.
fn many(device: Device) -> Outcome {
    let first = std::process::id() as i32;
    (0..size()).try_for_each(|step| {
        let number = first.wrapping_add(step).rem_euclid(size());
        let expected = number * number + 7;
        source(device, &format!("kernel void k(global int *p) {{ *p = {expected}; }}"), "", expected)
    })
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
            assert!(place.is_known(Step::Source(number))?, "its header says what it said");
        }
        let known = place.is_known(Step::Source(2))?;
        assert!(!known, "it yields 1 now");
        // The header includes another one, which is not there; then it is, and says the same in other words.
        let number = |text: &str| fs::write(place.folder.path().join("number.h"), text);
        number("#if 0\n#include \"other.h\"\n#endif\n#define NUMBER 1\n")?;
        place.compiles(Step::Source(1))?;
        assert!(place.is_known(Step::Source(1))?);
        fs::write(place.folder.path().join("other.h"), "")?;
        assert!(!place.is_known(Step::Source(1))?, "a file came that it may read");
        fs::remove_file(place.folder.path().join("other.h"))?;
        assert!(place.is_known(Step::Source(1))?);
        Ok(())
    })
}

fn macros() -> Outcome {
    with_steps(|place| {
        for number in [1, 2, 1] {
            let text = format!("// # as hashcat includes\n#define NUMBER {number}\n");
            fs::write(place.folder.path().join("number.h"), text)?;
            // The first time tells which file it is.
            place.compiles(Step::Macros(number))?;
            place.compiles(Step::Macros(number))?;
            assert!(place.is_known(Step::Macros(number))?, "its header says what it said");
        }
        let mut elsewhere = place.command(Step::Macros(1), Path::new("/bin/false"))?;
        assert!(elsewhere.current_dir("/").status()?.success(), "the directory makes no difference");
        assert!(!place.is_known(Step::Macros(2))?, "it yields 1 now");
        Ok(())
    })
}

fn outlived() -> Outcome {
    outlived_after(&[])
}

/// Its first compiler is started in the background, by its launches.
fn outlived_by_the_first() -> Outcome {
    outlived_after(&[Step::Slow])
}

fn outlived_after(steps: &[Step]) -> Outcome {
    with_steps(|place| {
        // Orphans become this process's children.
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
        let log = |step| -> Result<String, Failure> {
            let mut command = place.command(step, &icd::compiler()?)?;
            // Where a tier is forced, or the build waits, nothing is left to be made later.
            let command = command.env("SPIRULA_TIER", "auto").env("SPIRULA_BUILD_WAIT", "0");
            let done = command.env("SPIRULA_LOG", "debug").output()?;
            let log = String::from_utf8_lossy(&done.stderr).into_owned();
            eprintln!("{step:?}: {} {log}", done.status);
            assert!(done.status.success());
            Ok(log)
        };
        for &step in steps {
            log(step)?;
        }
        let is_left = log(Step::Hasty)?.contains("builds that were left to another process: 1");
        // A compiler that a launch starts may be done before it is stopped.
        assert!(is_left || !steps.is_empty());
        let mut orphans = 0;
        let begun = Instant::now();
        loop {
            match rustix::process::wait(WaitOptions::NOHANG) {
                Ok(Some((process, status))) => {
                    orphans += 1;
                    assert_eq!(status.exit_status(), Some(0), "{process:?}");
                }
                Ok(None) => std::thread::sleep(Duration::from_millis(5)),
                Err(_) => break,
            }
            assert!(begun.elapsed() < Duration::from_secs(200), "it doesn't end");
        }
        assert!(orphans > 0 || !is_left, "there was none");
        assert!(log(Step::Again)?.contains("kernel slow: optimized code was made before"));
        assert_eq!(cycle::children(), 0, "there was nothing to leave");
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

/// Numbers that look as if by chance.
struct Chance(u64);

impl Chance {
    fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as usize % limit.max(1)
    }
}

/// Changes a bit of an entry, or cuts it off.
fn damage(entry: &Path, chance: &mut Chance) {
    // It may be gone by now.
    let Ok(mut bytes) = fs::read(entry) else { return };
    let place = chance.below(bytes.len());
    match bytes.get_mut(place) {
        Some(byte) if chance.below(4) > 0 => *byte ^= 1 << chance.below(8),
        _ => bytes.truncate(place),
    }
    let _ = fs::write(entry, bytes);
}

/// Where others have mounted what a test wants, in a world of its own: a shell's commands, of which `$CACHE` is the folder and
/// `step` what is to be done there. Skipped where the system lets nobody do that.
fn in_own_world(place: &Place, step: Step, compiler: &Path, commands: &str) -> Outcome {
    let made = |commands: &str| {
        let mut command = Command::new("unshare");
        command.args(["-r", "-m", "sh", "-c", commands]).arg(std::env::current_exe().unwrap_or_default());
        command
    };
    if !made("mount -t tmpfs none /tmp").output().is_ok_and(|done| done.status.success()) {
        return Err(Failure::Skipped("unshare(1) can't mount anything here".into()));
    }
    let mut command = made(&format!("set -e; step() {{ \"$0\"; }}; {commands}"));
    let as_ever = place.command(step, compiler)?;
    command.envs(as_ever.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let done = supervise::run(command.env("CACHE", place.cache()), Duration::from_secs(280));
    let done = done.map_err(|error| error.to_string())?;
    let said = String::from_utf8_lossy(&done.stderr);
    assert!(done.status.is_some_and(|status| status.success()), "{:?} {said}", done.status);
    Ok(())
}

fn full_disk() -> Outcome {
    with_steps(|place| {
        fs::create_dir_all(place.cache())?;
        let room = if size() >= 100 { "1m" } else { "48k" };
        // It fills; it is full; it is full of what is not ours.
        let commands = format!(
            "mount -t tmpfs -o size={room},mode=700 none \"$CACHE\"; step; step
             rm -rf \"$CACHE\"/?/*; cat /dev/zero > \"$CACHE/other\" || true; step
             test -z \"$(find \"$CACHE\" -name 'tmp.*')\""
        );
        in_own_world(place, Step::Many, &icd::compiler()?, &commands)
    })
}

fn read_only() -> Outcome {
    const MOUNT: &str = "mount --bind \"$CACHE\" \"$CACHE\"; mount -o remount,ro,bind \"$CACHE\"; \
                         ! touch \"$CACHE/x\" 2> /dev/null; step";
    with_steps(|place| {
        // Without a folder for each share it can't be used at all.
        fs::create_dir_all(place.cache())?;
        in_own_world(place, Step::Binaries, &icd::compiler()?, MOUNT)?;
        place.compiles(Step::Binaries)?;
        let before = place.entries();
        in_own_world(place, Step::Binaries, Path::new("/bin/false"), MOUNT)?;
        in_own_world(place, Step::Many, &icd::compiler()?, MOUNT)?;
        assert_eq!(place.entries(), before);
        Ok(())
    })
}

/// A user that is not the one of the tests.
const NOBODY: u32 = 65534;

fn another_user() -> Outcome {
    with_steps(|place| {
        place.compiles(Step::Binaries)?;
        let entries = place.entries();
        if !rustix::process::geteuid().is_root() {
            // Who is not root has no other user's folder; one that others may write to is as good.
            fs::set_permissions(place.cache(), PermissionsExt::from_mode(0o777))?;
            assert!(!place.is_known(Step::Binaries)?, "anybody could have put it there");
            place.compiles(Step::Many)?;
            assert_eq!(place.entries(), entries);
            return Ok(());
        }
        // What another user left.
        let shares = fs::read_dir(place.cache())?.map(|share| Ok(share?.path()));
        let shares: Vec<PathBuf> = shares.collect::<std::io::Result<_>>()?;
        for path in [place.cache()].iter().chain(&shares).chain(&entries) {
            chown(path, Some(NOBODY), Some(NOBODY))?;
        }
        assert!(!place.is_known(Step::Binaries)?, "a stranger put it there");
        place.compiles(Step::Many)?;
        assert_eq!(place.entries(), entries);
        // Who may not even look into it.
        for path in [place.cache()].iter().chain(&shares).chain(&entries) {
            chown(path, Some(0), Some(0))?;
        }
        let mut command = place.command(Step::Many, &icd::compiler()?)?;
        fs::set_permissions(place.folder.path(), PermissionsExt::from_mode(0o755))?;
        match command.uid(NOBODY).gid(NOBODY).status() {
            Err(error) if error.kind() == ErrorKind::PermissionDenied => {
                return Err(Failure::Skipped("other users can't run programs of this folder".into()));
            }
            status => assert!(status?.success()),
        }
        assert_eq!(place.entries(), entries);
        Ok(())
    })
}

fn attacked() -> Outcome {
    with_steps(|place| {
        let compiler = icd::compiler()?;
        let start = || -> Result<Child, String> {
            place.command(Step::Many, &compiler)?.spawn().map_err(|error| error.to_string())
        };
        let processes = if size() >= 100 { 8 } else { 3 };
        let mut chance = Chance(std::process::id().into());
        let mut children = (0..processes).map(|_| start()).collect::<Result<Vec<_>, _>>()?;
        let (mut killed, mut ended) = (0, 0);
        // So many come to their end, and twice as many don't.
        while ended < processes || killed < 2 * processes {
            std::thread::sleep(Duration::from_millis(chance.below(60) as u64));
            for child in &mut children {
                if let Some(status) = child.try_wait()? {
                    assert!(status.success(), "a process that nobody killed failed");
                    ended += 1;
                    *child = start()?;
                }
            }
            let entries = place.entries();
            if !entries.is_empty() && chance.below(3) > 0 {
                damage(&entries[chance.below(entries.len())], &mut chance);
            } else if killed < 2 * processes {
                let child = &mut children[chance.below(processes)];
                kill_process(Pid::from_child(child), Signal::KILL)?;
                killed += 1;
                // It may have ended before.
                let status = child.wait()?;
                assert!(status.code().is_none_or(|code| code == 0), "it failed before it was killed");
                *child = start()?;
            }
        }
        for child in &mut children {
            assert!(child.wait()?.success());
        }
        place.compiles(Step::Many)?;
        assert!(place.is_known(Step::Many)?, "what was damaged was not replaced");
        Ok(())
    })
}
