//! The formats of images that a kernel is launched with. They are mostly the same in all of its launches, and code that knows them is
//! a small part of what reads and writes any.

use serde::{Deserialize, Serialize};

/// The formats of a kernel's first image arguments, as far as they are known.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct ImageFormats([u16; ImageFormats::MOST]);

impl ImageFormats {
    /// Of so many images; of more nobody knows.
    pub const MOST: usize = 8;
    /// Of no image.
    pub const UNKNOWN: ImageFormats = ImageFormats([0; ImageFormats::MOST]);
    /// What all of `cl_channel_order` and `cl_channel_type` have above their last byte (OpenCL 3.0, 5.3.1.1).
    const ABOVE: u32 = 0x1000;

    /// That of image argument `number`, where that is one of the first.
    pub fn set(&mut self, number: usize, channel_order: u32, channel_type: u32) {
        let is_number = |number: u32| number & !0xFF == Self::ABOVE;
        if let Some(format) = self.0.get_mut(number) {
            let known = is_number(channel_order) && is_number(channel_type);
            *format = if known { ((channel_order & 0xFF) << 8 | channel_type & 0xFF) as u16 } else { 0 };
        }
    }

    /// `cl_channel_order` and `cl_channel_type` of image argument `number`, if they are known.
    pub fn get(&self, number: usize) -> Option<(u32, u32)> {
        let format = self.0.get(number).copied().filter(|&format| format != 0)?;
        Some((Self::ABOVE | u32::from(format >> 8), Self::ABOVE | u32::from(format & 0xFF)))
    }

    /// Whether nothing is known.
    pub fn is_unknown(&self) -> bool {
        *self == Self::UNKNOWN
    }

    /// Whether images of these formats are what code is for that knows `self`.
    pub fn are_of(&self, launch: &ImageFormats) -> bool {
        std::iter::zip(self.0, launch.0).all(|(known, format)| known == 0 || known == format)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RGBA: u32 = 0x10B5;
    const UNORM_INT8: u32 = 0x10D2;
    const FLOAT: u32 = 0x10DE;

    fn formats(list: &[(u32, u32)]) -> ImageFormats {
        let mut formats = ImageFormats::UNKNOWN;
        list.iter().enumerate().for_each(|(number, &(order, ty))| formats.set(number, order, ty));
        formats
    }

    #[test]
    fn a_format_is_kept_whole_or_not_at_all() {
        let two = formats(&[(RGBA, FLOAT), (0, 0), (RGBA, 0x1_10DE), (RGBA, UNORM_INT8)]);
        assert_eq!(
            [0, 1, 2, 3].map(|n| two.get(n)),
            [Some((RGBA, FLOAT)), None, None, Some((RGBA, UNORM_INT8))]
        );
        let mut many = two;
        many.set(ImageFormats::MOST, RGBA, FLOAT);
        assert_eq!((many, many.get(ImageFormats::MOST)), (two, None));
    }

    #[test]
    fn code_is_for_launches_of_the_formats_that_it_knows() {
        let known = formats(&[(RGBA, FLOAT)]);
        let launch = formats(&[(RGBA, FLOAT), (RGBA, UNORM_INT8)]);
        assert!(known.are_of(&launch) && ImageFormats::UNKNOWN.are_of(&launch));
        assert!(!launch.are_of(&known) && !known.are_of(&formats(&[(RGBA, UNORM_INT8)])));
    }
}
