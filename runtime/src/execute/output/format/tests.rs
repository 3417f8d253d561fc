//! The formatter against the C library's `snprintf`, and what C doesn't have.

#![allow(unsafe_code)]

use super::{Value, format};
use std::ffi::{CString, c_char, c_int};

unsafe extern "C" {
    fn snprintf(buffer: *mut c_char, size: usize, format: *const c_char, ...) -> c_int;
}

/// What C prints for one argument.
macro_rules! c {
    ($format:expr, $value:expr) => {{
        let format = CString::new($format).unwrap();
        let mut buffer = vec![0u8; 8192];
        // SAFETY: the buffer has its size, the format is terminated and has one conversion for this argument.
        let length = unsafe { snprintf(buffer.as_mut_ptr().cast(), buffer.len(), format.as_ptr(), $value) };
        buffer.truncate(length as usize);
        String::from_utf8_lossy(&buffer).into_owned()
    }};
}

fn ours(text: &str, arguments: &[Value]) -> String {
    let mut out = Vec::new();
    format(text.as_bytes(), arguments, &mut out);
    String::from_utf8_lossy(&out).into_owned()
}

fn one(text: &str, bytes: &[u8]) -> String {
    ours(text, &[Value::Bytes(bytes)])
}

const WIDTHS: [&str; 6] = ["", "1", "5", "12", "30", "400"];
const PRECISIONS: [&str; 9] = ["", ".", ".0", ".1", ".2", ".5", ".13", ".17", ".350"];

/// All 32 sets of flags.
fn flags() -> impl Iterator<Item = String> {
    (0..32)
        .map(|set| "-+ #0".chars().enumerate().filter(|(i, _)| set >> i & 1 == 1).map(|(_, c)| c).collect())
}

/// Every format of one of these letters: `%[flags][width][precision]` + `length` + letter.
fn formats(length: &str, letters: &str) -> Vec<String> {
    let mut list = Vec::new();
    for flags in flags() {
        for (width, precision) in WIDTHS.iter().flat_map(|w| PRECISIONS.iter().map(move |p| (w, p))) {
            list.extend(
                letters.chars().map(|letter| format!("[%{flags}{width}{precision}{length}{letter}]")),
            );
        }
    }
    list
}

#[test]
fn integers_are_printed_as_c_does() {
    for value in [0, 1, -1, 7, 8, -42, 48879, i64::from(i32::MIN), i64::MAX, i64::MIN, 0x8180, -129] {
        for format in formats("l", "diouxX") {
            assert_eq!(one(&format, &value.to_le_bytes()), c!(format.as_str(), value), "{format} of {value}");
        }
        for length in ["", "h", "hh"] {
            for format in formats(length, "diouxX") {
                let value = value as i32;
                assert_eq!(
                    one(&format, &value.to_le_bytes()),
                    c!(format.as_str(), value),
                    "{format} of {value}"
                );
            }
        }
    }
}

#[test]
fn floats_are_printed_as_c_does() {
    let mut values = vec![
        0.0,
        1.0,
        0.5,
        1.5,
        2.5,
        0.125,
        0.25,
        9.5,
        99.5,
        9.9999995,
        999999.5,
        1e5,
        1e6,
        123456789.0,
        1e-4,
        9.99995e-5,
        1e22,
        1e23,
        1.9375,
        1.03125,
        0.1,
        1234.5678,
        3.25,
        f64::MAX,
        f64::MIN_POSITIVE,
        5e-324,
        1e-310,
        f64::INFINITY,
        f64::NAN,
        1e100,
        1e-100,
        f64::from(1.1f32),
        f64::EPSILON,
    ];
    let mut state = 1u64;
    values.extend((0..40).map(|_| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        f64::from_bits(state)
    }));
    let (mut compared, mut exempt) = (0, 0);
    for value in values.iter().flat_map(|&value| [value, -value]) {
        for format in formats("", "fFeEgGaA") {
            let printed = one(&format, &value.to_le_bytes());
            if loses_zeros(&format, value, &printed) {
                exempt += 1;
                continue;
            }
            compared += 1;
            assert_eq!(printed, c!(format.as_str(), value), "{format} of {value:e}");
        }
    }
    assert!(exempt * 100 < compared, "{exempt} of {compared}");
}

/// Whether glibc (2.36) errs here: with `%#g` it drops zeros that `#` keeps when rounding yields another power of ten.
fn loses_zeros(format: &str, value: f64, printed: &str) -> bool {
    let first = |text: &str| text.chars().find(|c| ('1'..='9').contains(c));
    let is_general = format.contains('#') && format.to_ascii_lowercase().ends_with("g]");
    is_general && first(&format!("{value:e}")) == Some('9') && first(printed) == Some('1')
}

#[test]
fn general_notation_keeps_zeros_after_a_carry() {
    assert_eq!(one("%#.2g", &99.5f64.to_le_bytes()), "1.0e+02");
    assert_eq!(one("%#.3g", &99.96f64.to_le_bytes()), "100.");
    assert_eq!(one("%.2g", &99.5f64.to_le_bytes()), "1e+02");
    assert_eq!(one("%#g", &0.99999999f64.to_le_bytes()), "1.00000");
}

#[test]
fn characters_strings_and_pointers_are_printed_as_c_does() {
    for flags in ["", "-"] {
        for width in WIDTHS {
            let format = format!("[%{flags}{width}c]");
            assert_eq!(one(&format, &113i32.to_le_bytes()), c!(format.as_str(), 113));
            let format = format!("[%{flags}{width}p]");
            for address in [0usize, 0x7fff_1234] {
                assert_eq!(one(&format, &address.to_le_bytes()), c!(format.as_str(), address));
            }
            for precision in PRECISIONS {
                let format = format!("[%{flags}{width}{precision}s]");
                let text = c"cut off";
                let printed = ours(&format, &[Value::Text(text.to_bytes())]);
                assert_eq!(printed, c!(format.as_str(), text.as_ptr()), "{format}");
            }
        }
    }
}

