//! The first difference between what a program left behind twice, if it is more than rounding may explain.

use super::launch::{KernelOutcome, Memory, Outcome};
use super::limits::{Integers, Tolerance};

/// Says what differs, and where.
pub fn find(got: &Outcome, wanted: &Outcome, tolerance: Tolerance) -> Option<String> {
    let names = |outcome: &Outcome| outcome.kernels.iter().map(|k| k.kernel.clone()).collect::<Vec<_>>();
    if names(got) != names(wanted) {
        return Some(format!("the kernels are {:?}, in the reference {:?}", names(got), names(wanted)));
    }
    let mut pairs = got.kernels.iter().zip(&wanted.kernels);
    pairs.find_map(|(got, wanted)| in_kernel(got, wanted, tolerance)).or_else(|| {
        let sorted = |outcome: &Outcome| {
            let mut lines: Vec<String> = outcome.printed.lines().map(str::to_string).collect();
            lines.sort_unstable();
            lines
        };
        (sorted(got) != sorted(wanted))
            .then(|| format!("it printed {:?}, the reference {:?}", got.printed, wanted.printed))
    })
}

fn in_kernel(got: &KernelOutcome, wanted: &KernelOutcome, tolerance: Tolerance) -> Option<String> {
    let name = &got.kernel;
    if got.memory.len() != wanted.memory.len() {
        let (got, wanted) = (got.memory.len(), wanted.memory.len());
        return Some(format!("kernel {name} has {got} buffers and images, in the reference {wanted}"));
    }
    let mut pairs = got.memory.iter().zip(&wanted.memory);
    pairs
        .find_map(|(got, wanted)| in_memory(got, wanted, tolerance).map(|why| (got.index, why)))
        .map(|(index, why)| format!("kernel {name}, argument {index}: {why}"))
}

fn in_memory(got: &Memory, wanted: &Memory, tolerance: Tolerance) -> Option<String> {
    if got.bytes.len() != wanted.bytes.len() {
        return Some(format!("{} bytes, in the reference {}", got.bytes.len(), wanted.bytes.len()));
    }
    let width = got.float_bytes.max(1);
    let limit = match width {
        4 => tolerance.float,
        8 => tolerance.double,
        _ => 0.0,
    };
    if got.float_bytes == 0 && !integers_differ(&got.bytes, &wanted.bytes, tolerance.integers) {
        return None;
    }
    let mut pairs = got.bytes.chunks(width).zip(wanted.bytes.chunks(width)).enumerate();
    pairs.find_map(|(index, (a, b))| {
        if a == b {
            return None;
        }
        let (a, b) = (number(a), number(b));
        let apart = apart(a, b, width);
        let unit = if width > 1 { format!(", {apart} ULP apart") } else { String::new() };
        (apart > limit).then(|| format!("element {index} is {a:?} instead of {b:?}{unit}"))
    })
}

fn integers_differ(got: &[u8], wanted: &[u8], counts: Integers) -> bool {
    let quotient = |bytes: &[u8]| {
        let n = i32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        n.signum() * (n.unsigned_abs() & 0x7f) as i32
    };
    match counts {
        Integers::All => got != wanted,
        Integers::Quotient => got.chunks_exact(4).map(quotient).ne(wanted.chunks_exact(4).map(quotient)),
        Integers::None => false,
    }
}

/// A byte or a floating-point number.
fn number(bytes: &[u8]) -> f64 {
    match *bytes {
        [a] => f64::from(a),
        [a, b] => half::f16::from_le_bytes([a, b]).to_f64(),
        [a, b, c, d] => f64::from(f32::from_le_bytes([a, b, c, d])),
        [a, b, c, d, e, f, g, h] => f64::from_le_bytes([a, b, c, d, e, f, g, h]),
        _ => f64::NAN,
    }
}

