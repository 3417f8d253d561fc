//! Golden tests of the lowering: each `golden/*.kir` through region formation and emission, `wide_*.kir` in four lanes. `cargo insta review`, or
//! `INSTA_UPDATE=always cargo test -p spirula-compiler --test golden`, takes a changed output as the new one.

use spirula_compiler::emit;
use spirula_kir as kir;
use spirula_kir::transform;
use spirula_kir::transform::widen::{VectorTarget, choose};

#[test]
fn regions_and_work_group_functions() {
    insta::glob!("golden/*.kir", |path| {
        let text = std::fs::read_to_string(path).unwrap();
        let kernel = kir::parse(&text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        kir::verify(&kernel).unwrap();
        let group = transform::form_regions(kernel.clone());
        for region in &group.regions {
            kir::verify(&region.body).unwrap_or_else(|e| panic!("{}: {e}\n{group}", path.display()));
        }
        if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("wide_")) {
            insta::assert_snapshot!("wide", wide(&group));
            return;
        }
        insta::assert_snapshot!("regions", group);
        if path.ends_with("straight_line.kir") || path.ends_with("uniform_loop.kir") {
            insta::assert_snapshot!("llvm", emit::lower(kernel, "entry", VectorTarget::none()).ir);
        }
    });
}

/// The regions' bodies in four lanes.
fn wide(group: &transform::WorkGroup) -> String {
    let vectors = VectorTarget { register_bits: 128, forced_lanes: Some(4) };
    let mut text = String::new();
    for region in &group.regions {
        let choice = choose(region, &group.context, vectors);
        let body = choice.wide.unwrap_or_else(|| panic!("{}", choice.reason)).body;
        kir::verify(&body).unwrap_or_else(|e| panic!("{e}\n{body}"));
        text += &body.to_string();
    }
    text
}
