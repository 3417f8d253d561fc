//! Golden tests of the lowering: each `golden/*.kir` through the passes, `wide_*.kir` in four lanes; and kernels of the SPIR
//! fixtures after one pass or another; and `passes/*.kir` and `legalize/*.kir` after one alone. `cargo insta review`, or
//! `INSTA_UPDATE=always cargo test -p spirula-compiler --test golden`, takes a changed output as the new one.

use spirula_compiler::back::llvm::Text;
use spirula_compiler::compile;
use spirula_compiler::compile::trace::{Dump, Stages};
use spirula_interface::inputs::Inputs;
use spirula_interface::options::Usual;
use spirula_interface::target::{Target, TargetFacts};
use spirula_interface::tier::Tier;
use spirula_kir as kir;
use spirula_kir::pipeline::{self, Form, Options, Pass};
use spirula_kir::transform::legalize::{expand_operations, promote_integers};
use std::path::Path;

#[test]
fn regions_and_work_group_functions() {
    insta::glob!("golden/*.kir", |path| {
        let text = std::fs::read_to_string(path).unwrap();
        let kernel = kir::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        kir::verify(&kernel).unwrap();
        let is_wide = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("wide_"));
        let (pass, snapshot) = if is_wide { ("widen", "wide") } else { ("regions", "regions") };
        let lanes = Some(if is_wide { 4 } else { 1 });
        let options = Options {
            facts: TargetFacts::with_vectors(128),
            lanes,
            preferred_lanes: None,
            optimize: true,
            verify: true,
            explain: false,
            linear_memory: false,
            usual: None,
        };
        let mut shown = String::new();
        let lowered = pipeline::run(kernel, "entry", &options, |done, form| match form {
            Form::Regions(group) if done.name == pass && is_wide => {
                let wide = group.regions.iter().filter_map(|region| region.wide.as_ref());
                shown = wide.map(|wide| wide.body.to_string()).collect();
                assert!(!shown.is_empty(), "{}", path.display());
            }
            form if done.name == pass => shown = form.to_string(),
            _ => {}
        });
        let lowered = lowered.unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        insta::assert_snapshot!(snapshot, shown);
        if path.ends_with("straight_line.kir") || path.ends_with("uniform_loop.kir") {
            insta::assert_snapshot!("lowered", lowered.group.function);
            let mut text = Text::default();
            text.add(&lowered.group.function);
            insta::assert_snapshot!("llvm", text.finish());
        }
    });
}

/// Passes alone: the file in `passes/`, the passes, and whether the processor has AVX-512. `rows` and `overlaps` expect
/// multiples of 16 work-items, and disjoint buffers.
const ALONE: [(&str, &[&str], bool); 30] = [
    ("backwards", &["regions", "widen"], false),
    ("byte_division", &["byte-division"], false),
    ("components", &["components", "dead-code"], false),
    ("columns", &["row-dimension", "regions", "widen", "lower", "dead-code"], false),
    ("elements", &["elements", "dead-code"], false),
    ("every_other", &["regions", "widen"], true),
    ("high_products", &["high-products", "dead-code"], false),
    ("interleaved", &["regions", "widen"], false),
    ("kept_pointers", &["regions", "widen"], false),
    ("local_atomics", &["local-atomics"], false),
    ("loop_exits", &["loop-exits", "regions", "widen"], false),
    ("loop_loads", &["loop-loads"], false),
    ("narrow_conversions", &["narrow-conversions"], false),
    ("overlaps", &["regions", "widen", "lower", "dead-code"], false),
    ("packed", &["regions", "widen", "lower", "dead-code"], false),
    ("reciprocals", &["reciprocals"], false),
    ("reciprocals", &["reciprocals"], true),
    ("remainder", &["regions", "widen", "lower", "dead-code"], false),
    ("rows", &["regions", "widen", "lower", "dead-code"], false),
    ("saturation", &["saturation"], false),
    ("scale", &["scale"], false),
    ("scale", &["scale"], true),
    ("shifted_sums", &["shifted-sums", "small-parameters"], false),
    ("demanded_bits", &["demanded-bits"], false),
    ("lookups", &["lookups"], false),
    ("narrow_loops", &["narrow-loops"], false),
    ("shuffles", &["shuffles", "dead-code"], false),
    ("slot_elements", &["regions", "widen"], false),
    ("stream", &["regions", "widen", "stream"], false),
    ("uniform_loops", &["uniform-loops", "regions"], false),
];

