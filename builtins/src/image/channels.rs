//! Images, texels of up to eight bytes whose channels have 8, 16 or 32 bits each: decoded by numbers that are the same for all
//! texels of an image, such as how far to shift, instead of by a branch for each format. Lanes decode together, whatever the
//! format is, and one piece of code serves all of them.

use super::ImageDescriptor;
use super::component::Component;
use super::format::{A, ARGB, BGRA, DEPTH, INTENSITY, LUMINANCE, R, RA, RG, RGBA, RGX, RX};

/// The channel of a component that the format lacks, which is 0 or 1.
const ZERO: u32 = 0xFE;
const ONE: u32 = 0xFF;

/// Which channel of a texel each component is, red in the low byte; of other orders, as of RGBA.
#[inline(always)]
fn channels_read(order: u32) -> u32 {
    match order {
        R | RX | DEPTH => 0xFF_FE_FE_00,
        A => 0x00_FE_FE_FE,
        INTENSITY => 0x00_00_00_00,
        LUMINANCE => 0xFF_00_00_00,
        RG | RGX => 0xFF_FE_01_00,
        RA => 0x01_FE_FE_00,
        BGRA => 0x03_00_01_02,
        ARGB => 0x00_03_02_01,
        _ => 0x03_02_01_00,
    }
}

/// The same of what is written: the channel that several components are is red.
#[inline(always)]
fn channels_written(order: u32) -> u32 {
    if order == INTENSITY || order == LUMINANCE { channels_read(R) } else { channels_read(order) }
}

/// How many channels a texel has: 1, 2 or 4.
#[inline(always)]
fn count(order: u32) -> u32 {
    match order {
        R | RX | A | INTENSITY | LUMINANCE | DEPTH => 1,
        RG | RGX | RA => 2,
        _ => 4,
    }
}

/// How texels of an image are laid out.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    order: u32,
    channel_type: u32,
    /// Bits of a channel.
    bits: u32,
    /// Bytes of a texel: 1, 2, 4 or 8.
    size: u32,
}

impl Layout {
    /// That of an image whose components are of this type.
    #[inline(always)]
    pub fn of<C: Component>(image: &ImageDescriptor) -> Layout {
        let (order, channel_type) = (image.channel_order, image.channel_type);
        let bits = C::channel_bits(channel_type);
        Layout { order, channel_type, bits, size: count(order) * bits / 8 }
    }

    /// Whether there is such a layout.
    #[inline(always)]
    pub fn is_regular(self) -> bool {
        let known = matches!(
            self.order,
            R | RX | A | INTENSITY | LUMINANCE | DEPTH | RG | RGX | RA | RGBA | BGRA | ARGB
        );
        known & (1..=8).contains(&self.size)
    }

    /// Bytes of a texel.
    #[inline(always)]
    pub fn size(self) -> usize {
        self.size as usize
    }

    /// The colour of a texel.
    ///
    /// # Safety
    /// The layout must be regular, and the texel readable.
    #[inline(always)]
    pub unsafe fn load<C: Component>(self, texel: *const u8) -> [C; 4] {
        // SAFETY: the caller's promise; each arm reads a texel.
        let texel = unsafe {
            match self.size {
                1 => u64::from(*texel),
                2 => u64::from(texel.cast::<u16>().read_unaligned()),
                4 => u64::from(texel.cast::<u32>().read_unaligned()),
                _ => texel.cast::<u64>().read_unaligned(),
            }
        };
        let (low, high) = (texel as u32, (texel >> 32) as u32);
        let channels = components(channels_read(self.order));
        let fields = channels.map(|channel| {
            let place = channel * self.bits;
            let word = if place & 32 == 0 { low } else { high };
            // The channel's last bit comes last.
            word << (32u32.wrapping_sub(self.bits).wrapping_sub(place) & 31)
        });
        let [r, g, b, a] = C::decoded(fields, self.channel_type);
        let [in_red, in_green, in_blue, in_alpha] = channels;
        [present(r, in_red), present(g, in_green), present(b, in_blue), present(a, in_alpha)]
    }

    /// Writes a colour to a texel.
    ///
    /// # Safety
    /// The layout must be regular, and the texel writable.
    #[inline(always)]
    pub unsafe fn store<C: Component>(self, texel: *mut u8, colour: [C; 4]) {
        let channels = components(channels_written(self.order));
        let fields = C::encoded(colour, self.channel_type);
        let (mut low, mut high) = (0, 0);
        for (channel, field) in channels.into_iter().zip(fields) {
            let place = channel * self.bits;
            let shifted = field << (place & 31);
            let exists = channel < ZERO;
            low |= if exists & (place & 32 == 0) { shifted } else { 0 };
            high |= if exists & (place & 32 != 0) { shifted } else { 0 };
        }
        // SAFETY: the caller's promise; each arm writes a texel.
        unsafe {
            match self.size {
                1 => *texel = low as u8,
                2 => texel.cast::<u16>().write_unaligned(low as u16),
                4 => texel.cast::<u32>().write_unaligned(low),
                _ => texel.cast::<u64>().write_unaligned(u64::from(high) << 32 | u64::from(low)),
            }
        }
    }
}

/// A component that is this channel, unless there is none.
#[inline(always)]
fn present<C: Component>(value: C, channel: u32) -> C {
    match channel {
        ZERO => C::ZERO,
        ONE => C::ONE,
        _ => value,
    }
}

/// The four bytes of a word.
#[inline(always)]
fn components(word: u32) -> [u32; 4] {
    [0, 8, 16, 24].map(|place| word >> place & 0xFF)
}
