//! Programs that come and go leave nothing behind. Alone in its process, as it looks at the resident memory.

use spirula_compiler::codegen::{Effort, generate};
use spirula_compiler::llvm::{Session, host, parse_text};
use spirula_interface::program::{CompiledProgram, KernelCode, KernelInfo, KernelSignature};
use spirula_service::{LoadError, LoadedKernel, Variables};
use std::sync::Arc;

const EMPTY: &str = "define void @entry(ptr %a, ptr %l, i64 %f, i64 %e, ptr %m, ptr %s) {\n  ret void\n}\n";

fn program() -> CompiledProgram {
    let session = Session::new();
    let mut module = parse_text(&session, EMPTY).expect("the test's own text");
    let object = generate(
        &session,
        &mut module,
        &["entry".to_owned()],
        &host(),
        (Effort::Full, Default::default()),
        |_| {},
    )
    .expect("valid code");
    let kernel = KernelInfo {
        signature: KernelSignature { name: "entry".into(), ..Default::default() },
        code: KernelCode::plain("entry"),
    };
    CompiledProgram {
        objects: vec![object],
        kernels: vec![kernel],
        data: Default::default(),
        log: String::new(),
    }
}

fn load(program: &CompiledProgram) -> Result<Vec<LoadedKernel>, LoadError> {
    let variables = Variables::new(&program.data, None).expect("none");
    spirula_service::load(program, &Arc::new(variables))
}

/// Resident bytes of this process.
fn resident() -> usize {
    let pages = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    pages.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("pages") * 4096
}

/// Whether code may run at an address.
fn is_executable(address: usize) -> bool {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("Linux");
    maps.lines().any(|line| {
        let (range, rest) = line.split_once(' ').expect("a range and more");
        let (start, end) = range.split_once('-').expect("two addresses");
        let number = |text| usize::from_str_radix(text, 16).expect("hexadecimal");
        (number(start)..number(end)).contains(&address) && rest[..4].contains('x')
    })
}

#[test]
fn three_thousand_programs_come_and_go() {
    let program = program();
    let kernels = load(&program).expect("loads");
    let (entry, another) = (kernels[0].entry as usize, kernels[0].clone());
    drop(kernels);
    assert!(is_executable(entry), "a kernel keeps its program");
    drop(another);
    assert!(!is_executable(entry), "code is unmapped with the last kernel");
    let cycle = || assert_eq!(load(&program).expect("loads").len(), 1);
    (0..300).for_each(|_| cycle());
    let before = resident();
    (0..3_000).for_each(|_| cycle());
    let growth = resident().saturating_sub(before);
    assert!(growth < 1 << 20, "3,000 cycles took {growth} bytes");
}
