//! What clang makes of sources, and what it must not see. Without a clang these tests say so and pass.

use super::*;
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
        source: source.into(),
        headers: Vec::new(),
        include_folders: Vec::new(),
        options,
    })
}

fn log_of(translation: &Translation) -> String {
    match translate(translation, LIMIT) {
        Ok(translated) => panic!("it was accepted: {}", translated.log),
        Err(error) => error.to_string(),
    }
}

#[test]
fn a_kernel_becomes_spir() {
    let Some(job) = translation("kernel void k(global float *a) { a[get_global_id(0)] = sin(a[0]); }") else {
        return;
    };
    let translated = translate(&job, LIMIT).unwrap();
    assert_eq!(translated.log, "");
    let built =
        crate::compile::build(&[&translated.module], &crate::host_inputs(), Default::default()).unwrap();
    assert_eq!(built.kernels[0].signature.name, "k");
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
fn no_file_is_read_but_those_of_the_given_folders() {
    let folder = std::env::temp_dir().join(format!("spirula-clang-{}", std::process::id()));
    std::fs::create_dir_all(folder.join("given/sub")).unwrap();
    std::fs::write(folder.join("given/sub/good.h"), "#define GOOD\n").unwrap();
    std::fs::write(folder.join("secret.h"), "#define SECRET\n").unwrap();
    let given = folder.join("given");
    let good =
        format!("#include \"sub/good.h\"\n#include \"{}/sub/good.h\"\nkernel void k() {{}}", given.display());
    let Some(mut job) = translation(&good) else { return };
    job.include_folders = vec![given];
    translate(&job, LIMIT).unwrap();
    let secret = folder.join("secret.h").display().to_string();
    let attempts = [
        format!("#include \"{secret}\""),
        "#include \"../secret.h\"".to_string(),
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
    }
    for number in 0..32 {
        job.source = format!("#include \"/proc/self/fd/{number}\"");
        assert!(log_of(&job).contains("file not found"), "descriptor {number}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn assembly_is_not_assembled() {
    let Some(job) = translation("__asm__(\".incbin \\\"/etc/passwd\\\"\");\nkernel void k() {}") else {
        return;
    };
    let translated = translate(&job, LIMIT).unwrap();
    let error = crate::compile::build(&[&translated.module], &crate::host_inputs(), Default::default())
        .unwrap_err()
        .to_string();
    assert!(error.contains("inline assembly"), "{error}");
}
