//! Compiles the builtin library (`builtins/`) to the LLVM bitcode that kernels are linked with, once for processors with fused sums
//! of products and once for those without, and links LLVM statically: what
//! this compiler uses of it, for this processor's kind.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn main() {
    println!("cargo::rerun-if-changed=../../builtins/src");
    println!("cargo::rerun-if-env-changed=LLVM_SYS_221_PREFIX");
    if let Err(message) = compile() {
        println!("cargo::error={message}");
    }
}

fn compile() -> Result<(), String> {
    let rustc = PathBuf::from(variable("RUSTC")?);
    let llvm = Llvm::find()?;
    same_llvm(&rustc, &llvm)?;
    library(&rustc, &llvm, "builtins.bc", None)?;
    library(&rustc, &llvm, "builtins-unfused.bc", Some("unfused"))?;
    link_statically(&llvm)
}

/// The builtin library with that feature.
fn library(rustc: &Path, llvm: &Llvm, name: &str, feature: Option<&str>) -> Result<(), String> {
    let output = Path::new(&variable("OUT_DIR")?).join(name);
    let mut command = Command::new(rustc);
    command.args(["--crate-name=spirula_builtins", "--crate-type=lib", "--edition=2024", "--emit=llvm-bc"]);
    command.arg("--cfg=spirula_bitcode");
    command.args(feature.map(|feature| format!("--cfg=feature={feature:?}")));
    command.args([
        "-Copt-level=3",
        "-Cpanic=abort",
        "-Ccodegen-units=1",
        "-Cdebuginfo=0",
        "-Coverflow-checks=off",
    ]);
    // Merged functions would become aliases, which can't be linked lazily; a range that is left unrolled or
    // vectorized here would fix the width that generated code has to choose.
    command.args(["-Cllvm-args=-mergefunc-use-aliases=0", "-Cno-vectorize-loops", "-Cno-vectorize-slp"]);
    command.arg("--target").arg(variable("TARGET")?).arg("-o").arg(&output).arg("../../builtins/src/lib.rs");
    run(&mut command)?;
    for_linking(llvm, &output)?;
    no_foreign_calls(llvm, &output)
}

/// What of LLVM is linked: parsing, passes and code for x86-64. (Of the execution engine only what inkwell's modules ask for
/// when they are dropped.)
const COMPONENTS: [&str; 6] = ["core", "x86", "passes", "irreader", "linker", "executionengine"];
/// What LLVM itself calls beyond the C library. The archives of Debian's packages libzstd-dev, zlib1g-dev and g++.
const STATIC_LIBRARIES: [&str; 3] = ["zstd", "z", "stdc++"];

/// A program with LLVM's archives in it starts in a third of the time and in less than half of the memory that it takes with
/// LLVM's shared library, and depends on the C library alone.
fn link_statically(llvm: &Llvm) -> Result<(), String> {
    let folder = run(llvm.tool("llvm-config").arg("--libdir"))?;
    println!("cargo:rustc-link-search=native={}", folder.trim());
    let libraries = run(llvm.tool("llvm-config").args(["--link-static", "--libs"]).args(COMPONENTS))?;
    for library in libraries.split_whitespace().filter_map(|option| option.strip_prefix("-l")) {
        println!("cargo:rustc-link-lib=static:-bundle={library}");
    }
    for library in STATIC_LIBRARIES {
        let archive = format!("lib{library}.a");
        println!("cargo:rustc-link-search=native={}", folder_of(&archive)?);
        // By its file's name: Zig's linker, which packages are made with, has its own idea of what `stdc++` is.
        println!("cargo:rustc-link-lib=static:-bundle,+verbatim={archive}");
    }
    Ok(())
}

/// The folder of a library that the C compiler knows.
fn folder_of(file: &str) -> Result<String, String> {
    let path = run(Command::new("cc").arg(format!("-print-file-name={file}")))?;
    let folder = Path::new(path.trim()).parent().filter(|folder| folder.is_absolute());
    let folder =
        folder.ok_or_else(|| format!("{file} is not found: install libzstd-dev, zlib1g-dev and g++"))?;
    Ok(folder.display().to_string())
}

/// What ties a function to the machine that rustc compiled it for. Most stand beside a value.
const OF_RUSTC: [&str; 5] = ["target-cpu", "target-features", "tune-cpu", "probe-stack", "frame-pointer"];

/// Makes of rustc's module one that LLVM links from what a program needs: all that others may call is `linkonce_odr`, and of no
/// machine. (Whoever reads it would else have to read all of it first, in every process.)
fn for_linking(llvm: &Llvm, bitcode: &Path) -> Result<(), String> {
    let text = run(llvm.tool("llvm-dis").arg("-o").arg("-").arg(bitcode))?;
    if text.contains(" landingpad ") || text.contains(" invoke ") {
        return Err("the builtin library can unwind".to_string());
    }
    // Nothing unwinds here, but functions that inlined something which could have still name Rust's handler for it.
    let text = text.replace(" personality ptr @rust_eh_personality", "");
    // Lines that start with ^ are a module summary, which names it too.
    let is_kept = |line: &&str| {
        !(line.starts_with('^')
            || line.starts_with("target triple")
            || line.starts_with("declare ") && line.contains("@rust_eh_personality"))
    };
    let lines: Vec<String> = text.lines().filter(is_kept).map(line_for_linking).collect();
    let assembly = bitcode.with_extension("ll");
    fs::write(&assembly, lines.join("\n")).map_err(|e| format!("{}: {e}", assembly.display()))?;
    run(llvm.tool("llvm-as").arg("-o").arg(bitcode).arg(&assembly)).map(|_| ())
}

