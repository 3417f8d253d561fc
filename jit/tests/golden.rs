//! Golden tests of the lowering: each `golden/*.kir` through region formation and emission. `cargo insta review`, or
//! `INSTA_UPDATE=always cargo test -p spirula-jit --test golden`, takes a changed output as the new one.

use spirula_jit::transform::widen::VectorTarget;
use spirula_jit::{emit, kir, transform};

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
        insta::assert_snapshot!("regions", group);
        if path.ends_with("straight_line.kir") || path.ends_with("uniform_loop.kir") {
            insta::assert_snapshot!("llvm", emit::lower(kernel, "entry", VectorTarget::none()).ir);
        }
    });
}
