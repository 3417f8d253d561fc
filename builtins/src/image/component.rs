//! Images: a component of a colour and the channels that hold it (OpenCL C 8.3): one by one, and all four at once where channels have
//! 8, 16 or 32 bits.

use super::format::*;
use super::half::{float_to_half, half_to_float};
use super::srgb;
use crate::multiply_add::MultiplyAdd;

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

    /// How many bits a channel has that `decoded` and `encoded` know; 0 of other channel types.
    fn channel_bits(channel_type: u32) -> u32;

    /// The components that channels hold, each in the upper bits of its word: below it there may be others.
    fn decoded(fields: [u32; 4], channel_type: u32) -> [Self; 4];

    /// The channels of components, each in the lower bits of its word.
    fn encoded(colour: [Self; 4], channel_type: u32) -> [u32; 4];
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
    let (high, low) = inverse(largest);
    integer.fused(high, integer * low)
}

/// 1 / n as a sum.
#[inline(always)]
const fn inverse(n: f32) -> (f32, f32) {
    let high = 1.0 / n;
    (high, (1.0 / n as f64 - high as f64) as f32)
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

    #[inline(always)]
    fn channel_bits(channel_type: u32) -> u32 {
        match channel_type {
            SNORM_INT8 | UNORM_INT8 => 8,
            SNORM_INT16 | UNORM_INT16 | HALF_FLOAT => 16,
            FLOAT => 32,
            _ => 0,
        }
    }

    #[inline(always)]
    fn decoded(fields: [u32; 4], channel_type: u32) -> [f32; 4] {
        match channel_type {
            FLOAT => fields.map(f32::from_bits),
            HALF_FLOAT => fields.map(|field| half_to_float((field >> 16) as u16)),
            _ => {
                let Normalized { bits, least, largest, inverse } = Normalized::of(channel_type);
                fields.map(|field| {
                    let (signed, unsigned) = (field as i32 >> (32 - bits), (field >> (32 - bits)) as i32);
                    let integer = (if least < 0.0 { signed } else { unsigned }) as f32;
                    let value = integer.fused(inverse.0, integer * inverse.1);
                    // The least signed integer counts as the next one.
                    if integer < -largest { -1.0 } else { value }
                })
            }
        }
    }

    #[inline(always)]
    fn encoded(colour: [f32; 4], channel_type: u32) -> [u32; 4] {
        match channel_type {
            FLOAT => colour.map(f32::to_bits),
            HALF_FLOAT => colour.map(|component| float_to_half(component).into()),
            _ => {
                let Normalized { bits, least, largest, .. } = Normalized::of(channel_type);
                colour.map(|component| quantized(component, least, largest) as u32 & u32::MAX >> (32 - bits))
            }
        }
    }
}

/// A normalized channel type.
struct Normalized {
    bits: u32,
    /// The least and the largest integer, of which the latter stands for 1.
    least: f32,
    largest: f32,
    /// 1 / `largest` as a sum.
    inverse: (f32, f32),
}

impl Normalized {
    #[inline(always)]
    fn of(channel_type: u32) -> Normalized {
        const fn new(bits: u32, least: f32, largest: f32) -> Normalized {
            Normalized { bits, least, largest, inverse: inverse(largest) }
        }
        match channel_type {
            SNORM_INT8 => const { new(8, -128.0, 127.0) },
            SNORM_INT16 => const { new(16, -32768.0, 32767.0) },
            UNORM_INT8 => const { new(8, 0.0, 255.0) },
            _ => const { new(16, 0.0, 65535.0) },
        }
    }
}

/// An integer component, by the channel types that hold it. What others yield is undefined (OpenCL C, 6.13.14): of 32 bits their bits, which
/// is what graphics processors have there, and programs that keep doubles in images of pairs of floats need (SHOC's sparse products).
macro_rules! integer {
    ($int:ident: $int8:ident as $byte:ident, $int16:ident as $short:ident, $int32:ident) => {
        impl Component for $int {
            const ZERO: $int = 0;
            const ONE: $int = 1;
            const WORD: u32 = $int32;
            const BYTE: u32 = $int8;

            #[inline(always)]
            fn bits(self) -> u32 {
                self as u32
            }

            #[inline(always)]
            fn from_bits(bits: u32) -> $int {
                bits as $int
            }

            #[inline(always)]
            unsafe fn load(texel: *const u8, channel_type: u32, index: u32) -> $int {
                // SAFETY: the caller's promise; each arm reads what the type has.
                unsafe {
                    match channel_type {
                        $int8 => get::<$byte>(texel, index).into(),
                        $int16 => get::<$short>(texel, index).into(),
                        SIGNED_INT32 | UNSIGNED_INT32 | FLOAT => get(texel, index),
                        _ => 0,
                    }
                }
            }

            #[inline(always)]
            unsafe fn store(self, texel: *mut u8, channel_type: u32, index: u32) {
                // SAFETY: the caller's promise; each arm writes what the type has.
                unsafe {
                    match channel_type {
                        $int8 => {
                            put(texel, index, within(self, $byte::MIN.into(), $byte::MAX.into()) as $byte)
                        }
                        $int16 => {
                            put(texel, index, within(self, $short::MIN.into(), $short::MAX.into()) as $short)
                        }
                        SIGNED_INT32 | UNSIGNED_INT32 | FLOAT => put(texel, index, self),
                        _ => {}
                    }
                }
            }

            #[inline(always)]
            fn channel_bits(channel_type: u32) -> u32 {
                match channel_type {
                    $int8 => 8,
                    $int16 => 16,
                    SIGNED_INT32 | UNSIGNED_INT32 | FLOAT => 32,
                    _ => 0,
                }
            }

            #[inline(always)]
            fn decoded(fields: [u32; 4], channel_type: u32) -> [$int; 4] {
                let above = (32 - Self::channel_bits(channel_type)) & 31;
                fields.map(|field| field as $int >> above)
            }

            #[inline(always)]
            fn encoded(colour: [$int; 4], channel_type: u32) -> [u32; 4] {
                let above = (32 - Self::channel_bits(channel_type)) & 31;
                let (least, largest) = ($int::MIN >> above, $int::MAX >> above);
                colour.map(|component| within(component, least, largest) as u32 & u32::MAX >> above)
            }
        }
    };
}

integer!(i32: SIGNED_INT8 as i8, SIGNED_INT16 as i16, SIGNED_INT32);
integer!(u32: UNSIGNED_INT8 as u8, UNSIGNED_INT16 as u16, UNSIGNED_INT32);

/// The nearest value from `least` to `largest`. (As comparisons, which lanes do as minimum and maximum.)
#[inline(always)]
fn within<T: Copy + PartialOrd>(value: T, least: T, largest: T) -> T {
    let value = if value < least { least } else { value };
    if value > largest { largest } else { value }
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
