//! Half precision as bits, for machines and formats without it.

/// The value of half bits. Denormals come right through the multiplication.
#[inline(always)]
pub(crate) fn half_to_float(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000) << 16;
    let size = u32::from(bits & 0x7FFF) << 13;
    // 2^(127 - 15) moves the exponent's bias.
    let value = f32::from_bits(size) * f32::from_bits((127 + 112) << 23);
    let special = if size >= 0x7C00 << 13 { size | 0x7F80_0000 } else { value.to_bits() };
    f32::from_bits(special | sign)
}

/// The nearest half, ties to even.
#[inline(always)]
pub(crate) fn float_to_half(x: f32) -> u16 {
    let sign = (x.to_bits() >> 16) as u16 & 0x8000;
    let size = x.to_bits() & 0x7FFF_FFFF;
    // Adding a number 2^13 times as large as the last place rounds there; below 2^-14 the last place is fixed.
    let place = if size < 113 << 23 { 113 << 23 } else { size & 0x7F80_0000 };
    let large = f32::from_bits(place) * 8192.0 * 1.5;
    let rounded = (f32::from_bits(size) + large) - large;
    let moved = rounded * f32::from_bits((127 - 112) << 23);
    let finite = (moved.to_bits() >> 13) as u16;
    let bits = if size >= 0x477F_F000 { 0x7C00 } else { finite };
    let bits = if size > 0x7F80_0000 { 0x7E00 } else { bits };
    bits | sign
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_survives() {
        for bits in 0..=u16::MAX {
            let value = half_to_float(bits);
            if value.is_nan() {
                assert!(bits & 0x7FFF > 0x7C00);
                assert!(half_to_float(float_to_half(value)).is_nan());
            } else {
                assert_eq!(float_to_half(value), bits, "{value:e}");
            }
        }
    }

    #[test]
    fn ties_go_to_even() {
        for bits in 0..0x7BFFu16 {
            let (low, high) = (half_to_float(bits), half_to_float(bits + 1));
            let middle = (low + high) / 2.0;
            assert_eq!(float_to_half(middle), bits + (bits & 1), "{middle:e}");
            assert_eq!(float_to_half(middle.next_up()), bits + 1);
            assert_eq!(float_to_half(middle.next_down()), bits);
        }
        assert_eq!(float_to_half(65519.0), 0x7BFF);
        assert_eq!(float_to_half(65520.0), 0x7C00);
        assert_eq!(float_to_half(1e-30), 0);
    }
}
