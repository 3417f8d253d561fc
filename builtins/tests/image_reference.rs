//! Image reads and writes against a reference in double precision, written from the formulas of OpenCL 1.2, sections
//! 8.2 and 8.3: every kind, addressing mode, filter and format. Coordinates are multiples of 1/64 of small numbers, so that
//! float arithmetic on them is exact and boundaries between texels are hit.

#[path = "image_reference/writes.rs"]
mod writes;

use spirula_builtins::image::ImageDescriptor;
use spirula_builtins::*;

/// Channel types: `cl_channel_type`, bytes.
const NORMALIZED_OR_FLOAT: [(u32, usize); 6] =
    [(0x10D0, 1), (0x10D1, 2), (0x10D2, 1), (0x10D3, 2), (0x10DD, 2), (0x10DE, 4)];
const INTEGERS: [(u32, usize); 6] =
    [(0x10D7, 1), (0x10D8, 2), (0x10D9, 4), (0x10DA, 1), (0x10DB, 2), (0x10DC, 4)];
/// Packed types with the widths of their channels, red in the highest bits.
const PACKED: [(u32, usize, [u32; 3]); 3] =
    [(0x10D4, 2, [5, 6, 5]), (0x10D5, 2, [5, 5, 5]), (0x10D6, 4, [10, 10, 10])];

/// Channel orders: `cl_channel_order`, the stored channels' letters, the color read (a letter, 0 or 1), the border.
const ORDERS: [(u32, &str, &str, [f64; 4]); 11] = [
    (0x10B0, "r", "r001", [0.0, 0.0, 0.0, 1.0]),
    (0x10B1, "a", "000a", [0.0; 4]),
    (0x10B2, "rg", "rg01", [0.0, 0.0, 0.0, 1.0]),
    (0x10B3, "ra", "r00a", [0.0; 4]),
    (0x10B5, "rgba", "rgba", [0.0; 4]),
    (0x10B6, "bgra", "rgba", [0.0; 4]),
    (0x10B7, "argb", "rgba", [0.0; 4]),
    (0x10B8, "r", "rrrr", [0.0; 4]),
    (0x10B9, "r", "rrr1", [0.0, 0.0, 0.0, 1.0]),
    (0x10BA, "r", "r001", [0.0; 4]),
    (0x10BB, "rg", "rg01", [0.0; 4]),
];
/// As above, with a channel type and its bytes: CL_DEPTH, of shorts and floats, and sRGB orders, of bytes.
type OrderOf20 = (u32, &'static str, &'static str, [f64; 4], u32, usize);
const ORDERS_OF_20: [OrderOf20; 5] = [
    (0x10BD, "r", "r001", [0.0; 4], 0x10D3, 2),
    (0x10BD, "r", "r001", [0.0; 4], 0x10DE, 4),
    (0x10C0, "rgbx", "rgb1", [0.0; 4], 0x10D2, 1),
    (0x10C1, "rgba", "rgba", [0.0; 4], 0x10D2, 1),
    (0x10C2, "bgra", "rgba", [0.0; 4], 0x10D2, 1),
];
/// CL_RGB and CL_RGBx, of packed types only.
const PACKED_ORDERS: [(u32, &str, &str, [f64; 4]); 2] =
    [(0x10B4, "rgb", "rgb1", [0.0, 0.0, 0.0, 1.0]), (0x10BC, "rgb", "rgb1", [0.0; 4])];

/// The library's number of a kind, its filtered axes, whether it is an array.
const KINDS: [(u32, usize, bool); 5] =
    [(1, 1, false), (0x11, 1, true), (2, 2, false), (0x12, 2, true), (3, 3, false)];

const NORMALIZED: u32 = 1;
const NONE: u32 = 0;
const CLAMP_TO_EDGE: u32 = 2;
const CLAMP: u32 = 4;
const REPEAT: u32 = 6;
const MIRRORED_REPEAT: u32 = 8;
const NEAREST: u32 = 0x10;
const LINEAR: u32 = 0x20;

