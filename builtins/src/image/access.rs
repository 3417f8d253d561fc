//! Images, step 3: the functions that generated code calls. The way to a texel of a usual format is inlined, with ways of their own for
//! RGBA and R of words and bytes: a sampler is mostly a constant, whose tests vanish, and the format is the same for a whole launch. Packed and
//! sRGB formats and everything rare is a call.

use super::ImageDescriptor;
use super::address::{self, Place, Sampler, clamped};
use super::channels::Layout;
use super::component::Component;
use super::format::{BGRA, R, RGBA};
use super::texel;

/// A colour in registers: red and green, blue and alpha. What a called function takes or returns in memory, generated code would keep
/// there always; and of integers with 128 bits processors have no lanes.
type Packed = (u64, u64);

#[inline(always)]
fn pack<C: Component>(colour: [C; 4]) -> Packed {
    let [r, g, b, a] = colour.map(|component| u64::from(component.bits()));
    (r | g << 32, b | a << 32)
}

#[inline(always)]
fn unpack<C: Component>((low, high): Packed) -> [C; 4] {
    [low, low >> 32, high, high >> 32].map(|bits| C::from_bits(bits as u32))
}

/// How many texels there are along each axis.
type Extent = [u32; 3];

/// The indices of a texel of an image: within its extent.
#[derive(Clone, Copy)]
struct Position([i32; 3]);

impl Position {
    /// The nearest texel, and whether it is the one of these indices.
    #[inline(always)]
    fn nearest([x, y, z]: [i32; 3], [width, height, slices]: Extent) -> (Position, bool) {
        let [i, j, k] = [clamped(x, width), clamped(y, height), clamped(z, slices)];
        (Position([i, j, k]), (i == x) & (j == y) & (k == z))
    }

    /// The address of a texel of `size` bytes.
    #[inline(always)]
    fn address(self, image: &ImageDescriptor, size: usize) -> *mut u8 {
        let [x, y, z] = self.0.map(|index| index as u32 as u64);
        let (rows, slices) = (y.wrapping_mul(image.row_pitch), z.wrapping_mul(image.slice_pitch));
        image.data.wrapping_add(rows.wrapping_add(slices).wrapping_add(x.wrapping_mul(size as u64)) as usize)
    }
}

/// What is inlined for a format.
#[derive(Clone, Copy)]
enum Path {
    /// CL_RGBA of words: texels are the colours themselves.
    Words,
    /// CL_RGBA and CL_BGRA of bytes.
    Bytes,
    /// CL_R of words: arrays that are read as images.
    Word,
    /// CL_R of bytes: pictures without colours.
    Byte,
    /// Other texels of up to eight bytes with channels of whole bytes.
    Regular,
    /// A call.
    Other,
}

impl Path {
    #[inline(always)]
    fn of<C: Component>(image: &ImageDescriptor) -> Path {
        // Each a test of its own, without a branch within: for LLVM to take it out of the loop over work-items.
        let is_rgba = image.channel_order == RGBA;
        if is_rgba & (image.channel_type == C::WORD) {
            Path::Words
        } else if (is_rgba | (image.channel_order == BGRA)) & (image.channel_type == C::BYTE) {
            Path::Bytes
        } else if (image.channel_order == R) & (image.channel_type == C::WORD) {
            Path::Word
        } else if (image.channel_order == R) & (image.channel_type == C::BYTE) {
            Path::Byte
        } else if Layout::of::<C>(image).is_regular() {
            Path::Regular
        } else {
            Path::Other
        }
    }
}

/// Evaluates an expression with a path as a constant: one that is a value would have a switch on it for each texel.
macro_rules! with_path {
    ($path:expr, $name:ident => $body:expr; $($known:ident)*) => {
        match $path {
            $(Path::$known => {
                const $name: Path = Path::$known;
                $body
            })*
        }
    };
    ($path:expr, $name:ident => $body:expr) => {
        with_path!($path, $name => $body; Words Bytes Word Byte Regular Other)
    };
}

