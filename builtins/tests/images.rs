//! Image reads and writes against small pictures whose results are known.

use spirula_builtins::image::ImageDescriptor;
use spirula_builtins::*;

const RGBA: u32 = 0x10B5;
const FLOAT: u32 = 0x10DE;
/// Kind numbers: axes, and 0x10 for arrays.
const IMAGE_1D: u32 = 1;
const IMAGE_2D: u32 = 2;
const IMAGE_3D: u32 = 3;
const ARRAY_1D: u32 = 0x11;
const ARRAY_2D: u32 = 0x12;

/// A picture in memory of its own.
struct Picture {
    bytes: Vec<u8>,
    descriptor: ImageDescriptor,
}

impl Picture {
    /// `size` is width, height, depth, layers.
    fn new(size: [u32; 4], order: u32, ty: u32, texel: usize) -> Picture {
        let [width, height, depth, array_size] = size;
        // Pitches with gaps, which must stay untouched.
        let row_pitch = (width as usize * texel + 4) as u64;
        let slice_pitch = row_pitch * u64::from(height) + 8;
        let mut bytes = vec![0xEE; slice_pitch as usize * (depth * array_size) as usize];
        let descriptor = ImageDescriptor {
            data: bytes.as_mut_ptr(),
            width,
            height,
            depth,
            array_size,
            row_pitch,
            slice_pitch,
            channel_order: order,
            channel_type: ty,
        };
        Picture { bytes, descriptor }
    }

    fn read(&self, sampler: u32, kind: u32, [x, y, z]: [i32; 3]) -> [f32; 4] {
        let mut colour = [0.0; 4];
        // SAFETY: the descriptor is of memory that `self` owns.
        unsafe { spirula_read_imagef_int(&self.descriptor, sampler, kind, x, y, z, colour.as_mut_ptr()) };
        colour
    }

    fn sample(&self, sampler: u32, kind: u32, [x, y, z]: [f32; 3]) -> [f32; 4] {
        let mut colour = [0.0; 4];
        // SAFETY: the descriptor is of memory that `self` owns.
        unsafe { spirula_read_imagef_float(&self.descriptor, sampler, kind, x, y, z, colour.as_mut_ptr()) };
        colour
    }

    fn write(&mut self, kind: u32, [x, y, z]: [i32; 3], [r, g, b, a]: [f32; 4]) {
        // SAFETY: the descriptor is of memory that `self` owns.
        unsafe { spirula_write_imagef(&self.descriptor, kind, x, y, z, r, g, b, a) };
    }
}

/// Every texel's red is its index, over all kinds.
fn numbered(size: [u32; 4], kind: u32) -> Picture {
    let mut picture = Picture::new(size, RGBA, FLOAT, 16);
    let [width, height, depth, layers] = size.map(|n| n as i32);
    for z in 0..depth * layers {
        for y in 0..height {
            for x in 0..width {
                let place = if kind == ARRAY_1D { [x, z, 0] } else { [x, y, z] };
                picture.write(kind, place, [(x + width * (y + height * z)) as f32, 1.0, 0.5, 0.25]);
            }
        }
    }
    picture
}

#[test]
fn every_kind_finds_its_texels() {
    let cases = [
        (IMAGE_1D, [5, 1, 1, 1], [3, 9, 9], 3.0),
        (ARRAY_1D, [5, 1, 1, 4], [3, 2, 9], 13.0),
        (IMAGE_2D, [5, 4, 1, 1], [3, 2, 9], 13.0),
        (ARRAY_2D, [5, 4, 1, 3], [3, 2, 1], 33.0),
        (IMAGE_3D, [5, 4, 3, 1], [3, 2, 2], 53.0),
    ];
    for (kind, size, place, value) in cases {
        let picture = numbered(size, kind);
        assert_eq!(picture.read(0x10, kind, place), [value, 1.0, 0.5, 0.25], "kind {kind:#x}");
        let centre = place.map(|n| n as f32);
        // An array's layer is rounded, the others floored.
        let offset = if kind >= 0x10 { 0.25 } else { 0.75 };
        assert_eq!(picture.sample(0x12, kind, centre.map(|n| n + offset))[0], value, "kind {kind:#x}");
        assert!(picture.bytes.iter().filter(|&&b| b == 0xEE).count() >= 4, "gaps are kept");
    }
}

