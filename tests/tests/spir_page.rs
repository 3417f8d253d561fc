//! `docs/spir.md`: it has every section of both specifications, and the tests that it names are there. So are those of `docs/attacks.md`
//! and of `docs/extensions.md`, which has every extension.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// How many sections each section of SPIR 2.0 has.
const OF_2_0: [(&str, u32); 14] = [
    ("1", 2),
    ("2", 15),
    ("2.1", 5),
    ("2.1.3", 7),
    ("2.3", 1),
    ("2.3.1", 2),
    ("2.7", 3),
    ("2.7.1", 2),
    ("2.7.2", 1),
    ("2.9", 1),
    ("2.10", 8),
    ("2.10.6", 3),
    ("2.11", 2),
    ("3", 21),
];

/// The same of SPIR 1.2.
const OF_1_2: [(&str, u32); 13] = [
    ("1", 2),
    ("2", 15),
    ("2.1", 5),
    ("2.1.3", 5),
    ("2.3", 1),
    ("2.3.1", 2),
    ("2.7", 2),
    ("2.7.1", 2),
    ("2.7.2", 1),
    ("2.9", 1),
    ("2.10", 3),
    ("2.11", 2),
    ("3", 10),
];

/// All sections, the appendix among them.
fn sections(counts: &[(&str, u32)]) -> BTreeSet<String> {
    let chapters = ["1", "2", "3", "A", "A.1", "A.2", "A.3"].map(String::from);
    let inner = counts.iter().flat_map(|(parent, count)| (1..=*count).map(move |n| format!("{parent}.{n}")));
    chapters.into_iter().chain(inner).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The cells of the page's table.
fn rows() -> Vec<[String; 4]> {
    rows_of("docs/spir.md")
}

/// The cells of a page's tables.
fn rows_of<const CELLS: usize>(page: &str) -> Vec<[String; CELLS]> {
    let page = fs::read_to_string(root().join(page)).expect(page);
    let lines: Vec<&str> = page.lines().collect();
    let is_head = |at: usize| lines.get(at + 1).is_some_and(|next| next.starts_with("|-"));
    let lines = (0..lines.len()).filter(|&at| !is_head(at)).map(|at| lines[at]);
    let lines = lines.filter(|line| line.starts_with("| "));
    let cells = |line: &str| -> Vec<String> {
        line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_string()).collect()
    };
    lines.map(|line| cells(line).try_into().unwrap_or_else(|_| panic!("{CELLS} cells: {line}"))).collect()
}

/// The names between backticks.
fn names(cell: &str) -> impl Iterator<Item = &str> {
    cell.split('`').skip(1).step_by(2)
}

#[test]
fn no_section_is_missing() {
    let rows = rows();
    for (column, counts) in [(0, &OF_2_0[..]), (1, &OF_1_2[..])] {
        let numbers = rows.iter().map(|row| &row[column]);
        let listed: Vec<String> =
            numbers.filter(|number| *number != "none" && !number.starts_with('>')).cloned().collect();
        let once: BTreeSet<String> = listed.iter().cloned().collect();
        assert_eq!(once.len(), listed.len(), "a section is listed twice");
        assert_eq!(once, sections(counts));
    }
}

#[test]
fn each_section_has_a_test_or_a_reason() {
    for [number, _, _, tests] in rows() {
        let reason =
            tests.starts_with("nothing to test: ") || tests == "its sections" || tests == "its section";
        assert!(reason || names(&tests).count() > 0, "{number}: {tests}");
    }
}

/// All Rust files of the project.
fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()) {
        let name = entry.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if entry.is_dir() && name != "target" && !name.starts_with('.') {
            sources(&entry, files);
        } else if name.ends_with(".rs") {
            files.push(entry);
        }
    }
}

/// Whether a source has a test of this name: one of Rust's, or of those that programs of tests list.
fn has_test(source: &str, function: &str) -> bool {
    // `("name", function)`, or with the file's name, as programs that list their tests have it.
    let pairs = [format!("(\"{function}\","), format!("::{function}\",")];
    if pairs.iter().any(|pair| source.contains(pair)) {
        return true;
    }
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let of_rust = |at: usize| {
        lines[..at].iter().rev().take_while(|line| line.starts_with("#[")).any(|line| *line == "#[test]")
    };
    let definition = format!("fn {function}()");
    let Some(at) = lines.iter().position(|line| line.starts_with(&definition)) else { return false };
    let listed = source.split_once("tests![").and_then(|(_, rest)| rest.split_once("];"));
    let in_list = listed.is_some_and(|(list, _)| list.split([',', '\n']).any(|name| name.trim() == function));
    of_rust(at) || in_list
}

/// Whether one of these files is called so and has such a test.
fn is_in(files: &[PathBuf], file: &str, function: &str) -> bool {
    let end = format!("/{file}.rs");
    let mut like = files.iter().filter(|path| path.to_string_lossy().ends_with(&end));
    like.any(|path| has_test(&fs::read_to_string(path).expect("a source"), function))
}

#[test]
fn each_extension_has_a_test() {
    let source = fs::read_to_string(root().join("jit/interface/src/extensions.rs")).expect("the list");
    let list = source.split_once("EXTENSIONS: &[Extension] = &[").and_then(|(_, rest)| rest.split_once("];"));
    let quoted = list.expect("the list").0.split('"').skip(1).step_by(2);
    let reported: BTreeSet<String> = quoted.map(String::from).collect();
    assert!(reported.len() > 30, "{reported:?}");
    let rows = rows_of::<3>("docs/extensions.md");
    let listed: BTreeSet<String> = rows.iter().map(|[name, ..]| name.clone()).collect();
    assert_eq!(listed, reported);
    for [name, _, tests] in &rows {
        assert!(names(tests).count() > 0, "{name}");
    }
}

#[test]
fn what_attacks_found_has_tests() {
    let mut files = Vec::new();
    sources(&root(), &mut files);
    let rows = rows_of::<3>("docs/attacks.md");
    assert!(rows.len() > 30, "only {} rows", rows.len());
    for [what, _, tests] in rows {
        assert!(names(&tests).count() > 0, "{what}");
        for name in names(&tests) {
            let (file, function) = name.split_once("::").expect("a file and a function");
            assert!(is_in(&files, file, function), "{what}: there is no test {name}");
        }
    }
}

#[test]
fn the_named_tests_are_there() {
    let mut files = Vec::new();
    sources(&root(), &mut files);
    let cases = fs::read(root().join("tests/fixtures/cases.json")).expect("the cases");
    let cases: Vec<serde_json::Value> = serde_json::from_slice(&cases).expect("JSON");
    let cases: Vec<&str> = cases.iter().filter_map(|case| case["name"].as_str()).collect();
    let mut count = 0;
    let of_sections = rows().into_iter().map(|[number, _, _, tests]| (number, tests));
    let of_extensions = rows_of("docs/extensions.md").into_iter().map(|[name, _, tests]| (name, tests));
    for (place, tests) in of_sections.chain(of_extensions) {
        for name in names(&tests) {
            count += 1;
            let found = match (name.split_once("::"), name.strip_suffix('*')) {
                (Some((file, function)), _) => is_in(&files, file, function),
                (None, Some(beginning)) => cases.iter().any(|case| case.starts_with(beginning)),
                (None, None) => cases.contains(&name),
            };
            assert!(found, "{place}: there is no test {name}");
        }
    }
    assert!(count > 100, "only {count} tests");
}