/// The colour at indices that may be outside, of an image with this path.
///
/// # Safety
/// The descriptor must describe readable memory.
#[inline(always)]
unsafe fn fetch_by<C: Component>(
    image: &ImageDescriptor,
    path: Path,
    sampler: Sampler,
    at: [i32; 3],
    extent: Extent,
) -> [C; 4] {
    let (position, is_exact) = Position::nearest(at, extent);
    let inside = is_exact || !sampler.has_border();
    let Position([x, y, z]) = position;
    let layout = Layout::of::<C>(image);
    // SAFETY: a position is inside of the image, which the caller promises to be readable, and its path says what it is like.
    let colour = unsafe {
        match path {
            Path::Words => texel::load_rgba(C::WORD, position.address(image, 16)),
            Path::Bytes => texel::load_bytes(image.channel_order, position.address(image, 4)),
            Path::Word => [C::load(position.address(image, 4), C::WORD, 0), C::ZERO, C::ZERO, C::ONE],
            Path::Byte => [C::load(position.address(image, 1), C::BYTE, 0), C::ZERO, C::ZERO, C::ONE],
            Path::Regular => layout.load(position.address(image, layout.size())),
            Path::Other => return unpack(decode::<C>(image, x, y, z, inside)),
        }
    };
    let border = match path {
        Path::Words | Path::Bytes => [C::ZERO; 4],
        Path::Word | Path::Byte => [C::ZERO, C::ZERO, C::ZERO, C::ONE],
        _ => texel::border(image),
    };
    if inside { colour } else { border }
}

/// The colour at indices that may be outside.
///
/// # Safety
/// The descriptor must describe readable memory.
#[inline(always)]
unsafe fn fetch<C: Component>(
    image: &ImageDescriptor,
    sampler: Sampler,
    at: [i32; 3],
    extent: Extent,
) -> [C; 4] {
    // SAFETY: the caller's promise.
    unsafe { with_path!(Path::of::<C>(image), PATH => fetch_by(image, PATH, sampler, at, extent)) }
}

/// The colour of a position in any format, or of the border.
///
/// # Safety
/// The texel must be readable.
#[inline(never)]
unsafe fn decode<C: Component>(image: &ImageDescriptor, x: i32, y: i32, z: i32, inside: bool) -> Packed {
    if !inside {
        return pack::<C>(texel::border(image));
    }
    let row = Position([0, y, z]).address(image, 0);
    // SAFETY: the caller's promise.
    pack::<C>(unsafe { texel::load(image, row, x) })
}

/// Writes a colour to a position in any format.
///
/// # Safety
/// The texel must be writable.
#[inline(never)]
unsafe fn encode<C: Component>(image: &ImageDescriptor, x: i32, y: i32, z: i32, colour: Packed) {
    let row = Position([0, y, z]).address(image, 0);
    // SAFETY: the caller's promise.
    unsafe { texel::store::<C>(image, row, x, unpack(colour)) }
}

/// Writes a colour; nothing outside the image.
///
/// # Safety
/// The descriptor must describe writable memory.
#[inline(always)]
unsafe fn write<C: Component>(image: &ImageDescriptor, at: [i32; 3], extent: Extent, colour: [C; 4]) {
    let (position @ Position([x, y, z]), true) = Position::nearest(at, extent) else { return };
    let layout = Layout::of::<C>(image);
    // SAFETY: a position is inside of the image, which the caller promises to be writable, and its path says what it is like.
    unsafe {
        match Path::of::<C>(image) {
            Path::Words => texel::store_rgba(C::WORD, position.address(image, 16), colour),
            Path::Bytes => texel::store_bytes(image.channel_order, position.address(image, 4), colour),
            Path::Word => colour[0].store(position.address(image, 4), C::WORD, 0),
            Path::Byte => colour[0].store(position.address(image, 1), C::BYTE, 0),
            Path::Regular => layout.store(position.address(image, layout.size()), colour),
            Path::Other => encode::<C>(image, x, y, z, pack(colour)),
        }
    }
}

