//! Builtins, the vocabulary: OpenCL C types as mangled names spell them.

use super::c11_atomic::is_order;
use std::fmt;

/// An OpenCL C scalar type (6.1.1). `size_t` is `ULong` in 64-bit SPIR.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, PartialOrd, Ord)]
#[allow(missing_docs)]
pub enum Element {
    Bool,
    Char,
    UChar,
    Short,
    UShort,
    Int,
    UInt,
    Long,
    ULong,
    Half,
    Float,
    Double,
}

use Element::*;

/// Every element with its Itanium code, OpenCL name and width in bits.
const ELEMENTS: [(Element, &str, &str, u32); 12] = [
    (Bool, "b", "bool", 1),
    (Char, "c", "char", 8),
    (UChar, "h", "uchar", 8),
    (Short, "s", "short", 16),
    (UShort, "t", "ushort", 16),
    (Int, "i", "int", 32),
    (UInt, "j", "uint", 32),
    (Long, "l", "long", 64),
    (ULong, "m", "ulong", 64),
    (Half, "Dh", "half", 16),
    (Float, "f", "float", 32),
    (Double, "d", "double", 64),
];

impl Element {
    /// The eight integer types.
    pub const INTEGERS: [Element; 8] = [Char, UChar, Short, UShort, Int, UInt, Long, ULong];
    /// The floating-point types that the math library covers.
    pub const FLOATS: [Element; 3] = [Half, Float, Double];

    fn entry(self) -> &'static (Element, &'static str, &'static str, u32) {
        &ELEMENTS[self as usize]
    }

    /// The Itanium mangling.
    pub fn code(self) -> &'static str {
        self.entry().1
    }

    /// The name in OpenCL C.
    pub fn name(self) -> &'static str {
        self.entry().2
    }

    /// Width in bits.
    pub fn bits(self) -> u32 {
        self.entry().3
    }

    /// Half, float or double.
    pub fn is_float(self) -> bool {
        matches!(self, Half | Float | Double)
    }

    /// A signed integer.
    pub fn is_signed(self) -> bool {
        matches!(self, Char | Short | Int | Long)
    }

    /// The element of this OpenCL name.
    pub fn named(name: &str) -> Option<Element> {
        ELEMENTS.iter().find(|e| e.2 == name).map(|e| e.0)
    }

    /// The integer of this width and signedness.
    pub fn integer(bits: u32, signed: bool) -> Option<Element> {
        Element::INTEGERS.into_iter().find(|e| e.bits() == bits && e.is_signed() == signed)
    }

    /// The element whose mangling `text` starts with.
    pub(super) fn parse(text: &str) -> Option<Element> {
        match text.as_bytes().first()? {
            b'a' => Some(Char),
            _ => ELEMENTS.iter().find(|e| text.starts_with(e.1)).map(|e| e.0),
        }
    }
}

/// What may stand before a pointee.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Qualifiers {
    /// 0 private, 1 global, 2 constant, 3 local, 4 generic.
    pub space: u8,
    /// `const`.
    pub constant: bool,
    /// `volatile`.
    pub volatile: bool,
}

/// A parameter's type.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Type {
    /// `void`.
    Void,
    /// `...`.
    Variadic,
    /// A scalar (width 1) or a vector.
    Value(Element, u8),
    /// A pointer.
    Pointer(Qualifiers, Box<Type>),
    /// `_Atomic(T)` of OpenCL C 2.0.
    Atomic(Box<Type>),
    /// An opaque type, structure or enumeration by its mangled name: `ocl_image2d`, `memory_order`.
    Named(String),
}

impl Type {
    /// A scalar.
    pub fn scalar(element: Element) -> Type {
        Type::Value(element, 1)
    }
}

impl fmt::Display for Type {
    /// As OpenCL C writes it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Type::Void => f.write_str("void"),
            Type::Variadic => f.write_str("..."),
            Type::Value(element, 1) => f.write_str(element.name()),
            Type::Value(element, width) => write!(f, "{}{width}", element.name()),
            Type::Atomic(inner) => write!(f, "_Atomic({inner})"),
            Type::Named(name) if is_order(name) => f.write_str("memory_order"),
            Type::Named(name) => match name.strip_prefix("ocl_") {
                Some(opaque) => f.write_str(&opaque_name(opaque)),
                None => f.write_str(name),
            },
            Type::Pointer(qualifiers, pointee) => {
                let space = ["", "global ", "constant ", "local ", ""][qualifiers.space.min(4) as usize];
                let volatile = if qualifiers.volatile { "volatile " } else { "" };
                // `constant` says it already.
                let constant = if qualifiers.constant && qualifiers.space != 2 { "const " } else { "" };
                write!(f, "{space}{volatile}{constant}{pointee} *")
            }
        }
    }
}

/// `image2darray` and today's `image2d_array_ro` both are `image2d_array_t`.
pub(super) fn opaque_name(mangled: &str) -> String {
    let base = image_kind(mangled);
    let parts = if base.starts_with("image") { &["array", "buffer", "depth"][..] } else { &[] };
    format!("{}_t", parts.iter().fold(base, |name, part| name.replace(part, &format!("_{part}"))))
}

/// An opaque type's name without `ocl_`, underscores and access suffix: `image2darray`.
pub(super) fn image_kind(name: &str) -> String {
    let name = name.strip_prefix("ocl_").unwrap_or(name);
    let name = ["_ro", "_wo", "_rw"].iter().find_map(|s| name.strip_suffix(s)).unwrap_or(name);
    name.replace('_', "")
}
