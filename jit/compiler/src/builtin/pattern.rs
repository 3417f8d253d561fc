//! Builtins, step 2: overload patterns. A pattern such as `T(T,E)` stands for a family of overloads over the generic
//! type `T`; this module says which overload of it a list of argument types is, and lists them all.
//!
//! Tokens: `T` the generic type; `I`, `U`, `F` the signed integer, unsigned integer and float of its size, `N` int,
//! `W` its double-sized sibling, each of `T`'s width; `E` `T`'s element and `S` int, scalars that the expansion sees
//! widened to `T`'s width; `R` what a relational function of `T` returns; an OpenCL type name; `@image2d` and the
//! like an opaque type, `#memory_order` and the like an enumeration. A width may follow a letter (`T4`) when `T` is a scalar. `*`, `const*`, `atomic*`, `_Atomic*`,
//! `global*` … before a token make pointers.

use super::c11_atomic::is_order;
use super::types::{Element, Qualifiers, Type, image_kind};

/// What `T` ranges over.
#[derive(Clone, Copy, Debug)]
pub struct Generic {
    /// Element types; empty for a pattern without `T`.
    pub elements: &'static [Element],
    /// Vector widths, 1 for scalars.
    pub widths: &'static [u8],
}

/// What `T` is in one overload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Binding {
    /// The element; `Int` where the pattern has no `T`.
    pub element: Element,
    /// The width.
    pub width: u8,
}

/// The prefix of a pointer to `_Atomic(T)`.
const ATOMIC: &str = "_Atomic*";

/// Pointer prefixes: text, address spaces that match, qualifiers of the mangled form.
const POINTERS: [(&str, &[u8], bool, bool); 10] = [
    ("*", &[0, 1, 3, 4], false, false),
    ("const*", &[0, 1, 2, 3, 4], true, false),
    ("atomic*", &[1, 3, 4], false, true),
    (ATOMIC, &[1, 3, 4], false, true),
    ("global*", &[1], false, false),
    ("local*", &[3], false, false),
    ("const-global*", &[1], true, false),
    ("const-local*", &[3], true, false),
    ("private*", &[0], false, false),
    ("generic*", &[4], false, false),
];

/// A token, split into its pointer prefix and its type.
struct Token<'a> {
    pointer: Option<&'static (&'static str, &'static [u8], bool, bool)>,
    base: &'a str,
}

/// The tokens of a pattern: result first.
fn tokens(pattern: &str) -> impl Iterator<Item = Token<'_>> {
    pattern.split(['(', ',', ')']).map(str::trim).filter(|t| !t.is_empty()).map(|text| {
        let split = text.find('*').map_or(0, |at| at + 1);
        let (prefix, base) = text.split_at(split);
        Token { pointer: POINTERS.iter().find(|p| p.0 == prefix), base }
    })
}

