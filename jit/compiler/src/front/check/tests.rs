//! Each rule by itself, and that all fixtures obey those that count.

use super::rules::Severity;
use super::*;
use crate::front::testing::{self, HEADER};
use crate::llvm::{self, Session};

fn check_text(text: &str) -> Result<(), CompileError> {
    let session = Session::new();
    let module = llvm::parse_text(&session, text).unwrap_or_else(|e| panic!("{e}"));
    check(&module, &CompileOptions::default())
}

fn finding(body: &str) -> String {
    match check_text(&format!("{HEADER}{body}")) {
        Err(CompileError::Failed(log)) => log,
        other => panic!("{other:?} for {body}"),
    }
}

fn invalidity(text: &str) -> String {
    match check_text(text) {
        Err(CompileError::InvalidBinary(log)) => log,
        other => panic!("{other:?} for {text}"),
    }
}

#[test]
fn other_targets_are_named() {
    assert!(invalidity("target triple = \"spir-unknown-unknown\"").contains("32-bit module"));
    assert!(invalidity("target triple = \"x86_64-pc-linux-gnu\"").contains("x86_64"));
    assert!(invalidity("").contains("no target triple"));
    let triple = "target triple = \"spir64\"\n";
    for layout in ["e-p:32:32:32", "E-p:64:64:64", "e-i64:32", "e-v96:32"] {
        let text = invalidity(&format!("{triple}target datalayout = \"{layout}\""));
        assert!(text.contains("data layout"), "{layout}: {text}");
    }
    let modern = "e-i64:64-v16:16-v24:32-v32:32-v48:64-v96:128-v192:256-v256:256-v512:512-v1024:1024-G1";
    assert!(check_text(&format!("{triple}target datalayout = \"{modern}\"")).is_ok());
}

#[test]
fn versions_are_compared() {
    let with = |spir: &str| format!("{HEADER}!opencl.spir.version = !{{!0}}\n!0 = !{{{spir}}}\n");
    assert!(check_text(&with("i32 1, i32 2")).is_ok());
    assert!(check_text(HEADER).is_ok());
    assert!(check_text(&with("i32 3, i32 0")).is_ok());
    assert!(check_text(&with("i32 2, i32 0")).is_ok());
    assert!(invalidity(&with("i32 2, i32 1")).contains("SPIR 2.1, which isn't known"));
    assert!(invalidity(&with("i32 1")).contains("malformed"));
    assert!(invalidity(&with("!\"1\", !\"2\"")).contains("malformed"));
    let session = Session::new();
    let against = |version: &str, std: &str| {
        let module = llvm::parse_text(&session, &with(version)).unwrap();
        let options = CompileOptions { spir_std: Some(std.into()), ..Default::default() };
        check(&module, &options).map_err(|error| error.to_string())
    };
    for (version, std) in [("1", "1.2"), ("1", "2.0"), ("2", "2.0"), ("3", "1.2")] {
        let version = format!("i32 {version}, i32 {}", if version == "1" { 2 } else { 0 });
        assert_eq!(against(&version, std), Ok(()), "{version} {std}");
    }
    let error = against("i32 2, i32 0", "1.2").unwrap_err();
    assert!(error.contains("SPIR 2.0") && error.contains("-spir-std=1.2"), "{error}");
    assert!(against("i32 1, i32 2", "9.7").unwrap_err().contains("-spir-std=9.7"));
}

#[test]
fn a_module_is_of_its_parts_newest_language() {
    let with = |list: &str| {
        let numbers = "!0 = !{i32 1, i32 2}\n!1 = !{i32 2, i32 0}\n!2 = !{i32 4, i32 0}\n!3 = !{!\"2\"}\n";
        format!("{HEADER}!opencl.ocl.version = !{{{list}}}\n{numbers}")
    };
    assert!(invalidity(&with("!0, !2")).contains("OpenCL C 4.0, which isn't known"));
    assert!(invalidity(&with("!3")).contains("malformed"));
    let session = Session::new();
    for (list, newest) in [("!0", (1, 2)), ("!0, !1", (2, 0)), ("!1, !0", (2, 0))] {
        let module = llvm::parse_text(&session, &with(list)).unwrap();
        assert_eq!(language(&module), newest, "{list}");
    }
}

