//! Images, step 2: texels to colours and back, for every channel order and type (OpenCL 3.0, 5.3.1.1, and C 8.3).

use super::ImageDescriptor;
use super::half::{float_to_half, half_to_float};
use super::srgb;
use crate::multiply_add::MultiplyAdd;

/// CL_RGBA.
pub(super) const RGBA: u32 = 0x10B5;
const FLOAT: u32 = 0x10DE;

/// Channel types, from CL_SNORM_INT8 on.
const SNORM_INT8: u32 = 0x10D0;
const SNORM_INT16: u32 = 0x10D1;
const UNORM_INT8: u32 = 0x10D2;
const UNORM_INT16: u32 = 0x10D3;
const UNORM_SHORT_565: u32 = 0x10D4;
const UNORM_SHORT_555: u32 = 0x10D5;
const UNORM_INT_101010: u32 = 0x10D6;
pub(super) const SIGNED_INT8: u32 = 0x10D7;
const SIGNED_INT16: u32 = 0x10D8;
pub(super) const SIGNED_INT32: u32 = 0x10D9;
pub(super) const UNSIGNED_INT8: u32 = 0x10DA;
const UNSIGNED_INT16: u32 = 0x10DB;
pub(super) const UNSIGNED_INT32: u32 = 0x10DC;
const HALF_FLOAT: u32 = 0x10DD;

/// Channel orders: CL_A, CL_RG, ….
const A: u32 = 0x10B1;
const RG: u32 = 0x10B2;
const RA: u32 = 0x10B3;
const RGB: u32 = 0x10B4;
pub(super) const BGRA: u32 = 0x10B6;
const ARGB: u32 = 0x10B7;
const INTENSITY: u32 = 0x10B8;
const LUMINANCE: u32 = 0x10B9;
const RGX: u32 = 0x10BB;
const RGBX: u32 = 0x10BC;
const SRGBX: u32 = 0x10C0;
const SRGBA: u32 = 0x10C1;
const SBGRA: u32 = 0x10C2;

/// How many channels a texel has.
#[inline(always)]
fn channels(order: u32) -> u32 {
    match order {
        RG | RA | RGX => 2,
        RGB | RGBX => 3,
        RGBA | BGRA | ARGB | SRGBX | SRGBA | SBGRA => 4,
        _ => 1,
    }
}

/// A component of a colour: float, or an integer for `read_imagei` and `read_imageui`.
pub(super) trait Component: Copy {
    /// 0.
    const ZERO: Self;
    /// 1.
    const ONE: Self;

    /// The channel type that holds it as it is.
    const WORD: u32;
    /// The usual channel type of a byte that is read as this.
    const BYTE: u32;

    /// Its bits.
    fn bits(self) -> u32;

    /// The component of these bits.
    fn from_bits(bits: u32) -> Self;

    /// The linear value of an sRGB channel; only floats have such.
    #[inline(always)]
    fn linear(self) -> Self {
        self
    }

    /// The sRGB channel of a linear value.
    #[inline(always)]
    fn srgb(self) -> Self {
        self
    }

    /// Channel `index` of the texel at `texel`.
    ///
    /// # Safety
    /// The texel must be readable.
    unsafe fn load(texel: *const u8, channel_type: u32, index: u32) -> Self;

    /// Writes channel `index`.
    ///
    /// # Safety
    /// The texel must be writable.
    unsafe fn store(self, texel: *mut u8, channel_type: u32, index: u32);
}

/// Bytes of a channel; of the texel when packed.
const fn bytes(channel_type: u32) -> usize {
    match channel_type {
        SNORM_INT8 | UNORM_INT8 | SIGNED_INT8 | UNSIGNED_INT8 => 1,
        SIGNED_INT32 | UNSIGNED_INT32 | FLOAT | UNORM_INT_101010 => 4,
        _ => 2,
    }
}

