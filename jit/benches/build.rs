//! How long programs take to build, in lanes and as scalar code: what widening adds. By hand: `cargo bench -p spirula-jit`.

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use spirula_jit::api::{self, CompileOptions};
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
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures");
    // SAFETY: no other thread runs yet.
    unsafe { std::env::set_var("SPIRULA_COMPILER_PROCESS", "off") };
    let mut group = criterion.benchmark_group("build");
    group.sample_size(10);
    for program in PROGRAMS {
        let module = std::fs::read(fixtures.join(format!("{program}.bc64"))).expect("a fixture");
        for (name, lanes) in [("scalar", "1"), ("lanes", "as fits")] {
            // SAFETY: builds read the environment, and none is under way.
            unsafe { std::env::set_var("SPIRULA_VECTOR_WIDTH", lanes) };
            group.bench_with_input(BenchmarkId::new(program, name), &module, |bencher, module| {
                bencher.iter(|| api::build(&[module], &CompileOptions::default()).expect("it builds"));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, builds);
criterion_main!(benches);
