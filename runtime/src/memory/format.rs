//! Image formats: `cl_image_format`, the sizes of its elements, the list of supported ones, and a color's encoding.

use super::MemFlags;
use crate::error::{Result, Status};

/// A `cl_image_format` in OpenCL's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(C)]
pub struct ImageFormat {
    /// `cl_channel_order`, such as CL_RGBA (0x10B5).
    pub channel_order: u32,
    /// `cl_channel_type`, such as CL_FLOAT (0x10DE).
    pub channel_type: u32,
}

/// `cl_channel_order`.
#[allow(missing_docs)]
pub mod order {
    pub const R: u32 = 0x10B0;
    pub const A: u32 = 0x10B1;
    pub const RG: u32 = 0x10B2;
    pub const RA: u32 = 0x10B3;
    pub const RGB: u32 = 0x10B4;
    pub const RGBA: u32 = 0x10B5;
    pub const BGRA: u32 = 0x10B6;
    pub const ARGB: u32 = 0x10B7;
    pub const INTENSITY: u32 = 0x10B8;
    pub const LUMINANCE: u32 = 0x10B9;
    pub const RX: u32 = 0x10BA;
    pub const RGX: u32 = 0x10BB;
    pub const RGBX: u32 = 0x10BC;
}

/// `cl_channel_type`.
#[allow(missing_docs)]
pub mod channel {
    pub const SNORM_INT8: u32 = 0x10D0;
    pub const SNORM_INT16: u32 = 0x10D1;
    pub const UNORM_INT8: u32 = 0x10D2;
    pub const UNORM_INT16: u32 = 0x10D3;
    pub const UNORM_SHORT_565: u32 = 0x10D4;
    pub const UNORM_SHORT_555: u32 = 0x10D5;
    pub const UNORM_INT_101010: u32 = 0x10D6;
    pub const SIGNED_INT8: u32 = 0x10D7;
    pub const SIGNED_INT16: u32 = 0x10D8;
    pub const SIGNED_INT32: u32 = 0x10D9;
    pub const UNSIGNED_INT8: u32 = 0x10DA;
    pub const UNSIGNED_INT16: u32 = 0x10DB;
    pub const UNSIGNED_INT32: u32 = 0x10DC;
    pub const HALF_FLOAT: u32 = 0x10DD;
    pub const FLOAT: u32 = 0x10DE;
}

use channel::*;

/// Channel types with a number for each channel; the packed ones are not offered.
const PLAIN_TYPES: [u32; 12] = [
    SNORM_INT8,
    SNORM_INT16,
    UNORM_INT8,
    UNORM_INT16,
    SIGNED_INT8,
    SIGNED_INT16,
    SIGNED_INT32,
    UNSIGNED_INT8,
    UNSIGNED_INT16,
    UNSIGNED_INT32,
    HALF_FLOAT,
    FLOAT,
];

/// Channel orders that are offered, with every type that the specification lets them have.
const ORDERS: [u32; 9] = [
    order::RGBA,
    order::BGRA,
    order::ARGB,
    order::R,
    order::A,
    order::RG,
    order::RA,
    order::INTENSITY,
    order::LUMINANCE,
];

impl ImageFormat {
    /// Bytes of a texel; None when the combination is no valid descriptor (CL_INVALID_IMAGE_FORMAT_DESCRIPTOR). OpenCL 1.2,
    /// tables 5.6 and 5.7.
    pub fn element_size(self) -> Option<usize> {
        let channel = match self.channel_type {
            SNORM_INT8 | UNORM_INT8 | SIGNED_INT8 | UNSIGNED_INT8 => 1,
            SNORM_INT16 | UNORM_INT16 | SIGNED_INT16 | UNSIGNED_INT16 | HALF_FLOAT => 2,
            SIGNED_INT32 | UNSIGNED_INT32 | FLOAT => 4,
            UNORM_SHORT_565 | UNORM_SHORT_555 | UNORM_INT_101010 => 0,
            _ => return None,
        };
        let normalized_or_float = matches!(
            self.channel_type,
            SNORM_INT8 | SNORM_INT16 | UNORM_INT8 | UNORM_INT16 | HALF_FLOAT | FLOAT
        );
        match self.channel_order {
            order::RGB | order::RGBX => match self.channel_type {
                UNORM_SHORT_565 | UNORM_SHORT_555 => Some(2),
                UNORM_INT_101010 => Some(4),
                _ => None,
            },
            _ if channel == 0 => None,
            order::R | order::A | order::RX => Some(channel),
            order::RG | order::RA | order::RGX => Some(2 * channel),
            order::RGBA => Some(4 * channel),
            order::BGRA | order::ARGB => (channel == 1).then_some(4),
            order::INTENSITY | order::LUMINANCE => normalized_or_float.then_some(channel),
            _ => None,
        }
    }

    pub(crate) fn checked_element_size(self) -> Result<usize> {
        self.element_size().ok_or_else(|| Status::InvalidImageFormatDescriptor.because(format!("{self:x?}")))
    }

    /// A texel of a color that is given as the bytes of a float4 (normalized and float types), int4 or uint4 (OpenCL 1.2,
    /// 5.3.3.3 and 8.3): as many bytes as an element has.
    pub(crate) fn encode(self, color: [u8; 16]) -> Vec<u8> {
        let word = |channel: usize| -> [u8; 4] { std::array::from_fn(|byte| color[4 * channel + byte]) };
        let channels: &[usize] = match self.channel_order {
            order::RG | order::RGX => &[0, 1],
            order::RA => &[0, 3],
            order::A => &[3],
            order::RGBA => &[0, 1, 2, 3],
            order::BGRA => &[2, 1, 0, 3],
            order::ARGB => &[3, 0, 1, 2],
            _ => &[0],
        };
        channels.iter().flat_map(|&channel| encode_channel(self.channel_type, word(channel))).collect()
    }
}