#[test]
fn what_the_device_lacks_is_named() {
    let with = |list: &str, name: &str| format!("!opencl.used.{list} = !{{!0}}\n!0 = !{{!\"{name}\"}}\n");
    let log = finding(&with("extensions", "cl_khr_mipmap_image"));
    assert_eq!(
        log,
        "error: the module uses the extension `cl_khr_mipmap_image`, which this device doesn't have [extensions: SPIR 2.0, 2.11.2]\n"
    );
    let log = finding(&with("optional.core.features", "cl_tensors"));
    assert!(log.contains("the optional core feature `cl_tensors`"), "{log}");
    for (list, name) in [("extensions", "cl_khr_gl_sharing"), ("optional.core.features", "cl_doubles")] {
        assert!(check_text(&format!("{HEADER}{}", with(list, name))).is_ok(), "{name}");
    }
}

#[test]
fn each_forbidden_thing_has_its_finding() {
    let cases = [
        ("@g = weak addrspace(1) global i32 0", "`g` has weakany linkage"),
        ("@g = thread_local addrspace(1) global i32 0", "thread-local"),
        ("@g = addrspace(1) global i32 0\n@a = alias i32, ptr addrspace(1) @g", "alias"),
        ("@g = addrspace(1) global [99999999 x i32] zeroinitializer", "`g` has 399999996 bytes"),
        ("@g = addrspace(2) constant [4611686018427387904 x i32] zeroinitializer", "`g` has more than 2^64"),
        ("@g = addrspace(3) global [4611686018427387904 x i32] undef", "local variable `g` has more than"),
        ("@g = addrspace(1) global i32 0, align 1048576", "`g` is aligned to 1048576"),
        // What LLVM's C API calls 0, as if there were none.
        ("@g = addrspace(1) global i32 0, align 4294967296", "`g` is aligned to 4294967296"),
        (
            "@g = addrspace(3) global i32 undef, section \"a\", align 4294967296, !x !{}",
            "`g` is aligned to 4294967296",
        ),
        (
            "define void @f() {\n %p = alloca i32, align 4294967296\n ret void\n}",
            "`f` has a private variable that is aligned to 4294967296",
        ),
        (
            "define void @f(ptr %p) {\n store i1024 0, ptr %p\n ret void\n}",
            "`f` contains a value of type i1024, which",
        ),
        (
            "define void @f() {\n %p = alloca i32, align 16777216\n ret void\n}",
            "`f` has a private variable that is aligned",
        ),
        (
            "define void @f() {\n %p = alloca [1152921504606846976 x i128]\n ret void\n}",
            "`f` has a private variable of more than 2^64",
        ),
        (
            "define void @f(ptr %p) {\n %v = load [100000 x i32], ptr %p\n ret void\n}",
            "`f` contains a value of type [100000 x i32], which is too large",
        ),
        (
            "declare void @llvm.memset.p1.i64(ptr addrspace(1), i8, i64, i1)\ndefine void @f(ptr addrspace(1) %p) {\n \
             call void @llvm.memset.p1.i64(ptr addrspace(1) %p, i8 0, i64 9223372036854775807, i1 false)\n ret void\n}",
            "`f` copies or fills 9223372036854775807 bytes at once",
        ),
        ("module asm \"nop\"", "module-level inline assembly"),
        (
            "define void @llvm.mine() {\n ret void\n}",
            "`llvm.mine` has a name that only LLVM's intrinsics have",
        ),
        (
            "declare void @llvm.trap()\ndefine void @f() {\n call void @llvm.trap()\n ret void\n}",
            "`f` calls the intrinsic `llvm.trap`",
        ),
        (
            "declare void @llvm.stackrestore.p0(ptr)\ndefine void @g(ptr %p) {\n call void @llvm.stackrestore.p0(ptr %p)\n ret void\n}",
            "`g` calls the intrinsic `llvm.stackrestore.p0`",
        ),
        ("define void @f() {\n call void asm \"nop\", \"\"()\n ret void\n}", "inline assembly"),
        ("define void @f(ptr %p) {\n call void %p()\n ret void\n}", "a call through a pointer"),
        ("define void @f() {\n fence seq_cst\n ret void\n}", "a fence"),
        (
            "define void @f(ptr %p) {\n %x = atomicrmw add ptr %p, i32 1 seq_cst\n ret void\n}",
            "an atomic instruction",
        ),
        (
            "define void @f(ptr %p) {\n %x = load atomic i32, ptr %p seq_cst, align 4\n ret void\n}",
            "an atomic load",
        ),
        ("define void @f(ptr %p) {\n %x = va_arg ptr %p, i32\n ret void\n}", "a va_arg"),
        ("define void @f(ptr %p) {\n indirectbr ptr %p, []\n}", "an indirectbr"),
        ("define void @f(ptr %p) {\n store ptr @f, ptr %p\n ret void\n}", "address of the function `f`"),
        ("declare void @g(i32)\ndefine void @f() {\n call void @g(i64 1)\n ret void\n}", "another signature"),
        ("define void @f(x86_fp80 %x) {\n ret void\n}", "a parameter of type x86_fp80"),
        ("define void @f() {\n %x = alloca <vscale x 4 x i32>\n ret void\n}", "type <vscale x 4 x i32>"),
        ("define void @f(i32 %x) {\n %y = zext i32 %x to i256\n ret void\n}", "type i256"),
        (&deep_type(1000), "`f` contains a value of a type that is nested more than 64 deep"),
        (
            "define void @f() {\n call void @g()\n ret void\n}\ndefine void @g() {\n call void @f()\n ret void\n}",
            "recursion is not allowed in OpenCL C: `f` calls `g` calls `f`",
        ),
    ];
    for (body, expected) in cases {
        let log = finding(body);
        assert!(log.contains(expected), "{log}");
        assert!(log.lines().all(|line| line.starts_with("error: ")), "{log}");
    }
}

