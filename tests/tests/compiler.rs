//! The compiler program beside the library: missing, unreadable, replaced, killed, starved. Each time a build fails with a log
//! that says why, nothing is compiled in the application, and the next build is right. Each test has copies of its own.

use object::read::elf::{Dyn, ElfFile64};
use object::{Endianness, Object, elf};
use rustix::process::{Pid, Resource, Signal, Uid, getrlimit, kill_process, setrlimit};
use spirula_tests::cl::{Buffer, Context, Device, Kernel, NdRange, Program, Queue, SPIR12};
use spirula_tests::isolate::{self, ExpectedFailures, Outcome, Test};
use spirula_tests::{cycle, fixtures, icd, supervise};
use std::fs::{self, File, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

fn main() -> ExitCode {
    type Body = fn() -> Outcome;
    let tests: [(&str, Body); 10] = [
        ("a_library_alone_says_what_it_misses", alone),
        ("the_compiler_may_stand_in_a_folder_of_its_own", in_a_folder),
        ("a_compiler_that_may_not_be_run_is_named", not_executable),
        ("a_program_that_is_no_compiler_is_named", no_compiler),
        ("a_compiler_of_another_build_is_named", of_another_build),
        ("killed_compilers_cost_their_builds_alone", killed),
        (BEHIND, killed_behind),
        ("no_descriptors_for_a_moment", no_descriptors),
        ("no_processes_for_a_moment", no_processes),
        ("the_library_needs_the_c_library_alone", needs),
    ];
    let long = |test| Test { limit: Duration::from_secs(300), ..test };
    let tests = tests.map(|(name, body)| long(Test::new(name, body)));
    isolate::main(tests.into(), ExpectedFailures::default())
}

/// A library in a folder of its own, which this process's loader finds.
struct Installed {
    folder: TempDir,
    _selected: icd::Selected,
}

impl Installed {
    /// Without a compiler.
    fn library() -> Result<Installed, String> {
        let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
        let library = folder.path().join("libspirula.so");
        fs::copy(icd::library()?, &library).map_err(|error| error.to_string())?;
        fs::set_permissions(folder.path(), Permissions::from_mode(0o755))
            .map_err(|error| error.to_string())?;
        Ok(Installed { _selected: icd::select_library(&library)?, folder })
    }

    fn compiler(&self) -> PathBuf {
        self.folder.path().join("spirula-compiler")
    }

    /// The real compiler at its place.
    fn add_compiler(&self) -> Result<(), String> {
        self.put(&icd::compiler()?)
    }

    fn put(&self, program: &Path) -> Result<(), String> {
        // A new file: one that runs can't be written to.
        let _ = fs::remove_file(self.compiler());
        fs::copy(program, self.compiler())
            .map(drop)
            .map_err(|error| format!("{}: {error}", program.display()))
    }
}

/// The log of a build that must fail, by an error that is the build's.
fn failure(context: &Context, device: Device, binary: &[u8]) -> Result<String, String> {
    let program = Program::from_binary(context, device, binary).map_err(|error| error.to_string())?;
    match program.build(SPIR12) {
        Ok(()) => Err("it was built".into()),
        Err(error) => {
            let log = program.log(device).map_err(|error| error.to_string())?;
            eprintln!("{error}: {log}");
            Ok(log)
        }
    }
}

/// Fails with a log that has these words, twice; and works once the compiler is there.
fn fails_until_there_is_a_compiler(installed: &Installed, words: &[&str]) -> Outcome {
    let device = Device::first();
    let context = Context::new(device)?;
    let binary = fixtures::load("bench/saxpy.bc64");
    for _ in 0..2 {
        let log = failure(&context, device, &binary)?;
        for word in words.iter().copied().chain([&*installed.folder.path().to_string_lossy()]) {
            assert!(log.contains(word), "no {word:?} in: {log}");
        }
    }
    installed.add_compiler()?;
    cycle::once(device, 1)
}

fn alone() -> Outcome {
    let installed = Installed::library()?;
    fails_until_there_is_a_compiler(&installed, &["there is no file", "spirula/spirula-compiler"])
}

fn in_a_folder() -> Outcome {
    let installed = Installed::library()?;
    let folder = installed.folder.path().join("spirula");
    fs::create_dir(&folder)?;
    fs::copy(icd::compiler()?, folder.join("spirula-compiler"))?;
    cycle::once(Device::first(), 1)
}

fn not_executable() -> Outcome {
    let installed = Installed::library()?;
    installed.add_compiler()?;
    fs::set_permissions(installed.compiler(), Permissions::from_mode(0o644))?;
    fails_until_there_is_a_compiler(&installed, &["spirula-compiler", "Permission denied"])
}

fn no_compiler() -> Outcome {
    let installed = Installed::library()?;
    installed.put(Path::new("/bin/false"))?;
    fails_until_there_is_a_compiler(&installed, &["spirula-compiler", "instead of saying which build it is"])
}

/// A program that greets as a compiler does: its build and its processor as postcard writes them, in a frame.
fn of_another_build() -> Outcome {
    let installed = Installed::library()?;
    let script = installed.folder.path().join("another");
    fs::write(
        &script,
        "#!/bin/sh\nprintf 'h\\012\\000\\000\\000\\005other\\000\\000\\001\\000' >&0\nread _\n",
    )?;
    fs::set_permissions(&script, Permissions::from_mode(0o755))?;
    installed.put(&script)?;
    fails_until_there_is_a_compiler(&installed, &["it is of build other, this library of build"])
}

/// Ids of the processes that run this program.
fn processes_of(program: &Path) -> Vec<Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let runs_it = |id: &i32| fs::read_link(format!("/proc/{id}/exe")).is_ok_and(|exe| exe == program);
    ids.filter(runs_it).filter_map(Pid::from_raw).collect()
}