#[test]
fn outside_is_edge_or_border() {
    let picture = numbered([4, 3, 1, 1], IMAGE_2D);
    assert_eq!(picture.read(0x12, IMAGE_2D, [-5, 7, 0])[0], 8.0);
    assert_eq!(picture.read(0x14, IMAGE_2D, [-1, 1, 0]), [0.0; 4]);
    assert_eq!(picture.read(0x14, IMAGE_2D, [i32::MAX, i32::MIN, 0]), [0.0; 4]);
    assert_eq!(picture.sample(0x17, IMAGE_2D, [1.25, -0.9, 0.0])[0], 1.0);
    assert_eq!(picture.sample(0x19, IMAGE_2D, [1.25, -0.1, 0.0])[0], 2.0 + 1.0);
    let opaque = Picture::new([2, 2, 1, 1], 0x10B0, FLOAT, 4);
    assert_eq!(opaque.read(0x14, IMAGE_2D, [2, 0, 0]), [0.0, 0.0, 0.0, 1.0]);
}

#[test]
fn linear_filters_blend_their_neighbours() {
    let picture = numbered([4, 3, 1, 1], IMAGE_2D);
    assert_eq!(picture.sample(0x22, IMAGE_2D, [1.5, 1.5, 0.0])[0], 5.0);
    assert_eq!(picture.sample(0x22, IMAGE_2D, [2.0, 1.0, 0.0])[0], 3.5);
    assert_eq!(picture.sample(0x22, IMAGE_2D, [-9.0, 1.25, 0.0])[0], 3.0);
    assert_eq!(picture.sample(0x24, IMAGE_2D, [0.0, 0.5, 0.0]), [0.0, 0.5, 0.25, 0.125]);
    assert_eq!(picture.sample(0x23, IMAGE_2D, [0.5, 0.5, 0.0])[0], 5.5);
    assert_eq!(picture.sample(0x27, IMAGE_2D, [0.0, 0.5, 0.0])[0], 5.5);
    let volume = numbered([2, 2, 2, 1], IMAGE_3D);
    assert_eq!(volume.sample(0x22, IMAGE_3D, [1.0, 1.0, 1.0])[0], 3.5);
}

