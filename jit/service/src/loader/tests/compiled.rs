//! Work-group functions in LLVM's text through code generation, loading, calling and release.

use super::*;
use spirula_compiler::codegen::{CodegenError, Effort, generate};
use spirula_compiler::llvm::{Session, host, parse_text};

/// Adds the group's index to each of its elements: `out[group] += group`.
const ADD_INDEX: &str = r#"
target datalayout = "e-p:64:64:64"
target triple = "spir64-unknown-unknown"

define void @add_index(ptr %arguments, ptr %launch, i64 %first, i64 %end, ptr %local, ptr %scratch) {
entry:
  %out = load ptr, ptr %arguments
  br label %group
group:
  %id = phi i64 [ %first, %entry ], [ %next, %group ]
  %place = getelementptr i32, ptr %out, i64 %id
  %old = load i32, ptr %place
  %narrow = trunc i64 %id to i32
  %new = call i32 @helper(i32 %old, i32 %narrow)
  store i32 %new, ptr %place
  %next = add i64 %id, 1
  %more = icmp ult i64 %next, %end
  br i1 %more, label %group, label %done
done:
  ret void
}

define i32 @helper(i32 %x, i32 %y) {
  %sum = add i32 %x, %y
  ret i32 %sum
}
"#;

/// The object with these entries.
pub(super) fn object(text: &str, symbols: &[&str]) -> Result<Vec<u8>, CodegenError> {
    let session = Session::new();
    let mut module = parse_text(&session, text).expect("the test's own text");
    let entries: Vec<String> = symbols.iter().map(|&symbol| symbol.to_owned()).collect();
    generate(&session, &mut module, &entries, &host(), (Effort::Full, Default::default()), |_| {})
}

fn compile(text: &str, symbols: &[&str]) -> Result<CompiledProgram, CodegenError> {
    Ok(program(vec![object(text, symbols)?], symbols))
}

#[test]
fn code_is_generated_loaded_and_called() {
    let compiled = compile(ADD_INDEX, &["add_index"]).unwrap();
    let (_program, entries) = load(&compiled).unwrap();
    let mut data = [10; 100];
    call(entries[0], &mut data);
    assert!(data.iter().enumerate().all(|(index, &value)| value == 10 + index as i32), "{data:?}");
}

#[test]
fn an_object_may_be_loaded_twice_and_outlives_its_twin() {
    let compiled = compile(ADD_INDEX, &["add_index"]).unwrap();
    let first = load(&compiled).unwrap();
    let second = load(&compiled).unwrap();
    assert_ne!(first.1[0] as usize, second.1[0] as usize);
    drop(first);
    let mut data = [0; 3];
    call(second.1[0], &mut data);
    assert_eq!(data, [0, 1, 2]);
}

#[test]
fn only_entries_are_visible_and_loops_are_vectorized() {
    let session = Session::new();
    let mut module = parse_text(&session, ADD_INDEX).unwrap();
    generate(
        &session,
        &mut module,
        &["add_index".to_owned()],
        &host(),
        (Effort::Full, Default::default()),
        |_| {},
    )
    .unwrap();
    let text = spirula_compiler::llvm::print_text(&module);
    assert!(!text.contains("@helper"), "{text}");
    assert!(text.contains(" x i32>"), "{text}");
}

#[test]
fn block_copies_and_host_arithmetic_resolve() {
    let text = r#"
define void @clear(ptr %arguments, ptr %launch, i64 %first, i64 %end, ptr %local, ptr %scratch) {
  %out = load ptr, ptr %arguments
  %x = load double, ptr %out
  %y = call double @fmod(double %x, double 3.0)
  %bytes = mul i64 %end, 4
  call void @llvm.memset.p0.i64(ptr %out, i8 0, i64 %bytes, i1 false)
  %odd = fptosi double %y to i32
  store i32 %odd, ptr %out
  ret void
}
declare double @fmod(double, double)
declare void @llvm.memset.p0.i64(ptr, i8, i64, i1)
"#;
    let compiled = compile(text, &["clear"]).unwrap();
    let (_program, entries) = load(&compiled).unwrap();
    let mut data = [7; 64];
    let bits = 8.0f64.to_bits();
    (data[0], data[1]) = (bits as i32, (bits >> 32) as i32);
    call(entries[0], &mut data);
    assert_eq!(data[0], 2);
    assert!(data[1..].iter().all(|&value| value == 0), "{data:?}");
}

#[test]
fn objects_call_each_others_functions() {
    let (caller, helper) = ADD_INDEX.split_once("define i32 @helper").unwrap();
    let (head, _) = ADD_INDEX.split_once("define void").unwrap();
    let caller = object(&format!("{caller}declare i32 @helper(i32, i32)\n"), &["add_index"]).unwrap();
    let helper = object(&format!("{head}define i32 @helper{helper}"), &["helper"]).unwrap();
    for objects in [[&caller, &helper], [&helper, &caller]] {
        let compiled = program(objects.map(Vec::clone).to_vec(), &["add_index"]);
        let (_program, entries) = load(&compiled).unwrap();
        let mut data = [10; 100];
        call(entries[0], &mut data);
        assert!(data.iter().enumerate().all(|(index, &value)| value == 10 + index as i32), "{data:?}");
    }
    let error = load(&program(vec![caller], &["add_index"])).unwrap_err().to_string();
    assert!(error.contains("nothing provides helper"), "{error}");
}

#[test]
fn what_nobody_provides_is_named() {
    let text = r#"
define void @calls_out(ptr %arguments, ptr %launch, i64 %first, i64 %end, ptr %local, ptr %scratch) {
  call void @system(ptr %arguments)
  ret void
}
declare void @system(ptr)
"#;
    let error = load(&compile(text, &["calls_out"]).unwrap()).unwrap_err().to_string();
    assert!(error.contains("nothing provides system"), "{error}");
    let missing = compile(ADD_INDEX, &["add_index", "absent"]).unwrap_err().to_string();
    assert!(missing.contains("absent"), "{missing}");
}

#[test]
fn damaged_objects_are_errors() {
    let good = compile(ADD_INDEX, &["add_index"]).unwrap();
    type Damage = fn(&mut CompiledProgram);
    let damage: [(&str, Damage); 4] = [
        ("no ELF file", |program| program.objects[0].clear()),
        ("no ELF file", |program| program.objects[0] = b"no object at all".to_vec()),
        ("no ELF file", |program| program.objects[0].truncate(200)),
        ("no function `absent`", |program| program.kernels[0].code.symbol = "absent".to_owned()),
    ];
    for (expected, damage) in damage {
        let mut program = good.clone();
        damage(&mut program);
        let error = load(&program).expect_err(expected).to_string();
        assert!(error.starts_with("can't load the compiled program: "), "{error}");
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[test]
fn threads_load_and_release_at_once() {
    let compiled = compile(ADD_INDEX, &["add_index"]).unwrap();
    std::thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| {
                for _ in 0..50 {
                    let (_program, entries) = load(&compiled).unwrap();
                    let mut data = [1; 5];
                    call(entries[0], &mut data);
                    assert_eq!(data, [1, 2, 3, 4, 5]);
                }
            });
        }
    });
}
