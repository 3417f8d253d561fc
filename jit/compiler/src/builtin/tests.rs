//! The builtin table as a whole: every overload of every row must be named, found and assembled.

use super::mangle::{Signature as Named, mangle, parse};
use super::*;
use std::collections::BTreeMap;
use std::io::Write;
use std::process::{Command, Stdio};

/// Every symbol of the table with its declaration.
fn symbols() -> BTreeMap<String, Signature> {
    super::symbols(Spelling::Spir).into_iter().map(|symbol| (symbol.clone(), natural(&symbol))).collect()
}

/// The signature that a producer of 64-bit SPIR declares.
pub fn natural(symbol: &str) -> Signature {
    let (_, overload, parameters) = find(symbol).unwrap_or_else(|| panic!("{symbol} is not in the table"));
    let params = parameters.iter().map(|ty| Ir::of(ty).to_string()).collect();
    Signature { ret: Ir::of(&overload.result).to_string(), params }
}

pub fn definition(symbol: &str) -> Definition {
    match resolve(symbol, &natural(symbol), MathOptions::NONE, Default::default()) {
        Resolution::Definition(definition) => definition,
        other => panic!("{symbol}: {other:?}"),
    }
}

/// One module of many definitions, as the linker puts it together.
pub fn module(definitions: impl Iterator<Item = Definition>) -> String {
    let mut declarations = BTreeSet::new();
    let mut text = String::new();
    for definition in definitions {
        text += &definition.ir;
        declarations.extend(definition.declarations);
    }
    declarations.into_iter().fold(text, |text, line| text + &line + "\n")
}

