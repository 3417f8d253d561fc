//! Image formats: `cl_image_format`, the sizes of its elements, the list of supported ones, and a color's encoding.

use crate::error::{Result, Status};
use spirula_interface::encoded_texel;
use spirula_interface::program::ImageKind;

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
    pub const DEPTH: u32 = 0x10BD;
    pub const SRGBX: u32 = 0x10C0;
    pub const SRGBA: u32 = 0x10C1;
    pub const SBGRA: u32 = 0x10C2;
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
const ORDERS: [u32; 12] = [
    order::RGBA,
    order::BGRA,
    order::ARGB,
    order::R,
    order::A,
    order::RG,
    order::RA,
    order::INTENSITY,
    order::LUMINANCE,
    order::DEPTH,
    order::SRGBA,
    order::SBGRA,
];

impl ImageFormat {
    /// Bytes of a texel, a power of two; None when the combination is no valid descriptor (CL_INVALID_IMAGE_FORMAT_DESCRIPTOR).
    /// OpenCL 3.0, 5.3.1.1.
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
            order::DEPTH => matches!(self.channel_type, UNORM_INT16 | FLOAT).then_some(channel),
            order::SRGBX | order::SRGBA | order::SBGRA => (self.channel_type == UNORM_INT8).then_some(4),
            order::INTENSITY | order::LUMINANCE => normalized_or_float.then_some(channel),
            _ => None,
        }
    }

    pub(crate) fn checked_element_size(self) -> Result<usize> {
        self.element_size().ok_or_else(|| Status::InvalidImageFormatDescriptor.because(format!("{self:x?}")))
    }

    /// Whether it is one of depth images: they are kernels' arguments of types of their own.
    pub fn is_depth(self) -> bool {
        self.channel_order == order::DEPTH
    }

    /// A texel of a color that is given as the bits of a float4 (normalized and float types), int4 or uint4: what a kernel would
    /// write (OpenCL 3.0, 5.3.3.3).
    pub(crate) fn encode(self, color: [u32; 4]) -> Vec<u8> {
        let texel = encoded_texel(self.channel_order, self.channel_type, color);
        texel[..self.element_size().unwrap_or(0)].to_vec()
    }
}

/// clGetSupportedImageFormats, for all kinds of access.
pub fn supported(kind: ImageKind) -> Vec<ImageFormat> {
    // Depth images have two dimensions.
    let has_depth = matches!(kind, ImageKind::Image2d | ImageKind::Image2dArray);
    let all = ORDERS
        .into_iter()
        .filter(|&order| order != order::DEPTH || has_depth)
        .flat_map(|order| PLAIN_TYPES.map(|channel_type| ImageFormat { channel_order: order, channel_type }));
    all.filter(|format| format.element_size().is_some()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn colors_are_swizzled_saturated_and_rounded() {
        let format = |channel_order, channel_type| ImageFormat { channel_order, channel_type };
        let values = [0.0, 0.5, 2.0, 1.0].map(f32::to_bits);
        assert_eq!(format(order::SRGBA, UNORM_INT8).encode(values), [0, 188, 255, 255]);
        assert_eq!(format(order::DEPTH, UNORM_INT16).encode([0.5f32.to_bits(), 0, 0, 0]), [0, 128]);
        assert_eq!(
            format(order::RGBA, SIGNED_INT8).encode([5, 300, 300u32.wrapping_neg(), 0]),
            [5, 127, 128, 0]
        );
        assert_eq!(format(order::BGRA, UNORM_INT8).encode(values), [255, 128, 0, 255]);
        assert_eq!(format(order::ARGB, SNORM_INT8).encode(values), [127, 0, 64, 127]);
        assert_eq!(format(order::RG, HALF_FLOAT).encode(values), [0, 0, 0, 0x38]);
    }

    #[test]
    fn the_full_profiles_formats_are_offered() {
        let offered = supported(ImageKind::Image3d);
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
        for format in supported(ImageKind::Image2d) {
            assert_eq!(format.element_size(), Some(format.encode([1; 4]).len()), "{format:x?}");
        }
        let depth = ImageFormat { channel_order: order::DEPTH, channel_type: FLOAT };
        assert!(supported(ImageKind::Image2dArray).contains(&depth));
        assert!(!supported(ImageKind::Image1dArray).contains(&depth));
        assert_eq!(ImageFormat { channel_order: order::RGB, channel_type: FLOAT }.element_size(), None);
    }
}
