//! The library functions against MPFR, within OpenCL 1.2's limits and as good as `worst.txt` says: edge values,
//! numbers drawn and evenly spaced; by hand all 2^32 floats.
//!
//! `SPIRULA_UPDATE=1 cargo test --release -p spirula-builtins --test accuracy` records what it measures
//! (`SPIRULA_PATTERNS=30000` at ten times the usual places);
//! `cargo test --release -p spirula-builtins --test accuracy -- --ignored --nocapture` walks all floats, a minute or
//! two for each function (`SPIRULA_FUNCTIONS=sin,cos` chooses), and records as well.

mod arguments;
mod functions;
mod measure;
mod record;
mod walk;

use functions::{FUNCTIONS, Function, OTHER_WAYS, Second};
use measure::{DOUBLE, Format, SINGLE, error};
use rayon::prelude::*;
use record::Record;
use rug::Float;
use spirula_builtins::accuracy::{self, LIMITS};
use std::time::Instant;

/// The largest error and where it is.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Worst {
    error: f64,
    arguments: (f64, f64),
}

impl Worst {
    const NONE: Worst = Worst { error: 0.0, arguments: (0.0, 0.0) };

    fn or(self, other: Worst) -> Worst {
        if other.error > self.error { other } else { self }
    }
}

fn call(function: &Function, format: Format) -> fn(f64, f64) -> f64 {
    if format.digits == SINGLE.digits { function.single } else { function.double }
}

fn limit(name: &str, format: Format) -> f64 {
    let limit = accuracy::of(name).unwrap_or_else(|| panic!("{name} has no limit"));
    if format.digits == SINGLE.digits { limit.single } else { limit.double }
}

/// The error at one place, by MPFR.
fn error_at(function: &Function, format: Format, (x, y): (f64, f64)) -> Worst {
    let found = call(function, format)(x, y);
    let [wide_x, wide_y] = [x, y].map(|value| Float::with_val(format.precision, value));
    let truth = (function.truth)(wide_x, wide_y);
    // log Γ near its zeros has no relative accuracy.
    let slack = if format.digits == SINGLE.digits { 1e-9 } else { 1e-15 };
    if function.name == "lgamma" && (Float::with_val(format.precision, found) - &truth).abs() < slack {
        return Worst::NONE;
    }
    Worst { error: error(format, found, &truth), arguments: (x, y) }
}

fn places(function: &Function, format: Format) -> Vec<(f64, f64)> {
    let count = std::env::var("SPIRULA_PATTERNS").ok().and_then(|count| count.parse().ok()).unwrap_or(3_000);
    match function.second {
        Second::Nothing => arguments::numbers(format, count).into_iter().map(|x| (x, 0.0)).collect(),
        Second::Constant => arguments::pairs(format, true, 2 * count)
            .into_iter()
            .flat_map(|(x, _)| (-10..=20).map(move |twice| (x, 0.5 * f64::from(twice))))
            .collect(),
        second => arguments::pairs(format, second == Second::Integer, 2 * count),
    }
}

#[test]
fn errors_are_within_the_limits() {
    let mut record = Record::read();
    let mut failures = Vec::new();
    for function in FUNCTIONS {
        for format in [SINGLE, DOUBLE] {
            let found = places(function, format)
                .into_par_iter()
                .map(|place| error_at(function, format, place))
                .reduce(|| Worst::NONE, Worst::or);
            let (name, limit) = (function.name, limit(function.name, format));
            if found.error > limit {
                failures.push(format!("{name} in {}: {found:?}, allowed are {limit}", format.name));
            }
            if let Err(message) = record.sampled(name, format, found.error) {
                failures.push(format!("{message} at {:?}", found.arguments));
            }
        }
    }
    record.write();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn other_ways_are_within_the_limits_too() {
    for function in &OTHER_WAYS {
        for format in [SINGLE, DOUBLE] {
            let places = places(function, format).into_par_iter();
            let found =
                places.map(|place| error_at(function, format, place)).reduce(|| Worst::NONE, Worst::or);
            let limit = limit(function.name, format);
            println!("{} in {}: {:.2}", function.name, format.name, found.error);
            assert!(found.error <= limit, "{} in {}: {found:?}", function.name, format.name);
        }
    }
}

#[test]
fn every_function_with_a_limit_is_tested() {
    let mut tested: Vec<&str> = FUNCTIONS.iter().map(|function| function.name).collect();
    tested.sort_unstable();
    assert_eq!(tested, LIMITS.iter().map(|limit| limit.name).collect::<Vec<_>>());
}

#[test]
#[ignore = "takes minutes for each function"]
fn all_floats() {
    let wanted = std::env::var("SPIRULA_FUNCTIONS").unwrap_or_default();
    let is_wanted = |name: &str| wanted.is_empty() || wanted.split(',').any(|one| one == name);
    let mut failures = Vec::new();
    for function in FUNCTIONS.iter().filter(|function| is_wanted(function.name)) {
        let Some(walk) = &function.walk else { continue };
        let start = Instant::now();
        let worst =
            walk::worst_of_all(walk, limit(function.name, SINGLE), |x| error_at(function, SINGLE, (x, 0.0)));
        let (name, limit) = (function.name, limit(function.name, SINGLE));
        let (x, seconds) = (worst.arguments.0 as f32, start.elapsed().as_secs());
        println!("{name:8} {:.3} ULP of {limit} at {x:e} ({:#010x}), {seconds} s", worst.error, x.to_bits());
        if worst.error > limit {
            failures.push(format!("{name}: {worst:?}, allowed are {limit}"));
        }
        Record::update(|record| record.walked(name, worst.error));
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}