/// Runs an LLVM tool on text.
pub fn llvm(tool: &str, arguments: &[&str], input: &str) -> Vec<u8> {
    let prefix = std::env::var("LLVM_SYS_221_PREFIX").unwrap_or("/usr/lib/llvm-22".to_string());
    let mut child = Command::new(format!("{prefix}/bin/{tool}"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the LLVM tool starts");
    let mut stdin = child.stdin.take().expect("piped");
    let input = input.to_string();
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("the LLVM tool ends");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{tool}: {}", errors.lines().take(5).collect::<Vec<_>>().join("\n"));
    writer.join().expect("no panic").expect("all is read");
    output.stdout
}

#[test]
fn every_overload_assembles() {
    let symbols = symbols();
    assert!(symbols.len() > 8_000, "only {} symbols", symbols.len());
    let text = module(symbols.keys().map(|symbol| definition(symbol)));
    llvm("opt", &["-passes=verify", "-disable-output", "-"], &text);
}

#[test]
fn every_symbol_is_read_as_it_was_written() {
    for symbol in symbols().keys() {
        let parsed = parse(symbol).unwrap_or_else(|| panic!("{symbol} is not read"));
        assert_eq!(mangle(&parsed, Spelling::Spir), *symbol);
        let modern = mangle(&parsed, Spelling::Clang);
        assert_eq!(parse(&modern).as_ref(), Some(&parsed), "{modern}");
    }
}

#[test]
fn the_libraries_define_what_definitions_call() {
    let library: Vec<String> = symbols()
        .keys()
        .flat_map(|symbol| definition(symbol).declarations)
        .filter(|line| line.contains("@spirula_"))
        .collect::<BTreeSet<_>>()
        .into_iter()
        .collect();
    for fuses in [true, false] {
        defines(super::library(fuses), &library);
    }
}

/// Fails unless the bitcode defines the functions of these declarations, with as many parameters and of that type.
fn defines(bitcode_of_library: &[u8], library: &[String]) {
    let bitcode = std::env::temp_dir().join(format!("spirula-builtins-{}.bc", std::process::id()));
    std::fs::write(&bitcode, bitcode_of_library).expect("written");
    let text = String::from_utf8(llvm("llvm-dis", &["-o", "-", bitcode.to_str().expect("UTF-8")], ""))
        .expect("UTF-8");
    std::fs::remove_file(&bitcode).expect("removed");
    let defined: Vec<&str> = text.lines().filter(|line| line.starts_with("define")).collect();
    for line in library {
        // declare RET @NAME(TYPE, TYPE) ...
        let name = line.split(['@', '(']).nth(1).expect("a name");
        let result = line.split(' ').nth(1).expect("a result");
        let count =
            line.split(['(', ')']).nth(1).expect("types").split(", ").filter(|t| !t.is_empty()).count();
        let head = defined
            .iter()
            .find(|head| head.contains(&format!("@{name}(")))
            .unwrap_or_else(|| panic!("{name} is missing"));
        let parameters = head.split_once(&format!("@{name}(")).expect("found").1;
        assert_eq!(parameters.matches('%').count(), count, "{head} for {line}");
        assert!(head.split('@').next().expect("head").contains(&format!(" {result} ")), "{head} for {line}");
    }
}

#[test]
fn effects_are_known() {
    assert!(is_barrier("_Z7barrierj") && !is_barrier("_Z9mem_fencej"));
    assert!(is_pure("_Z3sinf") || find("_Z3sinf").is_none());
    assert!(is_pure("_Z13get_global_idj") && is_pure("_Z3dotDv4_fS_"));
    assert!(!is_pure("_Z7barrierj") && !is_pure("_Z9mem_fencej") && !is_pure("_Z6vload4mPKU3AS1f"));
    assert!(!is_pure("_Z10atomic_addPVU3AS1jj") && !is_pure("nonsense"));
    let barrier = definition("_Z7barrierj");
    assert!(barrier.ir.contains(" convergent nounwind {"));
    assert!(barrier.declarations.contains("declare void @spirula.barrier(i32) convergent nounwind"));
}

#[test]
fn what_synchronizes_work_items_is_known_to() {
    let synchronizes = |symbol: &str| {
        definition(symbol).declarations.iter().any(|declaration| declaration.contains("convergent"))
    };
    let wrong: Vec<String> = super::symbols(Spelling::Spir)
        .into_iter()
        .filter(|symbol| synchronizes(symbol) != is_barrier(symbol))
        .collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

#[test]
fn a_wrong_declaration_is_told() {
    let declared = |ret: &str, params: &[&str]| Signature {
        ret: ret.to_string(),
        params: params.iter().map(|p| p.to_string()).collect(),
    };
    let found = resolve("_Z4fabsf", &declared("float", &["double"]), MathOptions::NONE, Default::default());
    assert_eq!(found, Resolution::WrongSignature { expected: "declare float @_Z4fabsf(float)".to_string() });
    assert!(matches!(
        resolve("_Z4fabsf", &declared("%s", &["float"]), MathOptions::NONE, Default::default()),
        Resolution::WrongSignature { .. }
    ));
    assert_eq!(
        resolve("_Z4fabsi", &declared("i32", &["i32"]), MathOptions::NONE, Default::default()),
        Resolution::Unknown
    );
    assert_eq!(
        resolve("printf", &declared("i32", &["ptr"]), MathOptions::NONE, Default::default()),
        Resolution::Unknown
    );
}

#[test]
fn log_names_are_readable() {
    assert_eq!(demangle("_Z19nowhere_to_be_foundi").as_deref(), Some("nowhere_to_be_found(int)"));
    assert_eq!(demangle("lib_mix"), None);
    let named = Named { name: "f".to_string(), parameters: Vec::new() };
    assert_eq!(mangle(&named, Spelling::Spir), "_Z1fv");
}

#[test]
fn unsafe_math_chooses_quick_functions() {
    let body = |symbol: &str, math| match resolve(symbol, &natural(symbol), math, Default::default()) {
        Resolution::Definition(definition) => definition.ir,
        other => panic!("{symbol}: {other:?}"),
    };
    let relaxed = MathOptions::FAST_RELAXED_MATH;
    for (symbol, full, quick) in [
        ("_Z3sinf", "@spirula_sincos_f32", "@spirula_native_sin_f32"),
        ("_Z3cosDv4_d", "@spirula_sincos_f64", "@spirula_sincos_f64"),
        ("_Z6sincosfPf", "@spirula_sincos_f32", "@spirula_native_cos_f32"),
        ("_Z3powDv4_fS_", "@spirula_pow_f32", "@spirula_native_pow_f32"),
        ("_Z5rsqrtd", "spirula.reciprocal_root.f64", "spirula.reciprocal_root.f64"),
    ] {
        assert!(
            body(symbol, MathOptions::MAD_ENABLE | MathOptions::FINITE_MATH_ONLY).contains(full),
            "{symbol}"
        );
        assert!(body(symbol, relaxed).contains(quick), "{symbol}");
    }
    // Only float has limits for unsafe math.
    for symbol in ["_Z3sind", "_Z5rsqrtd", "_Z3erff", "_Z8half_sinf"] {
        assert_eq!(body(symbol, relaxed), body(symbol, MathOptions::NONE), "{symbol}");
    }
}

/// A pack goes every way of a branch that its lanes differ in: only numbers that are rare may have one, else what is computed twice is
/// a polynomial.
#[test]
fn doubles_functions_branch_for_rare_numbers_alone() {
    let session = crate::llvm::Session::new();
    let library = crate::llvm::parse_bitcode(&session, library(true)).unwrap();
    let text = crate::llvm::print_text(&library);
    // Whether a processor approximates roots is known when the library is linked; very large and small sides are rare.
    let functions =
        [("asin", 1), ("acos", 1), ("atan", 0), ("atan2", 0), ("hypot", 2), ("sin", 1), ("cos", 1)];
    for (name, branches) in functions {
        let (_, function) = text.split_once(&format!("@spirula_{name}_f64(")).unwrap();
        let (body, _) = function.split_once("\n}").unwrap();
        assert_eq!(body.matches("br i1 ").count(), branches, "{name}: {body}");
    }
}