/// Units in the last place of `b`, a number of `width` bytes, that `a` is away.
fn apart(a: f64, b: f64, width: usize) -> f64 {
    let (digits, lowest) = match width {
        2 => (11, -24),
        4 => (24, -149),
        8 => (53, -1074),
        _ => return f64::INFINITY,
    };
    if a.is_nan() && b.is_nan() || a == b && a.is_sign_negative() == b.is_sign_negative() {
        return 0.0;
    }
    if !a.is_finite() || !b.is_finite() {
        return f64::INFINITY;
    }
    // frexp's exponent, from the bits; that of zero and of subnormal doubles is too low and raised below.
    let exponent = ((b.to_bits() >> 52) & 0x7ff) as i32 - 1022;
    let unit = 2f64.powi((exponent - digits).max(lowest));
    // Zeros of different sign are no ULP apart, but differ.
    if a == b { f64::MIN_POSITIVE } else { (a - b).abs() / unit }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(values: &[f32]) -> Outcome {
        let bytes = values.iter().flat_map(|x| x.to_le_bytes()).collect();
        let memory = vec![Memory { index: 1, float_bytes: 4, bytes }];
        Outcome {
            kernels: vec![KernelOutcome { kernel: "k".into(), types: Vec::new(), memory }],
            printed: String::new(),
        }
    }

    #[test]
    fn only_what_is_beyond_the_tolerance_differs() {
        let next = |x: f32, n: u32| f32::from_bits(x.to_bits() + n);
        let (one, three) = (floats(&[0.0, next(1.0, 0)]), floats(&[0.0, next(1.0, 3)]));
        let limit = |float| Tolerance { float, double: 0.0, integers: Integers::All };
        assert_eq!(find(&three, &one, limit(3.0)), None);
        let why = find(&three, &one, limit(2.0)).unwrap();
        assert!(why.contains("kernel k, argument 1: element 1") && why.contains(", 3 ULP"), "{why}");
        assert!(find(&floats(&[f32::INFINITY]), &floats(&[f32::MAX]), limit(16.0)).is_some());
        assert_eq!(find(&floats(&[f32::NAN]), &floats(&[-f32::NAN]), limit(0.0)), None);
        assert!(find(&floats(&[0.0]), &floats(&[-0.0]), limit(0.0)).is_some());
        assert_eq!(find(&floats(&[0.0]), &floats(&[-0.0]), limit(1.0)), None);
    }

    #[test]
    fn units_of_each_width() {
        assert_eq!(apart(1.0 + f64::EPSILON, 1.0, 8), 1.0);
        assert_eq!(apart(1.5, 1.0, 2), 512.0);
        assert_eq!(apart(f64::from(f32::from_bits(3)), f64::from(f32::from_bits(1)), 4), 2.0);
    }

    #[test]
    fn bytes_kernels_and_prints_are_compared() {
        let limit = Tolerance { float: 9.0, double: 9.0, integers: Integers::All };
        let bytes = |bytes: &[u8]| {
            let memory = vec![Memory { index: 0, float_bytes: 0, bytes: bytes.to_vec() }];
            Outcome {
                kernels: vec![KernelOutcome { kernel: "k".into(), types: Vec::new(), memory }],
                printed: String::new(),
            }
        };
        assert!(
            find(&bytes(&[1, 2]), &bytes(&[1, 3]), limit)
                .unwrap()
                .contains("element 1 is 2.0 instead of 3.0")
        );
        assert!(find(&bytes(&[1]), &bytes(&[1, 3]), limit).is_some());
        assert!(find(&bytes(&[1]), &Outcome::default(), limit).unwrap().contains("kernels"));
        let counts = |integers| Tolerance { integers, ..limit };
        let (quotient, same) = (bytes(&(-5i32).to_le_bytes()), bytes(&(-5i32 - 128).to_le_bytes()));
        assert!(find(&quotient, &same, limit).is_some());
        assert_eq!(find(&quotient, &same, counts(Integers::Quotient)), None);
        assert!(find(&quotient, &bytes(&5i32.to_le_bytes()), counts(Integers::Quotient)).is_some());
        let printed = |text: &str| Outcome { printed: text.into(), ..Outcome::default() };
        assert_eq!(find(&printed("a\nb\n"), &printed("b\na\n"), limit), None);
        assert!(find(&printed("a\n"), &printed("b\n"), limit).unwrap().contains("printed"));
    }
}