/// `read_imagef` under CLK_FILTER_LINEAR. Of pictures and volumes in the usual formats it is inlined: lanes blend together.
///
/// # Safety
/// The descriptor must describe readable memory.
#[inline(always)]
unsafe fn read_blended(image: &ImageDescriptor, bits: u32, number: u32, at: [f32; 3]) -> [f32; 4] {
    let (kind, sampler) = (Kind(number), Sampler(bits));
    let path = match (kind.axes(), kind.is_array(), Path::of::<f32>(image)) {
        (2, false, path) => path,
        // Eight texels each: one way, which serves most formats.
        (3, _, Path::Bytes | Path::Word | Path::Byte | Path::Regular) => Path::Regular,
        _ => Path::Other,
    };
    // SAFETY: the caller's promise.
    unsafe {
        with_path!(path, PATH => match PATH {
            Path::Other => unpack(blend(image, bits, number, at[0], at[1], at[2])),
            _ => interpolated(image, PATH, sampler, kind, at),
        })
    }
}

/// The same for all kinds and formats.
///
/// # Safety
/// The descriptor must describe readable memory.
#[inline(never)]
unsafe fn blend(image: &ImageDescriptor, bits: u32, kind: u32, x: f32, y: f32, z: f32) -> Packed {
    let (kind, sampler, at) = (Kind(kind), Sampler(bits), [x, y, z]);
    // SAFETY: the caller's promise.
    pack(unsafe { with_path!(Path::of::<f32>(image), PATH => interpolated(image, PATH, sampler, kind, at)) })
}

/// # Safety
/// The descriptor must describe readable memory.
#[inline(always)]
unsafe fn interpolated(
    image: &ImageDescriptor,
    path: Path,
    sampler: Sampler,
    kind: Kind,
    at: [f32; 3],
) -> [f32; 4] {
    let extent = kind.extent(image);
    let places = kind.blended(at, extent, sampler);
    let texels = Texels { image, path, sampler, extent };
    // SAFETY: the caller's promise.
    unsafe {
        match kind.axes() {
            1 => texels.weighted_sum::<2>(places),
            2 => texels.weighted_sum::<4>(places),
            _ => texels.weighted_sum::<8>(places),
        }
    }
}

/// Where the texels of a box are to be had.
struct Texels<'a> {
    image: &'a ImageDescriptor,
    path: Path,
    sampler: Sampler,
    extent: Extent,
}

