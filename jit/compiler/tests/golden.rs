//! Golden tests of the lowering: each `golden/*.kir` through the passes, `wide_*.kir` in four lanes. `cargo insta review`, or
//! `INSTA_UPDATE=always cargo test -p spirula-compiler --test golden`, takes a changed output as the new one.

use spirula_compiler::back::llvm::Text;
use spirula_interface::target::TargetFacts;
use spirula_kir as kir;
use spirula_kir::pipeline::{self, Form, Options};

#[test]
fn regions_and_work_group_functions() {
    insta::glob!("golden/*.kir", |path| {
        let text = std::fs::read_to_string(path).unwrap();
        let kernel = kir::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        kir::verify(&kernel).unwrap();
        let is_wide = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("wide_"));
        let (pass, snapshot) = if is_wide { ("widen", "wide") } else { ("regions", "regions") };
        let lanes = Some(if is_wide { 4 } else { 1 });
        let options = Options { facts: TargetFacts::with_vectors(128), lanes, verify: true };
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