/// Options about arithmetic that make one program many.
fn options(number: u32) -> String {
    const MATH: [&str; 4] =
        ["-cl-mad-enable", "-cl-no-signed-zeros", "-cl-finite-math-only", "-cl-denorms-are-zero"];
    let chosen = MATH.iter().enumerate().filter(|(bit, _)| number >> bit & 1 == 1).map(|(_, option)| *option);
    chosen.fold(SPIR12.to_owned(), |all, option| all + " " + option)
}

fn killed() -> Outcome {
    const BUILDS: u32 = 200;
    let installed = Installed::library()?;
    installed.add_compiler()?;
    let device = Device::first();
    let context = Context::new(device)?;
    cycle::once(device, 0)?;
    let before = (cycle::open_files(), cycle::children());
    let paths = fixtures::spir12();
    let (next, built, failed, done) =
        (AtomicU32::new(0), AtomicU32::new(0), AtomicU32::new(0), AtomicBool::new(false));
    let build = |number: u32| -> Result<(), String> {
        let path = &paths[number as usize % paths.len()];
        let text = |error: spirula_tests::cl::Error| format!("{path}: {error}");
        let program = Program::from_binary(&context, device, &fixtures::load(path)).map_err(text)?;
        if program.build(&options(number)).is_ok() {
            built.fetch_add(1, Ordering::Relaxed);
            return program.kernels().map(drop).map_err(text);
        }
        failed.fetch_add(1, Ordering::Relaxed);
        let log = program.log(device).map_err(text)?;
        // Some fixtures are parts of programs, which alone are none, or need what this device lacks.
        let expected = ["the compiler process ", "is not defined", "which this device doesn't have"];
        if expected.iter().any(|words| log.contains(words)) {
            Ok(())
        } else {
            Err(format!("{path}: {log:?}"))
        }
    };
    std::thread::scope(|scope| {
        let builders: Vec<_> = (0..4)
            .map(|_| {
                scope.spawn(|| {
                    std::iter::repeat_with(|| next.fetch_add(1, Ordering::Relaxed))
                        .take_while(|&number| number < BUILDS)
                        .try_for_each(build)
                })
            })
            .collect();
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                for id in processes_of(&installed.compiler()) {
                    let _ = kill_process(id, Signal::KILL);
                    std::thread::sleep(Duration::from_millis(37));
                }
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let outcome = builders.into_iter().try_for_each(|builder| builder.join().expect("no panic"));
        done.store(true, Ordering::Relaxed);
        outcome
    })?;
    let (built, failed) = (built.into_inner(), failed.into_inner());
    eprintln!("{built} built, {failed} failed");
    assert_eq!(built + failed, BUILDS);
    cycle::once(device, 2)?;
    // Builds side by side have as many compilers as there are processors, each with its keeper, and one may be starting still.
    let cpus = std::thread::available_parallelism()?.get();
    let held = || (cycle::open_files() <= before.0 + 2 * cpus, cycle::children() <= before.1.max(cpus));
    let start = Instant::now();
    while held() != (true, true) {
        let now = (cycle::open_files(), cycle::children());
        assert!(start.elapsed() < Duration::from_secs(30), "(files, children): {before:?}, and now {now:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    let left = processes_of(&installed.compiler()).len();
    assert!(left <= cpus, "{left} compilers for {cpus} processors");
    Ok(())
}

/// Compilers that are killed while they make better code of what runs already.
const BEHIND: &str = "killed_compilers_leave_running_kernels_alone";

/// Builds and launches until a kernel could not get better code, which the log tells.
fn killed_behind() -> Outcome {
    const LOG: &str = "SPIRULA_LOG";
    let Some(path) = std::env::var_os(LOG) else {
        let log = tempfile::NamedTempFile::new()?;
        let setting = format!("warn:{}", log.path().display());
        let mut command = isolate::child(BEHIND)?;
        command.env(LOG, setting).env("SPIRULA_TIER", "auto").env(icd::CACHE_VARIABLE, "");
        let done = supervise::run(&mut command, Duration::from_secs(250))?;
        let said = String::from_utf8_lossy(&done.stderr);
        assert!(done.status.is_some_and(|status| status.success()), "{:?}: {said}", done.status);
        return Ok(());
    };
    let path = PathBuf::from(path.to_string_lossy().trim_start_matches("warn:"));
    let installed = Installed::library()?;
    installed.add_compiler()?;
    let device = Device::first();
    let (context, binary) = (Context::new(device)?, fixtures::load("bench/saxpy.bc64"));
    let queue = Queue::new(&context, device)?;
    let failed = || fs::read_to_string(&path).unwrap_or_default().contains("kernel saxpy: no optimized code");
    // Each with other options, and so compiled anew.
    for number in (0..16).cycle() {
        let program = Program::from_binary(&context, device, &binary)?;
        program.build(&options(number))?;
        let kernel = Kernel::new(&program, "saxpy")?;
        let (x, y) = (vec![3_f32; 1 << 20], Buffer::copy_of(&context, &vec![0_f32; 1 << 20])?);
        let x = Buffer::copy_of(&context, &x)?;
        kernel.set_object(0, Some(&x))?;
        kernel.set_object(1, Some(&y))?;
        kernel.set(2, 2_f32)?;
        for launches in 1..20 {
            queue.launch(&kernel, NdRange::new(&[1 << 20], &[64]))?.wait()?;
            for id in processes_of(&installed.compiler()) {
                let _ = kill_process(id, Signal::KILL);
            }
            let mut result = vec![0_f32; 1 << 20];
            queue.read(&y, &mut result)?;
            let expected = 6.0 * launches as f32;
            assert!(result.iter().all(|&y| y == expected), "after {launches} launches");
        }
        if failed() {
            break;
        }
    }
    cycle::once(device, 1)
}

/// A library whose compiler worked, and is gone.
fn with_a_dead_compiler() -> Result<(Installed, Device, Context), String> {
    let installed = Installed::library()?;
    installed.add_compiler()?;
    let device = Device::first();
    let context = Context::new(device).map_err(|error| error.to_string())?;
    let program = Program::from_binary(&context, device, &fixtures::load("bench/scan.bc64"));
    program.and_then(|program| program.build(SPIR12)).map_err(|error| error.to_string())?;
    assert!(!processes_of(&installed.compiler()).is_empty(), "the compiler is a process");
    end_all(&installed.compiler());
    Ok((installed, device, context))
}

/// Ends the processes that run this program.
fn end_all(program: &Path) {
    while let ids @ [_, ..] = &*processes_of(program) {
        for &id in ids {
            let _ = kill_process(id, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn no_descriptors() -> Outcome {
    let (installed, device, context) = with_a_dead_compiler()?;
    let binary = fixtures::load("bench/saxpy.bc64");
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(64);
    setrlimit(Resource::Nofile, limit)?;
    let mut hoard = Vec::new();
    // The dead compilers' own descriptors become free when the next one is wanted, and may do for that.
    let mut attempts = (0..10).map(|number| -> Result<Option<String>, spirula_tests::cl::Error> {
        end_all(&installed.compiler());
        hoard.extend(std::iter::from_fn(|| File::open("/dev/null").ok()));
        let program = Program::from_binary(&context, device, &binary)?;
        if program.build(&options(number)).is_ok() { Ok(None) } else { program.log(device).map(Some) }
    });
    let log = attempts.find_map(Result::transpose).ok_or("every build had descriptors")??;
    assert!(log.contains("Too many open files"), "{log}");
    drop(attempts);
    drop(hoard);
    let program = Program::from_binary(&context, device, &binary)?;
    program.build(SPIR12)?;
    cycle::once(device, 1)
}

/// The limit on processes, which binds nobody who is root.
fn no_processes() -> Outcome {
    const NOBODY: u32 = 65534;
    let (_installed, device, context) = with_a_dead_compiler()?;
    let binary = fixtures::load("bench/saxpy.bc64");
    if rustix::process::geteuid().is_root() {
        let nobody = Uid::from_raw(NOBODY);
        rustix::thread::set_thread_res_uid(nobody, nobody, nobody)?;
    }
    let before = getrlimit(Resource::Nproc);
    let mut none = before;
    none.current = Some(0);
    setrlimit(Resource::Nproc, none)?;
    let log = failure(&context, device, &binary)?;
    assert!(log.contains("Resource temporarily unavailable"), "{log}");
    setrlimit(Resource::Nproc, before)?;
    let program = Program::from_binary(&context, device, &binary)?;
    program.build(SPIR12)?;
    cycle::once(device, 1)
}

/// No library that an application could clash with, and no symbol but the ICD's.
fn needs() -> Outcome {
    let path = icd::library()?;
    let bytes = fs::read(&path)?;
    let file = ElfFile64::<Endianness>::parse(&*bytes)?;
    let (endian, sections) = (file.endian(), file.elf_section_table());
    let (entries, link) = sections.dynamic(endian, &*bytes)?.ok_or("no dynamic section")?;
    let strings = sections.strings(endian, &*bytes, link)?;
    let mut needed = Vec::new();
    for entry in entries.iter().filter(|entry| entry.tag32(endian) == Some(elf::DT_NEEDED)) {
        needed.push(String::from_utf8_lossy(entry.string(endian, strings)?).into_owned());
    }
    const C_LIBRARY: [&str; 4] = ["libc.so", "libgcc_s.so", "libm.so", "ld-linux"];
    let strange = needed.iter().find(|name| !C_LIBRARY.iter().any(|known| name.starts_with(known)));
    assert!(!needed.is_empty() && strange.is_none(), "{needed:?}");
    let mut exported: Vec<_> =
        file.exports()?.iter().map(|symbol| String::from_utf8_lossy(symbol.name()).into_owned()).collect();
    exported.sort();
    assert_eq!(exported, ["clGetExtensionFunctionAddress", "clGetPlatformInfo", "clIcdGetPlatformIDsKHR"]);
    Ok(())
}
