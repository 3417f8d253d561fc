//! LLVM takes what is written, and finds in it what Kernel IR says.

use super::Text;
use crate::llvm::{self, Session};
use spirula_interface::check::Location;
use spirula_kir::{Op, Type, parse, verify};

/// The text of some functions, which LLVM's verifier has seen.
fn translated(functions: &[&str]) -> String {
    let mut text = Text::default();
    for function in functions {
        let function = parse(function).unwrap_or_else(|e| panic!("{e}"));
        verify(&function).unwrap_or_else(|e| panic!("{e}\n{function}"));
        text.add(&function);
    }
    let text = text.finish();
    let session = Session::new();
    let module = llvm::parse_text(&session, &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    llvm::verify(&module).unwrap_or_else(|e| panic!("{e}\n{text}"));
    text
}

const SUM: &str = r#"function "sum"(%0: ptr(global) noalias nonnull readonly align 16, %1: i64, %2: ptr(context)) yields i32 {
  slot $0: 4 align 4
b0:
  %3: ptr(private) = slot_address $0
  jump b1(0:i64, 0:i32)
b1(%4: i64, %5: i32):
  %6: ptr(global) = address inbounds %0 + %4*4 + 8
  %7: i32 = load %6, align 4, parallel 3
  store %2, %7, align 4, parallel 3
  nontemporal_store %2, %7, align 4
  store %3, %7, align 4
  %8: i32 = add nsw %5, %7
  %9: i64 = add nuw %4, 1:i64
  %10: i1 = icmp ult %9, %1
  branch %10, b1(%9, %8), b2(%8), loop parallel 3 no_vectorize
b2(%11: i32):
  streaming_fence
  %12: i1 = icmp eq %11, 7:i32
  branch %12, b3(1:i32), b3(%11)
b3(%13: i32):
  return %13
}
"#;

#[test]
fn loops_keep_their_hints_and_accesses_their_groups() {
    let text = translated(&[SUM]);
    let with = |part: &str| {
        text.lines().find(|line| line.contains(part)).unwrap_or_else(|| panic!("{part}: {text}"))
    };
    let metadata = |line: &str, kind: &str| -> String {
        let (_, rest) = line.split_once(kind).unwrap_or_else(|| panic!("{kind}: {line}"));
        rest.trim().split(',').next().unwrap_or_default().to_owned()
    };
    let group = metadata(with("= load i32"), "!llvm.access.group");
    assert_eq!(group, metadata(with("ptr %v2, align 4, !alias"), "!llvm.access.group"));
    let hints = with(&format!("{} = distinct", metadata(with("!llvm.loop"), "!llvm.loop")));
    let properties: Vec<&str> = hints.split([',', '}']).skip(1).filter(|part| !part.is_empty()).collect();
    let [parallel, scalar] = properties[..] else { panic!("{hints}") };
    let parallel = with(&format!("{} = ", parallel.trim()));
    assert!(parallel.ends_with(&format!("!{{!\"llvm.loop.parallel_accesses\", {group}}}")), "{parallel}");
    let scalar = with(&format!("{} = ", scalar.trim()));
    assert!(scalar.ends_with("!{!\"llvm.loop.vectorize.enable\", i1 false}"), "{scalar}");
    assert!(with("ptr %v2, align 4, !nontemporal").contains("!alias.scope"), "{text}");
    assert!(with(", ptr %s0").contains("!alias.scope"), "{text}");
    assert!(with("define").contains("ptr noalias nonnull readonly align 16 %v0"), "{text}");
}

#[test]
fn spaces_exclude_each_other_and_generic_pointers_none() {
    let text = translated(&[
        r#"function "f"(%0: ptr(global), %1: ptr(local), %2: ptr(generic), %3: ptr(constant)) {
b0:
  %4: i32 = load %0, align 4
  %5: i32 = load %1, align 4
  %6: i32 = load %2, align 4
  %7: i32 = load %3, align 4
  return
}
"#,
    ]);
    let line = |value: &str| text.lines().find(|line| line.contains(value)).unwrap().to_owned();
    assert!(line("%v4 =").contains("!alias.scope") && line("%v4 =").contains("!noalias"));
    assert_ne!(line("%v4 =").split("!alias").nth(1), line("%v5 =").split("!alias").nth(1));
    assert!(!line("%v6 =").contains('!'), "{text}");
    assert!(line("%v7 =").contains("!invariant.load"), "{text}");
}