fn bytes<T: Copy, const N: usize>(values: &[T], le: impl Fn(T) -> [u8; N]) -> Vec<u8> {
    values.iter().flat_map(|&value| le(value)).collect()
}

#[test]
fn vectors_have_commas() {
    let floats = bytes(&[1.0f32, 2.5, -3.0, 0.125], f32::to_le_bytes);
    assert_eq!(one("%v4f", &floats), "1.000000,2.500000,-3.000000,0.125000");
    assert_eq!(one("%.1v4hlf|", &floats), "1.0,2.5,-3.0,0.1|");
    assert_eq!(one("%v4hhx", &[1, 20, 255, 0]), "1,14,ff,0");
    assert_eq!(one("%v4hhd", &[1, 20, 255, 0]), "1,20,-1,0");
    assert_eq!(one("%3v2hd", &bytes(&[-5i16, 600], i16::to_le_bytes)), " -5,600");
    assert_eq!(one("%v2ld", &bytes(&[i64::MIN, 2], i64::to_le_bytes)), "-9223372036854775808,2");
    assert_eq!(one("%v2lg", &bytes(&[0.1f64, 2e9], f64::to_le_bytes)), "0.1,2e+09");
    assert_eq!(one("%v2hf", &[0x00, 0x3c, 0x01, 0x80]), "1.000000,-0.000000");
    let sixteen: Vec<u8> = (0..16).collect();
    assert_eq!(one("%v16hhu", &sixteen), "0,1,2,3,4,5,6,7,8,9,10,11,12,13,14,15");
}

#[test]
fn vectors_of_three_may_be_padded() {
    let padded = bytes(&[7, -8, 9, 99], i32::to_le_bytes);
    assert_eq!(one("%v3hld", &padded), "7,-8,9");
    assert_eq!(one("%v3d", &padded[..12]), "7,-8,9");
    assert_eq!(
        one("%v3lf", &bytes(&[1.0f64, 2.0, 3.0, 9.0], f64::to_le_bytes)),
        "1.000000,2.000000,3.000000"
    );
}

#[test]
fn what_is_undefined_is_harmless() {
    for (text, printed) in [
        ("%", "%"),
        ("100%", "100%"),
        ("%5", "%5"),
        ("%y", "%y"),
        ("%*d", "%*d"),
        ("%v5d", "%v5d"),
        ("%vd", "%vd"),
        ("%v4s", "%v4s"),
        ("%d", ""),
        ("a%%b", "a%b"),
        ("", ""),
    ] {
        assert_eq!(ours(text, &[]), printed, "{text}");
    }
    for letter in "diouxXfFeEgGaAcsp".chars() {
        for lanes in ["", "v16"] {
            for length in 0..9 {
                one(&format!("%{lanes}{letter}"), &[0xff; 9][..length]);
            }
        }
        ours(&format!("%{letter}"), &[Value::Text(b"x")]);
    }
    let wide = one("%99999999999999999999.99999999999999999999d", &[1, 0, 0, 0]);
    assert_eq!(wide.len(), 4095);
    assert_eq!(one("%.99999999f", &1f64.to_le_bytes()).len(), 4097);
}

/// The texts of the cases `spir12_printf*`, with arguments as clang passes them: promoted, vectors as they are.
#[test]
fn the_fixtures_texts_are_right() {
    let [a, b] = [(-42i32).to_le_bytes(), 48879u32.to_le_bytes()];
    let call = |text: &str, list: &[&[u8]]| {
        ours(text, &list.iter().map(|bytes| Value::Bytes(bytes)).collect::<Vec<_>>())
    };
    assert_eq!(
        call("a=%d b=%u x=%x X=%#X o=%o\n", &[&a, &b, &b, &b, &b]),
        "a=-42 b=48879 x=beef X=0XBEEF o=137357\n"
    );
    assert_eq!(
        call("[%5d] [%-5d] [%05d] [%+d] [% d] [%.3d]\n", &[a.as_slice(); 6]),
        "[  -42] [-42  ] [-0042] [-42] [-42] [-042]\n"
    );
    let (c, d, z) = ((-1099511627776i64).to_le_bytes(), 113i32.to_le_bytes(), 90i32.to_le_bytes());
    assert_eq!(
        call("%ld %lx %hd %hhd %c%c %%\n", &[&c, &c, &a, &d, &d, &z]),
        "-1099511627776 ffffff0000000000 -42 113 qZ %\n"
    );
    let (g, one) = ((-1234.5678f64).to_le_bytes(), 1f64.to_le_bytes());
    assert_eq!(call("%8.3f|%-8.1f|%+.0f|%a\n", &[&g, &g, &g, &one]), "-1234.568|-1234.6 |-1235|0x1p+0\n");
    let words = [b"lit".as_slice(), b"right", b"left", b"cut off"].map(Value::Text);
    assert_eq!(ours("%s|%10s|%-6s|%.3s\n", &words), "lit|     right|left  |cut\n");
    let f = bytes(&[1.0f32, 2.5, -3.0, 0.125], f32::to_le_bytes);
    assert_eq!(call("%.1v4f|%v4g\n", &[&f, &f]), "1.0,2.5,-3.0,0.1|1,2.5,-3,0.125\n");
    let pair = bytes(&[1.255f32, 10.0], f32::to_le_bytes);
    assert_eq!(call("%v4hhx %2.2v2f\n", &[&[1, 20, 255, 0], &pair]), "1,14,ff,0 1.25,10.00\n");
}
