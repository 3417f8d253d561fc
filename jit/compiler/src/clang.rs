//! OpenCL C source to SPIR, by an installed clang: before the pipeline that starts with SPIR bytes.
//!
//! ```text
//! Translation -> overlay (the files that clang may see) -> run (a process with limits, files in memory) -> Translated
//!                                                          spare (one that has started already)
//! ```
//!
//! Clang's own front end is called (`-cc1`), not its driver: that one reads configuration files and the environment, and
//! starts a second process. A build of a small source takes it 20 ms on an idle machine, nearly all of which goes to its start,
//! so that one is started ahead; the builtins are declared by `-fdeclare-opencl-builtins`, for the header would take 300 ms
//! more.

mod overlay;
mod run;
mod spare;

pub use spare::keep_one;

use overlay::Overlay;
use spirula_interface::options::CompileError;
use spirula_interface::translation::{Translated, Translation};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What the log calls the source.
const SOURCE_NAME: &str = "source.cl";

/// Options of every translation: what SPIR is, no system's headers, and no optimization, which is ours to do. (At
/// -O0 clang would forbid it, and at -O1 the unrolling of loops if it weren't asked for.)
const OPTIONS: &[&str] = &[
    "-cc1",
    "-x",
    "cl",
    "-emit-llvm-bc",
    "-O1",
    "-disable-llvm-passes",
    "-funroll-loops",
    "-relaxed-aliasing",
    "-nostdsysteminc",
    "-fdeclare-opencl-builtins",
    "-finclude-default-header",
    "-cl-kernel-arg-info",
    // `3.14L`, of programs whose constants were C's, is a double, as other compilers have it; SPIR has no wider type.
    "-mlong-double-64",
];

/// What clang 22 does not declare of the device's extensions: cl_khr_extended_async_copies. And `half` may be used by who doesn't say that he
/// will, as other runtimes have it.
const DECLARATIONS: &str = "\
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#define __spirula_copies(name, ...) \\
  event_t __attribute__((overloadable, convergent, nothrow)) name(local void *, size_t, const global void *, __VA_ARGS__, event_t); \\
  event_t __attribute__((overloadable, convergent, nothrow)) name(global void *, size_t, const local void *, __VA_ARGS__, event_t);
__spirula_copies(async_work_group_copy_2D2D, size_t, size_t, size_t, size_t, size_t, size_t)
__spirula_copies(async_work_group_copy_3D3D, size_t, size_t, size_t, size_t, size_t, size_t, size_t, size_t, size_t)
#undef __spirula_copies
";

/// And cl_intel_subgroups with its siblings. Programs that name none of these are translated without: they take a millisecond.
const SUB_GROUPS: &str = include_str!("clang/sub_groups.h");

/// What is in the names of [`SUB_GROUPS`].
const SUB_GROUP: &str = "sub_group";

/// What other compilers of OpenCL C, clang's own earlier versions among them, warn about, and this one takes for errors.
const RECOVERABLE: &[&str] = &["implicit-int", "incompatible-pointer-types", "int-conversion", "parentheses"];

/// Translates. Errors: [`CompileError::Failed`] with clang's diagnostics, [`CompileError::Crashed`] if it died or took too long.
/// The limit is on the processor time of the whole request.
pub fn translate(translation: &Translation, limit: Duration) -> Result<Translated, CompileError> {
    // The lines with a number only name the file in diagnostics.
    let of_sub_groups = if may_name(translation, SUB_GROUP) { SUB_GROUPS } else { "" };
    // Clang skips a byte order mark at the start of a file, which this no longer is.
    let text = translation.source.strip_prefix('\u{feff}').unwrap_or(&translation.source);
    let source =
        format!("# 1 \"declarations.h\"\n{DECLARATIONS}{of_sub_groups}# 1 \"{SOURCE_NAME}\"\n{text}");
    // In time for the failure to be told before the process that waits for it is ended too.
    let limit = limit.mul_f64(0.9);
    let (ended, read) = match spare::translate(translation, source.as_bytes(), limit) {
        Some(ended) => ended,
        None => anew(translation, source.as_bytes(), limit)?,
    };
    spare::order(translation, limit);
    let mut log = String::from_utf8_lossy(&ended.complaints).into_owned();
    if log.contains("' file not found") {
        log += &where_files_are_looked_for(translation);
    }
    match ended.how {
        run::How::Success => Ok(Translated { module: ended.output, log, read }),
        run::How::Failure => Err(CompileError::Failed(log)),
        run::How::Death(why) => Err(CompileError::Crashed(format!("{log}error: clang {why}\n"))),
    }
}

/// Whether a text can be in what clang will read. Files that are included may have any.
fn may_name(translation: &Translation, text: &str) -> bool {
    let Translation { source, headers, options, .. } = translation;
    let texts = headers.iter().map(|(_, header)| header).chain(options).chain([source]);
    texts.into_iter().any(|read| read.contains(text) || read.contains("include"))
}

/// How a clang ended, and what it read.
type Outcome = (run::Ended, Option<Vec<PathBuf>>);

/// Translates in a process of its own.
fn anew(translation: &Translation, source: &[u8], limit: Duration) -> Result<Outcome, CompileError> {
    let mut overlay =
        Overlay::new(translation).map_err(|error| trouble("can't be given its files", &error))?;
    let arguments = arguments(translation, &overlay);
    let ended = run::run(&translation.clang, &arguments, source, limit);
    let ended = ended.map_err(|error| trouble("can't be run", &error))?;
    Ok((ended, overlay.read()))
}

/// For the log, where something was missing.
fn where_files_are_looked_for(translation: &Translation) -> String {
    let names = |folders: &[PathBuf]| {
        let names: Vec<String> = folders.iter().map(|folder| folder.display().to_string()).collect();
        if names.is_empty() { "none".to_string() } else { names.join(", ") }
    };
    let directory = translation.directory.as_deref().unwrap_or(Path::new("unknown")).display();
    let folders = names(&translation.include_folders);
    let mut note = format!(
        "note: files are looked for among the program's headers, in the working directory ({directory}) if they are included \
         in quotes, and in the folders of -I and SPIRULA_INCLUDE ({folders})\n"
    );
    if let Some(allowed) = &translation.allowed {
        let allowed = names(allowed);
        note += &format!("note: SPIRULA_INCLUDE_ONLY restricts them to folders ({allowed})\n");
    }
    note
}

/// Clang's arguments; it reads the source from its standard input.
fn arguments(translation: &Translation, overlay: &Overlay) -> Vec<String> {
    let triple = format!("{}-unknown-unknown", translation.addresses.spir());
    let fixed = OPTIONS.iter().map(|option| option.to_string()).chain(["-triple".to_string(), triple]);
    let own = translation.options.iter().cloned();
    // Who wants warnings to be errors wants these too.
    let strict = translation.options.iter().any(|option| option == "-Werror");
    let lenient = RECOVERABLE.iter().filter(|_| !strict).map(|warning| format!("-Wno-error={warning}"));
    fixed
        .chain(lenient)
        .chain(overlay.options())
        .chain(own)
        .chain(["-o", "-", "-"].map(str::to_string))
        .collect()
}

fn trouble(what: &str, error: &std::io::Error) -> CompileError {
    CompileError::Failed(format!("error: clang {what}: {error}\n"))
}

#[cfg(test)]
mod tests;
