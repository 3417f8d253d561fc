//! printf, as compiler and host agree on it (OpenCL C 1.2, 6.12.13): what a format says, what a kernel leaves in the
//! buffer, and the table by which the host reads it.
//!
//! The buffer begins with the offset of its next free byte (8 bytes, at first [`FIRST_RECORD`]); records follow. A call
//! adds its record's size to the offset and writes the record, if that ends within [`BUFFER_SIZE`]; else nothing is
//! written, and printf returns -1. A record is a sequence of 32-bit units: one more than the number of its format, then
//! the arguments' bytes in order, each from a unit of its own on (for [`Argument::Copied`] the length of the string), and
//! then the strings' bytes. Memory that no record was written to is zero.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Bytes of the buffer. What counts to applications is the text (CL_DEVICE_PRINTF_BUFFER_SIZE, a 16th of it): the record of
/// a number in one digit takes 12 bytes.
pub const BUFFER_SIZE: usize = 16 << 20;
/// Where the first record lies.
pub const FIRST_RECORD: usize = 8;
/// Bytes of a unit.
pub const UNIT: usize = 4;

/// What a kernel prints.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Printf {
    /// The calls that the kernel may reach, by their numbers.
    pub calls: BTreeMap<u32, Call>,
}

/// A call of printf in the program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Call {
    /// The format, without its NUL.
    pub format: Vec<u8>,
    /// The arguments that it converts.
    pub arguments: Vec<Argument>,
}

/// What a record has of an argument.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Argument {
    /// So many bytes of a number, vector or pointer.
    Bytes(u32),
    /// Nothing: a string that is known.
    Known(Vec<u8>),
    /// A string.
    Copied,
}

/// A part of a format.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Piece<'a> {
    /// To be printed as it is.
    Text(&'a [u8]),
    /// To be replaced by the next argument.
    Argument(Conversion),
}

/// What stands behind a `%`.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Conversion {
    /// `-`.
    pub left: bool,
    /// `+`.
    pub plus: bool,
    /// A space.
    pub space: bool,
    /// `#`.
    pub alternate: bool,
    /// `0`.
    pub zero: bool,
    /// The least number of characters; 0 without one.
    pub width: usize,
    /// Behind `.`.
    pub precision: Option<usize>,
    /// `v4` is 4; None for a scalar.
    pub lanes: Option<usize>,
    /// Bits that the length modifier leaves of an integer; None without one.
    pub bits: Option<u32>,
    /// `d`, `s`, ….
    pub letter: u8,
}

/// Widths and precisions beyond it count as this: what C demands of one conversion at most (C99, 7.19.6.1.15).
const MOST_PADDING: usize = 4095;

/// Length modifiers; `z` and `t`, which OpenCL C 1.2 doesn't have, as in C.
const MODIFIERS: [(&[u8], u32); 6] =
    [(b"hh", 8), (b"hl", 32), (b"h", 16), (b"l", 64), (b"z", 64), (b"t", 64)];

/// Takes a format apart. A conversion that OpenCL C doesn't have (which is undefined) is text.
pub fn pieces(format: &[u8]) -> Vec<Piece<'_>> {
    let mut list = Vec::new();
    let mut rest = format;
    while let Some(at) = rest.iter().position(|&byte| byte == b'%') {
        let (text, from) = rest.split_at(at);
        list.push(Piece::Text(text));
        rest = match Conversion::parse(&from[1..]) {
            Some((conversion, behind)) => {
                let is_percent = conversion.letter == b'%';
                list.push(if is_percent { Piece::Text(b"%") } else { Piece::Argument(conversion) });
                behind
            }
            None => {
                list.push(Piece::Text(b"%"));
                &from[1..]
            }
        };
    }
    list.push(Piece::Text(rest));
    list
}

/// The conversions that take an argument, in order.
pub fn conversions(format: &[u8]) -> Vec<Conversion> {
    let conversion = |piece| if let Piece::Argument(conversion) = piece { Some(conversion) } else { None };
    pieces(format).into_iter().filter_map(conversion).collect()
}

impl Conversion {
    /// The conversion at the start of `text`, and what follows it.
    fn parse(text: &[u8]) -> Option<(Conversion, &[u8])> {
        let mut this = Conversion::default();
        let mut rest = text;
        while let Some((&flag, behind)) = rest.split_first() {
            match flag {
                b'-' => this.left = true,
                b'+' => this.plus = true,
                b' ' => this.space = true,
                b'#' => this.alternate = true,
                b'0' => this.zero = true,
                _ => break,
            }
            rest = behind;
        }
        this.width = take_number(&mut rest);
        if take(&mut rest, b".") {
            this.precision = Some(take_number(&mut rest));
        }
        if take(&mut rest, b"v") {
            this.lanes = Some(take_number(&mut rest)).filter(|lanes| [2, 3, 4, 8, 16].contains(lanes));
            this.lanes?;
        }
        this.bits = MODIFIERS.iter().find_map(|(name, bits)| take(&mut rest, name).then_some(*bits));
        let (&letter, behind) = rest.split_first()?;
        this.letter = letter;
        let known: &[u8] = if this.lanes.is_some() { b"diouxXfFeEgGaA" } else { b"diouxXfFeEgGaAcsp%" };
        known.contains(&letter).then_some((this, behind))
    }
}

fn take(text: &mut &[u8], word: &[u8]) -> bool {
    let behind = text.strip_prefix(word);
    *text = behind.unwrap_or(text);
    behind.is_some()
}

/// A decimal number, 0 if there is none.
fn take_number(text: &mut &[u8]) -> usize {
    let mut number = 0;
    while let Some((digit @ b'0'..=b'9', behind)) = text.split_first() {
        number = (number * 10 + usize::from(digit - b'0')).min(MOST_PADDING);
        *text = behind;
    }
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_come_apart() {
        let format = b"a%%b%-+ #05.3v16hld%s%y%";
        let texts: Vec<u8> = pieces(format)
            .into_iter()
            .flat_map(|piece| if let Piece::Text(text) = piece { text.to_vec() } else { b"<>".to_vec() })
            .collect();
        assert_eq!(texts, b"a%b<><>%y%");
        let [number, string] = conversions(format)[..] else { panic!("two conversions") };
        let flags = [number.left, number.plus, number.space, number.alternate, number.zero];
        assert_eq!(flags, [true; 5]);
        let sizes = (number.width, number.precision, number.lanes, number.bits, number.letter);
        assert_eq!(sizes, (5, Some(3), Some(16), Some(32), b'd'));
        assert_eq!(string, Conversion { letter: b's', ..Conversion::default() });
    }

    #[test]
    fn modifiers_are_told_apart() {
        let bits = |text: &str| conversions(text.as_bytes()).iter().map(|c| c.bits).collect::<Vec<_>>();
        let all = [Some(8), Some(16), Some(32), Some(64), Some(64), Some(64), None];
        assert_eq!(bits("%hhd%hd%v2hld%ld%zu%td%d"), all);
    }
}
