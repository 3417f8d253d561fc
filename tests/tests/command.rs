//! The command `spirula`: each of its parts as text and as JSON, and what it says when something is missing or broken.

use serde_json::Value;
use spirula_tests::cl::{Buffer, Context, Device, Kernel, NdRange, Program, Queue};
use spirula_tests::isolate::{self, ExpectedFailures, Failure, Outcome, Test};
use spirula_tests::{fixtures, icd};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};
use std::time::Duration;
use tempfile::TempDir;

const SAXPY: &str = "bench/saxpy.bc64";

fn main() -> ExitCode {
    type Body = fn() -> Outcome;
    let tests: [(&str, Body); 16] = [
        ("info_names_library_device_and_settings", info),
        ("info_says_what_is_missing", info_of_a_lone_library),
        ("check_tells_findings_with_rules", check),
        ("check_refuses_what_is_broken", check_broken),
        ("what_is_no_file_or_no_program_is_named", no_file),
        ("compile_makes_programs_that_run_without_a_compiler", compile),
        ("compile_links_sources_and_binaries", compile_several),
        ("compile_shows_the_log_of_what_fails", compile_fails),
        ("sources_without_clang_say_so", no_clang),
        ("show_has_every_stage_and_one_kernel", show),
        ("explain_tells_widths_and_reasons", explain),
        ("explain_knows_what_keeps_a_kernel_scalar", explain_scalar),
        ("the_cache_is_listed_verified_and_cleared", cache),
        ("bench_measures", bench),
        ("help_manual_and_completions_are_there", pages),
        ("answers_have_no_colours_where_there_is_no_terminal", no_colours),
    ];
    let long = |test| Test { limit: Duration::from_secs(300), ..test };
    let tests = tests.map(|(name, body)| long(Test::new(name, body)));
    isolate::main(tests.into(), ExpectedFailures::default())
}

/// The command beside the library under test.
fn command() -> Result<Command, Failure> {
    let path = icd::compiler()?.with_file_name("spirula");
    if !path.is_file() {
        return Err(Failure::Failed(format!("{} is not built: run ./x build", path.display())));
    }
    let mut command = Command::new(path);
    command.arg("--library").arg(icd::library()?);
    Ok(command)
}

fn path(fixture: &str) -> PathBuf {
    fixtures::folder().join(fixture)
}

/// What it says, which must end with that status.
fn run(command: &mut Command, status: i32) -> Result<Output, Failure> {
    let output = command.output()?;
    if output.status.code() != Some(status) {
        let (out, err) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        return Err(Failure::Failed(format!(
            "{command:?}: {}, expected {status}\n{out}\n{err}",
            output.status
        )));
    }
    Ok(output)
}

fn text(command: &mut Command, status: i32) -> Result<String, Failure> {
    Ok(String::from_utf8(run(command, status)?.stdout)?)
}

fn json(command: &mut Command, status: i32) -> Result<Value, Failure> {
    let text = text(command.arg("--json"), status)?;
    serde_json::from_str(&text).map_err(|error| Failure::Failed(format!("{error}: {text}")))
}

/// The error message of what can't be done.
fn refused(command: &mut Command) -> Result<String, Failure> {
    let output = run(command, 2)?;
    assert!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    Ok(String::from_utf8(output.stderr)?)
}

fn has(text: &str, words: &[&str]) {
    for word in words {
        assert!(text.contains(word), "no {word:?} in {text}");
    }
}