/// A sampler for each mode and filter, with the coordinates that the mode allows.
fn samplers() -> impl Iterator<Item = u32> {
    let plain = [NONE, CLAMP_TO_EDGE, CLAMP].into_iter().flat_map(|mode| [mode, mode | NORMALIZED]);
    let modes = plain.chain([REPEAT | NORMALIZED, MIRRORED_REPEAT | NORMALIZED]);
    modes.flat_map(|mode| [mode | NEAREST, mode | LINEAR])
}

/// A format: order, type, and what the reference knows of them.
#[derive(Clone, Copy, Debug)]
struct Format {
    order: u32,
    ty: u32,
    stored: &'static str,
    read: &'static str,
    border: [f64; 4],
    /// Of a channel, or of the whole texel when packed.
    bytes: usize,
    packed: Option<[u32; 3]>,
}

impl Format {
    fn all() -> Vec<Format> {
        let plain = ORDERS.iter().flat_map(|&(order, stored, read, border)| {
            let types = NORMALIZED_OR_FLOAT.iter().chain(&INTEGERS);
            types.map(move |&(ty, bytes)| Format { order, ty, stored, read, border, bytes, packed: None })
        });
        let packed = PACKED_ORDERS.iter().flat_map(|&(order, stored, read, border)| {
            let format = move |&(ty, bytes, widths): &(u32, usize, [u32; 3])| {
                let packed = Some(widths);
                Format { order, ty, stored, read, border, bytes, packed }
            };
            PACKED.iter().map(format)
        });
        let of_20 = ORDERS_OF_20.iter().map(|&(order, stored, read, border, ty, bytes)| Format {
            order,
            ty,
            stored,
            read,
            border,
            bytes,
            packed: None,
        });
        plain.chain(packed).chain(of_20).collect()
    }

    fn is_integer(self) -> bool {
        (0x10D7..=0x10DC).contains(&self.ty)
    }

    fn texel_size(self) -> usize {
        if self.packed.is_some() { self.bytes } else { self.bytes * self.stored.len() }
    }

    /// The stored channels' bits.
    fn raw(self, texel: &[u8]) -> Vec<u32> {
        let word = |bytes: &[u8]| bytes.iter().rev().fold(0, |word, &byte| word << 8 | u32::from(byte));
        match self.packed {
            None => texel.chunks(self.bytes).map(word).collect(),
            Some([_, green, blue]) => {
                let whole = word(texel);
                let mask = |bits: u32| (1u32 << bits) - 1;
                // Red is as wide as blue.
                vec![whole >> (green + blue) & mask(blue), whole >> blue & mask(green), whole & mask(blue)]
            }
        }
    }

    /// Whether a channel is an sRGB one.
    fn is_srgb(self, channel: usize) -> bool {
        (0x10C0..=0x10C2).contains(&self.order) && channel < 3
    }

    /// Section 8.3: a channel's value.
    fn value(self, raw: u32, channel: usize) -> f64 {
        match self.ty {
            0x10D2 if self.is_srgb(channel) => {
                let value = f64::from(raw) / 255.0;
                if value <= 0.04045 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
            }
            0x10D0 => (f64::from(raw as u8 as i8) / 127.0).max(-1.0),
            0x10D1 => (f64::from(raw as u16 as i16) / 32767.0).max(-1.0),
            0x10D2 => f64::from(raw) / 255.0,
            0x10D3 => f64::from(raw) / 65535.0,
            0x10D7 => f64::from(raw as u8 as i8),
            0x10D8 => f64::from(raw as u16 as i16),
            0x10D9 => f64::from(raw as i32),
            0x10DD => half(raw),
            0x10DE => f64::from(f32::from_bits(raw)),
            _ => match self.packed {
                Some(widths) => f64::from(raw) / f64::from((1u32 << widths[channel]) - 1),
                None => f64::from(raw),
            },
        }
    }

    fn color(self, texel: &[u8]) -> [f64; 4] {
        let raw = self.raw(texel);
        let mut letters = self.read.chars();
        std::array::from_fn(|_| match letters.next().expect("four letters") {
            '0' => 0.0,
            '1' => 1.0,
            letter => {
                let channel = self.stored.find(letter).expect("stored");
                self.value(raw[channel], channel)
            }
        })
    }
}

