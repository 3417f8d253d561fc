//! A crash and a hang cost one test each: runs the tool on programs of its own, one of which crashes and one of which never
//! ends, between two that are well; and reads what it says and writes.

use serde_json::Value;
use std::error::Error;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};

const PROGRAMS: [(&str, &str); 4] = [
    ("a_well", "kernel void f(global int *a) { a[get_global_id(0)] += 1; }"),
    // A fault alone would end its command only: this one overwrites the frames of whoever called it, and then faults.
    (
        "b_crash",
        "kernel void f(global int *a) { volatile int x[4]; volatile int *p = x; for (long i = 0; ; i++) p[i] = 0; }",
    ),
    ("c_hang", "kernel void f(volatile global int *a) { while (*a != -1) *a = 1; }"),
    ("d_well", "kernel void f(global float *a) { a[get_global_id(0)] *= 2; }"),
];

/// An unpacked suite of the name "own" in this folder, and a `khr.csv`.
fn write_suite(folder: &Path) -> Result<(), Box<dyn Error>> {
    fs::create_dir(folder.join("own"))?;
    fs::write(folder.join("khr.csv"), "\"suite name\", ...\n")?;
    for (name, source) in PROGRAMS {
        let path = folder.join("own").join(name);
        fs::write(path.with_extension("cl"), source)?;
        let mut clang = Command::new("clang-22");
        clang.args(["-target", "spir64", "-cl-std=CL1.2", "-Xclang", "-finclude-default-header"]);
        clang
            .args(["-emit-llvm", "-c", "-o"])
            .arg(path.with_extension("bc64"))
            .arg(path.with_extension("cl"));
        let done = clang.output()?;
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    }
    Ok(())
}

fn run(arguments: &[&str]) -> Result<(Option<i32>, String), Box<dyn Error>> {
    let Output { status, stdout, .. } =
        Command::new(env!("CARGO_BIN_EXE_khronos-cts")).args(arguments).output()?;
    Ok((status.code(), String::from_utf8(stdout)?))
}

#[test]
fn a_crash_and_a_hang_cost_one_test_each() -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    write_suite(folder.path())?;
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (all, well, markdown) = (path("all.json"), path("well.json"), path("all.md"));
    let data = path("");
    let spir = ["spir", "--data", &data, "--jobs", "1", "--timeout", "15", "--json"];
    let (code, text) = run(&[&spir[..], &[&all, "--markdown", &markdown]].concat())?;
    assert_eq!((code, text.lines().last()), (Some(1), Some("2 passed, 2 failed, 0 skipped")), "{text}");
    let report: Value = serde_json::from_str(&fs::read_to_string(&all)?)?;
    let verdict = |index: usize| &report["outcomes"][index]["verdict"];
    assert_eq!((verdict(0), verdict(3)), (&"passed".into(), &"passed".into()));
    let failed = |index| verdict(index)["failed"].as_str().unwrap_or_default();
    assert!(failed(1).contains("killed by signal 11"), "{report}");
    assert!(failed(2).contains("timed out"), "{report}");
    assert!(fs::read_to_string(&markdown)?.contains("| own | 2 | 2 | 0 |"));

    let (code, text) = run(&[&spir[..], &[&well, "--only", "well"]].concat())?;
    assert_eq!((code, text.lines().last()), (Some(0), Some("2 passed, 0 failed, 0 skipped")), "{text}");
    assert_eq!(run(&["compare", &well, &well])?.0, Some(0));
    let (code, text) = run(&["compare", &all, &well])?;
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("gone    own/b_crash"), "{text}");
    assert_eq!(run(&["spir", "--data", &data, "--only", "nothing"])?.0, Some(2));
    Ok(())
}
