//! What clang makes of sources, and what it must not see. Without a clang these tests say so and pass.

use super::*;
use crate::compile::{self, trace};
use spirula_interface::program::CompiledProgram;
use spirula_service::find_clang;

const LIMIT: Duration = Duration::from_secs(60);

fn translation(source: &str) -> Option<Translation> {
    let Some(clang) = find_clang() else {
        eprintln!("skipped: there is no clang-22");
        return None;
    };
    let options = vec!["-cl-std=CL1.2".into()];
    Some(Translation {
        clang: clang.clone(),
        addresses: Default::default(),
        source: source.into(),
        headers: Vec::new(),
        include_folders: Vec::new(),
        directory: None,
        allowed: None,
        options,
    })
}

fn log_of(translation: &Translation) -> String {
    match translate(translation, LIMIT) {
        Ok(translated) => panic!("it was accepted: {}", translated.log),
        Err(error) => error.to_string(),
    }
}

/// The program of a module.
fn built(module: &[u8]) -> Result<CompiledProgram, CompileError> {
    let (dump, mut stages) = (trace::Dump::default(), trace::Stages::begin());
    compile::build(&[module], &crate::host_inputs(), dump, &mut stages)
}

#[test]
fn a_kernel_becomes_spir() {
    let Some(job) = translation("kernel void k(global float *a) { a[get_global_id(0)] = sin(a[0]); }") else {
        return;
    };
    let translated = translate(&job, LIMIT).unwrap();
    assert_eq!(translated.log, "");
    let built = built(&translated.module).unwrap();
    assert_eq!(built.kernels[0].signature.name, "k");
}

/// A constant of C's beside numbers that aren't.
#[test]
fn long_doubles_are_doubles() {
    let Some(job) =
        translation("kernel void k(global float *a, uint n) { a[0] = 3.14159265358979323846264L / n; }")
    else {
        return;
    };
    let translated = translate(&job, LIMIT).unwrap();
    assert_eq!(built(&translated.module).unwrap().kernels.len(), 1);
}

/// oneDNN's kernels ask for the extension's macro only, and some editors begin files with a mark.
#[test]
fn half_needs_no_pragma_and_a_byte_order_mark_is_skipped() {
    let source = "\u{feff}#ifdef cl_khr_fp16\nconstant half c = 1.0h;\nkernel void k(global half *a) { half b = *a; *a = b * c; }\n#endif";
    let Some(mut job) = translation(source) else { return };
    job.options.push("-Dcl_khr_fp16=1".into());
    let translated = translate(&job, LIMIT).unwrap();
    assert_eq!(translated.log, "");
    assert_eq!(built(&translated.module).unwrap().kernels.len(), 1);
    job.source = format!("{source}\n\u{feff}");
    assert!(
        log_of(&job).contains("source.cl:5:1: error: unexpected character"),
        "within it is one as any other"
    );
}

#[test]
fn diagnostics_name_the_line() {
    let Some(job) = translation("\nkernel void k() { undeclared = 1; }") else { return };
    assert!(log_of(&job).contains("source.cl:2:19: error: use of undeclared identifier"));
}

#[test]
fn headers_are_found_by_their_names() {
    let Some(mut job) = translation("#include \"a.h\"\n#include <deep/er.h>\nkernel void k() { f(A); }")
    else {
        return;
    };
    let header = |name: &str, text: &str| (name.to_string(), text.to_string());
    job.headers = vec![
        header("a.h", "#define A 1\n"),
        header("deep/er.h", "#include \"../up.h\"\n"),
        header("up.h", "void f(int a) {}\n"),
    ];
    translate(&job, LIMIT).unwrap();
}

