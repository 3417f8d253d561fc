//! Errors in units in the last place, as OpenCL 1.2 defines them (7.4): of the true value, in the result's type.

use rug::Float;

/// A floating-point type.
#[derive(Clone, Copy, Debug)]
pub struct Format {
    /// In OpenCL C.
    pub name: &'static str,
    /// Significant bits.
    pub digits: i32,
    /// The exponent of the smallest normal number.
    pub lowest: i32,
    /// The exponent of the largest number.
    pub highest: i32,
    /// Bits of arithmetic that leave no doubt about thousandths of an ULP.
    pub precision: u32,
}

pub const SINGLE: Format = Format { name: "float", digits: 24, lowest: -126, highest: 127, precision: 64 };
pub const DOUBLE: Format = Format { name: "double", digits: 53, lowest: -1022, highest: 1023, precision: 96 };

/// The unit in the last place of numbers with this exponent.
fn unit(format: Format, exponent: i32) -> f64 {
    let exponent = exponent.clamp(format.lowest, format.highest) - format.digits + 1;
    // Two steps: the smallest units are denormal.
    2.0f64.powi(exponent / 2) * 2.0f64.powi(exponent - exponent / 2)
}

/// The value that stands for an infinite result: beyond the largest number one goes on counting.
fn counted(format: Format, found: f64, precision: u32) -> Float {
    if found.is_infinite() {
        return Float::with_val(precision, found.signum()) << (format.highest + 1);
    }
    Float::with_val(precision, found)
}

/// Whether the truth, rounded, is infinite.
fn overflows(format: Format, truth: &Float) -> bool {
    truth.is_infinite() || truth.get_exp().is_some_and(|e| e > format.highest + 1) || {
        let limit = 2.0f64.powi(format.highest - 1) * (4.0 - 2.0f64.powi(1 - format.digits));
        limit.is_finite() && truth.to_f64().abs() >= limit
            || format.digits == 53 && truth.to_f64().is_infinite()
    }
}

/// The error of `found`; infinite if NaN, infinity or a zero's sign is wrong.
pub fn error(format: Format, found: f64, truth: &Float) -> f64 {
    if found.is_nan() || truth.is_nan() {
        return if found.is_nan() && truth.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if found == 0.0 && found.is_sign_negative() != truth.is_sign_negative() {
        return f64::INFINITY;
    }
    if overflows(format, truth) {
        let largest = unit(format, format.highest) * (2.0f64.powi(format.digits) - 1.0);
        let same_sign = found.is_sign_negative() == truth.is_sign_negative();
        return match found.abs() {
            _ if !same_sign => f64::INFINITY,
            f64::INFINITY => 0.0,
            size if size == largest && !truth.is_infinite() => 1.0,
            _ => f64::INFINITY,
        };
    }
    let Some(exponent) = truth.get_exp() else {
        // The truth is zero.
        return found.abs() / unit(format, format.lowest);
    };
    let precision = format.precision + 64;
    let difference = counted(format, found, precision) - truth;
    let unit = Float::with_val(precision, unit(format, exponent - 1));
    (difference / unit).abs().to_f64()
}

/// The error against a reference in double precision: what `error` would say of float, but for the reference's own
/// error and numbers next to infinity.
pub fn quick_error(found: f64, truth: f64) -> f64 {
    if found.is_nan() || truth.is_nan() {
        return if found.is_nan() && truth.is_nan() { 0.0 } else { f64::INFINITY };
    }
    if found == 0.0 && found.is_sign_negative() != truth.is_sign_negative() {
        return f64::INFINITY;
    }
    if found.is_infinite() || (truth as f32).is_infinite() {
        return if found == f64::from(truth as f32) { 0.0 } else { f64::INFINITY };
    }
    let exponent = ((truth.to_bits() >> 52) as i32 & 0x7FF) - 1023;
    let inverse = f64::from_bits(((23 - exponent.clamp(-126, 127) + 1023) as u64) << 52);
    (found - truth).abs() * inverse
}

#[test]
fn errors_are_in_units_of_the_truth() {
    let of = |found: f64, truth: f64| error(SINGLE, found, &Float::with_val(100, truth));
    assert_eq!(of(1.0f32.next_up().into(), 1.0), 1.0);
    assert_eq!(of(1.0f32.next_down().into(), 1.0), 0.5);
    assert_eq!(of(0.0, 0.0), 0.0);
    assert_eq!(of(-0.0, 0.0), f64::INFINITY);
    assert_eq!(of(f32::from_bits(3).into(), f32::from_bits(1).into()), 2.0);
    assert_eq!(of(f64::INFINITY, f32::MAX.into()), 1.0);
    assert_eq!((of(f64::INFINITY, 1e39), of(f32::MAX.into(), 1e39)), (0.0, 1.0));
    assert_eq!((of(f64::NAN, f64::NAN), of(f64::NAN, 1.0)), (0.0, f64::INFINITY));
    assert_eq!(of(f64::INFINITY, f64::NEG_INFINITY), f64::INFINITY);
    assert_eq!(error(DOUBLE, f64::from_bits(3), &Float::with_val(100, f64::from_bits(1))), 2.0);
    assert_eq!(error(DOUBLE, f64::INFINITY, &(Float::with_val(100, f64::MAX) * 2)), 0.0);
    assert_eq!(error(DOUBLE, f64::INFINITY, &Float::with_val(100, f64::MAX)), 1.0);
    assert_eq!(quick_error(1.0f32.next_up().into(), 1.0), 1.0);
    assert_eq!(quick_error(f32::from_bits(3).into(), f32::from_bits(1).into()), 2.0);
    assert_eq!(quick_error(-0.0, 0.0), f64::INFINITY);
}
