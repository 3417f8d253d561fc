//! printf's text: a format string and the arguments' bytes, as a kernel stored them, to what C would print
//! (OpenCL C 1.2, 6.12.13). No allocation depends on the application but by widths and precisions, which are bounded.

mod number;
#[cfg(test)]
mod tests;

use spirula_interface::printf::{Conversion, Piece, pieces};
use std::iter::repeat_n;

/// The value of a call's argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value<'a> {
    /// A number, vector or pointer: little-endian, 1 to 8 bytes an element. Three-component vectors may have a fourth.
    Bytes(&'a [u8]),
    /// A string, without its NUL.
    Text(&'a [u8]),
}

/// Appends what a call prints. A conversion that OpenCL C doesn't have is copied as it stands; one without an argument of
/// its kind prints nothing. (Both are undefined.)
pub fn format(text: &[u8], arguments: &[Value], out: &mut Vec<u8>) {
    let mut arguments = arguments.iter();
    for piece in pieces(text) {
        match piece {
            Piece::Text(text) => out.extend_from_slice(text),
            Piece::Argument(conversion) => {
                arguments.next().into_iter().for_each(|argument| Printer(conversion).print(*argument, out))
            }
        }
    }
}

/// Prints arguments as a conversion says.
struct Printer(Conversion);

impl Printer {
    fn print(&self, argument: Value, out: &mut Vec<u8>) {
        match (argument, self.0.lanes) {
            (Value::Text(text), _) if self.0.letter == b's' => {
                let shown = self.0.precision.unwrap_or(text.len()).min(text.len());
                self.pad(b"", &text[..shown], false, out);
            }
            (Value::Bytes(bytes), None) => self.print_element(bytes, out),
            (Value::Bytes(bytes), Some(lanes)) => {
                // A padded vector of three has more than a third for each.
                let size = (bytes.len() / lanes).checked_ilog2().map_or(0, |log| 1 << log);
                for (lane, element) in bytes.chunks(size.max(1)).take(lanes).enumerate() {
                    if lane > 0 {
                        out.push(b',');
                    }
                    self.print_element(element, out);
                }
            }
            _ => {}
        }
    }

    fn print_element(&self, bytes: &[u8], out: &mut Vec<u8>) {
        // Scalars are promoted on their way here, vectors' elements are as wide as their modifier says.
        let default = if self.0.lanes.is_some() { 64 } else { 32 };
        let bits = self.0.bits.unwrap_or(default).min(8 * bytes.len().min(8) as u32);
        match self.0.letter {
            _ if bits == 0 => {}
            b'd' | b'i' => {
                let value = number::signed(bytes, bits);
                self.integer(self.sign(value < 0), value.unsigned_abs().to_string(), out);
            }
            b'u' => self.integer("", number::unsigned(bytes, bits).to_string(), out),
            b'o' => {
                let digits = format!("{:o}", number::unsigned(bytes, bits));
                let has_zero = digits == "0" || self.0.precision.is_some_and(|least| least > digits.len());
                match self.0.alternate && (!has_zero || self.0.precision == Some(0)) {
                    true if digits != "0" => self.integer("", format!("0{digits}"), out),
                    true => self.pad(b"", b"0", false, out),
                    false => self.integer("", digits, out),
                }
            }
            b'x' | b'X' => {
                let value = number::unsigned(bytes, bits);
                let upper = self.0.letter == b'X';
                let digits = if upper { format!("{value:X}") } else { format!("{value:x}") };
                let prefix = if upper { "0X" } else { "0x" };
                self.integer(if self.0.alternate && value != 0 { prefix } else { "" }, digits, out);
            }
            b'p' => match number::unsigned(bytes, 64) {
                0 => self.pad(b"", b"(nil)", false, out),
                address => self.pad(b"", format!("{address:#x}").as_bytes(), false, out),
            },
            b'c' => self.pad(b"", &bytes[..1], false, out),
            // The string wasn't known: a pointer of another kind is undefined.
            b's' => {}
            _ => self.float(number::float(bytes), out),
        }
    }

    fn sign(&self, negative: bool) -> &'static str {
        match () {
            () if negative => "-",
            () if self.0.plus => "+",
            () if self.0.space => " ",
            () => "",
        }
    }

    /// Digits of an integer behind its sign or prefix. A precision is the least number of digits; then `0` means nothing.
    fn integer(&self, prefix: &str, digits: String, out: &mut Vec<u8>) {
        let digits = match self.0.precision {
            Some(0) if digits == "0" => String::new(),
            Some(least) => format!("{digits:0>least$}"),
            None => digits,
        };
        self.pad(prefix.as_bytes(), digits.as_bytes(), self.0.precision.is_none(), out);
    }

    fn float(&self, value: f64, out: &mut Vec<u8>) {
        let sign = self.sign(value.is_sign_negative());
        let (mut prefix, mut digits) = (sign.to_string(), String::new());
        let magnitude = value.abs();
        match self.0.letter.to_ascii_lowercase() {
            _ if value.is_nan() => digits.push_str("nan"),
            _ if value.is_infinite() => digits.push_str("inf"),
            b'a' => {
                prefix.push_str("0x");
                digits = number::hexadecimal(magnitude, self.0.precision, self.0.alternate);
            }
            b'e' => digits = number::exponential(magnitude, self.0.precision.unwrap_or(6), self.0.alternate),
            b'g' => digits = number::general(magnitude, self.0.precision.unwrap_or(6), self.0.alternate),
            _ => digits = number::fixed(magnitude, self.0.precision.unwrap_or(6), self.0.alternate),
        }
        if self.0.letter.is_ascii_uppercase() {
            prefix.make_ascii_uppercase();
            digits.make_ascii_uppercase();
        }
        self.pad(prefix.as_bytes(), digits.as_bytes(), value.is_finite(), out);
    }

    /// `prefix` and `body` in the field; `0` puts its zeros between them if `zeros` may stand there.
    fn pad(&self, prefix: &[u8], body: &[u8], zeros: bool, out: &mut Vec<u8>) {
        let missing = self.0.width.saturating_sub(prefix.len() + body.len());
        let zeros = zeros && self.0.zero && !self.0.left;
        let count = |wanted: bool| if wanted { missing } else { 0 };
        out.extend(repeat_n(b' ', count(!self.0.left && !zeros)));
        out.extend_from_slice(prefix);
        out.extend(repeat_n(b'0', count(zeros)));
        out.extend_from_slice(body);
        out.extend(repeat_n(b' ', count(self.0.left)));
    }
}