/// A variable of a structure in a structure in a structure.
fn deep_type(depth: usize) -> String {
    let ty = format!("{}i32{}", "{".repeat(depth), "}".repeat(depth));
    format!("%T = type {ty}\ndefine void @f() {{\n %p = alloca %T\n ret void\n}}")
}

#[test]
fn findings_stay_readable() {
    let members = vec!["x86_fp80"; 1000].join(", ");
    let log = finding(&format!("define void @f() {{\n %p = alloca {{ {members} }}\n ret void\n}}"));
    assert!(log.len() < 350 && log.contains("type { x86_fp80, x86_fp80,"), "{log}");
}

#[test]
fn every_fixture_passes() {
    for (name, bytes) in testing::fixtures() {
        let session = Session::new();
        let module = crate::front::read::read(&session, &bytes).unwrap();
        let result = check(&module, &CompileOptions::default());
        assert!(result.is_ok(), "{name}: {result:?}");
    }
}

/// What is found of each rule's example, word for word: `check/findings.txt`, which
/// `SPIRULA_UPDATE=1 cargo test --release -p spirula-compiler check` writes anew, as it does `docs/check.md`.
#[test]
fn each_rule_is_found_broken_as_it_was() {
    let (mut text, mut missed) = (String::new(), String::new());
    for (rule, body) in examples::all() {
        let header = if body.starts_with("target") { "" } else { HEADER };
        let session = Session::new();
        let module =
            llvm::parse_text(&session, &format!("{header}{body}")).unwrap_or_else(|e| panic!("{e}\n{body}"));
        let (findings, is_taken) =
            crate::front::report(&llvm::write_bitcode(&module), &CompileOptions::default());
        let citing = format!("[{}", rule.cited());
        let cited: Vec<&str> = findings.lines().filter(|line| line.contains(&citing)).collect();
        if cited.is_empty() {
            missed += &format!("{} is not found broken in {body}\n{findings}\n", rule.id);
        }
        if is_taken != (rule.severity == Severity::Remark) {
            missed += &format!("{} is taken: {is_taken}, in {body}\n{findings}\n", rule.id);
        }
        cited.iter().for_each(|line| text += &format!("{line}\n"));
    }
    assert!(missed.is_empty(), "{missed}");
    up_to_date("jit/compiler/src/front/check/findings.txt", &text);
}