impl Token<'_> {
    /// The letter and the explicit width of a token over `T`.
    fn generic(&self) -> Option<(u8, Option<u8>)> {
        let letter = *self.base.as_bytes().first()?;
        let digits = &self.base[1..];
        if !b"TESIUFNWR".contains(&letter) || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        Some((letter, digits.parse().ok()))
    }

    /// Whether it is a `size_t`, which may have 32 bits.
    fn is_size(&self) -> bool {
        self.pointer.is_none() && self.base == "size_t"
    }

    /// What a pointer points to, or the type itself.
    fn target(&self, binding: Binding) -> Option<Type> {
        let ty = self.pointee(binding)?;
        Some(if self.pointer.is_some_and(|prefix| prefix.0 == ATOMIC) {
            Type::Atomic(Box::new(ty))
        } else {
            ty
        })
    }

    /// The type without the pointer; None where `T` has none such (the double-sized sibling of long).
    fn pointee(&self, binding: Binding) -> Option<Type> {
        let Binding { element, width } = binding;
        let Some((letter, explicit)) = self.generic() else {
            return named_type(self.base);
        };
        let width = explicit.unwrap_or(width);
        let bits = element.bits();
        Some(match letter {
            b'T' => Type::Value(element, width),
            b'E' => Type::scalar(element),
            b'I' => Type::Value(Element::integer(bits, true)?, width),
            b'U' => Type::Value(Element::integer(bits, false)?, width),
            b'F' if bits == 16 => Type::Value(Element::Half, width),
            b'F' if bits == 32 => Type::Value(Element::Float, width),
            b'F' if bits == 64 => Type::Value(Element::Double, width),
            b'F' => return None,
            b'N' => Type::Value(Element::Int, width),
            b'S' => Type::scalar(Element::Int),
            b'W' => Type::Value(Element::integer(bits * 2, element.is_signed())?, width),
            _ if width == 1 => Type::scalar(Element::Int),
            _ => Type::Value(Element::integer(bits, true)?, width),
        })
    }

    /// Whether an argument of type `ty` fits.
    fn fits(&self, ty: &Type, binding: Binding) -> bool {
        let Some(wanted) = self.target(binding) else { return false };
        match (self.pointer, ty) {
            (None, Type::Named(name)) => {
                let name = if is_order(name) { "memory_order" } else { name };
                matches!(wanted, Type::Named(w) if image_kind(&w) == image_kind(name))
            }
            (None, ty) => *ty == wanted || (self.is_size() && *ty == Type::scalar(Element::UInt)),
            (Some((_, spaces, ..)), Type::Pointer(qualifiers, pointee)) => {
                spaces.contains(&qualifiers.space) && **pointee == wanted
            }
            _ => false,
        }
    }

    /// The types that it stands for: one, or one for each address space.
    fn all(&self, binding: Binding) -> Vec<Type> {
        let Some(base) = self.target(binding) else { return Vec::new() };
        let Some(&(_, spaces, constant, volatile)) = self.pointer else { return vec![base] };
        let pointer =
            |&space| Type::Pointer(Qualifiers { space, constant, volatile }, Box::new(base.clone()));
        spaces.iter().filter(|&&space| space != 4 || spaces.len() == 1).map(pointer).collect()
    }
}

/// `uint4`, `size_t`, `void`, `@event`.
fn named_type(name: &str) -> Option<Type> {
    if let Some(opaque) = name.strip_prefix('@') {
        return Some(Type::Named(format!("ocl_{opaque}")));
    }
    if let Some(plain) = name.strip_prefix('#') {
        return Some(Type::Named(plain.to_string()));
    }
    if name == "void" {
        return Some(Type::Void);
    }
    let name = if name == "size_t" { "ulong" } else { name };
    let stem = name.trim_end_matches(|c: char| c.is_ascii_digit());
    let width = name[stem.len()..].parse().unwrap_or(1);
    Some(Type::Value(Element::named(stem)?, width))
}

/// One overload: what `T` is, the result and the parameters, with `E` and `S` parameters marked for widening.
#[derive(Clone, Debug)]
pub struct Overload {
    /// What `T` is.
    pub binding: Binding,
    /// The result's type.
    pub result: Type,
    /// For each parameter whether the expansion wants it widened to `T`'s width.
    pub widened: Vec<bool>,
    /// For each parameter whether it is a `size_t`.
    pub sizes: Vec<bool>,
    /// Whether the result is one.
    pub yields_size: bool,
}

/// The overload of `pattern` that takes these arguments.
pub fn select(pattern: &str, generic: Generic, arguments: &[Type]) -> Option<Overload> {
    let parameters: Vec<Token> = tokens(pattern).skip(1).collect();
    if parameters.len() != arguments.len() {
        return None;
    }
    let binding = bind(&parameters, generic, arguments)?;
    let fit = parameters.iter().zip(arguments).all(|(token, ty)| token.fits(ty, binding));
    fit.then(|| overload(pattern, binding)).flatten()
}