/// Evaluates an expression with a channel type as a constant, so that it decides once for all channels of a texel.
macro_rules! with_constant {
    ($channel_type:expr, $name:ident => $body:expr; $($known:ident)*) => {
        match $channel_type {
            $($known => {
                const $name: u32 = $known;
                $body
            })*
            _ => {
                const $name: u32 = FLOAT;
                $body
            }
        }
    };
    ($channel_type:expr, $name:ident => $body:expr) => {
        with_constant!($channel_type, $name => $body;
            SNORM_INT8 SNORM_INT16 UNORM_INT8 UNORM_INT16
            SIGNED_INT8 SIGNED_INT16 SIGNED_INT32 UNSIGNED_INT8 UNSIGNED_INT16 UNSIGNED_INT32 HALF_FLOAT)
    };
}

/// The colour of a texel of CL_RGBA.
///
/// # Safety
/// The texel must be readable, of four channels of this type.
#[inline(always)]
pub(super) unsafe fn load_rgba<C: Component>(channel_type: u32, texel: *const u8) -> [C; 4] {
    // SAFETY: the caller's promise.
    [0, 1, 2, 3].map(|index| unsafe { C::load(texel, channel_type, index) })
}

/// Writes a colour to a texel of CL_RGBA.
///
/// # Safety
/// The texel must be writable, of four channels of this type.
#[inline(always)]
pub(super) unsafe fn store_rgba<C: Component>(channel_type: u32, texel: *mut u8, colour: [C; 4]) {
    let [red, green, blue, alpha] = colour;
    // SAFETY: the caller's promise.
    unsafe {
        red.store(texel, channel_type, 0);
        green.store(texel, channel_type, 1);
        blue.store(texel, channel_type, 2);
        alpha.store(texel, channel_type, 3);
    }
}

/// By how many bits red and blue are shifted in a word of four bytes.
#[inline(always)]
fn places(order: u32) -> (u32, u32) {
    if order == BGRA { (16, 0) } else { (0, 16) }
}

/// The colour of a texel of four bytes, of CL_RGBA or CL_BGRA. As one word: lanes have neighbours' words then, also where not all channels
/// are of interest; and the order is a matter of how far to shift.
///
/// # Safety
/// The texel must be readable.
#[inline(always)]
pub(super) unsafe fn load_bytes<C: Component>(order: u32, texel: *const u8) -> [C; 4] {
    let (red, blue) = places(order);
    // SAFETY: the caller's promise.
    let word = unsafe { texel.cast::<u32>().read_unaligned() };
    let channels = [word >> red, word >> 8, word >> blue, word >> 24].map(|shifted| shifted as u8);
    // SAFETY: the four bytes.
    [0, 1, 2, 3].map(|index| unsafe { C::load(channels.as_ptr(), C::BYTE, index) })
}

/// Writes such a texel.
///
/// # Safety
/// The texel must be writable.
#[inline(always)]
pub(super) unsafe fn store_bytes<C: Component>(order: u32, texel: *mut u8, colour: [C; 4]) {
    let mut channels = [0_u8; 4];
    // SAFETY: the four bytes.
    unsafe { store_rgba(C::BYTE, channels.as_mut_ptr(), colour) };
    let [r, g, b, a] = channels.map(u32::from);
    let (red, blue) = places(order);
    // SAFETY: the caller's promise.
    unsafe { texel.cast::<u32>().write_unaligned(r << red | g << 8 | b << blue | a << 24) }
}

/// The colour of texel `x` of a row.
///
/// # Safety
/// The texel must be readable, in the image's format.
#[inline(always)]
pub(super) unsafe fn load<C: Component>(image: &ImageDescriptor, row: *const u8, x: i32) -> [C; 4] {
    let (order, ty) = (image.channel_order, image.channel_type);
    // Without a table in memory, for LLVM to see that this only reads.
    // SAFETY: the caller's promise.
    unsafe {
        match channels(order) {
            1 => {
                let [c] = load_channels::<C, 1>(ty, row, x);
                match order {
                    A => [C::ZERO, C::ZERO, C::ZERO, c],
                    INTENSITY => [c, c, c, c],
                    LUMINANCE => [c, c, c, C::ONE],
                    _ => [c, C::ZERO, C::ZERO, C::ONE],
                }
            }
            2 => {
                let [c, d] = load_channels::<C, 2>(ty, row, x);
                if order == RA { [c, C::ZERO, C::ZERO, d] } else { [c, d, C::ZERO, C::ONE] }
            }
            3 => {
                let texel = row.add(x as usize * bytes(ty));
                [C::load(texel, ty, 0), C::load(texel, ty, 1), C::load(texel, ty, 2), C::ONE]
            }
            _ => {
                let [c, d, e, f] = load_channels::<C, 4>(ty, row, x);
                match order {
                    BGRA => [e, d, c, f],
                    ARGB => [d, e, f, c],
                    SRGBX => [c.linear(), d.linear(), e.linear(), C::ONE],
                    SRGBA => [c.linear(), d.linear(), e.linear(), f],
                    SBGRA => [e.linear(), d.linear(), c.linear(), f],
                    _ => [c, d, e, f],
                }
            }
        }
    }
}