/// Bytes are gathered as the words that they lie in; private variables consist of whole ones.
#[test]
fn narrow_gathers_from_private_variables_are_of_words_that_are_theirs() {
    let text = translated(&[r#"function "f"(%0: <8 x i64>, %1: <8 x i1>) yields <8 x i8> {
  slot $0: 33 align 1
b0:
  %2: ptr(private) = slot_address $0
  %3: <8 x ptr(private)> = address inbounds %2 + %0*1 + 0
  %4: <8 x i8> = masked_load %3, %1, align 1
  return %4
}
"#]);
    assert!(text.contains("%s0 = alloca [36 x i8], align 4"), "{text}");
    assert!(text.contains("@llvm.masked.gather.v8i32.v8p0(") && !text.contains("gather.v8i8"), "{text}");
}

/// Functions of one text may call each other; what none defines is declared.
#[test]
fn what_is_defined_is_not_declared() {
    let caller = r#"function "caller"(%0: i32) yields i32 {
b0:
  %1: i32 = call @"callee"(%0)
  %2: i32 = call pure @"elsewhere"(%1)
  return %2
}
"#;
    let callee = "function \"callee\"(%0: i32) yields i32 {\nb0:\n  return %0\n}\n";
    let text = translated(&[caller, callee]);
    assert!(
        !text.contains("declare i32 @\"callee\"") && text.contains("declare i32 @\"elsewhere\""),
        "{text}"
    );
}

/// Instructions of two files and of none; a function that knows no line has no debug information.
#[test]
fn lines_are_told_where_they_are_known_and_asked_for() {
    let callee = "function \"callee\"(%0: i32) yields i32 {\nb0:\n  return %0\n}\n";
    let mut function = parse("function \"spirula.group.0.k\"(%0: i32) {\nb0:\n  return\n}\n").unwrap();
    let at = |file: &str, line| Location { file: file.into(), directory: "/d\"".into(), line, column: 70000 };
    function.declare_at(at("a.cl", 3));
    let (value, block) = (function.params[0].value, spirula_kir::Block(0));
    let mut call = |at: Option<Location>| {
        function.at_location = at.map(|at| function.add_location(at));
        let (pure, nocapture, nosync, arguments) = (false, false, false, vec![value]);
        let call = Op::Call { function: "callee".into(), pure, nocapture, nosync, arguments };
        function.push(block, Type::I32, call);
    };
    [Some(at("a.cl", 7)), Some(at("b.cl", 9)), None].into_iter().for_each(&mut call);
    let written = |debug_info: bool| {
        let mut text = Text::new(debug_info);
        text.add(&function);
        text.add(&parse(callee).unwrap());
        let text = text.finish();
        let session = Session::new();
        let module = llvm::parse_text(&session, &text).unwrap_or_else(|e| panic!("{e}\n{text}"));
        llvm::verify(&module).unwrap_or_else(|e| panic!("{e}\n{text}"));
        // Debug information that LLVM finds wrong, it leaves out.
        llvm::print_text(&module)
    };
    let text = written(true);
    for part in [
        "!DISubprogram(name: \"k\", scope: ",
        "line: 3, type",
        "!DIFile(filename: \"b.cl\", directory: \"/d\\22\")",
        "!DILocation(line: 7, column: 65535, scope: ",
        "!DILocation(line: 9,",
        "!DILocation(line: 0,",
        "!DILexicalBlockFile(",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(text.lines().any(|line| line.contains("@callee(i32 %v0)") && !line.contains("!dbg")), "{text}");
    assert!(!written(false).contains("!dbg"));
}