/// The names in a list of strings.
fn strings(value: &Value) -> Vec<&str> {
    value.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn info() -> Outcome {
    let library = icd::library()?.canonicalize()?;
    let said = text(command()?.arg("info").env("SPIRULA_CPU", "x86-64-v2").env("SPIRULA_LGO", "info"), 0)?;
    has(
        &said,
        &[
            &library.display().to_string(),
            "spirula-compiler",
            "cl_khr_spir",
            "SPIRULA_CPU",
            "SPIRULA_LGO is no setting",
        ],
    );
    let info = json(command()?.arg("info").env("SPIRULA_THREADS", "3"), 0)?;
    let device = Device::first();
    assert_eq!(info["library"].as_str(), Some(&*library.display().to_string()));
    assert_eq!(
        info["device"]["name"].as_str(),
        Some(&*device.info_string(spirula_tests::cl::sys::CL_DEVICE_NAME)?)
    );
    assert_eq!(info["device"]["compute_units"], 3);
    assert!(strings(&info["device"]["extensions"]).contains(&"cl_khr_il_program"));
    let settings = info["settings"].as_array().unwrap();
    assert!(settings.iter().any(|setting| setting["name"] == "SPIRULA_THREADS" && setting["value"] == "3"));
    assert!(info["problems"].as_array().unwrap().iter().all(|problem| problem["serious"] == false), "{info}");
    Ok(())
}

/// A folder with a copy of the library and nothing else.
fn lone_library() -> Result<(TempDir, PathBuf), Failure> {
    let folder = tempfile::tempdir()?;
    let library = folder.path().join("libspirula.so");
    fs::copy(icd::library()?, &library)?;
    Ok((folder, library))
}

/// The command with another library.
fn command_of(library: &Path) -> Result<Command, Failure> {
    let mut command = Command::new(command()?.get_program());
    command.arg("--library").arg(library);
    Ok(command)
}

fn info_of_a_lone_library() -> Outcome {
    let (folder, library) = lone_library()?;
    let said = text(command_of(&library)?.arg("info"), 1)?;
    has(&said, &["Missing", "spirula-compiler", "there is no file", "of one build"]);
    let info = json(command_of(&library)?.arg("info").env("SPIRULA_CLANG", "/nowhere/clang"), 1)?;
    assert_eq!(info["compiler"], Value::Null);
    assert_eq!(info["clang"], Value::Null);
    let problems = info["problems"].as_array().unwrap();
    assert!(problems.iter().any(|problem| problem["serious"] == true));
    assert!(problems.iter().any(|problem| problem["help"].as_str().unwrap().contains("clang-22")));
    // Its .icd file is not named either.
    assert!(problems.iter().any(|problem| problem["what"].as_str().unwrap().contains(".icd")));
    let nowhere = folder.path().join("none.so");
    let info = json(command_of(&nowhere)?.arg("info"), 1)?;
    assert_eq!(info["library"], Value::Null);
    // A program that is no compiler of this build.
    let said = text(command()?.arg("info").env("SPIRULA_COMPILER", "/bin/true"), 1)?;
    has(&said, &["/bin/true"]);
    Ok(())
}

fn check() -> Outcome {
    let said = text(command()?.arg("check").arg(path(SAXPY)), 0)?;
    has(&said, &["saxpy.bc64: taken", "remark: ", "llvm.fmuladd", "note: intrinsic: "]);
    let files = [path(SAXPY), path("spirv/spir12/args.spv")];
    let checked = json(command()?.arg("check").args(&files), 0)?;
    assert_eq!(checked.as_array().unwrap().len(), 2);
    let finding = |rule: &str| {
        let findings = checked[0]["findings"].as_array().unwrap();
        findings.iter().find(|finding| finding["rule"] == rule).cloned().unwrap_or_default()
    };
    assert_eq!(finding("intrinsic")["severity"], "remark");
    assert_eq!(finding("intrinsic")["section"], "SPIR 2.0, 3.5; 1.2, 3.4");
    Ok(())
}

/// A file with the first bytes of a fixture.
fn broken(folder: &TempDir) -> Result<PathBuf, Failure> {
    let path = folder.path().join("broken.bc");
    let bytes = fixtures::load(SAXPY);
    fs::write(&path, &bytes[..bytes.len() / 2])?;
    Ok(path)
}

fn check_broken() -> Outcome {
    let folder = tempfile::tempdir()?;
    let broken = broken(&folder)?;
    has(&text(command()?.arg("check").arg(&broken), 1)?, &["refused", "error: ", "truncated"]);
    let checked = json(command()?.arg("check").arg(&broken).arg(path(SAXPY)), 1)?;
    assert_eq!((&checked[0]["taken"], &checked[1]["taken"]), (&Value::Bool(false), &Value::Bool(true)));
    assert_eq!(checked[0]["findings"][0]["severity"], "error");
    assert_eq!(checked[0]["findings"][0]["rule"], "bitcode");
    for part in ["compile", "show", "explain"] {
        let mut command = command()?;
        command.arg(part).arg(&broken);
        match part {
            "compile" => command.arg("-o").arg(folder.path().join("out")),
            "show" => command.args(["--stage", "asm"]),
            _ => &mut command,
        };
        has(&refused(&mut command)?, &["truncated"]);
    }
    assert!(!folder.path().join("out").exists());
    Ok(())
}

fn no_file() -> Outcome {
    let folder = tempfile::tempdir()?;
    let (object, nothing) = (folder.path().join("object.o"), folder.path().join("nothing"));
    fs::write(&object, b"\x7fELF\0\0")?;
    fs::write(&nothing, b"")?;
    for (file, words) in [
        (Path::new("/nowhere/at/all.bc"), "/nowhere/at/all.bc: No such file"),
        (folder.path(), "Is a directory"),
        (&*object, "neither SPIR nor SPIR-V"),
        (&*nothing, "neither SPIR nor SPIR-V"),
    ] {
        has(&refused(command()?.arg("check").arg(file))?, &[words]);
        has(&refused(command()?.arg("explain").arg(file))?, &[words]);
        has(&refused(command()?.arg("show").arg(file).args(["--stage", "kir"]))?, &[words]);
        has(
            &refused(command()?.arg("compile").arg(file).arg("-o").arg(folder.path().join("out")))?,
            &[words],
        );
    }
    has(&refused(command()?.arg("check").arg(path("bench/saxpy.cl")))?, &["is no SPIR binary"]);
    has(
        &refused(command_of(Path::new("/nowhere/lib.so"))?.arg("check").arg(path(SAXPY)))?,
        &["/nowhere/lib.so"],
    );
    let place = Path::new("/nowhere/out");
    has(&refused(command()?.arg("compile").arg(path(SAXPY)).arg("-o").arg(place))?, &["/nowhere/out"]);
    // What clap refuses.
    has(&refused(command()?.arg("show").arg(path(SAXPY)).args(["--stage", "none"]))?, &["possible values"]);
    Ok(())
}

/// Runs `saxpy` of a program binary.
fn runs(binary: &[u8]) -> Outcome {
    let device = Device::first();
    let context = Context::new(device)?;
    let queue = Queue::new(&context, device)?;
    let program = Program::from_binary(&context, device, binary)?;
    program.build("")?;
    let kernel = Kernel::new(&program, "saxpy")?;
    let input: Vec<f32> = (0..1000).map(|i| i as f32).collect();
    let (x, y) = (Buffer::copy_of(&context, &input)?, Buffer::copy_of(&context, &input)?);
    kernel.set_object(0, Some(&x))?;
    kernel.set_object(1, Some(&y))?;
    kernel.set(2, 2.0_f32)?;
    queue.launch(&kernel, NdRange { global: &[1000], local: None, offset: None })?.wait()?;
    let mut output = input.clone();
    queue.read(&y, &mut output)?;
    assert!(output.iter().zip(&input).all(|(output, input)| *output == 3.0 * input), "{output:?}");
    Ok(())
}

fn compile() -> Outcome {
    let folder = tempfile::tempdir()?;
    let output = folder.path().join("saxpy.program");
    let said = text(command()?.arg("compile").arg(path(SAXPY)).arg("-o").arg(&output), 0)?;
    has(&said, &["saxpy.program: ", "kernels saxpy"]);
    let binary = fs::read(&output)?;
    // SAFETY: this test's process has no other thread yet.
    unsafe { std::env::set_var("SPIRULA_COMPILER", "/nowhere/compiler") };
    runs(&binary)?;
    let wanted = ["--cpu", "x86-64-v2", "--options", "-cl-fast-relaxed-math"];
    let mut command = command()?;
    command
        .env_remove("SPIRULA_COMPILER")
        .arg("compile")
        .arg(path(SAXPY))
        .arg("-o")
        .arg(&output)
        .args(wanted);
    let compiled = json(&mut command, 0)?;
    assert_eq!(strings(&compiled["kernels"]), ["saxpy"]);
    assert_eq!(compiled["bytes"], fs::metadata(&output)?.len());
    assert_ne!(fs::read(&output)?, binary, "of another level, with other options");
    runs(&fs::read(&output)?)?;
    // For several levels: the second one is for processors that this one may not be.
    let mut several = Command::new(command.get_program());
    several.arg("--library").arg(icd::library()?).arg("compile").arg(path(SAXPY)).arg("-o").arg(&output);
    several.args(["--cpu", "x86-64-v2,x86-64-v3"]).env_remove("SPIRULA_COMPILER");
    match is_x86_feature_detected!("avx2") {
        true => {
            let compiled = json(&mut several, 0)?;
            assert_eq!(strings(&compiled["kernels"]), ["saxpy"]);
            runs(&fs::read(&output)?)?;
        }
        false => has(&refused(&mut several)?, &["this processor is not of x86-64-v3"]),
    }
    // What is compiled has no stages to show.
    let mut command = Command::new(command.get_program());
    command.arg("--library").arg(icd::library()?).arg("explain").arg(&output);
    has(&refused(&mut command)?, &["is compiled already"]);
    Ok(())
}

fn compile_several() -> Outcome {
    let folder = tempfile::tempdir()?;
    let (output, source) = (folder.path().join("linked"), folder.path().join("other.cl"));
    let files = [path("spir12/link_main.bc64"), path("spir12/link_lib.bc64"), path("spirv/spir12/args.spv")];
    let compiled = json(command()?.arg("compile").args(&files).arg("-o").arg(&output), 0)?;
    let kernels = strings(&compiled["kernels"]).join(" ");
    assert!(kernels.split(' ').count() >= 2, "{kernels}");
    if json(command()?.arg("info"), 0)?["clang"] == Value::Null {
        return Err(Failure::Skipped("there is no clang 22 for the source".into()));
    }
    fs::write(&source, "kernel void of_source(global int *p) { *p = N; }")?;
    let mut both = command()?;
    both.arg("compile").arg(path(SAXPY)).arg(&source).arg("-o").arg(&output).args(["--options", "-DN=1"]);
    // Macros are nothing to a binary: what each file's options are is told apart.
    let compiled = json(&mut both, 0)?;
    assert_eq!(strings(&compiled["kernels"]).len(), 2, "{compiled}");
    runs(&fs::read(&output)?)
}

fn compile_fails() -> Outcome {
    let folder = tempfile::tempdir()?;
    let output = folder.path().join("out");
    // It needs the library of the other file.
    let main = path("spir12/link_main.bc64");
    let error = refused(command()?.arg("compile").arg(&main).arg("-o").arg(&output))?;
    has(&error, &["error: "]);
    let error = refused(
        command()?.arg("compile").arg(path(SAXPY)).arg("-o").arg(&output).args(["--options", "-cl-nonsense"]),
    )?;
    has(&error, &["-cl-nonsense"]);
    assert!(!output.exists());
    let (_folder, library) = lone_library()?;
    let error = refused(command_of(&library)?.arg("compile").arg(path(SAXPY)).arg("-o").arg(&output))?;
    has(&error, &["spirula-compiler"]);
    Ok(())
}

fn no_clang() -> Outcome {
    let folder = tempfile::tempdir()?;
    let mut command = command()?;
    command.env("SPIRULA_CLANG", "/nowhere/clang").arg("compile").arg(path("bench/saxpy.cl"));
    has(&refused(command.arg("-o").arg(folder.path().join("out")))?, &["clang"]);
    Ok(())
}

fn show() -> Outcome {
    let two = "spir12/reqd.bc64";
    let names = json(command()?.arg("explain").arg(path(two)), 0)?;
    let names: Vec<String> = names["kernels"]
        .as_array()
        .unwrap()
        .iter()
        .map(|kernel| kernel["name"].as_str().unwrap().into())
        .collect();
    let kernel = &names[0];
    for (stage, mark) in [
        ("spir", "define spir_kernel void @"),
        ("clean", "define "),
        ("kir", "kernel \""),
        ("group", "function "),
        ("asm", ".text"),
    ] {
        let show = |kernel: Option<&str>| -> Result<Command, Failure> {
            let mut command = command()?;
            command.arg("show").arg(path(two)).args(["--stage", stage]);
            kernel.into_iter().for_each(|kernel| {
                command.args(["--kernel", kernel]);
            });
            Ok(command)
        };
        let whole = text(&mut show(None)?, 0)?;
        has(&whole, &[mark]);
        for name in &names {
            has(&whole, &[name]);
        }
        let one = text(&mut show(Some(kernel))?, 0)?;
        has(&one, &[kernel]);
        assert!(one.len() < whole.len() && !one.is_empty(), "{stage}: {one}");
        let shown = json(&mut show(Some(kernel))?, 0)?;
        assert_eq!((shown["stage"].as_str(), shown["kernel"].as_str()), (Some(stage), Some(&**kernel)));
        assert_eq!(shown["text"].as_str(), Some(&*one), "it is the same each time");
        has(&refused(&mut show(Some("none"))?)?, &["has no kernel `none`", kernel]);
    }
    Ok(())
}

fn explain() -> Outcome {
    // Levels of x86-64 have known widths.
    let said = text(command()?.arg("explain").arg(path(SAXPY)), 0)?;
    has(&said, &["saxpy", " work-items at once", " lanes, ", "times as fast by estimate"]);
    let explained = json(command()?.arg("explain").arg(path("bench/reduce.bc64")), 0)?;
    let kernel = &explained["kernels"][0];
    assert_eq!(kernel["name"], "reduce");
    assert!(kernel["regions"].as_array().unwrap().len() > 1, "it has barriers: {explained}");
    assert!(kernel["lanes"].as_u64().unwrap() > 1, "{explained}");
    Ok(())
}

fn explain_scalar() -> Outcome {
    let command = || -> Result<Command, Failure> {
        let mut command = command()?;
        command.arg("explain").arg(path(SAXPY)).env("SPIRULA_VECTOR_WIDTH", "1");
        Ok(command)
    };
    has(&text(&mut command()?, 0)?, &["saxpy  scalar", "what would help", "SPIRULA_VECTOR_WIDTH"]);
    let explained = json(command()?.args(["--kernel", "saxpy"]), 0)?;
    assert_eq!(explained["kernels"][0]["lanes"], 1);
    assert_eq!(strings(&explained["kernels"][0]["help"]).len(), 1);
    Ok(())
}

fn cache() -> Outcome {
    let folder = tempfile::tempdir()?;
    let place = folder.path().join("cache");
    let with_cache = |arguments: &[&str]| -> Result<Command, Failure> {
        let mut command = command()?;
        command.env(icd::CACHE_VARIABLE, &place).args(arguments);
        Ok(command)
    };
    let listed = json(&mut with_cache(&["cache", "list"])?, 0)?;
    assert_eq!((listed["entries"].as_array().unwrap().len(), listed["bytes"].as_u64()), (0, Some(0)));
    assert!(!place.exists(), "looking makes nothing");
    let output = folder.path().join("out");
    run(with_cache(&["compile"])?.arg(path(SAXPY)).arg("-o").arg(&output), 0)?;
    let listed = json(&mut with_cache(&["cache", "list"])?, 0)?;
    let entries = listed["entries"].as_array().unwrap();
    let program = entries.iter().find(|entry| strings(&entry["kernels"]) == ["saxpy"]);
    let program = program.ok_or_else(|| Failure::Failed(listed.to_string()))?;
    let said = text(&mut with_cache(&["cache", "list"])?, 0)?;
    has(&said, &["saxpy", &format!("{} entries", entries.len()), " of 512.0 MiB"]);
    assert_eq!(json(&mut with_cache(&["cache", "verify"])?, 0)?["removed"], 0);

    let damaged = Path::new(program["path"].as_str().unwrap());
    let mut bytes = fs::read(damaged)?;
    *bytes.last_mut().unwrap() ^= 1;
    fs::write(damaged, bytes)?;
    assert_eq!(json(&mut with_cache(&["cache", "verify"])?, 1)?["removed"], 1);
    assert!(!damaged.exists());
    has(&text(&mut with_cache(&["cache", "verify"])?, 0)?, &["0 removed"]);

    let cleared = json(&mut with_cache(&["cache", "clear"])?, 0)?;
    assert_eq!(cleared["removed"].as_u64(), Some(entries.len() as u64 - 1));
    let listed = json(&mut with_cache(&["cache", "list"])?, 0)?;
    assert!(listed["entries"].as_array().unwrap().is_empty());
    has(&text(command()?.args(["cache", "list"]), 0)?, &["nothing is kept"]);
    Ok(())
}

fn bench() -> Outcome {
    let bench = json(command()?.args(["bench", "--seconds", "0.05"]), 0)?;
    let measures = bench["measures"].as_array().unwrap();
    assert_eq!(measures.len(), 5, "{bench}");
    for measure in measures {
        assert!(measure["spirula"].as_f64().unwrap() > 0.0, "{measure}");
        assert!(measure["hardware"].is_null() || measure["hardware"].as_f64().unwrap() > 0.0, "{measure}");
    }
    has(&refused(command()?.args(["bench", "--seconds", "0"]))?, &["--seconds"]);
    Ok(())
}

fn pages() -> Outcome {
    let help = text(command()?.arg("--help"), 0)?;
    for part in ["info", "check", "compile", "show", "explain", "cache", "bench"] {
        has(&help, &[part]);
        has(&text(command()?.args([part, "--help"]), 0)?, &["Examples:", "spirula "]);
    }
    has(&text(command()?.arg("manual"), 0)?, &[".TH spirula 1", "clCreateProgramWithBinary"]);
    for shell in ["bash", "zsh", "fish"] {
        has(&text(command()?.args(["completions", shell]), 0)?, &["spirula", "explain"]);
    }
    Ok(())
}

fn no_colours() -> Outcome {
    for arguments in [&["info"][..], &["explain", &path(SAXPY).to_string_lossy()]] {
        assert!(!text(command()?.args(arguments), 0)?.contains('\u{1b}'));
        let coloured = text(command()?.args(arguments).env("CLICOLOR_FORCE", "1"), 0)?;
        assert!(coloured.contains('\u{1b}'), "{coloured}");
    }
    Ok(())
}
