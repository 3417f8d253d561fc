//! `kir-opt` as a user runs it.

use std::io::Write;
use std::process::{Command, Output, Stdio};

const KERNEL: &str = "kernel \"k\"(%0: ptr(local) @ 0 local_offset) {
b0:
  %1: i64 = local_id 0
  %2: i64 = and %1, 3:i64
  %3: ptr(local) = address %0 + %2*4 + 0
  %4: i32 = rmw atomic monotonic nand %3, 6:i32, align 4
  return
}
";

fn kir_opt(arguments: &[&str], input: &str) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_kir-opt"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // A program that refuses its arguments may be gone before it reads.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    child.wait_with_output().unwrap()
}

#[test]
fn passes_run_one_after_the_other() {
    let text = |passes: &str| {
        let output = kir_opt(&["--passes", passes, "--lanes", "1", "-"], KERNEL);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert!(text("regions").contains("region 0"));
    let lowered = text("regions,widen,lower");
    assert!(lowered.starts_with("function \"k.group\"") && lowered.contains("rmw atomic"), "{lowered}");
    let plain = text("regions,widen,lower,local-atomics,dead-code");
    assert!(!plain.contains("rmw") && plain.contains("= xor "), "{plain}");
    // Whatever is printed can be read again.
    let again = kir_opt(&["--passes", "dead-code", "-"], &plain);
    assert_eq!(String::from_utf8_lossy(&again.stdout).lines().count(), plain.lines().count());
}

#[test]
fn mistakes_are_explained() {
    for (arguments, input, part) in [
        (["--passes", "regions,nothing", "-"], KERNEL, "no pass is called `nothing`"),
        (["--passes", "lower", "-"], KERNEL, "the pass `lower` works on regions"),
        (["--lanes", "3", "-"], KERNEL, "a power of two"),
        (["--passes", "regions", "-"], "kernel \"k\"() {\nb0:\n  frobnicate\n}", "line 3"),
        (["--passes", "regions", "/nowhere/to/be/found"], "", "/nowhere/to/be/found"),
    ] {
        let output = kir_opt(&arguments, input);
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(part), "{arguments:?}: {said}");
    }
    assert!(String::from_utf8_lossy(&kir_opt(&[], "").stderr).contains("local-atomics"));
}