#[test]
fn every_rule_has_an_example() {
    let shown: Vec<&str> = examples::all().iter().map(|(rule, _)| rule.id).collect();
    for rule in rules::ALL.iter().filter(|rule| rule.id != rules::READABLE.id) {
        assert!(shown.contains(&rule.id), "{} has no example", rule.id);
        assert_eq!(rules::ALL.iter().filter(|other| other.id == rule.id).count(), 1, "{}", rule.id);
    }
    let (findings, is_taken) = crate::front::report(b"nothing", &CompileOptions::default());
    assert!(!is_taken && findings.contains(&rules::READABLE.cited()), "{findings}");
}

#[test]
fn the_page_lists_every_rule() {
    let mut page = String::from(
        "# The rules that are checked\n\nEvery module is checked against SPIR's rules before anything is made of it. \
         `spirula-compiler --check FILE` does only that, in the sandbox of every build, and prints what it found, a line each: the rule and \
         its section, the function, the instruction and, if the module has debug information, the line. It exits with 0 if the module would \
         be taken, with 1 if it has errors, and with 2 if there is nothing to check.\n\n\
         * **invalid**: the module is not for this device; it fails to build with `CL_INVALID_BINARY`.\n\
         * **error**: it fails to build, and the build log has the finding.\n\
         * **remark**: it is taken, for what is meant is plain, and producers write it, Khronos's own among them. Only `--check` says it.\n\n\
         The sections are those of SPIR 2.0, and of SPIR 1.2 where it has another number ([which tests drive each](spir.md)).\n\n\
         | rule | section | a module that breaks it | what it says |\n|---|---|---|---|\n",
    );
    for rule in rules::ALL {
        let severity = match rule.severity {
            Severity::Invalid => "invalid",
            Severity::Error => "error",
            Severity::Remark => "remark",
        };
        page += &format!("| `{}` | {} | {severity} | {} |\n", rule.id, rule.section, rule.text);
    }
    up_to_date("docs/check.md", &page);
}

/// Compares a file with what it should be.
fn up_to_date(path: &str, text: &str) {
    let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path);
    if std::env::var_os("SPIRULA_UPDATE").is_some() {
        std::fs::write(&file, text).unwrap();
    }
    let written = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(
        written, text,
        "{path} is out of date: SPIRULA_UPDATE=1 cargo test --release -p spirula-compiler check"
    );
}

/// Debug information says where.
#[test]
fn lines_are_named() {
    let log = finding(
        "define spir_func void @f(ptr %p) !dbg !5 {\n fence seq_cst, !dbg !9\n ret void\n}
        !llvm.module.flags = !{!2}\n!llvm.dbg.cu = !{!3}\n!2 = !{i32 2, !\"Debug Info Version\", i32 3}
        !3 = distinct !DICompileUnit(language: DW_LANG_C99, file: !4, emissionKind: FullDebug)
        !4 = !DIFile(filename: \"k.cl\", directory: \"/\")
        !5 = distinct !DISubprogram(name: \"f\", file: !4, line: 6, type: !6, unit: !3, spFlags: DISPFlagDefinition)
        !6 = !DISubroutineType(types: !7)\n!7 = !{null}\n!9 = !DILocation(line: 7, scope: !5)",
    );
    assert!(
        log.contains(
            "[atomic: SPIR 2.0, 3.18 and 3.19; 1.2, > 3.10; fence, instruction 1 of block 1, line 7 of k.cl]"
        ),
        "{log}"
    );
}