fn line_for_linking(line: &str) -> String {
    let is_local = |rest: &str| rest.starts_with("internal ") || rest.starts_with("private ");
    if line.starts_with("attributes #") {
        let of_rustc = |word: &&str| OF_RUSTC.iter().any(|name| word.starts_with(&format!("\"{name}\"")));
        return line.split(' ').filter(|word| !of_rustc(word)).collect::<Vec<_>>().join(" ");
    }
    if line.starts_with("declare ") && COMPUTING.iter().any(|name| line.contains(name)) {
        // Rust can't say that they compute and do nothing else.
        let end = line.find(" #").unwrap_or(line.len());
        return format!("{} memory(none) nounwind willreturn", &line[..end]);
    }
    let defined = line.strip_prefix("define ").map(|rest| ("define", rest));
    let symbol = defined.or_else(|| line.split_once(" = ").filter(|(name, _)| name.starts_with('@')));
    match symbol {
        Some((start, rest)) if !is_local(rest) => {
            let equals = if start == "define" { "" } else { "= " };
            format!("{start} {equals}linkonce_odr {rest}")
        }
        _ => line.to_string(),
    }
}

/// The LLVM tools that generated code is made with.
struct Llvm {
    bin: PathBuf,
}

impl Llvm {
    fn find() -> Result<Llvm, String> {
        if let Ok(prefix) = env::var("LLVM_SYS_221_PREFIX") {
            let bin = Path::new(&prefix).join("bin");
            if bin.join("llvm-config").exists() {
                return Ok(Llvm { bin });
            }
        }
        let bin = run(Command::new("llvm-config-22").arg("--bindir")).map_err(|e| {
            format!("LLVM 22 is not found: set LLVM_SYS_221_PREFIX or install llvm-22-dev ({e})")
        })?;
        Ok(Llvm { bin: bin.trim().into() })
    }

    fn tool(&self, name: &str) -> Command {
        Command::new(self.bin.join(name))
    }
}

/// The library's bitcode crosses from rustc's LLVM to ours: they must be of one release.
fn same_llvm(rustc: &Path, llvm: &Llvm) -> Result<(), String> {
    let verbose = run(Command::new(rustc).arg("-vV"))?;
    let theirs = verbose.lines().find_map(|line| line.strip_prefix("LLVM version: "));
    let theirs = theirs.ok_or("rustc -vV names no LLVM version")?.trim();
    let ours = run(llvm.tool("llvm-config").arg("--version"))?;
    let release = |version: &str| version.trim().split('.').take(2).collect::<Vec<_>>().join(".");
    if release(theirs) != release(&ours) {
        return Err(format!(
            "rustc's LLVM is {theirs}, the installed one is {}: the builtin library can't cross between them",
            ours.trim()
        ));
    }
    Ok(())
}

/// What the compiler replaces when it links the library with a program: of checks of kernels, and of what not all processors have.
const PRIMITIVES: [&str; 6] = [
    "spirula.image_outside",
    "spirula.scales",
    "spirula.scale.f32",
    "spirula.scale.f64",
    "spirula.reciprocal.f64",
    "spirula.reciprocal_root.f64",
];

/// How the names start of those that compute something of numbers.
const COMPUTING: [&str; 2] = ["@spirula.scale", "@spirula.reciprocal"];

/// Generated code has nothing but the library to call: what it declares must be an LLVM intrinsic, or a primitive.
fn no_foreign_calls(llvm: &Llvm, bitcode: &Path) -> Result<(), String> {
    let text = run(llvm.tool("llvm-dis").arg("-o").arg("-").arg(bitcode))?;
    // These intrinsics become calls of libm.
    const LIBM: [&str; 12] =
        ["sin", "cos", "tan", "exp", "exp2", "exp10", "log", "log2", "log10", "pow", "powi", "ldexp"];
    let foreign: Vec<&str> = text
        .lines()
        .filter(|line| line.starts_with("declare "))
        .filter_map(|line| line.split_once('@')?.1.split_once('('))
        .map(|(name, _)| name.trim_matches('"'))
        .filter(|name| {
            !PRIMITIVES.contains(name)
                && name
                    .strip_prefix("llvm.")
                    .is_none_or(|rest| LIBM.contains(&rest.split('.').next().unwrap_or(rest)))
        })
        .collect();
    let calls_frem = text.contains(" = frem ");
    if !foreign.is_empty() || calls_frem {
        let names = if calls_frem { "frem" } else { "" };
        return Err(format!("the builtin library calls what a kernel can't: {} {names}", foreign.join(", ")));
    }
    fs::metadata(bitcode).map(|_| ()).map_err(|e| format!("{}: {e}", bitcode.display()))
}

fn variable(name: &str) -> Result<String, String> {
    env::var(name).map_err(|e| format!("{name}: {e}"))
}

fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|e| format!("{command:?}: {e}"))?;
    if !output.status.success() {
        let errors = String::from_utf8_lossy(&output.stderr).replace('\n', " | ");
        return Err(format!("{command:?} failed: {errors}"));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