/// # Safety
/// The texel must be readable, of so many channels of this type.
#[inline(always)]
unsafe fn load_channels<C: Component, const COUNT: usize>(
    channel_type: u32,
    row: *const u8,
    x: i32,
) -> [C; COUNT] {
    with_constant!(channel_type, TYPE => {
        // SAFETY: the caller's promise.
        let texel = unsafe { row.add(x as usize * COUNT * bytes(TYPE)) };
        let mut channels = [C::ZERO; COUNT];
        for (index, channel) in channels.iter_mut().enumerate() {
            // SAFETY: as above.
            *channel = unsafe { C::load(texel, TYPE, index as u32) };
        }
        channels
    })
}

/// Writes a colour to texel `x` of a row.
///
/// # Safety
/// The texel must be writable, in the image's format.
#[inline(always)]
pub(super) unsafe fn store<C: Component>(image: &ImageDescriptor, row: *mut u8, x: i32, colour: [C; 4]) {
    let (order, ty) = (image.channel_order, image.channel_type);
    let [r, g, b, a] = colour;
    // SAFETY: the caller's promise.
    unsafe {
        match channels(order) {
            1 => store_channels(ty, row, x, [if order == A { a } else { r }]),
            2 => store_channels(ty, row, x, [r, if order == RA { a } else { g }]),
            3 => {
                let texel = row.add(x as usize * bytes(ty));
                r.store(texel, ty, 0);
                g.store(texel, ty, 1);
                b.store(texel, ty, 2);
            }
            _ => {
                let channels = match order {
                    BGRA => [b, g, r, a],
                    ARGB => [a, r, g, b],
                    SRGBX | SRGBA => [r.srgb(), g.srgb(), b.srgb(), a],
                    SBGRA => [b.srgb(), g.srgb(), r.srgb(), a],
                    _ => [r, g, b, a],
                };
                store_channels(ty, row, x, channels);
            }
        }
    }
}

/// # Safety
/// The texel must be writable, of so many channels of this type.
#[inline(always)]
unsafe fn store_channels<C: Component, const COUNT: usize>(
    channel_type: u32,
    row: *mut u8,
    x: i32,
    channels: [C; COUNT],
) {
    with_constant!(channel_type, TYPE => {
        // SAFETY: the caller's promise.
        let texel = unsafe { row.add(x as usize * COUNT * bytes(TYPE)) };
        for (index, channel) in channels.into_iter().enumerate() {
            // SAFETY: as above.
            unsafe { channel.store(texel, TYPE, index as u32) };
        }
    })
}

/// What a read outside the image gives under CLAMP: transparent black, opaque for orders without alpha.
#[inline(always)]
pub(super) fn border<C: Component>(image: &ImageDescriptor) -> [C; 4] {
    let opaque = matches!(image.channel_order, 0x10B0 | RG | RGB | LUMINANCE);
    [C::ZERO, C::ZERO, C::ZERO, if opaque { C::ONE } else { C::ZERO }]
}

/// # Safety
/// `texel` must have element `index` readable.
#[inline(always)]
unsafe fn get<T: Copy>(texel: *const u8, index: u32) -> T {
    // SAFETY: the caller's promise; the alignment is unknown.
    unsafe { texel.cast::<T>().add(index as usize).read_unaligned() }
}

