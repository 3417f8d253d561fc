//! `spirula show`: a stage of a compilation as text, out of what `SPIRULA_DUMP` has the compiler write.

use crate::Result;
use crate::arguments::{Common, Show, Stage};
use crate::built::look_at;
use crate::output;
use clap::ValueEnum;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

#[derive(Serialize)]
struct Shown {
    stage: String,
    kernel: Option<String>,
    text: String,
}

pub fn run(common: &Common, Show { source, stage }: &Show) -> Result<bool> {
    let folder = tempfile::tempdir()?;
    let text = look_at(common, source, ("SPIRULA_DUMP", folder.path().as_os_str()), |_, _, _| {
        text(folder.path(), *stage, source.kernel.as_deref())
    })?;
    if common.json {
        let stage = stage.to_possible_value().map_or_else(String::new, |value| value.get_name().into());
        output::json(&Shown { stage, kernel: source.kernel.clone(), text })?;
    } else {
        output::text(&text)?;
    }
    Ok(true)
}

/// What the compiler wrote of a stage, of one kernel or all.
fn text(folder: &Path, stage: Stage, kernel: Option<&str>) -> Result<String> {
    let read =
        |name: &str| fs::read_to_string(folder.join(name)).map_err(|error| format!("no {name}: {error}"));
    Ok(match stage {
        Stage::Spir => ir_of(read("spir.ll")?, kernel),
        Stage::Clean => ir_of(read("clean.ll")?, kernel),
        Stage::Kir | Stage::Group => {
            let texts = kernels(folder, matches!(stage, Stage::Group))?;
            let wanted = texts.iter().filter(|((_, name), _)| kernel.is_none_or(|kernel| kernel == name));
            wanted.map(|(_, text)| text.trim_end().to_owned() + "\n").collect::<Vec<_>>().join("\n")
        }
        Stage::Asm => {
            let text = read("code.s")?;
            kernel.map_or(text.clone(), |kernel| assembly_of(&text, kernel))
        }
    })
}

/// Each kernel's number and name, and its Kernel IR before the first pass, or behind the last. The files are
/// `spirula.group.NUMBER.NAME.POSITION.PASS.kir`.
fn kernels(folder: &Path, last: bool) -> Result<BTreeMap<(usize, String), String>> {
    let mut chosen: BTreeMap<(usize, String), (usize, std::path::PathBuf)> = BTreeMap::new();
    for file in fs::read_dir(folder)? {
        let path = file?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some((kernel, position)) = parts(&name) else { continue };
        let better = |known: usize| if last { position > known } else { position < known };
        if chosen.get(&kernel).is_none_or(|(known, _)| better(*known)) {
            chosen.insert(kernel, (position, path));
        }
    }
    let read =
        |(kernel, (_, path)): (_, (usize, std::path::PathBuf))| Ok((kernel, fs::read_to_string(path)?));
    chosen.into_iter().map(read).collect()
}

/// The kernel's number and name, and the pass's position.
fn parts(file: &str) -> Option<((usize, String), usize)> {
    let rest = file.strip_prefix("spirula.group.")?.strip_suffix(".kir")?;
    let mut parts = rest.split('.');
    let (number, name, position) = (parts.next()?, parts.next()?, parts.next()?);
    Some(((number.parse().ok()?, name.to_owned()), position.parse().ok()?))
}

/// The one function's definition, of a module's.
fn ir_of(text: String, kernel: Option<&str>) -> String {
    let Some(kernel) = kernel else { return text };
    // What is compiled has another name than what other kernels may call.
    let names = ["", "spirula.kernel."].map(|prefix| format!("@{prefix}{kernel}("));
    let begins = |line: &str| line.starts_with("define ") && names.iter().any(|name| line.contains(name));
    between(&text, begins, |line| line == "}")
}

/// The one kernel's function, of a file's.
fn assembly_of(text: &str, kernel: &str) -> String {
    let label = |line: &str| {
        let symbol = line.split(':').next().unwrap_or_default().trim_matches('"');
        let rest = symbol.strip_prefix("spirula.group.").and_then(|rest| rest.split_once('.'));
        line.contains(':') && rest.is_some_and(|(_, name)| name == kernel)
    };
    between(text, label, |line| line.trim_start().starts_with(".size"))
}

fn between(text: &str, begins: impl Fn(&str) -> bool, ends: impl Fn(&str) -> bool) -> String {
    let mut inside = false;
    let mut found = String::new();
    for line in text.lines() {
        inside |= begins(line);
        if inside {
            found += line;
            found.push('\n');
            inside = !ends(line);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_files_are_taken_apart() {
        assert_eq!(parts("spirula.group.3.saxpy.12.dead-code.kir"), Some(((3, "saxpy".into()), 12)));
        assert_eq!(parts("spirula.group.0..0.imported.kir"), Some(((0, String::new()), 0)));
        assert_eq!(parts("imported.kir"), None);
    }

    #[test]
    fn one_function_is_cut_out() {
        let ir = "define void @a(i32 %0) {\n  ret void\n}\n\ndefine void @ab(i32 %0) {\n  ret void\n}\n";
        assert_eq!(ir_of(ir.into(), Some("ab")), "define void @ab(i32 %0) {\n  ret void\n}\n");
        let code =
            "\"spirula.group.0.a\": # x\n  ret\n  .size a, 1\nspirula.group.1.b:\n  nop\n  .size b, 1\n";
        assert_eq!(assembly_of(code, "b"), "spirula.group.1.b:\n  nop\n  .size b, 1\n");
    }
}