#[test]
fn a_restricted_source_reads_no_file_but_those_of_the_given_folders() {
    let folder = std::env::temp_dir().join(format!("spirula-clang-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("given/sub")).unwrap();
    std::fs::write(folder.join("given/sub/good.h"), "#define GOOD\n").unwrap();
    std::fs::write(folder.join("secret.h"), "#define SECRET\n").unwrap();
    let given = folder.join("given");
    let good =
        format!("#include \"sub/good.h\"\n#include \"{}/sub/good.h\"\nkernel void k() {{}}", given.display());
    let Some(mut job) = translation(&good) else { return };
    job.include_folders = vec![given.clone(), folder.clone()];
    job.directory = Some(folder.clone());
    job.allowed = Some(vec![given]);
    translate(&job, LIMIT).unwrap();
    let secret = folder.join("secret.h").display().to_string();
    let attempts = [
        format!("#include \"{secret}\""),
        "#include \"../secret.h\"".to_string(),
        "#include \"secret.h\"".to_string(),
        "#include <secret.h>".to_string(),
        "#include <sub/../../secret.h>".to_string(),
        format!("#import \"{secret}\""),
        format!("constant char a[] = {{\n#embed \"{secret}\"\n}};"),
        format!("#pragma GCC dependency \"{secret}\""),
        format!("#if __has_include(\"{secret}\")\n#else\n#error 'secret.h' file not found\n#endif"),
        format!("#if __has_embed(\"{secret}\")\n#else\n#error 'secret.h' file not found\n#endif"),
    ];
    for attempt in attempts {
        job.source = attempt;
        let log = log_of(&job);
        assert!(log.contains("file not found"), "{}: {log}", job.source);
        assert!(log.contains("SPIRULA_INCLUDE_ONLY restricts them"), "{log}");
    }
    for number in 0..32 {
        job.source = format!("#include \"/proc/self/fd/{number}\"");
        assert!(log_of(&job).contains("file not found"), "descriptor {number}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_clang_finds_is_found() {
    let folder = std::env::temp_dir().join(format!("spirula-found-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("here")).unwrap();
    std::fs::create_dir_all(folder.join("given")).unwrap();
    std::fs::write(folder.join("here/a.h"), "#define A 1\n#include \"b.h\"\n").unwrap();
    std::fs::write(folder.join("here/b.h"), "#define B 2\n").unwrap();
    std::fs::write(folder.join("given/c.h"), "#define C 3\n").unwrap();
    let root = folder.display().to_string();
    let sources = [
        "#include \"a.h\"\n#include <c.h>\nconstant int x = A + B + C;".to_string(),
        "#include \"../given/c.h\"\nconstant int x = C;".to_string(),
        format!("#include \"{root}/here/a.h\"\nconstant int x = B;"),
        format!(
            "#define S(x) #x\n#define M2S(x) S(x)\n#define PATH {root}/given\n#include M2S(PATH/c.h)\nconstant int x = C;"
        ),
        format!("#import \"{root}/here/b.h\"\nconstant int x = B;"),
    ];
    let Some(mut job) = translation("") else { return };
    job.directory = Some(folder.join("here"));
    job.include_folders = vec![folder.join("given")];
    for source in sources {
        job.source = source;
        let translated = translate(&job, LIMIT).unwrap_or_else(|error| panic!("{}: {error}", job.source));
        assert_eq!(translated.log, "");
    }
    // The program's own headers come first.
    job.headers = vec![("b.h".into(), "#define B 5\n".into())];
    job.source = "#include \"b.h\"\n#if B != 5\n#error other\n#endif".into();
    translate(&job, LIMIT).unwrap();
    // What isn't there is named, with the places.
    job.source = "#include \"missing.h\"".into();
    let log = log_of(&job);
    for part in ["'missing.h' file not found", &format!("({root}/here)"), &format!("({root}/given)")] {
        assert!(log.contains(part), "{part}: {log}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn what_others_warn_about_is_no_error() {
    let sloppy = [
        "kernel void k(global int *p, global float *q) { p = q; global char *c = p; }",
        "kernel void k(global int *p) { int i = p; long l = p; p = 5; }",
        "static f(int a) { return a; }\nkernel void k(global int *p) { p[0] = f(1); }",
        "kernel void k(global int *p) { p[0] = 0 < p[1] < 3; }",
    ];
    for source in sloppy {
        let Some(mut job) = translation(source) else { return };
        assert!(translate(&job, LIMIT).unwrap().log.contains("warning: "), "{source}");
        job.options.push("-Werror".into());
        assert!(log_of(&job).contains("error: "), "{source}");
    }
}

#[test]
fn assembly_is_not_assembled() {
    let Some(job) = translation("__asm__(\".incbin \\\"/etc/passwd\\\"\");\nkernel void k() {}") else {
        return;
    };
    let translated = translate(&job, LIMIT).unwrap();
    let error = built(&translated.module).unwrap_err().to_string();
    assert!(error.contains("inline assembly"), "{error}");
}
