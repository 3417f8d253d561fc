//! The vectorizer's cost model beside what was measured: kernels of many kinds (`tests/fixtures/widths`), and the times that they took in each
//! number of lanes (`measured-*.txt` there, by `spirula-widths`). No time is taken here: it is the model that is tested, for the
//! processor that was measured, wherever the test runs.

use spirula_compiler::compile;
use spirula_compiler::compile::trace::{Dump, Stages};
use spirula_interface::inputs::Inputs;
use spirula_interface::target::Target;
use spirula_interface::tier::Tier;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// As the tables have them.
const WIDTHS: [u32; 6] = [1, 4, 8, 16, 32, 64];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/widths")
}

/// Microseconds of each kernel in each number of lanes.
fn measured(processor: &str, level: &str) -> BTreeMap<String, [f64; WIDTHS.len()]> {
    let text = std::fs::read_to_string(fixtures().join(format!("measured-{processor}-{level}.txt"))).unwrap();
    let lines = text.lines().filter(|line| !line.starts_with('#'));
    lines
        .map(|line| {
            let mut words = line.split(' ');
            let name = words.next().unwrap().to_owned();
            let times: Vec<f64> = words.map(|word| word.parse().unwrap()).collect();
            (name, times.try_into().unwrap())
        })
        .collect()
}

/// What the model says of each kernel in so many lanes, or in as many as it chooses: lanes, and how many times as fast as scalar code
/// they are, if it says.
fn estimated(target: &Target, lanes: Option<u32>) -> BTreeMap<String, (u32, Option<f64>)> {
    let mut inputs = Inputs::new(Default::default(), Default::default(), target.clone(), Tier::Optimized);
    inputs.settings.remarks = true;
    inputs.settings.vector_width = lanes;
    let module = std::fs::read(fixtures().join("kernels.bc64")).unwrap();
    let program = compile::build(&[&module], &inputs, Dump::new(None), &mut Stages::begin()).unwrap();
    let remarks = program.log.lines().filter_map(|line| {
        let (kernel, remark) = line.strip_prefix("kernel ")?.split_once(": region 0: ")?;
        let lanes = remark.split_once(" lanes, ").and_then(|(lanes, _)| lanes.parse().ok()).unwrap_or(1);
        let gain =
            remark.split_once(" times as fast").and_then(|(rest, _)| rest.rsplit(' ').next()?.parse().ok());
        Some((kernel.to_owned(), (lanes, gain)))
    });
    remarks.collect()
}

/// Ranks from 0, equal ones sharing their mean.
fn ranks(values: &[f64]) -> Vec<f64> {
    let below = |x: f64| values.iter().filter(|&&y| y < x).count() as f64;
    let equal = |x: f64| values.iter().filter(|&&y| y == x).count() as f64;
    values.iter().map(|&x| below(x) + (equal(x) - 1.0) / 2.0).collect()
}

/// Spearman's.
fn rank_correlation(x: &[f64], y: &[f64]) -> f64 {
    let (x, y) = (ranks(x), ranks(y));
    let mean = (x.len() as f64 - 1.0) / 2.0;
    let sum = |a: &[f64], b: &[f64]| std::iter::zip(a, b).map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>();
    sum(&x, &y) / (sum(&x, &x) * sum(&y, &y)).sqrt()
}

/// What all others are compared with: of scalar code it is LLVM that decides how it is vectorized, where it can.
const REFERENCE: u32 = 16;

/// Prints the residuals, of which `cargo test --test model -- --nocapture` shows the worst: how much longer than in 16 lanes a kernel
/// takes in others. Yields the rank correlation of what the model says of that and what was measured, and of how many of a hundred
/// kernels the chosen number of lanes takes at most 15 % longer than the best.
fn judged(processor: &str, target: &Target) -> (f64, f64) {
    let level = &target.cpu;
    let times = measured(processor, level);
    let (chosen, reference) = (estimated(target, None), estimated(target, Some(REFERENCE)));
    let column_of = |lanes: u32| WIDTHS.iter().position(|&width| width == lanes).expect("of the table");
    let mut residuals = Vec::new();
    for lanes in [4, 8, 32, 64] {
        for (kernel, (_, gain)) in estimated(target, Some(lanes)) {
            let (Some(gain), Some(of_reference)) = (gain, reference[&kernel].1) else { continue };
            let times = times[&kernel];
            residuals.push((
                kernel,
                lanes,
                of_reference / gain,
                times[column_of(lanes)] / times[column_of(REFERENCE)],
            ));
        }
    }
    let [predicted, found]: [Vec<f64>; 2] =
        [residuals.iter().map(|r| r.2).collect(), residuals.iter().map(|r| r.3).collect()];
    let correlation = rank_correlation(&predicted, &found);
    residuals.sort_by(|a, b| {
        let off = |r: &(String, u32, f64, f64)| (r.2 / r.3).ln().abs();
        off(b).total_cmp(&off(a))
    });
    for (kernel, lanes, predicted, found) in residuals.iter().take(10) {
        println!(
            "{processor} {level} {kernel}: {lanes} lanes {predicted:.2} of the time by estimate, {found:.2} measured"
        );
    }
    let mut near = 0;
    for (kernel, times) in &times {
        let (lanes, _) = chosen[kernel];
        let best = times.iter().copied().fold(f64::INFINITY, f64::min);
        let ratio = times[column_of(lanes)] / best;
        if ratio <= 1.15 {
            near += 1;
        } else {
            println!(
                "{processor} {level} {kernel}: {lanes} lanes chosen, {ratio:.2} times the best of {times:?}"
            );
        }
    }
    let share = 100.0 * f64::from(near) / times.len() as f64;
    println!(
        "{processor} {level}: {} residuals, rank correlation {correlation:.3}, choice near the best {share:.0} %",
        residuals.len()
    );
    (correlation, share)
}

fn check(processor: &str, (level, features): (&str, &str), [least_correlation, least_share]: [f64; 2]) {
    let target = Target { cpu: level.into(), features: features.into(), threads: 1 };
    let (correlation, share) = judged(processor, &target);
    assert!(correlation > least_correlation, "{correlation}");
    assert!(share >= least_share, "{share}");
}

const AVX2: (&str, &str) = ("x86-64-v3", "+avx,+avx2,+fma,+bmi,+bmi2,+f16c");
const AVX512: (&str, &str) =
    ("x86-64-v4", "+avx,+avx2,+fma,+bmi,+bmi2,+f16c,+avx512f,+avx512bw,+avx512cd,+avx512dq,+avx512vl");

// As far as the model has come, by rank correlation and share. (Kernels that run long are tried in other numbers of lanes as well.)

#[test]
fn estimates_for_avx2_are_near_what_zen_5_takes() {
    check("zen5", AVX2, [0.45, 58.0]);
}

#[test]
fn estimates_for_avx512_are_near_what_zen_5_takes() {
    check("zen5", AVX512, [0.7, 75.0]);
}

#[test]
fn estimates_for_avx2_are_near_what_zen_4_takes() {
    check("zen4", AVX2, [0.4, 65.0]);
}

#[test]
fn estimates_for_avx512_are_near_what_zen_4_takes() {
    check("zen4", AVX512, [0.62, 80.0]);
}

#[test]
fn estimates_for_avx2_are_near_what_granite_rapids_takes() {
    check("granite-rapids", AVX2, [0.45, 60.0]);
}

#[test]
fn estimates_for_avx512_are_near_what_granite_rapids_takes() {
    check("granite-rapids", AVX512, [0.65, 80.0]);
}