fn half(raw: u32) -> f64 {
    let (exponent, mantissa) = ((raw >> 10 & 31) as i32, f64::from(raw & 0x3FF) / 1024.0);
    let magnitude = match exponent {
        0 => mantissa * 2f64.powi(-14),
        _ => (1.0 + mantissa) * 2f64.powi(exponent - 15),
    };
    if raw & 0x8000 == 0 { magnitude } else { -magnitude }
}

/// Bytes before and behind an image.
const MARGIN: usize = 512;
/// More than the floats of an image, and less than those around it.
const LARGEST: f64 = 1024.0;

/// Numbers without a pattern.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as u32
    }

    fn below(&mut self, end: u32) -> u32 {
        self.next() % end
    }
}

/// An image of random texels. Around it and in the gaps of its pitches are bytes that make absurd numbers.
struct Picture {
    bytes: Vec<u8>,
    format: Format,
    /// Texels along x, y and slices or layers.
    extent: [i64; 3],
    kind: (u32, usize, bool),
    row_pitch: usize,
    slice_pitch: usize,
}

impl Picture {
    fn new(format: Format, kind: (u32, usize, bool), random: &mut Random) -> Picture {
        let (_, axes, is_array) = kind;
        let sizes = [5, 3, 4];
        let extent = [
            sizes[0],
            if axes >= 2 { sizes[1] } else { 1 },
            if axes == 3 || is_array { sizes[2] } else { 1 },
        ];
        let row_pitch = extent[0] as usize * format.texel_size() + 3;
        let slice_pitch = row_pitch * extent[1] as usize + 5;
        let bytes = vec![0x7C; slice_pitch * extent[2] as usize + 2 * MARGIN];
        let mut picture = Picture { bytes, format, extent, kind, row_pitch, slice_pitch };
        for place in picture.places() {
            let at = picture.offset(place);
            let texel = &mut picture.bytes[at..at + format.texel_size()];
            texel.fill_with(|| random.next() as u8);
            if matches!(format.ty, 0x10DD | 0x10DE) {
                // Finite numbers of moderate size, below LARGEST.
                for channel in texel.chunks_mut(format.bytes) {
                    let sign = if random.below(2) == 0 { 0 } else { 0x80 };
                    let top =
                        if format.bytes == 2 { 0x30 + random.below(0x18) } else { 0x3C + random.below(6) };
                    channel[format.bytes - 1] = sign | top as u8;
                }
            }
        }
        picture
    }

    fn places(&self) -> Vec<[i64; 3]> {
        let [width, height, slices] = self.extent;
        (0..width * height * slices).map(|i| [i % width, i / width % height, i / width / height]).collect()
    }

    fn offset(&self, [x, y, z]: [i64; 3]) -> usize {
        MARGIN
            + z as usize * self.slice_pitch
            + y as usize * self.row_pitch
            + x as usize * self.format.texel_size()
    }

    fn is_inside(&self, at: [i64; 3]) -> bool {
        at.iter().zip(self.extent).all(|(&index, size)| (0..size).contains(&index))
    }

    /// The color at indices; the border's outside.
    fn texel(&self, at: [i64; 3]) -> [f64; 4] {
        if !self.is_inside(at) {
            return self.format.border;
        }
        let offset = self.offset(at);
        self.format.color(&self.bytes[offset..offset + self.format.texel_size()])
    }

    fn descriptor(&mut self) -> ImageDescriptor {
        let [width, height, slices] = self.extent.map(|size| size as u32);
        let is_array = self.kind.2;
        ImageDescriptor {
            data: self.bytes[MARGIN..].as_mut_ptr(),
            width,
            height,
            depth: if is_array { 1 } else { slices },
            array_size: if is_array { slices } else { 1 },
            row_pitch: self.row_pitch as u64,
            slice_pitch: self.slice_pitch as u64,
            channel_order: self.format.order,
            channel_type: self.format.ty,
        }
    }

