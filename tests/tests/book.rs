//! The book in `docs/` is whole, and its commands work; and the table of installed files has every file.
//!
//! A fenced block says in its first line how it is run: `sh`, here, by all pages' blocks in turn, in a folder that has a link to
//! `tests`; `sh,cargo`, here, in the repository; `sh,needs=PROGRAM`, here, if that is installed; `sh,container`, by
//! `./x package --check`, in a system without anything.

use spirula_tests::icd;
use std::collections::BTreeSet;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the repository")
}

/// The book's pages: names and texts.
fn pages() -> Vec<(String, String)> {
    let files = fs::read_dir(root().join("docs")).expect("docs");
    let mut pages: Vec<(String, String)> = files
        .map(|file| file.expect("a file").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
        .map(|path| {
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            (name, fs::read_to_string(&path).expect("a page"))
        })
        .collect();
    pages.sort();
    assert!(pages.len() > 10, "where are the pages?");
    pages
}

/// What a page's links lead to, without code.
fn links(text: &str) -> Vec<String> {
    let mut in_block = false;
    let prose = text.lines().filter(|line| {
        let fence = line.starts_with("```");
        in_block ^= fence;
        !(in_block || fence || line.starts_with("    "))
    });
    let mut links = Vec::new();
    for line in prose {
        // Every second part is between backquotes.
        let outside: String = line.split('`').step_by(2).collect::<Vec<_>>().join("`");
        let starts = outside.match_indices("](").map(|(at, _)| &outside[at + 2..]);
        links.extend(starts.filter_map(|rest| rest.split_once(')')).map(|(link, _)| link.to_string()));
    }
    links
}

#[test]
fn every_page_is_in_the_summary_once() {
    let pages = pages();
    let (_, summary) = pages.iter().find(|(name, _)| name == "SUMMARY.md").expect("SUMMARY.md");
    let listed = links(summary);
    let named: BTreeSet<&str> = listed.iter().map(String::as_str).collect();
    assert_eq!(named.len(), listed.len(), "listed twice");
    let there: BTreeSet<&str> =
        pages.iter().map(|(name, _)| name.as_str()).filter(|name| *name != "SUMMARY.md").collect();
    assert_eq!(named, there);
}

#[test]
fn links_lead_to_files() {
    let mut broken = Vec::new();
    for (page, text) in pages() {
        for link in links(&text) {
            let file = link.split('#').next().unwrap_or_default();
            let outside = file.contains("://") || file.is_empty();
            if !outside && !root().join("docs").join(file).exists() {
                broken.push(format!("{page}: {link}"));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

#[test]
fn commands_of_the_front_door_exist() {
    let script = fs::read_to_string(root().join("x")).expect("x");
    let known: BTreeSet<&str> =
        script.lines().filter_map(|line| line.strip_prefix("./x ")?.split_whitespace().next()).collect();
    assert!(known.contains("test"), "{known:?}");
    let readme = fs::read_to_string(root().join("README.md")).expect("README.md");
    for (page, text) in pages().into_iter().chain([("README.md".to_string(), readme)]) {
        for (at, _) in text.match_indices("./x ") {
            let verb: String =
                text[at + 4..].chars().take_while(|c| c.is_ascii_alphabetic() || *c == '-').collect();
            assert!(verb.is_empty() || known.contains(verb.as_str()), "{page}: ./x {verb}");
        }
    }
}

/// The fenced blocks of a page: what their first line says, and their text.
fn blocks(text: &str) -> Vec<(Vec<String>, String)> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(words) = line.strip_prefix("```") {
            let words = words.split(',').map(|word| word.trim().to_string()).collect();
            let body: Vec<&str> = lines.by_ref().take_while(|line| !line.starts_with("```")).collect();
            blocks.push((words, body.join("\n")));
        }
    }
    blocks
}

fn is_installed(program: &str) -> bool {
    env::split_paths(&env::var_os("PATH").unwrap_or_default()).any(|folder| folder.join(program).is_file())
}

/// Runs a page's commands; says what failed.
fn run(page: &str, text: &str) -> Result<usize, String> {
    let library = icd::library()?;
    let (variable, vendors) = icd::environment(&library).map_err(|error| error.to_string())?;
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    symlink(root().join("tests"), folder.path().join("tests")).map_err(|error| error.to_string())?;
    let programs =
        [library.parent().map(Path::to_path_buf), icd::compiler()?.parent().map(Path::to_path_buf)];
    let others = env::var_os("PATH").unwrap_or_default();
    let path = env::join_paths(programs.into_iter().flatten().chain(env::split_paths(&others)))
        .map_err(|error| error.to_string())?;
    let mut count = 0;
    for (words, body) in blocks(text) {
        let has = |word: &str| words.iter().any(|other| other == word);
        let missing = words
            .iter()
            .filter_map(|word| word.strip_prefix("needs="))
            .find(|program| !is_installed(program));
        if words[0] != "sh" || has("container") {
            continue;
        }
        if let Some(program) = missing {
            eprintln!("{page}: not run, for there is no {program}");
            continue;
        }
        let place = if has("cargo") { root() } else { folder.path().to_path_buf() };
        let output = Command::new("sh")
            .args(["-euc", &body])
            .current_dir(place)
            .env(variable, &vendors)
            .env(icd::CACHE_VARIABLE, "")
            .env("PATH", &path)
            // Readers force none: what is said of lanes is said of optimized code.
            .env_remove("SPIRULA_TIER")
            .output()
            .map_err(|error| error.to_string())?;
        if !output.status.success() {
            let said =
                [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            return Err(format!("{page}: {}\n{body}\n{}", output.status, said.concat()));
        }
        count += 1;
    }
    let _ = fs::remove_dir_all(vendors);
    Ok(count)
}

#[test]
fn commands_work() {
    let results: Vec<Result<usize, String>> = pages().iter().map(|(page, text)| run(page, text)).collect();
    let errors: Vec<&String> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    assert!(errors.is_empty(), "{}", errors.iter().map(|e| e.as_str()).collect::<Vec<_>>().join("\n\n"));
    assert!(results.into_iter().flatten().sum::<usize>() >= 10, "nearly nothing was run");
}

/// A block that is to be run in a container is one that the check there finds: it looks at these pages.
#[test]
fn commands_for_containers_are_on_the_pages_that_are_tried_there() {
    let check = fs::read_to_string(root().join("icd/package/check.py")).expect("check.py");
    for (page, text) in pages() {
        let has = blocks(&text).iter().any(|(words, _)| words.iter().any(|word| word == "container"));
        assert!(!has || check.contains(&format!("\"{page}\"")), "{page} is not in check.py");
    }
}

/// The rows of icd/package/files.txt: package, from, to, mode.
fn installed() -> Vec<[String; 4]> {
    let table = fs::read_to_string(root().join("icd/package/files.txt")).expect("files.txt");
    let rows = table.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    rows.map(|line| {
        let cells: Vec<String> = line.split_whitespace().map(String::from).collect();
        cells.try_into().unwrap_or_else(|_| panic!("four cells: {line}"))
    })
    .collect()
}

#[test]
fn the_table_of_installed_files_is_right() {
    let rows = installed();
    let places: BTreeSet<&String> = rows.iter().map(|[_, _, to, _]| to).collect();
    assert_eq!(places.len(), rows.len(), "two files at one place");
    for [package, from, to, mode] in &rows {
        assert!(["spirula", "spirula-clang"].contains(&package.as_str()), "{package}");
        assert!(
            mode == if to.contains("/libspirula") || from.starts_with("built:") || from.ends_with("clang-22")
            {
                "755"
            } else {
                "644"
            },
            "{to}"
        );
        if !from.contains(':') {
            assert!(root().join(from).is_file(), "{from}");
        }
    }
}

/// What users run is installed: every program and library of the crates in icd/ and of the compiler.
#[test]
fn the_table_has_all_programs() {
    let cargo = env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let metadata = Command::new(cargo)
        .args(["metadata", "--no-deps", "--offline", "--format-version", "1"])
        .current_dir(root())
        .output()
        .expect("cargo metadata");
    let metadata: serde_json::Value = serde_json::from_slice(&metadata.stdout).expect("JSON");
    let mut programs = BTreeSet::new();
    for package in metadata["packages"].as_array().expect("packages") {
        let manifest = package["manifest_path"].as_str().expect("a path");
        let folder = Path::new(manifest).strip_prefix(root()).expect("in the repository");
        if !(folder.starts_with("icd") || folder.starts_with("jit/compiler")) {
            continue;
        }
        for target in package["targets"].as_array().expect("targets") {
            let name = target["name"].as_str().expect("a name");
            match target["kind"][0].as_str() {
                Some("bin") => programs.insert(format!("built:{name}")),
                Some("cdylib") => programs.insert(format!("built:lib{name}.so")),
                _ => false,
            };
        }
    }
    assert!(programs.len() >= 2, "{programs:?}");
    let listed: BTreeSet<String> = installed()
        .into_iter()
        .map(|[_, from, _, _]| from)
        .filter(|from| from.starts_with("built:"))
        .collect();
    assert_eq!(programs, listed);
}