fn overload(pattern: &str, binding: Binding) -> Option<Overload> {
    let result = tokens(pattern).next()?.all(binding).into_iter().next()?;
    let widened =
        |token: Token| token.pointer.is_none() && matches!(token.base, "E" | "S") && binding.width > 1;
    Some(Overload {
        binding,
        result,
        widened: tokens(pattern).skip(1).map(widened).collect(),
        sizes: tokens(pattern).skip(1).map(|token| token.is_size()).collect(),
        yields_size: tokens(pattern).next()?.is_size(),
    })
}

/// Finds `T` from the first parameter that has it.
fn bind(parameters: &[Token], generic: Generic, arguments: &[Type]) -> Option<Binding> {
    if generic.elements.is_empty() {
        return Some(Binding { element: Element::Int, width: 1 });
    }
    let (token, argument) =
        parameters.iter().zip(arguments).find(|(token, _)| token.base.starts_with('T'))?;
    let value = match argument {
        Type::Pointer(_, pointee) => pointee,
        other => other,
    };
    let value = if let Type::Atomic(inner) = value { inner } else { value };
    let &Type::Value(element, width) = value else { return None };
    let width = if token.base == "T" { width } else { 1 };
    (generic.elements.contains(&element) && generic.widths.contains(&width))
        .then_some(Binding { element, width })
}

/// Every overload of a pattern as its parameters' types (those with a generic address space left out).
pub fn overloads(pattern: &str, generic: Generic) -> Vec<Vec<Type>> {
    let elements = if generic.elements.is_empty() { &[Element::Int] } else { generic.elements };
    let mut found = Vec::new();
    for &element in elements {
        for &width in generic.widths {
            let choices = tokens(pattern).skip(1).map(|token| token.all(Binding { element, width }));
            found.extend(choices.fold(vec![Vec::new()], |lists, choice| {
                let extend =
                    |list: &Vec<Type>, ty: &Type| [list.as_slice(), std::slice::from_ref(ty)].concat();
                lists.iter().flat_map(|list| choice.iter().map(move |ty| extend(list, ty))).collect()
            }));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use Element::*;

    const FLOATS: Generic = Generic { elements: &[Float, Double], widths: &[1, 2, 4] };

    #[test]
    fn an_overload_is_found_by_its_arguments() {
        let vector = Type::Value(Float, 4);
        let found = select("R(T,E)", FLOATS, &[vector.clone(), Type::scalar(Float)]).expect("fits");
        assert_eq!((found.binding.width, found.result), (4, Type::Value(Int, 4)));
        assert_eq!(found.widened, [false, true]);
        assert!(select("R(T,E)", FLOATS, &[vector.clone(), Type::scalar(Double)]).is_none());
        assert!(select("T(T)", FLOATS, &[Type::scalar(Int)]).is_none());
        assert!(select("T(T)", FLOATS, &[vector.clone(), vector]).is_none());
    }

    #[test]
    fn pointers_must_be_in_a_fitting_address_space() {
        let pointer = |space| {
            Type::Pointer(
                Qualifiers { space, constant: false, volatile: false },
                Box::new(Type::scalar(Float)),
            )
        };
        let fits = |pattern, space| select(pattern, FLOATS, &[Type::scalar(Float), pointer(space)]).is_some();
        assert!(fits("T(T,*T)", 1) && fits("T(T,*T)", 3) && !fits("T(T,*T)", 2));
        assert!(fits("T(T,const*T)", 2) && !fits("T(T,local*T)", 1));
    }

    #[test]
    fn overloads_are_listed_over_types_widths_and_spaces() {
        assert_eq!(overloads("T(T,T)", FLOATS).len(), 6);
        assert_eq!(overloads("T(T,*T)", FLOATS).len(), 18);
        assert_eq!(overloads("int()", Generic { elements: &[], widths: &[1] }), [vec![]]);
    }
}