/// Order, type, bytes of a texel, colour written, bytes expected, colour read.
type Format = (u32, u32, &'static [u8], [f32; 4], [f32; 4]);

#[test]
fn formats_are_encoded_and_decoded() {
    let formats: [Format; 16] = [
        (RGBA, 0x10D2, &[255, 0, 128, 51], [1.0, -1.0, 0.501, 0.2], [1.0, 0.0, 128.0 / 255.0, 0.2]),
        (0x10B6, 0x10D2, &[128, 0, 255, 51], [1.0, -1.0, 0.501, 0.2], [1.0, 0.0, 128.0 / 255.0, 0.2]),
        (0x10B7, 0x10D2, &[51, 255, 0, 0], [9.0, f32::NAN, 0.0, 0.2], [1.0, 0.0, 0.0, 0.2]),
        (0x10B0, 0x10D2, &[255], [1.0, 0.5, 0.5, 0.5], [1.0, 0.0, 0.0, 1.0]),
        (0x10B1, 0x10D2, &[51], [1.0, 0.5, 0.5, 0.2], [0.0, 0.0, 0.0, 0.2]),
        (0x10B2, 0x10D3, &[255, 255, 51, 51], [1.0, 0.2, 0.5, 0.5], [1.0, 0.2, 0.0, 1.0]),
        (0x10B3, 0x10D3, &[255, 255, 51, 51], [1.0, 0.5, 0.5, 0.2], [1.0, 0.0, 0.0, 0.2]),
        (0x10B8, 0x10D2, &[51], [0.2, 0.5, 0.5, 0.9], [0.2; 4]),
        (0x10B9, 0x10D2, &[51], [0.2, 0.5, 0.5, 0.9], [0.2, 0.2, 0.2, 1.0]),
        (0x10B2, 0x10D0, &[127, 129], [1.0, -1.0, 0.0, 0.0], [1.0, -1.0, 0.0, 1.0]),
        (0x10B0, 0x10D1, &[1, 128], [-1.0, 0.0, 0.0, 0.0], [-1.0, 0.0, 0.0, 1.0]),
        (0x10B4, 0x10D4, &[0x1F, 0xF8], [1.0, 0.0, 1.0, 0.0], [1.0, 0.0, 1.0, 1.0]),
        (0x10B4, 0x10D5, &[0xE0, 0x03], [0.0, 1.0, 0.0, 0.0], [0.0, 1.0, 0.0, 1.0]),
        (0x10B4, 0x10D6, &[0xFF, 0x03, 0xF0, 0x3F], [1.0, 0.0, 1.0, 0.0], [1.0, 0.0, 1.0, 1.0]),
        (0x10B2, 0x10DD, &[0, 0x3C, 0, 0xC0], [1.0, -2.0, 0.0, 0.0], [1.0, -2.0, 0.0, 1.0]),
        (0x10B0, FLOAT, &[0, 0, 0x80, 0x3F], [1.0, 0.0, 0.0, 0.0], [1.0, 0.0, 0.0, 1.0]),
    ];
    for (order, ty, bytes, written, read) in formats {
        let mut picture = Picture::new([3, 2, 1, 1], order, ty, bytes.len());
        if (0x10D4..=0x10D6).contains(&ty) {
            // Unused bits keep what they were.
            picture.bytes.fill(0);
        }
        picture.write(IMAGE_2D, [1, 1, 0], written);
        let start = picture.descriptor.row_pitch as usize + bytes.len();
        assert_eq!(&picture.bytes[start..start + bytes.len()], bytes, "{order:#x} {ty:#x}");
        assert_eq!(picture.read(0x12, IMAGE_2D, [1, 1, 0]), read, "{order:#x} {ty:#x}");
        picture.write(IMAGE_2D, [3, 1, 0], written);
        picture.write(IMAGE_2D, [-1, 0, 0], written);
        let untouched = picture.bytes[start + bytes.len()..].iter().all(|&b| b == 0xEE || b == 0);
        assert!(untouched, "writes outside are ignored: {order:#x} {ty:#x}");
    }
}

#[test]
fn integers_saturate_and_are_not_scaled() {
    let cases: [(u32, usize, [i32; 4], [i32; 4]); 3] = [
        (0x10D7, 4, [300, -300, 5, -5], [127, -128, 5, -5]),
        (0x10D8, 8, [40000, -40000, 5, -5], [32767, -32768, 5, -5]),
        (0x10D9, 16, [i32::MAX, i32::MIN, 5, -5], [i32::MAX, i32::MIN, 5, -5]),
    ];
    for (ty, size, [r, g, b, a], expected) in cases {
        let picture = Picture::new([2, 2, 1, 1], RGBA, ty, size);
        let mut colour = [0; 4];
        // SAFETY: the descriptor is of memory that `picture` owns.
        unsafe {
            spirula_write_imagei(&picture.descriptor, IMAGE_2D, 1, 1, 0, r, g, b, a);
            spirula_read_imagei_int(&picture.descriptor, 0x10, IMAGE_2D, 1, 1, 0, colour.as_mut_ptr());
        }
        assert_eq!(colour, expected);
    }
    for (ty, size, largest) in [(0x10DA, 4, 255), (0x10DB, 8, 65535), (0x10DC, 16, u32::MAX)] {
        let picture = Picture::new([2, 2, 1, 1], RGBA, ty, size);
        let mut colour = [0; 4];
        // SAFETY: the descriptor is of memory that `picture` owns.
        unsafe {
            spirula_write_imageui(&picture.descriptor, IMAGE_2D, 0, 1, 0, u32::MAX, 7, 0, 1);
            spirula_read_imageui_float(
                &picture.descriptor,
                0x12,
                IMAGE_2D,
                0.5,
                9.0,
                0.0,
                colour.as_mut_ptr(),
            );
        }
        assert_eq!(colour, [largest, 7, 0, 1]);
    }
}

/// Undefined by the specification, and what programs expect that keep other numbers in images of floats.
#[test]
fn integers_of_float_images_are_their_bits() {
    const RG: u32 = 0x10B2;
    let bits: [u32; 4] = [0x7ff0_0001, 0x8000_0000, 1, 0x4049_0fdb];
    for (order, texel) in [(RGBA, 16), (RG, 8)] {
        let picture = Picture::new([2, 2, 1, 1], order, FLOAT, texel);
        let (mut signed, mut unsigned) = ([0; 4], [0; 4]);
        let [r, g, b, a] = bits.map(|bits| bits as i32);
        // SAFETY: the descriptor is of memory that `picture` owns.
        unsafe {
            spirula_write_imagei(&picture.descriptor, IMAGE_2D, 1, 1, 0, r, g, b, a);
            spirula_read_imagei_int(&picture.descriptor, 0x10, IMAGE_2D, 1, 1, 0, signed.as_mut_ptr());
            spirula_read_imageui_float(
                &picture.descriptor,
                0x12,
                IMAGE_2D,
                1.5,
                1.5,
                0.0,
                unsigned.as_mut_ptr(),
            );
        }
        let expected = if order == RGBA { bits } else { [bits[0], bits[1], 0, 1] };
        assert_eq!((unsigned, signed.map(|number| number as u32)), (expected, expected));
    }
}
