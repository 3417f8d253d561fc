//! Writes: colors and integers of every format, and what stays as it is.

use super::*;

/// The largest value of a normalized channel.
fn unit(format: Format, channel: usize) -> Option<f64> {
    match (format.ty, format.packed) {
        (0x10D0, _) => Some(127.0),
        (0x10D1, _) => Some(32767.0),
        (0x10D2, _) => Some(255.0),
        (0x10D3, _) => Some(65535.0),
        (_, Some(widths)) => Some(f64::from((1u32 << widths[channel]) - 1)),
        _ => None,
    }
}

#[test]
fn colors_are_written_as_the_conversions_say() {
    let mut random = Random(4);
    for format in Format::all().into_iter().filter(|format| !format.is_integer()) {
        for kind in KINDS {
            let mut picture = Picture::new(format, kind, &mut random);
            for place in picture.places() {
                let before = picture.bytes.clone();
                let color: [f32; 4] = std::array::from_fn(|_| match random.below(12) {
                    0 => 0.0,
                    1 => 1.0,
                    2 => -1.0,
                    3 => 60000.0,
                    4 => -60000.0,
                    _ => random.below(1 << 20) as f32 / 400_000.0 - 1.3,
                });
                let image = picture.descriptor();
                let [x, y, z] = picture.coordinates(place.map(|index| index as i32), 77);
                let [r, g, b, a] = color;
                // SAFETY: the descriptor is of memory that `picture` owns.
                unsafe { spirula_write_imagef(&image, kind.0, x, y, z, r, g, b, a) };
                let offset = picture.offset(place);
                let texel = &picture.bytes[offset..offset + format.texel_size()];
                for (channel, (&raw, letter)) in
                    format.raw(texel).iter().zip(format.stored.chars()).enumerate()
                {
                    // What is in an unused channel doesn't matter.
                    let Some(component) = "rgba".find(letter) else { continue };
                    let given = f64::from(color[component]);
                    check_channel(format, channel, raw, given);
                }
                untouched(&before, &picture.bytes, offset, format.texel_size());
            }
        }
    }
}

fn check_channel(format: Format, channel: usize, raw: u32, given: f64) {
    let what = format!("{format:?} channel {channel}: {raw:#x} for {given}");
    match (unit(format, channel), format.ty) {
        (Some(unit), 0x10D0 | 0x10D1) => {
            let stored =
                if format.ty == 0x10D0 { f64::from(raw as u8 as i8) } else { f64::from(raw as u16 as i16) };
            assert!((stored - (given * unit).clamp(-unit - 1.0, unit)).abs() <= 0.51, "{what}");
        }
        (Some(unit), _) if format.is_srgb(channel) => {
            let given = given.clamp(0.0, 1.0);
            let exact = if given < 0.0031308 { 12.92 * given } else { 1.055 * given.powf(1.0 / 2.4) - 0.055 };
            assert!((f64::from(raw) - exact * unit).abs() <= 0.51, "{what}");
        }
        (Some(unit), _) => {
            assert!((f64::from(raw) - (given * unit).clamp(0.0, unit)).abs() <= 0.51, "{what}")
        }
        (None, 0x10DD) => {
            let bound = (given.abs() / 2048.0).max(2f64.powi(-25));
            assert!((half(raw) - given).abs() <= bound, "{what}");
        }
        _ => assert_eq!(f64::from(f32::from_bits(raw)), given, "{what}"),
    }
}

/// Only the texel has changed.
fn untouched(before: &[u8], after: &[u8], offset: usize, size: usize) {
    assert_eq!(before[..offset], after[..offset]);
    assert_eq!(before[offset + size..], after[offset + size..]);
}

#[test]
fn nans_become_zero_in_normalized_channels() {
    let mut random = Random(5);
    for format in Format::all().into_iter().filter(|format| unit(*format, 0).is_some()) {
        let mut picture = Picture::new(format, KINDS[2], &mut random);
        let image = picture.descriptor();
        let nan = f32::NAN;
        // SAFETY: the descriptor is of memory that `picture` owns.
        unsafe { spirula_write_imagef(&image, 2, 1, 1, 0, nan, nan, nan, nan) };
        let offset = picture.offset([1, 1, 0]);
        assert!(format.raw(&picture.bytes[offset..offset + format.texel_size()]).iter().all(|&raw| raw == 0));
    }
}

