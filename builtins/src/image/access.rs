//! Images, step 3: the functions that generated code calls. The way to a float RGBA texel is inlined; other formats
//! and everything rare is a call.

use super::ImageDescriptor;
use super::address::{self, Place, Sampler};
use super::texel::{self, Component, FLOAT, RGBA};

/// A texel's address; None outside the image.
#[inline(always)]
fn locate(image: &ImageDescriptor, x: i32, y: i32, z: i32, slices: u32) -> Option<*mut u8> {
    let inside = (x as u32) < image.width && (y as u32) < image.height && (z as u32) < slices;
    let is_fast = image.channel_order == RGBA && image.channel_type == FLOAT;
    let size = if is_fast { 16 } else { texel_size(image) };
    let rows = (y as u32 as u64).wrapping_mul(image.row_pitch);
    let slices = (z as u32 as u64).wrapping_mul(image.slice_pitch);
    let offset = rows.wrapping_add(slices).wrapping_add(x as u32 as u64 * size as u64);
    inside.then(|| image.data.wrapping_add(offset as usize))
}

#[inline(never)]
fn texel_size(image: &ImageDescriptor) -> usize {
    texel::size(image)
}

/// The colour at indices that may be outside.
///
/// # Safety
/// The descriptor must describe readable memory.
#[inline(always)]
unsafe fn fetch<C: Component>(image: &ImageDescriptor, x: i32, y: i32, z: i32, slices: u32) -> [C; 4] {
    match locate(image, x, y, z, slices) {
        // SAFETY: inside the image, which the caller promises to be readable; a float texel is four floats.
        Some(place) if is_float_pair::<C>(image) => unsafe { place.cast::<[C; 4]>().read_unaligned() },
        // SAFETY: inside the image.
        Some(place) => unsafe { decode(image, place) },
        None => texel::border(image),
    }
}

/// Whether texels are the colours themselves.
#[inline(always)]
fn is_float_pair<C: Component>(image: &ImageDescriptor) -> bool {
    C::IS_FLOAT && image.channel_order == RGBA && image.channel_type == FLOAT
}

/// # Safety
/// The texel must be readable.
#[inline(never)]
unsafe fn decode<C: Component>(image: &ImageDescriptor, place: *const u8) -> [C; 4] {
    // SAFETY: the caller's promise.
    unsafe { texel::load(image, place) }
}

/// # Safety
/// The texel must be writable.
#[inline(never)]
unsafe fn encode<C: Component>(image: &ImageDescriptor, place: *mut u8, colour: [C; 4]) {
    // SAFETY: the caller's promise.
    unsafe { texel::store(image, place, colour) }
}

/// Writes a colour; nothing outside the image.
///
/// # Safety
/// The descriptor must describe writable memory.
#[inline(always)]
unsafe fn write<C: Component>(image: &ImageDescriptor, x: i32, y: i32, z: i32, slices: u32, colour: [C; 4]) {
    match locate(image, x, y, z, slices) {
        // SAFETY: inside the image, which the caller promises to be writable; a float texel is four floats.
        Some(place) if is_float_pair::<C>(image) => unsafe { place.cast::<[C; 4]>().write_unaligned(colour) },
        // SAFETY: inside the image.
        Some(place) => unsafe { encode(image, place, colour) },
        None => {}
    }
}

/// A weighted sum of up to eight texels.
///
/// # Safety
/// The descriptor must describe readable memory.
#[inline(never)]
unsafe fn blend(image: &ImageDescriptor, x: Place, y: Place, z: Place, slices: u32) -> [f32; 4] {
    let mut sum = [0.0f32; 4];
    for corner in 0..8u32 {
        let along = |place: Place, bit: u32| match corner & bit {
            0 => (place.first, 1.0 - place.weight),
            _ => (place.second, place.weight),
        };
        let ((i, a), (j, b), (k, c)) = (along(x, 1), along(y, 2), along(z, 4));
        let weight = a * b * c;
        if weight == 0.0 {
            continue;
        }
        // SAFETY: the caller's promise.
        let colour: [f32; 4] = unsafe { fetch(image, i, j, k, slices) };
        let ([r, g, b, a], [dr, dg, db, da]) = (sum, colour);
        sum = [r + weight * dr, g + weight * dg, b + weight * db, a + weight * da];
    }
    sum
}

/// An axis that the image does not have, or an index that needs no filter.
#[inline(always)]
fn single(index: i32) -> Place {
    Place { first: index, second: index, weight: 0.0 }
}

/// An image kind as generated code names it: the axes in the low two bits, and whether it is an array.
#[derive(Clone, Copy)]
struct Kind(u32);

impl Kind {
    #[inline(always)]
    fn axes(self) -> u32 {
        self.0 & 3
    }

    #[inline(always)]
    fn is_array(self) -> bool {
        self.0 & 0x10 != 0
    }

    /// How many slices or layers there are.
    #[inline(always)]
    fn slices(self, image: &ImageDescriptor) -> u32 {
        if self.is_array() { image.array_size } else { image.depth }
    }

    /// The coordinates that stand for the axes; an array's layer is the last one that it has.
    #[inline(always)]
    fn spread<T: Copy>(self, [x, y, z]: [T; 3], none: T) -> [T; 3] {
        let row = if self.axes() >= 2 { y } else { none };
        let slice = match (self.is_array(), self.axes()) {
            (true, 1) => y,
            (true, _) | (false, 3) => z,
            _ => none,
        };
        [x, row, slice]
    }
}