    /// x, y and slice as the kind's coordinates: a 1-D array's layer is its second, and the rest must not matter.
    fn coordinates<T: Copy>(&self, [x, y, z]: [T; 3], junk: T) -> [T; 3] {
        match self.kind {
            (_, 1, true) => [x, z, junk],
            (_, 1, _) => [x, junk, junk],
            (_, 2, false) => [x, y, junk],
            _ => [x, y, z],
        }
    }

    /// Reads through the library, as numbers; `at` are floats or integers.
    fn read(&mut self, sampler: u32, at: At) -> [f64; 4] {
        let image = self.descriptor();
        let kind = self.kind.0;
        let mut floats = [f32::NAN; 4];
        let mut signed = [0x5555i32; 4];
        let mut unsigned = [0x5555u32; 4];
        // SAFETY: the descriptor is of memory that `self` owns, the results hold four.
        unsafe {
            match (at, self.format.ty) {
                (At::Integer(at), 0x10D7..=0x10D9) => {
                    let [x, y, z] = self.coordinates(at, 77);
                    spirula_read_imagei_int(&image, sampler, kind, x, y, z, signed.as_mut_ptr());
                }
                (At::Float(at), 0x10D7..=0x10D9) => {
                    let [x, y, z] = self.coordinates(at, 77.0);
                    spirula_read_imagei_float(&image, sampler, kind, x, y, z, signed.as_mut_ptr());
                }
                (At::Integer(at), 0x10DA..=0x10DC) => {
                    let [x, y, z] = self.coordinates(at, 77);
                    spirula_read_imageui_int(&image, sampler, kind, x, y, z, unsigned.as_mut_ptr());
                }
                (At::Float(at), 0x10DA..=0x10DC) => {
                    let [x, y, z] = self.coordinates(at, 77.0);
                    spirula_read_imageui_float(&image, sampler, kind, x, y, z, unsigned.as_mut_ptr());
                }
                (At::Integer(at), _) => {
                    let [x, y, z] = self.coordinates(at, 77);
                    spirula_read_imagef_int(&image, sampler, kind, x, y, z, floats.as_mut_ptr());
                }
                (At::Float(at), _) => {
                    let [x, y, z] = self.coordinates(at, 77.0);
                    spirula_read_imagef_float(&image, sampler, kind, x, y, z, floats.as_mut_ptr());
                }
            }
        }
        match self.format.ty {
            0x10D7..=0x10D9 => signed.map(f64::from),
            0x10DA..=0x10DC => unsigned.map(f64::from),
            _ => floats.map(f64::from),
        }
    }

    /// Section 8.2: one axis as its texels and their weights.
    fn axis(sampler: u32, s: f64, size: i64) -> Vec<(i64, f64)> {
        let n = size as f64;
        let mode = sampler & 0xE;
        let u = match mode {
            REPEAT => (s - s.floor()) * n,
            MIRRORED_REPEAT => (s - 2.0 * (0.5 * s).round_ties_even()).abs() * n,
            _ if sampler & 1 == 1 => s * n,
            _ => s,
        };
        let address = |i: i64| match mode {
            CLAMP => i.clamp(-1, size),
            REPEAT => i.rem_euclid(size),
            _ => i.clamp(0, size - 1),
        };
        if sampler & LINEAR == 0 {
            return vec![(address(u.floor() as i64), 1.0)];
        }
        let below = (u - 0.5).floor();
        let weight = u - 0.5 - below;
        vec![(address(below as i64), 1.0 - weight), (address(below as i64 + 1), weight)]
    }

    fn expected(&self, sampler: u32, at: [f64; 3]) -> [f64; 4] {
        let (_, axes, is_array) = self.kind;
        let layer = at[2].round_ties_even().clamp(0.0, self.extent[2] as f64 - 1.0) as i64;
        let along = |axis: usize| match axis {
            2 if is_array => vec![(layer, 1.0)],
            axis if axis >= axes => vec![(0, 1.0)],
            axis => Picture::axis(sampler, at[axis], self.extent[axis]),
        };
        let mut sum = [0.0; 4];
        for &(i, a) in &along(0) {
            for &(j, b) in &along(1) {
                for &(k, c) in &along(2) {
                    let texel = self.texel([i, j, k]);
                    sum = std::array::from_fn(|component| sum[component] + a * b * c * texel[component]);
                }
            }
        }
        sum
    }

