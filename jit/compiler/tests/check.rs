//! `spirula-compiler --check FILE`, as a user runs it.

use spirula_compiler::llvm::{self, Session};
use std::io::{PipeReader, Read};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::time::Duration;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(name)
}

fn command(file: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spirula-compiler"));
    command.arg("--check").arg(file).stdin(Stdio::null());
    command
}

fn check(file: &Path) -> (Option<i32>, String) {
    let Output { status, stdout, stderr } = command(file).output().unwrap();
    (status.code(), String::from_utf8(stdout).unwrap() + &String::from_utf8_lossy(&stderr))
}

#[test]
fn it_exits_as_it_found() {
    assert_eq!(check(&fixture("spir12/args.bc64")), (Some(0), String::new()));
    let (status, text) = check(&fixture("bench/sha256.bc64"));
    assert_eq!(status, Some(0), "{text}");
    assert!(
        text.starts_with("remark: ") && text.contains("[compiler-options: SPIR 2.0, 2.8]\nnote: "),
        "{text}"
    );
    let (status, text) = check(&fixture("spir12/vadd.bc32"));
    assert!(status == Some(1) && text.contains("[triple: SPIR 2.0, 3.1]"), "{text}");
    let broken = "target datalayout = \"e-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024\"
        target triple = \"spir64-unknown-unknown\"\nmodule asm \"nop\"";
    let session = Session::new();
    let bitcode = llvm::write_bitcode(&llvm::parse_text(&session, broken).unwrap());
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), bitcode).unwrap();
    let (status, text) = check(file.path());
    assert!(status == Some(1) && text.starts_with("error: module-level inline assembly"), "{text}");
    let (status, text) = check(&fixture("spir12/vadd.cl"));
    assert!(status == Some(1) && text.contains("[bitcode: SPIR 2.0, 1.1]"), "{text}");
    let (status, text) = check(&fixture("nowhere.bc64"));
    assert!(status == Some(2) && text.contains("nowhere.bc64: "), "{text}");
}

/// One whose output nobody reads waits, and can be looked at.
#[test]
fn it_is_sandboxed() {
    let (mut reader, writer): (PipeReader, _) = std::io::pipe().unwrap();
    // SAFETY: a pipe of this test.
    let room = unsafe { libc::fcntl(writer.as_raw_fd(), libc::F_SETPIPE_SZ, 4096) };
    assert_eq!(room, 4096);
    let mut child = command(&fixture("clang/images-22-O1.bc64")).stdout(writer).spawn().unwrap();
    let state = |field: &str| {
        let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap_or_default();
        line.trim().to_owned()
    };
    let confined = |seconds: u32| {
        (0..seconds * 100).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            state("Seccomp:") == "2"
        })
    };
    assert!(confined(60), "no filter of system calls");
    assert_eq!(state("NoNewPrivs:"), "1");
    assert_eq!(u64::from_str_radix(&state("CapEff:"), 16), Ok(0));
    let mut text = String::new();
    reader.read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(text.len() > 4096, "{text}");
}