/// One channel's value in memory, saturated and rounded to nearest even where its type asks for it.
fn encode_channel(channel_type: u32, word: [u8; 4]) -> Vec<u8> {
    let (float, signed, unsigned) =
        (f32::from_ne_bytes(word), i32::from_ne_bytes(word), u32::from_ne_bytes(word));
    let normalized = |scale: f32, least: f32| (float * scale).clamp(least * scale, scale).round_ties_even();
    match channel_type {
        UNORM_INT8 => vec![normalized(255.0, 0.0) as u8],
        SNORM_INT8 => vec![normalized(127.0, -1.0) as i8 as u8],
        UNORM_INT16 => (normalized(65535.0, 0.0) as u16).to_ne_bytes().to_vec(),
        SNORM_INT16 => (normalized(32767.0, -1.0) as i16).to_ne_bytes().to_vec(),
        SIGNED_INT8 => vec![signed.clamp(-128, 127) as i8 as u8],
        SIGNED_INT16 => (signed.clamp(-32768, 32767) as i16).to_ne_bytes().to_vec(),
        UNSIGNED_INT8 => vec![unsigned.min(255) as u8],
        UNSIGNED_INT16 => (unsigned.min(65535) as u16).to_ne_bytes().to_vec(),
        HALF_FLOAT => half_bits(float).to_ne_bytes().to_vec(),
        _ => word.to_vec(),
    }
}

/// IEEE binary16, rounded to nearest even.
fn half_bits(value: f32) -> u16 {
    let sign = (value.to_bits() >> 16) as u16 & 0x8000;
    let magnitude = value.abs();
    let bits = if value.is_nan() {
        0x7e00
    } else if magnitude >= 65520.0 {
        0x7c00
    } else if magnitude < f32::from_bits(113 << 23) {
        // Below 2^-14: a count of 2^-24.
        (magnitude * 16777216.0).round_ties_even() as u16
    } else {
        // Rebias from 127 to 15, and round the 13 bits that go.
        let bits = magnitude.to_bits() - (112 << 23);
        ((bits + 0xfff + (bits >> 13 & 1)) >> 13) as u16
    };
    sign | bits
}

/// clGetSupportedImageFormats: all image types and all kinds of access have the same ones.
pub fn supported(_flags: MemFlags) -> Vec<ImageFormat> {
    let all = ORDERS
        .into_iter()
        .flat_map(|order| PLAIN_TYPES.map(|channel_type| ImageFormat { channel_order: order, channel_type }));
    all.filter(|format| format.element_size().is_some()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_agrees_with_its_definition() {
        let cases = [
            (0.0, 0),
            (-0.0, 0x8000),
            (1.0, 0x3c00),
            (-2.0, 0xc000),
            (65504.0, 0x7bff),
            (65519.9, 0x7bff),
            (65520.0, 0x7c00),
            (f32::INFINITY, 0x7c00),
            (6.1035156e-5, 0x0400),
            (5.9604645e-8, 1),
            (2.9802322e-8, 0),
            (1.0 + 1.0 / 2048.0, 0x3c00),
            (1.0 + 3.0 / 2048.0, 0x3c02),
            (0.33325195, 0x3555),
            (6.1e-5, 0x03ff),
        ];
        for (value, bits) in cases {
            assert_eq!(half_bits(value), bits, "{value}");
        }
    }

    #[test]
    fn colors_are_swizzled_saturated_and_rounded() {
        let color = |values: [f32; 4]| -> [u8; 16] {
            std::array::from_fn(|byte| values[byte / 4].to_ne_bytes()[byte % 4])
        };
        let format = |channel_order, channel_type| ImageFormat { channel_order, channel_type };
        let values = color([0.0, 0.5, 2.0, 1.0]);
        assert_eq!(format(order::BGRA, UNORM_INT8).encode(values), [255, 128, 0, 255]);
        assert_eq!(format(order::ARGB, SNORM_INT8).encode(values), [127, 0, 64, 127]);
        assert_eq!(format(order::RG, HALF_FLOAT).encode(values), [0, 0, 0, 0x38]);
    }

    #[test]
    fn the_full_profiles_formats_are_offered() {
        let offered = supported(MemFlags::WRITE_ONLY);
        let required = PLAIN_TYPES[2..].iter().map(|&channel_type| (order::RGBA, channel_type));
        for (channel_order, channel_type) in required.chain([(order::BGRA, UNORM_INT8)]) {
            assert!(offered.contains(&ImageFormat { channel_order, channel_type }), "{channel_type:x}");
        }
        assert!(
            !offered.contains(&ImageFormat { channel_order: order::INTENSITY, channel_type: SIGNED_INT8 })
        );
    }

    #[test]
    fn every_supported_format_is_valid_and_encodes_to_its_size() {
        for format in supported(MemFlags::READ_ONLY) {
            assert_eq!(format.element_size(), Some(format.encode([1; 16]).len()), "{format:x?}");
        }
        assert_eq!(ImageFormat { channel_order: order::RGB, channel_type: FLOAT }.element_size(), None);
    }
}