impl Texels<'_> {
    /// The mean of the texels at the corners of a box, two along each of the first axes. Written out: a loop would stay one.
    ///
    /// # Safety
    /// The descriptor must describe readable memory.
    #[inline(always)]
    unsafe fn weighted_sum<const CORNERS: u32>(&self, places: [Place; 3]) -> [f32; 4] {
        // SAFETY: the caller's promise.
        unsafe {
            let mut sum = self.with_corner(self.with_corner([0.0; 4], 0, places), 1, places);
            if CORNERS > 2 {
                sum = self.with_corner(self.with_corner(sum, 2, places), 3, places);
            }
            if CORNERS > 4 {
                sum = self.with_corner(self.with_corner(sum, 4, places), 5, places);
                sum = self.with_corner(self.with_corner(sum, 6, places), 7, places);
            }
            sum
        }
    }

    /// What there was, and a corner's part.
    ///
    /// # Safety
    /// The descriptor must describe readable memory.
    #[inline(always)]
    unsafe fn with_corner(&self, [r, g, b, a]: [f32; 4], corner: u32, [x, y, z]: [Place; 3]) -> [f32; 4] {
        let along = |place: Place, bit: u32| match corner & bit {
            0 => (place.first, 1.0 - place.weight),
            _ => (place.second, place.weight),
        };
        let ((i, in_x), (j, in_y), (k, in_z)) = (along(x, 1), along(y, 2), along(z, 4));
        let weight = in_x * in_y * in_z;
        let &Texels { image, path, sampler, extent } = self;
        // SAFETY: the caller's promise.
        let [dr, dg, db, da] = unsafe { fetch_by::<f32>(image, path, sampler, [i, j, k], extent) };
        [r + weight * dr, g + weight * dg, b + weight * db, a + weight * da]
    }
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

    /// How many texels there are along the axes; 1 along those that the kind lacks.
    #[inline(always)]
    fn extent(self, image: &ImageDescriptor) -> Extent {
        let height = if self.axes() >= 2 { image.height } else { 1 };
        let slices = match (self.is_array(), self.axes()) {
            (true, _) => image.array_size,
            (false, 3) => image.depth,
            _ => 1,
        };
        [image.width, height, slices]
    }

    /// The indices of the texel that float coordinates lie in, which may be outside still; an array's layer is the nearest one.
    #[inline(always)]
    fn nearest(self, image: &ImageDescriptor, at: [f32; 3], sampler: Sampler) -> [i32; 3] {
        let [width, height, slices] = self.extent(image);
        let [x, y, z] = self.spread(at, 0.0);
        let x = address::nearest(x, width, sampler);
        let y = if self.axes() >= 2 { address::nearest(y, height, sampler) } else { 0 };
        let z = match (self.is_array(), self.axes()) {
            (true, _) => address::layer(z, slices),
            (false, 3) => address::nearest(z, slices, sampler),
            _ => 0,
        };
        [x, y, z]
    }

    /// The texels along each axis that float coordinates lie between, which may be outside still.
    #[inline(always)]
    fn blended(self, at: [f32; 3], [width, height, slices]: Extent, sampler: Sampler) -> [Place; 3] {
        let [x, y, z] = self.spread(at, 0.0);
        let x = address::linear(x, width, sampler);
        let y = if self.axes() >= 2 { address::linear(y, height, sampler) } else { single(0) };
        let z = match (self.is_array(), self.axes()) {
            (true, _) => single(address::layer(z, slices)),
            (false, 3) => address::linear(z, slices, sampler),
            _ => single(0),
        };
        [x, y, z]
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
    let kind = Kind(kind);
    let extent = kind.extent(image);
    let [x, y, z] = kind.spread(at, 0);
    let z = if kind.is_array() { clamped(z, extent[2]) } else { z };
    // SAFETY: the caller's promise.
    unsafe { fetch(image, Sampler(bits), [x, y, z], extent) }
}

/// # Safety
/// The descriptor must describe readable memory.
#[inline(always)]
unsafe fn read_nearest<C: Component>(image: &ImageDescriptor, bits: u32, kind: u32, at: [f32; 3]) -> [C; 4] {
    let (kind, sampler) = (Kind(kind), Sampler(bits));
    // SAFETY: the caller's promise.
    unsafe { fetch(image, sampler, kind.nearest(image, at, sampler), kind.extent(image)) }
}

/// # Safety
/// The descriptor must describe readable memory.
#[inline(always)]
unsafe fn read_filtered(image: &ImageDescriptor, bits: u32, kind: u32, at: [f32; 3]) -> [f32; 4] {
    // SAFETY: the caller's promise.
    unsafe {
        match Sampler(bits).is_linear() {
            true => read_blended(image, bits, kind, at),
            false => read_nearest(image, bits, kind, at),
        }
    }
}

/// # Safety
/// The descriptor must describe writable memory.
#[inline(always)]
unsafe fn write_at<C: Component>(image: &ImageDescriptor, kind: u32, at: [i32; 3], colour: [C; 4]) {
    let kind = Kind(kind);
    // SAFETY: the caller's promise.
    unsafe { write(image, kind.spread(at, 0), kind.extent(image), colour) }
}

#[cfg(spirula_bitcode)]
unsafe extern "C" {
    /// A primitive of checked kernels: a texel is accessed that an image doesn't have.
    #[link_name = "spirula.image_outside"]
    fn image_outside(image: u64, writes: u32, x: i32, y: i32, z: i32, width: u32, height: u32, slices: u32);
}