#[test]
fn passes_alone() {
    for (file, passes, avx512) in ALONE {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/passes/{file}.kir"));
        let function =
            kir::parse(&std::fs::read_to_string(path).unwrap()).unwrap_or_else(|e| panic!("{file}: {e}"));
        kir::verify(&function).unwrap_or_else(|e| panic!("{file}: {e}"));
        let facts = TargetFacts { avx512, ..TargetFacts::with_vectors(256) };
        let options = Options {
            facts,
            lanes: Some(8),
            preferred_lanes: None,
            optimize: true,
            verify: true,
            explain: false,
            linear_memory: false,
            usual: ["overlaps", "packed", "rows"].contains(&file).then_some(Usual {
                rows: 16,
                disjoint: true,
                ..Usual::NOTHING
            }),
        };
        let form = passes.iter().fold(Form::Function(function), |form, name| {
            let pass = Pass::named(name).unwrap_or_else(|| panic!("no pass is called {name}"));
            pass.apply(form, "entry", &options, &mut Vec::new()).unwrap_or_else(|e| panic!("{file}: {e}"))
        });
        let name = if avx512 { format!("{file}@avx512") } else { file.to_owned() };
        insta::with_settings!({ omit_expression => true }, {
            insta::assert_snapshot!(name, form);
        });
    }
}

/// `legalize/PASS_*.kir` after that pass of the legalization.
#[test]
fn legalization() {
    insta::glob!("legalize/*.kir", |path| {
        let text = std::fs::read_to_string(path).unwrap();
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let mut function = kir::parse(&text).unwrap_or_else(|e| panic!("{name}: {e}"));
        kir::verify(&function).unwrap_or_else(|e| panic!("{name}: {e}"));
        let pass = match name.split('_').next() {
            Some("expand") => expand_operations,
            Some("promote") => promote_integers,
            _ => panic!("{name} names no pass"),
        };
        pass(&mut function).unwrap_or_else(|e| panic!("{name}: {e}"));
        kir::verify(&function).unwrap_or_else(|e| panic!("{name}: {e}\n{function}"));
        // It can be read again.
        kir::parse(&function.to_string()).unwrap_or_else(|e| panic!("{name}: {e}\n{function}"));
        insta::with_settings!({ omit_expression => true }, {
            insta::assert_snapshot!("legalized", function);
        });
    });
}

/// Fixtures, kernels, and the pass after which they are shown.
const SHOWN: [(&str, &str, &str); 10] = [
    ("bench/reduce", "reduce", "regions"),
    ("bench/scan", "scan", "regions"),
    ("spir12/barriers", "private_value", "regions"),
    ("spir12/barriers", "in_if", "regions"),
    ("bench/mandelbrot", "mandelbrot", "widen"),
    ("bench/transpose", "transpose", "widen"),
    ("bench/saxpy", "saxpy", "dead-code"),
    ("bench/histogram", "histogram", "dead-code"),
    ("bench/matmul_naive", "matmul_naive", "dead-code"),
    ("spir12/barriers", "early_return", "dead-code"),
];

/// For a processor with AVX2, whatever the test runs on.
#[test]
fn kernels_of_the_fixtures() {
    let target =
        Target { cpu: "x86-64-v3".into(), features: "+avx,+avx2,+fma,+bmi,+bmi2,+f16c".into(), threads: 1 };
    let mut inputs = Inputs::new(Default::default(), Default::default(), target, Tier::Optimized);
    inputs.settings.verify = true;
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
    for (fixture, kernel, pass) in SHOWN {
        let module = std::fs::read(fixtures.join(format!("{fixture}.bc64"))).unwrap();
        let folder = tempfile::tempdir().unwrap();
        compile::build(&[&module], &inputs, Dump::new(Some(folder.path())), &mut Stages::begin()).unwrap();
        let end = format!(".{pass}.kir");
        let dumped = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let wanted = dumped.filter(|path| {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            name.contains(&format!(".{kernel}.")) && name.ends_with(&end)
        });
        let [path] = &wanted.collect::<Vec<_>>()[..] else {
            panic!("{fixture} {kernel} {pass}: not one dump")
        };
        let name = format!("{}@{kernel}", fixture.replace('/', "_"));
        insta::with_settings!({ omit_expression => true }, {
            insta::assert_snapshot!(name, std::fs::read_to_string(path).unwrap());
        });
    }
}