/// # Safety
/// `texel` must have element `index` writable.
#[inline(always)]
unsafe fn put<T: Copy>(texel: *mut u8, index: u32, value: T) {
    // SAFETY: the caller's promise; the alignment is unknown.
    unsafe { texel.cast::<T>().add(index as usize).write_unaligned(value) }
}

/// The place of a channel in a packed texel: its lowest bit and its largest value.
#[inline(always)]
fn packed(channel_type: u32, index: u32) -> (u32, u32) {
    match (channel_type, index) {
        (UNORM_SHORT_565, 0) => (11, 31),
        (UNORM_SHORT_565, 1) => (5, 63),
        (UNORM_SHORT_565, _) => (0, 31),
        (UNORM_SHORT_555, index) => (10 - 5 * (index & 3).min(2), 31),
        (_, index) => (20 - 10 * (index & 3).min(2), 1023),
    }
}

/// A normalized value as an integer of up to `scale`, rounded to nearest, ties to even; NaN is 0.
#[inline(always)]
fn quantized(value: f32, low: f32, scale: f32) -> i32 {
    // Of magnitudes below 2^22, this sum's last bits are the rounded integer: no conversion that must saturate.
    const ROUND: f32 = 12_582_912.0;
    let scaled = if value.is_nan() { 0.0 } else { value * scale };
    let bounded = if scaled < low { low } else { scaled };
    let bounded = if bounded > scale { scale } else { bounded };
    ((bounded + ROUND).to_bits() as i32).wrapping_sub(ROUND.to_bits() as i32)
}

/// An integer of up to 16 bits by the largest of its type, a constant: multiplied by 1/n as a sum of two floats, which is the rounded quotient
/// for all of them. Lanes divide five times as long.
#[inline(always)]
fn quotient(integer: f32, largest: f32) -> f32 {
    let high = 1.0 / largest;
    let low = (1.0 / f64::from(largest) - f64::from(high)) as f32;
    integer.fused(high, integer * low)
}

impl Component for f32 {
    const ZERO: f32 = 0.0;
    const ONE: f32 = 1.0;
    const WORD: u32 = FLOAT;
    const BYTE: u32 = UNORM_INT8;

    #[inline(always)]
    fn bits(self) -> u32 {
        self.to_bits()
    }

    #[inline(always)]
    fn from_bits(bits: u32) -> f32 {
        f32::from_bits(bits)
    }

    #[inline(always)]
    fn linear(self) -> f32 {
        srgb::decode(self)
    }

    #[inline(always)]
    fn srgb(self) -> f32 {
        srgb::encode(self)
    }

    #[inline(always)]
    unsafe fn load(texel: *const u8, channel_type: u32, index: u32) -> f32 {
        let signed = |value: f32| if value < -1.0 { -1.0 } else { value };
        // SAFETY: the caller's promise; each arm reads what the type has.
        unsafe {
            match channel_type {
                UNORM_INT8 => quotient(get::<u8>(texel, index).into(), 255.0),
                UNORM_INT16 => quotient(get::<u16>(texel, index).into(), 65535.0),
                SNORM_INT8 => signed(quotient(get::<i8>(texel, index).into(), 127.0)),
                SNORM_INT16 => signed(quotient(get::<i16>(texel, index).into(), 32767.0)),
                HALF_FLOAT => half_to_float(get(texel, index)),
                UNORM_SHORT_565 | UNORM_SHORT_555 | UNORM_INT_101010 => {
                    let (shift, largest) = packed(channel_type, index);
                    let wide = channel_type == UNORM_INT_101010;
                    let bits = if wide { get::<u32>(texel, 0) } else { get::<u16>(texel, 0).into() };
                    (bits >> shift & largest) as f32 / largest as f32
                }
                FLOAT => get(texel, index),
                // Undefined by the specification.
                _ => 0.0,
            }
        }
    }