/// Tells of indices along the image's axes that are outside. Where a sampler says what is there, a read of it is right; writes have none.
///
/// # Safety
/// `image` must be a descriptor.
#[cfg(spirula_bitcode)]
#[inline(always)]
unsafe fn look(image: *const ImageDescriptor, kind: Kind, [x, y, z]: [i32; 3], sampler: Option<Sampler>) {
    // SAFETY: the caller's promise.
    let extent @ [width, height, slices] = kind.extent(unsafe { &*image });
    // The layer of an array that is read is the nearest one in any case.
    let z = if kind.is_array() && sampler.is_some() { clamped(z, slices) } else { z };
    let (_, is_inside) = Position::nearest([x, y, z], extent);
    if !is_inside && !sampler.is_some_and(Sampler::says_what_is_outside) {
        let writes = u32::from(sampler.is_none());
        // SAFETY: it takes numbers only.
        unsafe { image_outside(image as u64, writes, x, y, z, width, height, slices) }
    }
}

/// The functions of one kind of colour. Coordinates that the image kind lacks are ignored.
macro_rules! accesses {
    ($($component:ty: $at_integer:ident, $at_float:ident by $reader:ident, $write:ident;)*) => {$(
        /// Reads at integer coordinates to `colour`.
        ///
        /// # Safety
        /// `image` must describe readable memory in a format of this component, `colour` hold four.
        #[cfg_attr(spirula_bitcode, unsafe(no_mangle))]
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
        #[cfg_attr(spirula_bitcode, unsafe(no_mangle))]
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
        #[cfg_attr(spirula_bitcode, unsafe(no_mangle))]
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

/// The functions that checked kernels call.
#[cfg(spirula_bitcode)]
macro_rules! checked_accesses {
    ($($component:ty: $at_integer:ident as $checked_integer:ident, $at_float:ident as $checked_float:ident,
       $write:ident as $checked_write:ident;)*) => {$(
        /// The same behind a look at the coordinates: what checked kernels call instead.
        ///
        /// # Safety
        /// As for that.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $checked_integer(
            image: *const ImageDescriptor, sampler: u32, kind: u32, x: i32, y: i32, z: i32, colour: *mut $component,
        ) {
            // SAFETY: the caller's promise.
            unsafe {
                look(image, Kind(kind), Kind(kind).spread([x, y, z], 0), Some(Sampler(sampler)));
                $at_integer(image, sampler, kind, x, y, z, colour)
            }
        }

        /// The same behind a look at the texel that the coordinates lie in: filters may take others beside it.
        ///
        /// # Safety
        /// As for that.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $checked_float(
            image: *const ImageDescriptor, sampler: u32, kind: u32, x: f32, y: f32, z: f32, colour: *mut $component,
        ) {
            // SAFETY: the caller's promise.
            unsafe {
                let at = Kind(kind).nearest(&*image, [x, y, z], Sampler(sampler));
                look(image, Kind(kind), at, Some(Sampler(sampler)));
                $at_float(image, sampler, kind, x, y, z, colour)
            }
        }

        /// The same behind a look at the coordinates: what checked kernels call instead.
        ///
        /// # Safety
        /// As for that.
        #[unsafe(no_mangle)]
        #[allow(clippy::too_many_arguments)]
        pub unsafe extern "C" fn $checked_write(
            image: *const ImageDescriptor, kind: u32, x: i32, y: i32, z: i32,
            red: $component, green: $component, blue: $component, alpha: $component,
        ) {
            // SAFETY: the caller's promise.
            unsafe {
                look(image, Kind(kind), Kind(kind).spread([x, y, z], 0), None);
                $write(image, kind, x, y, z, red, green, blue, alpha)
            }
        }
    )*};
}

#[cfg(spirula_bitcode)]
checked_accesses! {
    f32: spirula_read_imagef_int as spirula_checked_read_imagef_int, spirula_read_imagef_float as spirula_checked_read_imagef_float,
        spirula_write_imagef as spirula_checked_write_imagef;
    i32: spirula_read_imagei_int as spirula_checked_read_imagei_int, spirula_read_imagei_float as spirula_checked_read_imagei_float,
        spirula_write_imagei as spirula_checked_write_imagei;
    u32: spirula_read_imageui_int as spirula_checked_read_imageui_int, spirula_read_imageui_float as spirula_checked_read_imageui_float,
        spirula_write_imageui as spirula_checked_write_imageui;
}