#[test]
fn integers_saturate() {
    let mut random = Random(6);
    for format in Format::all().into_iter().filter(|format| format.is_integer()) {
        let mut picture = Picture::new(format, KINDS[4], &mut random);
        for place in picture.places() {
            let before = picture.bytes.clone();
            let color: [u32; 4] = std::array::from_fn(|_| match random.below(3) {
                0 => random.below(400),
                1 => random.below(400).wrapping_neg(),
                _ => random.next() << 1,
            });
            let [x, y, z] = place.map(|index| index as i32);
            let ([r, g, b, a], image) = (color, picture.descriptor());
            let is_signed = format.ty <= 0x10D9;
            // SAFETY: the descriptor is of memory that `picture` owns.
            unsafe {
                match is_signed {
                    true => {
                        let [r, g, b, a] = color.map(|component| component as i32);
                        spirula_write_imagei(&image, 3, x, y, z, r, g, b, a);
                    }
                    false => spirula_write_imageui(&image, 3, x, y, z, r, g, b, a),
                }
            }
            let offset = picture.offset(place);
            let texel = picture.bytes[offset..offset + format.texel_size()].to_vec();
            for (channel, (raw, letter)) in
                format.raw(&texel).into_iter().zip(format.stored.chars()).enumerate()
            {
                let given = color["rgba".find(letter).expect("a letter")];
                let bits = 8 * format.bytes as u32;
                let expected = match is_signed {
                    true => i64::from(given as i32).clamp(-(1 << (bits - 1)), (1 << (bits - 1)) - 1),
                    false => i64::from(given).clamp(0, (1 << bits) - 1),
                };
                assert_eq!(format.value(raw, channel), expected as f64, "{format:?}");
            }
            untouched(&before, &picture.bytes, offset, format.texel_size());
        }
    }
}

#[test]
fn nothing_is_written_outside() {
    let mut random = Random(7);
    for format in Format::all() {
        for kind in KINDS {
            let mut picture = Picture::new(format, kind, &mut random);
            let (before, image) = (picture.bytes.clone(), picture.descriptor());
            let outside = |place: &[i64; 3]| !picture.is_inside(*place);
            let candidates = [-1, 0, 5, 1 << 31, -(1 << 31)]
                .into_iter()
                .flat_map(|x| [-1, 0, 3].into_iter().flat_map(move |y| [-1, 0, 4].map(|z| [x, y, z])));
            // An axis that the kind lacks has no outside.
            let (_, axes, is_array) = kind;
            let candidates = candidates
                .map(|[x, y, z]| [x, if axes < 2 { 0 } else { y }, if axes < 3 && !is_array { 0 } else { z }])
                .filter(outside);
            for place in candidates {
                let [x, y, z] = picture.coordinates(place.map(|index| index as i32), 77);
                // SAFETY: the descriptor is of memory that `picture` owns.
                unsafe {
                    spirula_write_imagef(&image, kind.0, x, y, z, 1.0, 2.0, 3.0, 4.0);
                    spirula_write_imagei(&image, kind.0, x, y, z, 1, 2, 3, 4);
                    spirula_write_imageui(&image, kind.0, x, y, z, 1, 2, 3, 4);
                }
            }
            assert_eq!(before, picture.bytes, "{format:?} kind {:#x}", kind.0);
        }
    }
}

#[test]
fn wrong_components_change_nothing_else() {
    let mut random = Random(8);
    for format in Format::all() {
        let mut picture = Picture::new(format, KINDS[2], &mut random);
        let (before, image) = (picture.bytes.clone(), picture.descriptor());
        // SAFETY: the descriptor is of memory that `picture` owns.
        unsafe {
            spirula_write_imagef(&image, 2, 1, 1, 0, 1.0, 2.0, 3.0, 4.0);
            spirula_write_imagei(&image, 2, 1, 1, 0, 1, 2, 3, 4);
            spirula_write_imageui(&image, 2, 1, 1, 0, 1, 2, 3, 4);
        }
        untouched(&before, &picture.bytes, picture.offset([1, 1, 0]), format.texel_size());
    }
}
