//! Numbers of `cases.json` as bytes in memory, and how results are compared with them.

use super::schema::Tolerance;
use half::f16;
use serde::{Deserialize, Deserializer, de};
use std::cmp::Ordering;

/// An element type of buffers, images and scalars.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
#[allow(missing_docs)]
pub enum Element {
    Char,
    Uchar,
    Short,
    Ushort,
    Int,
    Uint,
    Long,
    Ulong,
    Half,
    Float,
    Double,
}

/// A number, exact for 64-bit integers.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Number {
    Integer(i128),
    Float(f64),
}

impl Number {
    /// Its value as a double.
    pub fn float(self) -> f64 {
        match self {
            Number::Integer(i) => i as f64,
            Number::Float(f) => f,
        }
    }

    /// Its value as an integer, towards zero.
    pub fn integer(self) -> i128 {
        match self {
            Number::Integer(i) => i,
            Number::Float(f) => f as i128,
        }
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Number, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Json {
            Unsigned(u64),
            Signed(i64),
            Float(f64),
            Name(String),
        }
        Ok(match Json::deserialize(deserializer)? {
            Json::Unsigned(u) => Number::Integer(u.into()),
            Json::Signed(i) => Number::Integer(i.into()),
            Json::Float(f) => Number::Float(f),
            Json::Name(name) => Number::Float(match name.as_str() {
                "nan" => f64::NAN,
                "inf" => f64::INFINITY,
                "-inf" => f64::NEG_INFINITY,
                other => return Err(de::Error::custom(format!("{other:?} is no number"))),
            }),
        })
    }
}

macro_rules! elements {
    ($($variant:ident $name:literal $type:ty, $encode:expr, $decode:expr;)*) => {
        impl Element {
            /// The type of this name.
            pub fn named(name: &str) -> Option<Element> {
                match name { $($name => Some(Element::$variant),)* _ => None }
            }

            /// Bytes of one.
            pub fn size(self) -> usize {
                match self { $(Element::$variant => size_of::<$type>(),)* }
            }

            /// A number's bytes, rounded or wrapped to this type.
            pub fn encode(self, number: Number) -> Vec<u8> {
                match self { $(Element::$variant => <$type>::to_le_bytes($encode(number)).to_vec(),)* }
            }

            /// The number in these bytes.
            fn decode(self, bytes: &[u8]) -> Number {
                match self { $(Element::$variant => {
                    $decode(<$type>::from_le_bytes(bytes.try_into().expect("an element's bytes")))
                })* }
            }
        }
    };
}

fn exact<T: Into<i128>>(value: T) -> Number {
    Number::Integer(value.into())
}

fn float<T: Into<f64>>(value: T) -> Number {
    Number::Float(value.into())
}

elements! {
    Char "char" i8, |n: Number| n.integer() as i8, exact;
    Uchar "uchar" u8, |n: Number| n.integer() as u8, exact;
    Short "short" i16, |n: Number| n.integer() as i16, exact;
    Ushort "ushort" u16, |n: Number| n.integer() as u16, exact;
    Int "int" i32, |n: Number| n.integer() as i32, exact;
    Uint "uint" u32, |n: Number| n.integer() as u32, exact;
    Long "long" i64, |n: Number| n.integer() as i64, exact;
    Ulong "ulong" u64, |n: Number| n.integer() as u64, exact;
    Half "half" f16, |n: Number| f16::from_f64(n.float()), float;
    Float "float" f32, |n: Number| n.float() as f32, float;
    Double "double" f64, |n: Number| n.float(), float;
}

impl Element {
    /// The numbers that `bytes` hold.
    pub fn decode_all(self, bytes: &[u8]) -> Vec<Number> {
        bytes.chunks_exact(self.size()).map(|chunk| self.decode(chunk)).collect()
    }

    /// The smallest normal exponent and the explicit mantissa bits, for floating-point types.
    fn format(self) -> Option<(i32, i32)> {
        match self {
            Element::Half => Some((-14, 10)),
            Element::Float => Some((-126, 23)),
            Element::Double => Some((-1022, 52)),
            _ => None,
        }
    }

    /// Whether `got` may stand where `expected` is wanted.
    fn agrees(self, got: Number, expected: Number, tolerance: &Tolerance) -> bool {
        let Some((smallest, mantissa)) = self.format() else {
            return got.integer() == expected.integer();
        };
        let (got, expected) = (got.float(), expected.float());
        if expected.is_nan() {
            return got.is_nan();
        }
        if got == expected {
            return !tolerance.signed_zero || got.is_sign_negative() == expected.is_sign_negative();
        }
        if !got.is_finite() || !expected.is_finite() {
            return false;
        }
        let error = (got - expected).abs();
        let exponent =
            if expected == 0.0 { smallest } else { (expected.abs().log2().floor() as i32).max(smallest) };
        error <= tolerance.abs || error <= tolerance.ulp * 2f64.powi(exponent - mantissa)
    }

