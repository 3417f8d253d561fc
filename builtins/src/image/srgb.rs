//! Images: the sRGB transfer function (IEC 61966-2-1) between a channel of eight bits and a linear component, by tables
//! that the compiler computes. Both ways are rounded correctly.

/// The linear value of each byte.
static LINEAR: [f32; 256] = table(0.0);

/// Where the bytes end: a linear value from here on is the next byte.
static ENDS: [f32; 256] = table(0.5);

/// The linear values of all bytes and so much more.
const fn table(more: f64) -> [f32; 256] {
    let mut values = [0.0; 256];
    let mut byte = 0;
    while byte < 256 {
        values[byte] = linear((byte as f64 + more) / 255.0) as f32;
        byte += 1;
    }
    values
}

/// The linear value of an sRGB value.
const fn linear(value: f64) -> f64 {
    if value <= 0.04045 {
        return value / 12.92;
    }
    let base = (value + 0.055) / 1.055;
    base * base * fifth_root(base * base)
}

/// By Newton's method, which comes from above and is done long before the last step. (No power function is constant.)
const fn fifth_root(value: f64) -> f64 {
    let mut root = 1.1;
    let mut step = 0;
    while step < 40 {
        let fourth = root * root * root * root;
        root -= (fourth * root - value) / (5.0 * fourth);
        step += 1;
    }
    root
}

/// The linear value of a channel of eight bits that was read as a normalized one.
#[inline(always)]
pub(super) fn decode(value: f32) -> f32 {
    LINEAR[(value * 255.0 + 0.5) as u8 as usize]
}

/// The sRGB value of a linear one, normalized; of NaN 0.
#[inline(always)]
pub(super) fn encode(value: f32) -> f32 {
    // How many bytes end at or below it: at most 255, so that the last end does not matter.
    let mut byte = 0;
    for bit in [128, 64, 32, 16, 8, 4, 2, 1] {
        if value >= ENDS[(byte + bit - 1) & 255] {
            byte += bit;
        }
    }
    byte as f32 / 255.0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The conversions as the specification writes them.
    fn reference(value: f64) -> f64 {
        if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
    }

    #[test]
    fn every_byte_has_its_linear_value() {
        for byte in 0..=255u8 {
            let exact = reference(f64::from(byte) / 255.0);
            let found = decode(f32::from(byte) / 255.0);
            assert!(
                (f64::from(found) - exact).abs() <= exact * f64::from(f32::EPSILON) / 2.0,
                "{byte}: {found}"
            );
            assert_eq!(encode(found), f32::from(byte) / 255.0);
        }
    }

    #[test]
    fn every_linear_value_has_the_nearest_byte() {
        for number in 0..=100_000 {
            let value = number as f32 / 100_000.0;
            let linear = f64::from(value);
            let exact =
                if linear < 0.0031308 { 12.92 * linear } else { 1.055 * linear.powf(1.0 / 2.4) - 0.055 };
            let found = f64::from(encode(value)) * 255.0;
            assert!((found - exact * 255.0).abs() <= 0.5 + 1e-3, "{value}: {found}");
        }
    }

    #[test]
    fn what_is_outside_is_clamped() {
        let outside = [f32::NAN, f32::NEG_INFINITY, -1.0, -0.0, 1.0, 7.0, f32::INFINITY];
        assert_eq!(outside.map(encode), [0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0]);
    }
}