    fn check(&mut self, sampler: u32, at: At) {
        let exact = match at {
            At::Integer(at) => at.map(f64::from),
            At::Float(at) => at.map(f64::from),
        };
        let expected = self.expected(sampler, exact);
        let found = self.read(sampler, at);
        let scale = if self.format.is_integer() { 0.0 } else { 1e-6 };
        for (found, expected) in found.into_iter().zip(expected) {
            let bound = if sampler & LINEAR == 0 { expected.abs() * scale } else { LARGEST * scale };
            assert!(
                (found - expected).abs() <= bound,
                "{:?} kind {:#x} sampler {sampler:#x} at {at:?}: {found} instead of {expected}",
                self.format,
                self.kind.0
            );
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum At {
    Integer([i32; 3]),
    Float([f32; 3]),
}

#[test]
fn integer_coordinates_find_texels_and_borders() {
    let mut random = Random(1);
    for format in Format::all() {
        for kind in KINDS {
            let mut picture = Picture::new(format, kind, &mut random);
            for x in [-100, -1, 0, 2, 4, 5, i32::MAX] {
                for y in [i32::MIN, -1, 0, 2, 3] {
                    for z in [-1, 0, 3, 4] {
                        for mode in [NONE, CLAMP_TO_EDGE, CLAMP] {
                            picture.check(NEAREST | mode, At::Integer([x, y, z]));
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn float_coordinates_follow_every_mode_and_filter() {
    let mut random = Random(2);
    for format in Format::all() {
        let filters: &[u32] = if format.is_integer() { &[NEAREST] } else { &[NEAREST, LINEAR] };
        for kind in KINDS {
            let mut picture = Picture::new(format, kind, &mut random);
            for &filter in filters {
                for mode in [NONE, CLAMP_TO_EDGE, CLAMP, REPEAT, MIRRORED_REPEAT] {
                    for normalized in [0, 1] {
                        if normalized == 0 && mode >= REPEAT {
                            continue;
                        }
                        // From -2 to 3 images, in 64ths; the first are on texels' borders.
                        let mut coordinate = |size: f32| {
                            let n = random.below(5 * 64) as f32 / 64.0 - 2.0;
                            let n = if random.below(4) == 0 { n.round() } else { n };
                            if normalized == 1 { n } else { n * size }
                        };
                        for _ in 0..24 {
                            let layer =
                                if kind.2 { (coordinate(1.0) * 4.0).round() / 2.0 } else { coordinate(4.0) };
                            let at = At::Float([coordinate(5.0), coordinate(3.0), layer]);
                            picture.check(filter | mode | normalized, at);
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn absurd_coordinates_find_what_their_mode_says() {
    let mut random = Random(3);
    let finite = [1e37, -1e37, 3e9, -3e9, 1e-40, -0.0];
    let absurd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, 3e9, -0.0];
    for kind in KINDS {
        let mut picture = Picture::new(Format::all()[5], kind, &mut random);
        for sampler in samplers() {
            for number in 0..finite.len().pow(3) {
                let at = [1, 6, 36].map(|step| finite[number / step % finite.len()]);
                picture.check(sampler, At::Float(at));
            }
            // With one that is no number, or is none in texels, nothing is promised but that it is the image's.
            for (index, &x) in absurd.iter().enumerate() {
                let [y, z] = [1, 2].map(|step| absurd[(index * step + 3) % absurd.len()]);
                let [red, ..] = picture.read(sampler, At::Float([x, y, z]));
                assert!(red.is_nan() || red.abs() < LARGEST, "{red} at {x}, {y}, {z} of kind {:#x}", kind.0);
            }
        }
    }
}