    /// Compares a memory object's bytes with what is expected; the error names the first few wrong elements.
    pub fn compare(
        self,
        got: &[u8],
        expected: &[Option<Number>],
        tolerance: &Tolerance,
    ) -> Result<(), String> {
        let mut got = self.decode_all(got);
        let mut expected = expected.to_vec();
        if got.len() < expected.len() {
            return Err(format!("{} elements, {} expected", got.len(), expected.len()));
        }
        got.truncate(expected.len());
        if tolerance.sorted {
            got.sort_by(|a, b| order(*a, *b));
            expected.sort_by(|a, b| a.zip(*b).map_or(Ordering::Equal, |(a, b)| order(a, b)));
        }
        let wrong: Vec<String> = got
            .iter()
            .zip(&expected)
            .enumerate()
            .filter_map(|(i, (g, e))| e.filter(|e| !self.agrees(*g, *e, tolerance)).map(|e| (i, *g, e)))
            .map(|(i, g, e)| format!("[{i}] got {}, expected {}", show(g), show(e)))
            .collect();
        match wrong.len() {
            0 => Ok(()),
            n if n > 4 => Err(format!("{} and {} more", wrong[..4].join("; "), n - 4)),
            _ => Err(wrong.join("; ")),
        }
    }
}

fn order(a: Number, b: Number) -> Ordering {
    match (a, b) {
        (Number::Integer(a), Number::Integer(b)) => a.cmp(&b),
        _ => a.float().total_cmp(&b.float()),
    }
}

fn show(number: Number) -> String {
    match number {
        Number::Integer(i) => i.to_string(),
        Number::Float(f) => format!("{f:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agrees(element: Element, got: f64, expected: f64, tolerance: Tolerance) -> bool {
        element.agrees(Number::Float(got), Number::Float(expected), &tolerance)
    }

    #[test]
    fn tolerances() {
        let exact = Tolerance::default();
        let two_ulp = Tolerance { ulp: 2.0, ..exact };
        let next = f64::from(1.0f32.next_up());
        assert!(agrees(Element::Float, 1.0, 1.0, exact));
        assert!(!agrees(Element::Float, next, 1.0, exact));
        assert!(agrees(Element::Float, next, 1.0, two_ulp));
        assert!(!agrees(Element::Float, 1.0 + 3.0 * (next - 1.0), 1.0, two_ulp));
        assert!(agrees(Element::Float, 1e-45, 0.0, two_ulp), "denormals have the smallest exponent's ulp");
        assert!(agrees(Element::Float, 0.01, 0.0, Tolerance { abs: 0.02, ..exact }));
        assert!(!agrees(Element::Float, f64::INFINITY, 1.0, Tolerance { abs: 1e300, ..two_ulp }));
        assert!(agrees(Element::Float, f64::NAN, f64::NAN, exact));
        assert!(!agrees(Element::Float, 0.0, f64::NAN, exact));
        assert!(agrees(Element::Float, -0.0, 0.0, exact));
        assert!(!agrees(Element::Float, -0.0, 0.0, Tolerance { signed_zero: true, ..exact }));
    }

    #[test]
    fn integers_are_exact_and_any_value_is_null() {
        let big = u64::MAX;
        let got = [big.to_le_bytes(), 5u64.to_le_bytes()].concat();
        let tolerance = Tolerance::default();
        let expect = |v: u64| Some(Number::Integer(v.into()));
        assert!(Element::Ulong.compare(&got, &[expect(big), None], &tolerance).is_ok());
        assert!(Element::Ulong.compare(&got, &[expect(big - 1), None], &tolerance).is_err());
        assert!(Element::Ulong.compare(&got, &[expect(5), expect(big)], &tolerance).is_err());
        let sorted = Tolerance { sorted: true, ..tolerance };
        assert!(Element::Ulong.compare(&got, &[expect(5), expect(big)], &sorted).is_ok());
        assert!(Element::Ulong.compare(&got[..8], &[None, None], &tolerance).is_err());
    }

    #[test]
    fn numbers_wrap_and_round_to_their_type() {
        assert_eq!(Element::Uchar.encode(Number::Integer(-1)), [255]);
        assert_eq!(Element::Half.encode(Number::Float(1.5)), [0x00, 0x3e]);
        assert_eq!(Element::Float.encode(Number::Integer(1)), 1.0f32.to_le_bytes());
    }
}
