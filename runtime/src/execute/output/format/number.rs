//! printf: numbers from their bytes, and a float's digits in C's four notations, exactly rounded (C99, 7.19.6.1).

/// The low `bits` (1 to 64) of little-endian bytes; of more than 8 bytes the first 8 count.
pub fn unsigned(bytes: &[u8], bits: u32) -> u64 {
    let all = bytes.iter().take(8).rev().fold(0, |value, &byte| value << 8 | u64::from(byte));
    all & (u64::MAX >> (64 - bits))
}

/// As [`unsigned`], in two's complement.
pub fn signed(bytes: &[u8], bits: u32) -> i64 {
    let unused = 64 - bits;
    (unsigned(bytes, bits) << unused) as i64 >> unused
}

/// A half, float or double by the number of bytes.
pub fn float(bytes: &[u8]) -> f64 {
    match bytes.len() {
        0..4 => half(unsigned(bytes, 16)),
        4..8 => f32::from_bits(unsigned(bytes, 32) as u32).into(),
        _ => f64::from_bits(unsigned(bytes, 64)),
    }
}

fn half(bits: u64) -> f64 {
    let sign = if bits & 0x8000 == 0 { 1.0 } else { -1.0 };
    let fraction = (bits & 0x3ff) as f64;
    let magnitude = match (bits >> 10 & 0x1f) as i32 {
        0 => fraction * f64::powi(2.0, -24),
        31 if fraction == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        exponent => (1024.0 + fraction) * f64::powi(2.0, exponent - 25),
    };
    magnitude.copysign(sign)
}

/// `%f` of a finite magnitude. `point`: a decimal point even without digits behind it.
pub fn fixed(magnitude: f64, precision: usize, point: bool) -> String {
    let digits = format!("{magnitude:.precision$}");
    if point && precision == 0 { digits + "." } else { digits }
}

/// `%e` of a finite magnitude.
pub fn exponential(magnitude: f64, precision: usize, point: bool) -> String {
    let (mantissa, exponent) = split(magnitude, precision);
    let point = if point && precision == 0 { "." } else { "" };
    format!("{mantissa}{point}{}", power('e', exponent, 2))
}

/// `%g` of a finite magnitude. `all`: trailing zeros stay.
pub fn general(magnitude: f64, precision: usize, all: bool) -> String {
    let precision = precision.max(1);
    let (mantissa, exponent) = split(magnitude, precision - 1);
    let is_fixed = exponent >= -4 && exponent < precision as i32;
    let mut digits = match is_fixed {
        true => fixed(magnitude, (precision as i32 - 1 - exponent) as usize, all),
        false if all && precision == 1 => mantissa + ".",
        false => mantissa,
    };
    if !all && digits.contains('.') {
        digits.truncate(digits.trim_end_matches('0').trim_end_matches('.').len());
    }
    if is_fixed { digits } else { digits + &power('e', exponent, 2) }
}

/// `%a` of a finite magnitude, without its `0x`; all digits that count if no precision is given.
pub fn hexadecimal(magnitude: f64, precision: Option<usize>, point: bool) -> String {
    const FRACTION: usize = 52;
    let bits = magnitude.to_bits();
    let biased = (bits >> FRACTION) as i32;
    let exponent = if bits == 0 { 0 } else { biased.max(1) - 1023 };
    let mut mantissa = bits & ((1 << FRACTION) - 1) | u64::from(biased > 0) << FRACTION;
    if let Some(dropped) = precision.and_then(|digits| FRACTION.checked_sub(4 * digits)).filter(|&d| d > 0) {
        // To nearest, ties to even.
        let unit = 1u64 << dropped;
        let tie = mantissa & (unit - 1) == unit / 2;
        let up = if tie { mantissa & unit != 0 } else { mantissa & (unit / 2) != 0 };
        mantissa = (mantissa & !(unit - 1)) + if up { unit } else { 0 };
    }
    let mut fraction = format!("{:013x}", mantissa & ((1 << FRACTION) - 1));
    match precision {
        None => fraction.truncate(fraction.trim_end_matches('0').len()),
        Some(digits) => fraction = format!("{fraction:0<digits$}")[..digits].to_string(),
    }
    let point = if point || !fraction.is_empty() { "." } else { "" };
    format!("{}{point}{fraction}{}", mantissa >> FRACTION, power('p', exponent, 1))
}

/// A mantissa with one digit before the point and `precision` behind it, and its exponent.
fn split(magnitude: f64, precision: usize) -> (String, i32) {
    let text = format!("{magnitude:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    (mantissa.to_string(), exponent.parse().unwrap_or(0))
}

/// An exponent with its sign and at least `least` digits.
fn power(letter: char, exponent: i32, least: usize) -> String {
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{letter}{sign}{:0least$}", exponent.unsigned_abs())
}