    #[inline(always)]
    unsafe fn store(self, texel: *mut u8, channel_type: u32, index: u32) {
        // SAFETY: the caller's promise; each arm writes what the type has.
        unsafe {
            match channel_type {
                UNORM_INT8 => put(texel, index, quantized(self, 0.0, 255.0) as u8),
                UNORM_INT16 => put(texel, index, quantized(self, 0.0, 65535.0) as u16),
                SNORM_INT8 => put(texel, index, quantized(self, -128.0, 127.0) as i8),
                SNORM_INT16 => put(texel, index, quantized(self, -32768.0, 32767.0) as i16),
                HALF_FLOAT => put(texel, index, float_to_half(self)),
                UNORM_SHORT_565 | UNORM_SHORT_555 | UNORM_INT_101010 => {
                    let (shift, largest) = packed(channel_type, index);
                    let value = (quantized(self, 0.0, largest as f32) as u32) << shift;
                    if channel_type == UNORM_INT_101010 {
                        put(texel, 0, get::<u32>(texel, 0) & !(largest << shift) | value);
                    } else {
                        put(texel, 0, get::<u16>(texel, 0) & !(largest << shift) as u16 | value as u16);
                    }
                }
                FLOAT => put(texel, index, self),
                _ => {}
            }
        }
    }
}

impl Component for i32 {
    const ZERO: i32 = 0;
    const ONE: i32 = 1;
    const WORD: u32 = SIGNED_INT32;
    const BYTE: u32 = SIGNED_INT8;

    #[inline(always)]
    fn bits(self) -> u32 {
        self as u32
    }

    #[inline(always)]
    fn from_bits(bits: u32) -> i32 {
        bits as i32
    }

    #[inline(always)]
    unsafe fn load(texel: *const u8, channel_type: u32, index: u32) -> i32 {
        // SAFETY: the caller's promise; each arm reads what the type has.
        unsafe {
            match channel_type {
                SIGNED_INT8 => get::<i8>(texel, index).into(),
                SIGNED_INT16 => get::<i16>(texel, index).into(),
                SIGNED_INT32 => get(texel, index),
                // Undefined by the specification.
                _ => 0,
            }
        }
    }

    #[inline(always)]
    unsafe fn store(self, texel: *mut u8, channel_type: u32, index: u32) {
        let bounded = |low: i32, high: i32| {
            let value = if self < low { low } else { self };
            if value > high { high } else { value }
        };
        // SAFETY: the caller's promise; each arm writes what the type has.
        unsafe {
            match channel_type {
                SIGNED_INT8 => put(texel, index, bounded(-128, 127) as i8),
                SIGNED_INT16 => put(texel, index, bounded(-32768, 32767) as i16),
                SIGNED_INT32 => put(texel, index, self),
                _ => {}
            }
        }
    }
}

impl Component for u32 {
    const ZERO: u32 = 0;
    const ONE: u32 = 1;
    const WORD: u32 = UNSIGNED_INT32;
    const BYTE: u32 = UNSIGNED_INT8;

    #[inline(always)]
    fn bits(self) -> u32 {
        self
    }

    #[inline(always)]
    fn from_bits(bits: u32) -> u32 {
        bits
    }

    #[inline(always)]
    unsafe fn load(texel: *const u8, channel_type: u32, index: u32) -> u32 {
        // SAFETY: the caller's promise; each arm reads what the type has.
        unsafe {
            match channel_type {
                UNSIGNED_INT8 => get::<u8>(texel, index).into(),
                UNSIGNED_INT16 => get::<u16>(texel, index).into(),
                UNSIGNED_INT32 => get(texel, index),
                _ => 0,
            }
        }
    }

    #[inline(always)]
    unsafe fn store(self, texel: *mut u8, channel_type: u32, index: u32) {
        let bounded = |high: u32| if self > high { high } else { self };
        // SAFETY: the caller's promise; each arm writes what the type has.
        unsafe {
            match channel_type {
                UNSIGNED_INT8 => put(texel, index, bounded(255) as u8),
                UNSIGNED_INT16 => put(texel, index, bounded(65535) as u16),
                UNSIGNED_INT32 => put(texel, index, self),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::quotient;

    #[test]
    fn quotients_are_rounded() {
        for (largest, least) in [(255, 0), (127, -128), (65535, 0), (32767, -32768)] {
            for integer in least..=largest {
                let (integer, largest) = (integer as f32, largest as f32);
                assert_eq!(quotient(integer, largest), integer / largest, "{integer} / {largest}");
            }
        }
    }
}
