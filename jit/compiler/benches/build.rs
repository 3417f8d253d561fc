//! How long programs take to build, in lanes, as scalar code, which shows what widening adds, and for the baseline. By hand: `cargo bench -p spirula-compiler`.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use spirula_compiler::compile::{
    self,
    trace::{Dump, Stages},
};
use spirula_compiler::llvm;
use spirula_interface::inputs::Inputs;
use spirula_interface::tier::Tier;
use std::path::Path;

/// Programs of `tests/fixtures`: straight lines, loops, barriers, images, and much library code.
const PROGRAMS: [&str; 8] = [
    "bench/saxpy",
    "bench/mandelbrot",
    "bench/matmul_tiled",
    "bench/nbody",
    "bench/scan",
    "bench/image_blur",
    "bench/math_sweep",
    "spir12/barriers",
];

fn builds(criterion: &mut Criterion) {
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures");
    let mut group = criterion.benchmark_group("build");
    group.sample_size(10);
    for program in PROGRAMS {
        let module = std::fs::read(fixtures.join(format!("{program}.bc64"))).expect("a fixture");
        let ways = [
            ("baseline", None, Tier::Baseline),
            ("scalar", Some(1), Tier::Optimized),
            ("lanes", None, Tier::Optimized),
        ];
        for (name, lanes, tier) in ways {
            let mut inputs = Inputs::new(Default::default(), Default::default(), llvm::host(), tier);
            inputs.settings.vector_width = lanes;
            group.bench_with_input(BenchmarkId::new(program, name), &module, |bencher, module| {
                bencher.iter(|| {
                    compile::build(&[module], &inputs, Dump::default(), &mut Stages::begin())
                        .expect("it builds")
                });
            });
        }
    }
    group.finish();
}

criterion_group!(benches, builds);
criterion_main!(benches);
