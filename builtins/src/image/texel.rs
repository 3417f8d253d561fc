//! Images, step 2: texels to colours and back, for every channel order and type (OpenCL 3.0, 5.3.1.1, and C 8.3).

use super::ImageDescriptor;
use super::component::Component;
use super::format::*;

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

/// Bytes of a channel; of the texel when packed.
const fn bytes(channel_type: u32) -> usize {
    match channel_type {
        SNORM_INT8 | UNORM_INT8 | SIGNED_INT8 | UNSIGNED_INT8 => 1,
        SIGNED_INT32 | UNSIGNED_INT32 | FLOAT | UNORM_INT_101010 => 4,
        _ => 2,
    }
}

/// Bytes of an image's texel.
#[inline(always)]
pub(super) fn size(image: &ImageDescriptor) -> u32 {
    let bytes = bytes(image.channel_type) as u32;
    match image.channel_type {
        UNORM_SHORT_565 | UNORM_SHORT_555 | UNORM_INT_101010 => bytes,
        _ => channels(image.channel_order) * bytes,
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
    let opaque = matches!(image.channel_order, R | RG | RGB | LUMINANCE);
    [C::ZERO, C::ZERO, C::ZERO, if opaque { C::ONE } else { C::ZERO }]
}