/// # Safety
/// The descriptor must describe readable memory.
#[inline(always)]
unsafe fn read_integer<C: Component>(image: &ImageDescriptor, bits: u32, kind: u32, at: [i32; 3]) -> [C; 4] {
    let (kind, sampler) = (Kind(kind), Sampler(bits));
    let [x, y, z] = kind.spread(at, 0);
    let slices = kind.slices(image);
    let slice_sampler = if kind.is_array() { Sampler::NONE } else { sampler };
    let x = address::integer(x, image.width, sampler);
    let y = if kind.axes() >= 2 { address::integer(y, image.height, sampler) } else { 0 };
    let z = if kind.is_array() || kind.axes() == 3 { address::integer(z, slices, slice_sampler) } else { 0 };
    // SAFETY: the caller's promise.
    unsafe { fetch(image, x, y, z, slices) }
}

/// # Safety
/// The descriptor must describe readable memory.
#[inline(always)]
unsafe fn read_nearest<C: Component>(image: &ImageDescriptor, bits: u32, kind: u32, at: [f32; 3]) -> [C; 4] {
    let (kind, sampler) = (Kind(kind), Sampler(bits));
    let [x, y, z] = kind.spread(at, 0.0);
    let slices = kind.slices(image);
    let x = address::nearest(x, image.width, sampler);
    let y = if kind.axes() >= 2 { address::nearest(y, image.height, sampler) } else { 0 };
    let z = match (kind.is_array(), kind.axes()) {
        (true, _) => address::layer(z, slices),
        (false, 3) => address::nearest(z, slices, sampler),
        _ => 0,
    };
    // SAFETY: the caller's promise.
    unsafe { fetch(image, x, y, z, slices) }
}

/// # Safety
/// The descriptor must describe readable memory.
#[inline(always)]
unsafe fn read_filtered(image: &ImageDescriptor, bits: u32, kind: u32, at: [f32; 3]) -> [f32; 4] {
    let sampler = Sampler(bits);
    if !sampler.is_linear() {
        // SAFETY: the caller's promise.
        return unsafe { read_nearest(image, bits, kind, at) };
    }
    let kind = Kind(kind);
    let [x, y, z] = kind.spread(at, 0.0);
    let slices = kind.slices(image);
    let x = address::linear(x, image.width, sampler);
    let y = if kind.axes() >= 2 { address::linear(y, image.height, sampler) } else { single(0) };
    let z = match (kind.is_array(), kind.axes()) {
        (true, _) => single(address::layer(z, slices)),
        (false, 3) => address::linear(z, slices, sampler),
        _ => single(0),
    };
    // SAFETY: the caller's promise.
    unsafe { blend(image, x, y, z, slices) }
}

/// # Safety
/// The descriptor must describe writable memory.
#[inline(always)]
unsafe fn write_at<C: Component>(image: &ImageDescriptor, kind: u32, at: [i32; 3], colour: [C; 4]) {
    let kind = Kind(kind);
    let [x, y, z] = kind.spread(at, 0);
    // SAFETY: the caller's promise.
    unsafe { write(image, x, y, z, kind.slices(image), colour) }
}

/// The functions of one kind of colour. Coordinates that the image kind lacks are ignored.
macro_rules! accesses {
    ($($component:ty: $at_integer:ident, $at_float:ident by $reader:ident, $write:ident;)*) => {$(
        /// Reads at integer coordinates to `colour`.
        ///
        /// # Safety
        /// `image` must describe readable memory in a format of this component, `colour` hold four.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $at_integer(
            image: *const ImageDescriptor, sampler: u32, kind: u32, x: i32, y: i32, z: i32, colour: *mut $component,
        ) {
            // SAFETY: the caller's promise.
            unsafe { colour.cast::<[$component; 4]>().write(read_integer(&*image, sampler, kind, [x, y, z])) }
        }

        /// Reads at float coordinates to `colour`.
        ///
        /// # Safety
        /// `image` must describe readable memory in a format of this component, `colour` hold four.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $at_float(
            image: *const ImageDescriptor, sampler: u32, kind: u32, x: f32, y: f32, z: f32, colour: *mut $component,
        ) {
            // SAFETY: the caller's promise.
            unsafe { colour.cast::<[$component; 4]>().write($reader(&*image, sampler, kind, [x, y, z])) }
        }

        /// Writes a colour at integer coordinates.
        ///
        /// # Safety
        /// `image` must describe writable memory in a format of this component.
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments)]
        pub unsafe extern "C" fn $write(
            image: *const ImageDescriptor, kind: u32, x: i32, y: i32, z: i32,
            red: $component, green: $component, blue: $component, alpha: $component,
        ) {
            // SAFETY: the caller's promise.
            unsafe { write_at(&*image, kind, [x, y, z], [red, green, blue, alpha]) }
        }
    )*};
}

accesses! {
    f32: spirula_read_imagef_int, spirula_read_imagef_float by read_filtered, spirula_write_imagef;
    i32: spirula_read_imagei_int, spirula_read_imagei_float by read_nearest, spirula_write_imagei;
    u32: spirula_read_imageui_int, spirula_read_imageui_float by read_nearest, spirula_write_imageui;
}
